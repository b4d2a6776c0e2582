//! `tape::gradcheck`: right adjoints pass, and of wrong ones it names what is wrong.

mod arguments;
mod special;
mod wrong;

use cuda_safe::{DeviceBuffer, Result, Stream};
use tape::{Report, gradcheck};

use super::ops::{Number, Ops, Table, numbers, threads};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    let right = cases![
        "tape::gradcheck",
        device(right_adjoints_f32 = right::<f32>),
        device(right_adjoints_f64 = right::<f64>),
        fault(right_by_tangents_f32 = right::<f32>).variables(TANGENTS),
        fault(right_by_tangents_f64 = right::<f64>).variables(TANGENTS),
    ];
    [right, wrong::cases(), special::cases(), arguments::cases()].concat()
}

const TANGENTS: &[(&str, &str)] = &[("CUDA_EMU_TANGENTS", "1")];

/// Fails unless the gradients are right.
fn pass(name: &str, n: usize, report: Result<Report>) -> TestResult {
    let report = report?;
    ensure!(report.is_right(), "{name}, {n} elements: {report}");
    ensure!(report.findings.is_empty(), "{name}, {n} elements: {report}");
    Ok(())
}

fn buffer<T: Number>(stream: &Stream, rng: &mut Rng, n: usize) -> Result<DeviceBuffer<T>> {
    DeviceBuffer::from_slice(stream, &numbers::<T>(rng, n))
}

fn all<T: Number>(stream: &Stream, ops: &Ops, rng: &mut Rng, n: usize) -> TestResult {
    let count = n as u32;
    let launch = threads(n);
    let a = T::of(0.75);
    let x = buffer::<T>(stream, rng, n)?;
    let z = buffer::<T>(stream, rng, n)?;
    let mut y = buffer::<T>(stream, rng, n)?;
    let mut w = buffer::<T>(stream, rng, n)?;
    let mut loss = buffer::<T>(stream, rng, 1)?;
    let index: Vec<u32> = (0..n).map(|_| rng.below(n.max(1)) as u32).collect();
    let index = DeviceBuffer::from_slice(stream, &index)?;
    let check = |name: &str, report| pass(name, n, report);
    check("scale", gradcheck(stream, &ops.scale, launch, (a, &x, &mut y, count)))?;
    check("square_add", gradcheck(stream, &ops.square_add, launch, (&x, &mut y, count)))?;
    check("bend", gradcheck(stream, &ops.bend, launch, (&mut y, count)))?;
    check("multiply", gradcheck(stream, &ops.multiply, launch, (&x, &z, &mut y, count)))?;
    check("energy", gradcheck(stream, &ops.energy, launch, (&x, &mut loss, count)))?;
    check("gather", gradcheck(stream, &ops.gather, launch, (&x, &index, &mut y, count)))?;
    check("power", gradcheck(stream, &ops.power, launch, (&x, &mut y, count)))?;
    check("power_times", gradcheck(stream, &ops.power_times, launch, (a, &x, &mut y, count)))?;
    check("split", gradcheck(stream, &ops.split, launch, (&x, &mut y, &mut w, count)))?;
    check("times", gradcheck(stream, &ops.times, launch, (&x, &mut y, count)))?;
    check("series", gradcheck(stream, &ops.series, launch, (&x, &mut y, count)))?;
    if n > 0 {
        let table = Table(x.as_slice());
        check("look_up", gradcheck(stream, &ops.look_up, launch, (&table, &mut y, count)))?;
    }
    Ok(())
}

fn right<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2301));
    for ops in [Ops::of::<T>(device)?, Ops::generated::<T>(device)?] {
        for n in [0, 1, 31, 32, 33, 300] {
            all::<T>(&stream, &ops, &mut rng, n)?;
        }
    }
    Ok(())
}
