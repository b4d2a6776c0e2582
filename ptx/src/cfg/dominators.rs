//! Immediate post-dominators: dominators of the reversed graph, by the algorithm of Lengauer and
//! Tarjan with path compression. It is near linear for every graph, also for deep nests of loops,
//! where iterating to a fixed point is quadratic.

use super::{Block, narrow};

const NONE: u32 = u32::MAX;

/// Returns the immediate post-dominator of each block. `order` is the reverse post order.
pub(super) fn post_dominators(blocks: &[Block], order: &[u32]) -> Vec<Option<u32>> {
    let mut tree = Tree::new(blocks, order);
    let dom = tree.dominators(blocks);
    let exit = narrow(blocks.len());
    tree.number[..blocks.len()]
        .iter()
        .map(|&at| {
            let dom = tree.vertex[dom[at as usize] as usize];
            (dom != exit).then_some(dom)
        })
        .collect()
}

/// A depth-first walk of the reversed graph from a root, the exit, numbered in preorder. All vectors
/// but `number` and `leaves` are indexed by that number.
struct Tree {
    /// The block of each number; the exit has number 0 and is called `blocks.len()`.
    vertex: Vec<u32>,
    /// The number of each block, and of the exit at the end.
    number: Vec<u32>,
    parent: Vec<u32>,
    /// Whether the function can be left at each block.
    leaves: Vec<bool>,
    /// The smallest number found to be a semidominator.
    semi: Vec<u32>,
    /// The forest of what is linked already, with compressed paths.
    ancestor: Vec<u32>,
    label: Vec<u32>,
}

impl Tree {
    /// Walks from the exit. Blocks from which it cannot be reached (loops without end) are made
    /// leaves; those that come last in `order` first, so that a loop is left at its end.
    fn new(blocks: &[Block], order: &[u32]) -> Self {
        let exit = blocks.len();
        let mut into = vec![Vec::new(); exit];
        for (from, block) in blocks.iter().enumerate() {
            for &to in &block.successors {
                into[to as usize].push(narrow(from));
            }
        }
        let leaves: Vec<bool> = blocks.iter().map(|b| b.exits || b.successors.is_empty()).collect();
        let mut tree = Self {
            vertex: Vec::with_capacity(exit + 1),
            number: vec![NONE; exit + 1],
            parent: Vec::with_capacity(exit + 1),
            leaves,
            semi: Vec::new(),
            ancestor: Vec::new(),
            label: Vec::new(),
        };
        tree.visit(exit, 0);
        for block in 0..exit {
            if tree.leaves[block] {
                tree.walk(block, &into);
            }
        }
        // Behind those that can be reached from the entry come those that cannot.
        for block in order.iter().rev().map(|&b| b as usize).chain((0..exit).rev()) {
            if tree.number[block] == NONE {
                tree.leaves[block] = true;
                tree.walk(block, &into);
            }
        }
        let numbers = 0..narrow(tree.vertex.len());
        tree.semi = numbers.clone().collect();
        tree.label = numbers.collect();
        tree.ancestor = vec![NONE; tree.vertex.len()];
        tree
    }

    fn visit(&mut self, node: usize, parent: u32) {
        self.number[node] = narrow(self.vertex.len());
        self.vertex.push(narrow(node));
        self.parent.push(parent);
    }

    /// Visits what leads to `from`, depth first, without recursion.
    fn walk(&mut self, from: usize, into: &[Vec<u32>]) {
        if self.number[from] != NONE {
            return;
        }
        self.visit(from, 0);
        let mut stack = vec![(from, 0usize)];
        while let Some((block, next)) = stack.last_mut() {
            match into[*block].get(*next) {
                Some(&to) => {
                    *next += 1;
                    let (to, parent) = (to as usize, self.number[*block]);
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

    /// Returns the number of each number's immediate dominator; the root's is itself.
    fn dominators(&mut self, blocks: &[Block]) -> Vec<u32> {
        let count = self.vertex.len();
        let mut dom = vec![0; count];
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); count];
        for w in (1..count).rev() {
            let block = self.vertex[w] as usize;
            let mut semi = if self.leaves[block] { 0 } else { self.semi[w] };
            for &to in &blocks[block].successors {
                let u = self.eval(self.number[to as usize]);
                semi = semi.min(self.semi[u as usize]);
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
        dom
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
