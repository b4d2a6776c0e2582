//! Attacks with operations in Rust, whose authors lie or forget.

use cuda_safe::{DeviceBuffer, Error, LaunchConfig, Result, Stream};
use geom_kernels::GeometryKernels;
use tape::{Adjoint, CustomOp, Handle, Primal, Seeds, Tape};
use test_harness::{TestResult, ensure, ensure_eq};

use super::kit::{Kernels, N, Nothing, numbers, square};
use crate::attack::attacks;
use crate::lab::Lab;

fn gradient(pass: &Adjoint<'_>, of: Handle<f32>) -> Result<Option<Vec<f32>>> {
    pass.gradient(of)?.as_slice()?.map(|gradient| gradient.to_vec(pass.stream())).transpose()
}

fn change(pass: &mut Adjoint<'_>, of: Handle<f32>, f: impl Fn(usize, f32) -> f32) -> Result<()> {
    let stream = pass.stream().clone();
    let Some(mut target) = pass.gradient_mut(of)? else { return Ok(()) };
    let old = target.as_slice().to_vec(&stream)?;
    let new: Vec<f32> = old.iter().enumerate().map(|(i, old)| f(i, *old)).collect();
    target.upload(&stream, &new)
}

/// y += x.
struct Add {
    x: Handle<f32>,
    y: Handle<f32>,
}

impl CustomOp for Add {
    fn name(&self) -> &str {
        "add"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let Some(gy) = gradient(pass, self.y)? else { return Ok(()) };
        change(pass, self.x, |i, old| old + gy[i])
    }
}

/// y = y².
struct InPlace {
    y: Handle<f32>,
}

impl CustomOp for InPlace {
    fn name(&self) -> &str {
        "in place"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let before = pass.value(self.y)?.to_vec(pass.stream())?;
        change(pass, self.y, |i, old| 2.0 * before[i] * old)
    }
}

/// y = 1 / x, whose adjoint wants y, and flags that say where.
struct Inverse {
    x: Handle<f32>,
    y: Handle<f32>,
    flags: Handle<u32>,
}

impl CustomOp for Inverse {
    fn name(&self) -> &str {
        "inverse"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let y = pass.value(self.y)?.to_vec(pass.stream())?;
        let flags = pass.value(self.flags)?.to_vec(pass.stream())?;
        let Some(gy) = gradient(pass, self.y)? else { return Ok(()) };
        change(pass, self.x, |i, old| old - y[i] * y[i] * gy[i] * flags[i] as f32)
    }
}

/// Overwrites, by recorded steps, what was kept of the state before and behind operations that update in place.
///
/// - row: a pass reads what was recorded
/// - targets: `CustomBuilder::accumulates`, `CustomBuilder::updates`, `CustomBuilder::overwrites`,
///   `CustomBuilder::overwrites_inactive`, `CustomBuilder::stream`, `CustomBuilder::run_with`
fn values_before_and_behind(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let (shape, n) = (LaunchConfig::cover(N, 64), N as u32);
    let host: Vec<f32> = (0..N).map(|i| [1.0, 2.0, -4.0, 0.5][i % 4]).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut sum = DeviceBuffer::from_slice(&stream, &host)?;
    let mut flags = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        let mut custom = t.custom();
        ensure_same(custom.stream(), &stream)?;
        let own = (custom.reads(&x, Primal::None)?, custom.overwrites(&y, Primal::Exit)?);
        let flags_kept = custom.overwrites_inactive(&flags, Primal::Exit)?;
        custom.run_with(|s, _| {
            kernels.inverse(s, shape, &x, &mut y, n)?;
            flags.fill(s, 1)?;
            Ok(Inverse { x: own.0, y: own.1, flags: flags_kept })
        })?;
        let mut custom = t.custom();
        let op = Add { x: custom.reads(&y, Primal::None)?, y: custom.accumulates(&sum)? };
        custom.run(op, |s| kernels.add(s, shape, &y, &mut sum, n))?;
        for _ in 0..2 {
            let mut custom = t.custom();
            let op = InPlace { y: custom.updates(&sum, Primal::Entry)? };
            custom.run(op, |s| kernels.square_in_place(s, shape, &mut sum, n))?;
        }
        // What the adjoint of the inverse wants is overwritten; the tape has a copy.
        t.fill(&mut y, 99.0)?;
        geometry.record_sum(t, &sum, &mut loss)
    })?;
    match lab.variant() {
        "flags_overwritten" => flags.fill(&stream, 7)?,
        "output_overwritten" => y.fill(&stream, 7.0)?,
        _ => {}
    }
    let passed = tape.backward(&stream, &loss);
    if lab.variant() == "flags_overwritten" {
        return lab.refused(passed, "inverse");
    }
    passed?;
    // d/dx (x0 + 1/x)^4, of which x0 is no variable.
    let expected: Vec<f32> = host.iter().map(|x| -4.0 * (x + 1.0 / x).powi(3) / (x * x)).collect();
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    Ok(())
}

fn ensure_same(one: &Stream, other: &Stream) -> Result<()> {
    if one == other { Ok(()) } else { Err(Error::invalid("another stream")) }
}

/// Writes in a forward to what it said that it reads, and forgets to write, or fails after it has written.
///
/// - row: a pass reads what was recorded
/// - targets: `CustomBuilder::run`, `CustomBuilder::reads`, `Tape::backward`, `CustomBuilder::overwrites`
fn forwards_that_lie(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let variant = lab.variant();
    let recorded = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.copy(&x, &mut y)?;
        let mut custom = t.custom();
        match variant {
            "writes_its_input" => {
                let op = super::kit::Square {
                    x: custom.reads(&y, Primal::Entry)?,
                    y: custom.overwrites(&z, Primal::None)?,
                };
                custom.run(op, |s| {
                    kernels.square(s, LaunchConfig::cover(N, 64), &y, &mut z, N as u32)?;
                    y.fill(s, 100.0)
                })?;
                geometry.record_sum(t, &z, &mut loss)
            }
            "fails_after_it_wrote" => {
                custom.reads(&x, Primal::None)?;
                custom.overwrites(&y, Primal::None)?;
                let failed = custom.run(Nothing, |s| {
                    y.fill(s, 1.0)?;
                    Err(Error::invalid("too late"))
                });
                if failed.is_ok() {
                    return Err(Error::invalid("an error was lost"));
                }
                geometry.record_sum(t, &y, &mut loss)
            }
            "says_nothing" => {
                custom.run(Nothing, |s| y.fill(s, 1.0))?;
                geometry.record_sum(t, &y, &mut loss)
            }
            _ => {
                let taken = std::mem::replace(&mut y, DeviceBuffer::zeroed(&stream, N)?);
                let op = super::kit::Square {
                    x: custom.reads(&taken, Primal::Entry)?,
                    y: custom.overwrites(&z, Primal::None)?,
                };
                custom.run(op, |s| {
                    kernels.square(s, LaunchConfig::cover(N, 64), &taken, &mut z, N as u32)?;
                    drop(taken);
                    Ok(())
                })?;
                geometry.record_sum(t, &z, &mut loss)
            }
        }
    });
    let passed = recorded.and_then(|mut tape| {
        tape.backward(&stream, &loss)?;
        tape.gradient(&x)?.to_vec(&stream)
    });
    let right: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
    match (variant, passed) {
        ("drops_its_input", passed) => ensure_eq!(passed?, right),
        // The sum is one of ones: x is nowhere in it.
        ("says_nothing" | "fails_after_it_wrote", Ok(seen)) => ensure_eq!(seen, [0.0; N]),
        (_, Ok(seen)) => ensure_eq!(seen, right),
        (_, Err(error)) => lab.refused(Err::<(), _>(error), "memory of")?,
    }
    Ok(())
}

/// Lets something watched come into what an operation reads without a gradient.
///
/// - row: a pass reads what was recorded
/// - targets: `CustomBuilder::reads_inactive`, `CustomBuilder::reads_allocation`, `Recorder::stop_gradient`
fn gradients_that_are_cut_off(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let variant = lab.variant();
    let run = |stop: bool, y: &mut DeviceBuffer<f32>, loss: &mut DeviceBuffer<f32>| {
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            square(t, &kernels, &x, y)?;
            if stop {
                t.stop_gradient(&*y)?;
            }
            let mut custom = t.custom();
            match variant {
                "entry" => drop(custom.reads_inactive(&*y, Primal::Entry)?),
                "none" => drop(custom.reads_inactive(&*y, Primal::None)?),
                _ => custom.reads_allocation(y.allocation(), y.byte_range())?,
            }
            custom.overwrites(&*loss, Primal::None)?;
            custom.run(Nothing, |_| Ok(()))?;
            geometry.record_dot(t, &x, &x, &mut *loss)
        })
    };
    lab.refused(
        run(false, &mut y, &mut loss),
        "a custom operation reads what depends on something watched as if it were constant",
    )?;
    let mut tape = run(true, &mut y, &mut loss)?;
    tape.backward(&stream, &loss)?;
    let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    let seed = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let seeds = Seeds::new().with(&y, &seed)?;
    ensure!(tape.backward_with(&stream, &seeds).is_err(), "a gradient went through a stop");
    Ok(())
}

attacks![
    "tape",
    right(values_before_and_behind).variants(&["kept", "flags_overwritten", "output_overwritten"]),
    right(forwards_that_lie).variants(&[
        "writes_its_input",
        "fails_after_it_wrote",
        "says_nothing",
        "drops_its_input"
    ]),
    refused(gradients_that_are_cut_off).variants(&["entry", "none", "allocation"]),
];
