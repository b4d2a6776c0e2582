//! Kernels that ask every face: what the answers of queries are by definition, bit for bit.

use cuda_safe::nvrtc::Options;
use cuda_safe::{DeviceBuffer, LaunchConfig, Module};
use geom_kernels::mesh::{ClosestPoint, Mesh, PointQueries, Ray, RayHit};

use super::queries::{Fixture, same, split};
use crate::flags::module;
use test_harness::{Failure, TestResult};

pub(crate) const SOURCE: &str = include_str!("../../kernels/mesh_brute.cu");

pub(super) struct Brute {
    module: Module,
}

impl Brute {
    pub(super) fn new(fixture: &Fixture<'_>) -> Result<Self, Failure> {
        Ok(Self { module: module(fixture.device, SOURCE, Options::new())? })
    }

    /// The triangles of all faces, in their order.
    fn triangles(&self, of: &Fixture<'_>, mesh: &Mesh<'_>) -> Result<DeviceBuffer<u32>, Failure> {
        let n = mesh.faces().len();
        let mut triangles = DeviceBuffer::<u32>::zeroed(&of.stream, 16 * n.max(1))?;
        let kernel = self.module.kernel("brute_pack")?;
        if n > 0 {
            let args = (mesh.view(), &mut triangles);
            // SAFETY: writes 16 words for each face, which there is room for.
            unsafe { of.device.launch(&kernel, &of.stream, LaunchConfig::cover(n, 128), args)? };
        }
        Ok(triangles)
    }

    pub(super) fn closest(
        &self,
        of: &Fixture<'_>,
        mesh: &Mesh<'_>,
        points: &[[f32; 3]],
        distances: &[f32],
    ) -> Result<Vec<ClosestPoint>, Failure> {
        let n = points.len();
        let triangles = self.triangles(of, mesh)?;
        let (points, distances) = (of.upload(points)?, of.upload(distances)?);
        let mut out = of.room::<ClosestPoint>(n)?;
        let kernel = self.module.kernel("brute_closest")?;
        let args = (mesh.view(), &triangles, &points, &distances, n as u32, &mut out);
        // SAFETY: reads 16 words for each face, and of n points a distance; writes n answers.
        unsafe { of.device.launch(&kernel, &of.stream, LaunchConfig::cover(n, 64), args)? };
        Ok(out.to_vec(&of.stream)?)
    }

    /// The hits of each ray, the nearest first.
    pub(super) fn hits(
        &self,
        of: &Fixture<'_>,
        mesh: &Mesh<'_>,
        rays: &[Ray],
    ) -> Result<Vec<Vec<RayHit>>, Failure> {
        let (stream, n) = (&of.stream, rays.len());
        let triangles = self.triangles(of, mesh)?;
        let there = of.upload(rays)?;
        let kernel = self.module.kernel("brute_rays")?;
        let (mut nearest, mut counts) = (of.room::<RayHit>(n)?, of.room::<u32>(n)?);
        let head = (mesh.view(), &triangles, &there, n as u32);
        let launch = LaunchConfig::cover(n, 64);
        let args = (head.0, head.1, head.2, head.3, 0u64, &mut nearest, &mut counts, 0u64);
        // SAFETY: reads 16 words for each face, and n rays; writes n answers each. What is not written has
        // null pointers.
        unsafe { of.device.launch(&kernel, stream, launch, args)? };
        let mut offsets = vec![0u64];
        for count in counts.to_vec(stream)? {
            offsets.push(offsets.last().copied().unwrap_or(0) + u64::from(count));
        }
        let offsets_there = of.upload(&offsets)?;
        let total = offsets.last().copied().unwrap_or(0) as usize;
        let mut hits = of.room::<RayHit>(total.max(1))?;
        let args =
            (head.0, head.1, head.2, head.3, &offsets_there, &mut nearest, &mut counts, &mut hits);
        // SAFETY: as above, and as many hits as were counted.
        unsafe { of.device.launch(&kernel, stream, launch, args)? };
        let mut lists = split(&offsets, &hits.to_vec(stream)?[..total])?;
        let none = super::queries::NO_HIT;
        for (list, nearest) in lists.iter_mut().zip(nearest.to_vec(stream)?) {
            // A t is not negative, nor -0: it sorts as its bits.
            list.sort_by_key(|hit| (hit.t.to_bits(), hit.face));
            same("the least of all", &[nearest], &[list.first().copied().unwrap_or(none)])?;
        }
        Ok(lists)
    }

    /// Holds all queries of a mesh against these, at points and along rays.
    pub(super) fn check(
        &self,
        of: &Fixture<'_>,
        mesh: &Mesh<'_>,
        points: &[[f32; 3]],
        rays: &[Ray],
    ) -> TestResult {
        if !points.is_empty() {
            let wanted = self.closest(of, mesh, points, &vec![f32::INFINITY; points.len()])?;
            let there = of.upload(points)?;
            same("closest points", &of.closest(mesh, &PointQueries::at(&there))?, &wanted)?;
        }
        if !rays.is_empty() {
            let (got, wanted) = (of.hits(mesh, rays)?, self.hits(of, mesh, rays)?);
            for (ray, (got, wanted)) in rays.iter().zip(got.iter().zip(&wanted)) {
                same(format!("hits of {ray:?}"), got, wanted)?;
            }
        }
        Ok(())
    }
}
