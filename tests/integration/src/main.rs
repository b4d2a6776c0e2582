//! The integration tests: one program, whose tiers are places where tests run. See `harness`.

mod checkers;
mod compile;
mod device;
mod fault;
mod files;
mod foreign;
mod generated;
mod geometry;
mod golden;
mod harness;
mod host;
mod programs;
mod sanitize;
mod schedules;
mod seeds;
mod sweep;
mod tape;

use std::process::ExitCode;

use harness::Case;
use test_support::meter::Meter;

/// Some tests count allocations.
#[global_allocator]
static METER: Meter = Meter;

fn main() -> ExitCode {
    // The run of all packages' tests builds this program too, but runs it by itself.
    if std::env::var_os("TEST_APART").is_some() {
        println!("the integration tests run by themselves");
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(compile::CHILD) => return compile::child_main(arguments),
        Some(schedules::COMMAND) => return schedules::command(arguments),
        Some(sweep::CHILD) => return sweep::child_main(&cases(), arguments),
        _ => {}
    }
    let command = golden::command()
        .or_else(generated::command)
        .or_else(checkers::command)
        .or_else(|| sanitize::command(&cases()));
    if let Some(code) = command {
        return code;
    }
    let mut cases = cases();
    cases.extend(sweep::cases(&cases));
    harness::main(&cases)
}

/// All cases but the sweep, which is made of them.
fn cases() -> Vec<Case> {
    let mut cases = host::cases();
    cases.extend(harness::cases());
    cases.extend(compile::cases());
    cases.extend(files::cases());
    cases.extend(foreign::cases());
    cases.extend(device::cases());
    cases.extend(geometry::cases());
    cases.extend(tape::cases());
    cases.extend(fault::cases());
    cases.extend(seeds::cases());
    cases.extend(schedules::cases());
    cases.extend(golden::cases());
    cases.extend(generated::cases());
    cases.extend(checkers::cases());
    cases.extend(sanitize::cases());
    cases
}
