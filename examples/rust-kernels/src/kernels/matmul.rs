//! The product of two matrices, untiled.

use cuda_safe::kernel::kernel;

/// `c = a b` for matrices of `n` rows and columns, by rows. It computes its indices, so overflow checks cost most
/// here.
#[kernel(contract)]
pub fn matmul(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == n * n && b.len() == n * n);
    each(image(c, [n, n]), |[column, row], c| {
        let mut sum = 0.0;
        for k in 0..n {
            sum += a[row * n + k] * b[k * n + column];
        }
        *c = sum;
    });
}
