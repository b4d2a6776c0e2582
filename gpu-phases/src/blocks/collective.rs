//! What the threads of a warp, or of a block, compute together from a value of each.
//!
//! The order of operations is the same on all targets. A warp adds by exchanges at distances of 16, 8, 4, 2 and 1, a
//! block then adds the sums of its warps in their order.

use super::shared::{PerThread, Shared};
use super::target::{Dim, Dims};
use super::{Block, Summed};
use crate::device::Device;

/// Combines the values of a warp by a butterfly, whose result all lanes have: that of the first one.
#[inline(always)]
fn butterfly<T: Copy>(warp: &[T; 32], op: impl Fn(T, T) -> T) -> T {
    let mut values = *warp;
    for distance in [16, 8, 4, 2, 1] {
        for at in 0..distance {
            values[at] = op(values[at], values[at + distance]);
        }
    }
    values[0]
}

/// Scans the values of a warp: each lane gets the sum of its own and those before.
#[inline(always)]
fn inclusive<T: Summed>(values: &mut [T]) {
    for distance in [1, 2, 4, 8, 16] {
        for at in (distance..values.len()).rev() {
            values[at] = values[at - distance].plus(values[at]);
        }
    }
}

impl<const N: usize, const M: usize> Block<N, M>
where
    Dims<M>: Dim,
{
    #[inline(always)]
    fn warps<T: Device>(value: &mut PerThread<T, N, M>) -> &mut [[T; 32]] {
        const { assert!(Self::WARPS > 0) }
        value.values_mut().as_chunks_mut().0
    }

    #[inline(always)]
    fn combine<T: Device>(value: &mut PerThread<T, N, M>, op: impl Fn(T, T) -> T + Copy) {
        for warp in Self::warps(value) {
            *warp = [butterfly(warp, op); 32];
        }
    }

    /// Gives each thread the sum of the values of its warp.
    #[inline(always)]
    pub fn warp_sum<T: Summed>(&mut self, value: &mut PerThread<T, N, M>) {
        Self::combine(value, T::plus);
    }

    /// Gives each thread the smallest value of its warp.
    #[inline(always)]
    pub fn warp_min<T: Summed>(&mut self, value: &mut PerThread<T, N, M>) {
        Self::combine(value, T::lesser);
    }

    /// Gives each thread the greatest value of its warp.
    #[inline(always)]
    pub fn warp_max<T: Summed>(&mut self, value: &mut PerThread<T, N, M>) {
        Self::combine(value, T::greater);
    }

    /// Gives each thread the sum of its value and those of the lanes before it in its warp.
    #[inline(always)]
    pub fn warp_scan<T: Summed>(&mut self, value: &mut PerThread<T, N, M>) {
        for warp in Self::warps(value) {
            inclusive(warp);
        }
    }

    /// Gives each thread the value of the lane whose number is its own exclusive or `mask`, of which the lowest 5 bits count.
    #[inline(always)]
    pub fn warp_xor<T: Device>(&mut self, value: &mut PerThread<T, N, M>, mask: u32) {
        let mask = mask as usize & 31;
        for warp in Self::warps(value) {
            (0..32).filter(|at| *at < at ^ mask).for_each(|at| warp.swap(at, at ^ mask));
        }
    }

    /// Gives each thread the value of lane `from` of its warp. Of its own `from` the lowest 5 bits count.
    #[inline(always)]
    pub fn warp_broadcast<T: Device>(
        &mut self,
        value: &mut PerThread<T, N, M>,
        from: &PerThread<u32, N, M>,
    ) {
        const { assert!(Self::WARPS > 0) }
        let warps = value.values_mut().chunks_exact_mut(32).zip(from.values().chunks_exact(32));
        for (warp, from) in warps {
            let before: [T; 32] = std::array::from_fn(|lane| warp[lane]);
            for (to, from) in warp.iter_mut().zip(from) {
                *to = before[*from as usize & 31];
            }
        }
    }

    /// Gives each thread a number whose bits are the values of the lanes of its warp.
    #[inline(always)]
    pub fn warp_ballot(&mut self, value: &PerThread<bool, N, M>, bits: &mut PerThread<u32, N, M>) {
        const { assert!(Self::WARPS > 0) }
        let warps = bits.values_mut().chunks_exact_mut(32).zip(value.values().chunks_exact(32));
        for (bits, warp) in warps {
            let ballot = warp.iter().rev().fold(0, |bits, value| bits << 1 | u32::from(*value));
            bits.fill(ballot);
        }
    }

    #[inline(always)]
    fn reduced<T: Summed>(value: &PerThread<T, N, M>, op: impl Fn(T, T) -> T + Copy) -> T {
        const { assert!(Self::WARPS > 0) }
        let mut result = None;
        for warp in value.values().as_chunks().0 {
            let of_warp = butterfly(warp, op);
            result = Some(result.map_or(of_warp, |result| op(result, of_warp)));
        }
        result.unwrap_or(T::ZERO)
    }

    /// Returns the sum of the values of all threads.
    #[inline(always)]
    pub fn sum<T: Summed>(&mut self, value: &PerThread<T, N, M>) -> T {
        Self::reduced(value, T::plus)
    }

    /// Returns the smallest value of all threads.
    #[inline(always)]
    pub fn min<T: Summed>(&mut self, value: &PerThread<T, N, M>) -> T {
        Self::reduced(value, T::lesser)
    }

    /// Returns the greatest value of all threads.
    #[inline(always)]
    pub fn max<T: Summed>(&mut self, value: &PerThread<T, N, M>) -> T {
        Self::reduced(value, T::greater)
    }

    /// Gives each thread the sum of the values of the threads before it, and returns the sum of all.
    #[inline(always)]
    pub fn scan<T: Summed>(&mut self, value: &mut PerThread<T, N, M>) -> T {
        const { assert!(Self::WARPS > 0) }
        let mut before = T::ZERO;
        for warp in value.values_mut().chunks_exact_mut(32) {
            inclusive(warp);
            let sum = warp[31];
            warp.copy_within(0..31, 1);
            warp[0] = T::ZERO;
            warp.iter_mut().for_each(|lane| *lane = before.plus(*lane));
            before = before.plus(sum);
        }
        before
    }

    /// Numbers the threads whose value is `true` from 0 on, in their order, and returns how many there are.
    ///
    /// The others get the number of such threads before them.
    #[inline(always)]
    pub fn compact(
        &mut self,
        keep: &PerThread<bool, N, M>,
        slot: &mut PerThread<u32, N, M>,
    ) -> u32 {
        const { assert!(Self::WARPS > 0) }
        let mut count = 0;
        for (slot, keep) in slot.values_mut().iter_mut().zip(keep.values()) {
            *slot = count;
            count += u32::from(*keep);
        }
        count
    }

    /// Returns the value of a thread. A fault if there is no such thread.
    #[inline(always)]
    #[track_caller]
    pub fn broadcast<T: Device>(&mut self, value: &PerThread<T, N, M>, thread: usize) -> T {
        value.values()[thread]
    }

    /// Sorts a shared array, the smallest first; floats by `total_cmp`, but with all NaNs at the end.
    #[inline(always)]
    pub fn sort<T: Summed, const LEN: usize>(&mut self, array: &mut Shared<[T; LEN]>) {
        array.0.sort_unstable_by(T::order);
    }
}
