//! Adjoints in graphs, launched again with new data.

use cuda_safe::{DeviceBuffer, Result, Stream};
use tape::{Gradients, NotSaved};

use super::super::awkward::refused;
use super::super::ops::{Adjoints, ByHand, Generated, Number, Ops, threads};
use super::{buffer, eighths, unwritten};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::vjp",
        device(captured_by_hand = captured::<f32, ByHand>),
        device(captured_generated = captured::<f64, Generated>),
        device(captured_scratch_by_hand = scratch::<f64, ByHand>),
        device(captured_scratch_generated = scratch::<f32, Generated>),
        device(what_a_capture_can_not_do = not_captured::<f32>),
        device(captured_deterministic = deterministic::<f64>),
    ]
}

const N: usize = 300;

struct State<T> {
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    g: DeviceBuffer<T>,
    gx: DeviceBuffer<T>,
    gy: DeviceBuffer<T>,
    ga: DeviceBuffer<T>,
}

impl<T: Number> State<T> {
    fn new(stream: &Stream) -> Result<Self> {
        let zeros = |n| DeviceBuffer::<T>::zeroed(stream, n);
        let (x, y, g) = (zeros(N)?, zeros(N)?, zeros(N)?);
        let (gx, gy, ga) = (zeros(N)?, zeros(N)?, zeros(1)?);
        Ok(Self { x, y, g, gx, gy, ga })
    }

    fn times(&mut self, stream: &Stream, ops: &Ops) -> Result<()> {
        let Self { x, y, g, gx, gy, ga } = self;
        let gradients =
            Gradients::new().seed("y", &*g).into_buffer("x", &mut *gx).into_buffer("y", &mut *gy);
        ops.times.vjp(stream, threads(N), (&*x, &mut *y, N as u32), gradients)?;
        let gradients = Gradients::new().seed("out", &*g).into_buffer("a", &mut *ga);
        ops.scale.vjp(stream, threads(N), (T::of(0.5), &*x, NotSaved, N as u32), gradients)
    }

    fn power(&mut self, stream: &Stream, ops: &Ops, bytes: usize) -> Result<()> {
        let Self { x, g, gx, ga, .. } = self;
        let gradients =
            Gradients::new().seed("out", &*g).into_buffer("x", &mut *gx).into_buffer("a", &mut *ga);
        let args = (T::of(0.5), &*x, NotSaved, N as u32);
        ops.power_times.vjp(stream, threads(N), args, gradients.scratch_bytes(bytes))
    }

    fn results(&self, stream: &Stream) -> Result<[Vec<T>; 3]> {
        Ok([self.gx.to_vec(stream)?, self.gy.to_vec(stream)?, self.ga.to_vec(stream)?])
    }
}

/// The graph gives what calls give.
fn captured<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(2520);
    let state = State::<T>::new(&stream)?;
    let mut graph = device.context().capture(state, |stream, state| state.times(stream, &ops))?;
    for _ in 0..3 {
        let [x, y, g] = [0; 3].map(|_| eighths::<T>(&mut rng, N));
        let mut direct = State::<T>::new(&stream)?;
        for state in [graph.state_mut(), &mut direct] {
            state.x.upload(&stream, &x)?;
            state.y.upload(&stream, &y)?;
            state.g.upload(&stream, &g)?;
        }
        graph.launch(&stream)?;
        direct.times(&stream, &ops)?;
        ensure_eq!(graph.state().results(&stream)?, direct.results(&stream)?);
        ensure!(direct.results(&stream)?.iter().all(|g| g.iter().any(|g| g.to() != 0.0)));
    }
    Ok(())
}

/// Too little memory gives NaNs, in each launch of the graph.
fn scratch<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(2521);
    for (bytes, enough) in [(1usize << 18, true), (64, false)] {
        let state = State::<T>::new(&stream)?;
        let capture = |stream: &Stream, state: &mut State<T>| state.power(stream, &ops, bytes);
        let mut graph = device.context().capture(state, capture)?;
        for _ in 0..3 {
            let (x, g) = (eighths::<T>(&mut rng, N), eighths::<T>(&mut rng, N));
            graph.state_mut().x.upload(&stream, &x)?;
            graph.state_mut().g.upload(&stream, &g)?;
            graph.launch(&stream)?;
            let got = graph.state().results(&stream)?;
            if !enough {
                let [gx, _, ga] = got;
                ensure!(gx.iter().chain(&ga).all(|g| g.to().is_nan()), "not all are NaN");
                continue;
            }
            let mut direct = State::<T>::new(&stream)?;
            direct.x.upload(&stream, &x)?;
            direct.g.upload(&stream, &g)?;
            direct.power(&stream, &ops, 1 << 18)?;
            ensure_eq!(got, direct.results(&stream)?);
        }
    }
    Ok(())
}

/// What would have to wait is refused, and the capture goes on.
fn not_captured<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let state = State::<T>::new(&stream)?;
    let seen = std::cell::Cell::new(Ok(()));
    let mut graph = device.context().capture(state, |stream, state| {
        let State { x, g, gx, .. } = state;
        let gradients = Gradients::new().seed("out", &*g).into_buffer("x", &mut *gx);
        let args = (&*x, NotSaved, N as u32);
        let done = ops.power.vjp(stream, threads(N), args, gradients);
        let first = refused(done, "a capture can't wait");
        let gradients = Gradients::new().seed("out", &*g).into_buffer("x", &mut *gx);
        let done = ops.series.vjp(stream, threads(N), args, gradients);
        seen.set(first.and_then(|()| refused(done, "has to run once")));
        state.times(stream, &ops)
    })?;
    seen.replace(Ok(()))?;
    let ones = vec![T::of(1.0); N];
    graph.state_mut().g.upload(&stream, &ones)?;
    graph.state_mut().y.upload(&stream, &ones)?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().gx.to_vec(&stream)?, ones);
    Ok(())
}

/// The log of a graph is emptied in each launch.
fn deterministic<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(2522);
    let index: Vec<u32> = (0..N).map(|i| (i % 7) as u32).collect();
    let index = buffer(&stream, &index)?;
    let (x, g) = (
        buffer(&stream, &eighths::<T>(&mut rng, 7))?,
        buffer(&stream, &eighths::<T>(&mut rng, N))?,
    );
    let call = |stream: &Stream, gx: &mut DeviceBuffer<T>| {
        let gradients = Gradients::new().seed("out", &g).into_buffer("x", gx).deterministic();
        ops.gather.vjp(stream, threads(N), (&x, &index, NotSaved, N as u32), gradients)
    };
    let mut wanted = unwritten::<T>(&stream, 7)?;
    call(&stream, &mut wanted)?;
    let mut graph = device.context().capture(unwritten::<T>(&stream, 7)?, call)?;
    for _ in 0..3 {
        graph.launch(&stream)?;
        ensure_eq!(graph.state().to_vec(&stream)?, wanted.to_vec(&stream)?);
    }
    Ok(())
}
