//! Prefix sums in one launch.

use cuda_safe::kernel::kernel;

/// The elements of a block.
pub const CHUNK: usize = 4096;

/// Gives each element the sum of all up to and including it.
///
/// A thread has 16 neighbours, and passes their sum on to the threads after it. `carry` gives the sum of the blocks before.
#[kernel]
pub fn scan(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<256>, chunks(out, CHUNK), |block, mut out| {
        let mut own = block.per_thread([0u32; 16]);
        let mut sum = block.per_thread(0u32);
        block.load(&mut own, x, out.start() as isize, 0);
        block.each((&mut own, &mut sum), |_, (own, sum)| {
            for k in 1..16 {
                own[k] += own[k - 1];
            }
            *sum = own[15];
        });
        let total = block.scan(&mut sum);
        let before = block.carry(total, 0, |a, b| a + b);
        block.each((out.patches::<16>(), &mut own, &mut sum), |_, (mut out, own, sum)| {
            for k in 0..16 {
                out[k] = before + *sum + own[k];
            }
        });
    });
}
