//! What a check is given: nothing of it changes, and what makes no sense is refused.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, nvrtc::Program};
use tape::{
    Element, Gradcheck, OpSpec, Oracle, Param, Primal, Report, Variable, Verdict, gradcheck,
};

use super::super::awkward::refused;
use super::super::generated::{differentiate, failure};
use super::super::ops::{Ops, Table, numbers, threads};
use super::TANGENTS;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::gradcheck",
        device(nothing_is_changed),
        fault(nothing_is_changed_by_tangents = nothing_is_changed).variables(TANGENTS),
        device(views_and_aliases),
        fault(views_and_aliases_by_tangents = views_and_aliases).variables(TANGENTS),
        device(sixteen_bit_floats),
        fault(sixteen_bit_floats_by_tangents = sixteen_bit_floats).variables(TANGENTS),
        device(detached_and_inactive),
        device(large_launches),
        device(bad_input_is_refused),
    ]
}

fn right(name: &str, report: cuda_safe::Result<Report>) -> TestResult {
    let report = report?;
    ensure!(report.is_right() && report.findings.is_empty(), "{name}: {report}");
    Ok(())
}

/// The caller's memory, versions of it, and the report of the same seed.
fn nothing_is_changed(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2331));
    let ops = Ops::of::<f64>(device)?;
    let host = [(); 2].map(|()| numbers::<f64>(&mut rng, 50));
    let x = DeviceBuffer::from_slice(&stream, &host[0])?;
    let mut y = DeviceBuffer::from_slice(&stream, &host[1])?;
    let a = Variable::new(&stream, 0.75)?;
    let versions = |y: &DeviceBuffer<f64>| {
        [&x, y].map(|buffer| buffer.allocation().version(buffer.byte_range()))
    };
    let before = versions(&y);
    let mut reports = Vec::new();
    for seed in [0, 0, 1] {
        let check = Gradcheck::new().seed(seed);
        let args = (&a, &x, &mut y, 50u32);
        reports.push(check.run(&stream, &ops.scale, threads(50), args)?);
        check.run(&stream, &ops.times, threads(50), (&x, &mut y, 50u32))?.ensure()?;
        check.run(&stream, &ops.square_add, threads(50), (&x, &mut y, 50u32))?.ensure()?;
        ensure_eq!(versions(&y), before);
        ensure_eq!(x.to_vec(&stream)?, host[0]);
        ensure_eq!(y.to_vec(&stream)?, host[1]);
        ensure_eq!(a.get(), 0.75);
    }
    ensure_eq!(reports[0], reports[1]);
    ensure!(reports.iter().all(Report::is_right));
    let names: Vec<_> = reports[0].params.iter().map(|row| row.param.as_str()).collect();
    ensure_eq!(names, ["a", "x", "out"]);
    // A number and a variable are the same to it.
    let of_value = gradcheck(&stream, &ops.scale, threads(50), (0.75f64, &x, &mut y, 50u32))?;
    ensure_eq!(of_value, reports[0]);
    Ok(())
}

/// Parts of buffers, buffers that are longer than needed, one buffer for several parameters.
fn views_and_aliases(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2332));
    for ops in [Ops::of::<f32>(device)?, Ops::generated::<f32>(device)?] {
        let x = DeviceBuffer::from_slice(&stream, &numbers::<f32>(&mut rng, 100))?;
        let mut y = DeviceBuffer::from_slice(&stream, &numbers::<f32>(&mut rng, 100))?;
        for (start, n) in [(1usize, 31usize), (3, 33), (7, 93), (99, 1)] {
            let part = x.slice(start..start + n)?;
            let count = n as u32;
            let launch = threads(n);
            let out = y.slice_mut(start..start + n)?;
            right("a part", gradcheck(&stream, &ops.scale, launch, (0.5f32, part, out, count)))?;
            // Both are longer than what is used: gradients of the rest are left alone.
            let rest = x.slice(start..)?;
            let out = y.slice_mut(start - 1..)?;
            right("longer", gradcheck(&stream, &ops.scale, launch, (0.5f32, rest, out, count)))?;
            right("in place", gradcheck(&stream, &ops.bend, launch, (&mut y, count)))?;
            let all = (part, part, &mut y, count);
            right("twice", gradcheck(&stream, &ops.multiply, launch, all))?;
            let table = Table(part);
            right("a table", gradcheck(&stream, &ops.look_up, launch, (&table, &mut y, count)))?;
        }
        // Views that overlap in some elements.
        let (one, two) = (x.slice(0..40)?, x.slice(13..53)?);
        let report =
            gradcheck(&stream, &ops.multiply_shared, threads(40), (one, two, &mut y, 40u32));
        right("overlap", report)?;
        // Nothing to do.
        let none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
        let mut nothing = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
        let report =
            gradcheck(&stream, &ops.scale, threads(0), (0.5f32, &none, &mut nothing, 0u32))?;
        ensure!(report.is_right(), "{report}");
        right(
            "no elements",
            gradcheck(&stream, &ops.scale, threads(1), (0.5f32, &x, &mut y, 0u32)),
        )?;
    }
    Ok(())
}

fn sixteen_bit_floats(device: &TestDevice) -> TestResult {
    const TEXT: &str = r#"
        #include <cuda_fp16.h>
        #include <cuda_bf16.h>
        #include <geom/tape.cuh>
        using namespace geom::tape;
        typedef HALF half16;
        extern "C" __global__ void curve(const half16* x, half16* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) { float v = float(x[i]); out[i] = half16(v * v + 3.0f * v); }
        }
        extern "C" __global__ void
        curve_adjoint(const half16* x, half16*, unsigned n, float* gx, float* gout, Frame frame) {
            if (!begin(frame)) return;
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n)
                grad_own(frame, 0, at(gx, i), (2.0f * float(x[i]) + FACTOR) * grad_take(frame, 1, at(gout, i)));
        }"#;
    let stream = device.stream()?;
    let host: Vec<f32> = (0..45).map(|i| 0.25 + i as f32 / 16.0).collect();
    for (factor, verdict) in [("3.0f", Verdict::Right), ("-3.0f", Verdict::Wrong)] {
        for (half, element) in [("__half", Element::F16), ("__nv_bfloat16", Element::BF16)] {
            let text = TEXT.replace("HALF", half).replace("FACTOR", factor);
            let module = Module::compile(device.context(), tape::program(text).name("curve.cu"))?;
            let buffer = |name: &'static str| Param::buffer(name, element).len("n").each_element();
            let spec = OpSpec::new("curve")
                .param(buffer("x").reads(Primal::Entry).active())
                .param(buffer("out").overwrites().active())
                .param(Param::value("n"));
            // SAFETY: thread i of both kernels touches element i of each buffer, and only if i < n.
            let op = unsafe { spec.register(&module) }?;
            let report = if half == "__half" {
                let x: Vec<_> = host.iter().map(|x| half::f16::from_f32(*x)).collect();
                let x = DeviceBuffer::from_slice(&stream, &x)?;
                let mut out = DeviceBuffer::<half::f16>::zeroed(&stream, 45)?;
                gradcheck(&stream, &op, threads(45), (&x, &mut out, 45u32))?
            } else {
                let x: Vec<_> = host.iter().map(|x| half::bf16::from_f32(*x)).collect();
                let x = DeviceBuffer::from_slice(&stream, &x)?;
                let mut out = DeviceBuffer::<half::bf16>::zeroed(&stream, 45)?;
                gradcheck(&stream, &op, threads(45), (&x, &mut out, 45u32))?
            };
            // Differences of so few digits do not always show where it is.
            let is_shown = report.oracle == Oracle::Tangents || verdict == Verdict::Right;
            ensure!(report.verdict() == verdict || !is_shown, "{half}: {report}");
            ensure_eq!(report.is_right(), verdict == Verdict::Right, "{half}: {report}");
        }
    }
    Ok(())
}

/// Parameters without a gradient are not looked at; a parameter that is detached is constant.
fn detached_and_inactive(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2334));
    let program = Program::new(
        "extern \"C\" __global__ void f(double a, const double* x, const double* scale, const unsigned* at,
                                        double* out, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i < n) out[i] = a * x[at[i] % n] * scale[i];
         }",
    );
    let buffer = |name: &'static str| Param::buffer(name, Element::F64).len("n");
    let spec = OpSpec::new("f")
        .param(Param::scalar("a", Element::F64).active())
        .param(buffer("x").active())
        .param(buffer("scale"))
        .param(Param::buffer("at", Element::bytes(4)).len("n"))
        .param(buffer("out").active())
        .param(Param::value("n"));
    let op = differentiate(device, spec, &program).map_err(failure)?;
    let n = 33usize;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<f64>(&mut rng, n))?;
    let scale = DeviceBuffer::from_slice(&stream, &numbers::<f64>(&mut rng, n))?;
    let at: Vec<u32> = (0..n).map(|_| rng.below(n) as u32).collect();
    let at = DeviceBuffer::from_slice(&stream, &at)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, n)?;
    for (op, names) in [
        (op.clone(), &["a", "x", "out"][..]),
        (op.detach("a")?, &["x", "out"]),
        (op.detach("x")?, &["a", "out"]),
    ] {
        let args = (0.5f64, &x, &scale, &at, &mut out, n as u32);
        let report = gradcheck(&stream, &op, threads(n), args)?;
        ensure!(report.is_right() && report.findings.is_empty(), "{report}");
        let rows: Vec<_> = report.params.iter().map(|row| row.param.as_str()).collect();
        ensure_eq!(rows, names);
    }
    Ok(())
}

fn large_launches(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2335));
    let n = 30_000;
    let ops = Ops::generated::<f32>(device)?;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<f32>(&mut rng, n))?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let launch = LaunchConfig::cover(n, 1024);
    let args = (0.5f32, &x, &mut out, n as u32);
    right("scale", gradcheck(&stream, &ops.scale, launch, args))?;
    // In f32, the rounding of a sum of so many hides what a single number of it does.
    let ops = Ops::generated::<f64>(device)?;
    let x = DeviceBuffer::from_slice(&stream, &numbers::<f64>(&mut rng, n))?;
    let mut loss = DeviceBuffer::<f64>::zeroed(&stream, 1)?;
    right("energy", gradcheck(&stream, &ops.energy, launch, (&x, &mut loss, n as u32)))
}

fn bad_input_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ops = Ops::of::<f32>(device)?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; 10])?;
    let mut out = DeviceBuffer::from_slice(&stream, &[2.0f32; 10])?;
    let launch = threads(10);
    let scale = &ops.scale;
    refused(
        gradcheck(&stream, scale, launch, (1.0f32, &x, &mut out)),
        "takes 4 arguments, 3 given",
    )?;
    refused(gradcheck(&stream, scale, launch, (1.0f64, &x, &mut out, 10u32)), "`a` 4")?;
    refused(
        gradcheck(&stream, scale, launch, (1.0f32, &x, &mut out, 11u32)),
        "`x` of `scale_f32` has 10 elements, and 11 are used",
    )?;
    refused(gradcheck(&stream, scale, launch, (1.0f32, &x, &x, 10u32)), "`out` is written")?;
    refused(
        gradcheck(&stream, scale, (1, 5), (1.0f32, &x, &mut out, 10u32)),
        "elements to be covered",
    )?;
    let empty = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    refused(
        gradcheck(&stream, scale, launch, (1.0f32, &empty, &mut out, 10u32)),
        "`x` of `scale_f32` has no elements",
    )?;
    let mut settings = Gradcheck::new().tolerance(0.0);
    refused(settings.run(&stream, scale, launch, (1.0f32, &x, &mut out, 10u32)), "tolerance")?;
    settings = Gradcheck::new().oracle(Oracle::Tangents);
    refused(settings.run(&stream, scale, launch, (1.0f32, &x, &mut out, 10u32)), "tangents")?;

    let source = "extern \"C\" __global__ void f(const float* x, float* out) {
        out[threadIdx.x] = x[threadIdx.x];
    }";
    let module = Module::compile(device.context(), Program::new(source))?;
    let spec = |element: Element| {
        OpSpec::new("f")
            .without_adjoint()
            .param(Param::buffer("x", element).reads(Primal::Entry).active())
            .param(Param::buffer("out", Element::F32).overwrites().active())
    };
    // SAFETY: ten threads touch an element of each buffer.
    let plain = unsafe { spec(Element::F32).register(&module) }?;
    refused(gradcheck(&stream, &plain, (1, 10), (&x, &mut out)), "has no adjoint")?;
    let outside = Element::structure(4, tape::FloatType::F32).numbers_at(&[4]);
    // SAFETY: as above.
    refused(unsafe { spec(outside).register(&module) }, "`x`: a number of its elements")?;

    let structure = Element::structure(4, tape::FloatType::F32);
    let program = tape::program(source).name("copy.cu");
    let spec = OpSpec::new("f")
        .param(Param::buffer("x", structure).active())
        .param(Param::buffer("out", Element::F32).active());
    // SAFETY: as above.
    let copy = unsafe { spec.differentiate(device.context(), &program) }
        .map_err(|error| Failure::new(error.to_string()))?;
    refused(
        gradcheck(&stream, &copy, (1, 10), (&x, &mut out)),
        "`x` of `f` has structures as elements",
    )?;
    // Nothing has happened to the arguments, and the device works.
    ensure_eq!(out.to_vec(&stream)?, [2.0; 10]);
    right("after", gradcheck(&stream, scale, launch, (1.0f32, &x, &mut out, 10u32)))
}
