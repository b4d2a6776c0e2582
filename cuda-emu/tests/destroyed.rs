//! Texture and surface objects that are destroyed after the launch of a kernel that uses them.

mod common;

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use common::*;
use cuda_sys::*;

/// A kernel that copies elements from an object to memory.
fn copier(fetch: &str) -> String {
    format!(
        "
.version 7.8
.target sm_70
.address_size 64

.visible .entry copy(.param .u64 object, .param .u64 out)
{{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [object];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    {fetch}
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r2;
    ret;
}}
"
    )
}

static OPEN: AtomicBool = AtomicBool::new(false);

extern "C" fn gate(_: *mut c_void) {
    while !OPEN.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

fn texture(address: u64) -> u64 {
    let mut resource = CUDA_RESOURCE_DESC {
        resType: CUresourcetype::CU_RESOURCE_TYPE_LINEAR,
        ..CUDA_RESOURCE_DESC::default()
    };
    resource.res.linear.devPtr = address;
    resource.res.linear.format = CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 36;
    let how = CUDA_TEXTURE_DESC { flags: CU_TRSF_READ_AS_INTEGER, ..CUDA_TEXTURE_DESC::default() };
    let mut object = 0;
    ok!(cuTexObjectCreate(&raw mut object, &raw const resource, &raw const how, ptr::null()));
    object
}

fn surface(from: u64) -> u64 {
    let wanted = CUDA_ARRAY3D_DESCRIPTOR {
        Width: 9,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        NumChannels: 1,
        Flags: CUDA_ARRAY3D_SURFACE_LDST,
        ..CUDA_ARRAY3D_DESCRIPTOR::default()
    };
    let mut array = ptr::null_mut();
    ok!(cuArray3DCreate_v2(&raw mut array, &raw const wanted));
    ok!(cuMemcpyDtoA_v2(array, 0, from, 36));
    let mut resource = CUDA_RESOURCE_DESC::default();
    resource.res.array.hArray = array;
    let mut object = 0;
    ok!(cuSurfObjectCreate(&raw mut object, &raw const resource));
    object
}

/// NVIDIA's sample NV12toBGRandResize does so. Launches that come later find no object.
fn outlives(fetch: &str, create: impl Fn(u64) -> u64, destroy: impl Fn(u64) -> CUresult) {
    context();
    let (from, mut out, stream) = (allocate(36), allocate(36), stream(1));
    ok!(cuMemsetD32_v2(from, 0x5eed, 9));
    ok!(cuCtxSynchronize());
    let (mut object, kernel) = (create(from), function(load(&copier(fetch)), "copy"));
    let mut pointers: [*mut c_void; 2] = [(&raw mut object).cast(), (&raw mut out).cast()];
    let mut launch = || {
        let (parameters, none) = (pointers.as_mut_ptr(), ptr::null_mut());
        ok!(cuLaunchKernel(kernel, 1, 1, 1, 9, 1, 1, 0, stream, parameters, none));
    };
    ok!(cuLaunchHostFunc(stream, Some(gate), ptr::null_mut()));
    launch();
    assert_eq!(destroy(object), SUCCESS);
    assert_eq!(destroy(object), CUresult::CUDA_ERROR_INVALID_VALUE);
    OPEN.store(true, Ordering::Relaxed);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(words(out, 9), [0x5eed; 9]);
    launch();
    fails!(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

#[test]
fn work_that_is_enqueued_may_use_a_destroyed_texture() {
    apart!(work_that_is_enqueued_may_use_a_destroyed_texture);
    let fetch = "tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];";
    outlives(fetch, texture, |object| call!(cuTexObjectDestroy(object)));
}

#[test]
fn work_that_is_enqueued_may_use_a_destroyed_surface() {
    apart!(work_that_is_enqueued_may_use_a_destroyed_surface);
    let fetch = "shl.b32 %r3, %r1, 2; suld.b.1d.b32.trap %r2, [%rd1, {%r3}];";
    outlives(fetch, surface, |object| call!(cuSurfObjectDestroy(object)));
}
