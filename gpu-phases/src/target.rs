//! Targets of kernels: a stream of a GPU, or the CPU.
//!
//! A device's crate implements [`Target`] for its streams, and [`Reads`], [`Writes`] and [`Shares`] for its kinds of
//! memory. The generated `launch` of each kernel is generic over them, so this crate needs no device.

use crate::device::Device;
use crate::kernel::{Extent, Kernel, Refused};
use crate::structure::Structure;
use crate::trust::Checked;

/// A view of elements in a target's memory.
pub trait Elements {
    /// Returns the number of elements.
    fn len(&self) -> usize;

    /// Returns whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A target that launches run on.
///
/// # Safety
/// [`Target::launch`] uses the `Checked` that it is given for the kernel, the extent and the arguments that come with it,
/// once. Other code could launch another kernel with it.
#[allow(unsafe_code, reason = "an implementation is given tokens")]
pub unsafe trait Target: Copy {
    /// The error of a launch.
    type Error: From<Refused>;
    /// Elements to read.
    type Read<'a, T: Device>: Elements;
    /// Elements to write.
    type Write<'a, T: Device>: Elements;
    /// Elements that the threads share, by atomic operations.
    type Shared<'a, T: Device>: Elements;
    /// A structure to query.
    type Structure<'a, S: Structure>;

    /// Launches a kernel. `checked` promises that the generated code has checked its conditions.
    ///
    /// # Errors
    /// The launch failed.
    fn launch<'a, A: Args<'a, Self>>(
        self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        checked: Checked,
    ) -> Result<(), Self::Error>;
}

/// `V` is memory of this target that a kernel can read as `&[T]`.
#[diagnostic::on_unimplemented(
    message = "the kernel reads `{T}`s of the target's memory here",
    label = "`{V}` is no memory of `{T}` that `{Self}` can read",
    note = "on a stream pass `&buffer`; on the CPU `&slice[..]`"
)]
pub trait Reads<'a, T: Device, V>: Target {
    /// Returns the view that the kernel receives.
    fn read(self, memory: V) -> Self::Read<'a, T>;
}

/// `V` is memory of this target that a kernel can write as `&mut [T]`.
#[diagnostic::on_unimplemented(
    message = "the kernel writes `{T}`s to the target's memory here",
    label = "`{V}` is no memory of `{T}` that `{Self}` can write",
    note = "on a stream pass `&mut buffer`; on the CPU `&mut slice[..]`"
)]
pub trait Writes<'a, T: Device, V>: Target {
    /// Returns the view that the kernel receives.
    fn write(self, memory: V) -> Self::Write<'a, T>;
}

/// `V` is memory of this target that a kernel can share as `&Atomic<[T]>`.
#[diagnostic::on_unimplemented(
    message = "the kernel shares `{T}`s of the target's memory here",
    label = "`{V}` is no memory of `{T}` that `{Self}` can share",
    note = "pass `&mut buffer`, or `&mut slice[..]` on the CPU: the launch borrows it exclusively"
)]
pub trait Shares<'a, T: Device, V>: Target {
    /// Returns the view that the kernel receives.
    fn share(self, memory: V) -> Self::Shared<'a, T>;
}

/// `V` is the structure `S` for kernels on this target.
#[diagnostic::on_unimplemented(
    message = "the kernel queries a `{S}` of the target here",
    label = "`{V}` is no such structure that `{Self}` can query",
    note = "on a stream pass the library's structure on the device, `&mesh`; on the CPU `&S`"
)]
pub trait Queries<'a, S: Structure, V>: Target {
    /// Returns what the kernel receives.
    fn query(self, structure: V) -> Self::Structure<'a, S>;
}

/// A recording of launches that can be run backwards, for gradients: a kernel with `#[kernel(gradient)]` has a function
/// `record` that launches it and records the launch.
///
/// # Safety
/// As [`Target`], of [`Record::record`].
#[allow(unsafe_code, reason = "an implementation is given tokens")]
pub unsafe trait Record {
    /// The target of the launches.
    type Target: Target;

    /// Returns the target.
    fn target(&self) -> Self::Target;

    /// Launches a kernel, and records the launch. `checked` promises that the generated code has checked its
    /// conditions.
    ///
    /// # Errors
    /// The launch failed, or it can't be recorded.
    fn record<'a, A: Args<'a, Self::Target>>(
        &mut self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        checked: Checked,
    ) -> Result<(), <Self::Target as Target>::Error>;
}

/// `V` can be passed for an `#[active]` parameter `T` by value.
#[diagnostic::on_unimplemented(
    message = "the kernel takes an active `{T}` here",
    label = "`{V}` is no `{T}`, and no variable of one",
    note = "pass the value, or `&variable` if its gradient is wanted"
)]
pub trait Activates<'a, T: Device, V>: Record {
    /// Returns the argument.
    ///
    /// # Errors
    /// The recording can't use the value.
    fn activate(value: V) -> Result<Active<'a, Self::Target, T>, <Self::Target as Target>::Error>;
}

/// The arguments of a launch.
pub trait Args<'a, G: Target> {
    /// Passes each argument to the visitor, in the order of the parameters.
    ///
    /// # Errors
    /// The first error of the visitor.
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error>;
}

/// A visitor of a launch's arguments.
pub trait Visit<'a, G: Target> {
    /// Visits a value.
    ///
    /// # Errors
    /// The visitor's error.
    fn value<T: Device>(&mut self, value: T) -> Result<(), G::Error>;
    /// Visits a value whose gradient belongs to a place of memory.
    ///
    /// # Errors
    /// The visitor's error.
    fn active<T: Device>(&mut self, value: T, place: G::Read<'a, T>) -> Result<(), G::Error> {
        drop(place);
        self.value(value)
    }
    /// Visits elements to read.
    ///
    /// # Errors
    /// The visitor's error.
    fn read<T: Device>(&mut self, view: G::Read<'a, T>) -> Result<(), G::Error>;
    /// Visits elements to write.
    ///
    /// # Errors
    /// The visitor's error.
    fn write<T: Device>(&mut self, view: G::Write<'a, T>) -> Result<(), G::Error>;
    /// Visits elements that threads share.
    ///
    /// # Errors
    /// The visitor's error.
    fn shared<T: Device>(&mut self, view: G::Shared<'a, T>) -> Result<(), G::Error>;
    /// Visits a structure.
    ///
    /// # Errors
    /// The visitor's error.
    fn structure<S: Structure>(&mut self, structure: G::Structure<'a, S>) -> Result<(), G::Error>;
}

/// One argument.
pub trait Arg<'a, G: Target> {
    /// Passes the argument to the visitor.
    ///
    /// # Errors
    /// The visitor's error.
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error>;
}

/// An argument by value.
#[derive(Debug, Clone, Copy)]
pub struct Value<T>(pub T);

/// An `#[active]` argument by value.
#[allow(missing_debug_implementations, reason = "views of targets need none")]
pub struct Active<'a, G: Target, T: Device> {
    /// The value.
    pub value: T,
    /// The memory that its gradient belongs to, if it has one. Its contents are not read.
    pub place: Option<G::Read<'a, T>>,
}

/// Elements to read, as an argument.
#[allow(missing_debug_implementations, reason = "views of targets need none")]
pub struct Read<'a, G: Target, T: Device>(pub G::Read<'a, T>);

/// Elements to write, as an argument.
#[allow(missing_debug_implementations, reason = "views of targets need none")]
pub struct Write<'a, G: Target, T: Device>(pub G::Write<'a, T>);

/// Elements that threads share, as an argument.
#[allow(missing_debug_implementations, reason = "views of targets need none")]
pub struct Shared<'a, G: Target, T: Device>(pub G::Shared<'a, T>);

/// A structure, as an argument.
#[allow(missing_debug_implementations, reason = "structures of targets need none")]
pub struct Queried<'a, G: Target, S: Structure>(pub G::Structure<'a, S>);

impl<'a, G: Target, S: Structure> Arg<'a, G> for Queried<'a, G, S> {
    #[inline]
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error> {
        visitor.structure::<S>(self.0)
    }
}

impl<'a, G: Target, T: Device> Arg<'a, G> for Value<T> {
    #[inline]
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error> {
        visitor.value(self.0)
    }
}

impl<'a, G: Target, T: Device> Arg<'a, G> for Active<'a, G, T> {
    #[inline]
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error> {
        match self.place {
            Some(place) => visitor.active(self.value, place),
            None => visitor.value(self.value),
        }
    }
}

impl<'a, G: Target, T: Device> Arg<'a, G> for Read<'a, G, T> {
    #[inline]
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error> {
        visitor.read::<T>(self.0)
    }
}

impl<'a, G: Target, T: Device> Arg<'a, G> for Write<'a, G, T> {
    #[inline]
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error> {
        visitor.write::<T>(self.0)
    }
}

impl<'a, G: Target, T: Device> Arg<'a, G> for Shared<'a, G, T> {
    #[inline]
    fn visit(self, visitor: &mut impl Visit<'a, G>) -> Result<(), G::Error> {
        visitor.shared::<T>(self.0)
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<'a, G1: Target, $($name: Arg<'a, G1>),*> Args<'a, G1> for ($($name,)*) {
            #[inline]
            fn visit(self, _visitor: &mut impl Visit<'a, G1>) -> Result<(), G1::Error> {
                $(self.$index.visit(_visitor)?;)*
                Ok(())
            }
        }
    };
}

/// Implements [`Args`] for the tuple of all elements and, recursively, for all shorter ones.
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

all_tuples!([] A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18 T 19);
