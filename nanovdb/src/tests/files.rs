//! Files: written, read again, broken.

use std::slice;

use super::{Random, Rng, for_all_types, random, small};
use crate::bytes::{Fields, FieldsMut};
use crate::layout::head;
use crate::{
    Builder, ChecksumMode, Codec, Error, Format, Grid, ReadOptions, ValueOnIndex, Version,
    WriteOptions, read, read_info, read_with, write,
};

const CODECS: &[Codec] = if cfg!(feature = "codecs") {
    &[Codec::None, Codec::Zip, Codec::Blosc]
} else {
    &[Codec::None]
};

/// Written and read again, bytes for bytes.
fn round_trip<T: Random>(seed: u64) {
    let (mut builder, _) = random::<T>(seed, true);
    builder.name("volume").blind_data("more", None, &[1, 2, 3]);
    let grid = builder.build().unwrap();
    for codec in CODECS {
        let options = WriteOptions::default().codec(*codec);
        let file = write(&[grid.clone(), grid.clone()], &options).unwrap();
        let grids = read(&file).unwrap();
        assert_eq!(grids.len(), 2);
        assert!(grids.iter().all(|read| read.bytes() == grid.bytes()), "{} {codec}", T::TYPE);
        assert_eq!(write(&grids, &options).unwrap(), file);

        let infos = read_info(&file).unwrap();
        assert_eq!(infos.len(), 2);
        let (claimed, info) = (&infos[1], grid.info());
        assert_eq!((claimed.name.as_str(), claimed.codec), ("volume", *codec));
        assert_eq!(claimed.value_type().unwrap(), T::TYPE);
        assert_eq!((claimed.active_voxels, claimed.size), (info.active_voxels, info.size));
        assert_eq!((claimed.nodes, claimed.tiles.map(u64::from)), (info.nodes, info.tiles));
        assert_eq!(
            (Some(claimed.index_box), claimed.voxel_size),
            (info.index_box, info.voxel_size)
        );
        assert_eq!(Some(claimed.world_box), info.world_box);
        assert_eq!((claimed.version, claimed.class), (info.version, info.class));
    }
}

#[test]
fn round_trips() {
    for_all_types!(round_trip, 31);
}

fn conversions<T: Random>() {
    let grid = small::<T>();
    for mode in [ChecksumMode::Disabled, ChecksumMode::Head, ChecksumMode::Full] {
        let options = WriteOptions::default().format(Format::Current).checksum(mode);
        let current = read(&write(slice::from_ref(&grid), &options).unwrap()).unwrap().remove(0);
        assert_eq!((current.version(), current.checksum_mode()), (Version::CURRENT, mode));
        assert_eq!(&current.bytes()[..8], b"NanoVDB1");
        assert_eq!(current.blind_data(0).unwrap(), [7; 21]);
        let options =
            WriteOptions::default().format(Format::Compatible).checksum(ChecksumMode::Head);
        let back = write(&[current], &options);
        if grid.value_type().is_in_version_3() {
            let back = read(&back.unwrap()).unwrap().remove(0);
            assert_eq!(back.bytes(), grid.bytes());
            assert_eq!(back.version(), Version::COMPATIBLE);
        } else {
            assert_eq!(back.unwrap_err().check(), "format");
        }
    }
}

#[test]
fn formats_convert() {
    for_all_types!(conversions);
}

/// Older versions know the size of blind data's values by their type only.
#[test]
fn blind_data_that_old_versions_cannot_have() {
    let options = WriteOptions::default().format(Format::Current);
    let grid = small::<f32>();
    let current = read(&write(slice::from_ref(&grid), &options).unwrap()).unwrap().remove(0);
    let mut bytes = current.bytes().to_vec();
    let meta = bytes.u64(head::BLIND_OFFSET) as usize;
    bytes.put_u64(meta + 8, 7);
    bytes.put_u32(meta + 16, 3);
    let grid = Grid::from_bytes(&bytes).unwrap();
    let info = &grid.info().blind[0];
    assert_eq!((info.count, info.value_size, info.name.as_str()), (7, 3, "points"));
    assert_eq!(grid.blind_data(0).unwrap(), [7; 21]);
    assert!(grid.blind_data(1).is_none());
    let options = options.format(Format::Compatible);
    assert_eq!(write(&[grid], &options).unwrap_err().check(), "format");
}

/// Grids one behind the other, as they lie in memory.
#[test]
fn raw_buffers() {
    let number = |grid: &Grid, index: u32, count: u32| {
        let mut bytes = grid.bytes().to_vec();
        bytes.put_u32(head::GRID_INDEX, index);
        bytes.put_u32(head::GRID_COUNT, count);
        let mut grid = Grid::from_bytes_without_checksum(&bytes).unwrap();
        grid.update_checksum(grid.checksum_mode());
        grid
    };
    let (a, b) = (small::<f32>(), small::<ValueOnIndex>());
    let [first, second] = [number(&a, 0, 2), number(&b, 1, 2)];
    let raw = [first.bytes(), second.bytes()].concat();
    let grids = read(&raw).unwrap();
    assert_eq!(grids[0].bytes(), first.bytes());
    assert_eq!(grids[1].bytes(), second.bytes());
    assert_eq!(read(a.bytes()).unwrap()[0].bytes(), a.bytes());
    assert_eq!(read_info(&raw).unwrap()[1].name, "small");
    // In a file each is on its own.
    let file = write(&grids, &WriteOptions::default()).unwrap();
    let again = read(&file).unwrap();
    assert_eq!((again[0].bytes(), again[1].bytes()), (a.bytes(), b.bytes()));
    // A file with an old and a new grid is a new file.
    assert_eq!(&file[..8], b"NanoVDB2");
    // A grid is missing.
    assert_eq!(read(first.bytes()).unwrap_err().check(), "file-grid-count");
    assert_eq!(read(&raw[..raw.len() - 32]).unwrap_err().check(), "size");
}

#[test]
fn several_segments() {
    let (a, b) = (small::<f32>(), small::<[u8; 4]>());
    let options = WriteOptions::default();
    let segments = [
        write(slice::from_ref(&a), &options).unwrap(),
        write(slice::from_ref(&b), &options).unwrap(),
    ];
    let grids = read(&segments.concat()).unwrap();
    assert_eq!((grids[0].bytes(), grids[1].bytes()), (a.bytes(), b.bytes()));
}

#[test]
fn truncated_at_every_length() {
    let grid =
        Builder::<f32>::new(0.0).name("tiles").fill_tile(3, [0; 3], 1.0, true).build().unwrap();
    for codec in CODECS {
        let file = write(slice::from_ref(&grid), &WriteOptions::default().codec(*codec)).unwrap();
        for len in 0..file.len() {
            let error = read(&file[..len]).unwrap_err();
            assert!(
                ["file-size", "file-magic", "file-version"].contains(&error.check()),
                "{error}"
            );
        }
        assert!(read(&[&file[..], &[0]].concat()).is_err());
        assert!(read(&file).is_ok());
    }
    for len in 0..grid.bytes().len() {
        assert!(Grid::from_bytes(&grid.bytes()[..len]).is_err());
        assert!(read(&grid.bytes()[..len]).is_err());
    }
}

#[test]
fn flipped_bits_of_a_files_head() {
    let grid = Builder::<f32>::new(0.0).name("t").fill_tile(3, [0; 3], 1.0, true).build().unwrap();
    let options = WriteOptions::default().checksum(ChecksumMode::Full);
    let file = write(slice::from_ref(&grid), &options).unwrap();
    let expected = read(&file).unwrap().remove(0);
    for bit in 0..8 * (16 + 176 + 2) {
        let mut bytes = file.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // Other changes to the file either do not matter or are errors.
        if let Ok(grids) = read(&bytes) {
            assert_eq!(grids.len(), 1, "bit {bit}");
            assert_eq!(grids[0].bytes(), expected.bytes(), "bit {bit}");
        }
    }
}

#[test]
fn limits() {
    let grid = small::<f32>();
    let size = grid.bytes().len() as u64;
    for codec in CODECS {
        let options = WriteOptions::default().codec(*codec);
        let file = write(&[grid.clone(), grid.clone()], &options).unwrap();
        assert!(read_with(&file, &ReadOptions::default().limit(2 * size)).is_ok());
        let error = read_with(&file, &ReadOptions::default().limit(2 * size - 1)).unwrap_err();
        assert!(matches!(error, Error::Limit { claimed, .. } if claimed == 2 * size), "{error}");
        // A claim without data costs nothing.
        let mut bytes = file.clone();
        bytes.put_u64(16, 63 << 30);
        assert!(read(&bytes).is_err());
        bytes.put_u64(16, u64::MAX);
        assert_eq!(read(&bytes).unwrap_err().check(), "limit");
    }
}

#[test]
fn other_files() {
    let check = |bytes: &[u8]| read(bytes).unwrap_err().check();
    assert_eq!(check(b""), "file-magic");
    assert_eq!(check(b" BDV, and so on"), "file-magic");
    assert_eq!(check(&b"NanoVDB2".iter().rev().copied().collect::<Vec<_>>()), "file-magic");
    assert_eq!(check(b"NanoVDB2"), "file-size");
    assert_eq!(check(b"NanoVDB1"), "size");
    assert_eq!(check(b"NanoVDB0"), "file-version");
    assert_eq!(write(&[], &WriteOptions::default()).unwrap_err().check(), "file-grid-count");
    // Anything at all.
    let mut rng = Rng::new(6);
    for n in 0..2000 {
        let mut bytes: Vec<u8> = (0..rng.below(3000)).map(|_| rng.next() as u8).collect();
        let magic = [b"NanoVDB0", b"NanoVDB1", b"NanoVDB2"][n % 3];
        bytes.put(0, magic);
        bytes.put_u32(8, Version::CURRENT.code());
        bytes.put_u32(16, Version::CURRENT.code());
        assert!(read(&bytes).is_err());
        let _ = read_info(&bytes);
    }
}

#[test]
fn on_disk() {
    let dir = std::env::temp_dir().join(format!("nanovdb-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("small.nvdb");
    let grid = small::<f32>();
    crate::write_file(&path, slice::from_ref(&grid), &WriteOptions::default()).unwrap();
    assert_eq!(crate::read_file(&path).unwrap()[0].bytes(), grid.bytes());
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(crate::read_file(dir.join("none.nvdb")).unwrap_err().check(), "io");
    let none = dir.join("none").join("a.nvdb");
    assert_eq!(
        crate::write_file(none, &[grid], &WriteOptions::default()).unwrap_err().check(),
        "io"
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_file_beside_is_not_followed() {
    let dir = std::env::temp_dir().join(format!("nanovdb-link-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (path, victim) = (dir.join("small.nvdb"), dir.join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    let process = std::process::id();
    for name in [format!("small.nvdb.{process}.part"), format!("small.nvdb.{process}-0.part")] {
        std::os::unix::fs::symlink(&victim, dir.join(name)).unwrap();
    }
    crate::write_file(&path, &[small::<f32>()], &WriteOptions::default()).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_bit_of_the_checksum_is_no_version() {
    // An old grid whose checksum looks like a version is still a grid.
    let grid = small::<f32>();
    let mut bytes = grid.bytes().to_vec();
    bytes.put_u32(head::CHECKSUM, Version::COMPATIBLE.code());
    let options = ReadOptions::default().ignore_checksums();
    assert_eq!(read_with(&bytes, &options).unwrap()[0].bytes().u32(8), Version::COMPATIBLE.code());
}
