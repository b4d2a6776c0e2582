//! NanoVDB: files, and grids in memory.

use std::sync::OnceLock;

use nanovdb::{
    ChecksumMode, Codec, Format, Grid, ReadOptions, Result, WriteOptions, read_info, read_with,
    write,
};

use crate::follow::follow;
use crate::layouts;
use crate::samples::{Plan, sample};
use crate::within;

/// The most bytes that a file may claim: less than the blocks that are allowed.
const LIMIT: u64 = 1 << 20;

/// Where a grid's head says that it is the first of one.
const ALONE: [u8; 8] = [0, 0, 0, 0, 1, 0, 0, 0];

/// Bytes as a file, with checksums and without.
///
/// # Panics
/// That does not hold.
pub fn nvdb_file(data: &[u8]) {
    let limited = ReadOptions::default().limit(LIMIT);
    within((2 << 20) + 16 * data.len(), || {
        if let Ok(infos) = read_info(data) {
            assert!(infos.len() * 176 <= data.len());
        }
        let strict = read_with(data, &limited);
        let lenient = read_with(data, &limited.ignore_checksums());
        assert!(strict.is_err() || lenient.is_ok());
        if let Some(grids) = told(lenient) {
            let size: usize = grids.iter().map(|grid| grid.bytes().len()).sum();
            assert!(size as u64 <= LIMIT, "{size} bytes");
            written_again(&grids);
            grids.into_iter().for_each(used);
        }
    });
}

/// Grids with nodes of all levels, in which the bytes change fields: three bytes say which, and how, and up to
/// eight more are the new value.
///
/// # Panics
/// That does not hold.
pub fn nvdb_grid(data: &[u8]) {
    static SAMPLES: OnceLock<Vec<crate::samples::Sample>> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| {
        // Small values and large ones, bits, indices; without nodes, too.
        let plan = |code, minor, uppers| Plan { code, minor, uppers, blind: true, checksum: false };
        let plans = [
            plan(1, 3, 1),
            plan(8, 6, 1),
            plan(11, 8, 1),
            plan(layouts::ON_INDEX, 8, 1),
            plan(layouts::INDEX, 8, 0),
            plan(7, 3, 0),
        ];
        plans.map(sample).into()
    });
    let Some((which, mut changes)) = data.split_first() else { return };
    let sample = &samples[usize::from(*which) % samples.len()];
    let mut bytes = sample.bytes.clone();
    let end = bytes.len();
    while let Some((&[low, high, how], rest)) = changes.split_first_chunk() {
        let field = usize::from(u16::from_le_bytes([low, high])) % sample.fields.len();
        let at = sample.fields[field].1.at + usize::from(how >> 4);
        let (value, rest) = rest.split_at(rest.len().min(1 << (how & 3)));
        changes = rest;
        for (n, byte) in value.iter().enumerate() {
            let place = (at + n).min(end - 1);
            bytes[place] = if how & 4 == 0 { *byte } else { bytes[place].wrapping_add(*byte) };
        }
    }
    within(4 * end + (1 << 20), || {
        // Data that other code has changed may be wrong in any way.
        if let Some(grid) = told(Grid::from_changed_bytes(&bytes)) {
            follow(grid.bytes(), &[[0; 3], [-1; 3]]);
        }
        if let Some(grid) = told(Grid::from_bytes_without_checksum(&bytes)) {
            assert!(grid.bytes() == bytes);
            used(grid);
        }
    });
}

/// Reads what can be read, and requires a reason for what cannot.
fn told<T>(answer: Result<T>) -> Option<T> {
    answer.map_err(|error| assert!(!error.to_string().is_empty() && !error.check().is_empty())).ok()
}

/// All that can be asked of a grid stays inside of it.
fn used(mut grid: Grid) {
    let corner = grid.index_box().map_or([0; 3], |found| found.min);
    let points = [[0; 3], [-1; 3], corner, [i32::MAX, i32::MIN, 0]];
    follow(grid.bytes(), &points);
    let (info, map) = (grid.info(), grid.map());
    assert!(!format!("{info:?} {map:?}").is_empty());
    for point in points {
        let _ = (grid.value(point), grid.is_active(point));
    }
    let leaves: u64 = grid
        .leaves()
        .map(|leaf| {
            let _ = (leaf.value(511), leaf.coord(511), leaf.origin());
            leaf.mask().iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
        })
        .sum();
    assert!(leaves <= grid.active_voxels());
    assert!(grid.tiles().all(|tile| tile.size().is_power_of_two()));
    let _ = grid.blind_data(0);
    let _ = grid.normalized_bytes();
    // Recomputed data is right.
    grid.update_statistics();
    grid.update_checksum(ChecksumMode::Full);
    if let Err(error) = Grid::validate(grid.bytes()) {
        panic!("{error}, of a grid that was accepted");
    }
}

/// Grids that were read are written, with every codec, and read again as the same.
fn written_again(grids: &[Grid]) {
    let read = |file: &[u8]| {
        let grids = read_with(file, &ReadOptions::default().ignore_checksums());
        grids.unwrap_or_else(|error| panic!("{error}, of what was written"))
    };
    let bytes = |grids: &[Grid]| -> Vec<Vec<u8>> {
        grids.iter().map(|grid| grid.bytes().to_vec()).collect()
    };
    let mut first: Option<Vec<Vec<u8>>> = None;
    for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
        let options = WriteOptions::default().codec(codec);
        let file = write(grids, &options).unwrap_or_else(|error| panic!("{error}"));
        let again = read(&file);
        let expected = first.get_or_insert_with(|| bytes(&again));
        assert!(bytes(&again) == *expected, "{codec} changes a grid");
        // In a file each grid is on its own; from then on nothing changes.
        let third = write(&again, &options).map(|file| bytes(&read(&file)));
        assert!(third.is_ok_and(|third| third == *expected), "{codec} changes a grid again");
    }
    if let [grid] = grids
        && grid.bytes().get(24..32) == Some(&ALONE)
    {
        assert_eq!(first.as_deref(), Some(&bytes(grids)[..]));
    }
    for format in [Format::Compatible, Format::Current] {
        let options = WriteOptions::default().format(format).checksum(ChecksumMode::Full);
        // The older format does not have all types.
        if let Ok(file) = write(grids, &options) {
            let again = read_with(&file, &ReadOptions::default());
            assert_eq!(again.map(|again| again.len()).ok(), Some(grids.len()));
        }
    }
}
