//! Prefix sums.

use cuda_safe::kernel::kernel;

/// The elements of a block.
pub const CHUNK: usize = 1024;

/// Gives each element the sum of its chunk up to and including it, and returns the sums of the chunks.
///
/// A thread has four neighbours. Rows of five words keep the threads of a warp in different banks.
#[kernel]
pub fn scan_chunks(x: &[u32], out: &mut [u32], sums: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<256>, (chunks(out, CHUNK), sums), |block, (out, sum)| {
        let first = out.start();
        let mut tile = block.shared([0u32; 1280]);
        let mut own = block.per_thread(0u32);
        block.each((tile.rows(5), &mut own), |t, (row, own)| {
            for k in 0..4 {
                let i = first + 4 * t + k;
                if i < x.len() {
                    *own += x[i];
                }
                row[k] = *own;
            }
        });
        let total = block.scan(&mut own);
        block.each((tile.rows(5), &mut own), |_, (row, before)| {
            for k in 0..4 {
                row[k] += *before;
            }
        });
        block.each(out, |i, out| *out = tile[i / 4 * 5 + i % 4]);
        sum.set(total);
    });
}

/// Adds to each chunk but the first what the scanned sums have of the chunks before it.
#[kernel]
pub fn add_sums(sums: &[u32], out: &mut [u32]) {
    blocks(Threads::<256>, chunks(out, CHUNK), |block, out| {
        let chunk = block.index();
        let before = if chunk > 0 { sums[chunk - 1] } else { 0 };
        block.each(out, |_, out| *out += before);
    });
}
