//! Sorted chunks.

use cuda_safe::kernel::kernel;

/// The elements of a block.
pub const CHUNK: usize = 1024;

/// Sorts each chunk by a bitonic network in shared memory. `block.sort` has the same without a loop to write.
///
/// A step compares the pairs of elements whose indices differ by one bit.
#[kernel]
pub fn sort_chunks(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<512>, chunks(out, CHUNK), |block, out| {
        let mut tile = block.shared([0u32; 1024]);
        // What the last chunk lacks is sorted to its end.
        block.load(&mut tile, x, out.start() as isize, u32::MAX);
        for bits in 1..11 {
            let size = 1 << bits;
            for bit in (0..bits).rev() {
                block.each(tile.pairs(1 << bit), |i, (a, b)| {
                    if (*a > *b) == (i & size == 0) {
                        let t = *a;
                        *a = *b;
                        *b = t;
                    }
                });
            }
        }
        block.each(out, |i, out| *out = tile[i]);
    });
}
