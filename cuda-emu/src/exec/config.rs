//! The input of a launch: the device, the settings, the launch itself.

use std::fmt;
use std::time::Duration;

use super::builtins::heap::Heap;
use super::count::Executed;
use super::program::EntryId;
use super::taint::Reached;
use crate::config::Checks;
use crate::space::Space;

/// Bytes of shared memory that each block has for the system, before its own.
pub(crate) const SHARED_RESERVED: u32 = 1024;

/// The properties of the device that programs and launches need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its ordinal.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Compute capability: major, minor.
    pub cc: (u32, u32),
    /// The newest PTX ISA that it takes.
    pub isa: (u16, u16),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a block at most.
    pub max_threads: u32,
    /// Bytes of shared memory of a block, as long as nothing is said.
    pub shared_per_block: u32,
    /// The same for kernels that ask for more.
    pub shared_optin: u32,
    /// Bytes of shared memory that occupancy counts for the system in each block.
    pub shared_reserved: u32,
    /// Threads of a multiprocessor at most.
    pub threads_per_multiprocessor: u32,
    /// Blocks of a multiprocessor at most.
    pub blocks_per_multiprocessor: u32,
    /// What the device says of its speed.
    pub speeds: Speeds,
    /// Bytes of its memory.
    pub total_memory: u64,
    /// Whether bare float `mul` and `add` are fused when a program is loaded.
    pub contract: bool,
    /// The checks of loaded kernels.
    pub checks: Checks,
    /// Whether loaded kernels propagate tangents.
    pub tangents: bool,
    /// Whether loaded kernels count their instructions.
    pub counts: bool,
    /// Whether loaded kernels follow approximate values; not together with tangents.
    pub taint: bool,
}

/// What a device says of its speed. Nothing here depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Speeds {
    /// kHz.
    pub clock: u32,
    /// kHz.
    pub memory_clock: u32,
    /// Bits of the bus to its memory.
    pub bus_bits: u32,
    /// Bytes of its second cache.
    pub l2: u32,
    /// How many times more instructions it does in f32 than in f64.
    pub double_ratio: u32,
}

impl Speeds {
    /// Of the clocks in MHz, the bits of the bus, the MiB of the second cache, and the ratio of f32 to f64.
    pub(crate) const fn new(clock: u32, memory: u32, bus_bits: u32, l2: u32, ratio: u32) -> Self {
        let (clock, memory_clock) = (clock * 1000, memory * 1000);
        Self { clock, memory_clock, bus_bits, l2: l2 << 20, double_ratio: ratio }
    }
}

impl Default for DeviceInfo {
    fn default() -> Self {
        Self {
            ordinal: 0,
            name: "software device".to_owned(),
            cc: (9, 0),
            isa: (9, 0),
            multiprocessors: 132,
            max_threads: 1024,
            shared_per_block: 48 << 10,
            shared_optin: 227 << 10,
            shared_reserved: SHARED_RESERVED,
            threads_per_multiprocessor: 2048,
            blocks_per_multiprocessor: 32,
            // A device without a profile says what is true of software.
            speeds: Speeds::new(1000, 1000, 64, 4, 2),
            total_memory: 16 << 30,
            contract: false,
            checks: Checks::default(),
            tangents: false,
            counts: false,
            taint: false,
        }
    }
}

/// How launches are executed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecConfig {
    /// Threads of the host that run a launch.
    pub workers: usize,
    /// After which a launch ends with 702.
    pub timeout: Option<Duration>,
    /// The order in which blocks begin: ascending, or drawn from this seed.
    pub block_order_seed: Option<u64>,
    /// Bytes of each thread's stack for recursion and `alloca`, beyond what is known from the
    /// program (the limit `CU_LIMIT_STACK_SIZE`).
    pub stack_bytes: u32,
}

impl Default for ExecConfig {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            timeout: None,
            block_order_seed: None,
            stack_bytes: 1024,
        }
    }
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The kernel.
    pub entry: EntryId,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The parameters, laid out as [`Program::params`](super::Program::params) says.
    pub params: Vec<u8>,
    /// Whether all blocks are resident at once.
    pub cooperative: bool,
    /// Blocks of a cluster in each dimension, which divide the grid; without, each block is a cluster.
    pub cluster: Option<[u32; 3]>,
}

/// The environment of a launch.
pub struct Env<'a> {
    /// The memory.
    pub space: &'a Space,
    /// The device.
    pub device: &'a DeviceInfo,
    /// The settings.
    pub config: &'a ExecConfig,
    /// The memory of the kernels' `malloc`.
    pub heap: &'a Heap,
    /// Receives the output of a thread, one whole `printf` at a time.
    pub printf: &'a (dyn Fn(&[u8]) + Sync),
}

impl fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("device", self.device)
            .field("config", self.config)
            .finish_non_exhaustive()
    }
}

/// The results of a launch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Instructions, each counted once for each active lane.
    pub lane_instructions: u64,
    /// Instructions of the program, if they are counted.
    pub executed: Executed,
    /// Where approximate values decided something, if they are followed.
    pub reached: Vec<Reached>,
}
