//! Sums, minima and maxima of all elements.

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, ReadView, Result, Stream, WriteView, kernels};

use super::scratch::{self, Pieces};
use super::sealed::Sealed;
use super::{Algorithms, TILE, count, tiles};
use crate::geometry::{Source, of_source};
use crate::lengths::has_length;

kernels! {
    #[name = "reduce_{}_{T}"]
    struct Reductions;
    // SAFETY: block b joins the elements of tile b that are below n, of which there is one at least, and writes
    // one number, at b. Every thread meets every barrier.
    unsafe in Source::REDUCE {
        // The kernel for unsigned integers also adds signed ones: the sums have the same bits.
        safe fn add<T: Number in [
            u32 = "u32", i32 = "u32", u64 = "u64", i64 = "u64", f32 = "f32", f64 = "f64",
        ]>(elements: &[T], sums: &mut [T], n: u32)
            where n <= elements.len(), block.x == 256, 4096 * grid.x < n + 4096, grid.x <= sums.len();
        safe fn min<T: Number in [
            u32 = "u32", i32 = "i32", u64 = "u64", i64 = "i64", f32 = "f32", f64 = "f64",
        ]>(elements: &[T], least: &mut [T], n: u32)
            where n <= elements.len(), block.x == 256, 4096 * grid.x < n + 4096, grid.x <= least.len();
        safe fn max<T: Number in [
            u32 = "u32", i32 = "i32", u64 = "u64", i64 = "i64", f32 = "f32", f64 = "f64",
        ]>(elements: &[T], greatest: &mut [T], n: u32)
            where n <= elements.len(), block.x == 256, 4096 * grid.x < n + 4096, grid.x <= greatest.len();
    }
}
of_source!(Reductions, Source::REDUCE);

/// Numbers that [`Algorithms::sum`], [`Algorithms::min`] and [`Algorithms::max`] accept: `u32`, `i32`, `u64`, `i64`,
/// `f32`, `f64`.
pub trait Number: Pod + Sealed {
    /// A value that is not less than any other.
    #[doc(hidden)]
    const LARGEST: Self;
    /// A value that is not greater than any other.
    #[doc(hidden)]
    const SMALLEST: Self;
}

macro_rules! numbers {
    ($($number:ty, $largest:ident, $smallest:ident;)+) => {$(
        impl Number for $number {
            const LARGEST: Self = <$number>::$largest;
            const SMALLEST: Self = <$number>::$smallest;
        }
    )+};
}

numbers! {
    u32, MAX, MIN;
    u64, MAX, MIN;
    f32, INFINITY, NEG_INFINITY;
    f64, INFINITY, NEG_INFINITY;
    i32, MAX, MIN;
    i64, MAX, MIN;
}

/// The operation of a reduction.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Sum,
    Min,
    Max,
}

impl Algorithms<'_> {
    /// Returns the bytes of scratch that [`sum`](Self::sum), [`min`](Self::min) and [`max`](Self::max) of `n`
    /// elements need.
    #[must_use]
    pub fn reduce_scratch<T: Number>(n: usize) -> usize {
        let parts = n.div_ceil(TILE);
        let bytes = |n| scratch::bytes(n, size_of::<T>());
        bytes(parts).saturating_add(bytes(parts.div_ceil(TILE)))
    }

    /// Writes the sum of all elements to the one element of `sum`; 0 for no elements. Integers wrap around.
    ///
    /// Floats are added in a fixed order, in their own precision, so that the sum has the same bits in every run and
    /// on every device: of each 4096 consecutive elements, thread i of 256 adds elements i, i + 256, i + 512, ..., in
    /// order. Then the second half of the threads' sums is added to the first, and so on until one is left. The
    /// resulting sums are added in the same way. Subnormal numbers count. With a NaN among the elements, or
    /// infinities of both signs, the sum is NaN.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if `sum` has not one element, from 2^31
    /// elements on, and if the scratch given is too short; otherwise if the driver returns an error.
    pub fn sum<'a, T: Number>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        sum: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (elements, sum) = (elements.read_view(), sum.write_view());
        self.reduce(stream, elements, sum, Operation::Sum, T::zeroed())
    }

    /// Writes the smallest of all elements to the one element of `min`; for no elements, the largest number of the
    /// type, or infinity. The result is NaN only if all floats are; -0 is less than 0.
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

    /// Writes the largest of all elements to the one element of `max`; for no elements, the smallest number of the
    /// type, or negative infinity. The result is NaN only if all floats are; -0 is less than 0.
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

    /// Reduces the elements of each chunk, and the results in the same way, until one is left.
    fn reduce_chunks<T: Number>(
        &self,
        stream: &Stream,
        elements: DeviceSlice<'_, T>,
        result: DeviceSliceMut<'_, T>,
        operation: Operation,
        scratch: &mut Pieces<'_>,
    ) -> Result<()> {
        let n = count("a reduction", elements.len())?;
        let (chunks, launch) = (elements.len().div_ceil(TILE), tiles(elements.len()));
        let kernels = self.kernels.kernels::<Reductions>()?;
        let join = |to: DeviceSliceMut<'_, T>| match operation {
            Operation::Sum => kernels.add(stream, launch, elements, to, n),
            Operation::Min => kernels.min(stream, launch, elements, to, n),
            Operation::Max => kernels.max(stream, launch, elements, to, n),
        };
        if chunks == 1 {
            return join(result);
        }
        let mut parts = scratch.take::<T>(chunks)?;
        join(parts.reborrow())?;
        self.reduce_chunks(stream, parts.as_slice(), result, operation, scratch)
    }
}
