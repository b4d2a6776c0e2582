use cuda_safe::DeviceBuffer;
use rust_kernels::stream::{add, copy, dot, mul, sum, triad};

use super::{Setting, close, same};
use crate::Failure;
use crate::data::Random;

/// Returns how many sums the first pass of `dot` makes of so many products.
pub(crate) fn sums(n: usize) -> usize {
    n.div_ceil(64).min(1 << 18)
}

/// The factor of BabelStream.
const SCALAR: f64 = 0.4;
/// Rounds of all kernels. After more of them the values overflow, slowly.
const ROUNDS: usize = 2;

/// The arrays of BabelStream on the CPU.
struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 22, 1 << 16);
    let start = Random::doubles(7, n);

    let mut cpu = Arrays { a: start.clone(), b: vec![0.0; n], c: vec![0.0; n] };
    for _ in 0..ROUNDS {
        copy::cpu(&cpu.a, &mut cpu.c)?;
        mul::cpu(SCALAR, &cpu.c, &mut cpu.b)?;
        add::cpu(&cpu.a, &cpu.b, &mut cpu.c)?;
        triad::cpu(SCALAR, &cpu.b, &cpu.c, &mut cpu.a)?;
    }
    let first = sums(n);
    let second = first.div_ceil(512);
    let (mut partial, mut fewer, mut total) = (vec![0.0; first], vec![0.0; second], [0.0]);
    dot::cpu(&cpu.a, &cpu.b, &mut partial)?;
    sum::cpu(&partial, &mut fewer)?;
    sum::cpu(&fewer, &mut total)?;

    let mut a = DeviceBuffer::from_slice(stream, &start)?;
    let mut b = DeviceBuffer::<f64>::zeroed(stream, n)?;
    let mut c = DeviceBuffer::<f64>::zeroed(stream, n)?;
    for _ in 0..ROUNDS {
        copy::launch(stream, &a, &mut c)?;
        mul::launch(stream, SCALAR, &c, &mut b)?;
        add::launch(stream, &a, &b, &mut c)?;
        triad::launch(stream, SCALAR, &b, &c, &mut a)?;
    }
    let mut device_partial = DeviceBuffer::<f64>::zeroed(stream, first)?;
    let mut device_fewer = DeviceBuffer::<f64>::zeroed(stream, second)?;
    let mut device_total = DeviceBuffer::<f64>::zeroed(stream, 1)?;
    dot::launch(stream, &a, &b, &mut device_partial)?;
    sum::launch(stream, &device_partial, &mut device_fewer)?;
    sum::launch(stream, &device_fewer, &mut device_total)?;
    same(&cpu.a, &a.to_vec(stream)?)?;
    same(&cpu.b, &b.to_vec(stream)?)?;
    same(&cpu.c, &c.to_vec(stream)?)?;
    same(&total, &device_total.to_vec(stream)?)?;

    // Each round multiplies an element by a number, and `b` is then a share of what `a` was before.
    let growth = SCALAR + SCALAR * (1.0 + SCALAR);
    for (i, start) in start.iter().enumerate() {
        let b = SCALAR * start * growth.powi(ROUNDS as i32 - 1);
        let a = start * growth.powi(ROUNDS as i32);
        close(&format!("a[{i}]"), cpu.a[i], a, a.abs() * 1e-14)?;
        close(&format!("b[{i}]"), cpu.b[i], b, b.abs() * 1e-14)?;
    }
    let products = || cpu.a.iter().zip(&cpu.b).map(|(a, b)| a * b);
    let size: f64 = products().map(f64::abs).sum();
    close("the dot product", total[0], exact_sum(products()), size * 1e-14)?;
    Ok(format!("{n} elements, copy, mul, add and triad {ROUNDS} times, dot {:.6}", total[0]))
}

/// Adds up with the roundings that were made: the sum of Kahan and Neumaier.
fn exact_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}
