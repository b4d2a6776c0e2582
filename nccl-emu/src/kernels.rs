//! The loaded kernels of a device, which all its communicators share.
//!
//! Unloading a module waits for the device. So the kernels stay until the last communicator of the device is gone: one that
//! is aborted must not wait for the work of another one.

use core::ffi::CStr;
use core::mem;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cuda_sys::{CUdevice, CUfunction, CUmodule};

use crate::cuda::Cuda;
use crate::error::{Error, Result};
use crate::kernel::{self, Element};

/// A kernel: of a type, or `None` for a copy, and its name.
type Name = (Option<Element>, &'static CStr);

#[derive(Debug, Default)]
struct Loaded {
    modules: HashMap<Option<Element>, CUmodule>,
    functions: HashMap<Name, CUfunction>,
}

// SAFETY: the handles are only names, which any thread may use.
unsafe impl Send for Loaded {}

/// The kernels of a device.
#[derive(Debug)]
pub(crate) struct Kernels {
    cuda: Cuda,
    loaded: Mutex<Loaded>,
}

static ALL: Mutex<Option<HashMap<CUdevice, Weak<Kernels>>>> = Mutex::new(None);

impl Kernels {
    /// Returns the kernels of a device. The caller keeps its primary context until it has released them.
    pub(crate) fn of(cuda: Cuda, device: CUdevice) -> Arc<Self> {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get_or_insert_default().entry(device).or_default();
        known.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Self { cuda, loaded: Mutex::default() });
            *known = Arc::downgrade(&new);
            new
        })
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a kernel. Its type is loaded at the first use, into the current context, which is the device's.
    pub(crate) fn function(
        &self,
        element: Option<Element>,
        name: &'static CStr,
    ) -> Result<CUfunction> {
        let mut loaded = self.lock();
        if let Some(&known) = loaded.functions.get(&(element, name)) {
            return Ok(known);
        }
        let module = match loaded.modules.get(&element) {
            Some(&module) => module,
            None => {
                let text = element.map_or_else(kernel::copies, kernel::reductions);
                let text = CString::new(text).map_err(|_| Error::internal("PTX with a NUL"))?;
                let module = self.cuda.load(&text)?;
                loaded.modules.insert(element, module);
                module
            }
        };
        let function = self.cuda.function(module, name)?;
        loaded.functions.insert((element, name), function);
        Ok(function)
    }

    /// Unloads the kernels from the current context, if this is the last reference. Returns the first error.
    pub(crate) fn release(this: Arc<Self>) -> Result {
        let Some(this) = Arc::into_inner(this) else { return Ok(()) };
        let modules = mem::take(&mut this.lock().modules);
        let results: Vec<Result> =
            modules.into_values().map(|module| this.cuda.unload(module)).collect();
        results.into_iter().collect()
    }
}
