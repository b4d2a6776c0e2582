//! Counts of the lowest bytes of words.

use cuda_safe::kernel::{Atomic, kernel};

/// The words of a block: enough that few blocks meet at `bins`.
pub const CHUNK: usize = 1 << 17;

/// A block counts in shared memory, and adds its counts to `bins`, of which there are 256.
#[kernel]
pub fn histogram(data: &[u32], bins: &Atomic<[u32]>) {
    assert!(bins.len() == 256);
    blocks(Threads::<256>, grid(data.len().div_ceil(CHUNK)), |block, _| {
        let start = block.index() * CHUNK;
        let part = &data[start..(start + CHUNK).min(data.len())];
        let mut local = block.shared([0u32; 256]);
        let counts = local.atomic();
        block.run(part.len(), |i| {
            counts.fetch_add((part[i] & 255) as usize, 1);
        });
        block.run(256, |i| {
            bins.fetch_add(i, local[i]);
        });
    });
}
