//! Tests of launches of Rust kernels on streams, with kernels whose C++ is written by hand.

mod by_hand;
mod faults;
mod launches;
mod packed;
mod packs;
mod places;

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_safe::{Context, Driver};

#[global_allocator]
static METER: test_support::meter::Meter = test_support::meter::Meter;

/// The context that the tests share: of the software device, or of the system's driver if `PHASES_DRIVER` is `system`. They
/// take turns: each has its faults for itself.
struct Turn {
    context: Context,
    _turn: MutexGuard<'static, ()>,
}

fn turn() -> Turn {
    static ONE: Mutex<()> = Mutex::new(());
    let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = match std::env::var("PHASES_DRIVER").as_deref() {
        Ok("system") => Driver::load(),
        _ => Driver::from_sys(cuda_emu::driver()),
    };
    let driver = driver.expect("a driver");
    let context = driver.device(0).expect("a device").context().expect("a context");
    let _ = context.take_fault();
    Turn { context, _turn: turn }
}
