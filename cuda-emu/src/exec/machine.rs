//! The state of a worker thread: the running warp, its block, and its launch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::block::Block;
use super::cluster::Cluster;
use super::control::warp::Warp;
use super::decode::Code;
use super::fault::Fault;
use super::inst::LANES;
use super::memory::site::Sites;
use super::program::{EntryId, Program};
use super::{Env, Launch};
use crate::space::Region;

/// A value alone in its cache lines: writes do not disturb readers of its neighbours.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// How much dearer a poll is while accesses are watched, by one worker.
const WATCHED_POLLS: i64 = 32;

/// The driver's data of a launch.
pub(crate) struct Around<'a> {
    /// Sets a condition of the graph that the launch is part of; false if there is no such one.
    pub(crate) condition: &'a (dyn Fn(u64, u32) -> bool + Sync),
    /// Whether a region of another device may be read (1) and written (2).
    pub(crate) reach: &'a (dyn Fn(&Region) -> u32 + Sync),
}

impl Around<'_> {
    /// Of a launch that is part of nothing, and may use all memory.
    pub(crate) const ALONE: Around<'static> = Around { condition: &|_, _| false, reach: &|_| 3 };
}

/// The state that all workers of a launch share.
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) entry: EntryId,
    pub(crate) launch: &'a Launch,
    pub(crate) env: &'a Env<'a>,
    pub(crate) around: &'a Around<'a>,
    /// `%gridid`
    pub(crate) number: u64,
    /// Bytes of shared memory of a block, those for the system included.
    pub(crate) shared_bytes: u32,
    /// Bytes at its start that are for the system; 0 if no function of the kernel reads where they are.
    pub(crate) shared_reserved: u32,
    pub(crate) workspace: Option<super::grid::Workspace<'a>>,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    /// Threads and warps of a block.
    pub(crate) threads: u32,
    pub(crate) warps: u32,
    /// `%tid` of each warp's lanes.
    pub(crate) tids: Vec<[[u32; LANES]; 3]>,
    /// The parameters, padded so that 16 bytes can be read at each offset.
    pub(crate) params: super::grid::Params,
    /// Blocks of the grid.
    pub(crate) blocks: u64,
    /// Blocks of a cluster in each dimension, and all of them.
    pub(crate) cluster: [u32; 3],
    pub(crate) cluster_blocks: u32,
    /// Clusters of the grid, and the next one to start.
    pub(crate) clusters: u64,
    pub(crate) next: Apart<AtomicU64>,
    /// Another worker has met a fault.
    pub(crate) stop: AtomicBool,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
}

/// A worker's state.
pub(crate) struct Machine<'a> {
    /// The registers of the current frame.
    pub(crate) regs: *mut u8,
    /// The lanes of the current split.
    pub(crate) mask: u32,
    /// The instruction that runs; after a jump the one to run.
    pub(crate) pc: u32,
    /// The function of the current frame.
    pub(crate) code: &'a Code,
    /// Branches left in the time slice; polls take more.
    pub(crate) fuel: i64,
    /// Whether memory was polled in this slice: somebody else may have to make progress.
    pub(crate) polled: bool,
    /// Whether lanes of the block have begun to sleep in this round.
    pub(crate) slept: bool,
    /// When the first lane that sleeps goes on, of those that the worker has seen asleep.
    pub(crate) earliest: u64,
    /// Whether a warp of the cluster has moved a lane since it runs.
    pub(crate) awake: bool,
    /// Whether the current warp has moved a lane in this slice.
    pub(crate) moved: bool,
    /// Time slices that have ended.
    pub(crate) slices: u32,
    /// The current split: its frame and join.
    pub(crate) frame: u32,
    pub(crate) join: u32,
    pub(crate) shared: *mut u8,
    /// The address of the start of the block's shared memory.
    pub(crate) shared_start: u64,
    pub(crate) local: *mut u8,
    pub(crate) sites: Sites,
    pub(crate) space: &'a crate::space::Space,
    /// Whether the host has AVX2.
    pub(crate) wide: bool,
    pub(crate) warp: Warp,
    pub(crate) block: Block,
    /// The other blocks of the running block's cluster.
    pub(crate) cluster: Cluster,
    pub(crate) job: &'a Job<'a>,
    pub(crate) fault: Option<Fault>,
    /// Racecheck's state of device memory; `None` while nothing is checked.
    pub(crate) global: Option<Box<super::check::GlobalCheck>>,
    /// Instructions, counted once for each active lane.
    pub(crate) lane_instructions: u64,
    /// Lanes that came to each [`Count`](super::count::Count); none unless instructions are counted.
    pub(crate) counts: Vec<u64>,
    /// What approximate values decided.
    pub(crate) reached: super::taint::Places,
    /// Registers of frames that are not in use, by function.
    pub(crate) spare: Vec<Vec<super::control::frame::Registers>>,
}

impl Machine<'_> {
    /// Returns the 32 values of a register.
    ///
    /// # Safety
    /// `slot` is a register of this width in the frame that `regs` points to, and is not written
    /// while the reference lives.
    #[inline(always)]
    pub(crate) unsafe fn lanes<'r, T: Copy>(&self, slot: u32) -> &'r [T; LANES] {
        // SAFETY: the slot lies in the frame's registers, which are initialised, aligned to 64 and
        // stay where they are.
        unsafe { &*self.regs.add(slot as usize).cast::<[T; LANES]>() }
    }

    /// Returns the 32 values of a register, to be written.
    ///
    /// # Safety
    /// As for [`Machine::lanes`], and no other reference to the register lives.
    #[inline(always)]
    pub(crate) unsafe fn lanes_mut<'r, T: Copy>(&mut self, slot: u32) -> &'r mut [T; LANES] {
        // SAFETY: as in `lanes`; the caller promises that the reference is the only one.
        unsafe { &mut *self.regs.add(slot as usize).cast::<[T; LANES]>() }
    }

    /// Returns the lanes in which a predicate is true.
    ///
    /// # Safety
    /// `slot` is a predicate of the frame.
    #[inline(always)]
    pub(crate) unsafe fn pred(&self, slot: u32) -> u32 {
        // SAFETY: predicates are u32 at multiples of 4.
        unsafe { *self.regs.add(slot as usize).cast::<u32>() }
    }

    /// Sets a predicate in the lanes of a mask.
    ///
    /// # Safety
    /// `slot` is a predicate of the frame.
    #[inline(always)]
    pub(crate) unsafe fn put_pred(&mut self, slot: u32, bits: u32, mask: u32) {
        // SAFETY: predicates are u32 at multiples of 4.
        let p = unsafe { &mut *self.regs.add(slot as usize).cast::<u32>() };
        *p = (*p & !mask) | (bits & mask);
    }

    /// Takes from the time slice for an access by which a thread may wait for another.
    #[inline]
    pub(crate) fn poll(&mut self, cost: i64) {
        // A watched poll is slow, and no other worker could make it succeed.
        self.fuel -= if self.global.is_some() { cost * WATCHED_POLLS } else { cost };
        self.polled = true;
    }

    /// Nanoseconds since the launch began.
    pub(crate) fn nanoseconds(&self) -> u64 {
        u64::try_from(self.job.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns whether another worker has ended the launch.
    pub(crate) fn stopped(&self) -> bool {
        self.job.stop.load(Ordering::Relaxed)
    }
}

impl<'a> Machine<'a> {
    /// Returns the instruction's further operands.
    #[inline(always)]
    pub(crate) fn list(&self, at: u32) -> &'a [u32] {
        let (len, rest) = match self.code.lists.get(at as usize..) {
            Some([len, rest @ ..]) => (*len as usize, rest),
            _ => return &[],
        };
        rest.get(..len).unwrap_or_default()
    }
}
