//! Prefix sums in one launch.

use cuda_safe::kernel::kernel;

/// The elements of a block.
pub const CHUNK: usize = 4096;

/// Gives each element the sum of all up to and including it.
///
/// A thread has 16 neighbours. Rows of 17 words keep the threads of a warp in different banks; the last word of a row
/// becomes the sum of the block's rows before it. `carry` gives the sum of the blocks before.
#[kernel]
pub fn scan(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<256>, chunks(out, CHUNK), |block, out| {
        let first = out.start();
        let mut tile = block.shared([0u32; 4352]);
        let mut own = block.per_thread(0u32);
        block.each((tile.rows(17), &mut own), |t, (row, own)| {
            for k in 0..16 {
                let i = first + 16 * t + k;
                if i < x.len() {
                    *own += x[i];
                }
                row[k] = *own;
            }
        });
        let total = block.scan(&mut own);
        block.each((tile.rows(17), &mut own), |_, (row, before)| row[16] = *before);
        let before = block.carry(total, 0, |a, b| a + b);
        block.each(out, |i, out| {
            let row = i / 16 * 17;
            *out = before + tile[row + 16] + tile[row + i % 16];
        });
    });
}
