//! The helpers without a driver.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Helpers;

#[test]
fn everybody_works_at_the_same_time() {
    let helpers = Helpers::default();
    helpers.set_threads(4);
    for _ in 0..100 {
        // The barrier holds every thread until all have arrived.
        let (barrier, came) = (Barrier::new(4), AtomicUsize::new(0));
        let work = || {
            if came.fetch_add(1, Ordering::Relaxed) < 4 {
                barrier.wait();
            }
        };
        let claim = helpers.claim();
        claim.as_ref().expect("nobody else uses it").run(4, &work);
        assert_eq!(came.load(Ordering::Relaxed), 4);
    }
    assert_eq!(helpers.helpers(), 3);
}

#[test]
fn borrowed_work_is_over_when_run_returns() {
    let helpers = Helpers::default();
    helpers.set_threads(8);
    for round in 0..1000 {
        let inside = AtomicUsize::new(0);
        let work = || {
            inside.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::Relaxed);
        };
        helpers.claim().expect("nobody else uses it").run(2 + round % 7, &work);
        assert_eq!(inside.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_panic_waits_for_the_helpers_and_leaves_the_crew_usable() {
    let helpers = Helpers::default();
    helpers.set_threads(3);
    let caller = std::thread::current().id();
    let (barrier, left) = (Barrier::new(3), AtomicUsize::new(0));
    let work = || {
        barrier.wait();
        if std::thread::current().id() == caller {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        left.fetch_add(1, Ordering::Relaxed);
        // Helpers that panic are there again for the next job.
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    let run = || helpers.claim().expect("nobody else uses it").run(3, &work);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    assert_eq!(left.load(Ordering::Relaxed), 2);
    let barrier = Barrier::new(3);
    helpers.claim().expect("given back by unwinding").run(3, &|| {
        barrier.wait();
    });
    assert_eq!(helpers.helpers(), 2);
}

#[test]
fn one_claim_at_a_time_and_none_when_switched_off() {
    let helpers = Helpers::default();
    helpers.set_threads(2);
    let claim = helpers.claim();
    assert!(claim.is_some() && helpers.claim().is_none());
    drop(claim);
    for off in [0, 1] {
        helpers.set_threads(off);
        assert_eq!(helpers.threads(), 1);
        assert!(helpers.claim().is_none());
    }
    helpers.set_threads(usize::MAX);
    assert_eq!(helpers.threads(), super::MOST_THREADS);
}

#[test]
fn helpers_end_when_too_many_or_dismissed() {
    let helpers = Helpers::default();
    helpers.set_threads(5);
    helpers.claim().expect("nobody else uses it").run(5, &|| ());
    assert_eq!(helpers.helpers(), 4);
    helpers.set_threads(2);
    while helpers.helpers() > 1 {
        std::thread::yield_now();
    }
    helpers.dismiss();
    assert_eq!(helpers.helpers(), 0);
    helpers.claim().expect("nobody else uses it").run(2, &|| ());
    assert_eq!(helpers.helpers(), 1);
    let shared = helpers.shared.clone();
    drop(helpers);
    while shared.helpers.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
}
