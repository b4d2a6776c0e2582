//! Launches: their shape, limits and arguments.

mod args;
mod derived;
mod enqueue;
mod integer;
mod issue;
mod limits;
mod named;
mod pointers;
mod probe;
mod shape;
mod signature;
mod unborrowed;

use std::fmt;

pub use args::{
    ArgClass, ArgKind, ArgType, ArgVisitor, DeviceRepr, InspectArgs, KernelArg, KernelArgs,
    ReadOnly,
};
pub use derived::{fill, over};
pub use integer::{Integer, Number, integer, number};
pub(crate) use issue::{call_name, issue, with_config};
pub(crate) use limits::{KernelLimits, explain, not_resident, special, within};
pub use named::named;
pub use pointers::{IntoRawPointer, NullableReadView, NullableWriteView, RawPointer};
pub use probe::{Fallback, Known, Probe};
pub use shape::{IntoLaunchConfig, in_x_alone};
pub(crate) use signature::{Parameter, check, compare, scalar_element};

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

/// Returns an extent as grids and blocks have it. One that 32 bits cannot hold becomes `u32::MAX`, which is beyond the
/// limits of every device: the launch is refused.
#[inline]
#[must_use]
pub fn extent(value: impl Integer<u32>) -> u32 {
    value.convert().unwrap_or(u32::MAX)
}

/// Any integer is an extent in x. The extent of a negative one, and of one beyond 2³² - 1, is `u32::MAX`, which no
/// launch may have: it is refused with an error.
impl<X: Integer<u32>> From<X> for Dim3 {
    #[inline]
    fn from(x: X) -> Self {
        Self::new(extent(x), 1, 1)
    }
}

/// Two integers are extents in x and y, as one is in x.
impl<X: Integer<u32>, Y: Integer<u32>> From<(X, Y)> for Dim3 {
    #[inline]
    fn from((x, y): (X, Y)) -> Self {
        Self::new(extent(x), extent(y), 1)
    }
}

/// Three integers are extents in x, y and z, as one is in x.
impl<X: Integer<u32>, Y: Integer<u32>, Z: Integer<u32>> From<(X, Y, Z)> for Dim3 {
    #[inline]
    fn from((x, y, z): (X, Y, Z)) -> Self {
        Self::new(extent(x), extent(y), extent(z))
    }
}

/// Two integers are extents in x and y, as one is in x.
impl<X: Integer<u32>> From<[X; 2]> for Dim3 {
    #[inline]
    fn from([x, y]: [X; 2]) -> Self {
        Self::new(extent(x), extent(y), 1)
    }
}

/// Three integers are extents in x, y and z, as one is in x.
impl<X: Integer<u32>> From<[X; 3]> for Dim3 {
    #[inline]
    fn from([x, y, z]: [X; 3]) -> Self {
        Self::new(extent(x), extent(y), extent(z))
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
///
/// Extents are integers of any type. One that 32 bits cannot hold gives a launch that is refused:
///
/// ```
/// use cuda_safe::{Dim3, LaunchConfig};
/// let (width, height): (usize, usize) = (1920, 1080);
/// let launch = LaunchConfig::new((width.div_ceil(32), height), 32);
/// assert_eq!(launch.grid, Dim3::new(60, 1080, 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LaunchConfig {
    /// Blocks in the grid. A grid of 0 blocks is refused at the launch, as CUDA refuses it, except where
    /// [`cover`](Self::cover), [`cover_2d`](Self::cover_2d) or [`cover_3d`](Self::cover_3d) made it for 0 elements.
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
    /// Set where there are no blocks because there are no elements; see [`LaunchConfig::covers_nothing`].
    no_elements: bool,
}

impl LaunchConfig {
    /// Creates a launch of `grid` blocks of `block` threads. With 0 of either it is refused at the launch; use
    /// [`LaunchConfig::cover`] where there may be nothing to do.
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
            no_elements: false,
        }
    }

    /// Launches one thread for each of `n` elements, in blocks of `block` threads in x. The last block
    /// may have threads past the end: the kernel has to check.
    ///
    /// For 0 elements the launch is `Ok` and enqueues nothing. For more elements than the largest grid covers (2³¹ - 1
    /// blocks) and for a negative number it is refused; a block of 0 threads too.
    #[inline]
    #[must_use]
    pub fn cover(n: impl Integer<usize>, block: impl Integer<u32>) -> Self {
        let n = n.convert().unwrap_or(usize::MAX);
        Self::cover_3d([n, 1, 1], [extent(block), 1, 1])
    }

    /// Launches one thread for each of `width × height` elements, in blocks of `block` threads in x and
    /// y. The last blocks in each direction may have threads past the end: the kernel has to check.
    ///
    /// Without elements in one direction the launch is `Ok` and enqueues nothing. The largest grid
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
    pub fn cover_2d(extents: [impl Integer<usize>; 2], block: [impl Integer<u32>; 2]) -> Self {
        let [width, height] = extents.map(|extent| extent.convert().unwrap_or(usize::MAX));
        let [x, y] = block.map(extent);
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
    pub fn cover_3d(extents: [impl Integer<usize>; 3], block: [impl Integer<u32>; 3]) -> Self {
        // An extent that does not fit becomes `usize::MAX`, which no grid covers with any block.
        let extents = extents.map(|extent| extent.convert().unwrap_or(usize::MAX));
        let block = block.map(extent);
        let blocks = |axis: usize| {
            let blocks = extents[axis].div_ceil(block[axis].max(1) as usize);
            u32::try_from(blocks).unwrap_or(u32::MAX)
        };
        Self::new([blocks(0), blocks(1), blocks(2)], block).or_nothing()
    }

    /// Makes this launch enqueue nothing if it has no blocks, as one that covers 0 elements.
    #[inline]
    pub(crate) fn or_nothing(mut self) -> Self {
        self.no_elements = self.grid.count() == 0;
        self
    }

    /// Returns whether this launch enqueues nothing, which is no error: one of the `cover` functions made it for 0
    /// elements, as `over n` does for `n = 0`.
    ///
    /// ```
    /// use cuda_safe::LaunchConfig;
    /// assert!(LaunchConfig::cover(0, 256).covers_nothing());
    /// assert!(!LaunchConfig::new(0, 256).covers_nothing()); // refused at the launch
    /// ```
    #[inline]
    #[must_use]
    pub fn covers_nothing(&self) -> bool {
        self.no_elements && self.grid.count() == 0
    }

    /// Sets the dynamic shared memory of each block, in bytes. A number that 32 bits cannot hold is refused at the
    /// launch.
    #[must_use]
    pub fn dynamic_shared_bytes(mut self, bytes: impl Integer<u32>) -> Self {
        self.dynamic_shared_bytes = extent(bytes);
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
            no_elements: other.no_elements,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_integers_of_any_type() {
        let three = Dim3::new(7, 8, 9);
        assert_eq!(Dim3::from((7usize, 8i32, 9u8)), three);
        assert_eq!(Dim3::from([7i64, 8, 9]), three);
        assert_eq!(Dim3::from((7u128, 8)), Dim3::new(7, 8, 1));
        assert_eq!(Dim3::from([7, 8]), Dim3::new(7, 8, 1));
        assert_eq!(Dim3::from(u32::MAX - 1), Dim3::new(u32::MAX - 1, 1, 1));
        let (width, height) = (1920usize, 1080i32);
        let launch: LaunchConfig = ((width / 32, height), [32, 1]).into();
        assert_eq!((launch.grid, launch.block), (Dim3::new(60, 1080, 1), Dim3::new(32, 1, 1)));
        assert_eq!(LaunchConfig::cover(1000i64, 256usize), LaunchConfig::cover(1000usize, 256u32));
        assert_eq!(
            LaunchConfig::new(1, 1).dynamic_shared_bytes(4 * width).dynamic_shared_bytes,
            7680
        );
    }

    #[test]
    fn only_launches_that_cover_0_elements_cover_nothing() {
        let none = LaunchConfig::cover(0, 256);
        assert!(none.covers_nothing());
        assert!(LaunchConfig::cover_2d([7, 0], [16, 16]).covers_nothing());
        assert!(LaunchConfig::cover_3d([0, 7, 7], [8, 8, 4]).covers_nothing());
        // The builder's methods keep it.
        let built = none.dynamic_shared_bytes(64).cooperative().cluster(2).priority(-1);
        assert!(built.covers_nothing());
        assert_eq!((none.grid, none.block), (Dim3::new(0, 1, 1), Dim3::new(256, 1, 1)));
        for launch in [LaunchConfig::new(0, 256), (0, 256).into(), LaunchConfig::new((7, 0), 16)] {
            assert!(!launch.covers_nothing(), "{launch}");
            assert_ne!(launch, none);
        }
        // With elements, both functions give the same launch.
        assert_eq!(LaunchConfig::cover(1000, 256), LaunchConfig::new(4, 256));
        let mut given_blocks = none;
        given_blocks.grid.x = 4;
        assert!(!given_blocks.covers_nothing());
        let mut taken_away = LaunchConfig::cover(1000, 256);
        taken_away.grid.x = 0;
        assert!(!taken_away.covers_nothing());
    }

    #[test]
    fn what_32_bits_cannot_hold_is_larger_than_any_grid_or_block() {
        const MOST: u32 = u32::MAX;
        assert_eq!(Dim3::from((-1, 1usize << 32, i128::MIN)), Dim3::new(MOST, MOST, MOST));
        assert_eq!(Dim3::from([usize::MAX, 1]), Dim3::new(MOST, 1, 1));
        for (n, block) in
            [(i128::MAX, 1u64), (-1, 1024), (i128::from(u64::MAX), 1 << 40), (1 << 41, 1)]
        {
            assert_eq!(LaunchConfig::cover(n, block).grid.x, MOST, "{n}");
        }
        assert_eq!(LaunchConfig::cover_2d([5, -5], [16, 16]).grid, Dim3::new(1, MOST, 1));
        assert_eq!(LaunchConfig::cover_3d([5, 5, -5], [8, 8, 8]).grid, Dim3::new(1, 1, MOST));
        assert_eq!(LaunchConfig::cover(5, -1).block.x, MOST);
        assert_eq!(LaunchConfig::new(1, 1).dynamic_shared_bytes(-4).dynamic_shared_bytes, MOST);
    }
}
