//! The streams that other code has lent, and the stream that frees memory for those whose calls have ended.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use cuda_sys::CUstream;

use super::lent_slot::Slot;
use super::{ContextInner, Owner, this_thread};
use crate::error::Result;
use crate::memory::Views;
use crate::stream::{Stream, StreamInner, create};
use crate::sync::Lock;

/// About how many streams a context keeps between calls.
const MOST_IDLE: usize = 16;

/// The lent streams by the driver's ids, so that one stream is one [`StreamInner`] in all its calls while anything
/// refers to it: then work of an earlier call is ordered before that of a later one without an event.
#[derive(Default)]
pub(crate) struct LentStreams {
    /// What the last call has left. Most programs lend one stream, so most calls need not look for theirs.
    last: Slot<Idle>,
    known: Lock<Vec<Known>>,
    /// Threads that were in a call under a capture of other code, and in no other call since.
    capturing: Lock<Vec<u64>>,
    /// How many of them there are, so that calls outside of captures take no lock.
    count: AtomicUsize,
}

/// A stream that was lent before.
struct Known {
    /// The driver's number, which it never uses again.
    id: u64,
    stream: Weak<StreamInner>,
    /// What a call has left for the next one, unless it lies in `last`: to make it anew costs more than a call of the
    /// driver.
    idle: Option<Box<Idle>>,
}

/// A stream between two calls, to which nothing refers, with memory that its next views can lie in.
pub(crate) struct Idle {
    /// The driver's number of the stream; 0 for one that is captured.
    id: u64,
    pub(crate) stream: Stream,
    pub(crate) views: RefCell<Views>,
}

impl Idle {
    pub(crate) fn new(id: u64, stream: Stream) -> Box<Self> {
        Box::new(Self { id, stream, views: RefCell::default() })
    }

    fn id(&self) -> u64 {
        self.id
    }
}

impl LentStreams {
    /// Returns the stream with this id, if anything refers to it or an earlier call has left it.
    #[inline]
    pub(crate) fn find(&self, id: u64) -> Option<Box<Idle>> {
        match self.last.take() {
            Some(idle) if idle.id() == id => Some(idle),
            other => self.find_known(id, other),
        }
    }

    /// Returns the stream if it is known. `other` is what a call on another stream has left.
    #[cold]
    fn find_known(&self, id: u64, other: Option<Box<Idle>>) -> Option<Box<Idle>> {
        if let Some(other) = other {
            self.put_aside(other);
        }
        let mut known = self.known.lock().ok()?;
        let known = known.iter_mut().find(|known| known.id == id)?;
        let join = || Some(Idle::new(id, Stream::from_inner(known.stream.upgrade()?)));
        known.idle.take().or_else(join)
    }

    /// Puts what a call has left where calls look for their stream.
    #[cold]
    fn put_aside(&self, left: Box<Idle>) {
        let id = left.id();
        let Ok(mut known) = self.known.lock() else { return };
        let known_before = known.iter_mut().find(|known| known.id == id);
        let replaced = match known_before {
            Some(known) => known.idle.replace(left),
            None => Some(left),
        };
        drop(known);
        // `replaced` is dropped where no lock is held.
        drop(replaced);
    }

    /// Adds a stream that [`find`](Self::find) has not found, unless another thread has added it meanwhile. Returns the
    /// stream that is known.
    #[cold]
    pub(crate) fn add(&self, id: u64, made: Stream) -> Result<Box<Idle>> {
        let mut known = self.known.lock()?;
        known.retain(|known| known.id == id || known.stream.strong_count() > 0);
        // `evicted` is dropped where no lock is held.
        let mut evicted = None;
        if known.iter().filter(|known| known.idle.is_some()).count() >= MOST_IDLE {
            evicted = known.iter_mut().find_map(|known| known.idle.take());
        }
        let found = match known.iter_mut().find(|known| known.id == id) {
            Some(known) => match (known.idle.take(), known.stream.upgrade()) {
                (Some(idle), _) => idle,
                (None, Some(stream)) => Idle::new(id, Stream::from_inner(stream)),
                (None, None) => {
                    known.stream = Arc::downgrade(made.inner());
                    Idle::new(id, made)
                }
            },
            None => {
                known.push(Known { id, stream: Arc::downgrade(made.inner()), idle: None });
                Idle::new(id, made)
            }
        };
        drop(known);
        drop(evicted);
        Ok(found)
    }

    /// Leaves a stream to which nothing refers for the next call.
    #[inline]
    pub(crate) fn leave(context: &ContextInner, left: Box<Idle>) {
        if !matches!(context.owner, Owner::Primary) {
            // The stream holds its context. The primary one is kept until `close`, which calls `forget`; another one
            // would never be dropped.
            return;
        }
        if let Some(other) = context.lent.last.leave(left) {
            context.lent.put_aside(other);
        }
    }

    /// Drops what is left for later calls.
    pub(super) fn forget(&self) {
        drop(self.last.take());
        let idle: Vec<_> = {
            let Ok(mut known) = self.known.lock() else { return };
            known.iter_mut().filter_map(|known| known.idle.take()).collect()
        };
        drop(idle);
    }

    /// Takes note of whether this thread is in a call under a capture of other code.
    #[inline]
    pub(crate) fn note_capture(&self, captured: bool) {
        if captured || self.may_be_captured() {
            self.change_capturing(captured);
        }
    }

    #[cold]
    fn change_capturing(&self, captured: bool) {
        let this = this_thread();
        let Ok(mut threads) = self.capturing.lock() else { return };
        threads.retain(|thread| *thread != this);
        if captured {
            threads.push(this);
        }
        self.count.store(threads.len(), Ordering::Relaxed);
    }

    /// Returns whether other code may be capturing in the context: its capture was seen, and no call outside of one by
    /// the same thread since.
    pub(crate) fn may_be_captured(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// A stream on which nothing runs but frees.
#[derive(Default)]
pub(crate) struct Caretaker(Lock<Option<Raw>>);

struct Raw(CUstream);

// SAFETY: a CUstream may be used from any thread.
unsafe impl Send for Raw {}

impl Caretaker {
    /// Returns the driver's stream, which is made at the first call. It lives as long as the context.
    pub(crate) fn stream(&self, context: &ContextInner) -> Result<CUstream> {
        let mut made = self.0.lock()?;
        if let Some(Raw(raw)) = &*made {
            return Ok(*raw);
        }
        let raw = create(context, 0)?;
        *made = Some(Raw(raw));
        Ok(raw)
    }

    /// Destroys the stream, which does not wait: the frees on it are still done.
    pub(super) fn destroy(&self, context: &ContextInner) -> Result<()> {
        let made = self.0.lock()?.take();
        match made {
            // SAFETY: ours, and taken by this call alone.
            Some(Raw(raw)) => unsafe { call!(context, cuStreamDestroy_v2(raw)) },
            None => Ok(()),
        }
    }
}
