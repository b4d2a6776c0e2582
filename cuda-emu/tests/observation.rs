//! While kernels are observed, their faults do not lose the device.

use std::ptr;

use cuda_emu::{Checks, Config, ObserveError, fault_report, observe};
use cuda_sys::CUresult;

mod common;
use common::{context, fails, function, launch, module, ok, stream};

/// One test: there is one observation in a process.
#[test]
fn faults_and_findings_of_observed_kernels_are_kept() {
    Config::new().check(Checks { race: true, init: true, leak: false }).install();
    context();
    let (stream, module) = (stream(1), module());
    let (fill, trap) = (function(module, "fill"), function(module, "trap"));
    let mut address = 0_u64;
    ok!(cuMemAlloc_v2(&raw mut address, 64));
    let write = |mut count: u32| {
        let (mut at, mut value) = (address, 7_u32);
        let mut arguments =
            [(&raw mut at).cast(), (&raw mut count).cast(), (&raw mut value).cast()];
        assert_eq!(launch(fill, stream, &mut arguments), CUresult::CUDA_SUCCESS);
        ok!(cuStreamSynchronize(stream));
    };

    // What was found before is not of the observation.
    let mut word = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
    let observation = observe().expect("the first");
    assert_eq!(observe().err(), Some(ObserveError::Busy));
    assert_eq!(observation.found(), [""; 0]);
    write(16);
    assert_eq!(observation.found(), [""; 0], "the last element is inside");
    write(17);
    let found = observation.found();
    assert!(found.len() == 1 && found[0].contains("ILLEGAL_ADDRESS"), "{found:?}");
    assert!(found[0].contains("in kernel fill"), "{found:?}");
    assert_eq!(launch(trap, stream, &mut []), CUresult::CUDA_SUCCESS);
    write(18);
    assert_eq!(observation.found().len(), 2);
    assert_eq!(observation.found(), [""; 0], "they are returned once");
    assert_eq!(fault_report(), None, "the device is not lost");
    ok!(cuMemFree_v2(address));
    ok!(cuMemAlloc_v2(&raw mut address, 64));
    ok!(cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
    let found = observation.found();
    assert!(found.len() == 1 && found[0].contains("nothing has written"), "{found:?}");
    drop(observation);

    drop(observe().expect("the first is gone"));
    assert_eq!(launch(trap, stream, &mut []), CUresult::CUDA_SUCCESS);
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
    assert!(fault_report().is_some(), "the device is lost");
    let mut none = ptr::null_mut();
    fails!(CUDA_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain(&raw mut none, 0));
}
