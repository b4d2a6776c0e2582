//! Operations with gradients: batch calls that a [`Tape`](::tape::Tape) records.
//!
//! Each is named `record_` plus the name of the batch call, and takes the [recorder](::tape::Recorder) instead of the
//! stream. Its results have the same bits.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign, shapes};
//! use tape::{Seeds, Tape};
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let sphere = shapes::icosphere(5, 1.0)?;
//! let mesh = Mesh::upload(&stream, &GeometryKernels::new(&context), &sphere, MeshOptions::default())?;
//! let points = DeviceBuffer::from_slice(&stream, &[[0.0f32, 0.0, 0.5], [3.0, 0.0, 0.0]])?;
//! let mut distances = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
//!
//! let mut tape = Tape::record(&stream, |t| {
//!     t.watch(&points)?;
//!     t.watch(mesh.points())?;
//!     mesh.record_signed_distances(t, &PointQueries::at(&points), Sign::Normal, &mut distances)
//! })?;
//! let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 2])?;
//! tape.backward_with(&stream, &Seeds::new().with(&distances, &ones)?)?;
//! let outwards = tape.gradient(&points)?.to_vec(&stream)?;
//! assert!((outwards[1][0] - 1.0).abs() < 1e-3);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! | operation | gradients of | with respect to |
//! |---|---|---|
//! | [`Mesh::record_closest_points`] | position, squared distance, u, v | points, vertices |
//! | [`Mesh::record_distances`], [`Mesh::record_signed_distances`] | distance | points, vertices |
//! | [`Mesh::record_closest_hits`] | t, u, v | origins, directions, vertices |
//! | [`Mesh::record_positions_at`] | position | u, v, vertices |
//! | [`Mesh::record_normals_at`] | unit normal of a face | vertices |
//! | [`Mesh::record_attributes_at`] | attribute | u, v, attributes of vertices |
//! | [`Topology::record_vertex_normals`] | unit normal of a vertex | vertices |
//! | [`MarchingCubes::record_extract`], [`MarchingCubes::record_extract_into`] | vertices | numbers of the field |
//! | [`VolumeField::record_update`] | numbers of the field | values of voxels |
//! | [`GeometryKernels::record_sum`], [`GeometryKernels::record_mean`] | sum, mean | elements |
//! | [`GeometryKernels::record_dot`], [`GeometryKernels::record_squared_norm`] | product, sum of squares | elements |
//! | [`GeometryKernels::record_norm`], [`GeometryKernels::record_norm_1`], [`GeometryKernels::record_norm_max`] | norm | elements |
//! | [`Volume::record_sample`] | value | positions, [values of voxels](crate::volume::Volume::variables) |
//! | [`Volume::record_sample_indexed`] | value | positions, the array of values |
//!
//! # Structures
//! The structure of a mesh's hierarchy, the face or feature of a result, and the side of a mesh that a point is on
//! have no gradient. The gradients of vertices are those of the memory of [`Mesh::points`]: watch it, or write the
//! vertices by a recorded launch, [refit](crate::mesh::Mesh::refit), and query. A mesh whose points were changed
//! after its hierarchy was built or refitted is refused. Adjoints do not use the hierarchy, so it may be refitted and
//! rebuilt after the query. They read points, vertices and faces: a tape copies these before recorded launches
//! overwrite them, and returns an error with the operation's name if other code has overwritten them.
//!
//! A volume is one allocation of values and the nodes that lead to them. It must not change before the pass. The
//! gradient with respect to values has the same layout.
//!
//! The faces that [`MarchingCubes`] finds and the number of vertices have no gradient. Its normals have no adjoint,
//! and recording them is refused. Data that a mesh computes when it is built and refitted, such as
//! [`Mesh::vertex_normals`](crate::mesh::Mesh::vertex_normals), is not part of a recording.
//!
//! # Where there is no derivative
//! Geometric functions have kinks and jumps, at which a pass takes these gradients:
//!
//! | where | gradient |
//! |---|---|
//! | several faces, edges or vertices are equally near | that of the result's face, edge or vertex |
//! | a distance is 0 | 0; a signed one: the unit normal of the face's plane, 0 without area; the square is smooth |
//! | a closest point on a face without area | as for the result's edge or vertex; a face thinner than 2^-23 of its sides is its longest edge |
//! | nothing is found, or there is no such face | 0 |
//! | a ray meets an edge of two faces | the gradient of the face that the result names |
//! | a ray along a face, or one without area | 0 |
//! | surfaces that become visible at an edge that moves | not included |
//! | the normal of a face without area; of a vertex where normals cancel, or without faces | 0 |
//! | a trilinear sample between cells | the gradient of the cell towards greater coordinates |
//! | a sample that tiles or the background come into | they are constants |
//! | a position that is not finite, or beyond 2^30 | 0 |
//! | a value of a field that equals the surface's value | the sum over its vertices, all on edges to smaller values |
//! | an edge of a field with equal ends | it has no vertex |
//! | the 2-norm of zeros, the 1-norm of a zero | 0 |
//! | several numbers have the maximum norm | the sign of the first of them; 0 if all are zero |
//!
//! # Queries in your own kernels
//! Kernels in Rust query the [structures](crate::structures), and are recorded as they are. For kernels in C++,
//! `OpSpec::differentiate` generates the adjoint of one that calls the device headers. Closest points, signed
//! distances, hits of rays, positions and normals of faces have the gradients of the calls above, with respect to the
//! query and, if the mesh is a [`RecordedMesh`], to the mesh's points. Samples of volumes have gradients with respect to
//! positions and, for the functions whose names end in `_index`, to the array of values.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer, LaunchConfig};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::mesh::{Mesh, MeshOptions, shapes};
//! use geom_kernels::tape::RecordedMesh;
//! use tape::{Element, FloatType, OpSpec, Param, Tape};
//!
//! const SOURCE: &str = r#"
//!     #include <geom/mesh.cuh>
//!     // How far each point is within the mesh, squared.
//!     extern "C" __global__ void depth(geom::Mesh mesh, const geom::vec3<float>* x, float* out, unsigned n) {
//!         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!         if (i >= n) return;
//!         geom::ClosestPoint closest;
//!         float d = fminf(geom::signed_distance(mesh, x[i], &closest), 0.0f);
//!         out[i] = d * d;
//!     }"#;
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let geometry = GeometryKernels::new(&context);
//! let spec = OpSpec::new("depth")
//!     .param(RecordedMesh::param("mesh"))
//!     .param(Param::buffer("x", Element::vector(FloatType::F32, 3)).len("n").active())
//!     .param(Param::buffer("out", Element::F32).len("n").active())
//!     .param(Param::value("n"));
//! // The promise: thread i touches element i of each buffer, and only if i < n.
//! let depth = unsafe { spec.differentiate(&context, &geom_kernels::program(SOURCE)) }?;
//!
//! let sphere = shapes::icosphere(3, 1.0)?;
//! let mesh = Mesh::upload(&stream, &geometry, &sphere, MeshOptions::default())?;
//! let x = DeviceBuffer::from_slice(&stream, &[[0.0f32, 0.0, 0.5], [2.0, 0.0, 0.0]])?;
//! let mut depths = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
//! let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
//! let mut tape = Tape::record(&stream, |t| {
//!     t.watch(&x)?;
//!     t.watch(mesh.points())?;
//!     let view = mesh.recorded_view(t)?;
//!     t.launch(&depth, LaunchConfig::cover(2, 128), (view, &x, &mut depths, 2u32))?;
//!     geometry.record_sum(t, &depths, &mut loss)
//! })?;
//! tape.backward(&stream, &loss)?;
//! assert!(tape.gradient(&x)?.to_vec(&stream)?[0][2] < 0.0);
//! assert_eq!(tape.gradient(mesh.points())?.len(), sphere.points.len());
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! The adjoint repeats the search, so the hierarchy, the grid or the volume must not change before it has run: a mesh
//! that is refitted, or a grid that is built again, between the launch and the pass is an error.
//!
//! Values that a structure copies have no gradient, and a kernel whose outputs depend on them is refused:
//! `NotDifferentiable` names the line, with the reason `Lost`. These are positions, deltas and distances of
//! neighbours without the array (see below), the normals of vertices, winding numbers, crossings of rays with a
//! volume, and distances to the boxes of a `Bvh`. Comparisons and indices are accepted, and so is a value that the
//! kernel declares as a constant with `geom::ad::stop`.
//!
//! # Sums over neighbours
//! Give `for_each_neighbor`, `find_neighbor`, `NeighborIterator::next`, `nearest_neighbors` and `point_at` the array that
//! the [grid](crate::hash_grid) was built from. Positions and distances then come from the array, and the gradient with
//! respect to the array is complete: each point has a part as the centre and a part as a neighbour.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer, LaunchConfig};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::hash_grid::{GridOptions, GridView, HashGrid};
//! use tape::{Element, FloatType, OpSpec, Param, Tape};
//!
//! const SOURCE: &str = r#"
//!     #include <geom/hash_grid.cuh>
//!     using namespace geom;
//!
//!     // density[i] = sum of (h^2 - d^2)^3 over the neighbours within h.
//!     extern "C" __global__ void density(
//!         HashGrid<float> grid, const vec3<float>* x, float h, float* density, unsigned n
//!     ) {
//!         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!         if (i >= n) return;
//!         float sum = 0;
//!         for_each_neighbor(grid, x, x[i], h, [&](const Neighbor<float>& j) {
//!             float inside = h * h - j.distance_squared;
//!             sum += inside * inside * inside;
//!         });
//!         density[i] = sum;
//!     }"#;
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let point = Element::vector(FloatType::F32, 3);
//! let spec = OpSpec::new("density")
//!     .param(Param::argument::<GridView<'_, f32>>("grid"))
//!     .param(Param::buffer("x", point).len("n").active())
//!     .param(Param::value("h"))
//!     .param(Param::buffer("density", Element::F32).len("n").active())
//!     .param(Param::value("n"));
//! // The promise: thread i writes density i, only if i < n; the grid was built from n points.
//! let density = unsafe { spec.differentiate(&context, &geom_kernels::program(SOURCE)) }?;
//!
//! let x = DeviceBuffer::from_slice(&stream, &[[0.0f32, 0.0, 0.0], [0.1, 0.0, 0.0]])?;
//! let mut sums = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
//! let mut norm = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
//! let geometry = GeometryKernels::new(&context);
//! let grid = HashGrid::build(&stream, &geometry, &x, 0.5, GridOptions::default())?;
//! let mut tape = Tape::record(&stream, |t| {
//!     t.watch(&x)?;
//!     t.launch(&density, LaunchConfig::cover(2, 128), (grid.view(), &x, 0.5f32, &mut sums, 2u32))?;
//!     geometry.record_norm(t, &sums, &mut norm)
//! })?;
//! tape.backward(&stream, &norm)?;
//! assert!(tape.gradient(&x)?.to_vec(&stream)?[0][0] > 0.0);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! The generated adjoint adds to the gradients of neighbours by atomics. A hand-written adjoint can let each point
//! gather the gradients of all its pairs, which needs no atomics and suits deterministic tapes: write a kernel that
//! visits the same neighbours, and register both with `OpSpec::register`. It reads the gradients of other points'
//! sums, so it can't clear them: the kernel must then *add* to sums that were filled with 0. Each step of a
//! simulation that builds a grid needs a separate grid.
//!
//! [`Volume::record_sample`]: crate::volume::Volume::record_sample
//! [`Volume::record_sample_indexed`]: crate::volume::Volume::record_sample_indexed
//! [`Mesh::record_closest_hits`]: crate::mesh::Mesh::record_closest_hits
//! [`GeometryKernels::record_sum`]: crate::GeometryKernels::record_sum
//! [`GeometryKernels::record_mean`]: crate::GeometryKernels::record_mean
//! [`GeometryKernels::record_dot`]: crate::GeometryKernels::record_dot
//! [`GeometryKernels::record_squared_norm`]: crate::GeometryKernels::record_squared_norm
//! [`GeometryKernels::record_norm`]: crate::GeometryKernels::record_norm
//! [`GeometryKernels::record_norm_1`]: crate::GeometryKernels::record_norm_1
//! [`GeometryKernels::record_norm_max`]: crate::GeometryKernels::record_norm_max
//! [`Mesh::record_positions_at`]: crate::mesh::Mesh::record_positions_at
//! [`Mesh::record_normals_at`]: crate::mesh::Mesh::record_normals_at
//! [`Mesh::record_attributes_at`]: crate::mesh::Mesh::record_attributes_at
//! [`Topology::record_vertex_normals`]: crate::mesh::Topology::record_vertex_normals
//! [`MarchingCubes`]: crate::isosurface::MarchingCubes
//! [`MarchingCubes::record_extract`]: crate::isosurface::MarchingCubes::record_extract
//! [`MarchingCubes::record_extract_into`]: crate::isosurface::MarchingCubes::record_extract_into
//! [`VolumeField::record_update`]: crate::isosurface::VolumeField::record_update
//! [`Mesh::points`]: crate::mesh::Mesh::points
//! [`Mesh::record_closest_points`]: crate::mesh::Mesh::record_closest_points
//! [`Mesh::record_distances`]: crate::mesh::Mesh::record_distances
//! [`Mesh::record_signed_distances`]: crate::mesh::Mesh::record_signed_distances

mod isosurface;
mod mesh_evaluate;
mod mesh_normals;
mod mesh_points;
mod mesh_rays;
mod norms;
mod reductions;
mod views;
mod volume;

pub use reductions::Summed;
pub use views::RecordedMesh;
pub use volume::DifferentiableValue;

use cuda_safe::{DeviceSlice, Result};
use tape::{Adjoint, CustomBuilder, CustomOp, Differentiable, Gradient, Handle, Primal};

use crate::mesh::Surface;

/// An operation without its adjoint.
struct Recorded<T> {
    /// The operation's name in messages.
    name: &'static str,
    /// The memory that the operation writes, whose gradient the adjoint reads.
    out: Handle<T>,
    /// The number of elements of `out`; without elements no adjoint runs.
    count: usize,
    /// The most calls of `grad_add` by the adjoint.
    adds: usize,
}

impl<T: Differentiable> Recorded<T> {
    /// Returns the operation with this adjoint, which is called with the gradient of `out`, if that is not zero.
    fn adjoint<F>(self, adjoint: F) -> WithAdjoint<T, F>
    where
        F: FnMut(&Adjoint<'_>, Gradient<'_, T>) -> Result<()> + Send + 'static,
    {
        WithAdjoint { op: self, adjoint }
    }
}

/// An operation with its adjoint; [`Recorded::adjoint`] creates it.
struct WithAdjoint<T, F> {
    op: Recorded<T>,
    adjoint: F,
}

impl<T, F> CustomOp for WithAdjoint<T, F>
where
    T: Differentiable,
    F: FnMut(&Adjoint<'_>, Gradient<'_, T>) -> Result<()> + Send + 'static,
{
    fn name(&self) -> &str {
        self.op.name
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let g = pass.gradient(self.op.out)?;
        if self.op.count == 0 || g.is_null() {
            return Ok(());
        }
        (self.adjoint)(pass, g)
    }

    fn summands(&self) -> Option<usize> {
        Some(self.op.adds)
    }
}

/// Returns a value as a view, for arguments that consist of views.
fn value<'a, T: Copy + 'static>(
    pass: &'a Adjoint<'_>,
    what: Handle<T>,
) -> Result<DeviceSlice<'a, T>> {
    // SAFETY: adjoints of this crate pass it only to kernels that write gradients and the adjoints' memory.
    unsafe { pass.value(what)?.as_slice() }
}

/// The points and faces of a mesh at the time of the operation.
#[derive(Clone, Copy)]
struct Corners {
    points: Handle<[f32; 3]>,
    faces: Handle<[u32; 3]>,
}

impl Corners {
    /// Declares the points and faces, which the forward and the adjoint read.
    fn read(custom: &mut CustomBuilder<'_>, surface: Surface<'_>) -> Result<Self> {
        let points = custom.reads(surface.points(), Primal::Entry)?;
        Ok(Self { points, faces: custom.reads_inactive(surface.faces(), Primal::Entry)? })
    }

    fn surface<'a>(self, pass: &'a Adjoint<'_>) -> Result<Surface<'a>> {
        Surface::new(value(pass, self.points)?, value(pass, self.faces)?)
    }
}

/// Returns whether two views share memory, so that several threads may add to one gradient.
fn share_memory<T: Copy + 'static, U: Copy + 'static>(
    one: &DeviceSlice<'_, T>,
    other: &DeviceSlice<'_, U>,
) -> bool {
    std::sync::Arc::ptr_eq(one.allocation(), other.allocation())
}
