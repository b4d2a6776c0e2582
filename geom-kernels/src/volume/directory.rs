//! The directory of a volume's leaves, which follows the grid in memory: `device/geom/volume/directory.cuh`.

use cuda_safe::{Access, DeviceBuffer, Error, Result, Stream, kernels};
use nanovdb::ValueType;

use super::build::RawNodes;
use crate::GeometryKernels;
use crate::geometry::{Source, of_source};
use crate::lengths::blocks;
use crate::part::Part;

kernels! {
    struct Directories;
    // SAFETY: it reads the tree, and writes the head of the directory and at most `room` entries.
    unsafe in Source::VOLUME_DIRECTORY {
        /// # Safety
        /// `grid` has a tree of such nodes whose distances all lead to nodes, `root` is the part from its root on,
        /// and `directory` has room for a head and `room` entries.
        #[name = "volume_directory"]
        unsafe fn write(nodes: RawNodes, grid: Part<'_>, root: Part<'_>, room: u32, directory: Part<'_>);
    }
}
of_source!(Directories, Source::VOLUME_DIRECTORY);

/// The size of `geom::volume::Directory`, and its alignment.
const HEAD: usize = 32;

/// The directory takes at most the grid's size divided by this.
const SHARE: usize = 8;

/// The most entries: products of sizes stay below 2^32.
const MOST_ENTRIES: usize = 1 << 30;

/// The most blocks of a launch; the kernel has a grid-stride loop.
const MOST_BLOCKS: u32 = 1 << 12;

/// The directory's offset, and its capacity in entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory {
    pub(super) at: usize,
    room: u32,
}

impl Directory {
    /// Returns the layout of a directory after a grid of `grid` bytes, whose box has at most `leaves` leaves. The
    /// directory takes at most an eighth of the grid's size; a smaller box may still fit.
    pub(super) fn behind(grid: usize, leaves: usize) -> Result<Self> {
        let most = (grid / SHARE / size_of::<u32>()).min(MOST_ENTRIES);
        // The directory has at least one entry, which look-ups outside of the box read.
        let room = leaves.min(most).max(1) as u32;
        let too_long = || Error::invalid(format!("a grid of {grid} bytes"));
        let at = grid.checked_next_multiple_of(HEAD).ok_or_else(too_long)?;
        let directory = Self { at, room };
        directory.end().ok_or_else(too_long)?;
        Ok(directory)
    }

    fn end(self) -> Option<usize> {
        // The end is rounded up to a multiple of the head's size.
        self.at
            .checked_add(HEAD + size_of::<u32>() * self.room as usize)?
            .checked_next_multiple_of(HEAD)
    }

    /// Returns the bytes of the grid and the directory.
    pub(super) fn memory(self) -> usize {
        // `behind` has checked that the sum does not overflow.
        self.end().unwrap_or(usize::MAX)
    }

    /// Writes the directory for the current tree.
    pub(super) fn write(
        self,
        stream: &Stream,
        geometry: &GeometryKernels,
        value_type: ValueType,
        memory: &DeviceBuffer<u8>,
        root: usize,
    ) -> Result<()> {
        let (kernels, nodes) = (geometry.kernels::<Directories>()?, RawNodes::of(value_type));
        let launch = blocks(self.room.div_ceil(256).min(MOST_BLOCKS) as usize, 256);
        let grid = Part::of(memory, 0..self.at, Access::Read);
        let tree = Part::of(memory, root..self.at, Access::Read);
        let entries = Part::of(memory, self.at..self.memory(), Access::Write);
        // SAFETY: distances of the tree all lead to nodes, and the memory has room for the entries.
        unsafe { kernels.write(stream, launch, nodes, grid, tree, self.room, entries) }
    }
}
