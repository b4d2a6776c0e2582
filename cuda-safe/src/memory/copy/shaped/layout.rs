//! Where a rectangle or a box lies in linear memory.

use std::ops::Range;

use super::parts::Pitches;
use crate::error::{Error, Result};

/// The size of a rectangle or a box, in elements: `depth` slices of `height` rows of `width`.
///
/// `(width, height)` and `(width, height, depth)` are extents, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "cudaExtent")]
pub struct Extent {
    /// Elements of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

impl Extent {
    pub(super) fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

impl From<(usize, usize)> for Extent {
    fn from((width, height): (usize, usize)) -> Self {
        Self { width, height, depth: 1 }
    }
}

impl From<(usize, usize, usize)> for Extent {
    fn from((width, height, depth): (usize, usize, usize)) -> Self {
        Self { width, height, depth }
    }
}

/// The positions of the rows of a rectangle or a box in linear memory. All numbers are in elements.
///
/// Element `(x, y, z)` is element `offset + x + y * row_pitch + z * slice_pitch` of a slice or a
/// buffer. Numbers that don't fit are refused by the copy, not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "cudaPitchedPtr")]
pub struct PitchedLayout {
    /// The first element.
    pub offset: usize,
    /// The distance from the start of a row to the start of the next.
    pub row_pitch: usize,
    /// The distance from the start of a slice to the start of the next.
    pub slice_pitch: usize,
}

/// The alignment of rows by [`PitchedLayout::pitched`], in bytes: the same as by `cuMemAllocPitch`.
const PITCH_ALIGN: usize = 512;

impl PitchedLayout {
    /// Rows and slices without gaps.
    #[must_use]
    pub fn compact(extent: impl Into<Extent>) -> Self {
        let Extent { width, height, .. } = extent.into();
        Self { offset: 0, row_pitch: width, slice_pitch: width.saturating_mul(height) }
    }

    /// Rows that begin at multiples of 512 bytes, for kernels that read along them. Memory for it
    /// is [`PitchedLayout::len`] elements of an ordinary buffer: there is no stream-ordered
    /// `cuMemAllocPitch`.
    ///
    /// ```
    /// use cuda_safe::PitchedLayout;
    /// let image = PitchedLayout::pitched::<f32>((1000, 600));
    /// assert_eq!(image.row_pitch, 1024);
    /// assert_eq!(image.len((1000, 600))?, 599 * 1024 + 1000);
    /// # Ok::<(), cuda_safe::Error>(())
    /// ```
    #[must_use]
    #[doc(alias = "cuMemAllocPitch")]
    pub fn pitched<T>(extent: impl Into<Extent>) -> Self {
        let Extent { width, height, .. } = extent.into();
        // The fewest elements that are a multiple of 512 bytes.
        let step = PITCH_ALIGN >> size_of::<T>().trailing_zeros().min(PITCH_ALIGN.trailing_zeros());
        let row_pitch = width.checked_next_multiple_of(step).unwrap_or(usize::MAX);
        Self { offset: 0, row_pitch, slice_pitch: row_pitch.saturating_mul(height) }
    }

    /// Returns the layout of the same rows and slices from element `(x, y, z)` on: for a part of the whole.
    #[must_use]
    #[doc(alias = "cudaPos")]
    pub fn at(self, x: usize, y: usize, z: usize) -> Self {
        let offset = self
            .offset
            .saturating_add(x)
            .saturating_add(y.saturating_mul(self.row_pitch))
            .saturating_add(z.saturating_mul(self.slice_pitch));
        Self { offset, ..self }
    }

    /// Returns how many elements memory needs to hold a box in this layout: up to its last element.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if rows or slices overlap, or if the number
    /// overflows.
    pub fn len(&self, extent: impl Into<Extent>) -> Result<usize> {
        let extent = extent.into();
        if extent.is_empty() {
            return Ok(0);
        }
        Ok(self.span("layout", extent, usize::MAX)?.end)
    }

    /// Returns the elements from the first to the last of a box, which is not empty. Fails unless it lies
    /// in memory of `len` elements, rows don't overlap and slices don't.
    pub(super) fn span(&self, side: &str, extent: Extent, len: usize) -> Result<Range<usize>> {
        let Extent { width, height, depth } = extent;
        let Self { offset, row_pitch, slice_pitch } = *self;
        if height > 1 && row_pitch < width {
            return Err(Error::invalid(format!(
                "{side}: a row pitch of {row_pitch} is less than the width of {width}"
            )));
        }
        let reaches_past = |dimension: &str, size: usize| {
            Error::invalid(format!(
                "{side}: the {dimension} of {size} reaches past the end: offset {offset}, row \
                 pitch {row_pitch} and slice pitch {slice_pitch} in {len} elements"
            ))
        };
        let fits = |end: &usize| *end <= len;
        let row = offset.checked_add(width).filter(fits);
        let row = row.ok_or_else(|| reaches_past("width", width))?;
        let slice = row_pitch.checked_mul(height - 1).and_then(|rows| rows.checked_add(row));
        let slice = slice.filter(fits).ok_or_else(|| reaches_past("height", height))?;
        if depth > 1 && slice_pitch < slice - offset {
            return Err(Error::invalid(format!(
                "{side}: a slice pitch of {slice_pitch} is less than the {} elements of a slice",
                slice - offset
            )));
        }
        let end = slice_pitch.checked_mul(depth - 1).and_then(|slices| slices.checked_add(slice));
        let end = end.filter(fits).ok_or_else(|| reaches_past("depth", depth))?;
        Ok(offset..end)
    }

    /// Returns the same box as `extent`, in bytes and with pitches that don't matter made what they would be without
    /// gaps. `span` has found that it lies within memory.
    pub(super) fn to_bytes(self, extent: Extent, size: usize) -> Pitches {
        // Slices of one row each are the rows of one slice; see `Part::whole`.
        let (rows, pitch) = match extent.height {
            1 => (extent.depth, self.slice_pitch),
            height => (height, self.row_pitch),
        };
        let row = if rows > 1 { pitch } else { extent.width } * size;
        let slice = if extent.height > 1 && extent.depth > 1 {
            self.slice_pitch * size
        } else {
            // The size is that of a single slice. The last row may end before its pitch does.
            row.saturating_mul(rows)
        };
        Pitches { row, slice }
    }
}
