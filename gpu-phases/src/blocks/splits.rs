//! Splits of the memory of a block, whose pieces are disjoint.

use std::panic::Location;

use super::Element;
use super::parts::Part;
use super::target::{Target, called_by_kernels, sealed, slices, target, visit_rows};
use crate::cpu::raise;
use crate::fault::FaultKind;

impl<T: Element> Part<'_, T> {
    /// Splits the part: the elements before `middle`, and the others. A fault if there are fewer.
    #[inline(always)]
    #[track_caller]
    pub fn split_at_mut(&mut self, middle: usize) -> (Part<'_, T>, Part<'_, T>) {
        split(self.elements, self.start, middle)
    }

    /// As [`Shared::pairs`](super::Shared::pairs).
    #[inline(always)]
    #[track_caller]
    pub fn pairs(&mut self, distance: usize) -> Pairs<'_, T> {
        pairs(self.elements, distance)
    }

    /// As [`Shared::rows`](super::Shared::rows).
    #[inline(always)]
    #[track_caller]
    pub fn rows(&mut self, columns: usize) -> RowItems<'_, T> {
        rows(self.elements, columns)
    }

    called_by_kernels! {
        phases_split_at_mut = split_at_mut(middle) -> (Part<'_, T>, Part<'_, T>);
        phases_pairs = pairs(distance) -> Pairs<'_, T>;
        phases_rows = rows(columns) -> RowItems<'_, T>;
    }
}

#[inline(always)]
#[track_caller]
fn check(ok: bool, index: usize, len: usize) {
    if !ok {
        let caller = Location::caller();
        raise::fault(FaultKind::Index, caller.line(), index as u64, len as u64, caller);
    }
}

#[inline(always)]
#[track_caller]
pub(super) fn split<T>(
    elements: &mut [T],
    start: usize,
    middle: usize,
) -> (Part<'_, T>, Part<'_, T>) {
    check(middle <= elements.len(), middle, elements.len());
    let (low, high) = elements.split_at_mut(middle);
    (Part { elements: low, start }, Part { elements: high, start: start + middle })
}

/// Pairs of elements of the memory of a block.
#[derive(Debug)]
pub struct Pairs<'a, T> {
    elements: &'a mut [T],
    distance: usize,
}

#[inline(always)]
#[track_caller]
pub(super) fn pairs<T>(elements: &mut [T], distance: usize) -> Pairs<'_, T> {
    if !distance.is_power_of_two() {
        let caller = Location::caller();
        raise::fault(FaultKind::Assert, caller.line(), 0, 0, caller);
    }
    Pairs { elements, distance }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct PairItems<'a, T> {
    groups: std::slice::ChunksMut<'a, T>,
    group: std::iter::Zip<std::slice::IterMut<'a, T>, std::slice::IterMut<'a, T>>,
    distance: usize,
}

impl<'a, T> Iterator for PairItems<'a, T> {
    type Item = Option<(&'a mut T, &'a mut T)>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(pair) = self.group.next() {
            return Some(Some(pair));
        }
        // Only the last group is cut off, and pairs of a group are its first positions.
        let group = self.groups.next()?;
        let (low, high) = group.split_at_mut(self.distance.min(group.len()));
        self.group = low.iter_mut().zip(high);
        self.group.next().map(Some)
    }
}

impl<T> sealed::Sealed for Pairs<'_, T> {}

impl<'a, T: Element> Target for Pairs<'a, T> {
    type Index = usize;
    type Item = (&'a mut T, &'a mut T);
    type Shape = usize;
    type Items = PairItems<'a, T>;

    #[inline(always)]
    fn shape(&self) -> usize {
        self.distance
    }

    #[inline(always)]
    fn index(distance: usize, position: usize) -> usize {
        2 * position - (position & (distance - 1))
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        let none: (&mut [T], &mut [T]) = Default::default();
        PairItems {
            groups: self.elements.chunks_mut(self.distance.saturating_mul(2)),
            group: none.0.iter_mut().zip(none.1),
            distance: self.distance,
        }
    }
}

/// Rows of the memory of a block: an item is a slice.
#[derive(Debug)]
pub struct RowItems<'a, T> {
    elements: &'a mut [T],
    columns: usize,
}

#[inline(always)]
#[track_caller]
pub(super) fn rows<T>(elements: &mut [T], columns: usize) -> RowItems<'_, T> {
    if columns == 0 {
        let caller = Location::caller();
        raise::fault(FaultKind::Assert, caller.line(), 0, 0, caller);
    }
    RowItems { elements, columns }
}

type Slices<'t, T> =
    std::iter::Map<std::slice::ChunksMut<'t, T>, fn(&'t mut [T]) -> Option<&'t mut [T]>>;
target!([] [] RowItems<'t, T>, [usize, &'t mut [T]], Slices<'t, T>, |at| at,
    |this| this.elements.chunks_mut(this.columns).map(Some));

/// Rows of a shared array without their padding.
#[derive(Debug)]
pub struct Cells<'a, T, const C: usize> {
    rows: &'a mut [[T; C]],
    columns: usize,
}

#[inline(always)]
#[track_caller]
pub(super) fn cells<T, const C: usize>(rows: &mut [[T; C]], columns: usize) -> Cells<'_, T, C> {
    check(columns <= C, columns, C);
    Cells { rows, columns }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct CellItems<'a, T, const C: usize> {
    rows: std::slice::IterMut<'a, [T; C]>,
    row: std::slice::IterMut<'a, T>,
    columns: usize,
}

impl<'a, T, const C: usize> Iterator for CellItems<'a, T, C> {
    type Item = Option<&'a mut T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(cell) = self.row.next() {
            return Some(Some(cell));
        }
        let row = self.rows.next()?;
        self.row = row.get_mut(..self.columns).unwrap_or_default().iter_mut();
        self.row.next().map(Some)
    }
}

impl<T, const C: usize> sealed::Sealed for Cells<'_, T, C> {}

impl<'a, T: Element, const C: usize> Target for Cells<'a, T, C> {
    type Index = [usize; 2];
    type Item = &'a mut T;
    type Shape = usize;
    type Items = CellItems<'a, T, C>;

    #[inline(always)]
    fn shape(&self) -> usize {
        self.columns
    }

    #[inline(always)]
    fn index(columns: usize, position: usize) -> [usize; 2] {
        [position / columns, position % columns]
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        CellItems { rows: self.rows.iter_mut(), row: Default::default(), columns: self.columns }
    }

    #[inline(always)]
    fn visit(self, f: impl FnMut(usize, [usize; 2], &'a mut T)) {
        let columns = self.columns;
        visit_rows(self, columns, f);
    }
}

slices!([] [const C: usize] Cells<'t, T, C>,
    |this| this.rows.iter_mut().map(move |row| row.get_mut(..this.columns).unwrap_or_default()));
