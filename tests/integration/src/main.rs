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
mod host;
mod sanitize;
mod seeds;
mod tape;

use std::process::ExitCode;

use test_harness as harness;
use test_harness::programs;

use harness::Suite;

fn main() -> ExitCode {
    harness::main(suite(), Vec::new())
}

fn suite() -> Suite {
    Suite::joined([own(), device::suite(), geometry::suite(), tape::suite()])
}

/// What is of no crate yet.
fn own() -> Suite {
    let mut cases = host::cases();
    cases.extend(compile::cases());
    cases.extend(files::cases());
    cases.extend(foreign::cases());
    cases.extend(fault::cases());
    cases.extend(seeds::cases());
    cases.extend(golden::cases());
    cases.extend(generated::cases());
    cases.extend(checkers::cases());
    cases.extend(sanitize::cases());
    Suite {
        commands: vec![
            compile::command,
            golden::command,
            generated::command,
            checkers::command,
            sanitize::command,
        ],
        slow: vec!["generated::programs"],
        not_swept: vec![(
            "golden::bits::",
            "they call what others call, many times each, and only compare bits",
        )],
        ..Suite::new("-p integration-tests --test integration", cases)
    }
}
