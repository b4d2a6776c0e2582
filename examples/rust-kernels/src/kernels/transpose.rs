//! The transposed matrix.

use cuda_safe::kernel::kernel;

/// `out` has `columns` rows. Blocks read and write rows of 32 elements; the padding of their tile keeps the elements of
/// a column in different banks of shared memory.
#[kernel]
pub fn transpose(rows: usize, columns: usize, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == rows * columns && out.len() == rows * columns);
    blocks(Threads::<256>, tiles::<32, 32, _>(out, [columns, rows]), |block, out| {
        let [row, column] = out.origin();
        let mut tile = block.shared([[0.0f32; 33]; 32]);
        block.load_matrix(tile.cells(32), x, [rows, columns], [column as isize, row as isize], 0.0);
        block.each(out, |[i, j], out| *out = tile[j][i]);
    });
}
