//! Guards of the host and launches of graphs, which nothing but a flag and the context's turn keeps
//! apart: the host never looks while the device writes.

use std::sync::Arc;

use crate::explore;
use crate::memory::Access;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, PoisonError, thread};

macro_rules! model {
    ($core:ident, $host_takes_turn:expr) => {{
        #[derive(Default)]
        struct Memory {
            turn: Mutex<()>,
            host_borrows: crate::$core::HostBorrows,
            /// Whether a write is recorded that the host has not waited for.
            recorded: Mutex<bool>,
            /// Whether the device writes.
            writes: AtomicBool,
        }

        impl Memory {
            /// As `GraphExec::launch`.
            fn launch(&self) {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                if self.host_borrows.allows(Access::Write).is_ok() {
                    self.writes.store(true, Ordering::SeqCst);
                    *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = true;
                }
            }

            /// As `UnifiedBuffer::host`, and looking through the guard.
            fn host(&self) {
                let look = {
                    let _turn = $host_takes_turn
                        .then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
                    self.host_borrows.borrow(Access::Read).expect("nobody writes through a guard")
                };
                let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
                if std::mem::take(&mut *recorded) {
                    // The wait.
                    self.writes.store(false, Ordering::SeqCst);
                }
                drop(recorded);
                for _ in 0..2 {
                    let writes = self.writes.load(Ordering::SeqCst);
                    assert!(!writes, "the device writes under a guard");
                }
                drop(look);
            }
        }

        let memory = Arc::new(Memory::default());
        let mut threads = Vec::new();
        for host in [true, true, false] {
            let memory = memory.clone();
            threads.push(thread::spawn(move || {
                for _ in 0..2 {
                    if host { memory.host() } else { memory.launch() }
                }
            }));
        }
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        assert_eq!(memory.host_borrows.allows(Access::Write), Ok(()), "all guards are gone");
    }};
}

const ORDERS: usize = 5000;

pub fn the_host_looks_alone() {
    explore(ORDERS, || model!(host_borrow, true));
}

pub fn the_host_looks_alone_without_a_turn() {
    explore(ORDERS, || model!(host_borrow, false));
}

pub fn the_host_looks_alone_counting_in_two_steps() {
    explore(ORDERS, || model!(host_borrow_in_two_steps, true));
}
