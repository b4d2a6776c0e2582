//! What traversals share.

use super::block::{LANES, Lanes};
use super::simd::{Eight, Simd};
use super::tree::STACK;

/// The bits of a lane's number.
const LANE: u32 = LANES as u32 - 1;

/// The numbers of the lanes, as bits.
const NUMBERS: Lanes = {
    let mut numbers = [0.0; LANES];
    let mut lane = 0;
    while lane < LANES {
        numbers[lane] = f32::from_bits(lane as u32);
        lane += 1;
    }
    numbers
};

/// Returns three times eight numbers: the components of eight vectors.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, from: &[Lanes; 3]) -> [Eight<S>; 3] {
    let [x, y, z] = from;
    [Eight::load(simd, x), Eight::load(simd, y), Eight::load(simd, z)]
}

/// Returns eight times the same vector.
#[inline(always)]
pub(super) fn splat<S: Simd>(simd: S, [x, y, z]: [f32; 3]) -> [Eight<S>; 3] {
    [Eight::splat(simd, x), Eight::splat(simd, y), Eight::splat(simd, z)]
}

/// Returns the lanes whose bits are set, ascending.
#[inline(always)]
pub(super) fn lanes_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

/// The children that remain to be visited. (Words that are stored as one and read as two, or the reverse, would wait for
/// each other.)
pub(super) struct Stack {
    /// The bits of the distances, which are not negative.
    keys: [u32; STACK],
    children: [u32; STACK],
    size: usize,
}

impl Stack {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { keys: [0; STACK], children: [0; STACK], size: 0 }
    }

    /// Returns the next child that is not farther than the limit.
    #[inline(always)]
    pub(super) fn pop(&mut self, limit: f32) -> Option<u32> {
        // The number of a lane in a key may be greater than the bits that it has replaced.
        let limit = limit.to_bits() | LANE;
        while let Some(last) = self.size.checked_sub(1) {
            self.size = last;
            match self.keys.get(last).zip(self.children.get(last)) {
                Some((key, child)) if *key <= limit => return Some(*child),
                _ => {}
            }
        }
        None
    }

    /// Adds the children of a node whose bits are set, less the nearest one, which it returns. None of them is farther than
    /// the limit. If no bit is set, it returns the next child of the stack.
    #[inline(always)]
    pub(super) fn push_ordered<S: Simd>(
        &mut self,
        simd: S,
        bits: u32,
        distances: Eight<S>,
        children: &Lanes<u32>,
        limit: f32,
    ) -> Option<u32> {
        if bits & bits.wrapping_sub(1) == 0 {
            return match lanes_of(bits).next() {
                Some(lane) => Some(children[lane]),
                None => self.pop(limit),
            };
        }
        // The number of the lane in the lowest bits makes distances differ.
        let keys = distances
            .and(Eight::splat(simd, f32::from_bits(!LANE)))
            .or(Eight::load(simd, &NUMBERS));
        let stored = keys.store();
        let free = self.size..self.size + LANES;
        // The depth of a tree limits the number of entries, so there is space.
        let (to_keys, to_children) =
            (self.keys.get_mut(free.clone())?, self.children.get_mut(free)?);
        let last = bits.count_ones() as usize - 1;
        let mut nearest = 0;
        for lane in lanes_of(bits) {
            let nearer = keys.less(Eight::splat(simd, stored[lane])).signs() & bits;
            let (at, child) = (last - nearer.count_ones() as usize, children[lane]);
            to_keys[at % LANES] = stored[lane].to_bits();
            to_children[at % LANES] = child;
            nearest = if nearer == 0 { child } else { nearest };
        }
        self.size += last;
        Some(nearest)
    }

    /// Adds children of a node, those whose bits are set, in no order.
    #[inline(always)]
    pub(super) fn push_all(&mut self, bits: u32, children: &Lanes<u32>) {
        for lane in lanes_of(bits) {
            let entry = self.keys.get_mut(self.size).zip(self.children.get_mut(self.size));
            if let Some((key, child)) = entry {
                (*key, *child) = (0, children[lane]);
                self.size += 1;
            }
        }
    }
}
