//! Sums, minima and maxima of all elements.

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, LaunchConfig, ReadView, Result, Stream, WriteView};

use super::Algorithms;
use super::kernels::{THREADS, TILE, count};
use super::scratch::{self, Pieces};
use super::sealed::Sealed;
use crate::lengths::has_length;

/// Numbers that [`Algorithms::sum`], [`Algorithms::min`] and [`Algorithms::max`] work on: `u32`, `i32`, `u64`, `i64`, `f32`,
/// `f64`.
pub trait Number: Pod + Sealed {
    /// The column in the table of kernels.
    #[doc(hidden)]
    const INDEX: usize;
    /// What is larger than all others, or as large.
    #[doc(hidden)]
    const LARGEST: Self;
    /// What is smaller than all others, or as small.
    #[doc(hidden)]
    const SMALLEST: Self;
}

macro_rules! numbers {
    ($($number:ty, $index:literal, $largest:ident, $smallest:ident;)+) => {$(
        impl Number for $number {
            const INDEX: usize = $index;
            const LARGEST: Self = <$number>::$largest;
            const SMALLEST: Self = <$number>::$smallest;
        }
    )+};
}

numbers! {
    u32, 0, MAX, MIN;
    u64, 1, MAX, MIN;
    f32, 2, INFINITY, NEG_INFINITY;
    f64, 3, INFINITY, NEG_INFINITY;
    i32, 4, MAX, MIN;
    i64, 5, MAX, MIN;
}

/// The rows in the table of kernels.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Sum,
    Min,
    Max,
}

impl Algorithms<'_> {
    /// The bytes of scratch that [`sum`](Self::sum), [`min`](Self::min) and [`max`](Self::max) of `n`
    /// elements need.
    #[must_use]
    pub fn reduce_scratch<T: Number>(n: usize) -> usize {
        let parts = n.div_ceil(TILE);
        let bytes = |n| scratch::bytes(n, size_of::<T>());
        bytes(parts).saturating_add(bytes(parts.div_ceil(TILE)))
    }

    /// The sum of all elements, to the one element of `sum`; 0 of none. Integers wrap around.
    ///
    /// Floats are added in a fixed order, in their own precision, so that the sum has the same bits in every
    /// run and on every device: of each 4096 elements in a row, 256 threads add each 256th, in order; then
    /// the second half of the threads' sums is added to the first, and so on to one; the sums that this gives
    /// are added in the same way. Subnormal numbers count. With a NaN among the elements, or infinities of
    /// both signs, it is a NaN.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if `sum` has not one element, from 2^31
    /// elements on, and if the scratch given is too short; otherwise what the driver answered.
    pub fn sum<'a, T: Number>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        sum: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (elements, sum) = (elements.read_view(), sum.write_view());
        self.reduce(stream, elements, sum, Operation::Sum, T::zeroed())
    }

    /// The smallest of all elements, to the one element of `min`; the largest number there is, or
    /// infinity, of none. Of floats: a NaN only if all are; -0 is less than 0.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn min<'a, T: Number>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        min: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (elements, min) = (elements.read_view(), min.write_view());
        self.reduce(stream, elements, min, Operation::Min, T::LARGEST)
    }

    /// The largest of all elements, to the one element of `max`; the smallest number there is, or negative
    /// infinity, of none. Of floats: a NaN only if all are; -0 is less than 0.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn max<'a, T: Number>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        max: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (elements, max) = (elements.read_view(), max.write_view());
        self.reduce(stream, elements, max, Operation::Max, T::SMALLEST)
    }

    fn reduce<T: Number>(
        &self,
        stream: &Stream,
        elements: DeviceSlice<'_, T>,
        mut result: DeviceSliceMut<'_, T>,
        operation: Operation,
        of_none: T,
    ) -> Result<()> {
        has_length("the result", result.len(), 1)?;
        count("a reduction", elements.len())?;
        let bytes = Self::reduce_scratch::<T>(elements.len());
        self.scratch.with(stream, &[], bytes, |mut pieces| {
            if elements.is_empty() {
                return result.fill(stream, of_none);
            }
            self.reduce_chunks(stream, elements, result, operation, &mut pieces)
        })
    }

    /// Joins the elements of each chunk, and what that gives again, until one is left.
    fn reduce_chunks<T: Number>(
        &self,
        stream: &Stream,
        elements: DeviceSlice<'_, T>,
        result: DeviceSliceMut<'_, T>,
        operation: Operation,
        scratch: &mut Pieces<'_>,
    ) -> Result<()> {
        let kernel = self.kernels.reduce(operation as usize, T::INDEX)?;
        let n = count("a reduction", elements.len())?;
        let chunks = elements.len().div_ceil(TILE);
        let launch = LaunchConfig::new(chunks as u32, THREADS);
        if chunks == 1 {
            // SAFETY: the parameters of `reduce_*`: one block reads n elements and writes one, which the
            // result has.
            return unsafe { kernel.launch(stream, launch, (elements, result, n)) };
        }
        let mut parts = scratch.take::<T>(chunks)?;
        // SAFETY: as above; each of the blocks, of which there are as many as chunks, writes one of `parts`.
        unsafe { kernel.launch(stream, launch, (elements, parts.reborrow(), n))? };
        self.reduce_chunks(stream, parts.as_slice(), result, operation, scratch)
    }
}
