//! Work on several streams that another library enqueues by one call.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, MutexGuard};

use super::{Stream, StreamInner};
use crate::context::{ContextInner, HeldGraphLock};
use crate::error::{Error, Result};
use crate::memory::{Access, AnyRecording, DirectEnqueuing, Enqueue, ReadView, Used, WriteView};
use crate::quiet::Kept;

/// Collects the uses of work on several streams, perhaps of several contexts, that another library enqueues by one call:
/// a group of NCCL's collectives, say. [`Stream::enqueue`] is the same for one stream.
///
/// [`run`](Self::run) orders all uses, makes the call, and only then numbers and records all of them. One
/// [`Stream::enqueue`] for each stream would number work of the first streams before it is enqueued.
///
/// The views stay borrowed until the call, so no byte that one stream writes is used by another one of the group.
///
/// ```no_run
/// # use cuda_safe::{Context, DeviceBuffer, EnqueueGroup, Result, Stream, sys::CUstream};
/// # unsafe fn exchange(streams: [CUstream; 2], x: [u64; 2], bytes: usize) -> i32 { 0 }
/// # fn run(streams: [&Stream; 2], x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> Result<()> {
/// let (addresses, bytes) = ([x.device_ptr(), y.device_ptr()], x.size_bytes());
/// let raw = streams.map(Stream::as_raw);
/// let mut group = EnqueueGroup::new();
/// group.write(streams[0], x).write(streams[1], y);
/// // SAFETY: `exchange` enqueues on the two streams alone; on each it uses that stream's buffer, within bounds.
/// let status = unsafe { group.run(|| exchange(raw, addresses, bytes)) }?;
/// assert_eq!(status, 0);
/// # Ok(()) }
/// ```
#[derive(Default)]
#[must_use = "`run` makes the call"]
pub struct EnqueueGroup<'a> {
    /// Each stream once. Not a list with a `Drop` of its own, such as `SmallVec`: its views would be borrowed until the group
    /// is dropped, also after its last use.
    streams: Vec<&'a Stream>,
    /// The uses, each with the index of its stream.
    uses: Vec<(usize, Used<'a>)>,
}

impl<'a> EnqueueGroup<'a> {
    /// Returns a group without streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a stream on which the call enqueues work. Streams of uses need not be added.
    pub fn stream(&mut self, stream: &'a Stream) -> &mut Self {
        self.index(stream);
        self
    }

    /// Adds memory that the work on `stream` reads.
    pub fn read<T: Copy + 'static>(
        &mut self,
        stream: &'a Stream,
        view: impl ReadView<'a, T>,
    ) -> &mut Self {
        let (index, view) = (self.index(stream), view.read_view());
        self.uses.push((index, (view.allocation(), view.byte_range(), Access::Read)));
        self
    }

    /// Adds memory that the work on `stream` may write.
    pub fn write<T: Copy + 'static>(
        &mut self,
        stream: &'a Stream,
        view: impl WriteView<'a, T>,
    ) -> &mut Self {
        let (index, view) = (self.index(stream), view.write_view());
        self.uses.push((index, (view.allocation(), view.byte_range(), Access::Write)));
        self
    }

    fn index(&mut self, stream: &'a Stream) -> usize {
        match self.streams.iter().position(|known| *known == stream) {
            Some(index) => index,
            None => {
                self.streams.push(stream);
                self.streams.len() - 1
            }
        }
    }

    /// Orders all uses behind those before them, makes the call, and records the uses for those to come.
    ///
    /// They are recorded whatever the call returns, and also if it panics: it may have enqueued a part of its work. On
    /// streams that record, the work becomes part of their graphs, which keep the memory.
    ///
    /// # Errors
    /// A use can't be ordered, some of the streams record and others do not, or this thread is within a closure of
    /// [`Stream::graph_lock`] that does not hold the lock of each context whose memory graphs use; the call is then not
    /// made. The caller must check what the call itself returns.
    ///
    /// # Safety
    /// `call` must not call this crate, some of whose locks are held: it would deadlock. It enqueues work only on the
    /// streams of the group, and the work on each stream uses device memory of this crate only as the group says of that
    /// stream. All other resources of the work live until it has run; on a stream that records, as long as the graph
    /// ([`Stream::retain`]).
    pub unsafe fn run<R>(self, call: impl FnOnce() -> R) -> Result<R> {
        let mut held = Held::of(&self)?;
        for (index, used) in &self.uses {
            held.begin_use(self.streams[*index], used.clone())?;
        }
        let output = catch_unwind(AssertUnwindSafe(call));
        for (index, stream) in self.streams.iter().enumerate() {
            let uses = self.uses.iter().filter(|(of, _)| *of == index).map(|(_, used)| used);
            held.record(stream, uses);
        }
        drop(held);
        output.or_else(|panic| resume_unwind(panic))
    }
}

impl fmt::Debug for EnqueueGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueGroup")
            .field("streams", &self.streams.len())
            .field("uses", &self.uses.len())
            .finish()
    }
}

/// The locks of a group, from the ordering of its uses to their recording.
enum Held<'a> {
    /// No stream records.
    Direct {
        /// The contexts with memory that graphs use, whose graph locks are held.
        contexts: Vec<*const ContextInner>,
        graph_lock: Option<HeldGraphLock<'a>>,
    },
    /// All streams record. The recordings, with their numbers.
    Recording(Vec<(u64, MutexGuard<'a, dyn AnyRecording + 'static>)>),
}

impl<'a> Held<'a> {
    fn of(group: &EnqueueGroup<'a>) -> Result<Self> {
        for stream in &group.streams {
            stream.inner().usable_here()?;
        }
        let recording = group.streams.iter().filter(|stream| stream.is_recording()).count();
        if recording == 0 {
            Self::direct(group)
        } else if recording == group.streams.len() {
            Self::recordings(group)
        } else {
            Err(Error::invalid(format!(
                "{recording} of {} streams of a group record a graph and the others do not",
                group.streams.len()
            ))
            .with_hint("enqueue on the streams that record and on the others by two groups"))
        }
    }

    fn direct(group: &EnqueueGroup<'a>) -> Result<Self> {
        let mut inners: Vec<&'a StreamInner> = Vec::new();
        for (index, (allocation, ..)) in &group.uses {
            let inner: &'a StreamInner = group.streams[*index].inner();
            let is_new = |known: &&StreamInner| !Arc::ptr_eq(&known.context, &inner.context);
            if allocation.is_captured() && inners.iter().all(is_new) {
                inners.push(inner);
            }
        }
        let mut locks = inners.iter().map(|inner| &inner.context.graph_lock);
        let graph_lock = match locks.next() {
            Some(first) => first.take_with(locks)?,
            None => None,
        };
        let contexts = inners.iter().map(|inner| Arc::as_ptr(&inner.context)).collect();
        Ok(Self::Direct { contexts, graph_lock })
    }

    fn recordings(group: &EnqueueGroup<'a>) -> Result<Self> {
        let mut captures: Vec<(u64, &'a StreamInner)> = group
            .streams
            .iter()
            .filter_map(|stream| {
                let inner: &'a StreamInner = stream.inner();
                Some((inner.capture.as_ref()?.number(), inner))
            })
            .collect();
        // The order is fixed, so that a thread that waits for a recording holds only earlier ones.
        captures.sort_by_key(|(number, _)| *number);
        let mut recordings: Vec<(u64, MutexGuard<'a, dyn AnyRecording + 'static>)> = Vec::new();
        for (number, stream) in captures {
            match recordings.last_mut() {
                Some((last, recording)) if *last == number => recording.may_enqueue(stream)?,
                _ => {
                    let Some(capture) = &stream.capture else { continue };
                    let recording = capture.enter(stream)?;
                    recording.captures()?;
                    recordings.push((number, recording));
                }
            }
        }
        Ok(Self::Recording(recordings))
    }

    fn begin_use(&mut self, stream: &'a Stream, used: Used<'a>) -> Result<()> {
        match self {
            Self::Direct { contexts, graph_lock } => {
                let is_locked = contexts.contains(&Arc::as_ptr(&stream.inner().context));
                if used.0.is_captured() && !is_locked {
                    // Another thread has just begun to read it in a graph.
                    return Err(Error::invalid(
                        "a graph was recorded with memory of a group while the group was enqueued",
                    )
                    .with_hint("enqueue the group again"));
                }
                DirectEnqueuing::on(stream, graph_lock)?.begin_use(used)
            }
            Self::Recording(recordings) => match recording_of(recordings, stream.inner()) {
                Some(recording) => recording.begin_use(stream.inner(), used, false),
                None => Ok(()),
            },
        }
    }

    /// Numbers the work of a stream and records its uses.
    fn record<'u>(&mut self, stream: &'a Stream, uses: impl Iterator<Item = &'u Used<'a>>)
    where
        'a: 'u,
    {
        match self {
            Self::Direct { .. } => {
                let sequence = stream.inner().number();
                for (allocation, range, access) in uses {
                    allocation.end_use(stream, range.clone(), *access, sequence);
                }
            }
            Self::Recording(recordings) => {
                let Some(recording) = recording_of(recordings, stream.inner()) else { return };
                let sequence = recording.number(stream.inner());
                for used in uses {
                    recording.end_use(stream.inner(), used.clone(), sequence);
                }
            }
        }
    }
}

fn recording_of<'r>(
    recordings: &'r mut [(u64, MutexGuard<'_, dyn AnyRecording + 'static>)],
    stream: &StreamInner,
) -> Option<&'r mut (dyn AnyRecording + 'static)> {
    let number = stream.capture.as_ref()?.number();
    recordings.iter_mut().find(|(of, _)| *of == number).map(|(_, recording)| &mut **recording)
}

impl Stream {
    /// Keeps a value as long as the graph that the stream records: for resources of work that
    /// [`enqueue`](Self::enqueue) or an [`EnqueueGroup`] records, such as a library's handle. Does nothing on other
    /// streams. A value that the graph keeps already is kept once.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the recording has ended, or another thread runs it.
    pub fn retain<T: Any + Send + Sync>(&self, value: Arc<T>) -> Result<()> {
        match &self.inner().capture {
            None => Ok(()),
            Some(capture) => {
                capture.enter(self.inner())?.keep(Kept::new(value));
                Ok(())
            }
        }
    }

    /// Returns whether the stream belongs to this context.
    #[must_use]
    #[inline]
    pub fn is_of(&self, context: &crate::Context) -> bool {
        Arc::ptr_eq(&self.inner().context, context.inner())
    }
}
