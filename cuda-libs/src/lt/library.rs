//! The checks of the library, and its handles.

use std::sync::{Mutex, PoisonError};

use cuda_safe::Context;
use cuda_sys::cublaslt::cublasStatus_t;

use super::Handle;
use crate::blas::Blas;
use crate::blas::call::failed;
use crate::error::Result;
use crate::load::CublasLtLibrary;
use crate::uses::{Identity, identity};

/// Fails unless the library is of the release of cuBLAS, and for the driver of its context.
pub(super) fn fits(library: CublasLtLibrary, blas: &Blas) -> Result<()> {
    let release =
        |version: Option<(i32, i32, i32)>| version.map(|(major, minor, _)| (major, minor));
    let cublas = blas.library();
    if release(library.version()) != release(cublas.version()) {
        let name = cublas.name();
        let reason = format!("{name} is of another release; install both of one release");
        return Err(library.unusable(reason));
    }
    library.is_for(blas.context())
}

/// The handles, by context and library.
static HANDLES: Mutex<Vec<(Identity, usize, Handle)>> = Mutex::new(Vec::new());

/// Returns the handle of a context, or creates it. Where the driver can't name contexts, each call creates one.
pub(super) fn handle(library: CublasLtLibrary, context: &Context) -> Result<Handle> {
    let functions = library.as_sys();
    let own = identity(context).map(|identity| (identity, std::ptr::from_ref(functions).addr()));
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = handles.iter().find(|(context, library, _)| own == Some((*context, *library)));
    if let Some((_, _, handle)) = known {
        return Ok(*handle);
    }
    let mut raw = std::ptr::null_mut();
    let created = context.with_current(|| {
        // SAFETY: `raw` is valid for the write.
        Ok(unsafe { functions.cublasLtCreate(&raw mut raw) })
    })?;
    match created {
        Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => {}
        Ok(status) => return Err(failed(context, "cublasLtCreate", status)),
        Err(missing) => return Err(library.lacks("cublasLtCreate", missing.name)),
    }
    let handle = Handle(raw);
    handles.extend(own.map(|(context, library)| (context, library, handle)));
    Ok(handle)
}
