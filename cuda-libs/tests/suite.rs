//! The device tests, which `suite/` holds, and the cost of a call, which is measured optimised: the tests are not.

mod cost;

fn main() -> std::process::ExitCode {
    let mut suite = cuda_libs_tests::suite();
    suite.commands.push(cost::command);
    test_harness::main(suite, Vec::new())
}
