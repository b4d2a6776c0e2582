//! Sums, means, inner products, squared norms.

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, shapes};
use geom_kernels::tape::{DifferentiableValue, Summed};
use tape::{Differentiable, Recorder, Tape};

use super::user::{User, threads};
use super::{points, refused, within};
use crate::Geometry;
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::reductions",
        device(of_f32 = of::<f32>),
        device(of_f64 = of::<f64>),
        device(of_vectors = of::<[f32; 3]>),
        device(factors_that_overlap),
        device(squared_distances),
        device(lengths),
    ]
}

pub(super) const SIZES: [usize; 9] = [1, 31, 32, 33, 255, 4095, 4096, 4097, 20_000];

pub(super) fn values<V: DifferentiableValue>(rng: &mut Rng, n: usize) -> Vec<V> {
    (0..n).map(|_| value::<V>(rng)).collect()
}

/// A value of numbers in -1..1.
fn value<V: DifferentiableValue>(rng: &mut Rng) -> V {
    let wide = size_of::<V::Number>() == 8;
    let count = size_of::<V>() / size_of::<V::Number>();
    let bytes: Vec<u8> = (0..count)
        .flat_map(|_| {
            let x = rng.float();
            if wide { f64::from(x).to_ne_bytes().to_vec() } else { x.to_ne_bytes().to_vec() }
        })
        .collect();
    bytemuck::pod_read_unaligned(&bytes)
}

pub(super) fn flat<V: DifferentiableValue>(values: &[V]) -> Vec<f64> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    match size_of::<V::Number>() {
        8 => bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned::<f64>).collect(),
        _ => bytes
            .chunks_exact(4)
            .map(|x| f64::from(bytemuck::pod_read_unaligned::<f32>(x)))
            .collect(),
    }
}

/// What is recorded of a sum.
type Record<'r, N> =
    dyn FnMut(&mut Recorder<'_>, &mut DeviceBuffer<N>) -> cuda_safe::Result<()> + 'r;

fn of<V>(device: &TestDevice) -> TestResult
where
    V: DifferentiableValue<Number: Summed + DifferentiableValue> + Differentiable<Gradient = V>,
{
    let (stream, geometry, mut rng) = (device.stream()?, device.geometry(), device.rng(1440));
    let tolerance = if size_of::<V::Number>() == 8 { 1e-12 } else { 1e-5 };
    for n in SIZES {
        let (host_x, host_y) = (values::<V>(&mut rng, n), values::<V>(&mut rng, n));
        let (x, y) = (
            DeviceBuffer::from_slice(&stream, &host_x)?,
            DeviceBuffer::from_slice(&stream, &host_y)?,
        );
        let (a, b) = (flat(&host_x), flat(&host_y));
        let mut out = DeviceBuffer::<V::Number>::zeroed(&stream, 1)?;
        let check = |record: &mut Record<'_, V::Number>,
                     out: &mut DeviceBuffer<V::Number>,
                     wanted: f64,
                     by_x: Vec<f64>,
                     by_y: Option<Vec<f64>>|
         -> TestResult {
            let mut bits: Vec<Vec<f64>> = Vec::new();
            for deterministic in [false, true, true] {
                let mut tape = Tape::new(&stream)?;
                tape.set_deterministic(deterministic);
                tape.record_again(&stream, |t| {
                    t.watch(&x)?;
                    t.watch(&y)?;
                    record(t, out)
                })?;
                let got = flat(&out.to_vec(&stream)?);
                // Of n numbers below 1, in a tree.
                ensure!(
                    (got[0] - wanted).abs() <= tolerance * (n as f64).max(1.0),
                    "{got:?} {wanted}"
                );
                bits.push(got);
                tape.backward(&stream, &*out)?;
                let got = flat(&tape.gradient(&x)?.to_vec(&stream)?);
                within(tolerance, &got, &by_x.iter().map(|g| Some(*g)).collect::<Vec<_>>())?;
                if let Some(by_y) = &by_y {
                    let got = flat(&tape.gradient(&y)?.to_vec(&stream)?);
                    within(tolerance, &got, &by_y.iter().map(|g| Some(*g)).collect::<Vec<_>>())?;
                }
            }
            ensure_eq!(bits[0], bits[1]);
            ensure_eq!(bits[1], bits[2]);
            Ok(())
        };
        let sum: f64 = a.iter().sum();
        let ones = vec![1.0; a.len()];
        check(&mut |t, out| geometry.record_sum(t, &x, out), &mut out, sum, ones, None)?;
        let parts = vec![1.0 / n as f64; a.len()];
        let mean = sum / n as f64;
        check(&mut |t, out| geometry.record_mean(t, &x, out), &mut out, mean, parts, None)?;
        let norm = a.iter().map(|x| x * x).sum();
        let twice = a.iter().map(|x| 2.0 * x).collect();
        check(&mut |t, out| geometry.record_squared_norm(t, &x, out), &mut out, norm, twice, None)?;
        let product = a.iter().zip(&b).map(|(x, y)| x * y).sum();
        let record = &mut |t: &mut Recorder<'_>, out: &mut DeviceBuffer<V::Number>| {
            geometry.record_dot(t, &x, &y, out)
        };
        check(record, &mut out, product, b.clone(), Some(a.clone()))?;
    }
    Ok(())
}

/// The sum of the products of neighbours, and of all with themselves.
fn factors_that_overlap(device: &TestDevice) -> TestResult {
    let (stream, geometry, mut rng) = (device.stream()?, device.geometry(), device.rng(1441));
    let n = 500;
    let host = rng.floats(n);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    for shift in [0, 1, 40] {
        let at = |i: usize| host.get(i).map_or(0.0, |x| f64::from(*x));
        let wanted: Vec<Option<f64>> = (0..n)
            .map(|i| {
                let right = if i + shift < n { at(i + shift) } else { 0.0 };
                let left = i.checked_sub(shift).map_or(0.0, at);
                Some(right + left)
            })
            .collect();
        let mut all = Vec::new();
        for deterministic in [true, true, false] {
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            tape.record_again(&stream, |t| {
                t.watch(&x)?;
                geometry.record_dot(t, x.slice(..n - shift)?, x.slice(shift..)?, &mut out)
            })?;
            tape.backward(&stream, &out)?;
            let got = tape.gradient(&x)?.to_vec(&stream)?;
            super::near(&got, &wanted)?;
            all.push(got);
        }
        ensure_eq!(all[0], all[1]);
    }
    Ok(())
}

/// As with an operation of a user's own that adds squares.
fn squared_distances(device: &TestDevice) -> TestResult {
    let (stream, geometry, user) = (device.stream()?, device.geometry(), User::new(device)?);
    let sphere = shapes::icosphere(1, 1.0)?;
    let mesh = Mesh::upload(&stream, &geometry, &sphere, MeshOptions::default())?;
    let n = 5000;
    let cloud = DeviceBuffer::from_slice(&stream, &points(&mut device.rng(1442), n, 2.0))?;
    let mut distances = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut gradient = |stream: &Stream, ours: bool| -> cuda_safe::Result<_> {
        let mut tape = Tape::record(stream, |t| {
            t.watch(&cloud)?;
            t.fill(&mut loss, 0.0)?;
            mesh.record_distances(t, &PointQueries::at(&cloud), &mut distances)?;
            if ours {
                return geometry.record_squared_norm(t, &distances, &mut loss);
            }
            t.launch(&user.add_squares, threads(n), (&distances, &mut loss, n as u32))
        })?;
        tape.backward(stream, &loss)?;
        tape.gradient(&cloud)?.to_vec(stream)
    };
    let (ours, theirs) = (gradient(&stream, true)?, gradient(&stream, false)?);
    ensure!(ours.iter().any(|g| *g != [0.0; 3]));
    ensure_eq!(ours, theirs);
    Ok(())
}

fn lengths(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0])?;
    let none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    let mut two = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
    let mut out = DeviceBuffer::from_slice(&stream, &[7.0f32])?;
    Tape::record(&stream, |t| geometry.record_sum(t, &none, &mut out))?;
    ensure_eq!(out.to_vec(&stream)?, [0.0]);
    Tape::record(&stream, |t| geometry.record_mean(t, &none, &mut out))?;
    ensure!(out.to_vec(&stream)?[0].is_nan());
    Tape::record(&stream, |t| geometry.record_dot(t, &none, &none, &mut out))?;
    ensure_eq!(out.to_vec(&stream)?, [0.0]);
    let long = Tape::record(&stream, |t| geometry.record_sum(t, &x, &mut two));
    refused(long.map(|_| ()), "room for 2 sums")?;
    let unequal = Tape::record(&stream, |t| geometry.record_dot(t, &x, &none, &mut out));
    refused(unequal.map(|_| ()), "a product of 2 elements with 0")
}
