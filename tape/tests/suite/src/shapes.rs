//! Launches with fewer threads than elements, or with none.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream};
use tape::{Op, Param, Primal, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, module, numbers, register, spec, threads};
use test_harness::{Case, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::shapes",
        device(too_few_threads_f32 = too_few::<f32>),
        device(too_few_threads_f64 = too_few::<f64>),
        device(threads_that_go_on = grid_stride::<f64>),
        device(no_threads = none::<f32>),
        device(an_adjoint_without_threads = no_adjoint::<f32>),
    ]
}

const N: usize = 300;

fn zeros<T: Number>(stream: &Stream, n: usize) -> cuda_safe::Result<DeviceBuffer<T>> {
    DeviceBuffer::zeroed(stream, n)
}

/// What no thread reaches is not overwritten, and nobody stores its gradient.
fn too_few<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(871), N))?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let (one, n) = (T::of(1.0), N as u32);
    let constant = {
        let x = Param::buffer("x", <T as Number>::ELEMENT).reads(Primal::Entry).len("n").active();
        let out = Param::buffer("out", <T as Number>::ELEMENT).overwrites().len("n").each_element();
        let a = Param::scalar("a", <T as Number>::ELEMENT).active();
        let params = vec![a, x, out.active(), Param::value("n")];
        register(&module(device)?, spec::<T>("scale", params))?
    };
    let mut tape = Tape::new(&stream)?;
    for launch in [LaunchConfig::new(1, 1), LaunchConfig::new(4, 64), LaunchConfig::new(1, 299)] {
        refused(
            tape.record_again(&stream, |t| {
                t.watch(&x)?;
                t.launch(&ops.scale, launch, (one, &x, &mut y, n))
            }),
            "300 elements",
        )?;
        // The gradient of what is read counts, too.
        refused(
            tape.record_again(&stream, |t| {
                t.watch(&x)?;
                t.launch(&ops.energy, launch, (&x, &mut loss, n))
            }),
            "`x` of `energy",
        )?;
        // And what is overwritten by a constant.
        refused(
            tape.record_again(&stream, |t| {
                t.watch(&y)?;
                t.launch(&constant, launch, (one, &x, &mut y, n))
            }),
            "`out` of `scale",
        )?;
    }
    // As many as elements, or more.
    for launch in [LaunchConfig::new(1, 300), LaunchConfig::new(300, 1), LaunchConfig::new(9, 64)] {
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, launch, (one, &x, &mut y, n))?;
            t.launch(&ops.energy, launch, (&y, &mut loss, n))
        })?;
        tape.backward(&stream, &loss)?;
        let wanted: Vec<f64> = x.to_vec(&stream)?.iter().map(|x| 2.0 * x.to()).collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// out = 3 x, by a kernel with a loop.
fn triple<T: Number>(device: &TestDevice, says_so: bool) -> cuda_safe::Result<Op> {
    let element = <T as Number>::ELEMENT;
    let x = Param::buffer("x", element).reads(Primal::None).len("n").each_element().active();
    let out = Param::buffer("out", element).overwrites().len("n").each_element().active();
    let spec = spec::<T>("triple", vec![x, out, Param::value("n")]).summands(|_| 0);
    let spec = if says_so { spec.grid_stride() } else { spec };
    register(&module(device)?, spec)
}

fn grid_stride<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(872), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let wanted: Vec<f64> = host.iter().map(|x| 18.0 * x.to()).collect();
    let (op, silent) = (triple::<T>(device, true)?, triple::<T>(device, false)?);
    for launch in [LaunchConfig::new(1, 1), LaunchConfig::new(3, 32), threads(N)] {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&op, launch, (&x, &mut y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })?;
        tape.backward(&stream, &loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    let mut record = |op: &Op, launch| {
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, launch, (&x, &mut y, N as u32))
        })
    };
    refused(record(&op, LaunchConfig::new(0, 32)), "has no blocks; hint: use")?;
    refused(record(&op, LaunchConfig::new(1, 0)), "a block of (0, 1, 1) has no threads")?;
    refused(record(&silent, LaunchConfig::new(3, 32)), "OpSpec::grid_stride")
}

/// A launch without threads does nothing, and is nothing to the tape; if it was to overwrite something, that
/// is an error.
fn none<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(873), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let index = DeviceBuffer::<u32>::zeroed(&stream, 0)?;
    let (mut y, mut empty) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 0)?);
    let mut loss = zeros::<T>(&stream, 1)?;
    let (nothing, n) = (threads(0), N as u32);
    let mut tape = Tape::new(&stream)?;
    refused(
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, nothing, (T::of(2.0), &x, &mut y, n))
        }),
        "no threads",
    )?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &x, &mut y, n))?;
        t.launch(&ops.scale, nothing, (T::of(5.0), &x, &mut y, 0u32))?;
        t.launch(&ops.bend, nothing, (&mut y, 0u32))?;
        // x and the loss have elements, of which nobody reads any.
        t.launch(&ops.gather, nothing, (&x, &index, &mut empty, 0u32))?;
        t.launch(&ops.energy, nothing, (&x, &mut loss, 0u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, n))
    })?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 8.0 * x.to()).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

fn no_adjoint<T: Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let element = <T as Number>::ELEMENT;
    let x = Param::buffer("x", element).reads(Primal::None).active();
    let index = Param::buffer("index", tape::Element::bytes(4)).reads(Primal::Entry).len("n");
    let out = Param::buffer("out", element).overwrites().len("n").active();
    let params = vec![x, index, out, Param::value("n")];
    // As if a number of blocks had been rounded down.
    let spec = spec::<T>("gather", params).shape(|launch| LaunchConfig::new(launch.grid.x / 2, 64));
    let op = register(&module(device)?, spec)?;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(874), N))?;
    let index = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let mut out = zeros::<T>(&stream, 10)?;
    refused(
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&op, threads(10), (&x, &index, &mut out, 10u32))
        }),
        "the adjoint of `gather",
    )
}
