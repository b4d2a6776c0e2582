//! The tape: a recording, and passes backwards through it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Allocation, DeviceBuffer, DeviceSlice, Error, Result, Stream};

use crate::backward::{Pass, Place, Plan, Workplace, failed};
use crate::element::{Differentiable, FloatType};
use crate::frame::{FINE, Status, TAPE_OVERFLOW};
use crate::kernels::{self, Kernels};
use crate::marker::Marker;
use crate::record::{NONE, Recorder, Recording};
use crate::seeds::{Given, Seed, Seeds};
use crate::store::Store;
use crate::variable::{Watched, memory_of};

/// A recording of launches, and the gradients that passes backwards through it compute.
///
/// See the [crate's documentation](crate).
pub struct Tape {
    pub(crate) recording: Recording,
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    /// The tape's kernels; the first pass loads them.
    kernels: Option<Kernels>,
    work: Workplace,
    deterministic: bool,
    scratch_bytes: Option<usize>,
    log_bytes: Option<usize>,
    /// Whether a recording is complete, so that gradients can be taken.
    recorded: bool,
    passed: bool,
    /// Whether a pass has begun and not ended because an adjoint in Rust has panicked.
    half_done: bool,
}

impl Tape {
    /// Creates an empty tape. The home stream of its memory (gradients, copies of overwritten values) is `stream`,
    /// preferably the stream of the recordings.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) for a stream that captures: the memory
    /// outlives the capture.
    pub fn new(stream: &Stream) -> Result<Self> {
        if stream.is_recording() {
            return Err(Error::invalid(
                "a tape's memory can't be at home on a stream that captures",
            )
            .with_hint("make the tape before the capture, in its state"));
        }
        Ok(Self {
            recording: Recording::default(),
            plan: Plan::default(),
            store: Store::new(stream),
            kernels: None,
            work: Workplace::default(),
            deterministic: false,
            scratch_bytes: None,
            log_bytes: None,
            recorded: false,
            passed: false,
            half_done: false,
        })
    }

    /// Returns a tape with the launches of `record` on `stream`.
    ///
    /// # Errors
    /// As [`new`](Self::new) and [`record_again`](Self::record_again).
    pub fn record(
        stream: &Stream,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut tape = Self::new(stream)?;
        tape.record_again(stream, record)?;
        Ok(tape)
    }

    /// Records again with the same memory, and replaces the last recording. On a stream that captures, the recorded
    /// work also becomes part of the graph.
    ///
    /// # Errors
    /// The error that `record` returns; the tape then has no recording.
    pub fn record_again(
        &mut self,
        stream: &Stream,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<()>,
    ) -> Result<()> {
        self.recover()?;
        self.reset();
        self.store.enqueues_on(stream);
        self.forget_status(stream)?;
        self.recording.deterministic = self.deterministic;
        self.recording.captured = stream.is_recording();
        // `recorded` is only set after the closure has returned, so that a panic leaves no recording.
        let mut done = record(&mut Recorder::new(&mut self.recording, &mut self.store, stream));
        if stream.is_recording() {
            self.store.graphs_raise |= self.recording.raises;
            // The marker is memory that each launch of the graph writes.
            let marker = done.and_then(|()| Marker::record(stream, &mut self.store));
            done = marker.map(|marker| self.recording.marker = Some(marker));
        }
        if done.is_err() {
            self.recording.clear(&mut self.store);
            return done;
        }
        self.recorded = true;
        Ok(())
    }

    /// Discards a status that primals of an earlier recording have raised, and returns one that graphs have raised as
    /// an error.
    fn forget_status(&mut self, stream: &Stream) -> Result<()> {
        if !self.store.stale {
            return Ok(());
        }
        self.store.clear_status()?;
        if self.store.graphs_raise && stream.is_recording() {
            return Ok(());
        }
        self.store.stale = false;
        if !self.store.graphs_raise {
            return Ok(());
        }
        match self.store.take_status_of_graphs(stream)? {
            Status { code: FINE | TAPE_OVERFLOW, .. } => Ok(()),
            status => {
                self.store.clean_work()?;
                Err(failed(status))
            }
        }
    }

    /// Discards the working memory and the plan of a pass that a panic has ended: both are incomplete.
    fn recover(&mut self) -> Result<()> {
        if self.half_done {
            self.store.clear_status()?;
            self.store.forget_work()?;
            self.plan.clear(&mut self.store);
            self.half_done = false;
        }
        Ok(())
    }

    /// Sets whether gradients have the same bits each time, whatever the order of the threads. Applies to recordings
    /// from now on. Operations that do not declare how often they add are then refused.
    pub fn set_deterministic(&mut self, deterministic: bool) {
        self.deterministic = deterministic;
    }

    /// Sets how much scratch memory adjoints get first, instead of their operations' guesses.
    pub fn set_scratch_bytes(&mut self, bytes: impl Into<Option<usize>>) {
        self.scratch_bytes = bytes.into();
    }

    /// Sets how much memory a deterministic tape has for the summands of an adjoint, instead of the operations'
    /// declarations.
    pub fn set_summand_bytes(&mut self, bytes: impl Into<Option<usize>>) {
        self.log_bytes = bytes.into();
    }

    /// Computes the gradients of `loss`, which is one number, with respect to everything that is watched. They are
    /// ready when the work enqueued on `stream` is done; the host does not wait, unless an adjoint takes scratch
    /// memory or the tape is deterministic.
    ///
    /// Each pass begins with zero gradients: they do not add up over passes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) before anything is enqueued: nothing was recorded;
    /// `loss` is not one number, or was recorded with another type; no differentiable path leads to it from anything
    /// watched; a value that an adjoint needs was overwritten since. Otherwise if the driver returns an error.
    pub fn backward<'a, T: Differentiable>(
        &mut self,
        stream: &Stream,
        loss: impl Watched<'a, T>,
    ) -> Result<()> {
        let loss = memory_of(loss)?;
        let real = T::ELEMENT.real.filter(|real| real.size() == loss.size_bytes());
        let Some(real) = real else {
            return Err(Error::invalid(format!(
                "a loss is one number, not {} bytes",
                loss.size_bytes()
            ))
            .with_hint("`backward_with` takes gradients of outputs of any size"));
        };
        let outputs = [(loss.allocation(), loss.byte_range(), Some(real))];
        self.pass(stream, &outputs, &Given::One(real.gradient()))
    }

    /// Works like [`backward`](Self::backward), with given gradients of several outputs.
    ///
    /// # Errors
    /// As [`backward`](Self::backward); also if two outputs overlap.
    pub fn backward_with(&mut self, stream: &Stream, seeds: &Seeds<'_>) -> Result<()> {
        let of = |seed: &Seed<'_>| seed.range.clone();
        let outputs: Vec<_> =
            seeds.seeds.iter().map(|seed| (&seed.output, of(seed), seed.real)).collect();
        self.pass(stream, &outputs, &Given::Seeds(&seeds.seeds))
    }

    fn pass(
        &mut self,
        stream: &Stream,
        outputs: &[(&Arc<Allocation>, Range<usize>, Option<FloatType>)],
        given: &Given<'_>,
    ) -> Result<()> {
        if !self.recorded {
            return Err(Error::invalid("the tape has no recording to go back through"));
        }
        self.passed = false;
        self.recover()?;
        self.store.enqueues_on(stream);
        if let Some(status) = self.recording.failed {
            return Err(failed(status));
        }
        if !stream.is_recording() {
            if self.store.graphs_raise {
                // A launch of a graph may have raised the status since it was last read.
                self.check(stream)?;
            }
            if self.recording.marker.as_ref().is_some_and(Marker::never_ran) {
                return Err(Error::invalid(
                    "what was recorded in a graph was never launched, so there is nothing to go back through",
                ));
            }
        }
        for (memory, _, real) in outputs {
            self.is_of_type(self.recording.memories.find(memory), *real)?;
        }
        let number = |(memory, range, _): &(&Arc<Allocation>, Range<usize>, Option<FloatType>)| {
            let known = self.recording.memories.find(memory);
            let known =
                known.filter(|known| self.recording.memories.is_active(*known, range.clone()));
            known.map(|known| (known, range.clone())).ok_or_else(|| {
                Error::invalid(
                    "no differentiable path: what the gradient is taken of does not depend on \
                     anything watched",
                )
                .with_hint(
                    "`Recorder::watch` comes before the launches that depend on what it watches",
                )
            })
        };
        // The plan of a captured pass is not reused: its graph uses the gradients at every launch.
        let made = self.plan.made
            && (stream.is_recording() || !self.plan.captured)
            && self.plan.outputs.len() == outputs.len()
            && outputs.iter().zip(&self.plan.outputs).all(|((memory, range, _), known)| {
                self.recording.memories.find(memory) == Some(known.0) && *range == known.1
            });
        if !made {
            let outputs = outputs.iter().map(number).collect::<Result<Vec<_>>>()?;
            self.plan.make(&self.recording, &mut self.store, &outputs)?;
        }
        let stale = |(memory, range): &(u32, Range<usize>)| {
            self.recording.memories.is_stale(*memory, range.clone())
        };
        if self.plan.outputs.iter().any(stale) {
            return Err(self.recording.written_elsewhere("what the gradient is taken of"));
        }
        // The graph uses the gradients and the copies of values at every launch.
        self.plan.captured |= stream.is_recording();
        self.recording.captured |= stream.is_recording();
        self.store.status()?;
        self.half_done = true;
        let done = self.enqueue(stream, given).and_then(|()| self.mark(stream));
        self.plan.unlend();
        self.half_done = false;
        if done.is_err() {
            // The status is read before the memory is discarded, because its error is the first.
            let raises = self.plan.raises || self.recording.marker.is_some();
            if raises
                && !stream.is_recording()
                && let Ok(status) = self.store.take_status(stream)
            {
                self.recording.heard(status);
            }
            let _later = self.store.forget_work();
            self.plan.clear(&mut self.store);
        }
        self.passed = done.is_ok();
        done
    }

    /// Fails if memory was recorded with numbers of another type: its gradient then has another type, too.
    fn is_of_type(&self, memory: Option<u32>, real: Option<FloatType>) -> Result<()> {
        let known = memory.and_then(|memory| self.recording.memories.get(memory)?.real);
        match (known, real) {
            (Some(known), Some(real)) if known != real => Err(Error::invalid(format!(
                "the memory was recorded as {known:?}, not as {real:?}"
            ))),
            _ => Ok(()),
        }
    }

    fn enqueue(&mut self, stream: &Stream, given: &Given<'_>) -> Result<()> {
        let kernels = match &mut self.kernels {
            Some(kernels) => kernels,
            slot => slot.insert(kernels::load(&self.store.home().context())?),
        };
        let mut pass = Pass {
            recording: &mut self.recording,
            plan: &mut self.plan,
            store: &mut self.store,
            kernels,
            stream,
            work: &mut self.work,
            scratch_bytes: self.scratch_bytes,
            log_bytes: self.log_bytes,
            takes: false,
        };
        pass.check_values()?;
        pass.prepare()?;
        pass.take_statuses()?;
        pass.plan.seed(stream, given)?;
        pass.run(0)?;
        if pass.guarded() && stream.is_recording() {
            pass.store.graphs_raise = true;
        } else if pass.guarded() {
            pass.settle()?;
            // The primals were fine; only those of a graph may be launched again.
            self.recording.raises &= self.recording.captured;
        }
        Ok(())
    }

    /// Records a marker after a captured pass, by which the host finds out whether the graph has run.
    fn mark(&mut self, stream: &Stream) -> Result<()> {
        let marker = match stream.is_recording() {
            true => Some(Marker::record(stream, &mut self.store)?),
            false => None,
        };
        if let Some(old) = std::mem::replace(&mut self.plan.marker, marker) {
            old.forget(&mut self.store);
        }
        Ok(())
    }

    /// Returns the gradient with respect to something watched, as the last pass computed it: as many elements, in
    /// memory that the tape reuses for the next pass.
    ///
    /// If something is watched at several points, the last one counts.
    ///
    /// After a captured pass, the gradients exist once its graph was launched. During a capture (of that graph or
    /// another) they can be named before.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if there was no pass, or it was captured and has not
    /// run; if it is not watched; or if no differentiable path leads from it to the outputs.
    pub fn gradient<'a, T: Differentiable>(
        &self,
        what: impl Watched<'a, T>,
    ) -> Result<DeviceSlice<'_, T::Gradient>> {
        let view = memory_of(what)?;
        if !self.passed {
            return Err(Error::invalid("there are no gradients before `backward`"));
        }
        if self.plan.marker.as_ref().is_some_and(Marker::never_ran) && !self.store.captures_now() {
            return Err(Error::invalid(
                "the pass was captured in a graph that was never launched: there are no gradients yet",
            ));
        }
        let memory = self.recording.memories.find(view.allocation());
        self.is_of_type(memory, T::ELEMENT.real)?;
        let range = view.byte_range();
        let within = |of: &Range<usize>| of.start <= range.start && range.end <= of.end;
        let mut watches = self.recording.watches.iter().zip(&self.plan.results);
        let found =
            watches.rfind(|(watch, _)| Some(watch.memory) == memory && within(&watch.range));
        let Some((watch, place)) = found else {
            return Err(Error::invalid("there is no gradient: the memory is not watched")
                .with_hint(
                    "`Recorder::watch` asks for it, before the launches that depend on it",
                ));
        };
        if range.is_empty() {
            // SAFETY: the view has no elements, so any memory will do.
            return unsafe { self.store.known_status()?.allocation().view(0..0) };
        }
        if place.buffer == NONE {
            return Err(Error::invalid(format!(
                "no differentiable path leads from what {} watches to what the gradient is taken of",
                self.recording.name_of(watch.step as usize)
            )));
        }
        let widening = T::ELEMENT.real.map_or(1, FloatType::widening);
        let start = place.offset + (range.start - watch.range.start) * widening;
        let part = start..start + range.len() * widening;
        let buffer = self.plan.buffers.get(place.buffer as usize);
        let buffer = buffer.ok_or_else(|| Error::invalid("the gradient's memory is gone"))?;
        // SAFETY: any bits are a valid `T::Gradient`, which is Pod.
        unsafe { buffer.allocation().view(part) }
    }

    /// Returns the bytes of the gradient with watch index `watch`; `None` if no path leads to it. Waits.
    pub(crate) fn gradient_bytes(&self, stream: &Stream, watch: usize) -> Result<Option<Vec<u8>>> {
        let place = self.plan.results.get(watch).copied().filter(|_| self.passed);
        let found =
            place.and_then(|place| Some((place, self.plan.buffers.get(place.buffer as usize)?)));
        let bytes = |(place, buffer): (Place, &DeviceBuffer<u8>)| {
            buffer.slice(place.range())?.to_vec(stream)
        };
        found.map(bytes).transpose()
    }

    /// Returns the type of the numbers in recorded memory.
    pub(crate) fn number_of(&self, allocation: &Arc<Allocation>) -> Option<FloatType> {
        let memories = &self.recording.memories;
        memories.get(memories.find(allocation)?)?.real
    }

    /// Returns whether some of this memory has gradients.
    pub(crate) fn is_active(&self, allocation: &Arc<Allocation>, range: Range<usize>) -> bool {
        let memories = &self.recording.memories;
        memories.find(allocation).is_some_and(|memory| memories.is_active(memory, range))
    }

    /// Waits, and returns the errors of passes that were captured or could not wait: an adjoint had too little
    /// memory, or was compiled for another version of the tape.
    ///
    /// # Errors
    /// The first such error.
    pub fn check(&mut self, stream: &Stream) -> Result<()> {
        let mut status = self.store.take_status_of_graphs(stream)?;
        if status.code == FINE {
            status = self.store.take_status(stream)?;
        }
        if status.code == FINE {
            return Ok(());
        }
        self.recording.heard(status);
        self.store.clean_work()?;
        Err(failed(status))
    }

    /// Forgets the recording and its gradients. The memory is kept for the next recording.
    pub fn reset(&mut self) {
        // The flags are set first: dropping custom operations may panic.
        (self.recorded, self.passed) = (false, false);
        self.plan.clear(&mut self.store);
        self.recording.clear(&mut self.store);
    }

    /// Frees memory that no recording needs.
    pub fn trim(&mut self) {
        self.store.trim();
    }
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape")
            .field("steps", &self.recording.steps.len())
            .field("deterministic", &self.deterministic)
            .field("bytes", &self.store.bytes())
            .finish()
    }
}
