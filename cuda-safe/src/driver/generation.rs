//! Detects that other code has destroyed the primary context: by `cuDevicePrimaryCtxReset`, as `cudaDeviceReset` does,
//! or by releasing it more often than it retained it.
//!
//! All our handles are stale then, and the driver's behaviour with a stale handle is not defined. So the device's
//! *generation* is over: from then on calls return that error without calling the driver, and drops are quiet. The next
//! [`Context::new`](crate::Context::new) begins a new generation with a newly retained context; handles of the old one
//! stay invalid, so none of them can be used with the new one.
//!
//! A return code alone does not end a generation. `CUDA_ERROR_INVALID_CONTEXT` and
//! `CUDA_ERROR_CONTEXT_IS_DESTROYED` may be about another context, such as a destroyed one that is
//! current on the calling thread, and stale handles also give `CUDA_ERROR_INVALID_HANDLE` or
//! `CUDA_ERROR_INVALID_VALUE`, which may be the caller's mistake. After such a code [`Verdict`] has the state of the
//! primary context, from calls that take no handle of ours:
//!
//! 1. `cuDevicePrimaryCtxGetState`. Not active: it is gone.
//! 2. Active: it is ours, or other code has retained it again after a reset. The handles of the two may be equal, but
//!    the driver never uses the id of a context (`cuCtxGetId`) again. So the context is retained once more, which gives
//!    its handle, valid while it is retained; the id is read, and the retain is released. Retaining an active context
//!    only counts. If another thread destroys it in between, the retain creates a new one with another id, so the
//!    verdict is right.
//!
//! If the context is inactive or has another id, the generation is over; else the error belongs to
//! the call that returned it. Without `cuCtxGetId` (every driver from 12.0 on has it) the code alone
//! ends the generation. On driver 580 stale handles crash the second time in a process.
//!
//! An adopted context (`Context::from_raw`) that is the primary one is watched in the same way. A
//! context that another library created cannot be queried without its handle, so an error of it is
//! an error of that call; its owner has promised to keep it.
//!
//! Memory that others free while it is in use cannot be protected: managed memory disappears with
//! the context, so code that resets the context must not do so while the host reads or writes
//! managed memory. Pinned memory stays: its pages belong to the process.
//!
//! The old generation's retain is not given back: whether it still counts cannot be known, and one
//! release too many would take the context from others.

use cuda_sys::{CUcontext, CUresult, MissingSymbol};

use super::DeviceState;
use crate::error::{Error, Result, is_fatal_code};
use crate::sync::Lock;

/// The holders that need the primary context to stay: the retain that [`Context::new`](crate::Context::new) makes, and
/// adopted contexts that turned out to be the primary one.
#[derive(Default)]
pub(crate) struct Watch(Lock<Watched>);

#[derive(Default, Clone, Copy)]
struct Watched {
    users: usize,
    /// The id of the context, or `None` before 12.0.
    id: Option<u64>,
}

impl Watch {
    /// Adds a user of the context with this id.
    pub(crate) fn begin(&self, id: Option<u64>) -> Result<()> {
        let mut watched = self.0.lock()?;
        watched.users += 1;
        watched.id = id;
        Ok(())
    }

    /// Removes a user.
    pub(crate) fn end(&self) {
        if let Ok(mut watched) = self.0.lock() {
            watched.users = watched.users.saturating_sub(1);
        }
    }

    /// Removes a user whose retain `release` returns, if that succeeds. No [`Verdict`] comes in between: it would take
    /// the release for other code's.
    pub(crate) fn end_by(
        &self,
        release: impl FnOnce() -> std::result::Result<CUresult, MissingSymbol>,
    ) -> Result<std::result::Result<CUresult, MissingSymbol>> {
        let mut watched = self.0.lock()?;
        let released = release();
        if matches!(released, Ok(CUresult::CUDA_SUCCESS)) {
            watched.users = watched.users.saturating_sub(1);
        }
        Ok(released)
    }
}

/// An adopted context that is the primary one, watched until this is dropped.
pub(crate) struct Watching(&'static DeviceState);

impl Watching {
    pub(crate) fn new(state: &'static DeviceState, id: Option<u64>) -> Result<Self> {
        state.watch.begin(id)?;
        Ok(Self(state))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watch.end();
    }
}

/// The state of the primary context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is the one that we hold; or we hold none.
    Ours,
    /// It was destroyed, and perhaps retained again by other code.
    Gone,
    /// It is active, and the driver has no ids.
    Unknown,
}

impl DeviceState {
    /// Returns the generation that new contexts belong to: a new one, if the newest has ended.
    pub(crate) fn newest(&'static self) -> &'static Self {
        let mut newest = self;
        while newest.has_ended() {
            let new = || Self::new(newest.sys, newest.ordinal, newest.raw);
            // Leaked on purpose, as the first one is.
            let Ok(next) = newest.next.get_or_init(|| Box::leak(Box::new(new()))) else { break };
            newest = next;
        }
        newest
    }

    /// Returns whether the context alone is gone, not the device or the driver.
    fn has_ended(&self) -> bool {
        matches!(
            self.fatal().and_then(Error::code),
            Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED | CUresult::CUDA_ERROR_INVALID_CONTEXT)
        )
    }

    /// Ends the generation if other code has destroyed its context and no call has detected that yet.
    ///
    /// # Errors
    /// The code that the query returned.
    pub(crate) fn look_after_primary(&self) -> Result<()> {
        if self.is_usable() && self.verdict()? == Verdict::Gone {
            let code = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
            self.lose(Error::gone("cuDevicePrimaryCtxGetState", code));
        }
        Ok(())
    }

    /// Returns whether this code, which may be the caller's mistake, is due to stale handles.
    #[cold]
    pub(crate) fn is_stale(&self, code: CUresult) -> bool {
        matches!(code, CUresult::CUDA_ERROR_INVALID_HANDLE | CUresult::CUDA_ERROR_INVALID_VALUE)
            // If the driver can't be queried, the caller gets the code.
            && matches!(self.verdict(), Ok(Verdict::Gone))
    }

    /// Returns whether the primary context is known to be the one that we hold, so that a code that calls a
    /// context invalid belongs to one call. If that can't be known, it isn't.
    #[cold]
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.verdict(), Ok(Verdict::Ours))
    }

    /// Finds out what became of the primary context, without a handle of ours.
    #[cold]
    fn verdict(&self) -> Result<Verdict> {
        // The watch is held during the query, so that the context is not released meanwhile.
        let watched = self.watch.0.lock()?;
        if watched.users == 0 {
            return Ok(Verdict::Ours);
        }
        if !self.primary_is_active()? {
            return Ok(Verdict::Gone);
        }
        let Some(ours) = watched.id else { return Ok(Verdict::Unknown) };
        Ok(match self.with_active_primary(|_, id| id)? {
            Some(id) if id == ours => Verdict::Ours,
            Some(_) => Verdict::Gone,
            None => Verdict::Unknown,
        })
    }

    /// If `raw` is the primary context: its id, as far as there are ids.
    ///
    /// # Errors
    /// The code that the query returned.
    pub(crate) fn is_primary(&self, raw: CUcontext) -> Result<Option<Option<u64>>> {
        if !self.primary_is_active()? {
            return Ok(None);
        }
        // Both contexts are alive, so equal handles name the same one.
        self.with_active_primary(|primary, id| (primary == raw).then_some(id))
    }

    fn primary_is_active(&self) -> Result<bool> {
        let (mut flags, mut active) = (0, 1);
        // SAFETY: both are valid places for an int, and the device comes from the driver.
        let asked = unsafe {
            self.sys.cuDevicePrimaryCtxGetState(self.raw, &raw mut flags, &raw mut active)
        };
        self.asked("cuDevicePrimaryCtxGetState", asked)?;
        Ok(active != 0)
    }

    /// Retains the primary context, which is active, for the time of `read`.
    fn with_active_primary<R>(&self, read: impl FnOnce(CUcontext, Option<u64>) -> R) -> Result<R> {
        let mut primary = std::ptr::null_mut();
        // SAFETY: `primary` is a valid place for a handle, and the device comes from the driver.
        let asked = unsafe { self.sys.cuDevicePrimaryCtxRetain(&raw mut primary, self.raw) };
        self.asked("cuDevicePrimaryCtxRetain", asked)?;
        // SAFETY: the context is retained until the release below.
        let id = unsafe { self.id_of(primary) };
        // The driver is not called after a fatal code.
        self.usable()?;
        // SAFETY: gives back the retain made above.
        let asked = unsafe { self.sys.cuDevicePrimaryCtxRelease_v2(self.raw) };
        let released = self.asked("cuDevicePrimaryCtxRelease", asked);
        let id = id?;
        released?;
        Ok(read(primary, id))
    }

    /// Returns the id of a context, which the driver never gives to another one; `None` before 12.0.
    ///
    /// # Errors
    /// The driver's return code.
    ///
    /// # Safety
    /// `context` must be alive.
    pub(crate) unsafe fn id_of(&self, context: CUcontext) -> Result<Option<u64>> {
        let mut id = 0;
        // SAFETY: the caller's promise, and `id` is a valid place for the number.
        let asked = unsafe { self.sys.cuCtxGetId(context, &raw mut id) };
        if asked.is_err() {
            return Ok(None);
        }
        self.asked("cuCtxGetId", asked)?;
        Ok(Some(id))
    }

    /// Converts a return code to a result. It does not use `answer`, which may call this.
    fn asked(
        &self,
        call: &'static str,
        result: std::result::Result<CUresult, MissingSymbol>,
    ) -> Result<()> {
        match result {
            Ok(CUresult::CUDA_SUCCESS) => Ok(()),
            Ok(code) if is_fatal_code(code) => Err(self.lose(Error::driver(call, code))),
            Ok(code) => Err(Error::driver(call, code)),
            Err(missing) => Err(missing.into()),
        }
    }
}
