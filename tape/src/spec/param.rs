//! One parameter of an operation.

use std::any::{TypeId, type_name};
use std::borrow::Cow;

use cuda_safe::{KernelArg, arg::ArgType};

use crate::element::Element;

/// The pointer that the adjoint gets where the forward launch had one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primal {
    /// Memory with its contents before the launch: the same memory, or a copy if it was overwritten since.
    Entry,
    /// Like [`Entry`](Self::Entry), in memory that the adjoint may write.
    EntryPrivate,
    /// Memory with its contents after the launch.
    Exit,
    /// The address only: the adjoint reads nothing through it.
    None,
}

/// The effect of the forward launch on memory, which determines the adjoint's effect on its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only reads: the adjoint adds to the gradient.
    Reads,
    /// It overwrites without reading: the adjoint reads the gradient, and sets it to zero.
    Overwrites,
    /// The new contents depend on the old: the adjoint replaces the gradient.
    Updates,
    /// It only adds: the adjoint reads the gradient and does not change it.
    Accumulates,
}

/// The number of elements that the kernels access through a pointer: `factor * parameter + constant`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) factor: usize,
    pub(crate) param: Option<Cow<'static, str>>,
    pub(crate) constant: usize,
}

/// A pointer: a whole parameter, or a member of a structure.
#[derive(Debug, Clone)]
pub(crate) struct Pointer {
    pub(crate) offset: usize,
    pub(crate) element: Element,
    pub(crate) value: Primal,
    pub(crate) effect: Effect,
    /// Whether the effect was declared, not assumed.
    pub(crate) said: bool,
    pub(crate) length: Option<Length>,
    pub(crate) covers: bool,
    /// Whether the adjoint is known to only read a gradient whose DROP bit is set.
    pub(crate) drops: bool,
    pub(crate) active: bool,
    /// Whether the kernel stores results of atomic operations there, for a generated adjoint.
    pub(crate) replay: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Value,
    Scalar,
    Buffer,
    Structure,
    Argument,
}

impl Shape {
    /// Returns whether its gradient is the same structure with pointers to gradients.
    pub(crate) fn is_structure(self) -> bool {
        matches!(self, Self::Structure | Self::Argument)
    }
}

/// The type of an argument, as [`ArgType`] knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument {
    pub(crate) name: fn() -> &'static str,
    pub(crate) id: fn() -> TypeId,
}

impl Argument {
    pub(crate) fn is(&self, given: &ArgType) -> bool {
        (self.id)() == (given.id)() && (self.name)() == (given.name)()
    }
}

/// A parameter of an operation: how it is passed, and what the kernels do with it.
///
/// ```
/// use cuda_tape::{Element, Param, Primal};
/// let n = Param::value("n");
/// let a = Param::scalar("a", Element::F32).active();
/// let x = Param::buffer("x", Element::F32).reads(Primal::Entry).len("n").each_element().active();
/// let out = Param::buffer("out", Element::F32).overwrites().len("n").each_element().active();
/// // struct Field { const float* values; int nx, ny; }
/// let field = Param::structure("field", 16).pointer(0, Element::F32).reads(Primal::Entry).active();
/// ```
#[derive(Debug, Clone)]
pub struct Param {
    pub(crate) name: Cow<'static, str>,
    pub(crate) shape: Shape,
    /// Size in bytes; 0 for a value, whose size comes from the kernel.
    pub(crate) size: usize,
    pub(crate) pointers: Vec<Pointer>,
    pub(crate) scalars: Vec<(usize, Element)>,
    pub(crate) active: bool,
    /// The only argument type that is accepted.
    pub(crate) argument: Option<Argument>,
}

impl Param {
    fn new(name: impl Into<Cow<'static, str>>, shape: Shape, size: usize) -> Self {
        let (pointers, scalars) = Default::default();
        Self { name: name.into(), shape, size, pointers, scalars, active: false, argument: None }
    }

    /// Creates a parameter without a gradient: a number of elements, a flag, a structure without pointers to memory
    /// that has gradients.
    #[must_use]
    pub fn value(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Shape::Value, 0)
    }

    /// Creates a parameter: a number, or several, passed by value. With [`active`](Self::active) it may be given as a
    /// [`Variable`](crate::Variable), and has a gradient then.
    #[must_use]
    pub fn scalar(name: impl Into<Cow<'static, str>>, element: Element) -> Self {
        let mut this = Self::new(name, Shape::Scalar, element.size);
        let number = element.real.map_or(element.size.max(1), crate::FloatType::size);
        let is_number = |i: &usize| element.numbers == 0 || element.numbers >> i & 1 == 1;
        let each = (0..element.size / number).filter(is_number);
        let each = each.map(|i| (i * number, Element { size: number, ..element }));
        this.scalars = each.collect();
        this
    }

    /// Creates a parameter: `size` bytes passed by value with these active numbers.
    #[cfg(feature = "rust-kernels")]
    pub(crate) fn numbers(
        name: impl Into<Cow<'static, str>>,
        size: usize,
        numbers: Vec<(usize, Element)>,
    ) -> Self {
        Self { scalars: numbers, active: true, ..Self::new(name, Shape::Scalar, size) }
    }

    /// Creates a parameter: a pointer to elements. By default the kernel reads it, and the adjoint reads its values
    /// at entry.
    #[must_use]
    pub fn buffer(name: impl Into<Cow<'static, str>>, element: Element) -> Self {
        Self::new(name, Shape::Buffer, 8).pointer(0, element)
    }

    /// Creates a parameter: a view of a structure on the device, such as `HashGridView` of `geom-kernels`. Only an
    /// argument of type `A` is accepted, so kernels can rely on its type. The memory that it points to must not
    /// change until the adjoint has run. Only members that are declared by [`pointer`](Self::pointer) and
    /// [`active`](Self::active) have gradients: their memory is treated as that of a buffer.
    #[must_use]
    pub fn argument<A: KernelArg>(name: impl Into<Cow<'static, str>>) -> Self {
        let mut this = Self::new(name, Shape::Argument, A::TYPE.size);
        this.argument = Some(Argument { name: type_name::<A>, id: A::TYPE.id });
        this
    }

    /// Creates a parameter: a structure that a Rust kernel queries.
    #[cfg(feature = "rust-kernels")]
    pub(crate) fn queried(name: impl Into<Cow<'static, str>>, size: usize) -> Self {
        let mut this = Self::new(name, Shape::Argument, size);
        // The type was checked by rustc.
        this.argument = Some(Argument { name: type_name::<()>, id: TypeId::of::<()> });
        this
    }

    /// Creates a parameter: a structure of `size` bytes passed by value. Declare its members with
    /// [`pointer`](Self::pointer) and [`scalar_at`](Self::scalar_at). Launches take *any* argument of that size for
    /// it, and check that the declared pointers point to memory: kernels must not rely on other members, nor follow
    /// pointers that are not declared. See [`argument`](Self::argument).
    #[must_use]
    pub fn structure(name: impl Into<Cow<'static, str>>, size: usize) -> Self {
        Self::new(name, Shape::Structure, size)
    }

    /// Adds a member that is a pointer, `offset` bytes into the structure. The calls that follow describe this
    /// member.
    #[must_use]
    pub fn pointer(mut self, offset: usize, element: Element) -> Self {
        let made = Pointer {
            offset,
            element,
            value: Primal::Entry,
            effect: Effect::Reads,
            said: false,
            length: None,
            covers: false,
            drops: false,
            active: false,
            replay: false,
        };
        self.pointers.push(made);
        self
    }

    /// Adds a member that is a number with a gradient, `offset` bytes into the structure.
    #[must_use]
    pub fn scalar_at(mut self, offset: usize, element: Element) -> Self {
        self.scalars.push((offset, element));
        self.active = true;
        self
    }

    /// Declares that the kernel reads through the pointer. `value` says which value the adjoint reads.
    #[must_use]
    pub fn reads(self, value: Primal) -> Self {
        self.used(Effect::Reads, value)
    }

    /// Declares that the kernel overwrites elements through the pointer. The adjoint does not read them; see
    /// [`with_value`](Self::with_value).
    #[must_use]
    pub fn overwrites(self) -> Self {
        self.used(Effect::Overwrites, Primal::None)
    }

    /// Declares that the kernel reads elements and overwrites them with values computed from them.
    #[must_use]
    pub fn updates(self, value: Primal) -> Self {
        self.used(Effect::Updates, value)
    }

    /// Declares that the kernel adds to elements. The adjoint does not read them.
    #[must_use]
    pub fn accumulates(self) -> Self {
        self.used(Effect::Accumulates, Primal::None)
    }

    fn used(self, effect: Effect, value: Primal) -> Self {
        self.last(|pointer| (pointer.effect, pointer.value, pointer.said) = (effect, value, true))
    }

    /// Sets the value that the adjoint reads through the pointer.
    #[must_use]
    pub fn with_value(self, value: Primal) -> Self {
        self.last(|pointer| pointer.value = value)
    }

    /// Declares that the kernels access only the first `count` elements, where `count` is an integer parameter. A
    /// launch whose memory has fewer is refused.
    #[must_use]
    pub fn len(self, count: impl Into<Cow<'static, str>>) -> Self {
        self.len_times(1, count)
    }

    /// Works like [`len`](Self::len), for `factor` elements per count.
    #[must_use]
    pub fn len_times(self, factor: usize, count: impl Into<Cow<'static, str>>) -> Self {
        let param = Some(count.into());
        self.last(|pointer| pointer.length = Some(Length { factor, param, constant: 0 }))
    }

    /// Declares that the kernels access only the first `count` elements.
    #[must_use]
    pub fn len_fixed(self, count: usize) -> Self {
        let length = Length { factor: 0, param: None, constant: count };
        self.last(|pointer| pointer.length = Some(length))
    }

    /// Declares that the kernel overwrites each element of the declared length, or else of the whole view. For a
    /// parameter that is read, declares that the adjoint adds to the gradient of each element, with one thread per
    /// element and one `grad_own` (or `grad_add`). The adjoint must do so for all inputs, even if gradients of some
    /// outputs are null and the sum is zero.
    ///
    /// A launch with fewer threads than elements is therefore refused: of the kernel for parameters that it
    /// overwrites, of the adjoint for all. `count` threads are enough for [`len`](Self::len) and
    /// [`len_times`](Self::len_times), and any number for [`len_fixed`](Self::len_fixed). Kernels with a grid-stride
    /// loop cover all elements with any number of threads, so declare
    /// [`OpSpec::grid_stride`](crate::OpSpec::grid_stride) for them. Do not call this if a loop may end early, or if
    /// a condition other than the length skips elements: without it, the tape clears gradients first, and adjoints
    /// add to them.
    #[must_use]
    pub fn each_element(self) -> Self {
        self.last(|pointer| pointer.covers = true)
    }

    /// Declares that the adjoint has a gradient parameter for this parameter.
    #[must_use]
    pub fn active(mut self) -> Self {
        if self.shape == Shape::Scalar {
            self.active = true;
        }
        self.last(|pointer| pointer.active = true)
    }

    /// Declares a replay buffer: the kernel stores results of atomic operations there, and the generated adjoint
    /// loads them. An adjoint can't repeat an atomic operation, whose result depends on the order of the threads, so
    /// [`OpSpec::differentiate`](crate::OpSpec::differentiate) refuses a kernel that uses a result without storing
    /// it:
    ///
    /// ```
    /// use cuda_tape::{Element, OpSpec, Param};
    /// // __global__ void keep(const float* x, float* out, unsigned* count, unsigned* slots, unsigned n) {
    /// //     unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    /// //     if (i >= n || x[i] <= 0) return;
    /// //     unsigned slot = atomicAdd(count, 1u);
    /// //     slots[i] = slot;
    /// //     out[slot] = x[i] * x[i];
    /// // }
    /// let keep = OpSpec::new("keep")
    ///     .param(Param::buffer("x", Element::F32).len("n").active())
    ///     .param(Param::buffer("out", Element::F32).len("n").active())
    ///     .param(Param::buffer("count", Element::bytes(4)).len_fixed(1))
    ///     .param(Param::buffer("slots", Element::bytes(4)).len("n").replay())
    ///     .param(Param::value("n"));
    /// # drop(keep);
    /// ```
    ///
    /// Each thread stores its result itself, as an integer of the same size, to an address that does not depend on
    /// it. In a loop the address must differ in each iteration. The kernel uses the buffer for nothing else, but may
    /// store to an element before. `differentiate` checks this, and refuses results that depend on active inputs and
    /// kernels whose threads read what other threads write.
    ///
    /// It can't check that no thread overwrites an element after a result was stored there, for example because two
    /// threads, or two iterations of a loop, have the same element. The caller of `differentiate` promises this: the
    /// adjoint uses the loaded value as the kernel uses the result, for example as an index.
    ///
    /// The tape keeps the buffer's contents after the launch: it copies the buffer if something overwrites it later.
    #[must_use]
    pub fn replay(self) -> Self {
        self.last(|pointer| pointer.replay = true)
    }

    fn last(mut self, change: impl FnOnce(&mut Pointer)) -> Self {
        if let Some(pointer) = self.pointers.last_mut() {
            change(pointer);
        }
        self
    }
}
