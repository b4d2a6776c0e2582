//! A hierarchy over the faces of a mesh: nodes with eight children, whose boxes are tested side by side.
//!
//! Results of queries do not depend on it: boxes only exclude faces that cannot change a result.

use std::ops::Range;

use rayon::prelude::*;

use super::block::{Block, LANES, Lanes, NO_TRIANGLE, face_of};
use super::cylinders::Cylinders;
use super::simd::{Eight, Simd};
use super::triangle::bounds;
use crate::Aabb;

/// The most nodes on a path from the root to a leaf.
const MAX_DEPTH: u32 = 12;
/// The most entries of a traversal's stack: of each node on the path all children, less the one that is visited.
pub(super) const STACK: usize = (LANES - 1) * MAX_DEPTH as usize + 1;
/// The bit of children that are leaves; the rest is the index of the block or node.
pub(super) const LEAF: u32 = 1 << 31;
/// Items below which a subtree is built by one thread.
const PARALLEL: usize = 4096;
/// The number of positions at which a range may be split in each axis, plus one.
const BINS: usize = 16;

/// A node: the boxes of its children, which are empty for those that are missing.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// The lower and the upper bounds of the axes.
    pub(super) bounds: [[Lanes; 3]; 2],
    /// Nodes or leaves.
    pub(super) children: Lanes<u32>,
}

impl Node {
    /// Returns a bit for each child that is a leaf or missing.
    #[inline(always)]
    pub(super) fn leaves<S: Simd>(&self, simd: S) -> u32 {
        Eight::load(simd, bytemuck::cast_ref(&self.children)).signs()
    }
}

/// The nodes, of which the first is the root and children follow their parents, and the leaves.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Of each node.
    pub(super) cylinders: Vec<Cylinders>,
    pub(super) blocks: Vec<Block>,
    pub(super) bounds: Aabb<f32>,
}

/// A face that is not skipped.
#[derive(Debug, Clone, Copy)]
struct Item {
    lower: [f32; 3],
    upper: [f32; 3],
    face: u32,
}

impl Item {
    /// Returns twice the centre of the box in an axis.
    #[inline(always)]
    fn at(&self, axis: usize) -> f32 {
        self.lower[axis] + self.upper[axis]
    }
}

/// The empty box.
const EMPTY: Aabb<f32> = Aabb::<f32>::EMPTY;

/// Grows a box by another, of which NaNs are ignored.
#[inline(always)]
fn unite(all: &mut Aabb<f32>, lower: [f32; 3], upper: [f32; 3]) {
    for axis in 0..3 {
        all.lower[axis] = all.lower[axis].min(lower[axis]);
        all.upper[axis] = all.upper[axis].max(upper[axis]);
    }
}

/// Returns half of a box's surface.
fn area(of: &Aabb<f32>) -> f64 {
    let [x, y, z] = [0, 1, 2].map(|axis| f64::from(of.upper[axis]) - f64::from(of.lower[axis]));
    if x < 0.0 { 0.0 } else { x * y + y * z + z * x }
}

/// A part of the tree before its nodes are numbered.
enum Part {
    Leaf(Range<usize>),
    Node(Vec<Part>),
}

impl Tree {
    /// Builds the tree over the faces that are not skipped.
    pub(super) fn new(points: &[[f32; 3]], faces: &[[u32; 3]]) -> Self {
        let item = |face: usize| {
            let (_, corners) = face_of(points, faces, face as u32)?;
            let Aabb { lower, upper } = bounds(corners);
            Some(Item { lower, upper, face: face as u32 })
        };
        let mut items: Vec<Item> = (0..faces.len()).into_par_iter().filter_map(item).collect();
        let (mut nodes, mut leaves) = (Vec::new(), Vec::new());
        if !items.is_empty() {
            let children = match part(&mut items, 0, MAX_DEPTH - 1) {
                Part::Node(children) => children,
                leaf @ Part::Leaf(_) => vec![leaf],
            };
            number(&children, &items, &mut nodes, &mut leaves);
        }
        let pack = |lanes: &Lanes<u32>| Block::new(*lanes, points, faces);
        let blocks = leaves.par_iter().with_min_len(64).map(pack).collect();
        let cylinders = vec![Cylinders::new(); nodes.len()];
        let mut tree = Self { nodes, cylinders, blocks, bounds: EMPTY };
        tree.fit();
        tree
    }

    /// Updates the triangles and the boxes to points that have moved.
    pub(super) fn refit(&mut self, points: &[[f32; 3]], faces: &[[u32; 3]]) {
        let pack = |block: &mut Block| *block = Block::new(block.faces, points, faces);
        self.blocks.par_iter_mut().with_min_len(64).for_each(pack);
        self.fit();
    }

    /// Computes the boxes and cylinders of all nodes, from the leaves to the root.
    fn fit(&mut self) {
        for number in (0..self.nodes.len()).rev() {
            let children = self.nodes[number].children;
            let mut bounds = [[[0.0; LANES]; 3]; 2];
            for (lane, child) in children.into_iter().enumerate() {
                let extent = self.extent(child);
                if child & LEAF != 0
                    && let Some(block) = self.blocks.get((child & !LEAF) as usize)
                    && let Some(cylinders) = self.cylinders.get_mut(number)
                {
                    cylinders.set(lane, block, &extent);
                }
                let Aabb { lower, upper } = extent;
                for axis in 0..3 {
                    bounds[0][axis][lane] = lower[axis];
                    bounds[1][axis][lane] = upper[axis];
                }
            }
            self.nodes[number].bounds = bounds;
        }
        self.bounds = self.extent(0);
    }

    /// Returns the box of a child, whose own boxes are known; the empty box of one that is missing.
    fn extent(&self, child: u32) -> Aabb<f32> {
        let mut all = EMPTY;
        let index = (child & !LEAF) as usize;
        if child & LEAF == 0 {
            if let Some(node) = self.nodes.get(index) {
                for lane in 0..LANES {
                    let [lower, upper] = node.bounds.map(|of| of.map(|axis| axis[lane]));
                    unite(&mut all, lower, upper);
                }
            }
        } else if let Some(block) = self.blocks.get(index) {
            for [x, y, z] in &block.corners {
                for ((x, y), z) in x.iter().zip(y).zip(z) {
                    unite(&mut all, [*x, *y, *z], [*x, *y, *z]);
                }
            }
        }
        all
    }
}

/// Numbers the nodes and leaves below a new node; returns its number.
fn number(
    children: &[Part],
    items: &[Item],
    nodes: &mut Vec<Node>,
    leaves: &mut Vec<Lanes<u32>>,
) -> u32 {
    let node = nodes.len();
    nodes.push(Node { bounds: [[[0.0; LANES]; 3]; 2], children: [NO_TRIANGLE; LANES] });
    for (lane, child) in children.iter().enumerate().take(LANES) {
        let word = match child {
            Part::Node(below) => number(below, items, nodes, leaves),
            Part::Leaf(range) => {
                let mut faces = [NO_TRIANGLE; LANES];
                let of_leaf = items.get(range.clone()).unwrap_or_default();
                faces.iter_mut().zip(of_leaf).for_each(|(face, item)| *face = item.face);
                leaves.push(faces);
                LEAF | (leaves.len() - 1) as u32
            }
        };
        nodes[node].children[lane] = word;
    }
    node as u32
}

/// Builds the part of the tree over the items, of which the first has index `first`, with at most `below` nodes on a
/// path below the part's own. There are at most 8^(below + 2) items.
fn part(items: &mut [Item], first: usize, below: u32) -> Part {
    if items.len() <= LANES {
        return Part::Leaf(first..first + items.len());
    }
    // If the levels below suffice only for a balanced tree, the items are divided into equal parts.
    let balanced = items.len() > 8usize.saturating_pow(below + 1);
    let mut parts = vec![(first, items)];
    while parts.len() < LANES {
        let divisible = parts.iter().enumerate().filter(|(_, (_, part))| part.len() > LANES);
        let size = |part: &[Item]| {
            if balanced {
                part.len() as f64
            } else {
                {
                    let mut all = EMPTY;
                    part.iter().for_each(|item| unite(&mut all, item.lower, item.upper));
                    area(&all)
                }
            }
        };
        let sizes = divisible.map(|(i, (_, part))| (i, size(part)));
        let Some((largest, _)) = sizes.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        let (at, part) = parts.swap_remove(largest);
        let middle = split(part, balanced);
        let (left, right) = part.split_at_mut(middle);
        parts.extend([(at, left), (at + middle, right)]);
    }
    let total: usize = parts.iter().map(|(_, part)| part.len()).sum();
    let make = |(first, items): (usize, &mut [Item])| part(items, first, below.saturating_sub(1));
    Part::Node(if total < PARALLEL {
        parts.into_iter().map(make).collect()
    } else {
        parts.into_par_iter().map(make).collect()
    })
}

/// Divides more than one item into two parts, and returns the length of the first: by the surface area heuristic over
/// bins of centres, or into halves if that is required or the centres coincide.
fn split(items: &mut [Item], balanced: bool) -> usize {
    let mut centers = EMPTY;
    for item in items.iter() {
        let at = [0, 1, 2].map(|axis| item.at(axis));
        unite(&mut centers, at, at);
    }
    let scale = [0, 1, 2].map(|axis| {
        let scale = BINS as f32 / (centers.upper[axis] - centers.lower[axis]);
        if scale.is_finite() { scale } else { 0.0 }
    });
    // Bin numbers are at most BINS - 1, and 0 for a product that is NaN.
    let bin = |item: &Item, axis: usize| {
        (((item.at(axis) - centers.lower[axis]) * scale[axis]) as usize).min(BINS - 1)
    };
    let mut bins = [[(0usize, EMPTY); BINS]; 3];
    for item in items.iter() {
        for (axis, bins) in bins.iter_mut().enumerate() {
            let (count, extent) = &mut bins[bin(item, axis)];
            *count += 1;
            unite(extent, item.lower, item.upper);
        }
    }
    let mut best = (f64::INFINITY, 0, 0);
    for (axis, bins) in bins.iter().enumerate().filter(|_| !balanced) {
        // The cost of a part: its area times the number of its blocks.
        let cost = |count: usize, extent: &Aabb<f32>| area(extent) * count.div_ceil(LANES) as f64;
        let mut above = [0.0; BINS];
        let (mut count, mut extent) = (0, EMPTY);
        for i in (1..BINS).rev() {
            count += bins[i].0;
            unite(&mut extent, bins[i].1.lower, bins[i].1.upper);
            above[i] = if count > 0 { cost(count, &extent) } else { f64::INFINITY };
        }
        (count, extent) = (0, EMPTY);
        for i in 1..BINS {
            count += bins[i - 1].0;
            unite(&mut extent, bins[i - 1].1.lower, bins[i - 1].1.upper);
            let all = cost(count, &extent) + above[i];
            if count > 0 && all < best.0 {
                best = (all, axis, i);
            }
        }
    }
    let (cost, axis, limit) = best;
    if cost < f64::INFINITY {
        let mut middle = 0;
        for i in 0..items.len() {
            if bin(&items[i], axis) < limit {
                items.swap(middle, i);
                middle += 1;
            }
        }
        if middle > 0 && middle < items.len() {
            return middle;
        }
    }
    let size = |axis: &usize| centers.upper[*axis] - centers.lower[*axis];
    let longest = [0, 1, 2].into_iter().max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(0);
    let middle = items.len() / 2;
    items.select_nth_unstable_by(middle, |a, b| a.at(longest).total_cmp(&b.at(longest)));
    middle
}
