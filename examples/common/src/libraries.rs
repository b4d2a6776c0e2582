//! NVIDIA's libraries, and `blas-emu` in their place where they can't be used.

use cuda_libs::{Blas, Config, Library, Result, Table};
use cuda_safe::{Context, Error};

/// Returns cuBLAS for a context.
///
/// # Errors
/// Those of [`Blas::with`].
pub fn blas(context: &Context) -> Result<Blas> {
    Blas::with(context, &Config::new().library(library(context)?))
}

/// Loads a library, such as [`CublasLibrary`](cuda_libs::CublasLibrary). `blas-emu` takes its place on the software
/// device, which can't execute machine code, and where the library is not found; it calls the driver of the context
/// from then on.
///
/// # Errors
/// If `blas-emu` calls another driver already.
pub fn library<T: Table>(context: &Context) -> Result<Library<T>> {
    if !context.device().name()?.contains("software") {
        match Library::load() {
            Ok(library) => return Ok(library),
            Err(error) => eprintln!("{error}\nblas-emu is used instead, which is slower"),
        }
    }
    if !blas_emu::use_driver(context.driver().as_sys()) {
        return Err(Error::invalid("blas-emu calls another driver already").into());
    }
    // SAFETY: the functions have the ABI of the headers, and call the driver of the context.
    unsafe { Library::from_resolver(&blas_emu::resolve) }
}
