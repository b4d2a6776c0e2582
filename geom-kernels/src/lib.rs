//! Geometry on the GPU: batch calls for Rust, and device headers for your own kernels.
//!
//! - [`bvh`]: hierarchies of boxes.
//! - [`hash_grid`]: the points within a radius, among millions of points that move.
//! - [`isosurface`]: the surface in a field, as a mesh.
//! - [`mesh`]: triangle meshes.
//! - [`structures`]: the same structures in host memory, for queries on the CPU and for kernels in Rust (feature `rust-kernels`).
//! - [`algorithms`]: sorts, prefix sums, reductions, selections.
//! - [`volume`]: sparse volumes, from NanoVDB files and made on the device: samples, gradients, rays.
//! - [`headers`] and [`program`]: the same for your own kernels, with vectors, matrices, rotations, boxes
//!   and rays.
//!
//! Batch calls read and write device buffers, are enqueued on the stream that is passed, and can be
//! recorded in a graph; calls that wait say so. They are safe: whatever the buffers contain, nothing
//! outside them is read or written. Results do not depend on the device, on scheduling or on compiler
//! options, because everything that decides a result is exact arithmetic (`geom/math/exact.cuh`).
//!
//! [`GeometryKernels`] has the kernels. They are part of this crate as PTX. Every driver from CUDA 12.0 on
//! compiles it for devices from Turing on (compute capability 7.5), which takes some tenths of a second
//! the first time; the driver caches the result. No compiler and no header of CUDA is needed.
//!
//! # A first program
//! Each point moves towards a mesh, and farther if it has fewer neighbours:
//! ```no_run
//! use cuda_safe::prelude::*;
//! use geom_kernels::mesh::{ClosestPoint, shapes};
//! use geom_kernels::prelude::*;
//!
//! kernels! {
//!     struct Kernels;
//!     // SAFETY: thread i reads and writes element i, and only if i < n.
//!     unsafe in geom_kernels::program(r#"
//!         #include <geom/mesh.cuh>
//!         extern "C" __global__ void pull(const geom::ClosestPoint* closest, const unsigned* neighbors,
//!                                         geom::vec3<float>* points, unsigned n) {
//!             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!             if (i >= n) return;
//!             points[i] += (closest[i].position - points[i]) * (0.1f / (1 + neighbors[i]));
//!         }"#) {
//!         safe fn pull(
//!             closest: &[ClosestPoint], neighbors: &[u32], points: &mut [[f32; 3]], n: u32 = points.len(),
//!         ) over n where closest.len() == n, neighbors.len() == n;
//!     }
//! }
//!
//! fn main() -> cuda_safe::Result<()> {
//!     let (context, ball) = (Context::new(0)?, shapes::icosphere(4, 1.0)?);
//!     let (stream, geometry) = (&context.stream()?, &GeometryKernels::new(&context));
//!     let kernels = Kernels::load(&context)?;
//!     let mut points = DeviceBuffer::from_slice(stream, &[[0.1f32, 0.2, 0.3]; 1000])?;
//!     let mesh = Mesh::upload(stream, geometry, &ball, MeshOptions::default())?;
//!     let grid = HashGrid::build(stream, geometry, &points, 0.1, GridOptions::default())?;
//!     let mut closest = DeviceBuffer::zeroed(stream, points.len())?;
//!     let mut neighbors = DeviceBuffer::zeroed(stream, points.len())?;
//!     mesh.closest_points(stream, &PointQueries::at(&points), &mut closest)?;
//!     grid.count_neighbors(stream, &GridQueries::at_grid_points(0.1), &mut neighbors)?;
//!     kernels.pull(stream, &closest, &neighbors, &mut points)?;
//!     println!("{:?}", points.to_vec(stream)?.first());
//!     Ok(())
//! }
//! ```
//!
//! # Features
//! - `mesh-files`: meshes from and to OBJ, STL and PLY files.
//! - `volume-codecs`: NanoVDB files that are compressed with zip or Blosc; others need no feature.
//! - `tape`: operations with gradients, which a tape records: see the module `tape`.
//! - `ndarray`: buffers from and to arrays of `ndarray`.

// Some items are only for tests; with the feature, as in this workspace, both lints are on.
#![cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, reason = "the feature exports what tests need")
)]

pub mod algorithms;
pub mod bvh;
mod geometry;
pub mod hash_grid;
mod headers;
pub mod isosurface;
mod layout;
mod lengths;
pub mod mesh;
mod order;
mod part;
mod points;
pub mod prelude;
mod preparation;
mod ray;
mod real;
mod rows;
pub mod structures;
#[cfg(feature = "tape")]
pub mod tape;
pub mod volume;

pub use geometry::GeometryKernels;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use geometry::{ptx, sources};
pub use headers::{headers, program};
pub use layout::Aabb;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use layout::{Layout, layouts};
pub use order::QueryOrder;
pub use points::{MAX_POINTS, Points};
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use preparation::Operation;
pub use ray::Ray;
pub use real::Real;

/// Compiles the examples of the README, one of which records on a tape.
#[cfg(all(doctest, feature = "tape"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
