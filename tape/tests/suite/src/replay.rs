//! Replay buffers: adjoints of kernels that use results of atomic operations.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Result, Stream, nvrtc::Program};
use tape::ptx_ad::Reason;
use tape::{
    DifferentiateError, Effect, Element, Op, OpSpec, Param, Primal, Seeds, Tape, gradcheck,
};

use super::generated::{differentiate, failure};
use super::ops::Number;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::replay",
        device(compaction_f32 = compaction::<f32>),
        device(compaction_f64 = compaction::<f64>),
        device(a_buffer_for_two_launches),
        device(overwritten_by_the_host),
        device(lists_of_cells),
        device(loops),
        device(misuse_is_named),
        fault(checked_by_tangents).variables(&[("CUDA_EMU_TANGENTS", "1")]),
    ]
}

/// Elements of x that are larger than a are moved together, in whatever order the threads come.
const KEEP: &str =
    "extern \"C\" __global__ void f(real a, const real* x, real* out, unsigned* count, unsigned* slots, unsigned n) {
         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
         if (i >= n || x[i] <= a) return;
         unsigned slot = atomicAdd(count, 1u);
         slots[i] = slot;
         out[slot] = a * x[i] * x[i];
     }";

fn program<T: Number>(kernel: &str) -> Program {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    Program::new(format!("typedef {real} real;\n{kernel}")).name("replay.cu")
}

fn spec<T: Number>(slots: Param) -> OpSpec {
    let buffer = |name| Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
    OpSpec::new("f")
        .param(Param::scalar("a", <T as Number>::ELEMENT).active())
        .param(buffer("x"))
        .param(buffer("out"))
        .param(Param::buffer("count", Element::bytes(4)))
        .param(slots)
        .param(Param::value("n"))
}

fn slots() -> Param {
    Param::buffer("slots", Element::bytes(4)).len("n").replay()
}

fn keep<T: Number>(device: &TestDevice) -> Result<Op, Failure> {
    differentiate(device, spec::<T>(slots()), &program::<T>(KEEP)).map_err(failure)
}

fn random<T: Number>(rng: &mut Rng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::of(f64::from(2.0 * rng.float()))).collect()
}

fn upload<T: Number>(stream: &Stream, rng: &mut Rng, n: usize) -> Result<DeviceBuffer<T>> {
    DeviceBuffer::from_slice(stream, &random::<T>(rng, n))
}

const A: f64 = 0.25;

/// The gradient by x of a product of the results with weights that depend on the results alone, of whatever order they
/// are in: `w = y`.
fn wanted<T: Number>(x: &[T]) -> Vec<f64> {
    let kept = |x: f64| if x > A { 2.0 * A * x * A * x * x } else { 0.0 };
    x.iter().map(|x| kept(x.to())).collect()
}

fn near<T: Number>(given: &[T], wanted: &[f64]) -> TestResult {
    let most = if T::SUFFIX == "f32" { 2e-6 } else { 1e-13 };
    ensure_eq!(given.len(), wanted.len());
    for (at, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        let is_near = (given.to() - wanted).abs() <= most * (1.0 + wanted.abs());
        ensure!(is_near, "gradient {at} is {}, not {wanted}", given.to());
    }
    Ok(())
}

fn compaction<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2370));
    let op = keep::<T>(device)?;
    let derivation = op.derivation().ok_or_else(|| Failure::new("it was generated"))?;
    let of = |name: &str| {
        let access = derivation.accesses.iter().find(|access| access.param == name);
        access.map(|access| (access.effect, access.value))
    };
    ensure_eq!(of("slots"), Some((Effect::Overwrites, Primal::Exit)));
    ensure_eq!(of("count"), Some((Effect::Updates, Primal::None)));
    for (n, block) in [(0usize, 32), (1, 1), (31, 32), (32, 32), (33, 33), (1000, 64), (3000, 1024)]
    {
        let x = random::<T>(&mut rng, n);
        let on_x = DeviceBuffer::from_slice(&stream, &x)?;
        let mut out = upload::<T>(&stream, &mut rng, n)?;
        let mut count = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
        let mut slots = DeviceBuffer::from_slice(&stream, &vec![u32::MAX; n])?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&on_x)?;
            let args = (T::of(A), &on_x, &mut out, &mut count, &mut slots, n as u32);
            t.launch(&op, LaunchConfig::cover(n, block), args)
        })?;
        if n == 0 {
            continue;
        }
        // What was there before has no gradient, and the first `count` are results.
        let seeds = out.try_clone(&stream)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        near(&tape.gradient(&on_x)?.to_vec(&stream)?, &wanted(&x))?;
    }
    Ok(())
}

/// The second launch overwrites what the first has stored for its adjoint: the tape has a copy.
fn a_buffer_for_two_launches(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2371));
    let op = keep::<f64>(device)?;
    let n = 300;
    let x = [0; 2].map(|_| random::<f64>(&mut rng, n));
    let on_x =
        [DeviceBuffer::from_slice(&stream, &x[0])?, DeviceBuffer::from_slice(&stream, &x[1])?];
    let mut out = [upload::<f64>(&stream, &mut rng, n)?, upload::<f64>(&stream, &mut rng, n)?];
    let mut slots = DeviceBuffer::<u32>::zeroed(&stream, n)?;
    let mut counts =
        [DeviceBuffer::<u32>::zeroed(&stream, 1)?, DeviceBuffer::<u32>::zeroed(&stream, 1)?];
    let mut tape = Tape::record(&stream, |t| {
        for ((x, out), count) in on_x.iter().zip(&mut out).zip(&mut counts) {
            t.watch(x)?;
            t.launch(&op, LaunchConfig::cover(n, 64), (A, x, out, count, &mut slots, n as u32))?;
        }
        Ok(())
    })?;
    let seeds = [out[0].try_clone(&stream)?, out[1].try_clone(&stream)?];
    let seeds = Seeds::new().with(&out[0], &seeds[0])?.with(&out[1], &seeds[1])?;
    for _ in 0..2 {
        tape.backward_with(&stream, &seeds)?;
        for (x, on_x) in x.iter().zip(&on_x) {
            near(&tape.gradient(on_x)?.to_vec(&stream)?, &wanted(x))?;
        }
    }
    Ok(())
}

/// What the adjoint would load is gone.
fn overwritten_by_the_host(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2372));
    let op = keep::<f32>(device)?;
    let x = upload::<f32>(&stream, &mut rng, 40)?;
    let mut out = upload::<f32>(&stream, &mut rng, 40)?;
    let mut count = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let mut slots = DeviceBuffer::<u32>::zeroed(&stream, 40)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        let args = (A as f32, &x, &mut out, &mut count, &mut slots, 40u32);
        t.launch(&op, LaunchConfig::cover(40, 32), args)
    })?;
    slots.upload(&stream, &[7; 40])?;
    let seeds = DeviceBuffer::from_slice(&stream, &[1.0f32; 40])?;
    let done = tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?);
    let message = match done {
        Ok(()) => return Err(Failure::new("the buffer was overwritten")),
        Err(error) => error.to_string(),
    };
    ensure!(message.contains("slots") && message.contains("overwritten"), "{message}");
    Ok(())
}

/// A list for each cell is made beside what is differentiated: the adjoint loads no part of it.
fn lists_of_cells(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2373));
    let source = program::<f64>(
        "extern \"C\" __global__ void f(real a, const real* x, real* out, unsigned* count, unsigned* slots, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             slots[i] = atomicExch(count + i % 8, i);
             out[i] = a * x[i] * x[i];
         }",
    );
    let op = differentiate(device, spec::<f64>(slots()), &source).map_err(failure)?;
    let value = op.derivation().and_then(|derivation| {
        derivation.accesses.iter().find(|access| access.param == "slots").map(|access| access.value)
    });
    ensure_eq!(value, Some(Primal::None));
    let host = random::<f64>(&mut rng, 100);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 100)?;
    let mut heads = DeviceBuffer::<u32>::zeroed(&stream, 8)?;
    let mut next = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(
            &op,
            LaunchConfig::cover(100, 32),
            (A, &x, &mut out, &mut heads, &mut next, 100u32),
        )
    })?;
    // The adjoint does not need it.
    next.upload(&stream, &[7; 100])?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 100])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let wanted: Vec<f64> = host.iter().map(|x| 2.0 * A * x).collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)
}

/// Each thread takes as many places as its index says, with a number that its loop carries.
fn loops(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2374));
    let source = program::<f64>(
        "extern \"C\" __global__ void f(real a, const real* x, real* out, unsigned* count, unsigned* slots, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             real p = x[i];
             for (unsigned k = 0; k < i % 4; ++k) {
                 unsigned slot = atomicAdd(count, 1u);
                 slots[4 * i + k] = slot;
                 p = p * x[i] + a;
                 out[slot] = p;
             }
         }",
    );
    let slots = Param::buffer("slots", Element::bytes(4)).len_times(4, "n").replay();
    let buffer = |name| Param::buffer(name, Element::F64).active();
    let spec = OpSpec::new("f")
        .param(Param::scalar("a", Element::F64).active())
        .param(buffer("x").len("n"))
        .param(buffer("out").len_times(4, "n"))
        .param(Param::buffer("count", Element::bytes(4)).len_fixed(1))
        .param(slots)
        .param(Param::value("n"));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    let n = 200;
    let host = random::<f64>(&mut rng, n);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 4 * n)?;
    let mut count = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let mut slots = DeviceBuffer::<u32>::zeroed(&stream, 4 * n)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        let args = (A, &x, &mut out, &mut count, &mut slots, n as u32);
        t.launch(&op, LaunchConfig::cover(n, 96), args)
    })?;
    let seeds = out.try_clone(&stream)?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
    let wanted: Vec<f64> = host
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            let (mut p, mut slope, mut sum) = (x, 1.0, 0.0);
            for _ in 0..i % 4 {
                (p, slope) = (p * x + A, slope * x + p);
                sum += p * slope;
            }
            sum
        })
        .collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)
}

fn misuse_is_named(device: &TestDevice) -> TestResult {
    let refused =
        |source: &Program, slots: Param| match differentiate(device, spec::<f32>(slots), source) {
            Err(DifferentiateError::NotDifferentiable(error)) => Ok(error),
            Err(other) => Err(failure(other)),
            Ok(_) => Err(Failure::new("it was differentiated")),
        };
    // Not declared: the line of the operation, and a hint.
    let plain = || Param::buffer("slots", Element::bytes(4)).len("n");
    let error = refused(&program::<f32>(KEEP), plain())?;
    let at = error.refusals.iter().find(|refusal| refusal.reason == Reason::AtomicResult);
    ensure_eq!(at.and_then(|at| at.user.as_ref()).map(|at| at.line), Some(5), "{error}");
    ensure!(error.to_string().contains("`replay`"), "{error}");
    for (from, to, line, words) in [
        // Behind the operation, at an address that depends on it.
        ("slots[i] = slot;", "slots[slot] = slot;", 6, "depends on the result"),
        ("slots[i] = slot;", "if (i % 3) slots[i] = slot;", 6, "not stored on each path"),
        ("slots[i] = slot;", "slots[i] = slot; if (a > 1) slots[i / 2] = 3;", 6, "overwrite"),
        ("slots[i] = slot;", "slots[i] = slot + 1;", 6, "no result"),
        ("out[slot] =", "slots[i] = slot; slot += *count; out[slot] =", 7, "other threads"),
    ] {
        let error = refused(&program::<f32>(&KEEP.replace(from, to)), slots())?;
        let found = error.refusals.iter().any(|refusal| {
            refusal.user.as_ref().is_some_and(|user| user.line == line)
                && refusal.message.contains(words)
        });
        ensure!(found, "{to}: {error}");
    }
    let active = Param::buffer("slots", Element::F32).len("n").active().replay();
    ensure!(refused(&program::<f32>(KEEP), active)?.to_string().contains("slots"));
    // Of an adjoint by hand nothing is said.
    let module = Module::compile(device.context(), program::<f32>(KEEP))?;
    // SAFETY: it is refused.
    ensure_refused(unsafe { spec::<f32>(slots()).without_adjoint().register(&module) }.map(drop))?;

    // One memory for two arguments: the adjoint would load what the other has overwritten.
    let op = keep::<f32>(device)?;
    let (stream, mut rng) = (device.stream()?, Rng::new(2375));
    let mut out = upload::<f32>(&stream, &mut rng, 8)?;
    let mut count = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let mut slots = DeviceBuffer::<u32>::zeroed(&stream, 8)?;
    let memory = slots.allocation().clone();
    // SAFETY: all bits are numbers, and the launch that also writes there is refused.
    let x = unsafe { memory.view::<f32>(0..32) }?;
    let recorded = Tape::record(&stream, |t| {
        t.watch(x)?;
        let args = (A as f32, x, &mut out, &mut count, &mut slots, 8u32);
        t.launch(&op, LaunchConfig::cover(8, 32), args)
    });
    ensure_refused(recorded.map(drop))
}

/// `gradcheck` finds nothing wrong.
fn checked_by_tangents(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(2376));
    let op = keep::<f64>(device)?;
    // On a GPU, where the elements of several warps go changes from run to run: differences say nothing.
    let sizes: &[usize] = if device.runs_machine_code() { &[1, 31] } else { &[1, 33, 200] };
    for &n in sizes {
        let x = upload::<f64>(&stream, &mut rng, n)?;
        let mut out = upload::<f64>(&stream, &mut rng, n)?;
        let mut count = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
        let mut slots = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let args = (A, &x, &mut out, &mut count, &mut slots, n as u32);
        let report = gradcheck(&stream, &op, LaunchConfig::cover(n, 32), args)?;
        ensure!(report.is_right() && report.findings.is_empty(), "{n}: {report}");
    }
    Ok(())
}
