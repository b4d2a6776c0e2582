//! What a launch consists of: its shape, its limits, and its arguments.

mod args;
mod limits;
mod macros;
pub(crate) mod names;
mod signature;
mod views;

use std::fmt;

pub use args::{ArgKind, ArgType, Class, DeviceRepr, KernelArg, KernelArgs, UseVisitor};
pub(crate) use args::{Begin, End};
pub(crate) use limits::{KernelLimits, Limits, explain, not_resident, within};
pub(crate) use signature::{Parameter, check};
pub use views::{IntoLaunch, ReadView, WriteView, in_x_alone};

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
    /// The extent in three dimensions.
    #[must_use]
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// The number of blocks in a grid, or of threads in a block.
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
/// whether all blocks must be resident together.
///
/// ```
/// use cuda_safe::Launch;
/// let launch = Launch::new(1024, (16, 16)).shared(4096);
/// assert_eq!(launch.threads(), 1024 * 256);
/// assert_eq!(Launch::cover(1000, 256).grid.x, 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Launch {
    /// Blocks in the grid. A grid without blocks is no launch: `Ok`, and nothing is enqueued.
    pub grid: Dim3,
    /// Threads in each block.
    pub block: Dim3,
    /// Dynamic shared memory for each block, in bytes.
    pub shared: u32,
    /// Whether all blocks are resident at the same time, so that they may wait for each other.
    pub cooperative: bool,
}

impl Launch {
    /// A launch of `grid` blocks of `block` threads.
    #[must_use]
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self { grid: grid.into(), block: block.into(), shared: 0, cooperative: false }
    }

    /// One thread for each of `n` elements, in blocks of `block` threads in x. The last block may
    /// have threads past the end: the kernel has to check.
    ///
    /// For more elements than the largest grid covers (2³¹ - 1 blocks) the launch is refused; a
    /// block of 0 threads too.
    #[must_use]
    pub fn cover(n: usize, block: u32) -> Self {
        let blocks = n.div_ceil(block.max(1) as usize);
        Self::new(u32::try_from(blocks).unwrap_or(u32::MAX), block)
    }

    /// With this much dynamic shared memory for each block, in bytes.
    #[must_use]
    pub fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }

    /// As a cooperative launch: all blocks are resident at the same time. One whose blocks can't
    /// be is refused.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// The number of threads in all blocks.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.grid.count().saturating_mul(self.block.count())
    }
}

impl<G: Into<Dim3>, B: Into<Dim3>> From<(G, B)> for Launch {
    fn from((grid, block): (G, B)) -> Self {
        Self::new(grid, block)
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grid {}, block {}, {} bytes shared", self.grid, self.block, self.shared)?;
        if self.cooperative { f.write_str(", cooperative") } else { Ok(()) }
    }
}
