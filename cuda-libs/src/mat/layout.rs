//! Where the elements of a matrix lie.

use std::ops::Range;

use crate::error::{Error, Result};

/// Which elements of a matrix are neighbours in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Those of a row, as in C, Rust and `ndarray`.
    #[default]
    RowMajor,
    /// Those of a column, as in Fortran and BLAS.
    ColumnMajor,
}

impl Order {
    #[inline]
    pub(crate) fn other(self) -> Self {
        match self {
            Self::RowMajor => Self::ColumnMajor,
            Self::ColumnMajor => Self::RowMajor,
        }
    }
}

/// The shape of a matrix or of a batch of matrices, and where their elements lie.
///
/// ```
/// use cuda_libs::{Layout, Order};
/// // Eight column-major matrices of 3 rows and 4 columns, one after the other, with columns of 16 elements.
/// let layout = Layout::new(3, 4).order(Order::ColumnMajor).leading(16).batch(8);
/// assert_eq!(layout.span(), Some(7 * 64 + 3 * 16 + 3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) order: Order,
    leading: Option<usize>,
    pub(crate) batch: usize,
    stride: Option<usize>,
}

impl Layout {
    /// A packed, row-major matrix.
    #[must_use]
    #[inline]
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols, order: Order::RowMajor, leading: None, batch: 1, stride: None }
    }

    /// Sets the order.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Sets the leading dimension: the distance, in elements, between the beginnings of neighbouring rows of a row-major
    /// matrix, or columns of a column-major one. At least the length of a row or column, which is the default.
    #[must_use]
    pub fn leading(self, leading: usize) -> Self {
        Self { leading: Some(leading), ..self }
    }

    /// Sets the number of matrices.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// Sets the distance, in elements, between the beginnings of neighbouring matrices of a batch. The default places one
    /// after the other. 0 repeats one matrix, which only operands can that are read.
    #[must_use]
    pub fn stride(self, stride: usize) -> Self {
        Self { stride: Some(stride), ..self }
    }

    /// Returns the length of a row of a row-major matrix, or column of a column-major one, and how many there are.
    #[inline]
    pub(crate) fn lines(&self) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (self.cols, self.rows),
            Order::ColumnMajor => (self.rows, self.cols),
        }
    }

    /// Returns the leading dimension.
    #[must_use]
    #[inline]
    pub fn leading_dimension(&self) -> usize {
        self.leading.unwrap_or(self.lines().0)
    }

    /// Returns the distance between the matrices of a batch; 0 if it is not a number of 64 bits.
    #[must_use]
    #[inline]
    pub fn batch_stride(&self) -> usize {
        self.stride.or_else(|| self.lines().1.checked_mul(self.leading_dimension())).unwrap_or(0)
    }

    /// Returns the number of elements from the first to the last one; `None` if that is no number of 64 bits.
    #[must_use]
    #[inline]
    pub fn span(&self) -> Option<usize> {
        let (line, lines) = self.lines();
        if line == 0 || lines == 0 || self.batch == 0 {
            return Some(0);
        }
        let of_one = (lines - 1).checked_mul(self.leading_dimension())?.checked_add(line)?;
        if self.batch == 1 {
            return Some(of_one);
        }
        let stride = match self.stride {
            Some(stride) => stride,
            None => lines.checked_mul(self.leading_dimension())?,
        };
        (self.batch - 1).checked_mul(stride)?.checked_add(of_one)
    }

    /// Returns the layout with its leading dimension and distance stated, by which layouts of the same elements are equal.
    #[inline]
    pub(crate) fn stated(self) -> Self {
        let (leading, stride) = (self.leading_dimension(), self.batch_stride());
        let stride = (self.batch > 1).then_some(stride);
        Self { leading: Some(leading), stride, ..self }
    }

    /// Returns the layout of the transposed matrices.
    #[must_use]
    #[inline]
    pub fn transposed(self) -> Self {
        let leading = Some(self.leading_dimension());
        let stride = Some(self.batch_stride());
        let (rows, cols, order) = (self.cols, self.rows, self.order.other());
        Self { rows, cols, order, leading, stride, ..self }
    }

    /// Returns the layout of some rows and columns, and the index of their first element.
    pub(crate) fn part(self, rows: &Range<usize>, cols: &Range<usize>) -> Result<(Self, usize)> {
        for (argument, range, end) in [("rows", rows, self.rows), ("columns", cols, self.cols)] {
            if range.start > range.end || range.end > end {
                return Err(Error::invalid(
                    "part",
                    argument,
                    format!("{range:?} are not within the {end} of the matrix"),
                ));
            }
        }
        let (leading, stride) = (self.leading_dimension(), self.batch_stride());
        let (line, at) = match self.order {
            Order::RowMajor => (rows.start, cols.start),
            Order::ColumnMajor => (cols.start, rows.start),
        };
        let (rows, cols) = (rows.len(), cols.len());
        let part = Self { rows, cols, leading: Some(leading), stride: Some(stride), ..self };
        // An empty part may lie behind all elements, which is beyond 64 bits for some leading dimensions.
        Ok((part, if part.span() == Some(0) { 0 } else { line * leading + at }))
    }

    /// Fails unless the matrices lie within `len` elements. Returns the number of elements from the first to the last one.
    #[inline]
    pub(crate) fn within(&self, len: usize) -> Result<usize> {
        match self.span() {
            Some(span) if span <= len && self.leading_dimension() >= self.lines().0 => Ok(span),
            span => Err(self.not_within(len, span)),
        }
    }

    #[cold]
    fn not_within(&self, len: usize, span: Option<usize>) -> Error {
        let (line, _) = self.lines();
        let leading = self.leading_dimension();
        if leading < line {
            let what = match self.order {
                Order::RowMajor => "columns of a row-major",
                Order::ColumnMajor => "rows of a column-major",
            };
            return Error::invalid(
                "layout",
                "leading",
                format!("dimension {leading} is less than the {line} {what} matrix"),
            );
        }
        Error::invalid(
            "layout",
            "data",
            format!(
                "has {len} elements; {} x {} with leading dimension {leading}, {} times at a distance of {}, needs {}",
                self.rows,
                self.cols,
                self.batch,
                self.batch_stride(),
                span.map_or_else(|| "more than 2^64".to_owned(), |span| span.to_string())
            ),
        )
    }

    /// Fails if matrices of the batch overlap.
    #[inline]
    pub(crate) fn apart(&self) -> Result<()> {
        let (line, lines) = self.lines();
        if self.batch <= 1 || line == 0 || lines == 0 {
            return Ok(());
        }
        let (leading, stride) = (self.leading_dimension(), self.batch_stride());
        let one_after_another = stride >= (lines - 1).saturating_mul(leading).saturating_add(line);
        // The lines of all matrices side by side, within the leading dimension.
        let side_by_side = stride >= line
            && (lines == 1
                || (self.batch - 1).saturating_mul(stride).saturating_add(line) <= leading);
        if one_after_another || side_by_side {
            return Ok(());
        }
        Err(Error::invalid(
            "layout",
            "stride",
            format!(
                "{stride} makes the {} matrices overlap: {} x {} with leading dimension {leading} takes {} elements",
                self.batch,
                self.rows,
                self.cols,
                (lines - 1) * leading + line
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The indices of the elements of each matrix, counted one by one.
    fn indices(layout: &Layout) -> Vec<Vec<usize>> {
        let (line, lines) = layout.lines();
        (0..layout.batch)
            .map(|matrix| {
                (0..lines)
                    .flat_map(|at| (0..line).map(move |i| (at, i)))
                    .map(|(at, i)| {
                        matrix * layout.batch_stride() + at * layout.leading_dimension() + i
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn spans_and_overlaps_are_those_of_the_indices() {
        let mut refused = 0;
        for (rows, cols, leading, batch, stride) in (0..4).flat_map(|rows| {
            (0..4).flat_map(move |cols| {
                (0..7).flat_map(move |leading| {
                    (0..4).flat_map(move |batch| {
                        (0..14).map(move |stride| (rows, cols, leading, batch, stride))
                    })
                })
            })
        }) {
            for order in [Order::RowMajor, Order::ColumnMajor] {
                let layout = Layout::new(rows, cols).order(order).leading(leading);
                let layout = layout.batch(batch).stride(stride);
                if layout.within(usize::MAX).is_err() {
                    assert!(leading < layout.lines().0);
                    continue;
                }
                let all = indices(&layout);
                let end = all.iter().flatten().max().map_or(0, |last| last + 1);
                assert_eq!(layout.span(), Some(end), "{layout:?}");
                assert_eq!(layout.transposed().span(), Some(end));
                assert!(
                    layout.within(end).is_ok() && (end == 0 || layout.within(end - 1).is_err())
                );
                let distinct: HashSet<usize> = all.iter().flatten().copied().collect();
                let overlap = distinct.len() < all.iter().map(Vec::len).sum();
                // Some layouts that interleave matrices without an overlap are refused, too.
                assert!(layout.apart().is_err() || !overlap, "{layout:?}");
                let packed = stride >= layout.lines().1 * leading;
                assert!(layout.apart().is_ok() || !packed, "{layout:?}");
                refused += usize::from(layout.apart().is_err());
            }
        }
        assert!(refused > 100);
    }

    #[test]
    fn huge_layouts_are_refused() {
        let huge = Layout::new(1 << 40, 1 << 40);
        assert!(huge.span().is_none() && huge.within(usize::MAX).is_err());
        let text = Layout::new(3, 4).leading(3).within(100).map_err(|error| error.to_string());
        let wanted = "layout: leading dimension 3 is less than the 4 columns of a row-major matrix";
        assert_eq!(text, Err(wanted.to_owned()));
    }

    #[test]
    fn empty_parts_lie_anywhere() {
        let far = Layout::new(1, 2).leading(usize::MAX);
        assert_eq!(far.part(&(1..1), &(1..2)).unwrap().1, 0);
        let empty = Layout::new(5, 0).leading(usize::MAX);
        assert_eq!(empty.part(&(2..3), &(0..0)).unwrap().1, 0);
    }
}
