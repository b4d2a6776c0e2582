//! Generated adjoints of kernels that were written without reading the generator: gradients of `double` against
//! central differences, those of `float` against those of `double`.

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, nvrtc::Program};
use tape::ptx_ad::Reason;
use tape::{DifferentiateError, Element, FloatType, Op, OpSpec, Param, Seeds, Tape, Variable};

use super::generated::{differentiate, failure};
use super::ops::Number;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::unseen",
        device(kernels),
        device(kernels_in_two_dimensions),
        device(views_at_odd_elements),
        device(one_buffer_for_two_parameters),
        device(too_few_threads),
        device(detached_parameters),
        device(no_path_has_its_line),
        device(said_of_the_adjoint),
    ]
}

/// Bodies of `f(real a, const real* x, real* y, real* out, unsigned n)` for thread i < n. Each buffer has four numbers
/// for each thread; `s` and `t` are the thread's of x and out.
const BODIES: [(&str, &str); 26] = [
    (
        "a step of Runge and Kutta",
        "real q = s[0], p = s[1], h = real(0.1);
         real q1 = p, p1 = -a * q - q * q * q;
         real q2 = p + h / 2 * p1, p2 = -a * (q + h / 2 * q1) - (q + h / 2 * q1) * (q + h / 2 * q1) * (q + h / 2 * q1);
         real q3 = p + h / 2 * p2, p3 = -a * (q + h / 2 * q2) - (q + h / 2 * q2) * (q + h / 2 * q2) * (q + h / 2 * q2);
         real q4 = p + h * p3, p4 = -a * (q + h * q3) - (q + h * q3) * (q + h * q3) * (q + h * q3);
         t[0] = q + h / 6 * (q1 + 2 * q2 + 2 * q3 + q4);
         t[1] = p + h / 6 * (p1 + 2 * p2 + 2 * p3 + p4);",
    ),
    ("saxpy in place", "y[4 * i] = a * s[0] + y[4 * i];"),
    ("a product in place", "y[4 * i] *= s[0];"),
    ("a quotient in place", "y[4 * i + 1] /= 2 + s[1] * s[1];"),
    ("a difference in place", "y[4 * i + 2] -= a * s[2] * y[4 * i + 2];"),
    ("a component that is assigned twice", "t[0] = a * s[0]; if (s[1] > 0) t[0] = s[2] * s[0];"),
    ("a component that is always assigned twice", "t[0] = a * s[0]; t[1] = s[1]; t[0] = s[2] * s[0];"),
    (
        "an array that is overwritten",
        "real v[3] = {s[0], s[1], a}; v[1] = v[0] * v[1]; v[0] = v[1] * v[2]; v[2] = v[0] + v[1] * v[1]; v[1] *= v[2];
         t[0] = v[0]; t[1] = v[1]; t[2] = v[2];",
    ),
    (
        "vectors of two",
        "real2 v = ((const real2*)x)[2 * i], w = ((const real2*)x)[2 * i + 1];
         real2 r; r.x = v.x * w.y - a * v.y; r.y = v.y * w.x + v.x; ((real2*)out)[2 * i + 1] = r;",
    ),
    (
        "vectors of four",
        "real4 v = ((const real4*)x)[i]; real4 r = v; r.x = v.y * v.z; r.w *= a; ((real4*)out)[i] = r;",
    ),
    ("one member of four", "real4 v = ((const real4*)x)[i]; t[1] = v.z * v.z * a;"),
    (
        "choices within choices",
        "real u = s[0] > 0 ? (s[1] > a ? s[0] * s[1] : s[2] / 3) : (s[2] > 0 ? s[2] * s[2] : -s[0] * a);
         t[0] = u * (s[3] > u ? s[3] : u);",
    ),
    (
        "least and largest",
        "t[0] = min(s[0], s[1]) * max(s[2], a); t[1] = max(min(s[0], s[3]), min(s[1], s[2])); t[2] = fmin(fmax(s[3], -a), a) * s[0];",
    ),
    (
        "divisions that are not chosen",
        "real d = s[0] > 0 ? s[0] : real(0); real q = s[1] / d; t[0] = d > 0 ? q : s[1]; t[1] = d > 0 ? sqrt(d) : s[2];",
    ),
    (
        "early returns in branches",
        "real u = s[0] * a; if (u > 0) { if (s[1] > 0) { t[0] = u * s[1]; return; } u += s[2]; } else if (s[3] < 0) return;
         t[1] = u * u; if (s[2] < 0) return; t[2] = u * s[2] * a;",
    ),
    (
        "a stencil",
        "unsigned l = (i + n - 1) % n, r = (i + 1) % n;
         t[0] = x[4 * l] * x[4 * r] - 2 * a * s[0] * x[4 * l + 1];",
    ),
    (
        "sums of others",
        "unsigned j = (i * 7 + 1) % n, k = (i * 3) % n; real f = a * (x[4 * j] - x[4 * k]) * s[1];
         atomicAdd(&y[4 * j], f); atomicAdd(&y[4 * k + 1], -f * s[0]);",
    ),
    (
        "functions that are not inlined",
        "pair p = both(s[0], s[1]); real u = s[2]; change(u, a); t[0] = p.first * u; t[1] = p.second - u;",
    ),
    ("copies", "t[0] = s[1]; t[1] = s[0]; t[2] = -s[3]; t[3] = a;"),
    ("numbers that are cut off", "int k = int(s[0] * 3); t[0] = s[1] * k + floor(s[2]) * a; t[1] = s[0] - trunc(s[0]);"),
    (
        "roots and signs",
        "t[0] = sqrt(s[0] * s[0] + 1) * fabs(s[1]); t[1] = copysign(s[2] * s[2], s[3]); t[2] = 1 / sqrt(2 + s[0]);
         t[3] = rsqrt(3 + s[1]) * a;",
    ),
    ("fused", "t[0] = fma(s[0], s[1], a); t[1] = fma(-s[0], s[0], s[2] * s[3]); t[2] = fma(a, a, -s[1]);"),
    ("wider numbers", "t[0] = real(double(s[0]) * double(s[1]) + a); t[1] = real(double(s[2]) * s[3]) * s[2];"),
    (
        "branches that meet with several values",
        "real u, v; if (s[0] > 0) { u = s[1] * a; v = u * s[2]; } else { v = s[1]; u = v - s[2] * s[0]; }
         if (s[3] > 0) { real w = u; u = v; v = w * a; } t[0] = u * v; t[1] = u - v;",
    ),
    (
        "a switch",
        "switch (i % 4) { case 0: t[0] = s[0] * s[1]; break; case 1: t[0] = s[1] / (3 + s[0]); // falls through
         case 2: t[1] = a * s[0]; break; default: t[2] = s[3] * s[3] * s[3]; }",
    ),
    ("one number for many threads", "t[0] = x[0] * s[1]; t[1] = x[5 % (4 * n)] * x[0] * a;"),
];

fn program<T: Number>(kernel: &str) -> Program {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    let vector = if T::SUFFIX == "f32" {
        "typedef float4 real4;"
    } else {
        "struct alignas(16) real4 { double x, y, z, w; };"
    };
    Program::new(format!(
        "typedef {real} real; typedef {real}2 real2; {vector}
         struct pair {{ real first, second; }};
         __noinline__ __device__ pair both(real x, real y) {{ pair p = {{x * y, x - y * y}}; return p; }}
         __noinline__ __device__ void change(real& x, real y) {{ if (x > 0) x *= x * y; else x += y * y; }}
         {kernel}"
    ))
    .name("unseen.cu")
}

fn kernel<T: Number>(body: &str) -> Program {
    program::<T>(&format!(
        "extern \"C\" __global__ void f(real a, const real* x, real* y, real* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             const real* s = x + 4 * i; real* t = out + 4 * i;\n{body}
         }}"
    ))
}

fn four<T: Number>() -> Element {
    Element::vector(if T::SUFFIX == "f32" { FloatType::F32 } else { FloatType::F64 }, 4)
}

/// Whether a body uses y, and out.
fn uses(body: &str) -> [bool; 2] {
    [body.contains("y["), body.contains("t[") || body.contains("out)")]
}

fn uses_number(body: &str) -> bool {
    let apart = |c: char| !c.is_alphanumeric() && c != '_' && c != '.';
    body.split(apart).any(|word| word == "a")
}

fn spec<T: Number>(body: &str) -> OpSpec {
    let active = |param: Param, used: bool| if used { param.active() } else { param };
    let [y, out] = uses(body);
    let buffer = |name| Param::buffer(name, four::<T>()).len("n");
    OpSpec::new("f")
        .param(active(Param::scalar("a", <T as Number>::ELEMENT), uses_number(body)))
        .param(buffer("x").active())
        .param(active(buffer("y"), y))
        .param(active(buffer("out"), out))
        .param(Param::value("n"))
}

/// The inputs of a kernel: a, x, y, and what lies in out before.
#[derive(Clone)]
struct Inputs {
    n: usize,
    numbers: Vec<f64>,
    weights: Vec<f64>,
}

impl Inputs {
    fn new(rng: &mut Rng, n: usize) -> Self {
        // Numbers that floats hold exactly.
        let mut draw =
            |count: usize| (0..count).map(|_| f64::from(1.5 * rng.float())).collect::<Vec<_>>();
        let mut numbers = draw(1 + 12 * n);
        if let Some(a) = numbers.first_mut() {
            *a = 0.75;
        }
        Self { n, numbers, weights: draw(8 * n) }
    }

    fn part(&self, part: usize) -> &[f64] {
        let from = 1 + part * 4 * self.n;
        self.numbers.get(from..from + 4 * self.n).unwrap_or(&[])
    }
}

fn upload<T: Number>(stream: &Stream, numbers: &[f64]) -> Result<DeviceBuffer<T>> {
    let numbers: Vec<T> = numbers.iter().map(|&x| T::of(x)).collect();
    DeviceBuffer::from_slice(stream, &numbers)
}

/// The gradient by all inputs of the sum of y and out, each number with its weight.
fn gradient<T: Number>(
    stream: &Stream,
    op: &Op,
    inputs: &Inputs,
    block: u32,
    body: &str,
) -> Result<Vec<f64>> {
    let uses = uses(body);
    let n = inputs.n;
    let a = Variable::new(stream, T::of(inputs.numbers.first().copied().unwrap_or(0.0)))?;
    let x = upload::<T>(stream, inputs.part(0))?;
    let (y0, out0) = (upload::<T>(stream, inputs.part(1))?, upload::<T>(stream, inputs.part(2))?);
    let mut y = DeviceBuffer::<T>::zeroed(stream, 4 * n)?;
    let mut out = DeviceBuffer::<T>::zeroed(stream, 4 * n)?;
    let mut tape = Tape::record(stream, |t| {
        if uses_number(body) {
            t.watch(&a)?;
        }
        t.watch(&x)?;
        for (input, _) in [&y0, &out0].into_iter().zip(uses).filter(|(_, used)| *used) {
            t.watch(input)?;
        }
        t.copy(&y0, &mut y)?;
        t.copy(&out0, &mut out)?;
        t.launch(op, LaunchConfig::cover(n, block), (&a, &x, &mut y, &mut out, n as u32))
    })?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let (of_y, of_out) = inputs.weights.split_at(4 * n);
    let (of_y, of_out) = (upload::<T>(stream, of_y)?, upload::<T>(stream, of_out)?);
    let mut seeds = Seeds::new();
    for ((of, with), _) in
        [(&y, &of_y), (&out, &of_out)].into_iter().zip(uses).filter(|(_, used)| *used)
    {
        seeds = seeds.with(of, with)?;
    }
    tape.backward_with(stream, &seeds)?;
    let mut all = vec![tape.gradient(&a).map_or(Ok(0.0), |a| {
        a.to_vec(stream).map(|a: Vec<T>| a.first().map_or(f64::NAN, |a| a.to()))
    })?];
    for buffer in [&x, &y0, &out0] {
        match tape.gradient(buffer) {
            Ok(gradient) => all.extend(gradient.to_vec(stream)?.into_iter().map(T::to)),
            Err(_) => all.extend(vec![0.0; 4 * n]),
        }
    }
    Ok(all)
}

fn value(stream: &Stream, op: &Op, inputs: &Inputs, uses: [bool; 2]) -> Result<f64> {
    let n = inputs.n;
    let x = upload::<f64>(stream, inputs.part(0))?;
    let (mut y, mut out) =
        (upload::<f64>(stream, inputs.part(1))?, upload::<f64>(stream, inputs.part(2))?);
    let a = inputs.numbers.first().copied().unwrap_or(0.0);
    Tape::record(stream, |t| {
        t.launch(op, LaunchConfig::cover(n, 64), (a, &x, &mut y, &mut out, n as u32))
    })?;
    let mut sum = 0.0;
    let weights = inputs.weights.chunks((4 * n).max(1));
    for ((buffer, weights), _) in
        [&y, &out].into_iter().zip(weights).zip(uses).filter(|(_, used)| *used)
    {
        sum += buffer.to_vec(stream)?.iter().zip(weights).map(|(value, w)| value * w).sum::<f64>();
    }
    Ok(sum)
}

fn compare(name: &str, given: &[f64], wanted: &[f64], most: f64) -> TestResult {
    ensure_eq!(given.len(), wanted.len(), "{name}");
    let largest = wanted.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for (at, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        ensure!(
            (given - wanted).abs() <= most * largest,
            "{name}: gradient {at} is {given}, not {wanted}"
        );
    }
    Ok(())
}

fn kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2301));
    let mut wrong = Vec::new();
    for (name, body) in BODIES {
        let mut one = || -> TestResult {
            let wide = differentiate(device, spec::<f64>(body), &kernel::<f64>(body));
            let narrow = differentiate(device, spec::<f32>(body), &kernel::<f32>(body));
            let (wide, narrow) = (wide.map_err(failure)?, narrow.map_err(failure)?);
            for n in [0, 1, 3, 31, 32, 33, 1000] {
                let inputs = Inputs::new(&mut rng, n);
                let doubles = gradient::<f64>(&stream, &wide, &inputs, 32, body)?;
                for block in [1, 33, 1024] {
                    let floats = gradient::<f32>(&stream, &narrow, &inputs, block, body)?;
                    compare(&format!("floats, n = {n}, {block}"), &floats, &doubles, 2e-6)?;
                }
                // Some of all inputs, by differences.
                for _ in 0..if n == 0 { 0 } else { 25 } {
                    let at = rng.below(1 + 12 * n);
                    let mut sums = [0.0; 2];
                    for (sum, step) in sums.iter_mut().zip([1e-5, -1e-5]) {
                        let mut moved = inputs.clone();
                        if let Some(number) = moved.numbers.get_mut(at) {
                            *number += step;
                        }
                        *sum = value(&stream, &wide, &moved, uses(body))?;
                    }
                    let wanted = (sums[0] - sums[1]) / 2e-5;
                    let given = doubles.get(at).copied().unwrap_or(f64::NAN);
                    let size = if at == 0 { 100.0 } else { 1.0 } + wanted.abs();
                    ensure!(
                        (given - wanted).abs() <= 1e-8 * size,
                        "n = {n}: gradient {at} is {given}, not {wanted}"
                    );
                }
            }
            Ok(())
        };
        if let Err(error) = one() {
            wrong.push(format!("{name}: {error}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A grid of columns and rows, each with several blocks.
fn kernels_in_two_dimensions(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let source = program::<f64>(
        "extern \"C\" __global__ void f(real a, const real* x, real* out, unsigned w, unsigned h) {
             unsigned c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
             if (c >= w || r >= h) return;
             out[r * w + c] = a * x[r * w + c] * x[r * w + (c + 1) % w];
         }",
    );
    let buffer = |name| Param::buffer(name, Element::F64).active();
    let spec = OpSpec::new("f")
        .param(Param::scalar("a", Element::F64).active())
        .param(buffer("x"))
        .param(buffer("out"))
        .param(Param::value("w"))
        .param(Param::value("h"));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    ensure_eq!(op.derivation().map(|derivation| derivation.dimensions), Some(2));
    let (w, h) = (37usize, 21usize);
    let mut rng = device.rng(2302);
    let host: Vec<f64> = (0..w * h).map(|_| f64::from(rng.float())).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, w * h)?;
    let a = Variable::new(&stream, 0.5f64)?;
    let launch = LaunchConfig::new((5, 6), (8, 4));
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&a)?;
        t.watch(&x)?;
        t.launch(&op, launch, (&a, &x, &mut out, w as u32, h as u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f64; w * h])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let by_x = tape.gradient(&x)?.to_vec(&stream)?;
    let at = |r: usize, c: usize| host.get(r * w + c % w).copied().unwrap_or(f64::NAN);
    let mut by_a = 0.0;
    for r in 0..h {
        for c in 0..w {
            let wanted = 0.5 * (at(r, c + 1) + at(r, c + w - 1));
            let given = by_x.get(r * w + c).copied().unwrap_or(f64::NAN);
            ensure!((given - wanted).abs() <= 1e-14, "({r}, {c}): {given}, not {wanted}");
            by_a += at(r, c) * at(r, c + 1);
        }
    }
    let given = tape.gradient(&a)?.to_vec(&stream)?;
    ensure!(given.iter().all(|given| (given - by_a).abs() <= 1e-12), "{given:?}, not {by_a}");
    Ok(())
}

fn product<T: Number>(device: &TestDevice) -> Result<Op, Failure> {
    let source = program::<T>(
        "extern \"C\" __global__ void f(real a, const real* x, const real* z, real* out, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i < n) out[i] = a * x[i] * z[i];
         }",
    );
    let buffer = |name| Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
    let spec = OpSpec::new("f")
        .param(Param::scalar("a", <T as Number>::ELEMENT).active())
        .param(buffer("x"))
        .param(buffer("z"))
        .param(buffer("out"))
        .param(Param::value("n"));
    differentiate(device, spec, &source).map_err(failure)
}

/// Views that begin at each of the first elements, and overlap.
fn views_at_odd_elements(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, product::<f32>(device)?);
    let host: Vec<f32> = (0..200).map(|i| (i % 13) as f32 - 5.0).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let at = |i: usize| host.get(i).copied().unwrap_or(f32::NAN);
    for (one, two, to) in [(1, 1, 1), (0, 1, 3), (3, 1, 0), (2, 34, 5), (7, 7, 2)] {
        let n = 150usize;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, 200)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let (x, z) = (x.slice(one..one + n)?, x.slice(two..)?);
            t.launch(&op, threads(n), (0.5f32, x, z, out.slice_mut(to..)?, n as u32))
        })?;
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 200])?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let mut wanted = vec![0.0f32; 200];
        for i in 0..n {
            wanted[one + i] += 0.5 * at(two + i);
            wanted[two + i] += 0.5 * at(one + i);
        }
        ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, wanted, "{one}, {two}, {to}");
    }
    Ok(())
}

fn threads(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n, 64)
}

/// The same memory as an input and as the output, and where the kernel reads it after it wrote to it.
fn one_buffer_for_two_parameters(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let op = product::<f64>(device)?;
    let host = [1.5f64, -2.0, 0.25];
    let start = DeviceBuffer::from_slice(&stream, &host)?;
    let mut x = DeviceBuffer::<f64>::zeroed(&stream, 3)?;
    let memory = x.allocation().clone();
    // SAFETY: thread i reads element i before it writes it.
    let again = || unsafe { memory.view::<f64>(0..24) };
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&start)?;
        t.copy(&start, &mut x)?;
        t.launch(&op, threads(3), (0.5, again()?, again()?, &mut x, 3u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 3])?;
    tape.backward_with(&stream, &Seeds::new().with(&x, &ones)?)?;
    ensure_eq!(tape.gradient(&start)?.to_vec(&stream)?, host);

    let source = program::<f64>(
        "extern \"C\" __global__ void f(const real* x, real* one, real* two, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             one[i] = 3 * x[i];
             two[i] = x[i] * x[i];
         }",
    );
    let buffer = |name| Param::buffer(name, Element::F64).len("n").active();
    let spec = OpSpec::new("f")
        .param(buffer("x"))
        .param(buffer("one"))
        .param(buffer("two"))
        .param(Param::value("n"));
    let op = match differentiate(device, spec, &source) {
        Ok(op) => op,
        Err(DifferentiateError::NotDifferentiable(_)) => return Ok(()),
        Err(error) => return Err(failure(error)),
    };
    let mut two = DeviceBuffer::<f64>::zeroed(&stream, 3)?;
    // The kernel's two[i] is 9 x x: either that is differentiated, or refused.
    let recorded = Tape::record(&stream, |t| {
        t.watch(&start)?;
        t.copy(&start, &mut x)?;
        t.launch(&op, threads(3), (again()?, &mut x, &mut two, 3u32))
    });
    if let Ok(mut tape) = recorded {
        tape.backward_with(&stream, &Seeds::new().with(&two, &ones)?)?;
        let wanted = host.map(|x| 18.0 * x);
        ensure_eq!(tape.gradient(&start)?.to_vec(&stream)?, wanted);
    }
    Ok(())
}

/// Elements that no thread comes to would have no gradient.
fn too_few_threads(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, product::<f32>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &[2.0f32; 100])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 100)?;
    let recorded = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, LaunchConfig::new(1, 64), (0.5f32, &x, &x, &mut out, 100u32))
    });
    if let Ok(mut tape) = recorded {
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 100])?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let given = tape.gradient(&x)?.to_vec(&stream)?;
        let wanted: Vec<f32> = (0..100).map(|i| if i < 64 { 2.0 } else { 0.0 }).collect();
        ensure_eq!(given, wanted);
    }
    Ok(())
}

fn detached_parameters(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, product::<f32>(device)?);
    let x = DeviceBuffer::from_slice(&stream, &[3.0f32; 40])?;
    let z = DeviceBuffer::from_slice(&stream, &[5.0f32; 40])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 40)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 40])?;
    for (name, by_x, by_z) in [("x", None, Some(1.5f32)), ("z", Some(2.5), None)] {
        let op = op.detach(name)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.watch(&z)?;
            t.launch(&op, threads(40), (0.5f32, &x, &z, &mut out, 40u32))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        for (of, wanted) in [(&x, by_x), (&z, by_z)] {
            let given = tape.gradient(of).ok().map(|g| g.to_vec(&stream)).transpose()?;
            let given = given.filter(|given| given.iter().any(|g| *g != 0.0));
            ensure_eq!(given, wanted.map(|wanted| vec![wanted; 40]), "{name}");
        }
    }
    Ok(())
}

/// A number that is compared alone has no gradient, as `cohesion` in `dem`.
fn no_path_has_its_line(device: &TestDevice) -> TestResult {
    let body = "real gap = s[0] - s[1];\nif (gap > a)\n return;\nt[0] = gap * gap;";
    let found = differentiate(device, spec::<f32>(body), &kernel::<f32>(body));
    let error = match found {
        Err(DifferentiateError::NotDifferentiable(error)) => error,
        Err(other) => return Err(Failure::from(cuda_safe::Error::from(other))),
        Ok(_) => return Err(Failure::new("it was differentiated")),
    };
    ensure_eq!(error.refusals.len(), 1, "{error}");
    let refusal = error.refusals.first().ok_or_else(|| Failure::new("no reason"))?;
    ensure_eq!(refusal.reason, Reason::NoPath);
    ensure!(refusal.message.contains("`a`"), "{refusal}");
    // The body's first line is the ninth.
    ensure_eq!(refusal.user.as_ref().map(|at| at.line), Some(10));
    Ok(())
}

/// What is said of an adjoint by hand is refused of one that is generated.
fn said_of_the_adjoint(device: &TestDevice) -> TestResult {
    let body = "t[0] = a * s[0];";
    let base = || spec::<f32>(body);
    let all = [
        ("scratch", base().scratch(|_| 8)),
        ("shape", base().shape(|launch| *launch)),
        ("primal", base().primal("f", |_| 8)),
    ];
    for (name, spec) in all {
        match differentiate(device, spec, &kernel::<f32>(body)) {
            Err(DifferentiateError::Cuda(error)) => {
                ensure!(error.to_string().contains(name), "{error}");
            }
            other => {
                return Err(Failure::new(format!(
                    "{name}: {:?}",
                    other.map(|op| op.name().to_owned())
                )));
            }
        }
    }
    Ok(())
}
