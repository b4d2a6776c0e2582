//! The integration tests: one program, whose tiers are places where tests run. See `harness`.

mod compile;
mod device;
mod fault;
mod files;
mod foreign;
mod geometry;
mod golden;
mod harness;
mod host;
mod programs;
mod seeds;
mod tape;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(compile::CHILD) {
        return compile::child_main(arguments);
    }
    if let Some(code) = golden::command() {
        return code;
    }
    let mut cases = host::cases();
    cases.extend(compile::cases());
    cases.extend(files::cases());
    cases.extend(foreign::cases());
    cases.extend(device::cases());
    cases.extend(geometry::cases());
    cases.extend(tape::cases());
    cases.extend(fault::cases());
    cases.extend(seeds::cases());
    cases.extend(golden::cases());
    harness::main(&cases)
}
