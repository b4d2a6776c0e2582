//! A kernel that fails takes the device from the process.

use core::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::CUresult;

mod common;
use common::{context, event, fails, function, launch, module, ok, stream};

static CALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn called(_: *mut c_void) {
    CALLED.store(true, Ordering::SeqCst);
}

/// One test: there is one process, and it loses its device once.
#[test]
fn after_a_trap_every_call_answers_with_it() {
    let primary = context();
    let mut other = ptr::null_mut();
    ok!(cuCtxCreate_v2(&raw mut other, 0, 0));
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    let (stream, event, module) = (stream(1), event(), module());
    let trap = function(module, "trap");
    assert!(cuda_emu::fault_report().is_none());
    assert_eq!(launch(trap, stream, &mut []), CUresult::CUDA_SUCCESS, "faults come later");
    // The fault may be there before this is enqueued; it must not be called either way.
    // SAFETY: the function takes no data.
    let enqueued =
        unsafe { common::driver().cuLaunchHostFunc(stream, Some(called), ptr::null_mut()) };
    assert!(enqueued.is_ok());
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
    let report = cuda_emu::fault_report().expect("a report");
    assert!(report.contains("trap"), "{report}");

    let (mut address, mut new, mut count) = (0, ptr::null_mut(), 0);
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2(&raw mut address, 8));
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuEventRecord(event, stream));
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuEventQuery(event));
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuStreamDestroy_v2(stream));
    ok!(cuCtxPushCurrent_v2(other));
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2(&raw mut address, 8));
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain(&raw mut new, 0));
    ok!(cuDeviceGetCount(&raw mut count));
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    ok!(cuDevicePrimaryCtxReset_v2(0));
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain(&raw mut new, 0));
    assert!(!primary.is_null());
    assert!(!CALLED.load(Ordering::SeqCst));
}
