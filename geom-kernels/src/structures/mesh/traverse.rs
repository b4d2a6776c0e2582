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

/// The children that remain to be visited: the bits of their distances, which are not negative, and below them the
/// children.
pub(super) struct Stack {
    entries: [u64; STACK],
    size: usize,
}

impl Stack {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { entries: [0; STACK], size: 0 }
    }

    /// Returns the next child that is not farther than the limit.
    #[inline(always)]
    pub(super) fn pop(&mut self, limit: f32) -> Option<u32> {
        while let Some(last) = self.size.checked_sub(1) {
            self.size = last;
            match self.entries.get(last) {
                // The number of a lane in a key may be greater than the bits that it has replaced.
                Some(entry) if (entry >> 32) as u32 <= limit.to_bits() | LANE => {
                    return Some(*entry as u32);
                }
                _ => {}
            }
        }
        None
    }

    /// Adds children of a node, those whose bits are set, and returns the nearest one, or the next one of the stack.
    #[inline(always)]
    pub(super) fn push_ordered<S: Simd>(
        &mut self,
        simd: S,
        bits: u32,
        distances: Eight<S>,
        children: &Lanes<u32>,
        limit: f32,
    ) -> Option<u32> {
        // The number of the lane in the lowest bits makes distances differ.
        let keys = distances
            .and(Eight::splat(simd, f32::from_bits(!LANE)))
            .or(Eight::load(simd, &NUMBERS));
        let stored = keys.store();
        let start = self.size;
        // The depth of a tree limits the number of entries, so there is space.
        let free = self.entries.get_mut(start..start + LANES)?;
        let count = bits.count_ones() as usize;
        for lane in lanes_of(bits) {
            let nearer = keys.less(Eight::splat(simd, stored[lane])).signs() & bits;
            let at = count - 1 - nearer.count_ones() as usize;
            free[at % LANES] = u64::from(stored[lane].to_bits()) << 32 | u64::from(children[lane]);
        }
        self.size = start + count;
        self.pop(limit)
    }

    /// Adds children of a node, those whose bits are set, in no order.
    #[inline(always)]
    pub(super) fn push_all(&mut self, bits: u32, children: &Lanes<u32>) {
        for lane in lanes_of(bits) {
            if let Some(entry) = self.entries.get_mut(self.size) {
                *entry = u64::from(children[lane]);
                self.size += 1;
            }
        }
    }
}
