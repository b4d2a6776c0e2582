//! Tests of kernels in Rust: the same function on the CPU and on the software device, with the same bits.

mod elements;

use cuda_safe::{Context, Driver, Stream};

/// Returns a stream of the software device.
fn stream() -> Stream {
    cuda_emu::Config::from_env().install();
    let context: Context =
        Driver::from_sys(cuda_emu::driver()).unwrap().device(0).unwrap().context().unwrap();
    context.stream().unwrap()
}
