//! Reads, checks, builds and writes sparse volumes in the NanoVDB format, without CUDA.
//!
//! A volume is a [`Grid`]: a tree of voxels' values and a map to world space, in bytes that devices use
//! unchanged. Voxels that are not stored have the value of the background.
//!
//! ```
//! use nanovdb::{Builder, Grid, WriteOptions, read, write};
//!
//! let mut builder = Builder::<f32>::new(0.0);
//! builder.name("density").set([1, 2, 3], 0.5).fill_tile(1, [8, 0, 0], 1.0, true);
//! let grid = builder.build()?;
//! assert_eq!(grid.active_voxels(), 1 + 512);
//!
//! let file = write(&[grid], &WriteOptions::default())?;
//! let grids = read(&file)?;
//! assert_eq!(grids[0].get::<f32>([1, 2, 3])?, 0.5);
//! assert!(grids[0].is_active([9, 1, 2]));
//! # Ok::<(), nanovdb::Error>(())
//! ```
//!
//! | Want | Use |
//! |---|---|
//! | grids of a file | [`read_file`]; of one in memory [`read`] |
//! | what a file says it holds | [`read_info`] |
//! | a grid from bytes in memory | [`Grid::from_bytes`]; only whether it is one: [`Grid::validate`] |
//! | what a grid is | [`Grid::info`], [`Grid::map`] |
//! | values on the host | [`Grid::value`], [`Grid::get`], [`Grid::leaves`], [`Grid::tiles`] |
//! | a new grid | [`Builder`]; of an array [`Builder::from_dense`] |
//! | minima, averages, a checksum | [`Grid::update_statistics`], [`Grid::update_checksum`] |
//! | a file | [`write_file`], [`WriteOptions`]; in memory [`write()`] |
//! | where things lie | [`ValueType::layout`] |
//!
//! A [`Grid`] has been checked: code that follows the offsets in it without further checks, as kernels do, stays
//! inside it. [`Grid::from_bytes`] lists the checks. An [`Error`] names the check that failed, with the node and
//! the byte if they are known.
//!
//! ```
//! use nanovdb::{Builder, Grid};
//!
//! let mut bytes = Builder::<f32>::new(0.0).set([0; 3], 1.0).build()?.bytes().to_vec();
//! bytes[672] ^= 8; // where the leaves are
//! assert_eq!(Grid::validate(&bytes).unwrap_err().check(), "offset");
//! # Ok::<(), nanovdb::Error>(())
//! ```
//!
//! [`ValueType`] lists the types of values. Half and quantized floats, points, indices with a mask and vectors
//! of small integers are not supported: [`Error::UnsupportedType`] names them.
//!
//! The format is ABI 32 of
//! [NanoVDB](https://github.com/AcademySoftwareFoundation/openvdb/blob/master/nanovdb/nanovdb/NanoVDB.h)
//! ([Museth 2021](https://doi.org/10.1145/3450623.3464653)), little-endian. Indices need version 32.6.
//!
//! # Features
//! - `codecs`, on by default: files compressed with zip and with Blosc ([`codec`]).

#[cfg(target_endian = "big")]
compile_error!("the format is little-endian, and bytes are used as they are");

mod build;
mod bytes;
mod check;
mod checksum;
pub mod codec;
mod coord;
mod element;
mod error;
mod file;
mod grid;
mod layout;
mod map;
mod statistics;
#[cfg(test)]
mod tests;
mod tree;
mod types;

pub use build::{Build, BuildValue, Builder, ValueIndex, ValueMask, ValueOnIndex};
pub use bytes::ALIGNMENT;
pub use checksum::ChecksumMode;
pub use codec::{Codec, CodecError};
pub use coord::{Coord, IndexBox};
pub use element::{Value, VoxelValue};
pub use error::{Error, Flaw, Level, Result};
pub use file::{
    FileInfo, Format, ReadOptions, WriteOptions, read, read_file, read_file_with, read_info,
    read_with, write, write_file,
};
pub use grid::{BlindInfo, Grid, GridInfo, Leaf, Tile};
pub use layout::NodeLayout;
pub use map::Map;
pub use types::{GridClass, ValueType, Version};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
