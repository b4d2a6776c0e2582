//! Compositions of more than 100 steps, drawn at random: aliases, parts, updates in place, copies, values
//! passed by value. Gradients of doubles against central differences, those of floats against doubles.

use cuda_safe::{DeviceBuffer, Stream};
use tape::check::{Jacobian, differences};
use tape::{Recorder, Tape, Variable};

use super::ops::{Number, Ops, Table, numbers, threads};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::chains",
        device(against_differences_and_doubles),
        device(of_generated_adjoints),
        device(the_same_bits_each_time),
    ]
}

const BUFFERS: usize = 5;
const N: usize = 24;
const STEPS: usize = 110;
/// Under a checker, where each step takes a hundred times as long.
const FEW_STEPS: usize = 10;

/// A step: its kind, the buffers that it reads and writes, and how many elements.
#[derive(Debug, Clone, Copy)]
struct Step {
    kind: usize,
    from: usize,
    other: usize,
    to: usize,
    n: usize,
}

fn draw(device: &TestDevice, rng: &mut Rng) -> Vec<Step> {
    let step = |_| {
        let (from, other) = (rng.below(BUFFERS), rng.below(BUFFERS));
        // It may be `other`, which is read element by element; not what is gathered or copied.
        let to = (from + 1 + rng.below(BUFFERS - 1)) % BUFFERS;
        let n = if rng.below(4) == 0 { 1 + rng.below(N) } else { N };
        Step { kind: rng.below(9), from, other, to, n }
    };
    let steps = if device.is_instrumented() { FEW_STEPS } else { STEPS };
    (0..steps).map(step).collect()
}

/// A second view for reading of what is written, too.
fn again<T: Number>(
    memory: &std::sync::Arc<cuda_safe::Allocation>,
    n: usize,
) -> cuda_safe::Result<cuda_safe::DeviceSlice<'_, T>> {
    // SAFETY: thread i of the kernels here reads element i before it writes it.
    unsafe { memory.view(0..n * size_of::<T>()) }
}

/// What the chains work on.
struct State<T: Number> {
    buffers: Vec<DeviceBuffer<T>>,
    index: DeviceBuffer<u32>,
    loss: DeviceBuffer<T>,
    a: Variable<T>,
}

impl<T: Number> State<T> {
    /// All chains begin with the same numbers, which floats hold exactly.
    fn new(stream: &Stream, rng: &mut Rng) -> cuda_safe::Result<Self> {
        let mut buffers = Vec::new();
        for _ in 0..BUFFERS {
            buffers.push(DeviceBuffer::from_slice(stream, &numbers::<T>(rng, N))?);
        }
        let index: Vec<u32> = (0..N).map(|_| rng.below(N) as u32).collect();
        let index = DeviceBuffer::from_slice(stream, &index)?;
        let loss = DeviceBuffer::zeroed(stream, 1)?;
        Ok(Self { buffers, index, loss, a: Variable::new(stream, T::of(0.5))? })
    }

    /// Runs a chain; numbers stay within about -2 and 2.
    fn run(&mut self, t: &mut Recorder<'_>, ops: &Ops, steps: &[Step]) -> cuda_safe::Result<()> {
        let Self { buffers, index, loss, a } = self;
        for step in steps {
            let Step { kind, from, other, to, n } = *step;
            let count = n as u32;
            let memory: Vec<_> = buffers.iter().map(|buffer| buffer.allocation().clone()).collect();
            let (Some(x), Some(y), Some(same), Some(out)) =
                (memory.get(from), memory.get(other), memory.get(to), buffers.get_mut(to))
            else {
                continue;
            };
            let (x, y, same) = (again::<T>(x, N)?, again::<T>(y, N)?, again::<T>(same, N)?);
            match kind {
                0 => t.launch(&ops.scale, threads(n), (&*a, x, &mut *out, count))?,
                1 => t.launch(&ops.multiply_shared, threads(n), (x, y, &mut *out, count))?,
                2 => t.launch(&ops.bend, threads(n), (&mut *out, count))?,
                3 => {
                    t.launch(&ops.square_add, threads(n), (x, &mut *out, count))?;
                    // In place, through two arguments.
                    t.launch(&ops.scale, threads(N), (&*a, same, &mut *out, N as u32))?;
                }
                4 => t.launch(&ops.gather, threads(n), (x, &*index, &mut *out, count))?,
                5 => t.launch(&ops.power, threads(n), (x, &mut *out, count))?,
                6 => t.copy(x.slice(..n)?, out.slice_mut(N - n..)?)?,
                7 => {
                    t.launch(&ops.series, threads(n), (x, &mut *out, count))?;
                    t.launch(&ops.scale, threads(N), (T::of(0.4), same, &mut *out, N as u32))?;
                }
                _ => t.launch(&ops.multiply_shared, threads(n), (x, same, &mut *out, count))?,
            }
            let out = buffers.get(to).filter(|_| kind == 8);
            if let (Some(out), Some(target)) =
                (out.map(|out| out.allocation().clone()), buffers.get_mut(from))
            {
                let values = DeviceTable(out);
                t.launch(&ops.look_up, threads(n), (&values.table::<T>(N)?, &mut *target, count))?;
            }
        }
        for buffer in &*buffers {
            t.launch(&ops.energy, threads(N), (buffer, &mut *loss, N as u32))?;
        }
        Ok(())
    }
}

/// A table of memory that the chain goes on writing.
struct DeviceTable(std::sync::Arc<cuda_safe::Allocation>);

impl DeviceTable {
    fn table<T: Number>(&self, n: usize) -> cuda_safe::Result<Table<'_, T>> {
        Ok(Table(again(&self.0, n)?))
    }
}

/// Gradients by all buffers and the number, of one chain.
fn gradients<T: Number>(
    device: &TestDevice,
    ops: &Ops,
    seed: u64,
    deterministic: bool,
) -> Result<Vec<f64>, Failure> {
    let stream = device.stream()?;
    let mut rng = device.rng(seed);
    let steps = draw(device, &mut rng);
    let mut state = State::<T>::new(&stream, &mut rng)?;
    let mut tape = Tape::new(&stream)?;
    tape.set_deterministic(deterministic);
    tape.record_again(&stream, |t| {
        for buffer in &state.buffers {
            t.watch(buffer)?;
        }
        t.watch(&state.a)?;
        state.run(t, ops, &steps)
    })?;
    tape.backward(&stream, &state.loss)?;
    let mut all = Vec::new();
    for buffer in &state.buffers {
        // What is overwritten before anybody reads it has no path.
        match tape.gradient(buffer) {
            Ok(gradient) => all.extend(gradient.to_vec(&stream)?.into_iter().map(T::to)),
            Err(_) => all.extend([0.0; N]),
        }
    }
    match tape.gradient(&state.a) {
        Ok(gradient) => all.extend(gradient.to_vec(&stream)?.into_iter().map(T::to)),
        Err(_) => all.push(0.0),
    }
    Ok(all)
}

fn numerical(device: &TestDevice, ops: &Ops, seed: u64) -> Result<Vec<f64>, Failure> {
    let stream = device.stream()?;
    let mut rng = device.rng(seed);
    let steps = draw(device, &mut rng);
    let start = State::<f64>::new(&stream, &mut rng)?;
    let mut all = Vec::new();
    let evaluate = |state: &mut State<f64>| -> cuda_safe::Result<Vec<f64>> {
        Tape::record(&stream, |t| state.run(t, ops, &steps))?;
        state.loss.to_vec(&stream)
    };
    let mut again = rng_state(&start, &stream)?;
    for moved in 0..BUFFERS {
        let mut input = DeviceBuffer::from_slice(&stream, &again.buffers[moved])?;
        let column = differences(&stream, &mut input, 1e-5, |input| {
            let mut state = again.state(&stream)?;
            if let Some(buffer) = state.buffers.get_mut(moved) {
                buffer.copy_from(&stream, input)?;
            }
            evaluate(&mut state)
        })?;
        all.extend(column.rows().flatten());
    }
    let mut by_a = 0.0;
    for side in [1e-5, -1e-5] {
        again.a = 0.5 + side;
        by_a += evaluate(&mut again.state(&stream)?)?[0] / (2.0 * side);
    }
    all.push(by_a);
    Ok(all)
}

/// A state on the host.
struct Host {
    buffers: Vec<Vec<f64>>,
    index: Vec<u32>,
    a: f64,
}

fn rng_state(state: &State<f64>, stream: &Stream) -> Result<Host, Failure> {
    let mut buffers = Vec::new();
    for buffer in &state.buffers {
        buffers.push(buffer.to_vec(stream)?);
    }
    Ok(Host { buffers, index: state.index.to_vec(stream)?, a: state.a.get() })
}

impl Host {
    fn state(&self, stream: &Stream) -> cuda_safe::Result<State<f64>> {
        let mut buffers = Vec::new();
        for buffer in &self.buffers {
            buffers.push(DeviceBuffer::from_slice(stream, buffer)?);
        }
        let index = DeviceBuffer::from_slice(stream, &self.index)?;
        let loss = DeviceBuffer::zeroed(stream, 1)?;
        Ok(State { buffers, index, loss, a: Variable::new(stream, self.a)? })
    }
}

fn against_differences_and_doubles(device: &TestDevice) -> TestResult {
    chains(device, &Ops::of::<f32>(device)?, &Ops::of::<f64>(device)?)
}

fn of_generated_adjoints(device: &TestDevice) -> TestResult {
    chains(device, &Ops::generated::<f32>(device)?, &Ops::generated::<f64>(device)?)
}

fn chains(device: &TestDevice, singles: &Ops, doubles: &Ops) -> TestResult {
    let chains = if deep() { 20 } else { 3 };
    for seed in 900..900 + chains {
        let f64s = Jacobian::from_rows(&[gradients::<f64>(device, doubles, seed, false)?])?;
        let wanted = Jacobian::from_rows(&[numerical(device, doubles, seed)?])?;
        let against = f64s.compare(&wanted, |_, _| false)?;
        ensure!(against.error <= 1e-8, "seed {seed}: {against}");
        let f32s = Jacobian::from_rows(&[gradients::<f32>(device, singles, seed, false)?])?;
        let against = f32s.compare(&f64s, |_, _| false)?;
        ensure!(against.error <= 1e-4, "seed {seed}: {against}");
    }
    Ok(())
}

/// Deterministic tapes give the same bits in 100 runs (10 where that takes long).
fn the_same_bits_each_time(device: &TestDevice) -> TestResult {
    let ops = Ops::of::<f32>(device)?;
    let first = gradients::<f32>(device, &ops, 950, true)?;
    let plain = gradients::<f32>(device, &ops, 950, false)?;
    let one = |all: &[f64]| Jacobian::from_rows(&[all.to_vec()]);
    let against = one(&first)?.compare(&one(&plain)?, |_, _| false)?;
    ensure!(against.error <= 1e-4, "{against}");
    for _ in 1..if deep() || device.tier() == "gpu" { 100 } else { 10 } {
        let other = gradients::<f32>(device, &ops, 950, true)?;
        ensure!(other == first);
    }
    Ok(())
}
