use cuda_safe::DeviceBuffer;
use rust_kernels::stencils::{conv3d, jacobi2d};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

/// The steps of `jacobi2d`.
pub(crate) const STEPS: usize = 20;

/// Returns the weights of `conv3d`.
pub(crate) fn weights() -> [f32; 27] {
    let mut random = Random::new(19);
    std::array::from_fn(|_| random.float())
}

pub(super) fn convolution(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let [width, height, depth] =
        [setting.size(200, 20) + 1, setting.size(100, 15) + 2, setting.size(60, 10) + 1];
    let (x, weights) = (Random::floats(20, width * height * depth), weights());
    let mut cpu = vec![0.0; x.len()];
    conv3d::cpu(width, height, depth, weights, &x, &mut cpu)?;
    let on_device = DeviceBuffer::from_slice(stream, &x)?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, x.len())?;
    conv3d::launch(stream, width, height, depth, weights, &on_device, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;

    // Each element of the inside adds to those around it.
    let mut exact = vec![0.0; x.len()];
    let at = |i: usize, j: usize, k: usize| (k * height + j) * width + i;
    let inside = |i: usize, j: usize, k: usize| {
        (1..width - 1).contains(&i) && (1..height - 1).contains(&j) && (1..depth - 1).contains(&k)
    };
    for (n, x) in x.iter().enumerate() {
        let (i, j, k) = (n % width, n / width % height, n / (width * height));
        for (m, weight) in weights.iter().enumerate() {
            // The element for which this one has the weight `m`.
            let (a, b, c) = (i + 1, j + 1, k + 1);
            let (a, b, c) =
                (a.wrapping_sub(m % 3), b.wrapping_sub(m / 3 % 3), c.wrapping_sub(m / 9));
            if inside(a, b, c) {
                exact[at(a, b, c)] += f64::from(*x) * f64::from(*weight);
            }
        }
    }
    for (x, exact) in cpu.iter().zip(exact) {
        close("an element", f64::from(*x), exact, 5e-6)?;
    }
    Ok(format!("{width} x {height} x {depth}"))
}

pub(super) fn jacobi(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let (width, height) = (setting.size(2000, 90) + 1, setting.size(1000, 50) + 3);
    let x = Random::floats(21, width * height);
    let (mut cpu, mut other) = (x.clone(), x.clone());
    let mut out = DeviceBuffer::from_slice(stream, &x)?;
    let mut out_other = DeviceBuffer::<f32>::zeroed(stream, x.len())?;
    for _ in 0..STEPS {
        jacobi2d::cpu(width, height, &cpu, &mut other)?;
        std::mem::swap(&mut cpu, &mut other);
        jacobi2d::launch(stream, width, height, &out, &mut out_other)?;
        std::mem::swap(&mut out, &mut out_other);
    }
    same(&cpu, &out.to_vec(stream)?)?;

    let mut exact: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    for _ in 0..STEPS {
        let before = exact.clone();
        for j in 1..height - 1 {
            for (i, mean) in
                exact[j * width..][..width].iter_mut().enumerate().take(width - 1).skip(1)
            {
                let at = j * width + i;
                let neighbours = [at - width, at - 1, at, at + 1, at + width];
                *mean = neighbours.iter().map(|at| before[*at]).sum::<f64>() / 5.0;
            }
        }
    }
    for (x, exact) in cpu.iter().zip(exact) {
        close("an element", f64::from(*x), exact, 2e-6)?;
    }
    Ok(format!("{STEPS} steps of {width} x {height}"))
}
