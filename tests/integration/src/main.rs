//! The tests of no single crate: programs of others, and checks over the tests of all crates. With `TEST_EVERY_CRATE` set
//! this program runs the device tests of all crates too, as on a machine without cargo.

mod files;
mod foreign;
mod sanitize;
mod soundness;

use std::process::ExitCode;

use test_harness::Suite;

fn main() -> ExitCode {
    test_harness::main(own(), others())
}

/// The tests of this program.
fn own() -> Suite {
    let cases = [soundness::cases(), files::cases(), foreign::cases(), sanitize::cases()].concat();
    Suite {
        commands: vec![sanitize::command],
        ..Suite::new("-p integration-tests --test integration", cases)
    }
}

/// The tests of the crates.
fn others() -> Vec<Suite> {
    vec![
        test_harness::own_suite(),
        cuda_safe_tests::suite(),
        geom_kernels_tests::suite(),
        cuda_tape_tests::suite(),
        cuda_libs_tests::suite(),
        cuda_emu_tests::suite(),
    ]
}

/// All tests.
fn suite() -> Suite {
    Suite::joined([own()].into_iter().chain(others()))
}
