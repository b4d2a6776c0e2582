//! A complete binary tree of boxes over triangles: each node halves its triangles at the median.

use rayon::prelude::*;

use crate::vector::Triangle;

/// The most triangles that a leaf has.
const LEAF: usize = 4;
/// Below this many triangles, threads cost more than they save.
const ALONE: usize = 4096;
/// How much boxes are larger than what they hold, as a part of their size. A distance to a triangle
/// errs by less, so that a box that is farther than the best so far holds nothing that seems nearer.
const MARGIN: f64 = 1e-12;

/// A box.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) lower: [f64; 3],
    pub(crate) upper: [f64; 3],
}

impl Bounds {
    const EMPTY: Self = Self { lower: [f64::INFINITY; 3], upper: [f64::NEG_INFINITY; 3] };

    fn union(&self, other: &Self) -> Self {
        Self {
            lower: std::array::from_fn(|i| self.lower[i].min(other.lower[i])),
            upper: std::array::from_fn(|i| self.upper[i].max(other.upper[i])),
        }
    }

    pub(crate) fn of(points: &[[f64; 3]]) -> Self {
        points.iter().fold(Self::EMPTY, |bounds, p| bounds.union(&Self { lower: *p, upper: *p }))
    }

    fn widest_axis(&self) -> usize {
        let width = |i: &usize| self.upper[*i] - self.lower[*i];
        (0..3).max_by(|i, j| width(i).total_cmp(&width(j))).unwrap_or(0)
    }

    fn with_margin(&self) -> Self {
        let margin = MARGIN * (0..3).map(|i| self.upper[i] - self.lower[i]).sum::<f64>();
        Self {
            // A margin that is lost in rounding is one step at least.
            lower: self.lower.map(|x| (x - margin).next_down()),
            upper: self.upper.map(|x| (x + margin).next_up()),
        }
    }

    /// The square of the distance to a point, 0 inside.
    pub(crate) fn distance_squared(&self, q: [f64; 3]) -> f64 {
        let along = |i: usize| (self.lower[i] - q[i]).max(q[i] - self.upper[i]).max(0.0);
        let (x, y, z) = (along(0), along(1), along(2));
        x * x + y * y + z * z
    }
}

/// The tree. Its triangles are numbered by *slots*, leaf after leaf.
///
/// Node k has the children 2 k + 1 and 2 k + 2. The node at place p of level l has the slots from
/// n p / 2^l to n (p + 1) / 2^l.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Bounds>,
    depth: u32,
    triangles: usize,
}

impl Tree {
    /// Sorts the triangles into slots and makes the tree over them. Keys go with their triangles.
    pub(crate) fn build(mut items: Vec<(u32, Triangle)>) -> (Self, Vec<(u32, Triangle)>) {
        let count = items.len();
        let depth = count.div_ceil(LEAF).next_power_of_two().ilog2();
        let mut tree = Self { nodes: Vec::new(), depth, triangles: count };

        let middle = |(index, (_, t)): (usize, &(u32, Triangle))| {
            // Twice the middle of the box; which of two places is left is all that it decides.
            let bounds = Bounds::of(t);
            (std::array::from_fn(|i| bounds.lower[i] + bounds.upper[i]), index as u32)
        };
        let mut middles: Vec<Middle> =
            items.par_iter().enumerate().map(|(index, item)| middle((index, item))).collect();
        tree.halve(&mut middles, 0, 0);
        items = middles.par_iter().map(|(_, index)| items[*index as usize]).collect();

        tree.nodes = vec![Bounds::EMPTY; (2 << depth) - 1];
        let first = (1 << depth) - 1;
        let leaves: Vec<Bounds> = (0..1usize << depth)
            .into_par_iter()
            .map(|place| {
                let boxes = items[tree.slots(depth, place)].iter().map(|(_, t)| Bounds::of(t));
                boxes.fold(Bounds::EMPTY, |a, b| a.union(&b)).with_margin()
            })
            .collect();
        tree.nodes[first..].copy_from_slice(&leaves);
        for parent in (0..first).rev() {
            tree.nodes[parent] = tree.nodes[2 * parent + 1].union(&tree.nodes[2 * parent + 2]);
        }
        (tree, items)
    }

    fn slots(&self, level: u32, place: usize) -> std::ops::Range<usize> {
        // In u128 for no other reason than that it can't overflow.
        let start = |place: usize| ((self.triangles as u128 * place as u128) >> level) as usize;
        start(place)..start(place + 1)
    }

    /// Sorts the middles of a node's triangles to its leaves.
    fn halve(&self, middles: &mut [Middle], level: u32, place: usize) {
        let left = self.slots(level + 1, 2 * place).len();
        if level == self.depth || left == 0 || left >= middles.len() {
            return;
        }
        let points = middles.iter().map(|(p, _)| Bounds { lower: *p, upper: *p });
        let axis = points.fold(Bounds::EMPTY, |a, b| a.union(&b)).widest_axis();
        middles.select_nth_unstable_by(left, |(p, i), (q, j)| {
            p[axis].total_cmp(&q[axis]).then(i.cmp(j))
        });
        let (low, high) = middles.split_at_mut(left);
        let mut halves = (
            || self.halve(low, level + 1, 2 * place),
            || self.halve(high, level + 1, 2 * place + 1),
        );
        if left < ALONE {
            halves.0();
            halves.1();
        } else {
            rayon::join(halves.0, halves.1);
        }
    }

    /// The slots of a leaf; `None` for an inner node.
    fn leaf(&self, node: usize) -> Option<std::ops::Range<usize>> {
        let first = (1 << self.depth) - 1;
        node.checked_sub(first).map(|place| self.slots(self.depth, place))
    }

    /// Calls `found` with the slots in leaves that lie, with all boxes above them, in what `enter` accepts.
    pub(crate) fn visit(&self, enter: impl Fn(&Bounds) -> bool, mut found: impl FnMut(usize)) {
        let mut waiting = vec![0];
        while let Some(node) = waiting.pop() {
            if !enter(&self.nodes[node]) {
                continue;
            }
            match self.leaf(node) {
                Some(slots) => slots.for_each(&mut found),
                None => waiting.extend([2 * node + 2, 2 * node + 1]),
            }
        }
    }

    /// Calls `measure` with slots, near boxes first, as long as boxes are not farther from `q` than the
    /// least of the squared distances that it returned.
    pub(crate) fn nearest(&self, q: [f64; 3], mut measure: impl FnMut(usize) -> f64) {
        let mut least = f64::INFINITY;
        let mut waiting = Vec::with_capacity(64);
        waiting.push((self.nodes[0].distance_squared(q), 0));
        while let Some((distance, node)) = waiting.pop() {
            // The slack is for distances that err by a part of themselves.
            if distance > least * (1.0 + MARGIN) {
                continue;
            }
            if let Some(slots) = self.leaf(node) {
                for slot in slots {
                    least = least.min(measure(slot));
                }
                continue;
            }
            let children = [2 * node + 1, 2 * node + 2];
            let [a, b] = children.map(|child| (self.nodes[child].distance_squared(q), child));
            let (near, far) = if a.0 <= b.0 { (a, b) } else { (b, a) };
            waiting.extend([far, near]);
        }
    }
}

type Middle = ([f64; 3], u32);
