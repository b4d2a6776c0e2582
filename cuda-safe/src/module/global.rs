//! Global and constant variables of a module, typed.

use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::{AnyBitPattern, NoUninit};

use super::{Module, ModuleInner};
use crate::error::{Error, Result};
use crate::memory::{Allocation, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// A `__device__` or `__constant__` variable of a module, as `len` elements of `T`.
///
/// Reads and writes by this crate are ordered among each other on whatever streams they run. What
/// kernels do with the variable the crate does not see: use the stream that they run on, or wait.
pub struct Global<T> {
    name: String,
    shared: Arc<SharedGlobal>,
    len: usize,
    marker: PhantomData<T>,
}

/// What all handles to one global share.
pub(super) struct SharedGlobal {
    allocation: Arc<Allocation>,
    /// One at a time: a handle writes without being borrowed exclusively, unlike a buffer.
    turn: Mutex<()>,
}

impl Module {
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
        let shared = inner.shared_global(name, || find(inner, stream, name))?;
        let allocation = &shared.allocation;
        let (size, bytes) = (size_of::<T>(), allocation.bytes());
        let aligned = allocation.address().is_multiple_of(align_of::<T>() as u64);
        if size == 0 || bytes % size != 0 || !aligned {
            return Err(Error::invalid(format!(
                "the global `{name}` has {bytes} bytes, which are not a whole number of {}",
                std::any::type_name::<T>()
            )));
        }
        let len = bytes / size;
        Ok(Global { name: name.to_owned(), shared, len, marker: PhantomData })
    }
}

fn find(inner: &Arc<ModuleInner>, stream: &Stream, name: &str) -> Result<SharedGlobal> {
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
    let allocation = Allocation::borrowed(start, bytes, stream, Box::new(inner.clone()));
    Ok(SharedGlobal { allocation, turn: Mutex::new(()) })
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
        let _turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        DeviceSliceMut::new(&self.shared.allocation, 0, self.len).upload(stream, source)
    }

    /// Copies the variable to a new vector. Waits until it is filled.
    ///
    /// # Errors
    /// As [`DeviceSlice::to_vec`].
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        let _turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        DeviceSlice::new(&self.shared.allocation, 0, self.len).to_vec(stream)
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
