//! What calls of `lend` leave for later ones: each stream goes to one call at a time, and none is lost.

use std::sync::Arc;

use crate::explore;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, PoisonError, thread};

macro_rules! model {
    ($core:ident) => {{
        struct Streams {
            /// Numbers of streams. What was taken is leaked: a mutant gives it to two threads.
            last: crate::$core::Slot<usize>,
            /// As the list of known streams: what was not left last.
            aside: Mutex<Vec<usize>>,
            in_call: [AtomicBool; 2],
        }

        impl Streams {
            fn take(&self) -> Option<usize> {
                self.last.take().map(|last| *Box::leak(last))
            }

            fn leave(&self, id: usize) {
                let other = self.last.leave(Box::new(id)).map(|other| *Box::leak(other));
                self.aside.lock().unwrap_or_else(PoisonError::into_inner).extend(other);
            }

            /// As `LentStreams::find`, but for streams that another call has.
            fn find(&self, id: usize) -> bool {
                let last = self.take();
                if last == Some(id) {
                    return true;
                }
                let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
                aside.extend(last);
                let position = aside.iter().position(|known| *known == id);
                position.map(|position| aside.swap_remove(position)).is_some()
            }

            fn call(&self, id: usize) {
                if self.find(id) {
                    let others = self.in_call[id].swap(true, Ordering::SeqCst);
                    assert!(!others, "two calls have stream {id}");
                    self.in_call[id].store(false, Ordering::SeqCst);
                    self.leave(id);
                }
            }
        }

        let streams = Arc::new(Streams {
            last: Default::default(),
            aside: Mutex::new(vec![0]),
            in_call: Default::default(),
        });
        streams.leave(1);
        let calls = [[0, 1], [1, 0], [0, 0]].map(|ids| {
            let streams = streams.clone();
            thread::spawn(move || ids.into_iter().for_each(|id| streams.call(id)))
        });
        for call in calls {
            call.join().expect("it does not panic");
        }
        let mut left = streams.aside.lock().unwrap_or_else(PoisonError::into_inner).clone();
        left.extend(streams.take());
        left.sort_unstable();
        assert_eq!(left, [0, 1], "streams that were left");
    }};
}

const ORDERS: usize = 5000;

pub fn each_stream_is_left_to_one_call() {
    explore(ORDERS, || model!(lent_slot));
}

pub fn each_stream_is_left_to_one_call_taking_in_two_steps() {
    explore(ORDERS, || model!(slot_takes_in_two_steps));
}

pub fn each_stream_is_left_to_one_call_overwriting() {
    explore(ORDERS, || model!(slot_forgets_what_was_left));
}
