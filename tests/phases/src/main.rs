//! Tests of kernels in Rust: the same function on the CPU and on the software device, with the same bits.

mod check;
mod edges;
mod elements;
mod exported;
mod halves;
mod language;
mod loops;
mod math;
mod printing;
mod programs;
mod types;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_safe::{Context, Driver, Stream};

/// Waits until no other test uses the context, whose faults are those of all its streams.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a new stream of the software device, or of the system's driver if `PHASES_DRIVER` is `system`.
fn stream() -> Stream {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| {
        let driver = match std::env::var("PHASES_DRIVER").as_deref() {
            Ok("system") => Driver::load(),
            _ => {
                cuda_emu::Config::from_env().install();
                Driver::from_sys(cuda_emu::driver())
            }
        };
        driver.unwrap().device(0).unwrap().context().unwrap()
    });
    context.stream().unwrap()
}
