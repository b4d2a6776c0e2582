//! The helpers that helps with copies: no helper runs the lent closure once its owner goes on, and no helper sleeps for
//! ever, whichever thread changes the number of helpers meanwhile.

use std::sync::Arc;

use crate::explore;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread;

macro_rules! model {
    ($core:ident) => {{
        let helpers = Arc::new(crate::$core::Helpers::default());
        helpers.set_threads(3);
        let late = Arc::new(AtomicBool::new(false));
        let copies: Vec<_> = (0..2)
            .map(|_| {
                let (helpers, late) = (helpers.clone(), late.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let Some(claim) = helpers.claim() else { continue };
                        let over = Arc::new(AtomicBool::new(false));
                        let (seen, late) = (over.clone(), late.clone());
                        // Leaked, since a helpers with a mistake goes on running it.
                        let work: &'static (dyn Fn() + Sync) = Box::leak(Box::new(move || {
                            for _ in 0..2 {
                                if seen.load(Ordering::SeqCst) {
                                    late.store(true, Ordering::SeqCst);
                                }
                            }
                        }));
                        claim.run(3, work);
                        over.store(true, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let fewer = helpers.clone();
        let fewer = thread::spawn(move || fewer.set_threads(2));
        for thread in copies {
            thread.join().expect("it does not panic");
        }
        fewer.join().expect("nor this one");
        // Waits for the helpers: a helper that is never woken would be found here.
        helpers.dismiss();
        assert_eq!(helpers.helpers(), 0);
        assert!(!late.load(Ordering::SeqCst), "a helper ran what its owner had taken back");
    }};
}

const ORDERS: usize = 3000;

pub fn lent_work_is_taken_back() {
    explore(ORDERS, || model!(helpers));
}

pub fn lent_work_is_taken_back_without_waiting() {
    explore(ORDERS, || model!(helpers_leaves_early));
}

pub fn lent_work_is_taken_back_telling_nobody() {
    explore(ORDERS, || model!(helpers_tells_nobody));
}

pub fn lent_work_is_taken_back_joining_late() {
    explore(ORDERS, || model!(helpers_joins_late));
}
