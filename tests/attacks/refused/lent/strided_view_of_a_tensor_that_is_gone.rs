//! Reads the elements of a tensor with strides after its deleter has run.
//!
//! - row: lent memory is not used after its call
//! - targets: `LentStream::view_strided`, `StridedSlice::data`
//! - must: not compile E0505 "borrowed"

use cuda_safe::dlpack::Tensor;
use cuda_safe::{LentStream, Result};

pub fn attack(lent: &LentStream, tensor: Tensor) -> Result<Vec<f32>> {
    let view = lent.view_strided::<f32>(&tensor)?.data();
    drop(tensor); //~ refused
    view.to_vec(lent)
}
