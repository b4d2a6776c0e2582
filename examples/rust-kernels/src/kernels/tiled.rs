//! The product of two matrices by tiles in shared memory.

use cuda_safe::kernel::kernel;

/// `c = a b`, where `a` has `m` rows of `k` elements, and `b` has `k` rows of `n`.
#[kernel(contract)]
pub fn tiled(m: usize, n: usize, k: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    blocks(Threads::<32, 32>, tiles::<32, 32, _>(c, [m, n]), |block, c| {
        let [row, column] = c.origin();
        let mut left = block.shared([[0.0f32; 32]; 32]);
        let mut right = block.shared([[0.0f32; 32]; 32]);
        let mut sum = block.per_thread(0.0f32);
        for start in (0..k).step_by(32) {
            block.load_matrix(&mut left, a, [m, k], [row as isize, start as isize], 0.0);
            block.load_matrix(&mut right, b, [k, n], [start as isize, column as isize], 0.0);
            block.each(&mut sum, |[i, j], s| {
                for t in 0..32 {
                    *s += left[i][t] * right[t][j];
                }
            });
        }
        block.each((c, &mut sum), |_, (c, s)| *c = *s);
    });
}
