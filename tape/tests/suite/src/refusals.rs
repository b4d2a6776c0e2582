//! Bad input of `OpSpec::differentiate`: an error names the argument or the line, and the context works on. And launches
//! of other shapes, and outputs without a gradient.

use cuda_safe::{DeviceBuffer, LaunchConfig, nvrtc::Program};
use tape::ptx_ad::Reason;
use tape::{DifferentiateError, Element, Op, OpSpec, Param, Seeds, Tape};

use super::generated::{differentiate, failure};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::refusals",
        device(specifications),
        device(kernels),
        // Any error will do, also that of a fault.
        fault(texts),
        device(texts_without_lines),
        device(three_dimensions),
        device(outputs_without_a_gradient),
        device(numbers_that_are_special),
    ]
}

fn program(kernel: &str) -> Program {
    Program::new(kernel).name("bad.cu")
}

/// `f`, where thread i < n does what `body` says; the body's first line is the fifth.
fn with_body(before: &str, body: &str) -> Program {
    program(&format!(
        "{before}
         extern \"C\" __global__ void f(float a, const float* x, float* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
{body}
         }}"
    ))
}

fn buffer(name: &'static str) -> Param {
    Param::buffer(name, Element::F32).len("n").active()
}

fn spec() -> OpSpec {
    OpSpec::new("f")
        .param(Param::scalar("a", Element::F32).active())
        .param(buffer("x"))
        .param(buffer("out"))
        .param(Param::value("n"))
}

const GOOD: &str = "out[i] = a * x[i] * x[i];";

/// Fails unless a kernel is differentiated and its gradient is right: nothing was left behind.
fn works(device: &TestDevice) -> TestResult {
    let op = differentiate(device, spec(), &with_body("", GOOD)).map_err(failure)?;
    is_right(device, &op)
}

fn is_right(device: &TestDevice, op: &Op) -> TestResult {
    let stream = device.stream()?;
    let host: Vec<f32> = (0..40).map(|i| i as f32 / 8.0).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 40)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(op, LaunchConfig::cover(40, 32), (0.5f32, &x, &mut out, 40u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 40])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, host);
    Ok(())
}

fn specifications(device: &TestDevice) -> TestResult {
    let good = || with_body("", GOOD);
    let a = || Param::scalar("a", Element::F32).active();
    let n = || Param::value("n");
    let cases = [
        ("no such kernel", "`g`", OpSpec::new("g").param(buffer("x"))),
        ("one parameter less", "4", OpSpec::new("f").param(a()).param(buffer("x")).param(n())),
        ("one parameter more", "5", spec().param(Param::value("m"))),
        (
            "a number that is a pointer",
            "bad.cu:5",
            OpSpec::new("f")
                .param(a())
                .param(Param::scalar("x", Element::F32).active())
                .param(buffer("out"))
                .param(n()),
        ),
        (
            "a pointer that is a number",
            "a",
            OpSpec::new("f").param(buffer("a")).param(buffer("x")).param(buffer("out")).param(n()),
        ),
        (
            "an active buffer of integers",
            "x",
            OpSpec::new("f")
                .param(a())
                .param(Param::buffer("x", Element::bytes(4)).len("n").active())
                .param(buffer("out"))
                .param(n()),
        ),
        (
            "an active integer",
            "n",
            OpSpec::new("f")
                .param(a())
                .param(buffer("x"))
                .param(buffer("out"))
                .param(Param::scalar("n", Element::F32).active()),
        ),
        (
            "numbers of another type",
            "bad.cu:5",
            OpSpec::new("f")
                .param(a())
                .param(Param::buffer("x", Element::F64).len("n").active())
                .param(buffer("out"))
                .param(n()),
        ),
        (
            "nothing is active",
            "active",
            OpSpec::new("f")
                .param(Param::scalar("a", Element::F32))
                .param(Param::buffer("x", Element::F32).len("n"))
                .param(Param::buffer("out", Element::F32).len("n"))
                .param(n()),
        ),
        (
            "no output is active",
            "no active output",
            OpSpec::new("f")
                .param(a())
                .param(buffer("x"))
                .param(Param::buffer("out", Element::F32).len("n"))
                .param(n()),
        ),
        ("a shape of the adjoint", "shape", spec().shape(|launch| *launch)),
    ];
    for (what, words, spec) in cases {
        let error = match differentiate(device, spec, &good()) {
            Err(error) => error.to_string(),
            Ok(_) => return Err(Failure::new(format!("{what}: it was differentiated"))),
        };
        ensure!(error.contains(words), "{what}: {error}");
    }
    works(device)
}

fn refusals(device: &TestDevice, program: &Program) -> Result<Vec<tape::ptx_ad::Refusal>, Failure> {
    match differentiate(device, spec(), program) {
        Err(DifferentiateError::NotDifferentiable(error)) => Ok(error.refusals),
        Err(other) => Err(failure(other)),
        Ok(_) => Err(Failure::new("it was differentiated")),
    }
}

fn kernels(device: &TestDevice) -> TestResult {
    let line = |before: &str, body: &str, reason: Reason, line: u32| -> TestResult {
        let found = refusals(device, &with_body(before, body))?;
        let at = |refusal: &&tape::ptx_ad::Refusal| {
            let user = refusal.user.as_ref();
            refusal.reason == reason
                && user.is_some_and(|user| user.line == line && user.file.ends_with("bad.cu"))
        };
        ensure!(found.iter().find(at).is_some(), "{reason:?} at line {line}: {found:?}");
        Ok(())
    };
    line(
        "__noinline__ __device__ float f1(float x, unsigned n) { return n < 2 ? x : x * f1(x, n - 1) + f1(x * x, n - 2); }",
        "out[i] = f1(x[i], n);",
        Reason::Recursion,
        1,
    )?;
    line(
        "typedef float (*F)(float); __device__ float f1(float x) { return x * x; } __device__ float f2(float x) { return x; }",
        "F f = i % 2 ? f1 : f2; if (a > 3) f = (F)out;\nout[i] = f(x[i]);",
        Reason::Indirect,
        6,
    )?;
    line("", "float y = x[i];\nfor (;;) {\n y *= a;\n out[i] = y; }", Reason::Loop, 8)?;
    line("", "out[i] = a;\nif (x[i] > a)\n out[i] = 2;", Reason::NoPath, 6)?;
    line(
        "__device__ float v[4];",
        "v[i % 4] = x[i];\nout[i] = a * x[i] * v[0];",
        Reason::ModuleGlobal,
        5,
    )?;
    let debug = with_body("", GOOD).with_options(|options| options.debug(true));
    match differentiate(device, spec(), &debug) {
        Err(DifferentiateError::NotDifferentiable(error)) => {
            ensure_eq!(error.refusals[0].reason, Reason::Debug);
            ensure!(error.to_string().contains("-G"), "{error}");
        }
        Err(other) => return Err(failure(other)),
        Ok(_) => return Err(Failure::new("it was differentiated")),
    }
    works(device)
}

/// The kernel of [`GOOD`], of another compiler, without places in a source.
const TEXT: &str = ".version 7.0
.target sm_60
.address_size 64
.visible .entry f(.param .f32 a, .param .u64 x, .param .u64 out, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %w<6>;
    ld.param.f32 %f1, [a];
    ld.param.u64 %w1, [x];
    ld.param.u64 %w2, [out];
    ld.param.u32 %r4, [n];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    setp.ge.u32 %p, %r1, %r4;
    @%p bra END;
    cvta.to.global.u64 %w1, %w1; cvta.to.global.u64 %w2, %w2;
    mul.wide.u32 %w3, %r1, 4;
    add.u64 %w4, %w1, %w3;
    add.u64 %w5, %w2, %w3;
    ld.global.f32 %f2, [%w4];
    mul.f32 %f3, %f2, %f2;
    mul.f32 %f3, %f3, %f1;
    st.global.f32 [%w5], %f3;
END:
    ret;
}
";

fn from_text(device: &TestDevice, text: &str) -> Result<Op, DifferentiateError> {
    // SAFETY: thread i touches element i alone, and only if i < n; changed texts are not launched.
    unsafe { spec().differentiate_ptx(device.context(), text) }
}

fn texts_without_lines(device: &TestDevice) -> TestResult {
    is_right(device, &from_text(device, TEXT).map_err(failure)?)?;
    let text = TEXT.replace(
        "mul.f32 %f3, %f3, %f1;",
        "ex2.approx.f32 %f3, %f3; ld.volatile.global.f32 %f3, [%w4+4];",
    );
    let error = match from_text(device, &text) {
        Err(error) => error.to_string(),
        Ok(_) => return Err(Failure::new("it was differentiated")),
    };
    ensure!(error.contains("PTX line 21  "), "{error}");
    works(device)
}

/// Texts that end early, and that are changed: refused, or differentiated, but never a panic or a lost context.
fn texts(device: &TestDevice) -> TestResult {
    for text in ["", "hello", ".version 7.0\n.target sm_60\n.address_size 64\n"] {
        ensure!(from_text(device, text).is_err(), "{text}");
    }
    let mut rng = Rng::new(2380);
    let lines: Vec<&str> = TEXT.lines().collect();
    for _ in 0..60 {
        let cut = &TEXT[..rng.below(TEXT.len() - 3)];
        ensure!(from_text(device, cut).is_err(), "{cut}");
        let mut changed = lines.clone();
        let (a, b) = (4 + rng.below(lines.len() - 4), 4 + rng.below(lines.len() - 4));
        match rng.below(3) {
            0 => drop(changed.remove(a)),
            1 => changed.swap(a, b),
            _ => changed.insert(a, lines[b]),
        }
        if let Err(error) = from_text(device, &changed.join("\n")) {
            ensure!(!error.to_string().is_empty());
        }
    }
    works(device)
}

/// Threads in three dimensions, in blocks of none of which the size is a multiple of a warp's.
fn three_dimensions(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let source = program(
        "extern \"C\" __global__ void f(double a, const double* x, double* out, unsigned nx, unsigned ny, unsigned nz) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
             unsigned k = blockIdx.z * blockDim.z + threadIdx.z;
             if (i >= nx || j >= ny || k >= nz) return;
             double p = 1;
             for (unsigned m = 0; m < (i + j + k) % 4; ++m) p *= x[i] * a;
             out[(k * ny + j) * nx + i] = p * x[i] + a * x[i] * k;
         }",
    );
    let spec = OpSpec::new("f")
        .param(Param::scalar("a", Element::F64).active())
        .param(Param::buffer("x", Element::F64).len("nx").active())
        .param(Param::buffer("out", Element::F64).active())
        .param(Param::value("nx"))
        .param(Param::value("ny"))
        .param(Param::value("nz"));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    ensure_eq!(op.derivation().map(|derivation| derivation.dimensions), Some(3));
    let mut rng = Rng::new(2381);
    for (sizes @ [nx, ny, nz], block) in [
        ([1usize, 1, 1], (1u32, 1u32, 1u32)),
        ([7, 5, 3], (3, 5, 2)),
        ([33, 2, 9], (11, 1, 3)),
        ([20, 11, 4], (32, 8, 4)),
    ] {
        let host: Vec<f64> = (0..nx).map(|_| f64::from(rng.float())).collect();
        let seeds: Vec<f64> = (0..nx * ny * nz).map(|_| f64::from(rng.float())).collect();
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let seed = DeviceBuffer::from_slice(&stream, &seeds)?;
        let mut out = DeviceBuffer::<f64>::zeroed(&stream, nx * ny * nz)?;
        let a = tape::Variable::new(&stream, 0.75f64)?;
        let blocks = |n: usize, block: u32| (n as u32).div_ceil(block);
        let grid = (blocks(nx, block.0), blocks(ny, block.1), blocks(nz, block.2));
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            let [nx, ny, nz] = sizes.map(|size| size as u32);
            t.launch(&op, LaunchConfig::new(grid, block), (&a, &x, &mut out, nx, ny, nz))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seed)?)?;
        let (mut by_x, mut by_a) = (vec![0.0; nx], 0.0);
        for (at, seed) in seeds.iter().enumerate() {
            let (i, j, k) = (at % nx, at / nx % ny, at / nx / ny);
            let m = ((i + j + k) % 4) as i32;
            let (x, k) = (host[i], k as f64);
            by_x[i] += seed * (f64::from(m + 1) * x.powi(m) * 0.75f64.powi(m) + 0.75 * k);
            let power =
                if m > 0 { f64::from(m) * 0.75f64.powi(m - 1) * x.powi(m + 1) } else { 0.0 };
            by_a += seed * (power + x * k);
        }
        let given = tape.gradient(&x)?.to_vec(&stream)?;
        for (given, wanted) in given.iter().zip(&by_x) {
            ensure!((given - wanted).abs() <= 1e-12, "{sizes:?}: {given}, not {wanted}");
        }
        let given = tape.gradient(&a)?.to_vec(&stream)?;
        ensure!((given[0] - by_a).abs() <= 1e-11, "{sizes:?}: {given:?}, not {by_a}");
    }
    // Another kernel's index has one dimension.
    let op = differentiate(device, self::spec(), &with_body("", GOOD)).map_err(failure)?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let recorded = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, LaunchConfig::new(1, (4, 2)), (0.5f32, &x, &mut out, 4u32))
    });
    let error = recorded.map(drop).err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.contains("dimension"), "{error}");
    works(device)
}

/// Of two outputs one has no gradient, or a part of one.
fn outputs_without_a_gradient(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let source = program(
        "extern \"C\" __global__ void f(const double* x, double* y, double* z, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             double p = x[i] * x[i];
             y[i] = p * x[i];
             if (p > 1) z[i] = p / 2;
         }",
    );
    let buffer = |name| Param::buffer(name, Element::F64).len("n").active();
    let spec = || {
        OpSpec::new("f")
            .param(buffer("x"))
            .param(buffer("y"))
            .param(buffer("z"))
            .param(Param::value("n"))
    };
    let whole = differentiate(device, spec(), &source).map_err(failure)?;
    let host: Vec<f64> = (0..33).map(|i| f64::from(i) / 8.0 - 1.5).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 33])?;
    let by_y = |x: f64| 3.0 * x * x;
    let by_z = |x: f64| if x * x > 1.0 { x } else { 0.0 };
    for (op, seeds_y, seeds_z) in [
        (&whole, true, false),
        (&whole, false, true),
        (&whole, true, true),
        (&whole.detach("z")?, true, false),
        (&whole.detach("y")?, false, true),
    ] {
        let mut y = DeviceBuffer::<f64>::zeroed(&stream, 33)?;
        let mut z = DeviceBuffer::<f64>::zeroed(&stream, 33)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(op, LaunchConfig::cover(33, 32), (&x, &mut y, &mut z, 33u32))
        })?;
        let mut seeds = Seeds::new();
        if seeds_y {
            seeds = seeds.with(&y, &ones)?;
        }
        if seeds_z {
            seeds = seeds.with(&z, &ones)?;
        }
        for _ in 0..2 {
            tape.backward_with(&stream, &seeds)?;
            let given = tape.gradient(&x)?.to_vec(&stream)?;
            for (x, given) in host.iter().zip(given) {
                let part = |seeds: bool, slope: f64| if seeds { slope } else { 0.0 };
                let wanted = part(seeds_y, by_y(*x)) + part(seeds_z, by_z(*x));
                ensure!(
                    (given - wanted).abs() <= 1e-13,
                    "{seeds_y}, {seeds_z}: {given}, not {wanted}"
                );
            }
        }
    }
    Ok(())
}

/// Infinite numbers, none and those that are not normal go into one element's gradient alone, and come out of rules as
/// the documentation says.
fn numbers_that_are_special(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let least = f32::from_bits(1);
    let host = [
        1.5f32,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        least,
        -f32::MIN_POSITIVE / 4.0,
        0.0,
        -0.0,
    ];
    for (body, slope) in [
        ("out[i] = a * x[i] * x[i];", (|x| x) as fn(f32) -> f32),
        ("out[i] = a * x[i];", |_| 0.5),
        ("out[i] = a * (x[i] > 0 ? x[i] : -x[i]);", |x| if x > 0.0 { 0.5 } else { -0.5 }),
        ("out[i] = a * fabsf(x[i]);", |x| if x.is_sign_negative() { -0.5 } else { 0.5 }),
        // At ties the first, of NaN the other.
        ("out[i] = a * fmaxf(x[i], 0.0f);", |x| if x >= 0.0 { 0.5 } else { 0.0 }),
        ("out[i] = a * fminf(0.0f, x[i]);", |x| if x < 0.0 { 0.5 } else { 0.0 }),
        ("out[i] = isfinite(x[i]) ? a * x[i] : x[i] * a * 2;", |x| {
            if x.is_finite() { 0.5 } else { 1.0 }
        }),
        ("out[i] = x[i] != x[i] ? a : a * x[i];", |x| if x.is_nan() { 0.0 } else { 0.5 }),
    ] {
        let op = differentiate(device, spec(), &with_body("", body)).map_err(failure)?;
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, host.len())?;
        let count = host.len() as u32;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&op, LaunchConfig::cover(host.len(), 32), (0.5f32, &x, &mut out, count))
        })?;
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 8])?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let given = tape.gradient(&x)?.to_vec(&stream)?;
        for (x, given) in host.iter().zip(given) {
            let wanted = slope(*x);
            // Products of numbers that are not normal are rounded.
            let near = (given - wanted).abs() <= 2.0 * least;
            let same = given == wanted || near || given.is_nan() && wanted.is_nan();
            ensure!(same, "{body} at {x:e}: {given:e}, not {wanted:e}");
        }
    }
    Ok(())
}
