//! Samples at positions of every layout: the bits of those at packed positions.

use cuda_safe::vector::{Double3, Float3, Float4};
use geom_kernels::volume::nanovdb::Builder;
use geom_kernels::volume::{IndexedValues, Interpolated, Interpolation, Samples, Volume};
use geom_kernels::{Points, Real};
use tape::{Differentiable, Recorder, Seeds, Tape};

use super::Fixture;
use super::grids::{self, Kind, grid, positions};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(samples_take_every_layout_of_points),
        device(recorded_samples_take_packed_points),
    ]
}

const EVERY: [Interpolation; 3] =
    [Interpolation::Nearest, Interpolation::Trilinear, Interpolation::Tricubic];

/// What samples are, as bytes.
type Found = Vec<(String, Vec<u8>)>;

fn samples_take_every_layout_of_points(device: &TestDevice) -> TestResult {
    of::<grids::F32, f32>(device, vectors_of_f32)?;
    of::<grids::F32, f64>(device, vectors_of_f64)?;
    of::<grids::Vec3D, f32>(device, vectors_of_f32)?;
    of::<grids::Vec4F, f64>(device, vectors_of_f64)
}

/// Calls a check with the name of a layout and points of it.
type Same<'a, P> = &'a dyn Fn(&str, Points<'_, P>) -> TestResult;

fn vectors_of_f32(fixture: &Fixture, points: &[[f32; 3]], same: Same<'_, f32>) -> TestResult {
    let threes: Vec<Float3> = points.iter().map(|&[x, y, z]| Float3 { x, y, z }).collect();
    same("Float3", (&fixture.upload(&threes)?).into())?;
    let fours: Vec<Float4> =
        points.iter().map(|&[x, y, z]| Float4 { x, y, z, w: f32::NAN }).collect();
    same("Float4", (&fixture.upload(&fours)?).into())
}

fn vectors_of_f64(fixture: &Fixture, points: &[[f64; 3]], same: Same<'_, f64>) -> TestResult {
    let threes: Vec<Double3> = points.iter().map(|&[x, y, z]| Double3 { x, y, z }).collect();
    same("Double3", (&fixture.upload(&threes)?).into())
}

fn of<K: Kind<Value: Interpolated>, P: Real>(
    device: &TestDevice,
    vectors: impl Fn(&Fixture, &[[P; 3]], Same<'_, P>) -> TestResult,
) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(960);
    let (grid, set) = grid::<K>(&mut rng)?;
    let volume = fixture.volume(&grid)?;
    let (index_grid, index_set) = grids::grid::<grids::OfOnIndex>(&mut rng)?;
    let indices = fixture.volume(&index_grid)?;
    let count = indices.value_count().unwrap_or(1) as usize - 1;
    let array: Vec<f32> = (0..count).map(|_| rng.float()).collect();
    let array = fixture.upload(&array)?;
    let array = IndexedValues::new(&array, -3.0);
    for n in [0, 1, 31, 32, 33, 2000] {
        // Half of them around the voxels of each volume; one is not finite.
        let mut points = positions::<P>(&mut rng, &set, n);
        points.truncate(n.div_ceil(2));
        points.extend(positions::<P>(&mut rng, &index_set, n));
        points.truncate(n);
        if let [_, .., strange] = points.as_mut_slice() {
            *strange = [f64::NAN, 0.0, 1.0].map(P::narrow);
        }
        ensure_eq!(points.len(), n);
        let packed = fixture.upload(&points)?;
        let wanted = find::<K::Value, P>(&fixture, &volume, &indices, &array, (&packed).into())?;
        if n > 1000 {
            // Results that are all the same would not distinguish layouts.
            for (query, wanted) in &wanted {
                let size = wanted.len() / n;
                ensure!(wanted.chunks(size).any(|one| one != &wanted[..size]), "{query}");
            }
        }
        let same = |layout: &str, points: Points<'_, P>| -> TestResult {
            ensure_eq!(points.len(), n);
            let found = find::<K::Value, P>(&fixture, &volume, &indices, &array, points)?;
            for ((query, found), (_, wanted)) in found.iter().zip(&wanted) {
                ensure!(found == wanted, "{query} of {n} points, {layout}, {}", K::NAME);
            }
            Ok(())
        };
        vectors(&fixture, &points, &same)?;
        same("view", (&packed.as_slice()).into())?;
        same("flat", Points::flat(&fixture.upload(points.as_flattened())?)?)?;
        let planar: Vec<P> =
            (0..3).flat_map(|axis| points.iter().map(move |point| point[axis])).collect();
        same("planar", Points::strided(&fixture.upload(&planar)?, n, 1, n)?)?;
        let mut particles = vec![P::zeroed(); 7 * n + 2];
        for (i, point) in points.iter().enumerate() {
            particles[7 * i + 2..7 * i + 5].copy_from_slice(point);
        }
        let particles = fixture.upload(&particles)?;
        same("strided", Points::strided(particles.slice(2..)?, n, 7, 1)?)?;
        // Rows of padded x, of padded y, and of padded z, of every second number.
        let (row, mut rows) = (2 * n + 5, vec![P::zeroed(); 6 * n + 15]);
        for (i, point) in points.iter().enumerate() {
            for (axis, number) in point.iter().enumerate() {
                rows[axis * row + 2 * i] = *number;
            }
        }
        same("rows", Points::strided(&fixture.upload(&rows)?, n, 2, row)?)?;
        if let [first, ..] = points.as_slice() {
            let once = fixture.upload(first)?;
            let all = fixture.upload(&vec![*first; n])?;
            let once = Points::strided(&once, n, 0, 1)?;
            let wanted = find::<K::Value, P>(&fixture, &volume, &indices, &array, (&all).into())?;
            let found = find::<K::Value, P>(&fixture, &volume, &indices, &array, once)?;
            ensure!(found == wanted, "{n} times one point");
        }
    }
    Ok(())
}

/// The results of all kinds of samples, in index space and in the world.
fn find<V: Interpolated, P: Real>(
    fixture: &Fixture,
    volume: &Volume,
    indices: &Volume,
    array: &IndexedValues<'_, f32>,
    points: Points<'_, P>,
) -> Result<Found, Failure> {
    let mut found = Vec::new();
    for (space, samples) in [("index", Samples::index(points)), ("world", Samples::world(points))] {
        for how in EVERY {
            let (values, gradients) = values::<V, P>(fixture, volume, &samples, how)?;
            found.push((format!("{how:?} values in {space}"), values));
            found.push((format!("{how:?} gradients in {space}"), gradients));
            let (values, gradients) = indexed(fixture, indices, &samples, how, array)?;
            found.push((format!("{how:?} elements in {space}"), values));
            found.push((format!("{how:?} gradients of elements in {space}"), gradients));
        }
    }
    // Of the nearest there are none.
    found.retain(|(_, bytes)| points.is_empty() || !bytes.is_empty());
    Ok(found)
}

/// Values, and gradients if there are any, as bytes.
type Bytes = (Vec<u8>, Vec<u8>);

fn values<V: Interpolated, P: Real>(
    fixture: &Fixture,
    volume: &Volume,
    samples: &Samples<'_, P>,
    how: Interpolation,
) -> Result<Bytes, Failure> {
    let (stream, n) = (&fixture.stream, samples.len());
    let mut values = fixture.room::<V>(n)?;
    volume.sample(stream, samples, how, &mut values)?;
    let alone = bytemuck::cast_slice(&values.to_vec(stream)?).to_vec();
    if how == Interpolation::Nearest {
        return Ok((alone, Vec::new()));
    }
    let mut gradients = fixture.room::<V::Gradient>(n)?;
    volume.sample_with_gradient(stream, samples, how, &mut values, &mut gradients)?;
    let values = values.to_vec(stream)?;
    ensure!(bytemuck::cast_slice::<_, u8>(&values) == alone, "{how:?} with gradients");
    Ok((alone, bytemuck::cast_slice(&gradients.to_vec(stream)?).to_vec()))
}

fn indexed<P: Real>(
    fixture: &Fixture,
    volume: &Volume,
    samples: &Samples<'_, P>,
    how: Interpolation,
    array: &IndexedValues<'_, f32>,
) -> Result<Bytes, Failure> {
    let (stream, n) = (&fixture.stream, samples.len());
    let mut out = fixture.room::<f32>(n)?;
    if how == Interpolation::Nearest {
        volume.sample_indexed(stream, samples, how, array, &mut out)?;
        return Ok((bytemuck::cast_slice(&out.to_vec(stream)?).to_vec(), Vec::new()));
    }
    let mut by = fixture.room::<[f32; 3]>(n)?;
    volume.sample_indexed_with_gradient(stream, samples, how, array, &mut out, &mut by)?;
    let bytes = bytemuck::cast_slice(&out.to_vec(stream)?).to_vec();
    Ok((bytes, bytemuck::cast_slice(&by.to_vec(stream)?).to_vec()))
}

/// Positions that are packed have gradients, however they were given; others are refused.
fn recorded_samples_take_packed_points(device: &TestDevice) -> TestResult {
    recorded_of::<f32>(device, [0.25, 0.5, 0.75, 1.5, 0.25, 0.5, 9.0, 9.0])?;
    recorded_of::<f64>(device, [0.25, 0.5, 0.75, 1.5, 0.25, 0.5, 9.0, 9.0])
}

fn recorded_of<P: Real + Differentiable<Gradient = P>>(
    device: &TestDevice,
    numbers: [P; 8],
) -> TestResult
where
    [P; 3]: Differentiable,
{
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    // x + 2 y + 4 z.
    let mut builder = Builder::<f32>::new(0.0);
    for voxel in (0..64).map(|i| [i / 16 - 1, i / 4 % 4 - 1, i % 4 - 1]) {
        let [x, y, z] = voxel.map(|x| x as f32);
        builder.set(voxel, x + 2.0 * y + 4.0 * z);
    }
    let volume = fixture.volume(&builder.build()?)?;
    let (index_grid, _) = grid::<grids::OfOnIndex>(&mut device.rng(961))?;
    let indices = fixture.volume(&index_grid)?;
    let count = indices.value_count().unwrap_or(1) as usize - 1;
    let array = fixture.upload(&vec![1.0f32; count])?;
    let array = IndexedValues::new(&array, 0.0);
    let numbers = fixture.upload(&numbers)?;
    let mut out = fixture.room::<f32>(2)?;
    let ones = fixture.upload(&[1.0f32, 1.0])?;
    let how = Interpolation::Trilinear;

    let packed = Points::strided(&numbers, 2, 3, 1)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&numbers)?;
        volume.record_sample(t, &Samples::index(packed), how, &mut out)
    })?;
    ensure_eq!(out.to_vec(stream)?, [4.25, 4.0]);
    tape.backward_with(stream, &Seeds::new().with(&out, &ones)?)?;
    let gradient = super::sampling::numbers(
        &tape.gradient(&numbers)?.to_vec(stream)?,
        size_of::<P>() == size_of::<f64>(),
    );
    ensure_eq!(gradient, [1.0, 2.0, 4.0, 1.0, 2.0, 4.0, 0.0, 0.0]);

    for (stride, component) in [(4, 1), (1, 2), (3, 2), (0, 1)] {
        let points = Points::strided(&numbers, 2, stride, component)?;
        let samples = [Samples::index(points), Samples::world(points)];
        for samples in &samples {
            let refuses = |record: &mut dyn FnMut(&mut Recorder<'_>) -> cuda_safe::Result<()>| {
                let refused = Tape::record(stream, |t| {
                    t.watch(&numbers)?;
                    record(t)
                });
                let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
                let number = std::any::type_name::<P>();
                ensure!(text.contains("recorded queries take packed points"), "{text:?}");
                ensure!(text.contains(&format!("`[{number}; 3]`")), "{text:?}");
                TestResult::Ok(())
            };
            refuses(&mut |t| volume.record_sample(t, samples, how, &mut out))?;
            refuses(&mut |t| indices.record_sample_indexed(t, samples, how, &array, &mut out))?;
        }
    }
    Ok(())
}
