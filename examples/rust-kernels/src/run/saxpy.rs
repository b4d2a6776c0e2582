use cuda_safe::DeviceBuffer;
use rust_kernels::saxpy::{saxpy, saxpy4};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 24, 1 << 18) / 4 * 4;
    let (a, x, y) = (2.5, Random::floats(1, n), Random::floats(2, n));

    let mut cpu = vec![0.0; n];
    saxpy::cpu(a, &x, &y, &mut cpu)?;
    for (i, result) in cpu.iter().enumerate() {
        // In f64 the product is exact, and the sum is as good as exact.
        let oracle = f64::from(a) * f64::from(x[i]) + f64::from(y[i]);
        close(&format!("element {i}"), f64::from(*result), oracle, oracle.abs() * 6e-8 + 1e-30)?;
    }

    let dx = DeviceBuffer::from_slice(stream, &x)?;
    let dy = DeviceBuffer::from_slice(stream, &y)?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, n)?;
    saxpy::launch(stream, a, &dx, &dy, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;

    // Four floats a thread: the same memory as arrays of four.
    out.fill(stream, f32::NAN)?;
    let (dx, dy) = (dx.as_slice().cast()?, dy.as_slice().cast()?);
    saxpy4::launch(stream, a, dx, dy, out.as_slice_mut().cast_mut()?)?;
    same(&cpu, &out.to_vec(stream)?)?;
    Ok(format!("{n} elements, one and four a thread"))
}
