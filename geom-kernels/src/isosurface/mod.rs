//! Marching cubes: the surface in a field, as a triangle mesh.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::isosurface::{DenseField, IndexToWorld, MarchingCubes};
//! use geom_kernels::mesh::MeshOptions;
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let geometry = GeometryKernels::new(&context);
//!
//! // The distance from a sphere of radius 0.8.
//! let (n, spacing) = (64, 2.0 / 63.0);
//! let at = |i: usize| i as f32 * spacing - 1.0;
//! let distance = |x: f32, y: f32, z: f32| (x * x + y * y + z * z).sqrt() - 0.8;
//! let values: Vec<f32> =
//!     (0..n * n * n).map(|i| distance(at(i / (n * n)), at(i / n % n), at(i % n))).collect();
//! let values = DeviceBuffer::from_slice(&stream, &values)?;
//!
//! let map = IndexToWorld::new([-1.0; 3], [f64::from(spacing); 3])?;
//! let field = DenseField::new(&values, [n, n, n], map)?;
//! let sphere = MarchingCubes::new(&geometry).extract(&stream, &field, 0.0)?;
//! let volume = sphere.download(&stream)?.volume();
//! assert!((volume - 2.14).abs() < 0.01);
//! // For queries.
//! let mesh = sphere.into_mesh(&stream, &geometry, MeshOptions::default())?;
//! # drop(mesh);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! A field is a [`DenseField`], a [`BlockField`] (sparse, of blocks), or a [`VolumeField`] (of a sparse
//! [volume](crate::volume)):
//!
//! ```no_run
//! # use cuda_safe::Context;
//! # use geom_kernels::{GeometryKernels, mesh::MeshOptions, volume::Volume};
//! # use geom_kernels::isosurface::{MarchingCubes, VolumeField};
//! # let context = Context::new(0)?;
//! # let (stream, geometry) = (context.stream()?, GeometryKernels::new(&context));
//! let volumes = Volume::read_file(&stream, &geometry, "bunny.nvdb")?;
//! let field = VolumeField::build(&stream, &geometry, &volumes[0])?;
//! let surface = MarchingCubes::new(&geometry).extract(&stream, &field, 0.0)?;
//! let mesh = surface.into_mesh(&stream, &geometry, MeshOptions::default())?;
//! # drop(mesh);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Of a fog, whose numbers are greater inside, faces look inwards.
//!
//! # What comes out
//! A number is inside if it is less than the surface's value. The mesh has one vertex on each edge of the
//! lattice with one end inside and one not, where the linear function between them takes the value, in f64 from
//! the end with the lower index on: (value - a) / (b - a). So no vertex is there twice, and cells agree on them.
//!
//! Faces are counter-clockwise seen from where the numbers are greater: of a signed distance, from outside. Every
//! edge of a face belongs to two faces, which run along it in opposite directions, but for edges on the border
//! of the field, where the surface ends. To close it there, surround the field by numbers that are greater than
//! the value. Where a number equals the value several vertices may lie in the same place; then some faces have
//! no area, but edges are shared as anywhere else.
//!
//! Numbers that are not finite are unknown: cells with one have no faces, and edges with one no vertex, so the
//! surface has holes there ([`Counts::not_finite`]), and vertices at their rims may be part of no face.
//!
//! Vertices and faces have the same order and the same bits in every run and on every device.
//!
//! # Sources
//! W. Lorensen, H. Cline, Marching Cubes, 1987; P. Ning, J. Bloomenthal, An Evaluation of Implicit Surface
//! Tilers, 1993: faces of cells on which two opposite corners are inside, which decide whether there are holes;
//! `geom/isosurface/cases.cuh` has the rule. D. Merrill, M. Garland, Single-pass Parallel Prefix Scan with Decoupled
//! Look-back, 2016.

mod blocks;
mod extract;
mod field;
pub(crate) mod layout;
mod output;
mod passes;
mod volume;

pub use blocks::BlockField;
pub use extract::MarchingCubes;
#[cfg(feature = "tape")]
pub(crate) use field::Parts;
pub use field::{DenseField, Field, IndexToWorld};
#[cfg(feature = "tape")]
pub(crate) use layout::{RawBlockField, RawDenseField, RawIndexMap};
pub use output::{Counts, Output, TriangleBuffers};
#[cfg(feature = "tape")]
pub(crate) use passes::{Kind as FieldKind, Search};
pub use volume::VolumeField;
#[cfg(feature = "tape")]
pub(crate) use volume::{MOST_LAUNCHED, is_wide};
