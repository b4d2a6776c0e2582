//! The sum of floats.

use cuda_safe::kernel::kernel;

/// The elements that a block adds up before it goes on to its next ones.
pub const CHUNK: usize = 4096;

/// Block `b` of `sums.len()` adds up the chunks `b`, `b + sums.len()`, and so on. A second launch with one sum adds up
/// the sums of the first.
#[kernel]
pub fn reduction(x: &[f32], sums: &mut [f32]) {
    let n = x.len();
    let stride = sums.len() * CHUNK;
    blocks(Threads::<256>, sums, |block, sum| {
        let mut own = block.per_thread(0.0f32);
        let mut next = block.per_thread(0.0f32);
        for chunk in (block.index() * CHUNK..n).step_by(stride) {
            if chunk + CHUNK <= n {
                // Without a comparison for each element.
                let whole = &x[chunk..chunk + CHUNK];
                for k in 0..16 {
                    block.each(&mut own, |t, sum| *sum += whole[k * 256 + t]);
                }
            } else {
                for k in 0..16 {
                    block.load(&mut next, x, (chunk + k * 256) as isize, 0.0);
                    block.each((&mut own, &mut next), |_, (sum, x)| *sum += *x);
                }
            }
        }
        let total = block.sum(&own);
        sum.set(total);
    });
}
