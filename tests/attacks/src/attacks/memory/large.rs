//! Attacks by boxes that are larger than what is staged at once, and on the versions of memory.

use cuda_safe::{
    DeviceBuffer, Extent, LaunchConfig, PinnedBuffer, PitchedLayout, UnifiedBuffer, kernels,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: the kernel touches no memory.
    unsafe in r#"
        extern "C" __global__ void look(const unsigned* y, unsigned* x, unsigned n) {}
    "# {
        safe fn look(y: &[u32], x: &mut [u32], n: u32) where n <= y.len(), n <= x.len();
    }
}

/// Copies boxes of very long, very short and very many rows in several threads, and changes the source at once.
///
/// - row: boxes stay inside both slices
/// - row: a host slice is not read or written after the call
/// - row: threads that help with a copy have left its slices
/// - targets: `DeviceBuffer::upload_3d`, `DeviceBuffer::download_3d`, `Context::set_copy_threads`
pub(super) fn boxes_larger_than_what_is_staged(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    context.set_copy_threads(3);
    let extent = Extent::from(match lab.variant() {
        "wide" => ((1 << 20) + 3, 2, 1),
        "tall" => (3, 40_000, 1),
        _ => (7, 5, 4_000),
    });
    let ended = std::thread::scope(|scope| {
        let threads = [1u8, 2].map(|number| {
            let context = &context;
            scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                let Extent { width, height, .. } = extent;
                let gaps = PitchedLayout {
                    offset: 5,
                    row_pitch: width + 2,
                    slice_pitch: (width + 2) * height + 1,
                };
                let compact = PitchedLayout::compact(extent);
                let (len, long) = (compact.len(extent)?, gaps.len(extent)?);
                let mut x = DeviceBuffer::<u8>::zeroed(&stream, long)?;
                let element = |i: usize| (i * 7 + i / 251) as u8 ^ number;
                let mut source: Vec<u8> = (0..len).map(element).collect();
                x.upload_3d(&stream, gaps, &source, compact, extent)?;
                source.fill(0xee);
                drop(source);
                let mut target = vec![0xcc; long];
                x.download_3d(&stream, gaps, &mut target, gaps, extent)?;
                let mut next = 0;
                for (place, seen) in target.iter().enumerate() {
                    let inside = place.checked_sub(5).is_some_and(|place| {
                        let (z, rest) = (place / gaps.slice_pitch, place % gaps.slice_pitch);
                        let (y, x) = (rest / gaps.row_pitch, rest % gaps.row_pitch);
                        z < extent.depth && y < height && x < width
                    });
                    let wanted = if inside { element(next) } else { 0xcc };
                    next += usize::from(inside);
                    ensure!(*seen == wanted, "{place}: {seen:#x} instead of {wanted:#x}");
                }
                ensure_eq!(next, len);
                let whole = x.to_vec(&stream)?;
                ensure!(whole[..5] == [0; 5] && whole[5] == element(0), "{:?}", &whole[..6]);
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}

/// Writes memory by every means there is, and looks whether its version grows, and that of what is read does not.
///
/// - row: work that uses the same bytes
/// - targets: `Allocation::version`, `DeviceSliceMut::upload_pinned`, `DeviceSliceMut::copy_from_peer`,
///   `DeviceSliceMut::cast_mut`, `UnifiedBuffer::host_mut`, `UnifiedBuffer::allocation`, `Context::capture`
pub(super) fn writes_that_leave_no_version(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let y = DeviceBuffer::from_slice(&stream, &[1u32; 64])?;
    let read = (y.allocation().clone(), y.allocation().version(0..256));
    let mut x = UnifiedBuffer::<u32>::pinned(&stream, 64)?;
    let memory = x.allocation().clone();
    let mut last = memory.version(0..256);
    let mut grown = |what: &str| {
        let now = memory.version(0..256);
        ensure!(now > last, "{what} has left version {last}");
        last = now;
        Ok(())
    };
    let row = PitchedLayout::compact((64, 1));
    x.as_slice_mut().upload(&stream, &[2; 64])?;
    grown("an upload")?;
    x.as_slice_mut().fill(&stream, 2)?;
    grown("a fill")?;
    x.slice_mut(63..)?.cast_mut::<u8>()?.slice_mut(3..)?.fill(&stream, 2)?;
    grown("a fill of a byte")?;
    x.copy_from(&stream, &y)?;
    grown("a copy")?;
    x.as_slice_mut().upload_3d(&stream, row, &[3; 64], row, (64, 1))?;
    grown("an upload of a box")?;
    x.as_slice_mut().copy_3d_from(&stream, row, &y, row, (64, 1))?;
    grown("a copy of a box")?;
    x.as_slice_mut().copy_from_peer(&stream, &y)?;
    grown("a copy from a peer")?;
    drop(x.as_slice_mut().upload_pinned(&stream, PinnedBuffer::zeroed(&context, 64)?)?);
    grown("a transfer")?;
    kernels.look(&stream, LaunchConfig::new(1, 1), &y, &mut x, 64)?;
    grown("a launch")?;
    drop(x.host_mut()?);
    grown("a guard")?;
    let mut graph = context.capture(Some(x), |s, x| match x {
        Some(x) => kernels.look(s, LaunchConfig::new(1, 1), &y, x, 64),
        None => Ok(()),
    })?;
    grown("a recording")?;
    let x = graph.state_mut().take();
    for _ in 0..3 {
        graph.launch(&stream)?;
        grown("a launch of a graph")?;
    }
    let mut copy = graph.try_clone(())?;
    copy.launch(&context.stream()?)?;
    grown("a launch of a graph's clone")?;
    drop((graph, copy));
    let Some(x) = x else { return Ok(()) };
    ensure_eq!(x.host()?.len(), 64);
    ensure_eq!(x.as_slice().to_vec(&stream)?.len(), 64);
    ensure!(grown("a read").is_err(), "a read counts as a write");
    ensure_eq!(read.0.version(0..256), read.1, "reads count as writes");
    Ok(())
}
