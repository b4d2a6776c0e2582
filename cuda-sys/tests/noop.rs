//! The no-op driver: it counts, keeps contexts per thread and hands out fresh handles.
#![cfg(feature = "noop")]

use std::collections::HashSet;
use std::error::Error;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_safe_sys::{CUcontext, CUdevice_attribute, CUresult, Driver, noop};

type Outcome = Result<(), Box<dyn Error>>;

/// Counts are of the whole process: tests that read them run one after another.
fn alone() -> (MutexGuard<'static, ()>, &'static Driver) {
    static ORDER: Mutex<()> = Mutex::new(());
    let guard = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = noop::driver();
    noop::reset();
    (guard, driver)
}

fn current(driver: &Driver) -> Result<CUcontext, Box<dyn Error>> {
    let mut context = ptr::null_mut();
    // SAFETY: `context` is valid for the write.
    let code = unsafe { driver.cuCtxGetCurrent(&raw mut context) }?;
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    Ok(context)
}

#[test]
fn calls_are_counted_by_name() -> Outcome {
    let (_guard, driver) = alone();
    for _ in 0..3 {
        // SAFETY: nothing is launched and no pointer is read.
        unsafe {
            driver.cuLaunchKernel(
                ptr::null_mut(),
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        }?;
    }
    // SAFETY: the function takes no pointer.
    unsafe { driver.cuInit(0) }?;
    assert_eq!((noop::calls("cuLaunchKernel"), noop::calls("cuInit")), (3, 1));
    assert_eq!(noop::calls("cuLaunchKernelEx"), 0);
    assert_eq!(noop::total_calls(), 4);
    noop::reset();
    assert_eq!(noop::total_calls(), 0);
    Ok(())
}

#[test]
fn what_it_lacks_is_missing() {
    let (_guard, driver) = alone();
    assert!(!driver.supports("cuFuncGetParamInfo"));
    // SAFETY: nothing is called.
    let missing =
        unsafe { driver.cuFuncGetParamInfo(ptr::null_mut(), 0, ptr::null_mut(), ptr::null_mut()) };
    assert!(missing.is_err_and(|missing| missing.driver == Some(13000)));
}

#[test]
fn contexts_are_a_stack_per_thread() -> Outcome {
    let (_guard, driver) = alone();
    assert!(current(driver)?.is_null());
    let mut primary = ptr::null_mut();
    let mut popped = ptr::null_mut();
    let other: CUcontext = ptr::without_provenance_mut(0x20);
    // SAFETY: the pointers are valid for the writes; handles of this driver are only numbers.
    unsafe {
        driver.cuDevicePrimaryCtxRetain(&raw mut primary, 0)?;
        driver.cuCtxPushCurrent_v2(primary)?;
        driver.cuCtxPushCurrent_v2(other)?;
    }
    assert_eq!(current(driver)?, other);
    let elsewhere = std::thread::scope(|scope| {
        scope.spawn(|| current(driver).map(|context| context.is_null()).ok()).join()
    });
    assert!(matches!(elsewhere, Ok(Some(true))), "another thread has none");
    // SAFETY: as above.
    unsafe {
        driver.cuCtxPopCurrent_v2(&raw mut popped)?;
        assert_eq!((popped, current(driver)?), (other, primary));
        driver.cuCtxSetCurrent(other)?;
        assert_eq!(current(driver)?, other);
        driver.cuCtxSetCurrent(ptr::null_mut())?;
        assert!(current(driver)?.is_null());
        let empty = driver.cuCtxPopCurrent_v2(&raw mut popped)?;
        assert_eq!(empty, CUresult::CUDA_ERROR_INVALID_CONTEXT);
        driver.cuDevicePrimaryCtxRelease_v2(0)?;
        let released = driver.cuDevicePrimaryCtxRelease_v2(0)?;
        assert_eq!(released, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    Ok(())
}

#[test]
fn what_needs_a_context_fails_without_one() -> Outcome {
    let (_guard, driver) = alone();
    let (mut event, mut address) = (ptr::null_mut(), 0);
    // SAFETY: the pointers are valid for the writes.
    let codes = unsafe {
        [
            driver.cuEventCreate(&raw mut event, 0)?,
            driver.cuMemAlloc_v2(&raw mut address, 16)?,
            driver.cuMemAllocAsync(&raw mut address, 16, ptr::null_mut())?,
        ]
    };
    let none = CUresult::CUDA_ERROR_INVALID_CONTEXT;
    assert_eq!(codes, [none, none, CUresult::CUDA_SUCCESS]);
    Ok(())
}

#[test]
fn addresses_are_fresh_and_aligned() -> Outcome {
    let (_guard, driver) = alone();
    let mut seen = HashSet::new();
    for bytes in [1, 255, 256, 257, 1 << 20] {
        let mut address = 0;
        // SAFETY: `address` is valid for the write.
        let code = unsafe { driver.cuMemAllocAsync(&raw mut address, bytes, ptr::null_mut()) }?;
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        assert_eq!(address % 256, 0);
        assert!(seen.insert(address));
    }
    let mut address = 0;
    // SAFETY: `address` is valid for the writes.
    let (empty, huge) = unsafe {
        (
            driver.cuMemAllocAsync(&raw mut address, 0, ptr::null_mut())?,
            driver.cuMemAllocAsync(&raw mut address, usize::MAX, ptr::null_mut())?,
        )
    };
    assert_eq!(empty, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(huge, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    Ok(())
}

#[test]
fn host_memory_is_real() -> Outcome {
    let (_guard, driver) = alone();
    let mut memory = ptr::null_mut();
    let context: CUcontext = ptr::without_provenance_mut(0x20);
    // SAFETY: the pointers are valid; the memory is used within its size and freed once.
    unsafe {
        driver.cuCtxPushCurrent_v2(context)?;
        assert_eq!(driver.cuMemHostAlloc(&raw mut memory, 5000, 0)?, CUresult::CUDA_SUCCESS);
        assert_eq!(memory.addr() % 4096, 0);
        let bytes = std::slice::from_raw_parts_mut(memory.cast::<u8>(), 5000);
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        driver.cuMemcpyDtoHAsync_v2(memory, 0x7000, 10, ptr::null_mut())?;
        assert_eq!((bytes[9], bytes[10]), (0, 7), "device memory reads as zeros");
        assert_eq!(driver.cuMemFreeHost(memory)?, CUresult::CUDA_SUCCESS);
        driver.cuCtxPopCurrent_v2(ptr::null_mut())?;
    }
    Ok(())
}

#[test]
fn streams_remember_what_they_were_made_with() -> Outcome {
    let (_guard, driver) = alone();
    let context: CUcontext = ptr::without_provenance_mut(0x20);
    let (mut stream, mut flags, mut priority) = (ptr::null_mut(), 0, 0);
    // SAFETY: the pointers are valid for the writes; handles of this driver are only numbers.
    unsafe {
        driver.cuCtxPushCurrent_v2(context)?;
        driver.cuStreamCreateWithPriority(&raw mut stream, 1, -3)?;
        driver.cuStreamGetFlags(stream, &raw mut flags)?;
        driver.cuStreamGetPriority(stream, &raw mut priority)?;
        driver.cuCtxPopCurrent_v2(ptr::null_mut())?;
    }
    assert_eq!((flags, priority), (1, -3));
    Ok(())
}

#[test]
fn the_device_has_the_limits_of_an_h100() -> Outcome {
    let (_guard, driver) = alone();
    for (which, expected) in [
        (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
        (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i32::MAX),
        (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232_448),
        (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1),
        (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED, 0),
    ] {
        let mut value = -1;
        // SAFETY: `value` is valid for the write.
        let code = unsafe { driver.cuDeviceGetAttribute(&raw mut value, which, 0) }?;
        assert_eq!((code, value), (CUresult::CUDA_SUCCESS, expected), "{which:?}");
    }
    let mut value = 0;
    let which = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    // SAFETY: `value` is valid for the write.
    let code = unsafe { driver.cuDeviceGetAttribute(&raw mut value, which, 1) }?;
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_DEVICE);
    Ok(())
}
