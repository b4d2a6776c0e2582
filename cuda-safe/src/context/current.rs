//! Running driver calls that need a current context, leaving the caller's current context alone.

use cuda_sys::{CUcontext, CUresult};

use super::{Context, ContextInner};
use crate::error::Result;

impl Context {
    /// Returns whether this is the primary context of its device, which the CUDA runtime and libraries on top of it use.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuDevicePrimaryCtxGetState")]
    pub fn is_primary(&self) -> Result<bool> {
        self.inner.state.usable()?;
        Ok(self.inner.state.is_primary(self.inner.raw)?.is_some())
    }

    /// Runs `f` with this context current on the calling thread, and then restores the context that was current before:
    /// for libraries that use the current context. Calls of this crate need no current context.
    ///
    /// # Errors
    /// The error of `f`, or that the driver returns when the context is made current; `f` is then not called.
    #[doc(alias = "cuCtxPushCurrent")]
    pub fn with_current<R>(&self, f: impl FnOnce() -> Result<R>) -> Result<R> {
        self.inner.with_current(f)
    }

    /// Runs `f` while no graph is being captured in the context: for calls of libraries that wait for the device, or free
    /// memory, which would invalidate a capture. Captures that other threads begin meanwhile wait until `f` returns, so
    /// `f` must not wait for such a thread.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) while any thread records a graph in the context; `f` is then not
    /// called.
    pub fn outside_captures<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        self.inner.captures.wait(|| Ok(f()))
    }
}

impl ContextInner {
    /// Runs `f` with this context current on the calling thread and then restores what was
    /// current before. Nothing is remembered per thread: another library may change the current
    /// context at any time.
    pub(crate) fn with_current<R>(&self, f: impl FnOnce() -> Result<R>) -> Result<R> {
        let (result, popped) = self.run_with_current(f)?;
        // The caller gets the result of `f` even if popping failed, unless the device is lost: then the result must not
        // be used.
        match popped {
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                self.keep_drop_error(error);
                result
            }
            Ok(()) => result,
        }
    }

    /// As [`with_current`](Self::with_current), for closures that create nothing: an error of popping is
    /// returned, since after the context is closed, a stored error could not be read. Behind an error of `f`, which keeps
    /// the context open, it is stored.
    pub(crate) fn while_current(&self, f: impl FnOnce() -> Result<()>) -> Result<()> {
        let (result, popped) = self.run_with_current(f)?;
        self.first_error(result, popped)
    }

    /// Runs `copy`, which enqueues a copy in a stream's order, with a context current from which the
    /// driver takes it.
    ///
    /// The stream alone does not decide: while a context of another device is current, the driver
    /// refuses copies of pool memory (`CUDA_ERROR_INVALID_VALUE`; two H200s, driver 580). It accepts
    /// launches, memsets, allocations, events and graph launches. Copies work with no context or
    /// this one current, which are the usual cases. So this reads the current context, which costs
    /// 7 ns, and pushes and pops only if it must (33 ns). In a capture the stream's context is always
    /// pushed for copies and memsets, because a node may keep the context that it was recorded in.
    #[inline]
    pub(crate) fn copying(&self, copy: impl FnOnce() -> Result<()>) -> Result<()> {
        self.state.usable()?;
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for a handle.
        let asked = unsafe { self.state.sys.cuCtxGetCurrent(&raw mut current) };
        let accepted = match asked {
            Ok(CUresult::CUDA_SUCCESS) => current.is_null() || current == self.raw,
            // The thread's own context is not valid any more, which is no matter of ours.
            Ok(
                CUresult::CUDA_ERROR_INVALID_CONTEXT | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            ) => false,
            failed => {
                self.answer("cuCtxGetCurrent", failed)?;
                false
            }
        };
        if accepted { copy() } else { self.with_current(copy) }
    }

    /// Returns whether this context is current on the calling thread.
    pub(crate) fn is_current(&self) -> Result<bool> {
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for a handle.
        match unsafe { self.state.sys.cuCtxGetCurrent(&raw mut current) } {
            Ok(CUresult::CUDA_SUCCESS) => Ok(current == self.raw),
            // The thread's current context is not valid any more, so it is another one.
            Ok(
                CUresult::CUDA_ERROR_INVALID_CONTEXT | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            ) => Ok(false),
            failed => self.answer("cuCtxGetCurrent", failed).map(|()| false),
        }
    }

    /// Returns the results of `f` and of popping.
    fn run_with_current<R>(
        &self,
        f: impl FnOnce() -> Result<R>,
    ) -> Result<(Result<R>, Result<()>)> {
        self.state.usable()?;
        // SAFETY: `raw` is a live context: this object retains it or its owner token does.
        unsafe { call!(self.state, cuCtxPushCurrent_v2(self.raw)) }?;
        let guard = Pop { context: self };
        let result = f();
        Ok((result, guard.pop()))
    }
}

/// Pops on unwinding too, so that a panic in between cannot leave our context current.
struct Pop<'a> {
    context: &'a ContextInner,
}

impl Pop<'_> {
    fn pop(self) -> Result<()> {
        let result = self.pop_once();
        std::mem::forget(self);
        result
    }

    fn pop_once(&self) -> Result<()> {
        let mut popped: CUcontext = std::ptr::null_mut();
        let state = self.context.state;
        // SAFETY: `popped` is a valid place for a handle; the context was pushed by this thread.
        unsafe { call!(state, cuCtxPopCurrent_v2(&raw mut popped)) }
    }
}

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        // Unwinding already carries the failure that matters.
        let _ = self.pop_once();
    }
}
