//! The sum of an array, in two launches.

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, include_cuda, kernels};

use crate::Output;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: threads read x[i] for i < n alone; thread 0 of block b writes out[b]; `part` has an element for each thread,
    // halving a power of two reaches all of them, and every thread meets every barrier.
    unsafe in include_cuda!("reduction.cu") {
        safe fn reduce<T in [f32, f64]>(#[only_read] x: &[T], out: &mut [T], n: u32 = x.len())
            where block.x.is_power_of_two(), shared >= 8 * block.x, grid.x <= out.len();
    }
}

/// Adds up a million numbers.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (n, blocks, threads) = (1 << 20, 64, 256);
    let x: Vec<f32> = (0..n).map(|i| (i % 10) as f32).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let x = DeviceBuffer::from_slice(&stream, &x)?;
    let mut parts = DeviceBuffer::<f32>::zeroed(&stream, blocks)?;
    let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let launch = |blocks| LaunchConfig::new(blocks, threads).dynamic_shared_bytes(8 * threads);
    kernels.reduce(&stream, launch(blocks), &x, &mut parts)?;
    kernels.reduce(&stream, launch(1), &parts, &mut sum)?;
    Ok(sum.to_vec(&stream)?)
}
