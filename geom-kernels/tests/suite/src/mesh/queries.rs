//! A stream and the kernels, and every batch query with its answers on the host.

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_safe::{DeviceBuffer, DeviceSlice, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, Mesh, MeshOptions, PointQueries, Ray, RayHit, Sign, TriangleMesh,
};

use crate::Geometry;
use test_harness::{Failure, TestDevice, ensure_eq};

pub(super) struct Fixture<'a> {
    pub(super) device: &'a TestDevice,
    pub(super) stream: Stream,
    pub(super) geometry: GeometryKernels,
}

impl<'a> Fixture<'a> {
    pub(super) fn new(device: &'a TestDevice) -> Result<Self, Failure> {
        Ok(Self { device, stream: device.stream()?, geometry: device.geometry() })
    }

    pub(super) fn upload<T: NoUninit>(&self, data: &[T]) -> Result<DeviceBuffer<T>, Failure> {
        Ok(DeviceBuffer::from_slice(&self.stream, data)?)
    }

    pub(super) fn mesh(
        &self,
        mesh: &TriangleMesh,
        options: MeshOptions,
    ) -> Result<Mesh<'static>, Failure> {
        Ok(Mesh::upload(&self.stream, &self.geometry, mesh, options)?)
    }

    /// Room for answers, full of what is none.
    pub(super) fn room<T: NoUninit + AnyBitPattern>(
        &self,
        n: usize,
    ) -> Result<DeviceBuffer<T>, Failure> {
        let garbage: T = bytemuck::pod_read_unaligned(&vec![0xa5u8; size_of::<T>()]);
        self.upload(&vec![garbage; n])
    }

    pub(super) fn closest(
        &self,
        mesh: &Mesh<'_>,
        queries: &PointQueries<'_>,
    ) -> Result<Vec<ClosestPoint>, Failure> {
        let mut out = self.room::<ClosestPoint>(queries.len())?;
        mesh.closest_points(&self.stream, queries, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }

    pub(super) fn closest_to(
        &self,
        mesh: &Mesh<'_>,
        points: &[[f32; 3]],
    ) -> Result<Vec<ClosestPoint>, Failure> {
        self.closest(mesh, &PointQueries::at(&self.upload(points)?))
    }

    pub(super) fn within(
        &self,
        mesh: &Mesh<'_>,
        queries: &PointQueries<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let mut out = self.room::<u8>(queries.len())?;
        mesh.any_within(&self.stream, queries, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }

    /// Signed distances and closest points; the distances alone are the same.
    pub(super) fn signed(
        &self,
        mesh: &Mesh<'_>,
        queries: &PointQueries<'_>,
        sign: Sign,
    ) -> Result<(Vec<f32>, Vec<ClosestPoint>), Failure> {
        let n = queries.len();
        let (mut alone, mut distances) = (self.room::<f32>(n)?, self.room::<f32>(n)?);
        let mut closest = self.room::<ClosestPoint>(n)?;
        mesh.signed_distances(&self.stream, queries, sign, &mut alone)?;
        mesh.signed_closest_points(&self.stream, queries, sign, &mut distances, &mut closest)?;
        let distances = distances.to_vec(&self.stream)?;
        ensure_eq!(bits(&distances), bits(&alone.to_vec(&self.stream)?));
        Ok((distances, closest.to_vec(&self.stream)?))
    }

    pub(super) fn sides(
        &self,
        mesh: &Mesh<'_>,
        queries: &PointQueries<'_>,
    ) -> Result<Vec<i32>, Failure> {
        let mut out = self.room::<i32>(queries.len())?;
        mesh.classify(&self.stream, queries, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }

    /// The hits of each ray. The nearest hits, counts and whether there are any agree with them.
    pub(super) fn hits(&self, mesh: &Mesh<'_>, rays: &[Ray]) -> Result<Vec<Vec<RayHit>>, Failure> {
        let (stream, n) = (&self.stream, rays.len());
        let there = self.upload(rays)?;
        let mut nearest = self.room::<RayHit>(n)?;
        let (mut any, mut counts) = (self.room::<u8>(n)?, self.room::<u32>(n)?);
        mesh.closest_hits(stream, &there, &mut nearest)?;
        mesh.any_hits(stream, &there, &mut any)?;
        mesh.count_hits(stream, &there, &mut counts)?;
        let lists = mesh.all_hits(stream, &there)?;
        let lists = split(&lists.offsets.to_vec(stream)?, &lists.hits.to_vec(stream)?)?;
        ensure_eq!(lists.len(), n);
        let (any, counts) = (any.to_vec(stream)?, counts.to_vec(stream)?);
        for (i, (list, nearest)) in lists.iter().zip(nearest.to_vec(stream)?).enumerate() {
            let first = list.first().copied().unwrap_or(NO_HIT);
            ensure_eq!(bits(&[nearest]), bits(&[first]), "{:?}: {list:?}", rays[i]);
            ensure_eq!(counts[i] as usize, list.len(), "{:?}: {list:?}", rays[i]);
            ensure_eq!(any[i], u8::from(!list.is_empty()), "{:?}", rays[i]);
        }
        Ok(lists)
    }

    pub(super) fn positions(
        &self,
        mesh: &Mesh<'_>,
        points: &[FacePoint],
    ) -> Result<Vec<[f32; 3]>, Failure> {
        let mut out = self.room::<[f32; 3]>(points.len())?;
        mesh.positions_at(&self.stream, &self.upload(points)?, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }

    pub(super) fn normals(
        &self,
        mesh: &Mesh<'_>,
        points: &[FacePoint],
    ) -> Result<Vec<[f32; 3]>, Failure> {
        let mut out = self.room::<[f32; 3]>(points.len())?;
        mesh.normals_at(&self.stream, &self.upload(points)?, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }

    pub(super) fn attributes<'b, const N: usize>(
        &self,
        mesh: &Mesh<'_>,
        points: &[FacePoint],
        attributes: impl Into<DeviceSlice<'b, [f32; N]>>,
    ) -> Result<Vec<[f32; N]>, Failure>
    where
        [f32; N]: NoUninit + AnyBitPattern,
    {
        let mut out = self.upload(&vec![[99.0f32; N]; points.len()])?;
        mesh.attributes_at(&self.stream, &self.upload(points)?, attributes, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }
}

/// The result where nothing is hit.
pub(super) const NO_HIT: RayHit =
    RayHit { t: f32::INFINITY, face: u32::MAX, u: 0.0, v: 0.0, front: 0 };

/// Lists, one by one.
pub(super) fn split(offsets: &[u64], hits: &[RayHit]) -> Result<Vec<Vec<RayHit>>, Failure> {
    ensure_eq!(offsets.first(), Some(&0));
    ensure_eq!(offsets.last(), Some(&(hits.len() as u64)));
    let list = |pair: &[u64]| hits.get(pair[0] as usize..pair[1] as usize).map(<[RayHit]>::to_vec);
    let lists: Option<Vec<_>> = offsets.windows(2).map(list).collect();
    lists.ok_or_else(|| Failure::new("offsets that do not ascend"))
}

/// For comparisons bit by bit.
pub(super) fn bits<T: NoUninit>(answers: &[T]) -> &[u32] {
    bytemuck::cast_slice(answers)
}

/// Fails unless both have the same bits; says where they first differ.
pub(super) fn same<T: NoUninit + std::fmt::Debug>(
    what: impl std::fmt::Display,
    got: &[T],
    wanted: &[T],
) -> Result<(), Failure> {
    ensure_eq!(got.len(), wanted.len(), "{what}");
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let (a, b) = (std::slice::from_ref(got), std::slice::from_ref(wanted));
        if bits(a) != bits(b) {
            return Err(Failure::new(format!("{what}: {i} is {got:?}, not {wanted:?}")));
        }
    }
    Ok(())
}
