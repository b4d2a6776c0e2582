//! Natural loops and their nesting.

use super::{Cfg, Dominators, narrow};

const NONE: u32 = u32::MAX;

/// A natural loop: a header, and the blocks that lead back to it without leaving what it dominates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// The block by which the loop is entered. It dominates the loop's blocks.
    pub header: u32,
    /// The blocks from which an edge leads back to the header, in ascending order.
    pub latches: Vec<u32>,
    /// The innermost loop around this one: position in [`Loops::all`].
    pub parent: Option<u32>,
    /// How many loops a block of this loop is in: 1 for an outermost loop.
    pub depth: u32,
    /// Where its blocks lie in the order of all loops.
    start: u32,
    end: u32,
}

/// The loops of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loops {
    /// The loops, each before those inside it.
    pub all: Vec<Loop>,
    /// The edges, as pairs of blocks, that go back to a block that does not dominate their source. They are part of
    /// cycles with several entries, which are no natural loops. Empty if the graph is reducible.
    pub irreducible: Vec<(u32, u32)>,
    /// The innermost loop of each block.
    innermost: Vec<u32>,
    /// The blocks of loops, so that those of each loop are together, its header first.
    order: Vec<u32>,
    /// The place of each block in `order`.
    place: Vec<u32>,
}

impl Loops {
    /// Returns the loops of a graph, of which `dominators` are the dominators. Time is nearly linear in its size.
    #[must_use]
    pub fn new(cfg: &Cfg, dominators: &Dominators) -> Self {
        let count = cfg.blocks.len();
        let into = cfg.predecessors();
        let mut number = vec![NONE; count];
        for (at, &block) in cfg.order.iter().enumerate() {
            number[block as usize] = narrow(at);
        }
        let mut irreducible = Vec::new();
        let mut latches: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (from, block) in cfg.blocks.iter().enumerate() {
            for &to in &block.successors {
                // The target of a back edge has the smaller number in a depth-first walk.
                let back = number[from] != NONE && number[to as usize] <= number[from];
                if back && dominators.dominates(to, narrow(from)) {
                    latches[to as usize].push(narrow(from));
                } else if back {
                    irreducible.push((narrow(from), to));
                }
            }
        }
        // Inner loops come first: their headers come later in the tree of dominators.
        let mut found: Vec<Loop> = Vec::new();
        let mut innermost = vec![NONE; count];
        // The loop around each loop; itself until one is found.
        let mut around: Vec<u32> = Vec::new();
        let mut work = Vec::new();
        for &header in dominators.preorder().iter().rev() {
            let latches = std::mem::take(&mut latches[header as usize]);
            if latches.is_empty() {
                continue;
            }
            let this = narrow(found.len());
            work.extend(&latches);
            innermost[header as usize] = this;
            around.push(this);
            found.push(Loop { header, latches, parent: None, depth: 0, start: 0, end: 0 });
            while let Some(block) = work.pop() {
                let of = innermost[block as usize];
                if of == this || !dominators.is_reachable(block) {
                    continue;
                }
                if of == NONE {
                    innermost[block as usize] = this;
                    work.extend(&into[block as usize]);
                    continue;
                }
                // `outer` is a loop inside this one, or this one.
                let outer = outermost(&mut around, of);
                if outer != this {
                    around[outer as usize] = this;
                    found[outer as usize].parent = Some(this);
                    work.extend(&into[found[outer as usize].header as usize]);
                }
            }
        }
        Self { all: found, irreducible, innermost, order: Vec::new(), place: Vec::new() }
            .ordered(cfg)
    }

    /// Puts outer loops before inner ones, and the blocks of each loop together.
    fn ordered(mut self, cfg: &Cfg) -> Self {
        let count = narrow(self.all.len());
        self.all.reverse();
        let turned = |id: u32| count - 1 - id;
        for innermost in self.innermost.iter_mut().filter(|id| **id != NONE) {
            *innermost = turned(*innermost);
        }
        let mut sizes = vec![0u32; self.all.len()];
        for &innermost in self.innermost.iter().filter(|id| **id != NONE) {
            sizes[innermost as usize] += 1;
        }
        for at in 0..self.all.len() {
            let parent = self.all[at].parent.map(turned);
            self.all[at].parent = parent;
            self.all[at].depth = 1 + parent.map_or(0, |parent| self.all[parent as usize].depth);
        }
        // A loop's own blocks come first, then the loops inside, one after the other.
        let own = sizes.clone();
        for at in (0..self.all.len()).rev() {
            if let Some(parent) = self.all[at].parent {
                sizes[parent as usize] += sizes[at];
            }
        }
        let mut end = 0;
        let mut inside = vec![0u32; self.all.len()];
        for at in 0..self.all.len() {
            let start = match self.all[at].parent {
                Some(parent) => &mut inside[parent as usize],
                None => &mut end,
            };
            let from = *start;
            *start += sizes[at];
            (self.all[at].start, self.all[at].end) = (from, from + sizes[at]);
            inside[at] = from + own[at];
        }
        let mut next: Vec<u32> = self.all.iter().map(|one| one.start).collect();
        self.order = vec![0; end as usize];
        self.place = vec![NONE; self.innermost.len()];
        for &block in &cfg.order {
            let innermost = self.innermost[block as usize];
            if innermost != NONE {
                let at = next[innermost as usize];
                next[innermost as usize] += 1;
                self.order[at as usize] = block;
                self.place[block as usize] = at;
            }
        }
        self
    }

    /// Returns the innermost loop of `block`: position in [`all`](Self::all).
    #[must_use]
    pub fn innermost(&self, block: u32) -> Option<u32> {
        self.innermost.get(block as usize).copied().filter(|&id| id != NONE)
    }

    /// Returns in how many loops `block` is.
    #[must_use]
    pub fn depth(&self, block: u32) -> u32 {
        let innermost = self.innermost(block);
        innermost.and_then(|id| self.all.get(id as usize)).map_or(0, |one| one.depth)
    }

    /// Returns the blocks of a loop of these, with those of the loops inside; its header first.
    #[must_use]
    pub fn blocks(&self, of: &Loop) -> &[u32] {
        self.order.get(of.start as usize..of.end as usize).unwrap_or_default()
    }

    /// Returns whether a loop of these contains `block`.
    #[must_use]
    pub fn contains(&self, of: &Loop, block: u32) -> bool {
        self.place.get(block as usize).is_some_and(|at| (of.start..of.end).contains(at))
    }

    /// Returns the edges that leave a loop of these: the block inside and the block outside. A block at which threads
    /// leave the function ([`Block::exits`](super::Block::exits)) has no edge for that.
    #[must_use]
    pub fn exits(&self, cfg: &Cfg, of: &Loop) -> Vec<(u32, u32)> {
        let mut exits = Vec::new();
        for &from in self.blocks(of) {
            let block = cfg.blocks.get(from as usize);
            for &to in block.map_or(&[][..], |block| &block.successors) {
                if !self.contains(of, to) {
                    exits.push((from, to));
                }
            }
        }
        exits
    }
}

/// Returns the outermost loop around `id`, and shortens the way there.
fn outermost(around: &mut [u32], mut id: u32) -> u32 {
    while around[id as usize] != id {
        around[id as usize] = around[around[id as usize] as usize];
        id = around[id as usize];
    }
    id
}
