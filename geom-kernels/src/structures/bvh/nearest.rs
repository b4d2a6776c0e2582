//! The nearest item, and the first one along a ray: `geom/bvh/nearest.cuh`.

use super::query::{RayTest, Stack, distances_squared, finite_square, is_in_range};
use super::{Bvh, NO_INDEX};
use crate::Ray;
use crate::structures::exact::Exact;
use crate::structures::lanes::{LANES, Lanes, Task, vectorized};

/// The nearest item of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct NearestItem {
    /// The item.
    pub item: u32,
    /// The square of its distance.
    pub distance_squared: f32,
}

/// The first item along a ray.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct FirstItem {
    /// The item.
    pub item: u32,
    /// Where the ray hits it.
    pub t: f32,
}

/// The best result so far: the bits of a number that is not negative, and the item in the lower bits. It begins as the
/// limit, with no item.
#[derive(Debug, Clone, Copy)]
struct Best(u64);

impl Best {
    fn new(value: f32, item: u32) -> Self {
        Self(u64::from(value.to_bits()) << 32 | u64::from(item))
    }

    fn value(self) -> f32 {
        f32::from_bits((self.0 >> 32) as u32)
    }

    fn item(self) -> Option<u32> {
        Some(self.0 as u32).filter(|item| *item != NO_INDEX)
    }

    /// Whether an item with at least this value may replace the best.
    fn admits(self, least: f32, item: u32) -> bool {
        Self::new(least, item).0 < self.0
    }

    /// Takes a value from `lowest` to the best value; a value less than `least` counts as `least`. A NaN is ignored.
    fn take(&mut self, found: f32, lowest: f32, least: f32, item: u32) {
        if lowest <= found && found <= self.value() {
            self.0 = self.0.min(Self::new(Exact::max(found, least), item).0);
        }
    }
}

/// Pushes those of eight children whose bits are set, the nearest last.
#[inline(always)]
fn push_sorted(stack: &mut Stack, keys: &[f32; LANES], ids: &[u32; LANES], mut bits: u32) {
    let mut sorted = [(0.0, 0); LANES];
    let mut count = 0;
    while bits != 0 {
        let lane = bits.trailing_zeros() as usize % LANES;
        bits &= bits - 1;
        let mut at = count;
        while at > 0 && sorted[at - 1].0 < keys[lane] {
            sorted[at] = sorted[at - 1];
            at -= 1;
        }
        sorted[at] = (keys[lane], ids[lane]);
        count += 1;
    }
    for (key, id) in sorted.iter().take(count) {
        stack.push(*key, *id);
    }
}

struct Nearest<'a, F> {
    bvh: &'a Bvh,
    p: [f32; 3],
    best: Best,
    distance: F,
}

impl<F: FnMut(u32, f32) -> f32> Task for Nearest<'_, F> {
    type Output = Best;

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) -> Best {
        let mut stack = Stack::new(self.bvh);
        while let Some((key, at)) = stack.pop() {
            if key > self.best.value() {
                continue;
            }
            let Some(block) = self.bvh.blocks.get(at as usize) else { continue };
            let squares = distances_squared(block, self.p);
            let mut bits = lanes.at_most(&squares, self.best.value());
            if !block.is_leaf {
                push_sorted(&mut stack, &squares, &block.ids, bits);
                continue;
            }
            while bits != 0 {
                let lane = bits.trailing_zeros() as usize % LANES;
                bits &= bits - 1;
                let (least, item) = (squares[lane], block.ids[lane]);
                if self.best.admits(least, item) {
                    let found = (self.distance)(item, self.best.value());
                    self.best.take(found, 0.0, least, item);
                }
            }
        }
        self.best
    }
}

struct First<'a, F> {
    bvh: &'a Bvh,
    ray: RayTest,
    best: Best,
    hit: F,
}

impl<F: FnMut(u32, f32, f32) -> f32> Task for First<'_, F> {
    type Output = Best;

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) -> Best {
        let mut stack = Stack::new(self.bvh);
        while let Some((key, at)) = stack.pop() {
            if key > self.ray.t_max {
                continue;
            }
            let Some(block) = self.bvh.blocks.get(at as usize) else { continue };
            let keys = self.ray.enter_all(block);
            let mut bits = lanes.at_most(&keys, self.ray.t_max);
            if !block.is_leaf {
                push_sorted(&mut stack, &keys, &block.ids, bits);
                continue;
            }
            while bits != 0 {
                let lane = bits.trailing_zeros() as usize % LANES;
                bits &= bits - 1;
                let item = block.ids[lane];
                let Some(enter) = self.ray.enters(block, lane) else { continue };
                if self.best.admits(enter, item) {
                    let found = (self.hit)(item, enter, self.ray.t_max);
                    self.best.take(found, self.ray.t_min, enter, item);
                    self.ray.t_max = self.best.value();
                }
            }
        }
        self.best
    }
}

impl Bvh {
    /// Returns the nearest item within `max_distance` of p, which may be infinite.
    ///
    /// `distance(item, limit)` returns the square of an item's distance; it may return any greater number beyond
    /// `limit`, the least that was found so far. A number that is less than the squared distance of the item's box
    /// counts as that; an item whose number is infinite, negative or NaN is not found. Among equally near items it is
    /// the one of least index. There is no result if a coordinate of p is not finite or beyond 2^60, or `max_distance`
    /// negative or NaN.
    pub fn nearest(
        &self,
        p: [f32; 3],
        max_distance: f32,
        distance: impl FnMut(u32, f32) -> f32,
    ) -> Option<NearestItem> {
        // A NaN is no distance.
        let is_distance = 0.0 <= max_distance;
        if !is_in_range(p) || !is_distance {
            return None;
        }
        let best = Best::new(finite_square(max_distance), NO_INDEX);
        let best = vectorized(Nearest { bvh: self, p, best, distance });
        Some(NearestItem { item: best.item()?, distance_squared: best.value() })
    }

    /// Returns the first item along a ray, which is one as for [`along`](Self::along).
    ///
    /// `hit(item, t_enter, t_max)` returns the t at which the ray hits an item whose box it meets from `t_enter` on; it
    /// may return any greater number beyond `t_max`, the least t that was found so far. A t before `t_enter` counts as
    /// that; one that is less than the ray's `t_min`, infinite or NaN is no hit. Among equal t it is the item of least
    /// index.
    pub fn first_along(
        &self,
        ray: &Ray,
        hit: impl FnMut(u32, f32, f32) -> f32,
    ) -> Option<FirstItem> {
        let ray = RayTest::new(ray)?;
        let best = Best::new(ray.t_max, NO_INDEX);
        let best = vectorized(First { bvh: self, ray, best, hit });
        Some(FirstItem { item: best.item()?, t: best.value() })
    }
}
