//! Queries of points: closest points, signed distances, sides.

use std::ops::Range;

use cuda_safe::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, KernelArg, LaunchConfig, Result, Stream,
    WriteView,
    arg::{ArgType, UseVisitor},
    kernels,
};

use super::layout::{ClosestPoint, RawPointQueries};
use super::winding::Winding;
use super::{Mesh, MeshView};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, in_parts_of, same_length};
use crate::order::QueryOrder;
use crate::part::{MaybeMut, read};
use crate::points::Points;

/// Threads in a block of queries.
const BLOCK: u32 = 128;

/// The most queries that are sorted at once, which limits the memory for sorting, 16 bytes per query.
const MOST_SORTED: usize = 1 << 24;

/// Bits of the keys that queries are sorted by: `mesh::morton` in device/geom/mesh/batch.cuh.
const KEY_BITS: u32 = 30;

kernels! {
    #[name = "mesh_{}"]
    struct Closest;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks.
    unsafe in Source::MESH_CLOSEST {
        /// # Safety
        /// There is a key for each query: each thread writes only the key of its index.
        unsafe fn point_keys(mesh: MeshView<'_>, queries: &Prepared<'_>, keys: &mut [u32]);
        /// # Safety
        /// There is a closest point for each query: each thread writes only the one of its index.
        unsafe fn closest(
            mesh: MeshView<'_>,
            queries: &Prepared<'_>,
            closest: &mut [ClosestPoint],
        );
        /// # Safety
        /// There is a result for each query: each thread writes only the result of its index.
        unsafe fn within(mesh: MeshView<'_>, queries: &Prepared<'_>, within: &mut [u8]);
    }
}
of_source!(Closest, Source::MESH_CLOSEST);

kernels! {
    #[name = "mesh_{}"]
    struct Signed;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks.
    unsafe in Source::MESH_SIGNED {
        /// # Safety
        /// There is a distance for each query and, if there are any, a closest point: each thread writes only those of
        /// its index, and nothing through a null pointer.
        unsafe fn signed_by_normal(
            mesh: MeshView<'_>,
            queries: &Prepared<'_>,
            distances: &mut [f32],
            closest: MaybeMut<'_, ClosestPoint>,
        );
        /// # Safety
        /// As `signed_by_normal`.
        unsafe fn signed_by_parity(
            mesh: MeshView<'_>,
            queries: &Prepared<'_>,
            distances: &mut [f32],
            closest: MaybeMut<'_, ClosestPoint>,
        );
        /// # Safety
        /// There is a side for each query: each thread writes only the side of its index.
        unsafe fn sides(mesh: MeshView<'_>, queries: &Prepared<'_>, sides: &mut [i32]);
    }
}
of_source!(Signed, Source::MESH_SIGNED);

/// Query points and the distance within which each searches.
///
/// A point that is not finite, or has a coordinate beyond 2^60, finds nothing; nor does a query with a distance that is
/// negative or not a number.
#[derive(Debug, Clone, Copy)]
pub struct PointQueries<'a> {
    points: Points<'a, f32>,
    distances: Option<DeviceSlice<'a, f32>>,
    distance: f32,
    order: QueryOrder,
}

impl<'a> PointQueries<'a> {
    /// Creates queries at these points, without a limit. They may have any layout of [`Points`].
    #[must_use]
    pub fn at(points: impl Into<Points<'a, f32>>) -> Self {
        Self {
            points: points.into(),
            distances: None,
            distance: f32::INFINITY,
            order: QueryOrder::Auto,
        }
    }

    /// Sets the distance limit: farther faces are not found.
    #[must_use]
    pub fn within(mut self, distance: f32) -> Self {
        self.distance = distance;
        self.distances = None;
        self
    }

    /// Sets a limit for each point.
    #[must_use]
    pub fn within_each(mut self, distances: impl Into<DeviceSlice<'a, f32>>) -> Self {
        self.distances = Some(distances.into());
        self
    }

    /// Sets the order in which queries run.
    #[must_use]
    pub fn order(mut self, order: QueryOrder) -> Self {
        self.order = order;
        self
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns the points, which must be packed.
    #[cfg(feature = "tape")]
    pub(crate) fn points(&self) -> Result<DeviceSlice<'a, [f32; 3]>> {
        self.points.recorded()
    }

    /// Returns the limits, if each has its own.
    #[cfg(feature = "tape")]
    pub(crate) fn distances(&self) -> Option<DeviceSlice<'a, f32>> {
        self.distances
    }

    fn check(&self) -> Result<()> {
        let n = self.len();
        if let Some(distances) = self.distances
            && distances.len() != n
        {
            return Err(Error::invalid(format!("{} distances for {n} points", distances.len())));
        }
        Ok(())
    }

    /// Returns the queries in a range, which must be at most as long as they are.
    fn part(&self, range: Range<usize>) -> Result<Self> {
        let distances =
            self.distances.map(|distances| distances.slice(range.clone())).transpose()?;
        Ok(Self { points: self.points.part(range), distances, ..*self })
    }
}

/// How the inside of a mesh is distinguished from the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sign {
    /// By the normals around the closest point. For a closed mesh without self-intersections whose faces are all
    /// oriented outwards, the sign is right for every point: where the normals are ambiguous,
    /// [`Parity`](Self::Parity) decides. For an open mesh with [topology](super::MeshOptions::topology) it is the
    /// sign of the pseudonormal (Bærentzen and Aanæs, 2005); without topology, every mesh is treated as closed.
    #[default]
    Normal,
    /// By the parity of the number of faces that a ray towards +x crosses, without rounding errors. Right for every
    /// closed mesh, whichever way its faces are oriented; for an open mesh it is the parity of that ray.
    Parity,
    /// Inside is where the [winding number](Mesh::winding_numbers) is greater than 1/2, with a `beta` of 2. For open
    /// meshes, and for triangles that overlap or leave gaps; faces are oriented outwards. This is an approximation
    /// that depends on the hierarchy: where the number is within 1e-2 of 1/2, the sign may depend on it. The mesh
    /// needs [`MeshOptions::winding`](super::MeshOptions::winding).
    Winding,
}

impl Mesh<'_> {
    /// Finds the closest point of the mesh for each point.
    ///
    /// It lies on the face of least distance; of faces that are equally far, on the one with the least index.
    /// Results do not depend on how the hierarchy was built, on the device, or on the order of queries; how
    /// distances are rounded is documented in `geom/mesh/closest.cuh`. Their error is at most 4 eps (|q| + the
    /// diagonal of the mesh's box) + 2^-60: edges shorter than that are taken for points. Where nothing is
    /// found, the result's face is [`NO_FACE`](super::NO_FACE) and its distance infinite.
    ///
    /// # Errors
    /// `closest` has another length than there are points; otherwise if the driver returns an error.
    pub fn closest_points<'a>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        closest: impl WriteView<'a, ClosestPoint>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Closest>()?;
        self.for_points(stream, queries, "closest points", closest, |launch, part, out| {
            // SAFETY: `out` has a closest point for each query.
            unsafe { kernels.closest(stream, launch, self.view(), part, out) }
        })
    }

    /// Writes whether a face is within the distance of each point. Faster than
    /// [`closest_points`](Self::closest_points), because it stops at the first such face.
    ///
    /// # Errors
    /// As [`closest_points`](Self::closest_points).
    pub fn any_within<'a>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        within: impl WriteView<'a, u8>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Closest>()?;
        self.for_points(stream, queries, "answers", within, |launch, part, out| {
            // SAFETY: `out` has a result for each query.
            unsafe { kernels.within(stream, launch, self.view(), part, out) }
        })
    }

    /// Computes the signed distance of each point: negative inside, 0 on the mesh, infinite where nothing is found.
    ///
    /// # Errors
    /// `distances` has another length than there are points; otherwise if the driver returns an error.
    pub fn signed_distances<'a>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        sign: Sign,
        distances: impl WriteView<'a, f32>,
    ) -> Result<()> {
        self.signed(stream, queries, sign, distances.write_view(), None)
    }

    /// Works like [`signed_distances`](Self::signed_distances), with the closest points.
    ///
    /// # Errors
    /// `distances` or `closest` have another length than there are points; otherwise if the driver
    /// returns an error.
    pub fn signed_closest_points<'a, 'b>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        sign: Sign,
        distances: impl WriteView<'a, f32>,
        closest: impl WriteView<'b, ClosestPoint>,
    ) -> Result<()> {
        let closest = closest.write_view();
        same_length("closest points", closest.len(), queries.len())?;
        self.signed(stream, queries, sign, distances.write_view(), Some(closest))
    }

    fn signed(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        sign: Sign,
        mut distances: DeviceSliceMut<'_, f32>,
        mut closest: Option<DeviceSliceMut<'_, ClosestPoint>>,
    ) -> Result<()> {
        same_length("distances", distances.len(), queries.len())?;
        if sign == Sign::Winding {
            self.has_moments()?;
        }
        self.in_parts(stream, queries, |part, range| {
            let (launch, view, geometry) = (part.launch(), self.view(), self.geometry());
            let out = distances.slice_mut(range.clone())?;
            let closest = closest.as_mut().map(|closest| closest.slice_mut(range)).transpose()?;
            let closest = MaybeMut(closest);
            // SAFETY: there are a distance and, where there are any, a closest point for each query.
            unsafe {
                match sign {
                    Sign::Normal => geometry
                        .kernels::<Signed>()?
                        .signed_by_normal(stream, launch, view, part, out, closest),
                    Sign::Parity => geometry
                        .kernels::<Signed>()?
                        .signed_by_parity(stream, launch, view, part, out, closest),
                    Sign::Winding => geometry
                        .kernels::<Winding>()?
                        .signed_by_winding(stream, launch, view, part, out, closest),
                }
            }
        })
    }

    /// Finds on which side of a closed mesh each point is: -1 inside, 1 outside, 0 on it; without rounding errors, as
    /// for [`Sign::Parity`]. Distances and limits do not matter; a point that is not finite is outside.
    ///
    /// # Errors
    /// `sides` has another length than there are points; otherwise if the driver returns an error.
    pub fn classify<'a>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        sides: impl WriteView<'a, i32>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Signed>()?;
        self.for_points(stream, queries, "sides", sides, |launch, part, out| {
            // SAFETY: `out` has a side for each query.
            unsafe { kernels.sides(stream, launch, self.view(), part, out) }
        })
    }

    /// Calls `run` for parts of the queries, each sorted if that pays, with the launch and the corresponding elements
    /// of `out`, which must have as many elements as there are queries.
    pub(super) fn for_points<'b, T: Copy + 'static>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        what: &str,
        out: impl WriteView<'b, T>,
        run: impl Fn(LaunchConfig, &Prepared<'_>, DeviceSliceMut<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let mut out = out.write_view();
        same_length(what, out.len(), queries.len())?;
        self.in_parts(stream, queries, |part, range| {
            run(part.launch(), part, out.slice_mut(range)?)
        })
    }

    /// Calls `run` for parts of the queries, each sorted if that pays, with their range among all queries.
    fn in_parts(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        mut run: impl FnMut(&Prepared<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        queries.check()?;
        in_parts_of(queries.len(), MOST_SORTED, BLOCK, |range, n, _| {
            let mut part = Prepared { queries: queries.part(range.clone())?, order: None };
            if queries.order.sorts(n as usize) && !self.faces().is_empty() {
                part.order = Some(self.sorted(stream, &part)?);
            }
            run(&part, range)
        })
    }

    /// Returns the indices of the points, sorted along a Morton curve through the mesh's bounds.
    fn sorted(&self, stream: &Stream, part: &Prepared<'_>) -> Result<DeviceBuffer<u32>> {
        let (sort, n) = (self.topology_kernels.sort.kernels(), part.queries.len());
        let make = |keys: &mut DeviceBuffer<u32>| {
            let kernels = self.geometry().kernels::<Closest>()?;
            // SAFETY: there is a key for each query.
            unsafe { kernels.point_keys(stream, cover(n), self.view(), part, keys) }
        };
        Ok(sort.sort_indices::<u32>(stream, n, KEY_BITS, make)?.into_indices())
    }
}

/// Queries that were checked, and sorted if that pays: `geom::mesh::PointQueries` to a kernel.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    queries: PointQueries<'a>,
    order: Option<DeviceBuffer<u32>>,
}

impl Prepared<'_> {
    /// Returns a launch with a thread for each.
    fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.queries.len(), BLOCK)
    }
}

// SAFETY: the kernels read points, distances and the order of queries below `length`. The points lie in the memory
// that `Points` reports, and the other arrays have as many elements (`PointQueries::check`, `Mesh::sorted`); the
// order is a permutation.
unsafe impl KernelArg for &Prepared<'_> {
    type Abi = RawPointQueries;
    const TYPE: ArgType = ArgType::value::<RawPointQueries>();

    fn abi(&self) -> RawPointQueries {
        let PointQueries { points, distances, distance, .. } = self.queries;
        let (stride, component) = points.strides();
        RawPointQueries {
            points: points.address(),
            stride,
            component,
            distances: distances.map_or(0, |distances| distances.device_ptr()),
            order: self.order.as_ref().map_or(0, DeviceBuffer::device_ptr),
            distance,
            // A part has at most 2^24 queries.
            length: points.len() as u32,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.queries.points.uses(visitor)?;
        if let Some(distances) = &self.queries.distances {
            read(visitor, distances)?;
        }
        self.order.as_ref().map_or(Ok(()), |order| read(visitor, &order.as_slice()))
    }
}
