//! Kernel arguments: the kernel type of each Rust type, and the memory that a launch uses.

use std::any::{TypeId, type_name};
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use crate::error::Result;
use crate::memory::{
    Access, Accesses, Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, Enqueue,
    UnifiedBuffer, UseVisitor,
};

/// How a parameter is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArgClass {
    /// An integer, a `bool` or an address.
    Int,
    /// A floating-point number.
    Float,
    /// A structure, by its bytes.
    Bytes,
}

/// A type that is passed to a kernel by value.
///
/// Scalars, arrays of such types and CUDA's vector types ([`crate::vector`]) are. For your own structure:
///
/// ```
/// # use cuda_safe::DeviceRepr;
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// struct Params {
///     gravity: f32,
///     steps: u32,
/// }
/// // SAFETY: repr(C), and the same fields in the same order as the CUDA C++ structure.
/// unsafe impl DeviceRepr for Params {}
/// ```
///
/// # Safety
/// The type has the layout of the kernel's parameter type (`#[repr(C)]`, same fields), and any
/// address in it is one that the device may use as the kernel uses it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be passed to a kernel by value",
    note = "pass device memory as `&DeviceBuffer`, `&mut DeviceBuffer` or a view of one",
    note = "for a `#[repr(C)]` structure of your own, `unsafe impl cuda_safe::DeviceRepr`"
)]
pub unsafe trait DeviceRepr: Copy + 'static {
    /// How it is passed.
    const CLASS: ArgClass = ArgClass::Bytes;
}

/// The known properties of an argument's type, to be compared with the kernel's parameter.
#[derive(Clone, Copy)]
pub struct ArgType {
    /// The size in bytes.
    pub size: usize,
    /// Whether it is a value or an address.
    pub kind: ArgKind,
    /// The Rust type's name: the argument's in [`KernelArgs::TYPES`].
    pub name: fn() -> &'static str,
    /// The type that the kernel gets: [`KernelArg::Abi`], or the elements that are pointed to.
    pub id: fn() -> TypeId,
}

/// Whether an argument is a value or the address of elements.
#[derive(Debug, Clone, Copy)]
pub enum ArgKind {
    /// Passed by value.
    Value(ArgClass),
    /// The address of elements in device memory.
    Pointer {
        /// The element's type.
        element: fn() -> TypeId,
        /// The element's name.
        element_name: fn() -> &'static str,
        /// The element's size in bytes.
        element_size: usize,
        /// Whether the kernel may write through it.
        writable: bool,
        /// Whether the kernel's pointer is not const, and the declaration or the caller of the launch promises that it
        /// only reads through it: [`ReadOnly`].
        only_read: bool,
    },
}

impl fmt::Debug for ArgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", (self.name)(), self.size)
    }
}

impl ArgType {
    /// Describes a value of type `T`.
    #[must_use]
    pub const fn value<T: DeviceRepr>() -> Self {
        let kind = ArgKind::Value(T::CLASS);
        Self { size: size_of::<T>(), kind, name: type_name::<T>, id: TypeId::of::<T> }
    }

    /// Describes the address of elements of type `T`; `A` is the argument's type.
    #[must_use]
    pub const fn pointer<A, T: 'static>(writable: bool) -> Self {
        Self {
            size: size_of::<CUdeviceptr>(),
            kind: ArgKind::Pointer {
                element: TypeId::of::<T>,
                element_name: type_name::<T>,
                element_size: size_of::<T>(),
                writable,
                only_read: false,
            },
            id: TypeId::of::<T>,
            name: type_name::<A>,
        }
    }

    /// Describes the address of elements of type `T` that the kernel only reads through a pointer that is not const;
    /// `A` is the argument's type.
    #[must_use]
    pub const fn only_read<A, T: 'static>() -> Self {
        let pointer = Self::pointer::<A, T>(false);
        Self {
            kind: ArgKind::Pointer {
                element: TypeId::of::<T>,
                element_name: type_name::<T>,
                element_size: size_of::<T>(),
                writable: false,
                only_read: true,
            },
            ..pointer
        }
    }
}

/// Something that can be an argument of a launch.
///
/// # Safety
/// `abi` is what the kernel is given for it, and `uses` reports every piece of device memory that
/// the kernel can reach through it, so that it is ordered and kept. Both are called in the middle of
/// a launch, and call nothing of this crate but the visitor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kernel argument",
    note = "pass device memory as `&DeviceBuffer`, `&mut DeviceBuffer` or a view of one",
    note = "for a `#[repr(C)]` structure of your own, `unsafe impl cuda_safe::DeviceRepr`"
)]
pub unsafe trait KernelArg {
    /// The value that is copied to the kernel's parameter.
    type Abi: Copy;
    /// The known facts about the type.
    const TYPE: ArgType;
    /// Whether it is a number passed by value, and the memory that it reports is never reached but says
    /// which one it is: the tape's `Variable`.
    #[doc(hidden)]
    const IS_VARIABLE: bool = false;
    /// Whether it reads memory without a borrow. A launch in which another argument writes the same bytes is refused.
    #[doc(hidden)]
    const IS_UNBORROWED: bool = false;

    /// Returns the value that the kernel is given.
    fn abi(&self) -> Self::Abi;

    /// Reports the memory that the kernel can reach through the argument.
    ///
    /// # Errors
    /// Whatever the visitor returns.
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()>;
}

// SAFETY: a value reaches no device memory, or its author has promised that what it reaches may be
// used (the contract of DeviceRepr).
unsafe impl<T: DeviceRepr> KernelArg for T {
    type Abi = T;
    const TYPE: ArgType = ArgType::value::<T>();

    #[inline]
    fn abi(&self) -> T {
        *self
    }

    #[inline]
    fn uses<V: UseVisitor>(&self, _: &mut V) -> Result<()> {
        Ok(())
    }
}

macro_rules! scalars {
    ($($class:ident: $($scalar:ty),+;)+) => {$($(
        // SAFETY: the same size and representation in Rust and in CUDA C++.
        unsafe impl DeviceRepr for $scalar {
            const CLASS: ArgClass = ArgClass::$class;
        }
    )+)+};
}

scalars! {
    Int: u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool;
    Float: f32, f64;
}

// SAFETY: an array is its elements, one after the other, as in a C++ structure that holds one.
unsafe impl<T: DeviceRepr, const N: usize> DeviceRepr for [T; N] {}

#[cfg(feature = "half")]
mod half_precision {
    use super::DeviceRepr;
    // SAFETY: 2 bytes, as __half, which is a structure to the compiler.
    unsafe impl DeviceRepr for half::f16 {}
    // SAFETY: 2 bytes, as __nv_bfloat16, which is a structure to the compiler.
    unsafe impl DeviceRepr for half::bf16 {}
}

/// Arguments that are the address of the elements of one view.
macro_rules! pointers {
    ($([$($generics:tt)*] $argument:ty, $writable:literal, $access:ident;)+) => {$(
        // SAFETY: the kernel reaches exactly the view's bytes, in the way reported.
        unsafe impl<$($generics)* T: Copy + 'static> KernelArg for $argument {
            type Abi = CUdeviceptr;
            const TYPE: ArgType = ArgType::pointer::<Self, T>($writable);

            #[inline]
            fn abi(&self) -> CUdeviceptr {
                self.device_ptr()
            }

            #[inline]
            fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
                let allocation = self.allocation();
                visitor.visit(allocation, self.byte_range(), Access::$access)
            }
        }
    )+};
}

pointers! {
    ['a,] DeviceSlice<'a, T>, false, Read;
    ['a, 'b,] &'b DeviceSlice<'a, T>, false, Read;
    ['a,] DeviceSliceMut<'a, T>, true, Write;
    ['a, 'b,] &'b mut DeviceSliceMut<'a, T>, true, Write;
    ['b,] &'b DeviceBuffer<T>, false, Read;
    ['b,] &'b mut DeviceBuffer<T>, true, Write;
    ['b,] &'b UnifiedBuffer<T>, false, Read;
    ['b,] &'b mut UnifiedBuffer<T>, true, Write;
}

/// Device memory that a kernel only reads, although the kernel's pointer is not const.
///
/// Many CUDA C++ kernels leave out the `const` of pointers that they only read. [`Kernel::launch`](crate::Kernel::launch)
/// refuses a view for reading there, because the kernel could write through the pointer. This argument is ordered as a
/// read, so that several streams can read the memory at once; a view for writing would order them one after the other.
/// [`kernels!`](crate::kernels) makes it of a parameter `#[only_read] x: &[T]`.
///
/// The `unsafe` of the launch or of the declaration promises that the kernel writes only to arguments for writing,
/// which this one is not.
///
/// A pointer that is const is an error, because the marker says nothing there.
///
/// ```no_run
/// # use cuda_safe::{arg::ReadOnly, DeviceBuffer, Kernel, LaunchConfig, Result, Stream};
/// # fn run(stream: &Stream, sum: &Kernel, x: &DeviceBuffer<f32>, out: &mut DeviceBuffer<f32>) -> Result<()> {
/// // SAFETY: `sum` takes (float* x, float* out), reads one element of x, and writes one of out.
/// unsafe { sum.launch(stream, (1, 1), (ReadOnly(x.as_slice()), out)) }
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ReadOnly<'a, T: Copy + 'static>(pub DeviceSlice<'a, T>);

// SAFETY: the kernel reaches exactly the view's bytes. The caller of the launch promises that it only reads them, as
// of every argument that is not for writing.
unsafe impl<T: Copy + 'static> KernelArg for ReadOnly<'_, T> {
    type Abi = CUdeviceptr;
    const TYPE: ArgType = ArgType::only_read::<Self, T>();

    #[inline]
    fn abi(&self) -> CUdeviceptr {
        self.0.abi()
    }

    #[inline]
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.0.uses(visitor)
    }
}

/// All arguments of a launch: a tuple of up to 24 [`KernelArg`]s.
///
/// # Safety
/// `with_pointers` passes one pointer for each of `TYPES`, in order, to a value of that type.
pub unsafe trait KernelArgs {
    /// The arguments' types.
    const TYPES: &'static [ArgType];

    /// Whether `TYPES` says what the arguments are. If not, launches compare nothing with the kernel's parameters: the
    /// implementor has compared them, as for arguments whose number is only known at run time.
    const TYPED: bool = true;

    /// Reports the memory that the kernel can reach.
    ///
    /// # Errors
    /// Whatever the visitor returns.
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()>;

    /// Calls `f` with pointers to the values that the kernel is given.
    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out;

    /// Fails if one argument writes what another reads without a borrow. Costs nothing where every
    /// argument has one.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) names the two.
    #[doc(hidden)]
    #[inline]
    fn check_unborrowed(&self) -> Result<()> {
        Ok(())
    }
}

impl<A: KernelArgs> Accesses for A {
    #[inline]
    fn order<'a>(&self, enqueuing: &mut impl Enqueue<'a>) -> Result<()> {
        self.uses(&mut |memory: &Arc<Allocation>, range, access| {
            enqueuing.begin_use((memory, range, access))
        })
    }

    #[inline]
    fn record<'a>(&self, enqueuing: &mut impl Enqueue<'a>, sequence: u64) -> Result<()> {
        self.uses(&mut |memory: &Arc<Allocation>, range, access| {
            enqueuing.end_use((memory, range, access), sequence);
            Ok(())
        })
    }
}

/// Visits each argument of a launch; see [`InspectArgs`].
pub trait ArgVisitor {
    /// The argument at this place.
    ///
    /// # Errors
    /// Whatever ends the visit.
    fn visit<A: KernelArg>(&mut self, index: usize, arg: &A) -> Result<()>;
}

/// Arguments that can be inspected one by one before a launch: every tuple of [`KernelArg`]s. For crates that record
/// launches on top of this one.
pub trait InspectArgs: KernelArgs {
    /// Shows each argument, in order.
    ///
    /// # Errors
    /// Whatever the visitor returns.
    fn each<V: ArgVisitor>(&self, visitor: &mut V) -> Result<()>;
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: KernelArg),*> InspectArgs for ($($name,)*) {
            #[inline]
            fn each<V1: ArgVisitor>(&self, _visitor: &mut V1) -> Result<()> {
                $(_visitor.visit($index, &self.$index)?;)*
                Ok(())
            }
        }

        // SAFETY: one pointer per element, to its ABI value, which lives on this stack frame
        // until `f` has returned.
        unsafe impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            const TYPES: &'static [ArgType] = &[$(ArgType { name: type_name::<$name>, ..$name::TYPE }),*];

            #[inline]
            fn uses<V: UseVisitor>(&self, _visitor: &mut V) -> Result<()> {
                $(self.$index.uses(_visitor)?;)*
                Ok(())
            }

            #[inline]
            fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
                let _values = ($(self.$index.abi(),)*);
                f(&mut [$((&raw const _values.$index).cast_mut().cast::<c_void>()),*])
            }

            #[inline]
            fn check_unborrowed(&self) -> Result<()> {
                if false $(|| $name::IS_UNBORROWED)* {
                    return super::unborrowed::check(self);
                }
                Ok(())
            }
        }
    };
}

/// Implements [`KernelArgs`] for the tuple of all elements and, in turn, for all shorter ones.
macro_rules! all_tuples {
    ([$($done:tt)*]) => { tuples!($($done)*); };
    ([] $name:ident $index:tt $($rest:tt)*) => {
        tuples!();
        all_tuples!([$name $index] $($rest)*);
    };
    ([$($done:tt)+] $name:ident $index:tt $($rest:tt)*) => {
        tuples!($($done)+);
        all_tuples!([$($done)+, $name $index] $($rest)*);
    };
}

all_tuples!([] A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17
    S 18 T 19 U 20 W 21 X 22 Y 23);
