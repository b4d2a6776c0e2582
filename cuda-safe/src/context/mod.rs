//! CUDA contexts: the device's primary context, which the whole process shares, or an adopted one of other code.

#[cfg(feature = "rust-kernels")]
mod attached;
mod builtin;
mod captures;
mod census;
mod current;
mod deferred;
mod deferred_list;
mod faults;
mod graph_lock;
mod lent;
mod lent_slot;
mod peers;
mod primary;
mod stats;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use cuda_sys::{CUcontext, CUresult, MissingSymbol};

#[cfg(feature = "rust-kernels")]
pub(crate) use attached::{Attached, Attachment};
use builtin::BuiltinKernel;
pub(crate) use captures::{Captures, exchange_mode, relax_captures};
pub(crate) use census::{Census, Counted, list};
pub(crate) use deferred::{Deferred, DeferredFrees, Dropped, NO_STREAM};
pub(crate) use graph_lock::{ContextGraphLock, HeldGraphLock, this_thread};
use lent::Caretaker;
pub(crate) use lent::{Idle, LentStreams};
use peers::Peers;
use stats::Counters;
pub use stats::Stats;

use crate::caller;
use crate::consume::ConsumeError;
use crate::device::{Device, DeviceLimits};
use crate::driver::{AnyContext, DeviceState, Driver, Watching};
use crate::error::{Error, LaunchRecord, Result};
use crate::memory::{ContextGates, ContextPool, Helpers, Staging};
use crate::quiet::Token;
use crate::stream::{Stream, StreamInner};
use crate::sync::Lock;
use crate::trace::{event, timed};

/// A context, which owns the streams, modules and memory of one device.
///
/// Cloning it is cheap and gives another handle to the same context. [`Context::new`] and
/// [`Device::context`] use the device's *primary* context, which is shared with the CUDA runtime
/// and every other library in the process; its flags are never set and it is never reset.
///
/// No call in this crate changes which context is current on the calling thread.
///
/// Dropping the last handle does not release the primary context, since that would wait for the GPU; the next
/// [`Context::new`] uses the same one. [`Context::close`] releases it.
#[derive(Clone)]
pub struct Context {
    inner: Arc<ContextInner>,
}

pub(crate) struct ContextInner {
    pub(crate) device: Device,
    /// The same as `device`'s, here for the hot path.
    pub(crate) state: &'static DeviceState,
    pub(crate) raw: CUcontext,
    owner: Owner,
    pub(crate) limits: DeviceLimits,
    pub(crate) pool: ContextPool,
    pub(crate) staging: Staging,
    /// The threads that help with large copies.
    pub(crate) helpers: Helpers,
    /// Shared with graphs of other code, which leave here what they have kept.
    pub(crate) deferred: Arc<DeferredFrees>,
    pub(crate) counters: Counters,
    /// Held from the ordering to the recording of uses of memory that graphs use too.
    pub(crate) graph_lock: ContextGraphLock,
    /// Sets the conditions of graphs.
    pub(crate) conditional: BuiltinKernel,
    pub(crate) captures: Captures,
    /// The streams that other code has lent.
    pub(crate) lent: LentStreams,
    /// Frees memory whose home stream was lent for a call that has ended.
    pub(crate) caretaker: Caretaker,
    pub(crate) peers: Peers,
    /// Gates that memory of the context is behind.
    pub(crate) gates: ContextGates,
    /// The live objects, for the errors of `close`.
    pub(crate) census: Census,
    #[cfg(feature = "rust-kernels")]
    pub(crate) rust_kernels: Attached,
    /// The latest launches on any stream, for error reports.
    streams: Lock<Vec<Weak<StreamInner>>>,
    /// Errors met by drops, kept until they are taken; see [`Context::take_drop_errors`].
    drop_errors: Lock<Vec<Error>>,
}

enum Owner {
    /// One retain of the primary context, given back by `close`.
    Primary,
    /// A context of other code; the token keeps it alive. It may be the primary context, which is then watched as if we
    /// had retained it.
    Foreign { _watching: Option<Watching>, _token: Token },
}

// SAFETY: a CUcontext may be used from any thread; everything else in the struct is Send + Sync.
unsafe impl Send for ContextInner {}
// SAFETY: as above; the driver locks its own state.
unsafe impl Sync for ContextInner {}

/// The memory of a device, in bytes: see [`Context::memory_info`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// What is not allocated, by this or another program. Memory that a pool keeps is allocated.
    pub free: usize,
    /// All of it.
    pub total: usize,
}

impl Context {
    /// Retains the primary context of the device with this ordinal, by the default driver.
    ///
    /// # Errors
    /// As [`Driver::load`], [`Driver::device`] and [`Device::context`].
    pub fn new(ordinal: usize) -> Result<Self> {
        Driver::load()?.device(ordinal)?.context()
    }

    /// Adopts a context of other code, such as a framework's.
    ///
    /// `token` is kept until the last handle to the context, and everything made in it, is gone;
    /// put there what keeps the context alive.
    ///
    /// # Errors
    /// The error that the driver returns when asked for the context's device or limits.
    ///
    /// # Safety
    /// `raw` must be a context of `driver` and stay valid until `token` is dropped.
    pub unsafe fn from_raw(
        driver: Driver,
        raw: CUcontext,
        token: impl Any + Send + Sync,
    ) -> Result<Self> {
        if raw.is_null() {
            return Err(Error::invalid("the context handle is null"));
        }
        caller::may_call()?;
        if let Some(error) = driver.devices().find_map(|device| device.state().usable().err()) {
            return Err(error);
        }
        let sys = driver.as_sys();
        let answer = |call, result| driver.answer_for_any(call, result);
        // SAFETY: `raw` is a live context by this function's contract.
        answer("cuCtxPushCurrent", unsafe { sys.cuCtxPushCurrent_v2(raw) })?;
        let mut device = 0;
        // SAFETY: `device` is a valid place for a CUdevice.
        let asked = answer("cuCtxGetDevice", unsafe { sys.cuCtxGetDevice(&raw mut device) });
        let mut popped = std::ptr::null_mut();
        // SAFETY: pops what was pushed above; `popped` is a valid place for a handle.
        let popped = answer("cuCtxPopCurrent", unsafe { sys.cuCtxPopCurrent_v2(&raw mut popped) });
        asked?;
        popped?;
        let device = driver
            .find_raw(device)
            .ok_or_else(|| Error::invalid("the context belongs to a device that is not visible"))?;
        // A generation that is over must not be joined.
        device.state().look_after_primary()?;
        let state = device.state();
        let watching = state.is_primary(raw)?.map(|id| Watching::new(state, id)).transpose()?;
        let owner = Owner::Foreign { _watching: watching, _token: Token::new(Box::new(token)) };
        Ok(Self { inner: Arc::new(ContextInner::new(device, raw, owner)?) })
    }

    /// Returns the raw handle. It stays valid while any handle to this context lives.
    #[must_use]
    pub fn as_raw(&self) -> CUcontext {
        self.inner.raw
    }

    /// Returns the device that this context is on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.inner.device
    }

    /// Returns the driver that this context belongs to.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.inner.device.driver()
    }

    /// Returns a new stream with default priority that does not wait for the NULL stream.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Returns whether a graph is being captured in the context, by whichever thread.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.inner.captures.any()
    }

    /// Waits until all work of this context, on every stream, is done. Captures that other threads begin
    /// meanwhile wait until this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) while any thread records a graph in the context: the driver
    /// would invalidate the capture. (It also invalidates captures of *other* libraries in the context.) Otherwise the
    /// error of the work that failed.
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.inner.while_current(|| self.inner.wait_for_all())?;
        self.inner.check_fault()
    }

    /// Checks whether the context can still be used, by one driver call without a handle.
    ///
    /// Other libraries in the process share the primary context. One that destroys it, by
    /// `cudaDeviceReset` or a release too many, leaves all handles of this crate stale, and the driver
    /// may crash when it is given one. Call this after giving control to code that might do so: if the context is gone,
    /// every later call on its objects returns this error without a driver call, and [`Context::new`] creates a new
    /// one. The result is the same if the other libraries have retained the primary context again since: contexts have
    /// ids, which the driver never reuses.
    ///
    /// # Errors
    /// The fatal error that has lost the device, or
    /// [`CUDA_ERROR_CONTEXT_IS_DESTROYED`](cuda_sys::CUresult); or the driver's error, if the query fails.
    #[doc(alias = "cuDevicePrimaryCtxGetState")]
    pub fn check_alive(&self) -> Result<()> {
        self.inner.state.look_after_primary()?;
        self.inner.state.usable()
    }

    /// Returns how much memory the device has.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuMemGetInfo")]
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.inner.memory_info()
    }

    /// Sets how many unused bytes the device's memory pool keeps when it is synchronised instead
    /// of giving them back to the system. All of them by default, so that allocating is fast.
    ///
    /// # Errors
    /// The error that the driver returns; nothing happens on devices without memory pools.
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    pub fn set_pool_release_threshold(&self, bytes: u64) -> Result<()> {
        self.inner.pool.set_threshold(&self.inner, bytes)
    }

    /// Gives unused memory of the pool back to the system until at most `keep` bytes are held.
    ///
    /// # Errors
    /// The error that the driver returns; nothing happens on devices without memory pools.
    #[doc(alias = "cuMemPoolTrimTo")]
    pub fn trim_pool(&self, keep: usize) -> Result<()> {
        self.inner.pool.trim(&self.inner, keep)
    }

    /// Frees what was dropped but could not be freed without waiting: pinned memory, modules, and
    /// memory on devices without pools. **Waits for the device**, as [`Context::synchronize`] does.
    ///
    /// # Errors
    /// The first error that a free returns; the other frees are still done.
    pub fn free_deferred(&self) -> Result<()> {
        self.inner.free_deferred()
    }

    /// Returns how many threads copies between plain slices and the device are spread over from 8 MiB on,
    /// the calling thread included.
    #[must_use]
    pub fn copy_threads(&self) -> usize {
        self.inner.helpers.threads()
    }

    /// Sets over how many threads copies between plain slices and the device are spread from 8 MiB
    /// on, the calling thread included; at most 8, which is also what it begins with where there
    /// are as many cores. With 0 or 1 the calling thread works alone.
    ///
    /// One core copies memory at a fraction of the bus's rate, so one thread would limit a large copy. The threads are
    /// started by the first such copy and sleep between copies. They work for one copy at a time: the caller of a
    /// second, concurrent copy does it alone. They end when there are more than this allows, when the context is
    /// closed, and when its last handle is dropped.
    pub fn set_copy_threads(&self, threads: usize) {
        self.inner.helpers.set_threads(threads);
    }

    /// Returns the errors that drops met since the last call. A drop can't return its error and must not
    /// leave it to an unrelated call, so they are kept here; at most the 64 newest. Returns none in a subscriber of
    /// `tracing` and in a forked child.
    #[must_use]
    pub fn take_drop_errors(&self) -> Vec<Error> {
        let errors = self.inner.drop_errors.lock_in_host_function();
        errors.map_or_else(|_| Vec::new(), |mut errors| std::mem::take(&mut *errors))
    }

    /// Waits for the device, frees all that this context's deferred-free list, pool and staging ring hold, and
    /// gives up the retain of the primary context.
    ///
    /// # Errors
    /// The error holds the context and names the reason: the live objects by kind and number, or the driver's error.
    #[doc(alias = "cuDevicePrimaryCtxRelease")]
    pub fn close(self) -> Result<(), ConsumeError<Self>> {
        self.release().map_err(|error| ConsumeError::new(self, error))
    }

    fn release(&self) -> Result<()> {
        let state = self.inner.state;
        caller::may_call()?;
        let lock = || state.primary.lock();
        self.inner.reporting(|| {
            self.inner.lent.forget();
            Ok(())
        })?;
        // The gates hold dropped resources, with the stream and the event of each.
        self.inner.gates.free_held(&self.inner);
        self.inner.gates.free_shut(&self.inner)?;
        // The check comes before the final lock: dropping owner tokens may call back into this context.
        let in_use = self.inner.is_alone(&*lock()?).err();
        match in_use {
            // The context may be in use only by an owner of lent memory in the deferred-free list.
            Some(error) if !self.inner.deferred.holds_tokens() => return Err(error),
            _ => self.inner.reporting(|| self.inner.free_deferred())?,
        }
        let mut primary = lock()?;
        self.inner.is_alone(&primary)?;
        let registered = self.inner.is_kept_in(&primary);
        self.inner.reporting(|| self.inner.free_everything())?;
        if registered {
            let result = state.watch.end_by(|| {
                // SAFETY: gives back the retain made by `primary`; no handle of ours is left.
                unsafe { state.sys.cuDevicePrimaryCtxRelease_v2(state.raw) }
            })?;
            state.answer("cuDevicePrimaryCtxRelease", result)?;
            *primary = None;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<ContextInner> {
        &self.inner
    }

    pub(crate) fn from_inner(inner: Arc<ContextInner>) -> Self {
        Self { inner }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.inner.device.ordinal())
            .field("raw", &self.inner.raw)
            .field("primary", &matches!(self.inner.owner, Owner::Primary))
            .finish()
    }
}

impl PartialEq for Context {
    /// Returns whether both are handles to the same driver context.
    fn eq(&self, other: &Self) -> bool {
        self.inner.raw == other.inner.raw && self.driver() == other.driver()
    }
}

impl Eq for Context {}

impl ContextInner {
    fn new(device: Device, raw: CUcontext, owner: Owner) -> Result<Self> {
        let limits = DeviceLimits::of(device)?;
        let pool = ContextPool::new(device)?;
        Ok(Self {
            device,
            state: device.state(),
            raw,
            owner,
            limits,
            pool,
            staging: Staging::default(),
            helpers: Helpers::default(),
            deferred: Arc::default(),
            counters: Counters::default(),
            graph_lock: ContextGraphLock::default(),
            conditional: BuiltinKernel::default(),
            captures: Captures::default(),
            lent: LentStreams::default(),
            caretaker: Caretaker::default(),
            gates: ContextGates::default(),
            peers: Peers::default(),
            census: Census::default(),
            #[cfg(feature = "rust-kernels")]
            rust_kernels: Attached::default(),
            streams: Lock::new(Vec::new()),
            drop_errors: Lock::new(Vec::new()),
        })
    }

    #[inline]
    pub(crate) fn sys(&self) -> &'static cuda_sys::Driver {
        self.state.sys
    }

    /// Turns the return code of a call without a stream into a result. A fatal one carries what was
    /// launched lately on all streams.
    #[inline]
    pub(crate) fn answer(
        &self,
        call: &'static str,
        result: Result<CUresult, MissingSymbol>,
    ) -> Result<()> {
        match result {
            Ok(CUresult::CUDA_SUCCESS) => Ok(()),
            other => Err(self.state.failed(call, other, || self.last_launches())),
        }
    }

    /// Waits for all work of the context, which must be current.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        self.captures.wait(|| {
            let result = timed!(DEBUG, [device = self.device.ordinal(), "synchronize"], {
                // SAFETY: no pointer is involved; a context is current, says the caller.
                unsafe { self.state.sys.cuCtxSynchronize() }
            });
            self.answer("cuCtxSynchronize", result)
        })
    }

    /// Returns whether this is the primary context that is kept for later calls.
    fn is_kept_in(self: &Arc<Self>, primary: &Option<AnyContext>) -> bool {
        primary.as_ref().is_some_and(|kept| std::ptr::addr_eq(Arc::as_ptr(kept), Arc::as_ptr(self)))
    }

    /// Fails if there are other handles than the caller's.
    fn is_alone(self: &Arc<Self>, primary: &Option<AnyContext>) -> Result<()> {
        let kept = usize::from(self.is_kept_in(primary)) + self.holds_itself();
        let others = Arc::strong_count(self).saturating_sub(1 + kept);
        if others == 0 {
            return Ok(());
        }
        let left = self.census.describe(others);
        Err(Error::invalid(format!("the context is still in use by {left}")))
    }

    fn last_launches(&self) -> Vec<LaunchRecord> {
        // The lock is released before handles are dropped: the drop of the last one may call this function again.
        let streams: Vec<Arc<StreamInner>> = {
            let Ok(streams) = self.streams.lock() else { return Vec::new() };
            streams.iter().filter_map(Weak::upgrade).collect()
        };
        streams.iter().flat_map(|stream| stream.last_launches()).take(32).collect()
    }

    pub(crate) fn register_stream(&self, stream: &Arc<StreamInner>) {
        let Ok(mut streams) = self.streams.lock() else { return };
        streams.retain(|known| known.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Keeps the error of what a drop has done, if it is one.
    #[inline]
    pub(crate) fn keep_drop_result(&self, result: Result<()>) {
        if let Err(error) = result {
            self.keep_drop_error(error);
        }
    }

    /// Returns the first of two errors, and keeps the later one.
    pub(crate) fn first_error(&self, first: Result<()>, later: Result<()>) -> Result<()> {
        if first.is_err() {
            self.keep_drop_result(later);
            return first;
        }
        later
    }

    /// Keeps an error that a drop met.
    #[cold]
    pub(crate) fn keep_drop_error(&self, error: Error) {
        // After a fatal error every drop would repeat it; later calls return it anyway.
        if error.is_fatal() {
            return;
        }
        event!(WARN, %error, "a drop failed");
        let Ok(mut errors) = self.drop_errors.lock_in_host_function() else { return };
        if errors.len() == 64 {
            errors.remove(0);
        }
        errors.push(error);
    }

    pub(crate) fn memory_info(&self) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0, 0);
        self.with_current(|| {
            // SAFETY: both are valid places for a size_t.
            unsafe { call!(self, cuMemGetInfo_v2(&raw mut free, &raw mut total)) }
        })?;
        Ok(MemoryInfo { free, total })
    }

    pub(crate) fn free_deferred(&self) -> Result<()> {
        self.gates.free_held(self);
        self.deferred.empty(self)
    }

    /// Runs `free`, and returns the first error that a drop in it has met and kept. Where the context is closed, nobody
    /// could ask for it later.
    fn reporting(&self, free: impl FnOnce() -> Result<()>) -> Result<()> {
        let known = self.drop_errors.lock()?.len();
        free()?;
        let met = self.drop_errors.lock()?.get(known).cloned();
        met.map_or(Ok(()), Err)
    }

    /// Frees all that the context holds for reuse. Waits for the device. Call it where the context has no other handle.
    fn free_everything(&self) -> Result<()> {
        self.while_current(|| self.wait_for_all())?;
        // SAFETY: `release` has seen that there is no other handle to the context, and holds the lock without which none is
        // made.
        unsafe { self.put_away_rust_kernels() }?;
        if let Some(module) = self.conditional.take() {
            self.deferred.put(Deferred::Module(module));
        }
        self.helpers.dismiss();
        self.staging.empty(self)?;
        self.deferred.empty(self)?;
        self.caretaker.destroy(self)?;
        self.pool.destroy(self)
    }
}

impl Drop for ContextInner {
    /// Only foreign contexts get here with something left; the primary one is kept until closed.
    /// Frees nothing that would wait: the owner of the context frees the rest with it.
    fn drop(&mut self) {
        if self.state.is_usable() {
            // The result is ignored: no caller is left to return an error to.
            let _ = self.caretaker.destroy(self);
        }
        if self.state.is_usable() {
            self.pool.abandon(self.state);
        }
    }
}
