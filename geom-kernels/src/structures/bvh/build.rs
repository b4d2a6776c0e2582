//! Builds: ranges of items are split where that promises the least work (binned surface area heuristic; I. Wald, On
//! fast Construction of SAH-based Bounding Volume Hierarchies, 2007), until a node has eight children.

use rayon::prelude::*;

use super::{Block, unite};
use crate::Aabb;
use crate::structures::lanes::LANES;

/// The bins along an axis.
const BINS: usize = 16;

/// Ranges of more items than this are built by several threads.
const PARALLEL: usize = 8192;

/// Below this many levels, ranges are halved: the tree is never deeper than this and the bits of a number of items, so
/// recursion ends soon.
const SPLIT_LEVELS: usize = 32;

/// An item, and its box.
#[derive(Debug, Clone, Copy)]
struct Item {
    id: u32,
    of: Aabb<f32>,
}

impl Item {
    fn center(&self, axis: usize) -> f32 {
        0.5 * self.of.lower[axis] + 0.5 * self.of.upper[axis]
    }
}

/// Half of the surface of a box; 0 if it is empty.
fn half_area(of: &Aabb<f32>) -> f32 {
    let [x, y, z] = std::array::from_fn(|axis| (of.upper[axis] - of.lower[axis]).max(0.0));
    x * y + y * z + z * x
}

/// Returns the blocks of a hierarchy of valid boxes, and its depth.
pub(super) fn build(boxes: &[Aabb<f32>], items: Vec<u32>) -> (Vec<Block>, usize) {
    let with_box = |id: u32| Some(Item { id, of: *boxes.get(id as usize)? });
    let mut items: Vec<Item> = items.into_iter().filter_map(with_box).collect();
    if items.is_empty() {
        return (Vec::new(), 1);
    }
    let mut blocks = Vec::with_capacity(items.len() / 4 + 1);
    let depth = subtree(&mut items, 1, &mut blocks);
    (blocks, depth)
}

fn bounds(items: &[Item]) -> Aabb<f32> {
    items.iter().fold(Aabb::<f32>::EMPTY, |all, item| unite(&all, &item.of))
}

/// Appends the blocks of some items, of which there are any; returns the depth.
fn subtree(items: &mut [Item], level: usize, blocks: &mut Vec<Block>) -> usize {
    let mut block = Block::EMPTY;
    if items.len() <= LANES {
        for (lane, item) in items.iter().enumerate().take(LANES) {
            block.set(lane, &item.of);
            block.ids[lane] = item.id;
        }
        blocks.push(block);
        return level;
    }
    block.is_leaf = false;
    let root = blocks.len();
    blocks.push(block);
    let parallel = items.len() > PARALLEL;
    let ranges = children(items, level);
    let mut depth = level;
    let add = |blocks: &mut Vec<Block>, lane: usize, of: &Aabb<f32>, child: usize| {
        if let Some(block) = blocks.get_mut(root) {
            block.set(lane, of);
            block.ids[lane] = child as u32;
        }
    };
    if parallel {
        let built: Vec<_> = ranges
            .into_par_iter()
            .map(|range| {
                let mut own = Vec::with_capacity(range.len() / 4 + 1);
                let below = subtree(range, level + 1, &mut own);
                (own, below)
            })
            .collect();
        for (lane, (mut own, below)) in built.into_iter().enumerate() {
            let first = blocks.len();
            for block in own.iter_mut().filter(|block| !block.is_leaf) {
                for id in block.ids.iter_mut().filter(|id| **id != super::NO_INDEX) {
                    *id += first as u32;
                }
            }
            let of = own.first().map_or(Aabb::<f32>::EMPTY, Block::union);
            blocks.append(&mut own);
            add(blocks, lane, &of, first);
            depth = depth.max(below);
        }
    } else {
        for (lane, range) in ranges.into_iter().enumerate() {
            let first = blocks.len();
            depth = depth.max(subtree(range, level + 1, blocks));
            let of = blocks.get(first).map_or(Aabb::<f32>::EMPTY, Block::union);
            add(blocks, lane, &of, first);
        }
    }
    depth
}

/// Splits items, of which there are more than eight, into up to eight ranges: the range of the largest surface first.
fn children(items: &mut [Item], level: usize) -> Vec<&mut [Item]> {
    let all = half_area(&bounds(items));
    let mut ranges = vec![(all, items)];
    while ranges.len() < LANES {
        let largest = ranges
            .iter()
            .enumerate()
            .filter(|(_, (_, range))| range.len() > LANES)
            .max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b));
        let Some((at, _)) = largest else { break };
        let (_, range) = ranges.swap_remove(at);
        let middle = split(range, level);
        let (left, right) = range.split_at_mut(middle);
        for range in [left, right] {
            ranges.push((half_area(&bounds(range)), range));
        }
    }
    ranges.into_iter().map(|(_, range)| range).collect()
}

/// A bin: its items, and their box.
#[derive(Clone, Copy)]
struct Bin {
    count: usize,
    of: Aabb<f32>,
}

/// The bin of a centre.
#[derive(Clone, Copy)]
struct Scale {
    axis: usize,
    low: f32,
    inverse: f32,
}

impl Scale {
    fn bin(&self, item: &Item) -> usize {
        // A conversion of a NaN or a negative number gives 0.
        (((item.center(self.axis) - self.low) * self.inverse) as usize).min(BINS - 1)
    }
}

/// Orders some items, of which there are two at least, so that those before the returned index, which are some but not
/// all, go to one side.
fn split(items: &mut [Item], level: usize) -> usize {
    let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for item in items.iter() {
        for axis in 0..3 {
            low[axis] = low[axis].min(item.center(axis));
            high[axis] = high[axis].max(item.center(axis));
        }
    }
    let extent: [f32; 3] = std::array::from_fn(|axis| high[axis] - low[axis]);
    let longest = (0..3).max_by(|a, b| extent[*a].total_cmp(&extent[*b])).unwrap_or(0);
    let half = items.len() / 2;
    if level < SPLIT_LEVELS
        && let Some((scale, last)) = cheapest(items, low, extent)
    {
        let middle = partition(items, |item| scale.bin(item) <= last);
        if middle > 0 && middle < items.len() {
            return middle;
        }
    }
    items.select_nth_unstable_by(half, |a, b| a.center(longest).total_cmp(&b.center(longest)));
    half
}

/// Returns the cheapest split: the bins, and the last one of the left side.
fn cheapest(items: &[Item], low: [f32; 3], extent: [f32; 3]) -> Option<(Scale, usize)> {
    let mut best = None;
    let mut least = f32::INFINITY;
    for axis in 0..3 {
        let scale = Scale { axis, low: low[axis], inverse: BINS as f32 / extent[axis] };
        if !scale.inverse.is_finite() {
            continue;
        }
        let mut bins = [Bin { count: 0, of: Aabb::<f32>::EMPTY }; BINS];
        for item in items {
            let bin = &mut bins[scale.bin(item)];
            bin.count += 1;
            bin.of = unite(&bin.of, &item.of);
        }
        // The cost of the right side of each split, and then of both sides.
        let mut right = [0.0; BINS];
        let (mut count, mut of) = (0, Aabb::<f32>::EMPTY);
        for (bin, cost) in bins.iter().zip(&mut right).rev() {
            *cost = count as f32 * half_area(&of);
            count += bin.count;
            of = unite(&of, &bin.of);
        }
        let (mut count, mut of) = (0, Aabb::<f32>::EMPTY);
        for (last, (bin, right)) in bins.iter().zip(right).enumerate().take(BINS - 1) {
            count += bin.count;
            of = unite(&of, &bin.of);
            let cost = count as f32 * half_area(&of) + right;
            if count > 0 && count < items.len() && cost < least {
                (least, best) = (cost, Some((scale, last)));
            }
        }
    }
    best
}

/// Moves the items for which `left` is true to the front, and returns how many they are.
fn partition(items: &mut [Item], left: impl Fn(&Item) -> bool) -> usize {
    let mut count = 0;
    for at in 0..items.len() {
        if left(&items[at]) {
            items.swap(at, count);
            count += 1;
        }
    }
    count
}
