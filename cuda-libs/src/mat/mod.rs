//! Views of device memory that know their shape: matrices, batches of matrices, and vectors.

mod layout;
#[cfg(feature = "ndarray")]
pub mod ndarray;
mod vector;

use std::ops::Range;

use cuda_safe::{DeviceSlice, DeviceSliceMut};

pub use layout::{Layout, Order};
pub use vector::{Vector, VectorMut};

use crate::element::Element;
use crate::error::Result;

/// A matrix, or a batch of matrices, on the device that may be read.
///
/// ```no_run
/// # use cuda_libs::{Layout, Mat, Order, Result};
/// # fn run(buffer: &cuda_safe::DeviceBuffer<f32>) -> Result<()> {
/// let a = Mat::new(buffer, 64, 32)?;
/// let batch = Mat::with(buffer, Layout::new(8, 8).order(Order::ColumnMajor).batch(32))?;
/// let transposed = a.transposed(); // 32 rows, 64 columns: another view of the same elements.
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Mat<'a, T> {
    pub(crate) data: DeviceSlice<'a, T>,
    pub(crate) layout: Layout,
    /// Whether the elements are taken as their conjugates.
    pub(crate) conjugate: bool,
}

/// A matrix, or a batch of matrices, on the device that may be written. It borrows the memory exclusively.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    pub(crate) data: DeviceSliceMut<'a, T>,
    pub(crate) layout: Layout,
}

impl<'a, T: Element> Mat<'a, T> {
    /// Views the first elements of `data` as a packed, row-major matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if there are not enough elements.
    #[inline]
    pub fn new(data: impl Into<DeviceSlice<'a, T>>, rows: usize, cols: usize) -> Result<Self> {
        Self::with(data, Layout::new(rows, cols))
    }

    /// Views `data` with this layout.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if there are not enough elements, or the leading dimension is too small.
    #[inline]
    pub fn with(data: impl Into<DeviceSlice<'a, T>>, layout: Layout) -> Result<Self> {
        let data = data.into();
        let span = layout.within(data.len())?;
        let data = data.slice(..span)?;
        Ok(Self { data, layout, conjugate: false })
    }

    /// Returns the transposed matrix, which is another view of the same elements.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { layout: self.layout.transposed(), ..self }
    }

    /// Returns the conjugate transpose, which is another view of the same elements.
    #[must_use]
    pub fn adjoint(self) -> Self {
        Self { conjugate: T::TYPE.is_complex() && !self.conjugate, ..self.transposed() }
    }

    /// Returns some rows and columns, of each matrix of a batch.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the matrix does not have them.
    pub fn part(self, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        let (layout, first) = self.layout.part(&rows, &cols)?;
        let span = layout.span().unwrap_or(0);
        Ok(Self { data: self.data.slice(first..first + span)?, layout, ..self })
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the numbers of rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.layout.rows, self.layout.cols)
    }
}

impl<'a, T: Element> MatMut<'a, T> {
    /// Views the first elements of `data` as a packed, row-major matrix.
    ///
    /// # Errors
    /// As [`Mat::new`].
    #[inline]
    pub fn new(data: impl Into<DeviceSliceMut<'a, T>>, rows: usize, cols: usize) -> Result<Self> {
        Self::with(data, Layout::new(rows, cols))
    }

    /// Views `data` with this layout.
    ///
    /// # Errors
    /// As [`Mat::with`], and if matrices of a batch overlap. Of matrices that lie neither one after the other nor with their
    /// rows side by side within the leading dimension, all are taken to overlap.
    #[inline]
    pub fn with(data: impl Into<DeviceSliceMut<'a, T>>, layout: Layout) -> Result<Self> {
        let data = data.into();
        let span = layout.within(data.len())?;
        layout.apart()?;
        let (data, _) = data.split_at_mut(span)?;
        Ok(Self { data, layout })
    }

    fn cut(data: DeviceSliceMut<'a, T>, layout: Layout, first: usize) -> Result<Self> {
        let span = layout.span().unwrap_or(0);
        let (_, rest) = data.split_at_mut(first)?;
        let (data, _) = rest.split_at_mut(span)?;
        Ok(Self { data, layout })
    }

    /// Returns the transposed matrix, which is another view of the same elements.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { layout: self.layout.transposed(), ..self }
    }

    /// Returns some rows and columns, of each matrix of a batch.
    ///
    /// # Errors
    /// As [`Mat::part`].
    pub fn part(self, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        let (layout, first) = self.layout.part(&rows, &cols)?;
        Self::cut(self.data, layout, first)
    }

    /// Returns a view that ends before this one.
    pub fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { data: self.data.reborrow(), layout: self.layout }
    }

    /// Returns a view for reading.
    #[must_use]
    pub fn as_mat(&self) -> Mat<'_, T> {
        Mat { data: self.data.as_slice(), layout: self.layout, conjugate: false }
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the numbers of rows and columns.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.layout.rows, self.layout.cols)
    }
}

impl<'a, T: Element> From<&'a MatMut<'_, T>> for Mat<'a, T> {
    fn from(matrix: &'a MatMut<'_, T>) -> Self {
        matrix.as_mat()
    }
}
