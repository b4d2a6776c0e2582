//! When somebody else destroys the primary context: by `cuDevicePrimaryCtxReset`, which is what
//! `cudaDeviceReset` does, or by releasing it more often than they retained it.
//!
//! All our handles are stale then, and what the driver does with a stale handle is not defined. So
//! the first answer that tells is taken as the end of the device's *generation*: from then on calls
//! answer that error without asking the driver, and drops are quiet. The next
//! [`Context::new`](crate::Context::new) begins a new generation with a context retained anew;
//! handles of the old one stay dead, so nothing of it can reach the new one.
//!
//! Nothing can be done for what others take away while it is in use: pinned memory goes with the
//! context, so whoever resets it must see to it that nobody looks at any.
//!
//! The old generation's retain is not given back: whether it still counts can't be known, and a
//! release too many would do to others what they did to us.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use cuda_sys::{CUcontext, CUctx_st, CUresult};

use crate::driver::DeviceState;
use crate::error::Error;

/// What the retained primary context is recognised by.
#[derive(Default)]
pub(crate) struct Watch {
    /// Null while none is retained.
    raw: AtomicPtr<CUctx_st>,
    /// The driver's number for the context, which is not used again; 0 if it does not tell.
    id: AtomicU64,
}

impl Watch {
    /// Called with the lock of `primary` held, when the context has been retained.
    pub(crate) fn begin(&self, state: &DeviceState, raw: CUcontext) {
        self.id.store(id_of(state, raw), Ordering::Relaxed);
        self.raw.store(raw, Ordering::Release);
    }

    /// Called with the same lock held, when it has been released.
    pub(crate) fn end(&self) {
        self.raw.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// The driver's number for a live context; 0 if it does not tell.
fn id_of(state: &DeviceState, raw: CUcontext) -> u64 {
    let mut id = 0;
    if state.sys.supports("cuCtxGetId") {
        // SAFETY: the caller's context is live, and `id` is a valid place for a number.
        let _ = unsafe { state.sys.cuCtxGetId(raw, &raw mut id) };
    }
    id
}

impl DeviceState {
    /// The generation that new contexts belong to: a new one, if the newest has ended.
    pub(crate) fn newest(&'static self) -> &'static Self {
        let mut newest = self;
        while newest.has_ended() {
            let new = || Self::new(newest.sys, newest.ordinal, newest.raw);
            // Leaked on purpose, as the first one is.
            newest = newest.next.get_or_init(|| Box::leak(Box::new(new())));
        }
        newest
    }

    /// Whether the context alone is gone, not the device or the driver.
    fn has_ended(&self) -> bool {
        matches!(
            self.fatal().and_then(Error::code),
            Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED | CUresult::CUDA_ERROR_INVALID_CONTEXT)
        )
    }

    /// Ends the generation if somebody else has destroyed its context and no call has met that yet.
    pub(crate) fn look_after_primary(&self) {
        if self.is_usable() && self.primary_is_gone() {
            let code = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
            self.lose(Error::driver("cuDevicePrimaryCtxGetState", code));
        }
    }

    /// Whether this answer, which may be the caller's mistake, is due to stale handles.
    #[cold]
    pub(crate) fn is_stale(&self, code: CUresult) -> bool {
        matches!(code, CUresult::CUDA_ERROR_INVALID_HANDLE | CUresult::CUDA_ERROR_INVALID_VALUE)
            && self.primary_is_gone()
    }

    /// Asks whether somebody else has destroyed the primary context that we retain. No call here
    /// is given a handle that may be stale.
    #[cold]
    fn primary_is_gone(&self) -> bool {
        let known = self.watch.raw.load(Ordering::Acquire);
        if known.is_null() || !self.sys.supports("cuDevicePrimaryCtxGetState") {
            return false;
        }
        let success = Ok(CUresult::CUDA_SUCCESS);
        let (mut flags, mut active) = (0, 1);
        // SAFETY: both are valid places for an int, and the device comes from the driver.
        let asked = unsafe {
            self.sys.cuDevicePrimaryCtxGetState(self.raw, &raw mut flags, &raw mut active)
        };
        if asked != success || active == 0 {
            return asked == success;
        }
        // Somebody may have retained it anew. Only a retain gives a handle that is live for sure.
        let mut now = std::ptr::null_mut();
        // SAFETY: `now` is a valid place for a handle.
        if unsafe { self.sys.cuDevicePrimaryCtxRetain(&raw mut now, self.raw) } != success {
            return false;
        }
        let gone = now != known || id_of(self, now) != self.watch.id.load(Ordering::Relaxed);
        // SAFETY: gives back the retain made above.
        let _ = unsafe { self.sys.cuDevicePrimaryCtxRelease_v2(self.raw) };
        gone
    }
}
