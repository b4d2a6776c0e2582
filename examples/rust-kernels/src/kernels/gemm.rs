//! The product of two matrices with a patch of 8 x 8 sums in the registers of each thread.

use cuda_safe::kernel::kernel;

/// `c = a b`, where `a` has `m` rows of `k` elements, and `b` has `k` rows of `n`.
///
/// The tile of `a` is transposed in shared memory, so that a thread reads eight neighbours of both tiles in each step.
#[kernel(contract)]
pub fn gemm(m: usize, n: usize, k: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    blocks(Threads::<16, 16>, tiles::<128, 128, _>(c, [m, n]), |block, mut c| {
        let [row, column] = c.origin();
        // Rows of 17 elements, of which the last is not used, are in different banks.
        let mut rows = block.shared([[0.0f32; 17]; 128]);
        let mut left = block.shared([[0.0f32; 128]; 16]);
        let mut right = block.shared([[0.0f32; 128]; 16]);
        let mut sum = block.per_thread([[0.0f32; 8]; 8]);
        for start in (0..k).step_by(16) {
            block.load_matrix(rows.cells(16), a, [m, k], [row as isize, start as isize], 0.0);
            block.load_matrix(&mut right, b, [k, n], [start as isize, column as isize], 0.0);
            block.each(&mut left, |[t, i], left| *left = rows[i][t]);
            block.each(&mut sum, |[i, j], s| {
                for t in 0..16 {
                    for y in 0..8 {
                        for x in 0..8 {
                            s[y][x] += left[t][8 * i + y] * right[t][8 * j + x];
                        }
                    }
                }
            });
        }
        block.each((c.patches::<8, 8>(), &mut sum), |_, (mut c, s)| *c = *s);
    });
}
