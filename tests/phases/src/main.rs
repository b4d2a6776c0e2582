//! Tests of kernels in Rust: the same function on the CPU and on the software device, with the same bits.

mod check;
mod elements;
mod exported;
mod math;
mod programs;
mod types;

use std::sync::OnceLock;

use cuda_safe::{Context, Driver, Stream};

/// Returns a new stream of the software device.
fn stream() -> Stream {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| {
        cuda_emu::Config::from_env().install();
        Driver::from_sys(cuda_emu::driver()).unwrap().device(0).unwrap().context().unwrap()
    });
    context.stream().unwrap()
}
