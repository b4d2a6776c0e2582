//! Memory behind a gate that was dropped: it is freed when its last use is seen to have ended while the gate was open.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::allocation::{Allocation, Kind};
use super::gate::{GateInner, Gates};
use crate::context::ContextInner;
use crate::event::Event;
use crate::trace::event;

/// Memory that was dropped, its gates included.
pub(super) struct Held {
    allocation: Allocation,
    end: End,
}

/// When the memory's uses have ended.
enum End {
    /// When the event is done, which was recorded on the home stream behind all uses.
    Recorded(Event),
    /// That is not known before the gates are open for good.
    Unknown,
    /// As before; and a consumer of other code has used it (see `Allocation::free_after_consumer`).
    #[cfg_attr(not(feature = "dlpack"), allow(dead_code, reason = "tensors are exported there"))]
    OfConsumer,
}

impl Held {
    /// Frees the memory in its usual way.
    pub(super) fn let_go(mut self) {
        self.allocation.gates = Gates::default();
        // Counted as dropped already; its drop does so again.
        self.allocation.home_stream().inner().memory_made();
        match self.end {
            #[cfg(feature = "dlpack")]
            End::OfConsumer => Arc::new(self.allocation).free_after_consumer(),
            _ => drop(self.allocation),
        }
    }

    /// Leaves the memory to another gate that it is behind, if there is one, or frees it.
    pub(super) fn hold_or_let_go(self) {
        match self.gates(|gate| !gate.is_gone()).first() {
            Some(gate) => gate.hold(self),
            None => self.let_go(),
        }
    }

    /// Returns whether all uses have ended, and not because they were made to fail.
    fn may_go(&self) -> bool {
        if self.gates(|gate| !gate.is_gone()).is_empty() {
            return true;
        }
        // In this order: a gate is shut before the work fails.
        matches!(&self.end, End::Recorded(event) if matches!(event.is_done(), Ok(true)))
            && self.are_open()
    }

    fn are_open(&self) -> bool {
        self.gates(GateInner::is_shut).is_empty()
    }

    fn is_of(&self, context: &ContextInner) -> bool {
        std::ptr::eq(&raw const *self.allocation.home_stream().inner().context, context)
    }

    /// Waits until the memory may go, or until `deadline`, and returns whether it may.
    fn wait(&self, deadline: Instant) -> bool {
        loop {
            if self.may_go() {
                return true;
            }
            let ends = self.are_open() && matches!(self.end, End::Recorded(_));
            if !ends || Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn gates(&self, which: impl Fn(&GateInner) -> bool) -> Vec<Arc<GateInner>> {
        self.allocation.gates.filter(which)
    }
}

impl GateInner {
    fn hold(&self, held: Held) {
        let mut inside = self.inside();
        // `open` takes this lock after it has changed the state.
        if !self.is_gone() {
            inside.held.push(held);
            self.held.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(inside);
        held.hold_or_let_go();
    }

    /// Frees what was dropped first, up to the first that may still be used.
    #[cold]
    pub(super) fn free_oldest(&self) {
        loop {
            // Two threads may ask at once; each asks about what it has taken.
            let oldest = {
                let mut inside = self.inside();
                if inside.held.is_empty() {
                    return;
                }
                inside.held.remove(0)
            };
            if oldest.may_go() {
                self.held.fetch_sub(1, Ordering::Relaxed);
                oldest.let_go();
                continue;
            }
            let mut inside = self.inside();
            if !self.is_gone() {
                inside.held.insert(0, oldest);
                return;
            }
            drop(inside);
            self.held.fetch_sub(1, Ordering::Relaxed);
            oldest.hold_or_let_go();
        }
    }

    /// Frees memory of a context that was dropped; waits for its uses until `deadline`.
    pub(super) fn free_of(&self, context: &ContextInner, deadline: Instant) {
        let taken: Vec<Held> = {
            let mut inside = self.inside();
            inside.held.extract_if(.., |held| held.is_of(context)).collect()
        };
        self.held.fetch_sub(taken.len(), Ordering::Relaxed);
        for held in taken {
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
        let gates = self.gates.filter(|gate| !gate.is_gone());
        let Some(gate) = gates.first().filter(|_| self.can_be_held()) else { return false };
        event!(TRACE, address = self.device_ptr(), bytes = self.size_bytes(), "hold back");
        let end = self.record_end().map_or(End::Unknown, End::Recorded);
        let allocation = self.move_out();
        gate.free_oldest();
        gate.hold(Held { allocation, end });
        true
    }

    /// As [`hold_back`](Self::hold_back), for memory that a consumer of other code has used.
    #[cfg(feature = "dlpack")]
    pub(super) fn hold_back_from_consumer(&mut self) -> bool {
        let gates = self.gates.filter(|gate| !gate.is_gone());
        let Some(gate) = gates.first().filter(|_| self.can_be_held()) else { return false };
        gate.hold(Held { allocation: self.move_out(), end: End::OfConsumer });
        true
    }

    fn can_be_held(&self) -> bool {
        !matches!(
            self.kind(),
            Kind::Empty | Kind::Graph | Kind::Lent(_) | Kind::Module(_) | Kind::Released
        )
    }

    /// Records an event on the home stream behind all uses, if that stream can be used.
    fn record_end(&self) -> Option<Event> {
        let home = self.home_stream();
        if !self.home_is_usable() || home.inner().capture.is_some() {
            return None;
        }
        let recorded = self.join_home().and_then(|()| {
            let event = Event::new(&home.context())?;
            event.record(home)?;
            Ok(event)
        });
        // Without it the memory is held longer.
        recorded.map_err(|error| home.inner().context.keep_drop_error(error)).ok()
    }
}
