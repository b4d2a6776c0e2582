//! Volumes that are built again in place: their room, graphs, and what is left of them if there is too little.

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::volume::{BuildStatus, Capacity, OnIndex, Volume, VolumeCounts, VolumeOptions};

use super::lists::voxels;
use super::model::{Each, Kind, Model, all_kinds, options};
use crate::Geometry;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume_build",
        device(room_is_met_and_exceeded),
        device(built_in_place),
        device(graphs_build),
        device(room_is_not_saved),
    ]
}

/// Numbers of leaves, lower and upper nodes.
fn nodes<T: Kind>(model: &Model<T>) -> [u32; 3] {
    let count = |shift: u32| {
        let mut all: Vec<_> = model.leaves.keys().map(|at| at.map(|c| c >> shift)).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u32
    };
    [count(3), count(7), count(12)]
}

fn check<T: Kind>(
    stream: &Stream,
    volume: &Volume,
    model: &Model<T>,
    invalid: u32,
) -> Result<BuildStatus, Failure> {
    let decoded = model.check_nodes(&volume.download_bytes(stream)?)?;
    let status = volume.build_status(stream)?;
    let [leaves, lower, upper] = nodes(model);
    let active_voxels = decoded.voxels;
    let wanted = BuildStatus {
        invalid_entries: invalid,
        leaves,
        lower,
        upper,
        active_voxels,
        ..BuildStatus::default()
    };
    ensure_eq!(status, wanted);
    ensure!(status.is_built());
    // Types without indices have no values that are numbered.
    let values = decoded.values;
    ensure_eq!(values, if T::TYPE.is_index() { active_voxels + 1 } else { 0 });
    let wanted = VolumeCounts { leaves, lower, upper, active_tiles: [0; 3], active_voxels, values };
    ensure_eq!(volume.counts(stream)?, wanted);
    Ok(status)
}

/// What is downloaded of a volume with room is what one without it would have, byte for byte, whatever was built
/// in it before.
fn room_is_not_saved(device: &TestDevice) -> TestResult {
    struct All<'a>(&'a TestDevice);
    impl Each for All<'_> {
        fn each<T: Kind>(&mut self) -> TestResult {
            let (stream, geometry) = (self.0.stream()?, self.0.geometry());
            let mut rng = self.0.rng(945);
            let (plain, _) = options(T::number(5))?;
            let capacity = Capacity { leaves: 100, lower: 100, upper: 24, entries: 100 };
            let many = DeviceBuffer::from_slice(&stream, &voxels(&mut rng, 100, 60))?;
            let room = plain.clone().capacity(capacity);
            let mut volume = Volume::from_leaves(&stream, &geometry, &many, room)?;
            ensure!(volume.build_status(&stream)?.is_built());
            for n in [0, 1, 33] {
                let few = DeviceBuffer::from_slice(&stream, &voxels(&mut rng, n, 60))?;
                let exact = Volume::from_voxels(&stream, &geometry, &few, plain.clone())?;
                volume.rebuild_from_voxels(&stream, &few)?;
                let (found, wanted) = (volume.download(&stream)?, exact.download(&stream)?);
                ensure!(found.bytes() == wanted.bytes(), "{}, {n} voxels", T::TYPE);
                ensure!(volume.download_bytes(&stream)?.len() > 100_000 + found.bytes().len());
            }
            Ok(())
        }
    }
    all_kinds(&mut All(device))
}

fn invalid(list: &[[i32; 3]]) -> u32 {
    list.iter().filter(|at| !super::model::is_voxel(**at)).count() as u32
}

fn room_is_met_and_exceeded(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(940);
    let background = 1.5f32;
    let (plain, _) = options(background)?;
    let list = voxels(&mut rng, 200, 60);
    let first = vec![[1, 2, 3], [-9, 4, 4], [1, 2, 2]];
    let (buffer, before) =
        (DeviceBuffer::from_slice(&stream, &list)?, DeviceBuffer::from_slice(&stream, &first)?);
    let model = Model::of_voxels(background, &list, None);
    let small = Model::of_voxels(background, &first, None);
    let exact = nodes(&model);
    for short in 0..8u32 {
        let less = |level: u32| exact[level as usize] - (short >> level & 1);
        let capacity = Capacity {
            leaves: less(0),
            lower: less(1),
            upper: less(2),
            entries: list.len() as u32,
        };
        let options = plain.clone().capacity(capacity);
        let mut volume = Volume::from_voxels(&stream, &geometry, &before, options.clone())?;
        check(&stream, &volume, &small, 0)?;
        let bytes = volume.download_bytes(&stream)?;
        volume.rebuild_from_voxels(&stream, &buffer)?;
        if short == 0 {
            check(&stream, &volume, &model, invalid(&list))?;
            continue;
        }
        let wanted = BuildStatus {
            leaf_capacity_exceeded: short & 1 != 0,
            lower_capacity_exceeded: short & 2 != 0,
            upper_capacity_exceeded: short & 4 != 0,
            invalid_entries: invalid(&list),
            leaves: exact[0],
            lower: exact[1],
            upper: exact[2],
            active_voxels: 0,
        };
        // The first query that waits says so, until the status was asked for.
        for _ in 0..2 {
            no_room(volume.counts(&stream))?;
            no_room(volume.download_bytes(&stream))?;
            no_room(volume.leaf_origins(&stream))?;
            no_room(volume.voxels(&stream))?;
        }
        ensure_eq!(volume.build_status(&stream)?, wanted);
        ensure!(volume.download_bytes(&stream)? == bytes, "what was there is changed");
        volume.rebuild_from_voxels(&stream, &before)?;
        check(&stream, &volume, &small, 0)?;
    }
    // More entries than there is room for, and none.
    let capacity = Capacity { leaves: 9, lower: 9, upper: 9, entries: 199 };
    let mut volume = Volume::from_leaves(&stream, &geometry, &before, plain.capacity(capacity))?;
    let refused = volume.rebuild_from_voxels(&stream, &buffer);
    ensure_refused_for(refused, "200 entries, and room for 199")?;
    check(&stream, &volume, &Model::of_tiles(background, &first), 0)?;
    let nothing = DeviceBuffer::<[i32; 3]>::zeroed(&stream, 0)?;
    volume.rebuild_from_leaves(&stream, &nothing)?;
    check(&stream, &volume, &Model::new(background), 0)?;
    // No room at all.
    let none = Capacity { leaves: 0, lower: 0, upper: 0, entries: 3 };
    let options = VolumeOptions::new(background).capacity(none);
    let volume = Volume::from_leaves(&stream, &geometry, &before, options)?;
    no_room(volume.counts(&stream))?;
    ensure_eq!(volume.build_status(&stream)?.leaves, 2);
    ensure!(!volume.build_status(&stream)?.is_built());
    Model::new(background).check_nodes(&volume.download_bytes(&stream)?)?;
    Ok(())
}

fn no_room<T>(answer: cuda_safe::Result<T>) -> TestResult {
    let error = answer.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.contains("found too little room"), "{error}");
    Ok(())
}

fn never_ran<T>(answer: cuda_safe::Result<T>) -> TestResult {
    let error = answer.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.contains("in a graph that was never launched"), "{error}");
    Ok(())
}

fn built_in_place(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(941);
    let capacity = Capacity { leaves: 700, lower: 60, upper: 20, entries: 700 };
    let (options, _) = options(OnIndex(0))?;
    let mut volume = {
        let nothing = DeviceBuffer::<[i32; 3]>::zeroed(&stream, 0)?;
        Volume::from_leaves(&stream, &geometry, &nothing, options.capacity(capacity))?
    };
    for n in [300, 5, 700, 0, 64] {
        let list = voxels(&mut rng, n, 40);
        let buffer = DeviceBuffer::from_slice(&stream, &list)?;
        volume.rebuild_from_voxels(&stream, &buffer)?;
        check(&stream, &volume, &Model::of_voxels(OnIndex(0), &list, None), invalid(&list))?;
        volume.rebuild_from_leaves(&stream, &buffer)?;
        check(&stream, &volume, &Model::of_tiles(OnIndex(0), &list), invalid(&list))?;
    }
    Ok(())
}

fn graphs_build(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut rng = device.rng(942);
    const ENTRIES: usize = 150;
    let capacity = Capacity { leaves: 150, lower: 40, upper: 20, entries: ENTRIES as u32 };
    let (options, _) = options([0.5f32, 1.0, 2.0])?;
    let list = DeviceBuffer::<[i32; 3]>::zeroed(&stream, ENTRIES)?;
    let values = DeviceBuffer::<[f32; 3]>::zeroed(&stream, ENTRIES)?;
    let options = options.capacity(capacity);
    let volume = Volume::from_leaves(&stream, &geometry, &list, options)?;
    let state = (volume, list, values);
    let mut graph = device.context().capture(state, |stream, (volume, list, values)| {
        volume.rebuild_from_voxels_with(stream, &*list, &*values)
    })?;
    for round in 0..4u64 {
        let voxels = match round {
            // Too many leaves for the room: 150 of different places, each alone in its lower node.
            2 => (0..ENTRIES as i32).map(|i| [i * 128, 0, 0]).collect(),
            _ => voxels(&mut rng, ENTRIES, 30),
        };
        let numbers: Vec<[f32; 3]> =
            (0..ENTRIES as u64).map(|n| <[f32; 3]>::number(n + 1000 * round)).collect();
        let (volume, list, values) = graph.state_mut();
        list.upload(&stream, &voxels)?;
        values.upload(&stream, &numbers)?;
        let before = match round {
            // Not before the graph has run.
            0 => {
                never_ran(volume.counts(&stream))?;
                never_ran(volume.build_status(&stream))?;
                Vec::new()
            }
            _ => volume.download_bytes(&stream)?,
        };
        graph.launch(&stream)?;
        let (volume, ..) = graph.state();
        let model = Model::of_voxels([0.5, 1.0, 2.0], &voxels, Some(&numbers));
        if round == 2 {
            no_room(volume.download_bytes(&stream))?;
            ensure!(volume.build_status(&stream)?.lower_capacity_exceeded);
            ensure!(volume.download_bytes(&stream)? == before, "what was there is changed");
        } else {
            check(&stream, volume, &model, invalid(&voxels))?;
        }
    }
    Ok(())
}
