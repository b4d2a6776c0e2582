//! The barrier of a cluster.

use crate::exec::block::Block;
use crate::exec::block::barrier::merge;
use crate::exec::check::clock::Clock;
use crate::exec::control::warp::{Split, State, Warp};
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, Lanes};
use crate::exec::machine::Machine;

/// The lanes of a warp at the barrier.
#[derive(Debug, Clone, Copy, Default)]
struct Here {
    /// They have arrived, and others have not.
    arrived: u32,
    /// All have arrived, and these have not waited for it yet.
    passed: u32,
}

/// The barrier of a cluster's threads.
#[derive(Debug, Default)]
pub(crate) struct ClusterBarrier {
    /// The lanes of each warp, block after block.
    here: Vec<Here>,
    warps: usize,
    /// The clocks of the threads that have arrived, and those of the last time when all had.
    published: Clock,
    completed: Clock,
}

impl ClusterBarrier {
    pub(super) fn restart(&mut self, blocks: &[Block]) {
        self.warps = blocks.first().map_or(0, |block| block.warps.len());
        self.here.clear();
        self.here.resize(self.warps * blocks.len(), Here::default());
        (self.published, self.completed) = (Clock::default(), Clock::default());
    }

    fn of(&mut self, rank: u32, warp: u32) -> Option<&mut Here> {
        self.here.get_mut(rank as usize * self.warps + warp as usize)
    }
}

/// Lets the lanes of a warp that wait at the barrier go on.
fn wake(warp: &mut Warp, mut woken: impl FnMut(u32, u32)) {
    let mut any = false;
    for split in &mut warp.splits {
        if split.state == State::Cluster {
            split.state = State::Ready;
            any = true;
            woken(warp.index, split.mask);
        }
    }
    if any {
        merge(&mut warp.splits);
    }
}

impl Machine<'_> {
    /// Lets the lanes that wait go on if every thread of the cluster that has not ended has arrived.
    pub(crate) fn check_cluster_barrier(&mut self) {
        let (rank, warp, own) =
            (self.block.rank as usize, self.warp.index as usize, self.warp.live);
        let Self { cluster, block, .. } = self;
        let warps = cluster.barrier.warps;
        if warps == 0 || cluster.barrier.here.iter().all(|here| here.arrived == 0) {
            return;
        }
        let live = |at: usize| match (at / warps, at % warps) {
            // The warp that runs is in the machine, and so is its block.
            here if here == (rank, warp) => own,
            (of, at) if of == rank => block.warps.get(at).map_or(0, |warp| warp.live),
            (of, at) => {
                let block = cluster.blocks.get(of);
                block.and_then(|block| block.warps.get(at)).map_or(0, |warp| warp.live)
            }
        };
        let missing = |(at, here): (usize, &_)| {
            let Here { arrived, .. } = *here;
            live(at) & !arrived != 0
        };
        if cluster.barrier.here.iter().enumerate().any(missing) {
            return;
        }
        for here in &mut cluster.barrier.here {
            *here = Here { arrived: 0, passed: here.passed | here.arrived };
        }
        cluster.barrier.completed = std::mem::take(&mut cluster.barrier.published);
        self.wake_cluster();
    }

    fn wake_cluster(&mut self) {
        let Self { cluster, block, warp, .. } = self;
        let super::Cluster { blocks, barrier, .. } = cluster;
        let mut all = |block: &mut Block, running: Option<&mut Warp>| {
            let Block { warps, check, rank, .. } = block;
            for warp in warps.iter_mut().chain(running) {
                wake(warp, |index, mask| {
                    if let Some(here) = barrier.of(*rank, index) {
                        here.passed &= !mask;
                    }
                    if let Some(check) = check {
                        check.wake(&barrier.completed, index, mask);
                    }
                });
            }
        };
        all(block, Some(warp));
        // The place of the block that runs is empty.
        blocks.iter_mut().for_each(|block| all(block, None));
    }
}

/// The immediate of [`Arrive`] for `.relaxed`.
pub(crate) const RELAXED: u64 = 1;

/// `barrier.cluster.arrive`
pub(crate) struct Arrive;
impl Lanes for Arrive {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let (rank, index) = (m.block.rank, m.warp.index);
        let Some(here) = m.cluster.barrier.of(rank, index) else { return Flow::Next };
        let again = mask & (here.arrived | here.passed);
        here.arrived |= mask;
        if again != 0 {
            let lane = again.trailing_zeros() as usize;
            let what = "the thread arrives at the cluster's barrier again without waiting for it";
            return m.fail(Code::IllegalInstruction, lane, what.to_owned());
        }
        if let (Some(check), true) = (&mut m.block.check, i.imm != RELAXED) {
            check.clocks.arrive(&mut m.cluster.barrier.published, index, mask);
        }
        m.check_cluster_barrier();
        Flow::Next
    }
}

/// `barrier.cluster.wait`
pub(crate) struct Wait;
impl Lanes for Wait {
    unsafe fn go(m: &mut Machine<'_>, _i: &Inst, mask: u32) -> Flow {
        let (rank, index) = (m.block.rank, m.warp.index);
        let Some(here) = m.cluster.barrier.of(rank, index) else { return Flow::Next };
        let (passed, waits) = (mask & here.passed, mask & here.arrived);
        here.passed &= !mask;
        let without = mask & !(passed | waits);
        if without != 0 {
            let lane = without.trailing_zeros() as usize;
            let what = "the thread waits at the cluster's barrier without having arrived";
            return m.fail(Code::IllegalInstruction, lane, what.to_owned());
        }
        if let Some(check) = &mut m.block.check {
            check.wake(&m.cluster.barrier.completed, index, passed);
        }
        if waits == 0 {
            return Flow::Next;
        }
        let (rest, pc) = (m.mask & !waits, m.pc + 1);
        let split = Split { mask: waits, ..m.current(pc, State::Cluster) };
        m.warp.splits.push(split);
        if rest != 0 {
            let split = Split { mask: rest, ..m.current(pc, State::Ready) };
            m.warp.splits.push(split);
        }
        Flow::Leave
    }
}
