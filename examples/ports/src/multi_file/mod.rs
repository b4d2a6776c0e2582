//! Two files, compiled apart and linked.

use cuda_safe::{Context, DeviceBuffer, include_cuda, kernels};

use crate::Output;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread i touches element i alone, and only if i < n; i is an int. The functions touch no memory.
    unsafe in [include_cuda!("multi_file.cu"), include_cuda!("functions.cu")] {
        safe fn evaluate(data: &mut [f32], n: i32 = data.len()) over n
            where n < 2_000_000_000;
    }
}

/// Evaluates a polynomial at a thousand integers and rounds.
///
/// # Errors
/// The driver fails, or a file does not compile.
pub fn run(context: &Context) -> Output {
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let mut data = DeviceBuffer::from_slice(&stream, &x)?;
    kernels.evaluate(&stream, &mut data)?;
    Ok(data.to_vec(&stream)?)
}
