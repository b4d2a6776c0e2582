//! Versions of memory: no write that one thread enqueues is missed because another thread reports one meanwhile.

use std::sync::Arc;

use crate::explore;
use crate::sync::thread;

const BYTES: usize = 100;

macro_rules! model {
    ($core:ident) => {{
        use crate::$core::{Versions, number_writes};

        let versions = Arc::new(Versions::default());
        let reports = versions.clone();
        let reporter = thread::spawn(move || {
            reports.note(0..40, BYTES);
            reports.note(0..BYTES, BYTES);
        });
        // Work has the memory alone, or the graph lock: its writes come one after the other.
        for range in [0..BYTES, 60..BYTES, 0..BYTES] {
            let version = number_writes(1);
            versions.raise(range.clone(), BYTES, version);
            for part in [range, 60..BYTES, 99..BYTES] {
                assert!(versions.of(part.clone()) >= version, "the write of {part:?} is missed");
            }
        }
        reporter.join().expect("it does not panic");
        let before = number_writes(1);
        versions.note(10..20, BYTES);
        assert!(versions.of(10..11) > before, "the report is missed");
        assert!(versions.of(50..60) < before, "nothing was written there");
    }};
}

const ORDERS: usize = 5000;

pub fn no_write_is_missed() {
    explore(ORDERS, || model!(versions));
}

pub fn no_write_is_missed_reporting_as_work() {
    explore(ORDERS, || model!(versions_note_as_work));
}
