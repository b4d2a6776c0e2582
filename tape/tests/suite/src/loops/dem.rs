//! The step of the example `dem`, in C++: differentiated as it is, with the friction of the ground as a parameter, and with a
//! parameter that is only compared.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Stream, nvrtc::Program};
use tape::ptx_ad::Reason;
use tape::{DifferentiateError, Element, FloatType, Op, OpSpec, Param, Seeds, Tape, Variable};

use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["tape::loops", device(dem_is_differentiated), device(dem_has_no_path_from_cohesion),]
}

const SOURCE: &str = include_str!("../../../../../examples/dem/tests/step.cu");
/// 6 × 4 × 6 grains.
const N: usize = 144;

/// The source, edited: what is replaced stands there once.
fn edited(edits: &[(&str, &str)]) -> Result<String, Failure> {
    let mut source = SOURCE.to_owned();
    for (from, to) in edits {
        ensure_eq!(source.matches(from).count(), 1, "{from}");
        source = source.replace(from, to);
    }
    Ok(source)
}

/// The program, or the same in doubles.
fn program<T: Number>(source: &str) -> Program {
    let mut source = source.to_owned();
    if T::SUFFIX == "f64" {
        for (from, to) in [
            ("float4", "geom::vec4<float>"),
            ("float", "double"),
            ("fminf", "fmin"),
            ("fabsf", "fabs"),
            ("0.0f", "0.0"),
        ] {
            source = source.replace(from, to);
        }
    }
    geom_kernels::program(source).name("step.cu")
}

fn spec<T: Number>(first: Option<Param>) -> OpSpec {
    let float = if T::SUFFIX == "f32" { FloatType::F32 } else { FloatType::F64 };
    let grains = |name| Param::buffer(name, Element::vector(float, 4)).len_times(2, "n");
    let spec = first.into_iter().fold(OpSpec::new("step"), OpSpec::param);
    spec.param(grains("now").active())
        .param(Param::buffer("old", Element::vector(float, 4)).len("n"))
        .param(Param::buffer("offsets", Element::bytes(8)).len("n"))
        .param(Param::buffer("lists", Element::bytes(4)).len_times(32, "n"))
        .param(grains("next").active())
        .param(Param::buffer("trouble", Element::bytes(4)).len_fixed(1))
        .param(Param::value("n"))
}

/// Positions and velocities of a block half in the ground, that shears; four numbers for each.
fn block() -> Vec<f64> {
    let mut rng = Rng::new(2370);
    let place = |i: usize, rng: &mut Rng| f64::from(0.2 * i as f32 + 0.005 * rng.float());
    let mut grains = Vec::new();
    for i in 0..N {
        let [x, y, z] = [i % 6, i / 36, i / 6 % 6].map(|i| place(i, &mut rng));
        grains.extend([x, y - 0.01, z, 0.0]);
    }
    // No two velocities are the same: the direction in which grains rub would have no derivative.
    for i in 0..N {
        let mut speed = |mean: usize| mean as f64 + 0.25 * f64::from(rng.float());
        grains.extend([speed(0), speed(0) - 1.0, speed(i / 36) - 2.0, 0.25]);
    }
    grains
}

/// All other grains within reach of each.
fn lists(grains: &[f64]) -> (Vec<u64>, Vec<u32>) {
    let (mut offsets, mut lists) = (vec![0], Vec::new());
    for (i, one) in grains.chunks_exact(4).take(N).enumerate() {
        for (j, other) in grains.chunks_exact(4).take(N).enumerate() {
            let apart = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            if i != j && apart < 0.3375 {
                lists.push(j as u32);
            }
        }
        offsets.push(lists.len() as u64);
    }
    // The kernel counts on room for 32 of each.
    lists.resize(32 * N, 0);
    (offsets, lists)
}

/// The buffers of a launch.
struct Step<T: Number> {
    now: DeviceBuffer<T>,
    old: DeviceBuffer<T>,
    offsets: DeviceBuffer<u64>,
    lists: DeviceBuffer<u32>,
    next: DeviceBuffer<T>,
    trouble: DeviceBuffer<u32>,
}

impl<T: Number> Step<T> {
    fn new(stream: &Stream, grains: &[f64], listed: &[f64]) -> cuda_safe::Result<Self> {
        let of = |numbers: &[f64]| numbers.iter().map(|x| T::of(*x)).collect::<Vec<_>>();
        let (offsets, lists) = lists(listed);
        Ok(Self {
            now: DeviceBuffer::from_slice(stream, &of(grains))?,
            old: DeviceBuffer::from_slice(stream, &of(listed))?,
            offsets: DeviceBuffer::from_slice(stream, &offsets)?,
            lists: DeviceBuffer::from_slice(stream, &lists)?,
            next: DeviceBuffer::zeroed(stream, grains.len())?,
            trouble: DeviceBuffer::zeroed(stream, 1)?,
        })
    }
}

/// The gradients by the friction of the ground, and by all grains.
fn gradient<T: Number>(
    stream: &Stream,
    op: &Op,
    friction: Option<f64>,
    grains: &[f64],
    weights: &[f64],
) -> cuda_safe::Result<Vec<f64>> {
    let mut step = Step::<T>::new(stream, grains, grains)?;
    let number = Variable::new(stream, T::of(friction.unwrap_or(0.0)))?;
    let weights: Vec<T> = weights.iter().map(|x| T::of(*x)).collect();
    let seed = DeviceBuffer::from_slice(stream, &weights)?;
    let mut tape = Tape::record(stream, |t| {
        let Step { now, old, offsets, lists, next, trouble } = &mut step;
        let launch = LaunchConfig::cover(N, 64);
        let n = N as u32;
        t.watch(&*now)?;
        if friction.is_some() {
            t.watch(&number)?;
            let args = (&number, &*now, &*old, &*offsets, &*lists, next, trouble, n);
            return t.launch(op, launch, args);
        }
        t.launch(op, launch, (&*now, &*old, &*offsets, &*lists, next, trouble, n))
    })?;
    tape.backward_with(stream, &Seeds::new().with(&step.next, &seed)?)?;
    let mut all = vec![0.0];
    if friction.is_some() {
        all = tape.gradient(&number)?.to_vec(stream)?.into_iter().map(T::to).collect();
    }
    all.extend(tape.gradient(&step.now)?.to_vec(stream)?.into_iter().map(T::to));
    Ok(all)
}

/// Gradients of the kernel in doubles against differences, and those of floats against them; by the grains, and by the
/// friction of the ground.
fn dem_is_differentiated(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let head = "__global__ void step(";
    let with_friction = edited(&[
        (head, &format!("{head}float mu, ")),
        ("v, x.y, 100.0f, 0.5f)", "v, x.y, 100.0f, mu)"),
    ])?;
    for (source, friction) in [(SOURCE.to_owned(), None), (with_friction, Some(0.5))] {
        let first = |element| friction.map(|_| Param::scalar("mu", element).active());
        let (wide, narrow) = (program::<f64>(&source), program::<f32>(&source));
        let op = differentiate(device, spec::<f64>(first(Element::F64)), &wide).map_err(failure)?;
        let narrow = differentiate(device, spec::<f32>(first(Element::F32)), &narrow);
        let narrow = narrow.map_err(failure)?;
        let forward = Module::compile(device.context(), wide)?.kernel("step")?;
        let grains = block();
        let mut rng = Rng::new(2371);
        let weights: Vec<f64> = (0..8 * N).map(|_| f64::from(rng.float())).collect();
        let given = gradient::<f64>(&stream, &op, friction, &grains, &weights)?;
        let floats = gradient::<f32>(&stream, &narrow, friction, &grains, &weights)?;
        let largest = given.iter().skip(1).fold(0.0f64, |most, g| most.max(g.abs()));
        ensure!(largest > 1.0, "{largest}");
        for (at, (float, double)) in floats.iter().zip(&given).enumerate() {
            let is_near = (float - double).abs() <= 1e-4 * largest;
            ensure!(is_near, "gradient {at} of floats is {float}, not {double}");
        }
        let value = |at: usize, by: f64| -> Result<f64, Failure> {
            let mut moved = grains.clone();
            let mut mu = friction.unwrap_or(0.0);
            match at.checked_sub(1).and_then(|at| moved.get_mut(at)) {
                Some(number) => *number += by,
                None => mu += by,
            }
            let mut step = Step::<f64>::new(&stream, &moved, &grains)?;
            let Step { now, old, offsets, lists, next, trouble } = &mut step;
            let (launch, n) = (LaunchConfig::cover(N, 64), N as u32);
            let (now, old, offsets, lists) = (&*now, &*old, &*offsets, &*lists);
            // SAFETY: thread i writes what belongs to grain i; lists have the numbers of grains.
            unsafe {
                match friction {
                    Some(_) => {
                        let args = (mu, now, old, offsets, lists, &mut *next, &mut *trouble, n);
                        forward.launch(&stream, launch, args)?;
                    }
                    None => {
                        let args = (now, old, offsets, lists, &mut *next, &mut *trouble, n);
                        forward.launch(&stream, launch, args)?;
                    }
                }
            }
            ensure_eq!(trouble.to_vec(&stream)?, [0]);
            Ok(next.to_vec(&stream)?.iter().zip(&weights).map(|(x, w)| x * w).sum())
        };
        let first = usize::from(friction.is_none());
        for at in [first, first].into_iter().chain((0..60).map(|_| 1 + rng.below(8 * N))) {
            let mut found = Vec::new();
            let double = given.get(at).copied().unwrap_or(f64::NAN);
            // Where a step crosses a kink, a smaller one may not.
            for step in [1e-5, 1e-7] {
                let wanted = (value(at, step)? - value(at, -step)?) / (2.0 * step);
                found.push(wanted);
                if (double - wanted).abs() <= 1e-6 * largest {
                    found.clear();
                    break;
                }
            }
            ensure!(found.is_empty(), "gradient {at} is {double}, not {found:?}");
        }
    }
    Ok(())
}

/// `cohesion` decides which contacts there are, and nothing else depends on it.
fn dem_has_no_path_from_cohesion(device: &TestDevice) -> TestResult {
    let head = "__global__ void step(";
    let source =
        edited(&[(head, &format!("{head}float cohesion, ")), (", cohesion = 0.0075f", "")])?;
    let line = source.lines().position(|line| line.contains("gap > cohesion"));
    let line = line.ok_or_else(|| Failure::new("step.cu has no such line"))? as u32 + 1;
    let number = Param::scalar("cohesion", Element::F32).active();
    let found = differentiate(device, spec::<f32>(Some(number)), &program::<f32>(&source));
    let error = match found {
        Err(DifferentiateError::NotDifferentiable(error)) => error,
        Err(other) => return Err(failure(other)),
        Ok(_) => return Err(Failure::new("it was differentiated")),
    };
    ensure_eq!(error.refusals.len(), 1, "{error}");
    let refusal = error.refusals.first().ok_or_else(|| Failure::new("no reason"))?;
    ensure_eq!(refusal.reason, Reason::NoPath, "{error}");
    ensure!(refusal.message.contains("`cohesion`"), "{refusal}");
    let at = refusal.user.as_ref();
    ensure!(at.is_some_and(|at| at.line == line && at.file.ends_with("step.cu")), "{refusal}");
    Ok(())
}
