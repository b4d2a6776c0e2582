//! Regions of a volume of the sizes of nodes, for what is built from volumes.

use super::Volume;
use super::read::{Found, Read};
use crate::volume::VolumeValue;

/// A region of 2^bits voxels per side: whether it has a node, and else the bytes of its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Region<'a> {
    Node,
    Value(&'a [u8]),
}

impl<T: VolumeValue> Volume<T> {
    fn value_at(&self, offset: usize) -> &[u8] {
        let size = self.grid.value_type().layout().value_size;
        self.grid.bytes().get(offset..offset.wrapping_add(size)).unwrap_or_default()
    }

    /// Returns the background.
    pub(crate) fn background_region(&self) -> Region<'_> {
        Region::Value(self.value_at(self.tree.background))
    }

    /// Returns the region with a voxel: an entry of the root (12 bits), of an upper node (7) or of a lower one (3), or
    /// the value of a greater region with it.
    pub(crate) fn region(&self, voxel: [i32; 3], bits: u32) -> Region<'_> {
        let (tree, bytes) = (&self.tree, self.grid.bytes());
        let Found { node, value } = match bits {
            12 => tree.in_root(voxel),
            7 => tree.lower(bytes, voxel).found,
            _ => tree.find(bytes, voxel),
        };
        if node == 0 { Region::Value(self.value_at(value)) } else { Region::Node }
    }

    /// Returns the first voxel of each entry of the root.
    pub(crate) fn root_origins(&self) -> impl Iterator<Item = [i32; 3]> + '_ {
        let origin = |key: u64| [42, 21, 0].map(|shift| ((key >> shift) as i32) << 12);
        self.tree.roots.iter().map(move |root| origin(root.key))
    }

    /// Calls `write` for the value of each voxel of the leaf or tile at a leaf's position, with its index.
    pub(crate) fn for_each_value(&self, origin: [i32; 3], mut write: impl FnMut(usize, T)) {
        let bytes = self.grid.bytes();
        let found = self.tree.find(bytes, origin);
        for place in 0..512 {
            write(place, <T as Read>::read(bytes, found, place));
        }
    }
}
