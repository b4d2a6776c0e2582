//! Writing values of voxels.

use std::collections::HashMap;

use geom_kernels::volume::VolumeValue;

use super::Fixture;
use super::grids::{self, Kind, for_all_kinds, grid, voxels};
use crate::volume_decode::Decoded;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(stores_write_voxels_of_leaves_alone),
        device(stores_of_one_voxel_by_many_threads),
        device(stores_in_a_graph_count_each_time),
    ]
}

fn stores_write_voxels_of_leaves_alone(device: &TestDevice) -> TestResult {
    for_all_kinds!(store((device)));
    Ok(())
}

fn store<K: Kind>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(920);
    let (grid, set) = grid::<K>(&mut rng)?;
    let (mut volume, decoded) = (fixture.volume(&grid)?, Decoded::new(grid.bytes()));
    // Each once; neighbours, so that bits share words.
    let mut written: Vec<[i32; 3]> = voxels(&mut rng, &set, 3000);
    written.sort_unstable();
    written.dedup();
    let bits = matches!(K::NAME, "Bit" | "OfMask");
    let values: Vec<K::Value> = written
        .iter()
        .map(|_| {
            let bytes = rng.bytes(size_of::<K::Value>());
            let bytes = if bits { vec![bytes[0] & 1] } else { bytes };
            bytemuck::pod_read_unaligned(&bytes)
        })
        .collect();
    let (there, from) = (fixture.upload(&written)?, fixture.upload(&values)?);
    let mut refused = fixture.room::<u64>(1)?;
    let stored = volume.store(stream, &there, &from, &mut refused);
    if K::Value::TYPE.is_index() {
        ensure_refused_for(stored, K::Value::TYPE.name())?;
        return Ok(());
    }
    stored?;
    let outside = written.iter().filter(|voxel| !decoded.is_in_leaf(**voxel)).count();
    ensure!(outside > 100 && written.len() - outside > 100, "{outside}");
    ensure_eq!(refused.to_vec(stream)?, [outside as u64], "{}", K::NAME);
    // All that were written, and others.
    let now: HashMap<_, _> = written.iter().zip(&values).collect();
    let mut asked = written.clone();
    asked.extend(voxels(&mut rng, &set, 3000));
    let there = fixture.upload(&asked)?;
    let mut found = fixture.room::<K::Value>(asked.len())?;
    let mut active = fixture.room::<u8>(asked.len())?;
    volume.lookup(stream, &there, &mut found)?;
    volume.is_active(stream, &there, &mut active)?;
    let active = active.to_vec(stream)?;
    for ((voxel, value), active) in asked.iter().zip(found.to_vec(stream)?).zip(active) {
        let stored = now.get(voxel).filter(|_| decoded.is_in_leaf(*voxel));
        let wanted = stored.map_or_else(
            || decoded.value(*voxel),
            |value| bytemuck::bytes_of::<K::Value>(value).to_vec(),
        );
        ensure!(bytemuck::bytes_of(&value) == wanted, "{}, {voxel:?}: {value:?}", K::NAME);
        let is_active =
            if K::NAME == "OfMask" { wanted[0] != 0 } else { decoded.is_active(*voxel) };
        ensure_eq!(active, u8::from(is_active), "{}, {voxel:?}", K::NAME);
    }
    Ok(())
}

/// Each voxel is in the list many times. The checker of races finds nothing: see `checkers::own_kernels`.
fn stores_of_one_voxel_by_many_threads(device: &TestDevice) -> TestResult {
    for_all_kinds!(store_again((device)));
    Ok(())
}

fn store_again<K: Kind>(device: &TestDevice) -> TestResult {
    if K::Value::TYPE.is_index() {
        return Ok(());
    }
    const TIMES: usize = 70;
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(922);
    let (grid, set) = grid::<K>(&mut rng)?;
    let (mut volume, decoded) = (fixture.volume(&grid)?, Decoded::new(grid.bytes()));
    let in_leaf = |voxel: &&[i32; 3]| decoded.is_in_leaf(**voxel);
    let two: Vec<[i32; 3]> = set.iter().filter(in_leaf).take(2).copied().collect();
    ensure_eq!(two.len(), 2);
    let bits = matches!(K::NAME, "Bit" | "OfMask");
    let voxels: Vec<[i32; 3]> = (0..2 * TIMES).map(|i| two[i % 2]).collect();
    let bytes =
        |i: usize| vec![if bits { (i / 2 % 2) as u8 } else { i as u8 }; size_of::<K::Value>()];
    let values: Vec<K::Value> =
        (0..voxels.len()).map(|i| bytemuck::pod_read_unaligned(&bytes(i))).collect();
    let mut refused = fixture.room::<u64>(1)?;
    volume.store(stream, &fixture.upload(&voxels)?, &fixture.upload(&values)?, &mut refused)?;
    ensure_eq!(refused.to_vec(stream)?, [0]);
    let mut found = fixture.room::<K::Value>(2)?;
    volume.lookup(stream, &fixture.upload(&two)?, &mut found)?;
    for (which, value) in found.to_vec(stream)?.iter().enumerate() {
        // A component is of one value: its bytes are alike, and those of a value for this voxel.
        for component in bytemuck::bytes_of(value).chunks(align_of::<K::Value>()) {
            let first = component[0];
            ensure!(component.iter().all(|byte| *byte == first), "{}: {component:?}", K::NAME);
            ensure!(
                bits && first < 2
                    || usize::from(first) < 2 * TIMES && usize::from(first) % 2 == which,
                "{}: {first} for voxel {which}",
                K::NAME
            );
        }
    }
    Ok(())
}

fn stores_in_a_graph_count_each_time(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (grid, set) = grid::<grids::F32>(&mut device.rng(921))?;
    let voxels = fixture.upload(&[set[0], [i32::MIN; 3], [i32::MAX; 3]])?;
    let values = fixture.upload(&[7.0f32, 8.0, 9.0])?;
    let state = (fixture.volume(&grid)?, voxels, values, fixture.room::<u64>(1)?);
    let stream = &fixture.stream;
    let state = (state, fixture.room::<f32>(3)?);
    let mut graph = device.context().capture(state, |stream, (state, found)| {
        let (volume, voxels, values, refused) = state;
        volume.store(stream, &*voxels, &*values, refused)?;
        volume.lookup(stream, &*voxels, found)
    })?;
    for value in [7.0, 5.0] {
        graph.state_mut().0.2.upload(stream, &[value, 8.0, 9.0])?;
        graph.launch(stream)?;
        graph.launch(stream)?;
        let ((.., refused), found) = graph.state();
        ensure_eq!(refused.to_vec(stream)?, [2]);
        ensure_eq!(found.to_vec(stream)?[0], value);
    }
    Ok(())
}
