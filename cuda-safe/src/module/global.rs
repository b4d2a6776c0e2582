//! Global and constant variables of a module, typed.

use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_sys::{CUdeviceptr, CUresult};

use super::{Module, ModuleInner};
use crate::error::{Error, Result};
use crate::memory::{Allocation, DeviceSlice, DeviceSliceMut, fit};
use crate::stream::Stream;

/// A `__device__` or `__constant__` variable of a module, as `len` elements of `T`.
///
/// Reads and writes by this handle, by other handles to the variable and by kernels of the module that
/// reach it by name are ordered like uses of a buffer, on whatever streams they run. Which kernels reach
/// it, and whether they may write it, is derived from the module's PTX. If a module has machine code
/// alone and any variable, each of its kernels counts as writing all of them.
pub struct Global<T> {
    name: String,
    module: Arc<ModuleInner>,
    memory: Arc<Allocation>,
    /// Where it is in `memory`, in bytes.
    start: usize,
    len: usize,
    marker: PhantomData<T>,
}

impl Module {
    /// Returns whether there is a variable `name`. A module that was loaded [lazily](Module::load_lazily) has none.
    ///
    /// # Errors
    /// The error that the driver returns, other than that there is none.
    #[doc(alias = "cuModuleGetGlobal")]
    pub fn has_global(&self, name: &str) -> Result<bool> {
        if self.inner.is_lazy() {
            return Ok(false);
        }
        match find(&self.inner, name) {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_NOT_FOUND) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the variable `name` as elements of `T`. `stream` is any stream of the module's context that
    /// does not record.
    ///
    /// The first call for a module **waits for the device** if kernels were launched that read variables
    /// which no kernel of the module writes: such launches record nothing before that.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if its size is not a multiple of `T`'s or
    /// its address not aligned for one, or if the call would have to wait while a graph is recorded in
    /// the context; otherwise the error that the driver returns, such as `CUDA_ERROR_NOT_FOUND`.
    #[doc(alias = "cuModuleGetGlobal")]
    #[doc(alias = "cudaMemcpyToSymbol")]
    pub fn global<T: Copy + 'static>(&self, stream: &Stream, name: &str) -> Result<Global<T>> {
        let inner = &self.inner;
        if !Arc::ptr_eq(&inner.context, &stream.inner().context) {
            return Err(Error::invalid("module and stream belong to different contexts"));
        }
        stream.inner().not_capturing("Module::global")?;
        let (address, bytes) = find(inner, name)?;
        let what = format!("the global `{name}`");
        let len = fit::elements::<T>(&what, address, bytes)?;
        let start = usize::try_from(address).map_err(|_| {
            Error::invalid(format!("{what} lies at {address:#x}, beyond the host's addresses"))
        })?;
        inner.watch_variables()?;
        let memory = inner.variable_memory()?.clone();
        inner.globals.fetch_add(1, Ordering::Relaxed);
        Ok(Global {
            name: name.to_owned(),
            module: inner.clone(),
            memory,
            start,
            len,
            marker: PhantomData,
        })
    }
}

/// Returns where a global lies, and its size in bytes.
pub(super) fn find(inner: &ModuleInner, name: &str) -> Result<(CUdeviceptr, usize)> {
    if inner.is_lazy() {
        return Err(Error::invalid(format!(
            "the global `{name}` can't be used: the module was loaded lazily, so each kernel has variables of its own"
        ))
        .with_hint("load the module with `Module::load`"));
    }
    let text = CString::new(name)
        .map_err(|_| Error::invalid(format!("{name:?} is no name of a global")))?;
    let (mut start, mut bytes) = (0, 0);
    inner.context.with_current(|| {
        // SAFETY: both are valid places for what they get, the module is live, its context is
        // current, and the name is a C string.
        let result = unsafe {
            inner.context.state.sys.cuModuleGetGlobal_v2(
                &raw mut start,
                &raw mut bytes,
                inner.raw,
                text.as_ptr(),
            )
        };
        inner
            .context
            .answer("cuModuleGetGlobal", result)
            .map_err(|error| error.with_asked(format!("global `{name}`")))
    })?;
    Ok((start, bytes))
}

impl<T: Copy + 'static> Global<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `source` to the variable, in `stream`'s order. Returns when `source` has been read.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload`].
    pub fn write(&self, stream: &Stream, source: &[T]) -> Result<()>
    where
        T: NoUninit,
    {
        self.keep_module(stream);
        DeviceSliceMut::new(&self.memory, self.start, self.len).upload(stream, source)
    }

    /// Copies the variable to a new vector. Waits until it is filled.
    ///
    /// # Errors
    /// As [`DeviceSlice::to_vec`].
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        self.keep_module(stream);
        DeviceSlice::new(&self.memory, self.start, self.len).to_vec(stream)
    }

    /// Lets a graph that is recorded on `stream` keep the module.
    fn keep_module(&self, stream: &Stream) {
        if let Some(capture) = &stream.inner().capture {
            capture.keep(self.module.clone());
        }
    }
}

impl<T> Drop for Global<T> {
    fn drop(&mut self) {
        self.module.globals.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Global")
            .field("name", &self.name)
            .field("element", &std::any::type_name::<T>())
            .field("len", &self.len)
            .finish()
    }
}
