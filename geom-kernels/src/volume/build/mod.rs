//! Volumes made on the device: from lists of leaves or voxels, from dense arrays and from functions; and what
//! is in a volume, as lists and arrays.
//!
//! Whatever a volume is made from becomes a list of entries that each name a leaf. Their keys are sorted; where
//! a key changes a node begins, and its rank among those of its level says where it lies. Then every node is
//! written once and whole, without another thread's help. All this is known on the device: only what has to
//! allocate waits for the numbers of nodes.

mod copies;
mod dense;
mod function;
mod head;
mod layout;
mod lists;
mod options;
mod rebuild;
mod run;
mod scratch;
mod tiles;

pub use dense::{DenseOptions, Keep};
pub use layout::BuildStatus;
pub use lists::VolumeCounts;
pub use options::{Capacity, VolumeOptions};
pub(super) use rebuild::Rebuild;
pub use tiles::VoxelList;

pub(crate) use layout::{
    BuildState, RawBuild, RawDense, RawLattice, RawLeaves, RawNodes, RawTolerance, RawWorld,
};
