//! The device tests, which `suite/` holds.

fn main() -> std::process::ExitCode {
    test_harness::main(geom_kernels_tests::suite(), Vec::new())
}
