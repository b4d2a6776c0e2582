//! Clusters: blocks that run together and reach each other's shared memory.
//!
//! A worker runs the blocks of a cluster in turn, so that no two of them run at the same time. A block without a cluster
//! is a cluster of one.

pub(crate) mod address;
pub(crate) mod barrier;
mod ended;
pub(crate) mod store;

use super::block::{Block, BlockTurn};
use super::check::threads::Published;
use super::control::frame::Registers;
use super::machine::{Job, Machine};
use barrier::ClusterBarrier;

/// The most blocks of a cluster, on devices and by kernels that allow more than the portable 8.
pub(crate) const MOST_BLOCKS: u32 = 16;

/// Rounds of all blocks of a cluster before another cluster runs.
const ROUNDS: u32 = 64;

/// The resident blocks of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    /// `%clusterid`
    pub(crate) index: [u32; 3],
    /// The blocks by rank. The one that runs is in [`Machine::block`].
    pub(crate) blocks: Vec<Block>,
    pub(crate) barrier: ClusterBarrier,
    /// The host's address of each block's shared memory.
    shared: Vec<u64>,
    /// The order in which the blocks run: their ranks.
    order: Vec<u32>,
    /// The clocks that strong accesses of shared memory have published, by the host's address.
    pub(crate) published: Published,
    /// The clocks of arrivals at `mbarrier`s, by the host's address.
    pub(crate) gates: Published,
}

impl Cluster {
    /// Returns memory for a cluster of the launch.
    pub(crate) fn new(job: &Job<'_>) -> Self {
        let blocks: Vec<Block> = (0..job.cluster_blocks).map(|_| Block::new(job)).collect();
        let start = |block: &Block| {
            let shared = block.shared.as_ref();
            shared.map_or(0, |shared| shared.start().expose_provenance() as u64)
        };
        let shared = blocks.iter().map(start).collect();
        let order = (0..job.cluster_blocks).collect();
        Self { blocks, shared, order, ..Self::default() }
    }

    /// Restarts as the cluster of this number.
    pub(crate) fn restart(&mut self, job: &Job<'_>, number: u64) {
        self.index = job.cluster_index(number);
        for (rank, block) in (0..).zip(&mut self.blocks) {
            block.restart(job, self.index, rank);
        }
        self.barrier.restart(&self.blocks);
        self.published.clear();
        self.gates.clear();
        if let Some(seed) = job.env.config.block_order_seed {
            // Each cluster has another order of its blocks.
            let count = self.order.len() as u64;
            let mixed = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for (at, rank) in (0..).zip(&mut self.order) {
                *rank = super::grid::permute(mixed, at, count) as u32;
            }
        }
    }

    /// Returns the host's address of the shared memory of the block of this rank.
    pub(crate) fn shared_of(&self, rank: u32) -> Option<u64> {
        self.shared.get(rank as usize).copied()
    }

    /// Returns whether all bytes lie in the shared memory of one block, which has `size` bytes.
    pub(crate) fn holds(&self, host: u64, bytes: u64, size: u64) -> bool {
        let inside = |&start: &u64| {
            host.checked_sub(start).is_some_and(|offset| offset.saturating_add(bytes) <= size)
        };
        self.shared.iter().any(inside)
    }
}

impl Machine<'_> {
    /// Runs the blocks of the current cluster until all are done, or each has had some turns.
    pub(crate) fn run_cluster(&mut self) -> BlockTurn {
        (self.polled, self.awake) = (false, false);
        for _ in 0..ROUNDS {
            let (mut live, mut progress, mut expired) = (false, false, false);
            for at in 0..self.cluster.order.len() {
                let rank = self.cluster.order[at] as usize;
                if self.cluster.blocks[rank].done {
                    continue;
                }
                std::mem::swap(&mut self.block, &mut self.cluster.blocks[rank]);
                let turn = self.run_block();
                if turn == BlockTurn::Fault {
                    return turn;
                }
                if turn == BlockTurn::Done {
                    self.block.done = true;
                    self.check_ended();
                }
                std::mem::swap(&mut self.block, &mut self.cluster.blocks[rank]);
                match turn {
                    BlockTurn::Done | BlockTurn::Waits { moved: true } => progress = true,
                    BlockTurn::Expired => expired = true,
                    BlockTurn::Waits { moved: false } | BlockTurn::Fault => {}
                }
                live |= turn != BlockTurn::Done;
            }
            if !live {
                return BlockTurn::Done;
            }
            if expired {
                return BlockTurn::Expired;
            }
            if !progress {
                self.cluster_deadlock();
                return BlockTurn::Fault;
            }
        }
        BlockTurn::Expired
    }

    /// Every block of the cluster that is left waits for threads that never arrive.
    fn cluster_deadlock(&mut self) {
        let left = |block: &Block| block.warps.iter().any(|warp| !warp.splits.is_empty());
        if let Some(at) = self.cluster.blocks.iter().position(left) {
            std::mem::swap(&mut self.block, &mut self.cluster.blocks[at]);
            self.shared = self.block.shared.as_ref().map_or(std::ptr::null_mut(), Registers::start);
            self.deadlock();
        }
    }
}
