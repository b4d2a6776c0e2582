//! Gradients of kernels that `kernels!` declares with `#[gradient]`.

use cuda_safe::vector::Float2;
use cuda_safe::{DeviceBuffer, DeviceRepr, Module, Result, Stream, kernels, nvrtc::Program};
use tape::{Differentiable, Element, FloatType, Seeds, Tape, Variable};

use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::declared",
        device(follow_from_the_declaration),
        device(lengths_bound_what_is_used),
        device(gathers_and_sums),
        device(structures),
        device(what_is_inactive),
        device(what_is_refused),
        device(what_was_loaded),
    ]
}

const SOURCE: &str = r#"
    extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
        size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
        if (i < n) out[i] = a * x[i] * x[i] + y[i];
    }
    // Pairs of x become one element of out.
    __global__ void pairs(const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = x[2 * i] * x[2 * i + 1];
    }
    __global__ void gather(const unsigned* index, const float* x, float* sum, unsigned n, unsigned m) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n || index[i] >= m) return;
        float y = x[index[i]];
        atomicAdd(sum, y * y);
    }
    struct Field { float gravity; unsigned kind; float drag; };
    __global__ void fall(Field field, const float2* x, float2* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float kept = field.kind == 1 ? 1.0f - field.drag : 1.0f;
        out[i] = make_float2(x[i].x * kept, x[i].y - field.gravity * field.gravity);
    }
    // The second output has no gradient.
    __global__ void weigh(const float* weights, const float* x, float* out, float* sign, unsigned width, unsigned height) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
        if (i >= width || j >= height) return;
        unsigned at = j * width + i;
        out[at] = weights[at] * x[at] * x[at];
        sign[at] = x[at] > 0.0f ? 1.0f : -1.0f;
    }
    __global__ void by_bits(const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = __int_as_float(__float_as_int(x[i]) + 1); // refused
    }
"#;

#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Field {
    gravity: f32,
    kind: u32,
    drag: f32,
}
// SAFETY: `repr(C)`, and the members of the kernel's structure.
unsafe impl DeviceRepr for Field {}
// SAFETY: floats beside an integer; a gradient has the same layout.
unsafe impl Differentiable for Field {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(12, FloatType::F32).numbers_at(&[0, 8]);
}

kernels! {
    struct Kernels;
    // SAFETY: thread i touches element i of each array, or the two or the one of it that an index names, if it is in
    // bounds.
    unsafe in SOURCE {
        #[gradient(crate = tape)]
        safe fn saxpy(#[active] a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len())
            over n where y.len() == n, out.len() == x.len();
        #[gradient(crate = tape)]
        safe fn pairs(x: &[f32], out: &mut [f32], n: u32) over n where 2 * n <= x.len(), n <= out.len();
        #[gradient(crate = tape)]
        safe fn gather(index: &[u32], x: &[f32], sum: &mut [f32], n: u32 = index.len(), m: u32 = x.len())
            over n where sum.len() == 1;
        #[gradient(crate = tape)]
        safe fn fall(#[active] field: Field, x: &[Float2], out: &mut [Float2], n: u32 = x.len())
            over n where out.len() == n;
        #[gradient(crate = tape)]
        safe fn weigh(
            #[inactive] weights: &[f32], x: &[f32], out: &mut [f32], #[inactive] sign: &mut [f32],
            width: u32, height: u32
        ) over [width, height] where width * height <= weights.len(), width * height <= x.len(),
            width * height <= out.len(), width * height <= sign.len();
        #[gradient(crate = tape)]
        safe fn by_bits(x: &[f32], out: &mut [f32], n: u32 = x.len()) over n where out.len() == n;
    }
}

fn buffer<T: bytemuck::Pod>(stream: &Stream, values: &[T]) -> Result<DeviceBuffer<T>> {
    DeviceBuffer::from_slice(stream, values)
}

fn random(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| 2.0 * rng.float()).collect()
}

fn ones(stream: &Stream, n: usize) -> Result<DeviceBuffer<f32>> {
    buffer(stream, &vec![1.0f32; n])
}

#[track_caller]
fn near(given: &[f32], wanted: &[f32]) -> TestResult {
    ensure_eq!(given.len(), wanted.len());
    let largest = wanted.iter().fold(0.0f32, |most, wanted| most.max(wanted.abs()));
    for (i, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        ensure!((given - wanted).abs() <= 1e-5 * largest, "{i}: {given}, not {wanted}");
    }
    Ok(())
}

#[track_caller]
fn refused<T>(done: Result<T>, parts: &[&str]) -> TestResult {
    let Err(error) = done else {
        return Err(Failure::new(format!("accepted, and not refused with {parts:?}")));
    };
    let message = error.to_string();
    for part in parts {
        ensure!(message.contains(part), "{message:?} lacks {part:?}");
    }
    Ok(())
}

fn follow_from_the_declaration(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(321));
    let kernels = Kernels::load(device.context())?;
    for n in [1, 33, 1000] {
        let host = random(&mut rng, n);
        let (x, y) = (buffer(&stream, &host)?, buffer(&stream, &host)?);
        let (a, mut out) = (Variable::new(&stream, 0.5f32)?, ones(&stream, n)?);
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.watch(&y)?;
            kernels.record_saxpy(t, &a, &x, &y, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, n)?)?)?;
        near(&tape.gradient(&a)?.to_vec(&stream)?, &[host.iter().map(|x| x * x).sum()])?;
        near(&tape.gradient(&x)?.to_vec(&stream)?, &host)?;
        near(&tape.gradient(&y)?.to_vec(&stream)?, &vec![1.0; n])?;
        // A value has no gradient, and the values are those of the launch.
        let recorded = out.to_vec(&stream)?;
        kernels.saxpy(&stream, 0.5, &x, &y, &mut out)?;
        ensure_eq!(out.to_vec(&stream)?, recorded);
        Tape::record(&stream, |t| kernels.record_saxpy(t, 0.5, &x, &y, &mut out))?;
        ensure_eq!(out.to_vec(&stream)?, recorded);
    }
    let derived = kernels.derive_saxpy()?;
    ensure!(derived.accesses.iter().all(|access| access.own && access.each_element), "{derived}");
    let (x, y, mut out) = (ones(&stream, 3)?, ones(&stream, 2)?, ones(&stream, 3)?);
    let unequal = Tape::record(&stream, |t| kernels.record_saxpy(t, 0.5, &x, &y, &mut out));
    refused(unequal, &["y.len() == n"])
}

/// A clause `2 * n <= x.len()` says how much of x is used: what is behind may change.
fn lengths_bound_what_is_used(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(322));
    let kernels = Kernels::load(device.context())?;
    let host = random(&mut rng, 20);
    let (mut x, mut out) = (buffer(&stream, &host)?, ones(&stream, 10)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels.record_pairs(t, &x, &mut out, 4u32)
    })?;
    x.slice_mut(8..)?.upload(&stream, &[7.0; 12])?;
    let seeds = ones(&stream, 10)?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
    let wanted: Vec<f32> = (0..20).map(|i| if i < 8 { host[i ^ 1] } else { 0.0 }).collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
    x.slice_mut(7..)?.upload(&stream, &[7.0; 13])?;
    refused(tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?), &["`x` of", "pairs"])
}

fn gathers_and_sums(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(323));
    let kernels = Kernels::load(device.context())?;
    let host = random(&mut rng, 9);
    let index: Vec<u32> = (0..100).map(|_| rng.below(10) as u32).collect();
    let (x, indices) = (buffer(&stream, &host)?, buffer(&stream, &index)?);
    let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels.record_gather(t, &indices, &x, &mut sum)
    })?;
    tape.backward(&stream, &sum)?;
    let count = |i: usize| index.iter().filter(|index| **index as usize == i).count() as f32;
    let wanted: Vec<f32> = host.iter().enumerate().map(|(i, x)| 2.0 * x * count(i)).collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)
}

fn structures(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(324));
    let kernels = Kernels::load(device.context())?;
    let host: Vec<Float2> = (0..40).map(|_| Float2::new(rng.float(), rng.float())).collect();
    let field = Field { gravity: 3.0, kind: 1, drag: 0.25 };
    let (x, variable) = (buffer(&stream, &host)?, Variable::new(&stream, field)?);
    let mut out = DeviceBuffer::<Float2>::zeroed(&stream, 40)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&variable)?;
        t.watch(&x)?;
        kernels.record_fall(t, &variable, &x, &mut out)
    })?;
    let seeds = buffer(&stream, &[Float2::new(1.0, 2.0); 40])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
    let given = tape.gradient(&variable)?.to_vec(&stream)?;
    let by_drag: f32 = host.iter().map(|x| -x.x).sum();
    near(bytemuck::cast_slice(&given), &[-2.0 * 2.0 * 3.0 * 40.0, 0.0, by_drag])?;
    let given = tape.gradient(&x)?.to_vec(&stream)?;
    ensure!(given.iter().all(|g| *g == Float2::new(0.75, 2.0)), "{given:?}");
    Ok(())
}

fn what_is_inactive(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(325));
    let kernels = Kernels::load(device.context())?;
    let (n, weights) = (35, random(&mut rng, 35));
    let host = random(&mut rng, n);
    let (w, x) = (buffer(&stream, &weights)?, buffer(&stream, &host)?);
    let (mut out, mut sign) = (ones(&stream, n)?, ones(&stream, n)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels.record_weigh(t, &w, &x, &mut out, &mut sign, 7u32, 5u32)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, n)?)?)?;
    let wanted: Vec<f32> = weights.iter().zip(&host).map(|(w, x)| 2.0 * w * x).collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
    let watched = Tape::record(&stream, |t| {
        t.watch(&w)?;
        kernels.record_weigh(t, &w, &x, &mut out, &mut sign, 7u32, 5u32)
    });
    refused(watched, &["`weights` of `weigh` depends on something watched"])
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernels = Kernels::load(device.context())?;
    let (x, mut out) = (ones(&stream, 4)?, ones(&stream, 4)?);
    let recorded = Tape::record(&stream, |t| kernels.record_by_bits(t, &x, &mut out));
    let before = SOURCE.find("// refused").map_or("", |at| &SOURCE[..at]);
    let line = format!(":{}  ", before.lines().count());
    refused(recorded, &["`by_bits` can't be", &line, "integer instructions"])?;
    ensure_eq!(out.to_vec(&stream)?, [1.0; 4]);
    refused(kernels.derive_by_bits(), &[&line])
}

/// A struct knows the text of its kernels if it was loaded from one.
fn what_was_loaded(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (x, mut out) = (buffer(&stream, &[2.0f32, 5.0])?, ones(&stream, 1)?);
    let module = Module::compile(device.context(), Program::new(SOURCE))?;
    // SAFETY: the module is the declaration's source.
    let kernels = unsafe { Kernels::from_module(&module) }?;
    refused(kernels.derive_pairs(), &["`", "pairs", "is not known"])?;
    let changed = SOURCE.replace("x[2 * i] * x[2 * i + 1]", "x[2 * i] * 3.0f");
    // SAFETY: the kernels access what those of the declared source do.
    let kernels = unsafe { Kernels::load_from(device.context(), &changed) }?.clone();
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels.record_pairs(t, &x, &mut out, 1u32)
    })?;
    tape.backward(&stream, &out)?;
    near(&tape.gradient(&x)?.to_vec(&stream)?, &[3.0, 0.0])
}
