//! The driver, the thread's device, and primary contexts.

use core::cell::Cell;
use core::ffi::{c_int, c_uint};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cuda_sys::{CUcontext, Driver};

use crate::bindings::runtime::cudaError;
use crate::call::{CudaResult, check};
use crate::registry;

/// The oldest driver that this library runs on: libraries and kernels as handles came with 12.0.
const OLDEST_DRIVER: i32 = 12000;

/// The primary context of a device, once the runtime has retained it.
#[derive(Clone, Copy)]
struct Retained {
    context: CUcontext,
    /// How often the device had been reset.
    resets: u64,
}

// SAFETY: the handle is a number for the driver, which takes it from every thread.
unsafe impl Send for Retained {}

/// The primary contexts that are retained, by device.
static RETAINED: Mutex<Vec<Option<Retained>>> = Mutex::new(Vec::new());
/// The number of resets of any device.
static RESETS: AtomicU64 = AtomicU64::new(0);
/// The number of resets after which the addresses of managed variables were written.
static REFRESHED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The device that this thread has set.
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    /// The primary context that this library has made current on this thread, with the number of resets then.
    static BOUND: Cell<(CUcontext, u64)> = const { Cell::new((ptr::null_mut(), 0)) };
}

/// Returns the driver without initialising it; `None` if there is none.
pub(crate) fn loaded() -> Option<&'static Driver> {
    Driver::load().ok()
}

/// Returns the driver after `cuInit`.
pub(crate) fn driver() -> CudaResult<&'static Driver> {
    static READY: OnceLock<&'static Driver> = OnceLock::new();
    if let Some(driver) = READY.get() {
        return Ok(driver);
    }
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => {
            static SAID: OnceLock<()> = OnceLock::new();
            SAID.get_or_init(|| eprintln!("cudart: {error}"));
            return Err(cudaError::cudaErrorInsufficientDriver);
        }
    };
    if driver.version().is_none_or(|version| version < OLDEST_DRIVER) {
        return Err(cudaError::cudaErrorInsufficientDriver);
    }
    // SAFETY: the function has no preconditions.
    check(unsafe { driver.cuInit(0) })?;
    // A failure is not remembered: a device may appear later.
    Ok(READY.get_or_init(|| driver))
}

/// Returns the device that calls of this thread use.
pub(crate) fn device() -> CudaResult<c_int> {
    let driver = driver()?;
    let mut context = ptr::null_mut();
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuCtxGetCurrent(&raw mut context) })?;
    if context.is_null() || context == BOUND.get().0 {
        return Ok(DEVICE.get());
    }
    let mut device = 0;
    // SAFETY: as above.
    check(unsafe { driver.cuCtxGetDevice(&raw mut device) })?;
    Ok(device)
}

/// Returns the driver with a context that is current on this thread.
#[inline]
pub(crate) fn ready() -> CudaResult<&'static Driver> {
    let driver = driver()?;
    let mut context = ptr::null_mut();
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuCtxGetCurrent(&raw mut context) })?;
    let (bound, resets) = BOUND.get();
    let stale = context == bound && resets != RESETS.load(Ordering::Acquire);
    if context.is_null() || stale {
        bind(driver, DEVICE.get())?;
    }
    Ok(driver)
}

/// Returns the driver if this thread has had its device's primary context made current since the last reset. The program may
/// have made another context current since, or none.
#[inline]
pub(crate) fn used() -> CudaResult<Option<&'static Driver>> {
    let (bound, resets) = BOUND.get();
    let used = !bound.is_null() && resets == RESETS.load(Ordering::Acquire);
    if used { driver().map(Some) } else { Ok(None) }
}

/// Makes a device the thread's, and its primary context current.
pub(crate) fn set_device(device: c_int) -> CudaResult {
    let driver = driver()?;
    known(driver, device)?;
    bind(driver, device)?;
    DEVICE.set(device);
    Ok(())
}

/// Returns an error for a device that does not exist.
pub(crate) fn known(driver: &Driver, device: c_int) -> CudaResult {
    let mut count = 0;
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuDeviceGetCount(&raw mut count) })?;
    match count {
        0 => Err(cudaError::cudaErrorNoDevice),
        _ if (0..count).contains(&device) => Ok(()),
        _ => Err(cudaError::cudaErrorInvalidDevice),
    }
}

/// Makes the primary context of a device current.
fn bind(driver: &Driver, device: c_int) -> CudaResult {
    known(driver, device)?;
    let Retained { context, resets } = retained(driver, device)?;
    // SAFETY: the context is retained.
    check(unsafe { driver.cuCtxSetCurrent(context) })?;
    BOUND.set((context, resets));
    if REFRESHED.load(Ordering::Acquire) != resets {
        // Each thread that binds meanwhile refreshes, too: none returns before the addresses are written.
        registry::refresh(driver)?;
        REFRESHED.store(resets, Ordering::Release);
    }
    Ok(())
}

/// Returns the primary context of a device, retained once for the process.
fn retained(driver: &Driver, device: c_int) -> CudaResult<Retained> {
    let mut all = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = usize::try_from(device).map_err(|_| cudaError::cudaErrorInvalidDevice)?;
    if all.len() <= at {
        all.resize(at + 1, None);
    }
    let resets = RESETS.load(Ordering::Acquire);
    if let Some(known) = &mut all[at] {
        known.resets = resets;
        return Ok(*known);
    }
    let mut context = ptr::null_mut();
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) })?;
    let new = Retained { context, resets };
    all[at] = Some(new);
    Ok(new)
}

/// Returns the primary context of a device.
pub(crate) fn primary(device: c_int) -> CudaResult<CUcontext> {
    let driver = driver()?;
    known(driver, device)?;
    Ok(retained(driver, device)?.context)
}

/// Destroys everything in the primary context of the thread's device. The next call makes a new one.
pub(crate) fn reset() -> CudaResult {
    let device = device()?;
    let driver = driver()?;
    let mut current = ptr::null_mut();
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuCtxGetCurrent(&raw mut current) })?;
    // A context of the program's is not the runtime's to destroy.
    if !current.is_null() && current != BOUND.get().0 && !is_primary(driver, current, device)? {
        return Ok(());
    }
    let mut all = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = usize::try_from(device).ok().and_then(|at| all.get_mut(at)).and_then(Option::take);
    // No error ends the function early: the driver returns those of earlier launches here, and destroys the context.
    let released = match known {
        // SAFETY: the runtime has retained the context, and forgets it here.
        Some(_) => check(unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) }),
        None => Ok(()),
    };
    RESETS.fetch_add(1, Ordering::Release);
    // SAFETY: the function has no preconditions. Handles of the context are invalid from here on, by the rules of
    // `cudaDeviceReset`.
    let reset = check(unsafe { driver.cuDevicePrimaryCtxReset_v2(device) });
    // SAFETY: null is allowed.
    let unset = check(unsafe { driver.cuCtxSetCurrent(ptr::null_mut()) });
    BOUND.set((ptr::null_mut(), 0));
    released.and(reset).and(unset)
}

/// Returns whether a context is the primary one of a device, without making one.
fn is_primary(driver: &Driver, context: CUcontext, device: c_int) -> CudaResult<bool> {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the places are valid for the writes.
    check(unsafe { driver.cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) })?;
    Ok(active != 0 && retained(driver, device)?.context == context)
}

/// Sets the flags of the primary context of the thread's device.
pub(crate) fn set_flags(flags: c_uint) -> CudaResult {
    let driver = driver()?;
    // SAFETY: the function has no preconditions.
    check(unsafe { driver.cuDevicePrimaryCtxSetFlags_v2(device()?, flags) })
}

/// Returns the device of a context.
pub(crate) fn device_of(driver: &Driver, context: CUcontext) -> CudaResult<c_int> {
    let mut device = 0;
    // SAFETY: the context is one of the driver's, which is pushed and popped on this thread.
    unsafe {
        check(driver.cuCtxPushCurrent_v2(context))?;
        let found = check(driver.cuCtxGetDevice(&raw mut device));
        let mut popped = ptr::null_mut();
        check(driver.cuCtxPopCurrent_v2(&raw mut popped))?;
        found?;
    }
    Ok(device)
}

/// Returns the number of devices, without an error for none.
pub(crate) fn count(driver: &Driver) -> CudaResult<c_int> {
    let mut count = 0;
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuDeviceGetCount(&raw mut count) })?;
    Ok(count)
}

/// Makes a device the one that this thread uses, unless the thread has the context of one.
pub(crate) fn prefer(device: c_int) {
    if BOUND.get().0.is_null() {
        DEVICE.set(device);
    }
}

/// Returns the context that is current on this thread.
pub(crate) fn current() -> CudaResult<CUcontext> {
    let driver = ready()?;
    let mut context = ptr::null_mut();
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuCtxGetCurrent(&raw mut context) })?;
    Ok(context)
}
