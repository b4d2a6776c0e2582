//! Generated adjoints of kernels with loops and local arrays: gradients of `double` against differences, those of
//! `float` against those of `double`.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Module, Result, Stream, nvrtc::Program};
use tape::{Element, FloatType, Op, OpSpec, Param, Seeds, Tape, Variable};

use super::generated::{differentiate, failure};
use super::ops::Number;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

mod bodies;
mod dem;
mod scratch;
mod shapes;
mod warp;

pub(super) fn cases() -> Vec<Case> {
    let kernels = cases![
        "tape::loops",
        device(that_end_by_their_condition),
        device(that_are_left_in_the_middle),
        device(over_local_arrays),
        device(that_store),
        device(of_whole_kernels),
    ];
    [kernels, warp::cases(), scratch::cases(), shapes::cases(), dem::cases()].concat()
}

/// Numbers of each buffer for each thread.
const WIDTH: usize = 4;

fn program<T: Number>(kernel: &str) -> Program {
    let (real, vector) = if T::SUFFIX == "f32" {
        ("float", "typedef float4 real4;")
    } else {
        ("double", "struct alignas(16) real4 { double x, y, z, w; };")
    };
    Program::new(format!(
        "typedef {real} real; typedef {real}2 real2; {vector}
         struct particle {{ real place, speed; }};
         __noinline__ __device__ real power(real x, unsigned k) {{ real p = 1; while (k--) p *= x; return p; }}
         __noinline__ __device__ void change(real& x, real y) {{ if (x > 0) x *= x * y; else x += y * y; }}
         __noinline__ __device__ void iteration(real* v, int n, unsigned k) {{
             real first = v[0] * v[k % n]; for (int j = 0; j + 1 < n; ++j) v[j] = v[j + 1]; v[n - 1] = first;
         }}
         __device__ real total(const real* v, int n) {{ real sum = 0; for (int k = 0; k < n; ++k) sum += v[k] * v[k]; return sum; }}
         __device__ real force(real q, real a) {{ return -a * q - q * q * q; }}
         {kernel}"
    ))
    .name("loops.cu")
}

fn kernel<T: Number>(body: &str) -> Program {
    program::<T>(&format!(
        "extern \"C\" __global__ void f(real a, const real* x, real* y, real* out, const unsigned* index, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             const real* s = x + 4 * i; real *own = y + 4 * i, *t = out + 4 * i;
             const unsigned trips = index[i], *rows = index + n, *columns = rows + n + 1;\n{body}
         }}"
    ))
}

/// What a body uses: a, y and out.
#[derive(Clone, Copy)]
struct Uses {
    a: bool,
    y: bool,
    out: bool,
}

impl Uses {
    fn of(body: &str) -> Self {
        let apart = |c: char| !c.is_alphanumeric() && c != '_' && c != '.';
        let has = |word: &str| body.split(apart).any(|found| found == word);
        Self { a: has("a"), y: has("y") || has("own"), out: has("out") || has("t") }
    }
}

fn spec<T: Number>(uses: Uses) -> OpSpec {
    let float = if T::SUFFIX == "f32" { FloatType::F32 } else { FloatType::F64 };
    let active = |param: Param, used: bool| if used { param.active() } else { param };
    let buffer = |name| Param::buffer(name, Element::vector(float, 4)).len("n");
    OpSpec::new("f")
        .param(active(Param::scalar("a", <T as Number>::ELEMENT), uses.a))
        .param(buffer("x").active())
        .param(active(buffer("y"), uses.y))
        .param(active(buffer("out"), uses.out))
        .param(Param::buffer("index", Element::bytes(4)))
        .param(Param::value("n"))
}

/// What a kernel is given, and the weight of each number that it leaves in y and out.
struct Inputs {
    n: usize,
    /// a, x, y and what lies in out before.
    numbers: Vec<f64>,
    weights: Vec<f64>,
    index: Vec<u32>,
}

impl Inputs {
    fn new(rng: &mut Rng, n: usize) -> Self {
        // Numbers that floats hold exactly.
        let mut draw =
            |count: usize| (0..count).map(|_| f64::from(1.5 * rng.float())).collect::<Vec<_>>();
        let mut numbers = draw(1 + 3 * WIDTH * n);
        if let Some(a) = numbers.first_mut() {
            *a = 0.75;
        }
        let weights = draw(2 * WIDTH * n);
        let mut index: Vec<u32> = (0..n).map(|_| rng.below(8) as u32).collect();
        let mut end = 0;
        index.push(0);
        for _ in 0..n {
            end = (end + rng.below(8)).min(WIDTH * n);
            index.push(end as u32);
        }
        index.extend((0..WIDTH * n).map(|_| rng.below(WIDTH * n) as u32));
        Self { n, numbers, weights, index }
    }

    fn a(&self) -> f64 {
        self.numbers.first().copied().unwrap_or(f64::NAN)
    }

    /// x, y or out.
    fn part(&self, part: usize) -> &[f64] {
        let from = 1 + part * WIDTH * self.n;
        self.numbers.get(from..from + WIDTH * self.n).unwrap_or(&[])
    }
}

fn upload<T: Number>(stream: &Stream, numbers: &[f64]) -> Result<DeviceBuffer<T>> {
    let numbers: Vec<T> = numbers.iter().map(|&x| T::of(x)).collect();
    DeviceBuffer::from_slice(stream, &numbers)
}

/// Inputs and outputs on the device, and a tape that is used again.
struct State<T: Number> {
    a: Variable<T>,
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    out: DeviceBuffer<T>,
    /// What lies in y and out before.
    before: [DeviceBuffer<T>; 2],
    index: DeviceBuffer<u32>,
    seeds: [DeviceBuffer<T>; 2],
    n: u32,
}

impl<T: Number> State<T> {
    fn new(stream: &Stream, inputs: &Inputs) -> Result<Self> {
        let (of_y, of_out) = inputs.weights.split_at(WIDTH * inputs.n);
        Ok(Self {
            a: Variable::new(stream, T::of(inputs.a()))?,
            x: upload(stream, inputs.part(0))?,
            y: DeviceBuffer::zeroed(stream, WIDTH * inputs.n)?,
            out: DeviceBuffer::zeroed(stream, WIDTH * inputs.n)?,
            before: [upload(stream, inputs.part(1))?, upload(stream, inputs.part(2))?],
            index: DeviceBuffer::from_slice(stream, &inputs.index)?,
            seeds: [upload(stream, of_y)?, upload(stream, of_out)?],
            n: inputs.n as u32,
        })
    }

    fn record(
        &mut self,
        tape: &mut Tape,
        stream: &Stream,
        op: &Op,
        uses: Uses,
        launch: LaunchConfig,
    ) -> Result<()> {
        let Self { a, x, y, out, before: [y0, out0], index, n, .. } = self;
        tape.record_again(stream, |t| {
            if uses.a {
                t.watch(&*a)?;
            }
            t.watch(&*x)?;
            for (buffer, before, used) in [(&mut *y, &*y0, uses.y), (&mut *out, &*out0, uses.out)] {
                if used {
                    t.watch(before)?;
                }
                t.copy(before, buffer)?;
            }
            t.launch(op, launch, (&*a, &*x, &mut *y, &mut *out, &*index, *n))
        })
    }

    fn backward(&self, tape: &mut Tape, stream: &Stream, uses: Uses) -> Result<()> {
        let mut seeds = Seeds::new();
        let all = [(&self.y, &self.seeds[0], uses.y), (&self.out, &self.seeds[1], uses.out)];
        for (of, with, _) in all.into_iter().filter(|(.., used)| *used) {
            seeds = seeds.with(of, with)?;
        }
        tape.backward_with(stream, &seeds)
    }

    /// The gradients by a, x, y and out; what has none counts as zeros.
    fn gradients(&self, tape: &Tape, stream: &Stream, uses: Uses) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        let by_a = if uses.a { tape.gradient(&self.a)?.to_vec(stream)? } else { vec![T::of(0.0)] };
        all.extend(by_a.into_iter().map(T::to));
        let [y, out] = &self.before;
        for (buffer, used) in [(&self.x, true), (y, uses.y), (out, uses.out)] {
            let none = || vec![T::of(0.0); buffer.len()];
            // An output that is overwritten everywhere has no gradient by what was there before.
            let by = if used { tape.gradient(buffer).ok() } else { None };
            let by = by.map(|by| by.to_vec(stream)).transpose()?;
            all.extend(by.unwrap_or_else(none).into_iter().map(T::to));
        }
        Ok(all)
    }
}

/// The gradients of one launch and pass.
fn gradients<T: Number>(
    stream: &Stream,
    op: &Op,
    inputs: &Inputs,
    launch: LaunchConfig,
    uses: Uses,
) -> Result<Vec<f64>> {
    let (mut state, mut tape) = (State::<T>::new(stream, inputs)?, Tape::new(stream)?);
    state.record(&mut tape, stream, op, uses, launch)?;
    if inputs.n == 0 {
        return Ok(vec![0.0]);
    }
    state.backward(&mut tape, stream, uses)?;
    state.gradients(&tape, stream, uses)
}

/// The weighted sum of y and out behind the forward kernel, with other inputs.
fn value(
    stream: &Stream,
    forward: &Kernel,
    inputs: &Inputs,
    numbers: &[f64],
    uses: Uses,
) -> Result<f64> {
    let n = inputs.n;
    let part = |part: usize| {
        let from = 1 + part * WIDTH * n;
        upload::<f64>(stream, numbers.get(from..from + WIDTH * n).unwrap_or(&[]))
    };
    let (x, mut y, mut out) = (part(0)?, part(1)?, part(2)?);
    let index = DeviceBuffer::from_slice(stream, &inputs.index)?;
    let a = numbers.first().copied().unwrap_or(f64::NAN);
    let launch = LaunchConfig::cover(n, 64);
    let args = (a, &x, &mut y, &mut out, &index, n as u32);
    // SAFETY: thread i stores to the elements of i, adds to and reads elements below 4 n, and only if i < n.
    unsafe { forward.launch(stream, launch, args) }?;
    let (of_y, of_out) = inputs.weights.split_at(WIDTH * n);
    let mut sum = 0.0;
    for (buffer, weights, _) in
        [(&y, of_y, uses.y), (&out, of_out, uses.out)].into_iter().filter(|(.., used)| *used)
    {
        sum += buffer.to_vec(stream)?.iter().zip(weights).map(|(value, w)| value * w).sum::<f64>();
    }
    Ok(sum)
}

/// The derivative along a direction, by differences of fourth order.
fn along(
    stream: &Stream,
    forward: &Kernel,
    inputs: &Inputs,
    direction: &[(usize, f64)],
    step: f64,
    uses: Uses,
) -> Result<f64> {
    let side = |by: f64| -> Result<f64> {
        let mut numbers = inputs.numbers.clone();
        for (at, part) in direction {
            if let Some(number) = numbers.get_mut(*at) {
                *number += by * part;
            }
        }
        value(stream, forward, inputs, &numbers, uses)
    };
    let slope = |step: f64| -> Result<f64> { Ok((side(step)? - side(-step)?) / (2.0 * step)) };
    Ok((4.0 * slope(step)? - slope(2.0 * step)?) / 3.0)
}

/// Fails unless gradients of doubles are the differences, for some inputs alone and for some directions.
fn by_differences(
    stream: &Stream,
    forward: &Kernel,
    inputs: &Inputs,
    given: &[f64],
    uses: Uses,
    rng: &mut Rng,
) -> TestResult {
    let count = inputs.numbers.len();
    let largest = given.iter().fold(0.0f64, |most, g| most.max(g.abs()));
    let mut directions: Vec<Vec<(usize, f64)>> = if count < 30 {
        (0..count).map(|at| vec![(at, 1.0)]).collect()
    } else {
        (0..12).map(|_| vec![(rng.below(count), 1.0)]).collect()
    };
    // With many threads, some are within a step of a kink.
    if inputs.n <= 33 {
        for _ in 0..3 {
            directions.push((0..count).map(|at| (at, f64::from(rng.float()))).collect());
        }
    }
    for direction in directions {
        let parts = || {
            direction.iter().map(|(at, part)| given.get(*at).copied().unwrap_or(f64::NAN) * part)
        };
        let (sum, size) = (parts().sum::<f64>(), parts().map(f64::abs).sum::<f64>());
        let mut found = Vec::new();
        for (step, most) in [(1e-4, 1e-8), (1e-6, 1e-7)] {
            let wanted = along(stream, forward, inputs, &direction, step, uses)?;
            found.push(wanted);
            // So written that a NaN is an error.
            if (sum - wanted).abs() <= most * (size + largest) {
                found.clear();
                break;
            }
        }
        let what = match direction.as_slice() {
            [(at, _)] => format!("gradient {at}"),
            _ => "the derivative along a direction".to_owned(),
        };
        ensure!(found.is_empty(), "n = {}: {what} is {sum}, not {found:?}", inputs.n);
    }
    Ok(())
}

/// Fails if gradients differ by more than `most`, relative to the largest of their buffer; the one by a relative to the
/// largest of all.
fn compare(what: &str, given: &[f64], wanted: &[f64], most: f64) -> TestResult {
    ensure_eq!(given.len(), wanted.len(), "{what}");
    let largest = |of: &[f64]| of.iter().fold(0.0f64, |most, g| most.max(g.abs()));
    let all = |of: &[f64], wanted: &[f64], size: f64, first: usize| -> TestResult {
        for (at, (given, wanted)) in of.iter().zip(wanted).enumerate() {
            let is_near = (given - wanted).abs() <= most * size;
            ensure!(is_near, "{what}: gradient {} is {given}, not {wanted}", first + at);
        }
        Ok(())
    };
    let ((a, given), (by_a, wanted_rest)) = (given.split_at(1), wanted.split_at(1));
    all(a, by_a, largest(wanted), 0)?;
    let part = (given.len() / 3).max(1);
    for (number, (given, wanted)) in given.chunks(part).zip(wanted_rest.chunks(part)).enumerate() {
        all(given, wanted, largest(wanted), 1 + number * part)?;
    }
    Ok(())
}

fn one(device: &TestDevice, body: &str) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2310));
    let uses = Uses::of(body);
    let wide = differentiate(device, spec::<f64>(uses), &kernel::<f64>(body)).map_err(failure)?;
    let narrow = differentiate(device, spec::<f32>(uses), &kernel::<f32>(body)).map_err(failure)?;
    let forward = Module::compile(device.context(), kernel::<f64>(body))?.kernel("f")?;
    // Under a checker all takes a hundred times as long.
    let is_checked = device.is_instrumented() || std::env::var_os("CUDA_EMU_CHECK").is_some();
    let sizes: &[usize] = if is_checked { &[33] } else { &[0, 1, 31, 32, 33, 1000] };
    for &n in sizes {
        let inputs = Inputs::new(&mut rng, n);
        let doubles = gradients::<f64>(&stream, &wide, &inputs, LaunchConfig::cover(n, 32), uses)?;
        for block in [1, 33, 1024] {
            let launch = LaunchConfig::cover(n, block);
            let again = gradients::<f64>(&stream, &wide, &inputs, launch, uses)?;
            compare(&format!("doubles, n = {n}, {block}"), &again, &doubles, 1e-12)?;
            let floats = gradients::<f32>(&stream, &narrow, &inputs, launch, uses)?;
            compare(&format!("floats, n = {n}, {block}"), &floats, &doubles, 2e-6)?;
        }
        if n > 0 {
            by_differences(&stream, &forward, &inputs, &doubles, uses, &mut rng)?;
        }
        let parts = [(true, 0), (uses.y, 1)];
        for (used, part) in parts.into_iter().filter(|_| n == 1000) {
            let by = doubles.iter().skip(1 + part * WIDTH * n).take(WIDTH * n);
            ensure!(!used || by.filter(|g| **g != 0.0).count() > n / 4, "most are zero");
        }
    }
    Ok(())
}

fn each(device: &TestDevice, bodies: &[(&str, &str)]) -> TestResult {
    let mut wrong = Vec::new();
    for (name, body) in bodies {
        if let Err(error) = one(device, body) {
            wrong.push(format!("{name}: {error}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

fn that_end_by_their_condition(device: &TestDevice) -> TestResult {
    each(device, &bodies::DYNAMIC)
}

fn that_are_left_in_the_middle(device: &TestDevice) -> TestResult {
    each(device, &bodies::EXITS)
}

fn over_local_arrays(device: &TestDevice) -> TestResult {
    each(device, &bodies::ARRAYS)
}

fn that_store(device: &TestDevice) -> TestResult {
    each(device, &bodies::MEMORY)
}

fn of_whole_kernels(device: &TestDevice) -> TestResult {
    each(device, &bodies::WHOLE)
}
