//! Attacks on sparse volumes: how they are built, stored to, sampled and rebuilt.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_safe::{DeviceBuffer, Result};
use geom_kernels::volume::nanovdb::Map;
use geom_kernels::volume::{
    Bool, Capacity, DenseOptions, IndexedValues, Interpolation, Keep, OnIndex, Samples, Volume,
    VolumeHit, VolumeOptions,
};
use geom_kernels::{Geometry, Ray};
use tape::Tape;

use crate::harness::{Failure, Lab, TestResult, ensure, ensure_eq, list};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
/// The coordinates of voxels are from `-EDGE` to below `EDGE`.
const EDGE: i32 = 1 << 23;

/// Makes volumes of boxes that overflow, leave the range, have no volume or another number of values.
///
/// - row: launching foreign code is unsafe
/// - targets: `Volume::from_dense`, `Volume::from_host_dense`, `Volume::from_fn`, `Volume::to_dense`,
///   `DenseOptions::origin`, `DenseOptions::keep`
/// - must: error ""
fn boxes_that_overflow(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = Geometry::new(&lab.context()?);
    let options = DenseOptions::new(VolumeOptions::new(0.0f32));
    let values = DeviceBuffer::from_slice(&stream, &[1.0f32; 8])?;
    let most = usize::MAX;
    for dims in [
        [most, 2, 2],
        [1 << 32, 1 << 32, 1],
        [most, most, most],
        [2, 2, 3],
        [1 << 62, 4, 8],
        [1 << 24, 0, 1],
        [0, 0, 0],
        [1 << 63, 2, 4],
    ] {
        lab.refused(Volume::from_dense(&stream, &geometry, dims, &values, &options))?;
        lab.refused(Volume::from_host_dense(&stream, &geometry, dims, &[1.0; 8], &options))?;
    }
    for dims in [[1 << 24, 1 << 24, 1 << 24], [most, 1, 1], [1, 1 << 25, 1]] {
        lab.refused(Volume::from_fn(&stream, &geometry, dims, &options, |_| 1.0))?;
    }
    for origin in [[EDGE - 1, 0, 0], [-EDGE - 1, 0, 0], [i32::MAX; 3], [i32::MIN; 3], [0, EDGE, 0]] {
        let options = options.clone().origin(origin);
        lab.refused(Volume::from_dense(&stream, &geometry, [2, 2, 2], &values, &options))?;
        lab.refused(Volume::from_fn(&stream, &geometry, [2, 2, 2], &options, |_| 1.0))?;
    }
    for keep in [Keep::Tolerance(f64::NAN), Keep::Tolerance(-1.0), Keep::NarrowBand(f64::NAN)] {
        let options = options.clone().keep(keep);
        lab.refused(Volume::from_dense(&stream, &geometry, [2, 2, 2], &values, &options))?;
    }
    // The last voxels that there are.
    let last = options.clone().origin([EDGE - 2, -EDGE, EDGE - 2]);
    let volume = Volume::from_dense(&stream, &geometry, [2, 2, 2], &values, &last)?;
    let mut back = DeviceBuffer::<f32>::zeroed(&stream, 8)?;
    volume.to_dense(&stream, [EDGE - 2, -EDGE, EDGE - 2], [2, 2, 2], &mut back)?;
    ensure_eq!(back.to_vec(&stream)?, [1.0; 8]);
    for (origin, dims) in [
        ([EDGE - 1, -EDGE, EDGE - 2], [2usize, 2, 2]),
        ([i32::MAX; 3], [2, 2, 2]),
        ([i32::MIN, 0, 0], [8, 1, 1]),
        ([0; 3], [most, most, 8]),
        ([0; 3], [2, 2, 3]),
    ] {
        lab.refused(volume.to_dense(&stream, origin, dims, &mut back))?;
    }
    let mut doubles = DeviceBuffer::<f64>::zeroed(&stream, 8)?;
    lab.refused(volume.to_dense(&stream, [0; 3], [2, 2, 2], &mut doubles))?;
    let empty = values.slice(..0)?;
    if let Ok(volume) = Volume::from_dense(&stream, &geometry, [0, 5, 5], empty, &options) {
        ensure_eq!(volume.counts(&stream)?.leaves, 0);
    }
    Ok(())
}

/// Panics in the function that a volume is made of, and calls the crate from it.
///
/// - row: a view does not outlive its buffer
/// - targets: `Volume::from_fn`, `DeviceBuffer::to_vec`
/// - must: right
fn functions_that_panic_and_call(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = Geometry::new(&lab.context()?);
    let options = DenseOptions::new(VolumeOptions::new(0.0f32));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        Volume::from_fn(&stream, &geometry, [20, 20, 20], &options, |p| {
            assert!(p != [13, 7, 5], "not here");
            1.0
        })
    }));
    ensure!(panicked.is_err(), "the panic was lost");
    let table: Vec<f32> = (0..20).map(|i| i as f32 + 1.0).collect();
    let table = DeviceBuffer::from_slice(&stream, &table)?;
    let calls = AtomicUsize::new(0);
    // Each leaf's first voxel asks the device, also for a volume of its own.
    let volume = Volume::from_fn(&stream, &geometry, [20, 20, 20], &options, |p| {
        if p.iter().any(|x| x % 8 != 0) {
            return p[0] as f32 + 1.0;
        }
        calls.fetch_add(1, Ordering::SeqCst);
        let inner = Volume::from_fn(&stream, &geometry, [1; 3], &options, |_| 1.0);
        let seen = table.to_vec(&stream);
        inner.and(seen).map_or(NAN, |seen| seen[p[0] as usize])
    })?;
    ensure_eq!(calls.into_inner(), 27);
    let mut dense = DeviceBuffer::<f32>::zeroed(&stream, 8000)?;
    volume.to_dense(&stream, [0; 3], [20; 3], &mut dense)?;
    let expected: Vec<f32> = (0..8000).map(|i| (i / 400) as f32 + 1.0).collect();
    ensure_eq!(dense.to_vec(&stream)?, expected);
    Ok(())
}

/// Stores values at voxels that are there twice, in no leaf, or out of range, and of the wrong type.
///
/// - row: launching foreign code is unsafe
/// - targets: `Volume::store`, `Volume::lookup`, `Volume::is_active`, `Volume::from_voxels_with`, `Volume::from_voxels`
/// - must: error ""
fn stores_that_do_not_fit(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = Geometry::new(&lab.context()?);
    let voxels = [[0; 3], [7, 7, 7], [-1, -1, -1], [0; 3], [EDGE, 0, 0], [i32::MIN; 3]];
    let list = DeviceBuffer::from_slice(&stream, &voxels)?;
    let values = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let options = VolumeOptions::new(-1.0f32);
    let mut volume = Volume::from_voxels_with(&stream, &geometry, &list, &values, &options)?;
    ensure_eq!(volume.counts(&stream)?.active_voxels, 3);
    lab.refused(Volume::from_voxels_with(
        &stream,
        &geometry,
        &list,
        values.slice(1..)?,
        &options,
    ))?;
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
    lab.refused(volume.store(&stream, &targets, &doubles, &mut refused))?;
    lab.refused(volume.store(&stream, &targets, values.slice(1..)?, &mut refused))?;
    let mut two = DeviceBuffer::<u64>::zeroed(&stream, 2)?;
    lab.refused(volume.store(&stream, &targets, &values, &mut two))?;
    let index = VolumeOptions::new(OnIndex(5));
    let mut indices = Volume::from_voxels(&stream, &geometry, &list, &index)?;
    let numbers = DeviceBuffer::from_slice(&stream, &[OnIndex(u64::MAX); 6])?;
    lab.refused(indices.store(&stream, &targets, &numbers, &mut refused))?;
    // A bool is a bit, whatever is stored.
    let bools = VolumeOptions::new(Bool(0));
    let mut bits = Volume::from_voxels(&stream, &geometry, &list, &bools)?;
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
/// - must: error ""
/// - variants: nearest, trilinear, tricubic
fn samples_of_nowhere(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = Geometry::new(&lab.context()?);
    let how = match lab.variant() {
        "nearest" => Interpolation::Nearest,
        "trilinear" => Interpolation::Trilinear,
        _ => Interpolation::Tricubic,
    };
    for size in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60, 1e60] {
        lab.refused(Map::uniform(size, [0.0; 3]))?;
    }
    lab.refused(Map::affine([[1.0, 2.0, 3.0]; 3], [0.0; 3]))?;
    let options = VolumeOptions::new(-3.0f32).map(Map::uniform(1e-30, [1e30; 3])?);
    let dense = DenseOptions::new(options);
    let volume = Volume::from_fn(&stream, &geometry, [9; 3], &dense, |_| 2.0)?;
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
        Interpolation::Nearest => lab.refused(with)?,
        _ => with?,
    }
    let mut wrong = DeviceBuffer::<f64>::zeroed(&stream, n)?;
    lab.refused(volume.sample(&stream, &Samples::index(&device), how, &mut wrong))?;
    let short = values.slice_mut(1..)?;
    lab.refused(volume.sample(&stream, &Samples::index(&device), how, short))?;
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

/// Builds a volume in place from more leaves than there is room for, and asks it for everything.
///
/// - row: a volume that is built in place is a whole tree
/// - targets: `Volume::rebuild_from_tiles`, `Volume::rebuild_from_voxels`, `Volume::rebuild_from_voxels_with`,
///   `Volume::build_status`, `Volume::tiles`, `Volume::voxels`, `Volume::download`, `VolumeOptions::capacity`
/// - must: error ""
/// - variants: leaves, lower, upper
fn more_leaves_than_room(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = Geometry::new(&lab.context()?);
    let (leaves, lower, upper) = match lab.variant() {
        "leaves" => (3, 40, 40),
        "lower" => (40, 3, 40),
        _ => (40, 40, 3),
    };
    let capacity = Capacity { leaves, lower, upper, entries: 50 };
    let options = VolumeOptions::new(0.5f32).capacity(capacity);
    let spread = |n: i32| {
        let voxels: Vec<[i32; 3]> = (0..n).map(|i| [i * 4096, 0, 0]).collect();
        DeviceBuffer::from_slice(&stream, &voxels)
    };
    let few = spread(2)?;
    let mut volume = Volume::from_voxels(&stream, &geometry, &few, &options)?;
    ensure!(volume.build_status(&stream)?.is_built());
    ensure_eq!(volume.counts(&stream)?.active_voxels, 2);
    lab.refused(volume.rebuild_from_voxels(&stream, &spread(51)?))?;
    volume.rebuild_from_voxels(&stream, &spread(30)?)?;
    let status = volume.build_status(&stream)?;
    ensure!(!status.is_built(), "{status:?}");
    ensure_eq!((status.leaves, status.lower, status.upper), (30, 30, 30));
    // What can wait does not answer for the build that found no room; what can't has the old tree.
    if let Ok(counts) = volume.counts(&stream) {
        ensure_eq!(counts.active_voxels, 2);
    }
    if let Ok(tiles) = volume.tiles(&stream) {
        ensure_eq!(tiles.to_vec(&stream)?, [[0; 3], [4096, 0, 0]]);
    }
    if let Ok(grid) = volume.download(&stream) {
        ensure_eq!(grid.active_voxels(), 2);
    }
    let mut active = DeviceBuffer::<f32>::zeroed(&stream, 30)?;
    volume.lookup(&stream, &spread(30)?, &mut active)?;
    ensure_eq!(active.to_vec(&stream)?, [0.5; 30]);
    let values = DeviceBuffer::from_slice(&stream, &[4.0f32, 5.0])?;
    lab.refused(volume.rebuild_from_voxels_with(&stream, &few, values.slice(1..)?))?;
    let doubles = DeviceBuffer::<f64>::zeroed(&stream, 2)?;
    lab.refused(volume.rebuild_from_voxels_with(&stream, &few, &doubles))?;
    volume.rebuild_from_voxels_with(&stream, &few, &values)?;
    ensure!(volume.build_status(&stream)?.is_built());
    ensure_eq!(volume.voxels(&stream)?.to_vec(&stream)?, [[0; 3], [4096, 0, 0]]);
    volume.lookup(&stream, &few, active.slice_mut(..2)?)?;
    ensure_eq!(active.to_vec(&stream)?[..2], [4.0, 5.0]);
    volume.rebuild_from_tiles(&stream, few.slice(..0)?)?;
    ensure_eq!(volume.counts(&stream)?.leaves, 0);
    let plain = VolumeOptions::new(0.5f32);
    let mut fixed = Volume::from_voxels(&stream, &geometry, &few, &plain)?;
    lab.refused(fixed.rebuild_from_tiles(&stream, &few))?;
    lab.refused(fixed.build_status(&stream))?;
    Ok(())
}

/// Records the build of a volume in a graph that never runs, and asks the volume for what waits and what does not.
///
/// - row: a volume that is built in place is a whole tree
/// - targets: `Volume::rebuild_from_voxels`, `Volume::counts`, `Volume::download`, `Volume::tiles`, `Context::capture`,
///   `Volume::download_bytes`
/// - must: right
/// - variants: first, again
fn a_build_that_never_ran(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = Geometry::new(&context);
    let capacity = Capacity { leaves: 8, lower: 8, upper: 8, entries: 8 };
    let options = VolumeOptions::new(0.5f32).capacity(capacity);
    let three = [[0; 3], [100, 0, 0], [5000, 0, 0]];
    let three = DeviceBuffer::from_slice(&stream, &three)?;
    let one = three.slice(..1)?;
    // Loads the kernels.
    let volume = Volume::from_voxels(&stream, &geometry, &three, &options)?;
    let volume = match lab.variant() {
        "again" => volume,
        _ => {
            // Made in the capture: an error, or a volume whose build never ran.
            let mut made = None;
            let captured = context.capture((), |s, ()| {
                made = Some(Volume::from_voxels(s, &geometry, &three, &options)?);
                Ok(())
            });
            drop(captured);
            match made {
                Some(volume) => volume,
                None => return Ok(()),
            }
        }
    };
    let graph = match context.capture(volume, |s, volume| volume.rebuild_from_voxels(s, one)) {
        Ok(graph) => graph,
        Err(error) if lab.variant() == "first" => {
            return lab.refused_because(Err::<(), _>(error), "capture");
        }
        Err(error) => return Err(error.into()),
    };
    let volume = graph.into_state();
    if let Ok(counts) = volume.counts(&stream) {
        ensure!([0, 3].contains(&counts.active_voxels), "{counts:?}");
    }
    if let Ok(tiles) = volume.tiles(&stream) {
        ensure!(tiles.len() == 3 || tiles.is_empty());
    }
    if let Ok(grid) = volume.download(&stream) {
        ensure!([0, 3].contains(&grid.active_voxels()));
    }
    // The bytes are there in any case: the init checker sees what was not written.
    let _ = volume.download_bytes(&stream);
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    if volume.lookup(&stream, &three, &mut values).is_ok() {
        ensure_eq!(values.to_vec(&stream)?, [0.5; 3]);
    }
    Ok(())
}

/// Samples index volumes with arrays that are shorter than their indices, or empty.
///
/// - row: an index that a kernel reads from memory
/// - targets: `Volume::sample_indexed`, `IndexedValues::new`, `Volume::value_count`, `Volume::from_voxels`,
///   `Volume::upload`, `Volume::sample_indexed_with_gradient`
/// - must: error ""
fn arrays_shorter_than_indices(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = Geometry::new(&lab.context()?);
    let voxels: Vec<[i32; 3]> = (0..20).map(|i| [i, 0, 0]).collect();
    let list = DeviceBuffer::from_slice(&stream, &voxels)?;
    let options = VolumeOptions::new(OnIndex(0));
    let volume = Volume::from_voxels(&stream, &geometry, &list, &options)?;
    let points: Vec<[f32; 3]> = voxels.iter().map(|v| v.map(|x| x as f32)).collect();
    let points = DeviceBuffer::from_slice(&stream, &points)?;
    let samples = Samples::index(&points);
    let host: Vec<f32> = (1..=20).map(|i| i as f32).collect();
    let array = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 20)?;
    for room in [0usize, 1, 19, 20] {
        let values = IndexedValues::new(array.slice(..room)?, -7.0f32);
        volume.sample_indexed(&stream, &samples, Interpolation::Nearest, &values, &mut out)?;
        let expected: Vec<f32> =
            (0..20).map(|i| if i < room { host[i] } else { -7.0 }).collect();
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
        lab.refused(uploaded.sample_indexed(&stream, &samples, nearest, &values, &mut out))?;
    }
    let values = IndexedValues::new(&array, NAN);
    uploaded.sample_indexed(&stream, &samples, nearest, &values, &mut out)?;
    ensure_eq!(out.to_vec(&stream)?, host);
    let floats = VolumeOptions::new(0.0f32);
    let floats = Volume::from_voxels(&stream, &geometry, &list, &floats)?;
    lab.refused(floats.sample_indexed(&stream, &samples, nearest, &values, &mut out))?;
    Ok(())
}

/// Stores to a volume, builds it again or drops it, between a recorded sample and the pass.
///
/// - row: a pass reads what was recorded
/// - targets: `Volume::record_sample`, `Volume::store`, `Volume::rebuild_from_tiles`, `Volume::variables`,
///   `Volume::gradients_of_voxels`, `Tape::backward`
/// - must: right
/// - variants: stored, rebuilt, dropped, as_it_was
fn volumes_changed_before_the_pass(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = Geometry::new(&context);
    let capacity = Capacity { leaves: 4, lower: 2, upper: 2, entries: 8 };
    let list = DeviceBuffer::from_slice(&stream, &[[0i32; 3], [9, 0, 0]])?;
    let options = VolumeOptions::new(2.0f32).capacity(capacity);
    let mut volume = Volume::from_tiles(&stream, &geometry, &list, &options)?;
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
        "rebuilt" => volume.rebuild_from_tiles(&stream, list.slice(1..)?)?,
        "dropped" => {
            let bytes = volume.bytes();
            drop(volume);
            context.collect()?;
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
            lab.refused_because(
                volume.gradients_of_voxels(&stream, short, &voxels, &mut out),
                "gradient",
            )?;
            return Ok(());
        }
    }
    lab.refused_because(tape.backward(&stream, &loss), "")?;
    Ok(())
}

/// Enqueues queries on one stream, then changes or drops the volume on another one.
///
/// - row: work that uses the same bytes
/// - row: device memory is freed after the last work
/// - targets: `Volume::lookup`, `Volume::store`, `Volume::rebuild_from_tiles`, `Volume::sample`
/// - must: right
fn volumes_changed_while_in_use(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, other) = (context.stream()?, context.stream()?);
    let geometry = Geometry::new(&context);
    let capacity = Capacity { leaves: 4, lower: 2, upper: 2, entries: 8 };
    let voxels: Vec<[i32; 3]> = (0..512).map(|i| [i / 64, i / 8 % 8, i % 8]).collect();
    let voxels = DeviceBuffer::from_slice(&stream, &voxels)?;
    let mut refused = DeviceBuffer::<u64>::zeroed(&other, 1)?;
    for round in 0..5u32 {
        let options = VolumeOptions::new(round as f32).capacity(capacity);
        let tiles = DeviceBuffer::from_slice(&stream, &[[0i32; 3], [64, 0, 0]])?;
        let mut volume = Volume::from_tiles(&stream, &geometry, &tiles, &options)?;
        let mut before = DeviceBuffer::<f32>::zeroed(&stream, 512)?;
        let mut after = DeviceBuffer::<f32>::zeroed(&stream, 512)?;
        volume.lookup(&stream, &voxels, &mut before)?;
        let new = DeviceBuffer::from_slice(&other, &[round as f32 + 0.5; 512])?;
        volume.store(&other, &voxels, &new, &mut refused)?;
        volume.lookup(&stream, &voxels, &mut after)?;
        volume.rebuild_from_tiles(&other, tiles.slice(1..)?)?;
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

list![
    boxes_that_overflow,
    functions_that_panic_and_call,
    stores_that_do_not_fit,
    samples_of_nowhere,
    more_leaves_than_room,
    a_build_that_never_ran,
    arrays_shorter_than_indices,
    volumes_changed_before_the_pass,
    volumes_changed_while_in_use,
];
