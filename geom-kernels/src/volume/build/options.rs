//! Options of volumes.

use nanovdb::{GridClass, Map, ValueType};

use crate::volume::VolumeValue;

/// The background, map and name of a volume that is built on the device.
#[derive(Debug, Clone)]
pub struct VolumeOptions<T> {
    pub(super) background: T,
    pub(in crate::volume) map: Map,
    pub(in crate::volume) name: String,
    pub(super) class: Option<GridClass>,
    pub(super) capacity: Option<Capacity>,
}

/// The capacity of a volume that is rebuilt in place, without allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Leaves of 8^3 voxels, with their values.
    pub leaves: u32,
    /// Lower nodes, of up to 16^3 leaves each: 34 KB with values of 4 bytes.
    pub lower: u32,
    /// Upper nodes, of up to 32^3 lower ones each: 270 KB with values of 4 bytes.
    pub upper: u32,
    /// Entries of a list that it is built from: 28 bytes each.
    pub entries: u32,
}

impl<T: VolumeValue> Default for VolumeOptions<T> {
    /// Returns options with background 0; index space is world space.
    fn default() -> Self {
        Self::new(T::zeroed())
    }
}

impl<T: VolumeValue> VolumeOptions<T> {
    /// Creates options with this background, the value where nothing is stored. For [`Bool`](crate::volume::Bool) a
    /// value other than 0 counts as 1. For [`Index`](crate::volume::Index), [`OnIndex`](crate::volume::OnIndex) and
    /// [`Mask`](crate::volume::Mask) the background is always 0.
    #[must_use]
    pub fn new(mut background: T) -> Self {
        if T::TYPE == ValueType::Bool {
            // Kernels copy the background without a conversion.
            for byte in bytemuck::bytes_of_mut(&mut background) {
                *byte = u8::from(*byte != 0);
            }
        }
        let map = Map::default();
        Self { background, map, name: String::new(), class: None, capacity: None }
    }

    /// Sets the map from voxels to the world.
    #[must_use]
    pub fn map(mut self, map: Map) -> Self {
        self.map = map;
        self
    }

    /// Sets the grid's name, of at most 255 bytes.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the purpose of the grid. The default is a topology for masks, an index grid for indices, and otherwise
    /// unknown.
    #[must_use]
    pub fn class(mut self, class: GridClass) -> Self {
        self.class = Some(class);
        self
    }

    /// Reserves memory for rebuilding in place ([`rebuild_from_leaves`](crate::volume::Volume::rebuild_from_leaves)
    /// and similar).
    #[must_use]
    pub fn capacity(mut self, capacity: Capacity) -> Self {
        self.capacity = Some(capacity);
        self
    }
}
