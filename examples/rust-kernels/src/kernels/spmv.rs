//! The product of a sparse matrix and a vector.

use cuda_safe::kernel::kernel;

/// Row `r` has the elements `offsets[r]` to `offsets[r + 1]` of `columns` and `values`. Nothing is promised about the
/// indices in these arrays: the kernel checks them.
#[kernel(contract)]
pub fn spmv(offsets: &[u32], columns: &[u32], values: &[f32], x: &[f32], y: &mut [f32]) {
    assert!(offsets.len() == y.len() + 1 && columns.len() == values.len());
    each(y, |row, y| {
        let mut sum = 0.0;
        for k in offsets[row] as usize..offsets[row + 1] as usize {
            sum += values[k] * x[columns[k] as usize];
        }
        *y = sum;
    });
}
