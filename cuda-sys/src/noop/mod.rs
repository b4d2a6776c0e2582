//! A driver that does nothing and counts its calls, for tests and for measuring what a layer above
//! costs the host.
//!
//! It has one device with the limits of an H100 and the functions that such a layer needs to run;
//! [`Driver::supports`] returns whether it has one. Handles and device addresses are fresh numbers; host memory is
//! real. Kernels do not run, device memory has no contents and reads as zeros. Contexts are real in one respect: each
//! thread has its stack of current contexts, and what needs a current context fails without one.
//!
//! ```
//! use cuda_safe_sys::{CUresult, noop};
//!
//! let driver = noop::driver();
//! noop::reset();
//! let mut count = 0;
//! // SAFETY: `count` is valid for the write.
//! let code = unsafe { driver.cuDeviceGetCount(&mut count) }?;
//! assert_eq!((code, count), (CUresult::CUDA_SUCCESS, 1));
//! assert_eq!(noop::calls("cuDeviceGetCount"), 1);
//! # Ok::<(), cuda_safe_sys::MissingSymbol>(())
//! ```

mod functions;
mod state;

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::Ordering;

use once_cell::sync::OnceCell;

use crate::Driver;
use functions::{COUNTERS, find};

/// Returns the driver; the same one at every call.
#[must_use]
pub fn driver() -> &'static Driver {
    static DRIVER: OnceCell<&'static Driver> = OnceCell::new();
    // SAFETY: `resolve` returns functions of this crate, and `functions` assigns each of them
    // to its slot, so that the compiler has checked their types.
    DRIVER.get_or_init(|| unsafe { Driver::from_resolver(&resolve) })
}

/// Returns the address of a function of this driver, null if it has none of that name: for a table that
/// replaces some of the functions and takes the others from here.
#[must_use]
pub fn resolve(name: &CStr) -> *const c_void {
    let found = name.to_str().ok().and_then(find);
    found.map_or(ptr::null(), |(_, address)| address)
}

/// Returns how often the function with this exported name was called, by any thread, since [`reset`]; 0 for a function
/// that this driver does not have.
#[must_use]
pub fn calls(name: &str) -> u64 {
    find(name).map_or(0, |(counter, _)| counter.load(Ordering::Relaxed))
}

/// Returns how many calls there were of all functions, by any thread, since [`reset`].
#[must_use]
pub fn total_calls() -> u64 {
    COUNTERS.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
}

/// Sets all counts to zero.
pub fn reset() {
    for counter in COUNTERS {
        counter.store(0, Ordering::Relaxed);
    }
}
