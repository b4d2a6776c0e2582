//! The binary hierarchies of a device's builds: `geom/bvh/build_keys.cuh`, `build_radix.cuh` and `build_cluster.cuh`.

use rayon::prelude::*;

use super::super::block::face_of;
use super::super::exact::{max, min, three};
use super::super::triangle::bounds;
use crate::Aabb;
use crate::bvh::BuildMode;

/// The most clusters in the list of a range.
const LIST: usize = 16;
/// Ranges of more leaves than this become one cluster.
const TREELET: usize = 1024;
/// The distance in a list within which a cluster searches for its nearest.
const RADIUS: usize = 8;
/// Leaves below which a range is built by one thread.
const PARALLEL: usize = 4096;

/// A box and its contents: one face (`count` is 1, and `id` the face), or a node with `count` faces below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cluster {
    pub(super) bounds: Aabb<f32>,
    pub(super) id: u32,
    pub(super) count: u32,
}

impl Cluster {
    /// Returns the cluster of both, as a node.
    fn join(&self, other: &Self, id: u32) -> Self {
        let bounds = unite(&self.bounds, &other.bounds);
        Self { bounds, id, count: self.count + other.count }
    }
}

/// Returns the smallest box with both in it.
pub(super) fn unite(a: &Aabb<f32>, b: &Aabb<f32>) -> Aabb<f32> {
    Aabb {
        lower: three(|axis| min(a.lower[axis], b.lower[axis])),
        upper: three(|axis| max(a.upper[axis], b.upper[axis])),
    }
}

/// Returns half the surface of a box that is not empty.
pub(super) fn half_area(of: &Aabb<f32>) -> f32 {
    let [x, y, z] = three(|axis| of.upper[axis] - of.lower[axis]);
    z.mul_add(x, y.mul_add(z, x * y))
}

fn center(of: &Aabb<f32>) -> [f32; 3] {
    three(|axis| of.lower[axis] * 0.5 + of.upper[axis] * 0.5)
}

/// The frame of the centres: a cube of 2^21 cells along each edge.
struct Frame {
    origin: [f32; 3],
    inverse: f32,
}

impl Frame {
    fn new(items: &[Cluster]) -> Self {
        let all = items.iter().fold(Aabb::<f32>::EMPTY, |all, item| {
            let at = center(&item.bounds);
            unite(&all, &Aabb { lower: at, upper: at })
        });
        let [x, y, z] = three(|axis| max(all.upper[axis] - all.lower[axis], 0.0));
        let side = max(x, max(y, z));
        Self { origin: all.lower, inverse: min(2_097_152.0 / side, f32::MAX) }
    }

    /// Returns the position on a Morton curve.
    fn key(&self, of: &Cluster) -> u64 {
        let at = center(&of.bounds);
        (0..3).fold(0, |key, axis| {
            // Not less than 0, so the conversion rounds down. It saturates.
            let cell = ((at[axis] - self.origin[axis]) * self.inverse) as i32;
            key << 1 | spread(cell.clamp(0, 2_097_151) as u64)
        })
    }
}

/// Spreads 21 bits, each three positions from the next.
fn spread(mut v: u64) -> u64 {
    v = (v | v << 32) & 0x001f_0000_0000_ffff;
    v = (v | v << 16) & 0x001f_0000_ff00_00ff;
    v = (v | v << 8) & 0x100f_00f0_0f00_f00f;
    v = (v | v << 4) & 0x10c3_0c30_c30c_30c3;
    (v | v << 2) & 0x1249_2492_4924_9249
}

/// A binary hierarchy. The children of node i are `nodes[i]`.
pub(super) struct Binary {
    pub(super) nodes: Vec<[Cluster; 2]>,
    /// The whole; `None` without items.
    pub(super) root: Option<Cluster>,
}

/// A cluster in a list, and its head: the first of its leaves.
type Entry = (Cluster, u32);

/// The leaves in the order of their keys.
struct Leaves {
    keys: Vec<u64>,
    items: Vec<Cluster>,
}

/// An absent child.
const NONE: Cluster = Cluster { bounds: Aabb::<f32>::EMPTY, id: 0, count: 0 };

impl Binary {
    /// Builds the hierarchy over the faces that are not skipped.
    pub(super) fn new(points: &[[f32; 3]], faces: &[[u32; 3]], mode: BuildMode) -> Self {
        let item = |face: usize| {
            let (_, corners) = face_of(points, faces, face as u32)?;
            Some(Cluster { bounds: bounds(corners), id: face as u32, count: 1 })
        };
        let items: Vec<Cluster> = (0..faces.len()).into_par_iter().filter_map(item).collect();
        let frame = Frame::new(&items);
        let mut sorted: Vec<(u64, Cluster)> =
            items.into_iter().map(|item| (frame.key(&item), item)).collect();
        sorted.par_sort_unstable_by_key(|(key, item)| (*key, item.id));
        let (keys, items): (Vec<u64>, Vec<Cluster>) = sorted.into_iter().unzip();
        let leaves = Leaves { keys, items };
        let n = leaves.items.len();
        let mut nodes = vec![[NONE; 2]; n];
        let root = match mode {
            _ if n == 0 => None,
            BuildMode::Fast => Some(leaves.radix(0, n, &mut nodes)),
            BuildMode::Quality => leaves.lists(0, n, &mut nodes).first().map(|(root, _)| *root),
        };
        Self { nodes, root }
    }
}

impl Leaves {
    /// Returns where the radix tree divides the leaves from `first` to before `end`, at least two: at the highest bit
    /// in which their keys differ, or if all are equal, in which their indices do.
    fn split(&self, first: usize, end: usize) -> usize {
        let (low, high) = (self.keys[first], self.keys[end - 1]);
        if low == high {
            let bit = (first ^ (end - 1)).ilog2();
            return (end - 1) >> bit << bit;
        }
        let bit = (low ^ high).ilog2();
        first + self.keys[first..end].partition_point(|key| key >> bit & 1 == 0)
    }

    /// Calls `of` for both parts of a range and their nodes, of which each leaf has one.
    fn both<T: Send>(
        &self,
        (first, end): (usize, usize),
        nodes: &mut [[Cluster; 2]],
        of: impl Fn(usize, usize, &mut [[Cluster; 2]]) -> T + Sync,
    ) -> [T; 2] {
        let middle = self.split(first, end);
        let (left, right) = nodes.split_at_mut(middle - first);
        let (left, right) = if end - first > PARALLEL {
            rayon::join(|| of(first, middle, left), || of(middle, end, right))
        } else {
            (of(first, middle, left), of(middle, end, right))
        };
        [left, right]
    }

    /// Builds the radix tree of a range. `nodes` are those of the range.
    fn radix(&self, first: usize, end: usize, nodes: &mut [[Cluster; 2]]) -> Cluster {
        if end - first == 1 {
            return self.items[first];
        }
        let children =
            self.both((first, end), nodes, |first, end, nodes| self.radix(first, end, nodes));
        let [left, right] = children;
        // The node that separates two leaves has the index of the second.
        let middle = left.count as usize;
        nodes[middle] = children;
        left.join(&right, (first + middle) as u32)
    }

    /// Returns the list of clusters of a range: its leaves if they are few, and one cluster if they are many or all.
    fn lists(&self, first: usize, end: usize, nodes: &mut [[Cluster; 2]]) -> Vec<Entry> {
        let size = end - first;
        let whole = size == self.items.len();
        if size == 1 || (size <= LIST && !whole) {
            return self.items[first..end].iter().copied().zip(first as u32..).collect();
        }
        let [mut list, right] =
            self.both((first, end), nodes, |first, end, nodes| self.lists(first, end, nodes));
        list.extend(right);
        let most = if whole || size > TREELET { 1 } else { LIST };
        while list.len() > most {
            join_nearest(&mut list, first, nodes);
        }
        list
    }
}

/// Merges each two clusters that are each other's nearest, of at least two. `first` is the first leaf of the range, and
/// `nodes` are those of the range.
fn join_nearest(list: &mut Vec<Entry>, first: usize, nodes: &mut [[Cluster; 2]]) {
    // The area of a union, above the bits in which the numbers of both differ.
    let rank = |one: usize, other: usize| {
        let area = half_area(&unite(&list[one].0.bounds, &list[other].0.bounds));
        (area.to_bits(), one ^ other)
    };
    let nearest = |one: usize| {
        let others = one.saturating_sub(RADIUS)..list.len().min(one + RADIUS + 1);
        others.filter(|other| *other != one).min_by_key(|other| rank(one, *other))
    };
    let mates: Vec<Option<usize>> = (0..list.len()).map(nearest).collect();
    let mut left = Vec::with_capacity(list.len());
    for (lane, mate) in mates.iter().enumerate() {
        let mutual = mate.filter(|mate| mates.get(*mate) == Some(&Some(lane)));
        let (cluster, head) = list[lane];
        match mutual {
            // The higher one vanishes, and its head becomes the number of the node.
            Some(mate) if mate > lane => {
                let (other, id) = list[mate];
                nodes[id as usize - first] = [cluster, other];
                left.push((cluster.join(&other, id), head));
            }
            Some(_) => {}
            None => left.push((cluster, head)),
        }
    }
    *list = left;
}
