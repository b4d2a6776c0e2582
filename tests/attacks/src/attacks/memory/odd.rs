//! Attacks by arguments whose conversions lie or call the crate, and fills of elements of any size.

use std::cell::Cell;
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytemuck::Pod;
use cuda_safe::{Context, DeviceBuffer, DeviceSlice, Extent, PitchedLayout, Stream, UnifiedBuffer};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attacks::order::random::Random;
use crate::lab::Lab;

/// Says something else each time that it is asked.
struct Lies {
    asked: Cell<usize>,
    ends: [Bound<usize>; 3],
    starts: bool,
}

impl Lies {
    fn next(&self) -> Bound<&usize> {
        let asked = self.asked.get();
        self.asked.set(asked + 1);
        self.ends[asked.min(2)].as_ref()
    }
}

impl RangeBounds<usize> for Lies {
    fn start_bound(&self) -> Bound<&usize> {
        if self.starts { self.next() } else { Bound::Included(&2) }
    }

    fn end_bound(&self) -> Bound<&usize> {
        if self.starts { Bound::Excluded(&8) } else { self.next() }
    }
}

/// Takes parts by a range that says something else each time that it is asked.
///
/// - row: a view does not outlive its buffer
/// - targets: `DeviceBuffer::slice`, `DeviceBuffer::slice_mut`, `DeviceSlice::slice`, `DeviceSliceMut::slice_mut`,
///   `UnifiedBuffer::slice`, `UnifiedBuffer::slice_mut`, `DeviceSliceMut::as_slice`
pub(super) fn ranges_that_lie(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut x = DeviceBuffer::from_slice(&stream, &(0..10u32).collect::<Vec<_>>())?;
    let mut y = UnifiedBuffer::<u32>::pinned(&stream, 10)?;
    const MOST: usize = usize::MAX;
    for starts in [true, false] {
        for ends in [
            [Bound::Excluded(5), Bound::Excluded(500), Bound::Excluded(MOST)],
            [Bound::Included(3), Bound::Included(MOST), Bound::Unbounded],
            [Bound::Unbounded, Bound::Excluded(MOST), Bound::Included(1 << 61)],
        ] {
            let lies = || Lies { asked: Cell::new(0), ends, starts };
            let inside = |view: &DeviceSlice<'_, u32>| -> TestResult {
                let bytes = view.byte_range();
                ensure!(bytes.start <= bytes.end && bytes.end <= 40, "{bytes:?}");
                ensure_eq!(view.len() * 4, bytes.len());
                ensure_eq!(view.to_vec(&stream)?.len(), view.len());
                Ok(())
            };
            // An error is as good as a part that is inside.
            if let Ok(view) = x.slice(lies()) {
                inside(&view)?;
            }
            if let Ok(view) = x.as_slice().slice(lies()) {
                inside(&view)?;
            }
            if let Ok(view) = x.slice_mut(lies()) {
                inside(&view.as_slice())?;
            }
            if let Ok(view) = x.as_slice_mut().slice_mut(lies()) {
                inside(&view.as_slice())?;
            }
            if let Ok(view) = y.slice(lies()) {
                inside(&view)?;
            }
            if let Ok(view) = y.slice_mut(lies()) {
                inside(&view.as_slice())?;
            }
        }
    }
    Ok(())
}

/// A source that uses the device, or panics, when it is asked for its view.
struct Reenters<'a> {
    view: DeviceSlice<'a, u32>,
    stream: &'a Stream,
    context: &'a Context,
    panics: bool,
}

impl<'a> Reenters<'a> {
    fn enter(&self) {
        let work = || -> cuda_safe::Result<()> {
            let mut x = DeviceBuffer::<u32>::zeroed(self.stream, 10)?;
            x.copy_from(self.stream, self.view.slice(..10)?)?;
            self.view.to_vec(&self.context.stream()?)?;
            let mut graph = self.context.capture(x, |s, x| x.fill(s, 1))?;
            graph.launch(self.stream)?;
            drop(graph);
            self.context.free_deferred()?;
            self.stream.synchronize()
        };
        if self.panics {
            resume_unwind(Box::new("on purpose"));
        }
        work().expect("what a conversion does");
    }
}

impl<'a> From<Reenters<'a>> for DeviceSlice<'a, u32> {
    fn from(source: Reenters<'a>) -> Self {
        source.enter();
        source.view
    }
}

impl From<Reenters<'_>> for Extent {
    fn from(source: Reenters<'_>) -> Self {
        source.enter();
        Self::from((10, 1, 1))
    }
}

/// Passes sources and extents whose conversion launches, waits, collects and captures, or panics.
///
/// - row: work that uses the same bytes
/// - row: boxes stay inside both slices
/// - targets: `DeviceBuffer::copy_from`, `DeviceBuffer::copy_3d_from`, `UnifiedBuffer::copy_from`,
///   `DeviceSliceMut::copy_from_peer`, `DeviceBuffer::upload_3d`
pub(super) fn conversions_that_call_the_crate(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let panics = lab.variant() == "panics";
    let y = DeviceBuffer::from_slice(&other, &[6u32; 10])?;
    let source = || Reenters { view: y.as_slice(), stream: &stream, context: &context, panics };
    let row = PitchedLayout::compact((10, 1));
    for _ in 0..3 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
        let mut unified = UnifiedBuffer::<u32>::pinned(&stream, 10)?;
        type Call<'a> = (&'a str, &'a mut dyn FnMut() -> cuda_safe::Result<Vec<u32>>);
        let mut calls: [Call<'_>; 5] = [
            ("copy_from", &mut || {
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
                x.copy_from(&stream, source())?;
                x.to_vec(&stream)
            }),
            ("copy_3d_from", &mut || {
                x.copy_3d_from(&other, row, source(), row, source())?;
                x.to_vec(&stream)
            }),
            ("upload_3d", &mut || {
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
                x.upload_3d(&other, row, &[6; 10], row, source())?;
                x.to_vec(&stream)
            }),
            ("unified", &mut || {
                unified.copy_from(&other, source())?;
                Ok(unified.host()?.to_vec())
            }),
            ("peer", &mut || {
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
                x.as_slice_mut().copy_from_peer(&stream, source())?;
                x.to_vec(&stream)
            }),
        ];
        for (what, call) in &mut calls {
            match catch_unwind(AssertUnwindSafe(call)) {
                Ok(result) => {
                    ensure!(!panics, "{what} did not panic");
                    ensure_eq!(result?, [6; 10], "{what}");
                }
                Err(_) => ensure!(panics, "{what} panicked"),
            }
        }
    }
    // No lock is left behind by a panic.
    let mut x = y.try_clone(&stream)?;
    x.fill(&other, 8)?;
    context.synchronize()?;
    ensure_eq!((x.to_vec(&stream)?, y.to_vec(&stream)?), (vec![8; 10], vec![6; 10]));
    Ok(())
}

fn fills_of<T: Pod>(streams: &[Stream], random: &mut Random) -> TestResult {
    const N: usize = 70;
    let mut value = |round: usize| -> T {
        let size = size_of::<T>();
        let bytes: Vec<u8> = match round % 4 {
            0 => vec![0; size],
            1 => vec![0xff; size],
            _ => (0..size).map(|_| random.next() as u8).collect(),
        };
        bytemuck::pod_read_unaligned(&bytes)
    };
    let mut now: Vec<T> = vec![value(0); N];
    let mut x = DeviceBuffer::from_slice(&streams[0], &now)?;
    for round in 0..24 {
        let (begin, len) = ((round * 7) % N, (round * 13) % 29);
        let range = begin..(begin + len).min(N);
        let value = value(round);
        x.slice_mut(range.clone())?.fill(&streams[round % streams.len()], value)?;
        now[range].fill(value);
    }
    let seen = x.to_vec(&streams[0])?;
    let (seen, now) = (bytemuck::cast_slice::<T, u8>(&seen), bytemuck::cast_slice::<T, u8>(&now));
    ensure!(seen == now, "{}", std::any::type_name::<T>());
    Ok(())
}

/// Fills parts with values of any size and any bits, signalling NaNs and repeated bytes among them.
///
/// - row: no byte is read as a type that it may not be
/// - row: work that uses the same bytes
/// - targets: `DeviceSliceMut::fill`, `DeviceBuffer::slice_mut`
pub(super) fn fills_of_any_size(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let streams = [context.stream()?, context.stream()?];
    let mut random = Random::new(11);
    fills_of::<u8>(&streams, &mut random)?;
    fills_of::<u16>(&streams, &mut random)?;
    fills_of::<[u8; 3]>(&streams, &mut random)?;
    fills_of::<[u8; 4]>(&streams, &mut random)?;
    fills_of::<f32>(&streams, &mut random)?;
    fills_of::<[u16; 3]>(&streams, &mut random)?;
    fills_of::<f64>(&streams, &mut random)?;
    fills_of::<[u8; 8]>(&streams, &mut random)?;
    fills_of::<[f32; 3]>(&streams, &mut random)?;
    fills_of::<u128>(&streams, &mut random)?;
    fills_of::<[u64; 5]>(&streams, &mut random)?;
    fills_of::<[[u8; 27]; 19]>(&streams, &mut random)?;
    fills_of::<[u32; 2048]>(&streams, &mut random)
}
