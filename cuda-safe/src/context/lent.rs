//! The streams that other code has lent, and the stream that frees memory for those whose calls have ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;

use cuda_sys::CUstream;

use super::ContextInner;
use crate::error::Result;
use crate::stream::{Stream, StreamInner, create};

/// The lent streams by the driver's ids, so that one stream is one [`StreamInner`] in all its calls while anything
/// refers to it: then work of an earlier call is ordered before that of a later one without an event.
#[derive(Default)]
pub(crate) struct LentStreams {
    known: Mutex<Vec<(u64, Weak<StreamInner>)>>,
    /// Threads that were in a call under a capture of other code, and in no other call since.
    capturing: Mutex<Vec<ThreadId>>,
    /// How many of them there are, so that calls outside of captures take no lock.
    count: AtomicUsize,
}

impl LentStreams {
    /// Returns the stream with this id; made by `create` if nothing refers to it.
    pub(crate) fn find(&self, id: u64, create: impl FnOnce() -> Stream) -> Stream {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter_mut().find(|(other, _)| *other == id);
        if let Some((_, stream)) = place {
            if let Some(stream) = stream.upgrade() {
                return Stream::from_inner(stream);
            }
            let made = create();
            *stream = Arc::downgrade(made.inner());
            return made;
        }
        known.retain(|(_, stream)| stream.strong_count() > 0);
        let made = create();
        known.push((id, Arc::downgrade(made.inner())));
        made
    }

    /// Takes note of whether this thread is in a call under a capture of other code.
    pub(crate) fn note_capture(&self, captured: bool) {
        if !captured && self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let this = std::thread::current().id();
        let mut threads = self.capturing.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| *thread != this);
        if captured {
            threads.push(this);
        }
        self.count.store(threads.len(), Ordering::Relaxed);
    }

    /// Returns whether other code may be capturing in the context: its capture was seen, and no call outside of one by
    /// the same thread since.
    #[cfg_attr(
        not(feature = "dlpack"),
        allow(dead_code, reason = "deleters of exported tensors ask")
    )]
    pub(crate) fn may_be_captured(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// A stream on which nothing runs but frees.
#[derive(Default)]
pub(crate) struct Caretaker(Mutex<Option<Raw>>);

struct Raw(CUstream);

// SAFETY: a CUstream may be used from any thread.
unsafe impl Send for Raw {}

impl Caretaker {
    /// Returns the driver's stream, which is made at the first call. It lives as long as the context.
    pub(crate) fn stream(&self, context: &ContextInner) -> Result<CUstream> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Raw(raw)) = &*made {
            return Ok(*raw);
        }
        let raw = create(context, 0)?;
        *made = Some(Raw(raw));
        Ok(raw)
    }

    /// Destroys the stream, which does not wait: the frees on it are still done.
    pub(super) fn destroy(&self, context: &ContextInner) -> Result<()> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match made {
            // SAFETY: ours, and taken by this call alone.
            Some(Raw(raw)) => unsafe { call!(context, cuStreamDestroy_v2(raw)) },
            None => Ok(()),
        }
    }
}
