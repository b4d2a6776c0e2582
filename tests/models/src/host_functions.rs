//! Host functions: called from any thread, taken out at any time, by their own calls too.

use std::sync::Arc;

use crate::explore;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::thread;

macro_rules! model {
    ($core:ident) => {{
        use crate::$core::{Entry, Slab};

        let slab = Arc::new(Slab::new());

        // A function that stays, called by two threads, removes itself in its first call.
        let (calls, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let overlap = Arc::new(AtomicBool::new(false));
        let me = Arc::new(AtomicU64::new(0));
        let repeated = slab.insert(Entry::repeated(Box::new({
            let (calls, inside, overlap) = (calls.clone(), inside.clone(), overlap.clone());
            let (slab, me) = (slab.clone(), me.clone());
            move || {
                if inside.fetch_add(1, Ordering::SeqCst) > 0 {
                    overlap.store(true, Ordering::SeqCst);
                }
                calls.fetch_add(1, Ordering::SeqCst);
                slab.remove(me.load(Ordering::SeqCst));
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        })));
        me.store(repeated, Ordering::SeqCst);

        // A function that runs once, though two threads call it; and each thread adds another one.
        let once = Arc::new(AtomicUsize::new(0));
        let counter = once.clone();
        let only_once = slab.insert(Entry::Once(Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        })));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let slab = slab.clone();
                thread::spawn(move || {
                    let mine = Arc::new(AtomicUsize::new(0));
                    let counter = mine.clone();
                    let number = slab.insert(Entry::repeated(Box::new(move || {
                        counter.fetch_add(1, Ordering::SeqCst);
                    })));
                    slab.call(repeated);
                    slab.call(only_once);
                    slab.call(number);
                    assert_eq!(mine.load(Ordering::SeqCst), 1, "calls of a function of its own");
                    slab.remove(number);
                    assert_eq!(Arc::strong_count(&mine), 1, "what it captured is gone");
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        let calls_made = calls.load(Ordering::SeqCst);
        assert!((1..=2).contains(&calls_made), "{calls_made} calls");
        assert!(!overlap.load(Ordering::SeqCst), "two calls at the same time");
        assert_eq!(once.load(Ordering::SeqCst), 1, "calls of what runs once");
        assert_eq!(Arc::strong_count(&calls), 1, "what the function captured is gone");
        assert_eq!(Arc::strong_count(&once), 1, "what the function captured is gone");
        let mut numbers = vec![repeated, only_once];
        slab.retain_known(&mut numbers);
        assert!(numbers.is_empty(), "{numbers:?} are still known");
    }};
}

const ORDERS: usize = 5000;

pub fn functions_are_called_and_dropped() {
    explore(ORDERS, || model!(slab));
}

pub fn functions_are_called_and_dropped_numbering_in_two_steps() {
    explore(ORDERS, || model!(slab_numbers_in_two_steps));
}

pub fn functions_are_called_and_dropped_under_the_lock() {
    explore(ORDERS, || model!(slab_calls_under_its_lock));
}
