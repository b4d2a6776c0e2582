//! Tests of `cuda_safe::testing`: wrong declarations that it must find, and right ones that it must accept, on the software
//! device under its checkers.

mod edges;
mod promise;
mod reports;
mod right;
mod wrong;

use std::sync::{Mutex, PoisonError};

use cuda_safe::testing::{Error, Launches, Report};
use cuda_safe::{Context, Driver};

/// The function `test_launches` of some struct.
type Test = fn(&mut Launches<'_>) -> Result<Report, Error>;

/// Calls `act` with a context on the software device, under its checkers. One at a time: there is one observation in a
/// process.
fn with_device<R>(
    act: impl FnOnce(&Context, &cuda_emu::Observation) -> cuda_safe::Result<R>,
) -> cuda_safe::Result<R> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let checks = cuda_emu::Checks { race: true, init: true, leak: false };
    cuda_emu::Config::from_env().check(checks).install();
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let observation = cuda_emu::observe().expect("the tests take turns, and the checkers are on");
    act(&context, &observation)
}

/// Runs a test of declarations on the software device; `set` changes its settings.
fn run_with(test: Test, set: impl FnOnce(Launches<'_>) -> Launches<'_>) -> Result<Report, Error> {
    with_device(|context, observation| {
        let launches = Launches::new(context, || observation.found());
        Ok(launches.map_err(Error::from).and_then(|launches| test(&mut set(launches))))
    })?
}

/// Runs a program on the software device, and returns the reports about its kernels.
fn observed(
    run: impl FnOnce(&Context) -> cuda_safe::Result<()>,
) -> (cuda_safe::Result<()>, Vec<String>) {
    let done = with_device(|context, observation| {
        let done = run(context);
        Ok((done, observation.found()))
    });
    done.unwrap_or_else(|error| (Err(error), Vec::new()))
}

fn run(test: Test) -> Result<Report, Error> {
    run_with(test, |launches| launches)
}
