//! Files that are wrong in some place.

use nanovdb::{Codec, Grid, ReadOptions, WriteOptions, read_info, read_with, write};

use crate::follow::follow;
use crate::mutate::Random;
use crate::samples::{Plan, Sample, sample};
use crate::{Outcomes, count, layouts, print};

/// More than any sample has.
const LIMIT: u64 = 1 << 23;
const HEADER_SIZE: usize = 16;
const META_SIZE: usize = 176;

/// A file, and where things begin in it that mean something.
struct File {
    bytes: Vec<u8>,
    /// The header, descriptions of grids, sizes in front of compressed data, heads of grids.
    places: Vec<usize>,
}

/// Files of one and of several grids, with all codecs, and grids without a file about them.
fn files() -> Vec<File> {
    let plan = |code, minor, uppers| Plan { code, minor, uppers, blind: true, checksum: true };
    let small = [3, 6, 8].map(|minor| sample(plan(1, minor, 0)));
    let large = sample(plan(layouts::ON_INDEX, 8, 1));
    let lists: [&[&Sample]; 4] = [&[&small[0]], &[&small[2]], &[&small[1], &small[2]], &[&large]];
    let mut files = Vec::new();
    for samples in lists {
        let grids: Vec<_> =
            samples.iter().map(|s| Grid::from_bytes(&s.bytes).expect("valid")).collect();
        for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
            let options = WriteOptions::default().codec(codec);
            let Ok(bytes) = write(&grids, &options) else { continue };
            let mut places = vec![0, 8, 12, 14];
            let mut at = HEADER_SIZE;
            let mut sizes = Vec::new();
            for _ in samples {
                places.extend((0..META_SIZE).step_by(4).map(|n| at + n));
                let word =
                    |n: usize| u32::from_le_bytes(bytes[at + n..at + n + 4].try_into().expect("4"));
                sizes.push(word(8) as usize);
                at += META_SIZE + word(136) as usize;
            }
            for size in sizes {
                // Sizes and a chunk's header and table, or a grid's head.
                places.extend((0..64).step_by(4).map(|n| at + n));
                at += size;
            }
            assert_eq!(at, bytes.len());
            files.push(File { bytes, places });
        }
        let bytes = samples.iter().flat_map(|sample| sample.bytes.clone()).collect();
        files.push(File { bytes, places: (0..64).step_by(4).collect() });
    }
    files
}

/// Changes a copy of a file in a few places.
fn mutated(files: &[File], random: &mut Random) -> Vec<u8> {
    let file = &files[random.below(files.len())];
    let mut bytes = file.bytes.clone();
    for _ in 0..=random.below(8).saturating_sub(5) {
        let len = bytes.len().max(1);
        let place = file.places[random.below(file.places.len())];
        let place = if random.one_in(4) { random.below(len) } else { place };
        let wide = |value: u64| value.to_le_bytes();
        let now =
            bytes.get(place..place + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8")));
        match random.below(8) {
            0 => overwrite(&mut bytes, place, &[random.next() as u8]),
            1 => overwrite(&mut bytes, place, &wide(now ^ 1 << random.below(32))),
            2 => {
                let edge = [0, 1, 2, 3, 0xffff, 1 << 31, u32::MAX][random.below(7)];
                overwrite(&mut bytes, place, &edge.to_le_bytes());
            }
            3 => {
                let edge = [0, u64::MAX, 1 << 63, len as u64, 1 << 40, LIMIT + 1][random.below(6)];
                overwrite(&mut bytes, place, &wide(edge));
            }
            4 => {
                let by = [1, 8, 32, 176, 1 << 20][random.below(5)];
                let value =
                    if random.one_in(2) { now.wrapping_add(by) } else { now.wrapping_sub(by) };
                overwrite(&mut bytes, place, &wide(value));
            }
            5 => bytes.truncate(random.below(len)),
            6 => {
                // Another file, or the end of one, behind it or in its midst.
                let other = &files[random.below(files.len())].bytes;
                let from = if random.one_in(2) { 0 } else { random.below(other.len()) };
                let to = if random.one_in(2) { bytes.len() } else { random.below(len) };
                bytes.truncate(to);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let (from, to) = (random.below(len), random.below(len));
                let run = bytes.get(from..from + 1 + random.below(64)).map(<[u8]>::to_vec);
                overwrite(&mut bytes, to, &run.unwrap_or_default());
            }
        }
    }
    bytes
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(with) {
        *to = *from;
    }
}

#[test]
fn mutants_of_files_do_no_harm() {
    let files = files();
    assert!(files.len() >= 8);
    let options = ReadOptions::default().limit(LIMIT);
    for file in &files {
        let several =
            file.bytes.starts_with(b"NanoVDB") && read_with(&file.bytes, &options).is_ok();
        // Two grids in memory say that they are one of one.
        assert!(several || file.places.len() == 16);
    }
    let start = std::time::Instant::now();
    let mut random = Random::new(11);
    let mut outcomes = Outcomes::new();
    for _ in 0..count(20_000, 1_000_000) {
        let bytes = mutated(&files, &mut random);
        let options = if random.one_in(2) { options } else { options.ignore_checksums() };
        let check = match read_with(&bytes, &options) {
            Ok(grids) => {
                let size: usize = grids.iter().map(|grid| grid.bytes().len()).sum();
                assert!(size as u64 <= LIMIT, "{size} bytes");
                for grid in &grids {
                    follow(grid.bytes(), &[[0; 3], [-1; 3]]);
                }
                ""
            }
            Err(error) => error.check(),
        };
        // A file may claim anything.
        let _ = read_info(&bytes);
        *outcomes.entry(check).or_default() += 1;
    }
    print(&outcomes, files.len(), start);
    let expected =
        ["", "file-magic", "file-version", "file-size", "file-grid-count", "limit", "size"];
    for check in expected {
        assert!(outcomes.contains_key(check), "none failed at {check:?}");
    }
    assert!(cfg!(not(feature = "codecs")) || outcomes.contains_key("codec"));
}
