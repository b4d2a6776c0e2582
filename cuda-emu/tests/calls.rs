//! The return codes of calls, as measured on a real driver.

use core::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sys::*;

mod common;
use common::*;

/// Runs a test on a thread of its own, where no context is current.
fn alone(test: impl FnOnce() + Send + 'static) {
    std::thread::spawn(test).join().expect("the test passes");
}

#[test]
fn without_a_context_explicit_streams_work_and_the_rest_does_not() {
    context();
    let (stream, event, module) = (stream(1), event(), module());
    let function = function(module, "fill");
    let address = allocate(64);
    let raw = (stream as usize, event as usize, function as usize, module as usize);
    alone(move || {
        let (stream, event) = (raw.0 as CUstream, raw.1 as CUevent);
        let (function, module) = (raw.2 as CUfunction, raw.3 as CUmodule);
        let mut current = ptr::dangling_mut();
        ok!(cuCtxGetCurrent(&raw mut current));
        assert!(current.is_null());
        assert_eq!(fill(function, stream, address, 4, 7), SUCCESS);
        let mut ordered = 0;
        ok!(cuMemAllocAsync(&raw mut ordered, 64, stream));
        ok!(cuMemcpyDtoDAsync_v2(ordered, address, 16, stream));
        ok!(cuMemsetD8Async(ordered, 1, 8, stream));
        ok!(cuMemFreeAsync(ordered, stream));
        ok!(cuEventRecord(event, stream));
        ok!(cuStreamWaitEvent(stream, event, 0));
        ok!(cuEventSynchronize(event));
        ok!(cuEventQuery(event));
        ok!(cuStreamSynchronize(stream));
        ok!(cuStreamQuery(stream));
        let mut other = ptr::null_mut();
        ok!(cuModuleGetFunction(&raw mut other, module, c"trap".as_ptr()));
        let (mut value, mut offset, mut size) = (0, 0, 0);
        ok!(cuFuncGetAttribute(&raw mut value, CUfunction_attribute(0), function));
        ok!(cuFuncGetParamInfo(function, 1, &raw mut offset, &raw mut size));
        assert_eq!((offset, size), (8, 4));
        fails!(
            CUDA_ERROR_INVALID_VALUE,
            cuFuncGetParamInfo(function, 3, &raw mut offset, &raw mut size)
        );

        let (mut address, mut made, mut new) = (0, ptr::null_mut(), ptr::null_mut());
        fails!(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&raw mut address, 64));
        fails!(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&raw mut made, 0));
        fails!(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&raw mut new, 0));
        fails!(
            CUDA_ERROR_INVALID_CONTEXT,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut value, function, 32, 0)
        );
        for special in [ptr::null_mut(), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD] {
            let code = fill(function, special, 0, 0, 0);
            assert_eq!(code, CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
    });
    assert_eq!(words(address, 4), [7; 4]);
}

#[test]
fn contexts_are_a_stack_of_each_thread() {
    let primary = context();
    let mut created = ptr::null_mut();
    ok!(cuCtxCreate_v2(&raw mut created, 0, 0));
    let mut current = ptr::null_mut();
    ok!(cuCtxGetCurrent(&raw mut current));
    assert_eq!(current, created);
    ok!(cuCtxPushCurrent_v2(primary));
    ok!(cuCtxPopCurrent_v2(&raw mut current));
    assert_eq!(current, primary);
    let theirs = stream(0);
    ok!(cuStreamGetCtx(theirs, &raw mut current));
    assert_eq!(current, created);
    ok!(cuCtxDestroy_v2(created));
    ok!(cuCtxGetCurrent(&raw mut current));
    assert_eq!(current, primary, "destroying pops what is current");
    fails!(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(theirs));
    fails!(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(created));
    fails!(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(primary));
    alone(|| fails!(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(ptr::null_mut())));
}

#[test]
fn launches_are_checked() {
    context();
    let (module, stream) = (module(), stream(1));
    let nothing = function(module, "nothing");
    let launch = |grid: [u32; 3], block: [u32; 3], shared| {
        call!(cuLaunchKernel(
            nothing,
            grid[0],
            grid[1],
            grid[2],
            block[0],
            block[1],
            block[2],
            shared,
            stream,
            ptr::null_mut(),
            ptr::null_mut()
        ))
    };
    assert_eq!(launch([2, 65_535, 1], [1, 1, 1], 0), SUCCESS);
    assert_eq!(launch([1; 3], [32, 32, 1], 49_152), SUCCESS);
    for (grid, block, shared) in [
        ([1; 3], [1025, 1, 1], 0),
        ([1; 3], [512, 3, 1], 0),
        ([1; 3], [1, 1, 65], 0),
        ([1, 65_536, 1], [1; 3], 0),
        ([1, 1, 65_536], [1; 3], 0),
        ([0, 1, 1], [1; 3], 0),
        ([1; 3], [0, 1, 1], 0),
        ([1; 3], [1; 3], 49_153),
    ] {
        let code = launch(grid, block, shared);
        assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE, "{grid:?} {block:?} {shared}");
    }
    let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    ok!(cuFuncSetAttribute(nothing, most, 100_000));
    assert_eq!(launch([1; 3], [1; 3], 100_000), SUCCESS);
    fails!(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(nothing, most, 1 << 20));
    fails!(
        CUDA_ERROR_INVALID_HANDLE,
        cuLaunchKernel(
            ptr::dangling_mut(),
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream,
            ptr::null_mut(),
            ptr::null_mut()
        )
    );
    fails!(
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        cuLaunchCooperativeKernel(nothing, 1 << 20, 1, 1, 1024, 1, 1, 0, stream, ptr::null_mut())
    );
    ok!(cuStreamSynchronize(stream));
}

#[test]
fn arguments_come_as_a_buffer_too() {
    context();
    let (module, stream) = (module(), stream(1));
    let address = allocate(16);
    let mut packed = [0_u8; 16];
    packed[..8].copy_from_slice(&address.to_le_bytes());
    packed[8..12].copy_from_slice(&4_u32.to_le_bytes());
    packed[12..].copy_from_slice(&9_u32.to_le_bytes());
    let mut size = [packed.len()];
    let mut extra: [*mut c_void; 5] = [
        ptr::without_provenance_mut(1),
        packed.as_mut_ptr().cast(),
        ptr::without_provenance_mut(2),
        (&raw mut size).cast(),
        ptr::null_mut(),
    ];
    let fill = function(module, "fill");
    ok!(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, ptr::null_mut(), extra.as_mut_ptr()));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(words(address, 4), [9; 4]);
    // As the driver was seen to do: more bytes than the parameters have are refused, fewer taken.
    for (bytes, code) in [
        (0, CUresult::CUDA_ERROR_INVALID_VALUE),
        (15, CUresult::CUDA_SUCCESS),
        (17, CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    ] {
        std::hint::black_box(&mut size)[0] = bytes;
        let (none, list) = (ptr::null_mut(), extra.as_mut_ptr());
        let got = call!(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, none, list));
        assert_eq!(got, code, "{bytes} bytes");
    }
    ok!(cuStreamSynchronize(stream));
}

#[test]
fn copies_and_memsets_of_every_shape() {
    context();
    let stream = stream(1);
    let (mut rows, mut pitch) = (0, 0);
    ok!(cuMemAllocPitch_v2(&raw mut rows, &raw mut pitch, 20, 6, 4));
    assert_eq!(pitch, 512);
    ok!(cuMemsetD2D32_v2(rows, pitch, 5, 5, 6));
    // A memset of device memory need not have run when the call returns, and the stream does not
    // wait for the NULL stream.
    ok!(cuCtxSynchronize());
    ok!(cuMemsetD2D16Async(rows + 512, pitch, 0x0102, 2, 1, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemsetD8_v2(rows, 0xff, 4));
    let mut host = [0_u32; 30];
    let copy = CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: rows,
        srcPitch: pitch,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: host.as_mut_ptr().cast(),
        dstPitch: 20,
        WidthInBytes: 20,
        Height: 6,
        ..CUDA_MEMCPY2D::default()
    };
    ok!(cuMemcpy2D_v2(&raw const copy));
    assert_eq!(host[..5], [u32::MAX, 5, 5, 5, 5]);
    assert_eq!(host[5..10], [0x0102_0102, 5, 5, 5, 5]);
    assert_eq!(host[25..], [5; 5]);

    // The second slice of a box, without its first row and first column.
    let cube: Vec<u8> = (0..64).collect();
    let target = allocate(64);
    ok!(cuMemsetD32_v2(target, 0, 16));
    ok!(cuCtxSynchronize());
    let copy = CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: cube.as_ptr().cast(),
        srcPitch: 4,
        srcHeight: 4,
        srcXInBytes: 1,
        srcY: 1,
        srcZ: 1,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: target,
        dstPitch: 4,
        dstHeight: 4,
        WidthInBytes: 3,
        Height: 2,
        Depth: 2,
        ..CUDA_MEMCPY3D::default()
    };
    ok!(cuMemcpy3DAsync_v2(&raw const copy, stream));
    let mut back = [0_u8; 64];
    ok!(cuMemcpyDtoHAsync_v2(back.as_mut_ptr().cast(), target, 64, stream));
    assert_eq!(back[..8], [21, 22, 23, 0, 25, 26, 27, 0]);
    assert_eq!(back[16..24], [37, 38, 39, 0, 41, 42, 43, 0]);

    fails!(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(target, target + 60, 8));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(target + 60, cube.as_ptr().cast(), 8));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(target + 2, 0, 1));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(target, 0, 65));
    ok!(cuMemcpyDtoD_v2(target, target + 60, 0));
    let arrays = CUDA_MEMCPY3D { srcMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY, ..copy };
    // There is no array of this handle.
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&raw const arrays));
}

#[test]
fn memory_is_known_by_its_address() {
    let primary = context();
    let address = allocate(1000);
    let mut owner: CUcontext = ptr::null_mut();
    let ask =
        |data: *mut c_void, which, address| call!(cuPointerGetAttribute(data, which, address));
    let context_of = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
    assert_eq!(ask((&raw mut owner).cast(), context_of, address + 999), SUCCESS);
    assert_eq!(owner, primary);
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(ask((&raw mut owner).cast(), context_of, address + 1000), invalid);
    let (mut base, mut size) = (0, 0);
    ok!(cuMemGetAddressRange_v2(&raw mut base, &raw mut size, address + 5));
    assert_eq!((base, size), (address, 1000));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address + 1));
    ok!(cuMemFree_v2(address));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
    assert_eq!(ask((&raw mut owner).cast(), context_of, address), invalid);

    let mut memory = vec![0_u8; 100];
    let start = memory.as_mut_ptr().cast::<c_void>();
    ok!(cuMemHostRegister_v2(start, 100, 0));
    fails!(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(start, 50, 0));
    let mut device = 0;
    ok!(cuMemHostGetDevicePointer_v2(&raw mut device, start, 0));
    assert_eq!(device, start as u64);
    ok!(cuMemHostUnregister(start));
    fails!(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(start));
    fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&raw mut device, 1 << 50));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&raw mut device, 0));
}

#[test]
fn stream_ordered_memory_and_pools() {
    context();
    let stream = stream(1);
    let mut properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        ..CUmemPoolProps::default()
    };
    properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut pool = ptr::null_mut();
    ok!(cuMemPoolCreate(&raw mut pool, &raw const properties));
    let used = |pool, which| {
        let mut bytes = 0_u64;
        ok!(cuMemPoolGetAttribute(pool, which, (&raw mut bytes).cast()));
        bytes
    };
    let current = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    let reserved = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    let mut threshold = u64::MAX;
    let which = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    ok!(cuMemPoolSetAttribute(pool, which, (&raw mut threshold).cast()));
    let mut address = 0;
    ok!(cuMemAllocFromPoolAsync(&raw mut address, 5000, pool, stream));
    assert_eq!(used(pool, current), 5000);
    ok!(cuMemFreeAsync(address, stream));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(address, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((used(pool, current), used(pool, reserved)), (0, 5000));
    ok!(cuMemPoolTrimTo(pool, 0));
    assert_eq!(used(pool, reserved), 0);
    let plain = allocate(8);
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(plain, stream));
    ok!(cuMemPoolDestroy(pool));
    fails!(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
}

#[test]
fn events_take_times_and_order_streams() {
    context();
    let (one, other) = (stream(1), stream(1));
    let (start, end) = (event(), event());
    ok!(cuEventRecord(start, one));
    let mut milliseconds = 0.0;
    fails!(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&raw mut milliseconds, start, end));
    extern "C" fn sleep(_: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    ok!(cuLaunchHostFunc(one, Some(sleep), ptr::null_mut()));
    ok!(cuEventRecord(end, one));
    fails!(CUDA_ERROR_NOT_READY, cuEventQuery(end));
    fails!(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&raw mut milliseconds, start, end));
    ok!(cuStreamQuery(other));
    ok!(cuStreamWaitEvent(other, end, 0));
    fails!(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    ok!(cuStreamSynchronize(other));
    ok!(cuEventElapsedTime_v2(&raw mut milliseconds, start, end));
    assert!((20.0..2000.0).contains(&milliseconds), "{milliseconds}");
    ok!(cuEventDestroy_v2(start));
    fails!(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(start));
}

static TURN: AtomicU32 = AtomicU32::new(0);

#[test]
fn the_null_stream_waits_for_blocking_streams_and_they_for_it() {
    context();
    let (blocking, free) = (stream(0), stream(1));
    extern "C" fn slow(_: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(30));
        TURN.fetch_add(1, Ordering::SeqCst);
    }
    extern "C" fn seen(place: *mut c_void) {
        // SAFETY: the test keeps the place until the stream is done.
        unsafe { &*place.cast::<AtomicU32>() }.store(TURN.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    let places: [AtomicU32; 3] = Default::default();
    let at = |index: usize| (&raw const places[index]).cast_mut().cast::<c_void>();
    ok!(cuLaunchHostFunc(blocking, Some(slow), ptr::null_mut()));
    ok!(cuLaunchHostFunc(free, Some(seen), at(0)));
    ok!(cuLaunchHostFunc(ptr::null_mut(), Some(seen), at(1)));
    ok!(cuLaunchHostFunc(ptr::null_mut(), Some(slow), ptr::null_mut()));
    ok!(cuLaunchHostFunc(blocking, Some(seen), at(2)));
    ok!(cuCtxSynchronize());
    let seen = places.map(|place| place.load(Ordering::SeqCst));
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn host_functions_may_not_call_the_driver() {
    context();
    let stream = stream(1);
    static CODE: AtomicU32 = AtomicU32::new(0);
    extern "C" fn calls(_: *mut c_void) {
        let mut address = 0;
        CODE.store(call!(cuMemAlloc_v2(&raw mut address, 8)).0, Ordering::SeqCst);
    }
    ok!(cuLaunchHostFunc(stream, Some(calls), ptr::null_mut()));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(CODE.load(Ordering::SeqCst), CUresult::CUDA_ERROR_NOT_PERMITTED.0);
}

#[test]
fn streams_wait_for_values_in_memory() {
    context();
    let (waiting, writing) = (stream(1), stream(1));
    let mut flag = ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut flag, 8, 0));
    // SAFETY: eight bytes, pinned, and only this test's.
    let word = unsafe { AtomicU32::from_ptr(flag.cast()) };
    word.store(0, Ordering::SeqCst);
    let address = flag as u64;
    ok!(cuStreamWaitValue32_v2(waiting, address, 3, 0));
    fails!(CUDA_ERROR_NOT_READY, cuStreamQuery(waiting));
    ok!(cuStreamWriteValue32_v2(writing, address, 2, 0));
    ok!(cuStreamSynchronize(writing));
    assert_eq!(word.load(Ordering::SeqCst), 2);
    fails!(CUDA_ERROR_NOT_READY, cuStreamQuery(waiting));
    word.store(4, Ordering::SeqCst);
    ok!(cuStreamSynchronize(waiting));
    fails!(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(waiting, address + 1, 3, 0));
    ok!(cuMemFreeHost(flag));
}

#[test]
fn images_that_cannot_be_run() {
    context();
    let mut module = ptr::null_mut();
    let elf = *b"\x7fELF\x02\x01\x01\0";
    fails!(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&raw mut module, elf.as_ptr().cast()));
    fails!(
        CUDA_ERROR_INVALID_IMAGE,
        cuModuleLoadData(&raw mut module, c"no image".as_ptr().cast())
    );
    fails!(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&raw mut module, c"".as_ptr().cast()));
    let newer = std::ffi::CString::new(PTX.replace(".version 8.0", ".version 9.9")).expect("text");
    fails!(
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        cuModuleLoadData(&raw mut module, newer.as_ptr().cast())
    );
    let wrong =
        std::ffi::CString::new(PTX.replace("trap;", "nonsense.f32 %q1, %q2;")).expect("text");
    let mut log = [1_u8; 200];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
    fails!(
        CUDA_ERROR_INVALID_PTX,
        cuModuleLoadDataEx(
            &raw mut module,
            wrong.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr()
        )
    );
    let used = values[1].addr();
    assert!(used > 1 && log[used - 1] == 0);
    assert!(String::from_utf8_lossy(&log[..used]).contains("nonsense"));
}

#[test]
fn modules_and_libraries_have_kernels_and_variables() {
    context();
    let module = module();
    let mut function = ptr::null_mut();
    fails!(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&raw mut function, module, c"none".as_ptr()));
    let (mut address, mut bytes) = (0, 0);
    ok!(cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, module, c"variable".as_ptr()));
    assert_eq!(bytes, 16);
    ok!(cuMemsetD32_v2(address, 3, 4));
    assert_eq!(words(address, 4), [3; 4]);
    let mut count = 0;
    ok!(cuModuleGetFunctionCount(&raw mut count, module));
    assert_eq!(count, 3);
    ok!(cuModuleUnload(module));
    fails!(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));

    let text = std::ffi::CString::new(PTX).expect("text");
    let (mut library, mut kernel) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuLibraryLoadData(
        &raw mut library,
        text.as_ptr().cast(),
        ptr::null_mut(),
        ptr::null_mut(),
        0,
        ptr::null_mut(),
        ptr::null_mut(),
        0
    ));
    ok!(cuLibraryGetKernel(&raw mut kernel, library, c"fill".as_ptr()));
    let (mut current, mut at, mut bytes) = (ptr::null_mut(), 0, 0);
    ok!(cuCtxGetCurrent(&raw mut current));
    ok!(cuKernelGetParamInfo(kernel, 1, &raw mut at, &raw mut bytes));
    assert_eq!((at, bytes), (8, 4));
    ok!(cuCtxSetCurrent(ptr::null_mut()));
    fails!(
        CUDA_ERROR_INVALID_CONTEXT,
        cuKernelGetParamInfo(kernel, 0, &raw mut at, ptr::null_mut())
    );
    ok!(cuCtxSetCurrent(current));
    let target = allocate(16);
    let stream = stream(1);
    assert_eq!(fill(kernel.cast(), stream, target, 4, 8), SUCCESS);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(words(target, 4), [8; 4]);
    ok!(cuLibraryUnload(library));
    let gone = fill(kernel.cast(), stream, target, 4, 8);
    assert_eq!(gone, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn errors_have_the_drivers_texts() {
    for (code, text) in [
        (CUresult::CUDA_SUCCESS, "no error"),
        (CUresult::CUDA_ERROR_INVALID_VALUE, "invalid argument"),
        (CUresult::CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
        (CUresult::CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
        (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
        (CUresult::CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ] {
        let mut found = ptr::null();
        ok!(cuGetErrorString(code, &raw mut found));
        // SAFETY: the text is static.
        assert_eq!(unsafe { core::ffi::CStr::from_ptr(found) }.to_str(), Ok(text));
    }
    let mut found = ptr::dangling();
    fails!(CUDA_ERROR_INVALID_VALUE, cuGetErrorString(CUresult(12_345), &raw mut found));
    assert!(found.is_null());
    for code in CUresult::ALL {
        let mut found = ptr::null();
        ok!(cuGetErrorString(*code, &raw mut found));
        assert!(!found.is_null());
    }
}

#[test]
fn no_kernel_has_no_name() {
    context();
    let mut name = ptr::null();
    fails!(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&raw mut name, ptr::null_mut()));
    fails!(CUDA_ERROR_INVALID_VALUE, cuKernelGetName(&raw mut name, ptr::null_mut()));
    ok!(cuFuncGetName(&raw mut name, function(module(), "fill")));
    // SAFETY: the name lives as long as the module.
    assert_eq!(unsafe { core::ffi::CStr::from_ptr(name) }, c"fill");
}

/// As an H200's driver, 580, returned them.
#[test]
fn unusual_arguments() {
    let own = context();
    let function = function(module(), "fill");
    fails!(CUDA_ERROR_INVALID_VALUE, cuCtxSetCacheConfig(CUfunc_cache(9)));
    fails!(CUDA_ERROR_INVALID_VALUE, cuFuncSetCacheConfig(function, CUfunc_cache(9)));
    ok!(cuFuncSetCacheConfig(function, CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL));
    let mut blocks = -1;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, 1025, 0));
    assert_eq!(blocks, 0);
    fails!(
        CUDA_ERROR_INVALID_VALUE,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, 0, 0)
    );
    fails!(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(own, 0));
    let mut device = -1;
    for (id, code) in [
        (c"nonsense", CUresult::CUDA_ERROR_INVALID_VALUE),
        (c"", CUresult::CUDA_ERROR_INVALID_VALUE),
        (c"0000:7F:00.0", CUresult::CUDA_ERROR_INVALID_DEVICE),
    ] {
        // SAFETY: the place is valid for the write, and the text ends with 0.
        let got = unsafe { driver().cuDeviceGetByPCIBusId(&raw mut device, id.as_ptr()) };
        assert_eq!(got.ok(), Some(code), "{id:?}");
    }
    let (stream, mut none) = (stream(1), 1);
    ok!(cuMemAllocAsync(&raw mut none, 0, stream));
    ok!(cuMemFreeAsync(0, stream));
}
