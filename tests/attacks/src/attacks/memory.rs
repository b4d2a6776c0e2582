//! Attacks on device memory: its lifetime, its types, and what copies do with slices.

mod gates;
mod kept;
mod large;
mod lifetime;
mod odd;
mod shaped;
mod views;

use cuda_safe::{DeviceBuffer, Extent, PitchedLayout};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;
use gates::{a_gate_that_stays_shut, gates_in_a_storm};
use kept::{kept_memory_in_every_use, kept_on_another_device};
use large::{boxes_larger_than_what_is_staged, writes_that_leave_no_version};
use lifetime::{
    all_memory_again_and_again, buffers_dropped_in_a_host_function, copy_threads_that_come_and_go,
    memory_kept_after_its_buffer, shared_buffers_dropped_by_threads,
};
use odd::{conversions_that_call_the_crate, fills_of_any_size, ranges_that_lie};
use shaped::{
    columns_on_several_streams, numbers_that_wrap, random_boxes, rows_of_elements_of_odd_sizes,
};
use views::{
    arrays_of_odd_shapes, buffers_cast_to_and_fro, copies_of_memory_not_yet_written,
    device_memory_of_any_alignment, elements_aligned_beyond_a_page, elements_of_no_size,
    parts_that_are_none, versions_of_parts_that_are_none, written_in_a_graph_that_never_runs,
};

/// Drops a buffer that another stream still reads, and takes memory of its size at once.
///
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::try_clone`, `DeviceBuffer::zeroed`
fn freed_while_others_read(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (home, other) = (context.stream()?, context.stream()?);
    let n = 1 << 14;
    for round in 1..40u32 {
        let x = DeviceBuffer::from_slice(&home, &vec![round; n])?;
        let copy = x.try_clone(&other)?;
        drop(x);
        let mut reused = DeviceBuffer::<u32>::zeroed(&home, n)?;
        reused.fill(&home, u32::MAX)?;
        let seen = copy.to_vec(&other)?;
        ensure!(seen.iter().all(|seen| *seen == round), "round {round} saw {:?}", &seen[..4]);
    }
    Ok(())
}

/// Overwrites the slice of an upload as soon as the call returns.
///
/// - row: a host slice is not read or written after the call
/// - targets: `DeviceBuffer::as_slice_mut`, `DeviceSliceMut::reborrow`
fn slice_overwritten_after_an_upload(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let n = 3 << 20;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, n)?;
    let mut source = vec![5u32; n];
    x.as_slice_mut().reborrow().upload(&stream, &source)?;
    source.fill(6);
    drop(source);
    let seen = x.to_vec(&stream)?;
    ensure!(seen.iter().all(|seen| *seen == 5), "{:?}", seen.iter().position(|seen| *seen != 5));
    Ok(())
}

/// Uploads from a slice whose elements another thread drops right after the call.
///
/// - row: threads that help with a copy have left its slices
/// - targets: `DeviceBuffer::from_slice`
fn slices_of_many_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    context.set_copy_threads(4);
    let n = 3 << 20;
    let seen = std::thread::scope(|scope| {
        let workers = [1u32, 2, 3].map(|value| {
            let context = &context;
            scope.spawn(move || -> cuda_safe::Result<bool> {
                let stream = context.stream()?;
                let x = DeviceBuffer::from_slice(&stream, &vec![value; n])?;
                Ok(x.to_vec(&stream)?.iter().all(|seen| *seen == value))
            })
        });
        workers.map(|worker| worker.join())
    });
    for seen in seen {
        ensure_eq!(seen.map_err(|_| Failure::new("a thread panicked"))??, true);
    }
    Ok(())
}

/// Copies boxes that reach past a slice, by numbers near the largest ones too.
///
/// - row: boxes stay inside both slices
/// - targets: `PitchedLayout::compact`, `PitchedLayout::at`, `DeviceBuffer::upload_3d`
fn boxes_that_reach_past_a_slice(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut x = DeviceBuffer::<u8>::zeroed(&stream, 1000)?;
    let source = vec![1u8; 1000];
    let whole = PitchedLayout::compact((10, 10, 10));
    let inside = Extent::from((2, 2, 2));
    let most = usize::MAX;
    for place in
        [(0, 0, 9), (9, 9, 8), (most, 1, 1), (1, most, 1), (1, 1, most), (most, most, most)]
    {
        let target = whole.at(place.0, place.1, place.2);
        let copied = x.upload_3d(&stream, target, &source, whole, inside);
        let Err(error) = copied else {
            return Err(Failure::new(format!("a box at {place:?} was copied")));
        };
        ensure!(!error.to_string().contains("CUDA_ERROR"), "the driver refused {place:?}: {error}");
    }
    for huge in [usize::MAX, usize::MAX / 2 + 1, 1 << 40] {
        let copied = x.upload_3d(&stream, whole, &source, whole, Extent::from((huge, huge, huge)));
        ensure!(copied.is_err(), "an extent of {huge} was copied");
    }
    ensure_eq!(x.to_vec(&stream)?, vec![0u8; 1000]);
    Ok(())
}

/// Casts a view to elements that do not divide it, and of another alignment.
///
/// - row: no byte is read as a type that it may not be
/// - targets: `DeviceSlice::cast`, `DeviceSliceMut::cast_mut`
fn casts_that_do_not_fit(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut x = DeviceBuffer::<u8>::zeroed(&stream, 64)?;
    ensure!(x.slice(1..9)?.cast::<u64>().is_err(), "a view at an odd address");
    ensure!(x.slice(0..9)?.cast::<u64>().is_err(), "a view of nine bytes");
    ensure!(x.slice_mut(4..12)?.cast_mut::<u64>().is_err(), "a view that begins at four");
    ensure_eq!(x.slice(8..24)?.cast::<u64>()?.len(), 2);
    Ok(())
}

/// Copies from another device into memory that was made in a capture, while it lasts and after it has failed.
///
/// - row: memory of a graph is used inside it alone
/// - row: a capture is not spoilt by safe calls
/// - row: memory of a peer is used only where
/// - targets: `DeviceSliceMut::copy_from_peer`, `Context::capture`
fn peers_copy_into_memory_of_a_graph(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let y = DeviceBuffer::<f32>::from_slice(&on_b, &vec![5.0f32; 1024])?;
    let captured = a.capture(false, |stream, refused| {
        let mut x = DeviceBuffer::<f32>::zeroed(stream, 1024)?;
        *refused = x.as_slice_mut().copy_from_peer(&on_b, &y).is_err();
        Ok(())
    });
    ensure!(captured?.into_state(), "a copy into memory of a recording was accepted");
    on_b.synchronize()?;

    let mut leaked = None;
    let captured = a.capture((), |stream, ()| {
        leaked = Some(DeviceBuffer::<f32>::zeroed(stream, 1024)?);
        Ok(())
    });
    ensure!(captured.map(drop).is_err(), "a graph whose memory is still held");
    let Some(mut leaked) = leaked else { return Err(Failure::new("nothing was recorded")) };
    lab.refused(leaked.as_slice_mut().copy_from_peer(&on_b, &y), "graph")?;
    let here = DeviceBuffer::<f32>::zeroed(&on_a, 1024)?;
    lab.refused(leaked.copy_from(&on_a, &here), "graph")?;
    on_b.synchronize()?;
    ensure_eq!(y.to_vec(&on_b)?, vec![5.0f32; 1024]);
    Ok(())
}

attacks![
    "memory",
    right(freed_while_others_read),
    right(slice_overwritten_after_an_upload),
    right(slices_of_many_threads),
    right(boxes_that_reach_past_a_slice),
    right(casts_that_do_not_fit),
    right(peers_copy_into_memory_of_a_graph).devices(2),
    right(all_memory_again_and_again)
        .variants(&["kept", "trimmed"])
        .variables(&[("CUDA_EMU_MEMORY", "32M")]),
    right(buffers_dropped_in_a_host_function),
    right(copy_threads_that_come_and_go),
    right(memory_kept_after_its_buffer),
    right(shared_buffers_dropped_by_threads),
    right(columns_on_several_streams),
    right(numbers_that_wrap).variants(&["at", "pitches", "extents", "empty"]),
    right(random_boxes).variants(&["u8", "u32", "three", "sixteen"]),
    right(rows_of_elements_of_odd_sizes),
    right(arrays_of_odd_shapes),
    right(buffers_cast_to_and_fro),
    refused(copies_of_memory_not_yet_written),
    refused(written_in_a_graph_that_never_runs),
    right(device_memory_of_any_alignment),
    right(elements_aligned_beyond_a_page).variants(&[
        "pinned",
        "reused",
        "managed",
        "unified",
        "registered",
        "device"
    ]),
    right(elements_of_no_size).variants(&[
        "buffers",
        "casts",
        "to_none",
        "pinned",
        "unified",
        "registered",
        "shaped",
        "globals"
    ]),
    right(parts_that_are_none),
    right(versions_of_parts_that_are_none),
    right(conversions_that_call_the_crate).variants(&["works", "panics"]),
    right(fills_of_any_size),
    right(ranges_that_lie),
    right(boxes_larger_than_what_is_staged).variants(&["wide", "tall", "deep"]),
    right(writes_that_leave_no_version),
    right(kept_memory_in_every_use).variants(&["dropped", "leaked", "dropped by threads"]),
    refused(kept_on_another_device).devices(2),
    right(gates_in_a_storm).variants(&["opened", "dropped", "leaked"]),
    refused(a_gate_that_stays_shut),
];
