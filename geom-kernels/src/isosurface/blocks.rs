//! Sparse fields.

use std::sync::Arc;

use cuda_safe::{
    Allocation, DeviceSlice, Error, KernelArg, Result,
    arg::{ArgType, UseVisitor},
};
use nanovdb::Map;

#[cfg(feature = "tape")]
use super::field::Parts;
use super::field::{Field, MOST_VALUES, Source};
use super::layout::{RawBlockField, RawIndexMap};
use crate::part::read;

/// The values per block.
const BLOCK: usize = 512;

/// The words per block: `device/geom/isosurface/blocks.cuh`.
const BLOCK_WORDS: usize = BLOCK / 32;

/// A sparse field: blocks of 8 x 8 x 8 values with their neighbours, like the leaves of a sparse volume.
///
/// Values outside of all blocks are unknown: cells that need them have no faces, and the surface ends there. This
/// does not count as [not finite](super::Counts::not_finite). Vertices and faces are in the order of blocks.
#[derive(Debug, Clone, Copy)]
pub struct BlockField<'a> {
    pub(crate) values: DeviceSlice<'a, f32>,
    pub(crate) stride: u32,
    pub(crate) origins: DeviceSlice<'a, [i32; 3]>,
    pub(crate) neighbors: DeviceSlice<'a, [u32; 27]>,
    pub(crate) map: Map,
}

impl<'a> BlockField<'a> {
    /// Creates a field of blocks. The values of block b begin at `values[b * stride]`: the value at (x, y, z) of the
    /// block is element 64 x + 8 y + z. `origins` are the indices of the blocks' first values, which `map` places in
    /// the world. In `neighbors`, element 9 (dx + 1) + 3 (dy + 1) + dz + 1 of a block is the number of the block at
    /// (dx, dy, dz), each -1, 0 or 1. An invalid number, such as `u32::MAX`, means that there is no block.
    ///
    /// Neighbours are not checked: if they contradict each other or the origins, faces are wrong, but nothing outside
    /// the buffers is read or written.
    ///
    /// # Errors
    /// `neighbors` and `origins` differ in length; a stride of less than 512; fewer values than blocks need, or more
    /// than 2^32.
    pub fn new(
        values: impl Into<DeviceSlice<'a, f32>>,
        stride: usize,
        origins: impl Into<DeviceSlice<'a, [i32; 3]>>,
        neighbors: impl Into<DeviceSlice<'a, [u32; 27]>>,
        map: Map,
    ) -> Result<Self> {
        let (values, origins, neighbors) = (values.into(), origins.into(), neighbors.into());
        let (n, m) = (origins.len(), neighbors.len());
        if n != m {
            return Err(Error::invalid(format!("{m} times neighbours for {n} blocks")));
        }
        // The values needed end after the last block.
        let needed = n.checked_sub(1).map_or(Some(0), |last| {
            last.checked_mul(stride).and_then(|begin| begin.checked_add(BLOCK))
        });
        let reachable = needed.is_some_and(|end| end <= values.len() && end <= MOST_VALUES);
        match u32::try_from(stride) {
            Ok(stride) if stride as usize >= BLOCK && reachable => {
                Ok(Self { values, stride, origins, neighbors, map })
            }
            _ => {
                let there = values.len();
                let message = format!("{there} values for {n} blocks, each {stride} from the last");
                Err(Error::invalid(message))
            }
        }
    }

    /// Creates a field of contiguous blocks, whose arrays have matching lengths.
    pub(super) fn packed(
        values: DeviceSlice<'a, f32>,
        origins: DeviceSlice<'a, [i32; 3]>,
        neighbors: DeviceSlice<'a, [u32; 27]>,
        map: Map,
    ) -> Self {
        Self { values, stride: BLOCK as u32, origins, neighbors, map }
    }

    /// Returns the values.
    #[must_use]
    pub fn values(&self) -> DeviceSlice<'a, f32> {
        self.values
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.origins.len()
    }
}

impl Field for BlockField<'_> {}

impl Source for BlockField<'_> {
    type Kind = RawBlockField;
    type Arg<'s>
        = Self
    where
        Self: 's;

    fn arg(&self) -> Self {
        *self
    }

    fn words(&self) -> usize {
        self.blocks() * BLOCK_WORDS
    }

    fn map(&self) -> RawIndexMap {
        RawIndexMap::from(&self.map)
    }

    // The neighbours come from the caller, unchecked.
    const CONSISTENT: bool = false;

    fn allocations(&self) -> [Arc<Allocation>; 3] {
        [self.values.allocation(), self.origins.allocation(), self.neighbors.allocation()]
            .map(Arc::clone)
    }

    #[cfg(feature = "tape")]
    fn parts(&self) -> Parts<'_> {
        Parts::Blocks(*self)
    }
}

// SAFETY: kernels read 512 values of each block, which there are (`new`), and of neighbours only what is
// less than the number of blocks; all of it is reported as read.
unsafe impl KernelArg for BlockField<'_> {
    type Abi = RawBlockField;
    const TYPE: ArgType = ArgType::value::<RawBlockField>();

    fn abi(&self) -> RawBlockField {
        RawBlockField {
            values: self.values.device_ptr(),
            origins: self.origins.device_ptr(),
            neighbors: self.neighbors.device_ptr(),
            // The number is at most 2^23.
            blocks: self.blocks() as u32,
            stride: self.stride,
            words: self.words() as u32,
            unused: 0,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.values)?;
        read(visitor, &self.origins)?;
        read(visitor, &self.neighbors)
    }
}
