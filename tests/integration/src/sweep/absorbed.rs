//! Calls whose failure no error reports, each with its reason. Everything else about such a run is judged
//! as always: no panic, nothing left, no touch of freed memory.

use super::fault::Fault;

/// The codes that an entry is about.
#[derive(PartialEq, Eq)]
enum Codes {
    All,
    OutOfMemory,
}
use Codes::{All, OutOfMemory};

/// Reasons that several entries have.
const PANIC: &str = "a closure has panicked, and that is what its caller hears of";
const FAILED_PASS: &str = "the pass had failed before, and its caller gets the first error";
const RAW: &str = "the test calls it itself, in a drop";

/// The calls, the codes, how the names of the tests begin, and why.
const ABSORBED: [(&[&str], Codes, &str, &str); 12] = [
    (&["cuMemAllocFromPoolAsync"], OutOfMemory, "", "the pool is trimmed and asked again"),
    (
        &["cuEventQuery"],
        All,
        "futures::",
        "the thread that asks for tasks wakes this one, which asks itself",
    ),
    (
        &["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"],
        All,
        "order::more_readers_than_are_kept",
        "the list of readers stays one longer: nothing is lost",
    ),
    (
        &["cuStreamGetCaptureInfo_v3", "cuStreamEndCapture", "cuGraphDestroy"],
        All,
        "graphs::panics",
        PANIC,
    ),
    (&["cuStreamEndCapture"], All, "soundness::a_body_that_panics", PANIC),
    (&["cuStreamEndCapture", "cuGraphDestroy"], All, "several::closures_that_fail", PANIC),
    (
        &["cuEventRecord", "cuEventSynchronize", "cuMemcpyDtoHAsync_v2"],
        All,
        "tape::specs::another_abi_is_told",
        FAILED_PASS,
    ),
    (
        &[
            "cuEventCreate",
            "cuEventRecord",
            "cuEventSynchronize",
            "cuMemHostRegister_v2",
            "cuMemcpyDtoHAsync_v2",
        ],
        All,
        "gradients::queries::grids_that_change",
        FAILED_PASS,
    ),
    (
        &["cuMemPoolDestroy", "cuCtxPopCurrent_v2"],
        All,
        "foreign::context_dropped",
        "it is kept for who asks the context, whose last handle is gone",
    ),
    (&["cuCtxDestroy_v2"], All, "", RAW),
    (&["cuStreamDestroy_v2"], All, "foreign::", RAW),
    (
        &[
            "cuDevicePrimaryCtxGetState",
            "cuDevicePrimaryCtxRetain",
            "cuDevicePrimaryCtxRelease_v2",
            "cuCtxGetId",
        ],
        All,
        "lent::streams_that_are_refused",
        "they find out why a destroyed stream is invalid, and the caller has that error in any case",
    ),
];

/// How the names of tests begin or end that are not swept, and why.
const NOT_SWEPT: [(&str, &str); 3] = [
    ("golden::bits::", "they call what others call, many times each, and only compare bits"),
    (
        "foreign::streams_given_away",
        "what is given away retains its context, and that its pool, for ever: each run leaves one",
    ),
    (
        "::a_build_that_fails_at_any_launch_leaves_no_answers",
        "they have a driver of their own, whose launches fail one by one, and its context is kept",
    ),
];

/// Whether a test can be swept.
pub(super) fn can_be_swept(test: &str) -> bool {
    NOT_SWEPT.iter().all(|(name, _)| !test.ends_with(name) && !test.starts_with(name))
}

/// How many calls of tests may fail without a word.
pub(super) fn entries() -> usize {
    ABSORBED.iter().map(|(calls, ..)| calls.len()).sum()
}

/// Returns whether no error is required.
pub(super) fn absorbed(test: &str, fault: &Fault) -> bool {
    ABSORBED.iter().any(|(calls, codes, tests, _)| {
        calls.contains(&fault.name)
            && (*codes == All || fault.out_of_memory)
            && test.starts_with(tests)
    })
}
