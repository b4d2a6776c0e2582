//! Bodies that attract each other, with a constant in `__constant__` memory.

use std::mem::swap;

use cuda_safe::vector::Float4;
use cuda_safe::{Context, DeviceBuffer, include_cuda, kernels};

use crate::Output;

const BLOCK: usize = 128;

kernels! {
    #[cfg_attr(test, test_launches)]
    pub(super) struct Kernels;
    // SAFETY: threads read elements of the old positions below n; thread i writes element i of the new ones and of the
    // velocities, if i < n; i is an int. `tile` has an element for each thread, and every thread meets every barrier.
    unsafe in include_cuda!("nbody.cu") {
        #[name = "softeningSquared"]
        global softening_squared: f32;

        safe fn integrate(
            new: &mut [Float4], #[only_read] old: &[Float4], velocities: &mut [Float4], n: i32 = new.len(), dt: f32,
        ) over n by BLOCK
            where old.len() == n, velocities.len() == n, n < 2_000_000_000;
    }
}

/// Moves three hundred bodies by five steps, and returns where they are in x.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (n, steps, softening, dt) = (300, 5, 0.01, 0.001);
    let body = |i: usize| [i % 10, i / 10 % 10, i / 100, 1 + i % 3].map(|x| x as f32).into();
    let bodies: Vec<Float4> = (0..n).map(body).collect();

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let mut positions = DeviceBuffer::from_slice(&stream, &bodies)?;
    let mut next = positions.try_clone(&stream)?;
    let mut velocities = DeviceBuffer::<Float4>::zeroed(&stream, n)?;
    kernels.softening_squared(&stream)?.write(&stream, &[softening])?;
    for _ in 0..steps {
        kernels.integrate(&stream, &mut next, &positions, &mut velocities, dt)?;
        swap(&mut positions, &mut next);
    }
    Ok(positions.to_vec(&stream)?.iter().map(|body| body.x).collect())
}
