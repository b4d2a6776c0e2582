//! Launches, scalars, copies: what every recording consists of.

use cuda_safe::DeviceBuffer;
use tape::{Tape, Variable};

use super::ops::{Number, Ops, numbers, threads};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, note_numbers};

pub(super) fn cases() -> Vec<Case> {
    cases!["tape::basics", device(saxpy_f32 = saxpy::<f32>), device(saxpy_f64 = saxpy::<f64>),]
}

/// Fails unless both agree to `tolerance` of the largest entry. Takes note of the bits.
pub(super) fn close<T: Number>(got: &[T], wanted: &[f64], tolerance: f64) -> TestResult {
    note_numbers(got.iter().map(|got| got.to().to_bits()));
    near(got, wanted, tolerance)
}

/// As [`close`], for numbers whose bits may be others each time.
pub(super) fn near<T: Number>(got: &[T], wanted: &[f64], tolerance: f64) -> TestResult {
    if got.len() != wanted.len() {
        return Err(Failure::new(format!("{} elements, not {}", got.len(), wanted.len())));
    }
    let largest = wanted.iter().fold(0.0f64, |most, value| most.max(value.abs())).max(1e-30);
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        ensure!(
            (got.to() - wanted).abs() <= tolerance * largest,
            "element {i} is {got:?}, not {wanted}"
        );
    }
    Ok(())
}

pub(super) fn tolerance<T: Number>() -> f64 {
    if T::SUFFIX == "f32" { 1e-4 } else { 1e-8 }
}

/// loss = sum (a x)^2, for sizes around a warp and a block.
fn saxpy<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(801);
    for n in [1, 31, 32, 33, 64, 65, 1000] {
        let host: Vec<T> = numbers(&mut rng, n);
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let mut y = DeviceBuffer::<T>::zeroed(&stream, n)?;
        let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
        let a = Variable::new(&stream, T::of(1.5))?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.launch(&ops.scale, threads(n), (&a, &x, &mut y, n as u32))?;
            t.launch(&ops.energy, threads(n), (&y, &mut loss, n as u32))
        })?;
        tape.backward(&stream, &loss)?;
        let wanted: Vec<f64> = host.iter().map(|x| 2.0 * 1.5 * 1.5 * x.to()).collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
        let by_a: f64 = host.iter().map(|x| 2.0 * 1.5 * x.to() * x.to()).sum();
        close(&tape.gradient(&a)?.to_vec(&stream)?, &[by_a], tolerance::<T>())?;
    }
    Ok(())
}
