//! The effects of the configuration: devices, memory, failures, the call log, the ledger.

use std::ptr;

use cuda_emu::{Config, Ledger, ledger};
use cuda_sys::{CUdevice_attribute, CUresult};

mod common;
use common::{allocate, call, context, event, fails, ok, stream, words};

/// One test: a process has one configuration.
#[test]
fn two_small_devices_of_another_kind_that_fail_and_tell() {
    let log = std::env::temp_dir().join(format!("cuda-emu-{}.log", std::process::id()));
    let config = Config::new()
        .devices(2)
        .compute_capability(8, 6)
        .multiprocessors(3)
        .memory(1 << 20)
        .workers(1)
        .fail("cuEventCreate", 2, CUresult::CUDA_ERROR_OUT_OF_MEMORY)
        .fail("cuMemAlloc", 3, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
        .log(&log);
    assert_eq!(ledger(), Ledger::default());
    assert!(config.install());
    let first = context();
    assert!(!Config::new().install(), "too late");

    let (mut count, mut value) = (0, 0);
    ok!(cuDeviceGetCount(&raw mut count));
    assert_eq!(count, 2);
    let major = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    ok!(cuDeviceGetAttribute(&raw mut value, major, 1));
    assert_eq!(value, 8);
    let multiprocessors = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    ok!(cuDeviceGetAttribute(&raw mut value, multiprocessors, 1));
    assert_eq!(value, 3);
    fails!(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&raw mut value, major, 2));
    let mut name = [0_u8; 100];
    ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 100, 0));
    assert!(String::from_utf8_lossy(&name).contains("software"));

    let alive = event();
    let mut failed = ptr::null_mut();
    fails!(CUDA_ERROR_OUT_OF_MEMORY, cuEventCreate(&raw mut failed, 0));
    assert!(failed.is_null());
    ok!(cuEventCreate(&raw mut failed, 0));

    // Device 0 is full with the first; the other device has its own memory.
    let here = allocate(1 << 20);
    let mut none = 0;
    fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&raw mut none, 1));
    fails!(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&raw mut none, 1));
    let mut second = ptr::null_mut();
    ok!(cuDevicePrimaryCtxRetain(&raw mut second, 1));
    ok!(cuCtxSetCurrent(second));
    let there = allocate(1000);
    ok!(cuCtxEnablePeerAccess(first, 0));
    fails!(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(first, 0));
    ok!(cuMemsetD32_v2(there, 6, 250));
    ok!(cuMemcpyPeer(here, first, there, second, 1000));
    ok!(cuCtxSynchronize());
    ok!(cuCtxSetCurrent(first));
    assert_eq!(words(here, 250), [6; 250]);

    let stream = stream(0);
    let all = ledger();
    assert_eq!((all.contexts, all.streams, all.events), (2, 1, 2));
    assert_eq!(all.device_memory, (2, (1 << 20) + 1000));
    ok!(cuStreamDestroy_v2(stream));
    ok!(cuEventDestroy_v2(alive));
    ok!(cuEventDestroy_v2(failed));
    ok!(cuMemFree_v2(here));
    ok!(cuDevicePrimaryCtxRelease_v2(1));
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(ledger(), Ledger::default(), "a context takes its memory with it");
    assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), CUresult::CUDA_ERROR_INVALID_CONTEXT);

    let text = std::fs::read_to_string(&log).expect("a log");
    std::fs::remove_file(&log).expect("it was there");
    let failed = text.lines().filter(|line| line.ends_with("-> 2 CUDA_ERROR_OUT_OF_MEMORY"));
    assert_eq!(failed.count(), 2);
    assert!(text.contains("cuMemAlloc_v2(address=0x"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("ThreadId(")));
}
