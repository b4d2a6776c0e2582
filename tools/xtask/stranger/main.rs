//! A program of someone who has the published crates and no checkout: a kernel of its own in C++ and one in Rust, a
//! query of a mesh, and a gradient, on the software device. `cargo xtask package` builds and runs it.

use cuda_safe::kernel::kernel;
use cuda_safe::prelude::*;
use cuda_safe::{Driver, Module};
use cuda_tape::{Element, OpSpec, Param, Primal, Tape};
use geom_kernels::mesh::{ClosestPoint, shapes};
use geom_kernels::prelude::*;

kernels! {
    struct Kernels;
    // SAFETY: thread i touches element i of each array, and only if i < n.
    unsafe in r#"
        extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
            size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
            if (i < n) out[i] = a * x[i] + y[i];
        }
    "# {
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len()) over n
            where y.len() == n, out.len() == n;
    }
}

#[kernel]
fn scale(by: f32, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = by * x[i]);
}

const SQUARE: &str = r#"
    #include <geom/tape.cuh>
    extern "C" __global__ void square(const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = x[i] * x[i];
    }
    extern "C" __global__ void square_adjoint(
        const float* x, float*, unsigned n, float* gx, float* gout, geom::tape::Frame frame
    ) {
        using namespace geom::tape;
        if (!begin(frame)) return;
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        float g = i < n ? grad_take(frame, 1, at(gout, i)) : 0.0f;
        if (i < n) grad_own(frame, 0, at(gx, i), 2 * x[i] * g);
    }"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    println!("device: {}", context.device().name()?);
    run(&context)?;
    Ok(context.close()?)
}

fn run(context: &Context) -> Result<(), Box<dyn std::error::Error>> {
    let stream = context.stream()?;
    saxpy(context, &stream)?;
    rust_kernel(&stream)?;
    closest_point(context, &stream)?;
    gradient(context, &stream)
}

fn saxpy(context: &Context, stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
    let (a, n) = (2.0f32, 1000u16);
    let x: Vec<f32> = (0..n).map(f32::from).collect();
    let y: Vec<f32> = (0..n).map(|i| f32::from(n - i)).collect();
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a * x + y).collect();
    let (x, y) = (DeviceBuffer::from_slice(stream, &x)?, DeviceBuffer::from_slice(stream, &y)?);
    let mut out = DeviceBuffer::<f32>::zeroed(stream, usize::from(n))?;
    Kernels::load(context)?.saxpy(stream, a, &x, &y, &mut out)?;
    equal("saxpy", &out.to_vec(stream)?, &expected)
}

fn rust_kernel(stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
    let x = DeviceBuffer::from_slice(stream, &[1.0f32, 2.5])?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, 2)?;
    scale::launch(stream, 4.0, &x, &mut out)?;
    equal("kernel in Rust", &out.to_vec(stream)?, &[4.0, 10.0])
}

/// Takes kernels that the crate has as PTX.
fn closest_point(context: &Context, stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
    let geometry = GeometryKernels::new(context);
    let cube = shapes::cube(2.0)?;
    let mesh = Mesh::upload(stream, &geometry, &cube, MeshOptions::default())?;
    let points = DeviceBuffer::from_slice(stream, &[[5.0f32, 0.25, -0.25]])?;
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(stream, 1)?;
    mesh.closest_points(stream, &PointQueries::at(&points), &mut closest)?;
    let found = closest.to_vec(stream)?;
    let position = found.first().map(|closest| closest.position).unwrap_or_default();
    equal("closest point", &position, &[1.0, 0.25, -0.25])
}

fn gradient(context: &Context, stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
    let module = Module::compile(context, cuda_tape::program(SQUARE))?;
    let spec = OpSpec::new("square")
        .param(Param::buffer("x", Element::F32).reads(Primal::Entry).len("n").covers_all().active())
        .param(Param::buffer("out", Element::F32).overwrites().len("n").covers_all().active())
        .param(Param::value("n"));
    // SAFETY: thread i of both kernels touches element i of each buffer, and only if i < n.
    let square = unsafe { spec.register(&module) }?;
    let x = DeviceBuffer::from_slice(stream, &[3.0f32])?;
    let mut y = DeviceBuffer::<f32>::zeroed(stream, 1)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        t.launch(&square, LaunchConfig::cover(1, 128), (&x, &mut y, 1u32))
    })?;
    tape.backward(stream, &y)?;
    equal("gradient", &tape.gradient(&x)?.to_vec(stream)?, &[6.0])
}

fn equal(what: &str, found: &[f32], expected: &[f32]) -> Result<(), Box<dyn std::error::Error>> {
    if found != expected {
        return Err(format!("{what}: {found:?} is not {expected:?}").into());
    }
    println!("{what}: right");
    Ok(())
}
