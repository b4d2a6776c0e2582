//! The bytes that checksums cover.

use super::small;
use crate::bytes::Fields;
use crate::layout::head;
use crate::{ChecksumMode, Format, Grid, Level, WriteOptions, read, write};

/// A bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn converted(format: Format, mode: ChecksumMode) -> Grid {
    let options = WriteOptions::default().format(format).checksum(mode);
    read(&write(&[small::<f32>()], &options).unwrap()).unwrap().remove(0)
}

#[test]
fn of_nodes() {
    let grid = converted(Format::Compatible, ChecksumMode::Full);
    let (bytes, tree, layout) = (grid.bytes(), grid.tree(), grid.value_type().layout());
    let end = tree.root() + layout.root_size + layout.tile_size;
    let mut crcs: Vec<u8> = Vec::new();
    let mut narrow: Vec<u8> = Vec::new();
    let sizes = [(Level::Upper, layout.upper_size), (Level::Lower, layout.lower_size)];
    for (level, size) in sizes.into_iter().chain([(Level::Leaf, layout.leaf_size)]) {
        for at in tree.nodes(level) {
            let crc = crc32(&bytes[at..at + size]);
            crcs.extend(u64::from(crc).to_le_bytes());
            narrow.extend(crc.to_le_bytes());
        }
    }
    let [head, tail] = [bytes.u32(head::CHECKSUM), bytes.u32(head::CHECKSUM + 4)];
    assert_eq!((head, tail), (crc32(&bytes[16..end]), crc32(&crcs)));
    // Other libraries make it of half as many bytes.
    let mut other = bytes.to_vec();
    other[head::CHECKSUM + 4..][..4].copy_from_slice(&crc32(&narrow).to_le_bytes());
    Grid::from_bytes(&other).unwrap();
    other[head::CHECKSUM + 4] ^= 1;
    assert_eq!(Grid::from_bytes(&other).unwrap_err().check(), "checksum");
}

#[test]
fn of_blocks() {
    let grid = converted(Format::Current, ChecksumMode::Full);
    let bytes = grid.bytes();
    let rest = &bytes[736..];
    let whole = rest.len() / 4096;
    let crcs: Vec<u8> = (0..whole)
        .flat_map(|n| {
            let end = if n + 1 == whole { rest.len() } else { 4096 * (n + 1) };
            crc32(&rest[4096 * n..end]).to_le_bytes()
        })
        .collect();
    let [head, tail] = [bytes.u32(head::CHECKSUM), bytes.u32(head::CHECKSUM + 4)];
    assert_eq!((head, tail), (crc32(&bytes[16..736]), crc32(&crcs)));
}

#[test]
fn modes() {
    for format in [Format::Compatible, Format::Current] {
        for mode in [ChecksumMode::Disabled, ChecksumMode::Head, ChecksumMode::Full] {
            let grid = converted(format, mode);
            assert_eq!(grid.checksum_mode(), mode);
            // A voxel's value.
            let leaf = grid.tree().node(Level::Leaf, 0);
            let mut bytes = grid.bytes().to_vec();
            bytes[leaf + 100] ^= 1;
            let wrong = Grid::from_bytes(&bytes).err().map(|error| error.check());
            assert_eq!(wrong, (mode == ChecksumMode::Full).then_some("checksum"));
            // The name.
            let mut bytes = grid.bytes().to_vec();
            bytes[head::NAME] ^= 1;
            let wrong = Grid::from_bytes(&bytes).err().map(|error| error.check());
            assert_eq!(wrong, (mode != ChecksumMode::Disabled).then_some("checksum"));
        }
    }
}
