//! Marching cubes: the surface in a field, as a triangle mesh.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::isosurface::{DenseField, Map, MarchingCubes};
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
//! let map = Map::scaled([f64::from(spacing); 3], [-1.0; 3])?;
//! let field = DenseField::new(&values, [n, n, n], map)?;
//! let sphere = MarchingCubes::new(&geometry).extract(&stream, &field, 0.0)?;
//! let volume = sphere.download(&stream)?.volume();
//! assert!((volume - 2.14).abs() < 0.01);
//! // For queries.
//! let mesh = sphere.into_mesh(&stream, &geometry, MeshOptions::default())?;
//! # drop(mesh);
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
//! Density fields (larger inside) give faces that look inwards.
//!
//! # What comes out
//! A value is inside if it is less than the surface's value `iso`. The mesh has one vertex on each edge of the
//! lattice with one end inside and one outside, where the linear interpolation is `iso`: (iso - a) / (b - a) from the
//! end with the lower index, in f64. So no vertex is duplicated, and neighbouring cells share theirs.
//!
//! Faces are counter-clockwise seen from the side of greater values: for a signed distance, from outside. Every edge
//! of a face belongs to two faces, which run along it in opposite directions, except at the border of the field,
//! where the surface ends. To close it there, surround the field by values greater than `iso`. Where a value equals
//! `iso`, several vertices may have the same position; some faces then have no area, but their edges are shared like
//! all others.
//!
//! Values that are not finite are unknown: their cells have no faces and their edges no vertices, so the surface has
//! holes there ([`Counts::not_finite`]), and vertices at their rims may belong to no face.
//!
//! Vertices and faces have the same order and the same bits in every run and on every device.
//!
//! # Sources
//! W. Lorensen, H. Cline, Marching Cubes, 1987; P. Ning, J. Bloomenthal, An Evaluation of Implicit Surface Tilers,
//! 1993 (cell faces with two opposite corners inside, which decide whether there are holes;
//! `geom/isosurface/cases.cuh` has the rule); D. Merrill, M. Garland, Single-pass Parallel Prefix Scan with Decoupled
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
pub(crate) use field::MOST_VALUES;
#[cfg(feature = "tape")]
pub(crate) use field::Parts;
pub use field::{DenseField, Field};
pub(crate) use layout::RawIndexMap;
#[cfg(feature = "tape")]
pub(crate) use layout::{RawBlockField, RawDenseField};
pub use nanovdb::Map;
pub use output::{Counts, Output, TriangleBuffers};
#[cfg(feature = "tape")]
pub(crate) use passes::{Kind as FieldKind, Search};
pub use volume::VolumeField;
#[cfg(feature = "tape")]
pub(crate) use volume::{MOST_LAUNCHED, is_wide};
