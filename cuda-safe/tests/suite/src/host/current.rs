//! Which context is current on the calling thread is nobody's business but the caller's.

use std::cell::RefCell;

use cuda_safe::sys::{CUcontext, CUresult, noop};

use super::scenarios::{ALL, Steps};
use test_harness::lab::Lab;
use test_harness::table::Behaviour;
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "current",
        host(none = || unchanged(None)),
        host(foreign = || unchanged(Some(foreign()))),
        host(on_a_thread_without_any),
    ]
}

/// A context that nobody but the test knows.
fn foreign() -> CUcontext {
    std::ptr::without_provenance_mut(0xf0f0)
}

fn current() -> Result<CUcontext, Failure> {
    let mut context = std::ptr::null_mut();
    // SAFETY: `context` is a valid place for a handle.
    let code = unsafe { noop::driver().cuCtxGetCurrent(&raw mut context) }?;
    ensure_eq!(code, CUresult::CUDA_SUCCESS);
    Ok(context)
}

fn unchanged(before: Option<CUcontext>) -> TestResult {
    if let Some(context) = before {
        // SAFETY: the no-op driver takes any handle that is not null.
        let code = unsafe { noop::driver().cuCtxPushCurrent_v2(context) }?;
        ensure_eq!(code, CUresult::CUDA_SUCCESS);
    }
    let wanted = before.unwrap_or(std::ptr::null_mut());
    for pools in [true, false] {
        for (name, scenario) in ALL {
            let lab = Lab::with(Behaviour { pools, ..Behaviour::default() }, &[])?;
            ensure_eq!(current()?, wanted, "after making the context");
            let steps = RefCell::new(0);
            let changed = RefCell::new(Vec::new());
            let after = || {
                *steps.borrow_mut() += 1;
                if current().ok() != Some(wanted) {
                    changed.borrow_mut().push(*steps.borrow());
                }
            };
            scenario(&Steps { context: &lab.context, after: &after })
                .map_err(|error| Failure::new(format!("{name}: {error}")))?;
            ensure!(*steps.borrow() > 1, "{name} has no steps");
            ensure!(changed.borrow().is_empty(), "{name}: after the steps {:?}", changed.borrow());
            lab.close()?;
            ensure_eq!(current()?, wanted, "after closing the context");
        }
    }
    if before.is_some() {
        let mut popped = std::ptr::null_mut();
        // SAFETY: `popped` is a valid place for a handle.
        let code = unsafe { noop::driver().cuCtxPopCurrent_v2(&raw mut popped) }?;
        ensure_eq!((code, popped), (CUresult::CUDA_SUCCESS, wanted));
    }
    Ok(())
}

/// A context works on a thread that has never seen it.
fn on_a_thread_without_any() -> TestResult {
    let lab = Lab::new()?;
    let (context, recorder) = (&lab.context, &lab.recorder);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _installed = recorder.install();
            for (name, scenario) in ALL {
                scenario(&Steps { context, after: &|| () })
                    .map_err(|error| Failure::new(format!("{name}: {error}")))?;
            }
            ensure_eq!(current()?, std::ptr::null_mut());
            Ok(())
        });
        worker.join().map_err(|_| Failure::new("the thread panicked"))?
    })?;
    lab.close()
}
