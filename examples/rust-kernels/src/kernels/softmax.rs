//! The softmax of rows.

use cuda_safe::kernel::{device, kernel};

/// Returns e to the power of `x`, which is at most 0, to 1 unit in the last place; 0 if `x` is less than -87.
#[device]
pub fn exp(x: f32) -> f32 {
    if x < -87.0 {
        return 0.0;
    }
    let k = (x * std::f32::consts::LOG2_E).round_ties_even();
    // ln 2 in two parts, of which the first has a product with `k` that is exact.
    let r = k.mul_add(-0.693_145_75, x);
    let r = k.mul_add(-1.428_606_8e-6, r);
    let mut sum = 1.987_569_2e-4f32;
    sum = sum.mul_add(r, 1.398_199_9e-3);
    sum = sum.mul_add(r, 8.333_452e-3);
    sum = sum.mul_add(r, 4.166_579_6e-2);
    sum = sum.mul_add(r, 1.666_666_5e-1);
    sum = sum.mul_add(r, 0.5);
    sum = sum.mul_add(r, 1.0);
    sum = sum.mul_add(r, 1.0);
    sum * f32::from_bits(((k as i32 + 127) << 23) as u32)
}

/// Makes the elements of each row positive, with a sum of 1: `exp(x)` by the sum of those of the row. A warp has a row.
#[kernel]
pub fn softmax(columns: usize, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<128>, warps(rows(out, columns), 4), |block, mut out| {
        let first = out.start();
        let mut top = block.per_thread(f32::NEG_INFINITY);
        let mut sum = block.per_thread(0.0f32);
        // Sums over local variables, as then the loops check their indices once.
        block.each((&mut out, &mut top), |t, (row, top)| {
            let start = (first + t / 32) * columns + t % 32;
            let mut most = *top;
            for k in 0..row.len() {
                most = most.max(x[start + 32 * k]);
            }
            *top = most;
        });
        block.warp_max(&mut top);
        block.each((&mut out, &mut top, &mut sum), |t, (row, top, sum)| {
            let start = (first + t / 32) * columns + t % 32;
            let mut total = 0.0;
            for k in 0..row.len() {
                total += exp(x[start + 32 * k] - *top);
            }
            *sum = total;
        });
        block.warp_sum(&mut sum);
        block.each((out, &mut top, &mut sum), |t, (mut row, top, sum)| {
            let start = (first + t / 32) * columns + t % 32;
            let by = 1.0 / *sum;
            for k in 0..row.len() {
                row[k] = exp(x[start + 32 * k] - *top) * by;
            }
        });
    });
}
