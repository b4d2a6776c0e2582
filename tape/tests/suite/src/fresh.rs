//! Gradients that nobody has written yet, or that a launch has written in part: memory is full of NaNs.

use cuda_safe::{DeviceBuffer, Stream};
use tape::{Tape, Variable};

use super::basics::{close, tolerance};
use super::ops::{Number, Ops, numbers, threads};
use test_harness::{Case, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::fresh",
        device(an_output_that_nobody_used_f32 = unused_output::<f32>),
        device(an_output_that_nobody_used_f64 = unused_output::<f64>),
        device(a_number_whose_adjoint_is_resumed_f32 = resumed::<f32>),
        device(a_number_whose_adjoint_is_resumed_f64 = resumed::<f64>),
        device(working_memory_outlives_an_overflow_f32 = kept_marks::<f32>),
        device(working_memory_outlives_an_overflow_f64 = kept_marks::<f64>),
    ]
}

fn zeros<T: Number>(stream: &Stream, n: usize) -> cuda_safe::Result<DeviceBuffer<T>> {
    DeviceBuffer::zeroed(stream, n)
}

/// b is gathered, and then overwritten by an output that the loss does not depend on. That output's gradient
/// is null, so its adjoint can't write the zeros that the gather's adds to.
fn unused_output<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 90;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(861);
    let host: Vec<T> = numbers(&mut rng, N);
    let index: Vec<u32> = (0..N).map(|_| rng.below(40) as u32).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let index_device = DeviceBuffer::from_slice(&stream, &index)?;
    let buffer = || zeros::<T>(&stream, N);
    let (mut b, mut c, mut d) = (buffer()?, buffer()?, buffer()?);
    let mut loss = zeros::<T>(&stream, 1)?;
    let n = N as u32;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut b, n))?;
        t.launch(&ops.gather, threads(N), (&b, &index_device, &mut c, n))?;
        t.launch(&ops.split, threads(N), (&c, &mut d, &mut b, n))?;
        t.launch(&ops.energy, threads(N), (&d, &mut loss, n))
    })?;
    let mut wanted = vec![0.0; N];
    for i in &index {
        wanted[*i as usize] += 18.0 * host[*i as usize].to();
    }
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// The loss of `a x^(1 + i % 4)`, by a and by x.
fn wanted<T: Number>(host: &[T], a: f64) -> (f64, Vec<f64>) {
    let k = |i: usize| 1 + (i % 4) as i32;
    let by_a = host.iter().enumerate().map(|(i, x)| 2.0 * a * x.to().powi(2 * k(i))).sum();
    let by_x = |(i, x): (usize, &T)| 2.0 * a * a * f64::from(k(i)) * x.to().powi(2 * k(i) - 1);
    (by_a, host.iter().enumerate().map(by_x).collect())
}

/// An adjoint that has run out of scratch memory is run again: the number's gradient is stored, not added
/// to what lies there.
fn resumed<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    for (n, deterministic) in [(1, false), (33, false), (1000, false), (1000, true)] {
        let host: Vec<T> = numbers(&mut device.rng(862), n);
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let (mut y, mut loss) = (zeros::<T>(&stream, n)?, zeros::<T>(&stream, 1)?);
        let a = Variable::new(&stream, T::of(0.75))?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.set_scratch_bytes(0);
        tape.record_again(&stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.launch(&ops.power_times, threads(n), (&a, &x, &mut y, n as u32))?;
            t.launch(&ops.energy, threads(n), (&y, &mut loss, n as u32))
        })?;
        let (by_a, by_x) = wanted(&host, 0.75);
        for _ in 0..2 {
            tape.backward(&stream, &loss)?;
            close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
            close(&tape.gradient(&a)?.to_vec(&stream)?, &[by_a], tolerance::<T>())?;
        }
    }
    Ok(())
}

/// A small adjoint runs out of scratch memory; a larger one is enqueued behind it before that is known. What
/// the small one has marked as done must still be there when it is run again, and so must its sums.
fn kept_marks<T: Number>(device: &TestDevice) -> TestResult {
    const SMALL: usize = 100;
    const LARGE: usize = 5000;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    for deterministic in [false, true] {
        let mut rng = device.rng(863);
        let (small, large): (Vec<T>, Vec<T>) = (numbers(&mut rng, SMALL), numbers(&mut rng, LARGE));
        let x = DeviceBuffer::from_slice(&stream, &small)?;
        let z = DeviceBuffer::from_slice(&stream, &large)?;
        let (mut y, mut w) = (zeros::<T>(&stream, SMALL)?, zeros::<T>(&stream, LARGE)?);
        let mut loss = zeros::<T>(&stream, 1)?;
        let (a, b) = (Variable::new(&stream, T::of(0.75))?, Variable::new(&stream, T::of(1.5))?);
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        // With the marks rounded up, there is room for some of the threads.
        tape.set_scratch_bytes(0);
        tape.record_again(&stream, |t| {
            t.watch(&a)?;
            t.watch(&b)?;
            t.watch(&x)?;
            t.watch(&z)?;
            t.launch(&ops.power_times, threads(LARGE), (&b, &z, &mut w, LARGE as u32))?;
            t.launch(&ops.power_times, threads(SMALL), (&a, &x, &mut y, SMALL as u32))?;
            t.launch(&ops.energy, threads(SMALL), (&y, &mut loss, SMALL as u32))?;
            t.launch(&ops.energy, threads(LARGE), (&w, &mut loss, LARGE as u32))
        })?;
        tape.backward(&stream, &loss)?;
        let ((by_a, by_x), (by_b, by_z)) = (wanted(&small, 0.75), wanted(&large, 1.5));
        close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
        close(&tape.gradient(&z)?.to_vec(&stream)?, &by_z, tolerance::<T>())?;
        close(&tape.gradient(&a)?.to_vec(&stream)?, &[by_a], tolerance::<T>())?;
        close(&tape.gradient(&b)?.to_vec(&stream)?, &[by_b], tolerance::<T>())?;
    }
    Ok(())
}
