//! Tests of the harness itself.

fn main() -> std::process::ExitCode {
    test_harness::main(test_harness::own_suite(), Vec::new())
}
