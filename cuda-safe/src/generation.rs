//! When somebody else destroys the primary context: by `cuDevicePrimaryCtxReset`, which is what
//! `cudaDeviceReset` does, or by releasing it more often than they retained it.
//!
//! All our handles are stale then, and what the driver does with a stale handle is not defined. So
//! the first answer that tells is taken as the end of the device's *generation*: from then on calls
//! answer that error without asking the driver, and drops are quiet. The next
//! [`Context::new`](crate::Context::new) begins a new generation with a context retained anew;
//! handles of the old one stay dead, so nothing of it can reach the new one.
//!
//! Nothing can be done for what others take away while it is in use: managed memory goes with the
//! context, so whoever resets it must see to it that nobody looks at any. Pinned memory stays: its
//! pages are the process's own.
//!
//! The old generation's retain is not given back: whether it still counts can't be known, and a
//! release too many would do to others what they did to us.

use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::CUresult;

use crate::driver::DeviceState;
use crate::error::{Error, Result};

/// Whether we retain the primary context, so that it has to be alive.
#[derive(Default)]
pub(crate) struct Watch(AtomicBool);

impl Watch {
    /// Called with the lock of `primary` held, when the context has been retained.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Called with the same lock held, when it has been released.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }
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
    ///
    /// # Errors
    /// The driver does not tell.
    pub(crate) fn look_after_primary(&self) -> Result<()> {
        if self.is_usable() && self.primary_is_gone()? {
            let code = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
            self.lose(Error::driver("cuDevicePrimaryCtxGetState", code));
        }
        Ok(())
    }

    /// Whether this answer, which may be the caller's mistake, is due to stale handles.
    #[cold]
    pub(crate) fn is_stale(&self, code: CUresult) -> bool {
        matches!(code, CUresult::CUDA_ERROR_INVALID_HANDLE | CUresult::CUDA_ERROR_INVALID_VALUE)
            // If the driver does not tell, the answer is what the caller hears of.
            && matches!(self.primary_is_gone(), Ok(true))
    }

    /// Asks whether somebody else has destroyed the primary context that we retain, by a call that
    /// needs no handle. If they have retained it anew since, this doesn't tell.
    #[cold]
    fn primary_is_gone(&self) -> Result<bool> {
        if !self.watch.0.load(Ordering::Acquire) {
            return Ok(false);
        }
        let (mut flags, mut active) = (0, 1);
        // SAFETY: both are valid places for an int, and the device comes from the driver.
        let asked = unsafe {
            self.sys.cuDevicePrimaryCtxGetState(self.raw, &raw mut flags, &raw mut active)
        };
        // Not by `answer`, which may come here.
        match asked {
            Ok(CUresult::CUDA_SUCCESS) => Ok(active == 0),
            Ok(code) => Err(Error::driver("cuDevicePrimaryCtxGetState", code)),
            Err(missing) => Err(missing.into()),
        }
    }
}
