//! Ids of contexts, and what the context that is current decides though a call names a stream.
//!
//! Each test is a process of its own: two devices, and contexts that are reset.

use std::process::Command;
use std::ptr;

use cuda_sys::*;

mod common;
use common::*;

/// The child that a test of this file starts runs `body`; its failures are the test's.
fn in_child(name: &'static str, body: fn()) {
    if std::env::var_os("EMU_TEST_CHILD").is_some_and(|child| child == *name) {
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .env("EMU_TEST_CHILD", name)
        .env("CUDA_EMU_DEVICES", "2")
        .output()
        .expect("it runs");
    let (text, report) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{report}");
}

/// The primary context of a device, retained once more, and its id.
fn retain(device: CUdevice) -> (CUcontext, u64) {
    let (mut context, mut id) = (ptr::null_mut(), 0);
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, device));
    ok!(cuCtxGetId(context, &raw mut id));
    (context, id)
}

#[test]
fn ids_name_one_context_for_ever() {
    in_child("ids_name_one_context_for_ever", || {
        ok!(cuInit(0));
        let mut seen = Vec::new();
        let mut note = |id: u64| {
            assert!(!seen.contains(&id), "{id} of {seen:?}");
            seen.push(id);
        };
        let (first, id) = retain(0);
        note(id);
        note(retain(1).1);
        assert_eq!(retain(0), (first, id), "retained twice it is one context");
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(retain(0).1, id, "it is alive");
        // Destroyed by a reset, and by the last release; each time it is made anew.
        ok!(cuDevicePrimaryCtxReset_v2(0));
        note(retain(0).1);
        while call!(cuDevicePrimaryCtxRelease_v2(0)) == SUCCESS {}
        note(retain(0).1);
        for _ in 0..2 {
            let (mut made, mut id) = (ptr::null_mut(), 0);
            ok!(cuCtxCreate_v2(&raw mut made, 0, 0));
            ok!(cuCtxGetId(ptr::null_mut(), &raw mut id));
            note(id);
            ok!(cuCtxDestroy_v2(made));
        }
    });
}

const BYTES: usize = 64;

/// The copies in a stream's order, each with its code: to and from pageable memory, and within
/// the memory at `device`.
fn copies(device: u64, stream: CUstream) -> [(&'static str, CUresult); 7] {
    let host = &raw mut *Box::leak(Box::new([7_u8; BYTES]));
    let bytes = BYTES / 2;
    let upper = device + bytes as u64;
    let shape = CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: device,
        srcPitch: 8,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: upper,
        dstPitch: 8,
        WidthInBytes: 4,
        Height: 2,
        Depth: 1,
        ..CUDA_MEMCPY3D::default()
    };
    let plane = CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: device,
        srcPitch: 8,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: host.cast(),
        dstPitch: 8,
        WidthInBytes: 4,
        Height: 2,
        ..CUDA_MEMCPY2D::default()
    };
    let unified = host as u64;
    [
        ("HtoD", call!(cuMemcpyHtoDAsync_v2(device, host.cast(), bytes, stream))),
        ("DtoH", call!(cuMemcpyDtoHAsync_v2(host.cast(), device, bytes, stream))),
        ("DtoD", call!(cuMemcpyDtoDAsync_v2(upper, device, bytes, stream))),
        ("to", call!(cuMemcpyAsync(device, unified, bytes, stream))),
        ("from", call!(cuMemcpyAsync(unified, device, bytes, stream))),
        ("3D", call!(cuMemcpy3DAsync_v2(&raw const shape, stream))),
        ("2D", call!(cuMemcpy2DAsync_v2(&raw const plane, stream))),
    ]
}

#[test]
fn copies_of_pool_memory_ask_the_current_context() {
    in_child("copies_of_pool_memory_ask_the_current_context", || {
        ok!(cuInit(0));
        let contexts = [retain(0).0, retain(1).0];
        for (near, far) in [(0, 1), (1, 0)] {
            let (own, other) = (contexts[near], contexts[far]);
            ok!(cuCtxSetCurrent(own));
            let (stream, plain) = (stream(1), allocate(BYTES));
            let (mut pooled, mut theirs) = (0, 0);
            ok!(cuMemAllocAsync(&raw mut pooled, BYTES, stream));
            let kernel = function(module(), "fill");
            let event = event();

            ok!(cuCtxSetCurrent(other));
            ok!(cuMemAlloc_v2(&raw mut theirs, BYTES));
            for (what, code) in copies(pooled, stream) {
                assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE, "device {near}: {what}");
            }
            for (what, code) in copies(plain, stream) {
                assert_eq!(code, SUCCESS, "device {near}, cuMemAlloc: {what}");
            }
            // What names its contexts, and what is no copy.
            ok!(cuMemcpyPeerAsync(theirs, other, pooled, own, BYTES, stream));
            ok!(cuMemsetD8Async(pooled, 1, BYTES, stream));
            assert_eq!(fill(kernel, stream, pooled, 4, 3), SUCCESS);
            ok!(cuEventRecord(event, stream));
            let mut more = 0;
            ok!(cuMemAllocAsync(&raw mut more, BYTES, stream));
            ok!(cuMemFreeAsync(more, stream));
            ok!(cuStreamSynchronize(stream));

            // With none, its own, or another one of the same device.
            let mut second = ptr::null_mut();
            ok!(cuCtxCreate_v2(&raw mut second, 0, near as CUdevice));
            ok!(cuCtxPopCurrent_v2(&raw mut second));
            for current in [ptr::null_mut(), own, second] {
                ok!(cuCtxSetCurrent(current));
                for (what, code) in copies(pooled, stream) {
                    assert_eq!(code, SUCCESS, "device {near}: {what}");
                }
            }
            // With access for the other device.
            let mut pool = ptr::null_mut();
            ok!(cuDeviceGetDefaultMemPool(&raw mut pool, near as CUdevice));
            let mut access = CUmemAccessDesc::default();
            access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            access.location.__bindgen_anon_1.id = far as CUdevice;
            access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
            ok!(cuCtxSetCurrent(other));
            for (what, code) in copies(pooled, stream) {
                assert_eq!(code, SUCCESS, "device {near}, with access: {what}");
            }
            ok!(cuStreamSynchronize(stream));
        }
    });
}
