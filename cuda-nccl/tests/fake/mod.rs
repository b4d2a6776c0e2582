//! A stand-in for NCCL whose faults the tests choose. Ranks are of one process, on the software device, whose memory the
//! host reads and writes by the same addresses. A collective runs when the last rank has called it; until then the call is
//! in progress, as NCCL's are while it connects. What a program must not do (two threads on one communicator, a handle that
//! is gone, a group that is not ended) is counted.
//!
//! It is not a model of NCCL's order on the device; the crate `nccl-emu` is.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test uses a part")]

use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cuda_nccl::Nccl;
use cuda_safe::{Context, Driver};

mod functions;
mod reduce;

use functions::resolve;
pub use functions::{fail_rank, groups_are_ended, record_counts};

/// The devices of all tests of a program.
pub const DEVICES: usize = 4;

/// Returns the software driver with four devices. `CUDA_EMU_SEED` draws the order of work on it.
pub fn driver() -> Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    *DRIVER.get_or_init(|| {
        cuda_emu::Config::from_env().devices(DEVICES as u32).install();
        Driver::from_sys(cuda_emu::driver()).unwrap()
    })
}

pub fn contexts(count: usize) -> Vec<Context> {
    (0..count).map(|ordinal| driver().device(ordinal).unwrap().context().unwrap()).collect()
}

/// Lets one test at a time change the faults, and begins without any.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    *faults() = Faults::default();
    // The communicators of the test before, which threads destroy.
    all_gone();
    MISUSES.lock().unwrap_or_else(PoisonError::into_inner).clear();
    CALLS.store(0, Ordering::SeqCst);
    guard
}

/// Which functions fail, and how.
#[derive(Default)]
pub struct Faults {
    /// The codes that functions return instead of doing anything.
    pub codes: HashMap<&'static str, c_int>,
    /// How long an abort takes.
    pub abort_takes: Duration,
    /// Whether work is never done.
    pub never_done: bool,
    /// Whether at the end of an abort a kernel of the rank still writes to the memory of its peers.
    pub late_writes: bool,
}

pub fn faults() -> MutexGuard<'static, Faults> {
    static FAULTS: OnceLock<Mutex<Faults>> = OnceLock::new();
    FAULTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

static MISUSES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Communicators that are alive.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// Collectives and messages that were called.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Returns how many collectives and messages have reached the library.
pub fn calls() -> usize {
    CALLS.load(Ordering::SeqCst)
}

/// Returns the number of communicators that are alive.
pub fn alive() -> usize {
    ALIVE.load(Ordering::SeqCst)
}

/// Waits until no communicator is alive; threads destroy them.
pub fn all_gone() {
    let start = std::time::Instant::now();
    while alive() > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} communicators are left", alive());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Fails if the library was misused.
pub fn no_misuse() {
    let misuses = MISUSES.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(misuses.is_empty(), "{misuses:?}");
}

fn misuse(what: impl Into<String>) {
    MISUSES.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
}

/// Returns the library, of version 2.28.
pub fn library() -> &'static Nccl {
    static LIBRARY: OnceLock<&'static Nccl> = OnceLock::new();
    LIBRARY.get_or_init(|| without(&[]))
}

/// Returns the library without some functions.
pub fn without(missing: &'static [&'static str]) -> &'static Nccl {
    let resolve = |name: &CStr| match missing.contains(&name.to_str().unwrap()) {
        true => std::ptr::null(),
        false => resolve(name),
    };
    // SAFETY: the functions of this module have the ABI of `nccl.h`.
    unsafe { Nccl::from_resolver(&resolve) }.unwrap()
}
