//! Recordings and passes as graphs, launched again with new data.

use cuda_safe::{DeviceBuffer, Stream};
use tape::{Tape, Variable};

use super::awkward::refused;
use super::basics::{close, near, tolerance};
use super::ops::{Adjoints, ByHand, Generated, Number, Ops, numbers, threads};
use test_harness::{Case, TestDevice, TestResult, cases, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::graphs",
        device(
            forward_and_backward_in_one =
                |device| { one_graph::<f32>(device, &Ops::of::<f32>(device)?, &[false, true]) }
        ),
        device(
            forward_and_backward_in_two =
                |device| { two_graphs::<f64>(device, &Ops::of::<f64>(device)?) }
        ),
        device(
            backward_of_what_ran =
                |device| { backward_alone::<f64>(device, &Ops::of::<f64>(device)?) }
        ),
        device(
            of_generated_adjoints = |device| {
                one_graph::<f32>(device, &Ops::generated::<f32>(device)?, &[false])?;
                two_graphs::<f64>(device, &Ops::generated::<f64>(device)?)?;
                backward_alone::<f64>(device, &Ops::generated::<f64>(device)?)
            }
        ),
        device(scratch_overflow_is_told = overflow::<f64, ByHand>),
        device(generated_scratch_overflow_is_told = overflow::<f64, Generated>),
        device(gradients_of_a_pass_that_never_ran = never_ran::<f32>),
    ]
}

pub(super) const N: usize = 200;

/// What the graphs work on: loss = sum of bend(a bend(x) x)^2, with an update in place and a copy.
pub(super) struct State<T> {
    pub(super) x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    z: DeviceBuffer<T>,
    loss: DeviceBuffer<T>,
    a: Variable<T>,
    tape: Tape,
}

impl<T: Number> State<T> {
    pub(super) fn new(stream: &Stream, deterministic: bool) -> cuda_safe::Result<Self> {
        let zeros = |n| DeviceBuffer::<T>::zeroed(stream, n);
        let mut tape = Tape::new(stream)?;
        tape.set_deterministic(deterministic);
        let a = Variable::new(stream, T::of(0.75))?;
        Ok(Self { x: zeros(N)?, y: zeros(N)?, z: zeros(N)?, loss: zeros(1)?, a, tape })
    }

    pub(super) fn forward(&mut self, stream: &Stream, ops: &Ops) -> cuda_safe::Result<()> {
        let Self { x, y, z, loss, a, tape } = self;
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.watch(&*a)?;
            t.fill(&mut *loss, T::of(0.0))?;
            t.copy(&*x, &mut *y)?;
            t.launch(&ops.bend, threads(N), (&mut *y, N as u32))?;
            t.launch(&ops.scale, threads(N), (&*a, &*y, &mut *z, N as u32))?;
            t.launch(&ops.multiply, threads(N), (&*z, &*x, &mut *y, N as u32))?;
            t.launch(&ops.bend, threads(N), (&mut *y, N as u32))?;
            t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
        })
    }

    pub(super) fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        self.tape.backward(stream, &self.loss)
    }

    pub(super) fn check(&self, stream: &Stream, host: &[T]) -> TestResult {
        let bend = |x: f64| (x - x * x * x / 6.0, 1.0 - x * x / 2.0);
        let (mut by_a, mut by_x, mut loss) = (0.0, Vec::new(), 0.0);
        for x in host.iter().map(|x| x.to()) {
            let (b, db) = bend(x);
            let (y, dy) = bend(0.75 * b * x);
            loss += y * y;
            by_a += 2.0 * y * dy * b * x;
            by_x.push(2.0 * y * dy * 0.75 * (db * x + b));
        }
        // The operation's own atomics add it.
        near(&self.loss.to_vec(stream)?, &[loss], tolerance::<T>())?;
        close(&self.tape.gradient(&self.x)?.to_vec(stream)?, &by_x, tolerance::<T>())?;
        close(&self.tape.gradient(&self.a)?.to_vec(stream)?, &[by_a], tolerance::<T>())
    }
}

fn one_graph<T: Number>(device: &TestDevice, ops: &Ops, tapes: &[bool]) -> TestResult {
    let stream = device.stream()?;
    for &deterministic in tapes {
        let state = State::<T>::new(&stream, deterministic)?;
        let mut graph = device.context().capture(state, |stream, state| {
            state.forward(stream, ops)?;
            state.backward(stream)
        })?;
        let mut rng = device.rng(841);
        for _ in 0..4 {
            let host: Vec<T> = numbers(&mut rng, N);
            graph.state_mut().x.upload(&stream, &host)?;
            graph.launch(&stream)?;
            graph.state().check(&stream, &host)?;
        }
        graph.state_mut().tape.check(&stream)?;
    }
    Ok(())
}

fn two_graphs<T: Number>(device: &TestDevice, ops: &Ops) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(842);
    // The first run, uncaptured, makes the memory that the captured ones use.
    let mut state = State::<T>::new(&stream, false)?;
    let host: Vec<T> = numbers(&mut rng, N);
    state.x.upload(&stream, &host)?;
    state.forward(&stream, ops)?;
    state.backward(&stream)?;
    state.check(&stream, &host)?;
    let mut forward = device.context().capture(Some(state), |stream, state| {
        state.as_mut().map_or(Ok(()), |state| state.forward(stream, ops))
    })?;
    let Some(state) = forward.state_mut().take() else { return Ok(()) };
    let mut backward = device.context().capture(state, |stream, state| state.backward(stream))?;
    for _ in 0..3 {
        let host: Vec<T> = numbers(&mut rng, N);
        backward.state_mut().x.upload(&stream, &host)?;
        forward.launch(&stream)?;
        backward.launch(&stream)?;
        backward.launch(&stream)?;
        backward.state().check(&stream, &host)?;
    }
    // Recorded anew, the tape does not touch what the graphs use.
    let host: Vec<T> = numbers(&mut rng, N);
    let mut state = backward.into_state();
    state.x.upload(&stream, &host)?;
    forward.launch(&stream)?;
    state.forward(&stream, ops)?;
    forward.launch(&stream)?;
    refused(state.backward(&stream), "was written since by something that is not recorded")?;
    state.forward(&stream, ops)?;
    state.backward(&stream)?;
    state.check(&stream, &host)
}

fn backward_alone<T: Number>(device: &TestDevice, ops: &Ops) -> TestResult {
    let stream = device.stream()?;
    let host: Vec<T> = numbers(&mut device.rng(843), N);
    let mut state = State::<T>::new(&stream, false)?;
    state.x.upload(&stream, &host)?;
    state.forward(&stream, ops)?;
    let mut graph = device.context().capture(state, |stream, state| state.backward(stream))?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        graph.state().check(&stream, &host)?;
    }
    Ok(())
}

/// A captured pass can't make more memory: it says how much it needs.
fn overflow<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(844), N);
    let mut wanted: Option<Vec<T>> = None;
    for scratch in [None, Some(0)] {
        let mut state = State::<T>::new(&stream, false)?;
        state.x.upload(&stream, &host)?;
        state.tape.set_scratch_bytes(scratch);
        let mut graph = device.context().capture(state, |stream, state| {
            let State { x, y, loss, tape, .. } = state;
            tape.record_again(stream, |t| {
                t.watch(&*x)?;
                t.launch(&ops.power, threads(N), (&*x, &mut *y, N as u32))?;
                t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
            })?;
            tape.backward(stream, &*loss)
        })?;
        graph.launch(&stream)?;
        let checked = graph.state_mut().tape.check(&stream);
        match &wanted {
            None => {
                checked?;
                wanted = Some(graph.state().tape.gradient(&graph.state().x)?.to_vec(&stream)?);
            }
            Some(wanted) => {
                refused(checked, "bytes of scratch memory")?;
                // Run once uncaptured, it has enough.
                let mut state = graph.into_state();
                let State { x, y, loss, tape, .. } = &mut state;
                tape.record_again(&stream, |t| {
                    t.watch(&*x)?;
                    t.launch(&ops.power, threads(N), (&*x, &mut *y, N as u32))?;
                    t.launch(&ops.energy, threads(N), (&*y, &mut *loss, N as u32))
                })?;
                tape.backward(&stream, &*loss)?;
                let mut graph =
                    device.context().capture(state, |stream, state| state.backward(stream))?;
                graph.launch(&stream)?;
                graph.state_mut().tape.check(&stream)?;
                let got = graph.state().tape.gradient(&graph.state().x)?.to_vec(&stream)?;
                first_difference(&got, wanted)?;
            }
        }
    }
    Ok(())
}

/// A pass that was captured gives no gradients before its graph has run; but what is captured may name them.
fn never_ran<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(845), N);
    let mut state = State::<T>::new(&stream, false)?;
    state.x.upload(&stream, &host)?;
    state.forward(&stream, &ops)?;
    // A step in the graph of the pass.
    let taken = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut pass = device.context().capture((Some(state), taken), |stream, (state, taken)| {
        let Some(state) = state else { return Ok(()) };
        state.backward(stream)?;
        taken.copy_from(stream, state.tape.gradient(&state.x)?)
    })?;
    let Some(state) = pass.state_mut().0.take() else { return Ok(()) };
    refused(state.tape.gradient(&state.x), "was never launched")?;
    // And one in a graph of its own.
    let taken = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut step = device.context().capture((state, taken), |stream, (state, taken)| {
        taken.copy_from(stream, state.tape.gradient(&state.x)?)
    })?;
    refused(step.state().0.tape.gradient(&step.state().0.x), "was never launched")?;
    pass.launch(&stream)?;
    step.launch(&stream)?;
    let (state, taken) = step.state_mut();
    state.check(&stream, &host)?;
    let gradient = state.tape.gradient(&state.x)?.to_vec(&stream)?;
    first_difference(&taken.to_vec(&stream)?, &gradient)?;
    first_difference(&pass.state().1.to_vec(&stream)?, &gradient)?;
    // One that is not captured has run. Captured anew, it has to run anew.
    state.backward(&stream)?;
    state.check(&stream, &host)?;
    let (state, _) = step.into_state();
    let mut pass = device.context().capture(state, |stream, state| state.backward(stream))?;
    refused(pass.state().tape.gradient(&pass.state().x), "was never launched")?;
    // A pass without it has the right gradients.
    let state = pass.state_mut();
    state.backward(&stream)?;
    state.check(&stream, &host)?;
    pass.launch(&stream)?;
    pass.state().check(&stream, &host)
}
