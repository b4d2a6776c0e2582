//! Attacks on tapes in several threads, on several streams and devices.

use std::sync::mpsc;
use std::thread;

use cuda_safe::{DeviceBuffer, Result};
use geom_kernels::GeometryKernels;
use tape::{Seeds, Tape};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kernels, N, ghosts, numbers, square, untouched};
use crate::attack::attacks;
use crate::lab::Lab;

/// Overwrites all that a pass reads, on another stream, right after the pass was enqueued.
///
/// - row: a use of kept memory runs wholly
/// - row: work that uses the same bytes
/// - targets: `Tape::backward`, `Tape::gradient`, `DeviceBuffer::upload`, `DeviceBuffer::fill`
fn overwritten_while_the_pass_runs(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, back, other) = (context.stream()?, context.stream()?, context.stream()?);
    let geometry = GeometryKernels::new(&context);
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

/// Records and runs tapes of the same buffers in four threads at once, with one `GeometryKernels` that has loaded nothing.
///
/// - row: a pass that runs now and the launch of a graph
/// - targets: `Tape::record`, `Tape::backward`, `GeometryKernels::record_dot`, `GeometryKernels::record_norm_max`
fn tapes_of_four_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
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
fn a_tape_that_changes_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
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

/// Mixes tapes, streams and memory of two devices.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Tape::record`, `Tape::record_again`, `Tape::backward`, `Seeds::with`
fn tapes_of_two_devices(lab: &Lab) -> TestResult {
    let refusal = "the buffer belongs to another context than the stream it is used on";
    let (context, other) = (lab.context()?, lab.context_of(1)?);
    let (stream, strange) = (context.stream()?, other.stream()?);
    let (geometry, far) = (GeometryKernels::new(&context), GeometryKernels::new(&other));
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&strange, &numbers(2))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    lab.refused(
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            geometry.record_dot(t, &x, &y, &mut loss)
        }),
        "memory of another context can't be kept for later, since nobody could keep others from",
    )?;
    lab.refused(
        Tape::record(&stream, |t| {
            t.watch(&x)?;
            far.record_squared_norm(t, &x, &mut loss)
        }),
        "kernel `tape_squares_f32` belongs to another context than the stream",
    )?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_squared_norm(t, &x, &mut loss)
    })?;
    lab.refused(tape.backward(&strange, &loss), refusal)?;
    let seed = DeviceBuffer::from_slice(&strange, &[1.0f32])?;
    lab.refused(tape.backward_with(&stream, &Seeds::new().with(&loss, &seed)?), refusal)?;
    lab.refused(tape.gradient(&x), "there are no gradients before `backward`")?;
    tape.backward(&stream, &loss)?;
    lab.refused(tape.gradient(&y), "there is no gradient: the memory is not watched")?;
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

attacks![
    "tape",
    right(overwritten_while_the_pass_runs),
    right(tapes_of_four_threads),
    right(a_tape_that_changes_threads),
    refused(tapes_of_two_devices).devices(2),
];
