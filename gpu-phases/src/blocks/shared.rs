//! Memory of a block: arrays that its threads share, and a value for each thread.

use std::ops::Index;
use std::{fmt, iter};

use super::Element;
use super::Part;
use super::patches::LinePatches;
use super::splits::{Cells, Pairs, RowItems, pairs, rows, split};
use super::target::{
    Dim, Dims, IntoItems, Line, Slices, Target, called_by_kernels, sealed, slices, target,
};
use crate::atomic::SharedAtomic;
use crate::device::Device;
use crate::raw::AtomicElement;

/// An array that the threads of a block share: `[T; N]`, `[[T; COLUMNS]; ROWS]`, or `Vec<T>` for [`Block::shared_slice`].
///
/// [`Block::shared_slice`]: super::Block::shared_slice
///
/// Block-level code and closures of phases read it by index. Phases write its items: `block.each(&mut tile, …)`.
pub struct Shared<A>(pub(super) A);

/// What can be shared: arrays of one and two dimensions.
#[diagnostic::on_unimplemented(
    message = "threads do not share a `{Self}`",
    note = "share an array of numbers or of types that derive `Device`: `block.shared([0.0f32; 256])`"
)]
pub trait SharedArray: Device + sealed::Sealed {}

impl<T: Element, const N: usize> sealed::Sealed for [T; N] {}
impl<T: Element, const N: usize> SharedArray for [T; N] {}
impl<T: Element, const C: usize, const R: usize> sealed::Sealed for [[T; C]; R] {}
impl<T: Element, const C: usize, const R: usize> SharedArray for [[T; C]; R] {}

impl<A: SharedArray> Shared<A> {
    #[inline(always)]
    pub(super) fn new(array: A) -> Self {
        Self(array)
    }
}

impl<A> fmt::Debug for Shared<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl<A: Index<usize>> Index<usize> for Shared<A> {
    type Output = A::Output;

    #[inline(always)]
    #[track_caller]
    fn index(&self, index: usize) -> &A::Output {
        &self.0[index]
    }
}

impl<T, const N: usize> Shared<[T; N]> {
    /// Returns the number of elements, or of rows.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        N
    }

    /// Returns whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        N == 0
    }
}

impl<T> Shared<Vec<T>> {
    #[inline(always)]
    pub(super) fn of_length(len: usize, value: T) -> Self
    where
        T: Clone,
    {
        Self(vec![value; len])
    }

    /// Returns the number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Shared arrays of one dimension.
#[diagnostic::on_unimplemented(
    message = "a shared `{Self}` is no array of one dimension",
    note = "`tile.cells(columns)` are the first elements of each row of two dimensions"
)]
pub trait SharedLine: sealed::Sealed {
    /// The type of an element.
    type Element: Element;

    #[doc(hidden)]
    fn elements(&mut self) -> &mut [Self::Element];
}

impl<T: Element, const N: usize> SharedLine for [T; N] {
    type Element = T;

    #[inline(always)]
    fn elements(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element> sealed::Sealed for Vec<T> {}

impl<T: Element> SharedLine for Vec<T> {
    type Element = T;

    #[inline(always)]
    fn elements(&mut self) -> &mut [T] {
        self
    }
}

impl<A: SharedLine> Shared<A> {
    /// Splits the array: the elements before `middle`, and the others. A fault if there are fewer.
    #[inline(always)]
    #[track_caller]
    pub fn split_at_mut(&mut self, middle: usize) -> (Part<'_, A::Element>, Part<'_, A::Element>) {
        split(self.0.elements(), 0, middle)
    }

    /// Returns the pairs of elements whose indices differ by the bit `distance`: a power of two, else a fault.
    ///
    /// The index of a pair is that of its first element. An element whose partner is beyond the end has no pair.
    #[inline(always)]
    #[track_caller]
    pub fn pairs(&mut self, distance: usize) -> Pairs<'_, A::Element> {
        pairs(self.0.elements(), distance)
    }

    /// Returns the elements in rows of `columns`; the last one may be shorter. A fault if `columns` is 0.
    #[inline(always)]
    #[track_caller]
    pub fn rows(&mut self, columns: usize) -> RowItems<'_, A::Element> {
        rows(self.0.elements(), columns)
    }

    /// Returns the elements for atomic operations in phases.
    #[inline(always)]
    pub fn atomic(&mut self) -> SharedAtomic<'_, A::Element>
    where
        A::Element: AtomicElement,
    {
        SharedAtomic::new(self.0.elements())
    }

    called_by_kernels! {
        phases_split_at_mut = split_at_mut(middle) -> (Part<'_, A::Element>, Part<'_, A::Element>);
        phases_pairs = pairs(distance) -> Pairs<'_, A::Element>;
        phases_rows = rows(columns) -> RowItems<'_, A::Element>;
        phases_patches = patches<const K>() -> LinePatches<'_, A::Element, K>;
        phases_atomic = atomic() -> SharedAtomic<'_, A::Element> where A::Element: AtomicElement;
    }
}

impl<T: Element, const C: usize, const R: usize> Shared<[[T; C]; R]> {
    /// Returns the first `columns` elements of each row: the others are padding. A fault if there are fewer.
    #[inline(always)]
    #[track_caller]
    pub fn cells(&mut self, columns: usize) -> Cells<'_, T, C> {
        super::splits::cells(&mut self.0, columns)
    }

    called_by_kernels! {
        phases_cells = cells(columns) -> Cells<'_, T, C>;
    }
}

target!([] [const N: usize] &'t mut Shared<[T; N]>, [usize, &'t mut T], IntoItems<'t, T>, |at| at,
    |this| this.0.iter_mut().map(Some));
target!([] [] &'t mut Shared<Vec<T>>, [usize, &'t mut T], IntoItems<'t, T>, |at| at, |this| this.0.iter_mut().map(Some));
target!([] [const C: usize, const R: usize] &'t mut Shared<[[T; C]; R]>, [[usize; 2], &'t mut T], IntoItems<'t, T>,
    |at| [at / C, at % C], |this| this.0.as_flattened_mut().iter_mut().map(Some), rows of C);
slices!([] [] &'t mut Shared<Vec<T>>, |this| iter::once(&mut this.0[..]));
slices!([] [const N: usize] &'t mut Shared<[T; N]>, |this| iter::once(&mut this.0[..]));
slices!([] [const C: usize, const R: usize] &'t mut Shared<[[T; C]; R]>,
    |this| this.0.iter_mut().map(|row| &mut row[..]));

/// A value of each thread, which lives in a register over phases. A phase hands it to its thread: `block.each(&mut sum, …)`.
pub struct PerThread<T: Device, const N: usize, const M: usize = 0>
where
    Dims<M>: Dim,
{
    values: <Dims<M> as Dim>::Array<T, N>,
}

impl<T: Device, const N: usize, const M: usize> PerThread<T, N, M>
where
    Dims<M>: Dim,
{
    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        Self { values: Dims::<M>::array(value) }
    }

    #[inline(always)]
    pub(super) fn values(&self) -> &[T] {
        Dims::<M>::values(&self.values)
    }

    #[inline(always)]
    pub(super) fn values_mut(&mut self) -> &mut [T] {
        Dims::<M>::values_mut(&mut self.values)
    }
}

impl<T: Device, const N: usize, const M: usize> fmt::Debug for PerThread<T, N, M>
where
    Dims<M>: Dim,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerThread")
    }
}

impl<T: Device, const N: usize, const M: usize> sealed::Sealed for &mut PerThread<T, N, M> where
    Dims<M>: Dim
{
}

impl<'t, T: Device, const N: usize, const M: usize> Target for &'t mut PerThread<T, N, M>
where
    Dims<M>: Dim,
{
    type Index = <Dims<M> as Dim>::Index;
    type Item = &'t mut T;
    type Shape = ();
    type Items = IntoItems<'t, T>;

    #[inline(always)]
    fn shape(&self) {}

    #[inline(always)]
    fn index((): (), position: usize) -> Self::Index {
        Dims::<M>::index(position)
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        self.values_mut().iter_mut().map(Some)
    }
}

impl<'t, T: Device, const N: usize, const M: usize> Slices<'t, T> for &'t mut PerThread<T, N, M>
where
    Dims<M>: Dim,
{
    #[inline(always)]
    fn slices(self) -> impl Iterator<Item = &'t mut [T]> {
        self.values_mut().chunks_exact_mut(if M == 0 { N } else { M })
    }
}

impl<'t, T: Element, const K: usize, const N: usize> Line<'t, T>
    for &'t mut PerThread<[T; K], N, 0>
{
    #[inline(always)]
    fn copy(self, source: &[T], start: isize, fill: T) {
        super::copy_from(self.values_mut().as_flattened_mut(), source, start, fill);
    }
}
