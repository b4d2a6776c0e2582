//! NVIDIA's libraries; on the software device `blas-emu`, because it can't execute their machine code.

use cuda_libs::{Blas, Config, CublasLibrary, Result};
use cuda_safe::Context;

/// Returns cuBLAS for a context.
///
/// # Errors
/// Those of [`Blas::with`].
pub fn blas(context: &Context) -> Result<Blas> {
    let mut config = Config::new();
    if is_emulated(context)? {
        // SAFETY: the functions have the ABI of the header, and call the driver of the context, as `is_emulated` has set.
        config = config.library(unsafe { CublasLibrary::from_resolver(&blas_emu::resolve) }?);
    }
    Blas::with(context, &config)
}

/// Returns whether `blas-emu` takes the place of the libraries: on the software device, whose driver it calls from then on.
fn is_emulated(context: &Context) -> Result<bool> {
    if !context.device().name()?.contains("software") {
        return Ok(false);
    }
    if !blas_emu::use_driver(context.driver().as_sys()) {
        return Err(cuda_safe::Error::invalid("`blas-emu` calls another driver already").into());
    }
    Ok(true)
}
