//! Mathematical functions of CUDA, composed.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, nvrtc::Program};
use tape::{Gradcheck, OpSpec, Oracle, Param, Seeds, Tape};

use super::super::generated::{differentiate, failure, is_as_right_as_known};
use super::super::ops::Number;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::withheld",
        device(functions_composed),
        fault(functions_composed_of_floats).variables(&[("CUDA_EMU_TANGENTS", "1")]),
    ]
}

/// What thread i < n makes of its number x, into y.
const BODIES: [(&str, &str); 7] = [
    (
        "ten functions",
        "real t = tanh(x), u = exp(sin(t) + cos(x)), v = log1p(u * u), w = atan2(v, x + 3), e = erf(w - 1);
         real p = pow(fabs(x) + real(0.5), e + real(1.25)), h = hypot(p, v), c = cbrt(h + x), y = expm1(c * real(0.25)) + asinh(p * x);",
    ),
    (
        "in a loop",
        "real y = x; for (int k = 0; k < 5; ++k) y = sin(y * real(1.5)) + exp(-y * y) * log(2 + y * y) - atan(y * x);",
    ),
    (
        "in branches",
        "real y; if (x > 0) y = lgamma(x + 1) * sqrt(x + 1); else if (x > -1) y = acos(x * real(0.5)) + cosh(x); else y = sinh(x) / tan(x * real(0.25));",
    ),
    (
        "two results",
        "real s, c; sincos(x * 2, &s, &c); real y = s * c + s * s * s; sincospi(x, &s, &c); y += s * exp2(c);",
    ),
    (
        "of two arguments",
        "real y = pow(x * x + 1, x) + fmod(x + 7, real(2.5)) * x + fdim(x, real(0.25)) + hypot(x, x * x) + atan2(x, -x * x - 1)
             + copysign(exp(x), x) + fmax(sin(x), cos(x));",
    ),
    (
        "rarer ones",
        "real y = erfc(x) + erfcx(x + 2) + normcdf(x) + rcbrt(x + 4) + log2(x + 3) + log10(x + 3) + exp10(x * real(0.25)) + atanh(x * real(0.375))
             + acosh(x * x + 2) + tgamma(x + 4) + rhypot(x, 1) + j0(x) + y1(x + 3) + norm3d(x, real(1), x * x) + sinpi(x) + cospi(x);",
    ),
    (
        "what is not chosen",
        "real l = log(x), r = sqrt(x); real y = x > 0 ? l * r + x : x * x; y += x < 0 ? pow(-x, real(1.5)) : x;",
    ),
];

/// Functions without an overload for `float`.
const OF_C: [&str; 26] = [
    "sincos", "sincospi", "lgamma", "erfc", "erfcx", "normcdf", "rcbrt", "exp10", "tgamma",
    "rhypot", "j0", "y1", "norm3d", "sinpi", "cospi", "fdim", "hypot", "cbrt", "erf", "expm1",
    "log1p", "asinh", "acosh", "atanh", "exp2", "log2",
];

fn program<T: Number>(body: &str) -> Program {
    let (real, body) = if T::SUFFIX == "f32" {
        let calls: Vec<String> = body
            .split('(')
            .map(|before| {
                let is_of_c = |name: &&&str| {
                    let rest = before.strip_suffix(**name);
                    rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric()))
                };
                if OF_C.iter().any(|name| is_of_c(&name)) {
                    format!("{before}f")
                } else {
                    before.to_owned()
                }
            })
            .collect();
        ("float", calls.join("("))
    } else {
        ("double", body.to_owned())
    };
    Program::new(format!(
        "typedef {real} real;
         extern \"C\" __global__ void f(const real* in, real* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             real x = in[i];
             {body}
             out[i] = y;
         }}"
    ))
    .name("functions.cu")
}

fn spec<T: Number>() -> OpSpec {
    let buffer = |name| Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
    OpSpec::new("f").param(buffer("in")).param(buffer("out")).param(Param::value("n"))
}

fn gradients<T: Number>(device: &TestDevice, body: &str, x: &[f64]) -> Result<Vec<f64>, Failure> {
    let stream = device.stream()?;
    let op = differentiate(device, spec::<T>(), &program::<T>(body)).map_err(failure)?;
    let upload = |numbers: &[f64]| {
        let numbers: Vec<T> = numbers.iter().map(|x| T::of(*x)).collect();
        DeviceBuffer::from_slice(&stream, &numbers)
    };
    let (given, ones) = (upload(x)?, upload(&vec![1.0; x.len()])?);
    let mut out = DeviceBuffer::<T>::zeroed(&stream, x.len())?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&given)?;
        t.launch(&op, LaunchConfig::cover(x.len(), 64), (&given, &mut out, x.len() as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    Ok(tape.gradient(&given)?.to_vec(&stream)?.into_iter().map(T::to).collect())
}

/// The derivative of the kernel of doubles, by differences of sixth order.
fn differences(device: &TestDevice, body: &str, x: &[f64]) -> Result<Vec<f64>, Failure> {
    const H: f64 = 1e-4;
    let stream = device.stream()?;
    let forward = Module::compile(device.context(), program::<f64>(body))?.kernel("f")?;
    let at = |by: f64| -> Result<Vec<f64>, Failure> {
        let moved: Vec<f64> = x.iter().map(|x| x + by).collect();
        let given = DeviceBuffer::from_slice(&stream, &moved)?;
        let mut out = DeviceBuffer::<f64>::zeroed(&stream, x.len())?;
        let launch = LaunchConfig::cover(x.len(), 64);
        // SAFETY: thread i touches element i of both buffers, and only if i < n.
        unsafe { forward.launch(&stream, launch, (&given, &mut out, x.len() as u32)) }?;
        Ok(out.to_vec(&stream)?)
    };
    let [a, b, c, d] = [at(H)?, at(-H)?, at(2.0 * H)?, at(-2.0 * H)?];
    let [e, f] = [at(3.0 * H)?, at(-3.0 * H)?];
    let slope =
        |i: usize| (45.0 * (a[i] - b[i]) - 9.0 * (c[i] - d[i]) + (e[i] - f[i])) / (60.0 * H);
    Ok((0..x.len()).map(slope).collect())
}

/// Numbers that are not near those at which a branch is left: differences would cross it.
fn inputs() -> Vec<f64> {
    let mut rng = Rng::new(2411);
    let branches = [-1.0, -0.5, 0.0, 0.25, 0.5, 0.785];
    let draw = |_| f64::from(1.9 * rng.float());
    (0..400).map(draw).filter(|x| branches.iter().all(|at| (x - at).abs() > 0.01)).collect()
}

/// The derivatives of doubles say little of those of floats, whose values round at each function: tangents are those at
/// the values of the kernel.
fn functions_composed_of_floats(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    // Differences, which a GPU has instead, launch the kernel for each number, and know less.
    let most = if device.runs_machine_code() { 33 } else { usize::MAX };
    let host: Vec<f32> = inputs().into_iter().take(most).map(|x| x as f32).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    for (name, body) in BODIES {
        let op = differentiate(device, spec::<f32>(), &program::<f32>(body)).map_err(failure)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, host.len())?;
        let launch = LaunchConfig::cover(host.len(), 64);
        let check = match device.runs_machine_code() {
            true => Gradcheck::new(),
            false => Gradcheck::new().oracle(Oracle::Tangents).tolerance(2e-6),
        };
        let report = check.run(&stream, &op, launch, (&x, &mut out, host.len() as u32))?;
        ensure!(is_as_right_as_known(device, &report), "{name}: {report}");
    }
    Ok(())
}

fn functions_composed(device: &TestDevice) -> TestResult {
    let mut wrong = Vec::new();
    for (name, body) in BODIES {
        let one = || -> TestResult {
            let x = inputs();
            let doubles = gradients::<f64>(device, body, &x)?;
            let wanted = differences(device, body, &x)?;
            for ((x, double), wanted) in x.iter().zip(&doubles).zip(&wanted) {
                let is_near = (double - wanted).abs() <= 1e-9 * (1.0 + wanted.abs());
                ensure!(is_near, "at {x}: {double}, not {wanted}");
            }
            Ok(())
        };
        if let Err(error) = one() {
            wrong.push(format!("{name}: {error}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}
