//! The elements that a condition selects, in their order, in one launch.

use cuda_safe::kernel::{Atomic, kernel};

/// The elements of a block.
pub const CHUNK: usize = 4096;

/// Copies the elements that are less than `limit` to the start of `kept`, in their order, and their number to `count[0]`,
/// if `x` has elements.
///
/// A thread counts what it keeps of 16 neighbours. `scan` and `carry` give the number of those before, in the block and in
/// the blocks before. Where an element goes depends on data, so `kept` is shared: no two threads have the same index in it.
/// The block collects its elements first, so that neighbours write neighbours. `carry` publishes the block's number before
/// that, and waits for those of others where `before` is used.
#[kernel(min_blocks = 8)]
pub fn keep_less(limit: u32, x: &[u32], kept: &Atomic<[u32]>, count: &Atomic<[u32]>) {
    assert!(count.len() == 1);
    blocks(Threads::<256>, grid(x.len().div_ceil(CHUNK)), |block, _| {
        let mut own = block.per_thread([0u32; 16]);
        let mut at = block.per_thread(0u32);
        block.load(&mut own, x, (block.index() * CHUNK) as isize, u32::MAX);
        // Filled while the elements come.
        let mut collected = block.shared([0u32; CHUNK]);
        block.each((&mut own, &mut at), |_, (own, at)| {
            for k in 0..16 {
                *at += (own[k] < limit) as u32;
            }
        });
        let total = block.scan(&mut at);
        let before = block.carry(total, 0, |a, b| a + b);
        let slots = collected.atomic();
        block.each((&mut own, &mut at), |_, (own, at)| {
            for k in 0..16 {
                let keeps = own[k] < limit;
                if keeps {
                    // The remainder is the index: it shows the compiler that nothing is to check.
                    slots.store(*at as usize % CHUNK, own[k]);
                }
                *at += keeps as u32;
            }
        });
        block.run(total as usize, |i| {
            kept.store((before + i as u32) as usize, collected[i % CHUNK]);
        });
        if block.index() + 1 == block.count() {
            block.one(|| count.store(0, before + total));
        }
    });
}
