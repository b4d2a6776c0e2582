//! Recording into a graph that other code captures: the framework that has lent its stream for a call.
//!
//! The launches of such a graph are unknown here. So the graph keeps what its nodes use, by a user object of the
//! driver's, and memory of this crate is read-only as long as the graph lives. Memory that was lent belongs to the
//! framework, which keeps it as for its own nodes; memory that is allocated in the call is the graph's.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cuda_sys::{
    CUdeviceptr, CUgraph, CUresult, CUstream, CUstreamCaptureStatus, CUuserObject_flags,
    CUuserObjectRetain_flags,
};

use super::driver::{self, RawNode};
use super::recording::{Capture, Contents, Recording, Target};
use crate::caller::forked;
use crate::context::{ContextInner, Deferred, DeferredFrees};
use crate::error::{Error, Result};
use crate::memory::{Access, Allocation, Used};
use crate::quiet::{Kept, Token, quietly};
use crate::stream::{StreamInner, mixes_with_capture};
use crate::sync::Lock;

/// What a graph of other code keeps.
struct Retained {
    /// Where it goes when the graph is gone: the driver's destructor must not call the driver.
    deferred: Arc<DeferredFrees>,
    contents: Lock<Vec<Item>>,
}

enum Item {
    /// A range of memory that the graph reads.
    Memory(Arc<Allocation>, Range<usize>),
    Other(Kept),
}

/// The part of a recording that belongs to other code's capture.
pub(super) struct LentRecording {
    retained: Arc<Retained>,
    /// Memory that was allocated in the call, and not freed so far.
    allocated: Vec<CUdeviceptr>,
}

/// A capture of other code, as it is when a call begins.
pub(crate) struct Capturing {
    graph: CUgraph,
    tail: Arc<[RawNode]>,
}

/// Returns what is captured on the stream; `None` if nothing is.
///
/// # Errors
/// The capture was invalidated; or, on the legacy stream, a capture would be by any work.
pub(crate) fn capture_of(context: &ContextInner, stream: CUstream) -> Result<Option<Capturing>> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is live, and `status` is a valid place for the result.
    match unsafe { context.sys().cuStreamIsCapturing(stream, &raw mut status) } {
        Ok(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) => return Err(mixes_with_capture()),
        result => context.answer("cuStreamIsCapturing", result)?,
    }
    match status {
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(None),
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => {
            let (graph, tail) = driver::capturing(context, stream)?;
            Ok(Some(Capturing { graph, tail }))
        }
        _ => Err(Error::invalid(format!(
            "the capture of the lent stream {stream:p} was invalidated before the call"
        ))
        .with_hint("end the capture, which fails, and capture again")),
    }
}

impl Capture {
    /// Returns a recording into a graph that other code captures on a stream.
    ///
    /// # Errors
    /// The driver's error; the graph is unchanged then.
    pub(crate) fn of_lent(context: &ContextInner, capturing: &Capturing) -> Result<Arc<Self>> {
        let retained = Arc::new(Retained {
            deferred: context.deferred.clone(),
            contents: Lock::new(Vec::new()),
        });
        retain(context, capturing.graph, &retained)?;
        let this = Self::new();
        this.lock()?.lent = Some(LentRecording { retained, allocated: Vec::new() });
        Ok(this)
    }

    /// Begins to record on the stream.
    pub(crate) fn begin_lent(&self, stream: &StreamInner, capturing: Capturing) -> Result<()> {
        self.lock()?.begin(stream, capturing.tail);
        Ok(())
    }

    /// Ends the recording, not the capture. Memory that was allocated and not freed is freed in the graph.
    ///
    /// # Errors
    /// What was allocated outlives the call, or recording has failed.
    pub(crate) fn end_lent(&self, stream: &StreamInner) -> Result<()> {
        let context = &*stream.context;
        let (left, freed) = {
            let mut recording = self.lock()?;
            let left = recording
                .lent
                .as_mut()
                .map_or_else(Vec::new, |lent| std::mem::take(&mut lent.allocated));
            let free = |&start: &CUdeviceptr| driver::free(context, stream.raw, start);
            let freed = left.iter().map(free).fold(Ok(()), Result::and);
            recording.target = Target::Ended;
            recording.lent = None;
            (left.len(), freed)
        };
        // `contents` is dropped where no lock is held: the graph holds its resources by now.
        let mut contents: Contents = self.empty()?;
        let failure = contents.failures.first();
        contents.failures.report(context);
        if let Some(error) = failure {
            return Err(error);
        }
        freed?;
        if left > 0 {
            return Err(Error::invalid(format!(
                "{left} buffers that were made while the framework captures outlive the call"
            ))
            .with_hint(
                "under a capture, drop them in the call, take results from the framework, or set its allocator",
            ));
        }
        Ok(())
    }
}

impl Recording {
    /// Fails where other code captures: `what` needs the graph, or streams, for longer than the call.
    pub(crate) fn not_of_others(&self, what: &str) -> Result<()> {
        match &self.lent {
            Some(_) => {
                Err(Error::invalid(format!("{what} is not possible in a capture of other code")))
            }
            None => Ok(()),
        }
    }
}

impl LentRecording {
    /// Lets the graph keep the memory of a use, which is about to be recorded. Not for memory that was lent or allocated
    /// in this call.
    ///
    /// # Errors
    /// The use can't be recorded into a graph of other code.
    pub(super) fn admit(&self, (allocation, range, access): &Used<'_>) -> Result<()> {
        if allocation.is_lent() {
            return Err(Error::invalid("the memory was lent for another call"));
        }
        if *access == Access::Write {
            return Err(Error::invalid(
                "memory of this crate can't be written while the framework captures: its launches would not be \
                 ordered with other uses",
            )
            .with_hint("write to lent memory, or to memory that is made and dropped in the call"));
        }
        if allocation.is_visible() {
            return Err(Error::invalid(
                "memory that the host sees can't be used while the framework captures: the host could not wait for \
                 the launches of the graph",
            ));
        }
        let mut contents = self.retained.contents.lock()?;
        let known = |item: &Item| {
            matches!(item, Item::Memory(other, kept)
                if Arc::ptr_eq(other, allocation) && kept.start <= range.start && range.end <= kept.end)
        };
        if contents.iter().any(known) {
            return Ok(());
        }
        allocation.freeze(range)?;
        contents.push(Item::Memory(Arc::clone(allocation), range.clone()));
        Ok(())
    }

    /// Lets the graph keep something.
    pub(super) fn keep(&self, kept: Kept) {
        // The caller holds the recording, so the lock does not refuse it.
        if let Ok(mut contents) = self.retained.contents.lock() {
            contents.push(Item::Other(kept));
        }
    }

    pub(super) fn allocated(&mut self, start: CUdeviceptr) {
        self.allocated.push(start);
    }

    pub(super) fn freed(&mut self, start: CUdeviceptr) {
        self.allocated.retain(|other| *other != start);
    }
}

/// Makes a graph keep what `retained` will hold.
fn retain(context: &ContextInner, graph: CUgraph, retained: &Arc<Retained>) -> Result<()> {
    context.state.usable()?;
    let data = Arc::into_raw(retained.clone()).cast_mut().cast::<c_void>();
    let mut object = std::ptr::null_mut();
    let flags = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
    // SAFETY: `object` is a valid place for a handle, and `release` takes the data once.
    let made = unsafe {
        call!(context, cuUserObjectCreate(&raw mut object, data, Some(release), 1, flags))
    };
    if let Err(error) = made {
        // SAFETY: the driver has not taken the data.
        drop(unsafe { Arc::from_raw(data.cast_const().cast::<Retained>()) });
        return Err(error);
    }
    let flags = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE.0;
    // SAFETY: both are live, and the graph takes over the one reference.
    let kept = unsafe { call!(context, cuGraphRetainUserObject(graph, object, 1, flags)) };
    if kept.is_err() && context.state.is_usable() {
        // SAFETY: the reference is still ours; the driver calls `release`.
        context.keep_drop_result(unsafe { call!(context, cuUserObjectRelease(object, 1)) });
    }
    kept
}

/// Called by the driver when the graph, all that was made from it and their launches are gone. It must not call the
/// driver, so it drops nothing.
unsafe extern "C" fn release(data: *mut c_void) {
    if forked() {
        return;
    }
    quietly(|| {
        // SAFETY: the pointer of `retain`, whose reference the driver gives back by this call.
        let retained = unsafe { Arc::from_raw(data.cast_const().cast::<Retained>()) };
        // What a subscriber makes the driver release here is leaked by the drops of `retained`.
        let Ok(mut locked) = retained.contents.lock_in_host_function() else { return };
        let contents = std::mem::take(&mut *locked);
        drop(locked);
        if contents.is_empty() {
            return;
        }
        for item in &contents {
            if let Item::Memory(allocation, range) = item {
                allocation.thaw(range);
            }
        }
        let kept: Vec<Kept> = contents
            .into_iter()
            .map(|item| match item {
                Item::Memory(allocation, _) => Kept::new(allocation),
                Item::Other(kept) => kept,
            })
            .collect();
        retained.deferred.put(Deferred::Retired(Token::new(Box::new(kept))));
    });
}
