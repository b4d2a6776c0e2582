//! What a phase runs over.

use super::Element;

/// Defines names by which kernels call methods: a trait of the program for the type itself would have precedence over methods
/// that take `&mut self`.
macro_rules! called_by_kernels {
    ($($name:ident = $method:ident$(<$(const $n:ident),+>)? ($($argument:ident)?) -> $result:ty $(where $bounded:ty: $bound:ident)?;)*) => {$(
        #[doc(hidden)]
        #[inline(always)]
        #[track_caller]
        #[allow(missing_docs, reason = "as the method of the name without `phases_`")]
        pub fn $name$(<$(const $n: usize),+>)?(&mut self $(, $argument: usize)?) -> $result $(where $bounded: $bound)? {
            self.$method$(::<$($n),+>)?($($argument)?)
        }
    )*};
}
pub(crate) use called_by_kernels;

/// The second number of a block's dimensions, as a type.
#[derive(Debug, Clone, Copy)]
pub struct Dims<const M: usize>;

/// The columns that a block of threads can have: 0 for blocks of one dimension.
#[diagnostic::on_unimplemented(
    message = "a block of threads does not have this number of columns",
    note = "it can have 2 to 64, 96, 128, 256, 512 or 1,024"
)]
pub trait Dim: sealed::Sealed {
    /// The index of a thread: `usize`, or `[row, column]`.
    type Index: Copy + Send;
    /// A value for each thread of a block whose first dimension is `N`.
    type Array<T: Copy + Send + Sync, const N: usize>: Send + Sync;

    #[doc(hidden)]
    fn index(position: usize) -> Self::Index;
    #[doc(hidden)]
    fn array<T: Copy + Send + Sync, const N: usize>(value: T) -> Self::Array<T, N>;
    #[doc(hidden)]
    fn values<T: Copy + Send + Sync, const N: usize>(array: &Self::Array<T, N>) -> &[T];
    #[doc(hidden)]
    fn values_mut<T: Copy + Send + Sync, const N: usize>(array: &mut Self::Array<T, N>)
    -> &mut [T];
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl<const M: usize> Sealed for super::Dims<M> {}
}

impl Dim for Dims<0> {
    type Index = usize;
    type Array<T: Copy + Send + Sync, const N: usize> = [T; N];

    #[inline(always)]
    fn index(position: usize) -> usize {
        position
    }

    #[inline(always)]
    fn array<T: Copy + Send + Sync, const N: usize>(value: T) -> [T; N] {
        [value; N]
    }

    #[inline(always)]
    fn values<T: Copy + Send + Sync, const N: usize>(array: &[T; N]) -> &[T] {
        array
    }

    #[inline(always)]
    fn values_mut<T: Copy + Send + Sync, const N: usize>(array: &mut [T; N]) -> &mut [T] {
        array
    }
}

macro_rules! dims {
    ($($columns:literal)*) => {$(
        impl Dim for Dims<$columns> {
            type Index = [usize; 2];
            type Array<T: Copy + Send + Sync, const N: usize> = [[T; $columns]; N];

            #[inline(always)]
            fn index(position: usize) -> [usize; 2] {
                [position / $columns, position % $columns]
            }

            #[inline(always)]
            fn array<T: Copy + Send + Sync, const N: usize>(value: T) -> [[T; $columns]; N] {
                [[value; $columns]; N]
            }

            #[inline(always)]
            fn values<T: Copy + Send + Sync, const N: usize>(array: &[[T; $columns]; N]) -> &[T] {
                array.as_flattened()
            }

            #[inline(always)]
            fn values_mut<T: Copy + Send + Sync, const N: usize>(array: &mut [[T; $columns]; N]) -> &mut [T] {
                array.as_flattened_mut()
            }
        }
    )*};
}

dims!(2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
    96 128 256 512 1024);

/// What a phase hands out: positions, most with an item. The thread of a position is that modulo the block's threads.
#[diagnostic::on_unimplemented(
    message = "a phase does not run over `{Self}`",
    note = "give it `&mut tile` of a shared array, a part of the output, `&mut value` of each thread, or a tuple of them"
)]
pub trait Target: sealed::Sealed {
    /// The index that the closure gets: `usize`, or `[row, column]`.
    type Index;
    /// What the closure gets: `&mut T`, or what a split makes.
    type Item;
    #[doc(hidden)]
    type Shape: Copy;
    #[doc(hidden)]
    type Items: Iterator<Item = Option<Self::Item>>;

    #[doc(hidden)]
    fn shape(&self) -> Self::Shape;
    #[doc(hidden)]
    fn index(shape: Self::Shape, position: usize) -> Self::Index;
    #[doc(hidden)]
    fn items(self) -> Self::Items;

    /// Calls `f` for each item with its position and its index. Targets of two dimensions have loops over rows and
    /// columns, which compilers vectorise.
    #[doc(hidden)]
    #[inline(always)]
    fn visit(self, mut f: impl FnMut(usize, Self::Index, Self::Item))
    where
        Self: Sized,
    {
        let shape = self.shape();
        for (position, item) in self.items().enumerate() {
            if let Some(item) = item {
                f(position, Self::index(shape, position), item);
            }
        }
    }
}

/// A target whose items are the elements of slices: of one, or of one for each row.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a load does not copy to `{Self}`",
    note = "give it `&mut tile` of a shared array, a part of the output or `&mut value` of each thread"
)]
pub trait Slices<'t, T: 't>: Target<Item = &'t mut T> {
    #[doc(hidden)]
    fn slices(self) -> impl Iterator<Item = &'t mut [T]>;
}

/// What [`Block::load`](super::Block::load) copies to: elements with the indices 0, 1, ….
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a load does not copy to `{Self}`",
    note = "give it `&mut tile` of a shared array, a part of the output or `&mut value` of each thread"
)]
pub trait Line<'t, T: 't> {
    #[doc(hidden)]
    fn copy(self, source: &[T], start: isize, fill: T);
}

impl<'t, T: Element, G: Target<Index = usize> + Slices<'t, T>> Line<'t, T> for G {
    #[inline(always)]
    fn copy(self, source: &[T], start: isize, fill: T) {
        for items in self.slices() {
            super::copy_from(items, source, start, fill);
        }
    }
}

/// [`Target::visit`] where a row has `across` positions, of which those after its last element have no item.
#[inline(always)]
pub(super) fn visit_rows<'t, T: 't>(
    rows: impl Slices<'t, T>,
    across: usize,
    mut f: impl FnMut(usize, [usize; 2], &'t mut T),
) {
    for (i, row) in rows.slices().enumerate() {
        // Most rows are whole, and their length is often a constant: whole vectors.
        if row.len() >= across {
            for (j, item) in row[..across].iter_mut().enumerate() {
                f(i * across + j, [i, j], item);
            }
        } else {
            for (j, item) in row.iter_mut().enumerate() {
                f(i * across + j, [i, j], item);
            }
        }
    }
}

/// Elements that are items, one at each position.
pub(super) type IntoItems<'t, T> =
    std::iter::Map<std::slice::IterMut<'t, T>, fn(&'t mut T) -> Option<&'t mut T>>;

/// Makes a type a target: its index and its item, its iterator, the index of a position, and the iterator of a
/// value. With `rows of`, it is visited by rows of so many positions.
macro_rules! target {
    ([$($lifetime:lifetime)?] [$($generics:tt)*] $name:ty, [$index:ty, $item:ty], $items:ty, |$at:ident| $of:expr,
        |$this:ident| $iterator:expr $(, rows of $across:expr)?) => {
        impl<'t, $($lifetime: 't,)? T: Element, $($generics)*> sealed::Sealed for $name {}

        impl<'t, $($lifetime: 't,)? T: Element, $($generics)*> Target for $name {
            type Index = $index;
            type Item = $item;
            type Shape = ();
            type Items = $items;

            #[inline(always)]
            fn shape(&self) {}

            #[inline(always)]
            fn index((): (), $at: usize) -> $index {
                $of
            }

            #[inline(always)]
            fn items(self) -> Self::Items {
                let $this = self;
                $iterator
            }

            $(#[inline(always)]
            fn visit(self, f: impl FnMut(usize, $index, $item)) {
                super::target::visit_rows(self, $across, f);
            })?
        }
    };
}
pub(super) use target;

/// Makes a target one whose items are the elements of slices.
macro_rules! slices {
    ([$($lifetime:lifetime)?] [$($generics:tt)*] $name:ty, |$this:ident| $slices:expr) => {
        impl<'t, $($lifetime: 't,)? T: Element, $($generics)*> super::target::Slices<'t, T> for $name {
            #[inline(always)]
            fn slices(self) -> impl Iterator<Item = &'t mut [T]> {
                let $this = self;
                $slices
            }
        }
    };
}
pub(super) use slices;

/// The items of a tuple of targets.
#[doc(hidden)]
#[derive(Debug)]
pub struct Zip<I>(I);

macro_rules! tuples {
    ($($name:ident $item:ident $var:ident $at:tt),+) => {
        impl<$($name: Target),+> sealed::Sealed for ($($name,)+) {}

        impl<$($name: Target),+> Target for ($($name,)+) {
            type Index = A::Index;
            type Item = ($($name::Item,)+);
            type Shape = A::Shape;
            type Items = Zip<($($name::Items,)+)>;

            #[inline(always)]
            fn shape(&self) -> Self::Shape {
                self.0.shape()
            }

            #[inline(always)]
            fn index(shape: Self::Shape, position: usize) -> Self::Index {
                A::index(shape, position)
            }

            #[inline(always)]
            fn items(self) -> Self::Items {
                Zip(($(self.$at.items(),)+))
            }
        }

        impl<$($item,)+ $($name: Iterator<Item = Option<$item>>),+> Iterator for Zip<($($name,)+)> {
            type Item = Option<($($item,)+)>;

            #[inline(always)]
            fn next(&mut self) -> Option<Self::Item> {
                // Positions that one target skips are skipped, so that the others stay aligned.
                let items = ($(self.0.$at.next()?,)+);
                Some(match items {
                    ($(Some($var),)+) => Some(($($var,)+)),
                    _ => None,
                })
            }
        }
    };
}

tuples!(A ItemA a 0);
tuples!(A ItemA a 0, B ItemB b 1);
tuples!(A ItemA a 0, B ItemB b 1, C ItemC c 2);
tuples!(A ItemA a 0, B ItemB b 1, C ItemC c 2, D ItemD d 3);
tuples!(A ItemA a 0, B ItemB b 1, C ItemC c 2, D ItemD d 3, E ItemE e 4);
tuples!(A ItemA a 0, B ItemB b 1, C ItemC c 2, D ItemD d 3, E ItemE e 4, F ItemF f 5);
