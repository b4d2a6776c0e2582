//! Reads a tensor after its deleter has run.
//!
//! - row: lent memory is not used after its call
//! - targets: `LentStream::view`
//! - must: not compile E0505 "borrowed"

use cuda_safe::dlpack::Tensor;
use cuda_safe::{LentStream, Result};

pub fn attack(lent: &LentStream, tensor: Tensor) -> Result<Vec<f32>> {
    let view = lent.view::<f32>(&tensor)?;
    drop(tensor); //~ refused
    view.to_vec(lent)
}
