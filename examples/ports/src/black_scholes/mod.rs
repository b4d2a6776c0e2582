//! Prices of European options by the formula of Black and Scholes.

use cuda_safe::{Context, DeviceBuffer, include_cuda, kernels};

use crate::Output;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: each thread touches the elements of its own indices below n; with one thread for each element no index is
    // larger than 31 bits hold.
    unsafe in include_cuda!("black_scholes.cu") {
        #[name = "blackScholes"]
        safe fn black_scholes(
            call: &mut [f32], put: &mut [f32], #[only_read] price: &[f32], #[only_read] strike: &[f32],
            #[only_read] years: &[f32], risk_free: f32, volatility: f32, n: i32 = call.len(),
        ) over n by 128
            where put.len() == n, price.len() == n, strike.len() == n, years.len() == n, n < 1_000_000_000;
    }
}

/// Prices a hundred thousand options: first all calls, then all puts.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let n = 100_000;
    let price: Vec<f32> = (0..n).map(|i| (5 + i % 26) as f32).collect();
    let strike: Vec<f32> = (0..n).map(|i| (1 + i % 100) as f32).collect();
    let years: Vec<f32> = (0..n).map(|i| 0.25 + (i % 10) as f32).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let price = DeviceBuffer::from_slice(&stream, &price)?;
    let strike = DeviceBuffer::from_slice(&stream, &strike)?;
    let years = DeviceBuffer::from_slice(&stream, &years)?;
    let mut call = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut put = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    kernels.black_scholes(&stream, &mut call, &mut put, &price, &strike, &years, 0.02, 0.3)?;
    Ok([call.to_vec(&stream)?, put.to_vec(&stream)?].concat())
}
