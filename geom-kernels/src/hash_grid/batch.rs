//! Batch calls: every query of an array at once.

use cuda_safe::{DeviceSliceMut, Error, Result, Stream, WriteView};

use super::queries::Prepared;
use super::{HashGrid, Queries};
use crate::lengths::same_length;
use crate::real::Real;

impl<T: Real> HashGrid<T> {
    /// The number of neighbours of each query.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; a radius that is negative or not a number;
    /// radii or groups of another number than queries; otherwise what the driver answered.
    pub fn count_neighbors<'b>(
        &self,
        stream: &Stream,
        queries: &Queries<'_, T>,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        let mut counts = counts.write_view();
        let n = queries.check(self)?;
        same_length("counts", counts.len(), n)?;
        let prepared = self.prepare(stream, queries, n)?;
        self.count(stream, &prepared, &mut counts)
    }

    /// The `k` nearest points within the queries' radius, which may be infinite, nearest first; of
    /// equally near ones the one with the smaller index first.
    ///
    /// Query i's are `indices[k * i..k * (i + 1)]`, and so the squares of their distances. Where there
    /// are fewer, the index is `u32::MAX` and the distance infinite. [`Pairs::Half`](super::Pairs::Half) makes no sense
    /// here and is refused.
    ///
    /// # Errors
    /// `k` is not from 1 to 128; an output of another length than `k` times the queries; otherwise as
    /// [`count_neighbors`](Self::count_neighbors).
    pub fn k_nearest<'b>(
        &self,
        stream: &Stream,
        queries: &Queries<'_, T>,
        k: usize,
        indices: impl WriteView<'b, u32>,
        distances_squared: impl WriteView<'b, T>,
    ) -> Result<()> {
        let (mut indices, mut distances) = (indices.write_view(), distances_squared.write_view());
        let n = queries.check(self)?;
        let Some(kernel) = self.kernels.nearest(k)? else {
            return Err(Error::invalid(format!("the {k} nearest; from 1 to 128 are possible")));
        };
        if queries.pairs == super::Pairs::Half {
            return Err(Error::invalid("half of the pairs has no nearest ones of each point"));
        }
        same_length("indices", indices.len(), n.saturating_mul(k))?;
        same_length("distances", distances.len(), n.saturating_mul(k))?;
        let prepared = self.prepare(stream, queries, n)?;
        let (launch, pairs) = (prepared.launch(), prepared.pairs());
        let args = (self.view(), &prepared, pairs, k as u32, &mut indices, &mut distances);
        // SAFETY: each query writes the k elements of its own index, if that is below n.
        unsafe { kernel.launch(stream, launch, args) }
    }

    /// `counts` has an element for each query.
    pub(crate) fn count(
        &self,
        stream: &Stream,
        prepared: &Prepared<'_, T>,
        counts: &mut DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        let (launch, pairs) = (prepared.launch(), prepared.pairs());
        let kernel = self.kernels.count()?;
        // SAFETY: each query writes the count of its own index, if that is below their number.
        unsafe { kernel.launch(stream, launch, (self.view(), prepared, pairs, counts)) }
    }
}
