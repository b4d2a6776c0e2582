//! Attacks on passes: seeds, re-entrance, panics, threads, streams and devices.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use cuda_safe::{DeviceBuffer, Launch, Result};
use geom_kernels::Geometry;
use tape::check::{Jacobian, differences, gradcheck, jacobian};
use tape::{Adjoint, CustomOp, Handle, Seeds, Tape, Value};

use super::kit::{Kernels, N, Nothing, ghosts, numbers, square, untouched};
use crate::harness::{Failure, Lab, TestResult, ensure, ensure_eq, list};

/// Begins passes with seeds that overlap, that are of the wrong length or memory, and that are no numbers.
///
/// - row: a pass reads what was recorded
/// - targets: `Seeds::new`, `Seeds::with`, `Tape::backward_with`, `Tape::backward`
/// - must: error ""
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
    lab.refused(Seeds::new().with(&y, seed.slice(1..)?))?;
    lab.refused(Seeds::new().with(y.slice(..3)?, &seed))?;
    lab.refused(tape.backward(&stream, &y))?;
    lab.refused(tape.backward_with(&stream, &Seeds::new()))?;
    lab.refused(tape.backward_with(&stream, &Seeds::new().with(&stranger, &seed)?))?;
    let overlapping = Seeds::new().with(y.slice(..8)?, seed.slice(..8)?)?;
    let overlapping = overlapping.with(y.slice(7..)?, seed.slice(7..)?)?;
    lab.refused(tape.backward_with(&stream, &overlapping))?;
    // Read as pairs, the memory is the same.
    let pairs = y.as_slice().cast::<f64>()?;
    let wide = DeviceBuffer::<f64>::zeroed(&stream, N / 2)?;
    lab.refused(tape.backward_with(&stream, &Seeds::new().with(pairs, &wide)?))?;
    lab.refused(tape.gradient(&x))?;
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
    geometry: Geometry,
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
        context.collect()?;
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
/// - must: right
fn adjoint_that_enters_the_crate_again(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = Geometry::new(&context);
    let x = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let drop_too = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        let mut custom = t.custom();
        let (x, y) = (custom.reads(&x, Value::Entry)?, custom.overwrites(&y)?);
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
/// - must: right
/// - variants: adjoint, reset, record_again, dropped
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
        let inner =
            super::kit::Square { x: custom.reads(&y, Value::Entry)?, y: custom.overwrites(&z)? };
        let op = Panics { inner, left: Arc::new(AtomicUsize::new(1)), in_drop };
        custom.run(op, |s| kernels.square(s, Launch::cover(N, 64), &y, &mut z, N as u32))
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
/// - must: error ""
/// - variants: panic, error, forward, scope, forgotten
fn recordings_that_do_not_end_well(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (Geometry::new(&context), Kernels::load(&context)?);
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
                    custom.reads(&y, Value::Entry)?;
                    custom.overwrites(&loss)?;
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
    lab.refused(tape.backward(&stream, &loss))?;
    lab.refused(tape.gradient(&x))?;
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

/// Overwrites all that a pass reads, on another stream, right after the pass was enqueued.
///
/// - row: a use of kept memory runs wholly
/// - row: work that uses the same bytes
/// - targets: `Tape::backward`, `Tape::gradient`, `DeviceBuffer::upload`, `DeviceBuffer::fill`
/// - must: right
fn overwritten_while_the_pass_runs(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, back, other) = (context.stream()?, context.stream()?, context.stream()?);
    let geometry = Geometry::new(&context);
    let mut y = DeviceBuffer::from_slice(&stream, &numbers(0))?;
    let mut x = DeviceBuffer::from_slice(&stream, &numbers(9))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    for round in 1..8 {
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            geometry.record_dot(t, &x, &y, &mut loss)
        })?;
        tape.backward(&back, &loss)?;
        y.upload(&other, &numbers(round))?;
        loss.fill(&other, f32::NAN)?;
        let seen = tape.gradient(&x)?.to_vec(&stream)?;
        ensure_eq!(seen, numbers(round - 1));
        x.fill(&other, round as f32)?;
    }
    Ok(())
}

/// Records and runs tapes of the same buffers in four threads at once, with one `Geometry` that has loaded nothing.
///
/// - row: a pass that runs now and the launch of a graph
/// - targets: `Tape::record`, `Tape::backward`, `Geometry::record_dot`, `Geometry::record_norm_max`
/// - must: right
fn tapes_of_four_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = Geometry::new(&context);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let streams = (0..4).map(|_| context.stream()).collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .map(|stream| {
                let (x, y, geometry) = (&x, &y, &geometry);
                scope.spawn(move || -> TestResult {
                    let mut loss = DeviceBuffer::<f32>::zeroed(stream, 1)?;
                    let mut greatest = DeviceBuffer::<f32>::zeroed(stream, 1)?;
                    let mut tape = Tape::new(stream)?;
                    for _ in 0..4 {
                        tape.record_again(stream, |t| {
                            t.watch(x)?;
                            geometry.record_dot(t, x, y, &mut loss)?;
                            geometry.record_norm_max(t, &loss, &mut greatest)
                        })?;
                        tape.backward(stream, &greatest)?;
                        let sign = loss.to_vec(stream)?[0].signum();
                        let expected: Vec<f32> = numbers(2).iter().map(|y| sign * y).collect();
                        ensure_eq!(tape.gradient(x)?.to_vec(stream)?, expected);
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok::<_, Failure>(())
    })
}

/// Records on one thread, runs the pass on another one, reads the gradient on a third one, and drops the tape in
/// the first one while its work is in flight.
///
/// - row: all types may go to other threads
/// - targets: `Tape::record`, `Tape::backward`, `Tape::gradient`
/// - must: right
fn a_tape_that_changes_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (Geometry::new(&context), Kernels::load(&context)?);
    let (send, receive) = mpsc::channel();
    for round in 0..5 {
        let x = DeviceBuffer::from_slice(&stream, &numbers(round))?;
        let (first, second) = (context.stream()?, context.stream()?);
        let (geometry, kernels, send) = (geometry.clone(), kernels.clone(), send.clone());
        let tape = thread::spawn(move || -> Result<_> {
            let mut loss = DeviceBuffer::<f32>::zeroed(&first, 1)?;
            let mut y = DeviceBuffer::<f32>::zeroed(&first, N)?;
            let tape = Tape::record(&first, |t| {
                t.watch(&x)?;
                square(t, &kernels, &x, &mut y)?;
                geometry.record_sum(t, &y, &mut loss)
            })?;
            Ok((tape, x, loss))
        });
        let (mut tape, x, loss) = tape.join().map_err(|_| Failure::new("a panic"))??;
        let done = thread::spawn(move || -> Result<_> {
            tape.backward(&second, &loss)?;
            drop(loss);
            let gradient = DeviceBuffer::<f32>::zeroed(&second, N)?;
            let mut gradient = gradient;
            gradient.copy_from(&second, tape.gradient(&x)?)?;
            drop((tape, x));
            // The receiver outlives all threads.
            let _ = send.send(gradient);
            Ok(())
        });
        let hidden = ghosts(&context, &stream)?;
        done.join().map_err(|_| Failure::new("a panic"))??;
        let expected: Vec<f32> = numbers(round).iter().map(|x| 2.0 * x).collect();
        ensure_eq!(receive.recv()?.to_vec(&stream)?, expected);
        ensure!(untouched(&stream, &hidden)?);
    }
    Ok(())
}

/// Asks for gradients of parts, of empty views, of more than was watched, and of other types of numbers.
///
/// - row: a pass reads what was recorded
/// - targets: `Tape::gradient`, `DeviceBuffer::slice`, `DeviceSlice::cast`, `Recorder::watch`
/// - must: error ""
fn gradients_of_odd_views(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (Geometry::new(&context), Kernels::load(&context)?);
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
    lab.refused(tape.gradient(&y))?;
    lab.refused(tape.gradient(x.slice(20..24)?))?;
    lab.refused(tape.gradient(x.slice(4..12)?.cast::<f64>()?))?;
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
/// - targets: `Tape::set_deterministic`, `Tape::set_log_bytes`, `Tape::set_scratch_bytes`, `Tape::check`, `Tape::trim`
/// - must: right
/// - variants: 0, 1, 64, 18446744073709551615
fn logs_of_any_size(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = Geometry::new(&context);
    let kernels = Kernels::load(&context)?;
    let bytes: usize = lab.variant().parse()?;
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    tape.set_log_bytes(bytes);
    tape.set_scratch_bytes(bytes);
    tape.set_deterministic(true);
    // The adjoint of a square does not say how often it adds.
    let refused = tape.record_again(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut z)
    });
    lab.refused_because(refused, "square")?;
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
    tape.set_log_bytes(None);
    tape.set_scratch_bytes(None);
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    Ok(())
}

/// Lies to the functions that compare gradients with differences.
///
/// - row: a pass reads what was recorded
/// - targets: `jacobian`, `differences`, `gradcheck`, `Jacobian::from_rows`, `Jacobian::compare`, `Jacobian::rows`
/// - must: error ""
fn functions_that_lie_to_the_check(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let host = &numbers(1)[..4];
    let mut x = DeviceBuffer::from_slice(&stream, host)?;
    let mut calls = 0;
    lab.refused(differences(&stream, &mut x, 0.5, |_| {
        calls += 1;
        Ok(vec![0.0; calls])
    }))?;
    ensure_eq!(x.to_vec(&stream)?, host);
    let mut calls = 0;
    lab.refused(differences(&stream, &mut x, 0.5, |_| {
        calls += 1;
        if calls == 4 { Err(cuda_safe::Error::invalid("enough")) } else { Ok(vec![1.0]) }
    }))?;
    ensure_eq!(x.to_vec(&stream)?, host);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        differences(&stream, &mut x, 0.5, |_| -> Result<Vec<f64>> { panic!("no more") })
    }));
    ensure!(panicked.is_err());
    let mut none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    if let Ok(nothing) = differences(&stream, &mut none, 0.5, |_| Ok(vec![1.0])) {
        ensure_eq!(nothing.columns(), 0);
    }
    for step in [0.0, f64::NAN, f64::INFINITY] {
        // An error, or no numbers; the input is as before.
        x.upload(&stream, host)?;
        if let Ok(odd) = differences(&stream, &mut x, step, |_| Ok(vec![1.0])) {
            ensure_eq!(odd.rows().len(), 1);
        }
        ensure_eq!(x.to_vec(&stream)?, host);
    }
    lab.refused(Jacobian::from_rows(&[vec![1.0, 2.0], vec![1.0]]))?;
    let (one, two) = (Jacobian::from_rows(&[vec![1.0]])?, Jacobian::from_rows(&[vec![1.0, 2.0]])?);
    lab.refused(one.compare(&two, |_, _| false))?;
    let empty = Jacobian::from_rows(&[])?;
    ensure_eq!(empty.compare(&empty, |_, _| true)?.compared, 0);
    let mut length = 1;
    lab.refused(gradcheck(
        &stream,
        &mut x,
        0.25,
        |t, x| {
            length += 1;
            let mut y = DeviceBuffer::<f32>::zeroed(t.stream(), length)?;
            t.copy(x.slice(..1)?, y.slice_mut(..1)?)?;
            Ok(y)
        },
        |_, _| false,
    ))?;
    ensure_eq!(x.to_vec(&stream)?, host);
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut y)
    })?;
    lab.refused(jacobian(&mut tape, &stream, &y, &y))?;
    let right = jacobian(&mut tape, &stream, &x, &y)?;
    for (i, row) in right.rows().enumerate() {
        let expected: Vec<f64> =
            (0..4).map(|j| if i == j { 2.0 * f64::from(host[i]) } else { 0.0 }).collect();
        ensure_eq!(row, &expected[..]);
    }
    Ok(())
}

/// Mixes tapes, streams and memory of two devices.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Tape::record`, `Tape::record_again`, `Tape::backward`, `Tape::check`, `Seeds::with`
/// - must: error ""
/// - variables: CUDA_EMU_DEVICES=2
fn tapes_of_two_devices(lab: &Lab) -> TestResult {
    let (context, other) = (lab.context()?, lab.context_of(1)?);
    let (stream, strange) = (context.stream()?, other.stream()?);
    let (geometry, far) = (Geometry::new(&context), Geometry::new(&other));
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&strange, &numbers(2))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    lab.refused(Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    }))?;
    lab.refused(Tape::record(&stream, |t| {
        t.watch(&x)?;
        far.record_squared_norm(t, &x, &mut loss)
    }))?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_squared_norm(t, &x, &mut loss)
    })?;
    lab.refused(tape.backward(&strange, &loss))?;
    let seed = DeviceBuffer::from_slice(&strange, &[1.0f32])?;
    lab.refused(tape.backward_with(&stream, &Seeds::new().with(&loss, &seed)?))?;
    lab.refused(tape.gradient(&x))?;
    tape.backward(&stream, &loss)?;
    lab.refused(tape.gradient(&y))?;
    let expected: Vec<f32> = numbers(1).iter().map(|x| 2.0 * x).collect();
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    // An error, or a tape of the other device from now on.
    let mut far_loss = DeviceBuffer::<f32>::zeroed(&strange, 1)?;
    let moved = tape.record_again(&strange, |t| {
        t.watch(&y)?;
        far.record_squared_norm(t, &y, &mut far_loss)
    });
    if moved.is_ok() && tape.backward(&strange, &far_loss).is_ok() {
        let expected: Vec<f32> = numbers(2).iter().map(|y| 2.0 * y).collect();
        ensure_eq!(tape.gradient(&y)?.to_vec(&strange)?, expected);
    }
    Ok(())
}

list![
    seeds_that_do_not_fit,
    adjoint_that_enters_the_crate_again,
    panics_in_operations,
    recordings_that_do_not_end_well,
    overwritten_while_the_pass_runs,
    tapes_of_four_threads,
    a_tape_that_changes_threads,
    gradients_of_odd_views,
    logs_of_any_size,
    functions_that_lie_to_the_check,
    tapes_of_two_devices,
];
