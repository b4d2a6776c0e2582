//! Operations whose primal runs in place of the kernel: with the same arguments, and the same checks.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module};
use tape::{Op, Param, Primal, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, numbers, register, spec, threads};
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::primals",
        device(what_it_updates_is_the_memory_itself = in_place::<f32>),
        device(an_integer_is_no_float = classes::<f32>),
    ]
}

const N: usize = 50;

/// Primals that keep nothing.
const SOURCE: &str = r#"
    #include <geom/tape.cuh>
    using namespace geom::tape;
    __device__ inline unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
    extern "C" {
    __global__ void square_f32(float* x, unsigned n) {
        unsigned i = thread();
        if (i < n) x[i] *= x[i];
    }
    __global__ void square_f32_primal(float* x, unsigned n, Frame) {
        unsigned i = thread();
        if (i < n) x[i] *= x[i];
    }
    __global__ void square_f32_adjoint(const float* x, unsigned n, float* gx, Frame frame) {
        if (!begin(frame)) return;
        unsigned i = thread();
        if (i < n && gx) grad_replace(gx + i, 2 * x[i] * gx[i]);
    }
    __global__ void scale_f32(float a, const float* x, float* out, unsigned n) {
        unsigned i = thread();
        if (i < n) out[i] = a * x[i];
    }
    __global__ void scale_f32_primal(float a, const float* x, float* out, unsigned n, Frame) {
        unsigned i = thread();
        if (i < n) out[i] = a * x[i];
    }
    __global__ void
    scale_f32_adjoint(float a, const float*, float*, unsigned n, float* gx, float* gout, Frame frame) {
        if (!begin(frame)) return;
        unsigned i = thread();
        if (i < n) grad_own(frame, 0, at(gx, i), a * grad_take(frame, 1, at(gout, i)));
    }
    }"#;

fn op<T: Number>(device: &TestDevice, name: &str, params: Vec<Param>) -> cuda_safe::Result<Op> {
    let module = Module::compile(device.context(), tape::program(SOURCE).name("primals.cu"))?;
    let spec = spec::<T>(name, params);
    register(&module, spec.primal(format!("{name}_{}_primal", T::SUFFIX), |_: &LaunchConfig| 64))
}

/// The adjoint finds a copy of what was there before; the primal must not write to that.
fn in_place<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let x =
        Param::buffer("x", <T as Number>::ELEMENT).updates(Primal::Entry).len("n").each_element();
    let square = op::<T>(device, "square", vec![x.active(), Param::value("n")])?;
    let host: Vec<T> = numbers(&mut device.rng(901), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&square, threads(N), (&mut x, N as u32))?;
        t.launch(&square, threads(N), (&mut x, N as u32))?;
        t.launch(&ops.energy, threads(N), (&x, &mut loss, N as u32))
    })?;
    let powers: Vec<f64> = host.iter().map(|x| x.to().powi(4)).collect();
    close(&x.to_vec(&stream)?, &powers, tolerance::<T>())?;
    tape.backward(&stream, &loss)?;
    let wanted: Vec<f64> = host.iter().map(|x| 8.0 * x.to().powi(7)).collect();
    close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())
}

/// Arguments are compared with the kernel's parameters, also where its primal is launched.
fn classes<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, element) = (device.stream()?, <T as Number>::ELEMENT);
    let params = vec![
        Param::scalar("a", element),
        Param::buffer("x", element).reads(Primal::Entry).len("n").each_element().active(),
        Param::buffer("out", element).overwrites().len("n").each_element().active(),
        Param::value("n"),
    ];
    let scale = op::<T>(device, "scale", params)?;
    let x = DeviceBuffer::from_slice(&stream, &[T::of(3.0); N])?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    for watched in [false, true] {
        let integer = Tape::record(&stream, |t| {
            if watched {
                t.watch(&x)?;
            }
            t.launch(&scale, threads(N), (2u32, &x, &mut y, N as u32))
        });
        refused(
            integer,
            "argument 1 of kernel `scale_f32`: `u32` is an integer, the kernel has `float`",
        )?;
        ensure!(y.to_vec(&stream)? == [T::of(0.0); N], "it was launched");
    }
    Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.launch(&scale, threads(N), (T::of(2.0), &x, &mut y, N as u32))
    })?;
    close(&y.to_vec(&stream)?, &[6.0; N], 0.0)
}
