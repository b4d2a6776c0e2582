//! Copies between devices on streams that record.
//!
//! The driver does not capture copies that name contexts (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`; driver 580, two
//! H100s). It captures copies by address if both devices have access to each other's memory, and copies between a device
//! and pinned memory while the device's context is current.

use crate::error::{Error, Result};
use crate::graph::Capture;
use crate::memory::{AnyRecording, Enqueue, Enqueuing, Staged, Used};
use crate::quiet::Kept;
use crate::stream::Stream;

/// Records a copy between memory of two contexts of one driver, of which the stream has one: from the first use to the
/// second one.
pub(super) fn copy(stream: &Stream, capture: &Capture, uses: [Used<'_>; 2]) -> Result<()> {
    let inner = stream.inner();
    let [(from, source, _), (to, target, _)] = &uses;
    let bytes = source.len();
    // The check comes before anything is allocated or recorded.
    {
        let recording = capture.enter(inner)?;
        recording.captures()?;
        recording.not_in_body("memory can't be copied between devices")?;
        recording.not_of_others("a copy between devices")?;
        for memory in [from, to] {
            recording.may_use(inner, memory, true)?;
        }
    }
    if from.is_of_graph() || to.is_of_graph() {
        return Err(Error::invalid(
            "memory that was allocated in a capture can't be copied between devices",
        )
        .with_hint("allocate it before the capture, and put it into the state"));
    }
    if from.is_visible() || to.is_visible() {
        return Err(Error::invalid(
            "a copy between devices of memory that the host sees can't be recorded",
        )
        .with_hint("copy it to device memory of the same context first, by `copy_from`"));
    }
    if bytes == 0 {
        return Ok(());
    }
    let context = |memory: &crate::memory::Allocation| memory.home_stream().inner().context.clone();
    let (from_context, to_context) = (context(from), context(to));
    let direct =
        from.reachable_from(&to_context).is_ok() && to.reachable_from(&from_context).is_ok();
    let source = from.device_ptr() + source.start as u64;
    let target = to.device_ptr() + target.start as u64;
    let between = match direct {
        true => None,
        false => Some(Staged::new(&inner.context, bytes)?),
    };
    if let Some(between) = &between {
        // Before the copies are recorded, and also if recording fails: part of it may have been recorded nevertheless.
        capture.enter(inner)?.keep_resource(Kept::new(between.clone()));
    }
    let copy = || match between.as_deref().map(Staged::start) {
        None => inner.context.with_current(|| {
            // SAFETY: both ranges lie in allocations that the caller holds and the graph keeps, and their devices have
            // access to each other's memory.
            unsafe { call!(inner, cuMemcpyDtoDAsync_v2(target, source, bytes, inner.raw)) }
        }),
        Some(between) => {
            let between = between.as_ptr().cast();
            from_context.with_current(|| {
                // SAFETY: the memory in between has room for that many bytes, is kept by the graph and used by this
                // node and the next alone; two launches of them never overlap, since both write the target.
                unsafe { call!(inner, cuMemcpyDtoHAsync_v2(between, source, bytes, inner.raw)) }
            })?;
            to_context.with_current(|| {
                // SAFETY: as above, and the node follows the other on its stream.
                unsafe { call!(inner, cuMemcpyHtoDAsync_v2(target, between, bytes, inner.raw)) }
            })
        }
    };
    let mut enqueuing = Enqueuing::of_no_launch(stream)?;
    enqueuing.between_contexts();
    let enqueued = enqueuing.run(&uses, None, |_| Ok(copy()))?;
    enqueued.recorded.and(enqueued.output)
}
