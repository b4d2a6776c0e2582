//! Memory that something else writes while it is recorded: the host, other launches, other threads' copies.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, DeviceBuffer, KernelArg, LaunchConfig, UnifiedBuffer,
    arg::{ArgType, UseVisitor},
};
use tape::{Adjoint, CustomOp, Handle, Primal, Seeds, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Adjoints, ByHand, Generated, Number, numbers, threads};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::stale",
        device(written_before_it_is_used = before_use::<f32, ByHand>),
        device(generated_written_before_it_is_used = before_use::<f32, Generated>),
        device(parts_of_what_a_launch_is_given = parts::<f64, ByHand>),
        device(generated_parts_of_what_a_launch_is_given = parts::<f64, Generated>),
        device(written_by_the_host = by_host::<f32, ByHand>),
        device(generated_written_by_the_host = by_host::<f32, Generated>),
        device(two_arguments_that_write = two_writers::<f32, ByHand>),
        device(generated_two_arguments_that_write = two_writers::<f32, Generated>),
        device(asked_for_as_another_type = other_type::<f32, ByHand>),
        device(generated_asked_for_as_another_type = other_type::<f32, Generated>),
        device(launches_that_fail_leave_nothing = failed_launches::<f64, ByHand>),
        device(generated_launches_that_fail_leave_nothing = failed_launches::<f64, Generated>),
        device(handles_of_another_operation),
        device(an_adjoint_that_panics),
    ]
}

const N: usize = 50;
const UNRECORDED: &str = "was written since by something that is not recorded";

fn before_use<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(871), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let buffer = |n| DeviceBuffer::<T>::zeroed(&stream, n);
    let (mut y, mut z, mut loss) = (buffer(N)?, buffer(N)?, buffer(1)?);
    let (two, n) = (T::of(2.0), N as u32);
    let mut tape = Tape::new(&stream)?;
    // What an operation reads, what it updates, what it adds to, what is copied.
    refused(
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
            y.fill(t.stream(), T::of(1.0))?;
            t.launch(&ops.scale, threads(N), (two, &y, &mut z, n))
        }),
        UNRECORDED,
    )?;
    refused(
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
            y.upload(t.stream(), &host)?;
            t.launch(&ops.bend, threads(N), (&mut y, n))
        }),
        UNRECORDED,
    )?;
    refused(
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.energy, threads(N), (&x, &mut loss, n))?;
            loss.fill(t.stream(), T::of(0.0))?;
            t.launch(&ops.energy, threads(N), (&x, &mut loss, n))
        }),
        UNRECORDED,
    )?;
    refused(
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            x.fill(t.stream(), T::of(1.0))?;
            t.copy(&x, &mut y)
        }),
        UNRECORDED,
    )?;
    // What the gradient is taken of.
    let mut linear = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    linear.backward_with(&stream, &Seeds::new().with(&y, &ones)?)?;
    y.fill(&stream, T::of(0.0))?;
    refused(linear.backward_with(&stream, &Seeds::new().with(&y, &ones)?), UNRECORDED)?;
    // Watched, what was written is where paths begin: none comes through to what it was computed from before.
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
        y.fill(t.stream(), T::of(5.0))?;
        t.watch(&y)?;
        t.fill(&mut loss, T::of(0.0))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, n))
    })?;
    tape.backward(&stream, &loss)?;
    close(&tape.gradient(&y)?.to_vec(&stream)?, &[10.0; N], tolerance::<T>())?;
    refused(tape.gradient(&x), "no differentiable path")?;
    // Told of it, the tape is right: what was written is a constant, and then a launch covers it.
    x.upload(&stream, &host)?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
        y.upload(t.stream(), &host)?;
        t.stop_gradient(&y)?;
        t.launch(&ops.multiply, threads(N), (&y, &x, &mut z, n))?;
        // What an adjoint needs is copied before recorded writes alone.
        t.fill(&mut y, T::of(5.0))?;
        t.launch(&ops.scale, threads(N), (two, &z, &mut y, n))?;
        t.fill(&mut loss, T::of(0.0))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, n))
    })?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 8.0 * x.to().powi(3)).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

/// A launch may be given more than it writes: what lies beside is as fresh, or stale, as before.
fn parts<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(872), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let buffer = |n| DeviceBuffer::<T>::zeroed(&stream, n);
    let (mut y, mut loss) = (buffer(N)?, buffer(1)?);
    let (two, n) = (T::of(2.0), N as u32);
    for stale in [false, true] {
        let mut tape = Tape::new(&stream)?;
        let done = tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
            if stale {
                y.slice_mut(30..35)?.fill(t.stream(), T::of(1.0))?;
            }
            // The first ten, of all that it is given.
            t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, 10u32))?;
            t.fill(&mut loss, T::of(0.0))?;
            t.launch(&ops.energy, threads(N), (y.slice(..30)?, &mut loss, 30u32))?;
            t.launch(&ops.energy, threads(N), (y.slice(30..)?, &mut loss, n - 30))
        });
        if stale {
            refused(done, UNRECORDED)?;
            continue;
        }
        done?;
        tape.backward(&stream, &loss)?;
        let factor = |i| if i < 10 { 18.0 } else { 8.0 };
        let wanted: Vec<f64> = host.iter().enumerate().map(|(i, x)| factor(i) * x.to()).collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    Ok(())
}

/// A host's guard for writing is a write; so is what raw calls tell of.
fn by_host<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(873), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut k = UnifiedBuffer::<T>::pinned(&stream, N)?;
    k.host_mut()?.copy_from_slice(&host);
    let (mut y, mut loss) =
        (DeviceBuffer::<T>::zeroed(&stream, N)?, DeviceBuffer::<T>::zeroed(&stream, 1)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.multiply, threads(N), (&k, &x, &mut y, N as u32))?;
        t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
    })?;
    ensure!(k.host()?[0] == host[0], "another value");
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 2.0 * x.to().powi(3)).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    k.host_mut()?[3] = T::of(7.0);
    refused(tape.backward(&stream, &loss), "was overwritten after it was recorded")?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.energy, threads(N), (&x, &mut loss, N as u32))
    })?;
    x.allocation().note_write(0..usize::MAX);
    refused(tape.backward(&stream, &loss), "was overwritten after it was recorded")
}

/// An argument that writes, and can be made twice of the same memory.
struct Shared<'a, T>(&'a DeviceBuffer<T>, Access);

// SAFETY: the memory that the pointer leads to is reported.
unsafe impl<T: Number> KernelArg for Shared<'_, T> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.0.device_ptr()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> cuda_safe::Result<()> {
        let allocation: &Arc<Allocation> = self.0.allocation();
        visitor.visit(allocation, 0..allocation.size_bytes(), self.1)
    }
}

fn two_writers<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let x = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut tape = Tape::new(&stream)?;
    let (read, write) = (|| Shared(&x, Access::Read), || Shared(&x, Access::Write));
    let n = N as u32;
    let mut scale = |from, to| {
        tape.record_again(&stream, |t| t.launch(&ops.scale, threads(N), (T::of(2.0), from, to, n)))
    };
    refused(scale(write(), write()), "shares memory with `")?;
    refused(scale(read(), write()), "shares memory with `x`")?;
    refused(scale(read(), read()), "its argument reports that it is read")
}

fn other_type<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let x = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &x, &mut y, N as u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; N / 2])?;
    let doubles = || y.slice(..)?.cast::<f64>();
    refused(
        tape.backward_with(&stream, &Seeds::new().with(doubles()?, &ones)?),
        "the memory was recorded as F32, not as F64",
    )?;
    refused(tape.backward(&stream, doubles()?.slice(..1)?), "recorded as F32")?;
    let right = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &right)?)?;
    refused(
        tape.gradient(x.slice(..)?.cast::<f64>()?),
        "the memory was recorded as F32, not as F64",
    )?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[2.0; N], tolerance::<T>())
}

/// A launch that fails leaves no type of memory and no size behind.
fn failed_launches<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(874), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let floats = DeviceBuffer::<f32>::zeroed(&stream, 2 * N)?;
    let on_floats = A::ops::<f32>(device)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 2 * N * size_of::<T>())?;
    let mut z = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let (too_many, n) = (LaunchConfig::new(1, 4096), N as u32);
    let mut tape = Tape::new(&stream)?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.watch(&floats)?;
        let failed = t.launch(&on_floats.scale, too_many, (2.0f32, &floats, &mut y, 2 * n));
        fails(failed)?;
        let mut y = y.slice_mut(..)?.cast_mut::<T>()?;
        t.launch(&ops.scale, threads(N), (T::of(2.0), &x, &mut y, n))?;
        fails(t.launch(&ops.series, too_many, (&x, &mut z, n)))?;
        t.launch(&ops.series, threads(N), (y.as_slice(), &mut z, n))
    })?;
    // A capture takes the sizes of the last recording.
    let state = (tape, x, z);
    let mut graph = device.context().capture(state, |stream, (tape, x, z)| {
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.launch(&ops.series, threads(N), (&*x, &mut *z, n))
        })
    })?;
    graph.launch(&stream)?;
    let (mut tape, x, z) = graph.into_state();
    let wanted: Vec<f64> = host.iter().map(|x| 1.0 + x.to() + x.to() * x.to() / 2.0).collect();
    close(&z.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.energy, threads(N), (&x, &mut loss, n))
    })?;
    tape.backward(&stream, &loss)?;
    Ok(())
}

fn fails(done: cuda_safe::Result<()>) -> cuda_safe::Result<()> {
    match done {
        Ok(()) => Err(cuda_safe::Error::invalid("a block of 4096 threads was launched")),
        Err(_) => Ok(()),
    }
}

/// Asks for a gradient with a handle that may be another operation's; panics if its flag is set.
struct Copied {
    out: Handle<f32>,
    x: Handle<f32>,
    panics: bool,
}

impl CustomOp for Copied {
    fn name(&self) -> &str {
        "copied"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        if self.panics {
            resume_unwind(Box::new("as it was told"));
        }
        let given = pass.gradient(self.out)?.as_slice()?.map(|g| g.to_vec(pass.stream()));
        let (Some(given), stream) = (given, pass.stream().clone()) else { return Ok(()) };
        match pass.gradient_mut(self.x)? {
            Some(mut gradient) => gradient.upload(&stream, &given?),
            None => Ok(()),
        }
    }
}

fn record(
    t: &mut tape::Recorder<'_>,
    x: &DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
    other: Option<Handle<f32>>,
    panics: bool,
) -> cuda_safe::Result<Handle<f32>> {
    let mut custom = t.custom();
    let handle = custom.reads(x, Primal::None)?;
    let op =
        Copied { out: custom.overwrites(&*y, Primal::None)?, x: other.unwrap_or(handle), panics };
    custom.run(op, |stream| y.copy_from(stream, x))?;
    Ok(handle)
}

fn handles_of_another_operation(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let buffer = || DeviceBuffer::<f32>::zeroed(&stream, N);
    let (x, mut y, mut z) = (buffer()?, buffer()?, buffer()?);
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    for wrong in [false, true] {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let first = record(t, &x, &mut y, None, false)?;
            record(t, &y, &mut z, wrong.then_some(first), false).map(drop)
        })?;
        let done = tape.backward_with(&stream, &Seeds::new().with(&z, &ones)?);
        if wrong {
            refused(done, "the handle is of another operation")?;
        } else {
            done?;
            close(&tape.gradient(&x)?.to_vec(&stream)?, &[1.0; N], 0.0)?;
        }
    }
    Ok(())
}

/// A panic of a user's adjoint comes through; the tape says afterwards that it can't go there again, and
/// can be recorded anew.
fn an_adjoint_that_panics(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let buffer = || DeviceBuffer::<f32>::zeroed(&stream, N);
    let (x, mut y) = (buffer()?, buffer()?);
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        record(t, &x, &mut y, None, true).map(drop)
    })?;
    let pass = |tape: &mut Tape, y: &DeviceBuffer<f32>| {
        tape.backward_with(&stream, &Seeds::new().with(y, &ones)?)
    };
    if let Ok(done) = catch_unwind(AssertUnwindSafe(|| pass(&mut tape, &y))) {
        done?;
        return Err(Failure::new("no panic came through"));
    }
    refused(tape.gradient(&x), "no gradients before")?;
    refused(pass(&mut tape, &y), "has panicked before")?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        record(t, &x, &mut y, None, false).map(drop)
    })?;
    pass(&mut tape, &y)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[1.0; N], 0.0)
}
