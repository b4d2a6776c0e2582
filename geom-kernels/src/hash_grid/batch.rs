//! Batch calls: all queries of an array at once.

use cuda_safe::{DeviceSliceMut, Error, Result, Stream, WriteView, kernels};

use super::queries::Prepared;
use super::{GridQueries, GridView, HashGrid};
use crate::geometry::{Source, of_source};
use crate::lengths::same_length;
use crate::real::{Real, source_of};

kernels! {
    #[name = "hash_grid_{}_{T}"]
    pub(super) struct Query<T: Real in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: each query below their number reads the grid, and writes what belongs to its own index.
    unsafe in source_of::<T>(Source::HASH_GRID_QUERY_F32, Source::HASH_GRID_QUERY_F64) {
        /// # Safety
        /// `counts` has an element for each query.
        unsafe fn count(grid: GridView<'_, T>, queries: &Prepared<'_, T>, pairs: u32, counts: &mut [u32]);
        /// # Safety
        /// `offsets` has an element for each query and one more, none less than the one before it: the query
        /// writes from the one to the other, as far as `capacity`.
        unsafe fn list(
            grid: GridView<'_, T>, queries: &Prepared<'_, T>, pairs: u32, offsets: &[u64], indices: &mut [u32],
            capacity: u64,
        ) where capacity <= indices.len();
    }
}
of_source!(<T: Real> Query<T>, source_of::<T>(Source::HASH_GRID_QUERY_F32, Source::HASH_GRID_QUERY_F64));

kernels! {
    #[name = "hash_grid_{}_{T}"]
    struct Nearest<T: Real in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: each query below their number reads the grid, and writes the k elements of its own index.
    unsafe in source_of::<T>(Source::HASH_GRID_NEAREST_F32, Source::HASH_GRID_NEAREST_F64) {
        /// # Safety
        /// `k` is from 1 to 16, and both outputs have `k` elements for each query.
        unsafe fn nearest_16(
            grid: GridView<'_, T>, queries: &Prepared<'_, T>, pairs: u32, k: u32, indices: &mut [u32],
            distances_squared: &mut [T],
        ) where 1 <= k <= 16;
        /// # Safety
        /// `k` is from 1 to 128, and both outputs have `k` elements for each query.
        unsafe fn nearest_128(
            grid: GridView<'_, T>, queries: &Prepared<'_, T>, pairs: u32, k: u32, indices: &mut [u32],
            distances_squared: &mut [T],
        ) where 1 <= k <= 128;
    }
}
of_source!(<T: Real> Nearest<T>, source_of::<T>(Source::HASH_GRID_NEAREST_F32, Source::HASH_GRID_NEAREST_F64));

impl<T: Real> HashGrid<T> {
    /// Counts the neighbours of each query.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; a radius that is negative or not a number;
    /// radii or groups of another number than queries; otherwise if the driver returns an error.
    pub fn count_neighbors<'a>(
        &self,
        stream: &Stream,
        queries: &GridQueries<'_, T>,
        counts: impl WriteView<'a, u32>,
    ) -> Result<()> {
        let mut counts = counts.write_view();
        let n = queries.check(self)?;
        same_length("counts", counts.len(), n)?;
        let prepared = self.prepare(stream, queries, n)?;
        self.count(stream, &prepared, &mut counts)
    }

    /// Finds the `k` nearest points within the queries' radius, which may be infinite, in order of distance. Points
    /// at equal distance are in order of their index.
    ///
    /// The results of query i are `indices[k * i..k * (i + 1)]`, and the squared distances have the same layout. If
    /// there are fewer than `k`, the remaining indices are `u32::MAX` and the distances infinite.
    /// [`Pairs::Half`](super::Pairs::Half) is refused.
    ///
    /// # Errors
    /// `k` is not from 1 to 128; an output of another length than `k` times the queries; otherwise as
    /// [`count_neighbors`](Self::count_neighbors).
    pub fn k_nearest<'a>(
        &self,
        stream: &Stream,
        queries: &GridQueries<'_, T>,
        k: usize,
        indices: impl WriteView<'a, u32>,
        distances_squared: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (indices, distances) = (indices.write_view(), distances_squared.write_view());
        let n = queries.check(self)?;
        if !(1..=128).contains(&k) {
            return Err(Error::invalid(format!("the {k} nearest; from 1 to 128 are possible")));
        }
        if queries.pairs == super::Pairs::Half {
            return Err(Error::invalid("half of the pairs has no nearest ones of each point"));
        }
        same_length("indices", indices.len(), n.saturating_mul(k))?;
        same_length("distances", distances.len(), n.saturating_mul(k))?;
        let prepared = self.prepare(stream, queries, n)?;
        let (launch, pairs) = (prepared.launch(), prepared.pairs());
        let (kernels, view, most) = (self.geometry.kernels::<Nearest<T>>()?, self.view(), k as u32);
        // SAFETY: there are k elements for each of the n queries, as was compared above.
        unsafe {
            match k {
                ..=16 => kernels
                    .nearest_16(stream, launch, view, &prepared, pairs, most, indices, distances),
                _ => kernels
                    .nearest_128(stream, launch, view, &prepared, pairs, most, indices, distances),
            }
        }
    }

    /// `counts` has an element for each query.
    pub(crate) fn count(
        &self,
        stream: &Stream,
        prepared: &Prepared<'_, T>,
        counts: &mut DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        let (launch, pairs) = (prepared.launch(), prepared.pairs());
        let kernels = self.geometry.kernels::<Query<T>>()?;
        // SAFETY: the caller's promise.
        unsafe { kernels.count(stream, launch, self.view(), prepared, pairs, counts) }
    }
}
