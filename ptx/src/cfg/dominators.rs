//! Immediate dominators and post-dominators, which are the dominators of the reversed graph, by the algorithm of
//! Lengauer and Tarjan with path compression. It is near linear for every graph, also for deep nests of loops, where
//! iterating to a fixed point is quadratic.

use super::{Block, Cfg, narrow, predecessors};

const NONE: u32 = u32::MAX;

/// The dominators of a function's blocks. Block a dominates block b if every path from the entry to b contains a.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dominators {
    immediate: Vec<Option<u32>>,
    /// The reachable blocks, each before those that it dominates.
    preorder: Vec<u32>,
    /// The number of each block in `preorder`; `NONE` for a block that cannot be reached.
    enter: Vec<u32>,
    /// The number after the last block that each block dominates.
    leave: Vec<u32>,
    depth: Vec<u32>,
    /// The children of block b in the tree are `children[first[b]..first[b + 1]]`.
    first: Vec<u32>,
    children: Vec<u32>,
}

impl Dominators {
    /// Returns the dominators of a graph. Time is nearly linear in its size.
    #[must_use]
    pub fn new(cfg: &Cfg) -> Self {
        let blocks = &cfg.blocks;
        let count = blocks.len();
        let into = predecessors(blocks);
        let mut tree = Tree::new(count);
        if count > 0 {
            tree.grow(0, |block| &blocks[block].successors);
        }
        let immediate = tree.dominators(|block| &into[block]);
        // `first` and `list` give the children in reverse post order, so that a walk follows the code.
        let mut first = vec![0u32; count + 1];
        for parent in immediate.iter().flatten() {
            first[*parent as usize + 1] += 1;
        }
        for block in 0..count {
            first[block + 1] += first[block];
        }
        let mut next = first.clone();
        let mut children = vec![0; first[count] as usize];
        for &block in &cfg.order {
            if let Some(parent) = immediate[block as usize] {
                let at = &mut next[parent as usize];
                children[*at as usize] = block;
                *at += 1;
            }
        }
        let mut dominators = Self {
            immediate,
            preorder: Vec::with_capacity(cfg.order.len()),
            enter: vec![NONE; count],
            leave: vec![0; count],
            depth: vec![0; count],
            first,
            children,
        };
        dominators.number();
        dominators
    }

    /// Numbers the tree, without recursion.
    fn number(&mut self) {
        let mut stack = vec![(0u32, 0u32)];
        if self.enter.is_empty() {
            return;
        }
        self.enter[0] = 0;
        self.preorder.push(0);
        while let Some((block, next)) = stack.last_mut() {
            let at = *block as usize;
            let child = self.children(*block).get(*next as usize).copied();
            match child {
                Some(child) => {
                    *next += 1;
                    self.enter[child as usize] = narrow(self.preorder.len());
                    self.depth[child as usize] = self.depth[at] + 1;
                    self.preorder.push(child);
                    stack.push((child, 0));
                }
                None => {
                    self.leave[at] = narrow(self.preorder.len());
                    stack.pop();
                }
            }
        }
    }

    /// Returns the immediate dominator of `block`: of its other dominators the one that all of them dominate. `None`
    /// for the entry, and for a block that cannot be reached.
    #[must_use]
    pub fn immediate(&self, block: u32) -> Option<u32> {
        self.immediate.get(block as usize).copied().flatten()
    }

    /// Returns whether `block` can be reached from the entry.
    #[must_use]
    pub fn is_reachable(&self, block: u32) -> bool {
        self.enter.get(block as usize).is_some_and(|&enter| enter != NONE)
    }

    /// Returns whether `a` dominates `b`, which it does if they are equal. `false` if one of them cannot be reached.
    #[must_use]
    pub fn dominates(&self, a: u32, b: u32) -> bool {
        let (Some(&from), Some(&at)) = (self.enter.get(a as usize), self.enter.get(b as usize))
        else {
            return false;
        };
        let end = self.leave.get(a as usize).copied().unwrap_or(0);
        from != NONE && at != NONE && from <= at && at < end
    }

    /// Returns the blocks whose immediate dominator is `block`, in reverse post order.
    #[must_use]
    pub fn children(&self, block: u32) -> &[u32] {
        let at = block as usize;
        match (self.first.get(at), self.first.get(at + 1)) {
            (Some(&from), Some(&to)) => {
                self.children.get(from as usize..to as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Returns how many other blocks dominate `block`; 0 for one that cannot be reached.
    #[must_use]
    pub fn depth(&self, block: u32) -> u32 {
        self.depth.get(block as usize).copied().unwrap_or(0)
    }

    /// Returns the blocks that can be reached, each before those that it dominates.
    #[must_use]
    pub fn preorder(&self) -> &[u32] {
        &self.preorder
    }
}

/// Returns the immediate post-dominator of each block. `order` is the reverse post order.
///
/// Blocks from which the exit cannot be reached (loops without end) count as if they could be left; those that come
/// last in `order` first, so that a loop is left at its end.
pub(super) fn post_dominators(blocks: &[Block], order: &[u32]) -> Vec<Option<u32>> {
    let count = blocks.len();
    let into = predecessors(blocks);
    let mut tree = Tree::new(count);
    for (at, block) in blocks.iter().enumerate() {
        if block.exits || block.successors.is_empty() {
            tree.grow(at, |block| &into[block]);
        }
    }
    // Unreachable blocks come last.
    for block in order.iter().rev().map(|&b| b as usize).chain((0..count).rev()) {
        if tree.number[block] == NONE {
            tree.grow(block, |block| &into[block]);
        }
    }
    tree.dominators(|block| &blocks[block].successors)
}

/// A depth-first walk of a graph from a root that is none of its nodes, numbered in preorder. All vectors but `number`
/// and `tops` are indexed by that number.
struct Tree {
    /// The node of each number; the root has number 0 and is called `tops.len()`.
    vertex: Vec<u32>,
    /// The number of each node, and of the root at the end.
    number: Vec<u32>,
    parent: Vec<u32>,
    /// Whether an edge from the root leads to each node.
    tops: Vec<bool>,
    /// The smallest number found to be a semidominator.
    semi: Vec<u32>,
    /// The forest of linked blocks, with compressed paths.
    ancestor: Vec<u32>,
    label: Vec<u32>,
}

impl Tree {
    /// The root, of a graph of `count` nodes.
    fn new(count: usize) -> Self {
        let mut tree = Self {
            vertex: Vec::with_capacity(count + 1),
            number: vec![NONE; count + 1],
            parent: Vec::with_capacity(count + 1),
            tops: vec![false; count],
            semi: Vec::new(),
            ancestor: Vec::new(),
            label: Vec::new(),
        };
        tree.visit(count, 0);
        tree
    }

    fn visit(&mut self, node: usize, parent: u32) {
        self.number[node] = narrow(self.vertex.len());
        self.vertex.push(narrow(node));
        self.parent.push(parent);
    }

    /// Adds an edge from the root to `from`, and visits what that leads to along `next`, depth first, without
    /// recursion.
    fn grow<'g>(&mut self, from: usize, next: impl Fn(usize) -> &'g Vec<u32>) {
        self.tops[from] = true;
        if self.number[from] != NONE {
            return;
        }
        self.visit(from, 0);
        let mut stack = vec![(from, 0usize)];
        while let Some((node, at)) = stack.last_mut() {
            match next(*node).get(*at) {
                Some(&to) => {
                    *at += 1;
                    let (to, parent) = (to as usize, self.number[*node]);
                    if self.number[to] == NONE {
                        self.visit(to, parent);
                        stack.push((to, 0));
                    }
                }
                None => {
                    stack.pop();
                }
            }
        }
    }

    /// Returns the immediate dominator of each node; `None` where that is the root, and for nodes that were not
    /// visited. `previous` is the reverse of `next`.
    fn dominators<'g>(&mut self, previous: impl Fn(usize) -> &'g Vec<u32>) -> Vec<Option<u32>> {
        let count = self.vertex.len();
        self.semi = (0..narrow(count)).collect();
        self.label = (0..narrow(count)).collect();
        self.ancestor = vec![NONE; count];
        let mut dom = vec![0; count];
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); count];
        for w in (1..count).rev() {
            let node = self.vertex[w] as usize;
            let mut semi = if self.tops[node] { 0 } else { self.semi[w] };
            for &from in previous(node) {
                let from = self.number[from as usize];
                if from != NONE {
                    let u = self.eval(from);
                    semi = semi.min(self.semi[u as usize]);
                }
            }
            self.semi[w] = semi;
            buckets[semi as usize].push(narrow(w));
            let parent = self.parent[w];
            self.ancestor[w] = parent;
            for v in std::mem::take(&mut buckets[parent as usize]) {
                let u = self.eval(v);
                let earlier = self.semi[u as usize] < self.semi[v as usize];
                dom[v as usize] = if earlier { u } else { parent };
            }
        }
        for w in 1..count {
            if dom[w] != self.semi[w] {
                dom[w] = dom[dom[w] as usize];
            }
        }
        let nodes = &self.number[..self.tops.len()];
        let above = |&at: &u32| {
            let dom = *dom.get(at as usize)?;
            (dom != 0).then(|| self.vertex[dom as usize])
        };
        nodes.iter().map(above).collect()
    }

    /// Returns the node of least semidominator on the path from `v` up to the root of its tree in the forest.
    fn eval(&mut self, v: u32) -> u32 {
        let mut path = Vec::new();
        let mut at = v;
        loop {
            let above = self.ancestor[at as usize];
            if above == NONE || self.ancestor[above as usize] == NONE {
                break;
            }
            path.push(at);
            at = above;
        }
        for &x in path.iter().rev() {
            let above = self.ancestor[x as usize] as usize;
            let (own, other) = (self.label[x as usize], self.label[above]);
            if self.semi[other as usize] < self.semi[own as usize] {
                self.label[x as usize] = other;
            }
            self.ancestor[x as usize] = self.ancestor[above];
        }
        self.label[v as usize]
    }
}
