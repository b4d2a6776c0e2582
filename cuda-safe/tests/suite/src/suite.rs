//! What the harness must know of these tests.

use test_harness::schedules::Schedules;
use test_harness::{Absorbed, Codes, Suite};

use crate::{compile, device, fault, host, seeds};

/// Reasons that several entries have.
const PANIC: &str = "a closure has panicked, and that is what its caller hears of";

/// The tests of `cuda-safe`.
#[must_use]
pub fn suite() -> Suite {
    let mut cases = device::cases();
    let schedules = Schedules { apart: &APART, ..Schedules::of(&cases) };
    cases.extend(host::cases());
    cases.extend(compile::cases());
    cases.extend(fault::cases());
    cases.extend(seeds::cases());
    Suite {
        planted: device::planted(),
        commands: vec![compile::command],
        slow: SLOW.to_vec(),
        absorbed: ABSORBED.to_vec(),
        not_swept: vec![(
            "foreign::streams_given_away",
            "what is given away retains its context, and that its pool, for ever: each run leaves one",
        )],
        schedules: vec![schedules],
        ..Suite::new("-p cuda-safe --test suite", cases)
    }
}

const APART: [(&str, &str); 2] = [
    ("events::time_is_plausible", "measures how long a kernel takes"),
    ("unified::others_are_not_waited_for", "wants a long kernel to be under way still"),
];

/// Tests that took more than 0.9 s without a fault, on one core of an AMD EPYC on 2026-11-28.
const SLOW: [&str; 6] = [
    "guarded::later_uses_are_refused_after_a_second",
    "kernels::blocks_that_meet",
    "ports::conjugate_gradient",
    "several::copies_of_every_size",
    "unified::dropped_while_in_use",
    "unified::others_are_not_waited_for",
];

const ABSORBED: [Absorbed; 8] = [
    Absorbed {
        calls: &["cuEventQuery"],
        codes: Codes::All,
        tests: "futures::",
        why: "the thread that asks for tasks wakes this one, which asks itself",
    },
    Absorbed {
        calls: &["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"],
        codes: Codes::All,
        tests: "order::more_readers_than_are_kept",
        why: "the list of readers stays one longer: nothing is lost",
    },
    Absorbed {
        calls: &["cuStreamGetCaptureInfo_v3", "cuStreamEndCapture", "cuGraphDestroy"],
        codes: Codes::All,
        tests: "graphs::panics",
        why: PANIC,
    },
    Absorbed {
        calls: &["cuStreamEndCapture"],
        codes: Codes::All,
        tests: "soundness::a_body_that_panics",
        why: PANIC,
    },
    Absorbed {
        calls: &["cuStreamEndCapture", "cuGraphDestroy"],
        codes: Codes::All,
        tests: "several::closures_that_fail",
        why: PANIC,
    },
    Absorbed {
        calls: &["cuMemPoolDestroy", "cuCtxPopCurrent_v2"],
        codes: Codes::All,
        tests: "foreign::context_dropped",
        why: "the context keeps it for a caller, and its last handle is gone",
    },
    Absorbed {
        calls: &["cuStreamDestroy_v2"],
        codes: Codes::All,
        tests: "foreign::",
        why: "the test calls it itself, in a drop",
    },
    Absorbed {
        calls: &[
            "cuDevicePrimaryCtxGetState",
            "cuDevicePrimaryCtxRetain",
            "cuDevicePrimaryCtxRelease_v2",
            "cuCtxGetId",
        ],
        codes: Codes::All,
        tests: "lent::streams_that_are_refused",
        why: "they find out why a destroyed stream is invalid, and the caller has that error in any case",
    },
];
