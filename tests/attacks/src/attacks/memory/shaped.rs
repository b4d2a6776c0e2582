//! Attacks on copies of rectangles and boxes.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, Extent, PitchedLayout, Stream};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attacks::order::random::Random;
use crate::lab::Lab;

/// The elements of a box, in the order of a compact one.
fn places(layout: PitchedLayout, extent: Extent) -> Vec<usize> {
    let mut all = Vec::new();
    for z in 0..extent.depth {
        for y in 0..extent.height {
            for x in 0..extent.width {
                all.push(layout.offset + x + y * layout.row_pitch + z * layout.slice_pitch);
            }
        }
    }
    all
}

/// Copies boxes of any layout, and compares with copies element by element. Returns how many were copied.
fn random_boxes_of<T: Pod + PartialEq + std::fmt::Debug>(
    streams: &[Stream],
    random: &mut Random,
    make: impl Fn(u64) -> T,
) -> Result<usize, test_harness::Failure> {
    const N: usize = 700;
    let mut done = 0;
    let mut now: Vec<T> = (0..N as u64).map(&make).collect();
    let mut x = DeviceBuffer::from_slice(&streams[0], &now)?;
    for round in 0..120 {
        let stream = random.pick(streams);
        let extent = Extent::from((random.below(7), random.below(6), random.below(5)));
        let mut layout = || {
            let row = random.below(12);
            let slice = match random.below(3) {
                0 => row * random.below(8),
                1 => extent.width + random.below(60),
                _ => random.below(90),
            };
            PitchedLayout { offset: random.below(300), row_pitch: row, slice_pitch: slice }
        };
        let (to, from) = (layout(), layout());
        // What must hold, by the documentation: no two elements of a box are one, and all are inside.
        let legal = |layout: PitchedLayout| {
            let mut all = places(layout, extent);
            let inside = all.iter().all(|place| *place < N);
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            inside && all.len() == count
        };
        let source: Vec<T> = (0..N as u64).map(|i| make(i ^ (round << 20))).collect();
        let (copied, read) = match round % 3 {
            0 => (x.upload_3d(stream, to, &source, from, extent), source),
            1 => {
                let y = DeviceBuffer::from_slice(random.pick(streams), &source)?;
                (x.copy_3d_from(stream, to, &y, from, extent), source)
            }
            _ => {
                let mut target = source.clone();
                let copied = x.download_3d(stream, from, &mut target, to, extent);
                let mut expected = source;
                if copied.is_ok() {
                    for (to, from) in places(to, extent).into_iter().zip(places(from, extent)) {
                        expected[to] = now[from];
                    }
                }
                ensure!(target == expected, "round {round}: {to:?} {from:?} {extent:?}");
                (copied, Vec::new())
            }
        };
        let both = legal(to) && legal(from);
        ensure!(copied.is_err() || both, "accepted: {to:?} {from:?} {extent:?}");
        if let Err(error) = copied {
            ensure!(!error.to_string().contains("CUDA_ERROR"), "the driver refused: {error}");
        } else {
            done += 1;
            if !read.is_empty() {
                for (to, from) in places(to, extent).into_iter().zip(places(from, extent)) {
                    now[to] = read[from];
                }
            }
        }
    }
    ensure_eq!(x.to_vec(&streams[0])?, now);
    Ok(done)
}

/// Copies random boxes, many of which overlap themselves or reach outside, of elements of several sizes on several
/// streams.
///
/// - row: boxes stay inside both slices
/// - row: work that uses the same bytes
/// - targets: `DeviceBuffer::upload_3d`, `DeviceBuffer::download_3d`, `DeviceBuffer::copy_3d_from`
pub(super) fn random_boxes(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let streams = [context.stream()?, context.stream()?, context.stream()?];
    let mut random = Random::new(7);
    let done = match lab.variant() {
        "u8" => random_boxes_of(&streams, &mut random, |i| i as u8)?,
        "u32" => random_boxes_of(&streams, &mut random, |i| i as u32)?,
        "three" => random_boxes_of(&streams, &mut random, |i| [i as u8, 1, (i >> 8) as u8])?,
        _ => random_boxes_of(&streams, &mut random, |i| [i, !i])?,
    };
    ensure!(done >= 5, "only {done} boxes were copied");
    Ok(())
}

/// Describes boxes by numbers that overflow, so that a sum that wraps lies inside again.
///
/// - row: boxes stay inside both slices
/// - targets: `PitchedLayout::at`, `PitchedLayout::len`, `PitchedLayout::compact`, `PitchedLayout::pitched`,
///   `DeviceBuffer::download_3d`, `DeviceBuffer::copy_3d_from`
pub(super) fn numbers_that_wrap(lab: &Lab) -> TestResult {
    const MOST: usize = usize::MAX;
    let stream = lab.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[9u32; 1000])?;
    let mut y = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let whole = PitchedLayout::compact((10, 10, 10));
    let mut bad = Vec::new();
    let one = Extent::from((1, 1, 1));
    match lab.variant() {
        "at" => {
            bad.push((whole.at(MOST, 0, 0).at(1, 0, 0), one));
            bad.push((whole.at(MOST, 0, 0).at(2, 0, 0), one));
            bad.push((whole.at(0, 1 << 63, 0), one));
            bad.push((whole.at(0, 0, 1 << 62), one));
            bad.push((whole.at(6, MOST / 10 + 1, 0), one));
            bad.push((whole.at(1 << 63, 0, 0).at(1 << 63, 0, 0), one));
            bad.push((whole.at(MOST, 0, 0).at(0, 0, 0), one));
        }
        "pitches" => {
            for pitch in [MOST, 1 << 63, (1 << 62) + 1, (1 << 61) + 2, MOST / 2 + 6] {
                for (row_pitch, slice_pitch) in [(pitch, 4), (2, pitch), (pitch, pitch)] {
                    let layout = PitchedLayout { offset: 0, row_pitch, slice_pitch };
                    bad.push((layout, Extent::from((2, 2, 2))));
                    bad.push((PitchedLayout { offset: 8, ..layout }, Extent::from((2, 3, 3))));
                }
            }
        }
        "extents" => {
            for big in [MOST, 1 << 63, 1 << 62, (1 << 32) + 1] {
                for extent in [(big, 1, 1), (1, big, 1), (1, 1, big), (big, big, 1), (4, 4, big)] {
                    bad.push((whole, extent.into()));
                    bad.push((PitchedLayout::compact(extent), extent.into()));
                    bad.push((PitchedLayout::pitched::<u32>(extent), extent.into()));
                }
            }
        }
        _ => {
            // Nothing is copied, so either is withstood; it must not be the driver that says no.
            for extent in [(0, MOST, MOST), (MOST, 0, 1), (MOST, MOST, 0), (0, 0, 0)] {
                for layout in [whole, PitchedLayout::compact(extent), whole.at(MOST, MOST, MOST)] {
                    let copied = y.copy_3d_from(&stream, layout, &x, layout, extent);
                    if let Err(error) = copied {
                        lab.refused::<(), _>(Err(error), "")?;
                    }
                }
            }
        }
    }
    for (layout, extent) in bad {
        let what = format!("{layout:?}, {extent:?}");
        if layout != whole {
            let len = layout.len(extent);
            ensure!(len.is_err() || len.is_ok_and(|len| len > 1000), "len: {what}");
        }
        let copied = y.copy_3d_from(&stream, layout, &x, layout, extent);
        ensure!(copied.is_err(), "copied: {what}");
        let copied = y.copy_3d_from(&stream, whole, &x, layout, extent);
        ensure!(copied.is_err(), "copied from: {what}");
        let mut target = vec![1u32; 1000];
        let copied = x.download_3d(&stream, layout, &mut target, layout, extent);
        lab.refused(copied, "row pitch")?;
        ensure_eq!(target, [1; 1000], "{what}");
    }
    ensure_eq!(y.to_vec(&stream)?, [0; 1000]);
    Ok(())
}

/// Asks for rows of elements whose size does not divide 512, and whose size is greater.
///
/// - row: boxes stay inside both slices
/// - targets: `PitchedLayout::pitched`, `PitchedLayout::len`
pub(super) fn rows_of_elements_of_odd_sizes(_: &Lab) -> TestResult {
    fn check<T>() -> TestResult {
        for width in [1, 3, 511, 512, 513, 1000] {
            let layout = PitchedLayout::pitched::<T>((width, 3, 2));
            ensure!(layout.row_pitch >= width, "{width}: {layout:?}");
            ensure!(layout.slice_pitch >= 3 * layout.row_pitch, "{width}: {layout:?}");
            let bytes = layout.row_pitch * size_of::<T>();
            ensure!(bytes.is_multiple_of(512), "{width} of {}: {layout:?}", size_of::<T>());
            let len = layout.len((width, 3, 2))?;
            ensure_eq!(len, layout.slice_pitch + 2 * layout.row_pitch + width);
        }
        Ok(())
    }
    check::<u8>()?;
    check::<[u8; 3]>()?;
    check::<[f32; 3]>()?;
    check::<[u8; 511]>()?;
    check::<[u8; 513]>()?;
    check::<[u64; 100]>()?;
    check::<[u8; 1024]>()
}

/// Copies columns of one buffer on several streams, between halves that are written at the same time.
///
/// - row: work that uses the same bytes
/// - row: boxes stay inside both slices
/// - targets: `DeviceSliceMut::copy_3d_from`, `DeviceSliceMut::upload_3d`, `DeviceSlice::download_3d`,
///   `DeviceBuffer::split_at_mut`
pub(super) fn columns_on_several_streams(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let streams = [context.stream()?, context.stream()?, context.stream()?];
    let whole = PitchedLayout::compact((16, 16));
    let mut x = DeviceBuffer::<u32>::zeroed(&streams[0], 512)?;
    let mut now = vec![0u32; 512];
    for round in 0..48u32 {
        let column = whole.at(round as usize % 15, 0, 0);
        let stream = &streams[round as usize % 3];
        let (mut left, mut right) = x.split_at_mut(256)?;
        match round % 4 {
            0 => left.upload_3d(
                stream,
                column,
                &[round; 32],
                PitchedLayout::compact((2, 16)),
                (2, 16),
            ),
            1 => right.copy_3d_from(stream, column, &left, column, (2, 16)),
            2 => left.copy_3d_from(stream, column, &right, column, (2, 16)),
            _ => right.fill(stream, round),
        }?;
        for row in 0..16 {
            let places = row * 16 + column.offset..row * 16 + column.offset + 2;
            match round % 4 {
                0 => now[places].fill(round),
                1 => now.copy_within(places, 256 + row * 16 + column.offset),
                2 => now.copy_within(256 + places.start..256 + places.end, places.start),
                _ => now[256..].fill(round),
            }
        }
        let mut seen = vec![0; 256];
        left.as_slice().download_3d(stream, whole, &mut seen, whole, (16, 16))?;
        ensure!(seen == now[..256], "round {round}");
    }
    ensure_eq!(x.to_vec(&streams[1])?, now);
    Ok(())
}
