//! The gradients of elements.

use bytemuck::Pod;
#[cfg(feature = "rust-kernels")]
use cuda_safe::kernel;
use cuda_safe::vector;

/// A floating-point type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatType {
    /// `float`; its gradient too.
    F32,
    /// `double`; its gradient too.
    F64,
    /// `__half`; its gradient is a `float`.
    F16,
    /// `__nv_bfloat16`; its gradient is a `float`.
    Bf16,
}

impl FloatType {
    /// Returns the size of a number in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the type of its gradient.
    #[must_use]
    pub const fn gradient(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            Self::F32 | Self::F16 | Self::Bf16 => Self::F32,
        }
    }

    /// Returns the ratio of the size of a gradient to the size of its number.
    pub(crate) const fn widening(self) -> usize {
        self.gradient().size() / self.size()
    }
}

/// The elements of a pointer: their size, and the type of the real numbers in them.
///
/// The gradient of an element has its layout, with `float` for 16-bit floats. Members that are not real (indices,
/// flags) keep their bytes, which stay zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element {
    pub(crate) size: usize,
    pub(crate) real: Option<FloatType>,
    /// Whether members that are not real may lie between the numbers.
    pub(crate) mixed: bool,
    /// Bit i is set if the i-th part, of a number's size, is a number. 0 if the offsets are unknown.
    pub(crate) numbers: u64,
    /// Whether offsets were given at which no number can lie.
    pub(crate) misplaced: bool,
}

impl Element {
    /// `float`.
    pub const F32: Self = Self::vector(FloatType::F32, 1);
    /// `double`.
    pub const F64: Self = Self::vector(FloatType::F64, 1);
    /// `__half`.
    pub const F16: Self = Self::vector(FloatType::F16, 1);
    /// `__nv_bfloat16`.
    pub const BF16: Self = Self::vector(FloatType::Bf16, 1);

    /// Describes `count` consecutive numbers, such as `float3`.
    #[must_use]
    pub const fn vector(real: FloatType, count: usize) -> Self {
        Self::of(real.size() * count, Some(real), false)
    }

    /// Describes a structure of `size` bytes whose real members are all of one type; other members may lie between
    /// them. Structures with 16-bit floats have no other members. [`gradcheck`](crate::gradcheck()) also needs
    /// [`numbers_at`](Self::numbers_at).
    #[must_use]
    pub const fn structure(size: usize, real: FloatType) -> Self {
        Self::of(size, Some(real), true)
    }

    /// Sets the offsets of the real members of a [`structure`](Self::structure), in bytes. Each is aligned to its
    /// size, and is among the first 64 members of that size. Other offsets are an error when an operation is
    /// registered.
    ///
    /// ```
    /// use cuda_tape::{Element, FloatType};
    /// // struct Hit { float t; int face; float u, v; };
    /// const HIT: Element = Element::structure(16, FloatType::F32).numbers_at(&[0, 8, 12]);
    /// ```
    #[must_use]
    pub const fn numbers_at(mut self, offsets: &[usize]) -> Self {
        let Some(real) = self.real else {
            self.misplaced = true;
            return self;
        };
        let mut at = 0;
        while at < offsets.len() {
            let (offset, size) = (offsets[at], real.size());
            let fits = offset < self.size && self.size - offset >= size;
            if fits && offset % size == 0 && offset / size < 64 {
                self.numbers |= 1 << (offset / size);
            } else {
                self.misplaced = true;
            }
            at += 1;
        }
        self
    }

    const fn of(size: usize, real: Option<FloatType>, mixed: bool) -> Self {
        Self { size, real, mixed, numbers: 0, misplaced: false }
    }

    /// Returns `count` consecutive elements as one.
    const fn repeated(mut self, count: usize) -> Self {
        let (one, each) = (self.numbers, self.size);
        (self.size, self.numbers) = (each * count, 0);
        if let Some(real) = self.real
            && one != 0
            && self.size / real.size() <= 64
        {
            let mut at = 0;
            while at < count {
                self.numbers |= one << (at * (each / real.size()));
                at += 1;
            }
        }
        self
    }

    /// Describes elements of `size` bytes without a gradient: integers, flags.
    #[must_use]
    pub const fn bytes(size: usize) -> Self {
        Self::of(size, None, false)
    }

    /// Returns the size in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        self.size
    }

    /// Returns the type of the real numbers in the element.
    #[must_use]
    pub const fn real(self) -> Option<FloatType> {
        self.real
    }
}

/// A type of elements that gradients can be taken with respect to.
///
/// # Safety
/// `ELEMENT` describes the type, and `Gradient` has its layout with `f32` instead of 16-bit floats.
#[diagnostic::on_unimplemented(
    message = "there are no gradients of `{Self}`",
    note = "for a `#[repr(C)]` structure of your own, `unsafe impl cuda_tape::Differentiable`"
)]
pub unsafe trait Differentiable: Copy + 'static {
    /// The type of an element's gradient.
    type Gradient: Pod;
    /// The description of the type.
    const ELEMENT: Element;
}

macro_rules! differentiable {
    ($($type:ty => $gradient:ty, $element:expr;)+) => {$(
        // SAFETY: consecutive numbers, and as many of the gradient's type.
        unsafe impl Differentiable for $type {
            type Gradient = $gradient;
            const ELEMENT: Element = $element;
        }
    )+};
}

differentiable! {
    f32 => f32, Element::F32;
    f64 => f64, Element::F64;
    vector::Float2 => vector::Float2, Element::vector(FloatType::F32, 2);
    vector::Float3 => vector::Float3, Element::vector(FloatType::F32, 3);
    vector::Float4 => vector::Float4, Element::vector(FloatType::F32, 4);
    vector::Double2 => vector::Double2, Element::vector(FloatType::F64, 2);
}

#[cfg(feature = "half")]
differentiable! {
    half::f16 => f32, Element::F16;
    half::bf16 => f32, Element::BF16;
}

#[cfg(feature = "rust-kernels")]
differentiable! {
    kernel::dual::Dual32 => Self, Element::vector(FloatType::F32, 2);
    kernel::dual::Dual64 => Self, Element::vector(FloatType::F64, 2);
    kernel::vector::Vec2 => Self, Element::vector(FloatType::F32, 2);
    kernel::vector::Vec3 => Self, Element::vector(FloatType::F32, 3);
    kernel::vector::Vec4 => Self, Element::vector(FloatType::F32, 4);
}

// SAFETY: an array is its elements, consecutively.
unsafe impl<T: Differentiable, const N: usize> Differentiable for [T; N]
where
    [T::Gradient; N]: Pod,
{
    type Gradient = [T::Gradient; N];
    const ELEMENT: Element = T::ELEMENT.repeated(N);
}
