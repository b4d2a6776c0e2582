//! Sums over neighbours in hash grids, by a user's kernel and its adjoint.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, DeviceRepr, KernelArg, Stream};
use geom_kernels::hash_grid::{GridOptions, GridView, HashGrid};
use geom_kernels::{Points, Real};
use tape::{Differentiable, Element, Op, OpSpec, Param, Primal, Seeds, Tape, Variable};

use super::user::threads;
use super::{fine_slopes, points, refused, within};
use crate::Geometry;
use crate::flags::module;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::neighbors",
        device(densities_f32 = densities::<f32>),
        device(densities_f64 = densities::<f64>),
        device(of_hashed_rows),
        device(steps_in_place_f32 = steps::<f32>),
        device(steps_in_place_f64 = steps::<f64>),
        device(grids_that_were_built_again),
    ]
}

trait Number: Real + DeviceRepr + Pod + Differentiable<Gradient = Self> + PartialEq {
    const NUMBER: Element;
    /// How the names of its kernels end.
    const SUFFIX: &'static str;
    /// How far gradients may be off.
    const TOLERANCE: f64;
}

impl Number for f32 {
    const NUMBER: Element = Element::F32;
    const SUFFIX: &'static str = "f32";
    const TOLERANCE: f64 = 1e-4;
}

impl Number for f64 {
    const NUMBER: Element = Element::F64;
    const SUFFIX: &'static str = "f64";
    const TOLERANCE: f64 = 1e-8;
}

struct User {
    /// `grid, x, mass, h, density, n`: adds to the densities.
    density: Op,
    /// `x, density, by, n`
    push: Op,
}

impl User {
    fn new<T: Number>(device: &TestDevice) -> Result<Self, Failure> {
        let source = include_str!("../../kernels/neighbor_sums.cu");
        let module = module(device, source, nvrtc::Options::new())?;
        let (number, point) = (T::NUMBER, <[T; 3] as Differentiable>::ELEMENT);
        let end = T::SUFFIX;
        let density = OpSpec::new(format!("density_{end}"))
            // Nothing in it has a gradient. It must be as it was when the adjoint runs.
            .param(Param::argument::<GridView<'_, T>>("grid"))
            .param(Param::buffer("x", point).reads(Primal::Entry).len("n").each_element().active())
            .param(Param::buffer("mass", number).reads(Primal::Entry).len("n").each_element().active())
            .param(Param::scalar("h", number).active())
            .param(Param::buffer("density", number).accumulates().len("n").active())
            .param(Param::value("n"))
            .summands(|_| 0);
        let push = OpSpec::new(format!("push_{end}"))
            .param(
                Param::buffer("x", point).updates(Primal::Entry).len("n").each_element().active(),
            )
            .param(
                Param::buffer("density", number)
                    .reads(Primal::Entry)
                    .len("n")
                    .each_element()
                    .active(),
            )
            .param(Param::value("by"))
            .param(Param::value("n"))
            .summands(|_| 0);
        // SAFETY: masses and gradients are read of points below n; thread i touches what else there is of point i,
        // and only if i < n.
        unsafe { Ok(Self { density: density.register(&module)?, push: push.register(&module)? }) }
    }
}

fn weight(square: f64, h: f64) -> f64 {
    let scale = 315.0 / (64.0 * std::f64::consts::PI * h.powi(9));
    if square <= h * h { scale * (h * h - square).powi(3) } else { 0.0 }
}

/// Of each point, by looking at all pairs.
fn densities_in_f64(x: &[f64], mass: &[f64], h: f64) -> Vec<f64> {
    let square =
        |i: usize, j: usize| (0..3).map(|k| (x[3 * i + k] - x[3 * j + k]).powi(2)).sum::<f64>();
    let n = mass.len();
    (0..n).map(|i| (0..n).map(|j| mass[j] * weight(square(i, j), h)).sum()).collect()
}

fn narrow<T: Number>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|x| T::narrow(*x)).collect()
}

fn triples<T: Number>(numbers: &[f64]) -> Vec<[T; 3]> {
    numbers.chunks_exact(3).map(|p| [0, 1, 2].map(|k| T::narrow(p[k]))).collect()
}

fn wide<T: Number>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.wide()).collect()
}

/// loss = sum of w density, by positions, masses and the radius.
fn check<T: Number>(device: &TestDevice, options: GridOptions<T>, size: f32, n: usize) -> TestResult
where
    for<'a> Points<'a, T>: From<&'a DeviceBuffer<[T; 3]>>,
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
    for<'a> &'a Variable<T>: KernelArg,
{
    let (stream, mut rng) = (device.stream()?, device.rng(1470));
    let user = User::new::<T>(device)?;
    let h = 0.4f32;
    let x: Vec<f64> = super::wide(&points(&mut rng, n, size));
    let mass: Vec<f64> = rng.floats(n).into_iter().map(|m| f64::from(1.5 + m)).collect();
    let w: Vec<f64> = rng.floats(n).into_iter().map(f64::from).collect();
    let at = DeviceBuffer::from_slice(&stream, &triples::<T>(&x))?;
    let masses = DeviceBuffer::from_slice(&stream, &narrow::<T>(&mass))?;
    let given = DeviceBuffer::from_slice(&stream, &narrow::<T>(&w))?;
    let radius = Variable::new(&stream, T::narrow(h.into()))?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, n)?;
    let grid = HashGrid::build(&stream, &device.geometry(), &at, T::narrow(h.into()), options)?;
    let mut all = Vec::new();
    for deterministic in [false, true, true] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(&at)?;
            t.watch(&masses)?;
            t.watch(&radius)?;
            t.fill(&mut out, T::narrow(0.0))?;
            let args = (grid.view(), &at, &masses, &radius, &mut out, n as u32);
            t.launch(&user.density, threads(n), args)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
        let by_x = tape.gradient(&at)?.to_vec(&stream)?;
        let by_mass = tape.gradient(&masses)?.to_vec(&stream)?;
        let by_h = tape.gradient(&radius)?.to_vec(&stream)?;
        all.push((by_x, by_mass, by_h));
    }
    ensure!(all[1] == all[2], "other bits");
    let loss = |x: &[f64], mass: &[f64], h: f64| {
        densities_in_f64(x, mass, h).iter().zip(&w).map(|(d, w)| d * w).sum::<f64>()
    };
    let h = f64::from(h);
    let (got, tolerance) = (&all[0], T::TOLERANCE);
    // What the loss has of a point and each other point: the rest does not move with it.
    let of_point = |i: usize, own: &[f64]| {
        let square = |j: usize| (0..3).map(|k| (own[k] - x[3 * j + k]).powi(2)).sum::<f64>();
        let others = (0..n).filter(|j| *j != i);
        others.map(|j| (w[i] * mass[j] + w[j] * mass[i]) * weight(square(j), h)).sum()
    };
    let by_point = x.chunks_exact(3).enumerate();
    let by_point = by_point.map(|(i, own)| fine_slopes(own, 1e-4, |own| Some(of_point(i, own))));
    let wanted: Vec<_> = by_point.flatten().collect();
    within(tolerance, &wide(got.0.as_flattened()), &wanted)?;
    within(tolerance, &wide(&got.1), &fine_slopes(&mass, 1e-3, |mass| Some(loss(&x, mass, h))))?;
    within(tolerance, &wide(&got.2), &fine_slopes(&[h], 1e-4, |h| Some(loss(&x, &mass, h[0]))))
}

fn densities<T: Number>(device: &TestDevice) -> TestResult
where
    for<'a> Points<'a, T>: From<&'a DeviceBuffer<[T; 3]>>,
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
    for<'a> &'a Variable<T>: KernelArg,
{
    for n in [1, 31, 32, 33, 130] {
        check::<T>(device, GridOptions::default(), 0.7, n)?;
    }
    let lower = [T::narrow(-1.0); 3];
    check::<T>(device, GridOptions::default().bounds(lower, [T::narrow(1.0); 3]), 1.0, 100)
}

/// So far apart that a table of cells would be too large.
fn of_hashed_rows(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1471));
    let user = User::new::<f64>(device)?;
    let h = 0.4f64;
    let mut x: Vec<f64> = Vec::new();
    // Pairs of neighbours, each pair far from all others.
    for at in points(&mut rng, 20, 4000.0) {
        let at = at.map(f64::from);
        let by = points(&mut rng, 1, 0.15)[0].map(f64::from);
        x.extend(at);
        x.extend([0, 1, 2].map(|k| at[k] + by[k]));
    }
    let n = x.len() / 3;
    let mass = vec![1.0f64; n];
    let at = DeviceBuffer::from_slice(&stream, &triples::<f64>(&x))?;
    let masses = DeviceBuffer::from_slice(&stream, &mass)?;
    let given = DeviceBuffer::from_slice(&stream, &mass)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, n)?;
    let grid = HashGrid::build(&stream, &device.geometry(), &at, h, GridOptions::default())?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.fill(&mut out, 0.0)?;
        let args = (grid.view(), &at, &masses, h, &mut out, n as u32);
        t.launch(&user.density, threads(n), args)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
    let by = tape.gradient(&at)?.to_vec(&stream)?;
    for (i, pair) in by.chunks(2).enumerate() {
        ensure!(pair[0].iter().any(|g| *g != 0.0), "pair {i} has none");
        ensure_eq!(pair[0].map(|g| -g), pair[1]);
    }
    Ok(())
}

/// Points move in place by their densities, four times, each time with a grid of their new places.
fn steps<T: Number>(device: &TestDevice) -> TestResult
where
    for<'a> Points<'a, T>: From<&'a DeviceBuffer<[T; 3]>>,
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
{
    let (stream, mut rng, n) = (device.stream()?, device.rng(1472), 40);
    let user = User::new::<T>(device)?;
    let (h, by, rounds) = (0.5, 1e-3, 4);
    let x: Vec<f64> = super::wide(&points(&mut rng, n, 0.5));
    let mass = vec![1.0f64; n];
    let w: Vec<f64> = super::wide(&points(&mut rng, n, 1.0));
    let start = DeviceBuffer::from_slice(&stream, &triples::<T>(&x))?;
    let masses = DeviceBuffer::from_slice(&stream, &narrow::<T>(&mass))?;
    let given = DeviceBuffer::from_slice(&stream, &triples::<T>(&w))?;
    let mut at = DeviceBuffer::<[T; 3]>::zeroed(&stream, n)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, n)?;
    let mut grids = Vec::new();
    for _ in 0..rounds {
        grids.push(HashGrid::new(&stream, &device.geometry(), GridOptions::default())?);
    }
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&start)?;
        t.copy(&start, &mut at)?;
        for grid in &mut grids {
            grid.reserve(t.stream(), at.len())?;
            grid.rebuild(t.stream(), &at, T::narrow(h))?;
            t.fill(&mut out, T::narrow(0.0))?;
            let args = (grid.view(), &at, &masses, T::narrow(h), &mut out, n as u32);
            t.launch(&user.density, threads(n), args)?;
            t.launch(&user.push, threads(n), (&mut at, &out, T::narrow(by), n as u32))?;
        }
        Ok(())
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&at, &given)?)?;
    let wanted = fine_slopes(&x, 1e-4, |x| {
        let mut x = x.to_vec();
        for _ in 0..rounds {
            let all = densities_in_f64(&x, &mass, h);
            for (i, p) in x.chunks_mut(3).enumerate() {
                p.iter_mut().for_each(|x| *x *= 1.0 + by * all[i]);
            }
        }
        Some(x.iter().zip(&w).map(|(x, w)| x * w).sum())
    });
    let got = tape.gradient(&start)?.to_vec(&stream)?;
    within(T::TOLERANCE, &wide(got.as_flattened()), &wanted)
}

/// One grid, which is built again for the second step: the adjoint of the first would find other neighbours.
fn grids_that_were_built_again(device: &TestDevice) -> TestResult {
    let (stream, mut rng, n): (Stream, _, _) = (device.stream()?, device.rng(1473), 40);
    let user = User::new::<f32>(device)?;
    let at = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 0.5))?;
    let masses = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut grid = HashGrid::new(&stream, &device.geometry(), GridOptions::default())?;
    grid.reserve(&stream, n)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.fill(&mut out, 0.0)?;
        for _ in 0..2 {
            grid.rebuild(t.stream(), &at, 0.5)?;
            let args = (grid.view(), &at, &masses, 0.5f32, &mut out, n as u32);
            t.launch(&user.density, threads(n), args)?;
        }
        Ok(())
    })?;
    let given = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let done = tape.backward_with(&stream, &Seeds::new().with(&out, &given)?);
    refused(done, "was overwritten after it was recorded")
}
