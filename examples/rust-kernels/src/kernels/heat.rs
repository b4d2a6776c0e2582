//! A step of the heat equation.

use cuda_safe::kernel::kernel;

/// Moves each temperature of a plate towards those of its four neighbours; outside of the plate it is 0.
///
/// A block reads its tile with a margin of one element into shared memory.
#[kernel]
pub fn heat(rate: f32, rows: usize, columns: usize, now: &[f32], next: &mut [f32]) {
    assert!(now.len() == rows * columns && next.len() == rows * columns);
    blocks(Threads::<8, 32>, tiles::<8, 32, _>(next, [rows, columns]), |block, next| {
        let [row, column] = next.origin();
        let corner = [row as isize - 1, column as isize - 1];
        let mut tile = block.shared([[0.0f32; 34]; 10]);
        block.load_matrix(&mut tile, now, [rows, columns], corner, 0.0);
        block.each(next, |[i, j], next| {
            let here = tile[i + 1][j + 1];
            let around = tile[i][j + 1] + tile[i + 2][j + 1] + tile[i + 1][j] + tile[i + 1][j + 2];
            *next = here + rate * (around - 4.0 * here);
        });
    });
}
