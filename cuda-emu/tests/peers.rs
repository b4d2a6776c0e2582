//! Memory of another device is a kernel's to use only when access to it is enabled.

use std::process::Command;
use std::ptr;

use cuda_sys::*;

mod common;
use common::*;

/// The child process: a kernel of device 0 writes memory of device 1.
#[test]
fn child() {
    let Some(what) = std::env::var_os("EMU_TEST_CHILD") else { return };
    let mine = context();
    let mut other = ptr::null_mut();
    ok!(cuDevicePrimaryCtxRetain(&raw mut other, 1));
    ok!(cuCtxSetCurrent(other));
    let mut target = 0;
    if what.to_string_lossy().starts_with("pool") {
        let (mut pool, theirs) = (ptr::null_mut(), stream(1));
        ok!(cuDeviceGetDefaultMemPool(&raw mut pool, 1));
        ok!(cuMemAllocAsync(&raw mut target, 16, theirs));
        ok!(cuStreamSynchronize(theirs));
        let mut access = CUmemAccessDesc::default();
        access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        access.flags = CUmemAccess_flags(if what == "pool, read" { 1 } else { 3 });
        if what != "pool" {
            ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
        }
    } else {
        target = allocate(16);
    }
    let theirs = stream(1);
    ok!(cuCtxSetCurrent(mine));
    if what == "enabled" || what == "graph, enabled" {
        ok!(cuCtxEnablePeerAccess(other, 0));
    }
    let (one, kernel) = (stream(1), function(module(), "fill"));
    if what.to_string_lossy().starts_with("graph") {
        // The graph begins, and is launched, on a stream of device 1.
        let joined = event();
        ok!(cuCtxSetCurrent(other));
        let begun = event();
        begin(theirs);
        ok!(cuEventRecord(begun, theirs));
        ok!(cuStreamWaitEvent(one, begun, 0));
        assert_eq!(fill(kernel, one, target, 4, 3), SUCCESS);
        ok!(cuEventRecord(joined, one));
        ok!(cuStreamWaitEvent(theirs, joined, 0));
        let exec = instantiate(end(theirs));
        ok!(cuGraphLaunch(exec, theirs));
        print_code(call!(cuStreamSynchronize(theirs)));
        return;
    }
    assert_eq!(fill(kernel, one, target, 4, 3), SUCCESS);
    print_code(call!(cuStreamSynchronize(one)));
}

/// Prints a code. After a fault it waits for the report, which another thread writes.
fn print_code(code: CUresult) {
    println!("code: {}", code.0);
    while code != SUCCESS && cuda_emu::fault_report().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn access_must_be_enabled() {
    let cases = [
        ("not", 700),
        ("enabled", 0),
        ("pool", 700),
        ("pool, read", 700),
        ("pool, write", 0),
        // A graph's kernel has the access of its own context, whatever stream the graph is launched on.
        ("graph", 700),
        ("graph, enabled", 0),
    ];
    for (what, code) in cases {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "child", "--nocapture"])
            .env("EMU_TEST_CHILD", what)
            .env("CUDA_EMU_DEVICES", "2")
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("code: {code}\n")), "{what}: {text}");
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = report.contains("device 0 has no access to") || report.contains("read-only");
        assert_eq!(told, code == 700, "{what}: {report}");
    }
}

/// Memory of the current context's pool.
fn pooled(stream: CUstream) -> CUdeviceptr {
    let mut start = 0;
    ok!(cuMemAllocAsync(&raw mut start, 16, stream));
    ok!(cuMemsetD32Async(start, 7, 4, stream));
    ok!(cuStreamSynchronize(stream));
    start
}

fn begin(stream: CUstream) {
    ok!(cuStreamBeginCapture_v2(stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED));
}

/// The child process: what two H100s did with captures of two contexts, driver 580.
#[test]
fn capturing_child() {
    if std::env::var_os("EMU_TEST_CHILD").is_none_or(|what| what != "captures") {
        return;
    }
    let near = context();
    let (one, from) = (stream(1), pooled(stream(1)));
    let mut far = ptr::null_mut();
    ok!(cuDevicePrimaryCtxRetain(&raw mut far, 1));
    ok!(cuCtxSetCurrent(far));
    let (two, to) = (stream(1), pooled(stream(1)));
    let mut graph = ptr::null_mut();
    // Copies that name contexts.
    begin(one);
    for _ in 0..2 {
        fails!(
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuMemcpyPeerAsync(to, far, from, near, 16, one)
        );
    }
    fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &raw mut graph));
    // Copies by address without access: refused with a context current, and else when the graph is instantiated.
    begin(one);
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync_v2(to, from, 16, one));
    ok!(cuCtxSetCurrent(ptr::null_mut()));
    ok!(cuMemcpyDtoDAsync_v2(to, from, 16, one));
    ok!(cuStreamEndCapture(one, &raw mut graph));
    ok!(cuCtxSetCurrent(far));
    let mut exec = ptr::null_mut();
    fails!(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
    for device in 0..2 {
        let mut pool = ptr::null_mut();
        ok!(cuDeviceGetDefaultMemPool(&raw mut pool, device));
        let mut access = CUmemAccessDesc::default();
        access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.__bindgen_anon_1.id = 1 - device;
        access.flags = CUmemAccess_flags(3);
        ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
    }
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
    ok!(cuMemsetD32Async(from, 9, 4, one));
    ok!(cuGraphLaunch(exec, one));
    ok!(cuStreamSynchronize(one));
    let mut read = [0u32; 4];
    ok!(cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), to, 16));
    assert_eq!(read, [9; 4]);
    // A wait for either context ends the capture that streams of both have joined.
    for waited in [near, far] {
        ok!(cuCtxSetCurrent(near));
        let mut event = ptr::null_mut();
        ok!(cuEventCreate(&raw mut event, 2));
        begin(one);
        ok!(cuEventRecord(event, one));
        ok!(cuStreamWaitEvent(two, event, 0));
        ok!(cuCtxSetCurrent(waited));
        fails!(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
        fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(to, 1, 4, two));
        fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &raw mut graph));
        ok!(cuCtxSynchronize());
    }
    println!("as on two GPUs");
}

#[test]
fn captures_of_two_contexts() {
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "capturing_child", "--nocapture"])
        .env("EMU_TEST_CHILD", "captures")
        .env("CUDA_EMU_DEVICES", "2")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("as on two GPUs"), "{text}{errors}");
}
