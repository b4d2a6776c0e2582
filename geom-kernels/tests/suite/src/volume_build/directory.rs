//! The short way to leaves: it leads where the walk does, or nowhere.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream};
use geom_kernels::volume::nanovdb::Builder;
use geom_kernels::volume::{Capacity, DenseOptions, Volume, VolumeOptions};
use nvrtc::Options;

use crate::Geometry;
use crate::flags::module;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume_build",
        device(the_directory_leads_where_the_walk_does),
        device(the_directory_follows_builds_in_place),
    ]
}

const SOURCE: &str = include_str!("../../kernels/volume_directory.cu");

/// Voxels within `range` of the origin.
fn voxels(rng: &mut Rng, n: usize, range: usize) -> Vec<[i32; 3]> {
    let mut number = || rng.below(2 * range) as i32 - range as i32;
    (0..n).map(|_| std::array::from_fn(|_| number())).collect()
}

/// How many of these voxels lie in the directory's box, and in leaves that it names.
fn listed(
    (device, stream): (&TestDevice, &Stream),
    volume: &Volume,
    asked: &[[i32; 3]],
) -> Result<[usize; 2], Failure> {
    let kernel = module(device, SOURCE, Options::new())?.kernel("ways")?;
    let voxels = DeviceBuffer::from_slice(stream, asked)?;
    let mut ways = DeviceBuffer::<[i64; 3]>::zeroed(stream, asked.len())?;
    let args = (volume.view::<f32>()?, &voxels, asked.len() as u32, &mut ways);
    // SAFETY: reads as many voxels as there are, and writes three numbers for each.
    unsafe { device.launch(&kernel, stream, LaunchConfig::cover(asked.len(), 64), args)? };
    let mut counts = [0; 2];
    for ([listed, walked, found], at) in ways.to_vec(stream)?.into_iter().zip(asked) {
        ensure_eq!(found, walked, "{at:?}");
        ensure!(listed <= 0 || listed == walked, "{at:?}: {listed}, but {walked}");
        counts[0] += usize::from(listed >= 0);
        counts[1] += usize::from(listed > 0);
    }
    Ok(counts)
}

/// The corners of the leaves of all these voxels, and what is around them.
fn around(voxels: &[[i32; 3]]) -> Vec<[i32; 3]> {
    let steps =
        [[0; 3], [8, 0, 0], [0, -8, 0], [0, 0, 8], [7, 7, 7], [-4096, 0, 9], [1 << 29, 0, 0]];
    let moved = |at: &[i32; 3], by: [i32; 3]| std::array::from_fn(|a| at[a].wrapping_add(by[a]));
    voxels.iter().flat_map(|at| steps.map(|by| moved(at, by))).collect()
}

fn the_directory_leads_where_the_walk_does(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let on = (device, &stream);
    let options = VolumeOptions::new(-1.0f32);
    let mut rng = device.rng(995);
    for n in [0, 1, 32, 300] {
        let list = voxels(&mut rng, n, 60);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        let asked = [around(&list), vec![[0; 3], [i32::MAX; 3], [i32::MIN; 3]]].concat();
        let volume = Volume::from_voxels(&stream, &geometry, &buffer, options.clone())?;
        let [inside, there] = listed(on, &volume, &asked)?;
        // All voxels that it was made of, at least.
        ensure!(there >= n && inside >= there && inside < asked.len());
        let mut builder = Builder::<f32>::new(0.5);
        for at in &list {
            builder.set(*at, 1.0);
        }
        let uploaded = Volume::upload(&stream, &geometry, &builder.build()?)?;
        ensure_eq!(listed(on, &uploaded, &asked)?, [inside, there]);
    }
    // All leaves of an array; the last voxels of its box.
    let dims = [40, 9, 17];
    let values = vec![3.0f32; dims.iter().product()];
    let dense = DenseOptions::new(options.clone()).origin([-20, 4088, 3]);
    let volume = Volume::from_host_dense(&stream, &geometry, dims, &values, dense)?;
    let asked = [[-20, 4088, 3], [19, 4096, 19], [20, 4096, 19], [-25, 4088, 3], [0, 4104, 8]];
    ensure_eq!(listed(on, &volume, &asked)?, [3, 3]);
    // A box of 2^21 leaves, for two of them, and one of more than 2^64.
    for far in [[1 << 10; 3], [(1 << 23) - 1; 3]] {
        let list = [[0; 3], far, [-(1 << 22), 5, 5]];
        let list = if far[0] == 1 << 10 { &list[..2] } else { &list[..] };
        let buffer = DeviceBuffer::from_slice(&stream, list)?;
        let volume = Volume::from_voxels(&stream, &geometry, &buffer, options.clone())?;
        ensure_eq!(listed(on, &volume, &around(list))?, [0, 0]);
    }
    // A leaf without active voxels lies in no box; a tile is no leaf.
    let mut builder = Builder::<f32>::new(0.5);
    builder.set_inactive([800, 0, 0], 2.0).set([3, 3, 3], 1.0).fill_tile(1, [8, 0, 0], 9.0, true);
    let volume = Volume::upload(&stream, &geometry, &builder.build()?)?;
    ensure_eq!(listed(on, &volume, &[[800, 0, 0], [3, 3, 3], [8, 0, 0]])?, [2, 1]);
    Ok(())
}

fn the_directory_follows_builds_in_place(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let on = (device, &stream);
    let capacity = Capacity { entries: 300, leaves: 200, lower: 8, upper: 8 };
    let options = VolumeOptions::new(0.0f32).capacity(capacity);
    let empty = DeviceBuffer::<[i32; 3]>::zeroed(&stream, 0)?;
    let mut volume = Volume::from_voxels(&stream, &geometry, &empty, options)?;
    ensure_eq!(listed(on, &volume, &[[0; 3], [-9, 9, 9]])?, [0, 0]);
    let mut rng = device.rng(996);
    let mut last = (Vec::new(), [0; 2]);
    for (n, range, fits) in [(20, 30, true), (100, 20, true), (300, 1 << 20, false), (1, 9, true)] {
        let list = voxels(&mut rng, n, range);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        volume.rebuild_from_voxels(&stream, &buffer)?;
        ensure_eq!(volume.build_status(&stream)?.is_built(), fits);
        if fits {
            let asked = around(&list);
            let counts = listed(on, &volume, &asked)?;
            ensure!(counts[1] >= n);
            last = (asked, counts);
        } else {
            // As it was.
            ensure_eq!(listed(on, &volume, &last.0)?, last.1);
        }
    }
    Ok(())
}
