//! Calls are counted while somebody watches, and one of them can be made to fail.

use core::ptr;

use cuda_emu::{Failure, Moment, ledger, watch};
use cuda_sys::CUresult;

mod common;
use common::{context, fails, ok};

fn failure(name: &str, nth: u64) -> Failure {
    Failure { name: name.to_owned(), nth, code: CUresult::CUDA_ERROR_OUT_OF_MEMORY }
}

/// One test: there is one watch in a process.
#[test]
fn a_watch_counts_and_fails_one_call() {
    context();
    let (mut one, mut two) = (0, 0);
    let before = ledger();
    let all = watch(None).expect("no other watch");
    assert!(watch(None).is_none(), "one at a time");
    ok!(cuMemAlloc_v2(&raw mut one, 64));
    ok!(cuMemFree_v2(one));
    assert_eq!(
        all.calls().into_iter().collect::<Vec<_>>(),
        [("cuMemAlloc_v2", 1), ("cuMemFree_v2", 1)]
    );
    assert!(!all.met());
    drop(all);

    // Counted from here on, by either name; and the call does nothing.
    let second =
        watch(Some((failure("cuMemAlloc", 2), Moment::Before))).expect("the first is gone");
    ok!(cuMemAlloc_v2(&raw mut one, 64));
    assert!(!second.met());
    fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&raw mut two, 64));
    assert!(second.met());
    assert_eq!(ledger().device_memory.0, before.device_memory.0 + 1);
    ok!(cuMemAlloc_v2(&raw mut two, 64));
    drop(second);

    // It works, and then fails.
    let late =
        watch(Some((failure("cuMemFree_v2", 1), Moment::After))).expect("the second is gone");
    fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemFree_v2(one));
    assert!(late.met());
    ok!(cuMemFree_v2(two));
    drop(late);
    assert_eq!(ledger(), before);

    // A call that fails by itself returns its own code.
    let wrong =
        watch(Some((failure("cuMemFree_v2", 1), Moment::After))).expect("the third is gone");
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(one));
    drop(wrong);

    // No watcher is set.
    ok!(cuMemAlloc_v2(&raw mut one, 64));
    ok!(cuMemFree_v2(one));
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
}
