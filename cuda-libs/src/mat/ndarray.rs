//! Shapes from arrays of `ndarray`, and arrays from matrices.

use cuda_safe::{DeviceBuffer, Stream};
use ndarray::{Array2, ArrayView2};

use super::{Layout, Mat, MatMut, Order};
use crate::element::Element;
use crate::error::{Error, Result};

impl Layout {
    /// Returns the layout of an array: its shape, order and leading dimension.
    ///
    /// # Errors
    /// [`Error::Invalid`] if neither its rows nor its columns lie one element after the other, or if a stride is
    /// negative.
    pub fn of_array<T>(array: &ArrayView2<'_, T>) -> Result<Self> {
        let (rows, cols) = array.dim();
        let &[by_row, by_col] = array.strides() else { return Ok(Self::new(rows, cols)) };
        let orders = [
            (Order::RowMajor, by_row, by_col, rows, cols),
            (Order::ColumnMajor, by_col, by_row, cols, rows),
        ];
        for (order, leading, step, lines, line) in orders {
            let packed = step == 1 || line <= 1;
            if let Ok(leading) =
                usize::try_from(if lines <= 1 { line.cast_signed() } else { leading })
                && packed
                && leading >= line
            {
                return Ok(Self::new(rows, cols).order(order).leading(leading));
            }
        }
        Err(Error::invalid(
            "layout",
            "array",
            format!(
                "has strides {by_row} and {by_col}: neither rows nor columns are contiguous; copy it first"
            ),
        ))
    }
}

/// Uploads an array to a new buffer, of which [`Mat::with`] makes a matrix by the returned layout: that of the array, if it
/// is packed, or else row-major.
///
/// # Errors
/// As [`DeviceBuffer::from_slice`].
pub fn upload<T: Element>(
    stream: &Stream,
    array: &ArrayView2<'_, T>,
) -> Result<(DeviceBuffer<T>, Layout)> {
    let (rows, cols) = array.dim();
    if let Some(elements) = array.t().as_slice().filter(|_| !array.is_standard_layout()) {
        let layout = Layout::new(rows, cols).order(Order::ColumnMajor);
        return Ok((DeviceBuffer::from_slice(stream, elements)?, layout));
    }
    let buffer = match array.as_slice() {
        Some(elements) => DeviceBuffer::from_slice(stream, elements)?,
        None => {
            let elements: Vec<T> = array.iter().copied().collect();
            DeviceBuffer::from_slice(stream, &elements)?
        }
    };
    Ok((buffer, Layout::new(rows, cols)))
}

impl<T: Element> Mat<'_, T> {
    /// Copies the matrix to a new array. Waits until it is filled.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a batch or a conjugated view; otherwise as [`DeviceBuffer::to_vec`].
    pub fn to_array(&self, stream: &Stream) -> Result<Array2<T>> {
        if self.layout.batch != 1 {
            let message = format!("is a batch of {}", self.layout.batch);
            return Err(Error::invalid("to_array", "matrix", message));
        }
        if self.conjugate {
            return Err(Error::invalid("to_array", "matrix", "is conjugated"));
        }
        let elements = self.data.to_vec(stream)?;
        let (leading, order) = (self.layout.leading_dimension(), self.layout.order);
        let at = |(row, col): (usize, usize)| match order {
            Order::RowMajor => row * leading + col,
            Order::ColumnMajor => col * leading + row,
        };
        Ok(Array2::from_shape_fn(self.shape(), |index| elements[at(index)]))
    }
}

impl<T: Element> MatMut<'_, T> {
    /// Copies the matrix to a new array. Waits until it is filled.
    ///
    /// # Errors
    /// As [`Mat::to_array`].
    pub fn to_array(&self, stream: &Stream) -> Result<Array2<T>> {
        self.as_mat().to_array(stream)
    }
}
