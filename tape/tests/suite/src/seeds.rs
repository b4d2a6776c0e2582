//! Gradients with which a pass begins: one that its only adjoint reads, and need not clear, is read where the caller has it.

use cuda_safe::{DeviceBuffer, DeviceSlice, LaunchConfig, Stream, nvrtc::Program};
use tape::{Element, Op, OpSpec, Param, Seeds, Tape};

use super::generated::{differentiate, failure};
use super::ops::{Ops, threads};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::seeds",
        device(read_where_they_are),
        device(left_as_they_are),
        device(in_graphs),
        device(of_sixteen_bits),
    ]
}

const N: usize = 70;

const SOURCE: &str = "
    #include <cuda_fp16.h>
    extern \"C\" __global__ void square(const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = x[i] * x[i];
    }
    // The adjoint has to clear a gradient: the second store hides the first.
    extern \"C\" __global__ void twice(const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float* to = out + i;
        *to = 5.0f * x[i];
        if (x[i] > -1e30f) *to = x[i] * x[i];
    }
    extern \"C\" __global__ void halves(const __half* x, __half* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = __hmul(x[i], x[i]);
    }";

fn op(device: &TestDevice, kernel: &'static str, element: Element) -> Result<Op, Failure> {
    let spec = OpSpec::new(kernel)
        .param(Param::buffer("x", element).len("n").each_element().active())
        .param(Param::buffer("out", element).len("n").each_element().active())
        .param(Param::value("n"));
    let program = Program::new(SOURCE).name("seeds.cu");
    differentiate(device, spec, &program).map_err(failure)
}

/// Eighths: their products are exact.
fn host(device: &TestDevice, seed: u64, n: usize) -> Vec<f32> {
    let mut rng = device.rng(seed);
    (0..n).map(|_| (rng.float() * 16.0).round() / 8.0).collect()
}

/// 2 x g: the gradient of x².
fn wanted(x: &[f32], g: &[f32]) -> Vec<f32> {
    x.iter().zip(g).map(|(x, g)| 2.0 * x * g).collect()
}

struct State {
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    g: DeviceBuffer<f32>,
    tape: Tape,
}

impl State {
    fn new(stream: &Stream, op: &Op, x: &[f32], g: &[f32]) -> cuda_safe::Result<Self> {
        let x = DeviceBuffer::from_slice(stream, x)?;
        let mut y = DeviceBuffer::<f32>::zeroed(stream, x.len())?;
        let n = x.len();
        let tape = Tape::record(stream, |t| {
            t.watch(&x)?;
            t.launch(op, LaunchConfig::cover(n, 32), (&x, &mut y, n as u32))
        })?;
        Ok(Self { x, y, g: DeviceBuffer::from_slice(stream, g)?, tape })
    }

    /// A pass whose given gradient begins at some element of `g`.
    fn backward(&mut self, stream: &Stream, from: usize) -> cuda_safe::Result<()> {
        let Self { y, g, tape, .. } = self;
        let seeds = Seeds::new().with(&*y, g.slice(from..from + y.len())?)?;
        tape.backward_with(stream, &seeds)
    }
}

fn read_where_they_are(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ops = [op(device, "square", Element::F32)?, op(device, "twice", Element::F32)?];
    let (x, mut g) = (host(device, 1, N), host(device, 2, N + 4));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pass.dot");
    for (op, may_read) in ops.iter().zip([true, false]) {
        for (from, is_aligned) in [(0, true), (4, true), (1, false)] {
            let state = State::new(&stream, op, &x, &g)?;
            let mut graph =
                device.context().capture(state, |stream, state| state.backward(stream, from))?;
            graph.write_dot(&path)?;
            let text = std::fs::read_to_string(&path)?;
            let copies = text.to_ascii_uppercase().contains("MEMCPY");
            ensure!(copies != (may_read && is_aligned), "{from}:\n{text}");
        }
        // The plan is kept, and each pass has gradients of its own.
        let mut state = State::new(&stream, op, &x, &g)?;
        for from in [0, 4, 1, 0, 3] {
            state.backward(&stream, from)?;
            let given = state.tape.gradient(&state.x)?.to_vec(&stream)?;
            first_difference(&given, &wanted(&x, &g[from..]))?;
            ensure_eq!(state.g.to_vec(&stream)?, g);
            g.rotate_left(1);
            state.g.upload(&stream, &g)?;
        }
    }
    Ok(())
}

/// Whatever is recorded, a pass changes no given gradient.
fn left_as_they_are(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ops = [
        op(device, "square", Element::F32)?,
        op(device, "twice", Element::F32)?,
        Ops::of::<f32>(device)?.multiply,
    ];
    let (hx, hg) = (host(device, 3, N), host(device, 4, N));
    let x = DeviceBuffer::from_slice(&stream, &hx)?;
    let g = DeviceBuffer::from_slice(&stream, &hg)?;
    let zeros = || DeviceBuffer::<f32>::zeroed(&stream, N);
    let (mut y, mut z) = (zeros()?, zeros()?);
    let n = N as u32;
    let unchanged = || -> TestResult {
        ensure_eq!(g.to_vec(&stream)?, hg);
        Ok(())
    };
    let is = |given: DeviceSlice<'_, f32>, wanted: &[f32]| -> TestResult {
        first_difference(&given.to_vec(&stream)?, wanted)
    };
    let [square, twice, multiply] = &ops;
    let single = wanted(&hx, &hg);
    for op in [square, twice] {
        // One gradient for two outputs.
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (&x, &mut y, n))?;
            t.launch(op, threads(N), (&x, &mut z, n))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&y, &g)?.with(&z, &g)?)?;
        let double: Vec<f32> = single.iter().map(|g| 2.0 * g).collect();
        is(tape.gradient(&x)?, &double)?;
        unchanged()?;

        // The second launch overwrites a part: the first needs zeros there.
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (&x, &mut y, n))?;
            t.launch(op, threads(N), (&x, &mut y, 40u32))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&y, &g)?)?;
        is(tape.gradient(&x)?, &single)?;
        unchanged()?;

        // It is of a part of the output.
        tape.backward_with(&stream, &Seeds::new().with(y.slice(..40)?, g.slice(..40)?)?)?;
        let part: Vec<f32> =
            single.iter().enumerate().map(|(i, g)| if i < 40 { *g } else { 0.0 }).collect();
        is(tape.gradient(&x)?, &part)?;
        unchanged()?;

        // Another launch reads the output, and it is watched.
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (&x, &mut y, n))?;
            t.watch(&y)?;
            t.launch(op, threads(N), (&y, &mut z, n))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&y, &g)?.with(&z, &g)?)?;
        let by_y: Vec<f32> = hx.iter().zip(&hg).map(|(x, g)| g + 2.0 * x * x * g).collect();
        is(tape.gradient(&y)?, &by_y)?;
        is(tape.gradient(&x)?, &wanted(&hx, &by_y))?;
        unchanged()?;

        // The gradient of y²/2 is y.
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(N), (&x, &mut y, n))
        })?;
        let squares: Vec<f32> = hx.iter().map(|x| x * x).collect();
        tape.backward_with(&stream, &Seeds::new().with(&y, &y)?)?;
        is(tape.gradient(&x)?, &wanted(&hx, &squares))?;
        ensure_eq!(y.to_vec(&stream)?, squares);
    }
    // By hand.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(square, threads(N), (&x, &mut y, n))?;
        t.launch(multiply, threads(N), (&y, &x, &mut z, n))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&z, &g)?)?;
    let cubes: Vec<f32> = hx.iter().zip(&hg).map(|(x, g)| 3.0 * x * x * g).collect();
    let given = tape.gradient(&x)?.to_vec(&stream)?;
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
    ensure!(given.iter().zip(&cubes).all(near), "{given:?}, not {cubes:?}");
    unchanged()
}

/// A graph reads what is there when it is launched.
fn in_graphs(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let op = op(device, "square", Element::F32)?;
    let (x, g) = (host(device, 5, N), host(device, 6, N));
    let state = State::new(&stream, &op, &x, &g)?;
    let mut graph = device.context().capture(state, |stream, state| state.backward(stream, 0))?;
    for seed in 7..10 {
        let g = host(device, seed, N);
        graph.state_mut().g.upload(&stream, &g)?;
        graph.launch(&stream)?;
        let State { x: buffer, tape, .. } = graph.state();
        first_difference(&tape.gradient(buffer)?.to_vec(&stream)?, &wanted(&x, &g))?;
    }
    Ok(())
}

/// The gradient of a 16-bit float is a `float`.
fn of_sixteen_bits(device: &TestDevice) -> TestResult {
    use half::f16;
    let stream = device.stream()?;
    let op = op(device, "halves", Element::F16)?;
    let (hx, hg) = (host(device, 11, N), host(device, 12, N));
    let halves: Vec<f16> = hx.iter().copied().map(f16::from_f32).collect();
    let x = DeviceBuffer::from_slice(&stream, &halves)?;
    let mut y = DeviceBuffer::<f16>::zeroed(&stream, N)?;
    let g = DeviceBuffer::from_slice(&stream, &hg)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, threads(N), (&x, &mut y, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &g)?)?;
    first_difference(&tape.gradient(&x)?.to_vec(&stream)?, &wanted(&hx, &hg))?;
    ensure_eq!(g.to_vec(&stream)?, hg);
    Ok(())
}
