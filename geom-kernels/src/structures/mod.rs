//! Structures as Rust kernels see them: on the CPU, the structures themselves.
//!
//! These structures are built from slices of the host and need no device. Their queries have the same results as those
//! of the device headers, bit for bit: the arithmetic is that of `geom/math/exact.cuh`. A kernel that is written in Rust
//! calls the methods for one query; the batch calls answer the queries of a slice, on all cores.
//!
//! ```
//! use geom_kernels::hash_grid::GridOptions;
//! use geom_kernels::structures::HashGrid;
//!
//! let points = [[0.0f32, 0.0, 0.0], [0.1, 0.0, 0.0], [5.0, 5.0, 5.0]];
//! let grid = HashGrid::build(&points, 0.5, GridOptions::default())?;
//! let near: Vec<u32> = grid.neighbors([0.0; 3], 0.5).collect();
//! assert_eq!(near, [0, 1]);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//! What devices have and the CPU has not, because the standard library or `nanovdb` has it on the host: sorts, sums and
//! selections ([`crate::algorithms`]), builds of volumes, stores to them and dense copies (`nanovdb::Builder`), and
//! reports of meshes. Recorded calls with gradients run on devices.
#![cfg_attr(feature = "rust-kernels", doc = include_str!("in_kernels.md"))]

pub mod bvh;
pub(crate) mod exact;
pub mod hash_grid;
#[cfg(feature = "rust-kernels")]
mod in_kernels;
pub mod isosurface;
mod lanes;
mod mesh;
mod rows;
pub mod volume;

pub use bvh::Bvh;
pub use exact::Exact;
pub use hash_grid::HashGrid;
pub use mesh::{Limit, Mesh};
pub use rows::Lists;
pub use volume::Volume;
