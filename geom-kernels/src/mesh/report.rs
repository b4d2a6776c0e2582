//! Reports of the defects and the size of a mesh: device/geom/mesh/report.cuh.

use cuda_safe::{DeviceBuffer, DeviceSliceMut, Result, Stream, kernels};

use super::topology::{Surface, Topology};
use super::validate::{Counts, SUMS_AT};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, cover_many};
use crate::part::{enqueues, scratch};
use crate::preparation::Operation;

kernels! {
    #[name = "mesh_{}"]
    pub(super) struct Report;
    // SAFETY: the kernels read faces below their number, and of them points that there are, and add to the counts
    // by atomic operations. Bits are set of points that there are, and each block writes two sums. They work by
    // whole warps, and `measure_faces` by blocks of 256.
    unsafe in Source::MESH_REPORT {
        safe fn validate(
            points: &[[f32; 3]],
            faces: &[[u32; 3]],
            point_count: u32,
            face_count: u32,
            counts: &mut [Counts],
        ) where point_count <= points.len(), face_count <= faces.len(), 1 <= counts.len(), block.x == 256;
        safe fn bound_points(points: &[[f32; 3]], point_count: u32, counts: &mut [Counts])
            where point_count <= points.len(), 1 <= counts.len(), block.x == 256;
        safe fn measure_faces(
            points: &[[f32; 3]],
            faces: &[[u32; 3]],
            point_count: u32,
            face_count: u32,
            counts: &mut [Counts],
            used: &mut [u32],
            areas: &mut [f64],
            volumes: &mut [f64],
        ) where point_count <= points.len(), face_count <= faces.len(), 1 <= counts.len(),
                point_count <= 32 * used.len(), grid.x <= areas.len(), grid.x <= volumes.len(),
                block.x == 256;
        safe fn count_points(used: &[u32], words: u32, counts: &mut [Counts])
            where words <= used.len(), 1 <= counts.len(), block.x == 256;
        /// Reads 3 keys and indices for each face, and the faces of these indices.
        ///
        /// # Safety
        /// `places` holds indices of edges.
        unsafe fn count_edges(
            faces: &[[u32; 3]],
            face_count: u32,
            keys: &[u64],
            places: &[u32],
            bits: u32,
            counts: &mut [Counts],
        ) where face_count <= faces.len(), 3 * face_count <= keys.len(),
                3 * face_count <= places.len(), 1 <= counts.len(), block.x == 256;
    }
}
of_source!(Report, Source::MESH_REPORT);

/// The defects and the size of a mesh. All values are the same on every run and every device.
///
/// Edges are those of faces that are not skipped and whose three indices differ; two edges are equal if they have the
/// same two indices. So points with the same position and different indices make boundaries: weld them first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeshReport {
    /// The number of points.
    pub points: usize,
    /// The number of faces.
    pub faces: usize,
    /// Faces with an index out of range, or with a vertex that is not finite or has a coordinate beyond 2^60. Queries
    /// ignore them, and the following fields do not count them.
    pub skipped_faces: usize,
    /// Faces without area that are not skipped: an index is repeated, or the vertices are exactly collinear. The test
    /// has no rounding errors.
    pub degenerate_faces: usize,
    /// How many edges there are.
    pub edges: usize,
    /// Edges of one face.
    pub boundary_edges: usize,
    /// Edges of more than two faces.
    pub non_manifold_edges: usize,
    /// Edges of two faces that run along it in the same direction: one of them has the wrong orientation.
    pub inconsistent_edges: usize,
    /// Points that no face with edges uses.
    pub isolated_points: usize,
    /// The Euler characteristic, points - edges + faces, of faces with edges and the points that they use. For a
    /// closed, connected manifold it is 2 less twice the number of its handles: 2 for a sphere, 0 for a torus.
    pub euler_characteristic: i64,
    /// Whether there are edges, and each has at least two faces.
    pub closed: bool,
    /// Whether there are edges, and the faces of each two-face edge run along it in opposite directions.
    pub oriented: bool,
    /// Whether there are edges, and each has two faces that run along it in opposite directions: then the mesh has an
    /// inside. Faces without area may be among them. Self-intersections and connectedness are not tested.
    pub watertight: bool,
    /// The signed volume, in f64. For a watertight mesh it is the volume of the inside, and positive if faces are
    /// counter-clockwise seen from outside. For an open mesh it is the volume between the faces and the centre of the
    /// points' bounds.
    pub volume: f64,
    /// The area of all faces, in f64.
    pub area: f64,
}

impl MeshReport {
    fn new(surface: Surface<'_>, counts: &Counts) -> Self {
        let (points, faces) = (surface.points().len(), surface.faces().len());
        let number = |count: u32| count as usize;
        let skipped_faces = counts.validation().skipped();
        // Each count is below 2^31.
        let connected = i64::from(surface.face_count())
            - i64::from(counts.out_of_range)
            - i64::from(counts.not_finite)
            - i64::from(counts.collapsed);
        let some = counts.edges > 0;
        let closed = some && counts.boundary_edges == 0;
        let oriented = some && counts.inconsistent_edges == 0;
        Self {
            points,
            faces,
            skipped_faces,
            degenerate_faces: number(counts.degenerate),
            edges: number(counts.edges),
            boundary_edges: number(counts.boundary_edges),
            non_manifold_edges: number(counts.non_manifold_edges),
            inconsistent_edges: number(counts.inconsistent_edges),
            isolated_points: points.saturating_sub(number(counts.used_points)),
            euler_characteristic: i64::from(counts.used_points) - i64::from(counts.edges)
                + connected,
            closed,
            oriented,
            watertight: closed && oriented && counts.non_manifold_edges == 0,
            volume: counts.six_volumes / 6.0,
            area: counts.twice_area * 0.5,
        }
    }
}

impl Topology {
    /// Returns the defects and the size of a mesh. Waits.
    ///
    /// # Errors
    /// A stream that records; otherwise if the driver returns an error.
    pub fn report(&self, stream: &Stream, surface: Surface<'_>) -> Result<MeshReport> {
        let mut counts = Counts::start(stream)?;
        if surface.face_count() > 0 {
            self.geometry().prepare_kernels(&[Operation::MESH_REPORT])?;
            // All kernels must see the same mesh, even if a graph writes to it.
            let (points, faces) = (surface.points(), surface.faces());
            enqueues(stream, [faces.allocation(), points.allocation()]).run(|| {
                self.measure(stream, surface, &mut counts)?;
                self.count_edges(stream, surface, &mut counts)
            })?;
        }
        Ok(MeshReport::new(surface, &Counts::read(stream, &counts)?))
    }

    /// Measures single faces and points, and sums the results.
    fn measure(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        counts: &mut DeviceBuffer<u64>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Report>()?;
        let (points, faces) = (surface.points(), surface.faces());
        let (p, f) = (surface.point_count(), surface.face_count());
        let words = points.len().div_ceil(32);
        let mut used = DeviceBuffer::<u32>::zeroed(stream, words)?;
        let launch = cover(faces.len());
        let blocks = launch.grid.x as usize;
        // SAFETY: the kernel writes a sum for each block, before the sums are read.
        let (mut areas, mut volumes) =
            unsafe { (scratch::<f64>(stream, blocks)?, scratch::<f64>(stream, blocks)?) };
        kernels.bound_points(stream, cover_many(points.len()), points, p, as_counts(counts)?)?;
        let (to, sums) = (as_counts(counts)?, (&mut areas, &mut volumes));
        kernels
            .measure_faces(stream, launch, points, faces, p, f, to, &mut used, sums.0, sums.1)?;
        // `n` is less than 2^27.
        let n = words as u32;
        kernels.count_points(stream, cover(words), &used, n, as_counts(counts)?)?;
        let sums = counts.slice_mut(SUMS_AT..SUMS_AT + 2)?.cast_mut::<f64>()?;
        let (area, volume) = sums.split_at_mut(1)?;
        self.sort.sum(stream, &areas, area)?;
        self.sort.sum(stream, &volumes, volume)
    }

    fn count_edges(
        &self,
        stream: &Stream,
        surface: Surface<'_>,
        counts: &mut DeviceBuffer<u64>,
    ) -> Result<()> {
        let edges = self.sorted_edges(stream, surface)?;
        let kernels = self.geometry().kernels::<Report>()?;
        let (launch, keys, places) = (cover(edges.keys().len()), edges.keys(), edges.indices());
        let (n, bits, to) = (surface.face_count(), surface.bits(), as_counts(counts)?);
        // SAFETY: a sort of the edges has written their indices.
        unsafe { kernels.count_edges(stream, launch, surface.faces(), n, keys, places, bits, to) }
    }
}

pub(super) fn as_counts(words: &mut DeviceBuffer<u64>) -> Result<DeviceSliceMut<'_, Counts>> {
    words.as_slice_mut().cast_mut()
}
