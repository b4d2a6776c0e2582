//! From files to the device and back, with what was stored in between.

use cuda_safe::DeviceBuffer;
use geom_kernels::volume::nanovdb::{self, Builder, ChecksumMode, Codec, Grid, WriteOptions};
use geom_kernels::volume::{Bool, Mask, Volume, VolumeValue};

use super::Fixture;
use super::grids::{self, Kind, for_all_kinds, grid, voxels};
use crate::volume_decode::Decoded;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(what_is_stored_is_saved),
        device(reads_the_grids_of_a_file),
        device(downloads_grids_with_wrong_checksums),
        device(tiles_of_one_bit_are_read_as_on_the_host),
    ]
}

fn what_is_stored_is_saved(device: &TestDevice) -> TestResult {
    for_all_kinds!(saved((device)));
    Ok(())
}

/// Up, down, written to, down again, to a file, from it, and up once more.
fn saved<K: Kind>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(925);
    let (mut grid, set) = grid::<K>(&mut rng)?;
    grid.update_checksum(ChecksumMode::Full);
    let mut volume = fixture.volume(&grid)?;
    // Nothing has changed: nor has a byte.
    ensure!(volume.download(stream)?.bytes() == grid.bytes(), "{}", K::NAME);

    let before = Decoded::new(grid.bytes());
    let mut written = voxels(&mut rng, &set, 2000);
    written.sort_unstable();
    written.dedup();
    written.retain(|voxel| before.is_in_leaf(*voxel));
    ensure!(written.len() > 300, "{}", written.len());
    let bits = matches!(K::NAME, "Bit" | "OfMask");
    let mut values: Vec<K::Value> = Vec::new();
    for _ in &written {
        let bytes = rng.bytes(size_of::<K::Value>());
        let bytes = if bits { vec![bytes[0] & 1] } else { bytes };
        values.push(bytemuck::pod_read_unaligned(&bytes));
    }
    if !K::Value::TYPE.is_index() {
        let (there, from) = (fixture.upload(&written)?, fixture.upload(&values)?);
        let mut refused = fixture.room::<u64>(1)?;
        volume.store(stream, &there, &from, &mut refused)?;
        ensure_eq!(refused.to_vec(stream)?, [0]);
    }
    let down = volume.download(stream)?;
    ensure_eq!(down.checksum_mode(), ChecksumMode::Full);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("saved.nvdb");
    let options = WriteOptions::default().checksum(ChecksumMode::Full);
    nanovdb::write_file(&path, &[down], &options)?;
    let read = nanovdb::read_file(&path)?;
    ensure_eq!(read.len(), 1);
    let (after, mut active) = (Decoded::new(read[0].bytes()), 0);
    for (voxel, value) in written.iter().zip(&values) {
        if !K::Value::TYPE.is_index() {
            let value = bytemuck::bytes_of(value);
            ensure!(after.value(*voxel) == value, "{}, {voxel:?}: {value:?}", K::NAME);
        }
        // A mask's values are what is active.
        active += i64::from(after.is_active(*voxel)) - i64::from(before.is_active(*voxel));
        if K::NAME != "OfMask" {
            ensure_eq!(after.is_active(*voxel), before.is_active(*voxel));
        }
    }
    ensure_eq!(active != 0, K::NAME == "OfMask");
    let counted = read[0].active_voxels().cast_signed() - grid.active_voxels().cast_signed();
    ensure_eq!(counted, active, "{}", K::NAME);
    for voxel in voxels(&mut rng, &set, 2000) {
        if written.binary_search(&voxel).is_err() {
            ensure_eq!(after.value(voxel), before.value(voxel), "{}, {voxel:?}", K::NAME);
        }
    }
    let again = Volume::read_file(stream, &fixture.geometry, &path)?;
    let there = fixture.upload(&written)?;
    let mut found = fixture.room::<K::Value>(written.len())?;
    again[0].lookup(stream, &there, &mut found)?;
    for (voxel, value) in written.iter().zip(found.to_vec(stream)?) {
        ensure_eq!(bytemuck::bytes_of(&value), after.value(*voxel), "{}, {voxel:?}", K::NAME);
    }
    Ok(())
}

fn reads_the_grids_of_a_file(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, geometry) = (&fixture.stream, &fixture.geometry);
    let mut grids = Vec::new();
    for n in 0..4u8 {
        let mut floats = Builder::<f32>::new(0.5);
        grids.push(floats.name(&format!("floats {n}")).set([n.into(), 0, 0], n.into()).build()?);
        let mut whole = Builder::<u8>::new(n);
        grids.push(whole.name(&format!("bytes {n}")).set([-5000, 0, 0], 100 + n).build()?);
    }
    let check = |volumes: &[Volume]| {
        ensure_eq!(volumes.len(), grids.len());
        for (volume, grid) in volumes.iter().zip(&grids) {
            ensure_eq!(volume.name(), grid.name());
            ensure_eq!(volume.value_type(), grid.value_type());
            let down = volume.download(stream)?;
            for at in [[0; 3], [1, 0, 0], [3, 0, 0], [-5000, 0, 0], [7, 7, 7]] {
                ensure_eq!(down.value(at), grid.value(at), "{} at {at:?}", grid.name());
            }
        }
        TestResult::Ok(())
    };
    let folder = tempfile::tempdir()?;
    for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
        let path = folder.path().join(format!("{codec}.nvdb"));
        nanovdb::write_file(&path, &grids, &WriteOptions::default().codec(codec))?;
        check(&Volume::read_file(stream, geometry, &path)?)?;
        check(&Volume::read(stream, geometry, &std::fs::read(&path)?)?)?;
    }
    // As it lies in memory.
    let one = Volume::read(stream, geometry, grids[0].bytes())?;
    ensure!(one.len() == 1 && one[0].name() == "floats 0");
    // What is no file says so.
    let path = folder.path().join("none.nvdb");
    let missing = Volume::read_file(stream, geometry, &path).err().map(|e| e.to_string());
    ensure!(missing.is_some());
    std::fs::write(&path, b"no volume")?;
    let wrong = Volume::read_file(stream, geometry, &path).err().map(|e| e.to_string());
    ensure!(wrong.as_ref().is_some_and(|e| e.contains("NanoVDB")), "{wrong:?}");
    let error = Volume::read(stream, geometry, &grids[0].bytes()[..900]).err();
    ensure!(error.is_some_and(|e| e.to_string().contains("NanoVDB")));
    Ok(())
}

fn downloads_grids_with_wrong_checksums(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    for mode in [ChecksumMode::Head, ChecksumMode::Full] {
        let (mut grid, _) = grid::<grids::F32>(&mut device.rng(926))?;
        grid.update_checksum(mode);
        let mut bytes = grid.bytes().to_vec();
        bytes[8] ^= 1;
        ensure!(Grid::from_bytes(&bytes).is_err());
        let wrong = Grid::from_bytes_without_checksum(&bytes)?;
        let down = fixture.volume(&wrong)?.download(stream)?;
        ensure!(down.bytes() == grid.bytes(), "{mode:?}");
    }
    Ok(())
}

/// A tile of a mask whose byte is not its state, and one of bools that is neither 0 nor 1: other writers leave
/// such.
fn tiles_of_one_bit_are_read_as_on_the_host(device: &TestDevice) -> TestResult {
    fn one<V: VolumeValue + PartialEq>(
        fixture: &Fixture,
        grid: &Grid,
        byte: u8,
        wanted: [V; 2],
    ) -> TestResult {
        let stream = &fixture.stream;
        let mut bytes = grid.bytes().to_vec();
        let at = |n: usize| bytemuck::pod_read_unaligned::<u64>(&bytes[n..n + 8]) as usize;
        // The first entry of the only lower node, and the background.
        let (tile, background) = (672 + at(680) + 1088, 672 + at(696) + 28);
        bytes[tile] = byte;
        bytes[background] = 0x80;
        let grid = Grid::from_bytes_without_checksum(&bytes)?;
        let volume = fixture.volume(&grid)?;
        let asked = [[1, 2, 3], [-9, 0, 0]];
        let mut found = fixture.room::<V>(2)?;
        volume.lookup(stream, &fixture.upload(&asked)?, &mut found)?;
        ensure_eq!(found.to_vec(stream)?, wanted, "lookups, {byte}");
        for (at, wanted) in asked.into_iter().zip(wanted) {
            let mut dense: DeviceBuffer<V> = fixture.room(1)?;
            volume.to_dense(stream, at, [1; 3], &mut dense)?;
            ensure_eq!(dense.to_vec(stream)?, [wanted], "to_dense, {byte}");
            ensure_eq!(vec![u8::from(grid.get::<bool>(at)?)], bytemuck::bytes_of(&wanted), "host");
        }
        Ok(())
    }
    let fixture = Fixture::new(device)?;
    for active in [false, true] {
        let mut masks = Builder::<nanovdb::ValueMask>::new(());
        let masks = masks.set([127; 3], ()).fill_tile(1, [0; 3], (), active).build()?;
        let mut bools = Builder::<bool>::new(true);
        let bools = bools.set([127; 3], true).fill_tile(1, [0; 3], true, active).build()?;
        for byte in [0, 1, 2, 255] {
            one(&fixture, &masks, byte, [Mask(active.into()), Mask(0)])?;
            one(&fixture, &bools, byte, [Bool((byte != 0).into()), Bool(1)])?;
        }
    }
    // A background of options, too.
    let stream = &fixture.stream;
    let options = geom_kernels::volume::VolumeOptions::new(Bool(7));
    let tiles = fixture.upload(&[[0i32; 3]])?;
    let volume = Volume::from_leaves(stream, &fixture.geometry, &tiles, options)?;
    for at in [[0; 3], [100, 0, 0], [5000, 0, 0]] {
        let mut dense = fixture.room::<Bool>(1)?;
        volume.to_dense(stream, at, [1; 3], &mut dense)?;
        ensure_eq!(dense.to_vec(stream)?, [Bool(1)], "{at:?}");
        let mut found = fixture.room::<Bool>(1)?;
        volume.lookup(stream, &fixture.upload(&[at])?, &mut found)?;
        ensure_eq!(found.to_vec(stream)?, [Bool(1)], "{at:?}");
    }
    Ok::<(), Failure>(())
}
