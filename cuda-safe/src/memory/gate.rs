//! Memory that work of another library may still use when its stream has gone on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::allocation::{Allocation, Kind};
use super::held::Held;
use crate::caller;
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::sync::{Lock, Once};

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
/// Open for good.
const GONE: u8 = 2;

/// How long a use of memory behind a gate that is closed waits for the gate.
const LIMIT: Duration = Duration::from_secs(1);

/// Keeps memory from other uses while work of a library may run on although its stream has gone on.
///
/// A stream goes on when its own work is done, and then memory that the work has used may be freed and used again. That is
/// too early if the work has parts on several devices, each of which ends for itself when it is made to fail: when a
/// collective of NCCL is aborted, the kernel of one rank may end some milliseconds before that of another, which still
/// writes to the memory of both. The memory of such work is put [behind](Self::protect) a gate before the work is enqueued.
///
/// - **Open**, as it is made. The memory is used as any other. When it is dropped, it is freed only when its stream has come
///   to that point and the gate is still open: at a later call of [`protect`](Self::protect) or drop of memory behind the gate,
///   when an allocation finds no memory, in [`Context::free_deferred`](crate::Context::free_deferred), or when the gate
///   opens for good. The drop records an event for it: on the stream, or, if the stream can't be used then or a consumer of
///   the memory is other code, for all work of the context. Where that can't be done, which is so on drivers before 12.5 and
///   for memory that other contexts have used, the memory is freed when the gate opens for good.
/// - **Closed**, by [`close`](Self::close), which is called before the work is made to fail. Nothing is freed. A use that is
///   enqueued from then on waits on the host, a second at most; then it is refused, with an error that names the gate. Only
///   [`Context::close`](crate::Context::close) frees memory that was dropped behind a gate which stays closed: it waits for all
///   contexts whose memory is behind the gate.
/// - **Open for good**, by [`open`](Self::open), when no part of the work is left.
///
/// Work that uses the memory and was enqueued behind the work that fails, before the gate was closed, finds undefined values
/// in the memory, which may change while it runs.
///
/// `close` makes no call of the driver, so it does not wait for a thread that is blocked in one. Memory that was lent for a
/// call ([`Context::lend`](crate::Context::lend)) is the framework's to free, and a gate does not keep it.
///
/// ```
/// # use cuda_safe::DeviceBuffer;
/// # fn main() -> cuda_safe::Result<()> {
/// # let driver = cuda_safe::Driver::from_sys(cuda_safe::sys::noop::driver())?;
/// # let context = driver.device(0)?.context()?;
/// let stream = context.stream()?;
/// let buffer = DeviceBuffer::<f32>::zeroed(&stream, 1024)?;
/// let gate = cuda_safe::Gate::new();
/// gate.protect(buffer.allocation())?;
/// // Here a library enqueues work on the buffer, which may be dropped then. Before the work is made to fail:
/// gate.close()?;
/// // When its last part has ended:
/// gate.open();
/// # Ok(()) }
/// ```
///
/// Dropping it opens it for good.
pub struct Gate {
    inner: Arc<GateInner>,
}

/// What the memory behind a gate refers to.
pub(crate) struct GateInner {
    id: u64,
    state: AtomicU8,
    inside: Lock<Inside>,
    opens: Condvar,
    /// How much memory is held.
    pub(super) held: AtomicUsize,
}

#[derive(Default)]
pub(super) struct Inside {
    guarded: VecDeque<Weak<Allocation>>,
    /// The contexts whose memory was ever behind the gate: the guarded work runs in them.
    contexts: Vec<Weak<ContextInner>>,
    closed_at: Option<Instant>,
    /// What was dropped and is not freed yet; the oldest first.
    pub(super) held: VecDeque<Held>,
    /// Allocations whose last handle was dropped while `close` looked at them. Their drop calls the driver.
    dropped: Vec<Allocation>,
}

/// The gates that an allocation is behind, once there was one.
#[derive(Default)]
pub(super) struct Gates(Once<Box<Known>>);

struct Known {
    /// The number of the gate that was met last.
    last: AtomicU64,
    /// By their numbers.
    list: Lock<VecDeque<Arc<GateInner>>>,
}

/// The gates with memory of a context, by their addresses.
#[derive(Default)]
pub(crate) struct ContextGates(Lock<VecDeque<Weak<GateInner>>>);

/// Gates have numbers from 1.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Gate {
    /// Returns a gate that is open.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: Arc::new(GateInner {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                state: AtomicU8::new(OPEN),
                inside: Lock::default(),
                opens: Condvar::new(),
                held: AtomicUsize::new(0),
            }),
        }
    }

    /// Puts memory behind the gate; a repeated call changes nothing. Also frees memory behind the gate that was dropped and
    /// whose work has ended.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for memory that was allocated in a capture, which a graph frees; and
    /// if the gate was closed or opened for good.
    #[inline]
    pub fn protect(&self, allocation: &Arc<Allocation>) -> Result<()> {
        let gate = &self.inner;
        if gate.held.load(Ordering::Relaxed) > 0 {
            gate.free_oldest();
        }
        match allocation.gates.0.get() {
            Some(known) if known.last.load(Ordering::Relaxed) == gate.id => gate.is_usable(),
            _ => gate.protect_new(allocation),
        }
    }

    /// Closes the gate, if it is open: nothing behind it is freed, and later uses wait.
    ///
    /// # Errors
    /// The caller is a subscriber of `tracing`, a host function or a forked child. The gate is as before: do not make the
    /// work fail.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }

    /// Opens the gate for good, and frees what was dropped behind it: all work that used it has ended, or ends in the order
    /// of the streams.
    pub fn open(&self) {
        self.inner.open();
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.inner.open();
    }
}

impl GateInner {
    #[inline]
    fn is_usable(&self) -> Result<()> {
        if self.state() == OPEN {
            return Ok(());
        }
        Err(Error::invalid("the gate of the memory was closed"))
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::SeqCst)
    }

    /// Returns whether work may still use the memory.
    pub(super) fn is_closed(&self) -> bool {
        self.state() == CLOSED
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state() == GONE
    }

    #[cold]
    fn protect_new(self: &Arc<Self>, allocation: &Arc<Allocation>) -> Result<()> {
        caller::may_call()?;
        match allocation.kind() {
            Kind::Empty | Kind::Released => return Ok(()),
            Kind::Graph => {
                return Err(Error::invalid(
                    "memory that was allocated in a capture can't be used by work that may fail in parts, such as \
                     collectives: its graph frees it",
                )
                .with_hint("allocate it before the capture"));
            }
            _ => {}
        }
        let known = allocation
            .gates
            .0
            .get_or_init(|| Box::new(Known { last: AtomicU64::new(0), list: Lock::default() }))?;
        let mut list = known.list.lock()?;
        if list.binary_search_by_key(&self.id, |gate| gate.id).is_err() {
            let mut inside = self.inside()?;
            // `close` takes this lock after it has changed the state: either it finds the memory, or this finds the state.
            self.is_usable()?;
            make_room(&mut inside.guarded, |allocation| allocation.strong_count() > 0);
            inside.guarded.push_back(Arc::downgrade(allocation));
            let context = Arc::downgrade(&allocation.home_stream().inner().context);
            if !inside.contexts.iter().any(|known| known.ptr_eq(&context)) {
                inside.contexts.push(context);
            }
            drop(inside);
            make_room(&mut list, |gate| !gate.is_gone());
            let place = list.partition_point(|gate| gate.id < self.id);
            list.insert(place, self.clone());
            allocation.home_stream().inner().context.gates.add(self)?;
        }
        known.last.store(self.id, Ordering::Relaxed);
        self.is_usable()
    }

    fn close(&self) -> Result<()> {
        caller::may_call()?;
        // The lock comes before the state, so that a closed gate has already shut off its memory.
        let mut inside = self.inside()?;
        let closes =
            self.state.compare_exchange(OPEN, CLOSED, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !closes {
            return Ok(());
        }
        inside.closed_at = Some(Instant::now());
        let Inside { guarded, dropped, .. } = &mut *inside;
        // Uses on the home stream, too, come to where gates are asked for.
        for allocation in guarded.drain(..).filter_map(|allocation| allocation.upgrade()) {
            allocation.record_from_now_on();
            dropped.extend(Arc::into_inner(allocation));
        }
        Ok(())
    }

    fn open(&self) {
        let locked = self.inside();
        self.state.store(GONE, Ordering::SeqCst);
        // Without the lock, the next call that reads the state frees the resources that the gate holds.
        let Ok(mut locked) = locked else { return self.opens.notify_all() };
        let inside = std::mem::take(&mut *locked);
        drop(locked);
        self.opens.notify_all();
        // The count is updated after the lock is released, since it calls the driver.
        self.held.fetch_sub(inside.held.len(), Ordering::Relaxed);
        inside.held.into_iter().for_each(Held::hold_or_let_go);
        drop(inside.dropped);
    }

    /// Waits for the lock, which is never held over a call of the driver or an event: a host function may drop memory behind
    /// a gate, and open one.
    pub(super) fn inside(&self) -> Result<MutexGuard<'_, Inside>> {
        Ok(self.inside.lock_in_host_function()?)
    }

    /// Returns the error for memory behind the gate, which was closed then.
    #[cold]
    fn closed_error(&self, at: Option<Instant>) -> Error {
        let ago = at.map_or(Duration::ZERO, |at| at.elapsed());
        Error::invalid(format!(
            "the memory is behind gate {}, which was closed {:.1} s ago and not opened since: work that was made to fail, such \
             as an aborted collective, may still use the memory",
            self.id,
            ago.as_secs_f64()
        ))
        .with_hint(
            "open or drop the `Gate` when the work has ended; for a communicator, wait for its end by \
             `cuda_nccl::Abort::wait`",
        )
    }

    /// Waits as long as the gate is closed, and fails after [`LIMIT`].
    fn pass(&self) -> Result<()> {
        if !self.is_closed() {
            return Ok(());
        }
        let deadline = Instant::now() + LIMIT;
        let mut inside = self.inside()?;
        while self.is_closed() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.closed_error(inside.closed_at));
            }
            inside =
                self.opens.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// Removes what nobody needs from a full list, and leaves room for as much as is left: the time of many calls is linear.
fn make_room<T>(list: &mut VecDeque<T>, is_needed: impl Fn(&T) -> bool) {
    if list.len() == list.capacity() {
        list.retain(is_needed);
        list.reserve(list.len() + 1);
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.inner.state() {
            OPEN => "open",
            CLOSED => "closed",
            _ => "open for good",
        };
        let held = self.inner.held.load(Ordering::Relaxed);
        f.debug_struct("Gate")
            .field("id", &self.inner.id)
            .field("state", &state)
            .field("held", &held)
            .finish_non_exhaustive()
    }
}

impl Gates {
    /// Returns the gates of which `which` holds. Most memory has none.
    pub(super) fn filter(&self, which: impl Fn(&GateInner) -> bool) -> Result<Vec<Arc<GateInner>>> {
        let Some(known) = self.0.get() else { return Ok(Vec::new()) };
        let list = known.list.lock_in_host_function()?;
        Ok(list.iter().filter(|gate| which(gate)).cloned().collect())
    }

    /// Returns the first gate of which `which` holds; never one that is open for good.
    pub(super) fn first(
        &self,
        which: impl Fn(&GateInner) -> bool,
    ) -> Result<Option<Arc<GateInner>>> {
        let Some(known) = self.0.get() else { return Ok(None) };
        let mut list = known.list.lock_in_host_function()?;
        // Memory that one gate after another holds finds the next one at once.
        while list.front().is_some_and(|gate| gate.is_gone()) {
            list.pop_front();
        }
        Ok(list.iter().find(|gate| which(gate)).cloned())
    }
}

impl ContextGates {
    fn add(&self, gate: &Arc<GateInner>) -> Result<()> {
        let mut gates = self.0.lock()?;
        let (address, of) = (Arc::as_ptr(gate), |known: &Weak<GateInner>| known.as_ptr());
        if gates.binary_search_by_key(&address, of).is_err() {
            make_room(&mut gates, |known| known.strong_count() > 0);
            let place = gates.partition_point(|known| known.as_ptr() < address);
            gates.insert(place, Arc::downgrade(gate));
        }
        Ok(())
    }

    /// Frees memory that was dropped behind gates; waits for its uses, for all of them a second at most.
    pub(crate) fn free_held(&self, context: &ContextInner) {
        let Ok(gates) = self.0.lock() else { return };
        // The gates are listed first and used without the lock: freeing memory may call this function again.
        let listed: Vec<_> = gates.iter().filter_map(Weak::upgrade).collect();
        drop(gates);
        let deadline = Instant::now() + LIMIT;
        listed.iter().for_each(|gate| gate.free_of(context, deadline));
    }

    /// Frees memory that is still behind gates that are closed, when all work is done of the contexts whose memory was behind
    /// them: for the end of the context.
    ///
    /// # Errors
    /// The contexts can't be waited for.
    pub(crate) fn free_shut(&self, context: &ContextInner) -> Result<()> {
        let gates: Vec<_> = self.0.lock()?.iter().filter_map(Weak::upgrade).collect();
        for gate in gates.iter().filter(|gate| gate.is_closed()) {
            let inside = gate.inside()?;
            if !inside.held.iter().any(|held| held.is_of(context)) {
                continue;
            }
            let (contexts, at) = (inside.contexts.clone(), inside.closed_at);
            drop(inside);
            for user in contexts.iter().filter_map(Weak::upgrade) {
                user.while_current(|| user.wait_for_all())
                    .map_err(|error| error.with_hint(gate.closed_error(at).to_string()))?;
            }
            gate.let_go_of(context);
        }
        Ok(())
    }
}

impl Allocation {
    /// Returns whether the memory is behind a gate that is closed.
    pub(super) fn is_shut_off(&self) -> bool {
        self.gates.first(GateInner::is_closed).map_or(true, |gate| gate.is_some())
    }

    /// Waits on the host for the gates that are closed. Where the host waits for uses, it comes after that: they may have ended
    /// because they were made to fail.
    #[inline]
    pub(crate) fn pass_gates(&self) -> Result<()> {
        match self.gates.0.get() {
            None => Ok(()),
            Some(_) => {
                self.gates.filter(GateInner::is_closed)?.iter().try_for_each(|gate| gate.pass())
            }
        }
    }

    /// Waits on the host until no work uses the memory, if it is behind a gate: who gets it does not ask the gate.
    pub(super) fn leave_gates(&self) -> Result<()> {
        if self.gates.first(|gate| !gate.is_gone())?.is_some() {
            self.home_stream().synchronize()?;
        }
        self.pass_gates()
    }

    /// Returns the only handle as a unique reference; `None` if there are others. The gates' own, which are weak, are taken
    /// back.
    pub(super) fn only_handle(self: &mut Arc<Self>) -> Option<&mut Self> {
        if let Some(known) = self.gates.0.get() {
            // The gates do not find it any more when they are closed.
            self.record_from_now_on();
            let list = known.list.lock_in_host_function().ok()?;
            known.last.store(0, Ordering::Relaxed);
            for gate in &*list {
                let is_other =
                    |listed: &Weak<Self>| !std::ptr::eq(listed.as_ptr(), Arc::as_ptr(self));
                gate.inside().ok()?.guarded.retain(is_other);
            }
        }
        Arc::get_mut(self)
    }
}
