//! Programs on the headers, under the options that change floating-point code most.

use cuda_safe::{KernelSource, Module};
use nvrtc::Options;

use test_harness::{Failure, TestDevice};

/// The options, by name. What the headers promise of bits, they promise under all of them.
pub(super) fn flags() -> [(&'static str, Options); 3] {
    [
        ("default options", Options::new()),
        ("--fmad=false", Options::new().fmad(false)),
        ("--use_fast_math", Options::new().fast_math(true)),
    ]
}

/// The program for this device.
pub(super) fn module(
    device: &TestDevice,
    source: &str,
    options: Options,
) -> Result<Module, Failure> {
    let program = geom_kernels::program(source).cuda_headers(false).options(options);
    Ok(program.load_kernels(device.context(), &[])?)
}
