//! Queries of rays.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, LaunchConfig, Result, Stream, WriteView, kernels,
};

use super::layout::RayHit;
use super::{Mesh, MeshView};
use crate::Ray;
use crate::geometry::{Source, of_source};
use crate::lengths::{in_parts, same_length};
use crate::rows::{Find, Rows};

/// Threads in a block.
const BLOCK: u32 = 128;

kernels! {
    #[name = "mesh_{}"]
    struct Rays;
    // SAFETY: thread i reads ray i and writes result i, if i < n.
    unsafe in Source::MESH_RAYS {
        safe fn nearest_hits(mesh: MeshView<'_>, rays: &[Ray], n: u32, hits: &mut [RayHit])
            where n <= rays.len(), n <= hits.len();
        safe fn any_hits(mesh: MeshView<'_>, rays: &[Ray], n: u32, hits: &mut [u8])
            where n <= rays.len(), n <= hits.len();
        safe fn count_hits(mesh: MeshView<'_>, rays: &[Ray], n: u32, counts: &mut [u32])
            where n <= rays.len(), n <= counts.len();
        /// Reads the offset of each ray and the next one, and writes between the two, up to `capacity`.
        ///
        /// # Safety
        /// The offsets ascend.
        unsafe fn list_hits(
            mesh: MeshView<'_>,
            rays: &[Ray],
            n: u32,
            offsets: &[u64],
            hits: &mut [RayHit],
            capacity: u64,
        ) where n <= rays.len(), n < offsets.len(), capacity <= hits.len();
    }
}
of_source!(Rays, Source::MESH_RAYS);

/// The hits of each ray, one list after the other.
#[derive(Debug)]
pub struct HitLists {
    /// The start of each list, and at the end the number of all hits: one more than rays.
    pub offsets: DeviceBuffer<u64>,
    /// The hits: those of ray i are `hits[offsets[i]..offsets[i + 1]]`, nearest first, of equally near ones
    /// the face of the least index first.
    pub hits: DeviceBuffer<RayHit>,
}

impl Mesh<'_> {
    /// Finds the first hit of each ray: the hit of least t; among equal t, the hit of the least face index.
    ///
    /// Both sides of faces are hit. A ray that passes through a shared edge or vertex hits exactly one of its faces,
    /// so no ray passes through a closed mesh without a hit (S. Woop, C. Benthin, I. Wald, "Watertight Ray/Triangle
    /// Intersection", 2013; ties by simulation of simplicity). Results do not depend on how the hierarchy was built
    /// or on the device. Queries are fastest if neighbouring rays in the array are similar.
    ///
    /// # Errors
    /// `hits` has another length than there are rays; otherwise if the driver returns an error.
    pub fn closest_hits<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        hits: impl WriteView<'b, RayHit>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Rays>()?;
        for_rays(rays.into(), hits.write_view(), |launch, rays, n, out| {
            kernels.nearest_hits(stream, launch, self.view(), rays, n, out)
        })
    }

    /// Finds whether each ray hits anything.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits).
    pub fn any_hits<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        hits: impl WriteView<'b, u8>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Rays>()?;
        for_rays(rays.into(), hits.write_view(), |launch, rays, n, out| {
            kernels.any_hits(stream, launch, self.view(), rays, n, out)
        })
    }

    /// Counts the faces that each ray hits. An edge or a vertex that it passes through counts once.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits).
    pub fn count_hits<'a, 'b>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Rays>()?;
        for_rays(rays.into(), counts.write_view(), |launch, rays, n, out| {
            kernels.count_hits(stream, launch, self.view(), rays, n, out)
        })
    }

    /// Returns all hits of each ray, in memory that is just large enough. Waits for the number of them.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits); a stream that records.
    pub fn all_hits<'a>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
    ) -> Result<HitLists> {
        let sort = &self.topology_kernels.sort;
        let (offsets, hits) = self.hits(stream, rays.into())?.lists(stream, sort)?;
        Ok(HitLists { offsets, hits })
    }

    /// Works like [`all_hits`](Self::all_hits), but writes to the caller's memory, without waiting.
    ///
    /// `offsets` is always right: its last element is the number of hits. If `hits` is shorter, hits beyond its end are
    /// not written, and all others are; if it is longer, the rest is not written.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are rays; otherwise as
    /// [`closest_hits`](Self::closest_hits).
    pub fn all_hits_into<'a, 'b, 'c>(
        &self,
        stream: &Stream,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        offsets: impl WriteView<'b, u64>,
        hits: impl WriteView<'c, RayHit>,
    ) -> Result<()> {
        let (sort, tree) = (&self.topology_kernels.sort, self.tree.tree());
        let memory = tree.memory.buffer().allocation();
        self.hits(stream, rays.into())?.lists_into(stream, sort, memory, offsets, hits)
    }

    fn hits<'a>(
        &'a self,
        stream: &'a Stream,
        rays: DeviceSlice<'a, Ray>,
    ) -> Result<Rows<RayHit, impl Fn(Find<'_, RayHit>) -> Result<()> + 'a>> {
        let kernels = self.geometry().kernels::<Rays>()?;
        let find = move |find: Find<'_, RayHit>| match find {
            Find::Counts(counts) => for_rays(rays, counts, |launch, rays, n, out| {
                kernels.count_hits(stream, launch, self.view(), rays, n, out)
            }),
            Find::Lists(offsets, mut hits) => {
                let capacity = hits.len() as u64;
                in_parts(rays.len(), BLOCK, |range, n, launch| {
                    let (view, from) = (self.view(), offsets.slice(range.start..=range.end)?);
                    let (part, hits) = (rays.slice(range)?, hits.reborrow());
                    // SAFETY: `Rows` has made the offsets by a scan.
                    unsafe {
                        kernels.list_hits(stream, launch, view, part, n, from, hits, capacity)
                    }
                })
            }
        };
        // SAFETY: the kernel writes a count for each ray.
        Ok(unsafe { Rows::new(rays.len(), find) })
    }
}

/// Calls `run` with launches for parts of the rays, their number, and their results.
fn for_rays<T: Copy + 'static>(
    rays: DeviceSlice<'_, Ray>,
    mut answers: DeviceSliceMut<'_, T>,
    run: impl Fn(LaunchConfig, DeviceSlice<'_, Ray>, u32, DeviceSliceMut<'_, T>) -> Result<()>,
) -> Result<()> {
    same_length("answers", answers.len(), rays.len())?;
    in_parts(rays.len(), BLOCK, |range, n, launch| {
        run(launch, rays.slice(range.clone())?, n, answers.slice_mut(range)?)
    })
}
