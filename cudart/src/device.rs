//! Devices, their limits, peers and versions.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use core::ptr;

use cuda_sys::CUresult;

use crate::bindings::runtime::{
    cudaDeviceAttr, cudaDeviceP2PAttr, cudaDriverEntryPointQueryResult, cudaError, cudaFuncCache,
    cudaLimit, cudaSharedMemConfig,
};
use crate::call::{CudaResult, check, pass, put, ready};
use crate::context::{self, driver, known};

/// Flags that `cudaSetDeviceFlags` takes.
const DEVICE_FLAGS: c_uint = 0xff;
/// The bit of them that only says that host memory can be mapped, which it always can: `cudaDeviceMapHost`.
const MAP_HOST: c_uint = 8;
/// Flags of `cudaInitDevice`: `cudaInitDeviceFlagsAreValid`.
const FLAGS_ARE_VALID: c_uint = 1;

/// Finds a function of the driver.
///
/// # Errors
/// 1 for a null name or place; the driver's.
///
/// # Safety
/// `symbol` is a string that ends in NUL; the places are null or valid for the writes.
pub unsafe fn entry_point(
    symbol: *const c_char,
    place: *mut *mut c_void,
    version: c_uint,
    flags: c_ulonglong,
    status: *mut cudaDriverEntryPointQueryResult,
) -> CudaResult {
    if symbol.is_null() || place.is_null() {
        return Err(cudaError::cudaErrorInvalidValue);
    }
    let driver = driver()?;
    let mut found = ptr::null_mut();
    let mut result = cuda_sys::CUdriverProcAddressQueryResult(0);
    let version = c_int::try_from(version).map_err(|_| cudaError::cudaErrorInvalidValue)?;
    // SAFETY: the name ends in NUL by the caller's promise, and the places are valid for the writes.
    let code = check(unsafe {
        driver.cuGetProcAddress_v2(symbol, &raw mut found, version, flags, &raw mut result)
    });
    // A name that is not found is no error: the status says so.
    if !status.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { status.write(cudaDriverEntryPointQueryResult(result.0)) };
        // SAFETY: as above.
        unsafe { place.write(found) };
        return match code {
            Err(cudaError::cudaErrorSymbolNotFound) => Ok(()),
            other => other,
        };
    }
    // SAFETY: as above.
    unsafe { place.write(found) };
    code
}

crate::functions! {
    fn cudaGetDeviceCount(place: *mut c_int) {
        if place.is_null() {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        place.write(0);
        match context::count(driver()?)? {
            0 => Err(cudaError::cudaErrorNoDevice),
            count => put(place, count),
        }
    }
    fn cudaGetDevice(place: *mut c_int) {
        known(driver()?, 0)?;
        put(place, context::device()?)
    }
    fn cudaSetDevice(device: c_int) { context::set_device(device) }
    fn cudaInitDevice(device: c_int, flags: c_uint, init: c_uint) {
        let driver = driver()?;
        known(driver, device)?;
        if init & FLAGS_ARE_VALID != 0 {
            check(driver.cuDevicePrimaryCtxSetFlags_v2(device, flags & !MAP_HOST))?;
        }
        context::primary(device).map(|_| ())
    }
    fn cudaSetValidDevices(devices: *mut c_int, count: c_int) {
        let driver = driver()?;
        let count = usize::try_from(count).map_err(|_| cudaError::cudaErrorInvalidValue)?;
        if count == 0 {
            context::prefer(0);
            return Ok(());
        }
        let most = usize::try_from(context::count(driver)?).unwrap_or(0);
        if devices.is_null() || count > most {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        let devices = core::slice::from_raw_parts(devices, count);
        devices.iter().try_for_each(|&device| known(driver, device))?;
        context::prefer(devices[0]);
        Ok(())
    }
    fn cudaSetDeviceFlags(flags: c_uint) {
        if flags & !DEVICE_FLAGS != 0 {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        context::set_flags(flags & !MAP_HOST)
    }
    fn cudaGetDeviceFlags(place: *mut c_uint) {
        let (driver, device) = (driver()?, context::device()?);
        let (mut flags, mut active) = (0, 0);
        check(driver.cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active))?;
        put(place, flags | MAP_HOST)
    }
    fn cudaDeviceSynchronize() { check(ready()?.cuCtxSynchronize()) }
    fn cudaDeviceGetAttribute(place: *mut c_int, attribute: cudaDeviceAttr, device: c_int) {
        let driver = driver()?;
        known(driver, device)?;
        check(driver.cuDeviceGetAttribute(place, pass(attribute), device))
    }
    fn cudaDeviceGetLimit(place: *mut usize, limit: cudaLimit) = cuCtxGetLimit;
    fn cudaDeviceSetLimit(limit: cudaLimit, value: usize) = cuCtxSetLimit;
    fn cudaDeviceGetCacheConfig(place: *mut cudaFuncCache) = cuCtxGetCacheConfig;
    fn cudaDeviceSetCacheConfig(config: cudaFuncCache) = cuCtxSetCacheConfig;
    fn cudaDeviceGetSharedMemConfig(place: *mut cudaSharedMemConfig) = cuCtxGetSharedMemConfig;
    fn cudaDeviceSetSharedMemConfig(config: cudaSharedMemConfig) = cuCtxSetSharedMemConfig;
    fn cudaCtxResetPersistingL2Cache() = cuCtxResetPersistingL2Cache;
    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) = cuCtxGetStreamPriorityRange;
    fn cudaDeviceGetByPCIBusId(place: *mut c_int, id: *const c_char) {
        if place.is_null() || id.is_null() {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        check(driver()?.cuDeviceGetByPCIBusId(place, id))
    }
    fn cudaDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) {
        let driver = driver()?;
        known(driver, device)?;
        check(driver.cuDeviceGetPCIBusId(id, length, device))
    }
    fn cudaDeviceCanAccessPeer(place: *mut c_int, device: c_int, peer: c_int) {
        let driver = driver()?;
        known(driver, device)?;
        known(driver, peer)?;
        check(driver.cuDeviceCanAccessPeer(place, device, peer))
    }
    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        let driver = ready()?;
        check(driver.cuCtxEnablePeerAccess(context::primary(peer)?, flags))
    }
    fn cudaDeviceDisablePeerAccess(peer: c_int) {
        let driver = ready()?;
        check(driver.cuCtxDisablePeerAccess(context::primary(peer)?))
    }
    fn cudaDeviceGetP2PAttribute(place: *mut c_int, attribute: cudaDeviceP2PAttr, device: c_int, peer: c_int) {
        let driver = driver()?;
        known(driver, device)?;
        known(driver, peer)?;
        check(driver.cuDeviceGetP2PAttribute(place, pass(attribute), device, peer))
    }
    fn cudaDriverGetVersion(place: *mut c_int) {
        let version = context::loaded().and_then(cuda_sys::Driver::version);
        put(place, version.unwrap_or(0))
    }
    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char, place: *mut *mut c_void, version: c_uint, flags: c_ulonglong,
        status: *mut cudaDriverEntryPointQueryResult,
    ) { entry_point(symbol, place, version, flags, status) }
    fn cudaGetDriverEntryPointByVersion_ptsz(
        symbol: *const c_char, place: *mut *mut c_void, version: c_uint, flags: c_ulonglong,
        status: *mut cudaDriverEntryPointQueryResult,
    ) { entry_point(symbol, place, version, own_stream(flags), status) }
    fn cudaProfilerStart() { profiler(c"cuProfilerStart") }
    fn cudaProfilerStop() { profiler(c"cuProfilerStop") }
}

/// Returns the flags with which functions of per-thread streams are found, unless the caller has named a kind.
#[must_use]
pub fn own_stream(flags: c_ulonglong) -> c_ulonglong {
    /// `cudaEnablePerThreadDefaultStream`.
    const PER_THREAD: c_ulonglong = 2;
    if flags == 0 { PER_THREAD } else { flags }
}

/// Calls a function of `cudaProfiler.h`, which has no arguments.
fn profiler(name: &CStr) -> CudaResult {
    /// The release whose ABI is asked for.
    const RELEASE: c_int = 12000;
    let driver = ready()?;
    let (mut found, mut status) = (ptr::null_mut(), cuda_sys::CUdriverProcAddressQueryResult(0));
    // SAFETY: the name ends in NUL, and the places are valid for the writes.
    check(unsafe {
        driver.cuGetProcAddress_v2(name.as_ptr(), &raw mut found, RELEASE, 0, &raw mut status)
    })?;
    if found.is_null() {
        return Err(cudaError::cudaErrorNotSupported);
    }
    // SAFETY: the driver returned the address of the function with this name, which takes nothing and returns a code.
    let function: unsafe extern "C" fn() -> CUresult = unsafe { core::mem::transmute(found) };
    // SAFETY: the function has no preconditions but a context.
    check(Ok(unsafe { function() }))
}
