//! Uses a lent stream's views in another thread, which the call does not wait for.
//!
//! - row: a lent stream is used inside its call alone
//! - targets: `LentStream::view_mut`
//! - must: not compile E0277 "cannot be shared between threads"

use cuda_safe::dlpack::Tensor;
use cuda_safe::{LentStream, Result};

pub fn attack(lent: &LentStream, tensor: &Tensor) -> Result<()> {
    let mut view = lent.view_mut::<f32>(tensor)?;
    std::thread::scope(|scope| {
        scope.spawn(|| lent.is_recording()); //~ refused
    });
    view.fill(lent, 1.0)
}
