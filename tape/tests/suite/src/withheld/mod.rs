//! Kernels that the authors of the generator had not seen: weights that many threads read, sums, and mathematical
//! functions. Gradients of `double` are compared with central differences, those of `float` with those of `double`.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Module, Result, Stream, nvrtc::Program};
use tape::{Element, FloatType, Op, OpSpec, Param, Seeds, Tape, Variable};

use super::generated::{differentiate, failure};
use super::ops::Number;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

mod deterministic;
mod functions;

pub(super) fn cases() -> Vec<Case> {
    let own = cases![
        "tape::withheld",
        device(a_network_with_active_weights),
        device(weights_that_many_threads_read),
        device(sums_by_atomics_in_grid_stride_loops),
        device(weights_that_no_thread_reads),
    ];
    [own, functions::cases(), deterministic::cases()].concat()
}

/// Numbers of each thread: of x, and of out.
const INPUTS: usize = 8;
const OUTPUTS: usize = 4;
/// The weights of a network: 16 rows of 8, 16 biases, 4 rows of 16, 4 biases.
const WEIGHTS: usize = 212;
/// There are two networks.
const ALL_WEIGHTS: usize = 2 * WEIGHTS;
/// How many sums there are.
const SUMS: usize = 5;

/// 8-16-4.
const NETWORK: &str = "
    real y[16], z[4];
    for (int j = 0; j < 16; ++j) {
        y[j] = w[128 + j];
        for (int k = 0; k < 8; ++k) y[j] += w[8 * j + k] * s[k];
        y[j] = y[j] / (1 + fabs(y[j]));
    }
    for (int j = 0; j < 4; ++j) {
        z[j] = w[208 + j];
        for (int k = 0; k < 16; ++k) z[j] += w[144 + 16 * j + k] * y[k];
        t[j] = z[j];
    }";

/// What thread i < n does with its numbers s and t, the weights w, and a.
const BODIES: [(&str, &str); 15] = [
    ("two networks in turns", "w += 212 * (i & 1); NETWORK"),
    ("two networks for 32 threads each", "w += 212 * (i / 32 & 1); NETWORK"),
    ("two networks for a block each", "w += 212 * (blockIdx.x & 1); NETWORK"),
    ("a network for some threads", "if (s[0] < 0) { t[0] = w[3] * s[1]; return; } NETWORK"),
    ("a network behind a branch", "if (s[0] * s[1] > 0) { NETWORK } else { t[1] = w[5] * w[6] * s[2]; }"),
    ("a network behind a block's branch", "if (blockIdx.x & 1) { NETWORK } else { w += 100; t[2] = w[5] * s[2] * a; }"),
    (
        "as many weights as a thread's number says",
        "real p = 1; for (unsigned k = 0; k < i % 7; ++k) p = p * w[k] * a + s[k]; t[0] = p;",
    ),
    (
        "as many weights as all threads' number says",
        "real p = 1; for (unsigned k = 0; k < n % 13; ++k) p = p * w[k] * a + s[k & 7]; t[0] = p; t[1] = p * w[n % 13];",
    ),
    (
        "weights of two loops",
        "real p = a; for (unsigned j = 0; j < 3; ++j) { real q = 1; for (unsigned k = 0; k < i % 4; ++k) q *= w[3 * j + k] + s[k];
         p += q * w[40 + j]; } t[3] = p;",
    ),
    ("one of two weights by a number", "const real* p = s[0] > 0 ? w : w + 212; t[0] = p[0] * s[1] + p[7] * p[7]; t[1] = p[i & 1] * a;"),
    ("a weight for each lane", "t[0] = w[threadIdx.x & 31] * s[0] * w[threadIdx.x / 32]; t[1] = w[31 - (threadIdx.x & 31)] * s[1];"),
    ("one weight several times", "t[0] = w[0] * s[0]; t[1] = w[0] * w[0] * s[1]; t[2] = w[1] / (3 + w[0] * s[2]); t[3] = w[0];"),
    ("one weight by other words", "const real* p = w + n; t[0] = w[n] * s[0] * p[0]; t[1] = p[0] + w[n + 1] * a;"),
    ("weights in vectors", "const real2* p = (const real2*)w; real2 u = p[3], v = p[i & 3]; t[0] = u.x * s[0] + v.y * v.x; t[1] = u.y * u.x * a;"),
    ("weights that a loop leaves", "real p = s[0]; for (unsigned k = 0; k < 20; ++k) { p = p * w[k] + a; if (p > 1) break; } t[0] = p; t[1] = p * w[0];"),
];

/// What a thread does in a grid-stride loop for each element i, before and behind it.
const LOOPS: [(&str, [&str; 3]); 6] = [
    ("a sum in each turn", ["", "atomicAdd(sum, a * s[0] * s[1] + s[2]);", ""]),
    (
        "a sum behind the loop",
        ["real p = 0;", "p += a * s[0] * s[0];", "atomicAdd(sum, p * p + p);"],
    ),
    (
        "some sums",
        ["", "atomicAdd(&sum[i % 5], s[0] * s[i & 7]); atomicAdd(&sum[1], a * s[3]);", ""],
    ),
    (
        "a sum of some",
        [
            "",
            "if (s[0] > 0) atomicAdd(&sum[2], w[3] * s[0] * s[0]); else if (s[1] > s[2]) atomicAdd(sum, s[1]);",
            "",
        ],
    ),
    (
        "a sum of a chain",
        [
            "real p = 1;",
            "p = p * real(0.5) * s[0] + a * w[1]; atomicAdd(&sum[3], p * s[1]);",
            "atomicAdd(&sum[4], p);",
        ],
    ),
    (
        "sums and outputs",
        [
            "",
            "real p = w[0] * s[0] + w[1] * s[1]; t[0] = p; t[2] = p * p * a; atomicAdd(sum, p * p);",
            "",
        ],
    ),
];

/// A kernel `f(real a, const real* w, const real* x, real* out, real* sum, unsigned n)`.
fn program<T: Number>(kernel: &str) -> Program {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    Program::new(format!(
        "typedef {real} real; typedef {real}2 real2;
         extern \"C\" __global__ void f(real a, const real* __restrict__ w, const real* __restrict__ x, real* __restrict__ out,
                                        real* sum, unsigned n) {{
             {kernel}
         }}"
    ))
    .name("withheld.cu")
}

/// What one thread does for one element.
fn each(body: &str) -> String {
    format!(
        "unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
         const real* s = x + 8 * i; real* t = out + 4 * i; {}",
        body.replace("NETWORK", NETWORK)
    )
}

fn stride([before, body, behind]: [&str; 3]) -> String {
    format!(
        "{before} for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{
         const real* s = x + 8 * i; real* t = out + 4 * i; {body} }} {behind}"
    )
}

/// Which of a, w, out and sum a kernel uses.
#[derive(Debug, Clone, Copy)]
struct Uses([bool; 4]);

impl Uses {
    fn of(kernel: &str) -> Self {
        let apart = |c: char| !c.is_alphanumeric() && c != '_' && c != '.';
        let body = kernel.replace("real* t = out", "");
        let has = |word: &str| body.split(apart).any(|found| found == word);
        Self([has("a"), has("w"), has("t"), has("sum")])
    }
}

fn spec<T: Number>(Uses([a, w, out, sum]): Uses) -> OpSpec {
    let float = if T::SUFFIX == "f32" { FloatType::F32 } else { FloatType::F64 };
    let one = <T as Number>::ELEMENT;
    let active = |param: Param, used: bool| if used { param.active() } else { param };
    let each = |name, count| Param::buffer(name, Element::vector(float, count)).len("n");
    OpSpec::new("f")
        .param(active(Param::scalar("a", one), a))
        .param(active(Param::buffer("w", one).len_fixed(ALL_WEIGHTS), w))
        .param(each("x", INPUTS).active())
        .param(active(each("out", OUTPUTS), out))
        .param(active(Param::buffer("sum", one).len_fixed(SUMS), sum))
        .param(Param::value("n"))
}

fn made<T: Number>(device: &TestDevice, kernel: &str) -> Result<Op, Failure> {
    differentiate(device, spec::<T>(Uses::of(kernel)), &program::<T>(kernel)).map_err(failure)
}

/// What a kernel is given, and the weight of each number that it leaves in out and sum.
#[derive(Clone)]
struct Inputs {
    n: usize,
    /// a, w, x.
    numbers: Vec<f64>,
    seeds: Vec<f64>,
}

impl Inputs {
    fn new(rng: &mut Rng, n: usize) -> Self {
        // Numbers that floats hold exactly.
        let mut draw = |count: usize, size: f64| -> Vec<f64> {
            (0..count).map(|_| f64::from((size * f64::from(rng.float())) as f32)).collect()
        };
        let numbers = [vec![0.75], draw(ALL_WEIGHTS, 1.0), draw(INPUTS * n, 1.5)].concat();
        Self { n, numbers, seeds: draw(OUTPUTS * n + SUMS, 1.0) }
    }

    fn parts(&self) -> [&[f64]; 3] {
        let (a, rest) = self.numbers.split_at(1);
        let (w, x) = rest.split_at(ALL_WEIGHTS);
        [a, w, x]
    }
}

fn upload<T: Number>(stream: &Stream, numbers: &[f64]) -> Result<DeviceBuffer<T>> {
    let numbers: Vec<T> = numbers.iter().map(|&x| T::of(x)).collect();
    DeviceBuffer::from_slice(stream, &numbers)
}

/// The inputs and outputs on a device.
struct State<T: Number> {
    a: Variable<T>,
    w: DeviceBuffer<T>,
    x: DeviceBuffer<T>,
    out: DeviceBuffer<T>,
    sum: DeviceBuffer<T>,
    seeds: [DeviceBuffer<T>; 2],
    uses: Uses,
    n: usize,
}

impl<T: Number> State<T> {
    fn new(stream: &Stream, inputs: &Inputs, uses: Uses) -> Result<Self> {
        let [a, w, x] = inputs.parts();
        let (of_out, of_sum) = inputs.seeds.split_at(OUTPUTS * inputs.n);
        Ok(Self {
            a: Variable::new(stream, T::of(a.first().copied().unwrap_or(f64::NAN)))?,
            w: upload(stream, w)?,
            x: upload(stream, x)?,
            out: DeviceBuffer::zeroed(stream, OUTPUTS * inputs.n)?,
            sum: DeviceBuffer::zeroed(stream, SUMS)?,
            seeds: [upload(stream, of_out)?, upload(stream, of_sum)?],
            uses,
            n: inputs.n,
        })
    }

    fn record(
        &mut self,
        tape: &mut Tape,
        stream: &Stream,
        op: &Op,
        launch: LaunchConfig,
    ) -> Result<()> {
        let Self { a, w, x, out, sum, uses: Uses([uses_a, uses_w, ..]), n, .. } = self;
        tape.record_again(stream, |t| {
            if *uses_a {
                t.watch(&*a)?;
            }
            if *uses_w {
                t.watch(&*w)?;
            }
            t.watch(&*x)?;
            t.fill(&mut *out, T::of(0.0))?;
            t.fill(&mut *sum, T::of(0.0))?;
            t.launch(op, launch, (&*a, &*w, &*x, &mut *out, &mut *sum, *n as u32))
        })
    }

    /// Goes back, and returns the gradients by a, w and x; what the kernel does not use has zeros.
    fn backward(&self, tape: &mut Tape, stream: &Stream) -> Result<[Vec<T>; 3]> {
        let (Uses([a, w, out, sum]), mut seeds) = (self.uses, Seeds::new());
        let all = [(&self.out, &self.seeds[0], out), (&self.sum, &self.seeds[1], sum)];
        for (of, with, _) in all.into_iter().filter(|(of, _, used)| *used && !of.is_empty()) {
            seeds = seeds.with(of, with)?;
        }
        tape.backward_with(stream, &seeds)?;
        let zeros = |count: usize| Ok(vec![T::of(0.0); count]);
        Ok([
            if a { tape.gradient(&self.a)?.to_vec(stream) } else { zeros(1) }?,
            if w { tape.gradient(&self.w)?.to_vec(stream) } else { zeros(ALL_WEIGHTS) }?,
            tape.gradient(&self.x)?.to_vec(stream)?,
        ])
    }
}

type Gradients = [Vec<f64>; 3];

fn gradients<T: Number>(
    stream: &Stream,
    op: &Op,
    inputs: &Inputs,
    launch: LaunchConfig,
    uses: Uses,
) -> Result<Gradients> {
    let (mut state, mut tape) = (State::<T>::new(stream, inputs, uses)?, Tape::new(stream)?);
    state.record(&mut tape, stream, op, launch)?;
    if inputs.n == 0 && !uses.0[3] {
        // Nothing has a gradient: that it was recorded is all there is to see.
        return Ok([vec![0.0], vec![0.0; ALL_WEIGHTS], Vec::new()]);
    }
    let all = state.backward(&mut tape, stream)?;
    Ok(all.map(|part| part.into_iter().map(T::to).collect()))
}

/// The weighted sum of what the kernel leaves.
fn value(
    stream: &Stream,
    forward: &Kernel,
    inputs: &Inputs,
    launch: LaunchConfig,
    uses: Uses,
) -> Result<f64> {
    let mut state = State::<f64>::new(stream, inputs, uses)?;
    let a = inputs.numbers.first().copied().unwrap_or(f64::NAN);
    let (out, sum) = (&mut state.out, &mut state.sum);
    // SAFETY: thread i touches what belongs to the elements i, i + stride and so on, all below n, reads weights below
    // `ALL_WEIGHTS`, and adds to sums below `SUMS` by atomics.
    unsafe { forward.launch(stream, launch, (a, &state.w, &state.x, out, sum, inputs.n as u32)) }?;
    let found = [state.out.to_vec(stream)?, state.sum.to_vec(stream)?].concat();
    Ok(found.iter().zip(&inputs.seeds).map(|(value, seed)| value * seed).sum())
}

/// Fails unless some gradients of doubles are the differences, relative to the largest.
fn by_differences(
    given: &Gradients,
    inputs: &Inputs,
    rng: &mut Rng,
    value: impl Fn(&Inputs) -> Result<f64>,
) -> TestResult {
    let given = given.concat();
    let largest = given.iter().fold(1.0f64, |most, g| most.max(g.abs()));
    let random = (0..20).map(|_| rng.below(given.len()));
    // The one by a, and by weights that most kernels use.
    for at in [0, 1, 4, 6].into_iter().chain(random) {
        let mut found = Vec::new();
        // Where a step crosses a kink, a smaller one may not.
        for step in [1e-5, 1e-7] {
            let side = |by: f64| {
                let mut moved = inputs.clone();
                if let Some(number) = moved.numbers.get_mut(at) {
                    *number += by;
                }
                value(&moved)
            };
            found.push((side(step)? - side(-step)?) / (2.0 * step));
            let is_near = |wanted: &f64| {
                let given = given.get(at).copied().unwrap_or(f64::NAN);
                (given - wanted).abs() <= 1e-7 * largest
            };
            if found.last().is_some_and(is_near) {
                found.clear();
                break;
            }
        }
        ensure!(
            found.is_empty(),
            "n = {}: gradient {at} is {:?}, not {found:?}",
            inputs.n,
            given.get(at)
        );
    }
    Ok(())
}

/// Fails if gradients differ by more than `most`, relative to the largest of w or x; the one by a, of all.
fn compare(what: &str, given: &Gradients, wanted: &Gradients, most: f64) -> TestResult {
    let largest = |of: &[f64]| of.iter().fold(0.0f64, |most, g| most.max(g.abs()));
    let all = wanted.concat();
    for (part, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        ensure_eq!(given.len(), wanted.len(), "{what}");
        let size = if part == 0 { largest(&all) } else { largest(wanted) };
        for (at, (given, wanted)) in given.iter().zip(wanted).enumerate() {
            let is_near = (given - wanted).abs() <= most * size;
            ensure!(is_near, "{what}: gradient {part}, {at} is {given}, not {wanted}");
        }
    }
    Ok(())
}

type Launches = fn(usize) -> Vec<LaunchConfig>;

fn covering(n: usize) -> Vec<LaunchConfig> {
    [32, 48, 33, 256].map(|block| LaunchConfig::cover(n, block)).to_vec()
}

fn few(_: usize) -> Vec<LaunchConfig> {
    [(1, 32), (3, 64), (2, 33), (7, 96)]
        .map(|(grid, block)| LaunchConfig::new(grid, block))
        .to_vec()
}

fn check(device: &TestDevice, kernel: &str, launches: Launches) -> TestResult {
    let (stream, mut rng, uses) = (device.stream()?, Rng::new(2401), Uses::of(kernel));
    let (wide, narrow) = (made::<f64>(device, kernel)?, made::<f32>(device, kernel)?);
    let forward = Module::compile(device.context(), program::<f64>(kernel))?.kernel("f")?;
    // Under a checker all takes a hundred times as long.
    let is_checked = device.is_instrumented() || std::env::var_os("CUDA_EMU_CHECK").is_some();
    let sizes: &[usize] = if is_checked { &[33] } else { &[0, 1, 31, 32, 33, 300] };
    for &n in sizes {
        let inputs = Inputs::new(&mut rng, n);
        let (launches, mut last) = (launches(n), None);
        for launch in &launches {
            let what = format!("n = {n}, {launch:?}");
            let doubles = gradients::<f64>(&stream, &wide, &inputs, *launch, uses)?;
            let floats = gradients::<f32>(&stream, &narrow, &inputs, *launch, uses)?;
            compare(&what, &floats, &doubles, 2e-6)?;
            last = Some((doubles, *launch));
        }
        if let Some((doubles, launch)) = last.filter(|_| n > 0) {
            let value = |inputs: &Inputs| value(&stream, &forward, inputs, launch, uses);
            by_differences(&doubles, &inputs, &mut rng, value)?;
            // A single thread may do nothing.
            let any = doubles.iter().flatten().any(|g| *g != 0.0);
            ensure!(any || n == 1, "n = {n}: all gradients are zero");
        }
    }
    Ok(())
}

fn all(device: &TestDevice, kernels: &[(&str, String)], launches: Launches) -> TestResult {
    let mut wrong = Vec::new();
    for (name, kernel) in kernels {
        if let Err(error) = check(device, kernel, launches) {
            wrong.push(format!("{name}: {error}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

fn a_network_with_active_weights(device: &TestDevice) -> TestResult {
    all(device, &[("a network", each(NETWORK))], covering)
}

fn weights_that_many_threads_read(device: &TestDevice) -> TestResult {
    all(device, &BODIES.map(|(name, body)| (name, each(body))), covering)
}

fn sums_by_atomics_in_grid_stride_loops(device: &TestDevice) -> TestResult {
    all(device, &LOOPS.map(|(name, parts)| (name, stride(parts))), few)
}

/// A launch in which the weights are read behind a condition that no thread meets.
fn weights_that_no_thread_reads(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = each(&format!("if (s[0] > 100) {{ {NETWORK} }} else t[0] = s[1] * s[2];"));
    let op = made::<f32>(device, &kernel)?;
    let inputs = Inputs::new(&mut Rng::new(2402), 100);
    let launch = LaunchConfig::cover(100, 64);
    let [_, by_w, by_x] = gradients::<f32>(&stream, &op, &inputs, launch, Uses::of(&kernel))?;
    ensure!(by_w.iter().all(|g| *g == 0.0), "{by_w:?}");
    ensure!(by_x.iter().filter(|g| **g != 0.0).count() == 200, "{by_x:?}");
    Ok(())
}
