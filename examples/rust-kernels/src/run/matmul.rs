use cuda_safe::DeviceBuffer;
use rust_kernels::matmul::matmul;

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // No multiple of a block's size.
    let n = setting.size(500, 90) + 1;
    let (a, b) = (Random::floats(8, n * n), Random::floats(9, n * n));

    let mut cpu = vec![0.0; n * n];
    matmul::cpu(n, &a, &b, &mut cpu)?;

    let on_device = [DeviceBuffer::from_slice(stream, &a)?, DeviceBuffer::from_slice(stream, &b)?];
    let mut c = DeviceBuffer::<f32>::zeroed(stream, n * n)?;
    matmul::launch(stream, n, &on_device[0], &on_device[1], &mut c)?;
    same(&cpu, &c.to_vec(stream)?)?;

    // In f64, and rows of `a` as combinations of rows of `b`.
    for row in 0..n {
        let (mut sums, mut sizes) = (vec![0.0; n], vec![0.0; n]);
        for k in 0..n {
            for column in 0..n {
                let product = f64::from(a[row * n + k]) * f64::from(b[k * n + column]);
                sums[column] += product;
                sizes[column] += product.abs();
            }
        }
        for column in 0..n {
            let tolerance = sizes[column] * n as f64 * 6e-8;
            close("an element", f64::from(cpu[row * n + column]), sums[column], tolerance)?;
        }
    }
    Ok(format!("{n} x {n}"))
}
