//! What a hierarchy must be, by either builder.

use cuda_safe::Stream;
use geom_kernels::Aabb;
use geom_kernels::bvh::{Bvh, BvhNode, BvhReport};

use test_harness::{Failure, TestResult, ensure, ensure_eq};

const NOTHING: u32 = u32::MAX;
const LEAF: u32 = 1 << 31;

/// Whether a box belongs into a hierarchy.
pub(super) fn is_valid(b: &Aabb<f32>) -> bool {
    let most = (60.0f64).exp2();
    (0..3).all(|axis| {
        let (lower, upper) = (f64::from(b.lower[axis]), f64::from(b.upper[axis]));
        lower.abs() <= most && upper.abs() <= most && lower <= upper
    })
}

pub(super) fn unite(a: Aabb<f32>, b: Aabb<f32>) -> Aabb<f32> {
    Aabb {
        lower: std::array::from_fn(|axis| a.lower[axis].min(b.lower[axis])),
        upper: std::array::from_fn(|axis| a.upper[axis].max(b.upper[axis])),
    }
}

fn child_box(node: &BvhNode, child: usize) -> Aabb<f32> {
    Aabb { lower: node.lower.map(|row| row[child]), upper: node.upper.map(|row| row[child]) }
}

/// A leaf's first place and how many items it has.
fn leaf(child: u32) -> (u32, u32) {
    (child & 0x0fff_ffff, (child >> 28 & 7) + 1)
}

/// A hierarchy, read back.
pub(super) struct Structure {
    pub(super) nodes: Vec<BvhNode>,
    pub(super) items: Vec<u32>,
}

impl Structure {
    /// Reads a hierarchy and checks it: of what was built from `built`, with the boxes that items have now.
    pub(super) fn checked(
        stream: &Stream,
        bvh: &Bvh,
        built: &[Aabb<f32>],
        now: &[Aabb<f32>],
    ) -> Result<Self, Failure> {
        ensure_eq!(bvh.len(), built.len());
        let (nodes, items) = bvh.parts(stream)?;
        Self::of(nodes, items, bvh.report(stream)?, built, now)
    }

    /// The same of what was read back.
    pub(super) fn of(
        nodes: Vec<BvhNode>,
        items: Vec<u32>,
        report: BvhReport,
        built: &[Aabb<f32>],
        now: &[Aabb<f32>],
    ) -> Result<Self, Failure> {
        let structure = Self { nodes, items };
        let mut wanted: Vec<u32> =
            (0..built.len() as u32).filter(|i| is_valid(&built[*i as usize])).collect();
        let m = wanted.len();
        ensure_eq!((report.items, report.skipped), (m, built.len() - m));
        let mut found = structure.items.clone();
        found.sort_unstable();
        wanted.sort_unstable();
        ensure!(found == wanted, "the items are not those that are valid");

        ensure_eq!(report.nodes, structure.nodes.len());
        ensure!(report.nodes <= (m.max(5) - 2) / 3, "{} nodes for {m} items", report.nodes);
        let mut seen = vec![false; report.nodes];
        let mut depth = 0;
        let mut bounds = Aabb::<f32>::EMPTY;
        // Index, parent, first place, level.
        let mut open = vec![(0, NOTHING, 0, 1)];
        while let Some((index, parent, first, level)) = open.pop() {
            let node = structure.nodes.get(index as usize);
            let node = node.ok_or_else(|| Failure::new(format!("no node {index}")))?;
            ensure!(!std::mem::replace(&mut seen[index as usize], true), "{index} twice");
            ensure_eq!((node.parent, node.first), (parent, first), "node {index}");
            depth = depth.max(level);
            let mut place = first;
            let mut inner = 0;
            let mut ended = false;
            for (slot, &child) in node.child.iter().enumerate() {
                let b = child_box(node, slot);
                if child == NOTHING {
                    ended = true;
                    ensure_eq!(b, Aabb::<f32>::EMPTY);
                    continue;
                }
                ensure!(!ended, "a child behind none in {index}");
                if child & LEAF != 0 {
                    let (leaf_first, count) = leaf(child);
                    ensure_eq!(leaf_first, place, "leaf {slot} of {index}");
                    ensure!((1..=4).contains(&count), "{count} items in leaf {slot} of {index}");
                    place += count;
                } else {
                    inner += 1;
                    open.push((child, 4 * index + slot as u32, place, level + 1));
                    let below = structure.nodes.get(child as usize);
                    let below = below.ok_or_else(|| Failure::new(format!("no node {child}")))?;
                    ensure!(below.count > 4, "{} items are a leaf's", below.count);
                    place += below.count;
                }
                let tight = structure.tight(child, now)?;
                ensure_eq!(b, tight, "child {slot} of {index}");
                if index == 0 {
                    bounds = unite(bounds, tight);
                }
            }
            ensure_eq!((node.inner, node.count), (inner, place - first), "node {index}");
            // What has a child that can be opened has opened all it can.
            ensure!(inner == 0 || !ended, "{index} has room for more children");
        }
        ensure!(seen.iter().all(|seen| *seen), "nodes that nothing leads to");
        ensure_eq!(structure.nodes[0].count as usize, m);
        ensure_eq!(report.depth, depth);
        let has_bounds = (0..3).all(|axis| bounds.lower[axis] <= bounds.upper[axis]);
        ensure_eq!(report.bounds, has_bounds.then_some(bounds));
        Ok(structure)
    }

    /// The smallest box with what is below a child.
    fn tight(&self, child: u32, now: &[Aabb<f32>]) -> Result<Aabb<f32>, Failure> {
        let mut all = Aabb::<f32>::EMPTY;
        if child & LEAF == 0 {
            // Its boxes are looked at when its turn comes.
            let node = self.nodes.get(child as usize);
            let node = node.ok_or_else(|| Failure::new(format!("no node {child}")))?;
            for slot in 0..4 {
                all = unite(all, child_box(node, slot));
            }
            return Ok(all);
        }
        let (first, count) = leaf(child);
        let items = self.items.get(first as usize..(first + count) as usize);
        for item in items.ok_or_else(|| Failure::new("a leaf beyond all items"))? {
            let b = &now[*item as usize];
            if is_valid(b) {
                all = unite(all, *b);
            }
        }
        Ok(all)
    }

    /// What a random ray is expected to cost: the surface of all nodes and of all items in leaves, relative
    /// to the root's.
    pub(super) fn cost(&self) -> f64 {
        let area = |b: Aabb<f32>| {
            let e: [f64; 3] =
                std::array::from_fn(|axis| f64::from(b.upper[axis]) - f64::from(b.lower[axis]));
            e[0] * e[1] + e[1] * e[2] + e[2] * e[0]
        };
        let mut sum = 0.0;
        let mut all = Aabb::<f32>::EMPTY;
        for (index, node) in self.nodes.iter().enumerate() {
            for (slot, &child) in node.child.iter().enumerate().filter(|(_, c)| **c != NOTHING) {
                let b = child_box(node, slot);
                sum += area(b) * if child & LEAF != 0 { f64::from(leaf(child).1) } else { 1.0 };
                if index == 0 {
                    all = unite(all, b);
                }
            }
        }
        sum / area(all)
    }
}

/// Checks a hierarchy that was just built from these boxes.
pub(super) fn check(stream: &Stream, bvh: &Bvh, boxes: &[Aabb<f32>]) -> TestResult {
    Structure::checked(stream, bvh, boxes, boxes).map(drop)
}
