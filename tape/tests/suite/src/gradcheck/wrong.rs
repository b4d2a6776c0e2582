//! Adjoints with a mistake: the report names it.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Result, Stream};
use tape::{
    Element, Finding, FloatType, Gradcheck, Op, OpSpec, Param, Primal, Problem, Report, Variation,
    Verdict, gradcheck,
};

use super::super::ops::{Number, numbers, threads};
use super::TANGENTS;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::gradcheck",
        device(mistakes_are_named_f32 = mistakes::<f32>),
        device(mistakes_are_named_f64 = mistakes::<f64>),
        fault(mistakes_by_tangents_f32 = mistakes::<f32>).variables(TANGENTS),
        fault(mistakes_by_tangents_f64 = mistakes::<f64>).variables(TANGENTS),
        fault(one_sign_among_many).variables(TANGENTS),
        device(one_member_of_a_structure),
        device(wrong_effects),
    ]
}

const SOURCE: &str = r#"
#include <geom/tape.cuh>
using namespace geom::tape;

extern "C" __global__ void
mix(real a, const real* x, const real* w, real* out, real* sum, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = a * x[i] * x[i] + w[i] * x[(i + 1) % n];
    sum[i] += w[i] * w[i];
}

extern "C" __global__ void mix_adjoint(
    real a, const real* x, const real* w, real* out, real*, unsigned n,
    real* ga, real* gx, real* gw, real* gout, real* gsum, Frame frame
) {
    if (!begin(frame))
        return;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    real by_a = 0;
    if (i < n) {
        unsigned next = (i + 1) % n;
        real g = grad_take(frame, 3, at(gout, i)), s = grad_read(at(gsum, i));
        by_a = x[i] * x[i] * g;
        grad_add(frame, 1, at(gx, i), real(2) * a * x[i] * g);
        grad_add(frame, 1, at(gx, next), w[i] * g);
        grad_own(frame, 2, at(gw, i), x[next] * g + real(2) * w[i] * s);
    }
    partial_add(frame, ga, by_a);
}
"#;

/// The operation of [`SOURCE`], with one part of its text replaced.
fn mix<T: Number>(device: &TestDevice, from: &str, to: &str) -> std::result::Result<Op, Failure> {
    ensure!(SOURCE.contains(from), "the text lacks {from:?}");
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    let text = format!("typedef {real} real;\n{}", SOURCE.replace(from, to));
    let module = Module::compile(device.context(), tape::program(text).name("mix.cu"))?;
    let element = <T as Number>::ELEMENT;
    let buffer = |name: &'static str| Param::buffer(name, element).len("n").active();
    let spec = OpSpec::new("mix")
        .param(Param::scalar("a", element).active())
        .param(buffer("x").reads(Primal::Entry))
        .param(buffer("w").reads(Primal::Entry).each_element())
        .param(buffer("out").overwrites().each_element())
        .param(buffer("sum").accumulates())
        .param(Param::value("n"))
        .summands(|launch| launch.threads() as usize * 2);
    // SAFETY: thread i reads elements below n, and adds to and stores to its own, only if i < n.
    Ok(unsafe { spec.register(&module) }?)
}

fn check<T: Number>(stream: &Stream, op: &Op, seed: u64, n: usize) -> Result<Report> {
    let mut rng = test_harness::Rng::new(seed);
    // Away from zero, where a wrong gradient may be as small as a right one.
    let away = |x: T| T::of(x.to() + if x.to() < 0.0 { -0.25 } else { 0.25 });
    let mut of = || -> Result<DeviceBuffer<T>> {
        let host: Vec<T> = numbers(&mut rng, n).into_iter().map(away).collect();
        DeviceBuffer::from_slice(stream, &host)
    };
    let (x, w, mut out, mut sum) = (of()?, of()?, of()?, of()?);
    let args = (T::of(0.75), &x, &w, &mut out, &mut sum, n as u32);
    Gradcheck::new().seed(seed).run(stream, op, LaunchConfig::cover(n, 32), args)
}

/// The parts of a finding that a mistake leads to.
struct Wanted {
    problem: Problem,
    variation: Variation,
    input: &'static str,
    /// The element, if it is that one alone.
    element: Option<usize>,
    /// How many times the right gradient the wrong one is, if that is known.
    times: Option<f64>,
}

fn wrong(input: &'static str) -> Wanted {
    let (problem, variation) = (Problem::Wrong, Variation::Plain);
    Wanted { problem, variation, input, element: None, times: None }
}

const OWN: &str = "grad_own(frame, 2, at(gw, i), x[next] * g + real(2) * w[i] * s);";
const BY_A: &str = "by_a = x[i] * x[i] * g;";

fn planted() -> Vec<(&'static str, &'static str, &'static str, Wanted)> {
    vec![
        (
            "a wrong factor",
            "real(2) * a * x[i] * g",
            "a * x[i] * g",
            Wanted { times: Some(0.5), ..wrong("x") },
        ),
        (
            "a square",
            "real(2) * a * x[i] * g",
            "real(2) * a * x[i] * g * g",
            Wanted { problem: Problem::NotLinear, times: Some(2.0), ..wrong("x") },
        ),
        (
            "a missing term",
            "grad_add(frame, 1, at(gx, next), w[i] * g);",
            "",
            Wanted { times: Some(0.0), ..wrong("x") },
        ),
        (
            "a missing clear",
            "grad_take(frame, 3, at(gout, i))",
            "grad_read(at(gout, i))",
            Wanted { problem: Problem::NotCleared, ..wrong("out") },
        ),
        (
            "a wrong sign in one element",
            "x[next] * g +",
            "(i == 7 ? -x[next] : x[next]) * g +",
            Wanted { element: Some(7), times: Some(-1.0), ..wrong("w") },
        ),
        (
            "NaN in one element",
            "x[next] * g +",
            "(i == 5 ? (s - s) / (s - s) : x[next]) * g +",
            Wanted { problem: Problem::NotFinite, element: Some(5), ..wrong("w") },
        ),
        (
            "NaN in a sum",
            BY_A,
            "by_a = i == 3 ? (a - a) / (a - a) : x[i] * x[i] * g;",
            Wanted { problem: Problem::NotFinite, ..wrong("a") },
        ),
        (
            "a thread left out of a sum",
            BY_A,
            "by_a = i == 2 ? real(0) : x[i] * x[i] * g;",
            Wanted { times: Some(0.0), ..wrong("a") },
        ),
        (
            "the last element left out",
            "grad_own(frame, 2",
            "if (i + 1 < n) grad_own(frame, 2",
            Wanted { problem: Problem::Unwritten, element: Some(32), ..wrong("w") },
        ),
        ("an output left out", "real(2) * w[i] * s", "real(0) * s", wrong("w")),
        (
            "adds where it has to store",
            OWN,
            "if (gw) atomicAdd(gw + i, x[next] * g + real(2) * w[i] * s);",
            Wanted { problem: Problem::Unwritten, ..wrong("w") },
        ),
        (
            "stores where it has to add",
            OWN,
            "if (gw) gw[i] = x[next] * g + real(2) * w[i] * s;",
            Wanted { variation: Variation::Added, ..wrong("w") },
        ),
        (
            "a value that is not kept",
            BY_A,
            "by_a = (out[i] - w[i] * x[next]) / a * g;",
            Wanted { problem: Problem::NotFinite, variation: Variation::Overwritten, ..wrong("a") },
        ),
        (
            "nothing without one input",
            "if (!begin(frame))",
            "if (!begin(frame) || !gx)",
            Wanted { problem: Problem::NotFinite, variation: Variation::OneInput, ..wrong("") },
        ),
        (
            "nothing without one output",
            "if (!begin(frame))",
            "if (!begin(frame) || !gout)",
            Wanted { problem: Problem::Unwritten, ..wrong("w") },
        ),
        (
            "nothing if something is dropped",
            "s = grad_read",
            "s = frame.drop ? real(0) : grad_read",
            Wanted { variation: Variation::Dropped, ..wrong("w") },
        ),
        (
            "sums that no deterministic tape knows of",
            "grad_add(frame, 1, at(gx, next), w[i] * g);",
            "if (gx && !(frame.flags & DETERMINISTIC)) atomicAdd(gx + next, w[i] * g);",
            Wanted { variation: Variation::Deterministic, ..wrong("x") },
        ),
    ]
}

fn mistakes<T: Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let n = 33;
    let right = mix::<T>(device, "mix", "mix")?;
    for seed in 0..3 {
        let report = check::<T>(&stream, &right, seed, n)?;
        ensure!(report.is_right() && report.findings.is_empty(), "{report}");
    }
    for (at, (name, from, to, wanted)) in planted().into_iter().enumerate() {
        let op = mix::<T>(device, from, to)?;
        let report = check::<T>(&stream, &op, at as u64, n)?;
        named(&report, &wanted).map_err(|failure| {
            Failure::new(format!("{name}: {failure}\n{report}\n{:?}", report.findings))
        })?;
    }
    Ok(())
}

/// Fails unless the worst finding is the wanted one, and the text says so.
fn named(report: &Report, wanted: &Wanted) -> TestResult {
    ensure_eq!(report.verdict(), Verdict::Wrong);
    ensure!(report.ensure().is_err(), "it is no error");
    let found = report.findings.first().ok_or_else(|| Failure::new("nothing is found"))?;
    ensure_eq!(found.problem, wanted.problem);
    ensure_eq!(found.variation, wanted.variation);
    ensure!(wanted.input.is_empty() || found.input.param == wanted.input, "{}", found.input);
    if let Some(element) = wanted.element {
        ensure_eq!(found.input.element, Some(element));
        ensure_eq!(found.numbers.map(|(count, _)| count), Some(1));
    }
    if let Some(times) = wanted.times {
        ensure!(found.expected.abs() > 1e-3, "{found:?}");
        ensure!(
            (found.got - times * found.expected).abs() < 2e-2 * found.expected.abs(),
            "{found:?}"
        );
    }
    ensure!(found.error > 0.05 || found.error.is_nan(), "{found:?}");
    let text = report.to_string();
    ensure!(text.contains("is wrong") && text.contains("WRONG"), "{text}");
    ensure!(text.contains(&found.to_string()), "{text}");
    let said = |other: &Finding| other.problem.is_wrong() && other.input.param != found.input.param;
    ensure!(
        wanted.input.is_empty() || !report.findings.iter().any(said),
        "other parameters are blamed"
    );
    Ok(())
}

/// The sign of one gradient of many, which the rounding of the others must not hide.
fn one_sign_among_many(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let n = 20_000;
    let right = mix::<f32>(device, "mix", "mix")?;
    let report = check::<f32>(&stream, &right, 1, n)?;
    ensure!(report.is_right() && report.findings.is_empty(), "{report}");
    let op = mix::<f32>(device, "x[next] * g +", "(i == 12345 ? -x[next] : x[next]) * g +")?;
    let report = check::<f32>(&stream, &op, 1, n)?;
    ensure_eq!(report.verdict(), Verdict::Wrong, "{report}");
    let found = report.findings.first().ok_or_else(|| Failure::new("nothing is found"))?;
    ensure_eq!(found.input.to_string(), "w[12345]", "{report}");
    let output = found.output.as_ref().map(ToString::to_string);
    ensure_eq!(output.as_deref(), Some("out[12345]"), "{report}");
    Ok(())
}

const STRUCTURES: &str = r#"
#include <geom/tape.cuh>
using namespace geom::tape;
struct Body { float mass; int kind; float x, y; };
extern "C" __global__ void pull(const Body* from, Body* to, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Body b = from[i];
    b.x = b.mass * b.x + b.y;
    b.y = b.kind * b.y * b.y;
    to[i] = b;
}
extern "C" __global__ void
pull_adjoint(const Body* from, Body*, unsigned n, Body* gfrom, Body* gto, Frame frame) {
    if (!begin(frame)) return;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || !gto) return;
    Body b = from[i], g = gto[i];
    if (!drops(frame, 1)) gto[i] = Body{};
    Body h;
    h.mass = g.mass + b.x * g.x;
    h.kind = 0;
    h.x = b.mass * g.x;
    h.y = FACTOR * b.kind * b.y * g.y + g.x;
    if (gfrom && !assigns(frame, 0)) {
        Body old = gfrom[i];
        h.mass += old.mass; h.x += old.x; h.y += old.y;
    }
    if (gfrom) gfrom[i] = h;
}"#;

/// Elements with members that are no numbers, which are left as they are.
fn one_member_of_a_structure(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let n = 40;
    let mut rng = device.rng(2307);
    let bodies = (0..n).flat_map(|i| {
        let [mass, x, y] = [0; 3].map(|_| (1.0 + rng.float()).to_bits());
        [mass, 1 + i as u32 % 3, x, y]
    });
    let from = DeviceBuffer::from_slice(&stream, &bodies.collect::<Vec<u32>>())?;
    let mut to = DeviceBuffer::<u32>::zeroed(&stream, 4 * n)?;
    let body = Element::structure(16, FloatType::F32).numbers_at(&[0, 8, 12]);
    let spec = || {
        OpSpec::new("pull")
            .param(
                Param::buffer("from", body).reads(Primal::Entry).len("n").each_element().active(),
            )
            .param(Param::buffer("to", body).overwrites().len("n").each_element().active())
            .param(Param::value("n"))
    };
    for (factor, is_right) in [("2", true), ("3", false)] {
        let text = STRUCTURES.replace("FACTOR", factor);
        let module = Module::compile(device.context(), tape::program(text).name("pull.cu"))?;
        // SAFETY: thread i of both kernels touches element i of each buffer, and only if i < n.
        let op = unsafe { spec().register(&module) }?;
        let report = gradcheck(&stream, &op, threads(n), (&from, &mut to, n as u32))?;
        ensure_eq!(report.is_right(), is_right, "{report}");
        if !is_right {
            let found = report.findings.first().ok_or_else(|| Failure::new("nothing is found"))?;
            ensure_eq!((found.input.param.as_str(), found.input.offset), ("from", Some(12)));
            let output = found.output.as_ref().map(|output| (output.param.clone(), output.offset));
            ensure_eq!(output, Some(("to".to_owned(), Some(12))));
            ensure_eq!(found.input.element, found.output.as_ref().and_then(|place| place.element));
            ensure!((found.got / found.expected - 1.5).abs() < 1e-3, "{report}");
        }
    }
    Ok(())
}

/// A kernel that updates what it is said to overwrite, and one that leaves elements out that it is said to cover.
fn wrong_effects(device: &TestDevice) -> TestResult {
    const TEXT: &str = r#"
        #include <geom/tape.cuh>
        using namespace geom::tape;
        extern "C" __global__ void some(const float* x, float* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n BUT) out[i] = 3.0f * x[i] PLUS;
        }
        extern "C" __global__ void
        some_adjoint(const float*, float*, unsigned n, float* gx, float* gout, Frame frame) {
            if (!begin(frame)) return;
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) grad_own(frame, 0, at(gx, i), 3.0f * grad_take(frame, 1, at(gout, i)));
        }"#;
    let stream = device.stream()?;
    let n = 35u32;
    let x = DeviceBuffer::from_slice(&stream, &[0.5f32; 35])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 35)?;
    for (but, plus, wrong) in
        [("", "", None), ("", "+ out[i]", Some("out")), ("&& i != 4", "", Some("out[4]"))]
    {
        let text = TEXT.replace("BUT", but).replace("PLUS", plus);
        let module = Module::compile(device.context(), tape::program(text).name("some.cu"))?;
        let spec = OpSpec::new("some")
            .param(
                Param::buffer("x", Element::F32)
                    .reads(Primal::None)
                    .len("n")
                    .each_element()
                    .active(),
            )
            .param(Param::buffer("out", Element::F32).overwrites().len("n").each_element().active())
            .param(Param::value("n"));
        // SAFETY: thread i of both kernels touches element i of each buffer, and only if i < n.
        let op = unsafe { spec.register(&module) }?;
        let report = gradcheck(&stream, &op, threads(35), (&x, &mut out, n))?;
        let Some(wrong) = wrong else {
            ensure!(report.is_right(), "{report}");
            continue;
        };
        ensure_eq!(report.verdict(), Verdict::Wrong, "{report}");
        let mut inputs =
            report.findings.iter().filter(|found| found.problem == Problem::NotOverwritten);
        ensure!(inputs.any(|found| found.input.to_string().starts_with(wrong)), "{report}");
    }
    Ok(())
}
