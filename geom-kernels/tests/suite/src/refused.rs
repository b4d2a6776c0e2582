//! Builds in which the driver refuses a launch: queries after it are errors, until a build succeeds.

#![allow(non_snake_case, reason = "the driver's names")]

use std::ffi::{CStr, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use cuda_safe::{DeviceBuffer, Stream};
use cuda_sys::{CUfunction, CUresult, CUstream, DriverFns};
use geom_kernels::GeometryKernels;
use geom_kernels::bvh::{BuildMode, Bvh, BvhQueries};
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, PointQueries, shapes};
use geom_kernels::volume::{Capacity, Volume, VolumeOptions};

use test_harness::{Case, TestDevice, TestResult, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::device("mesh::a_build_that_fails_at_any_launch_leaves_no_answers", meshes).serial(),
        Case::device("bvh::a_build_that_fails_at_any_launch_leaves_no_answers", hierarchies)
            .serial(),
        Case::device("volume::a_build_that_fails_at_any_launch_leaves_no_answers", volumes)
            .serial(),
    ]
}

/// How many launches succeed before one is refused; below zero, none is. One for all, so the tests are serial.
static BEFORE: AtomicI64 = AtomicI64::new(i64::MIN);

unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: CUstream,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    if BEFORE.fetch_sub(1, Ordering::Relaxed) == 0 {
        return CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    match cuda_emu::driver().fns().cuLaunchKernel {
        // SAFETY: the caller's arguments, handed on as they are.
        Some(launch) => unsafe {
            launch(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                arguments, extra,
            )
        },
        None => CUresult::CUDA_ERROR_NOT_SUPPORTED,
    }
}

// The resolver deals in untyped addresses; this makes the compiler compare the types.
const _: fn(&mut DriverFns) = |fns| fns.cuLaunchKernel = Some(cuLaunchKernel);

/// The software device, but for launches that are refused.
fn device() -> Result<TestDevice, test_harness::Failure> {
    static DRIVER: OnceLock<&'static cuda_sys::Driver> = OnceLock::new();
    let resolve = |name: &CStr| match name.to_bytes() {
        b"cuLaunchKernel" => cuLaunchKernel as *const c_void,
        _ => cuda_emu::resolve(name),
    };
    // SAFETY: one function is of its slot's type, as was asserted above; the rest is the software device's,
    // and all last as long as the program.
    let driver = DRIVER.get_or_init(|| unsafe { cuda_sys::Driver::from_resolver(&resolve) });
    TestDevice::on(cuda_safe::Driver::from_sys(driver)?)
}

/// Runs `build` with each of its launches from number `first` on refused in turn, holds `answers` to it, and
/// lets `repair` make up for it. Says how many launches there were.
fn refused<T>(
    state: &mut T,
    first: i64,
    build: impl Fn(&mut T) -> cuda_safe::Result<()>,
    answers: impl Fn(&T) -> cuda_safe::Result<()>,
    repair: impl Fn(&mut T) -> cuda_safe::Result<()>,
) -> Result<i64, test_harness::Failure> {
    for launch in first.. {
        BEFORE.store(launch, Ordering::Relaxed);
        let built = build(state);
        let met = BEFORE.swap(i64::MIN, Ordering::Relaxed) < 0;
        if !met {
            ensure!(built.is_ok(), "a build with nothing refused: {built:?}");
            return Ok(launch);
        }
        ensure!(built.is_err(), "launch {launch} was refused, and the build says nothing");
        let error = answers(state).err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(error.contains("last build"), "after launch {launch} was refused: `{error}`");
        repair(state)?;
        answers(state)?;
    }
    Ok(0)
}

/// The device's own stream and kernels are not used: this one refuses launches.
fn meshes(_: &TestDevice) -> TestResult {
    let device = device()?;
    let (stream, geometry) = (device.stream()?, GeometryKernels::new(device.context()));
    let host = shapes::icosphere(1, 1.0)?;
    let points = DeviceBuffer::from_slice(&stream, &[[0.1f32, 0.2, 0.3]])?;
    let ask = |mesh: &Mesh<'static>| {
        let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 1)?;
        mesh.closest_points(&stream, &PointQueries::at(&points), &mut closest)
    };
    for builder in [BuildMode::Fast, BuildMode::Quality] {
        let options = MeshOptions::default().build_mode(builder).topology().winding();
        let mut mesh = Mesh::upload(&stream, &geometry, &host, options)?;
        let rebuild = |mesh: &mut Mesh<'static>| mesh.rebuild(&stream);
        ensure!(refused(&mut mesh, 0, rebuild, ask, rebuild)? > 5, "a build of a few launches");
        let refit = |mesh: &mut Mesh<'static>| mesh.refit(&stream);
        // Before the second launch nothing has changed that queries look at.
        ensure!(refused(&mut mesh, 1, refit, ask, rebuild)? > 2, "a refit of two launches");
    }
    Ok(())
}

fn hierarchies(_: &TestDevice) -> TestResult {
    let device = device()?;
    let (stream, geometry) = (device.stream()?, GeometryKernels::new(device.context()));
    let stream: &Stream = &stream;
    let boxes = [geom_kernels::Aabb { lower: [0.0; 3], upper: [1.0; 3] }; 33];
    let boxes = DeviceBuffer::from_slice(stream, &boxes)?;
    for builder in [BuildMode::Fast, BuildMode::Quality] {
        let mut bvh = Bvh::build(stream, &geometry, &boxes, builder)?;
        let rebuild = |bvh: &mut Bvh| bvh.rebuild(stream, &boxes);
        let ask = |bvh: &Bvh| {
            let mut counts = DeviceBuffer::<u32>::zeroed(stream, 33)?;
            bvh.count_overlaps(stream, BvhQueries::boxes(&boxes), &mut counts)
        };
        refused(&mut bvh, 0, rebuild, ask, rebuild)?;
        let mut counts = DeviceBuffer::<u32>::zeroed(stream, 33)?;
        bvh.count_overlaps(stream, BvhQueries::boxes(&boxes), &mut counts)?;
        ensure_eq!(counts.to_vec(stream)?, vec![33; 33]);
    }
    Ok(())
}

fn volumes(_: &TestDevice) -> TestResult {
    let device = device()?;
    let (stream, geometry) = (device.stream()?, GeometryKernels::new(device.context()));
    let stream: &Stream = &stream;
    let capacity = Capacity { entries: 40, leaves: 40, lower: 40, upper: 8 };
    let options = VolumeOptions::new(0.0f32).capacity(capacity);
    let lists = [[[1, 2, 3], [-70, 9, 4000]], [[9000, -1, 0], [5, 5, 5]]];
    let lists = lists.map(|list| DeviceBuffer::<[i32; 3]>::from_slice(stream, &list));
    let [here, there] = lists;
    let (here, there) = (here?, there?);
    let values = DeviceBuffer::from_slice(stream, &[7.0f32, 8.0])?;
    let mut volume = Volume::from_voxels_with(stream, &geometry, &here, &values, options)?;
    let look = |volume: &Volume, at: &DeviceBuffer<[i32; 3]>| {
        let mut found = DeviceBuffer::<f32>::zeroed(stream, 2)?;
        volume.lookup(stream, at, &mut found)?;
        found.to_vec(stream)
    };
    ensure_eq!(look(&volume, &here)?, [7.0, 8.0]);
    let rebuild = |volume: &mut Volume| volume.rebuild_from_voxels_with(stream, &there, &values);
    let ask = |volume: &Volume| {
        let looked = look(volume, &there).map(drop);
        let all = [volume.build_status(stream).map(drop), volume.counts(stream).map(drop)];
        let saved = volume.download_bytes(stream).map(drop);
        // Either all answer or none.
        let same = all.iter().chain([&saved]).all(|other| other.is_ok() == looked.is_ok());
        if same { looked } else { Err(cuda_safe::Error::invalid("some answer")) }
    };
    ensure!(refused(&mut volume, 0, rebuild, ask, rebuild)? > 5, "a build of a few launches");
    ensure_eq!(look(&volume, &there)?, [7.0, 8.0]);
    ensure_eq!(look(&volume, &here)?, [0.0; 2]);
    Ok(())
}
