//! Copies of rectangles and boxes, against copies element by element.

use cuda_safe::vector::Float3;
use cuda_safe::{DeviceBuffer, ErrorKind, Extent, LaunchConfig, PitchedLayout};

use super::MS;
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "shaped",
        device(random_boxes),
        device(larger_than_a_block),
        device(pitched_rows_are_aligned),
        device(nothing_is_copied_of_nothing),
        device(what_does_not_fit_is_refused),
        device(overlap_is_refused),
        device(the_slice_may_change_at_once),
        device(ordered_with_other_streams),
    ]
}

/// What every copy must do.
fn model<T: Copy>(
    target: &mut [T],
    to: PitchedLayout,
    source: &[T],
    from: PitchedLayout,
    extent: Extent,
) {
    let place = |layout: PitchedLayout, x, y, z| {
        layout.offset + x + y * layout.row_pitch + z * layout.slice_pitch
    };
    for z in 0..extent.depth {
        for y in 0..extent.height {
            for x in 0..extent.width {
                target[place(to, x, y, z)] = source[place(from, x, y, z)];
            }
        }
    }
}

/// A layout for `extent`, with gaps or without, and how many elements there are with a rest behind.
fn layout(rng: &mut Rng, extent: Extent) -> Result<(PitchedLayout, usize), Failure> {
    let mut gap = |most| if rng.below(2) == 0 { 0 } else { rng.below(most) };
    let row_pitch = extent.width + gap(40);
    // Sometimes a whole number of rows, sometimes not.
    let slice = (extent.height.max(1) - 1) * row_pitch + extent.width;
    let whole = extent.height * row_pitch;
    let slice_pitch = match gap(3) {
        0 => whole + gap(4) * row_pitch,
        _ => slice + gap(50),
    };
    let layout = PitchedLayout { offset: gap(30), row_pitch, slice_pitch };
    let len = layout.len(extent)? + gap(30);
    Ok((layout, len))
}

fn random_boxes(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let mut rng = device.rng(40);
    let sizes = [1, 2, 3, 31, 32, 33, 100];
    for _ in 0..if deep() { 2000 } else { 200 } {
        let mut size = || sizes[rng.below(sizes.len())];
        let extent = Extent { width: size(), height: size(), depth: size().min(33) };
        let (on_host, host_len) = layout(&mut rng, extent)?;
        let (first, first_len) = layout(&mut rng, extent)?;
        let (second, second_len) = layout(&mut rng, extent)?;
        let (back, back_len) = layout(&mut rng, extent)?;
        let (host, under) = (rng.words(host_len), rng.words(first_len));
        let (beneath, mut target) = (rng.words(second_len), rng.words(back_len));

        let mut wanted = [under.clone(), beneath.clone(), target.clone()];
        model(&mut wanted[0], first, &host, on_host, extent);
        let [one, two, three] = &mut wanted;
        model(two, second, one, first, extent);
        model(three, back, two, second, extent);

        let mut a = DeviceBuffer::from_slice(&stream, &under)?;
        let mut b = DeviceBuffer::from_slice(&stream, &beneath)?;
        a.as_slice_mut().upload_3d(&stream, first, &host, on_host, extent)?;
        b.as_slice_mut().copy_3d_from(&other, second, &a, first, extent)?;
        b.as_slice().download_3d(&stream, second, &mut target, back, extent)?;
        let same = first_difference(&a.to_vec(&stream)?, one)
            .and_then(|()| first_difference(&b.to_vec(&stream)?, two))
            .and_then(|()| first_difference(&target, three));
        same.map_err(|failure| {
            Failure::new(format!("{extent:?} {on_host:?} {first:?} {second:?} {back:?}: {failure}"))
        })?;
    }
    Ok(())
}

/// Rows, slices and whole boxes that go through several blocks of the ring, at odd places.
fn larger_than_a_block(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(41);
    for (width, height, depth) in
        [(5_000_001, 2, 1), (999, 3000, 2), (100, 100, 500), (7, 1, 600_000), (3 << 20, 3, 1)]
    {
        let extent = Extent { width, height, depth };
        let (device_side, host_side) = (
            PitchedLayout { offset: 3, row_pitch: width + 1, slice_pitch: (width + 1) * height },
            PitchedLayout { offset: 1, row_pitch: width, slice_pitch: width * height + 3 },
        );
        let source = rng.bytes(host_side.len(extent)?);
        let len = device_side.len(extent)? + 5;
        let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, len)?;
        buffer.as_slice_mut().upload_3d(&stream, device_side, &source, host_side, extent)?;
        let mut wanted = vec![0; len];
        model(&mut wanted, device_side, &source, host_side, extent);
        first_difference(&buffer.to_vec(&stream)?, &wanted)?;
        let mut target = vec![9; source.len()];
        let mut wanted = target.clone();
        model(&mut wanted, host_side, &source, host_side, extent);
        buffer.as_slice().download_3d(&stream, device_side, &mut target, host_side, extent)?;
        first_difference(&target, &wanted)?;
    }
    Ok(())
}

fn pitched_rows_are_aligned(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    fn check<T>(width: usize, elements: usize) -> TestResult {
        let layout = PitchedLayout::pitched::<T>((width, 7, 3));
        ensure_eq!(
            (layout.offset, layout.row_pitch, layout.slice_pitch),
            (0, elements, 7 * elements)
        );
        ensure_eq!(layout.row_pitch * size_of::<T>() % 512, 0);
        Ok(())
    }
    check::<u8>(512, 512)?;
    check::<u8>(513, 1024)?;
    check::<f32>(1, 128)?;
    check::<f64>(65, 128)?;
    // Twelve bytes: three times 512 bytes are 128 of them.
    check::<Float3>(1, 128)?;
    check::<Float3>(129, 256)?;
    check::<[u8; 1024]>(3, 3)?;
    let absurd = PitchedLayout::pitched::<u8>((usize::MAX, usize::MAX));
    ensure!(absurd.len((usize::MAX, usize::MAX)).is_err());

    let extent = (129, 5, 2);
    let (to, from) = (PitchedLayout::pitched::<Float3>(extent), PitchedLayout::compact(extent));
    let n = from.len(extent)?;
    let source: Vec<Float3> = (0..n).map(|i| Float3::new(i as f32, -1.0, 0.5)).collect();
    let mut buffer = DeviceBuffer::<Float3>::zeroed(&stream, to.len(extent)?)?;
    buffer.as_slice_mut().upload_3d(&stream, to, &source, from, extent)?;
    let mut target = vec![Float3::default(); n];
    buffer.as_slice().download_3d(&stream, to, &mut target, from, extent)?;
    ensure!(target == source);
    Ok(())
}

fn nothing_is_copied_of_nothing(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let other = buffer.try_clone(&stream)?;
    // Wherever it would be.
    let absurd = PitchedLayout { offset: usize::MAX, row_pitch: usize::MAX, slice_pitch: 1 };
    for extent in [(0, 5, 5), (5, 0, 5), (5, 5, 0)] {
        buffer.as_slice_mut().upload_3d(&stream, absurd, &[], absurd, extent)?;
        buffer.as_slice_mut().copy_3d_from(&stream, absurd, &other, absurd, extent)?;
        buffer.as_slice().download_3d(&stream, absurd, &mut [], absurd, extent)?;
        ensure_eq!(absurd.len(extent)?, 0);
    }
    Ok(())
}

/// Each refusal names the side and the dimension, and nothing was written.
fn what_does_not_fit_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let other = buffer.try_clone(&stream)?;
    let host = vec![1; 1000];
    let fits = PitchedLayout { offset: 0, row_pitch: 10, slice_pitch: 100 };
    let max = usize::MAX;
    let bad = [
        (PitchedLayout { offset: 991, ..fits }, (10, 1, 1), "width of 10"),
        (PitchedLayout { offset: max, ..fits }, (10, 1, 1), "width of 10"),
        (PitchedLayout { row_pitch: 9, ..fits }, (10, 2, 1), "row pitch of 9"),
        (PitchedLayout { row_pitch: 200, ..fits }, (10, 6, 1), "height of 6"),
        (PitchedLayout { row_pitch: max, ..fits }, (10, 3, 1), "height of 3"),
        (PitchedLayout { slice_pitch: 99, ..fits }, (10, 10, 2), "slice pitch of 99"),
        (PitchedLayout { slice_pitch: 500, ..fits }, (10, 10, 3), "depth of 3"),
        (PitchedLayout { slice_pitch: max, ..fits }, (10, 10, 3), "depth of 3"),
        (fits.at(1, 0, 9), (10, 10, 1), "height of 10"),
    ];
    for (layout, extent, words) in bad {
        let compact = PitchedLayout::compact(extent);
        let mut target = vec![7; 1000];
        let answers = [
            ("device", buffer.as_slice_mut().upload_3d(&stream, layout, &host, compact, extent)),
            ("host", buffer.as_slice_mut().upload_3d(&stream, compact, &host, layout, extent)),
            (
                "source",
                buffer.as_slice_mut().copy_3d_from(&stream, compact, &other, layout, extent),
            ),
            (
                "destination",
                buffer.as_slice_mut().copy_3d_from(&stream, layout, &other, compact, extent),
            ),
            (
                "device",
                buffer.as_slice().download_3d(&stream, layout, &mut target, compact, extent),
            ),
            ("host", buffer.as_slice().download_3d(&stream, compact, &mut target, layout, extent)),
        ];
        for (side, answer) in answers {
            let Err(error) = answer else {
                return Err(Failure::new(format!("{side}, {layout:?}, {extent:?}: no error")));
            };
            ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
            let text = error.to_string();
            ensure!(text.contains(side) && text.contains(words), "{side}, {words}: {text}");
        }
        ensure!(target.iter().all(|word| *word == 7));
    }
    first_difference(&buffer.to_vec(&stream)?, &[0; 1000])?;
    // One element less than that is in order.
    let last = PitchedLayout { offset: 990, ..fits };
    buffer.as_slice_mut().upload_3d(&stream, last, &host, fits, (10, 1))?;
    first_difference(&buffer.slice(989..)?.to_vec(&stream)?, &[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
}

/// Views that overlap can't be had in safe code, but memory that was adopted twice may.
fn overlap_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    // SAFETY: `buffer` outlives it, and both are only used on one stream, in its order.
    let alias = unsafe {
        DeviceBuffer::<u32>::from_raw(&stream, buffer.device_ptr(), 100, Some(Box::new(())))
    }?;
    let rows = PitchedLayout { offset: 0, row_pitch: 10, slice_pitch: 100 };
    let mut copy = |to: PitchedLayout, from: PitchedLayout, extent: (usize, usize)| {
        buffer.as_slice_mut().copy_3d_from(&stream, to, &alias, from, extent)
    };
    for (to, from) in [(rows, rows), (rows.at(5, 0, 0), rows), (rows, rows.at(0, 4, 0))] {
        let error = copy(to, from, (5, 5)).err().map(|error| error.to_string());
        ensure!(error.as_ref().is_some_and(|text| text.contains("overlap")), "{error:?}");
    }
    copy(rows.at(0, 5, 0), rows, (10, 5))?;
    copy(rows.at(5, 5, 0), rows, (5, 5))?;
    stream.synchronize()?;
    Ok(())
}

fn the_slice_may_change_at_once(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let extent = Extent::from((500, 700, 5));
    let (to, from) = (PitchedLayout::pitched::<u32>(extent), PitchedLayout::compact(extent));
    let mut source = device.rng(42).words(from.len(extent)?);
    let mut wanted = vec![0; to.len(extent)?];
    model(&mut wanted, to, &source, from, extent);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, wanted.len())?;
    device.count(delay.delay(&stream, (1, 1), 10 * MS))?;
    buffer.as_slice_mut().upload_3d(&stream, to, &source, from, extent)?;
    source.fill(0xeeee_eeee);
    drop(source);
    first_difference(&buffer.to_vec(&stream)?, &wanted)
}

/// A box is a use of the bytes from its first to its last.
fn ordered_with_other_streams(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let n = 10_000;
    let rows = PitchedLayout { offset: 1, row_pitch: 100, slice_pitch: n };
    let mut buffer = DeviceBuffer::<u32>::zeroed(&home, n)?;
    let mut copy = DeviceBuffer::<u32>::zeroed(&other, n)?;
    for round in 1..4 {
        device.count(delay.delayed_fill(&home, (1, 256), &mut buffer, n as u64, round, 10 * MS))?;
        copy.as_slice_mut().copy_3d_from(&other, rows, &buffer, rows, (50, 100))?;
        // Not before the copy has read it.
        device.count(basic.fill(&home, LaunchConfig::cover(n, 256), &mut buffer, n as u64, 99))?;
        let mut seen = vec![0; 50 * 100];
        let compact = PitchedLayout::compact((50, 100));
        copy.as_slice().download_3d(&home, rows, &mut seen, compact, (50, 100))?;
        first_difference(&seen, &[round; 50 * 100])?;
    }
    Ok(())
}
