//! A block of threads: its warps, shared memory and barriers.

pub(crate) mod barrier;

use barrier::Barrier;

use super::check::BlockCheck;
use super::cluster::address::start_of;
use super::control::frame::{Frame, Registers};
use super::control::warp::{NONE, State, Turn, Warp};
use super::fault::Code;
use super::inst::LANES;
use super::machine::{Job, Machine};

/// The initial contents of shared memory: no value to rely on.
const UNWRITTEN: u8 = 0xfd;

/// A resident block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// `%ctaid`, and the same as one number.
    pub(crate) index: [u32; 3],
    pub(crate) linear: u64,
    /// `%cluster_ctaid`, and the same as one number.
    pub(crate) place: [u32; 3],
    pub(crate) rank: u32,
    /// Whether all its threads have ended.
    pub(crate) done: bool,
    pub(crate) warps: Vec<Warp>,
    pub(crate) shared: Option<Registers>,
    pub(crate) barriers: Vec<Barrier>,
    /// The state of the checkers; `None` while nothing is checked.
    pub(crate) check: Option<Box<BlockCheck>>,
    /// The warp whose turn is next.
    next: usize,
}

impl Block {
    /// Returns memory for a block of the launch.
    pub(crate) fn new(job: &Job<'_>) -> Self {
        let code = job.program.code(job.program.function_of(job.entry));
        let offsets = job.program.shared_offsets(job.entry);
        let warps = (0..job.warps)
            .map(|index| {
                let mut warp = Warp::default();
                warp.index = index;
                warp.new_frame(Box::new(Frame {
                    function: job.program.function_of(job.entry),
                    registers: Registers::of(code, offsets),
                    parent: NONE,
                    return_pc: 0,
                    call: 0,
                    local_base: 0,
                    saved_top: [0; LANES],
                    join: NONE,
                    depth: 0,
                }));
                if job.local_bytes != 0 {
                    warp.local = Some(Registers::new(job.local_bytes as usize * LANES));
                }
                warp
            })
            .collect();
        let shared = (job.shared_bytes != 0).then(|| Registers::new(job.shared_bytes as usize));
        Self { warps, shared, barriers: vec![Barrier::default(); 16], ..Self::default() }
    }

    /// Restarts as the block of this rank in a cluster.
    pub(crate) fn restart(&mut self, job: &Job<'_>, cluster: [u32; 3], rank: u32) {
        let [x, y, _] = job.cluster;
        self.place = [rank % x, rank / x % y, rank / x / y];
        self.index = std::array::from_fn(|at| cluster[at] * job.cluster[at] + self.place[at]);
        self.linear = job.block_number(self.index);
        (self.rank, self.done, self.next) = (rank, false, 0);
        let linear = self.linear;
        self.check = BlockCheck::new(
            self.check.take(),
            job.env.device.checks,
            (linear, job.blocks, job.warps),
            job.shared_bytes,
        );
        if let Some(shared) = &self.shared {
            // SAFETY: the memory is this block's alone, and no lane runs yet. The system's part is its start.
            unsafe {
                shared.start().write_bytes(UNWRITTEN, shared.bytes());
                shared.start().write_bytes(0, job.shared_reserved as usize);
            }
        }
        if let Some(store) = job.env.space.tangent_store() {
            let mut held = store.lock();
            let local = self.warps.iter().filter_map(|warp| warp.local.as_ref());
            for memory in self.shared.iter().chain(local) {
                held.clear(memory.start().expose_provenance() as u64, memory.bytes() as u64);
            }
        }
        if let Some(check) = &self.check {
            check.wrote_shared(job.shared_reserved);
        }
        for barrier in &mut self.barriers {
            barrier.reset();
        }
        let local = job.program.code(job.program.function_of(job.entry)).local_bytes;
        for (at, warp) in self.warps.iter_mut().enumerate() {
            let first = at as u32 * LANES as u32;
            let lanes = (job.threads - first).min(LANES as u32);
            if job.cluster_blocks > 1
                && let Some(frame) = warp.frame(0)
            {
                // The addresses of shared variables differ by the rank.
                let code = job.program.code(frame.function);
                let offsets = job.program.shared_offsets(job.entry);
                frame.registers.place_shared(code, offsets, start_of(rank));
            }
            warp.restart(u32::MAX >> (LANES as u32 - lanes), local);
        }
    }
}

impl Block {
    /// Returns whether threads wait at the barrier of the cluster.
    fn waits_for_cluster(&self) -> bool {
        let waits = |warp: &Warp| warp.splits.iter().any(|split| split.state == State::Cluster);
        self.warps.iter().any(waits)
    }
}

impl Machine<'_> {
    /// Runs the current block until it is done, a warp's slice ends, or all warps have had a number of rounds.
    pub(crate) fn run_block(&mut self) -> BlockTurn {
        self.shared = self.block.shared.as_ref().map_or(std::ptr::null_mut(), Registers::start);
        self.shared_start = start_of(self.block.rank);
        let mut moved = false;
        for _ in 0..ROUNDS {
            let (mut progress, mut expired, mut live) = (false, false, false);
            let mut asleep = false;
            self.slept = false;
            for turn in 0..self.block.warps.len() {
                let at = (self.block.next + turn) % self.block.warps.len();
                if self.block.warps[at].splits.is_empty() && self.block.warps[at].live == 0 {
                    continue;
                }
                live = true;
                asleep |= self.wake_sleepers(at);
                let ready = self.block.warps[at].ready();
                if !ready && !self.block.warps[at].waits_inside() {
                    continue;
                }
                std::mem::swap(&mut self.warp, &mut self.block.warps[at]);
                self.local =
                    self.warp.local.as_ref().map_or(std::ptr::null_mut(), Registers::start);
                self.fuel = SLICE;
                self.moved = ready;
                let end = self.run_warp();
                std::mem::swap(&mut self.warp, &mut self.block.warps[at]);
                progress |= self.moved;
                match end {
                    Turn::Fault => return BlockTurn::Fault,
                    Turn::Expired => expired = true,
                    Turn::Blocked => {}
                }
            }
            if !live {
                return BlockTurn::Done;
            }
            moved |= progress;
            self.awake |= progress;
            if !progress {
                if asleep {
                    return BlockTurn::Expired;
                }
                if self.block.waits_for_cluster() {
                    return BlockTurn::Waits { moved };
                }
                self.deadlock();
                return BlockTurn::Fault;
            }
            // A lane that sleeps may wait for another block, also if the sleep is short.
            if expired || self.slept {
                return BlockTurn::Expired;
            }
        }
        // Warps that meet at barriers again and again expire none of their slices. Other blocks must still run, and the
        // clock must be read.
        BlockTurn::Expired
    }

    /// Every live thread of the block waits for a thread that never arrives.
    pub(crate) fn deadlock(&mut self) {
        let mut text = String::from("every thread of the block that is left waits:");
        let mut first = None;
        let (mut at_barrier, mut at_cluster, mut at_sync) = (0, 0, 0);
        for warp in &self.block.warps {
            for split in &warp.splits {
                match split.state {
                    State::Barrier(id) => {
                        at_barrier += split.mask.count_ones();
                        first.get_or_insert((warp.index, *split, Some(id)));
                    }
                    State::Cluster => {
                        at_cluster += split.mask.count_ones();
                        first.get_or_insert((warp.index, *split, None));
                    }
                    _ => {
                        at_sync += split.mask.count_ones();
                        first.get_or_insert((warp.index, *split, None));
                    }
                }
            }
        }
        if at_barrier != 0 {
            text.push_str(&format!(" {at_barrier} at a barrier,"));
        }
        if at_cluster != 0 {
            text.push_str(&format!(" {at_cluster} at the cluster's barrier,"));
        }
        if at_sync != 0 {
            text.push_str(&format!(" {at_sync} for lanes that a .sync instruction names,"));
        }
        text.push_str(" which the others never reach");
        let Some((warp, split, _)) = first else { return };
        let at = warp as usize;
        std::mem::swap(&mut self.warp, &mut self.block.warps[at]);
        self.enter(split);
        // The `pc` of a split at a barrier is after it.
        if matches!(split.state, State::Barrier(_) | State::Cluster) {
            self.pc = self.pc.saturating_sub(1);
        }
        self.fail(Code::LaunchFailed, split.mask.trailing_zeros() as usize, text);
        std::mem::swap(&mut self.warp, &mut self.block.warps[at]);
    }
}

/// Branches of a warp in a slice.
pub(crate) const SLICE: i64 = 1 << 16;

/// Rounds of all warps before another block runs.
const ROUNDS: u32 = 1 << 12;

/// The end of a block's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockTurn {
    Done,
    Expired,
    /// Its threads wait for other blocks of the cluster; whether one has moved before that.
    Waits {
        moved: bool,
    },
    Fault,
}
