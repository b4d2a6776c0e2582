//! Keeps captures and waits for the whole context apart: a wait for the context invalidates all captures in it, relaxed
//! or not (measured on driver 580).

use cuda_sys::CUstreamCaptureMode;

use super::ContextInner;
use crate::error::{Error, Result};
use crate::sync::{Condvar, Lock, PoisonError};

#[derive(Default)]
pub(crate) struct Captures {
    now: Lock<Now>,
    /// A wait is over.
    over: Condvar,
}

#[derive(Default)]
struct Now {
    captures: usize,
    waits: usize,
}

impl Captures {
    /// Waits until no thread waits for the context. Call it before a capture begins.
    ///
    /// It is no error instead: whether another thread waits is a matter of timing, and a capture that
    /// fails by chance is of no use.
    pub(crate) fn begin(&self) -> Result<()> {
        let mut now = self.now.lock()?;
        while now.waits > 0 {
            now = self.over.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        now.captures += 1;
        Ok(())
    }

    /// As [`begin`](Self::begin), for a capture of other code that is under way: it does not wait.
    pub(crate) fn join(&self) -> Result<()> {
        self.now.lock()?.captures += 1;
        Ok(())
    }

    /// Ends a capture. Call it when a capture has ended, or did not begin.
    pub(crate) fn end(&self) {
        if let Ok(mut now) = self.now.lock() {
            now.captures = now.captures.saturating_sub(1);
        }
    }

    /// Returns whether something is captured now; `false` where the lock can't be waited for.
    pub(crate) fn any(&self) -> bool {
        self.now.lock().is_ok_and(|now| now.captures > 0)
    }

    /// Waits for the context by `call`, unless something is captured in it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if something is; otherwise the error that `call`
    /// returns. It is no wait for the end of the capture: that may wait for the caller.
    pub(crate) fn wait<R>(&self, call: impl FnOnce() -> Result<R>) -> Result<R> {
        /// Ends the wait also if the call unwinds.
        struct Waiting<'a>(&'a Captures);

        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                if let Ok(mut now) = self.0.now.lock() {
                    now.waits -= 1;
                }
                self.0.over.notify_all();
            }
        }

        {
            let mut now = self.now.lock()?;
            if now.captures > 0 {
                return Err(Error::invalid(
                    "a graph is being recorded in the context; waiting for the context would invalidate the capture",
                )
                .with_hint("wait for streams, or until the recording has ended"));
            }
            now.waits += 1;
        }
        let _waiting = Waiting(self);
        call()
    }
}

/// Lets this thread make calls that other captures in the process would forbid, such as the allocation of pinned
/// memory: the crate refuses what must not be done. Returns the mode before.
pub(crate) fn relax_captures(context: &ContextInner) -> Result<CUstreamCaptureMode> {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange_mode(context, mode)
}

/// Sets the mode of this thread, and returns the mode before.
pub(crate) fn exchange_mode(
    context: &ContextInner,
    mut mode: CUstreamCaptureMode,
) -> Result<CUstreamCaptureMode> {
    context.state.usable()?;
    // SAFETY: `mode` is a valid place for a mode, which is exchanged for that of the thread.
    unsafe { call!(context, cuThreadExchangeStreamCaptureMode(&raw mut mode)) }?;
    Ok(mode)
}
