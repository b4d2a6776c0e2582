//! Attacks on sparse volumes: what is stored to them, sampled, and changed while in use.

use cuda_safe::{DeviceBuffer, Result};
use geom_kernels::volume::nanovdb::Map;
use geom_kernels::volume::{
    Bool, Capacity, DenseOptions, IndexedValues, Interpolation, OnIndex, Samples, Volume,
    VolumeHit, VolumeOptions,
};
use geom_kernels::{GeometryKernels, Ray};
use tape::Tape;
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
/// The coordinates of voxels are from `-EDGE` to below `EDGE`.
const EDGE: i32 = 1 << 23;

/// Stores values at voxels that are there twice, in no leaf, or out of range, and of the wrong type.
///
/// - row: launching foreign code is unsafe
/// - targets: `Volume::store`, `Volume::lookup`, `Volume::from_voxels_with`, `Volume::from_voxels`
fn stores_that_do_not_fit(lab: &Lab) -> TestResult {
    let refusal = "5 values for 6 voxels";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let voxels = [[0; 3], [7, 7, 7], [-1, -1, -1], [0; 3], [EDGE, 0, 0], [i32::MIN; 3]];
    let list = DeviceBuffer::from_slice(&stream, &voxels)?;
    let values = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let options = VolumeOptions::new(-1.0f32);
    let mut volume = Volume::from_voxels_with(&stream, &geometry, &list, &values, options.clone())?;
    ensure_eq!(volume.counts(&stream)?.active_voxels, 3);
    lab.refused(
        Volume::from_voxels_with(&stream, &geometry, &list, values.slice(1..)?, options),
        refusal,
    )?;
    let asked = [[0; 3], [7; 3], [-1; 3], [1, 0, 0], [8, 0, 0], [i32::MAX; 3], [i32::MIN; 3]];
    let asked = DeviceBuffer::from_slice(&stream, &asked)?;
    let mut seen = DeviceBuffer::<f32>::zeroed(&stream, 7)?;
    volume.lookup(&stream, &asked, &mut seen)?;
    ensure_eq!(seen.to_vec(&stream)?, [1.0, 2.0, 3.0, -1.0, -1.0, -1.0, -1.0]);
    let mut refused = DeviceBuffer::<u64>::zeroed(&stream, 1)?;
    let targets = [[0; 3], [0; 3], [0; 3], [9, 0, 0], [i32::MAX; 3], [i32::MIN, 0, 0]];
    let targets = DeviceBuffer::from_slice(&stream, &targets)?;
    volume.store(&stream, &targets, &values, &mut refused)?;
    ensure_eq!(refused.to_vec(&stream)?, [3]);
    volume.lookup(&stream, &asked, &mut seen)?;
    let seen = seen.to_vec(&stream)?;
    ensure!([1.0, 2.0, 3.0].contains(&seen[0]), "{seen:?}");
    ensure_eq!(seen[1..], [2.0, 3.0, -1.0, -1.0, -1.0, -1.0]);
    let doubles = DeviceBuffer::<f64>::zeroed(&stream, 6)?;
    lab.refused(
        volume.store(&stream, &targets, &doubles, &mut refused),
        "the volume has values of float, not of double",
    )?;
    lab.refused(volume.store(&stream, &targets, values.slice(1..)?, &mut refused), refusal)?;
    let mut two = DeviceBuffer::<u64>::zeroed(&stream, 2)?;
    lab.refused(
        volume.store(&stream, &targets, &values, &mut two),
        "room for 2 counts, and 1 are written",
    )?;
    let index = VolumeOptions::new(OnIndex(5));
    let mut indices = Volume::from_voxels(&stream, &geometry, &list, index)?;
    let numbers = DeviceBuffer::from_slice(&stream, &[OnIndex(u64::MAX); 6])?;
    lab.refused(
        indices.store(&stream, &targets, &numbers, &mut refused),
        "a volume of OnIndex has no values to be stored",
    )?;
    // A bool is a bit, whatever is stored.
    let bools = VolumeOptions::new(Bool(0));
    let mut bits = Volume::from_voxels(&stream, &geometry, &list, bools)?;
    let odd = DeviceBuffer::from_slice(&stream, &[Bool(255), Bool(2), Bool(4)])?;
    bits.store(&stream, targets.slice(..3)?, &odd, &mut refused)?;
    let mut seen = DeviceBuffer::<Bool>::zeroed(&stream, 1)?;
    bits.lookup(&stream, asked.slice(..1)?, &mut seen)?;
    ensure_eq!(seen.to_vec(&stream)?, [Bool(1)]);
    Ok(())
}

/// Samples at positions that are no numbers or beyond the range, through maps that are nearly singular.
///
/// - row: launching foreign code is unsafe
/// - targets: `Volume::sample`, `Volume::sample_with_gradient`, `Samples::index`, `Samples::world`,
///   `Volume::first_crossings`, `Volume::integrals`, `VolumeOptions::map`
fn samples_of_nowhere(lab: &Lab) -> TestResult {
    let refusal = "(check map";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let how = match lab.variant() {
        "nearest" => Interpolation::Nearest,
        "trilinear" => Interpolation::Trilinear,
        _ => Interpolation::Tricubic,
    };
    for size in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60, 1e60] {
        lab.refused(Map::uniform(size, [0.0; 3]), refusal)?;
    }
    lab.refused(Map::affine([[1.0, 2.0, 3.0]; 3], [0.0; 3]), refusal)?;
    let options = VolumeOptions::new(-3.0f32).map(Map::uniform(1e-30, [1e30; 3])?);
    let dense = DenseOptions::new(options);
    let volume = Volume::from_fn(&stream, &geometry, [9; 3], dense, |_| 2.0)?;
    let far = (1u32 << 30) as f32 * 1.01;
    let odd = [NAN, INF, -INF, far, -far, f32::MAX, 3.5, -1e-45];
    let mut points = Vec::new();
    for (i, a) in odd.iter().enumerate() {
        points.extend([[*a; 3], [*a, 3.0, 3.0], [3.0, odd[(i + 1) % 8], *a]]);
    }
    let n = points.len();
    let device = DeviceBuffer::from_slice(&stream, &points)?;
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut gradients = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
    volume.sample(&stream, &Samples::index(&device), how, &mut values)?;
    for (point, value) in points.iter().zip(values.to_vec(&stream)?) {
        let outside = point.iter().any(|x| x.is_nan() || x.abs() > (1u32 << 30) as f32);
        ensure!(!outside || value == -3.0, "{point:?}: {value}");
        ensure!(*point != [3.5; 3] || value == 2.0, "{point:?}: {value}");
    }
    let samples = Samples::world(&device);
    volume.sample(&stream, &samples, how, &mut values)?;
    ensure!(values.to_vec(&stream)?.iter().all(|value| value.is_finite()));
    let with = volume.sample_with_gradient(&stream, &samples, how, &mut values, &mut gradients);
    match how {
        Interpolation::Nearest => lab.refused(with, "the nearest value has no gradient")?,
        _ => with?,
    }
    let mut wrong = DeviceBuffer::<f64>::zeroed(&stream, n)?;
    lab.refused(
        volume.sample(&stream, &Samples::index(&device), how, &mut wrong),
        "the volume has values of float, not of double",
    )?;
    let short = values.slice_mut(1..)?;
    lab.refused(
        volume.sample(&stream, &Samples::index(&device), how, short),
        "room for 23 values, and 24 are written",
    )?;
    // Rays from and to nowhere.
    let rays: Vec<Ray> = points.iter().map(|point| Ray::new(*point, [1e-30, 0.0, 0.0])).collect();
    let rays = DeviceBuffer::from_slice(&stream, &rays)?;
    let mut hits = DeviceBuffer::<VolumeHit>::zeroed(&stream, n)?;
    for iso in [0.0, f64::NAN, f64::INFINITY, 2.0, -3.0] {
        volume.first_crossings(&stream, &rays, iso, &mut hits)?;
        let seen = hits.to_vec(&stream)?;
        ensure!(seen[..3].iter().all(|hit| !hit.t.is_finite() || hit.t < 0.0), "{:?}", seen[0]);
    }
    volume.integrals(&stream, &rays, &mut values)?;
    ensure_eq!(values.to_vec(&stream)?[0], 0.0);
    Ok(())
}

/// Samples index volumes with arrays that are shorter than their indices, or empty.
///
/// - row: an index that a kernel reads from memory
/// - targets: `Volume::sample_indexed`, `IndexedValues::new`, `Volume::value_count`, `Volume::from_voxels`,
///   `Volume::upload`, `Volume::sample_indexed_with_gradient`
fn arrays_shorter_than_indices(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let voxels: Vec<[i32; 3]> = (0..20).map(|i| [i, 0, 0]).collect();
    let list = DeviceBuffer::from_slice(&stream, &voxels)?;
    let options = VolumeOptions::new(OnIndex(0));
    let volume = Volume::from_voxels(&stream, &geometry, &list, options)?;
    let points: Vec<[f32; 3]> = voxels.iter().map(|v| v.map(|x| x as f32)).collect();
    let points = DeviceBuffer::from_slice(&stream, &points)?;
    let samples = Samples::index(&points);
    let host: Vec<f32> = (1..=20).map(|i| i as f32).collect();
    let array = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 20)?;
    for room in [0usize, 1, 19, 20] {
        let values = IndexedValues::new(array.slice(..room)?, -7.0f32);
        volume.sample_indexed(&stream, &samples, Interpolation::Nearest, &values, &mut out)?;
        let expected: Vec<f32> = (0..20).map(|i| if i < room { host[i] } else { -7.0 }).collect();
        ensure_eq!(out.to_vec(&stream)?, expected);
        let mut gradients = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 20)?;
        volume.sample_indexed_with_gradient(
            &stream,
            &samples,
            Interpolation::Tricubic,
            &values,
            &mut out,
            &mut gradients,
        )?;
    }
    // From the host it is known how many there are.
    let uploaded = Volume::upload(&stream, &geometry, &volume.download(&stream)?)?;
    ensure_eq!(uploaded.value_count(), Some(21));
    let nearest = Interpolation::Nearest;
    for wrong in [0usize, 19] {
        let values = IndexedValues::new(array.slice(..wrong)?, -7.0f32);
        lab.refused(
            uploaded.sample_indexed(&stream, &samples, nearest, &values, &mut out),
            "values for a volume of 20 indices, from 1 on",
        )?;
    }
    let values = IndexedValues::new(&array, NAN);
    uploaded.sample_indexed(&stream, &samples, nearest, &values, &mut out)?;
    ensure_eq!(out.to_vec(&stream)?, host);
    let floats = VolumeOptions::new(0.0f32);
    let floats = Volume::from_voxels(&stream, &geometry, &list, floats.clone())?;
    lab.refused(
        floats.sample_indexed(&stream, &samples, nearest, &values, &mut out),
        "a volume of float has its own values",
    )?;
    Ok(())
}

/// Stores to a volume, builds it again or drops it, between a recorded sample and the pass.
///
/// - row: a pass reads what was recorded
/// - targets: `Volume::record_sample`, `Volume::store`, `Volume::rebuild_from_leaves`, `Volume::variables`,
///   `Volume::gradients_of_voxels`, `Tape::backward`
fn volumes_changed_before_the_pass(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let capacity = Capacity { leaves: 4, lower: 2, upper: 2, entries: 8 };
    let list = DeviceBuffer::from_slice(&stream, &[[0i32; 3], [9, 0, 0]])?;
    let options = VolumeOptions::new(2.0f32).capacity(capacity);
    let mut volume = Volume::from_leaves(&stream, &geometry, &list, options)?;
    let points = DeviceBuffer::from_slice(&stream, &[[1.5f32, 2.5, 3.5]; 4])?;
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(volume.variables::<f32>()?)?;
        let samples = Samples::index(&points);
        volume.record_sample(t, &samples, Interpolation::Trilinear, &mut values)?;
        geometry.record_sum(t, &values, &mut loss)
    })?;
    let mut refused = DeviceBuffer::<u64>::zeroed(&stream, 1)?;
    let one = DeviceBuffer::from_slice(&stream, &[5.0f32])?;
    match lab.variant() {
        "stored" => volume.store(&stream, list.slice(..1)?, &one, &mut refused)?,
        "rebuilt" => volume.rebuild_from_leaves(&stream, list.slice(1..)?)?,
        "dropped" => {
            let bytes = volume.size_bytes();
            drop(volume);
            context.free_deferred()?;
            let taken = (0..4)
                .map(|_| DeviceBuffer::from_slice(&stream, &vec![0xffu8; bytes]))
                .collect::<Result<Vec<_>>>()?;
            tape.backward(&stream, &loss)?;
            for taken in taken {
                ensure!(taken.to_vec(&stream)?.iter().all(|byte| *byte == 0xff));
            }
            return Ok(());
        }
        _ => {
            tape.backward(&stream, &loss)?;
            let gradient = tape.gradient(volume.variables::<f32>()?)?;
            let voxels = [[1, 2, 3], [2, 3, 4], [0; 3], [EDGE, 0, 0]];
            let voxels = DeviceBuffer::from_slice(&stream, &voxels)?;
            let mut out = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
            volume.gradients_of_voxels(&stream, gradient, &voxels, &mut out)?;
            ensure_eq!(out.to_vec(&stream)?, [0.5, 0.5, 0.0, 0.0]);
            let short = gradient.slice(1..)?;
            lab.refused(volume.gradients_of_voxels(&stream, short, &voxels, &mut out), "gradient")?;
            return Ok(());
        }
    }
    lab.refused(
        tape.backward(&stream, &loss),
        "memory of step 1 (`volume samples`) was overwritten after it was recorded",
    )?;
    Ok(())
}

/// Enqueues queries on one stream, then changes or drops the volume on another one.
///
/// - row: work that uses the same bytes
/// - row: device memory is freed after the last work
/// - targets: `Volume::from_leaves`, `Volume::lookup`, `Volume::store`, `Volume::rebuild_from_leaves`, `Volume::sample`
fn volumes_changed_while_in_use(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, other) = (context.stream()?, context.stream()?);
    let geometry = GeometryKernels::new(&context);
    let capacity = Capacity { leaves: 4, lower: 2, upper: 2, entries: 8 };
    let voxels: Vec<[i32; 3]> = (0..512).map(|i| [i / 64, i / 8 % 8, i % 8]).collect();
    let voxels = DeviceBuffer::from_slice(&stream, &voxels)?;
    let mut refused = DeviceBuffer::<u64>::zeroed(&other, 1)?;
    for round in 0..5u32 {
        let options = VolumeOptions::new(round as f32).capacity(capacity);
        let tiles = DeviceBuffer::from_slice(&stream, &[[0i32; 3], [64, 0, 0]])?;
        let mut volume = Volume::from_leaves(&stream, &geometry, &tiles, options)?;
        let mut before = DeviceBuffer::<f32>::zeroed(&stream, 512)?;
        let mut after = DeviceBuffer::<f32>::zeroed(&stream, 512)?;
        volume.lookup(&stream, &voxels, &mut before)?;
        let new = DeviceBuffer::from_slice(&other, &[round as f32 + 0.5; 512])?;
        volume.store(&other, &voxels, &new, &mut refused)?;
        volume.lookup(&stream, &voxels, &mut after)?;
        volume.rebuild_from_leaves(&other, tiles.slice(1..)?)?;
        std::thread::spawn(move || drop((volume, new, tiles)))
            .join()
            .map_err(|_| Failure::new("a panic"))?;
        let _taken = DeviceBuffer::from_slice(&other, &vec![0xffu8; 1 << 20])?;
        ensure_eq!(before.to_vec(&stream)?, [round as f32; 512]);
        ensure_eq!(after.to_vec(&stream)?, [round as f32 + 0.5; 512]);
        ensure_eq!(refused.to_vec(&other)?, [0]);
    }
    Ok(())
}

/// Stores thousands of values to three voxels at once, and neighbours that share a word of bits: each component of a
/// voxel is one that was stored, and no other voxel changes.
///
/// - row: threads that store to one voxel do not race
/// - targets: `Volume::store`, `Volume::lookup`, `Volume::from_voxels`, `Volume::is_active`
fn stores_to_one_voxel(lab: &Lab) -> TestResult {
    const TIMES: u32 = 3000;
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    // A whole leaf, of which three voxels are written.
    let leaf: Vec<[i32; 3]> = (0..512).map(|i| [i / 64, i / 8 % 8, i % 8]).collect();
    let asked = DeviceBuffer::from_slice(&stream, &leaf)?;
    let three = [[0, 0, 0], [3, 4, 5], [3, 4, 6]];
    let targets: Vec<[i32; 3]> = (0..TIMES as usize).map(|i| three[i % 3]).collect();
    let targets = DeviceBuffer::from_slice(&stream, &targets)?;
    let mut refused = DeviceBuffer::<u64>::zeroed(&stream, 1)?;
    let place = |voxel: &[i32; 3]| three.iter().position(|known| known == voxel);
    let number = |i: u32| 1.0 + f64::from(i);
    // Whether a number was stored to this voxel.
    let is_of = |seen: f64, voxel: usize| {
        (1.0..=f64::from(TIMES)).contains(&seen) && (seen as usize - 1) % 3 == voxel
    };
    if lab.variant() == "bits" {
        let mut volume =
            Volume::from_voxels(&stream, &geometry, &asked, VolumeOptions::new(Bool(0)))?;
        for bit in [1u8, 0, 1] {
            // The neighbours of the same word, and the voxels themselves, by thousands of threads.
            let all: Vec<[i32; 3]> = (0..TIMES as usize).map(|i| leaf[i % 256]).collect();
            let all = DeviceBuffer::from_slice(&stream, &all)?;
            let bits = DeviceBuffer::from_slice(&stream, &[Bool(bit); TIMES as usize])?;
            volume.store(&stream, &all, &bits, &mut refused)?;
            let mut seen = DeviceBuffer::<Bool>::zeroed(&stream, 512)?;
            volume.lookup(&stream, &asked, &mut seen)?;
            let seen = seen.to_vec(&stream)?;
            ensure_eq!(seen[..256], [Bool(bit); 256]);
            ensure_eq!(seen[256..], [Bool(0); 256]);
        }
        ensure_eq!(refused.to_vec(&stream)?, [0]);
        return Ok(());
    }
    let seen: Vec<Vec<f64>> = match lab.variant() {
        "vector" => {
            let options = VolumeOptions::new([0.0f32; 3]);
            let mut volume = Volume::from_voxels(&stream, &geometry, &asked, options.clone())?;
            let values: Vec<[f32; 3]> = (0..TIMES).map(|i| [number(i) as f32; 3]).collect();
            let values = DeviceBuffer::from_slice(&stream, &values)?;
            volume.store(&stream, &targets, &values, &mut refused)?;
            let mut seen = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 512)?;
            volume.lookup(&stream, &asked, &mut seen)?;
            seen.to_vec(&stream)?.iter().map(|v| v.map(f64::from).to_vec()).collect()
        }
        "double" => {
            let options = VolumeOptions::new(0.0f64);
            let mut volume = Volume::from_voxels(&stream, &geometry, &asked, options.clone())?;
            let values: Vec<f64> = (0..TIMES).map(number).collect();
            let values = DeviceBuffer::from_slice(&stream, &values)?;
            volume.store(&stream, &targets, &values, &mut refused)?;
            let mut seen = DeviceBuffer::<f64>::zeroed(&stream, 512)?;
            volume.lookup(&stream, &asked, &mut seen)?;
            seen.to_vec(&stream)?.iter().map(|v| vec![*v]).collect()
        }
        _ => {
            let options = VolumeOptions::new(0.0f32);
            let mut volume = Volume::from_voxels(&stream, &geometry, &asked, options)?;
            let values: Vec<f32> = (0..TIMES).map(|i| number(i) as f32).collect();
            let values = DeviceBuffer::from_slice(&stream, &values)?;
            volume.store(&stream, &targets, &values, &mut refused)?;
            let mut active = DeviceBuffer::<u8>::zeroed(&stream, 512)?;
            volume.is_active(&stream, &asked, &mut active)?;
            ensure_eq!(active.to_vec(&stream)?, [1; 512]);
            let mut seen = DeviceBuffer::<f32>::zeroed(&stream, 512)?;
            volume.lookup(&stream, &asked, &mut seen)?;
            seen.to_vec(&stream)?.iter().map(|v| vec![f64::from(*v)]).collect()
        }
    };
    ensure_eq!(refused.to_vec(&stream)?, [0]);
    for (voxel, seen) in leaf.iter().zip(seen) {
        let held = seen.iter().all(|seen| place(voxel).map_or(*seen == 0.0, |at| is_of(*seen, at)));
        ensure!(held, "{voxel:?}: {seen:?}");
    }
    Ok(())
}

attacks![
    "geometry",
    refused(stores_that_do_not_fit),
    refused(samples_of_nowhere).variants(&["nearest", "trilinear", "tricubic"]),
    refused(arrays_shorter_than_indices),
    right(volumes_changed_before_the_pass).variants(&["stored", "rebuilt", "dropped", "as_it_was"]),
    right(volumes_changed_while_in_use),
    right(stores_to_one_voxel).variants(&["number", "double", "vector", "bits"]),
];
