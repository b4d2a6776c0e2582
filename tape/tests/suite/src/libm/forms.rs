//! The names under which a program calls the functions, functions with several results, and those without a derivative.

use cuda_safe::nvrtc::{Arch, Program};
use cuda_safe::{DeviceBuffer, LaunchConfig};
use tape::ptx_ad::{Reason, Refusal};
use tape::{DifferentiateError, Seeds, Tape};

use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use super::{function, is_refused, refusals, spec};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::libm",
        device(names),
        device(functions_with_several_results),
        device(compositions),
        device(functions_in_loops),
        device(functions_without_a_derivative_are_named),
        device(fast_functions),
        device(functions_in_other_ptx_are_refused),
    ]
}

/// A kernel's results and the derivatives of their sum, by x.
struct Ran {
    out: Vec<f64>,
    gradient: Vec<f64>,
}

fn run_program<T: Number>(
    device: &TestDevice,
    program: &Program,
    x: &[f64],
) -> Result<Ran, Failure> {
    let op = differentiate(device, spec::<T>(), program).map_err(failure)?;
    let stream = device.stream()?;
    let numbers: Vec<T> = x.iter().map(|&x| T::of(x)).collect();
    let (from, count) = (DeviceBuffer::from_slice(&stream, &numbers)?, x.len());
    let mut out = DeviceBuffer::<T>::zeroed(&stream, count)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&from)?;
        let launch = LaunchConfig::cover(count, 32);
        t.launch(&op, launch, (T::of(0.75), &from, &mut out, count as u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![T::of(1.0); count])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let all = |values: Vec<T>| values.into_iter().map(T::to).collect();
    let gradient = all(tape.gradient(&from)?.to_vec(&stream)?);
    Ok(Ran { out: all(out.to_vec(&stream)?), gradient })
}

fn run<T: Number>(
    device: &TestDevice,
    before: &str,
    body: &str,
    x: &[f64],
) -> Result<Ran, Failure> {
    run_program::<T>(device, &function::<T>(before, body), x)
}

/// Fails if a derivative differs from a formula by more than 2e-6, or 1e-13 of double, relative to its magnitude or 1.
fn compare<T: Number>(
    device: &TestDevice,
    before: &str,
    body: &str,
    x: &[f64],
    formula: impl Fn(f64) -> f64,
) -> TestResult {
    let ran = run::<T>(device, before, body, x)?;
    let most = if T::SUFFIX == "f32" { 2e-6 } else { 1e-13 };
    for (&x, &given) in x.iter().zip(&ran.gradient) {
        let wanted = formula(T::of(x).to());
        let error = (given - wanted).abs() / wanted.abs().max(1.0);
        ensure!(error <= most, "{before} {body} at {x}: {given}, not {wanted}");
    }
    Ok(())
}

const POINTS: [f64; 6] = [-2.5, -0.75, 0.25, 1.0, 1.5, 3.125];

/// `::sinf`, overloads, the names of the standard library, pointers, and what the program itself calls so.
fn names(device: &TestDevice) -> TestResult {
    let sine = |x: f64| x.cos();
    for body in [
        "out[i] = ::sinf(x[i]);",
        "out[i] = sin(x[i]);",
        "out[i] = std::sin(x[i]);",
        "out[i] = std::sinf(x[i]);",
        "using std::sin; out[i] = sin(x[i]);",
        "float (*f)(float) = sinf; out[i] = f(x[i]);",
        "out[i] = applied<sinf>(x[i]);",
        "out[i] = SINE(sin)(x[i]);",
        "out[i] = with([](float v) { return sinf(v); }, x[i]);",
        "out[i] = both(x[i]);",
    ] {
        let before = "#include <cmath>
            #define SINE(name) name##f
            template <float f(float)> __device__ float applied(float v) { return f(v); }
            template <class F> __device__ float with(F f, float v) { return f(v); }
            __host__ __device__ float both(float v) { return sinf(v); }";
        compare::<f32>(device, before, body, &POINTS, sine)?;
    }
    compare::<f64>(device, "#include <cmath>", "out[i] = std::sin(x[i]);", &POINTS, sine)?;
    // A float in a program of doubles, and the other way round.
    let mixed = "out[i] = sinf((float)x[i]) + (double)cosf((float)x[i]);";
    let ran = run::<f64>(device, "", mixed, &[0.5])?;
    ensure!((ran.gradient[0] - (0.5f64.cos() - 0.5f64.sin())).abs() < 1e-6, "{:?}", ran.gradient);
    compare::<f32>(device, "", "out[i] = (float)sin((double)x[i]);", &POINTS, sine)?;
    // Members, variables, functions and macros of the program.
    let own = "struct Wave { float exp; __device__ float sin() const { return 3 * exp; } };
        namespace mine { __device__ float pow(float a, float b) { return a * b; } }
        struct Pair { float x, y; };
        __device__ Pair exp(Pair p) { return {expf(p.x), exp(p.y)}; }
        __device__ float norm(Pair p) { return hypotf(p.x, p.y); }";
    let body =
        "Wave w = {x[i]}; float y1 = w.sin(), j0 = w.exp; out[i] = y1 * j0 + mine::pow(j0, 2);";
    compare::<f32>(device, own, body, &POINTS, |x| 6.0 * x + 2.0)?;
    let body = "Pair p = {x[i], 2 * x[i]}; out[i] = norm(exp(p));";
    compare::<f32>(device, own, body, &POINTS, |x| {
        let (a, b) = (x.exp(), (2.0 * x).exp());
        (a * a + 2.0 * b * b) / a.hypot(b)
    })
}

/// What comes out by pointers, and what integers come out beside.
fn functions_with_several_results(device: &TestDevice) -> TestResult {
    let pi = std::f64::consts::PI;
    let sum = |x: f64| x.cos() - 2.0 * x.sin();
    let sum_pi = move |x: f64| pi * ((pi * x).cos() - 2.0 * (pi * x).sin());
    let single = |body: &str, formula: &dyn Fn(f64) -> f64| {
        compare::<f32>(device, "", body, &POINTS, formula)
    };
    let double = |body: &str, formula: &dyn Fn(f64) -> f64| {
        compare::<f64>(device, "", body, &POINTS, formula)
    };
    single("float s, c; sincosf(x[i], &s, &c); out[i] = s + 2 * c;", &sum)?;
    single("float s, c; sincos(x[i], &s, &c); out[i] = s + 2 * c;", &sum)?;
    single("float s, c; __sincosf(x[i], &s, &c); out[i] = s + 2 * c;", &sum)?;
    double("double s, c; sincos(x[i], &s, &c); out[i] = s + 2 * c;", &sum)?;
    single("float s, c; sincospif(x[i], &s, &c); out[i] = s + 2 * c;", &sum_pi)?;
    double("double s, c; sincospi(x[i], &s, &c); out[i] = s + 2 * c;", &sum_pi)?;
    // 1.3 x = whole + part
    for (f, real) in [("modff", false), ("modf", false), ("modf", true)] {
        let body = format!("real w, p = {f}(real(1.3) * x[i], &w); out[i] = p * x[i] + w * 2;");
        let formula = |x: f64| {
            let y = if real { 1.3 * x } else { f64::from(1.3f32) * x };
            1.3 * x + y.fract()
        };
        if real { double(&body, &formula)? } else { single(&body, &formula)? }
    }
    // x = part 2^e
    for f in ["frexpf", "frexp"] {
        let body = format!("int e; real p = {f}(x[i], &e); out[i] = p * e;");
        single(&body, &|x: f64| {
            let e = x.abs().log2().floor() + 1.0;
            e * (-e).exp2()
        })?;
    }
    for f in ["ldexpf", "ldexp", "scalbnf", "scalbn", "scalblnf", "scalbln"] {
        single(&format!("out[i] = {f}(x[i] * x[i], 3);"), &|x: f64| 16.0 * x)?;
    }
    double("out[i] = ldexp(x[i] * x[i], 3) + scalbln(x[i], -2);", &|x: f64| 16.0 * x + 0.25)?;
    // 5x - q y with y = x² + 1.1
    let quotient = |x: f64| (5.0 * x / (x * x + 1.1)).round_ties_even();
    let remquo = "int q; real r = remquo(5 * x[i], x[i] * x[i] + real(1.1), &q); out[i] = r + (q & 7) * x[i];";
    double(remquo, &|x: f64| {
        let q = quotient(x);
        5.0 - 2.0 * q * x + f64::from(q as i32 & 7)
    })?;
    // Lengths of arrays, of known and unknown size.
    for count in ["3", "(int)n - 3"] {
        let body = format!(
            "real v[3] = {{x[i], x[i] * x[i], 2}}; out[i] = norm({count}, v) + 3 * rnorm({count}, v);"
        );
        double(&body, &|x: f64| {
            let r = (x * x + x.powi(4) + 4.0).sqrt();
            let slope = (x + 2.0 * x.powi(3)) / r;
            slope - 3.0 * slope / (r * r)
        })?;
        let body = format!("real v[3] = {{x[i], x[i], 1}}; out[i] = normf({count}, v);");
        single(&body, &|x: f64| 2.0 * x / (2.0 * x * x + 1.0).sqrt())?;
    }
    // Integer powers.
    let powers = |x: f64| 3.0 * x * x - 2.0 / (x * x * x);
    single("out[i] = pow(x[i], 3) + pow(x[i], -2);", &powers)?;
    double("out[i] = pow(x[i], 3) + pow(x[i], -2);", &powers)?;
    // Steps are constants.
    for f in [
        "round",
        "logb",
        "ilogb",
        "lround",
        "llround",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "nearbyint",
        "lrint",
    ] {
        let ran = run::<f32>(device, "", &format!("out[i] = {f}(x[i]) * x[i];"), &POINTS)?;
        for ((x, out), given) in POINTS.iter().zip(&ran.out).zip(&ran.gradient) {
            let wanted = out / x;
            ensure!(
                (given - wanted).abs() <= 1e-6 * wanted.abs(),
                "{f} at {x}: {given}, not {wanted}"
            );
        }
    }
    Ok(())
}

/// Ten functions in one expression, whose derivative is compared with differences of a port to Rust.
fn compositions(device: &TestDevice) -> TestResult {
    let body = "real v = x[i];
        real s = sin(v) + tanh(v * a);
        real p = pow(s * s + 1, real(1.5)) - log1p(exp(-v));
        real q = atan2(p, hypot(v, a)) + cbrt(s + 3);
        out[i] = erf(q - 1) * sqrt(p * p + 1) + asinh(p);";
    let ported = |v: f64| {
        let a = 0.75;
        let s = v.sin() + (v * a).tanh();
        let p = (s * s + 1.0).powf(1.5) - (-v).exp().ln_1p();
        let q = p.atan2(v.hypot(a)) + (s + 3.0).cbrt();
        erf(q - 1.0) * (p * p + 1.0).sqrt() + p.asinh()
    };
    let slope = |v: f64| {
        // Of the sixth order.
        let h = 1e-3;
        let d = |k: f64| (ported(v + k * h) - ported(v - k * h)) / h;
        1.5 / 2.0 * d(1.0) - 0.3 / 2.0 * d(2.0) + d(3.0) / 60.0
    };
    let mut rng = Rng::new(911);
    let x: Vec<f64> = (0..200).map(|_| f64::from(2.0 * rng.float())).collect();
    for (most, given) in [
        (1e-9, run::<f64>(device, "", body, &x)?.gradient),
        (1e-4, run::<f32>(device, "", body, &x)?.gradient),
    ] {
        for (x, given) in x.iter().zip(given) {
            let wanted = slope(*x);
            ensure!(
                (given - wanted).abs() <= most * wanted.abs().max(1.0),
                "at {x}: {given}, not {wanted}"
            );
        }
    }
    Ok(())
}

/// The error function, by its series.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// Values that a loop carries through functions, by forward differentiation in f64.
fn functions_in_loops(device: &TestDevice) -> TestResult {
    let body = "real s = x[i];
        for (unsigned k = 0; k < n + i % 5; ++k) s = sin(s) * exp(-s * s) + pow(s * s + 1, real(0.3)) * a;
        out[i] = s;";
    let x: Vec<f64> = (0..33).map(|k| f64::from(k) / 11.0 - 1.5).collect();
    for (most, ran) in
        [(1e-12, run::<f64>(device, "", body, &x)?), (2e-5, run::<f32>(device, "", body, &x)?)]
    {
        for (at, (x, given)) in x.iter().zip(&ran.gradient).enumerate() {
            let (mut s, mut d) = (*x, 1.0);
            for _ in 0..33 + at % 5 {
                let (e, base) = ((-s * s).exp(), s * s + 1.0);
                d *= s.cos() * e - 2.0 * s * s.sin() * e + 0.75 * 0.6 * s * base.powf(-0.7);
                s = s.sin() * e + base.powf(0.3) * 0.75;
            }
            ensure!((given - d).abs() <= most * d.abs().max(1e-3), "at {x}: {given}, not {d}");
        }
    }
    Ok(())
}

/// The line and the name are in the message.
fn functions_without_a_derivative_are_named(device: &TestDevice) -> TestResult {
    for (call, name) in [
        ("nextafterf(y, 2.0f)", "nextafterf"),
        ("nextafter(y, 2.0f)", "nextafter"),
        ("(float)nextafter((double)y, 2.0)", "nextafter"),
    ] {
        let body = format!("float y = a * x[i];\nout[i] = {call};");
        let found = refusals(device, &body)?;
        let words = format!("`{name}`");
        ensure!(is_refused(&found, &Reason::Lost, 8, &words), "{call}: {found:?}");
        ensure_eq!(found.len(), 1);
    }
    // Of constants and in comparisons they are fine.
    let body = "out[i] = nextafterf(x[i], 9.0f) > 1 ? 3 * x[i] : x[i] * nextafterf(2.0f, a > 0 ? 3.0f : 1.0f);";
    let ran = run::<f32>(device, "", body, &[0.5, 2.0])?;
    for (given, wanted) in ran.gradient.iter().zip([2.0, 3.0]) {
        ensure!((given - wanted).abs() < 1e-6, "{given}, not {wanted}");
    }
    Ok(())
}

/// With `--use_fast_math` the derivatives are made of fast functions too.
fn fast_functions(device: &TestDevice) -> TestResult {
    let body =
        "out[i] = sinf(x[i]) * expf(-x[i]) + powf(x[i] * x[i] + 1, 1.5f) / (tanhf(x[i]) + 2);";
    let program = function::<f32>("", body).with_options(|options| options.fast_math(true));
    let ran = run_program::<f32>(device, &program, &POINTS)?;
    for (&x, given) in POINTS.iter().zip(ran.gradient) {
        let (e, t, p) = ((-x).exp(), x.tanh(), x * x + 1.0);
        let wanted = (x.cos() - x.sin()) * e + 3.0 * x * p.sqrt() / (t + 2.0)
            - p.powf(1.5) * (1.0 - t * t) / ((t + 2.0) * (t + 2.0));
        ensure!(
            (given - wanted).abs() <= 2e-5 * wanted.abs().max(1.0),
            "at {x}: {given}, not {wanted}"
        );
    }
    Ok(())
}

/// Without the markers, what the compiler has inlined takes numbers apart.
fn functions_in_other_ptx_are_refused(device: &TestDevice) -> TestResult {
    let context = device.context();
    let (major, minor) = context.device().compute_capability()?;
    let version = context.driver().version()?;
    for call in
        ["sinf(y)", "expf(y)", "logf(y)", "powf(y, y)", "tgammaf(y)", "(float)exp((double)y)"]
    {
        let program = function::<f32>("", &format!("float y = a * x[i]; out[i] = {call};"));
        let program = program.with_options(|options| options.lineinfo(true));
        let image = program.compile_for_driver(Arch::compute(major, minor), version)?;
        let text = image.ptx.unwrap_or_default();
        // SAFETY: thread i of the kernel touches element i alone, and only if i < n.
        let made = unsafe { spec::<f32>().differentiate_ptx(context, &text) };
        let Err(DifferentiateError::NotDifferentiable(error)) = made else {
            return Err(Failure::new(format!("{call}: {made:?}")));
        };
        let is_bits = |refusal: &Refusal| refusal.reason == Reason::Bits;
        ensure!(error.refusals.iter().any(is_bits), "{call}: {error}");
    }
    Ok(())
}
