//! Attacks on passes: seeds, re-entrance, panics, threads, streams and devices.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cuda_safe::{DeviceBuffer, LaunchConfig, Result};
use geom_kernels::GeometryKernels;
use tape::{Adjoint, CustomOp, Handle, Primal, Seeds, Tape};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kernels, N, Nothing, numbers, square};
use crate::attack::attacks;
use crate::lab::Lab;

/// Begins passes with seeds that overlap, that are of the wrong length or memory, and that are no numbers.
///
/// - row: a pass reads what was recorded
/// - targets: `Seeds::new`, `Seeds::with`, `Tape::backward_with`, `Tape::backward`
fn seeds_that_do_not_fit(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let stranger = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut y)
    })?;
    let seed = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    lab.refused(Seeds::new().with(&y, seed.slice(1..)?), "63 gradients for 64 elements")?;
    lab.refused(Seeds::new().with(y.slice(..3)?, &seed), "64 gradients for 3 elements")?;
    lab.refused(tape.backward(&stream, &y), "a loss is one number, not 256 bytes")?;
    lab.refused(tape.backward_with(&stream, &Seeds::new()), "no differentiable path leads from what is watched (1 ranges) to what the gradient is taken")?;
    lab.refused(
        tape.backward_with(&stream, &Seeds::new().with(&stranger, &seed)?),
        "no differentiable path: what the gradient is taken of does not depend on anything watched",
    )?;
    let overlapping = Seeds::new().with(y.slice(..8)?, seed.slice(..8)?)?;
    let overlapping = overlapping.with(y.slice(7..)?, seed.slice(7..)?)?;
    lab.refused(
        tape.backward_with(&stream, &overlapping),
        "two given gradients are of the same memory",
    )?;
    // Read as pairs, the memory is the same.
    let pairs = y.as_slice().cast::<f64>()?;
    let wide = DeviceBuffer::<f64>::zeroed(&stream, N / 2)?;
    lab.refused(
        tape.backward_with(&stream, &Seeds::new().with(pairs, &wide)?),
        "the memory was recorded as F32, not as F64",
    )?;
    lab.refused(tape.gradient(&x), "there are no gradients before `backward`")?;
    // Two halves are a whole.
    let halves = Seeds::new().with(y.slice(..8)?, seed.slice(..8)?)?;
    let halves = halves.with(y.slice(8..)?, seed.slice(8..)?)?;
    tape.backward_with(&stream, &halves)?;
    let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    let mut strange = vec![0.0f32; N];
    strange[3] = f32::INFINITY;
    strange[5] = f32::NAN;
    let strange = DeviceBuffer::from_slice(&stream, &strange)?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &strange)?)?;
    let seen = tape.gradient(&x)?.to_vec(&stream)?;
    for (i, (g, x)) in seen.iter().zip(numbers(1)).enumerate() {
        match i {
            3 if x != 0.0 => ensure!(g.is_infinite(), "{g}"),
            3 | 5 => ensure!(g.is_nan(), "{g}"),
            _ => ensure_eq!(*g, 0.0),
        }
    }
    Ok(())
}

struct Inner {
    x: Handle<f32>,
    y: Handle<f32>,
    drop_too: Option<DeviceBuffer<f32>>,
    geometry: GeometryKernels,
}

impl CustomOp for Inner {
    fn name(&self) -> &str {
        "inner"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let stream = pass.stream().clone();
        let values = pass.value(self.x)?.to_vec(&stream)?;
        let Some(gy) = pass.gradient(self.y)?.as_slice()? else { return Ok(()) };
        let gy = gy.to_vec(&stream)?[0];
        // A tape in a pass, and a graph that is captured and launched in it.
        let inner = DeviceBuffer::from_slice(&stream, &values)?;
        let mut norm = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
        let geometry = &self.geometry;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&inner)?;
            geometry.record_squared_norm(t, &inner, &mut norm)
        })?;
        tape.backward(&stream, &norm)?;
        let gradient = tape.gradient(&inner)?.to_vec(&stream)?;
        let context = stream.context();
        let target = DeviceBuffer::from_slice(&stream, &gradient)?;
        let mut graph = context.capture(target, |s, target| target.fill(s, gy))?;
        graph.launch(&stream)?;
        let factor = graph.into_state().to_vec(&stream)?;
        drop(self.drop_too.take());
        stream.synchronize()?;
        context.free_deferred()?;
        let Some(mut gx) = pass.gradient_mut(self.x)? else { return Ok(()) };
        let sum: Vec<f32> = gradient.iter().zip(&factor).map(|(g, f)| g * f).collect();
        gx.upload(&stream, &sum)
    }
}

/// Runs an inner tape and a graph in an adjoint, and drops buffers there.
///
/// - row: a pass that runs now and the launch of a graph
/// - row: no safe code gets a view of memory that is not borrowed
/// - targets: `Adjoint::stream`, `Adjoint::gradient_mut`, `CustomBuilder::run`, `Context::capture`,
///   `GraphExec::launch`
fn adjoint_that_enters_the_crate_again(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let x = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let drop_too = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        let mut custom = t.custom();
        let (x, y) = (custom.reads(&x, Primal::Entry)?, custom.overwrites(&y, Primal::None)?);
        let op = Inner { x, y, drop_too: Some(drop_too), geometry: geometry.clone() };
        custom.run(op, |_| Ok(()))
    })?;
    let expected: Vec<f32> = numbers(2).iter().map(|x| 2.0 * x).collect();
    for _ in 0..2 {
        tape.backward(&stream, &y)?;
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    }
    Ok(())
}

struct Panics {
    inner: super::kit::Square,
    left: Arc<AtomicUsize>,
    in_drop: bool,
}

impl CustomOp for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        self.inner.backward(pass)?;
        if !self.in_drop && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            panic!("the adjoint panics");
        }
        Ok(())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if self.in_drop && !thread::panicking() {
            panic!("the operation's drop panics");
        }
    }
}

/// Panics in an adjoint, or in the drop of an operation, and goes on with the tape.
///
/// - row: an adjoint in Rust, or its drop, may panic
/// - targets: `Tape::backward_with`, `Tape::reset`, `Tape::record_again`, `Tape::gradient`
fn panics_in_operations(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let seed = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let in_drop = lab.variant() != "adjoint";
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut y)?;
        let mut custom = t.custom();
        let inner = super::kit::Square {
            x: custom.reads(&y, Primal::Entry)?,
            y: custom.overwrites(&z, Primal::None)?,
        };
        let op = Panics { inner, left: Arc::new(AtomicUsize::new(1)), in_drop };
        custom.run(op, |s| kernels.square(s, LaunchConfig::cover(N, 64), &y, &mut z, N as u32))
    })?;
    let expected: Vec<f32> = numbers(1).iter().map(|x| 4.0 * x * x * x).collect();
    let pass = |tape: &mut Tape| {
        catch_unwind(AssertUnwindSafe(|| {
            tape.backward_with(&stream, &Seeds::new().with(&z, &seed)?)
        }))
    };
    match lab.variant() {
        "adjoint" => {
            ensure!(pass(&mut tape).is_err(), "the panic was lost");
            ensure!(tape.gradient(&x).is_err(), "half a pass has given a gradient");
        }
        "reset" => {
            ensure!(catch_unwind(AssertUnwindSafe(|| tape.reset())).is_err());
            // Either it is empty now, or it is as it was.
            if let Ok(Ok(())) = pass(&mut tape) {
                ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
            }
            return Ok(());
        }
        "record_again" => {
            let again = catch_unwind(AssertUnwindSafe(|| {
                tape.record_again(&stream, |t| {
                    t.watch(&x)?;
                    square(t, &kernels, &x, &mut y)
                })
            }));
            ensure!(again.is_err(), "the panic was lost");
            if let Ok(Ok(())) = pass(&mut tape) {
                ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
            }
            tape.record_again(&stream, |t| {
                t.watch(&x)?;
                square(t, &kernels, &x, &mut y)
            })?;
            tape.backward_with(&stream, &Seeds::new().with(&y, &seed)?)?;
            let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
            ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
            return Ok(());
        }
        _ => {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(tape)));
            ensure!(dropped.is_err(), "the panic was lost");
            return Ok(());
        }
    }
    // The adjoint panics once.
    match pass(&mut tape) {
        Ok(Ok(())) => ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected),
        Ok(Err(_)) => ensure!(tape.gradient(&x).is_err()),
        Err(_) => return Err(Failure::new("a panic came twice")),
    }
    Ok(())
}

/// Panics or fails while it records, after some steps, and uses the tape again.
///
/// - row: a pass reads what was recorded
/// - targets: `Tape::record_again`, `Recorder::scope`, `Recorder::custom`, `Tape::backward`
fn recordings_that_do_not_end_well(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    let variant = lab.variant();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            square(t, &kernels, &x, &mut y)?;
            match variant {
                "panic" => panic!("the recording panics"),
                "error" => return Err(cuda_safe::Error::invalid("the recording ends")),
                "forward" => {
                    let mut custom = t.custom();
                    custom.reads(&y, Primal::Entry)?;
                    custom.overwrites(&loss, Primal::None)?;
                    custom.run(Nothing, |_| panic!("the forward panics"))?;
                }
                "scope" => t.scope("inner", |_| -> Result<()> { panic!("the scope panics") })?,
                _ => std::mem::forget(t.custom()),
            }
            geometry.record_sum(t, &y, &mut loss)
        })
    }));
    match ended {
        // A builder that is forgotten has recorded nothing.
        Ok(Ok(())) => {
            ensure_eq!(variant, "forgotten");
            tape.backward(&stream, &loss)?;
            let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
            ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
            tape.reset();
        }
        Ok(Err(_)) => ensure_eq!(variant, "error"),
        Err(_) => ensure!(variant != "error" && variant != "forgotten"),
    }
    lab.refused(tape.backward(&stream, &loss), "the tape has no recording to go back through")?;
    lab.refused(tape.gradient(&x), "there are no gradients before `backward`")?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut y)?;
        geometry.record_sum(t, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    Ok(())
}

/// Asks for gradients of parts, of empty views, of more than was watched, and of other types of numbers.
///
/// - row: a pass reads what was recorded
/// - targets: `Tape::gradient`, `DeviceBuffer::slice`, `DeviceSlice::cast`, `Recorder::watch`
fn gradients_of_odd_views(lab: &Lab) -> TestResult {
    let refusal = "there is no gradient: the memory is not watched";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(x.slice(4..12)?)?;
        square(t, &kernels, &x, &mut y)?;
        geometry.record_sum(t, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
    ensure_eq!(tape.gradient(x.slice(4..12)?)?.to_vec(&stream)?, expected[4..12]);
    ensure_eq!(tape.gradient(x.slice(11..12)?)?.to_vec(&stream)?, expected[11..12]);
    lab.refused(tape.gradient(&y), refusal)?;
    lab.refused(tape.gradient(x.slice(20..24)?), refusal)?;
    lab.refused(
        tape.gradient(x.slice(4..12)?.cast::<f64>()?),
        "the memory was recorded as F32, not as F64",
    )?;
    // Not watched as a whole: an error, or right where it is watched.
    if let Ok(whole) = tape.gradient(&x) {
        ensure_eq!(whole.to_vec(&stream)?[4..12], expected[4..12]);
    }
    let vectors = x.slice(4..12)?.cast::<[f32; 4]>()?;
    if let Ok(gradient) = tape.gradient(vectors) {
        ensure_eq!(gradient.to_vec(&stream)?.concat(), expected[4..12]);
    }
    if let Ok(none) = tape.gradient(x.slice(12..12)?) {
        ensure!(none.is_empty());
    }
    Ok(())
}

/// Gives a tape the least and the largest sizes of its logs and of scratch memory.
///
/// - row: a pass reads what was recorded
/// - targets: `Tape::set_deterministic`, `Tape::set_summand_bytes`, `Tape::set_scratch_bytes`, `Tape::check`, `Tape::trim`
fn logs_of_any_size(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let kernels = Kernels::load(&context)?;
    let bytes: usize = lab.variant().parse()?;
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    tape.set_summand_bytes(bytes);
    tape.set_scratch_bytes(bytes);
    tape.set_deterministic(true);
    // The adjoint of a square does not say how often it adds.
    let refused = tape.record_again(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut z)
    });
    lab.refused(refused, "square")?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    if tape.backward(&stream, &loss).is_ok() {
        tape.check(&stream)?;
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    } else {
        ensure!(tape.gradient(&x).is_err(), "a pass that failed has given a gradient");
    }
    tape.trim();
    tape.set_summand_bytes(None);
    tape.set_scratch_bytes(None);
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    Ok(())
}

attacks![
    "tape",
    refused(seeds_that_do_not_fit),
    right(adjoint_that_enters_the_crate_again),
    right(panics_in_operations).variants(&["adjoint", "reset", "record_again", "dropped"]),
    refused(recordings_that_do_not_end_well).variants(&[
        "panic",
        "error",
        "forward",
        "scope",
        "forgotten"
    ]),
    refused(gradients_of_odd_views),
    right(logs_of_any_size).variants(&["0", "1", "64", "18446744073709551615"]),
];
