//! A sparse linear system, solved in one launch whose blocks wait for each other.

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, include_cuda, kernels};

use crate::Output;

const BLOCK: u32 = 256;

kernels! {
    struct Kernels;
    // SAFETY: nothing is promised: the kernel is an `unsafe fn`.
    unsafe in include_cuda!("conjugate_gradient.cu") {
        /// Solves `A x = r`, with `x` 0.
        ///
        /// # Safety
        /// `rows` and `columns` are those of a matrix: the host can't check what the device reads there.
        #[name = "conjugateGradient"]
        unsafe fn solve(
            #[only_read] rows: &[i32], #[only_read] columns: &[i32], #[only_read] values: &[f32], x: &mut [f32],
            r: &mut [f32], p: &mut [f32], ap: &mut [f32], dots: &mut [f64], n: i32 = x.len(), most: i32,
            tolerance: f64,
        ) cooperative
            where block.x == BLOCK, rows.len() == n + 1, columns.len() == values.len(), r.len() == n, p.len() == n,
                ap.len() == n, dots.len() == 2 * most + 1;
    }
}

/// Solves a system of ten thousand equations.
///
/// # Errors
/// The driver fails, or the file does not compile.
pub fn run(context: &Context) -> Output {
    let (n, most, tolerance) = (10_000, 100, 1e-4);
    let (mut rows, mut columns, mut values, mut b) = (vec![0], vec![], vec![], vec![0.0; 10_000]);
    for i in 0..n {
        for k in (i - 1).max(0)..=(i + 1).min(n - 1) {
            let value = if k == i { 4.0 } else { -1.0 };
            columns.push(k);
            values.push(value);
            b[usize::try_from(i)?] += value * (1 + k % 3) as f32;
        }
        rows.push(i32::try_from(columns.len())?);
    }

    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;
    let rows = DeviceBuffer::from_slice(&stream, &rows)?;
    let columns = DeviceBuffer::from_slice(&stream, &columns)?;
    let values = DeviceBuffer::from_slice(&stream, &values)?;
    let mut x = DeviceBuffer::<f32>::zeroed(&stream, b.len())?;
    let mut r = DeviceBuffer::from_slice(&stream, &b)?;
    let mut p = x.try_clone(&stream)?;
    let mut ap = x.try_clone(&stream)?;
    let mut dots = DeviceBuffer::<f64>::zeroed(&stream, 2 * most + 1)?;

    let blocks = kernels.solve_kernel().max_active_blocks(BLOCK, 0)?;
    let launch = LaunchConfig::new(blocks * context.device().multiprocessor_count()?, BLOCK);
    // SAFETY: the rows begin at 0 and end at the number of columns, which are below n.
    unsafe {
        kernels.solve(
            &stream, launch, &rows, &columns, &values, &mut x, &mut r, &mut p, &mut ap, &mut dots,
            most, tolerance,
        )?;
    }
    Ok(x.to_vec(&stream)?)
}
