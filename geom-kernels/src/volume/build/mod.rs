//! Volumes built on the device: from lists of leaves or voxels, from dense arrays and from functions; and the
//! contents of a volume, as lists and arrays.
//!
//! Every source of a volume becomes a list of entries that each name a leaf. Their keys are sorted. A node begins
//! where a key changes, and its rank among those of its level gives its position in memory. Then each node is written
//! once and completely, independently of the others. The device does all of this; only calls that allocate wait for
//! the numbers of nodes.

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
