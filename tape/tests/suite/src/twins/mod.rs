//! All kernels that have an adjoint by hand, with one that is generated: both give the same gradients, or the
//! reasons why there is none are those listed here.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Result, Stream, nvrtc::Program};
use tape::ptx_ad::Reason;
use tape::{
    DifferentiateError, Element, FloatType, Op, OpSpec, Param, Recorder, Seeds, Tape, Variable,
};

use super::ops::{Number, Ops, Table};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

mod files;

use files::{File, Twin, each, of_both, of_floats};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::twins",
        device(of_operations_f32 = of_operations::<f32>),
        device(of_operations_f64 = of_operations::<f64>),
        device(of_files_f32 = of_files::<f32>),
        device(of_files_f64 = of_files::<f64>),
        device(what_is_refused),
    ]
}

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 1000];
/// Numbers of each buffer for each thread.
const WIDTH: usize = 8;

/// What kernels are launched with. All but `a` and `index` hold `WIDTH` numbers for each thread.
struct Data<T: Number> {
    n: usize,
    count: u32,
    a: Variable<T>,
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    one: DeviceBuffer<T>,
    two: DeviceBuffer<T>,
    index: DeviceBuffer<u32>,
    /// Three indices for each thread.
    faces: DeviceBuffer<[u32; 3]>,
}

type Record<T> = fn(&mut Recorder<'_>, &Op, &mut Data<T>) -> Result<()>;

fn threads(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n, 64)
}

/// The gradients by a, x and y of all that a launch leaves in x, y, one and two, each number with a random weight.
/// What has no gradient counts as one NaN.
fn gradients<T: Number>(stream: &Stream, op: &Op, n: usize, record: Record<T>) -> Result<Vec<f64>> {
    let mut rng = Rng::new(n as u64 + 77);
    let mut numbers =
        || -> Vec<T> { (0..n * WIDTH).map(|_| T::of(2.0 * f64::from(rng.float()))).collect() };
    let [x0, y0, one, two] = [numbers(), numbers(), numbers(), numbers()];
    let weights = [numbers(), numbers(), numbers(), numbers()];
    let mut indices = || rng.below(n.max(1)) as u32;
    let index: Vec<u32> = (0..n).map(|_| indices()).collect();
    let faces: Vec<[u32; 3]> = (0..n).map(|_| [indices(), indices(), indices()]).collect();
    let upload = |numbers: &[T]| DeviceBuffer::from_slice(stream, numbers);
    let (x0, y0) = (upload(&x0)?, upload(&y0)?);
    let mut data = Data {
        n,
        count: n as u32,
        a: Variable::new(stream, T::of(0.75))?,
        x: upload(&one)?,
        y: upload(&two)?,
        one: upload(&one)?,
        two: upload(&two)?,
        index: DeviceBuffer::from_slice(stream, &index)?,
        faces: DeviceBuffer::from_slice(stream, &faces)?,
    };
    let mut tape = Tape::record(stream, |t| {
        t.watch(&data.a)?;
        t.watch(&x0)?;
        t.watch(&y0)?;
        t.copy(&x0, &mut data.x)?;
        t.copy(&y0, &mut data.y)?;
        // What the kernel leaves alone of its outputs has gradients, too.
        t.copy(&x0, &mut data.one)?;
        t.copy(&y0, &mut data.two)?;
        record(t, op, &mut data)
    })?;
    if n == 0 {
        // Nothing has a gradient: that it was recorded is all there is to see.
        return Ok(Vec::new());
    }
    let [x, y, one, two] = weights.map(|weights| upload(&weights));
    let (x, y, one, two) = (x?, y?, one?, two?);
    let mut seeds = Seeds::new();
    for (of, with) in [(&data.x, &x), (&data.y, &y), (&data.one, &one), (&data.two, &two)] {
        seeds = seeds.with(of, with)?;
    }
    tape.backward_with(stream, &seeds)?;
    let mut all = Vec::new();
    for buffer in [&x0, &y0] {
        match tape.gradient(buffer) {
            Ok(gradient) => all.extend(gradient.to_vec(stream)?.into_iter().map(T::to)),
            Err(_) => all.push(f64::NAN),
        }
    }
    match tape.gradient(&data.a) {
        Ok(gradient) => all.extend(gradient.to_vec(stream)?.into_iter().map(T::to)),
        Err(_) => all.push(f64::NAN),
    }
    Ok(all)
}

/// Fails if gradients differ by more than rounding, relative to the largest.
fn compare<T: Number>(
    stream: &Stream,
    name: &str,
    [by_hand, generated]: [&Op; 2],
    record: Record<T>,
) -> TestResult {
    for n in SIZES {
        let wanted = gradients(stream, by_hand, n, record)?;
        let given = gradients(stream, generated, n, record)?;
        ensure!(given.len() == wanted.len(), "{name}: {} of {}", given.len(), wanted.len());
        let largest = wanted.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        ensure!(largest > 0.0 || n == 0, "{name}: all gradients are zero");
        for (at, (given, wanted)) in given.iter().zip(&wanted).enumerate() {
            if given.is_nan() && wanted.is_nan() {
                continue;
            }
            let error = (given - wanted).abs() / largest.max(1e-30);
            let bound = if T::SUFFIX == "f32" { 2e-6 } else { 1e-12 };
            ensure!(error <= bound, "{name}, n = {n}: gradient {at} is {given}, not {wanted}");
        }
    }
    Ok(())
}

type OfOps = fn(&Ops) -> &Op;

/// The kernels of `ops.cu` that `Ops` has.
fn of_operations<T: Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (by_hand, generated) = (Ops::of::<T>(device)?, Ops::generated::<T>(device)?);
    let all: [(&str, OfOps, Record<T>); 13] = [
        (
            "scale",
            |ops| &ops.scale,
            |t, op, d| t.launch(op, threads(d.n), (&d.a, &d.x, &mut d.one, d.count)),
        ),
        (
            "square_add",
            |ops| &ops.square_add,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.y, d.count)),
        ),
        ("bend", |ops| &ops.bend, |t, op, d| t.launch(op, threads(d.n), (&mut d.x, d.count))),
        (
            "multiply",
            |ops| &ops.multiply,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &d.y, &mut d.one, d.count)),
        ),
        (
            "multiply_shared",
            |ops| &ops.multiply_shared,
            |t, op, d| {
                let next = d.x.slice(d.n.min(1)..)?;
                t.launch(op, threads(d.n), (&d.x, next, &mut d.one, d.count))
            },
        ),
        (
            "energy",
            |ops| &ops.energy,
            |t, op, d| {
                if d.n == 0 {
                    return Ok(());
                }
                t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count))
            },
        ),
        (
            "gather",
            |ops| &ops.gather,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &d.index, &mut d.one, d.count)),
        ),
        (
            "power",
            |ops| &ops.power,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count)),
        ),
        (
            "power_times",
            |ops| &ops.power_times,
            |t, op, d| t.launch(op, threads(d.n), (&d.a, &d.x, &mut d.one, d.count)),
        ),
        (
            "split",
            |ops| &ops.split,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.one, &mut d.two, d.count)),
        ),
        (
            "times",
            |ops| &ops.times,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.y, d.count)),
        ),
        (
            "look_up",
            |ops| &ops.look_up,
            |t, op, d| {
                if d.n == 0 {
                    return Ok(());
                }
                let table = d.x.slice(..d.n.min(10))?;
                t.launch(op, threads(d.n), (&Table(table), &mut d.one, d.count))
            },
        ),
        (
            "series",
            |ops| &ops.series,
            |t, op, d| t.launch(op, threads(d.n), (&d.x, &mut d.one, d.count)),
        ),
    ];
    for (name, of, record) in all {
        compare::<T>(&stream, name, [of(&by_hand), of(&generated)], record)?;
    }
    Ok(())
}

fn of_files<T: Number>(device: &TestDevice) -> TestResult {
    each_twin(device, of_both::<T>())?;
    if T::SUFFIX == "f32" { each_twin(device, of_floats()) } else { Ok(()) }
}

fn each_twin<T: Number>(device: &TestDevice, twins: Vec<Twin<T>>) -> TestResult {
    let stream = device.stream()?;
    let mut known: Vec<(File, Module)> = Vec::new();
    for twin in twins {
        if known.iter().all(|(file, _)| *file != twin.file) {
            known.push((twin.file, Module::compile(device.context(), twin.file.program())?));
        }
        let Some((_, module)) = known.iter().find(|(file, _)| *file == twin.file) else { continue };
        // SAFETY: thread i of these kernels and adjoints touches element i of each buffer, and only if i < n, except
        // the rows of `transform`, the sums, and the points of `middles`, which it checks.
        let by_hand = unsafe { twin.spec(true).summands(twin.log).grid_stride().register(module) }?;
        let generated = differentiate(device, &twin.file.program(), twin.spec(false))
            .map_err(cuda_safe::Error::from)?;
        let name = format!("{:?}: {}", twin.file, twin.kernel);
        compare(&stream, &name, [&by_hand, &generated], twin.record)?;
    }
    Ok(())
}

fn differentiate(
    device: &TestDevice,
    program: &Program,
    spec: OpSpec,
) -> std::result::Result<Op, DifferentiateError> {
    // SAFETY: as for adjoints by hand.
    unsafe { spec.differentiate(device.context(), program) }
}

/// The kernels with an adjoint by hand that are refused, with all reasons.
fn what_is_refused(device: &TestDevice) -> TestResult {
    let one = |double: bool| if double { Element::F64 } else { Element::F32 };
    let three = |double| Element::vector(if double { FloatType::F64 } else { FloatType::F32 }, 3);
    let mut all: Vec<(File, String, Vec<Param>, Vec<Reason>)> = Vec::new();
    for double in [false, true] {
        let name = |name: &str| format!("{name}_{}", if double { "f64" } else { "f32" });
        let (one, three) = (one(double), three(double));
        let density = vec![
            Param::value("grid"),
            each("x", three),
            each("mass", one),
            Param::scalar("h", one).active(),
            each("density", one),
            Param::value("n"),
        ];
        // Distances come from the grid's copy of its points.
        all.push((File::Neighbors, name("density"), density, vec![Reason::Lost]));
    }
    for (file, kernel, params, reasons) in all {
        let spec = params.into_iter().fold(OpSpec::new(kernel.clone()), OpSpec::param);
        let found = match differentiate(device, &file.program(), spec) {
            Err(DifferentiateError::NotDifferentiable(error)) => error.refusals,
            Err(other) => return Err(cuda_safe::Error::from(other).into()),
            Ok(_) => return Err(Failure::new(format!("{kernel} was differentiated: list it"))),
        };
        let mut given: Vec<Reason> = Vec::new();
        for refusal in &found {
            if !given.contains(&refusal.reason) {
                given.push(refusal.reason.clone());
            }
        }
        ensure!(given == reasons, "{kernel}: {found:?}");
    }
    Ok(())
}
