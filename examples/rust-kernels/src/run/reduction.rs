use cuda_safe::DeviceBuffer;
use rust_kernels::reduction::{CHUNK, reduction};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 24, 1 << 16) + 1;
    let x = Random::floats(10, n);
    // Some blocks have two chunks.
    let count = n.div_ceil(CHUNK).div_ceil(2) + 1;

    let (mut sums, mut total) = (vec![0.0; count], [0.0]);
    reduction::cpu(&x, &mut sums)?;
    reduction::cpu(&sums, &mut total)?;

    let on_device = DeviceBuffer::from_slice(stream, &x)?;
    let mut device_sums = DeviceBuffer::<f32>::zeroed(stream, count)?;
    let mut device_total = DeviceBuffer::<f32>::zeroed(stream, 1)?;
    reduction::launch(stream, &on_device, &mut device_sums)?;
    reduction::launch(stream, &device_sums, &mut device_total)?;
    same(&total, &device_total.to_vec(stream)?)?;

    // In f64 the sum is as good as exact.
    let exact: f64 = x.iter().map(|x| f64::from(*x)).sum();
    let size: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
    close("the sum", f64::from(total[0]), exact, size * 1e-6)?;
    Ok(format!("{n} floats, sum {:.3}", total[0]))
}
