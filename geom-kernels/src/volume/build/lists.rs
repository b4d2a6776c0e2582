//! Lists of the leaves and the active voxels of a volume.

use cuda_safe::{
    DeviceBuffer, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
    kernels,
};

use super::layout::{RawLeaves, RawNodes};
use crate::geometry::{Source, of_source};
use crate::lengths::cover;
use crate::part::{read, scratch};
use crate::volume::Volume;
use crate::volume::layout::{TREE_COUNTS, TREE_END};

kernels! {
    #[name = "volume_{}"]
    struct Lists;
    // SAFETY: thread i reads leaf i, if i < n and there are as many, and writes origin or count i. The warp of leaf
    // i reads offsets i and i + 1, and writes voxels from the one to the other, below `room`.
    unsafe in Source::VOLUME_LISTS {
        safe fn list_leaves(leaves: LeavesArg<'_>, n: u32, origins: &mut [[i32; 3]]) where n <= origins.len();
        safe fn count_voxels(leaves: LeavesArg<'_>, n: u32, counts: &mut [u32]) where n <= counts.len();
        /// # Safety
        /// No offset is less than the one before it.
        unsafe fn list_voxels(
            leaves: LeavesArg<'_>, n: u32, offsets: &[u64], room: u64, voxels: &mut [[i32; 3]],
        ) where n < offsets.len(), room <= voxels.len();
    }
}
of_source!(Lists, Source::VOLUME_LISTS);

/// The offset of the number of indexed values in a grid.
const VALUES: usize = 656;

/// The numbers of nodes, tiles, voxels and values of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeCounts {
    /// Leaves of 8^3 voxels.
    pub leaves: u32,
    /// Lower nodes, of 128^3 voxels.
    pub lower: u32,
    /// Upper nodes, of 4096^3 voxels.
    pub upper: u32,
    /// Active tiles of lower nodes, of upper nodes and of the root, as stored in the grid.
    pub active_tiles: [u32; 3],
    /// Active voxels, including those of active tiles.
    pub active_voxels: u64,
    /// For volumes of indices, the number of values that they index, including the background's (0). Otherwise 0.
    pub values: u64,
}

/// The leaves of a grid as an argument: `geom::volume::Leaves`.
#[derive(Clone, Copy)]
struct LeavesArg<'a>(&'a Volume);

// SAFETY: the kernels read the grid, and as many leaves as its header says it has.
unsafe impl KernelArg for LeavesArg<'_> {
    type Abi = RawLeaves;
    const TYPE: ArgType = ArgType::value::<RawLeaves>();

    fn abi(&self) -> RawLeaves {
        let bytes = RawNodes::of(self.0.value_type()).leaf_bytes;
        RawLeaves { grid: self.0.raw().grid, bytes, unused: 0 }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.0.memory()?.as_slice())
    }
}

impl Volume {
    /// Returns the numbers of nodes, active tiles and active voxels. Waits.
    ///
    /// # Errors
    /// A build in place that had too little capacity or never ran: see [`build_status`](Self::build_status). A stream
    /// that records; an error of the driver.
    pub fn counts(&self, stream: &Stream) -> Result<VolumeCounts> {
        let memory = self.memory()?;
        self.check_built(stream)?;
        let bytes = memory.slice(VALUES..TREE_END)?.to_vec(stream)?;
        let word = |n: usize| {
            let at = TREE_COUNTS - VALUES + 4 * n;
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map_or(0, u32::from_le_bytes)
        };
        let values = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        Ok(VolumeCounts {
            leaves: word(0),
            lower: word(1),
            upper: word(2),
            active_tiles: [word(3), word(4), word(5)],
            active_voxels: u64::from(word(6)) | u64::from(word(7)) << 32,
            values: if self.value_type().is_index() { values } else { 0 },
        })
    }

    /// Lists the first voxel of each leaf, in the order of leaves. Waits for their number.
    ///
    /// # Errors
    /// A stream that records; otherwise if the kernels cannot be loaded, or the driver returns an error.
    pub fn leaf_origins(&self, stream: &Stream) -> Result<DeviceBuffer<[i32; 3]>> {
        let n = self.counts(stream)?.leaves;
        let mut origins = DeviceBuffer::<[i32; 3]>::zeroed(stream, n as usize)?;
        if n != 0 {
            let kernels = self.geometry().kernels::<Lists>()?;
            kernels.list_leaves(stream, cover(n as usize), LeavesArg(self), n, &mut origins)?;
        }
        Ok(origins)
    }

    /// Lists the active voxels of leaves, leaf by leaf, with z fastest. Those of active tiles are not listed. Waits
    /// for their number.
    ///
    /// # Errors
    /// As [`leaf_origins`](Self::leaf_origins).
    pub fn voxels(&self, stream: &Stream) -> Result<DeviceBuffer<[i32; 3]>> {
        let n = self.counts(stream)?.leaves as usize;
        if n == 0 {
            return DeviceBuffer::zeroed(stream, 0);
        }
        let kernels = self.geometry().kernels::<Lists>()?;
        // SAFETY: both are written before they are read.
        let (mut counts, mut offsets) =
            unsafe { (scratch::<u32>(stream, n)?, scratch::<u64>(stream, n + 1)?) };
        let leaves = LeavesArg(self);
        kernels.count_voxels(stream, cover(n), leaves, n as u32, &mut counts)?;
        self.geometry().algorithms().offsets(stream, &counts, &mut offsets)?;
        let total = offsets.slice(n..)?.to_vec(stream)?.first().copied().unwrap_or(0);
        let mut voxels = DeviceBuffer::<[i32; 3]>::zeroed(stream, total as usize)?;
        if total != 0 {
            let launch = LaunchConfig::cover(32 * n, 256);
            // SAFETY: the offsets are sums of counts.
            unsafe {
                kernels.list_voxels(stream, launch, leaves, n as u32, &offsets, total, &mut voxels)
            }?;
        }
        Ok(voxels)
    }
}
