//! The normalisation of rows.

use cuda_safe::kernel::kernel;

/// Keeps the deviation of a row of equal elements from 0.
pub const EPSILON: f32 = 1e-5;

/// Gives each row the mean 0 and the variance 1, then scales and moves its columns. A warp has a row.
#[kernel(contract)]
pub fn layer_norm(columns: usize, x: &[f32], scale: &[f32], shift: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && scale.len() == columns && shift.len() == columns);
    blocks(Threads::<128>, warps(rows(out, columns), 4), |block, mut out| {
        let first = out.start();
        let by = 1.0 / columns as f32;
        let mut mean = block.per_thread(0.0f32);
        let mut square = block.per_thread(0.0f32);
        block.each((&mut out, &mut mean), |t, (row, mean)| {
            let start = (first + t / 32) * columns + t % 32;
            let mut sum = 0.0;
            for k in 0..row.len() {
                sum += x[start + 32 * k];
            }
            *mean = sum;
        });
        block.warp_sum(&mut mean);
        block.each((&mut out, &mut mean, &mut square), |t, (row, mean, square)| {
            *mean *= by;
            let start = (first + t / 32) * columns + t % 32;
            let (middle, mut sum) = (*mean, 0.0);
            for k in 0..row.len() {
                let d = x[start + 32 * k] - middle;
                sum += d * d;
            }
            *square = sum;
        });
        block.warp_sum(&mut square);
        block.each((out, &mut mean, &mut square), |t, (mut row, mean, square)| {
            let lane = t % 32;
            let start = (first + t / 32) * columns + lane;
            let by = 1.0 / (*square * by + EPSILON).sqrt();
            for k in 0..row.len() {
                row[k] =
                    (x[start + 32 * k] - *mean) * by * scale[lane + 32 * k] + shift[lane + 32 * k];
            }
        });
    });
}
