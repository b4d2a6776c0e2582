//! The blocks at which definitions of a register meet: the iterated dominance frontier, by the algorithm of Sreedhar and
//! Gao, which needs no frontiers of single blocks. They would take quadratic space in nests of loops.

use std::collections::BinaryHeap;

use crate::cfg::{Cfg, Dominators, Range, Search};

/// Finds the joins of one register after another.
pub(super) struct Joins<'g> {
    cfg: &'g Cfg,
    dominators: &'g Dominators,
    into: &'g [Vec<u32>],
    live: Search,
    /// The last search in which a block was walked to, was a join, or was in the heap.
    walked: Vec<u32>,
    joined: Vec<u32>,
    queued: Vec<u32>,
    number: u32,
    /// Blocks with definitions, the deepest in the tree of dominators first.
    heap: BinaryHeap<(u32, u32)>,
}

impl<'g> Joins<'g> {
    pub(super) fn new(cfg: &'g Cfg, dominators: &'g Dominators, into: &'g [Vec<u32>]) -> Self {
        let count = cfg.blocks.len();
        let (walked, joined, queued) = (vec![0; count], vec![0; count], vec![0; count]);
        let live = Search::new(count);
        Self {
            cfg,
            dominators,
            into,
            live,
            walked,
            joined,
            queued,
            number: 0,
            heap: BinaryHeap::new(),
        }
    }

    /// Calls `found` for each block at which definitions of the register meet and where it is live, and returns the number
    /// of blocks that were searched.
    pub(super) fn of(&mut self, range: &Range, mut found: impl FnMut(u32)) -> usize {
        // Nothing meets where one definition comes before all uses, which is so for most registers.
        let dominates = |home: u32| {
            range.exposed.iter().all(|&b| b != home && self.dominators.dominates(home, b))
        };
        match range.defined.as_slice() {
            [] => return 0,
            &[home] if dominates(home) => return 0,
            _ => {}
        }
        self.number += 1;
        let number = self.number;
        let searched = self.live.live_in(range, self.into).len();
        for &block in &range.defined {
            self.queued[block as usize] = number;
            self.heap.push((self.dominators.depth(block), block));
        }
        let mut work = Vec::new();
        while let Some((depth, root)) = self.heap.pop() {
            self.walked[root as usize] = number;
            work.push(root);
            while let Some(block) = work.pop() {
                for &to in &self.cfg.blocks[block as usize].successors {
                    let at = to as usize;
                    let joins = self.dominators.immediate(to) != Some(block)
                        && self.dominators.depth(to) <= depth
                        && self.joined[at] != number
                        && self.live.is_live(to);
                    if joins {
                        self.joined[at] = number;
                        found(to);
                        if std::mem::replace(&mut self.queued[at], number) != number {
                            self.heap.push((self.dominators.depth(to), to));
                        }
                    }
                }
                // Where the register is not live, no definition from above matters further down.
                for &child in self.dominators.children(block) {
                    let at = child as usize;
                    if self.walked[at] != number && self.live.is_live(child) {
                        self.walked[at] = number;
                        work.push(child);
                    }
                }
            }
        }
        searched
    }
}
