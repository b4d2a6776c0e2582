//! Launches: their shape, limits and arguments.

mod args;
mod derived;
mod issue;
mod limits;
mod macros;
mod named;
pub(crate) mod names;
mod probe;
mod signature;
mod unborrowed;
mod views;

use std::fmt;

pub use args::{
    ArgClass, ArgKind, ArgType, ArgVisitor, DeviceRepr, EachArg, KernelArg, KernelArgs, UseVisitor,
};
pub use derived::{fill, over};
pub(crate) use issue::{call_name, issue, with_config};
pub(crate) use limits::{KernelLimits, Limits, explain, not_resident, special, within};
pub use named::named;
pub use probe::{Fallback, Known, Probe};
pub(crate) use signature::{Parameter, check, compare, scalar_element};
pub use views::{IntoLaunchConfig, ReadView, WriteView, in_x_alone};

/// The extent of a grid or a block in x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// The extent in x, which varies fastest.
    pub x: u32,
    /// The extent in y.
    pub y: u32,
    /// The extent in z.
    pub z: u32,
}

impl Dim3 {
    /// Creates an extent in three dimensions.
    #[must_use]
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// Returns the number of blocks in a grid, or of threads in a block.
    #[must_use]
    pub const fn count(self) -> u64 {
        // Grids have fewer than 2^31 × 2^16 × 2^16 blocks, so this only saturates for nonsense.
        (self.x as u64).saturating_mul(self.y as u64).saturating_mul(self.z as u64)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self::new(x, 1, 1)
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::new(x, y, z)
    }
}

impl From<[u32; 2]> for Dim3 {
    fn from([x, y]: [u32; 2]) -> Self {
        Self::new(x, y, 1)
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self::new(x, y, z)
    }
}

/// The shape of a launch: how many blocks of how many threads, how much dynamic shared memory, and
/// further attributes of the driver: blocks resident together, clusters, priority, an early start.
///
/// ```
/// use cuda_safe::LaunchConfig;
/// let launch = LaunchConfig::new(1024, (16, 16)).dynamic_shared_bytes(4096);
/// assert_eq!(launch.threads(), 1024 * 256);
/// assert_eq!(LaunchConfig::cover(1000, 256).grid.x, 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LaunchConfig {
    /// Blocks in the grid. A grid without blocks is no launch: `Ok`, and nothing is enqueued.
    pub grid: Dim3,
    /// Threads in each block.
    pub block: Dim3,
    /// Dynamic shared memory for each block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks are resident at the same time, so that they may wait for each other.
    pub cooperative: bool,
    /// The blocks of one cluster, in each direction; see [`LaunchConfig::cluster`].
    pub cluster: Option<Dim3>,
    /// The priority, if it differs from the stream's; see [`LaunchConfig::priority`].
    pub priority: Option<i32>,
    /// Private, since setting it is unsafe; see [`LaunchConfig::programmatic`].
    programmatic: bool,
}

impl LaunchConfig {
    /// Creates a launch of `grid` blocks of `block` threads.
    #[must_use]
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            dynamic_shared_bytes: 0,
            cooperative: false,
            cluster: None,
            priority: None,
            programmatic: false,
        }
    }

    /// Launches one thread for each of `n` elements, in blocks of `block` threads in x. The last block
    /// may have threads past the end: the kernel has to check.
    ///
    /// For more elements than the largest grid covers (2³¹ - 1 blocks) the launch is refused; a
    /// block of 0 threads too.
    #[inline]
    #[must_use]
    pub fn cover(n: usize, block: u32) -> Self {
        Self::cover_3d([n, 1, 1], [block, 1, 1])
    }

    /// Launches one thread for each of `width × height` elements, in blocks of `block` threads in x and
    /// y. The last blocks in each direction may have threads past the end: the kernel has to check.
    ///
    /// Without elements in one direction there are no blocks, and nothing is enqueued. The largest grid
    /// has 65,535 blocks in y.
    ///
    /// ```
    /// use cuda_safe::{Dim3, LaunchConfig};
    /// let launch = LaunchConfig::cover_2d([1920, 1080], [32, 8]);
    /// assert_eq!(launch.grid, Dim3::new(60, 135, 1));
    /// assert_eq!(launch.block, Dim3::new(32, 8, 1));
    /// ```
    #[inline]
    #[must_use]
    pub fn cover_2d([width, height]: [usize; 2], [x, y]: [u32; 2]) -> Self {
        Self::cover_3d([width, height, 1], [x, y, 1])
    }

    /// Launches one thread for each element of a box, in blocks of `block` threads in x, y and z; see
    /// [`LaunchConfig::cover_2d`]. The largest grid has 65,535 blocks in y and in z.
    ///
    /// ```
    /// use cuda_safe::{Dim3, LaunchConfig};
    /// let launch = LaunchConfig::cover_3d([100, 64, 9], [8, 8, 4]);
    /// assert_eq!(launch.grid, Dim3::new(13, 8, 3));
    /// assert_eq!(LaunchConfig::cover_3d([100, 0, 9], [8, 8, 4]).threads(), 0);
    /// ```
    #[inline]
    #[must_use]
    pub fn cover_3d(extents: [usize; 3], block: [u32; 3]) -> Self {
        let blocks = |axis: usize| {
            let blocks = extents[axis].div_ceil(block[axis].max(1) as usize);
            u32::try_from(blocks).unwrap_or(u32::MAX)
        };
        Self::new([blocks(0), blocks(1), blocks(2)], block)
    }

    /// Sets the dynamic shared memory of each block, in bytes.
    #[must_use]
    pub fn dynamic_shared_bytes(mut self, bytes: u32) -> Self {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// Makes it a cooperative launch: all blocks are resident at the same time. One whose blocks can't
    /// be is refused.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Groups blocks in clusters of this extent. The blocks of a cluster run at the same time, on
    /// multiprocessors close to each other, and reach each other's shared memory.
    ///
    /// Clusters change no index: grid and block are what they are without. The grid must be a
    /// multiple of the cluster in each direction. A cluster of up to 8 blocks runs on every device
    /// that has clusters (compute capability 9.0 and later); for larger ones see
    /// [`Kernel::set_non_portable_cluster`](crate::Kernel::set_non_portable_cluster). A kernel
    /// declared with `__cluster_dims__` needs none here.
    #[doc(alias = "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION")]
    #[must_use]
    pub fn cluster(mut self, blocks: impl Into<Dim3>) -> Self {
        self.cluster = Some(blocks.into());
        self
    }

    /// Sets a priority instead of the stream's: a lower number is more urgent, as in
    /// [`Device::stream_priorities`](crate::Device::stream_priorities). Where blocks of several
    /// kernels wait for room on the device, it says whose come first; it changes no order.
    #[doc(alias = "CU_LAUNCH_ATTRIBUTE_PRIORITY")]
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Makes it a programmatic dependent launch: the kernel may start while the kernel before it on the
    /// stream is still running, and waits for it by itself, with
    /// `cudaGridDependencySynchronize()` (PTX `griddepcontrol.wait`). Its work before that call overlaps with the end
    /// of the earlier kernel. Needs compute capability 9.0.
    ///
    /// Everything enqueued later is ordered behind the kernel as behind any other: an event
    /// recorded after it, a wait of another stream and a free cover it. As the kernel has itself
    /// waited for what was before it, they cover that too.
    ///
    /// # Safety
    /// For every kernel that is launched with this, or with a copy of it, through a method that is
    /// safe or not:
    /// - Each of its threads calls `cudaGridDependencySynchronize()` before it ends. Later work
    ///   knows only that this kernel is done; earlier work need not be if it did not wait.
    /// - Before that call a thread writes nothing but its registers and the shared and local memory
    ///   of its own block or cluster, and reads only memory that no unfinished earlier work of the
    ///   stream writes. Memory that was allocated on the stream may be what earlier work of the
    ///   stream has freed.
    ///
    /// The kernel before it has no part in this: the call waits until that kernel is done, even if
    /// it has let the next one start early with `cudaTriggerProgrammaticLaunchCompletion()`.
    #[doc(alias = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION")]
    #[must_use]
    pub unsafe fn programmatic(mut self) -> Self {
        self.programmatic = true;
        self
    }

    /// Returns whether this is a programmatic dependent launch; see [`LaunchConfig::programmatic`].
    #[must_use]
    pub fn is_programmatic(&self) -> bool {
        self.programmatic
    }

    /// This launch with the extents and the shared memory of another.
    pub(crate) fn with_extents_of(&self, other: &Self) -> Self {
        Self {
            grid: other.grid,
            block: other.block,
            dynamic_shared_bytes: other.dynamic_shared_bytes,
            ..*self
        }
    }

    /// Returns whether `cuLaunchKernel` can make the launch.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.cooperative & !self.has_attributes()
    }

    /// Returns whether only `cuLaunchKernelEx` can make the launch.
    #[inline]
    pub(crate) fn has_attributes(&self) -> bool {
        self.cluster.is_some() | self.priority.is_some() | self.programmatic
    }

    /// Returns the number of threads in all blocks.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.grid.count().saturating_mul(self.block.count())
    }
}

impl<G: Into<Dim3>, B: Into<Dim3>> From<(G, B)> for LaunchConfig {
    fn from((grid, block): (G, B)) -> Self {
        Self::new(grid, block)
    }
}

impl fmt::Display for LaunchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "grid {}, block {}, {} bytes shared",
            self.grid, self.block, self.dynamic_shared_bytes
        )?;
        if self.cooperative {
            f.write_str(", cooperative")?;
        }
        if let Some(cluster) = self.cluster {
            write!(f, ", clusters of {cluster}")?;
        }
        if let Some(priority) = self.priority {
            write!(f, ", priority {priority}")?;
        }
        if self.programmatic { f.write_str(", programmatic") } else { Ok(()) }
    }
}
