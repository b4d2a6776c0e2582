//! Profiles of devices and the report of a run, through the driver. Each test has a process of its own.

mod common;

use std::ffi::c_int;

use cuda_emu::{Config, Profile, RunReport, run_report};
use cuda_sys::CUdevice_attribute as A;

use common::{allocate, apart, call, context, fails, fill, function, launch, module, ok};

fn attribute(which: A) -> c_int {
    let mut value = -1;
    ok!(cuDeviceGetAttribute(&raw mut value, which, 0));
    value
}

/// The limits that the CUDA C++ Programming Guide states of a compute capability: threads and blocks of a multiprocessor,
/// KiB of its shared memory, of a block's at most, and bytes of the system's in each block.
fn check(profile: Profile, cc: (c_int, c_int), multiprocessors: c_int, limits: [c_int; 5]) {
    assert!(Config::new().device(profile).install());
    context();
    let [threads, blocks, shared, optin, reserved] = limits;
    for (which, wanted) in [
        (A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cc.0),
        (A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, cc.1),
        (A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, multiprocessors),
        (A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, threads),
        (A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, blocks),
        (A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, shared << 10),
        (A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, optin << 10),
        (A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10),
        (A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, reserved),
        (A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65_536),
        (A::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
    ] {
        assert_eq!(attribute(which), wanted, "{profile:?}: {which:?}");
    }
    assert!(attribute(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE) > 1_000_000);
    let mut bytes = 0;
    ok!(cuDeviceTotalMem_v2(&raw mut bytes, 0));
    assert!(bytes as u64 <= profile.memory());
    // Occupancy follows: small blocks fill the block slots, large ones the threads, and shared memory divides.
    let nothing = function(module(), "nothing");
    let resident = |threads, dynamic| {
        let mut blocks = -1;
        ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &raw mut blocks,
            nothing,
            threads,
            dynamic
        ));
        blocks
    };
    assert_eq!(resident(32, 0), blocks);
    assert_eq!(resident(512, 0), threads / 512);
    assert_eq!(resident(32, 30 << 10), (shared << 10) / ((30 << 10) + reserved));
    let opt_in = cuda_sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    fails!(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(nothing, opt_in, (optin << 10) + 1));
    ok!(cuFuncSetAttribute(nothing, opt_in, optin << 10));
    assert_eq!(resident(32, (optin << 10) as usize), 1);
}

#[test]
fn an_h200() {
    apart!(an_h200);
    check(Profile::H200, (9, 0), 132, [2048, 32, 228, 227, 1024]);
}

#[test]
fn an_h100() {
    apart!(an_h100);
    check(Profile::H100, (9, 0), 132, [2048, 32, 228, 227, 1024]);
}

#[test]
fn an_a100() {
    apart!(an_a100);
    check(Profile::A100, (8, 0), 108, [2048, 32, 164, 163, 1024]);
}

#[test]
fn an_l4() {
    apart!(an_l4);
    check(Profile::L4, (8, 9), 58, [1536, 24, 100, 99, 1024]);
}

#[test]
fn a_t4() {
    apart!(a_t4);
    check(Profile::T4, (7, 5), 40, [1024, 16, 64, 64, 0]);
}

#[test]
fn an_rtx_4090() {
    apart!(an_rtx_4090);
    check(Profile::Rtx4090, (8, 9), 128, [1536, 24, 100, 99, 1024]);
}

#[test]
fn later_settings_change_a_profile() {
    apart!(later_settings_change_a_profile);
    let config = Config::new().device(Profile::T4).multiprocessors(3).memory(1 << 20);
    assert!(config.compute_capability(8, 6).install());
    context();
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 3);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 8);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR), 16);
    let mut none = 0;
    fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&raw mut none, (1 << 20) + 1));
}

#[test]
fn a_process_returns_its_own_report() {
    apart!(a_process_returns_its_own_report);
    assert_eq!(run_report(), RunReport::default());
    assert!(Config::new().report(true).install());
    context();
    let module = module();
    let (fill_words, nothing) = (function(module, "fill"), function(module, "nothing"));
    let memory = allocate(4 * 100);
    for count in [0, 1, 100] {
        assert_eq!(fill(fill_words, std::ptr::null_mut(), memory, count, 7), common::SUCCESS);
    }
    assert_eq!(launch(nothing, std::ptr::null_mut(), &mut []), common::SUCCESS);
    ok!(cuCtxSynchronize());
    for _ in 0..3 {
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(memory + 1));
    }
    let report = run_report();
    let [fill, nothing] = &report.kernels[..] else { panic!("{:?}", report.kernels) };
    assert_eq!((fill.name.as_str(), fill.launches, fill.blocks, fill.threads), ("fill", 3, 3, 3));
    // 5 before the loop; in each iteration the comparison and 4 more; at its end the comparison, the branch and `ret`.
    assert_eq!(fill.instructions, 3 * (5 + 3) + 5 * 101);
    assert_eq!((fill.exact(), fill.approximate()), (fill.instructions, 0));
    assert_eq!((nothing.launches, nothing.instructions), (1, 1));
    let failed = ("cuMemFree_v2".to_owned(), "CUDA_ERROR_INVALID_VALUE".to_owned(), 3);
    assert_eq!(report.failed, [failed]);
    assert!(report.faults.is_empty() && report.findings.is_empty() && !report.traced);
    let shown = report.to_string();
    assert!(shown.contains("fill: 3 launches of 3 blocks and 3 threads"), "{shown}");
}

#[test]
fn nothing_is_recorded_unless_asked() {
    apart!(nothing_is_recorded_unless_asked);
    assert!(Config::new().install());
    context();
    let nothing = function(module(), "nothing");
    assert_eq!(launch(nothing, std::ptr::null_mut(), &mut []), common::SUCCESS);
    ok!(cuCtxSynchronize());
    assert_eq!(call!(cuMemFree_v2(1)), cuda_sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(run_report(), RunReport::default());
}
