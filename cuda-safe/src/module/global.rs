//! Global and constant variables of a module, typed.

use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_sys::{CUdeviceptr, CUresult};

use super::{Module, ModuleInner};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::{Allocation, DeviceSlice, DeviceSliceMut, fit};
use crate::stream::Stream;

/// A `__device__` or `__constant__` variable of a module, as `len` elements of `T`.
///
/// Reads and writes by this crate are ordered among each other on whatever streams they run. What
/// kernels do with the variable the crate does not see: use the stream that they run on, or wait.
pub struct Global<T> {
    name: String,
    allocation: Arc<Allocation>,
    turn: Arc<Mutex<()>>,
    len: usize,
    marker: PhantomData<T>,
}

/// What a module knows of a global that was asked for.
#[derive(Default)]
pub(super) struct KnownGlobal {
    /// Alive as long as there are handles, or graphs that use the global.
    allocation: Weak<Allocation>,
    /// One at a time: a handle writes without being borrowed exclusively, unlike a buffer.
    turn: Arc<Mutex<()>>,
    /// Whose allocation that is, until it has left word. Numbers begin with 1.
    owner: Option<u64>,
    /// The newest owner's number.
    newest: u64,
    /// Comes after all uses by an allocation that is gone; the next one waits for it.
    left: Option<Event>,
}

impl KnownGlobal {
    /// Whether somebody has a handle to the global, which holds the module.
    pub(super) fn is_alive(&self) -> bool {
        self.allocation.strong_count() > 0
    }
}

/// Keeps the module, and leaves word of the uses when the allocation goes.
struct Owner {
    module: Arc<ModuleInner>,
    home: Stream,
    name: String,
    number: u64,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let context = &self.module.context;
        if !context.state.is_usable() {
            return;
        }
        // The home stream waits for the uses on other streams by now.
        let event = Event::new(&Context::from_inner(context.clone()))
            .and_then(|event| event.record(&self.home).map(|()| event));
        let event = match event {
            Ok(event) => event,
            // The next one waits for the device.
            Err(error) => return context.keep_drop_error(error),
        };
        let _before = {
            let mut globals = self.module.globals.lock().unwrap_or_else(PoisonError::into_inner);
            match globals.get_mut(&self.name) {
                Some(known) if known.owner == Some(self.number) => {
                    known.owner = None;
                    known.left.replace(event)
                }
                // Somebody could not wait for this and has waited for the device.
                _ => Some(event),
            }
        };
    }
}

impl Module {
    /// Whether there is a variable `name`.
    ///
    /// # Errors
    /// What the driver answered, other than that there is none.
    #[doc(alias = "cuModuleGetGlobal")]
    pub fn has_global(&self, name: &str) -> Result<bool> {
        match find(&self.inner, name) {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_NOT_FOUND) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The variable `name` as elements of `T`. `stream` is where it is at home: the natural one is
    /// the stream that its kernels run on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if its size is not a multiple of `T`'s or
    /// its address not aligned for one; otherwise what the driver answered, such as
    /// `CUDA_ERROR_NOT_FOUND`.
    #[doc(alias = "cuModuleGetGlobal")]
    #[doc(alias = "cudaMemcpyToSymbol")]
    pub fn global<T: Copy + 'static>(&self, stream: &Stream, name: &str) -> Result<Global<T>> {
        let inner = &self.inner;
        if !Arc::ptr_eq(&inner.context, &stream.inner().context) {
            return Err(Error::invalid("module and stream belong to different contexts"));
        }
        // Other streams wait for the home stream, which must not be one that never runs.
        stream.inner().not_capturing("Module::global")?;
        let (allocation, turn) = share(inner, stream, name)?;
        let what = format!("the global `{name}`");
        let len = fit::elements::<T>(&what, allocation.address(), allocation.bytes())?;
        Ok(Global { name: name.to_owned(), allocation, turn, len, marker: PhantomData })
    }
}

/// The one allocation that a global has at a time, and its turn.
fn share(
    inner: &Arc<ModuleInner>,
    stream: &Stream,
    name: &str,
) -> Result<(Arc<Allocation>, Arc<Mutex<()>>)> {
    let mut globals = inner.globals.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = globals.get(name)
        && let Some(allocation) = known.allocation.upgrade()
    {
        return Ok((allocation, known.turn.clone()));
    }
    let (start, bytes) = find(inner, name)?;
    let known = globals.entry(name.to_owned()).or_default();
    match &known.left {
        // The allocation before is being dropped at this moment, or could not leave word.
        _ if known.owner.is_some() => stream.context().synchronize()?,
        Some(left) => stream.wait_event(left)?,
        None => {}
    }
    known.newest += 1;
    known.owner = Some(known.newest);
    let (name, number) = (name.to_owned(), known.newest);
    let owner = Owner { module: inner.clone(), home: stream.clone(), name, number };
    let allocation = Allocation::borrowed(start, bytes, stream, Box::new(owner));
    known.allocation = Arc::downgrade(&allocation);
    Ok((allocation, known.turn.clone()))
}

/// Where a global lies, and its size in bytes.
fn find(inner: &ModuleInner, name: &str) -> Result<(CUdeviceptr, usize)> {
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
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `source` to the variable, in `stream`'s order. Returns when `source` was read.
    ///
    /// # Errors
    /// As [`DeviceSliceMut::upload`].
    pub fn write(&self, stream: &Stream, source: &[T]) -> Result<()>
    where
        T: NoUninit,
    {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        DeviceSliceMut::new(&self.allocation, 0, self.len).upload(stream, source)
    }

    /// Copies the variable to a new vector. Waits until it is filled.
    ///
    /// # Errors
    /// As [`DeviceSlice::to_vec`].
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        DeviceSlice::new(&self.allocation, 0, self.len).to_vec(stream)
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
