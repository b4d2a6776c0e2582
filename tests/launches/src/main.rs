//! Tests of `cuda_safe::testing`: wrong declarations that it must find, and right ones that it must accept, on the software
//! device under its checkers.

mod edges;
mod right;
mod wrong;

use std::sync::{Mutex, PoisonError};

use cuda_safe::Driver;
use cuda_safe::testing::{Error, Launches, Report};

/// The function `test_launches` of some struct.
type Test = fn(&mut Launches<'_>) -> Result<Report, Error>;

/// Runs a test of declarations on the software device; `set` changes its settings. One at a time: there is one observation
/// in a process.
fn run_with(test: Test, set: impl FnOnce(Launches<'_>) -> Launches<'_>) -> Result<Report, Error> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let checks = cuda_emu::Checks { race: true, init: true, leak: false };
    cuda_emu::Config::from_env().check(checks).install();
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let observation = cuda_emu::observe().expect("the tests take turns, and the checkers are on");
    let launches = Launches::new(&context, || observation.found())?;
    test(&mut set(launches))
}

fn run(test: Test) -> Result<Report, Error> {
    run_with(test, |launches| launches)
}
