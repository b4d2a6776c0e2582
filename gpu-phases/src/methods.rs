//! Methods of built-in types, whose names have one meaning in kernels.

use std::marker::PhantomData;

use crate::atomic::SharedAtomic;
use crate::blocks::{
    Block, Dim, Dims, Lane, Part, PerThread, Shared, Tile, WarpElements, WarpRows,
};
use crate::device::Device;
use crate::host::Len;
use crate::raw::{Atomic, AtomicElement};

/// A built-in type, of Rust or of this library, with methods that kernels call by their own names.
#[diagnostic::on_unimplemented(
    message = "in kernels, this method is one of Rust's own types, not of `{Self}`",
    label = "this has the type `{Self}`",
    note = "give the method another name, and put `#[device]` on its `impl`"
)]
pub trait BuiltIn {
    /// The type that the method is one of: the type itself without references.
    type Place: ?Sized;

    /// Returns a reference to the value behind all references.
    fn place(&self) -> &Self::Place;
}

macro_rules! own_places {
    ($([$($generics:tt)*] $name:ty;)*) => {$(
        impl<$($generics)*> BuiltIn for $name {
            type Place = Self;

            #[inline(always)]
            fn place(&self) -> &Self {
                self
            }
        }
    )*};
}
#[cfg(feature = "half")]
pub(crate) use own_places;

own_places! {
    [] u8; [] u16; [] u32; [] u64; [] usize; [] i8; [] i16; [] i32; [] i64; [] isize;
    [] f32; [] f64; [] bool;
    [T] Option<T>;
    [T] [T];
    [T: ?Sized] Atomic<T>;
    ['a, T: AtomicElement] SharedAtomic<'a, T>;
    [A] Shared<A>;
    ['a, T] Part<'a, T>;
    ['a, T] Lane<'a, T>;
    ['a, T] WarpElements<'a, T>;
    ['a, T] WarpRows<'a, T>;
    ['a, T, const H: usize, const W: usize] Tile<'a, T, H, W>;
    [const N: usize, const M: usize] Block<N, M>;
}

/// The methods are those of slices. A method of a trait for arrays would come before them.
impl<T, const N: usize> BuiltIn for [T; N] {
    type Place = [T];

    #[inline(always)]
    fn place(&self) -> &[T] {
        self
    }
}

impl BuiltIn for Len {
    type Place = [()];

    /// Returns a slice of this length.
    fn place(&self) -> &[()] {
        [(); usize::MAX].get(..self.len()).unwrap_or_default()
    }
}

impl<T: BuiltIn + ?Sized> BuiltIn for &T {
    type Place = T::Place;

    #[inline(always)]
    fn place(&self) -> &T::Place {
        (**self).place()
    }
}

impl<T: BuiltIn + ?Sized> BuiltIn for &mut T {
    type Place = T::Place;

    #[inline(always)]
    fn place(&self) -> &T::Place {
        (**self).place()
    }
}

/// What an index selects an element of. A trait of the program may have a method `len` for it.
pub trait Length {
    /// Returns the number of elements.
    fn phases_len(&self) -> usize;
}

macro_rules! lengths {
    ($([$($generics:tt)*] $name:ty;)*) => {$(
        impl<$($generics)*> Length for $name {
            #[inline(always)]
            fn phases_len(&self) -> usize {
                self.len()
            }
        }
    )*};
}

lengths! {
    [T] [T];
    [T, const N: usize] [T; N];
    [T, const N: usize] Shared<[T; N]>;
    [T] Shared<Vec<T>>;
    ['a, T] Part<'a, T>;
    ['a, T] Lane<'a, T>;
}

/// A number, or a `bool`.
#[diagnostic::on_unimplemented(
    message = "in kernels, `from` of a number takes a number or a `bool`, not a `{Self}`",
    label = "this has the type `{Self}`",
    note = "write a `#[device]` method of the type"
)]
pub trait OfNumber {}

macro_rules! of_numbers {
    ($($name:ty)*) => {$(impl OfNumber for $name {})*};
}

of_numbers!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
#[cfg(feature = "half")]
of_numbers!(half::f16 half::bf16);

/// Returns the argument of `f32::from` and its like.
#[inline(always)]
pub fn of_number<T: OfNumber>(value: T) -> T {
    value
}

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

/// Implemented for each type that derives `Device`, so rustc refuses one with `Deref`: a field of its target would be
/// another one in C++, which knows no such types.
pub trait TypesOfKernelsDoNotDeref {}

impl<T: std::ops::Deref> TypesOfKernelsDoNotDeref for T {}

/// A block of threads, or memory of one: what a `#[device]` function takes by the names of these types.
#[diagnostic::on_unimplemented(
    message = "in kernels, this is the name of a type of this library",
    label = "this has the type `{Self}`",
    note = "give the type another name than `Block`, `Shared`, `PerThread`, `Part` and `Tile`"
)]
pub trait Handle {}

impl<const N: usize, const M: usize> Handle for Block<N, M> {}
impl<A> Handle for Shared<A> {}
impl<T: Device, const N: usize, const M: usize> Handle for PerThread<T, N, M> where Dims<M>: Dim {}
impl<T> Handle for Part<'_, T> {}
impl<T, const H: usize, const W: usize> Handle for Tile<'_, T, H, W> {}
impl<T: Handle + ?Sized> Handle for &T {}
impl<T: Handle + ?Sized> Handle for &mut T {}

/// Takes a parameter whose type has such a name.
#[inline(always)]
pub fn handle<T: Handle + ?Sized>(_: &T) {}

/// A reference to a block, by which a `#[device]` function takes it.
#[diagnostic::on_unimplemented(
    message = "a `#[device]` function takes a block as `&mut Block<N>`",
    label = "this has the type `{Self}`"
)]
pub trait TheBlock {}

impl<const N: usize, const M: usize> TheBlock for &mut Block<N, M> {}

/// Takes a parameter that is a block.
#[inline(always)]
pub fn the_block<T: TheBlock>(_: &T) {}

/// Returns the type of a field, into which no other is coerced.
pub fn type_of<T>(_: &T) -> PhantomData<T> {
    PhantomData
}

/// Returns `std::mem::swap`, which a program calls by this function.
#[inline(always)]
pub fn swap<T>(_: fn(&mut T, &mut T)) -> fn(&mut T, &mut T) {
    std::mem::swap
}

/// Returns an argument, for whose evaluation the receiver of its method is borrowed.
#[inline(always)]
pub fn beside<R: ?Sized, T>(_: &R, argument: T) -> T {
    argument
}

/// Returns the receiver of a method of built-in types.
#[inline(always)]
pub fn built_in<T: BuiltIn + ?Sized>(receiver: &T) -> &T::Place {
    receiver.place()
}
