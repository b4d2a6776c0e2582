//! Generated adjoints of kernels of `__half` and `__nv_bfloat16`: against tangents, and against the same kernel of `double`.

use bytemuck::Pod;
use cuda_safe::{
    DeviceBuffer, DeviceRepr, Kernel, LaunchConfig, Module, Result, Stream, nvrtc::Program,
};
use half::{bf16, f16};
use tape::check::{Jacobian, differences, jacobian};
use tape::ptx_ad::Reason;
use tape::{
    Differentiable, DifferentiateError, Element, Gradcheck, Op, OpSpec, Oracle, Param, Tape,
};

use super::generated::{differentiate, failure, is_as_right_as_known};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::halves",
        device(gradients_are_those_of_doubles),
        fault(gradients_are_the_tangents).variables(&[("CUDA_EMU_TANGENTS", "1")]),
        device(what_was_derived),
        device(what_has_no_adjoint_is_named),
    ]
}

/// Numbers of 16 bits.
trait Half: Differentiable<Gradient = f32> + DeviceRepr + Pod + Send + Sync {
    const NAME: &'static str;
    const PACKED: &'static str;
    /// Relative to the largest entry, how far a Jacobian may be from that of `double`: some roundings.
    const NEAR: f64;
    fn of(value: f32) -> Self;
    fn to(self) -> f64;
}

impl Half for f16 {
    const NAME: &'static str = "__half";
    const PACKED: &'static str = "__half2";
    const NEAR: f64 = 1e-2;
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn to(self) -> f64 {
        self.to_f64()
    }
}

impl Half for bf16 {
    const NAME: &'static str = "__nv_bfloat16";
    const PACKED: &'static str = "__nv_bfloat162";
    const NEAR: f64 = 6e-2;
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn to(self) -> f64 {
        self.to_f64()
    }
}

/// A kernel `f(real a, const real* x, const real* y, real* out, unsigned n)`: its name, what thread i does, and what thread
/// i of the kernel of `double` does; `None` if it is the same text.
type Row = (&'static str, &'static str, Option<&'static str>);

const SAXPY: &str = "if (i < n) out[i] = a * x[i] + y[i];";

/// All but these are of `float` inside.
const KERNELS: [Row; 12] = [
    ("saxpy", SAXPY, None),
    (
        "packed saxpy",
        "if (2 * i + 1 < n) {
             real2 u = ((const real2*)x)[i], v = ((const real2*)y)[i];
             ((real2*)out)[i] = real2(a, a) * u + v;
         } else if (2 * i < n) out[2 * i] = a * x[2 * i] + y[2 * i];",
        Some(SAXPY),
    ),
    (
        "a layer",
        "if (i >= n) return;
         acc s = 0;
         for (unsigned k = 0; k < 8; ++k) s += acc(x[(i + k) % n]) * acc(y[k % n]);
         out[i] = real(s > acc(0) ? s : acc(0.1) * s) * a;",
        None,
    ),
    (
        "in place",
        "if (i < n) for (int k = 0; k < 3; ++k) out[i] = out[i] * x[i] + a * y[i];",
        None,
    ),
    ("a gather", "if (i < n) out[i] = x[i * 7 % n] * y[i] + a * x[i];", None),
    (
        "packed sums",
        "if (2 * i + 1 < n && n > 5) {
             real2 u = ((const real2*)x)[i], v = ((const real2*)y)[i];
             atomicAdd((real2*)out + i % 3, real2(a, a) * u * v);
         }",
        Some(
            "if (2 * i + 1 < n && n > 5) for (int k = 0; k < 2; ++k)
                 atomicAdd(out + 2 * (i % 3) + k, a * x[2 * i + k] * y[2 * i + k]);",
        ),
    ),
    (
        "eight at once",
        "if (8 * i + 7 < n) {
             uint4 u = ((const uint4*)x)[i], v = ((const uint4*)y)[i];
             real2 *p = (real2*)&u, *q = (real2*)&v;
             for (int k = 0; k < 4; ++k) p[k] = p[k] * q[k] + real2(a, a) * p[k];
             ((uint4*)out)[i] = u;
         } else for (unsigned k = 8 * i; k < n && k < 8 * i + 8; ++k) out[k] = x[k] * y[k] + a * x[k];",
        Some("if (i < n) out[i] = x[i] * y[i] + a * x[i];"),
    ),
    (
        "functions",
        "if (i >= n) return;
         real v = abs_(x[i]) + real(0.5);
         out[i] = exp_(v) * log_(v) + sqrt_(v) / (v + y[i] * y[i]) + rsqrt_(v) * a;",
        None,
    ),
    (
        "choices",
        "if (i >= n) return;
         real u = x[i], v = y[i];
         real m = max_(u, v) * min_(u, v) + (u > v ? u * u : v) - (-u);
         if (m != real(0)) m = m * a;
         out[i] = m;",
        None,
    ),
    (
        "lanes",
        "if (2 * i + 1 >= n) return;
         real2 u = ((const real2*)x)[i], v = ((const real2*)y)[i];
         real2 w = u * v;
         w = real2(w.y, w.x) * real2(u.x, v.x) - real2(a, a);
         out[2 * i] = w.x * w.y, out[2 * i + 1] = w.y;",
        Some(
            "if (2 * i + 1 >= n) return;
             real p = x[2 * i] * y[2 * i], q = x[2 * i + 1] * y[2 * i + 1];
             real r = q * x[2 * i] - a, s = p * y[2 * i] - a;
             out[2 * i] = r * s, out[2 * i + 1] = s;",
        ),
    ),
    (
        "a series",
        "if (i >= n) return;
         real s = y[i], t = real(1);
         for (unsigned k = 0; k < i % 5 + 1; ++k) { t *= x[i] * a; s += t; if (s > real(3)) break; }
         out[i] = s;",
        None,
    ),
    (
        "several types",
        "if (i >= n) return;
         acc u = acc(x[i]); real v = real(u * u) * y[i]; double w = acc(v) * 0.5;
         out[i] = real(acc(w) + acc(v) * acc(a));",
        None,
    ),
];

const FUNCTIONS: &str = "
    __device__ real abs_(real x) { return ABS(x); }
    __device__ real exp_(real x) { return EXP(x); }
    __device__ real log_(real x) { return LOG(x); }
    __device__ real sqrt_(real x) { return SQRT(x); }
    __device__ real rsqrt_(real x) { return RSQRT(x); }
    __device__ real max_(real x, real y) { return MAX(x, y); }
    __device__ real min_(real x, real y) { return MIN(x, y); }";

fn program(types: &str, functions: [&str; 7], body: &str) -> Program {
    let names = ["ABS", "EXP", "LOG", "RSQRT", "SQRT", "MAX", "MIN"];
    let mut text = FUNCTIONS.to_owned();
    for (name, function) in names.into_iter().zip(functions) {
        text = text.replace(&format!("{name}("), &format!("{function}("));
    }
    Program::new(format!(
        "#include <cuda_fp16.h>
         #include <cuda_bf16.h>
         {types}
         {text}
         extern \"C\" __global__ void f(real a, const real* x, const real* y, real* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             {body}
         }}"
    ))
    .name("halves.cu")
}

fn of_halves<H: Half>(body: &str) -> Program {
    let types =
        format!("typedef {} real; typedef {} real2; typedef float acc;", H::NAME, H::PACKED);
    let functions = ["__habs", "hexp", "hlog", "hrsqrt", "hsqrt", "__hmax", "__hmin"];
    program(&types, functions, body)
}

fn of_doubles(body: &str) -> Program {
    let functions = ["fabs", "exp", "log", "rsqrt", "sqrt", "fmax", "fmin"];
    program("typedef double real; typedef double acc;", functions, body)
}

fn spec(element: Element) -> OpSpec {
    let buffer = |name: &'static str| Param::buffer(name, element).len("n").active();
    OpSpec::new("f")
        .param(Param::scalar("a", element).active())
        .param(buffer("x"))
        .param(buffer("y"))
        .param(buffer("out"))
        .param(Param::value("n"))
}

/// Whether the device adds 16-bit floats of this type itself.
fn has_sums<H: Half>(device: &TestDevice) -> Result<bool> {
    let (major, _) = device.context().device().compute_capability()?;
    Ok(major >= 9 || H::NAME == "__half")
}

/// Numbers from a quarter to one and a half, apart from each other.
fn values<H: Half>(rng: &mut Rng, n: usize) -> Vec<H> {
    (0..n).map(|_| H::of(0.875 + 0.625 * rng.float())).collect()
}

fn kernels<H: Half>(device: &TestDevice) -> Result<Vec<Row>> {
    let sums = has_sums::<H>(device)?;
    Ok(KERNELS.into_iter().filter(|(name, ..)| sums || *name != "packed sums").collect())
}

fn gradients_are_those_of_doubles(device: &TestDevice) -> TestResult {
    twins_of::<f16>(device)?;
    twins_of::<bf16>(device)
}

fn twins_of<H: Half>(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2701));
    for (name, body, twin) in kernels::<H>(device)? {
        let op = differentiate(device, spec(H::ELEMENT), &of_halves::<H>(body)).map_err(failure)?;
        let twin = Module::compile(device.context(), of_doubles(twin.unwrap_or(body)))?;
        let twin = twin.kernel("f")?;
        for n in [1, 2, 31, 33] {
            let [x, y, out] = [(); 3].map(|()| values::<H>(&mut rng, n));
            let given = by_x(&stream, &op, [&x, &y, &out])?;
            let [x, y, out] =
                [x, y, out].map(|list| list.into_iter().map(H::to).collect::<Vec<f64>>());
            let wanted = by_differences(&stream, &twin, [&x, &y, &out])?;
            let compared = given.compare(&wanted, |_, _| false)?;
            let error = compared.error;
            ensure!(error <= H::NEAR, "{} of {}, {n} elements: {compared}", name, H::NAME);
        }
    }
    Ok(())
}

fn by_x<H: Half>(stream: &Stream, op: &Op, [x, y, out]: [&[H]; 3]) -> Result<Jacobian> {
    let n = x.len();
    let [x, y] = [x, y].map(|list| DeviceBuffer::from_slice(stream, list));
    let (x, y, mut out) = (x?, y?, DeviceBuffer::from_slice(stream, out)?);
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        let args = (H::of(0.75), &x, &y, &mut out, n as u32);
        t.launch(op, LaunchConfig::cover(n, 32), args)
    })?;
    jacobian(&mut tape, stream, &x, &out)
}

fn by_differences(stream: &Stream, kernel: &Kernel, [x, y, out]: [&[f64]; 3]) -> Result<Jacobian> {
    let n = x.len();
    let mut x = DeviceBuffer::from_slice(stream, x)?;
    let y = DeviceBuffer::from_slice(stream, y)?;
    differences(stream, &mut x, 1e-6, |x| {
        let mut out = DeviceBuffer::from_slice(stream, out)?;
        let args = (0.75, x, &y, &mut out, n as u32);
        // SAFETY: no element is accessed at n or above.
        unsafe { kernel.launch(stream, LaunchConfig::cover(n, 32), args) }?;
        out.to_vec(stream)
    })
}

fn gradients_are_the_tangents(device: &TestDevice) -> TestResult {
    tangents_of::<f16>(device)?;
    tangents_of::<bf16>(device)
}

fn tangents_of<H: Half>(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(2702));
    for (name, body, _) in kernels::<H>(device)? {
        let op = differentiate(device, spec(H::ELEMENT), &of_halves::<H>(body)).map_err(failure)?;
        // Differences launch the kernel for each number, and tangents compute with as many.
        let many = if deep() { 1000 } else { 100 };
        let sizes: &[usize] =
            if device.runs_machine_code() { &[0, 1, 33] } else { &[0, 1, 31, 32, 33, many] };
        for &n in sizes {
            let [x, y, out] =
                [(); 3].map(|()| DeviceBuffer::from_slice(&stream, &values::<H>(&mut rng, n + 3)));
            let (x, y, mut out) = (x?, y?, out?);
            // Packed kernels are of whole words.
            let packed = body.contains("real2") || body.contains("uint4");
            for skip in [0, 1, 3] {
                if skip > 0 && (packed || n == 0) {
                    continue;
                }
                let (x, y) = (x.slice(skip..skip + n)?, y.slice(skip..skip + n)?);
                let args = (H::of(0.75), x, y, out.slice_mut(skip..skip + n)?, n as u32);
                // Sums of floats over all elements may cancel.
                let settings = Gradcheck::new().tolerance(1e-4);
                let report = settings.run(&stream, &op, LaunchConfig::cover(n.max(1), 64), args)?;
                // A GPU has no tangents.
                ensure!(device.runs_machine_code() || report.oracle == Oracle::Tangents);
                let what = format!("{name} of {}, {n} elements from {skip}", H::NAME);
                ensure!(is_as_right_as_known(device, &report), "{what}: {report}");
            }
        }
    }
    Ok(())
}

/// Gradients of a thread's own elements need no atomics, and lie where the values lie.
fn what_was_derived(device: &TestDevice) -> TestResult {
    let op =
        differentiate(device, spec(Element::F16), &of_halves::<f16>(SAXPY)).map_err(failure)?;
    let derivation = op.derivation().ok_or_else(|| Failure::new("it was generated"))?;
    ensure!(derivation.accesses.iter().all(|access| access.own && access.each_element), "{op:?}");
    let eight = KERNELS.iter().find(|(name, ..)| *name == "eight at once").map_or("", |k| k.1);
    let op =
        differentiate(device, spec(Element::F16), &of_halves::<f16>(eight)).map_err(failure)?;
    let text = op.derivation().map_or("", |derivation| derivation.text.as_str());
    ensure!(text.contains("v4.f32") || text.contains("red.global"), "{text}");
    Ok(())
}

fn what_has_no_adjoint_is_named(device: &TestDevice) -> TestResult {
    for (body, reason, line) in [
        (
            "if (i < n) out[i] = __ushort_as_half(__half_as_ushort(x[i]) + 1) * y[i] * a;",
            Reason::Bits,
            "halves.cu:",
        ),
        (
            "if (i < n) out[i] = __shfl_down_sync(~0u, x[i], 1) * y[i] * a;",
            Reason::Warp,
            "halves.cu:",
        ),
        (
            "if (i < n) out[i] = x[i] * y[i] > a ? real(1) : real(0);",
            Reason::NoPath,
            "depends on no active input",
        ),
        (
            "if (i < n) out[i] = atomicAdd(out, x[i] * y[i]) * a;",
            Reason::AtomicResult,
            "halves.cu:",
        ),
    ] {
        match differentiate(device, spec(Element::F16), &of_halves::<f16>(body)) {
            Err(DifferentiateError::NotDifferentiable(why)) => {
                let found = why.refusals.iter().any(|refusal| refusal.reason == reason);
                ensure!(found && why.to_string().contains(line), "{body}: {why}");
            }
            other => return Err(Failure::new(format!("{body}: {other:?}"))),
        }
    }
    // The type that was said is another one.
    let program = of_halves::<f16>(SAXPY);
    match differentiate(device, spec(Element::BF16), &program) {
        Err(DifferentiateError::NotDifferentiable(why)) => {
            let found = why.refusals.iter().any(|refusal| refusal.reason == Reason::Parameter);
            ensure!(found, "{why}");
        }
        other => return Err(Failure::new(format!("{other:?}"))),
    }
    Ok(())
}
