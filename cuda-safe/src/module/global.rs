//! Global and constant variables of a module, typed.

use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_sys::{CUdevice_attribute, CUdeviceptr, CUpointer_attribute, CUresult};

use super::declared::Invariant;
use super::{Module, ModuleInner};
use crate::error::{Error, Result};
use crate::memory::{Allocation, DeviceSlice, DeviceSliceMut, HostMut, HostRef, fit};
use crate::quiet::Kept;
use crate::stream::Stream;

/// A `__device__`, `__constant__` or `__managed__` variable of a module, as `len` elements of `T`.
///
/// [`kernels!`](crate::kernels) declares variables with `global`; [`Module::global`] finds others by name.
///
/// Reads and writes by this handle, by other handles to the variable and by kernels of the module that
/// reach it by name are ordered like uses of a buffer, on whatever streams they run. Which kernels reach
/// it, and whether they may write it, is derived from the module's PTX. If a module has machine code
/// alone and any variable, each of its kernels counts as writing all of them.
pub struct Global<T> {
    place: Place,
    memory: Arc<Allocation>,
    marker: PhantomData<T>,
    // Handles to one variable write it without being exclusive.
    variance: Invariant<T>,
}

/// A variable of a module that a handle refers to.
pub(super) struct Place {
    name: Arc<str>,
    module: Arc<ModuleInner>,
    /// Its address.
    start: usize,
    /// The number of elements.
    len: usize,
}

impl Place {
    /// Takes the `bytes` bytes at `address`, which are the variable `name`, as elements of `T`.
    pub(super) fn at<T>(
        module: &Arc<ModuleInner>,
        name: &str,
        address: CUdeviceptr,
        bytes: usize,
    ) -> Result<Self> {
        let what = format!("the global `{name}`");
        let len = fit::elements::<T>(&what, address, bytes)?;
        let start = usize::try_from(address).map_err(|_| {
            Error::invalid(format!("{what} lies at {address:#x}, beyond the host's addresses"))
        })?;
        Ok(Self::new(name.into(), module.clone(), start, len))
    }

    fn new(name: Arc<str>, module: Arc<ModuleInner>, start: usize, len: usize) -> Self {
        module.globals.fetch_add(1, Ordering::Relaxed);
        Self { name, module, start, len }
    }

    /// Returns a handle to the variable; see [`Module::global`].
    pub(super) fn open<T>(&self, stream: &Stream) -> Result<Global<T>> {
        usable_with(&self.module, stream)?;
        self.module.watch_variables()?;
        let memory = self.module.variable_memory()?.clone();
        Ok(Global { place: self.clone(), memory, marker: PhantomData, variance: PhantomData })
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclaredGlobal").field("name", &self.name).field("len", &self.len).finish()
    }
}

impl Clone for Place {
    fn clone(&self) -> Self {
        Self::new(self.name.clone(), self.module.clone(), self.start, self.len)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.module.globals.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Fails unless handles to variables of `module` can be made beside `stream`.
fn usable_with(module: &ModuleInner, stream: &Stream) -> Result<()> {
    if !Arc::ptr_eq(&module.context, &stream.inner().context) {
        return Err(Error::invalid("module and stream belong to different contexts"));
    }
    stream.inner().not_capturing("Module::global")
}

impl Module {
    /// Returns whether there is a variable `name`, as [`global`](Self::global) takes it. A module that was loaded
    /// [lazily](Module::load_lazily) has none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if several variables have the name; otherwise the error that
    /// the driver returns, other than that there is none.
    #[doc(alias = "cuModuleGetGlobal")]
    pub fn has_global(&self, name: &str) -> Result<bool> {
        if self.inner.is_lazy() {
            return Ok(false);
        }
        match self.inner.locate(name) {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_NOT_FOUND) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the variable `name` as elements of `T`. The name is that in the image, that in C++ (`ns::factor`), or a
    /// name expression that the program was compiled with: `ns::value<float>` after
    /// `Program::name_expression("&ns::value<float>")`. [`globals`](Self::globals) lists the variables. `stream` is any
    /// stream of the module's context that does not record.
    ///
    /// The first call for a module **waits for the device** if kernels were launched that read variables
    /// which no kernel of the module writes: such launches record nothing before that.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if its size is not a multiple of `T`'s or
    /// its address not aligned for one, if several variables have the name, or if the call would have to
    /// wait while a graph is recorded in the context; otherwise the error that the driver returns, such as
    /// `CUDA_ERROR_NOT_FOUND`.
    #[doc(alias = "cuModuleGetGlobal")]
    #[doc(alias = "cudaMemcpyToSymbol")]
    pub fn global<T: Copy + 'static>(&self, stream: &Stream, name: &str) -> Result<Global<T>> {
        usable_with(&self.inner, stream)?;
        let (_, address, bytes) = self.inner.locate(name)?;
        Place::at::<T>(&self.inner, name, address, bytes)?.open(stream)
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
        self.place.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// Copies `source` to the variable, in `stream`'s order. Returns when `source` has been read.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload`].
    pub fn write(&self, stream: &Stream, source: &[T]) -> Result<()>
    where
        T: NoUninit,
    {
        self.keep_module(stream)?;
        DeviceSliceMut::new(&self.memory, self.place.start, self.place.len).upload(stream, source)
    }

    /// Copies the variable to a new vector. Waits until it is filled.
    ///
    /// # Errors
    /// As [`DeviceSlice::to_vec`].
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        self.keep_module(stream)?;
        DeviceSlice::new(&self.memory, self.place.start, self.place.len).to_vec(stream)
    }

    /// Returns the elements of a `__managed__` variable, for the host to read. Waits until every write on any stream is
    /// done, and for nothing else. Work that would write the variable while the guard lives is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the variable is not managed, on a device whose kernels
    /// keep the host from managed memory while they run, and while a guard for writing is alive or if one was leaked;
    /// otherwise the error of the work waited for.
    pub fn host(&self) -> Result<HostRef<'_, T>>
    where
        T: AnyBitPattern,
    {
        self.is_managed()?;
        // SAFETY: the variable is managed, and such as the host may access beside kernels; the handle, which the
        // result borrows, keeps the module loaded; `fit::elements` has checked length and alignment.
        unsafe { self.memory.host_variable(self.place.start, self.place.len) }
    }

    /// Returns the elements of a `__managed__` variable, for the host to write. Waits until every use on any stream is
    /// done, and for nothing else. Work that would use the variable while the guard lives is refused.
    ///
    /// # Errors
    /// As [`host`](Self::host), and while any guard of the variable is alive.
    pub fn host_mut(&mut self) -> Result<HostMut<'_, T>>
    where
        T: AnyBitPattern + NoUninit,
    {
        self.is_managed()?;
        let range = self.place.start..self.place.start + self.place.len * size_of::<T>();
        // SAFETY: as in `host`.
        let guard = unsafe { self.memory.host_variable_mut(self.place.start, self.place.len) }?;
        self.memory.note_write(range);
        Ok(guard)
    }

    /// Fails unless the host may access the variable while kernels run that do not use it.
    fn is_managed(&self) -> Result<()> {
        let (name, context) = (&self.place.name, &self.place.module.context);
        let mut managed = 0_u32;
        let address = self.place.start as CUdeviceptr;
        context.with_current(|| {
            let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
            let to = (&raw mut managed).cast();
            // SAFETY: the attribute is a boolean, for which `managed` has room; the address is the variable's.
            unsafe { call!(context, cuPointerGetAttribute(to, attribute, address)) }
        })?;
        if managed == 0 {
            return Err(Error::invalid(format!(
                "the host can't access the global `{name}`: it is not declared with __managed__"
            ))
            .with_hint("copy it: Global::read and Global::write"));
        }
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        if context.device.raw_attribute(attribute)? == 0 {
            return Err(Error::invalid(
                "on this device the host must not touch managed memory while any kernel runs \
                 (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0)",
            )
            .with_hint("copy it: Global::read and Global::write"));
        }
        Ok(())
    }

    /// Lets a graph that is recorded on `stream` keep the module.
    fn keep_module(&self, stream: &Stream) -> Result<()> {
        match &stream.inner().capture {
            Some(capture) => capture.keep_resource(Kept::new(self.place.module.clone())),
            None => Ok(()),
        }
    }
}

impl<T> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Global")
            .field("name", &self.place.name)
            .field("element", &std::any::type_name::<T>())
            .field("len", &self.place.len)
            .finish()
    }
}
