use cuda_safe::DeviceBuffer;
use rust_kernels::transpose::transpose;

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // No multiple of a tile's size.
    let (rows, columns) = (setting.size(2000, 70) + 1, setting.size(3000, 130) + 3);
    let x = Random::floats(13, rows * columns);

    let mut cpu = vec![0.0; rows * columns];
    transpose::cpu(rows, columns, &x, &mut cpu)?;
    let on_device = DeviceBuffer::from_slice(stream, &x)?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, rows * columns)?;
    transpose::launch(stream, rows, columns, &on_device, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;

    let oracle: Vec<f32> =
        (0..rows * columns).map(|at| x[at % rows * columns + at / rows]).collect();
    same(&oracle, &cpu)?;
    Ok(format!("{rows} x {columns}"))
}
