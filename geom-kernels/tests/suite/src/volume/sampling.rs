//! Interpolated values and gradients of volumes.

use geom_kernels::Real;
use geom_kernels::volume::nanovdb::Builder;
use geom_kernels::volume::{Interpolated, Interpolation, Samples, Volume};

use super::Fixture;
use super::grids::{self, Kind, grid, map, positions};
use super::interpolation::{U32, U64, Wanted, bounds, sample};
use crate::volume_decode::Decoded;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(trilinear_samples),
        device(tricubic_samples),
        device(world_samples_are_those_of_index_space),
        device(constant_and_linear_fields_come_out_exactly),
        device(a_quadratic_field_is_tricubic),
        device(an_empty_volume_is_its_background),
        device(samples_of_sizes_around_a_warp),
    ]
}

const BOTH: [Interpolation; 2] = [Interpolation::Trilinear, Interpolation::Tricubic];

fn trilinear_samples(device: &TestDevice) -> TestResult {
    all(device, Interpolation::Trilinear, 1500)
}

fn tricubic_samples(device: &TestDevice) -> TestResult {
    all(device, Interpolation::Tricubic, 500)
}

fn all(device: &TestDevice, how: Interpolation, n: usize) -> TestResult {
    of::<grids::F32>(device, how, n)?;
    of::<grids::F64>(device, how, n)?;
    of::<grids::Vec3F>(device, how, n)?;
    of::<grids::Vec3D>(device, how, n)?;
    of::<grids::Vec4F>(device, how, n)?;
    of::<grids::Vec4D>(device, how, n)
}

fn of<K: Kind<Value: Interpolated>>(
    device: &TestDevice,
    how: Interpolation,
    n: usize,
) -> TestResult {
    at::<K, f32>(device, how, n)?;
    at::<K, f64>(device, how, n)
}

/// Bytes as values.
fn collect<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// The numbers that a value or a gradient is made of.
pub(super) fn numbers<T: bytemuck::NoUninit>(values: &[T], wide: bool) -> Vec<f64> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    if wide { collect(bytes) } else { collect::<f32>(bytes).into_iter().map(f64::from).collect() }
}

/// Whether values are of f64.
pub(super) fn is_wide<V: Interpolated>() -> bool {
    // Three derivatives for each number of a value.
    matches!(V::TYPE.name(), "double" | "Vec3d" | "Vec4d")
}

/// Whether a sample is what it should be, up to roundings.
pub(super) fn close<V: Interpolated, P: Real>(
    how: Interpolation,
    wanted: &Wanted,
    (value, gradient): (&V, &V::Gradient),
) -> TestResult {
    let wide = is_wide::<V>();
    let in_f64 = wide || size_of::<P>() == 8;
    let (of_value, of_gradient) = bounds(how);
    // Of f64 the sums here have as much to be off by. Values of f32 are rounded last; they may be up to 2 M by
    // then, derivatives up to 6 M.
    let u = if in_f64 { 2.0 * U64 } else { U32 };
    let last = if in_f64 && !wide { U32 } else { 0.0 };
    let (value, gradient) = (numbers(&[*value], wide), numbers(&[*gradient], wide));
    let off = |got: &[f64], wanted: &[f64], bound: f64| {
        got.len() == wanted.len()
            && got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() <= bound)
    };
    ensure!(
        off(&value, &wanted.value, wanted.most * (of_value * u + 2.0 * last)),
        "{value:?}, not {:?}",
        wanted.value
    );
    let slopes = wanted.gradient.as_flattened();
    ensure!(
        off(&gradient, slopes, wanted.most * (of_gradient * u + 6.0 * last)),
        "gradient {gradient:?}, not {slopes:?}"
    );
    Ok(())
}

/// Values and gradients; the values alone are the same.
pub(super) fn ask<V: Interpolated, P: Real>(
    fixture: &Fixture,
    volume: &Volume,
    samples: &Samples<'_, P>,
    how: Interpolation,
) -> Result<(Vec<V>, Vec<V::Gradient>), Failure> {
    let (stream, n) = (&fixture.stream, samples.len());
    let (mut alone, mut values) = (fixture.room::<V>(n)?, fixture.room::<V>(n)?);
    let mut gradients = fixture.room::<V::Gradient>(n)?;
    volume.sample(stream, samples, how, &mut alone)?;
    volume.sample_with_gradient(stream, samples, how, &mut values, &mut gradients)?;
    let (alone, values) = (alone.to_vec(stream)?, values.to_vec(stream)?);
    ensure!(bytemuck::cast_slice::<V, u8>(&alone) == bytemuck::cast_slice::<V, u8>(&values));
    Ok((values, gradients.to_vec(stream)?))
}

fn at<K: Kind<Value: Interpolated>, P: Real>(
    device: &TestDevice,
    how: Interpolation,
    n: usize,
) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(930);
    let (grid, set) = grid::<K>(&mut rng)?;
    let (volume, decoded) = (fixture.volume(&grid)?, Decoded::new(grid.bytes()));
    let asked = positions::<P>(&mut rng, &set, n);
    let there = fixture.upload(&asked)?;
    let (values, gradients) = ask::<K::Value, P>(&fixture, &volume, &Samples::index(&there), how)?;
    let wide = is_wide::<K::Value>();
    let outside = numbers(&decoded.background(), wide);
    for (p, got) in asked.iter().zip(values.iter().zip(&gradients)) {
        let wanted = sample(how, *p, &outside, |voxel| numbers(&decoded.value(voxel), wide));
        close::<K::Value, P>(how, &wanted, got)
            .map_err(|e| Failure::new(format!("{}, {p:?}: {e}", K::NAME)))?;
    }
    Ok(())
}

fn world_samples_are_those_of_index_space(device: &TestDevice) -> TestResult {
    world_of::<grids::F32, f32>(device)?;
    world_of::<grids::F32, f64>(device)?;
    world_of::<grids::Vec3D, f64>(device)?;
    world_of::<grids::Vec4F, f32>(device)
}

/// By the map there, and of gradients back: bit for bit, whichever call does it.
fn world_of<K: Kind<Value: Interpolated>, P: Real>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(931);
    let (grid, set) = grid::<K>(&mut rng)?;
    let volume = fixture.volume(&grid)?;
    let near: Vec<_> = set.into_iter().filter(|voxel| voxel[0].abs() < 5000).collect();
    let inside = fixture.upload(&positions::<P>(&mut rng, &near, 400))?;
    let n = inside.len();
    let (mut world, mut index) = (fixture.room::<[P; 3]>(n)?, fixture.room::<[P; 3]>(n)?);
    volume.index_to_world(stream, &inside, &mut world)?;
    volume.world_to_index(stream, &world, &mut index)?;
    for how in BOTH {
        let (values, gradients) =
            ask::<K::Value, P>(&fixture, &volume, &Samples::world(&world), how)?;
        let (same, turned) = ask::<K::Value, P>(&fixture, &volume, &Samples::index(&index), how)?;
        ensure!(
            bytemuck::cast_slice::<_, u8>(&values) == bytemuck::cast_slice::<_, u8>(&same),
            "{}",
            K::NAME
        );
        // Those of values in the precision of the arithmetic are not rounded in between.
        if is_wide::<K::Value>() == (size_of::<P>() == 8) {
            let bytes: Vec<u8> = bytemuck::cast_slice(&turned).to_vec();
            let turned = fixture.upload(&collect::<[P; 3]>(&bytes))?;
            let mut back = fixture.room::<[P; 3]>(turned.len())?;
            volume.index_to_world_gradients(stream, &turned, &mut back)?;
            let back = back.to_vec(stream)?;
            let same = bytemuck::cast_slice::<_, u8>(&gradients)
                == bytemuck::cast_slice::<[P; 3], u8>(&back);
            ensure!(same, "{}, {how:?}", K::NAME);
        }
        let nearest = Interpolation::Nearest;
        let (mut a, mut b) = (fixture.room::<K::Value>(n)?, fixture.room::<K::Value>(n)?);
        volume.sample(stream, &Samples::world(&world), nearest, &mut a)?;
        volume.sample(stream, &Samples::index(&index), nearest, &mut b)?;
        let (a, b) = (a.to_vec(stream)?, b.to_vec(stream)?);
        ensure!(bytemuck::cast_slice::<_, u8>(&a) == bytemuck::cast_slice::<_, u8>(&b));
    }
    Ok(())
}

/// Fields whose every number along the way is one of f32: so nothing is rounded.
fn constant_and_linear_fields_come_out_exactly(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(932);
    for slope in [[0, 0, 0], [3, -5, 7], [1, 0, 0], [0, 64, 0], [0, 0, -9]] {
        let field = |[x, y, z]: [f32; 3]| {
            slope[0] as f32 * x + slope[1] as f32 * y + slope[2] as f32 * z - 11.0
        };
        let mut builder = Builder::<f32>::new(f32::NAN);
        let range = -11..11;
        for x in range.clone() {
            for y in range.clone() {
                for z in range.clone() {
                    builder.set([x, y, z], field([x, y, z].map(|x| x as f32)));
                }
            }
        }
        let volume = fixture.volume(&builder.build()?)?;
        // Multiples of 1/64.
        let asked: Vec<[f32; 3]> =
            (0..500).map(|_| [0; 3].map(|_: i32| rng.below(64 * 18) as f32 / 64.0 - 9.0)).collect();
        let there = fixture.upload(&asked)?;
        for how in BOTH {
            let (values, gradients) =
                ask::<f32, f32>(&fixture, &volume, &Samples::index(&there), how)?;
            for (p, (value, gradient)) in asked.iter().zip(values.into_iter().zip(gradients)) {
                ensure_eq!(value, field(*p), "{how:?}, {p:?}");
                ensure_eq!(gradient, slope.map(|x| x as f32), "{how:?}, {p:?}");
            }
        }
    }
    Ok(())
}

/// Catmull-Rom splines are exact of polynomials up to the second degree.
fn a_quadratic_field_is_tricubic(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(933);
    let field = |[x, y, z]: [f64; 3]| x * x - 2.0 * y * y + x * y - 3.0 * z * x + z * z + y;
    let slopes =
        |[x, y, z]: [f64; 3]| [2.0 * x + y - 3.0 * z, -4.0 * y + x + 1.0, -3.0 * x + 2.0 * z];
    let mut builder = Builder::<f64>::new(0.0);
    let range = -11..11;
    for x in range.clone() {
        for y in range.clone() {
            for z in range.clone() {
                builder.set([x, y, z], field([x, y, z].map(f64::from)));
            }
        }
    }
    let volume = fixture.volume(&builder.build()?)?;
    // Multiples of 1/64: squares and products have few bits, and f64 has them all.
    let asked: Vec<[f64; 3]> =
        (0..500).map(|_| [0; 3].map(|_: i32| rng.below(64 * 18) as f64 / 64.0 - 9.0)).collect();
    let there = fixture.upload(&asked)?;
    let samples = Samples::index(&there);
    let (values, gradients) =
        ask::<f64, f64>(&fixture, &volume, &samples, Interpolation::Tricubic)?;
    for (p, (value, gradient)) in asked.iter().zip(values.into_iter().zip(gradients)) {
        ensure_eq!(value, field(*p), "{p:?}");
        ensure_eq!(gradient, slopes(*p), "{p:?}");
    }
    Ok(())
}

fn an_empty_volume_is_its_background(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let volume =
        fixture.volume(&Builder::<[f32; 3]>::new([1.0, -2.0, 0.1]).map(map()?).build()?)?;
    let asked = positions::<f32>(&mut device.rng(934), &[[0; 3]], 70);
    let there = fixture.upload(&asked)?;
    for how in BOTH {
        for samples in [Samples::index(&there), Samples::world(&there)] {
            let (values, gradients) = ask::<[f32; 3], f32>(&fixture, &volume, &samples, how)?;
            ensure!(values.iter().all(|value| *value == [1.0, -2.0, 0.1]));
            ensure!(gradients.iter().all(|gradient| *gradient == [[0.0; 3]; 3]));
        }
    }
    Ok(())
}

/// Answers are where their positions are, and nothing is written behind them.
fn samples_of_sizes_around_a_warp(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(935);
    let (grid, set) = grid::<grids::F32>(&mut rng)?;
    let volume = fixture.volume(&grid)?;
    let there = fixture.upload(&positions::<f32>(&mut rng, &set, 1000))?;
    let every = [Interpolation::Nearest, Interpolation::Trilinear, Interpolation::Tricubic];
    for how in every {
        let mut whole = fixture.room::<f32>(there.len())?;
        volume.sample(stream, &Samples::index(&there), how, &mut whole)?;
        let whole = whole.to_vec(stream)?;
        for n in [0, 1, 31, 32, 33, 127, 128, 129, 1000] {
            let mut out = fixture.room::<f32>(n + 1)?;
            let garbage = out.to_vec(stream)?[n].to_bits();
            let samples = Samples::index(there.slice(..n)?);
            volume.sample(stream, &samples, how, out.slice_mut(..n)?)?;
            let out = out.to_vec(stream)?;
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            ensure_eq!(bits(&out[..n]), bits(&whole[..n]));
            ensure_eq!(out[n].to_bits(), garbage);
        }
    }
    Ok(())
}
