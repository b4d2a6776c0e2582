//! Volumes that are rebuilt in their memory.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_safe::{DeviceBuffer, DeviceSlice, Error, Result, Stream};
use nanovdb::{Map, ValueType};

use super::run::{Fill, Listed, Work};
use super::scratch::Shape;
use super::tiles::{VoxelList, checked_values};
use super::{BuildStatus, Capacity, VolumeOptions};
use crate::GeometryKernels;
use crate::part::enqueues;
use crate::volume::directory::Directory;
use crate::volume::{Volume, VolumeValue};

/// The state of a volume that can be rebuilt.
#[derive(Debug)]
pub(in crate::volume) struct Rebuild {
    work: Work,
    shape: Shape,
    map: Map,
    /// The version of the state that was recorded last, if the last build was recorded in a graph.
    recorded: Option<u64>,
    /// The last version of the state that was reported or found to be valid.
    seen: AtomicU64,
}

impl Rebuild {
    /// Creates a volume without voxels, with the capacity of its options.
    pub(super) fn volume<T: VolumeValue>(
        stream: &Stream,
        geometry: &GeometryKernels,
        options: &VolumeOptions<T>,
        capacity: Capacity,
    ) -> Result<Volume> {
        let mut work = Work::new(stream, geometry, options, capacity.entries as usize, false)?;
        let room = [capacity.leaves, capacity.lower, capacity.upper];
        let shape = Shape::new(&work.layout, room);
        work.reserve(stream, room)?;
        let directory = Directory::behind(shape.memory(&work.layout)?, usize::MAX)?;
        let mut grid = DeviceBuffer::zeroed(stream, directory.memory())?;
        work.clear(stream)?;
        work.write(stream, &mut grid, shape, 0, (None, Fill::Tiles))?;
        let built = (grid, shape.bytes as usize, directory);
        let mut volume = Volume::built(stream, geometry, built, options)?;
        let (recorded, seen) = (None, AtomicU64::new(0));
        volume.set_rebuild(Self { work, shape, map: options.map, recorded, seen });
        Ok(volume)
    }

    fn run(
        &mut self,
        stream: &Stream,
        grid: &mut DeviceBuffer<u8>,
        list: VoxelList<'_>,
        fill: Fill<'_>,
    ) -> Result<()> {
        let n = list.len();
        let listed = Listed { list, map: self.map };
        self.work.clear(stream)?;
        if n != 0 {
            self.work.list_keys(stream, listed)?;
            self.work.sort(stream, n)?;
            self.work.find_nodes(stream, n, self.shape)?;
        }
        self.work.write(stream, grid, self.shape, n, (Some(listed), fill))
    }

    /// Fails if the last build was recorded in a graph that was never launched.
    fn check_ran(&self) -> Result<()> {
        if self.recorded != Some(self.work.version()) {
            return Ok(());
        }
        Err(Error::invalid(
            "the last build of the volume was recorded in a graph that was never launched",
        )
        .with_hint("launch the graph first; until then the volume is what it was before"))
    }
}

impl Volume {
    /// Rebuilds the volume as [`from_leaves`](Self::from_leaves) does, in its memory: nothing is allocated, and the
    /// host does not wait. The call can be recorded in a graph, whose launches read the list's contents at that time.
    ///
    /// If there are more nodes than the capacity, the volume is unchanged. The first query that waits, such as
    /// [`counts`](Self::counts) or [`download`](Self::download), then returns an error, unless
    /// [`build_status`](Self::build_status), which returns how many are needed, was called before.
    ///
    /// The list and the values are read more than once, so enqueue a graph that writes them on this stream.
    ///
    /// # Errors
    /// A volume without a [capacity](VolumeOptions::capacity); more voxels than its entries; otherwise if the kernels
    /// cannot be loaded, or the driver returns an error. After either of these, queries find nothing until a build
    /// succeeds.
    pub fn rebuild_from_leaves<'a>(
        &mut self,
        stream: &Stream,
        tiles: impl Into<VoxelList<'a>>,
    ) -> Result<()> {
        self.rebuild(stream, tiles.into(), Fill::Tiles)
    }

    /// Rebuilds the volume as [`from_voxels`](Self::from_voxels) does, in place as
    /// [`rebuild_from_leaves`](Self::rebuild_from_leaves).
    ///
    /// # Errors
    /// As [`rebuild_from_leaves`](Self::rebuild_from_leaves).
    pub fn rebuild_from_voxels<'a>(
        &mut self,
        stream: &Stream,
        voxels: impl Into<VoxelList<'a>>,
    ) -> Result<()> {
        self.rebuild(stream, voxels.into(), Fill::Voxels(None))
    }

    /// Rebuilds the volume as [`from_voxels_with`](Self::from_voxels_with) does, in place as
    /// [`rebuild_from_leaves`](Self::rebuild_from_leaves).
    ///
    /// # Errors
    /// As [`rebuild_from_leaves`](Self::rebuild_from_leaves); values of another type, or of another number than
    /// voxels.
    pub fn rebuild_from_voxels_with<'a, T: VolumeValue>(
        &mut self,
        stream: &Stream,
        voxels: impl Into<VoxelList<'a>>,
        values: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<()> {
        self.check_type(T::TYPE)?;
        let voxels = voxels.into();
        let values = checked_values(voxels, values.into())?;
        self.rebuild(stream, voxels, Fill::Voxels(Some(values)))
    }

    /// Returns the result of the last build in place. Waits.
    ///
    /// After a build with too little capacity, queries that wait fail until this is called: from then on they use the
    /// volume as it was before that build.
    ///
    /// # Errors
    /// A volume without a [capacity](VolumeOptions::capacity); a build that returned an error, or was recorded in a
    /// graph which was never launched; a stream that records; an error of the driver.
    pub fn build_status(&self, stream: &Stream) -> Result<BuildStatus> {
        let Some(rebuild) = self.rebuild_state() else {
            return Err(no_capacity(self.value_type()));
        };
        self.memory()?;
        rebuild.check_ran()?;
        // The version is read before the state, so that a later build's version is not taken for this build's.
        let version = rebuild.work.version();
        let status = rebuild.work.state(stream)?.into();
        rebuild.seen.store(version, Ordering::Relaxed);
        Ok(status)
    }

    /// Fails if the last build in place never ran, or had too little capacity and that was not reported yet. For
    /// queries that wait.
    pub(super) fn check_built(&self, stream: &Stream) -> Result<()> {
        let Some(rebuild) = self.rebuild_state() else { return Ok(()) };
        rebuild.check_ran()?;
        let version = rebuild.work.version();
        if rebuild.seen.load(Ordering::Relaxed) == version {
            return Ok(());
        }
        let status = BuildStatus::from(rebuild.work.state(stream)?);
        if status.is_built() {
            rebuild.seen.store(version, Ordering::Relaxed);
            return Ok(());
        }
        let BuildStatus { leaves, lower, upper, .. } = status;
        Err(Error::invalid(format!(
            "the last build of the volume found too little room for {leaves} leaves, {lower} lower and \
             {upper} upper nodes"
        ))
        .with_hint(
            "give `VolumeOptions::capacity` more; after `Volume::build_status` queries answer for what the \
             volume was before the build",
        ))
    }

    pub(super) fn rebuild(
        &mut self,
        stream: &Stream,
        list: VoxelList<'_>,
        fill: Fill<'_>,
    ) -> Result<()> {
        let value_type = self.value_type();
        let (memory, Some(rebuild)) = self.memory_and_rebuild() else {
            return Err(no_capacity(value_type));
        };
        let (n, room) = (list.len(), rebuild.work.room());
        if n > room {
            return Err(Error::invalid(format!("{n} entries, and room for {room}"))
                .with_hint("`Capacity::entries` is that of the longest list"));
        }
        let memory = std::iter::once(memory.allocation());
        enqueues(stream, memory.chain([list.allocation()]).chain(fill.allocation())).run(|| {
            let (memory, Some(rebuild)) = self.memory_and_rebuild() else {
                return Err(no_capacity(value_type));
            };
            let built = rebuild.run(stream, memory, list, fill);
            rebuild.recorded = stream.is_recording().then(|| rebuild.work.version());
            let built = built.and_then(|()| self.write_directory(stream));
            self.set_built(built)
        })
    }
}

fn no_capacity(value_type: ValueType) -> Error {
    Error::invalid(format!("a volume of {value_type} that was made without a capacity"))
        .with_hint("`VolumeOptions::capacity` makes one that is built in place")
}
