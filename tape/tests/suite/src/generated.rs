//! Adjoints that are generated from compiled kernels, against central differences in f64.

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, nvrtc::Program};
use tape::check::{Jacobian, differences, jacobian};
use tape::ptx_ad::Reason;
use tape::{
    DifferentiateError, Element, Op, OpSpec, Param, Report, Seeds, Tape, Variable, Verdict,
};

use super::ops::Number;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::generated",
        device(gradients_are_the_differences),
        device(gradients_of_numbers_are_summed),
        device(kernels_in_place),
        device(what_is_updated_without_a_gradient),
        device(gathers_and_scatters),
        device(vectors),
        device(what_is_not_chosen_has_no_gradient),
        device(what_has_no_adjoint_is_named),
        device(what_was_derived),
        device(deterministic_tapes),
    ]
}

/// Bodies of `f(real a, const real* x, real* out, unsigned n)` for the element i < n.
const FUNCTIONS: [(&str, &str); 10] = [
    ("a product", "out[i] = a * x[i];"),
    ("a local that is assigned again", "real y = a * x[i]; y *= y; y /= 3; y += x[i]; out[i] = y;"),
    (
        "branches that meet",
        "real y = x[i]; if (y > 0) { y = y * a; if (y > 1) y = y * y; } else y = a - y; out[i] = y * x[i];",
    ),
    (
        "an early return",
        "real y = x[i]; if (y > 1) { out[i] = y * y; return; } out[i] = a * y * y * y;",
    ),
    ("a choice", "real y = x[i]; out[i] = (y > a ? y * y : y + a) * y;"),
    (
        "the least and the largest",
        "real y = x[i]; real z = y < a ? y : a; out[i] = (z > 0 ? z : -z) * y + max(y * y, z) - min(y, z * z);",
    ),
    ("roots", "real y = x[i] * x[i] + 1; out[i] = sqrt(y) / (y + a) + 1 / y - sqrt(y) * x[i];"),
    (
        "neighbours",
        "real l = i > 0 ? x[i - 1] : x[i], r = i + 1 < n ? x[i + 1] : x[i]; out[i] = x[i] + a * (l - 2 * x[i] + r) * r;",
    ),
    ("a function that is not inlined", "out[i] = cube(x[i], a) + cube(a, x[i]);"),
    ("another memory", "const real* p = i % 2 ? x : x + n / 2; out[i] = p[i / 2] * a;"),
];

fn source<T: Number>(kernel: &str) -> Program {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    Program::new(format!(
        "typedef {real} real;
         __noinline__ __device__ real cube(real x, real y) {{ return x * x * x * y; }}
         {kernel}"
    ))
    .name("generated.cu")
}

fn function<T: Number>(body: &str) -> Program {
    source::<T>(&format!(
        "extern \"C\" __global__ void f(real a, const real* x, real* out, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             {body}
         }}"
    ))
}

fn spec<T: Number>() -> OpSpec {
    let element = <T as Number>::ELEMENT;
    OpSpec::new("f")
        .param(Param::scalar("a", element).active())
        .param(Param::buffer("x", element).len("n").active())
        .param(Param::buffer("out", element).len("n").active())
        .param(Param::value("n"))
}

pub(super) fn differentiate(
    device: &TestDevice,
    spec: OpSpec,
    program: &Program,
) -> Result<Op, DifferentiateError> {
    // SAFETY: thread i of the kernels of this file and of `unseen` stores to element i alone, and adds to and reads
    // elements below n, only if i < n.
    unsafe { spec.differentiate(device.context(), program) }
}

/// Returns whether a report says as much as the device can know: with tangents, that all is right; with the differences of a
/// GPU, which rounding and the order of threads may hide, that nothing is wrong.
pub(super) fn is_as_right_as_known(device: &TestDevice, report: &Report) -> bool {
    match device.runs_machine_code() {
        true => report.verdict() != Verdict::Wrong,
        false => report.is_right(),
    }
}

fn random(rng: &mut Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| f64::from(2.0 * rng.float())).collect()
}

/// The derivatives of all outputs by all of x.
fn by_x<T: Number>(stream: &Stream, op: &Op, a: f64, x: &[f64], block: u32) -> Result<Jacobian> {
    let n = x.len();
    let x: Vec<T> = x.iter().map(|&x| T::of(x)).collect();
    let x = DeviceBuffer::from_slice(stream, &x)?;
    let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        t.launch(op, LaunchConfig::cover(n, block), (T::of(a), &x, &mut out, n as u32))
    })?;
    jacobian(&mut tape, stream, &x, &out)
}

/// The same by central differences of the kernel in f64.
fn by_differences(stream: &Stream, op: &Op, a: f64, x: &[f64]) -> Result<Jacobian> {
    let n = x.len();
    let mut x = DeviceBuffer::from_slice(stream, x)?;
    differences(stream, &mut x, 1e-6, |x| {
        let mut out = DeviceBuffer::<f64>::zeroed(stream, n)?;
        Tape::record(stream, |t| {
            t.launch(op, LaunchConfig::cover(n, 64), (a, x, &mut out, n as u32))
        })?;
        out.to_vec(stream)
    })
}

/// Fails if two Jacobians differ by more than `most`, relative to the largest entry.
#[track_caller]
fn same(name: &str, given: &Jacobian, wanted: &Jacobian, most: f64) -> TestResult {
    let compared = given.compare(wanted, |_, _| false)?;
    ensure!(compared.error <= most, "{name}: {compared}");
    Ok(())
}

fn gradients_are_the_differences(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(231));
    for (name, body) in FUNCTIONS {
        let wide = differentiate(device, spec::<f64>(), &function::<f64>(body)).map_err(failure)?;
        let narrow =
            differentiate(device, spec::<f32>(), &function::<f32>(body)).map_err(failure)?;
        for n in [1, 2, 31, 32, 33] {
            let (a, x) = (0.75, random(&mut rng, n));
            let wanted = by_differences(&stream, &wide, a, &x)?;
            let given = by_x::<f64>(&stream, &wide, a, &x, 32)?;
            same(name, &given, &wanted, 1e-8)?;
            same(name, &by_x::<f32>(&stream, &narrow, a, &x, 33)?, &given, 2e-6)?;
        }
        // Nothing to do is no error.
        by_x::<f32>(&stream, &narrow, 1.0, &[], 32)?;
    }
    Ok(())
}

pub(super) fn failure(error: DifferentiateError) -> Failure {
    Failure::from(cuda_safe::Error::from(error))
}

/// The gradient of the sum of all outputs by a, and the outputs' sum for other values of a.
fn gradients_of_numbers_are_summed(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(232));
    let body = "real y = x[i]; out[i] = y > 0 ? a * a * y : a * y * y;";
    let wide = differentiate(device, spec::<f64>(), &function::<f64>(body)).map_err(failure)?;
    let narrow = differentiate(device, spec::<f32>(), &function::<f32>(body)).map_err(failure)?;
    for (n, block) in [(1usize, 1u32), (31, 33), (33, 1), (1000, 64), (5000, 1024), (4097, 96)] {
        let x = random(&mut rng, n);
        let wanted: f64 = x.iter().map(|y| if *y > 0.0 { 2.0 * 0.75 * y } else { y * y }).sum();
        let size: f64 = x.iter().map(|y| y.abs().max(y * y)).sum();
        ensure!(
            (by_a::<f64>(&stream, &wide, &x, block)? - wanted).abs() <= 1e-13 * size,
            "{n}, {block}"
        );
        ensure!(
            (by_a::<f32>(&stream, &narrow, &x, block)? - wanted).abs() <= 1e-6 * size,
            "{n}, {block}"
        );
    }
    Ok(())
}

fn by_a<T: Number>(stream: &Stream, op: &Op, x: &[f64], block: u32) -> Result<f64> {
    let n = x.len();
    let x: Vec<T> = x.iter().map(|&x| T::of(x)).collect();
    let x = DeviceBuffer::from_slice(stream, &x)?;
    let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
    let a = Variable::new(stream, T::of(0.75))?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&a)?;
        t.launch(op, LaunchConfig::cover(n, block), (&a, &x, &mut out, n as u32))
    })?;
    let ones = DeviceBuffer::from_slice(stream, &vec![T::of(1.0); n])?;
    tape.backward_with(stream, &Seeds::new().with(&out, &ones)?)?;
    Ok(tape.gradient(&a)?.to_vec(stream)?.first().map_or(f64::NAN, |g| g.to()))
}

/// `x = a x x` in place, twice.
fn kernels_in_place(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(233));
    let program = source::<f64>(
        "extern \"C\" __global__ void f(real a, real* x, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i < n) x[i] = a * x[i] * x[i];
         }",
    );
    let spec = OpSpec::new("f")
        .param(Param::scalar("a", Element::F64).active())
        .param(Param::buffer("x", Element::F64).len("n").active())
        .param(Param::value("n"));
    let op = differentiate(device, spec, &program).map_err(failure)?;
    for n in [1usize, 31, 33, 1000] {
        let start = random(&mut rng, n);
        let a = Variable::new(&stream, 0.5f64)?;
        let mut x = DeviceBuffer::from_slice(&stream, &start)?;
        let mut copy = DeviceBuffer::<f64>::zeroed(&stream, n)?;
        let before = DeviceBuffer::from_slice(&stream, &start)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a)?;
            t.watch(&before)?;
            t.copy(&before, &mut x)?;
            for _ in 0..2 {
                t.launch(&op, LaunchConfig::cover(n, 32), (&a, &mut x, n as u32))?;
            }
            t.copy(&x, &mut copy)
        })?;
        let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f64; n])?;
        tape.backward_with(&stream, &Seeds::new().with(&copy, &ones)?)?;
        // a (a x^2)^2 = a^3 x^4
        let given = tape.gradient(&before)?.to_vec(&stream)?;
        for (x, g) in start.iter().zip(&given) {
            let wanted = 4.0 * 0.125 * x.powi(3);
            ensure!((g - wanted).abs() <= 1e-13 * wanted.abs().max(1e-3), "{g}, not {wanted}");
        }
        let by_a = tape.gradient(&a)?.to_vec(&stream)?;
        let wanted: f64 = start.iter().map(|x| 3.0 * 0.25 * x.powi(4)).sum();
        ensure!((by_a[0] - wanted).abs() <= 1e-12 * wanted, "{by_a:?}, not {wanted}");
    }
    Ok(())
}

/// Springs: each reads the ends and adds a force to both.
fn gathers_and_scatters(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(234));
    let program = source::<f64>(
        "extern \"C\" __global__ void f(real stiffness, const unsigned* ends, const real* x, real* force,
                                        unsigned n, unsigned m) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             unsigned a = ends[2 * i], b = ends[2 * i + 1];
             if (a >= m || b >= m) return;
             real by = stiffness * (x[b] - x[a]) * (x[b] - x[a]);
             atomicAdd(force + a, by);
             atomicAdd(force + b, -by);
         }",
    )
    .cuda_headers(false);
    let spec = OpSpec::new("f")
        .param(Param::scalar("stiffness", Element::F64).active())
        .param(Param::buffer("ends", Element::bytes(8)).len("n"))
        .param(Param::buffer("x", Element::F64).len("m").active())
        .param(Param::buffer("force", Element::F64).len("m").active())
        .param(Param::value("n"))
        .param(Param::value("m"));
    let op = differentiate(device, spec, &program).map_err(failure)?;
    for n in [1usize, 33, 200] {
        let m = n / 2 + 1;
        let x = random(&mut rng, m);
        let ends: Vec<[u32; 2]> = (0..n).map(|_| [0; 2].map(|_| rng.below(m + 1) as u32)).collect();
        let seeds = random(&mut rng, m);
        let place = DeviceBuffer::from_slice(&stream, &x)?;
        let edges = DeviceBuffer::from_slice(&stream, &ends)?;
        let mut force = DeviceBuffer::<f64>::zeroed(&stream, m)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&place)?;
            t.fill(&mut force, 0.0)?;
            let launch = LaunchConfig::cover(n, 32);
            t.launch(&op, launch, (0.5f64, &edges, &place, &mut force, n as u32, m as u32))
        })?;
        let seed = DeviceBuffer::from_slice(&stream, &seeds)?;
        tape.backward_with(&stream, &Seeds::new().with(&force, &seed)?)?;
        let given = tape.gradient(&place)?.to_vec(&stream)?;
        let mut wanted = vec![0.0; m];
        for [a, b] in ends
            .iter()
            .map(|ends| ends.map(|end| end as usize))
            .filter(|e| e.iter().all(|e| *e < m))
        {
            let by = 2.0 * 0.5 * (x[b] - x[a]) * (seeds[a] - seeds[b]);
            wanted[b] += by;
            wanted[a] -= by;
        }
        for (given, wanted) in given.iter().zip(&wanted) {
            ensure!((given - wanted).abs() <= 1e-11, "{given}, not {wanted}");
        }
    }
    Ok(())
}

/// `float4`, read and written at once, and a structure passed by value.
fn vectors(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(235));
    let program = Program::new(
        "struct World { float drag; int unused; float2 wind; };
         extern \"C\" __global__ void f(World world, const float4* from, float4* to, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             float4 s = from[i];
             float speed = s.z * s.z + s.w * s.w;
             s.x += s.z; s.y += s.w;
             s.z -= world.drag * speed * (s.z - world.wind.x);
             s.w -= world.drag * speed * (s.w - world.wind.y);
             to[i] = s;
         }",
    )
    .name("flight.cu");
    let state = Element::vector(tape::FloatType::F32, 4);
    let world = Param::structure("world", 16)
        .scalar_at(0, Element::F32)
        .scalar_at(8, Element::F32)
        .scalar_at(12, Element::F32);
    let spec = OpSpec::new("f")
        .param(world)
        .param(Param::buffer("from", state).len("n").active())
        .param(Param::buffer("to", state).len("n").active())
        .param(Param::value("n"));
    let op = differentiate(device, spec, &program).map_err(failure)?;
    let derivation = op.derivation().ok_or_else(|| Failure::new("it was generated"))?;
    ensure!(
        derivation.accesses.iter().all(|access| access.own && access.each_element),
        "{derivation:?}"
    );
    for n in [1usize, 33, 300] {
        let start = random(&mut rng, 4 * n);
        let seeds = random(&mut rng, 4 * n);
        let as_floats = |of: &[f64]| -> Vec<[f32; 4]> {
            of.chunks_exact(4)
                .map(|v| [v[0] as f32, v[1] as f32, v[2] as f32, v[3] as f32])
                .collect()
        };
        let from = DeviceBuffer::from_slice(&stream, &as_floats(&start))?;
        let mut to = DeviceBuffer::<[f32; 4]>::zeroed(&stream, n)?;
        let (drag, wind) = (0.1f32, [0.5f32, -0.25]);
        let world = [drag.to_bits(), 0, wind[0].to_bits(), wind[1].to_bits()];
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&from)?;
            t.launch(&op, LaunchConfig::cover(n, 128), (world, &from, &mut to, n as u32))
        })?;
        let seed = DeviceBuffer::from_slice(&stream, &as_floats(&seeds))?;
        tape.backward_with(&stream, &Seeds::new().with(&to, &seed)?)?;
        let given = tape.gradient(&from)?.to_vec(&stream)?;
        let (drag, wind) = (f64::from(drag), wind.map(f64::from));
        for ((s, g), given) in start.chunks_exact(4).zip(seeds.chunks_exact(4)).zip(&given) {
            let speed = s[2] * s[2] + s[3] * s[3];
            let off = [s[2] - wind[0], s[3] - wind[1]];
            let along = g[2] * off[0] + g[3] * off[1];
            let wanted = [
                g[0],
                g[1],
                g[0] + g[2] * (1.0 - drag * speed) - drag * 2.0 * s[2] * along,
                g[1] + g[3] * (1.0 - drag * speed) - drag * 2.0 * s[3] * along,
            ];
            for (given, wanted) in given.iter().zip(wanted) {
                ensure!((f64::from(*given) - wanted).abs() <= 2e-6 * 20.0, "{given}, not {wanted}");
            }
        }
    }
    Ok(())
}

/// A second result depends on what is updated, and nothing on what it is updated to.
fn what_is_updated_without_a_gradient(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(237));
    let spec = || {
        OpSpec::new("f")
            .param(Param::buffer("x", Element::F64).len("n").active())
            .param(Param::buffer("out", Element::F64).len("n").active())
            .param(Param::value("n"))
    };
    // Of what was there before, and of what the kernel has stored there.
    for (body, factor) in [
        ("real y = x[i]; out[i] = y * y; x[i] = y / 2;", 2.0),
        ("x[i] = x[i] / 2; __threadfence(); out[i] = x[i] * x[i];", 0.5),
    ] {
        let program = source::<f64>(&format!(
            "extern \"C\" __global__ void f(real* x, real* out, unsigned n) {{
                 unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
                 if (i < n) {{ {body} }}
             }}"
        ));
        let op = differentiate(device, spec(), &program).map_err(failure)?;
        let start = random(&mut rng, 40);
        let before = DeviceBuffer::from_slice(&stream, &start)?;
        let mut x = DeviceBuffer::<f64>::zeroed(&stream, 40)?;
        let mut out = DeviceBuffer::<f64>::zeroed(&stream, 40)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&before)?;
            t.copy(&before, &mut x)?;
            t.launch(&op, LaunchConfig::cover(40, 32), (&mut x, &mut out, 40u32))
        })?;
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 40])?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let given = tape.gradient(&before)?.to_vec(&stream)?;
        for (x, g) in start.iter().zip(&given) {
            let wanted = factor * x;
            ensure!((g - wanted).abs() <= 1e-13, "{body}: {g}, not {wanted}");
        }
    }
    Ok(())
}

/// Where nothing is chosen, an infinite derivative is no gradient; and the rules at points without a derivative.
fn what_is_not_chosen_has_no_gradient(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let zero = |body: &str, x: f64, wanted: f64| -> TestResult {
        for block in [1, 32] {
            let op =
                differentiate(device, spec::<f64>(), &function::<f64>(body)).map_err(failure)?;
            let given = by_x::<f64>(&stream, &op, 1.0, &[x], block)?;
            let given =
                given.rows().next().and_then(|row| row.first().copied()).unwrap_or(f64::NAN);
            ensure!(given == wanted, "{body} at {x}: {given}, not {wanted}");
        }
        Ok(())
    };
    let safe = "real l = x[i] * x[i], r = a / l; out[i] = l > 0 ? r : a * l + x[i];";
    zero(safe, 0.0, 1.0)?;
    zero(safe, 2.0, -0.25)?;
    zero("real y = x[i]; out[i] = a * (y > 0 ? sqrt(y) : y);", 0.0, 1.0)?;
    zero("out[i] = a * sqrt(x[i]);", 0.0, 0.0)?;
    zero("out[i] = a * fabs(x[i]);", 0.0, 1.0)?;
    zero("out[i] = a * fabs(x[i]);", -0.0, -1.0)?;
    zero("out[i] = a * fmax(x[i], 2.0);", 2.0, 1.0)?;
    zero("out[i] = a * fmax(2.0, x[i]);", 2.0, 0.0)?;
    zero("out[i] = a * fmin(x[i], 2.0);", f64::NAN, 0.0)?;
    zero("out[i] = a * fmax(x[i], -1.0);", f64::INFINITY, 1.0)?;
    zero("out[i] = a * floor(x[i]) + a * x[i];", 1.5, 1.0)?;
    zero("out[i] = a * x[i];", 5e-324, 1.0)?;
    Ok(())
}

/// Every reason is named with its line.
fn what_has_no_adjoint_is_named(device: &TestDevice) -> TestResult {
    let reasons = |program: Program, spec: OpSpec| match differentiate(device, spec, &program) {
        Err(DifferentiateError::NotDifferentiable(error)) => Ok(error.refusals),
        Err(other) => Err(failure(other)),
        Ok(_) => Err(Failure::new("it was differentiated")),
    };
    let one_of = |body: &str, reason: Reason, lines: &[u32]| -> TestResult {
        let found = reasons(function::<f32>(body), spec::<f32>())?;
        let wanted = found.iter().find(|refusal| refusal.reason == reason);
        let at = wanted.and_then(|refusal| refusal.user.as_ref());
        ensure!(
            at.is_some_and(|at| at.file.ends_with("generated.cu") && lines.contains(&at.line)),
            "{body}: {found:?}"
        );
        Ok(())
    };
    let line = |body: &str, reason: Reason, line: u32| one_of(body, reason, &[line]);
    // The body's first line is the sixth of the program.
    // Said of the first instruction of the thirteenth.
    let nested: String =
        (0..13).map(|k| format!("for (unsigned k{k} = i; k{k} < n; k{k}++) ")).collect();
    let nested = format!("real s = x[i];\n{nested}\n s = s * a + x[k0 ^ k12];\nout[i] = s;");
    line(&nested, Reason::Loop, 8)?;
    let cycle = "unsigned k = 0;\nif (x[i] > a) goto middle;\ntop: out[i] *= x[k];\nmiddle: if (++k < n) goto top;";
    one_of(cycle, Reason::Irreducible, &[8, 9])?;
    let added = "atomicAdd(out + i, a * x[i]);\nout[i] = 2 * out[i];";
    line(added, Reason::MixedAtomics, 6)?;
    line(added, Reason::LoadAfterStore, 7)?;
    line(
        "extern __shared__ real s[];\ns[threadIdx.x % 32] = a * x[i];\n__syncthreads();\nout[i] = s[0];",
        Reason::SharedMemory,
        7,
    )?;
    line("out[i] = x[i];\nif (a > 1)\n out[i] = 2 * x[i];", Reason::NoPath, 7)?;
    line(
        "out[i] = a * x[i];\n__threadfence();\nout[i] = ((volatile real*)out)[i];",
        Reason::Volatile,
        8,
    )?;
    line(
        "real y = a * x[i];\nout[i] = y + __int_as_float(__float_as_int(y) + 5);",
        Reason::Bits,
        7,
    )?;
    line("real y = a * x[i];\nout[i] = __shfl_xor_sync(~0u, y, 1);", Reason::Warp, 7)?;
    line("out[i] = a * x[i];\nout[(unsigned)atomicAdd(out, x[i])] = a;", Reason::AtomicResult, 7)?;
    // An argument that contradicts the code.
    let said = OpSpec::new("f")
        .param(Param::scalar("a", Element::F32).active())
        .param(Param::buffer("x", Element::F32).len("n").active())
        .param(Param::buffer("out", Element::F32).accumulates().len("n").active())
        .param(Param::value("n"));
    let found = differentiate(device, said, &function::<f32>("out[i] = a * x[i];"));
    let named = |error: &DifferentiateError| matches!(error, DifferentiateError::Contradiction { param, .. } if param == "out");
    ensure!(found.as_ref().err().is_some_and(named), "{:?}", found.err());
    Ok(())
}

fn what_was_derived(device: &TestDevice) -> TestResult {
    let program = function::<f32>("out[i] = a * x[i];");
    let [first, second] = [0; 2].map(|_| differentiate(device, spec::<f32>(), &program));
    let (first, second) = (first.map_err(failure)?, second.map_err(failure)?);
    let text = |op: &Op| op.derivation().map(|derivation| derivation.text.clone());
    ensure!(text(&first).is_some() && text(&first) == text(&second));
    let accesses =
        first.derivation().map(|derivation| derivation.accesses.clone()).unwrap_or_default();
    let effects: Vec<_> =
        accesses.iter().map(|access| (&*access.param, access.effect, access.own)).collect();
    ensure_eq!(
        effects,
        [("x", tape::Effect::Reads, true), ("out", tape::Effect::Overwrites, true)]
    );
    ensure!(accesses.iter().all(|access| access.each_element));
    let derivation = first.derivation().ok_or_else(|| Failure::new("there is no derivation"))?;
    let page = derivation.to_string();
    let line = "`x`: read; the adjoint reads it as it was before the launch; each thread has its own element, all are covered";
    ensure!(
        page.contains(line) && page.contains("`out`: overwritten; the adjoint does not read it"),
        "{page}"
    );
    for text in [page, format!("{derivation:?}")] {
        ensure!(!text.contains(".entry") && text.len() < 1000, "{text}");
    }
    Ok(())
}

/// Gradients that no two threads share are deterministic; others need a log that generated adjoints lack.
fn deterministic_tapes(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let body = "out[i] = x[i] * x[i];";
    let element = Element::F32;
    let own = OpSpec::new("f")
        .param(Param::value("a"))
        .param(Param::buffer("x", element).len("n").active())
        .param(Param::buffer("out", element).len("n").active())
        .param(Param::value("n"));
    let x = DeviceBuffer::from_slice(&stream, &[3.0f32])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    for (spec, body, own) in [(own, body, true), (spec::<f32>(), "out[i] = a * x[i];", false)] {
        let op = differentiate(device, spec, &function::<f32>(body)).map_err(failure)?;
        let a = Variable::new(&stream, 1.0f32)?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(true);
        let recorded = tape.record_again(&stream, |t| {
            t.watch(&x)?;
            if own {
                t.launch(&op, LaunchConfig::new(1, 1), (1.0f32, &x, &mut out, 1u32))
            } else {
                t.watch(&a)?;
                t.launch(&op, LaunchConfig::new(1, 1), (&a, &x, &mut out, 1u32))
            }
        });
        recorded.and_then(|()| tape.backward(&stream, &out))?;
        if own {
            ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, [6.0]);
        } else {
            ensure_eq!(tape.gradient(&a)?.to_vec(&stream)?, [3.0]);
        }
    }
    Ok(())
}
