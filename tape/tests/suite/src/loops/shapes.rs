//! Loops in launches of other shapes, on views, over memory that has two names, and in structures; and `dem`.

use cuda_safe::{DeviceBuffer, DeviceRepr, LaunchConfig};
use tape::{DifferentiateError, Element, FloatType, OpSpec, Param, Seeds, Tape, Variable};

use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use super::program;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::loops",
        device(matrix_products_in_two_dimensions),
        device(of_threads_that_go_on_by_the_grid),
        device(views_at_odd_elements),
        device(one_buffer_for_two_parameters),
        device(structures_by_value),
        device(a_pointer_of_two_parameters),
        device(one_thread_of_many_turns),
    ]
}

fn random(rng: &mut Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| f64::from(rng.float())).collect()
}

fn near(what: &str, given: &[f64], wanted: &[f64], most: f64) -> TestResult {
    ensure_eq!(given.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for (at, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        let is_near = (given - wanted).abs() <= most * largest;
        ensure!(is_near, "{what}: gradient {at} is {given}, not {wanted}");
    }
    Ok(())
}

/// The product of a matrix of `rows` times `inner` numbers with one of `inner` times `columns`.
fn multiply(a: &[f64], b: &[f64], [rows, inner, columns]: [usize; 3]) -> Vec<f64> {
    let at = |of: &[f64], index: usize| of.get(index).copied().unwrap_or(f64::NAN);
    let one = |r: usize, c: usize| {
        (0..inner).map(|k| at(a, r * inner + k) * at(b, k * columns + c)).sum::<f64>()
    };
    (0..rows * columns).map(|index| one(index / columns, index % columns)).collect()
}

fn transpose(of: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|c| of.iter().skip(c).step_by(columns).copied()).collect()
}

/// `out = a b`, a thread for each element, in blocks of two dimensions.
fn matrix_products_in_two_dimensions(device: &TestDevice) -> TestResult {
    products_of::<f64>(device, 1e-13)?;
    products_of::<f32>(device, 2e-6)
}

fn products_of<T: Number>(device: &TestDevice, most: f64) -> TestResult {
    let stream = device.stream()?;
    let source = program::<T>(
        "extern \"C\" __global__ void f(const real* a, const real* b, real* out, unsigned rows, unsigned inner,
                                        unsigned columns) {
             unsigned c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
             if (c >= columns || r >= rows) return;
             real sum = 0;
             for (unsigned k = 0; k < inner; ++k) sum += a[r * inner + k] * b[k * columns + c];
             out[r * columns + c] = sum;
         }",
    );
    let buffer = |name| Param::buffer(name, <T as Number>::ELEMENT).active();
    let spec = OpSpec::new("f").param(buffer("a")).param(buffer("b")).param(buffer("out"));
    let spec = ["rows", "inner", "columns"]
        .into_iter()
        .fold(spec, |spec, name| spec.param(Param::value(name)));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    ensure_eq!(op.derivation().map(|derivation| derivation.dimensions), Some(2));
    let mut rng = Rng::new(2360);
    for sizes @ [rows, inner, columns] in [[1, 1, 1], [7, 2, 3], [33, 17, 5], [21, 40, 37]] {
        let (a, b) = (random(&mut rng, rows * inner), random(&mut rng, inner * columns));
        let seed = random(&mut rng, rows * columns);
        let upload = |of: &[f64]| {
            let of: Vec<T> = of.iter().map(|x| T::of(*x)).collect();
            DeviceBuffer::from_slice(&stream, &of)
        };
        let (on_a, on_b, on_seed) = (upload(&a)?, upload(&b)?, upload(&seed)?);
        let mut out = upload(&seed)?;
        let launch =
            LaunchConfig::new((columns.div_ceil(8) as u32, rows.div_ceil(4) as u32), (8, 4));
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&on_a)?;
            t.watch(&on_b)?;
            let [rows, inner, columns] = sizes.map(|size| size as u32);
            t.launch(&op, launch, (&on_a, &on_b, &mut out, rows, inner, columns))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &on_seed)?)?;
        let of = |given: Vec<T>| given.into_iter().map(T::to).collect::<Vec<f64>>();
        let by_a = of(tape.gradient(&on_a)?.to_vec(&stream)?);
        let by_b = of(tape.gradient(&on_b)?.to_vec(&stream)?);
        let wanted = multiply(&seed, &transpose(&b, columns), [rows, columns, inner]);
        near("the left matrix", &by_a, &wanted, most)?;
        let wanted = multiply(&transpose(&a, inner), &seed, [inner, rows, columns]);
        near("the right matrix", &by_b, &wanted, most)?;
    }
    Ok(())
}

/// Fewer threads than elements: each goes on to further ones, and has a loop in each.
fn of_threads_that_go_on_by_the_grid(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let source = program::<f64>(
        "extern \"C\" __global__ void f(real a, const real* x, real* y, real* out, unsigned n) {
             for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                 real p = x[i];
                 for (unsigned k = 0; k < i % 5; ++k) p *= x[i] * a;
                 out[i] = p;
                 y[i] = y[i] * p;
             }
         }",
    );
    let buffer = |name| Param::buffer(name, Element::F64).len("n").active();
    let spec = || {
        OpSpec::new("f")
            .param(Param::scalar("a", Element::F64).active())
            .param(buffer("x"))
            .param(buffer("y"))
            .param(buffer("out"))
            .param(Param::value("n"))
    };
    for spec in [spec(), spec().grid_stride()] {
        let op = differentiate(device, spec, &source).map_err(failure)?;
        for (n, blocks, block) in
            [(0usize, 1, 32), (1, 2, 32), (500, 2, 33), (1000, 1, 1024), (777, 3, 64)]
        {
            let mut rng = Rng::new(2361);
            let [x, y, of_y, of_out] = [0; 4].map(|_| random(&mut rng, n));
            let a = Variable::new(&stream, 0.75f64)?;
            let (on_x, on_y) =
                (DeviceBuffer::from_slice(&stream, &x)?, DeviceBuffer::from_slice(&stream, &y)?);
            let (mut place, mut out) = (on_y.try_clone(&stream)?, on_y.try_clone(&stream)?);
            let mut tape = Tape::record(&stream, |t| {
                t.watch(&a)?;
                t.watch(&on_x)?;
                t.watch(&on_y)?;
                t.copy(&on_y, &mut place)?;
                let launch = LaunchConfig::new(blocks, block);
                t.launch(&op, launch, (&a, &on_x, &mut place, &mut out, n as u32))
            })?;
            if n == 0 {
                continue;
            }
            let (seed_y, seed_out) = (
                DeviceBuffer::from_slice(&stream, &of_y)?,
                DeviceBuffer::from_slice(&stream, &of_out)?,
            );
            let seeds = Seeds::new().with(&place, &seed_y)?.with(&out, &seed_out)?;
            tape.backward_with(&stream, &seeds)?;
            let (mut by_a, mut by_x, mut by_y) = (0.0, Vec::new(), Vec::new());
            let all = x.iter().zip(&y).zip(of_y.iter().zip(&of_out)).enumerate();
            for (i, ((x, y), (of_y, of_out))) in all {
                let k = (i % 5) as i32;
                let p = x.powi(k + 1) * 0.75f64.powi(k);
                let of_p = of_out + of_y * y;
                by_a += of_p * f64::from(k) * x.powi(k + 1) * 0.75f64.powi(k - 1);
                by_x.push(of_p * f64::from(k + 1) * x.powi(k) * 0.75f64.powi(k));
                by_y.push(of_y * p);
            }
            let what = format!("{n} by {blocks} of {block}");
            near(&what, &tape.gradient(&on_x)?.to_vec(&stream)?, &by_x, 1e-13)?;
            near(&what, &tape.gradient(&on_y)?.to_vec(&stream)?, &by_y, 1e-13)?;
            let given = tape.gradient(&a)?.to_vec(&stream)?;
            ensure!((given[0] - by_a).abs() <= 1e-12 * n as f64, "{what}: {given:?}, not {by_a}");
        }
    }
    Ok(())
}

/// A kernel whose element is the sum of the powers of `x[i]` times those of `z[i]`.
fn powers<T: Number>(device: &TestDevice) -> Result<tape::Op, Failure> {
    let source = program::<T>(
        "extern \"C\" __global__ void f(const real* x, const real* z, real* out, unsigned iterations, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             real p = 1;
             for (unsigned k = 0; k < iterations; ++k) p = p * x[i] + z[i];
             out[i] = p;
         }",
    );
    let buffer = |name| Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
    let spec = OpSpec::new("f")
        .param(buffer("x"))
        .param(buffer("z"))
        .param(buffer("out"))
        .param(Param::value("iterations"))
        .param(Param::value("n"));
    differentiate(device, spec, &source).map_err(failure)
}

/// The derivatives of the above by x and z.
fn slopes(x: f64, z: f64, iterations: u32) -> [f64; 2] {
    let (_, by_x, by_z) = (0..iterations)
        .fold((1.0, 0.0, 0.0), |(p, by_x, by_z), _| (p * x + z, p + x * by_x, x * by_z + 1.0));
    [by_x, by_z]
}

fn views_at_odd_elements(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, powers::<f32>(device)?);
    let host: Vec<f32> = (0..200).map(|i| (i % 13) as f32 * 0.125 - 0.75).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let at = |i: usize| host.get(i).copied().map_or(f64::NAN, f64::from);
    for (one, two, to, iterations) in
        [(1, 1, 1, 3), (0, 1, 3, 4), (3, 1, 0, 1), (2, 34, 5, 5), (7, 7, 2, 0)]
    {
        let n = 150usize;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, 200)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let (x, z) = (x.slice(one..one + n)?, x.slice(two..)?);
            let launch = LaunchConfig::cover(n, 64);
            t.launch(&op, launch, (x, z, out.slice_mut(to..)?, iterations, n as u32))
        })?;
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 200])?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let mut wanted = vec![0.0; 200];
        for i in 0..n {
            let [by_x, by_z] = slopes(at(one + i), at(two + i), iterations);
            wanted[one + i] += by_x;
            wanted[two + i] += by_z;
        }
        let given = tape.gradient(&x)?.to_vec(&stream)?;
        let given: Vec<f64> = given.into_iter().map(f64::from).collect();
        near(&format!("{one}, {two}, {to}"), &given, &wanted, 2e-6)?;
    }
    Ok(())
}

/// The same memory as both inputs; and as an input that the kernel stores to as its output: there, each iteration would read
/// what the one before has stored if the kernel stored in each iteration.
fn one_buffer_for_two_parameters(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, powers::<f64>(device)?);
    let host = [1.5f64, -0.5, 0.25];
    let start = DeviceBuffer::from_slice(&stream, &host)?;
    let mut x = start.try_clone(&stream)?;
    let memory = x.allocation().clone();
    // SAFETY: thread i reads element i before it writes it.
    let again = || unsafe { memory.view::<f64>(0..24) };
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&start)?;
        t.copy(&start, &mut x)?;
        t.launch(&op, LaunchConfig::cover(3, 64), (again()?, again()?, &mut x, 3u32, 3u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 3])?;
    tape.backward_with(&stream, &Seeds::new().with(&x, &ones)?)?;
    let wanted = host.map(|x| slopes(x, x, 3).iter().sum::<f64>());
    near("x twice", &tape.gradient(&start)?.to_vec(&stream)?, &wanted, 1e-14)?;

    // Each iteration stores, and reads x: with one memory for both that is a load after a store.
    let source = program::<f64>(
        "extern \"C\" __global__ void f(const real* x, real* out, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i < n) for (unsigned k = 0; k < 3; ++k) out[i] = x[i] * x[i] * 0.5;
         }",
    );
    let buffer = |name| Param::buffer(name, Element::F64).len("n").active();
    let spec = OpSpec::new("f").param(buffer("x")).param(buffer("out")).param(Param::value("n"));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    let recorded = Tape::record(&stream, |t| {
        t.watch(&start)?;
        t.copy(&start, &mut x)?;
        t.launch(&op, LaunchConfig::cover(3, 64), (again()?, &mut x, 3u32))
    });
    match recorded {
        Ok(mut tape) => {
            tape.backward_with(&stream, &Seeds::new().with(&x, &ones)?)?;
            // x^8 / 128
            let wanted = host.map(|x| x.powi(7) / 16.0);
            near("in place", &tape.gradient(&start)?.to_vec(&stream)?, &wanted, 1e-14)
        }
        Err(error) => {
            ensure!(error.to_string().contains('x'), "{error}");
            Ok(())
        }
    }
}

/// `World` of the kernel below.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct World {
    drag: f32,
    iterations: u32,
    wind: [f32; 2],
}
// SAFETY: repr(C), and the fields of `World` in the kernel.
unsafe impl DeviceRepr for World {}

/// Numbers and the trips lie in a structure that is passed by value.
fn structures_by_value(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let source = program::<f32>(
        "struct World { real drag; unsigned iterations; real2 wind; };
         extern \"C\" __global__ void f(World world, const real4* from, real4* to, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             real4 s = from[i];
             for (unsigned k = 0; k < world.iterations; ++k) {
                 s.x += s.z * 0.125f; s.y += s.w * 0.125f;
                 s.z -= world.drag * (s.z - world.wind.x) * s.x; s.w -= world.drag * (s.w - world.wind.y) * s.y;
             }
             to[i] = s;
         }",
    );
    let four = Element::vector(FloatType::F32, 4);
    let world = Param::structure("world", 16)
        .scalar_at(0, Element::F32)
        .scalar_at(8, Element::F32)
        .scalar_at(12, Element::F32);
    let spec = OpSpec::new("f")
        .param(world)
        .param(Param::buffer("from", four).len("n").active())
        .param(Param::buffer("to", four).len("n").active())
        .param(Param::value("n"));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    for (n, iterations) in [(1usize, 0u32), (33, 1), (300, 9)] {
        let mut rng = Rng::new(2362);
        let (start, seeds) = (random(&mut rng, 4 * n), random(&mut rng, 4 * n));
        let narrow = |of: &[f64]| of.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let from = DeviceBuffer::from_slice(&stream, &narrow(&start))?;
        let mut to = DeviceBuffer::<f32>::zeroed(&stream, 4 * n)?;
        let world = World { drag: 0.125, iterations, wind: [0.5, -0.25] };
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&from)?;
            t.launch(&op, LaunchConfig::cover(n, 128), (world, &from, &mut to, n as u32))
        })?;
        let seed = DeviceBuffer::from_slice(&stream, &narrow(&seeds))?;
        tape.backward_with(&stream, &Seeds::new().with(&to, &seed)?)?;
        let given = tape.gradient(&from)?.to_vec(&stream)?;
        let mut wanted = vec![0.0; 4 * n];
        for (i, wanted) in wanted.iter_mut().enumerate() {
            // Two numbers for each axis, by each of which the last state is followed.
            let (ball, axis, of_place) = (i / 4 * 4, i % 2, i % 4 < 2);
            let (mut x, mut v) = (start[ball + axis], start[ball + 2 + axis]);
            let (mut by_x, mut by_v) =
                (f64::from(u8::from(of_place)), f64::from(u8::from(!of_place)));
            for _ in 0..iterations {
                x += v * 0.125;
                by_x += by_v * 0.125;
                let off = v - f64::from(world.wind[axis]);
                by_v -= 0.125 * (by_v * x + off * by_x);
                v -= 0.125 * off * x;
            }
            *wanted = seeds[ball + axis] * by_x + seeds[ball + 2 + axis] * by_v;
        }
        let given: Vec<f64> = given.into_iter().map(f64::from).collect();
        near(&format!("n = {n}, {iterations} iterations"), &given, &wanted, 2e-6)?;
    }
    Ok(())
}

/// A pointer that leads to one of two parameters is differentiated, or refused.
fn a_pointer_of_two_parameters(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let source = program::<f64>(
        "extern \"C\" __global__ void f(const real4* x, const real4* z, real* out, unsigned iterations, unsigned n) {
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             real sum = 0;
             for (unsigned k = 0; k < iterations; ++k) { const real4* p = (i + k) % 3 ? x : z; sum += p[i].x * p[i].w; }
             out[i] = sum;
         }",
    );
    let four = Element::vector(FloatType::F64, 4);
    let spec = OpSpec::new("f")
        .param(Param::buffer("x", four).len("n").active())
        .param(Param::buffer("z", four).len("n").active())
        .param(Param::buffer("out", Element::F64).len("n").active())
        .param(Param::value("iterations"))
        .param(Param::value("n"));
    let op = match differentiate(device, spec, &source) {
        Ok(op) => op,
        Err(DifferentiateError::NotDifferentiable(error)) => {
            let reason = tape::ptx_ad::Reason::PointerInMemory;
            ensure!(error.refusals.iter().all(|refusal| refusal.reason == reason), "{error}");
            return Ok(());
        }
        Err(error) => return Err(failure(error)),
    };
    let n = 40usize;
    let mut rng = Rng::new(2363);
    let (x, z) = (random(&mut rng, 4 * n), random(&mut rng, 4 * n));
    let (on_x, on_z) =
        (DeviceBuffer::from_slice(&stream, &x)?, DeviceBuffer::from_slice(&stream, &z)?);
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, n)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&on_x)?;
        t.watch(&on_z)?;
        t.launch(&op, LaunchConfig::cover(n, 32), (&on_x, &on_z, &mut out, 7u32, n as u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f64; n])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let turns_of_z = |i: usize| (0..7).filter(|k| (i + k).is_multiple_of(3)).count() as f64;
    let wanted = |of: &[f64], iterations: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let one = |(i, v): (usize, &[f64])| [v[3] * iterations(i), 0.0, 0.0, v[0] * iterations(i)];
        of.chunks_exact(4).enumerate().flat_map(one).collect()
    };
    let by_x = wanted(&x, &|i| 7.0 - turns_of_z(i));
    near("x", &tape.gradient(&on_x)?.to_vec(&stream)?, &by_x, 1e-14)?;
    near("z", &tape.gradient(&on_z)?.to_vec(&stream)?, &wanted(&z, &turns_of_z), 1e-14)
}

/// Many iterations, in one thread: more than any guess of memory.
fn one_thread_of_many_turns(device: &TestDevice) -> TestResult {
    let (stream, op) = (device.stream()?, powers::<f64>(device)?);
    let iterations = 100_000u32;
    let (x, z) = (0.99995f64, 1e-5f64);
    let on_x = DeviceBuffer::from_slice(&stream, &[x])?;
    let on_z = DeviceBuffer::from_slice(&stream, &[z])?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&on_x)?;
        t.watch(&on_z)?;
        t.launch(&op, LaunchConfig::new(1, 1), (&on_x, &on_z, &mut out, iterations, 1u32))
    })?;
    tape.backward(&stream, &out)?;
    let given =
        [tape.gradient(&on_x)?.to_vec(&stream)?[0], tape.gradient(&on_z)?.to_vec(&stream)?[0]];
    near("100,000 iterations", &given, &slopes(x, z, iterations), 1e-10)
}
