//! What traversals share.

use super::block::{LANES, Lanes};
use super::simd::{Eight, Simd};
use super::tree::STACK;

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
                Some(entry) if (entry >> 32) as u32 <= limit.to_bits() => {
                    return Some(*entry as u32);
                }
                _ => {}
            }
        }
        None
    }

    /// Adds children of a node, those whose bits are set, and returns the nearest one, or the next one of the stack.
    #[inline(always)]
    pub(super) fn push_ordered(
        &mut self,
        bits: u32,
        distances: &Lanes,
        children: &Lanes<u32>,
        limit: f32,
    ) -> Option<u32> {
        let start = self.size;
        // The depth of a tree limits the number of entries, so there is space.
        let free = self.entries.get_mut(start..start + LANES)?;
        let mut count = 0;
        for lane in lanes_of(bits) {
            let entry = u64::from(distances[lane].to_bits()) << 32 | u64::from(children[lane]);
            // Nearer entries move up.
            let mut at = count;
            while at > 0 && at < LANES && free[at - 1] < entry {
                free[at] = free[at - 1];
                at -= 1;
            }
            free[at] = entry;
            count += 1;
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
