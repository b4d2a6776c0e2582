//! The deferred-free list: a resource dropped into it is reused or freed, once, and freed only after a wait for the
//! device that came after the drop.

use std::sync::Arc;

use crate::explore;
use crate::sync::{Mutex, PoisonError, thread};

macro_rules! model {
    ($core:ident) => {{
        #[derive(Default)]
        struct Context {
            deferred_list: crate::$core::DeferredList<u32>,
            /// The resources that the device still uses.
            in_use: Mutex<Vec<u32>>,
            /// The resources returned by the deferred_list.
            back: Mutex<Vec<u32>>,
        }

        impl Context {
            fn drop_into(&self, item: u32) {
                self.in_use.lock().unwrap_or_else(PoisonError::into_inner).push(item);
                self.deferred_list.put(item);
            }

            /// For reuse by later work of the device, without a wait.
            fn take(&self, wanted: impl Fn(&u32) -> bool) {
                let taken = self.deferred_list.take(&wanted);
                assert!(taken.as_ref().is_none_or(wanted), "{taken:?} was not wanted");
                self.back.lock().unwrap_or_else(PoisonError::into_inner).extend(taken);
            }

            /// As `DeferredFrees::empty`, whose wait fails if `fails`.
            fn empty(&self, fails: bool) {
                let taken = self.deferred_list.take_all(|_| {
                    if fails {
                        return Err(());
                    }
                    self.in_use.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    Ok(())
                });
                for item in taken.unwrap_or_default() {
                    let in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
                    assert!(!in_use.contains(&item), "{item} is freed while in use");
                    drop(in_use);
                    self.back.lock().unwrap_or_else(PoisonError::into_inner).push(item);
                }
            }
        }

        let context = Arc::new(Context::default());
        let mut threads = Vec::new();
        for first in [0, 2] {
            let context = context.clone();
            threads.push(thread::spawn(move || {
                context.drop_into(first);
                context.drop_into(first + 1);
                context.take(|item| item % 2 == 0);
            }));
        }
        for fails in [true, false] {
            let context = context.clone();
            threads.push(thread::spawn(move || context.empty(fails)));
        }
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        context.empty(false);
        assert_eq!(context.deferred_list.len(), 0);
        let mut back = context.back.lock().unwrap_or_else(PoisonError::into_inner).clone();
        back.sort_unstable();
        assert_eq!(back, [0, 1, 2, 3], "each once");
    }};
}

const ORDERS: usize = 5000;

pub fn nothing_is_lost_or_freed_in_use() {
    explore(ORDERS, || model!(deferred_list));
}

pub fn nothing_is_lost_or_freed_in_use_waiting_first() {
    explore(ORDERS, || model!(list_waits_first));
}

pub fn nothing_is_lost_or_freed_in_use_taking_in_two_steps() {
    explore(ORDERS, || model!(list_takes_in_two_steps));
}
