//! Points at which a kernel has no derivative, or none that can be seen: right adjoints are not blamed, and wrong ones are
//! found nearby.

use cuda_safe::{DeviceBuffer, Module, Result, Stream, nvrtc::Program};
use tape::{
    Element, Gradcheck, Op, OpSpec, Oracle, Param, Primal, Problem, Report, Verdict, gradcheck,
};

use super::super::generated::{differentiate, failure};
use super::super::ops::{Number, numbers, threads};
use super::TANGENTS;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::gradcheck",
        device(kinks_are_not_blamed_f32 = kinks::<f32>),
        device(kinks_are_not_blamed_f64 = kinks::<f64>),
        fault(kinks_by_tangents_f32 = kinks::<f32>).variables(TANGENTS),
        fault(kinks_by_tangents_f64 = kinks::<f64>).variables(TANGENTS),
        device(kinks_are_reported),
        device(kinks_hide_no_mistake),
        device(rounding_is_not_blamed),
        fault(rounding_by_tangents = rounding_is_not_blamed).variables(TANGENTS),
        device(chance_is_not_blamed),
        fault(chance_by_tangents = chance_is_not_blamed).variables(TANGENTS),
        fault(lost_tangents).variables(TANGENTS),
    ]
}

/// `out[i] = f(x[i], z[i])`, with a generated adjoint.
fn op<T: Number>(device: &TestDevice, body: &str) -> std::result::Result<Op, Failure> {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    let program = Program::new(format!(
        "typedef {real} real;
         extern \"C\" __global__ void f(const real* x, const real* z, real* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             real a = x[i], b = z[i];
             {body}
         }}"
    ));
    let buffer = |name: &'static str| Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
    let spec = OpSpec::new("f")
        .param(buffer("x"))
        .param(buffer("z"))
        .param(buffer("out"))
        .param(Param::value("n"));
    differentiate(device, spec, &program).map_err(failure)
}

fn check<T: Number>(stream: &Stream, op: &Op, x: &[T], z: &[T]) -> Result<Report> {
    let n = x.len();
    let (x, z) = (DeviceBuffer::from_slice(stream, x)?, DeviceBuffer::from_slice(stream, z)?);
    let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
    gradcheck(stream, op, threads(n), (&x, &z, &mut out, n as u32))
}

/// Functions with kinks and jumps at 0 and where both arguments are the same.
const FUNCTIONS: [(&str, &str); 9] = [
    ("relu", "out[i] = (a > 0 ? a : 0) + b;"),
    ("the absolute value", "out[i] = (a < 0 ? -a : a) * b;"),
    ("the larger", "out[i] = a > b ? a : b;"),
    ("kinks that cancel", "out[i] = (a > 0 ? a : 0) - (-a > 0 ? -a : 0) + b;"),
    ("a jump", "out[i] = (a > 0 ? a + 1 : a) * b;"),
    ("a root", "out[i] = sqrt(a < 0 ? -a : a) + b;"),
    ("a saw", "out[i] = (a - floor(a)) * b + b;"),
    ("a steep kink", "out[i] = a > 0 ? 1000 * a + b : b - a / 1000;"),
    ("a norm", "real l = sqrt(a * a + b * b); out[i] = l > 0 ? a / l : a;"),
];

fn kinks<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2321));
    for (name, body) in FUNCTIONS {
        let op = op::<T>(device, body)?;
        for n in [1, 40] {
            let random: Vec<T> = numbers(&mut rng, n);
            let small = |i: usize| T::of(if i.is_multiple_of(2) { 1e-7 } else { -3e-7 });
            let points: [(Vec<T>, Vec<T>); 5] = [
                (vec![T::of(0.0); n], vec![T::of(0.0); n]),
                (vec![T::of(0.0); n], random.clone()),
                (random.clone(), random.clone()),
                ((0..n).map(small).collect(), random.clone()),
                ((0..n).map(|i| T::of(i as f64 - 3.0)).collect(), random),
            ];
            for (at, (x, z)) in points.into_iter().enumerate() {
                let report = check(&stream, &op, &x, &z)?;
                ensure!(report.verdict() != Verdict::Wrong, "{name}, {n}, {at}: {report}");
                // At a random point nothing is special.
                ensure!(at < 4 || n < 5 || report.params.len() == 3, "{name}, {n}: {report}");
            }
            let (x, z): (Vec<T>, Vec<T>) = (numbers(&mut rng, n), numbers(&mut rng, n));
            let report = check(&stream, &op, &x, &z)?;
            ensure!(report.is_right() && report.findings.is_empty(), "{name}, {n}: {report}");
        }
    }
    Ok(())
}

/// An adjoint by hand of the absolute value, with something to say at 0.
fn absolute(device: &TestDevice, at_zero: &str, slope: &str) -> std::result::Result<Op, Failure> {
    const TEXT: &str = r#"
        #include <geom/tape.cuh>
        using namespace geom::tape;
        extern "C" __global__ void absolute(const double* x, double* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = JUMP x[i] < 0 ? -x[i] : x[i];
        }
        extern "C" __global__ void
        absolute_adjoint(const double* x, double*, unsigned n, double* gx, double* gout, Frame frame) {
            if (!begin(frame)) return;
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            double g = grad_take(frame, 1, at(gout, i));
            grad_own(frame, 0, at(gx, i), x[i] == 0 ? (AT_ZERO) * g : x[i] < 0 ? -g : SLOPE * g);
        }"#;
    let jump = if slope == "jump" { "x[i] >= 0 ? x[i] + 1 :" } else { "" };
    let slope = if slope == "jump" { "1" } else { slope };
    let text = TEXT.replace("AT_ZERO", at_zero).replace("SLOPE", slope).replace("JUMP", jump);
    let module = Module::compile(device.context(), tape::program(text).name("absolute.cu"))?;
    let buffer =
        |name: &'static str| Param::buffer(name, Element::F64).len("n").active().each_element();
    let spec = OpSpec::new("absolute")
        .param(buffer("x").reads(Primal::Entry))
        .param(buffer("out").overwrites())
        .param(Param::value("n"));
    // SAFETY: thread i of both kernels touches element i of each buffer, and only if i < n.
    Ok(unsafe { spec.register(&module) }?)
}

/// What the report says of a kink and of a jump.
fn kinks_are_reported(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut host = vec![1.5, -2.0, 0.0, 0.75];
    for (zero, slope) in [("1", "1"), ("-1", "1"), ("0.25", "1"), ("7", "1"), ("1", "jump")] {
        let op = absolute(device, zero, slope)?;
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<f64>::zeroed(&stream, 4)?;
        let report = gradcheck(&stream, &op, threads(4), (&x, &mut out, 4u32))?;
        ensure!(report.is_right(), "{report}");
        let found = report.findings.first().ok_or_else(|| Failure::new("nothing is found"))?;
        ensure_eq!(found.input.to_string(), "x[2]");
        ensure_eq!(found.output.as_ref().map(ToString::to_string).as_deref(), Some("out[2]"));
        ensure_eq!(found.got, zero.parse::<f64>()?);
        match found.problem {
            Problem::Kink { left, right } if slope != "jump" => {
                ensure!((left + 1.0).abs() < 1e-6 && (right - 1.0).abs() < 1e-6, "{report}");
            }
            ref other => ensure!(slope == "jump" && *other == Problem::Discontinuity, "{report}"),
        }
        ensure!(report.to_string().contains(if slope == "jump" { "jumps" } else { "kink" }));
    }
    // A NaN is no slope. Elsewhere than at the kink nothing is wrong.
    let op = absolute(device, "0.0 / 0.0", "1")?;
    for is_wrong in [true, false] {
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<f64>::zeroed(&stream, 4)?;
        let report = gradcheck(&stream, &op, threads(4), (&x, &mut out, 4u32))?;
        ensure_eq!(report.verdict() == Verdict::Wrong, is_wrong, "{report}");
        host[2] = 1e-3;
    }
    Ok(())
}

/// A wrong adjoint is found though the given point is a kink in all elements.
fn kinks_hide_no_mistake(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for n in [5usize, 33, 200] {
        for (zero, slope, is_wrong) in [("1", "1", false), ("1", "2", true)] {
            let op = absolute(device, zero, slope)?;
            let x = DeviceBuffer::<f64>::zeroed(&stream, n)?;
            let mut out = DeviceBuffer::<f64>::zeroed(&stream, n)?;
            let report = gradcheck(&stream, &op, threads(n), (&x, &mut out, n as u32))?;
            ensure_eq!(report.verdict() == Verdict::Wrong, is_wrong, "{report}");
            if is_wrong {
                let found = report.findings.first().ok_or_else(|| Failure::new("nothing"))?;
                ensure!(found.input.param == "x" && found.nearby, "{report}");
                ensure!((found.got / found.expected - 2.0).abs() < 1e-6, "{report}");
            }
        }
    }
    Ok(())
}

/// Results, and gradients, most of whose digits are lost.
fn rounding_is_not_blamed(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2324));
    let bodies = [
        "out[i] = (a + 1e4f) - 1e4f + b;",
        "out[i] = a * 10000.0f - a * 9999.9f + b * b;",
        "real d = a - b; out[i] = d * d * 1e-12f;",
        "out[i] = a * 1e-30f * (b * 1e-8f);",
        "out[i] = a * 1e25f + b;",
        "real s = a; s = s * s - b; s = s * s - b; s = s * s - b; s = s * s - b; out[i] = s * s;",
    ];
    for body in bodies {
        let op = op::<f32>(device, body)?;
        for n in [1, 33, 1000] {
            let (x, z): (Vec<f32>, Vec<f32>) = (numbers(&mut rng, n), numbers(&mut rng, n));
            let report = check(&stream, &op, &x, &z)?;
            ensure!(report.verdict() != Verdict::Wrong, "{body}, {n}: {report}");
        }
    }
    // NaN, infinities and subnormals in some elements; the others are compared.
    let op = op::<f32>(device, "out[i] = a * b + b;")?;
    let mut x: Vec<f32> = numbers(&mut rng, 40);
    (x[3], x[9], x[12]) = (f32::NAN, f32::INFINITY, 1e-41);
    let z: Vec<f32> = numbers(&mut rng, 40);
    let report = check(&stream, &op, &x, &z)?;
    ensure!(report.is_right(), "{report}");
    ensure!(report.params.iter().any(|row| row.left_out == 2), "{report}");
    Ok(())
}

/// Each launch writes elsewhere, or adds in another order.
fn chance_is_not_blamed(device: &TestDevice) -> TestResult {
    const TEXT: &str = r#"
        #include <geom/tape.cuh>
        using namespace geom::tape;
        __device__ unsigned turn;
        extern "C" __global__ void
        turned(const float* x, float* out, float* sum, unsigned* by, unsigned n) {
            unsigned i = threadIdx.x, k = turn;
            __syncthreads();
            if (i == 0) {
                turn = k + 1;
                *by = k;
                float all = 0;
                for (unsigned j = 0; j < n; j++) all += x[(j * 7 + k) % n] * 1.1f;
                *sum = all;
            }
            if (i < n) out[MOVED] = FACTOR * x[i];
        }
        extern "C" __global__ void turned_adjoint(
            const float*, float*, float*, unsigned* by, unsigned n,
            float* gx, float* gout, float* gsum, Frame frame
        ) {
            if (!begin(frame)) return;
            unsigned i = threadIdx.x, k = *by;
            float s = grad_read(gsum);
            __syncthreads();
            if (i == 0) grad_take(frame, 2, gsum);
            if (i < n) grad_own(frame, 0, at(gx, i), 2.0f * grad_take(frame, 1, at(gout, MOVED)) + 1.1f * s);
        }"#;
    let (stream, mut rng) = (device.stream()?, device.rng(2325));
    let n = 37usize;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<f32>(&mut rng, n))?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut by = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    for (moved, factor, verdict) in [
        ("(i + k) % n", "2.0f", Verdict::Undecided),
        ("i", "2.0f", Verdict::Right),
        ("i", "2.1f", Verdict::Wrong),
    ] {
        let text = TEXT.replace("MOVED", moved).replace("FACTOR", factor);
        let module = Module::compile(device.context(), tape::program(text).name("turned.cu"))?;
        let buffer = |name: &'static str| Param::buffer(name, Element::F32).active();
        let spec = OpSpec::new("turned")
            .param(buffer("x").reads(Primal::Entry).len("n").each_element())
            .param(buffer("out").overwrites().len("n").each_element())
            .param(buffer("sum").overwrites().len_fixed(1).each_element())
            .param(
                Param::buffer("by", Element::bytes(4))
                    .overwrites()
                    .len_fixed(1)
                    .with_value(Primal::Exit),
            )
            .param(Param::value("n"));
        // SAFETY: thread i of a block stores to elements below n that no other thread stores to.
        let op = unsafe { spec.register(&module) }?;
        let args = (&x, &mut out, &mut sum, &mut by, n as u32);
        let report = gradcheck(&stream, &op, (1, 64), args)?;
        ensure_eq!(report.verdict(), verdict, "{moved}, {factor}: {report}");
        ensure!(report.varies, "{report}");
        if verdict == Verdict::Undecided {
            let unknown = |found: &tape::Finding| found.problem == Problem::Unknown;
            ensure!(report.findings.iter().all(unknown), "{report}");
        }
    }
    Ok(())
}

/// A kernel that makes floats of bits: tangents say nothing, and differences do.
fn lost_tangents(device: &TestDevice) -> TestResult {
    const TEXT: &str = r#"
        #include <geom/tape.cuh>
        using namespace geom::tape;
        extern "C" __global__ void twice(const float* x, float* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = __uint_as_float(__float_as_uint(x[i]) + (1u << 23));
        }
        extern "C" __global__ void
        twice_adjoint(const float*, float*, unsigned n, float* gx, float* gout, Frame frame) {
            if (!begin(frame)) return;
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) grad_own(frame, 0, at(gx, i), FACTOR * grad_take(frame, 1, at(gout, i)));
        }"#;
    let stream = device.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[0.75f32, -1.5, 3.0])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    for (factor, verdict) in [("2", Verdict::Right), ("3", Verdict::Wrong)] {
        let text = TEXT.replace("FACTOR", factor);
        let program = tape::program(text).name("twice.cu");
        let module = Module::compile(device.context(), program)?;
        let buffer = |name: &'static str| Param::buffer(name, Element::F32).len("n").active();
        let spec = OpSpec::new("twice")
            .param(buffer("x").reads(Primal::None).each_element())
            .param(buffer("out").overwrites().each_element())
            .param(Param::value("n"));
        // SAFETY: thread i of both kernels touches element i of each buffer, and only if i < n.
        let op = unsafe { spec.register(&module) }?;
        let check = Gradcheck::new().oracle(Oracle::Tangents);
        let checked = check.run(&stream, &op, threads(3), (&x, &mut out, 3u32));
        let report = match (device.tier(), checked) {
            ("emu", checked) => checked?,
            // A GPU has no tangents.
            (_, Ok(report)) => return Err(Failure::new(report.to_string())),
            (_, Err(_)) => return Ok(()),
        };
        ensure_eq!(report.verdict(), verdict, "{report}");
        ensure_eq!(report.oracle, Oracle::Differences);
        let lost = report.lost.as_deref().unwrap_or_default();
        ensure!(lost.contains("twice"), "{report}");
    }
    Ok(())
}
