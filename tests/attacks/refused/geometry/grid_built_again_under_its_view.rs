//! Builds a hash grid again, and drops it, while a view of it is still to be launched with.
//!
//! - row: a view does not outlive its buffer
//! - targets: `HashGrid::view`, `HashGrid::reserve`
//! - must: not compile E0502 "borrow"

use cuda_safe::{KernelArg, Result, Stream};
use geom_kernels::hash_grid::HashGrid;

fn launched_with(_: impl KernelArg) {}

pub fn attack(grid: &mut HashGrid<f32>, stream: &Stream) -> Result<()> {
    let view = grid.view();
    grid.reserve(stream, 1 << 20)?; //~ refused
    launched_with(view);
    Ok(())
}
