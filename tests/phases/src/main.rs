//! Tests of kernels in Rust: the same function on the CPU and on the software device, with the same bits.

mod blocks;
mod check;
mod edges;
mod elements;
mod exported;
mod functions;
mod halves;
mod hijacks;
mod language;
mod loops;
mod math;
mod printing;
mod programs;
mod random;
mod scopes;
mod straight;
mod structures;
mod types;
mod variants;
mod vectors;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_emu::{Checks, Config};
use cuda_safe::{Context, Driver, Stream};

/// Waits until no other test uses the context, whose faults are those of all its streams.
fn alone() -> Alone {
    static LOCK: Mutex<()> = Mutex::new(());
    Alone(LOCK.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A test's use of the context. At its end, the checkers of the software device have found no race and no read of memory
/// that nothing has written.
struct Alone(#[expect(dead_code, reason = "held until the drop")] MutexGuard<'static, ()>);

impl Drop for Alone {
    fn drop(&mut self) {
        let found = cuda_emu::findings();
        if !std::thread::panicking() {
            assert!(found.is_empty(), "{}", found[0]);
        }
    }
}

/// Returns whether the tests run on the software device: they do unless `PHASES_DRIVER` is `system`.
fn is_emulated() -> bool {
    std::env::var("PHASES_DRIVER").as_deref() != Ok("system")
}

/// Returns a new stream.
fn stream() -> Stream {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| {
        let driver = if is_emulated() {
            let checks = Checks { race: true, init: true, ..Checks::default() };
            Config::from_env().check(checks).install();
            Driver::from_sys(cuda_emu::driver())
        } else {
            Driver::load()
        };
        driver.unwrap().device(0).unwrap().context().unwrap()
    });
    context.stream().unwrap()
}
