//! Attacks on views, casts and elements of odd sizes.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::{Bound, Range};

use bytemuck::{Pod, Zeroable};
use cuda_safe::{
    DeviceBuffer, Error, Module, PinnedBuffer, PitchedLayout, Pool, Stream, UnifiedBuffer,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// Takes parts that end before they begin, or reach past the end by numbers that overflow.
///
/// - row: boxes stay inside both slices
/// - row: a view does not outlive its buffer
/// - targets: `DeviceBuffer::slice`, `DeviceBuffer::slice_mut`, `DeviceBuffer::split_at_mut`, `DeviceSlice::slice`,
///   `DeviceSlice::split_at`, `DeviceSliceMut::slice_mut`, `DeviceSliceMut::split_at_mut`, `UnifiedBuffer::slice`,
///   `UnifiedBuffer::slice_mut`
pub(super) fn parts_that_are_none(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1u64; 10])?;
    let mut unified = UnifiedBuffer::<u64>::pinned(&stream, 10)?;
    const MOST: usize = usize::MAX;
    let bad = [
        (Bound::Included(5), Bound::Excluded(3)),
        (Bound::Included(0), Bound::Included(10)),
        (Bound::Included(0), Bound::Included(MOST)),
        (Bound::Excluded(MOST), Bound::Unbounded),
        (Bound::Excluded(10), Bound::Unbounded),
        (Bound::Included(MOST), Bound::Included(MOST)),
        (Bound::Excluded(MOST), Bound::Included(MOST)),
        (Bound::Excluded(9), Bound::Excluded(9)),
        (Bound::Included(11), Bound::Excluded(11)),
        (Bound::Included(1 << 61), Bound::Excluded((1 << 61) + 1)),
        (Bound::Unbounded, Bound::Excluded(11)),
    ];
    for range in bad {
        ensure!(x.slice(range).is_err(), "buffer, {range:?}");
        ensure!(x.slice_mut(range).is_err(), "buffer to write, {range:?}");
        ensure!(x.as_slice().slice(range).is_err(), "view, {range:?}");
        ensure!(x.as_slice_mut().slice_mut(range).is_err(), "view to write, {range:?}");
        ensure!(unified.slice(range).is_err(), "unified, {range:?}");
        ensure!(unified.slice_mut(range).is_err(), "unified to write, {range:?}");
    }
    for middle in [11, 1 << 61, MOST] {
        ensure!(x.split_at_mut(middle).is_err(), "buffer, {middle}");
        ensure!(x.as_slice().split_at(middle).is_err(), "view, {middle}");
        ensure!(x.as_slice_mut().split_at_mut(middle).is_err(), "view to write, {middle}");
    }
    let (all, mut none) = x.split_at_mut(10)?;
    ensure_eq!((all.len(), none.len(), none.as_slice().slice(0..0)?.len()), (10, 0, 0));
    none.fill(&stream, 5)?;
    none.upload(&stream, &[])?;
    ensure_eq!(none.to_vec(&stream)?, [0u64; 0]);
    ensure_eq!(all.as_slice().slice(10..)?.split_at(0)?.1.to_vec(&stream)?, [0u64; 0]);
    ensure_eq!(x.to_vec(&stream)?, [1; 10]);
    Ok(())
}

/// Makes buffers of elements without bytes, as many as can be counted, and casts, copies and cuts them.
///
/// - row: no byte is read as a type that it may not be
/// - row: no answer of the driver makes the crate panic
/// - targets: `DeviceBuffer::zeroed`, `DeviceBuffer::cast`, `DeviceSlice::cast`, `DeviceSliceMut::cast_mut`,
///   `PinnedBuffer::zeroed`, `UnifiedBuffer::managed`, `PitchedLayout::pitched`, `Module::global`
pub(super) fn elements_of_no_size(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    match lab.variant() {
        "buffers" => {
            for len in [0, 7, usize::MAX] {
                let mut x = DeviceBuffer::<()>::zeroed(&stream, len)?;
                ensure_eq!((x.len(), x.size_bytes()), (len, 0));
                x.fill(&context.stream()?, ())?;
                x.upload(&stream, &vec![(); len])?;
                ensure_eq!(x.try_clone(&context.stream()?)?.to_vec(&stream)?.len(), len);
                ensure!(x.slice(..=len).is_err(), "{len} elements");
                ensure_eq!(x.slice(len..)?.len(), 0);
                let y = DeviceBuffer::<MaybeUninit<[u32; 0]>>::uninit(&stream, len)?;
                ensure!(y.init_from(&stream, &vec![[]; len]).is_ok(), "{len} elements");
            }
        }
        "casts" => {
            let mut x = DeviceBuffer::<[u8; 0]>::zeroed(&stream, 3)?;
            let wide = x.as_slice().cast::<u32>();
            ensure!(wide.is_err() || wide.is_ok_and(|x| x.is_empty()), "elements from nothing");
            let wide = x.as_slice_mut().cast_mut::<u32>();
            ensure!(wide.is_err() || wide.is_ok_and(|x| x.is_empty()), "elements from nothing");
            let wide = x.cast::<u32>();
            ensure!(wide.is_err() || wide.is_ok_and(|x| x.is_empty()), "elements from nothing");
        }
        "to_none" => {
            let mut x = DeviceBuffer::from_slice(&stream, &[1u32; 4])?;
            let none = x.as_slice().cast::<[u8; 0]>();
            ensure!(none.is_err() || none.is_ok_and(|x| x.size_bytes() == 0), "bytes of nothing");
            let none = x.as_slice_mut().cast_mut::<[u8; 0]>();
            ensure!(none.is_err() || none.is_ok_and(|x| x.size_bytes() == 0), "bytes of nothing");
            ensure_eq!(x.to_vec(&stream)?, [1; 4]);
            let none = x.cast::<[u8; 0]>();
            ensure!(none.is_err() || none.is_ok_and(|x| x.size_bytes() == 0), "bytes of nothing");
        }
        "pinned" => {
            for len in [0, usize::MAX] {
                let pinned = PinnedBuffer::<()>::zeroed(&context, len)?;
                ensure_eq!(pinned.len(), len);
                let mut x = DeviceBuffer::<()>::zeroed(&stream, len)?;
                let pinned = x.upload_pinned(&stream, pinned)?.wait()?;
                ensure_eq!(x.download_pinned(&stream, pinned)?.wait()?.len(), len);
            }
            ensure_eq!(PinnedBuffer::<u64>::from_slice(&context, &[])?.len(), 0);
        }
        "unified" => {
            for len in [0, 5, usize::MAX] {
                for mut x in [
                    UnifiedBuffer::<()>::managed(&stream, len)?,
                    UnifiedBuffer::<()>::pinned(&stream, len)?,
                ] {
                    ensure_eq!(x.host()?.len(), len);
                    ensure_eq!(x.host_mut()?.len(), len);
                    ensure!(x.into_vec().is_err(), "memory that was not registered");
                }
            }
        }
        "registered" => {
            for len in [0, 5, usize::MAX] {
                let mut x = UnifiedBuffer::register(&stream, vec![(); len])?;
                ensure_eq!(x.host()?.len(), len);
                ensure_eq!(x.host_mut()?.len(), len);
                let Ok(vector) = x.into_vec() else {
                    return Err(Failure::new("an empty vector does not come back"));
                };
                ensure_eq!(vector.len(), len);
            }
        }
        "shaped" => {
            let extent = (3, 2, 2);
            for layout in [PitchedLayout::pitched::<()>(extent), PitchedLayout::compact(extent)] {
                let len = layout.len(extent)?;
                let mut x = DeviceBuffer::<()>::zeroed(&stream, len)?;
                x.upload_3d(&stream, layout, &vec![(); len], layout, extent)?;
                x.download_3d(&stream, layout, &mut vec![(); len], layout, extent)?;
            }
        }
        _ => {
            let module = Module::compile(&context, "__device__ unsigned values[4];")?;
            let values = module.global::<()>(&stream, "values");
            ensure!(values.is_err() || values.is_ok_and(|x| x.is_empty()), "elements of nothing");
        }
    }
    Ok(())
}

/// Makes device memory of elements of several alignments, each beside memory of an odd size. What can't be aligned so must
/// be refused with an error that says so.
///
/// - row: no byte is read as a type that it may not be
/// - targets: `DeviceBuffer::zeroed`, `DeviceBuffer::from_slice`, `DeviceBuffer::uninit`, `DeviceBuffer::zeroed_in`,
///   `DeviceBuffer::from_slice_in`, `DeviceBuffer::uninit_in`, `UnifiedBuffer::managed`, `UnifiedBuffer::register`
pub(super) fn device_memory_of_any_alignment(lab: &Lab) -> TestResult {
    fn each<T: Pod>(lab: &Lab, stream: &Stream, pool: &Pool) -> TestResult {
        let odd = || DeviceBuffer::<u8>::zeroed(stream, 1000);
        let _beside = (odd()?, DeviceBuffer::<u8>::zeroed_in(pool, stream, 1000)?);
        let value = T::zeroed();
        let made = [
            DeviceBuffer::<T>::zeroed(stream, 2).map(|x| x.device_ptr()),
            DeviceBuffer::<T>::from_slice(stream, &[value; 2]).map(|x| x.device_ptr()),
            DeviceBuffer::<MaybeUninit<T>>::uninit(stream, 2).map(|x| x.device_ptr()),
            DeviceBuffer::<T>::zeroed_in(pool, stream, 2).map(|x| x.device_ptr()),
            DeviceBuffer::<T>::from_slice_in(pool, stream, &[value; 2]).map(|x| x.device_ptr()),
            DeviceBuffer::<MaybeUninit<T>>::uninit_in(pool, stream, 2).map(|x| x.device_ptr()),
            UnifiedBuffer::<T>::managed(stream, 2).map(|x| x.device_ptr()),
            UnifiedBuffer::register(stream, vec![value; 2]).map(|x| x.device_ptr()),
        ];
        let align = align_of::<T>();
        for (call, made) in made.into_iter().enumerate() {
            match made {
                Ok(start) => {
                    ensure!(
                        start.is_multiple_of(align as u64),
                        "call {call}: {start:#x} for {align}"
                    );
                }
                refused => {
                    ensure!(align > 256, "call {call}: {align}");
                    lab.refused(refused, "must be aligned to")?;
                }
            }
        }
        Ok(())
    }
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C, align(256))]
    struct Most([u8; 256]);
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C, align(512))]
    struct Twice([u8; 512]);
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C, align(4096))]
    struct Page([u8; 4096]);
    let (stream, pool) = (lab.stream()?, Pool::new(&lab.context()?)?);
    for _ in 0..4 {
        each::<u64>(lab, &stream, &pool)?;
        each::<Most>(lab, &stream, &pool)?;
        each::<Twice>(lab, &stream, &pool)?;
        each::<Page>(lab, &stream, &pool)?;
        each::<Wide>(lab, &stream, &pool)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C, align(16384))]
struct Wide([u32; 4096]);

/// Makes pinned, managed and registered memory of elements whose alignment is greater than a page's, also out of
/// memory that was used for bytes before. What can't be aligned so must be refused with an error that says so.
///
/// - row: no byte is read as a type that it may not be
/// - targets: `PinnedBuffer::zeroed`, `PinnedBuffer::from_slice`, `UnifiedBuffer::managed`, `UnifiedBuffer::pinned`,
///   `UnifiedBuffer::register`, `UnifiedBuffer::host_mut`, `DeviceSlice::cast`
pub(super) fn elements_aligned_beyond_a_page(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let aligned = |elements: &[Wide], what: &str| {
        let address = elements.as_ptr().addr();
        ensure!(address.is_multiple_of(align_of::<Wide>()), "{what} at {address:#x}");
        ensure!(elements.iter().all(|wide| wide.0 == [0; 4096]), "{what} is not zero");
        Ok(())
    };
    let mut kept = Vec::new();
    for round in 1..6 {
        match lab.variant() {
            "pinned" => match PinnedBuffer::<Wide>::zeroed(&context, round) {
                Ok(pinned) => {
                    aligned(&pinned, "pinned memory")?;
                    kept.push(pinned);
                }
                refused => lab.refused(refused, "align")?,
            },
            "reused" => {
                let mut bytes = PinnedBuffer::<u8>::zeroed(&context, round * 16384)?;
                bytes.fill(0xff);
                drop(bytes);
                match PinnedBuffer::<Wide>::zeroed(&context, round) {
                    Ok(pinned) => aligned(&pinned, "memory of bytes")?,
                    refused => lab.refused(refused, "align")?,
                }
            }
            "managed" => match UnifiedBuffer::<Wide>::managed(&stream, round) {
                Ok(mut x) => aligned(&x.host_mut()?, "managed memory")?,
                refused => lab.refused(refused, "align")?,
            },
            "unified" => match UnifiedBuffer::<Wide>::pinned(&stream, round) {
                Ok(x) => aligned(&x.host()?, "pinned memory")?,
                refused => lab.refused(refused, "align")?,
            },
            "registered" => {
                let x = UnifiedBuffer::register(&stream, vec![Wide::zeroed(); round])?;
                aligned(&x.host()?, "a registered vector")?;
                let Ok(vector) = x.into_vec() else {
                    return Err(Failure::new("the vector does not come back"));
                };
                aligned(&vector, "a vector")?;
            }
            _ => {
                let x = DeviceBuffer::<u8>::zeroed(&stream, 3 * 16384)?;
                for begin in [0, 4096, 8192, 16384] {
                    let view = x.slice(begin..begin + 16384)?;
                    let cast = view.cast::<Wide>();
                    let fits = view.device_ptr().is_multiple_of(16384);
                    ensure_eq!(cast.is_ok(), fits, "a view at {:#x}", view.device_ptr());
                }
                match DeviceBuffer::<Wide>::zeroed(&stream, 1) {
                    Ok(x) => aligned(&x.to_vec(&stream)?, "a vector")?,
                    refused => lab.refused(refused, "align")?,
                }
            }
        }
    }
    Ok(())
}

/// Casts whole buffers to other sizes of elements and back, and drops them as what they are then.
///
/// - row: no byte is read as a type that it may not be
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::cast`, `DeviceBuffer::into_raw`, `DeviceBuffer::close`
pub(super) fn buffers_cast_to_and_fro(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    for round in 0..20u32 {
        let x = DeviceBuffer::from_slice(&stream, &[round; 12])?;
        let Ok(x) = x.cast::<[u8; 3]>() else { return Err(Failure::new("48 bytes by 3")) };
        ensure_eq!(x.len(), 16);
        let Err(refused) = x.cast::<[u8; 5]>() else { return Err(Failure::new("48 bytes by 5")) };
        let mut x = refused.into_inner();
        x.fill(&other, [round as u8; 3])?;
        let Ok(x) = x.cast::<[u64; 2]>() else { return Err(Failure::new("48 bytes by 16")) };
        let shared = x.allocation().clone();
        ensure!(x.close().is_err(), "a buffer was closed whose memory is shared");
        ensure_eq!(shared.size_bytes(), 48);
        let x = DeviceBuffer::from_slice(&stream, &[round; 12])?;
        let Ok(x) = x.cast::<u8>() else { return Err(Failure::new("48 bytes by 1")) };
        ensure_eq!(x.to_vec(&other)?, bytemuck::cast_slice::<u32, u8>(&[round; 12]));
        ensure!(x.close().is_ok(), "a buffer was not closed");
        let shared = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
        let _shared = shared.allocation().clone();
        ensure!(shared.into_raw().is_err(), "shared memory was given up");
    }
    Ok(())
}

/// Copies memory that is not written yet, and writes it with slices of other lengths.
///
/// - row: no byte is read as a type that it may not be
/// - targets: `DeviceBuffer::uninit`, `DeviceBuffer::init_from`, `DeviceBuffer::try_clone`
pub(super) fn copies_of_memory_not_yet_written(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let mut x = DeviceBuffer::<MaybeUninit<u32>>::uninit(&stream, 1000)?;
    let y = x.try_clone(&other)?;
    x.copy_from(&other, &y)?;
    x.slice_mut(..500)?.copy_from(&stream, y.slice(500..)?)?;
    ensure_eq!(y.init_from(&stream, &[3; 1000])?.to_vec(&other)?, [3; 1000]);
    for len in [0, 999, 1001] {
        let y = x.try_clone(&other)?;
        lab.refused(y.init_from(&stream, &vec![4; len]), "elements on one side")?;
    }
    ensure_eq!(x.init_from(&other, &[5; 1000])?.to_vec(&stream)?, [5; 1000]);
    Ok(())
}

/// Writes memory for the first time in a graph that is never launched, and takes it out of the closure as written.
///
/// - row: no byte is read as a type that it may not be
/// - targets: `DeviceBuffer::uninit`, `DeviceBuffer::init_from`, `Context::capture`
pub(super) fn written_in_a_graph_that_never_runs(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let raw = Cell::new(Some(DeviceBuffer::<MaybeUninit<u32>>::uninit(&stream, 1000)?));
    let written = Cell::new(None);
    lab.refused(
        context.capture((), |s, ()| {
            let raw = raw.take().ok_or_else(|| Error::invalid("recorded twice"))?;
            written.set(Some(raw.init_from(s, &[7; 1000])?));
            Ok(())
        }),
        "can't be recorded",
    )?;
    ensure!(written.take().is_none(), "the buffer counts as written");
    // Memory of the graph itself is written whenever it is there.
    let mut sum = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let mut graph = context.capture((), |s, ()| {
        sum.copy_from(s, &DeviceBuffer::uninit(s, 1000)?.init_from(s, &[7; 1000])?)
    })?;
    graph.launch(&stream)?;
    drop(graph);
    ensure_eq!(sum.to_vec(&stream)?, [7; 1000]);
    Ok(())
}

/// Asks for versions of parts that are none, and counts writes of them.
///
/// - row: no answer of the driver makes the crate panic
/// - targets: `Allocation::version`, `Allocation::note_write`, `Allocation::home_stream`, `DeviceBuffer::allocation`
pub(super) fn versions_of_parts_that_are_none(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let memory = x.allocation().clone();
    ensure!(*memory.home_stream() == stream, "another home");
    const MOST: usize = usize::MAX;
    for (start, end) in [(0, 0), (100, 100), (7, 3), (100, MOST), (MOST, 0), (MOST, MOST)] {
        let range = Range { start, end };
        let before = memory.version(0..100);
        // Nothing is written there.
        let _ = memory.version(range.clone());
        memory.note_write(range.clone());
        ensure!(memory.version(0..100) >= before, "{range:?}");
    }
    let mut last = memory.version(0..100);
    for round in 0..10 {
        let (left, right) = (memory.version(0..50), memory.version(50..100));
        x.slice_mut(50..51)?.fill(&context.stream()?, round)?;
        ensure_eq!(memory.version(0..50), left, "a write elsewhere");
        ensure!(memory.version(50..100) > right.max(last), "round {round}: no new version");
        last = memory.version(0..usize::MAX);
        ensure_eq!(last, memory.version(50..51), "round {round}");
        ensure_eq!(x.to_vec(&stream)?[50], round);
        ensure_eq!(memory.version(0..100), last, "a read");
    }
    Ok(())
}

/// Makes device memory of arrays that are transposed, repeated and empty, and arrays of shapes that do not fit or
/// overflow.
///
/// - row: boxes stay inside both slices
/// - targets: `DeviceBuffer::from_array`, `DeviceBuffer::to_array`
pub(super) fn arrays_of_odd_shapes(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &(0..24u32).collect::<Vec<_>>())?;
    let array = x.to_array(&stream, (2, 3, 4))?;
    let turned = array.view().permuted_axes([2, 0, 1]).to_owned();
    let view = array.view().permuted_axes([2, 0, 1]);
    let y = DeviceBuffer::from_array(&stream, &view)?.to_array(&stream, (4, 2, 3))?;
    ensure!(y == turned, "{y:?}");
    let Some(repeated) = array.broadcast((2, 2, 3, 4)) else { return Err(Failure::new("shape")) };
    let y = DeviceBuffer::from_array(&stream, &repeated)?;
    ensure_eq!(y.len(), 48);
    ensure_eq!(y.slice(24..)?.to_vec(&stream)?, (0..24).collect::<Vec<_>>());
    let empty = DeviceBuffer::<u32>::zeroed(&stream, 0)?;
    let none = empty.to_array(&stream, (0, 5))?;
    ensure_eq!(DeviceBuffer::from_array(&stream, &none)?.len(), 0);
    ensure!(x.to_array(&stream, (24, 2)).is_err(), "too many");
    ensure!(x.to_array(&stream, (4, 5)).is_err(), "too few");
    ensure!(x.to_array(&stream, ()).is_err(), "one");
    const HALF: usize = 1 << 32;
    ensure!(empty.to_array(&stream, (HALF, HALF)).is_err(), "a product that wraps to 0");
    ensure!(x.to_array(&stream, (HALF, HALF, 24)).is_err(), "a product that wraps to 0");
    ensure!(x.to_array(&stream, (24, usize::MAX, usize::MAX)).is_err(), "wraps to 24");
    // No array of ndarray may have such axes, whether or not there are elements.
    for shape in [(usize::MAX, 0, 2), (0, usize::MAX, usize::MAX), (HALF, HALF, 0)] {
        let result = empty.to_array(&stream, shape);
        ensure!(result.is_err(), "an array of {shape:?}");
    }
    Ok(())
}
