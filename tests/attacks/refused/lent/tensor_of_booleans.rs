//! Takes bytes of other code as `bool`, which not all bytes are.
//!
//! - row: no byte of a tensor is read as a type that it may not be
//! - targets: `LentStream::view`
//! - must: not compile E0277 "bool"

use cuda_safe::dlpack::Tensor;
use cuda_safe::{LentStream, Result};

pub fn attack(lent: &LentStream, tensor: &Tensor) -> Result<()> {
    let _ = lent.view::<bool>(tensor)?; //~ refused
    Ok(())
}
