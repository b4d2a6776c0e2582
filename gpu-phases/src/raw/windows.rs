//! Windows of a matrix that are written at the same time.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

/// A matrix of rows in windows of one size, of which this has those with the numbers of a range.
#[doc(hidden)]
pub struct Windows<'a, T> {
    first: *mut T,
    /// The rows and the columns of the whole.
    size: [usize; 2],
    /// The rows and the columns of a window.
    window: [usize; 2],
    range: Range<usize>,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: it is `&mut` to the elements of its windows, and no two have a window in common.
unsafe impl<T: Send> Send for Windows<'_, T> {}

impl<'a, T> Windows<'a, T> {
    /// Takes the rows of a matrix. Neither side of a window may be 0, unless there are no elements.
    pub(crate) fn new(elements: &'a mut [T], columns: usize, window: [usize; 2]) -> Self {
        let rows = elements.len().checked_div(columns).unwrap_or(0);
        let count = rows.div_ceil(window[0].max(1)) * columns.div_ceil(window[1].max(1));
        Self {
            first: elements.as_mut_ptr(),
            size: [rows, columns],
            window,
            range: 0..count,
            elements: PhantomData,
        }
    }

    /// Returns the number of windows.
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    /// Splits the windows: the first `count`, and the rest.
    pub(crate) fn split_at(self, count: usize) -> (Self, Self) {
        let middle = self.range.start + count.min(self.range.len());
        let Self { first, size, window, range, elements } = self;
        let part = |range| Self { first, size, window, range, elements };
        (part(range.start..middle), part(middle..range.end))
    }

    /// Returns the next window.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Window<'a, T>> {
        let number = self.range.next()?;
        let across = self.size[1].div_ceil(self.window[1]);
        let origin = [number / across * self.window[0], number % across * self.window[1]];
        let height = self.window[0].min(self.size[0] - origin[0]);
        let width = self.window[1].min(self.size[1] - origin[1]);
        // SAFETY: the window with this number begins inside of the matrix.
        let first = unsafe { self.first.add(origin[0] * self.size[1] + origin[1]) };
        Some(Window {
            first,
            pitch: self.size[1],
            size: [height, width],
            origin,
            elements: PhantomData,
        })
    }
}

impl<T> fmt::Debug for Windows<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windows").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// A window: `&mut` to its elements.
#[doc(hidden)]
pub struct Window<'a, T> {
    first: *mut T,
    pitch: usize,
    size: [usize; 2],
    origin: [usize; 2],
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: it is `&mut` to its elements.
unsafe impl<T: Send> Send for Window<'_, T> {}
// SAFETY: without `&mut` to it nothing of the elements is accessible.
unsafe impl<T: Sync> Sync for Window<'_, T> {}

impl<'a, T> Window<'a, T> {
    /// Returns `[row, column]` of its first element in the matrix.
    #[inline(always)]
    pub(crate) fn origin(&self) -> [usize; 2] {
        self.origin
    }

    /// Returns the rows.
    #[inline(always)]
    pub(crate) fn rows(self) -> impl Iterator<Item = &'a mut [T]> {
        let Window { first, pitch, size: [height, width], .. } = self;
        (0..height).map(move |row| {
            // SAFETY: the elements are a row of the window, which is borrowed for `'a`. Each row is made once.
            unsafe { std::slice::from_raw_parts_mut(first.add(row * pitch), width) }
        })
    }

    /// Splits the window into patches of `patch` rows and columns, as they lie in a tile of the size `tile`.
    #[inline(always)]
    pub(crate) fn patches(self, tile: [usize; 2], patch: [usize; 2]) -> TakenPatches<'a, T> {
        let across = tile[1].div_ceil(patch[1]);
        TakenPatches {
            window: self,
            patch,
            across,
            numbers: 0..tile[0].div_ceil(patch[0]) * across,
        }
    }

    /// Borrows the window again.
    #[inline(always)]
    pub(crate) fn again(&mut self) -> Window<'_, T> {
        let Window { first, pitch, size, origin, .. } = *self;
        Window { first, pitch, size, origin, elements: PhantomData }
    }
}

/// The cells of a window, each taken once.
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "an iterator")]
pub struct Taken<'a, T> {
    window: Window<'a, T>,
    row: usize,
    column: usize,
    /// The positions of a row: those beyond the window's have no cell.
    across: usize,
    down: usize,
}

impl<'a, T> Taken<'a, T> {
    pub(crate) fn new(window: Window<'a, T>, [down, across]: [usize; 2]) -> Self {
        Self { window, row: 0, column: 0, across, down }
    }
}

impl<'a, T> Iterator for Taken<'a, T> {
    type Item = Option<&'a mut T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Option<&'a mut T>> {
        if self.row == self.down {
            return None;
        }
        let [height, width] = self.window.size;
        let cell = (self.row < height && self.column < width).then(|| {
            let at = self.row * self.window.pitch + self.column;
            // SAFETY: the cell is inside of the window, which is borrowed for `'a`. Positions only go up, so it is taken once.
            unsafe { &mut *self.window.first.add(at) }
        });
        self.column += 1;
        if self.column == self.across {
            (self.row, self.column) = (self.row + 1, 0);
        }
        Some(cell)
    }
}

/// The patches of a window, each taken once.
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "an iterator")]
pub struct TakenPatches<'a, T> {
    window: Window<'a, T>,
    patch: [usize; 2],
    /// The patches of a row of the whole tile: those beyond the window are none.
    across: usize,
    numbers: Range<usize>,
}

impl<'a, T> Iterator for TakenPatches<'a, T> {
    type Item = Option<Window<'a, T>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Option<Window<'a, T>>> {
        let number = self.numbers.next()?;
        let [height, width] = self.window.size;
        let [row, column] =
            [number / self.across * self.patch[0], number % self.across * self.patch[1]];
        Some((row < height && column < width).then(|| Window {
            // SAFETY: the element is inside of the window.
            first: unsafe { self.window.first.add(row * self.window.pitch + column) },
            pitch: self.window.pitch,
            size: [self.patch[0].min(height - row), self.patch[1].min(width - column)],
            origin: [row, column],
            elements: PhantomData,
        }))
    }
}

/// The elements of each lane of each row of a window, each taken once.
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "an iterator")]
pub struct TakenLanes<'a, T> {
    window: Window<'a, T>,
    position: usize,
}

impl<'a, T> TakenLanes<'a, T> {
    pub(crate) fn new(window: Window<'a, T>) -> Self {
        Self { window, position: 0 }
    }
}

impl<'a, T> Iterator for TakenLanes<'a, T> {
    type Item = Option<Lane<'a, T>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Option<Lane<'a, T>>> {
        let (row, lane) = (self.position / 32, self.position % 32);
        let [height, width] = self.window.size;
        if row >= height {
            return None;
        }
        self.position += 1;
        let len = width.saturating_sub(lane).div_ceil(32);
        let offset = if len == 0 { 0 } else { lane };
        // SAFETY: the row is one of the window, and the lane's first element is inside of it, or the lane has none.
        let first = unsafe { self.window.first.add(row * self.window.pitch + offset) };
        Some(Some(Lane { first, len, lane, elements: PhantomData }))
    }
}

/// The elements of a row that one lane of a warp has: those at its number, at 32 more, and so on.
pub struct Lane<'a, T> {
    first: *mut T,
    len: usize,
    lane: usize,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: it is `&mut` to its elements.
unsafe impl<T: Send> Send for Lane<'_, T> {}
// SAFETY: it is `&mut` to its elements.
unsafe impl<T: Sync> Sync for Lane<'_, T> {}

impl<T> Lane<'_, T> {
    /// Returns the number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the column of the element with this index.
    #[inline(always)]
    #[must_use]
    pub fn column(&self, index: usize) -> usize {
        self.lane + 32 * index
    }
}

impl<T> Index<usize> for Lane<'_, T> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn index(&self, index: usize) -> &T {
        assert!(
            index < self.len,
            "index out of bounds: the len is {} but the index is {index}",
            self.len
        );
        // SAFETY: the element is one of the lane's, which are 32 apart.
        unsafe { &*self.first.add(32 * index) }
    }
}

impl<T> IndexMut<usize> for Lane<'_, T> {
    #[inline(always)]
    #[track_caller]
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(
            index < self.len,
            "index out of bounds: the len is {} but the index is {index}",
            self.len
        );
        // SAFETY: the element is one of the lane's, which are 32 apart.
        unsafe { &mut *self.first.add(32 * index) }
    }
}

impl<T> fmt::Debug for Lane<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("len", &self.len).finish_non_exhaustive()
    }
}
