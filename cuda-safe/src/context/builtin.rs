//! Kernels of this crate.

use std::ffi::CStr;

use cuda_sys::{CUfunction, CUmodule};

use super::{ContextInner, Deferred};
use crate::error::Result;
use crate::sync::Lock;

/// A kernel of this crate, loaded at its first use in the context.
#[derive(Default)]
pub(crate) struct BuiltinKernel(Lock<Option<Loaded>>);

#[derive(Clone, Copy)]
struct Loaded {
    module: CUmodule,
    function: CUfunction,
}

// SAFETY: the driver ties modules and functions to no thread.
unsafe impl Send for Loaded {}

impl BuiltinKernel {
    /// Returns the kernel with this name in a text of PTX.
    pub(crate) fn function(
        &self,
        context: &ContextInner,
        ptx: &CStr,
        name: &CStr,
    ) -> Result<CUfunction> {
        let mut loaded = self.0.lock()?;
        if let Some(loaded) = &*loaded {
            return Ok(loaded.function);
        }
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        context.with_current(|| {
            // SAFETY: `module` is a valid place for a handle, a context is current, and the image is
            // a C string of PTX.
            unsafe { call!(context, cuModuleLoadData(&raw mut module, ptx.as_ptr().cast())) }?;
            // SAFETY: `function` is a valid place for a handle, the module is live, and the name is
            // a C string.
            unsafe { call!(context, cuModuleGetFunction(&raw mut function, module, name.as_ptr())) }
                .inspect_err(|_| {
                    context.deferred.put(Deferred::Module(module));
                })
        })?;
        *loaded = Some(Loaded { module, function });
        Ok(function)
    }

    /// Takes the module, to close the context.
    pub(super) fn take(&self) -> Option<CUmodule> {
        let loaded = self.0.lock().ok()?.take();
        loaded.map(|loaded| loaded.module)
    }
}
