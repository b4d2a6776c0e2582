//! Memory behind a gate that was dropped: it is freed when its last use is seen to have ended while the gate was open.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cuda_sys::CUresult;

use super::allocation::{Allocation, Kind};
use super::gate::{GateInner, Gates};
use super::lent::IsOrdered;
use crate::caller;
use crate::context::{Context, ContextInner, exchange_mode, relax_captures};
use crate::error::Result;
use crate::event::Event;
use crate::trace::event;

/// Memory that was dropped, its gates included.
pub(super) struct Held {
    allocation: Allocation,
    end: End,
    /// `Some` if a consumer of other code has used it (see `Allocation::free_after_consumer`).
    #[cfg_attr(not(feature = "dlpack"), allow(dead_code, reason = "tensors are exported there"))]
    consumed: Option<IsOrdered>,
}

/// When the memory's uses have ended.
enum End {
    /// When the event is done, which was recorded behind all uses.
    Recorded(Event),
    /// No event could be recorded.
    Unknown,
}

impl Held {
    fn new(allocation: &mut Allocation, consumed: Option<IsOrdered>) -> Self {
        let end = allocation.record_end(consumed.is_some());
        Self { allocation: allocation.move_out(), end, consumed }
    }

    /// Frees the memory in its usual way.
    pub(super) fn let_go(mut self) {
        self.allocation.gates = Gates::default();
        // Counted as dropped already; its drop does so again.
        self.allocation.home_stream().inner().memory_made();
        #[cfg(feature = "dlpack")]
        if let Some(is_ordered) = self.consumed {
            Arc::new(self.allocation).free_after_consumer(is_ordered);
            return;
        }
        drop(self.allocation);
    }

    /// Leaves the memory to another gate that it is behind, if there is one, or frees it.
    pub(super) fn hold_or_let_go(self) {
        match self.first_gate(|gate| !gate.is_gone()) {
            Ok(Some(gate)) => gate.hold(self),
            Ok(None) => self.let_go(),
            Err(_) => std::mem::forget(self),
        }
    }

    /// Returns whether all uses have ended, and not because they were made to fail.
    fn may_go(&mut self) -> bool {
        match self.first_gate(|gate| !gate.is_gone()) {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(_) => return false,
        }
        match &self.end {
            // In this order: a gate is closed before the work fails.
            End::Recorded(event) => match is_done(event, self.context()) {
                Ok(is_done) => is_done && self.are_open(),
                Err(error) => {
                    self.context().keep_drop_error(error);
                    self.end = End::Unknown;
                    false
                }
            },
            End::Unknown => {
                // A capture, say, may have ended since.
                self.end = self.allocation.record_end(self.consumed.is_some());
                false
            }
        }
    }

    fn context(&self) -> &ContextInner {
        &self.allocation.home_stream().inner().context
    }

    fn is_known(&self) -> bool {
        matches!(self.end, End::Recorded(_))
    }

    fn are_open(&self) -> bool {
        self.first_gate(GateInner::is_closed).is_ok_and(|gate| gate.is_none())
    }

    pub(super) fn is_of(&self, context: &ContextInner) -> bool {
        std::ptr::eq(self.context(), context)
    }

    /// Waits until the memory may go, or until `deadline`, and returns whether it may.
    fn wait(&mut self, deadline: Instant) -> bool {
        loop {
            if self.may_go() {
                return true;
            }
            let ends = self.are_open() && self.is_known();
            if !ends || Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn first_gate(&self, which: impl Fn(&GateInner) -> bool) -> Result<Option<Arc<GateInner>>> {
        self.allocation.gates.first(which)
    }
}

impl GateInner {
    fn hold(&self, held: Held) {
        // Leaked, as in a forked child.
        let Ok(mut inside) = self.inside() else { return std::mem::forget(held) };
        // `open` takes this lock after it has changed the state.
        if !self.is_gone() {
            inside.held.push_back(held);
            self.held.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(inside);
        held.hold_or_let_go();
    }

    /// Frees what was dropped first, up to the first that may still be used. Passes over what is not known to end.
    #[cold]
    pub(super) fn free_oldest(&self) {
        // While the gate is closed, nothing may go.
        if caller::is_host_function() || self.is_closed() {
            return;
        }
        let mut passed = 0;
        loop {
            // Two threads may ask at once; each asks about what it has taken.
            let mut oldest = {
                let Ok(mut inside) = self.inside() else { return };
                let Some(oldest) = inside.held.remove(passed) else { return };
                oldest
            };
            let was_known = oldest.is_known();
            if oldest.may_go() {
                self.held.fetch_sub(1, Ordering::Relaxed);
                oldest.let_go();
                continue;
            }
            let ends = was_known && oldest.is_known();
            let Ok(mut inside) = self.inside() else { return std::mem::forget(oldest) };
            if self.is_gone() {
                drop(inside);
                self.held.fetch_sub(1, Ordering::Relaxed);
                oldest.hold_or_let_go();
                return;
            }
            let place = passed.min(inside.held.len());
            inside.held.insert(place, oldest);
            if ends {
                return;
            }
            passed = place + 1;
        }
    }

    /// Takes out memory of a context that was dropped.
    fn take_of(&self, context: &ContextInner) -> VecDeque<Held> {
        let Ok(mut inside) = self.inside() else { return VecDeque::new() };
        let all = std::mem::take(&mut inside.held).into_iter();
        let (taken, left) = all.partition(|held| held.is_of(context));
        inside.held = left;
        self.held.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }

    /// Frees memory of a context that was dropped, of which no work is left.
    pub(super) fn let_go_of(&self, context: &ContextInner) {
        let taken = self.take_of(context);
        taken.into_iter().for_each(Held::let_go);
    }

    /// Frees memory of a context that was dropped; waits for its uses until `deadline`.
    pub(super) fn free_of(&self, context: &ContextInner, deadline: Instant) {
        let taken = self.take_of(context);
        for mut held in taken {
            match held.wait(deadline) {
                true => held.let_go(),
                false => self.hold(held),
            }
        }
    }
}

impl Allocation {
    /// Holds memory back that is dropped behind a gate, and returns whether it did. Then nothing is left to be freed.
    pub(super) fn hold_back(&mut self) -> bool {
        self.hold_back_from(None)
    }

    /// As [`hold_back`](Self::hold_back), for memory that a consumer of other code has used.
    #[cfg(feature = "dlpack")]
    pub(super) fn hold_back_from_consumer(&mut self, is_ordered: IsOrdered) -> bool {
        self.hold_back_from(Some(is_ordered))
    }

    fn hold_back_from(&mut self, consumed: Option<IsOrdered>) -> bool {
        // Without the list nothing may be freed.
        let Ok(gate) = self.gates.first(|gate| !gate.is_gone()) else {
            std::mem::forget(self.replace_kind(Kind::Released));
            return true;
        };
        let Some(gate) = gate.filter(|_| self.can_be_held()) else { return false };
        event!(TRACE, address = self.device_ptr(), bytes = self.size_bytes(), "hold back");
        let held = Held::new(self, consumed);
        gate.free_oldest();
        gate.hold(held);
        true
    }

    fn can_be_held(&self) -> bool {
        !matches!(
            self.kind(),
            Kind::Empty | Kind::Graph | Kind::Lent(_) | Kind::Module(_) | Kind::Released
        )
    }

    /// Records an event behind all uses. If the driver fails, and in a host function, the memory is held longer.
    fn record_end(&self, by_consumer: bool) -> End {
        if caller::is_host_function() {
            return End::Unknown;
        }
        let home = self.home_stream();
        let recorded = if home.inner().capture.is_some() {
            Ok(None)
        } else if by_consumer || !self.home_is_usable() {
            // Which covers this context alone.
            if self.is_used_elsewhere() { Ok(None) } else { record_all(&home.context()) }
        } else {
            self.join_home().and_then(|()| {
                let event = Event::new(&home.context())?;
                event.record(home)?;
                Ok(Some(event))
            })
        };
        match recorded {
            Ok(event) => event.map_or(End::Unknown, End::Recorded),
            Err(error) => {
                home.inner().context.keep_drop_error(error);
                End::Unknown
            }
        }
    }
}

/// Records an event behind all work of the context; `None` if that can't be done now, or by this driver.
fn record_all(context: &Context) -> Result<Option<Event>> {
    let inner = context.inner();
    if inner.lent.may_be_captured() || inner.captures.any() {
        return Ok(None);
    }
    let event = Event::new(context)?;
    // No capture of this crate begins meanwhile, which the driver would invalidate.
    let recorded = inner.captures.wait(|| {
        // SAFETY: both are live.
        match unsafe { inner.sys().cuCtxRecordEvent(inner.raw, event.as_raw()) } {
            // Before 12.5; and other code captures.
            Err(_) | Ok(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) => Ok(false),
            result => inner.answer("cuCtxRecordEvent", result).map(|()| true),
        }
    })?;
    Ok(recorded.then_some(event))
}

/// Returns whether the event is done. Other code that captures does not expect a query here, which would break its capture.
fn is_done(event: &Event, context: &ContextInner) -> Result<bool> {
    match relax_captures(context) {
        Ok(mode) => {
            let is_done = event.is_done();
            context.keep_drop_result(exchange_mode(context, mode).map(drop));
            is_done
        }
        // A driver without the function has no such captures.
        Err(error) if error.code().is_none() => event.is_done(),
        Err(error) => Err(error),
    }
}
