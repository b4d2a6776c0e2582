//! Generated adjoints that sum over threads: weights that all threads read, sums in strides, and deterministic tapes, whose
//! gradients have the same bits in each run.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, nvrtc::Program};
use tape::{Element, Op, OpSpec, Param, Seeds, Tape, Variable};

use super::awkward::refused;
use super::generated::{differentiate, failure};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::logs",
        device(a_network_with_active_weights = network),
        device(sums_in_strides = strides),
        device(the_same_bits_in_each_run),
        device(too_little_room),
        device(gradients_that_are_taken_and_added_to),
    ]
}

const SOURCE: &str = r#"
constexpr int IN = 8, HIDDEN = 16, OUT = 4;
// Weights and offsets of both layers, one behind the other.
extern "C" __global__ void network(const float* w, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *b1 = w + IN * HIDDEN, *w2 = b1 + HIDDEN, *b2 = w2 + HIDDEN * OUT;
    float in[IN], hidden[HIDDEN];
    for (int k = 0; k < IN; k++) in[k] = x[IN * i + k];
    for (int j = 0; j < HIDDEN; j++) {
        float sum = b1[j];
        for (int k = 0; k < IN; k++) sum += w[IN * j + k] * in[k];
        hidden[j] = sum > 0.0f ? sum : 0.0f;
    }
    for (int o = 0; o < OUT; o++) {
        float sum = b2[o];
        for (int j = 0; j < HIDDEN; j++) sum += w2[HIDDEN * o + j] * hidden[j];
        y[OUT * i + o] = sum;
    }
}
// The sum of (w0 + w1 x)^2, by atomics in a grid-stride loop.
extern "C" __global__ void strides(const float* w, const float* x, float* sum, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float y = w[0] + w[1] * x[i];
        atomicAdd(sum, y * y);
    }
}
// A power of a number that is passed by value, with as many factors as the thread says, and two weights.
extern "C" __global__ void powers(float a, const float* w, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = x[i];
    for (unsigned k = 0; k < i % 5; k++) p = p * a * w[0] + w[k & 1] * x[i];
    y[i] = p;
}
extern "C" __global__ void mixed(const unsigned* at, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float* to = y + at[i];
    *to = *to * x[i] * x[0];
}
"#;
const WEIGHTS: usize = 8 * 16 + 16 + 16 * 4 + 4;

fn program() -> Program {
    Program::new(SOURCE).name("logs.cu")
}

/// An operation on weights and numbers: `w` and `x` are read, `y` is written or added to.
fn made(device: &TestDevice, name: &'static str) -> Result<Op, Failure> {
    let buffer = |name| Param::buffer(name, Element::F32).active();
    let first: &[Param] = match name {
        "powers" => &[Param::scalar("a", Element::F32).active()],
        _ => &[],
    };
    let others = [buffer("w"), buffer("x"), buffer("y"), Param::value("n")];
    let spec = first.iter().cloned().chain(others).fold(OpSpec::new(name), OpSpec::param);
    differentiate(device, spec, &program()).map_err(failure)
}

fn numbers(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.float()).collect()
}

/// The gradients by the weights and the inputs, in f64.
fn by_hand(w: &[f32], x: &[f32], seeds: &[f32]) -> [Vec<f64>; 2] {
    let w: Vec<f64> = w.iter().map(|w| f64::from(*w)).collect();
    let (b1, w2, b2) = (128, 144, 208);
    let (mut gw, mut gx) = (vec![0.0; WEIGHTS], vec![0.0; x.len()]);
    for (i, (x, seeds)) in x.chunks(8).zip(seeds.chunks(4)).enumerate() {
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let sum = |j: usize| w[b1 + j] + (0..8).map(|k| w[8 * j + k] * x[k]).sum::<f64>();
        for j in 0..16 {
            let value = sum(j);
            let hidden = value.max(0.0);
            let mut g = 0.0;
            for (o, seed) in seeds.iter().map(|seed| f64::from(*seed)).enumerate() {
                gw[w2 + 16 * o + j] += seed * hidden;
                g += seed * w[w2 + 16 * o + j];
            }
            if value > 0.0 {
                gw[b1 + j] += g;
                for k in 0..8 {
                    gw[8 * j + k] += g * x[k];
                    gx[8 * i + k] += g * w[8 * j + k];
                }
            }
        }
        for (o, seed) in seeds.iter().enumerate() {
            gw[b2 + o] += f64::from(*seed);
        }
    }
    [gw, gx]
}

#[track_caller]
fn close(what: &str, given: &[f32], wanted: &[f64]) -> TestResult {
    near(what, given, wanted, 2e-6)
}

fn near(what: &str, given: &[f32], wanted: &[f64], most: f64) -> TestResult {
    let largest = wanted.iter().fold(1e-30f64, |most, one| most.max(one.abs()));
    let error = given
        .iter()
        .zip(wanted)
        .fold(0f64, |most, (given, wanted)| most.max((f64::from(*given) - wanted).abs()));
    ensure!(given.len() == wanted.len() && error <= most * largest, "{what}: {error} of {largest}");
    Ok(())
}

fn network(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, made(device, "network")?);
    for (n, block) in [(1usize, 32), (31, 32), (1000, 33), (2050, 1024), (700, 1), (4096, 256)] {
        let mut rng = Rng::new(n as u64);
        let w = numbers(&mut rng, WEIGHTS);
        let (x, seeds) = (numbers(&mut rng, 8 * n), numbers(&mut rng, 4 * n));
        let wanted = by_hand(&w, &x, &seeds);
        let [w, x, seeds] =
            [&w, &x, &seeds].map(|values| DeviceBuffer::from_slice(&stream, values));
        let (w, x, seeds) = (w?, x?, seeds?);
        for deterministic in [false, true] {
            let mut y = DeviceBuffer::<f32>::zeroed(&stream, 4 * n)?;
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            tape.record_again(&stream, |t| {
                t.watch(&w)?;
                t.watch(&x)?;
                t.launch(&op, LaunchConfig::cover(n, block), (&w, &x, &mut y, n as u32))
            })?;
            tape.backward_with(&stream, &Seeds::new().with(&y, &seeds)?)?;
            for (buffer, wanted) in [(&w, &wanted[0]), (&x, &wanted[1])] {
                let what = format!("{n} in {block}, deterministic: {deterministic}");
                close(&what, &tape.gradient(buffer)?.to_vec(&stream)?, wanted)?;
            }
        }
    }
    Ok(())
}

/// Weights, numbers and their sum.
fn strides(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, made(device, "strides")?);
    for (n, grid, block) in [(1usize, 1, 32), (5, 1, 32), (1000, 3, 64), (4097, 2, 96)] {
        let (w, x) = ([0.5f32, -0.25], numbers(&mut Rng::new(n as u64), n));
        let inner = |x: &f32| 0.5 - 0.25 * f64::from(*x);
        let by_w = [
            x.iter().map(|x| 2.0 * inner(x)).sum(),
            x.iter().map(|x| 2.0 * inner(x) * f64::from(*x)).sum::<f64>(),
        ];
        let by_x: Vec<f64> = x.iter().map(|x| -0.5 * inner(x)).collect();
        let w = DeviceBuffer::from_slice(&stream, &w)?;
        let x = DeviceBuffer::from_slice(&stream, &x)?;
        for deterministic in [false, true] {
            let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            tape.record_again(&stream, |t| {
                t.watch(&w)?;
                t.watch(&x)?;
                t.launch(&op, LaunchConfig::new(grid, block), (&w, &x, &mut sum, n as u32))
            })?;
            tape.backward(&stream, &sum)?;
            let what = format!("{n} in {grid} blocks of {block}, deterministic: {deterministic}");
            close(&what, &tape.gradient(&w)?.to_vec(&stream)?, &by_w)?;
            close(&what, &tape.gradient(&x)?.to_vec(&stream)?, &by_x)?;
        }
    }
    Ok(())
}

/// The gradients of a launch of `powers`.
struct Powers {
    n: usize,
    a: Variable<f32>,
    w: DeviceBuffer<f32>,
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    seeds: DeviceBuffer<f32>,
}

impl Powers {
    fn new(stream: &Stream, n: usize) -> cuda_safe::Result<Self> {
        let mut rng = Rng::new(n as u64);
        let mut upload = |count: usize| DeviceBuffer::from_slice(stream, &numbers(&mut rng, count));
        let (w, x, y, seeds) = (upload(2)?, upload(n)?, upload(n)?, upload(n)?);
        Ok(Self { n, a: Variable::new(stream, 0.75)?, w, x, y, seeds })
    }

    fn record(&mut self, tape: &mut Tape, stream: &Stream, op: &Op) -> cuda_safe::Result<()> {
        let Self { n, a, w, x, y, .. } = self;
        tape.record_again(stream, |t| {
            t.watch(&*a)?;
            t.watch(&*w)?;
            t.watch(&*x)?;
            t.launch(op, LaunchConfig::cover(*n, 96), (&*a, &*w, &*x, &mut *y, *n as u32))
        })
    }

    fn backward(&self, tape: &mut Tape, stream: &Stream) -> cuda_safe::Result<Vec<u32>> {
        tape.backward_with(stream, &Seeds::new().with(&self.y, &self.seeds)?)?;
        let mut all = tape.gradient(&self.a)?.to_vec(stream)?;
        all.extend(tape.gradient(&self.w)?.to_vec(stream)?);
        all.extend(tape.gradient(&self.x)?.to_vec(stream)?);
        Ok(all.into_iter().map(f32::to_bits).collect())
    }
}

/// With enough scratch memory, with too little, and on a tape that is used again: sums over threads too.
fn the_same_bits_in_each_run(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, made(device, "powers")?);
    let runs = if device.runs_machine_code() { 100 } else { 6 };
    let mut state = Powers::new(&stream, 5000)?;
    let mut wanted: Option<Vec<u32>> = None;
    for bytes in [None, Some(1), Some(5000), Some(1 << 20)] {
        for _ in 0..runs {
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(true);
            tape.set_scratch_bytes(bytes);
            state.record(&mut tape, &stream, &op)?;
            for _ in 0..2 {
                let given = state.backward(&mut tape, &stream)?;
                ensure!(given.iter().filter(|bits| **bits << 1 != 0).count() > 4000);
                let wanted = wanted.get_or_insert_with(|| given.clone());
                ensure!(given == *wanted, "{bytes:?} bytes");
            }
        }
    }
    // Those of a plain tape are near.
    let mut tape = Tape::new(&stream)?;
    state.record(&mut tape, &stream, &op)?;
    let plain = state.backward(&mut tape, &stream)?.into_iter().map(f32::from_bits);
    let wanted = wanted.unwrap_or_default().into_iter().map(|bits| f64::from(f32::from_bits(bits)));
    // Atomic additions round at each of 5,000 summands.
    near("a plain tape", &plain.collect::<Vec<_>>(), &wanted.collect::<Vec<_>>(), 2e-5)
}

/// A log that is too small is an error that says so, and one that was said to be larger is enough.
fn too_little_room(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, made(device, "powers")?);
    let mut state = Powers::new(&stream, 100)?;
    let mut tape = Tape::new(&stream)?;
    tape.set_deterministic(true);
    tape.set_summand_bytes(64);
    state.record(&mut tape, &stream, &op)?;
    refused(state.backward(&mut tape, &stream), "bytes of log")?;
    tape.set_summand_bytes(1 << 20);
    state.record(&mut tape, &stream, &op)?;
    let given = state.backward(&mut tape, &stream)?;
    ensure!(given.iter().any(|bits| bits << 1 != 0));
    // What is said of the operation counts, too.
    for (most, works) in [((|_| 1) as fn(&LaunchConfig) -> usize, false), (|_| 10_000, true)] {
        let buffer = |name| Param::buffer(name, Element::F32).active();
        let spec = OpSpec::new("powers")
            .param(Param::scalar("a", Element::F32).active())
            .param(buffer("w"))
            .param(buffer("x"))
            .param(buffer("y"))
            .param(Param::value("n"))
            .summands(most);
        let op = differentiate(device, spec, &program()).map_err(failure)?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(true);
        state.record(&mut tape, &stream, &op)?;
        let done = state.backward(&mut tape, &stream);
        if works {
            ensure_eq!(done?, given);
        } else {
            refused(done, "bytes of log")?;
        }
    }
    Ok(())
}

/// A gradient that the reverse of a store reads can't be in the log: a deterministic tape refuses, another does not.
fn gradients_that_are_taken_and_added_to(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let buffer = |name| Param::buffer(name, Element::F32).active();
    let spec = OpSpec::new("mixed")
        .param(Param::buffer("at", Element::bytes(4)))
        .param(buffer("x"))
        .param(buffer("y"))
        .param(Param::value("n"));
    let op = differentiate(device, spec, &program()).map_err(failure)?;
    let at = DeviceBuffer::from_slice(&stream, &[2u32, 0, 1])?;
    let x = DeviceBuffer::from_slice(&stream, &[2.0f32, 3.0, 5.0])?;
    for deterministic in [false, true] {
        let mut y = DeviceBuffer::from_slice(&stream, &[1.0f32, 10.0, 100.0])?;
        let seeds = DeviceBuffer::from_slice(&stream, &[1.0f32; 3])?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        let recorded = tape.record_again(&stream, |t| {
            t.watch(&x)?;
            t.watch(&y)?;
            t.launch(&op, LaunchConfig::new(1, 32), (&at, &x, &mut y, 3u32))
        });
        if deterministic {
            refused(recorded, "deterministic")?;
            continue;
        }
        recorded?;
        tape.backward_with(&stream, &Seeds::new().with(&y, &seeds)?)?;
        // 100 x0 x0 + 1 x1 x0 + 10 x2 x0
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, [453.0, 2.0, 20.0]);
    }
    Ok(())
}
