//! Functions of rows.

use cuda_safe::DeviceBuffer;
use rust_kernels::layer_norm::{EPSILON, layer_norm};
use rust_kernels::softmax::softmax;

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

/// No multiples of a block's rows and of a warp's lanes.
fn size(setting: &Setting<'_>) -> [usize; 2] {
    [setting.size(3000, 40) + 3, setting.size(1000, 70) + 7]
}

pub(super) fn softmaxes(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let [rows, columns] = size(setting);
    let x: Vec<f32> = Random::floats(17, rows * columns).iter().map(|x| 20.0 * x).collect();
    let mut cpu = vec![0.0; x.len()];
    softmax::cpu(columns, &x, &mut cpu)?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, x.len())?;
    softmax::launch(stream, columns, &DeviceBuffer::from_slice(stream, &x)?, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;

    for (x, out) in x.chunks(columns).zip(cpu.chunks(columns)) {
        let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
        for (x, out) in x.iter().zip(out) {
            let exact = f64::from(*x).exp() / sum;
            close("a share", f64::from(*out), exact, exact * 1e-5)?;
        }
    }
    Ok(format!("{rows} rows of {columns}"))
}

pub(super) fn norms(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let [rows, columns] = size(setting);
    let x: Vec<f32> = Random::floats(18, rows * columns).iter().map(|x| 3.0 * x + 5.0).collect();
    let (scale, shift) = (Random::floats(19, columns), Random::floats(20, columns));
    let mut cpu = vec![0.0; x.len()];
    layer_norm::cpu(columns, &x, &scale, &shift, &mut cpu)?;
    let of = |x: &[f32]| DeviceBuffer::from_slice(stream, x);
    let mut out = DeviceBuffer::<f32>::zeroed(stream, x.len())?;
    layer_norm::launch(stream, columns, &of(&x)?, &of(&scale)?, &of(&shift)?, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;

    for (x, out) in x.chunks(columns).zip(cpu.chunks(columns)) {
        let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / columns as f64;
        let squares = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
        let by = 1.0 / (squares / columns as f64 + f64::from(EPSILON)).sqrt();
        for (column, (x, out)) in x.iter().zip(out).enumerate() {
            let normal = (f64::from(*x) - mean) * by;
            let exact = normal * f64::from(scale[column]) + f64::from(shift[column]);
            close("an element", f64::from(*out), exact, 2e-5)?;
        }
    }
    Ok(format!("{rows} rows of {columns}"))
}
