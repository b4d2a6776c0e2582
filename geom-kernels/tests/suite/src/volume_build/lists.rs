//! Volumes from lists of leaves and of voxels.

use cuda_safe::DeviceBuffer;
use geom_kernels::volume::nanovdb::{Map, ValueType};
use geom_kernels::volume::{Volume, VolumeOptions};

use super::model::{Each, Kind, Model, all_kinds, is_voxel, options};
use super::thorough;
use crate::Geometry;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
    ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume_build",
        device(tiles_of_every_type),
        device(voxels_of_every_type),
        device(lists_of_any_length),
        device(points_in_the_world),
        device(what_is_refused),
    ]
}

/// Voxels around several places, some of them more than once; some cannot be.
pub(super) fn voxels(rng: &mut Rng, n: usize, spread: usize) -> Vec<[i32; 3]> {
    const PLACES: [[i32; 3]; 6] = [
        [0, 0, 0],
        [-3, 4090, 120],
        [8_388_600, -8_388_608, 5],
        [-5000, -5000, -5000],
        [130, -1, 4096],
        [8_388_600, 8_388_600, 8_388_600],
    ];
    let mut all: Vec<[i32; 3]> = Vec::new();
    while all.len() < n {
        let place = PLACES[rng.below(PLACES.len())];
        all.push(match rng.below(20) {
            0 if !all.is_empty() => all[rng.below(all.len())],
            1 => [[1 << 23, 0, 0], [0, i32::MIN, 0], [5, 5, i32::MAX]][rng.below(3)],
            _ => place.map(|c| c.saturating_add(rng.below(spread) as i32 - spread as i32 / 2)),
        });
    }
    all
}

struct Lists<'a> {
    device: &'a TestDevice,
    exact: bool,
}

impl Each for Lists<'_> {
    fn each<T: Kind>(&mut self) -> TestResult {
        let (stream, geometry) = (self.device.stream()?, self.device.geometry());
        let mut rng = self.device.rng(900 + u64::from(T::TYPE.code()));
        let background = T::number(4);
        let (options, reference) = options(background)?;
        let fail = |e: Failure| Failure::new(format!("{}: {e}", T::TYPE));
        let list = voxels(&mut rng, 60, 24);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        if !self.exact {
            let volume = Volume::from_leaves(&stream, &geometry, &buffer, options.clone())?;
            let model = Model::of_tiles(background, &list);
            model.check(&stream, &volume, &reference).map_err(fail)?;
            return Ok(());
        }
        let volume = Volume::from_voxels(&stream, &geometry, &buffer, options.clone())?;
        let model = Model::of_voxels(background, &list, None);
        model.check(&stream, &volume, &reference).map_err(fail)?;
        let values: Vec<T> = (0..list.len() as u64).map(|n| T::number(n + 9)).collect();
        let there = DeviceBuffer::from_slice(&stream, &values)?;
        let volume = Volume::from_voxels_with(&stream, &geometry, &buffer, &there, options.clone());
        if matches!(T::TYPE, ValueType::Mask | ValueType::Index | ValueType::OnIndex) {
            ensure_refused(volume)?;
            return Ok(());
        }
        let model = Model::of_voxels(background, &list, Some(&values));
        model.check(&stream, &volume?, &reference).map_err(fail)?;
        Ok(())
    }
}

fn tiles_of_every_type(device: &TestDevice) -> TestResult {
    all_kinds(&mut Lists { device, exact: false })
}

fn voxels_of_every_type(device: &TestDevice) -> TestResult {
    all_kinds(&mut Lists { device, exact: true })
}

fn lists_of_any_length(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(930);
    let (options, reference) = options(0.25f32)?;
    let mut lengths = vec![0, 1, 31, 32, 33, 2047, 2048, 2049, 5000];
    if thorough(device) {
        lengths.extend([100_000, 1_000_000]);
    }
    for n in lengths {
        let spread = if n > 5000 { 300 } else { 90 };
        let list = voxels(&mut rng, n, spread);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        let volume = Volume::from_leaves(&stream, &geometry, &buffer, options.clone())?;
        let model = Model::of_tiles(0.25f32, &list);
        let fail = |e: Failure| Failure::new(format!("{n} entries: {e}"));
        let decoded = model.check_nodes(&volume.download_bytes(&stream)?).map_err(fail)?;
        ensure_eq!(decoded.voxels, 512 * model.leaves.len() as u64);
        let volume = Volume::from_voxels(&stream, &geometry, &buffer, options.clone())?;
        let model = Model::of_voxels(0.25f32, &list, None);
        model.check_nodes(&volume.download_bytes(&stream)?).map_err(fail)?;
    }
    // Entries that are all left out.
    let list = vec![[i32::MIN, 0, 0]; 40];
    let buffer = DeviceBuffer::from_slice(&stream, &list)?;
    let volume = Volume::from_leaves(&stream, &geometry, &buffer, options.clone())?;
    Model::of_tiles(0.25f32, &list).check(&stream, &volume, &reference)?;
    Ok(())
}

/// The voxel nearest to a point, in f64.
fn nearest(map: &Map, point: [f32; 3]) -> [i32; 3] {
    map.apply_inverse(point.map(f64::from)).map(|c| {
        let below = c.floor();
        (below + f64::from(u8::from(c - below >= 0.5))) as i32
    })
}

fn points_in_the_world(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(931);
    let (options, reference) = options(7i32)?;
    let mut points: Vec<[f32; 3]> =
        (0..300).map(|_| std::array::from_fn(|_| rng.float() * 40.0 - 20.0)).collect();
    let edges = [0.0, -0.25, 0.125, 1.0e6, -3.5, 4.0e30, 7.0e6, f32::NAN, f32::INFINITY, 1.0e-40];
    for _ in 0..200 {
        points.push(std::array::from_fn(|_| edges[rng.below(edges.len())]));
    }
    let at: Vec<[i32; 3]> = points
        .iter()
        .map(|point| match point.iter().all(|c| c.is_finite()) {
            true => nearest(&reference.map, *point),
            false => [i32::MAX; 3],
        })
        .collect();
    ensure!(at.iter().any(|at| !is_voxel(*at)) && at.iter().any(|at| is_voxel(*at)));
    let buffer = DeviceBuffer::from_slice(&stream, &points)?;
    let volume = Volume::from_leaves(&stream, &geometry, &buffer, options.clone())?;
    Model::of_tiles(7, &at).check(&stream, &volume, &reference)?;
    let values: Vec<i32> = (0..points.len() as i32).collect();
    let there = DeviceBuffer::from_slice(&stream, &values)?;
    let volume = Volume::from_voxels_with(&stream, &geometry, &buffer, &there, options.clone())?;
    Model::of_voxels(7, &at, Some(&values)).check(&stream, &volume, &reference)?;
    Ok(())
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let buffer = DeviceBuffer::from_slice(&stream, &[[0, 0, 0], [1, 1, 1]])?;
    let options = VolumeOptions::new(0.0f32);
    let long = options.clone().name("n".repeat(256));
    let volume = Volume::from_leaves(&stream, &geometry, &buffer, long);
    ensure_refused_for(volume, "name")?;
    let values = DeviceBuffer::from_slice(&stream, &[1.0f32])?;
    let volume = Volume::from_voxels_with(&stream, &geometry, &buffer, &values, options.clone());
    ensure_refused_for(volume, "1 values for 2 voxels")?;
    let mut volume = Volume::from_leaves(&stream, &geometry, &buffer, options)?;
    ensure_refused(volume.rebuild_from_leaves(&stream, &buffer))?;
    ensure_refused(volume.build_status(&stream))?;
    Ok(())
}
