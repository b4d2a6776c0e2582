//! Methods of built-in types, whose names have one meaning in kernels.

use crate::atomic::SharedAtomic;
use crate::blocks::{Lane, Part, Shared};
use crate::device::Device;
use crate::raw::{Atomic, AtomicElement};

/// A built-in type, of Rust or of this library, with methods that kernels call by their own names.
#[diagnostic::on_unimplemented(
    message = "in kernels, this method is one of Rust's own types, not of `{Self}`",
    label = "this has the type `{Self}`",
    note = "give the method another name, and put `#[device]` on its `impl`"
)]
pub trait BuiltIn {}

macro_rules! numbers {
    ($($name:ident)*) => { $(impl BuiltIn for $name {})* };
}
numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 bool);
impl<T> BuiltIn for Option<T> {}
impl<T> BuiltIn for [T] {}
impl<T, const N: usize> BuiltIn for [T; N] {}
impl<T: ?Sized> BuiltIn for Atomic<T> {}
impl<T: AtomicElement> BuiltIn for SharedAtomic<'_, T> {}
impl<A> BuiltIn for Shared<A> {}
impl<T> BuiltIn for Part<'_, T> {}
impl<T> BuiltIn for Lane<'_, T> {}
impl<T: BuiltIn + ?Sized> BuiltIn for &T {}
impl<T: BuiltIn + ?Sized> BuiltIn for &mut T {}

/// An `Option`, or a reference to one.
#[diagnostic::on_unimplemented(
    message = "in kernels, this method is one of `Option`, not of `{Self}`",
    label = "this has the type `{Self}`",
    note = "for elements of an array or a slice write a loop; give a method of your own another name"
)]
pub trait AnOption {
    /// The type of the value.
    type Value;

    /// Returns a copy.
    fn option(self) -> Option<Self::Value>;
}

impl<T> AnOption for Option<T> {
    type Value = T;

    #[inline(always)]
    fn option(self) -> Self {
        self
    }
}

impl<T: Copy> AnOption for &Option<T> {
    type Value = T;

    #[inline(always)]
    fn option(self) -> Option<T> {
        *self
    }
}

/// Returns the receiver of a method of `Option`.
#[inline(always)]
pub fn option<O: AnOption>(receiver: O) -> Option<O::Value> {
    receiver.option()
}

/// Returns what a variable of block-level code is set to: a value, since it leads to the same memory of the block for good.
#[inline(always)]
pub fn assigned<T: Device>(value: T) -> T {
    value
}

/// Returns the receiver of a method of built-in types.
#[inline(always)]
pub fn built_in<T: BuiltIn + ?Sized>(receiver: &T) -> &T {
    receiver
}
