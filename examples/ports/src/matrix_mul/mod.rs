//! A matrix product by tiles in shared memory.

use cuda_safe::{Context, DeviceBuffer, include_cuda, kernels};

use crate::Output;

const TILE: usize = 16;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread (x, y) writes element (x, y) of c. It reads row y of a, with wA elements, and column x of b, of which
    // the clauses say that they exist: all extents are multiples of the tile's, and all indices are ints. Every thread meets
    // every barrier.
    unsafe in include_cuda!("matrix_mul.cu") {
        #[name = "matrixMul"]
        safe fn matrix_mul(
            c: &mut [f32], #[only_read] a: &[f32], #[only_read] b: &[f32], wa: i32, wb: i32,
        ) over [wb, c.len() / wb] by [TILE, TILE]
            where wa > 0, wb > 0, wa % TILE == 0, wb % TILE == 0, c.len() % (TILE * wb) == 0,
                a.len() == c.len() / wb * wa, b.len() == wa * wb,
                a.len() <= i32::MAX, b.len() <= i32::MAX, c.len() <= i32::MAX;
    }
}

/// Multiplies a 96 × 64 matrix by one of 64 × 160.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (ha, wa, wb) = (96, 64, 160);
    let a: Vec<f32> = (0..ha * wa).map(|i| (i % 7) as f32).collect();
    let b: Vec<f32> = (0..wa * wb).map(|i| (i % 5) as f32).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let a = DeviceBuffer::from_slice(&stream, &a)?;
    let b = DeviceBuffer::from_slice(&stream, &b)?;
    let mut c = DeviceBuffer::<f32>::zeroed(&stream, ha * wb)?;
    kernels.matrix_mul(&stream, &mut c, &a, &b, wa, wb)?;
    Ok(c.to_vec(&stream)?)
}
