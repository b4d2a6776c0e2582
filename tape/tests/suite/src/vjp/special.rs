//! Alignment, 16-bit floats, structures, results, private copies, parts of outputs, streams.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{DeviceBuffer, DeviceRepr, LaunchConfig, Module, nvrtc::Program};
use tape::{
    Differentiable, Element, FloatType, Gradients, NotSaved, OpSpec, Param, Primal, Seeds, Tape,
    Variable,
};

use super::super::awkward::refused;
use super::super::generated::{differentiate, failure};
use super::super::ops::{Number, Ops, module, register, spec, threads};
use super::{buffer, eighths, elements, of_tape, same, unwritten};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::vjp",
        device(vectors_and_gradients_that_are_not_aligned),
        device(sixteen_bits),
        device(numbers_of_a_structure),
        device(results_of_the_launch = results::<f64>),
        device(values_that_the_adjoint_writes = private::<f32>),
        device(parts_of_an_output = parts::<f64>),
        device(launches_without_threads = no_threads::<f32>),
        device(on_several_streams = streams::<f32>),
        device(a_chain_by_hand = chain::<f64>),
    ]
}

/// A kernel of float4, whose gradients are given and wanted at any address.
fn vectors_and_gradients_that_are_not_aligned(device: &TestDevice) -> TestResult {
    const N: usize = 70;
    let stream = device.stream()?;
    let program = Program::new(
        "extern \"C\" __global__ void f(const float4* x, float4* out, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             float4 v = x[i];
             out[i] = make_float4(v.x * v.y, v.y * v.z, v.z * v.w, v.w * v.x);
         }",
    )
    .name("vectors.cu");
    let four = Element::vector(FloatType::F32, 4);
    let made = OpSpec::new("f")
        .param(Param::buffer("x", four).len("n").active())
        .param(Param::buffer("out", four).len("n").active())
        .param(Param::value("n"));
    let op = differentiate(device, made, &program).map_err(failure)?;
    let mut rng = device.rng(2530);
    let x = buffer(&stream, &eighths::<f32>(&mut rng, 4 * N))?;
    let x = x.as_slice().cast::<[f32; 4]>()?;
    let host = eighths::<f32>(&mut rng, 4 * N);
    let mut out = DeviceBuffer::<[f32; 4]>::zeroed(&stream, N)?;
    let g = buffer(&stream, &host)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(x)?;
        t.launch(&op, threads(N), (x, &mut out, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, g.as_slice().cast()?)?)?;
    let wanted: Vec<f32> = tape.gradient(x)?.cast()?.to_vec(&stream)?;
    for skip in 0..4 {
        let mut given = vec![0.0f32; skip];
        given.extend(&host);
        let given = buffer(&stream, &given)?;
        let mut gx = unwritten::<f32>(&stream, skip + 4 * N + 1)?;
        let part = gx.slice_mut(skip..skip + 4 * N)?;
        let gradients = Gradients::new().seed("out", given.slice(skip..)?).into_buffer("x", part);
        op.vjp(&stream, threads(N), (x, NotSaved, N as u32), gradients)?;
        let got = gx.to_vec(&stream)?;
        first_difference(&got[skip..skip + 4 * N], &wanted)?;
        // What lies around is left alone.
        ensure!(got[..skip].iter().chain(&got[skip + 4 * N..]).all(|g| g.is_nan()));
    }
    Ok(())
}

/// Gradients of 16-bit floats are floats.
fn sixteen_bits(device: &TestDevice) -> TestResult {
    const N: usize = 50;
    const SOURCE: &str = r#"
        #include <geom/tape.cuh>
        using namespace geom::tape;
        __device__ inline float wide(unsigned short x) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x)); return f; }
        __device__ inline unsigned short narrow(float x) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
        extern "C" __global__ void square(const unsigned short* x, unsigned short* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = narrow(wide(x[i]) * wide(x[i]));
        }
        extern "C" __global__ void square_adjoint(
            const unsigned short* x, unsigned short*, unsigned n, float* gx, float* gout, Frame frame
        ) {
            if (!begin(frame)) return;
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) grad_own(frame, 0, at(gx, i), 2 * wide(x[i]) * grad_take(frame, 1, at(gout, i)));
        }"#;
    let stream = device.stream()?;
    let module = Module::compile(device.context(), tape::program(SOURCE).name("half.cu"))?;
    let made = OpSpec::new("square")
        .param(
            Param::buffer("x", Element::F16).reads(Primal::Entry).len("n").each_element().active(),
        )
        .param(Param::buffer("out", Element::F16).overwrites().len("n").each_element().active())
        .param(Param::value("n"));
    let op = register(&module, made)?;
    let mut rng = device.rng(2531);
    let host: Vec<half::f16> = (0..N).map(|_| half::f16::from_f32(rng.float())).collect();
    let x = buffer(&stream, &host)?;
    let g = buffer(&stream, &rng.floats(N))?;
    let mut out = DeviceBuffer::<half::f16>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, threads(N), (&x, &mut out, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &g)?)?;
    let mut gx = unwritten::<f32>(&stream, N)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    op.vjp(&stream, threads(N), (&x, NotSaved, N as u32), gradients)?;
    first_difference(&gx.to_vec(&stream)?, &tape.gradient(&x)?.to_vec(&stream)?)?;
    // A part of it, at addresses that are no multiple of 16.
    let mut part = unwritten::<f32>(&stream, N)?;
    let gradients =
        Gradients::new().seed("out", g.slice(3..)?).into_buffer("x", part.slice_mut(3..)?);
    op.vjp(&stream, threads(N), (x.slice(3..)?, NotSaved, N as u32 - 3), gradients)?;
    first_difference(&part.to_vec(&stream)?[3..], &gx.to_vec(&stream)?[3..])
}

/// `Line` of ops.cu.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Line {
    slope: f32,
    offset: f32,
    power: u32,
}
// SAFETY: repr(C), and the fields of Line in ops.cu.
unsafe impl DeviceRepr for Line {}
// SAFETY: two floats and an integer, and its gradient is the same.
unsafe impl Differentiable for Line {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(12, FloatType::F32).numbers_at(&[0, 4]);
}

fn numbers_of_a_structure(device: &TestDevice) -> TestResult {
    const N: usize = 500;
    let stream = device.stream()?;
    let made = spec::<f32>(
        "line",
        vec![
            Param::structure("l", 12).scalar_at(0, Element::F32).scalar_at(4, Element::F32),
            Param::buffer("x", Element::F32).reads(Primal::Entry).len("n").each_element().active(),
            Param::buffer("out", Element::F32).overwrites().len("n").each_element().active(),
            Param::value("n"),
        ],
    );
    let op = register(&module(device)?, made)?;
    let mut rng = device.rng(2532);
    let (x, g) = (
        buffer(&stream, &eighths::<f32>(&mut rng, N))?,
        buffer(&stream, &eighths::<f32>(&mut rng, N))?,
    );
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let line = Variable::new(&stream, Line { slope: 0.5, offset: -1.0, power: 2 })?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&line)?;
        t.watch(&x)?;
        t.launch(&op, threads(N), (&line, &x, &mut out, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &g)?)?;
    let mut gx = unwritten::<f32>(&stream, N)?;
    let mut by_line = buffer(&stream, &[Line { slope: f32::NAN, offset: f32::NAN, power: 7 }])?;
    let gradients =
        Gradients::new().seed("out", &g).into_buffer("x", &mut gx).into_values("l", &mut by_line);
    op.vjp(&stream, threads(N), (line.get(), &x, NotSaved, N as u32), gradients)?;
    same(&stream, &gx, &of_tape(&tape, &stream, &x)?)?;
    let wanted: Vec<f32> = tape.gradient(&line)?.cast::<f32>()?.to_vec(&stream)?;
    first_difference(&elements(&stream, &by_line)?, &wanted)?;
    // Its member that is no number has no gradient.
    ensure_eq!(by_line.to_vec(&stream)?[0].power, 0);
    let gradients = Gradients::new().seed("out", &g).into_member("l", 0, &mut gx);
    let done = op.vjp(&stream, threads(N), (line.get(), &x, NotSaved, N as u32), gradients);
    refused(done, "`l` of `line")
}

/// An adjoint that reads what the launch has written.
fn results<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 100;
    let (stream, element) = (device.stream()?, <T as Number>::ELEMENT);
    let read = Param::buffer("x", element).reads(Primal::None).len("n").each_element().active();
    let out =
        Param::buffer("out", element).overwrites().with_value(Primal::Exit).len("n").each_element();
    let made = spec::<T>("invert", vec![read, out.active(), Param::value("n")]);
    let op = register(&module(device)?, made)?;
    let mut rng = device.rng(2533);
    let (x, g) = (
        buffer(&stream, &eighths::<T>(&mut rng, N))?,
        buffer(&stream, &eighths::<T>(&mut rng, N))?,
    );
    let x = {
        // Not -2.
        let host: Vec<T> = x.to_vec(&stream)?.iter().map(|x| T::of(x.to() / 2.0)).collect();
        buffer(&stream, &host)?
    };
    let mut out = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, threads(N), (&x, &mut out, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &g)?)?;
    let mut gx = unwritten::<T>(&stream, N)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    let done = op.vjp(&stream, threads(N), (NotSaved, &mut out, N as u32), gradients);
    refused(done, "reads what the launch has written to `out`")?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    // SAFETY: `out` is as the launch on the tape has left it, and the adjoint uses no index from it.
    unsafe { op.vjp_from_outputs(&stream, threads(N), (NotSaved, &mut out, N as u32), gradients) }?;
    same(&stream, &gx, &of_tape(&tape, &stream, &x)?)
}

/// The adjoint writes to a copy of the old values, not to the argument.
fn private<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 100;
    let (stream, element) = (device.stream()?, <T as Number>::ELEMENT);
    let x = Param::buffer("x", element).updates(Primal::EntryPrivate).len("n").active();
    let made = spec::<T>("replay", vec![x, Param::value("n")]);
    let op = register(&module(device)?, made)?;
    let mut rng = device.rng(2534);
    let host = eighths::<T>(&mut rng, N);
    let (mut x, mut old) = (buffer(&stream, &host)?, buffer(&stream, &host)?);
    let g = buffer(&stream, &eighths::<T>(&mut rng, N))?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&op, threads(N), (&mut x, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&x, &g)?)?;
    let mut gx = unwritten::<T>(&stream, N)?;
    let gradients = Gradients::new().seed("x", &g).into_buffer("x", &mut gx);
    op.vjp(&stream, threads(N), (&mut old, N as u32), gradients)?;
    same(&stream, &gx, &of_tape(&tape, &stream, &x)?)?;
    ensure_eq!(old.to_vec(&stream)?, host);
    Ok(())
}

/// A kernel that overwrites every other element: the others keep their gradient.
fn parts<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 100;
    let stream = device.stream()?;
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    let program = Program::new(format!(
        "extern \"C\" __global__ void f(const {real}* x, {real}* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i < n && i % 2) out[i] = x[i] * x[i];
         }}"
    ))
    .name("parts.cu");
    let element = <T as Number>::ELEMENT;
    let made = OpSpec::new("f")
        .param(Param::buffer("x", element).len("n").active())
        .param(Param::buffer("out", element).len("n").active())
        .param(Param::value("n"));
    let op = differentiate(device, made, &program).map_err(failure)?;
    let mut rng = device.rng(2535);
    let [x, y, g] = [0; 3].map(|_| buffer(&stream, &eighths::<T>(&mut rng, N)));
    let (x, mut y, g) = (x?, y?, g?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&y)?;
        t.launch(&op, threads(N), (&x, &mut y, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&y, &g)?)?;
    let before = g.to_vec(&stream)?;
    for wanted in [true, false] {
        let (mut gx, mut gy) = (unwritten::<T>(&stream, N)?, unwritten::<T>(&stream, N)?);
        let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
        let gradients = if wanted { gradients.into_buffer("out", &mut gy) } else { gradients };
        op.vjp(&stream, threads(N), (&x, NotSaved, N as u32), gradients)?;
        same(&stream, &gx, &of_tape(&tape, &stream, &x)?)?;
        if wanted {
            same(&stream, &gy, &of_tape(&tape, &stream, &y)?)?;
        }
        ensure_eq!(g.to_vec(&stream)?, before);
    }
    Ok(())
}

/// A launch without threads changes nothing: gradients by old contents are those of the new.
fn no_threads<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 30;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let none = LaunchConfig::cover(0, 64);
    let mut rng = device.rng(2536);
    let host = eighths::<T>(&mut rng, N);
    let (x, g) = (buffer(&stream, &host)?, buffer(&stream, &host)?);
    let mut y = buffer(&stream, &host)?;
    let (mut gx, mut gy) = (unwritten::<T>(&stream, N)?, unwritten::<T>(&stream, N)?);
    let gradients = Gradients::new().seed("x", &g).into_buffer("x", &mut gy);
    let element = <T as Number>::ELEMENT;
    let bent = Param::buffer("x", element).updates(Primal::Entry).len("n").active();
    let op = register(&module(device)?, spec::<T>("bend", vec![bent, Param::value("n")]))?;
    op.vjp(&stream, none, (&mut y, N as u32), gradients)?;
    ensure_eq!(gy.to_vec(&stream)?, host);
    let made = spec::<T>(
        "square_add",
        vec![
            Param::buffer("x", element).reads(Primal::Entry).len("n").active(),
            Param::buffer("y", element).accumulates().len("n").active(),
            Param::value("n"),
        ],
    );
    let op = register(&module(device)?, made)?;
    let mut gy = unwritten::<T>(&stream, N)?;
    let gradients =
        Gradients::new().seed("y", &g).into_buffer("x", &mut gx).into_buffer("y", &mut gy);
    op.vjp(&stream, none, (&x, &mut y, N as u32), gradients)?;
    ensure_eq!(gx.to_vec(&stream)?, vec![T::of(0.0); N]);
    ensure_eq!(gy.to_vec(&stream)?, host);
    // Elements that nothing overwrites are an error, as for a launch.
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    let done = ops.scale.vjp(&stream, none, (T::of(1.0), &x, NotSaved, N as u32), gradients);
    refused(done, "no threads")?;
    // Of a launch of 0 blocks there is no gradient, as there is no launch.
    for (launch, says) in
        [(LaunchConfig::new(0, 64), "no blocks"), (LaunchConfig::cover(0, 0), "no threads")]
    {
        let gradients = Gradients::new().seed("y", &g).into_buffer("x", &mut gx);
        refused(op.vjp(&stream, launch, (&x, &mut y, N as u32), gradients), says)?;
    }
    Ok(())
}

/// Values, gradients and the call are on streams of their own: each waits for the others.
fn streams<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 20_000;
    let (one, two, three) = (device.stream()?, device.stream()?, device.stream()?);
    let ops = Ops::of::<T>(device)?;
    let mut rng = device.rng(2537);
    let host = eighths::<T>(&mut rng, N);
    for turn in 0..4 {
        let (mut x, mut y) = (buffer(&one, &host)?, DeviceBuffer::<T>::zeroed(&two, N)?);
        let mut gx = DeviceBuffer::<T>::zeroed(&three, N)?;
        y.copy_from(&two, &x)?;
        let gradients = Gradients::new().seed("out", &y).into_buffer("x", &mut gx);
        let call = if turn % 2 == 0 { &one } else { &three };
        ops.scale.vjp(call, threads(N), (T::of(2.0), &x, NotSaved, N as u32), gradients)?;
        // The call reads before this is written, and this is read after the call.
        y.as_slice_mut().fill(&two, T::of(0.0))?;
        x.as_slice_mut().fill(&one, T::of(0.0))?;
        let wanted: Vec<T> = host.iter().map(|x| T::of(2.0 * x.to())).collect();
        first_difference(&gx.to_vec(&two)?, &wanted)?;
    }
    Ok(())
}

/// loss = sum of (x y)^2 by three calls, as a framework makes them.
fn chain<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 129;
    let (stream, ops) = (device.stream()?, Ops::generated::<T>(device)?);
    let mut rng = device.rng(2538);
    let (hx, hy) = (eighths::<T>(&mut rng, N), eighths::<T>(&mut rng, N));
    let (x, y) = (buffer(&stream, &hx)?, buffer(&stream, &hy)?);
    let product: Vec<T> = hx.iter().zip(&hy).map(|(x, y)| T::of(x.to() * y.to())).collect();
    let z = buffer(&stream, &product)?;
    let one = buffer(&stream, &[T::of(1.0)])?;
    let [mut gz, mut gx, mut gy] =
        [unwritten::<T>(&stream, N)?, unwritten(&stream, N)?, unwritten(&stream, N)?];
    let gradients = Gradients::new().seed("loss", &one).into_buffer("x", &mut gz);
    ops.energy.vjp(&stream, threads(N), (&z, NotSaved, N as u32), gradients)?;
    let gradients =
        Gradients::new().seed("out", &gz).into_buffer("x", &mut gx).into_buffer("y", &mut gy);
    ops.multiply.vjp(&stream, threads(N), (&x, &y, NotSaved, N as u32), gradients)?;
    let by = |other: &[T]| -> Vec<T> {
        product.iter().zip(other).map(|(z, other)| T::of(2.0 * z.to() * other.to())).collect()
    };
    same(&stream, &gx, &by(&hy))?;
    same(&stream, &gy, &by(&hx))
}
