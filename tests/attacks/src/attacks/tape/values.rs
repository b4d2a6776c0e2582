//! Attacks on the values that adjoints find, and on where gradients lie.

use std::mem;

use cuda_safe::{
    DeviceBuffer, Extent, LaunchConfig, PinnedBuffer, PitchedLayout, Result, UnifiedBuffer,
};
use geom_kernels::GeometryKernels;
use tape::{Adjoint, CustomOp, Handle, Primal, Seeds, Tape, Variable};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kernels, N, ghosts, numbers, square, untouched};
use crate::attack::attacks;
use crate::lab::Lab;

/// Overwrites what an adjoint needs between recording and pass, by each call that can write to a buffer.
///
/// - row: a pass reads what was recorded
/// - targets: `GeometryKernels::record_dot`, `Tape::record`, `Tape::backward`, `DeviceBuffer::upload`,
///   `DeviceBuffer::fill`, `DeviceBuffer::copy_from`, `DeviceBuffer::upload_pinned`, `DeviceBuffer::upload_3d`,
///   `DeviceBuffer::slice_mut`, `DeviceSliceMut::cast_mut`
fn written_between_recording_and_pass(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let (x, new) = (numbers(1), numbers(5));
    let x = DeviceBuffer::from_slice(&stream, &x)?;
    let mut y = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    // Without a write it is right.
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    match lab.variant() {
        "upload" => y.upload(&stream, &new)?,
        "fill" => y.fill(&stream, 3.0)?,
        "copy" => {
            let new = DeviceBuffer::from_slice(&stream, &new)?;
            y.copy_from(&stream, &new)?;
        }
        "pinned" => {
            let pinned = PinnedBuffer::from_slice(&context, &new)?;
            drop(y.upload_pinned(&stream, pinned)?);
        }
        "kernel" => kernels.put(&stream, LaunchConfig::cover(N, 32), 7.0, &mut y, N as u32)?,
        "graph" => {
            let kernels = &kernels;
            let mut graph = context.capture((), |s, ()| {
                kernels.put(s, LaunchConfig::cover(N, 32), 7.0, &mut y, N as u32)
            })?;
            graph.launch(&stream)?;
        }
        "cast" => {
            let bytes = y.as_slice_mut().cast_mut::<u8>().map_err(|_| Failure::new("no cast"))?;
            { bytes }.fill(&stream, 0x40)?;
        }
        "shaped" => {
            let extent = Extent::from((1, 1));
            let layout = PitchedLayout::compact(extent);
            y.upload_3d(&stream, layout, &new, layout, extent)?;
        }
        "last_element" => y.slice_mut(N - 1..)?.fill(&stream, 0.0)?,
        _ => y.fill(&context.stream()?, 3.0)?,
    }
    lab.refused(tape.backward(&stream, &loss), "y")?;
    // The recording is of use again when it is recorded again.
    let now = y.to_vec(&stream)?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, now);
    Ok(())
}

/// Drops a buffer that an adjoint reads, on another thread, and takes memory of its size at once.
///
/// - row: device memory is freed after the last work
/// - row: a pass reads what was recorded
/// - targets: `Tape::record`, `Tape::backward`, `Tape::gradient`, `Tape::reset`, `Tape::trim`
fn dropped_before_the_pass(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::new(&stream)?;
    for round in 0..6 {
        let y = DeviceBuffer::from_slice(&stream, &numbers(round))?;
        let mut z = DeviceBuffer::<f32>::zeroed(&stream, N)?;
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            square(t, &kernels, &x, &mut z)?;
            geometry.record_dot(t, &z, &y, &mut loss)
        })?;
        std::thread::spawn(move || drop((y, z))).join().map_err(|_| Failure::new("panic"))?;
        let hidden = ghosts(&context, &stream)?;
        tape.backward(&stream, &loss)?;
        let expected: Vec<f32> =
            numbers(1).iter().zip(numbers(round)).map(|(x, y)| 2.0 * x * y).collect();
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
        ensure!(untouched(&stream, &hidden)?, "the pass wrote to memory of others");
        tape.reset();
        tape.trim();
    }
    Ok(())
}

/// Drops a watched buffer, makes another in the same memory, and asks for its gradient.
///
/// - row: a pass reads what was recorded
/// - targets: `Tape::gradient`, `Recorder::watch`
fn gradient_of_memory_made_anew(lab: &Lab) -> TestResult {
    let refusal = "there is no gradient: the memory is not watched";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    drop(x);
    for ghost in ghosts(&context, &stream)? {
        lab.refused(tape.gradient(&ghost), refusal)?;
    }
    lab.refused(tape.gradient(&y), refusal)?;
    lab.refused(tape.gradient(y.slice(..0)?), refusal)?;
    Ok(())
}

/// Overwrites inputs by recorded copies, so that each adjoint needs another state of the same memory.
///
/// - row: a pass reads what was recorded
/// - targets: `Recorder::copy`, `Recorder::fill`, `Tape::backward_with`, `Seeds::with`, `Tape::memory`
fn three_states_of_one_buffer(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let (hx, hy) = (numbers(3), numbers(4));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let mut y = DeviceBuffer::from_slice(&stream, &hy)?;
    let mut sums =
        (0..3).map(|_| DeviceBuffer::<f32>::zeroed(&stream, 1)).collect::<Result<Vec<_>>>()?;
    let [s1, s2, s3] = &mut sums[..] else { return Err(Failure::new("not three")) };
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut *s1)?;
        t.copy(&x, &mut y)?;
        geometry.record_dot(t, &x, &y, &mut *s2)?;
        t.fill(&mut y, 2.0)?;
        geometry.record_dot(t, &x, &y, &mut *s3)
    })?;
    let weights = [1.0f32, 10.0, 100.0];
    let seeds = weights
        .iter()
        .map(|w| DeviceBuffer::from_slice(&stream, &[*w]))
        .collect::<Result<Vec<_>>>()?;
    for _ in 0..2 {
        let given = Seeds::new().with(&*s1, &seeds[0])?.with(&*s2, &seeds[1])?;
        tape.backward_with(&stream, &given.with(&*s3, &seeds[2])?)?;
        let expected: Vec<f32> =
            hx.iter().zip(&hy).map(|(x, y)| y + 10.0 * 2.0 * x + 100.0 * 2.0).collect();
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    }
    ensure!(tape.memory().copies >= 4 * N, "{}", tape.memory());
    Ok(())
}

/// Overwrites what depends on something watched by work that is not recorded, and goes on to record with it.
///
/// - row: a pass reads what was recorded
/// - targets: `Recorder::copy`, `Recorder::stream`, `GeometryKernels::record_sum`
fn unrecorded_write_to_a_dependent(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let result = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.copy(&x, &mut y)?;
        let beside = t.stream().clone();
        match lab.variant() {
            "whole" => y.fill(&beside, 1.0)?,
            "part" => y.slice_mut(7..8)?.fill(&beside, 1.0)?,
            _ => y.fill(&context.stream()?, 1.0)?,
        }
        geometry.record_sum(t, &y, &mut loss)
    });
    lab.refused(
        result,
        "memory of a custom operation depends on something watched, and was written since by",
    )
}

/// Keeps inputs, sums and outputs in one allocation, side by side.
///
/// - row: a pass reads what was recorded
/// - targets: `DeviceBuffer::split_at_mut`, `DeviceSliceMut::split_at_mut`, `DeviceSlice::split_at`,
///   `GeometryKernels::record_dot`, `GeometryKernels::record_squared_norm`
fn all_in_one_allocation(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let mut host = numbers(1);
    host.extend(numbers(2));
    host.resize(2 * N + 32, f32::NAN);
    let mut all = DeviceBuffer::from_slice(&stream, &host)?;
    let mut tape = Tape::new(&stream)?;
    tape.record_again(&stream, |t| {
        let (inputs, sums) = all.split_at_mut(2 * N)?;
        let inputs = inputs.as_slice();
        let (x, y) = inputs.split_at(N)?;
        let (mut first, second) = sums.split_at_mut(1)?;
        let (mut second, mut third) = second.split_at_mut(1)?;
        t.watch(x)?;
        geometry.record_dot(t, x, y, &mut first)?;
        t.copy(&first, &mut second)?;
        geometry.record_squared_norm(t, &second, third.slice_mut(..1)?)
    })?;
    let dot: f32 = numbers(1).iter().zip(numbers(2)).map(|(x, y)| x * y).sum();
    tape.backward(&stream, all.slice(2 * N + 2..2 * N + 3)?)?;
    let expected: Vec<f32> = numbers(2).iter().map(|y| 2.0 * dot * y).collect();
    ensure_eq!(tape.gradient(all.slice(..N)?)?.to_vec(&stream)?, expected);
    ensure_eq!(tape.gradient(all.slice(3..5)?)?.to_vec(&stream)?, expected[3..5]);
    ensure_eq!(all.slice(2 * N..2 * N + 2)?.to_vec(&stream)?, [dot, dot]);
    ensure!(all.slice(2 * N + 3..)?.to_vec(&stream)?.iter().all(|x| x.is_nan()));
    // A view that is watched in part only has no gradient as a whole.
    if let Ok(gradient) = tape.gradient(all.slice(N - 1..N + 1)?) {
        ensure_eq!(gradient.to_vec(&stream)?[0], expected[N - 1]);
    }
    Ok(())
}

/// Multiplies overlapping views of one buffer with each other, and the buffer with itself.
///
/// - row: a pass reads what was recorded
/// - targets: `GeometryKernels::record_dot`, `Tape::gradient`, `DeviceBuffer::slice`
fn factors_that_overlap(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let host = numbers(6);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    for shift in [0usize, 1, 31, N - 1] {
        let n = N - shift;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            geometry.record_dot(t, x.slice(..n)?, x.slice(shift..)?, &mut loss)
        })?;
        tape.backward(&stream, &loss)?;
        let mut expected = vec![0.0f32; N];
        for i in 0..n {
            expected[i] += host[i + shift];
            expected[i + shift] += host[i];
        }
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, expected);
    }
    Ok(())
}

struct Reader<T> {
    x: Handle<T>,
    seen: std::sync::mpsc::Sender<Result<usize>>,
}

impl CustomOp for Reader<f32> {
    fn name(&self) -> &str {
        "reader"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let read = pass.value(self.x).and_then(|value| value.to_vec(pass.stream()));
        // The receiver outlives the pass.
        let _ = self.seen.send(read.map(|values| values.len()));
        Ok(())
    }
}

/// Asks an adjoint for the value of a `Variable`, whose memory never holds one.
///
/// - row: memory of the tape never holds what nobody wrote
/// - targets: `Variable::new`, `CustomBuilder::reads`, `Adjoint::value`, `Recorder::custom`
fn value_of_a_variable(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut a = Variable::new(&stream, 3.0f32)?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let (seen, read) = std::sync::mpsc::channel();
    let recorded = Tape::record(&stream, |t| {
        t.watch(&a)?;
        let mut custom = t.custom();
        let x = custom.reads(&a, Primal::Entry)?;
        custom.overwrites(&y, Primal::None)?;
        custom.run(Reader { x, seen }, |_| Ok(()))
    });
    // The init checker sees it if the adjoint reads memory that nobody wrote.
    let Ok(mut tape) = recorded else { return Ok(()) };
    a.set(5.0);
    ensure_eq!(a.get(), 5.0);
    tape.backward(&stream, &y)?;
    if let Ok(Ok(len)) = read.recv() {
        ensure_eq!(len, 1);
    }
    Ok(())
}

struct Thief {
    own: Handle<f32>,
    stolen: Handle<[f32; 16]>,
    number: Handle<u32>,
    seen: std::sync::mpsc::Sender<[bool; 4]>,
}

impl CustomOp for Thief {
    fn name(&self) -> &str {
        "thief"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let own = pass.value(self.own)?.to_vec(pass.stream())?.len() == N;
        let stolen = pass.value(self.stolen).is_err() && pass.gradient(self.stolen).is_err();
        let number = pass.value(self.number).is_err();
        let written = pass.gradient_mut(self.stolen).is_err();
        // The receiver outlives the pass.
        let _ = self.seen.send([own, stolen, number, written]);
        Ok(())
    }
}

/// Gives an operation handles of another one, of other types and greater lengths.
///
/// - row: no safe code gets a view of memory that is not borrowed
/// - targets: `Adjoint::value`, `Adjoint::gradient`, `Adjoint::gradient_mut`, `CustomBuilder::reads`,
///   `CustomBuilder::reads_inactive`, `Gradient::as_slice`
fn handles_of_another_operation(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let wide = DeviceBuffer::<[f32; 16]>::zeroed(&stream, N)?;
    let index = DeviceBuffer::<u32>::zeroed(&stream, 4 * N)?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let (seen, read) = std::sync::mpsc::channel();
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&wide)?;
        // Never run: its handles are the first and the second too.
        let mut other = t.custom();
        let stolen = other.reads(&wide, Primal::Entry)?;
        let mut another = t.custom();
        let number = another.reads_inactive(&index, Primal::Entry)?;
        let mut custom = t.custom();
        let own = custom.reads(&x, Primal::Entry)?;
        custom.overwrites(&y, Primal::None)?;
        custom.run(Thief { own, stolen, number, seen }, |_| Ok(()))
    })?;
    tape.backward(&stream, &y)?;
    ensure_eq!(read.recv()?, [true; 4]);
    Ok(())
}

/// Leaks guards of the host on memory that a tape has recorded, and runs the pass.
///
/// - row: a use of kept memory runs wholly
/// - row: while a guard lives nothing
/// - targets: `UnifiedBuffer::host`, `UnifiedBuffer::host_mut`, `UnifiedBuffer::managed`, `UnifiedBuffer::pinned`,
///   `Tape::backward`
fn leaked_guards_before_the_pass(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let make = || match lab.variant() {
        "managed" => UnifiedBuffer::<f32>::managed(&stream, N),
        _ => UnifiedBuffer::<f32>::pinned(&stream, N),
    };
    let (mut x, mut y) = (make()?, make()?);
    x.host_mut()?.copy_from_slice(&numbers(1));
    y.host_mut()?.copy_from_slice(&numbers(2));
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    // The device may read beside a reader.
    mem::forget(y.host()?);
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    // The host may still write, for all that the crate knows.
    let Ok(guard) = y.host_mut() else { return Ok(()) };
    mem::forget(guard);
    lab.refused(tape.backward(&stream, &loss), "")
}

/// Writes to recorded memory through a guard of the host, which is gone when the pass runs.
///
/// - row: a pass reads what was recorded
/// - targets: `UnifiedBuffer::host_mut`, `Tape::backward`
fn written_by_the_host_before_the_pass(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let mut y = UnifiedBuffer::<f32>::pinned(&stream, N)?;
    y.host_mut()?.copy_from_slice(&numbers(2));
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    y.host_mut()?[N - 1] = 0.5;
    lab.refused(
        tape.backward(&stream, &loss),
        "memory of step 1 (`dot`) was overwritten after it was recorded",
    )
}

attacks![
    "tape",
    refused(written_between_recording_and_pass).variants(&[
        "upload",
        "fill",
        "copy",
        "pinned",
        "kernel",
        "graph",
        "cast",
        "shaped",
        "last_element",
        "other_stream"
    ]),
    right(dropped_before_the_pass),
    refused(gradient_of_memory_made_anew),
    right(three_states_of_one_buffer),
    refused(unrecorded_write_to_a_dependent).variants(&["whole", "part", "other_stream"]),
    right(all_in_one_allocation),
    right(factors_that_overlap),
    right(value_of_a_variable),
    right(handles_of_another_operation),
    right(leaked_guards_before_the_pass).variants(&["managed", "pinned"]),
    refused(written_by_the_host_before_the_pass),
];
