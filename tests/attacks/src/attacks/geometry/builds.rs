//! Attacks on how sparse volumes are built.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::volume::{Capacity, DenseOptions, Keep, Volume, VolumeOptions};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const NAN: f32 = f32::NAN;
/// The coordinates of voxels are from `-EDGE` to below `EDGE`.
const EDGE: i32 = 1 << 23;

/// Makes volumes of boxes that overflow, leave the range, have no volume or another number of values.
///
/// - row: launching foreign code is unsafe
/// - targets: `Volume::from_dense`, `Volume::from_host_dense`, `Volume::from_fn`, `Volume::to_dense`,
///   `DenseOptions::origin`, `DenseOptions::keep`
fn boxes_that_overflow(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
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
        lab.refused(
            Volume::from_dense(&stream, &geometry, dims, &values, options.clone()),
            "a box of [",
        )?;
        lab.refused(
            Volume::from_host_dense(&stream, &geometry, dims, &[1.0; 8], options.clone()),
            "a box of [",
        )?;
    }
    for dims in [[1 << 24, 1 << 24, 1 << 24], [most, 1, 1], [1, 1 << 25, 1]] {
        lab.refused(
            Volume::from_fn(&stream, &geometry, dims, options.clone(), |_| 1.0),
            "] voxels from [0, 0, 0] on",
        )?;
    }
    for origin in [[EDGE - 1, 0, 0], [-EDGE - 1, 0, 0], [i32::MAX; 3], [i32::MIN; 3], [0, EDGE, 0]]
    {
        let options = options.clone().origin(origin);
        lab.refused(
            Volume::from_dense(&stream, &geometry, [2, 2, 2], &values, options.clone()),
            "a box of [2, 2, 2] voxels from [",
        )?;
        lab.refused(
            Volume::from_fn(&stream, &geometry, [2, 2, 2], options.clone(), |_| 1.0),
            "a box of [2, 2, 2] voxels from [",
        )?;
    }
    for (keep, text) in [
        (Keep::Tolerance(f64::NAN), "a tolerance of NaN"),
        (Keep::Tolerance(-1.0), "a tolerance of -1"),
        (Keep::NarrowBand(f64::NAN), "a width of NaN"),
    ] {
        let options = options.clone().keep(keep);
        let made = Volume::from_dense(&stream, &geometry, [2, 2, 2], &values, options.clone());
        lab.refused(made, text)?;
    }
    // The last voxels that there are.
    let last = options.clone().origin([EDGE - 2, -EDGE, EDGE - 2]);
    let volume = Volume::from_dense(&stream, &geometry, [2, 2, 2], &values, last)?;
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
        lab.refused(volume.to_dense(&stream, origin, dims, &mut back), "a box of [")?;
    }
    let mut doubles = DeviceBuffer::<f64>::zeroed(&stream, 8)?;
    lab.refused(
        volume.to_dense(&stream, [0; 3], [2, 2, 2], &mut doubles),
        "the volume has values of float, not of double",
    )?;
    let empty = values.slice(..0)?;
    if let Ok(volume) = Volume::from_dense(&stream, &geometry, [0, 5, 5], empty, options) {
        ensure_eq!(volume.counts(&stream)?.leaves, 0);
    }
    Ok(())
}

/// Panics in the function that a volume is made of, and calls the crate from it.
///
/// - row: a view does not outlive its buffer
/// - targets: `Volume::from_fn`, `DeviceBuffer::to_vec`
fn functions_that_panic_and_call(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let options = DenseOptions::new(VolumeOptions::new(0.0f32));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        Volume::from_fn(&stream, &geometry, [20, 20, 20], options.clone(), |p| {
            assert!(p != [13, 7, 5], "not here");
            1.0
        })
    }));
    ensure!(panicked.is_err(), "the panic was lost");
    let table: Vec<f32> = (0..20).map(|i| i as f32 + 1.0).collect();
    let table = DeviceBuffer::from_slice(&stream, &table)?;
    let calls = AtomicUsize::new(0);
    // Each leaf's first voxel asks the device, also for a volume of its own.
    let volume = Volume::from_fn(&stream, &geometry, [20, 20, 20], options.clone(), |p| {
        if p.iter().any(|x| x % 8 != 0) {
            return p[0] as f32 + 1.0;
        }
        calls.fetch_add(1, Ordering::SeqCst);
        let inner = Volume::from_fn(&stream, &geometry, [1; 3], options.clone(), |_| 1.0);
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

/// Builds a volume in place from more leaves than there is room for, and asks it for everything.
///
/// - row: a volume that is built in place is a whole tree
/// - targets: `Volume::rebuild_from_leaves`, `Volume::rebuild_from_voxels`, `Volume::rebuild_from_voxels_with`,
///   `Volume::build_status`, `Volume::leaf_origins`, `Volume::voxels`, `Volume::download`, `VolumeOptions::capacity`
fn more_leaves_than_room(lab: &Lab) -> TestResult {
    let refusal = "a volume of float that was made without a capacity";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
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
    let mut volume = Volume::from_voxels(&stream, &geometry, &few, options)?;
    ensure!(volume.build_status(&stream)?.is_built());
    ensure_eq!(volume.counts(&stream)?.active_voxels, 2);
    lab.refused(volume.rebuild_from_voxels(&stream, &spread(51)?), "51 entries, and room for 50")?;
    volume.rebuild_from_voxels(&stream, &spread(30)?)?;
    let status = volume.build_status(&stream)?;
    ensure!(!status.is_built(), "{status:?}");
    ensure_eq!((status.leaves, status.lower, status.upper), (30, 30, 30));
    // What can wait does not answer for the build that found no room; what can't has the old tree.
    if let Ok(counts) = volume.counts(&stream) {
        ensure_eq!(counts.active_voxels, 2);
    }
    if let Ok(tiles) = volume.leaf_origins(&stream) {
        ensure_eq!(tiles.to_vec(&stream)?, [[0; 3], [4096, 0, 0]]);
    }
    if let Ok(grid) = volume.download(&stream) {
        ensure_eq!(grid.active_voxels(), 2);
    }
    let mut active = DeviceBuffer::<f32>::zeroed(&stream, 30)?;
    volume.lookup(&stream, &spread(30)?, &mut active)?;
    ensure_eq!(active.to_vec(&stream)?, [0.5; 30]);
    let values = DeviceBuffer::from_slice(&stream, &[4.0f32, 5.0])?;
    lab.refused(
        volume.rebuild_from_voxels_with(&stream, &few, values.slice(1..)?),
        "1 values for 2 voxels",
    )?;
    let doubles = DeviceBuffer::<f64>::zeroed(&stream, 2)?;
    lab.refused(
        volume.rebuild_from_voxels_with(&stream, &few, &doubles),
        "the volume has values of float, not of double",
    )?;
    volume.rebuild_from_voxels_with(&stream, &few, &values)?;
    ensure!(volume.build_status(&stream)?.is_built());
    ensure_eq!(volume.voxels(&stream)?.to_vec(&stream)?, [[0; 3], [4096, 0, 0]]);
    volume.lookup(&stream, &few, active.slice_mut(..2)?)?;
    ensure_eq!(active.to_vec(&stream)?[..2], [4.0, 5.0]);
    volume.rebuild_from_leaves(&stream, few.slice(..0)?)?;
    ensure_eq!(volume.counts(&stream)?.leaves, 0);
    let plain = VolumeOptions::new(0.5f32);
    let mut fixed = Volume::from_voxels(&stream, &geometry, &few, plain)?;
    lab.refused(fixed.rebuild_from_leaves(&stream, &few), refusal)?;
    lab.refused(fixed.build_status(&stream), refusal)?;
    Ok(())
}

/// Records the build of a volume in a graph that never runs, and asks the volume for what waits and what does not.
///
/// - row: a volume that is built in place is a whole tree
/// - row: queries follow only what a build has written
/// - targets: `Volume::rebuild_from_voxels`, `Volume::counts`, `Volume::download`, `Volume::leaf_origins`,
///   `Context::capture`, `Volume::download_bytes`
fn a_build_that_never_ran(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let capacity = Capacity { leaves: 8, lower: 8, upper: 8, entries: 8 };
    let options = VolumeOptions::new(0.5f32).capacity(capacity);
    let three = [[0; 3], [100, 0, 0], [5000, 0, 0]];
    let three = DeviceBuffer::from_slice(&stream, &three)?;
    let one = three.slice(..1)?;
    // Loads the kernels.
    let volume = Volume::from_voxels(&stream, &geometry, &three, options.clone())?;
    let volume = match lab.variant() {
        "again" => volume,
        _ => {
            // Made in the capture: an error, or a volume whose build never ran.
            let mut made = None;
            let captured = context.capture((), |s, ()| {
                made = Some(Volume::from_voxels(s, &geometry, &three, options.clone())?);
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
            return lab.refused(Err::<(), _>(error), "capture");
        }
        Err(error) => return Err(error.into()),
    };
    let volume = graph.into_state();
    if let Ok(counts) = volume.counts(&stream) {
        ensure!([0, 3].contains(&counts.active_voxels), "{counts:?}");
    }
    if let Ok(tiles) = volume.leaf_origins(&stream) {
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

attacks![
    "geometry",
    right(boxes_that_overflow),
    right(functions_that_panic_and_call),
    refused(more_leaves_than_room).variants(&["leaves", "lower", "upper"]),
    right(a_build_that_never_ran).variants(&["first", "again"]),
];
