//! Looks a kernel up in its module, at once or at its first use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use cuda_sys::{CUfunction_attribute, CUresult};

use super::{KernelInner, Shared, parameters};
use crate::error::Result;
use crate::launch::KernelLimits;
use crate::module::ModuleInner;
use crate::stream::names;

impl Drop for Shared {
    fn drop(&mut self) {
        self.module.kernel_dropped();
    }
}

impl Shared {
    /// Unloads the module. If that fails, the kernel is as before.
    pub(super) fn close(&mut self) -> Result<()> {
        // The result holds the module, too.
        let non_portable =
            self.found.take().is_some_and(|mut it| *it.non_portable_cluster.get_mut());
        let unloaded = ModuleInner::unload(&mut self.module, 1);
        // The driver has the kernel's other setting, the most dynamic shared memory.
        if unloaded.is_err()
            && non_portable
            && let Ok(found) = self.find()
        {
            found.non_portable_cluster.store(true, Ordering::Relaxed);
        }
        unloaded
    }

    /// Looks the kernel up, and compiles it if its module was loaded lazily.
    #[cold]
    pub(super) fn find(&self) -> Result<&KernelInner> {
        let found = KernelInner::new(&self.module, self.name, self.shown)?;
        // Another thread may have stored its result first; it is the same.
        Ok(self.found.get_or_init(|| found)?)
    }
}

impl KernelInner {
    fn new(module: &Arc<ModuleInner>, symbol: &str, shown: &str) -> Result<Self> {
        let (raw, signature) = module.function(symbol)?;
        let (number, name) = names::intern(shown)?;
        let mut inner = Self {
            raw,
            module: module.clone(),
            variables: module.variables_of(symbol)?,
            name,
            number,
            limits: KernelLimits::default(),
            max_dynamic_shared: AtomicU32::new(0),
            non_portable_cluster: AtomicBool::new(false),
            parameters: None,
            checked: AtomicPtr::new(std::ptr::null_mut()),
            resident: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
        };
        let (cluster, needs_cluster) = inner.clusters()?;
        inner.limits = KernelLimits {
            threads: inner
                .attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared: inner
                .attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            cluster,
            needs_cluster,
        };
        let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        *inner.max_dynamic_shared.get_mut() = inner.attribute(most)?;
        let sizes = inner.parameter_sizes(signature.map(|signature| signature.params.len()))?;
        inner.parameters = match (sizes, signature) {
            (None, None) => None,
            (sizes, signature) => {
                Some(parameters(symbol, sizes.as_deref().unwrap_or_default(), signature))
            }
        };
        Ok(inner)
    }

    /// Returns the size of each parameter, from drivers that report it (12.4 and later). The driver marks the end of
    /// the list with an error code; the call that would return it is skipped if the image has the number of parameters.
    fn parameter_sizes(&self, count: Option<usize>) -> Result<Option<Vec<usize>>> {
        let context = self.module.context();
        let sys = context.state.sys;
        let mut sizes = Vec::new();
        while count != Some(sizes.len()) {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: both are valid places for a size_t, and the function is live.
            let result = unsafe {
                sys.cuFuncGetParamInfo(self.raw, sizes.len(), &raw mut offset, &raw mut size)
            };
            match result {
                Err(_missing) => return Ok(None),
                Ok(CUresult::CUDA_ERROR_INVALID_VALUE) => break,
                other => context.answer("cuFuncGetParamInfo", other)?,
            }
            sizes.push(size);
        }
        Ok(Some(sizes))
    }
}
