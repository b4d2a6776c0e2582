//! What a tape keeps and nobody has borrowed: no launch and no host meets a pass there, and operations in Rust,
//! which run within a pass, can't write it or come between.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cuda_safe::{DeviceBuffer, GraphExec, Kernel, LaunchConfig, Stream, UnifiedBuffer};
use tape::{Adjoint, CustomOp, Handle, Op, Primal, Seeds, Tape};

use super::awkward::refused;
use super::basics::close;
use super::ops::{Ops, module, threads};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::unborrowed",
        device(a_value_beside_its_own_memory),
        device(uploads_by_another_thread),
        device(launches_wait_for_uploads),
        device(guards_of_the_host),
        device(an_adjoint_that_writes_what_is_kept),
        device(an_adjoint_that_launches_graphs),
        device(an_operation_whose_drop_panics),
    ]
}

const N: usize = 4096;

/// An operation that copies, and whose adjoint is a closure.
struct Does<F>(F, Handle<f32>, Handle<f32>);

impl<F> CustomOp for Does<F>
where
    F: FnMut(&mut Adjoint<'_>, Handle<f32>, Handle<f32>) -> cuda_safe::Result<()> + Send + 'static,
{
    fn name(&self) -> &str {
        "does"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        (self.0)(pass, self.1, self.2)
    }
}

/// Records y = x, with this adjoint.
fn record<F>(
    stream: &Stream,
    tape: &mut Tape,
    (x, y): (&DeviceBuffer<f32>, &mut DeviceBuffer<f32>),
    adjoint: F,
) -> cuda_safe::Result<()>
where
    F: FnMut(&mut Adjoint<'_>, Handle<f32>, Handle<f32>) -> cuda_safe::Result<()> + Send + 'static,
{
    tape.record_again(stream, |t| {
        t.watch(x)?;
        let mut custom = t.custom();
        let (from, to) = (custom.reads(x, Primal::Entry)?, custom.overwrites(&*y, Primal::None)?);
        custom.run(Does(adjoint, from, to), |s| y.copy_from(s, x))
    })
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A launch is refused in which the memory of a value is written, and so is a copy onto itself.
fn a_value_beside_its_own_memory(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel: Kernel = module(device)?.kernel("scale_f32")?;
    let x = Arc::new(Mutex::new(DeviceBuffer::from_slice(&stream, &[1.0f32; N])?));
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let seed = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    for copies in [false, true] {
        let (same, kernel) = (x.clone(), kernel.clone());
        let mut tape = Tape::new(&stream)?;
        let from = locked(&x);
        record(&stream, &mut tape, (&from, &mut y), move |pass, x, _| {
            let mut to = locked(&same);
            let value = pass.value(x)?;
            if copies {
                return value.copy_to(pass.stream(), &mut *to);
            }
            // Beside the other half it is allowed, and does not overlap what is given.
            let args = (2.0f32, &value, to.slice_mut(1..)?, N as u32 - 1);
            // SAFETY: never made: the launch is refused.
            unsafe { kernel.launch(pass.stream(), threads(N), args) }
        })?;
        drop(from);
        let wanted =
            if copies { "the memory that it lies in" } else { "argument 3 writes memory that" };
        refused(tape.backward_with(&stream, &Seeds::new().with(&y, &seed)?), wanted)?;
    }
    ensure!(locked(&x).to_vec(&stream)?.iter().all(|x| *x == 1.0), "something was written");
    Ok(())
}

/// A pass reads what was there before another thread's upload, or is refused.
fn uploads_by_another_thread(device: &TestDevice) -> TestResult {
    device.context().set_copy_threads(1);
    let (stream, other) = (device.stream()?, device.context().stream()?);
    let n = if device.is_instrumented() { 1 << 16 } else { 1 << 20 };
    let ones = vec![1.0f32; n];
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let seed = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    for _ in 0..if device.is_instrumented() { 2 } else { 10 } {
        let mut x = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let ((go, start), (seen, answers)) = (mpsc::channel(), mpsc::channel());
        let (mut tape, over) = (Tape::new(&stream)?, go.clone());
        record(&stream, &mut tape, (&x, &mut y), move |pass, x, _| {
            let value = pass.value(x)?;
            let _ = go.send(());
            std::thread::sleep(Duration::from_micros(200));
            let _ = seen.send(value.to_vec(pass.stream())?);
            Ok(())
        })?;
        let done = std::thread::scope(|scope| {
            let (ones, other, x) = (&ones, &other, &mut x);
            let writer = scope.spawn(move || {
                let _ = start.recv();
                x.upload(other, ones)
            });
            let seeds = Seeds::new().with(&y, &seed);
            let done = seeds.and_then(|seeds| tape.backward_with(&stream, &seeds));
            // A pass that has failed before the adjoint has not said so.
            let _ = over.send(());
            match writer.join() {
                Ok(written) => written?,
                Err(_) => return Err(Failure::new("the other thread has panicked")),
            }
            Ok(done)
        })?;
        if let Ok(seen) = answers.try_recv() {
            ensure!(seen.iter().all(|x| *x == 0.0), "the pass has seen what came later");
        }
        if let Err(error) = done {
            refused::<()>(Err(error), "overwritten")?;
        }
    }
    Ok(())
}

/// As above, by an adjoint of an operation in CUDA, which has no pause in the middle: many, one after the other.
fn launches_wait_for_uploads(device: &TestDevice) -> TestResult {
    device.context().set_copy_threads(1);
    let (stream, other) = (device.stream()?, device.context().stream()?);
    let ops = Ops::of::<f32>(device)?;
    let (n, rounds) = if device.is_instrumented() { (1 << 12, 2) } else { (1 << 16, 30) };
    let x = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    for _ in 0..rounds {
        let mut k = DeviceBuffer::from_slice(&stream, &vec![2.0f32; n])?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.multiply, threads(n), (&k, &x, &mut y, n as u32))
        })?;
        let other = &other;
        let done = std::thread::scope(|scope| {
            let k = &mut k;
            let host = vec![3.0f32; n];
            let writer = scope.spawn(move || k.upload(other, &host));
            let done = tape.backward_with(&stream, &Seeds::new().with(&y, &ones)?);
            match writer.join() {
                Ok(written) => written?,
                Err(_) => return Err(Failure::new("the other thread has panicked")),
            }
            Ok(done)
        })?;
        match done {
            // Not `close`, which notes the numbers for `schedules::every_seed`: which pass succeeds is for the
            // order of the two threads to decide.
            Ok(()) => {
                let got = tape.gradient(&x)?.to_vec(&stream)?;
                ensure!(got == vec![2.0; n], "the pass has seen what came later");
            }
            Err(error) => refused::<()>(Err(error), "overwritten")?,
        }
    }
    Ok(())
}

/// A guard of the host's that is alive makes a pass an error, and so does one that was leaked.
fn guards_of_the_host(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ops = Ops::of::<f32>(device)?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut k = UnifiedBuffer::<f32>::pinned(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.multiply, threads(N), (&k, &x, &mut y, N as u32))
    })?;
    let pass = |tape: &mut Tape| tape.backward_with(&stream, &Seeds::new().with(&y, &ones)?);
    {
        let _read = k.host()?;
        pass(&mut tape)?;
    }
    {
        let mut guard = k.host_mut()?;
        guard[0] = 5.0;
        refused(pass(&mut tape), "overwritten after it was recorded")?;
    }
    drop(tape);
    // A guard that is made while an adjoint in Rust runs.
    let k = Arc::new(Mutex::new(k));
    let held = k.clone();
    let mut tape = Tape::new(&stream)?;
    {
        let of = locked(&k);
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            let mut custom = t.custom();
            let from = custom.reads(&*of, Primal::Entry)?;
            custom.reads(&x, Primal::None)?;
            let to = custom.overwrites(&y, Primal::None)?;
            let adjoint = move |pass: &mut Adjoint<'_>, from, _| {
                let mut of = locked(&held);
                let mut guard = of.host_mut()?;
                guard[0] = 7.0;
                pass.value(from)?.to_vec(pass.stream()).map(drop)
            };
            custom.run(Does(adjoint, from, to), |_| Ok(()))
        })?;
    }
    refused(pass(&mut tape), "overwritten while the pass")?;
    Ok(())
}

/// An operation in Rust writes what the adjoint of an earlier step reads later on.
fn an_adjoint_that_writes_what_is_kept(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ops = Ops::of::<f32>(device)?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let k = Arc::new(Mutex::new(DeviceBuffer::from_slice(&stream, &[2.0f32; N])?));
    // By the host, and by a graph that does not borrow it.
    let state = k.clone();
    let graph = device.context().capture(state, |stream, state| locked(state).fill(stream, 9.0))?;
    let graph = Arc::new(Mutex::new(graph));
    for by_graph in [false, true] {
        let mut tape = Tape::new(&stream)?;
        let (held, graph) = (k.clone(), graph.clone());
        let adjoint = move |pass: &mut Adjoint<'_>, _, _| match by_graph {
            true => locked(&graph).launch(pass.stream()),
            false => locked(&held).fill(pass.stream(), 8.0),
        };
        {
            let k = locked(&k);
            tape.record_again(&stream, |t| {
                t.watch(&x)?;
                t.launch(&ops.multiply, threads(N), (&*k, &x, &mut y, N as u32))?;
                let mut custom = t.custom();
                let from = custom.reads(&y, Primal::None)?;
                let to = custom.overwrites(&z, Primal::None)?;
                custom.run(Does(adjoint, from, to), |s| z.copy_from(s, &y))
            })?;
        }
        // The gradient of y is that of nothing, so the launch before has no adjoint, unless something comes to it.
        let done = tape.backward_with(&stream, &Seeds::new().with(&z, &ones)?);
        refused(done, "overwritten")?;
        refused(tape.gradient(&x), "no gradients before")?;
    }
    Ok(())
}

/// An operation in Rust launches, within a pass, the graph of another pass of the same tape: neither comes into
/// the other.
fn an_adjoint_that_launches_graphs(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.context().stream()?);
    let ops = Ops::of::<f32>(device)?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let (mut y, mut z) =
        (DeviceBuffer::<f32>::zeroed(&stream, N)?, DeviceBuffer::<f32>::zeroed(&stream, N)?);
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    type Slot = Arc<Mutex<Option<GraphExec<'static, Option<Tape>>>>>;
    let slot: Slot = Slot::default();
    let launches = slot.clone();
    let elsewhere = other.clone();
    let adjoint = move |pass: &mut Adjoint<'_>, x, y| {
        if let (Some(graph), false) = (&mut *locked(&launches), pass.stream().is_recording()) {
            // Also from another thread: nobody waits for this one.
            std::thread::scope(|scope| {
                let launched = scope.spawn(|| graph.launch(&elsewhere)).join();
                launched.unwrap_or_else(|_| Err(cuda_safe::Error::invalid("a panic")))
            })?;
        }
        let Some(given) = pass.gradient(y)?.as_slice()? else { return Ok(()) };
        let mut taken = DeviceBuffer::<f32>::zeroed(pass.stream(), given.len())?;
        taken.copy_from(pass.stream(), given)?;
        let stream = pass.stream().clone();
        match pass.gradient_mut(x)? {
            Some(mut gradient) => gradient.copy_from(&stream, &taken),
            None => Ok(()),
        }
    };
    let mut tape = Tape::new(&stream)?;
    let two: &Op = &ops.scale;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(two, threads(N), (2.0f32, &x, &mut y, N as u32))?;
        let mut custom = t.custom();
        let (from, to) = (custom.reads(&y, Primal::None)?, custom.overwrites(&z, Primal::None)?);
        custom.run(Does(adjoint, from, to), |s| z.copy_from(s, &y))
    })?;
    // Its memory and gradients live as long as the graph; what the closure has borrowed goes on living here.
    let z = Arc::new(z);
    let fives = Arc::new(DeviceBuffer::from_slice(&stream, &[5.0f32; N])?);
    let (of, seeds) = (z.clone(), fives.clone());
    let mut graph = device.context().capture(Some(tape), move |stream, tape| match tape {
        Some(tape) => tape.backward_with(stream, &Seeds::new().with(&*of, &*seeds)?),
        None => Ok(()),
    })?;
    let Some(mut tape) = graph.state_mut().take() else { return Ok(()) };
    graph.launch(&stream)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[10.0; N], 0.0)?;
    *locked(&slot) = Some(graph);
    for _ in 0..3 {
        tape.backward_with(&stream, &Seeds::new().with(&*z, &ones)?)?;
        close(&tape.gradient(&x)?.to_vec(&stream)?, &[2.0; N], 0.0)?;
    }
    // The graph holds the operation no more than the tape does.
    drop(locked(&slot).take());
    Ok(())
}

/// Panics when it is dropped.
struct Bomb(Arc<Mutex<bool>>);

impl Drop for Bomb {
    fn drop(&mut self) {
        let armed = std::mem::take(&mut *locked(&self.0));
        if armed {
            resume_unwind(Box::new("as it was told"));
        }
    }
}

fn an_operation_whose_drop_panics(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let kernel = module(device)?.kernel("scale_f32")?;
    let mut tape = Tape::new(&stream)?;
    let armed = Arc::new(Mutex::new(false));
    let bomb = Bomb(armed.clone());
    let copies = move |pass: &mut Adjoint<'_>, x, y| {
        let _ = &bomb;
        let Some(given) = pass.gradient(y)?.as_slice()? else { return Ok(()) };
        let gx = pass.gradient(x)?;
        // SAFETY: thread i reads element i of the one and writes element i of the other, below N.
        unsafe {
            kernel.launch(pass.stream(), LaunchConfig::cover(N, 128), (1.0f32, given, gx, N as u32))
        }
    };
    record(&stream, &mut tape, (&x, &mut y), copies)?;
    let seeds = || Seeds::new().with(&y, &ones);
    tape.backward_with(&stream, &seeds()?)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[1.0; N], 0.0)?;
    *locked(&armed) = true;
    ensure!(catch_unwind(AssertUnwindSafe(|| tape.reset())).is_err(), "no panic came through");
    refused(tape.gradient(&x), "no gradients before")?;
    refused(tape.backward_with(&stream, &seeds()?), "no recording to go back through")?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.copy(&x, &mut y)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &ones)?)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &[1.0; N], 0.0)
}
