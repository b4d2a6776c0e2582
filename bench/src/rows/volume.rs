//! Volumes: samples of a sphere's signed distances, and building them.

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::volume::nanovdb::{GridClass, Map};
use geom_kernels::volume::{DenseOptions, Interpolation, Keep, Samples, Volume, VolumeOptions};

use super::{Bench, Work};
use crate::data::random;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::stats::median;
use crate::stop::Stop;
use crate::timing::once;

pub(super) const WORKS: &[Work] = &[
    Work { names: &SAMPLES, run: samples },
    Work { names: &["volume_from_dense/256"], run: dense },
];

const SAMPLES: [&str; 9] = [
    "volume_linear/sphere256/box",
    "volume_linear/sphere256/band",
    "volume_linear/sphere256/box_morton",
    "volume_closest/sphere256/box",
    "volume_closest/sphere256/band",
    "volume_closest/sphere256/box_morton",
    "volume_grad/sphere256/box",
    "volume_grad/sphere256/band",
    "volume_grad/sphere256/box_morton",
];

/// The required times, in milliseconds.
const MOST: [Option<f64>; 9] = [
    Some(0.45),
    Some(0.30),
    Some(0.11),
    Some(0.15),
    None,
    Some(0.07),
    Some(0.50),
    None,
    Some(0.15),
];

/// Voxels along an edge.
pub(super) const N: usize = 256;
const RADIUS: f64 = 0.7;
/// Samples of each set.
const COUNT: usize = 8_000_000;
/// How many results are compared with the oracle, evenly taken from all.
const CHECKED: usize = 20_000;

/// The distance between voxels, which are the centres of as many cells from -1 to 1.
pub(super) const SPACING: f64 = 2.0 / N as f64;
/// Where the first one is.
pub(super) const FIRST: f64 = -1.0 + 0.5 * SPACING;

/// Signed distances from a sphere.
pub(super) fn sphere() -> Vec<f32> {
    let at = |i: usize| FIRST + SPACING * i as f64;
    let value = |index: usize| {
        let (x, y, z) = (at(index / (N * N)), at(index / N % N), at(index % N));
        ((x * x + y * y + z * z).sqrt() - RADIUS) as f32
    };
    (0..N * N * N).map(value).collect()
}

/// All voxels active.
fn options() -> Result<DenseOptions<f32>, Stop> {
    let map = Map::uniform(SPACING, [FIRST; 3]).map_err(|error| Stop::failed(error.to_string()))?;
    let volume = VolumeOptions::new(0.0).map(map).class(GridClass::LEVEL_SET);
    Ok(DenseOptions::new(volume).keep(Keep::All))
}

/// World points of a kind, in set number `set`.
fn points(kind: usize, set: usize) -> Vec<[f32; 3]> {
    let mut points: Vec<[f32; 3]> = match kind {
        1 => {
            // Within two voxels of the surface, in all directions alike.
            let numbers = random(8 * COUNT, 420 + set as u64);
            let point = |p: &[f32]| {
                let square = p[..3].iter().map(|x| x * x).sum::<f32>();
                let inside = (1e-3..=1.0).contains(&square);
                let radius = RADIUS as f32 + 2.0 * SPACING as f32 * p[3];
                inside.then(|| std::array::from_fn(|i| p[i] / square.sqrt() * radius))
            };
            numbers.chunks_exact(4).filter_map(point).cycle().take(COUNT).collect()
        }
        _ => {
            let numbers = random(3 * COUNT, 400 + set as u64);
            numbers.chunks_exact(3).map(|p| std::array::from_fn(|i| 0.95 * p[i])).collect()
        }
    };
    if kind == 2 {
        let key = |p: &[f32; 3]| {
            let cell = p.map(|x| ((x + 1.0) * 511.5) as u32);
            (0..10).fold(0u32, |key, bit| {
                (0..3).fold(key, |key, i| key | (cell[i] >> bit & 1) << (3 * bit + i))
            })
        };
        points.sort_by_cached_key(key);
    }
    points
}

struct State {
    volume: Volume,
    points: Vec<DeviceBuffer<[f32; 3]>>,
    values: Vec<DeviceBuffer<f32>>,
    gradients: DeviceBuffer<[f32; 3]>,
}

fn samples(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let (stream, replays) = (&gpu.stream, Replays::new(gpu, bench.samples)?);
    let (geometry, field) = (GeometryKernels::new(&gpu.context), sphere());
    let mut rows = Vec::new();
    for kind in 0..3 {
        let sets: Vec<_> = (0..SETS).map(|set| points(kind, set)).collect();
        let upload = |set: &Vec<_>| DeviceBuffer::from_slice(stream, set);
        let mut state = State {
            volume: Volume::from_host_dense(stream, &geometry, [N; 3], &field, options()?)?,
            points: sets.iter().map(upload).collect::<cuda_safe::Result<_>>()?,
            values: (0..SETS)
                .map(|_| DeviceBuffer::zeroed(stream, COUNT))
                .collect::<cuda_safe::Result<_>>()?,
            gradients: DeviceBuffer::zeroed(stream, COUNT)?,
        };
        for what in 0..3 {
            let number = 3 * what + kind;
            let call = move |stream: &Stream, state: &mut State, set: usize| {
                let State { volume, points, values, gradients } = state;
                let (at, out) = (Samples::world(&points[set]), &mut values[set]);
                match what {
                    0 => volume.sample::<f32, f32>(stream, &at, Interpolation::Trilinear, out),
                    1 => volume.sample::<f32, f32>(stream, &at, Interpolation::Nearest, out),
                    _ => volume.sample_with_gradient::<f32, f32>(
                        stream,
                        &at,
                        Interpolation::Trilinear,
                        out,
                        gradients,
                    ),
                }
            };
            let times;
            (times, state) = replays.run(state, call)?;
            let gradients = (what == 2).then_some(&state.gradients);
            // The last call of a graph was of the first set.
            let check = check(stream, &field, &sets[0], what, &state.values[0], gradients)?;
            let rate = COUNT as f64 / median(&times) / 1e3;
            let row = Row::new(SAMPLES[number], Unit::Ms, &times)
                .figure("msamples_per_s", rate)
                .note(format!("{rate:.0} M/s"))
                .check(check)
                .image("embedded PTX")
                .device(&gpu.name);
            let value = row.stats.median;
            rows.push(match MOST[number] {
                Some(most) => row.at_most("ms", value, most),
                None => row,
            });
        }
    }
    rows.sort_by_key(|row| SAMPLES.iter().position(|name| *name == row.work));
    Ok(rows)
}

/// Compares results with the field's interpolation in f64, and returns their error.
fn check(
    stream: &Stream,
    field: &[f32],
    points: &[[f32; 3]],
    what: usize,
    values: &DeviceBuffer<f32>,
    gradients: Option<&DeviceBuffer<[f32; 3]>>,
) -> Result<String, Stop> {
    let values = values.to_vec(stream)?;
    let gradients = gradients.map(|gradients| gradients.to_vec(stream)).transpose()?;
    let (mut worst, mut worst_gradient, mut skipped) = (0.0f64, 0.0f64, 0);
    for i in (0..points.len()).step_by(points.len() / CHECKED) {
        let p = points[i].map(|x| (f64::from(x) - FIRST) / SPACING);
        if what == 1 {
            // A point between two voxels, within rounding, may go to either.
            if p.iter().any(|x| ((x + 0.5) - (x + 0.5).round()).abs() < 1e-4) {
                skipped += 1;
                continue;
            }
            let [x, y, z] = p.map(|x| (x + 0.5).floor() as usize);
            worst = worst.max(f64::from((values[i] - field[(x * N + y) * N + z]).abs()));
            continue;
        }
        let (value, gradient) = trilinear(field, p);
        worst = worst.max((f64::from(values[i]) - value).abs());
        if let Some(gradients) = &gradients {
            // The gradient jumps from cell to cell.
            if p.iter().any(|x| (x - x.round()).abs() < 1e-4) {
                skipped += 1;
                continue;
            }
            for axis in 0..3 {
                let error = f64::from(gradients[i][axis]) - gradient[axis] / SPACING;
                worst_gradient = worst_gradient.max(error.abs());
            }
        }
    }
    // Positions are rounded to 2^-17 of a voxel or so; the field's slope is one.
    let (most, most_gradient) = if what == 1 { (0.0, 0.0) } else { (1e-6, 2e-3) };
    if worst > most || worst_gradient > most_gradient || skipped > CHECKED / 100 {
        return Err(Stop::failed(format!(
            "an error of {worst:e}, of gradients {worst_gradient:e}, {skipped} on borders"
        )));
    }
    let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64;
    let gradient = match gradients {
        Some(_) => format!(", of gradients {worst_gradient:.1e}"),
        None => String::new(),
    };
    Ok(format!("mean {mean:.5}; of {CHECKED} the greatest error {worst:.1e}{gradient}"))
}

/// Value and gradient, in index space.
fn trilinear(field: &[f32], p: [f64; 3]) -> (f64, [f64; 3]) {
    let base = p.map(|x| x.floor());
    let t: [f64; 3] = std::array::from_fn(|i| p[i] - base[i]);
    let (mut value, mut gradient) = (0.0, [0.0; 3]);
    for corner in 0..8usize {
        let bit = |axis: usize| corner >> axis & 1;
        let at: [usize; 3] = std::array::from_fn(|i| base[i] as usize + bit(i));
        let v = f64::from(field[(at[0] * N + at[1]) * N + at[2]]);
        let weight = |axis: usize| if bit(axis) == 1 { t[axis] } else { 1.0 - t[axis] };
        value += v * weight(0) * weight(1) * weight(2);
        for (axis, gradient) in gradient.iter_mut().enumerate() {
            let sign = if bit(axis) == 1 { 1.0 } else { -1.0 };
            let others: f64 = (0..3).filter(|i| *i != axis).map(weight).product();
            *gradient += v * sign * others;
        }
    }
    (value, gradient)
}

/// From a host array to a volume that is ready: wall time, allocation included.
fn dense(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let stream = &gpu.stream;
    let (geometry, field, options) = (GeometryKernels::new(&gpu.context), sphere(), options()?);
    let make = || -> Result<Volume, Stop> {
        let volume = Volume::from_host_dense(stream, &geometry, [N; 3], &field, options.clone())?;
        stream.synchronize()?;
        Ok(volume)
    };
    // Kernels are loaded, and memory is in the pool.
    let grid = make()?.download(stream).map_err(|error| Stop::failed(error.to_string()))?;
    let mut wrong = 0;
    for (i, wanted) in field.iter().enumerate() {
        let at = [i / (N * N), i / N % N, i % N].map(|x| x as i32);
        wrong += usize::from(grid.get::<f32>(at).ok() != Some(*wanted));
    }
    if wrong > 0 {
        return Err(Stop::failed(format!("{wrong} voxels have another value")));
    }
    let mut times = Vec::new();
    for _ in 0..bench.samples {
        let (nanoseconds, _) = once(make)?;
        times.push(nanoseconds / 1e6);
    }
    let row = Row::new("volume_from_dense/256", Unit::Ms, &times)
        .check(format!("all {} values", field.len()))
        .image("embedded PTX")
        .device(&gpu.name);
    let value = row.stats.median;
    Ok(vec![row.at_most("ms", value, 4.0)])
}
