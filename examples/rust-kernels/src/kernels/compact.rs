//! The elements that a condition selects, in their order.

use cuda_safe::kernel::{Atomic, kernel};

/// The elements of a block.
pub const CHUNK: usize = 2048;

/// Counts the elements of each chunk that are less than `limit`. A scan of the counts says where those of a chunk
/// begin.
#[kernel]
pub fn count_less(limit: u32, x: &[u32], counts: &mut [u32]) {
    blocks(Threads::<256>, counts, |block, count| {
        let start = block.index() * CHUNK;
        let mut own = block.per_thread(0u32);
        let mut next = block.per_thread(0u32);
        for k in 0..8 {
            block.load(&mut next, x, (start + k * 256) as isize, u32::MAX);
            block.each((&mut own, &mut next), |_, (own, x)| {
                if *x < limit {
                    *own += 1;
                }
            });
        }
        let total = block.sum(&own);
        count.set(total);
    });
}

/// Copies the elements that are less than `limit` to `kept`. `ends` has, of each chunk, the sum of the counts up to its
/// own.
///
/// Where an element goes depends on data, so `kept` is shared: no two threads have the same place in it.
#[kernel]
pub fn keep_less(limit: u32, x: &[u32], ends: &[u32], kept: &Atomic<[u32]>) {
    assert!(ends.len() == x.len().div_ceil(2048));
    blocks(Threads::<256>, grid(ends.len()), |block, _| {
        let chunk = block.index();
        let mut next = if chunk > 0 { ends[chunk - 1] } else { 0 };
        let mut own = block.per_thread(0u32);
        let mut keep = block.per_thread(false);
        let mut slot = block.per_thread(0u32);
        for k in 0..8 {
            block.load(&mut own, x, (chunk * CHUNK + k * 256) as isize, u32::MAX);
            block.each((&mut own, &mut keep), |_, (x, keep)| *keep = *x < limit);
            let count = block.compact(&keep, &mut slot);
            block.each((&mut own, &mut keep, &mut slot), |_, (x, keep, slot)| {
                if *keep {
                    kept.store((next + *slot) as usize, *x);
                }
            });
            next += count;
        }
    });
}
