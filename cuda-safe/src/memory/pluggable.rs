//! Allocation for other code, by plain functions: such as PyTorch's `CUDAPluggableAllocator`.
//!
//! A C library exports functions of its own names that call these:
//!
//! ```
//! use cuda_safe::{pluggable, sys::CUstream};
//! use std::ffi::{c_int, c_void};
//!
//! /// # Safety
//! /// As [`pluggable::alloc`].
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn my_alloc(bytes: isize, device: c_int, stream: CUstream) -> *mut c_void {
//!     // SAFETY: the caller's promise.
//!     unsafe { pluggable::alloc(bytes, device, stream) }
//! }
//!
//! /// # Safety
//! /// As [`pluggable::free`].
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn my_free(start: *mut c_void, bytes: isize, device: c_int, stream: CUstream) {
//!     // SAFETY: the caller's promise.
//!     unsafe { pluggable::free(start, bytes, device, stream) }
//! }
//! ```
//!
//! ```python
//! pool = torch.cuda.memory.CUDAPluggableAllocator("libmine.so", "my_alloc", "my_free")
//! torch.cuda.memory.change_current_allocator(pool)
//! ```

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use cuda_sys::{CUdeviceptr, CUstream};

use super::pool::allocate_on;
use crate::context::Context;
use crate::error::{Error, Result};

thread_local! {
    static FAILED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Returns the error of the newest call of this thread that failed, once.
#[must_use]
pub fn take_error() -> Option<Error> {
    FAILED.try_with(|failed| failed.borrow_mut().take()).ok().flatten()
}

fn fail(error: Error) {
    let _ = FAILED.try_with(|failed| failed.replace(Some(error)));
}

/// Allocates `bytes` bytes of a device of the default driver, in the order of a stream, from the pool that this crate's
/// buffers come from. Returns null for no bytes, and on failure, of which [`take_error`] has the reason.
///
/// # Safety
/// `stream` is a stream of the primary context of the device, or 0, 1 or 2.
pub unsafe extern "C" fn alloc(bytes: isize, device: c_int, stream: CUstream) -> *mut c_void {
    let allocated = usize::try_from(bytes)
        .map_err(|_| Error::invalid(format!("{bytes} bytes can't be allocated")))
        // SAFETY: the caller's promise.
        .and_then(|bytes| unsafe { primary(device)?.allocate_raw(bytes, stream) });
    match allocated {
        Ok(start) => std::ptr::with_exposed_provenance_mut(start as usize),
        Err(error) => {
            fail(error);
            std::ptr::null_mut()
        }
    }
}

/// Frees what [`alloc`] has returned, in the order of a stream; null is freed by doing nothing. [`take_error`] has the
/// reason of a failure.
///
/// # Safety
/// `start` is null or was returned by `alloc` for this device and is not freed so far; all uses of it are ordered before
/// later work of the stream. For `stream`, as `alloc`.
pub unsafe extern "C" fn free(start: *mut c_void, _bytes: isize, device: c_int, stream: CUstream) {
    // SAFETY: the caller's promise.
    let freed = primary(device)
        .and_then(|context| unsafe { context.free_raw(start.addr() as CUdeviceptr, stream) });
    if let Err(error) = freed {
        fail(error);
    }
}

fn primary(device: c_int) -> Result<Context> {
    match usize::try_from(device) {
        Ok(ordinal) => Context::new(ordinal),
        Err(_) => Err(Error::invalid(format!("there is no device {device}"))),
    }
}

impl Context {
    /// Allocates `bytes` bytes from the context's pool, in the order of a raw stream, for an allocator that other code
    /// calls. The legacy stream (0 or 1) is that of this context. Returns 0 for no bytes.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the error that the driver returns;
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on devices without memory pools.
    ///
    /// # Safety
    /// `stream` is a stream of the context, or 0, 1 or 2.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub unsafe fn allocate_raw(&self, bytes: usize, stream: CUstream) -> Result<CUdeviceptr> {
        let inner = self.inner();
        inner.state.usable()?;
        if bytes == 0 {
            return Ok(0);
        }
        let pool =
            inner.pool.handle().ok_or_else(|| Error::invalid("the device has no memory pools"))?;
        // SAFETY: the pool is the context's; for the stream the caller's promise.
        unsafe { allocate_on(inner, pool, stream, bytes, || inner.pool.trim(inner, 0)) }
    }

    /// Frees what [`allocate_raw`](Self::allocate_raw) has returned, in the order of a raw stream. 0 is freed by doing
    /// nothing.
    ///
    /// # Errors
    /// The error that the driver returns. If it is not that of `cuMemFreeAsync`, the memory is not freed.
    ///
    /// # Safety
    /// `start` is 0 or was returned by `allocate_raw` and is not freed so far; all uses of it are ordered before later
    /// work of the stream. For `stream`, as `allocate_raw`.
    #[doc(alias = "cuMemFreeAsync")]
    pub unsafe fn free_raw(&self, start: CUdeviceptr, stream: CUstream) -> Result<()> {
        let inner = self.inner();
        inner.state.usable()?;
        if start == 0 {
            return Ok(());
        }
        // An error of restoring the current context is kept: it would look as if the memory were not freed.
        inner.with_current(|| {
            // SAFETY: the caller's promise.
            unsafe { call!(inner, cuMemFreeAsync(start, stream)) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_size_or_device_is_null_with_a_reason() {
        // SAFETY: refused before anything is used.
        unsafe {
            assert!(alloc(-1, 0, std::ptr::null_mut()).is_null());
            assert!(take_error().is_some_and(|error| error.to_string().contains("-1 bytes")));
            assert!(alloc(8, -3, std::ptr::null_mut()).is_null());
            assert!(take_error().is_some_and(|error| error.to_string().contains("no device -3")));
            free(std::ptr::null_mut(), 8, -3, std::ptr::null_mut());
        }
        assert!(take_error().is_some_and(|error| error.to_string().contains("no device -3")));
        assert!(take_error().is_none());
    }
}
