//! A graph of two kernels, launched many times.

use cuda_safe::{Context, DeviceBuffer, include_cuda, kernels};

use crate::Output;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread i writes out[i] and reads x[i] and its neighbours where they exist, and only if i < n; i is an int.
    unsafe in include_cuda!("simple_graphs.cu") {
        safe fn smooth(out: &mut [f32], #[only_read] x: &[f32], n: i32 = out.len()) over n
            where x.len() == n, n < 2_000_000_000;
    }
}

/// Smooths a peak forty times.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (n, launches) = (1000, 20);
    let x: Vec<f32> = (0..n).map(|i| if i == n / 2 { 1000.0 } else { 0.0 }).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let now = DeviceBuffer::from_slice(&stream, &x)?;
    let next = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut graph = context.capture((now, next), |stream, (now, next)| {
        kernels.smooth(stream, &mut *next, &*now)?;
        kernels.smooth(stream, &mut *now, &*next)
    })?;
    for _ in 0..launches {
        graph.launch(&stream)?;
    }
    let (now, _) = graph.state();
    Ok(now.to_vec(&stream)?)
}
