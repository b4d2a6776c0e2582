//! The device tests, which `suite/` holds.

fn main() -> std::process::ExitCode {
    test_harness::main(cuda_libs_tests::suite(), Vec::new())
}
