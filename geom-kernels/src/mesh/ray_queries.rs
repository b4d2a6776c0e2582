//! Queries of rays.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Kernel, LaunchConfig, Result, Stream,
    WriteView,
};

use super::Mesh;
use super::layout::RayHit;
use crate::lengths::same_length;
use crate::part::{enqueues, scratch};
use crate::{Flag, Ray};

/// Threads in a block.
const BLOCK: u32 = 128;

/// How many rays are launched at once.
const CHUNK: usize = 1 << 28;

/// The hits of each ray, one list after the other.
#[derive(Debug)]
pub struct HitLists {
    /// Where each list begins, and at the end how many hits there are in all: one more than rays.
    pub offsets: DeviceBuffer<u64>,
    /// The hits: those of ray i are `hits[offsets[i]..offsets[i + 1]]`, nearest first, of equally near ones
    /// the face of the least index first.
    pub hits: DeviceBuffer<RayHit>,
}

impl Mesh<'_> {
    /// The first hit of each ray: the one of least t, and of equal ones that of the least face index.
    ///
    /// Both sides of faces are hit. Of faces that share an edge or a vertex exactly one is hit by a ray that
    /// passes through it, so that no ray that goes through a closed mesh slips through it (S. Woop, C.
    /// Benthin, I. Wald, "Watertight Ray/Triangle Intersection", 2013; ties by simulation of simplicity).
    /// Answers do not depend on how the hierarchy was built or on the device. Rays that lie close to each
    /// other in the array are fastest if they are alike.
    ///
    /// # Errors
    /// `hits` has another length than there are rays; otherwise what the driver answered.
    pub fn closest_hits<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        hits: impl WriteView<'b, RayHit>,
    ) -> Result<()> {
        self.for_rays(stream, self.kernels.rays()?.nearest_hits, rays.into(), hits.write_view())
    }

    /// Whether each ray hits anything.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits).
    pub fn any_hits<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        hits: impl WriteView<'b, Flag>,
    ) -> Result<()> {
        self.for_rays(stream, self.kernels.rays()?.any_hits, rays.into(), hits.write_view())
    }

    /// How many faces each ray hits. An edge or a vertex that it passes through counts once.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits).
    pub fn count_hits<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        self.for_rays(stream, self.kernels.rays()?.count_hits, rays.into(), counts.write_view())
    }

    /// All hits of each ray, in memory that is just large enough. Waits for the number of them.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits); a stream that records.
    pub fn all_hits<'a>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
    ) -> Result<HitLists> {
        let rays = rays.into();
        // SAFETY: every offset is written by the scan.
        let mut offsets = unsafe { scratch::<u64>(stream, rays.len() + 1)? };
        self.hit_offsets(stream, rays, offsets.as_slice_mut())?;
        let total = offsets.slice(rays.len()..)?.to_vec(stream)?;
        let total = usize::try_from(total.first().copied().unwrap_or(0))
            .map_err(|_| Error::invalid("too many hits to list"))?;
        let mut hits = DeviceBuffer::<RayHit>::zeroed(stream, total)?;
        self.list_hits(stream, rays, offsets.as_slice(), hits.as_slice_mut())?;
        Ok(HitLists { offsets, hits })
    }

    /// As [`all_hits`](Self::all_hits), but into memory of the caller's, without waiting.
    ///
    /// `offsets` is always right: its last element is how many hits there are. If `hits` is shorter, then
    /// the hits with places beyond its end are not written, and all others are; if it is longer, the rest
    /// is left as it is.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are rays; otherwise as
    /// [`closest_hits`](Self::closest_hits).
    pub fn all_hits_into<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        offsets: impl WriteView<'b, u64>,
        hits: impl WriteView<'b, RayHit>,
    ) -> Result<()> {
        // All before the enqueues: these are calls of users' code.
        let (rays, mut offsets, hits) = (rays.into(), offsets.write_view(), hits.write_view());
        same_length("offsets", offsets.len(), rays.len() + 1)?;
        // Counted and listed in the same mesh, and as the offsets say, also if graphs write to them.
        let tree = self.tree.tree().memory.buffer().allocation();
        enqueues(stream, [tree, offsets.allocation()]).run(|| {
            self.hit_offsets(stream, rays, offsets.reborrow())?;
            self.list_hits(stream, rays, offsets.as_slice(), hits)
        })
    }

    fn hit_offsets(
        &self,
        stream: &Stream,
        rays: DeviceSlice<'_, Ray>,
        offsets: DeviceSliceMut<'_, u64>,
    ) -> Result<()> {
        // SAFETY: the kernel writes a count for each ray.
        let mut counts = unsafe { scratch::<u32>(stream, rays.len())? };
        self.count_hits(stream, rays, &mut counts)?;
        self.topology_kernels.sort.offsets(stream, &counts, offsets)
    }

    fn list_hits(
        &self,
        stream: &Stream,
        rays: DeviceSlice<'_, Ray>,
        offsets: DeviceSlice<'_, u64>,
        mut hits: DeviceSliceMut<'_, RayHit>,
    ) -> Result<()> {
        let (capacity, kernel) = (hits.len() as u64, self.kernels.rays()?.list_hits);
        for start in (0..rays.len()).step_by(CHUNK) {
            let end = rays.len().min(start.saturating_add(CHUNK));
            let (part, n) = (rays.slice(start..end)?, end - start);
            let from = offsets.slice(start..=end)?;
            let args = (self.view(), part, n as u32, from, hits.reborrow(), capacity);
            // SAFETY: the kernel reads the offset of each ray and the one after it, and writes from the one
            // to the other, as far as `capacity`.
            unsafe { kernel.launch(stream, LaunchConfig::cover(n, BLOCK), args)? };
        }
        Ok(())
    }

    /// Launches a kernel that writes an answer for each ray.
    fn for_rays<T: Copy + 'static>(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        rays: DeviceSlice<'_, Ray>,
        mut answers: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        same_length("answers", answers.len(), rays.len())?;
        for start in (0..rays.len()).step_by(CHUNK) {
            let end = rays.len().min(start.saturating_add(CHUNK));
            let (part, n) = (rays.slice(start..end)?, end - start);
            let args = (self.view(), part, n as u32, answers.slice_mut(start..end)?);
            // SAFETY: thread i reads ray i and writes answer i, if there are as many.
            unsafe { kernel.launch(stream, LaunchConfig::cover(n, BLOCK), args)? };
        }
        Ok(())
    }
}
