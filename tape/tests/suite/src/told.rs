//! What adjoints and primals tell the tape, and that nothing of it is lost; what graphs go on using.

use cuda_safe::{DeviceBuffer, GraphExec, Module, Stream, nvrtc};
use tape::{Op, Param, Primal, Seeds, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{
    Adjoints, ByHand, Generated, Number, Ops, SOURCE, module, numbers, register, spec, threads,
};
use test_harness::{Case, TestDevice, TestResult, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::told",
        fault(another_abi_at_registration),
        device(a_primal_without_room = primal::<f32>),
        device(an_overflow_before_an_eager_pass = before_a_pass::<f32, ByHand>),
        device(generated_an_overflow_before_an_eager_pass = before_a_pass::<f32, Generated>),
        device(an_overflow_before_a_count = before_a_count::<f64>),
        device(an_overflow_after_trim = after_trim::<f32, ByHand>),
        device(generated_an_overflow_after_trim = after_trim::<f32, Generated>),
        device(an_overflow_after_a_failed_pass = after_failure::<f32, ByHand>),
        device(generated_an_overflow_after_a_failed_pass = after_failure::<f32, Generated>),
        device(sums_are_clean_after_an_overflow = clean_sums::<f64, ByHand>),
        device(generated_sums_are_clean_after_an_overflow = clean_sums::<f64, Generated>),
        device(copies_of_a_captured_pass_stay = copies_stay::<f64>),
        device(a_recording_that_never_ran = never_ran::<f32>),
    ]
}

const N: usize = 200;

fn zeros<T: Number>(stream: &Stream, n: usize) -> cuda_safe::Result<DeviceBuffer<T>> {
    DeviceBuffer::zeroed(stream, n)
}

/// Kernels that were compiled with another header are refused when they are registered; a module without
/// the header is not.
fn another_abi_at_registration(device: &TestDevice) -> TestResult {
    let compile = |version: &str| {
        let headers = tape::headers().iter().map(|(name, text)| {
            let text = text.replace("GEOM_TAPE_ABI 1\n", &format!("GEOM_TAPE_ABI {version}\n"));
            (name.to_string(), text)
        });
        let program = nvrtc::Program::new(SOURCE).name("ops.cu");
        let program = headers.fold(program, |program, (name, text)| program.header(name, text));
        Module::compile(device.context(), program)
    };
    let element = tape::Element::F32;
    let op = |version: &str| {
        let x = Param::buffer("x", element).updates(Primal::Entry).len("n").each_element().active();
        register(&compile(version)?, spec::<f32>("bend", vec![x, Param::value("n")]))
    };
    op("1")?;
    for version in ["2", "7"] {
        refused(op(version), "another version of geom/tape.cuh")?;
    }
    Ok(())
}

/// An operation whose primal gets 16 bytes, or enough.
fn series<T: Number>(device: &TestDevice, enough: bool) -> cuda_safe::Result<Op> {
    let element = <T as Number>::ELEMENT;
    let x = Param::buffer("x", element).reads(Primal::None).len("n").each_element().active();
    let out = Param::buffer("out", element).overwrites().len("n").each_element().active();
    let spec = spec::<T>("series", vec![x, out, Param::value("n")]);
    let bytes =
        if enough { |_: &cuda_safe::LaunchConfig| N * 8 } else { |_: &cuda_safe::LaunchConfig| 16 };
    register(&module(device)?, spec.primal(format!("series_{}_primal", T::SUFFIX), bytes))
}

fn primal<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(891), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let (mut y, mut loss) = (zeros::<T>(&stream, N)?, zeros::<T>(&stream, 1)?);
    let (small, enough) = (series::<T>(device, false)?, series::<T>(device, true)?);
    let mut tape = Tape::new(&stream)?;
    let mut record = |tape: &mut Tape, op: &Op| {
        tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (&x, &mut y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&y, &mut loss, N as u32))
        })?;
        Ok::<_, cuda_safe::Error>(loss.as_slice().allocation().clone())
    };
    let wanted: Vec<f64> = host
        .iter()
        .map(|x| 2.0 * (1.0 + x.to() + x.to() * x.to() / 2.0) * (1.0 + x.to()))
        .collect();
    let memory = record(&mut tape, &small)?;
    // SAFETY: one number of this type lies there, which nobody writes meanwhile.
    let loss = unsafe { memory.view::<T>(0..size_of::<T>()) }?;
    for _ in 0..2 {
        refused(tape.backward(&stream, loss), "bytes of tape memory")?;
        refused(tape.gradient(&x), "before `backward`")?;
    }
    record(&mut tape, &enough)?;
    tape.backward(&stream, loss)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    // What was wrong with a recording that is forgotten does not matter to the next.
    record(&mut tape, &small)?;
    tape.reset();
    record(&mut tape, &enough)?;
    tape.backward(&stream, loss)?;
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    record(&mut tape, &small)?;
    refused(tape.check(&stream), "bytes of tape memory")?;
    refused(tape.backward(&stream, loss), "bytes of tape memory")
}

struct State<T> {
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    loss: DeviceBuffer<T>,
    tape: Tape,
}

impl<T: Number> State<T> {
    fn new(stream: &Stream, host: &[T]) -> cuda_safe::Result<Self> {
        let x = DeviceBuffer::from_slice(stream, host)?;
        let (y, loss) = (zeros(stream, host.len())?, zeros(stream, 1)?);
        Ok(Self { x, y, loss, tape: Tape::new(stream)? })
    }

    /// y = x times x, and its energy.
    fn plain(&mut self, stream: &Stream, ops: &Ops) -> cuda_safe::Result<()> {
        let Self { x, y, loss, tape } = self;
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.launch(&ops.multiply, threads(N), (&*x, &*x, &mut *y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
        })
    }

    fn check_plain(&self, stream: &Stream) -> TestResult {
        let wanted: Vec<f64> =
            self.x.to_vec(stream)?.iter().map(|x| 4.0 * x.to().powi(3)).collect();
        close(&self.tape.gradient(&self.x)?.to_vec(stream)?, &wanted, tolerance::<T>())
    }

    /// What needs scratch memory; of which there is too little, if it is captured.
    fn scratch(&mut self, stream: &Stream, op: &Op, ops: &Ops) -> cuda_safe::Result<()> {
        let Self { x, y, loss, tape } = self;
        tape.set_scratch_bytes(0);
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.launch(op, threads(N), (&*x, &mut *y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
        })?;
        tape.backward(stream, &*loss)
    }
}

/// A graph with a pass that runs out of scratch memory, each time that it is launched.
fn overflowing<'env, T: Number>(
    device: &TestDevice,
    stream: &Stream,
    ops: &'env Ops,
) -> cuda_safe::Result<GraphExec<'env, State<T>>> {
    let state = State::new(stream, &numbers::<T>(&mut device.rng(892), N))?;
    device.context().capture(state, |stream, state| state.scratch(stream, &ops.power, ops))
}

/// Nobody has asked how the captured pass went. The next one that is not captured tells it, and is not
/// done; the one after it is.
fn before_a_pass<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut graph = overflowing::<T>(device, &stream, &ops)?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        let state = graph.state_mut();
        state.plain(&stream, &ops)?;
        refused(state.tape.backward(&stream, &state.loss), "bytes of scratch memory")?;
        refused(state.tape.gradient(&state.x), "before `backward`")?;
        state.tape.backward(&stream, &state.loss)?;
        state.check_plain(&stream)?;
        state.tape.check(&stream)?;
    }
    Ok(())
}

/// A count of what a primal needs is an answer by the same status.
fn before_a_count<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut graph = overflowing::<T>(device, &stream, &ops)?;
    graph.launch(&stream)?;
    let State { x, y, loss, tape } = &mut *graph.state_mut();
    let mut record = |tape: &mut Tape| {
        tape.record_again(&stream, |t| {
            t.watch(&*x)?;
            t.launch(&ops.series, threads(N), (&*x, &mut *y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
        })
    };
    // What the graph has raised is nothing to the count; the pass tells it.
    record(tape)?;
    refused(tape.backward(&stream, &*loss), "bytes of scratch memory")?;
    tape.backward(&stream, &*loss)?;
    tape.check(&stream).map_err(Into::into)
}

fn after_trim<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut graph = overflowing::<T>(device, &stream, &ops)?;
    graph.launch(&stream)?;
    let tape = &mut graph.state_mut().tape;
    tape.trim();
    refused(tape.check(&stream), "bytes of scratch memory")?;
    tape.check(&stream)?;
    tape.trim();
    graph.launch(&stream)?;
    refused(graph.state_mut().tape.check(&stream), "bytes of scratch memory")
}

fn after_failure<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut graph = overflowing::<T>(device, &stream, &ops)?;
    let state = graph.state_mut();
    state.plain(&stream, &ops)?;
    state.y.fill(&stream, T::of(1.0))?;
    refused(state.tape.backward(&stream, &state.loss), "was overwritten")?;
    graph.launch(&stream)?;
    refused(graph.state_mut().tape.check(&stream), "bytes of scratch memory")
}

/// Threads that had memory have left sums of their own behind, which are no part of the next run's; even if
/// the tape has other working memory by then.
fn clean_sums<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(893), N);
    let state = (State::<T>::new(&stream, &host)?, tape::Variable::new(&stream, T::of(0.75))?);
    let mut graph = device.context().capture(state, |stream, (state, a)| {
        let State { x, y, loss, tape } = state;
        // With the marks rounded up, there is room for some of the threads.
        tape.set_scratch_bytes(64);
        tape.record_again(stream, |t| {
            t.watch(&*a)?;
            t.launch(&ops.power_times, threads(N), (&*a, &*x, &mut *y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
        })?;
        tape.backward(stream, &*loss)
    })?;
    graph.launch(&stream)?;
    let (state, a) = graph.state_mut();
    // The same working memory is used by a pass that has enough of all.
    refused(state.tape.check(&stream), "bytes of scratch memory")?;
    state.tape.set_scratch_bytes(None);
    let State { x, y, loss, tape } = state;
    tape.record_again(&stream, |t| {
        t.watch(&*a)?;
        t.launch(&ops.power_times, threads(N), (&*a, &*x, &mut *y, N as u32))?;
        t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
    })?;
    tape.backward(&stream, &*loss)?;
    let k = |i: usize| 1 + (i % 4) as i32;
    let by_a: f64 = host.iter().enumerate().map(|(i, x)| 1.5 * x.to().powi(2 * k(i))).sum();
    close(&tape.gradient(&*a)?.to_vec(&stream)?, &[by_a], tolerance::<T>())
}

/// A graph reads copies that were made outside of it: they are not handed out again.
fn copies_stay<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(894);
    let host: Vec<T> = numbers(&mut rng, N);
    let mut z = DeviceBuffer::from_slice(&stream, &numbers::<T>(&mut rng, N))?;
    let mut state = State::<T>::new(&stream, &host)?;
    let State { x, loss, tape, .. } = &mut state;
    tape.record_again(&stream, |t| {
        t.watch(&*x)?;
        t.launch(&ops.bend, threads(N), (&mut *x, N as u32))?;
        t.launch(&ops.bend, threads(N), (&mut *x, N as u32))?;
        t.launch(&ops.energy, threads(N), (&*x, &mut *loss, N as u32))
    })?;
    let mut graph = device
        .context()
        .capture(state, |stream, state| state.tape.backward(stream, &state.loss))?;
    graph.launch(&stream)?;
    let state = graph.state_mut();
    let memory = state.tape.gradient(&state.x)?.allocation().clone();
    let range = state.tape.gradient(&state.x)?.byte_range();
    state.tape.record_again(&stream, |t| {
        t.watch(&z)?;
        t.launch(&ops.bend, threads(N), (&mut z, N as u32))?;
        t.launch(&ops.bend, threads(N), (&mut z, N as u32))
    })?;
    graph.launch(&stream)?;
    let bend = |x: f64| (x - x * x * x / 6.0, 1.0 - x * x / 2.0);
    let wanted: Vec<f64> = host
        .iter()
        .map(|x| {
            let (once, slope) = bend(x.to());
            let (twice, again) = bend(once);
            2.0 * twice * again * slope
        })
        .collect();
    // SAFETY: the gradient, which the graph has written.
    let got = unsafe { memory.view::<T>(range) }?.to_vec(&stream)?;
    close(&got, &wanted, tolerance::<T>())
}

/// A pass that is not captured finds nothing of a recording that was captured, and not launched since.
fn never_ran<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(895), N);
    let seed = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    let state = State::<T>::new(&stream, &host)?;
    let mut graph = device.context().capture(state, |stream, state| {
        let State { x, y, tape, .. } = state;
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.launch(&ops.multiply, threads(N), (&*x, &*x, &mut *y, N as u32))
        })
    })?;
    // Launched, the graph has written what the pass begins from: it is not what was recorded any more.
    for (launched, why) in [(false, "was never launched"), (true, "was written since")] {
        if launched {
            graph.launch(&stream)?;
        }
        let State { x, y, tape, .. } = &mut *graph.state_mut();
        let done = tape.backward_with(&stream, &Seeds::new().with(&*y, &seed)?);
        refused(done, why)?;
        refused(tape.gradient(&*x), "before `backward`")?;
    }
    Ok(())
}
