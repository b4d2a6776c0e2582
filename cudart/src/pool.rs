//! Memory that is allocated in the order of streams.

use core::ffi::{c_int, c_uint, c_void};

use crate::bindings::runtime::{
    cudaGraphMemAttributeType, cudaMemAccessDesc, cudaMemAccessFlags, cudaMemAllocationHandleType,
    cudaMemLocation, cudaMemPool_t, cudaMemPoolAttr, cudaMemPoolProps, cudaMemPoolPtrExportData,
    cudaStream_t,
};
use crate::call::{check, given, pass, put, ready};
use crate::context;
use crate::memory::{address, pointer};

crate::functions! {
    fn cudaMallocAsync, cudaMallocAsync_ptsz [stream] (
        place: *mut *mut c_void, bytes: usize, stream: cudaStream_t,
    ) {
        given(place)?;
        let mut new = 0;
        check(ready()?.cuMemAllocAsync(&raw mut new, bytes, stream))?;
        put(place, pointer(new))
    }
    fn cudaFreeAsync, cudaFreeAsync_ptsz [stream] (memory: *mut c_void, stream: cudaStream_t) {
        check(ready()?.cuMemFreeAsync(address(memory), stream))
    }
    fn cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz [stream] (
        place: *mut *mut c_void, bytes: usize, pool: cudaMemPool_t, stream: cudaStream_t,
    ) {
        given(place)?;
        let mut new = 0;
        check(ready()?.cuMemAllocFromPoolAsync(&raw mut new, bytes, pool, stream))?;
        put(place, pointer(new))
    }
    fn cudaDeviceGetDefaultMemPool(place: *mut cudaMemPool_t, device: c_int) {
        let driver = ready()?;
        context::known(driver, device)?;
        check(driver.cuDeviceGetDefaultMemPool(place, device))
    }
    fn cudaDeviceGetMemPool(place: *mut cudaMemPool_t, device: c_int) {
        let driver = ready()?;
        context::known(driver, device)?;
        check(driver.cuDeviceGetMemPool(place, device))
    }
    fn cudaDeviceSetMemPool(device: c_int, pool: cudaMemPool_t) {
        let driver = ready()?;
        context::known(driver, device)?;
        check(driver.cuDeviceSetMemPool(device, pool))
    }
    fn cudaMemPoolCreate(place: *mut cudaMemPool_t, properties: *const cudaMemPoolProps) = cuMemPoolCreate;
    fn cudaMemPoolDestroy(pool: cudaMemPool_t) = cuMemPoolDestroy;
    fn cudaMemPoolTrimTo(pool: cudaMemPool_t, keep: usize) = cuMemPoolTrimTo;
    fn cudaMemPoolSetAttribute(pool: cudaMemPool_t, attribute: cudaMemPoolAttr, value: *mut c_void) = cuMemPoolSetAttribute;
    fn cudaMemPoolGetAttribute(pool: cudaMemPool_t, attribute: cudaMemPoolAttr, value: *mut c_void) = cuMemPoolGetAttribute;
    fn cudaMemPoolSetAccess(pool: cudaMemPool_t, list: *const cudaMemAccessDesc, count: usize) = cuMemPoolSetAccess;
    fn cudaMemPoolGetAccess(
        flags: *mut cudaMemAccessFlags, pool: cudaMemPool_t, location: *mut cudaMemLocation,
    ) = cuMemPoolGetAccess;
    fn cudaMemPoolExportToShareableHandle(
        handle: *mut c_void, pool: cudaMemPool_t, kind: cudaMemAllocationHandleType, flags: c_uint,
    ) {
        check(ready()?.cuMemPoolExportToShareableHandle(handle, pool, pass(kind), u64::from(flags)))
    }
    fn cudaMemPoolImportFromShareableHandle(
        place: *mut cudaMemPool_t, handle: *mut c_void, kind: cudaMemAllocationHandleType, flags: c_uint,
    ) {
        check(ready()?.cuMemPoolImportFromShareableHandle(place, handle, pass(kind), u64::from(flags)))
    }
    fn cudaMemPoolExportPointer(data: *mut cudaMemPoolPtrExportData, memory: *mut c_void) {
        check(ready()?.cuMemPoolExportPointer(data.cast(), address(memory)))
    }
    fn cudaMemPoolImportPointer(
        place: *mut *mut c_void, pool: cudaMemPool_t, data: *mut cudaMemPoolPtrExportData,
    ) {
        let mut new = 0;
        check(ready()?.cuMemPoolImportPointer(&raw mut new, pool, data.cast()))?;
        put(place, pointer(new))
    }
    fn cudaDeviceGraphMemTrim(device: c_int) {
        let driver = ready()?;
        context::known(driver, device)?;
        check(driver.cuDeviceGraphMemTrim(device))
    }
    fn cudaDeviceGetGraphMemAttribute(device: c_int, attribute: cudaGraphMemAttributeType, value: *mut c_void) {
        let driver = ready()?;
        context::known(driver, device)?;
        check(driver.cuDeviceGetGraphMemAttribute(device, pass(attribute), value))
    }
    fn cudaDeviceSetGraphMemAttribute(device: c_int, attribute: cudaGraphMemAttributeType, value: *mut c_void) {
        let driver = ready()?;
        context::known(driver, device)?;
        check(driver.cuDeviceSetGraphMemAttribute(device, pass(attribute), value))
    }
}
