//! Products of matrices by tiles.

use cuda_safe::kernel::kernel::CpuError;
use cuda_safe::{DeviceBuffer, Stream};
use rust_kernels::gemm::gemm;
use rust_kernels::tiled::tiled;

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn tiles(setting: &Setting<'_>) -> Result<String, Failure> {
    product(setting, tiled::cpu, |stream, m, n, k, a, b, c| {
        Ok(tiled::launch(stream, m, n, k, a, b, c)?)
    })
}

pub(super) fn patches(setting: &Setting<'_>) -> Result<String, Failure> {
    product(setting, gemm::cpu, |stream, m, n, k, a, b, c| {
        Ok(gemm::launch(stream, m, n, k, a, b, c)?)
    })
}

type Buffer = DeviceBuffer<f32>;

/// `cpu` of a kernel.
type OnCpu = fn(usize, usize, usize, &[f32], &[f32], &mut [f32]) -> Result<(), CpuError>;

/// Multiplies matrices on the CPU by the first function, and on the device by the second.
fn product(
    setting: &Setting<'_>,
    on_cpu: OnCpu,
    on_device: impl Fn(
        &Stream,
        usize,
        usize,
        usize,
        &Buffer,
        &Buffer,
        &mut Buffer,
    ) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let stream = setting.stream;
    // No multiples of a tile's size.
    let (m, n, k) =
        (setting.size(500, 50) + 1, setting.size(400, 66) + 3, setting.size(600, 70) + 5);
    let (a, b) = (Random::floats(14, m * k), Random::floats(15, k * n));
    let mut cpu = vec![0.0; m * n];
    on_cpu(m, n, k, &a, &b, &mut cpu)?;
    let [left, right] = [Buffer::from_slice(stream, &a)?, Buffer::from_slice(stream, &b)?];
    let mut c = Buffer::zeroed(stream, m * n)?;
    on_device(stream, m, n, k, &left, &right, &mut c)?;
    same(&cpu, &c.to_vec(stream)?)?;
    compare([m, n, k], &a, &b, &cpu)?;
    Ok(format!("{m} x {k} by {k} x {n}"))
}

/// Compares with the product in f64, as combinations of rows of `b`.
fn compare([m, n, k]: [usize; 3], a: &[f32], b: &[f32], c: &[f32]) -> Result<(), Failure> {
    for row in 0..m {
        let (mut sums, mut sizes) = (vec![0.0; n], vec![0.0; n]);
        for t in 0..k {
            for column in 0..n {
                let product = f64::from(a[row * k + t]) * f64::from(b[t * n + column]);
                sums[column] += product;
                sizes[column] += product.abs();
            }
        }
        for column in 0..n {
            let tolerance = sizes[column] * k as f64 * 6e-8;
            close("an element", f64::from(c[row * n + column]), sums[column], tolerance)?;
        }
    }
    Ok(())
}
