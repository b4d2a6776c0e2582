//! Recordings of 100 steps and more that go through geometry: f64 adjoints against central differences of the f64
//! forward, and f32 adjoints, of batch calls, against f64 ones. Each point goes its own way; those whose face,
//! feature or cell changes within the step of a difference, or is another in f32, are left out and counted.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, DeviceRepr, Stream};
use geom_kernels::Real;
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, PointQueries};
use geom_kernels::tape::DifferentiableValue;
use geom_kernels::volume::{IndexedValues, Interpolation, OnIndex, Samples, Volume, VolumeOptions};
use tape::{Differentiable, Element, Op, OpSpec, Param, Primal, Recorder, Seeds, Tape};

use super::mesh_points::soup;
use super::user::threads;
use super::{points, within};
use crate::Geometry;
use crate::flags::module;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::compositions",
        device(closest_points),
        device(trilinear_samples = |device| { samples(device, Interpolation::Trilinear) }),
        device(tricubic_samples = |device| { samples(device, Interpolation::Tricubic) }),
    ]
}

/// Steps of each kind.
const ROUNDS: usize = 50;
/// How far points are moved for differences.
const STEP: f64 = 1e-5;
const OF_F64: f64 = 1e-8;
const OF_F32: f64 = 1e-4;

trait Number: Real + DeviceRepr + Pod + Differentiable<Gradient = Self> {
    const NUMBER: Element;
    /// How the names of its kernels end.
    const SUFFIX: &'static str;
}

impl Number for f32 {
    const NUMBER: Element = Element::F32;
    const SUFFIX: &'static str = "f32";
}

impl Number for f64 {
    const NUMBER: Element = Element::F64;
    const SUFFIX: &'static str = "f64";
}

struct Ops {
    /// `vertices, count, x, p, answers, n`
    closest: Op,
    /// `x, p, rate, n`, in place
    follow: Op,
    /// `x, value, cells, rate, n`, in place
    drift: Op,
    /// As `follow`, with closest points of meshes.
    follow_found: Op,
}

impl Ops {
    fn new<T: Number>(device: &TestDevice) -> Result<Self, Failure> {
        let source = include_str!("../../kernels/compositions.cu");
        let module = module(device, source, nvrtc::Options::new())?;
        let (point, word) = (<[T; 3] as Differentiable>::ELEMENT, Element::bytes(4));
        let name = |name: &str| format!("{name}_{}", T::SUFFIX);
        let x =
            || Param::buffer("x", point).updates(Primal::Entry).len("n").each_element().active();
        let reads = |name: &'static str, element| {
            Param::buffer(name, element).reads(Primal::Entry).len("n").each_element().active()
        };
        let answers = |name: &'static str, value| {
            Param::buffer(name, word).overwrites().with_value(value).len("n").each_element()
        };
        let end = |spec: OpSpec| spec.param(Param::value("n"));
        let closest = OpSpec::new(name("closest"))
            .param(Param::buffer("vertices", point).reads(Primal::Entry).len("count").active())
            .param(Param::value("count"))
            .param(reads("x", point))
            .param(Param::buffer("p", point).overwrites().len("n").each_element().active())
            .param(answers("answers", Primal::Exit))
            .summands(|launch| 9 * (launch.grid.count() * launch.block.count()) as usize);
        let follow = OpSpec::new(name("follow"))
            .param(x())
            .param(reads("p", point))
            .param(Param::value("rate"))
            .summands(|_| 0);
        let drift = OpSpec::new(name("drift"))
            .param(x())
            .param(reads("value", T::NUMBER))
            .param(answers("cells", Primal::None))
            .param(Param::value("rate"))
            .summands(|_| 0);
        let found = <ClosestPoint as Differentiable>::ELEMENT;
        let follow_found = OpSpec::new("follow_found")
            .param(
                Param::buffer("x", <[f32; 3] as Differentiable>::ELEMENT)
                    .updates(Primal::Entry)
                    .len("n")
                    .each_element()
                    .active(),
            )
            .param(Param::buffer("found", found).reads(Primal::Entry).len("n").active())
            .param(Param::value("rate"))
            .summands(|_| 0);
        // SAFETY: thread i touches element i of each buffer, and only if i < n, but for the vertices of faces whose
        // three indices are below their number, or which a thread of its own has found.
        unsafe {
            Ok(Self {
                closest: end(closest).register(&module)?,
                follow: end(follow).register(&module)?,
                drift: end(drift).register(&module)?,
                follow_found: end(follow_found).register(&module)?,
            })
        }
    }
}

fn triples<T: Number>(numbers: &[f64]) -> Vec<[T; 3]> {
    numbers.chunks_exact(3).map(|p| [0, 1, 2].map(|k| T::narrow(p[k]))).collect()
}

fn flat<T: Number>(points: &[[T; 3]]) -> Vec<f64> {
    points.as_flattened().iter().map(|x| x.wide()).collect()
}

/// Where points went, and what each met on its way.
struct Run {
    end: Vec<f64>,
    met: Vec<Vec<u32>>,
}

/// A recording, of inputs that points have and inputs that they share.
trait Chain {
    /// Records it anew, and runs the forward.
    fn run(&mut self, x: &[f64], shared: &[f64]) -> Result<Run, Failure>;
    /// The gradients of the sum of w . end, by x and by what is shared, of the last run.
    fn back(&mut self, w: &[f64]) -> Result<[Vec<f64>; 2], Failure>;
}

/// What chains of either kind consist of.
struct Common<T: Number> {
    stream: Stream,
    tape: Tape,
    ops: Ops,
    start: DeviceBuffer<[T; 3]>,
    x: DeviceBuffer<[T; 3]>,
}

impl<T: Number> Common<T>
where
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
{
    fn new(device: &TestDevice, n: usize) -> Result<Self, Failure> {
        let stream = device.stream()?;
        Ok(Self {
            tape: Tape::new(&stream)?,
            ops: Ops::new::<T>(device)?,
            start: DeviceBuffer::zeroed(&stream, n)?,
            x: DeviceBuffer::zeroed(&stream, n)?,
            stream,
        })
    }

    fn back(&mut self, w: &[f64]) -> Result<Vec<f64>, Failure> {
        let given = DeviceBuffer::from_slice(&self.stream, &triples::<T>(w))?;
        self.tape.backward_with(&self.stream, &Seeds::new().with(&self.x, &given)?)?;
        Ok(flat(&self.tape.gradient(&self.start)?.to_vec(&self.stream)?))
    }
}

/// Of each point what it met, from lists of all points for each round.
fn by_point(all: &[u32], n: usize) -> Vec<Vec<u32>> {
    (0..n).map(|i| all.iter().skip(i).step_by(n).copied().collect()).collect()
}

const RATE: f64 = 0.03;

/// Points follow their closest points: by kernels of the test's own.
struct Follow<T: Number> {
    common: Common<T>,
    vertices: DeviceBuffer<[T; 3]>,
    p: DeviceBuffer<[T; 3]>,
    answers: DeviceBuffer<u32>,
}

impl<T: Number> Chain for Follow<T>
where
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
{
    fn run(&mut self, x: &[f64], shared: &[f64]) -> Result<Run, Failure> {
        let Self { common, vertices, p, answers } = self;
        let Common { stream, tape, ops, start, x: at } = common;
        let (n, count) = (start.len(), vertices.len() as u32);
        start.upload(stream, &triples::<T>(x))?;
        vertices.upload(stream, &triples::<T>(shared))?;
        tape.record_again(stream, |t| {
            t.watch(&*start)?;
            t.watch(&*vertices)?;
            t.copy(&*start, &mut *at)?;
            for round in 0..ROUNDS {
                let met = answers.slice_mut(n * round..n * (round + 1))?;
                let args = (&*vertices, count, &*at, &mut *p, met, n as u32);
                t.launch(&ops.closest, threads(n), args)?;
                t.launch(&ops.follow, threads(n), (&mut *at, &*p, T::narrow(RATE), n as u32))?;
            }
            Ok(())
        })?;
        Ok(Run { end: flat(&at.to_vec(stream)?), met: by_point(&answers.to_vec(stream)?, n) })
    }

    fn back(&mut self, w: &[f64]) -> Result<[Vec<f64>; 2], Failure> {
        let by_x = self.common.back(w)?;
        let Common { stream, tape, .. } = &self.common;
        Ok([by_x, flat(&tape.gradient(&self.vertices)?.to_vec(stream)?)])
    }
}

/// The same by a mesh's batch call.
struct FollowMesh {
    common: Common<f32>,
    mesh: Mesh<'static>,
    found: DeviceBuffer<ClosestPoint>,
}

impl Chain for FollowMesh {
    fn run(&mut self, x: &[f64], shared: &[f64]) -> Result<Run, Failure> {
        let Self { common, mesh, found } = self;
        let Common { stream, tape, ops, start, x: at } = common;
        let n = start.len();
        start.upload(stream, &triples::<f32>(x))?;
        let missing = || Failure::new("the mesh does not own its points");
        mesh.points_mut().ok_or_else(missing)?.upload(stream, &triples::<f32>(shared))?;
        mesh.refit(stream)?;
        tape.record_again(stream, |t| {
            t.watch(&*start)?;
            t.watch(mesh.points())?;
            t.copy(&*start, &mut *at)?;
            for round in 0..ROUNDS {
                let range = n * round..n * (round + 1);
                mesh.record_closest_points(
                    t,
                    &PointQueries::at(&*at),
                    found.slice_mut(range.clone())?,
                )?;
                let args = (&mut *at, found.slice(range)?, RATE as f32, n as u32);
                t.launch(&ops.follow_found, threads(n), args)?;
            }
            Ok(())
        })?;
        let met: Vec<u32> =
            found.to_vec(stream)?.iter().map(|found| found.face << 3 | found.feature).collect();
        Ok(Run { end: flat(&at.to_vec(stream)?), met: by_point(&met, n) })
    }

    fn back(&mut self, w: &[f64]) -> Result<[Vec<f64>; 2], Failure> {
        let by_x = self.common.back(w)?;
        let Common { stream, tape, .. } = &self.common;
        Ok([by_x, flat(&tape.gradient(self.mesh.points())?.to_vec(stream)?)])
    }
}

/// Points drift by what they sample of an array.
struct Drift<T: Number> {
    common: Common<T>,
    volume: Volume,
    how: Interpolation,
    array: DeviceBuffer<T>,
    values: DeviceBuffer<T>,
    cells: DeviceBuffer<u32>,
}

impl<T: Number + DifferentiableValue> Chain for Drift<T>
where
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
{
    fn run(&mut self, x: &[f64], shared: &[f64]) -> Result<Run, Failure> {
        let Self { common, volume, how, array, values, cells } = self;
        let Common { stream, tape, ops, start, x: at } = common;
        let n = start.len();
        start.upload(stream, &triples::<T>(x))?;
        array.upload(stream, &shared.iter().map(|x| T::narrow(*x)).collect::<Vec<_>>())?;
        tape.record_again(stream, |t: &mut Recorder<'_>| {
            t.watch(&*start)?;
            t.watch(&*array)?;
            t.copy(&*start, &mut *at)?;
            for round in 0..ROUNDS {
                let of = IndexedValues::new(&*array, T::narrow(0.0));
                volume.record_sample_indexed(t, &Samples::index(&*at), *how, &of, &mut *values)?;
                let met = cells.slice_mut(n * round..n * (round + 1))?;
                let args = (&mut *at, &*values, met, T::narrow(RATE), n as u32);
                t.launch(&ops.drift, threads(n), args)?;
            }
            Ok(())
        })?;
        Ok(Run { end: flat(&at.to_vec(stream)?), met: by_point(&cells.to_vec(stream)?, n) })
    }

    fn back(&mut self, w: &[f64]) -> Result<[Vec<f64>; 2], Failure> {
        let by_x = self.common.back(w)?;
        let Common { stream, tape, .. } = &self.common;
        let by_array = tape.gradient(&self.array)?.to_vec(stream)?;
        Ok([by_x, by_array.iter().map(|x| x.wide()).collect()])
    }
}

/// Points that are left out.
struct Left {
    out: Vec<bool>,
}

impl Left {
    fn compare(&mut self, one: &Run, other: &Run) {
        for (i, out) in self.out.iter_mut().enumerate() {
            *out |= one.met[i] != other.met[i];
        }
    }

    /// The weights of the others, and 0.
    fn masked(&self, w: &[f64]) -> Vec<f64> {
        let one = |(i, w): (usize, &f64)| if self.out[i / 3] { 0.0 } else { *w };
        w.iter().enumerate().map(one).collect()
    }

    /// Less than two percent.
    fn are_few(&self) -> TestResult {
        let (left, n) = (self.out.iter().filter(|out| **out).count(), self.out.len());
        ensure!(50 * left < n, "{left} points of {n} are left out");
        Ok(())
    }
}

/// `some` of what is shared is moved for differences.
fn check(
    wide: &mut dyn Chain,
    narrow: &mut dyn Chain,
    [x, shared, w]: [&[f64]; 3],
    some: &[usize],
) -> TestResult {
    let n = x.len() / 3;
    let mut left = Left { out: vec![false; n] };
    let here = wide.run(x, shared)?;
    let kinds = here.met.iter().filter(|met| met.windows(2).any(|two| two[0] != two[1])).count();
    ensure!(kinds * 10 > n, "only {kinds} of {n} points meet more than one feature");
    // Each point depends on itself alone, so all may move at once.
    let mut by_x = vec![0.0; x.len()];
    for k in 0..3 {
        let [right, left_side] = [STEP, -STEP].map(|by| {
            let at = |(i, x): (usize, &f64)| if i % 3 == k { x + by } else { *x };
            wide.run(&x.iter().enumerate().map(at).collect::<Vec<_>>(), shared)
        });
        let (right, left_side) = (right?, left_side?);
        left.compare(&here, &right);
        left.compare(&here, &left_side);
        for i in 0..n {
            let part = 3 * i..3 * i + 3;
            let ends = right.end[part.clone()].iter().zip(&left_side.end[part.clone()]);
            let sum: f64 = ends.zip(&w[part]).map(|((a, b), w)| w * (a - b)).sum();
            by_x[3 * i + k] = sum / ((x[3 * i + k] + STEP) - (x[3 * i + k] - STEP));
        }
    }
    // Of each point, since it is not known yet which are left out.
    let mut by_shared = Vec::new();
    for &j in some {
        let [right, left_side] = [STEP, -STEP].map(|by| {
            let mut moved = shared.to_vec();
            moved[j] += by;
            wide.run(x, &moved)
        });
        let (right, left_side) = (right?, left_side?);
        left.compare(&here, &right);
        left.compare(&here, &left_side);
        let width = (shared[j] + STEP) - (shared[j] - STEP);
        let ends = right.end.iter().zip(&left_side.end).zip(w);
        by_shared.push(ends.map(|((a, b), w)| w * (a - b) / width).collect::<Vec<f64>>());
    }
    left.compare(&here, &narrow.run(x, shared)?);
    left.are_few()?;
    let masked = left.masked(w);
    wide.run(x, shared)?;
    let [wide_x, wide_shared] = wide.back(&masked)?;
    let all = |x: &[f64]| x.iter().map(|x| Some(*x)).collect::<Vec<_>>();
    within(OF_F64, &wide_x, &all(&left.masked(&by_x)))?;
    let got: Vec<f64> = some.iter().map(|j| wide_shared[*j]).collect();
    let wanted: Vec<_> =
        by_shared.iter().map(|ends| Some(left.masked(ends).iter().sum::<f64>())).collect();
    ensure!(wanted.iter().flatten().filter(|x| **x != 0.0).count() * 4 > wanted.len());
    within(OF_F64, &got, &wanted)?;
    let [narrow_x, narrow_shared] = narrow.back(&masked)?;
    within(OF_F32, &narrow_x, &all(&wide_x))?;
    within(OF_F32, &narrow_shared, &all(&wide_shared))?;
    // The same bits again, from memory that was used before.
    ensure_eq!(wide.back(&masked)?[0], wide_x);
    Ok(())
}

fn wide(rng: &mut Rng, n: usize, size: f32) -> Vec<f64> {
    super::wide(&points(rng, n, size))
}

fn closest_points(device: &TestDevice) -> TestResult {
    let (stream, mut rng, n) = (device.stream()?, device.rng(1490), 128);
    let soup = soup(&mut rng, 8);
    let common = Common::<f64>::new(device, n)?;
    let mut in_f64 = Follow {
        vertices: DeviceBuffer::zeroed(&stream, soup.points.len())?,
        p: DeviceBuffer::zeroed(&stream, n)?,
        answers: DeviceBuffer::zeroed(&stream, n * ROUNDS)?,
        common,
    };
    let mut in_f32 = FollowMesh {
        common: Common::new(device, n)?,
        mesh: Mesh::upload(&stream, &device.geometry(), &soup, MeshOptions::default())?,
        found: DeviceBuffer::zeroed(&stream, n * ROUNDS)?,
    };
    let (x, w) = (wide(&mut rng, n, 1.5), wide(&mut rng, n, 1.0));
    let some: Vec<usize> = (0..3 * soup.points.len()).step_by(2).collect();
    let vertices = super::wide(&soup.points);
    check(&mut in_f64, &mut in_f32, [&x, &vertices, &w], &some)
}

fn drift<T: Number + DifferentiableValue>(
    device: &TestDevice,
    how: Interpolation,
    n: usize,
) -> Result<Drift<T>, Failure>
where
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
{
    let stream = device.stream()?;
    let side = SIDE as i32;
    let voxels: Vec<[i32; 3]> =
        (0..side.pow(3)).map(|i| [i / (side * side), i / side % side, i % side]).collect();
    let list = DeviceBuffer::from_slice(&stream, &voxels)?;
    let options = VolumeOptions::new(OnIndex(0));
    Ok(Drift {
        common: Common::new(device, n)?,
        volume: Volume::from_voxels(&stream, &device.geometry(), &list, options.clone())?,
        how,
        array: DeviceBuffer::zeroed(&stream, voxels.len())?,
        values: DeviceBuffer::zeroed(&stream, n)?,
        cells: DeviceBuffer::zeroed(&stream, n * ROUNDS)?,
    })
}

/// Voxels along an edge of the cube that has values.
const SIDE: usize = 6;

fn samples(device: &TestDevice, how: Interpolation) -> TestResult {
    let (mut rng, n) = (device.rng(1491), 128);
    let mut in_f64 = drift::<f64>(device, how, n)?;
    let mut in_f32 = drift::<f32>(device, how, n)?;
    let x: Vec<f64> = wide(&mut rng, n, 2.0).into_iter().map(|x| x + 2.5).collect();
    let w = wide(&mut rng, n, 1.0);
    let array: Vec<f64> = rng.floats(SIDE.pow(3)).into_iter().map(|x| f64::from(0.3 * x)).collect();
    let some: Vec<usize> = (0..40).map(|i| 5 * i).collect();
    check(&mut in_f64, &mut in_f32, [&x, &array, &w], &some)
}
