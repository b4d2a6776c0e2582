//! Outputs that have no gradient: what they overwrite has none either, or they are refused.

use cuda_safe::{DeviceBuffer, Stream};
use tape::{Element, Op, Param, Primal, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, module, numbers, register, spec, threads};
use test_harness::{Case, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::outputs",
        device(a_part_that_nobody_knows = part::<f32>),
        device(detached_f32 = detached::<f32>),
        device(detached_f64 = detached::<f64>),
        device(detached_updates_f32 = updated::<f32>),
        device(detached_updates_f64 = updated::<f64>),
        device(detached_sums = accumulated::<f64>),
        device(a_second_output_without_a_gradient = second::<f64>),
        device(memory_that_becomes_something_else),
    ]
}

const N: usize = 100;

fn zeros<T: Number>(stream: &Stream, n: usize) -> cuda_safe::Result<DeviceBuffer<T>> {
    DeviceBuffer::zeroed(stream, n)
}

fn scale<T: Number>(device: &TestDevice, out: Param, adjoint: bool) -> cuda_safe::Result<Op> {
    let element = <T as Number>::ELEMENT;
    let a = Param::scalar("a", element);
    let x = Param::buffer("x", element).reads(Primal::Entry).len("n");
    let spec = match adjoint {
        true => spec::<T>("scale", vec![a.active(), x.active(), out, Param::value("n")]),
        false => spec::<T>("scale", vec![a, x, out, Param::value("n")]).without_adjoint(),
    };
    register(&module(device)?, spec)
}

/// A constant is written over some elements, and nobody says which.
fn part<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(881), N))?;
    let c = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut device.rng(882), N))?;
    let mut y = zeros::<T>(&stream, N)?;
    let some = || Param::buffer("out", <T as Number>::ELEMENT).overwrites().len("n");
    let without = scale::<T>(device, some(), false)?;
    let cut = scale::<T>(device, some().active(), true)?.detach("out")?;
    let with = scale::<T>(device, some().active(), true)?;
    let mut record = |op: &Op, stop: bool| {
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, N as u32))?;
            if stop {
                t.stop_gradient(&y)?;
            }
            t.launch(op, threads(40), (T::of(2.0), &c, &mut y, 40u32))
        })
    };
    refused(record(&without, false), "`out` of `scale")?;
    refused(record(&cut, false), "`out` of `scale")?;
    record(&without, true)?;
    record(&cut, true)?;
    record(&with, false).map(drop).map_err(Into::into)
}

/// y = 3 x; then y[..40] = -2 z, through which no gradient is to come.
fn detached<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(883);
    let (hx, hz): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let z = DeviceBuffer::from_slice(&stream, &hz)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let cut = ops.scale.detach("out")?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&z)?;
        t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, N as u32))?;
        t.launch(&cut, threads(40), (T::of(-2.0), &z, &mut y, 40u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    let wanted: Vec<f64> =
        hx.iter().enumerate().map(|(i, x)| if i < 40 { 0.0 } else { 18.0 * x.to() }).collect();
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
        refused(tape.gradient(&z), "no differentiable path")?;
    }
    Ok(())
}

/// y = 2 z; y = x y, where what y was counts as constant: only x has a gradient.
fn updated<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(884);
    let (hx, hz): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let z = DeviceBuffer::from_slice(&stream, &hz)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let (cut, bend) = (ops.times.detach("y")?, ops.bend.detach("x")?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&z)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &z, &mut y, N as u32))?;
        t.launch(&cut, threads(60), (&x, &mut y, 60u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    let pairs = || hx.iter().zip(&hz).map(|(x, z)| (x.to(), z.to())).enumerate();
    let by_x = pairs().map(|(i, (x, z))| if i < 60 { 8.0 * x * z * z } else { 0.0 });
    let by_z = pairs().map(|(i, (_, z))| if i < 60 { 0.0 } else { 8.0 * z });
    let (by_x, by_z): (Vec<f64>, Vec<f64>) = (by_x.collect(), by_z.collect());
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
        close(&tape.gradient(&z)?.to_vec(&stream)?, &by_z, tolerance::<T>())?;
    }
    // Where all that it reads is constant, so is what it writes.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&z)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &z, &mut y, N as u32))?;
        t.launch(&cut, threads(60), (&x, &mut y, 60u32))?;
        t.launch(&bend, threads(70), (&mut y, 70u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let by_z: Vec<f64> = pairs().map(|(i, (_, z))| if i < 70 { 0.0 } else { 8.0 * z }).collect();
    close(&tape.gradient(&z)?.to_vec(&stream)?, &by_z, tolerance::<T>())?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&z)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &z, &mut y, N as u32))?;
        t.launch(&bend, threads(N), (&mut y, N as u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    refused(tape.backward(&stream, &loss), "no differentiable path")
}

/// y = 2 z; y += x x, where what y was counts as constant.
fn accumulated<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(885);
    let (hx, hz): (Vec<T>, Vec<T>) = (numbers(&mut rng, N), numbers(&mut rng, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let z = DeviceBuffer::from_slice(&stream, &hz)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let cut = ops.square_add.detach("y")?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&z)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &z, &mut y, N as u32))?;
        t.launch(&cut, threads(N), (&x, &mut y, N as u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let pairs = hx.iter().zip(&hz).map(|(x, z)| (x.to(), z.to()));
    let by_x: Vec<f64> = pairs.map(|(x, z)| 4.0 * x * (2.0 * z + x * x)).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &by_x, tolerance::<T>())?;
    refused(tape.gradient(&z), "no differentiable path")
}

/// A kernel with two outputs, whose adjoint knows of the first alone.
fn second<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let element = <T as Number>::ELEMENT;
    let x = Param::buffer("x", element).reads(Primal::None).len("n").each_element().active();
    let out = |name| Param::buffer(name, element).overwrites().len("n").each_element();
    let params = vec![x, out("one").active(), out("two"), Param::value("n")];
    let spec = spec::<T>("split", params).adjoint(format!("split_{}_one_adjoint", T::SUFFIX));
    let split = register(&module(device)?, spec)?;
    let host: Vec<T> = numbers(&mut device.rng(886), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let buffer = || zeros::<T>(&stream, N);
    let (mut one, mut two, mut sum) = (buffer()?, buffer()?, zeros::<T>(&stream, 1)?);
    let memory = sum.allocation().clone();
    // SAFETY: one number of this type, which nobody writes while a pass begins from it.
    let loss = unsafe { memory.view::<T>(0..size_of::<T>()) }?;
    let mut record = |op: &Op, before: bool| {
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            if before {
                t.copy(&x, &mut two)?;
            }
            t.launch(op, threads(N), (&x, &mut one, &mut two, N as u32))?;
            t.launch(&ops.energy, threads(N), (&one, &mut sum, N as u32))?;
            t.launch(&ops.energy, threads(N), (&two, &mut sum, N as u32))
        })
    };
    refused(record(&split, false), "`two` of `split")?;
    refused(record(&split, true), "`two` of `split")?;
    let cut = split.detach("two")?;
    let wanted: Vec<f64> = host.iter().map(|x| 2.0 * x.to()).collect();
    for before in [false, true] {
        let mut tape = record(&cut, before)?;
        tape.backward(&stream, loss)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// What is overwritten as bytes does not depend on what it was.
fn memory_that_becomes_something_else(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<f32>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers::<f32>(&mut device.rng(887), N))?;
    let (mut y, mut loss) = (zeros::<f32>(&stream, N)?, zeros::<f32>(&stream, 1)?);
    let out = Param::buffer("out", Element::bytes(4)).overwrites().len("n");
    let (all, some) = (
        scale::<f32>(device, out.clone().each_element(), false)?,
        scale::<f32>(device, out, false)?,
    );
    let c = DeviceBuffer::from_slice(&stream, &numbers::<f32>(&mut device.rng(888), N))?;
    let mut record = |op: &Op| {
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, threads(N), (3.0f32, &x, &mut y, N as u32))?;
            let bits = y.slice_mut(..)?.cast_mut::<u32>()?;
            t.launch(op, threads(N), (2.0f32, &c, bits, N as u32))?;
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })
    };
    refused(record(&some), "`out` of `scale")?;
    let mut tape = record(&all)?;
    refused(tape.backward(&stream, &loss), "no differentiable path")
}
