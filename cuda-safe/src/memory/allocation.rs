//! One piece of device memory, how it is freed, and its home stream.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cuda_sys::CUdeviceptr;

use super::fit;
use super::foreign::ForeignMemory;
use super::gate::Gates;
use super::host::variable::VariableBorrows;
use super::host::visible::Visible;
use super::lent::{Frozen, LentMemory};
use super::order::ranges::Ranges;
use super::order::shared::Shared;
use super::order::uses::{Access, Uses};
use super::order::versions::Versions;
use super::pools::PoolInner;
use super::slice::DeviceSlice;
use crate::caller;
use crate::consume::ConsumeError;
use crate::context::{Deferred, Dropped, NO_STREAM, list};
use crate::error::{Error, Result};
use crate::quiet::Token;
use crate::stream::Stream;
use crate::sync::Once;
use crate::trace::event;

/// A piece of device memory, shared by the buffers and views that lie in it.
///
/// It has a *home stream*: it is allocated and freed in that stream's order, and using it there
/// costs nothing. Uses on other streams are ordered behind the conflicting ones before them,
/// wherever those ran. See [`DeviceBuffer`](crate::DeviceBuffer) for typed access.
pub struct Allocation {
    start: CUdeviceptr,
    bytes: usize,
    home: Stream,
    /// The same as `home.id()`, here for the hot path.
    home_id: u64,
    born: u64,
    kind: Kind,
    /// Raised when a stream other than home uses it; never lowered. See `order/uses.rs`.
    pub(super) shared: Shared<Ranges<Uses>>,
    /// Raised when a graph uses it; never lowered.
    pub(super) captured: AtomicBool,
    /// The ranges that graphs of other code read, once there was one.
    pub(super) frozen: Once<Box<Frozen>>,
    /// What work that may run on after its stream has put it behind.
    pub(super) gates: Gates,
    pub(super) versions: Versions,
}

/// How an allocation came to be, which is how it goes.
pub(super) enum Kind {
    /// No bytes, no memory.
    Empty,
    /// From the context's pool: freed in stream order.
    Pooled,
    /// From a pool that the program has chosen: freed in stream order.
    OfPool(Arc<PoolInner>),
    /// From `cuMemAlloc`, on devices without pools: to the deferred-free list.
    Blocking,
    /// Memory of other code, or part of an object that the token keeps alive.
    Borrowed { token: Token },
    /// Memory that a framework has lent for a call; see `lent.rs`.
    Lent(LentMemory),
    /// Allocated on a stream that captures. It exists while the graph runs, from the node that allocates it to the node
    /// that frees it.
    Graph,
    /// The host sees it too: to the deferred-free list. See `host/visible.rs`.
    Visible(Visible),
    /// The variables of a module, which covers all addresses: goes with the module.
    Module(VariableBorrows),
    /// Given away by `into_raw`.
    Released,
}

impl Allocation {
    /// Allocates `bytes` in `stream`'s order: one driver call.
    pub(crate) fn new(stream: &Stream, bytes: usize) -> Result<Arc<Self>> {
        let inner = stream.inner();
        inner.usable_here()?;
        inner.context.deferred.free_dropped(&inner.context);
        if bytes == 0 {
            return Ok(Self::with_kind(0, 0, stream, Kind::Empty));
        }
        if let Some(ForeignMemory { start, token }) = inner.lease(bytes)? {
            return Ok(Self::borrowed(start, bytes, stream, token));
        }
        if let Some(capture) = &inner.capture {
            let mut recording = capture.enter(inner)?;
            let start = recording.allocate(inner, bytes)?;
            let this = Self::with_kind(start, bytes, stream, Kind::Graph);
            // A write, so that the uses come after it.
            let sequence = recording.number(inner);
            recording.end_use(inner, (&this, 0..bytes, Access::Write), sequence);
            return Ok(this);
        }
        let (start, kind) = inner.context.pool.allocate(inner, bytes)?;
        event!(TRACE, address = start, bytes, stream = inner.id, "allocate");
        Ok(Self::with_kind(start, bytes, stream, kind))
    }

    /// Returns memory that the token keeps alive.
    pub(crate) fn borrowed(
        start: CUdeviceptr,
        bytes: usize,
        home: &Stream,
        token: Box<dyn Any + Send + Sync>,
    ) -> Arc<Self> {
        Self::with_kind(start, bytes, home, Kind::Borrowed { token: Token::new(token) })
    }

    /// Returns all addresses up to `end`, of which a module's variables are ranges. Every use of it is recorded, with
    /// the context's graph lock held.
    pub(crate) fn of_module(home: &Stream, end: usize) -> Arc<Self> {
        let this = Self::with_kind(0, end, home, Kind::Module(VariableBorrows::default()));
        this.note_captured();
        this
    }

    /// Returns whether nothing has to be waited for before its first use.
    pub(super) fn is_of_module(&self) -> bool {
        matches!(self.kind, Kind::Module(_))
    }

    /// Returns memory that `cuMemFreeAsync` on the home stream will free.
    pub(crate) fn adopted(start: CUdeviceptr, bytes: usize, home: &Stream) -> Arc<Self> {
        let kind = if bytes == 0 { Kind::Empty } else { Kind::Pooled };
        Self::with_kind(start, bytes, home, kind)
    }

    pub(super) fn with_kind(
        start: CUdeviceptr,
        bytes: usize,
        home: &Stream,
        kind: Kind,
    ) -> Arc<Self> {
        if !matches!(kind, Kind::Lent(_)) {
            home.inner().memory_made();
        }
        Arc::new(Self {
            start,
            bytes,
            home: home.clone(),
            home_id: home.id(),
            // Covers the allocation itself, which is work of the stream; work that others enqueued
            // before handing the memory over; and, for memory reused from the deferred-free list, the waits for its
            // earlier uses.
            born: home.inner().next_number(),
            // Graph memory has no home stream without cost: the recording holds its uses.
            shared: Shared::new(matches!(kind, Kind::Graph)),
            captured: AtomicBool::new(false),
            frozen: Once::new(),
            gates: Gates::default(),
            kind,
            versions: Versions::default(),
        })
    }

    /// Makes this the memory at another place, as if it were made now. Only for memory that was used on its home stream
    /// alone.
    pub(super) fn move_to(&mut self, start: CUdeviceptr, bytes: usize) {
        self.start = start;
        self.bytes = bytes;
        self.born = self.home.inner().next_number();
        self.versions.reset();
    }

    /// Returns the memory and what is known of it. Nothing is left here.
    pub(super) fn move_out(&mut self) -> Self {
        Self {
            home: self.home.clone(),
            kind: self.replace_kind(Kind::Released),
            shared: std::mem::replace(&mut self.shared, Shared::new(false)),
            captured: std::mem::take(&mut self.captured),
            frozen: std::mem::take(&mut self.frozen),
            gates: std::mem::take(&mut self.gates),
            versions: Versions::default(),
            ..*self
        }
    }

    /// Returns the number on the home stream that covers everything this memory has to wait for before its
    /// first use.
    pub(super) fn born(&self) -> u64 {
        self.born
    }

    /// Returns the device address of the first byte; 0 if there are no bytes.
    #[must_use]
    #[inline]
    pub fn device_ptr(&self) -> CUdeviceptr {
        self.start
    }

    /// Returns the size in bytes.
    #[must_use]
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the stream in whose order it was allocated and will be freed.
    #[must_use]
    pub fn home_stream(&self) -> &Stream {
        &self.home
    }

    /// Returns the number of the newest write of any byte of `range` through this crate: it grows with every
    /// launch, copy, fill and guard of the host's that may write there, when it is recorded in a graph,
    /// and when that is launched. Writes by raw calls count if [`note_write`](Self::note_write) is called.
    ///
    /// One clock numbers the writes of all allocations: data computed from some memory is out of date if its version is
    /// smaller than the memory's. In a subscriber of `tracing` and in a forked child it may be [`u64::MAX`], so that such
    /// data counts as out of date. Writes of one launch of a graph have numbers in the order in which they were
    /// recorded, whether or not a conditional body runs.
    #[must_use]
    pub fn version(&self, range: Range<usize>) -> u64 {
        self.versions.of(range)
    }

    /// Numbers a write of the bytes in `range`. Call it after a write by raw calls, outside of subscribers of `tracing`
    /// and of host functions.
    pub fn note_write(&self, range: Range<usize>) {
        self.versions.note(range.start..range.end.min(self.bytes), self.bytes);
    }

    /// Returns the bytes in `range` as elements, for code that keeps a handle to the memory and no buffer, such
    /// as a copy of the input of a recorded launch.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it reaches past the end, is no whole number
    /// of elements, or is not aligned for them.
    ///
    /// # Safety
    /// Bytes that are read as a `T` were written as a `T`, or `T` may have any bits. The view does not borrow the
    /// memory, so the caller makes sure that it is in no launch together with an argument that writes the same bytes,
    /// and that no use that conflicts comes between the ordering and the recording of a use by it: the memory is
    /// borrowed by other means, used by the caller alone, or [kept](Self::keep).
    pub unsafe fn view<T: Copy + 'static>(
        self: &Arc<Self>,
        range: Range<usize>,
    ) -> Result<DeviceSlice<'_, T>> {
        let Range { start, end } = range;
        if start > end || end > self.bytes {
            return Err(Error::invalid(format!(
                "the bytes {start}..{end} are not within 0..{}",
                self.bytes
            )));
        }
        let what = format_args!("the bytes {start}..{end}").to_string();
        let len = fit::elements::<T>(&what, self.start + start as u64, end - start)?;
        Ok(DeviceSlice::new(self, start, len))
    }

    /// Fails for memory that only exists while a graph runs.
    pub(super) fn exists_outside_graphs(&self) -> Result<()> {
        match self.kind {
            Kind::Graph => Err(Error::invalid(
                "memory allocated in a capture exists only while its graph runs",
            )
            .with_hint("make what is to outlive the graph before the capture, in its state")),
            _ => Ok(()),
        }
    }

    /// Returns whether it was allocated in a capture.
    pub(crate) fn is_of_graph(&self) -> bool {
        matches!(self.kind, Kind::Graph)
    }

    /// Returns whether it was allocated in the capture with this number.
    pub(crate) fn is_of(&self, capture: u64) -> bool {
        self.home.inner().capture.as_ref().is_some_and(|home| home.number() == capture)
    }

    #[inline]
    pub(super) fn is_home(&self, stream: &Stream) -> bool {
        self.home_id == stream.inner().id
    }

    /// Returns whether the memory belongs to other code, or is part of another object such as a module.
    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self.kind, Kind::Borrowed { .. } | Kind::Lent(_) | Kind::Module(_))
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn replace_kind(&mut self, kind: Kind) -> Kind {
        std::mem::replace(&mut self.kind, kind)
    }

    /// Gives the memory away: nothing is freed when this is dropped. Waits for nothing, but makes
    /// the home stream wait for uses on other streams. Fails if it is not ours to give, or if that
    /// could not be enqueued.
    pub(crate) fn release(mut self: Arc<Self>) -> Result<CUdeviceptr, ConsumeError<Arc<Self>>> {
        let given = self.home_stream().inner().state().usable().and_then(|()| self.give());
        given.map_err(|error| ConsumeError::new(self, error))
    }

    fn give(self: &mut Arc<Self>) -> Result<CUdeviceptr> {
        let whose = match self.kind {
            Kind::Pooled | Kind::OfPool(_) | Kind::Empty => None,
            Kind::Blocking => Some("it is from cuMemAlloc, since the device has no memory pools"),
            Kind::Borrowed { .. } => Some("it is foreign memory, which a token keeps alive"),
            Kind::Lent(_) => Some("it was lent for a call"),
            Kind::Graph => Some("it belongs to a graph"),
            Kind::Visible(_) => Some("the host sees it too"),
            Kind::Module(_) => Some("it is a variable of a module"),
            Kind::Released => Some("it was given away"),
        };
        if let Some(whose) = whose {
            return Err(Error::invalid(format!(
                "the memory can't be given away: {whose}, so cuMemFreeAsync would not free it"
            )));
        }
        self.home_stream().inner().usable_here()?;
        self.join_home()?;
        self.leave_gates()?;
        let Some(this) = self.only_handle() else { return Err(self.in_use()) };
        this.kind = Kind::Released;
        Ok(this.start)
    }

    /// Fails if another handle to the memory exists.
    #[cfg(feature = "dlpack")]
    pub(crate) fn is_only_handle(self: &mut Arc<Self>) -> Result<()> {
        match self.only_handle() {
            Some(_) => Ok(()),
            None => Err(self.in_use()),
        }
    }

    /// Returns the error for memory that others hold besides the caller.
    #[cold]
    fn in_use(self: &Arc<Self>) -> Error {
        let others = Arc::strong_count(self).saturating_sub(1);
        let left = list(&[(others, "other handle")]);
        Error::invalid(format!("the memory is still in use by {left}"))
            .with_hint("each `Arc<Allocation>` is a handle; graphs hold the memory that they use")
    }

    /// Does the work of the drop and returns its error. After success nothing is left for the drop.
    pub(crate) fn close(mut self: Arc<Self>) -> Result<(), ConsumeError<Arc<Self>>> {
        let usable = self.home.inner().state().usable();
        let freed = usable.and_then(|()| match self.only_handle() {
            Some(this) => this.free(),
            None => Err(self.in_use()),
        });
        freed.map_err(|error| ConsumeError::new(self, error))
    }

    fn free(&mut self) -> Result<()> {
        self.home.inner().state().usable()?;
        if self.hold_back() {
            return Ok(());
        }
        let home = self.home.inner();
        if let (Kind::Graph, Some(capture)) = (&self.kind, &home.capture) {
            capture.free(home, self);
            self.kind = Kind::Released;
            return Ok(());
        }
        if !matches!(self.kind, Kind::Empty | Kind::Lent(_) | Kind::Released) {
            event!(TRACE, address = self.start, bytes = self.bytes, stream = self.home_id, "free");
            if !self.home_is_usable() {
                return self.free_apart();
            }
            self.join_home()?;
        }
        self.free_in_order()
    }

    /// Returns whether this thread may use the home stream now. If the driver fails at the question, the context keeps its
    /// error.
    pub(super) fn home_is_usable(&self) -> bool {
        let home = self.home.inner();
        match home.usable_here() {
            Ok(()) => true,
            Err(error) => {
                if error.code().is_some() {
                    home.context.keep_drop_error(error);
                }
                false
            }
        }
    }

    /// Frees the memory, of which all uses are ordered before later work of the home stream.
    fn free_in_order(&mut self) -> Result<()> {
        let home = self.home.inner();
        if matches!(self.kind, Kind::Pooled | Kind::OfPool(_)) {
            // Not numbered, since no use waits for it. SAFETY: this owns the memory, and every use of it is ordered
            // before this free: those on the home stream by the stream, the others by `join_home`.
            unsafe { call!(home, cuMemFreeAsync(self.start, home.raw)) }?;
        }
        match self.replace_kind(Kind::Released) {
            Kind::Blocking => self.home.inner().context.deferred.put(Deferred::Device {
                start: self.start,
                bytes: self.bytes,
                stream: self.home_id,
            }),
            Kind::Visible(visible) => self.discard_visible(visible),
            // The token goes here: its contract is that of `DeviceBuffer::from_raw`.
            Kind::Borrowed { .. } => {}
            Kind::Pooled
            | Kind::OfPool(_)
            | Kind::Empty
            | Kind::Lent(_)
            | Kind::Graph
            | Kind::Module(_)
            | Kind::Released => {}
        }
        Ok(())
    }
}

/// Returns whether the error is that of the free itself, which is not tried again: the driver may have freed the memory.
pub(super) fn is_of_a_free(error: &Error) -> bool {
    error.call() == Some("cuMemFreeAsync")
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if matches!(self.kind, Kind::Lent(_)) {
            return;
        }
        self.home.inner().memory_dropped();
        if matches!(self.kind, Kind::Empty | Kind::Module(_) | Kind::Released) {
            return;
        }
        let home = self.home.inner();
        if !home.state().is_usable() {
            if caller::is_subscriber() {
                // Dropped by a subscriber, which may not take locks. The device goes on and may still use the memory
                // that a token keeps alive.
                std::mem::forget(std::mem::replace(&mut self.kind, Kind::Released));
            } else if caller::is_host_function() && home.state().may_defer() && !self.is_of_graph()
            {
                let home = self.home.clone();
                let moved = Box::new(self.move_out());
                // `moved` will be dropped a second time.
                home.inner().memory_made();
                let item = Deferred::Dropped(Dropped::Memory(moved));
                home.inner().context.deferred.put(item);
            }
            return;
        }
        if let (Kind::Graph, Some(capture)) = (&self.kind, &home.capture) {
            capture.free(home, self);
            return;
        }
        if self.hold_back() {
            return;
        }
        event!(TRACE, address = self.start, bytes = self.bytes, stream = self.home_id, "free");
        let freed_apart = match self.home_is_usable() {
            true => self.join_home().map(|()| false),
            false => self.free_apart().map(|()| true),
        };
        if let Err(error) = freed_apart {
            let kind = self.replace_kind(Kind::Released);
            let context = &self.home.inner().context;
            let is_freed = is_of_a_free(&error);
            // Freeing now could pull the memory away from work on another stream.
            context.keep_drop_error(error);
            if is_freed {
                return;
            }
            if self.is_used_elsewhere() {
                // The deferred-free list waits for one device: better lost than pulled away from another.
                std::mem::forget(kind);
                return;
            }
            let item = match kind {
                Kind::Visible(visible) => return self.discard_visible(visible),
                Kind::Borrowed { token } => Deferred::Token(token),
                Kind::Blocking => {
                    Deferred::Device { start: self.start, bytes: self.bytes, stream: NO_STREAM }
                }
                _ => Deferred::Unordered { start: self.start },
            };
            context.deferred.put(item);
            return;
        }
        if let Ok(true) = freed_apart {
            return;
        }
        let freed = self.free_in_order();
        self.home.inner().context.keep_drop_result(freed);
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("address", &format_args!("{:#x}", self.start))
            .field("bytes", &self.bytes)
            .field("home", &self.home_id)
            .finish_non_exhaustive()
    }
}
