//! The tracker: from the first use on another stream on, every use is recorded, and those by the
//! home stream before are counted. None is missed.

use std::sync::Arc;

use crate::explore;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread;

/// The actions after the driver call of a thread that uses the memory on its home stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// The crate's order.
    Right,
    /// Reads the flag before it numbers the use.
    LooksFirst,
    /// Records the use only if there is a record already.
    TakesWhatIsKnown,
}

/// The recorded uses: how far the home stream is counted, and uses beyond.
struct Uses {
    counted: u64,
    recorded: Vec<u64>,
}

macro_rules! model {
    ($core:ident, $habit:expr) => {{
        struct Memory {
            shared: crate::$core::Shared<Uses>,
            /// Driver calls on the home stream that have returned, and the newest number.
            calls: AtomicU64,
            sequence: AtomicU64,
        }

        impl Memory {
            /// As `Allocation::shared_uses`: an event that is recorded right after the number was
            /// read covers all driver calls that have returned.
            fn first(&self) -> Uses {
                let number = self.sequence.load(Ordering::SeqCst);
                let covered = self.calls.load(Ordering::SeqCst);
                assert!(number <= covered, "a number was given before the call returned");
                Uses { counted: number, recorded: Vec::new() }
            }

            /// Makes a use on the home stream and returns its number.
            fn use_at_home(&self) -> u64 {
                self.calls.fetch_add(1, Ordering::SeqCst);
                let early = self.shared.is_raised();
                let number = self.sequence.fetch_add(1, Ordering::SeqCst) + 1;
                let raised = match $habit {
                    Habit::LooksFirst => early,
                    _ => self.shared.is_raised(),
                };
                if raised {
                    let uses = match $habit {
                        Habit::TakesWhatIsKnown => self.shared.known().ok().flatten(),
                        _ => self.shared.raise(|| self.first()).ok(),
                    };
                    if let Some(mut uses) = uses {
                        uses.recorded.push(number);
                    }
                }
                number
            }
        }

        let memory = Arc::new(Memory {
            shared: crate::$core::Shared::new(false),
            calls: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
        });
        let at_home: Vec<_> = (0..2)
            .map(|_| {
                let memory = memory.clone();
                thread::spawn(move || [memory.use_at_home(), memory.use_at_home()])
            })
            .collect();
        let elsewhere: Vec<_> = (0..2)
            .map(|_| {
                let memory = memory.clone();
                thread::spawn(move || drop(memory.shared.raise(|| memory.first())))
            })
            .collect();
        for thread in elsewhere {
            thread.join().expect("it does not panic");
        }
        let numbers: Vec<u64> =
            at_home.into_iter().flat_map(|thread| thread.join().expect("nor this one")).collect();
        let uses = memory.shared.known().ok().flatten().expect("two streams have used it");
        for number in numbers {
            let counted = number <= uses.counted || uses.recorded.contains(&number);
            assert!(counted, "use {number} is missed");
        }
    }};
}

const ORDERS: usize = 5000;

pub fn no_use_is_missed() {
    explore(ORDERS, || model!(shared, Habit::Right));
}

pub fn no_use_is_missed_counting_first() {
    explore(ORDERS, || model!(shared_counts_first, Habit::Right));
}

pub fn no_use_is_missed_looking_first() {
    explore(ORDERS, || model!(shared, Habit::LooksFirst));
}

pub fn no_use_is_missed_taking_what_is_known() {
    explore(ORDERS, || model!(shared, Habit::TakesWhatIsKnown));
}
