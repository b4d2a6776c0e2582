//! Sparse volumes: fields on a grid of voxels of which only some are stored, in the
//! [NanoVDB](nanovdb) format, on the device as in files.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::volume::nanovdb::{self, GridClass, Map};
//! use geom_kernels::volume::{DenseOptions, Interpolation, Keep, Samples, Volume, VolumeOptions};
//!
//! let context = Context::new(0)?;
//! let (stream, geometry) = (context.stream()?, GeometryKernels::new(&context));
//!
//! // Distances from a sphere of radius 1, in voxels of 1/16: those less than three voxels away from it.
//! let (voxel, band) = (1.0f32 / 16.0, 3.0f32 / 16.0);
//! let map = Map::uniform(voxel.into(), [0.0; 3])?;
//! let options = VolumeOptions::new(band).name("sphere").class(GridClass::LEVEL_SET).map(map);
//! let options = DenseOptions::new(options).origin([-20; 3]).keep(Keep::NarrowBand(band.into()));
//! let volume = Volume::from_fn(&stream, &geometry, [41; 3], options, |voxel_at| {
//!     voxel_at.map(|i| (i as f32 * voxel).powi(2)).iter().sum::<f32>().sqrt() - 1.0
//! })?;
//!
//! let points = [[0.0f32, 0.0, 0.9], [0.0; 3], [5.0; 3]];
//! let points = DeviceBuffer::from_slice(&stream, &points)?;
//! let mut distances = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
//! volume.sample(&stream, &Samples::world(&points), Interpolation::Trilinear, &mut distances)?;
//! let distances = distances.to_vec(&stream)?;
//! assert!((distances[0] + 0.1).abs() < 1e-2);
//! assert_eq!(distances[1..], [-band, band]); // far inside and far outside
//!
//! // To look at on the host, and to save.
//! let grid = volume.download(&stream)?;
//! nanovdb::write_file("sphere.nvdb", &[grid], &nanovdb::WriteOptions::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Voxel (i, j, k) has its value at the point (i, j, k) of *index space*; the grid's map gives the position in the
//! world. Where nothing is stored the value is the background. In dense arrays z is the fastest index.
//!
//! | Want | Use |
//! |---|---|
//! | a volume of a file, or of bytes | [`Volume::read_file`], [`Volume::read`], [`Volume::upload`] |
//! | one of an array, or of a function | [`Volume::from_dense`], [`Volume::from_host_dense`], [`Volume::from_fn`] |
//! | one of a list of voxels or leaves | [`Volume::from_voxels`], [`Volume::from_voxels_with`], [`Volume::from_leaves`] |
//! | the same again, in its memory | [`VolumeOptions::capacity`], [`Volume::rebuild_from_voxels`], [`Volume::build_status`] |
//! | what is in it | [`Volume::counts`], [`Volume::leaf_origins`], [`Volume::voxels`], [`Volume::to_dense`], [`Volume::download`] |
//! | values of voxels | [`Volume::lookup`], [`Volume::is_active`], [`Volume::store`] |
//! | values between them | [`Volume::sample`], [`Volume::sample_with_gradient`] |
//! | values that are in an array | [`Volume::sample_indexed`] of a volume of [`Index`] or [`OnIndex`] |
//! | rays | [`Volume::first_crossings`], [`Volume::integrals`] |
//! | to the world and back | [`Volume::world_to_index`] and the like |
//! | the surface as a mesh | [`VolumeField`](crate::isosurface::VolumeField) |
//!
//! A grid's type of values is known at run time. A query for values of another type returns an error before anything is
//! launched.
//!
//! Grids from files are checked on the host, and kernels use them without checks: see
//! [`Grid::from_bytes`](nanovdb::Grid::from_bytes). Coordinates of volumes built on the device are from -2^23 to
//! below 2^23; files may have any. If the root has more than eight entries (of 4096^3 voxels), they are found by
//! binary search, in the order in which this library and NanoVDB write them. In another order, which files may have,
//! the search is linear.
//!
//! # Kernels of your own
//! Use `#include <geom/volume.cuh>` ([`program`](crate::program)) and a parameter `geom::Volume<float>`, and pass
//! [`Volume::view`], or [`Volume::view_mut`] if the kernel stores values.
//!
//! # Sources
//! K. Museth, NanoVDB: A GPU-Friendly and Portable VDB Data Structure, 2021; K. Museth, Hierarchical Digital
//! Differential Analyzer for Efficient Ray-Marching in OpenVDB, 2014; E. Catmull, R. Rom, A Class of Local
//! Interpolating Splines, 1974.

pub(crate) mod build;
mod directory;
mod indexed;
mod kernels;
pub(crate) mod layout;
mod maps;
mod march;
mod queries;
mod sample;
mod samples;
mod value;
mod view;
#[allow(clippy::module_inception, reason = "the module is named after what it is about")]
mod volume;

pub use build::{
    BuildStatus, Capacity, DenseOptions, Keep, VolumeCounts, VolumeOptions, VoxelList,
};
pub use indexed::IndexedValues;
pub use march::VolumeHit;
pub use sample::{Interpolated, Interpolation};
pub use samples::Samples;
pub use value::{Bool, Index, Mask, OnIndex, Rgba8, VolumeValue};
pub use view::{VolumeView, VolumeViewMut};
pub use volume::{Volume, VolumeError};

pub(crate) use indexed::RawIndexedValues;
pub(crate) use layout::{RawMap, RawVolume, TREE};
pub(crate) use sample::no_gradient;
pub(crate) use samples::RawSamples;
#[cfg(feature = "tape")]
pub(crate) use samples::{BLOCK, Part as SamplePart};

pub use nanovdb;
