//! A stencil in three dimensions, with its weights in `__constant__` memory.

use std::mem::swap;

use cuda_safe::{Context, DeviceBuffer, include_cuda, kernels};

use crate::Output;

const RADIUS: usize = 4;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: thread (x, y) writes the elements of its column alone, and reads values that lie up to RADIUS beside it only
    // where it is as far from each border. The clauses say that the arrays have all elements, whose indices are ints.
    unsafe in include_cuda!("fdtd3d.cu") {
        global stencil: [f32; RADIUS + 1];

        safe fn step(out: &mut [f32], #[only_read] x: &[f32], nx: i32, ny: i32, nz: i32) over [nx, ny]
            where nx >= 0, ny >= 0, nz >= 0, out.len() == nx * ny * nz, x.len() == nx * ny * nz,
                nx * ny * nz < 1_000_000_000;
    }
}

/// Takes five steps in a box of 50 × 40 × 30 values.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (nx, ny, nz, steps) = (50, 40, 30, 5);
    let weights = [0.4, 0.04, 0.03, 0.02, 0.01];
    let values: Vec<f32> = (0..nx * ny * nz).map(|i| (i % 11) as f32).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let mut now = DeviceBuffer::from_slice(&stream, &values)?;
    let mut next = now.try_clone(&stream)?;
    kernels.stencil(&stream)?.write(&stream, &weights)?;
    for _ in 0..steps {
        kernels.step(&stream, &mut next, &now, nx, ny, nz)?;
        swap(&mut now, &mut next);
    }
    Ok(now.to_vec(&stream)?)
}
