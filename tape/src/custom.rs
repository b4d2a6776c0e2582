//! Operations with a forward and an adjoint in Rust: several launches, or calls of other crates.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_safe::{
    Access, Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, KernelArg, Result,
    Stream,
    arg::{ArgType, UseVisitor},
};

use crate::backward::{FrameArg, NO_ARG, Pass, Place, whole};
use crate::element::{Differentiable, Element};
use crate::frame::{DETERMINISTIC, Frame};
use crate::record::{NONE, Recorder, Recording, Target, Use};
use crate::saved::Saved;
use crate::spec::{Effect, Primal};
use crate::variable::{Watched, memory_of};

/// An operation whose adjoint is Rust.
pub trait CustomOp: Send + 'static {
    /// Returns the operation's name for messages.
    fn name(&self) -> &str;

    /// Enqueues the adjoint on [`Adjoint::stream`]: reads the gradients of the memory that the forward wrote, and
    /// adds to the gradients of the memory that it read. The adjoint need not clear the gradients of overwritten
    /// memory, unless the forward also read that memory.
    ///
    /// # Errors
    /// Any error ends the pass.
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()>;

    /// Returns the largest number of calls of `grad_add` by the adjoint's kernels, for deterministic tapes. `None` if
    /// the adjoint does not give the same bits each time; a deterministic tape then refuses the operation.
    fn summands(&self) -> Option<usize> {
        None
    }
}

/// The id of the next operation. An operation refuses handles of others.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Memory that a custom operation declares when it is recorded, and that its adjoint can access.
pub struct Handle<T> {
    at: usize,
    of: u64,
    // The marker makes `T` invariant: adjoints read and write the memory through copies of a handle.
    marker: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("at", &self.at).finish()
    }
}

/// Records a custom operation: declares the memory that it uses, then runs its forward.
///
/// ```no_run
/// # use cuda_safe::{DeviceBuffer, Result};
/// # use cuda_tape::{Adjoint, CustomOp, Handle, Primal, Recorder};
/// struct Negate { x: Handle<f32>, y: Handle<f32> }
/// # fn negate(_: &cuda_safe::Stream, _: &DeviceBuffer<f32>, _: &mut DeviceBuffer<f32>) -> Result<()> { Ok(()) }
/// # fn subtract(_: &cuda_safe::Stream, _: cuda_tape::Gradient<'_, f32>, _: cuda_tape::Gradient<'_, f32>) -> Result<()> { Ok(()) }
/// impl CustomOp for Negate {
///     fn name(&self) -> &str { "negate" }
///     fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
///         subtract(pass.stream(), pass.gradient(self.y)?, pass.gradient(self.x)?)
///     }
/// }
/// # fn run(t: &mut Recorder<'_>, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> Result<()> {
/// let mut custom = t.custom();
/// let op = Negate { x: custom.reads(x, Primal::None)?, y: custom.overwrites(&*y, Primal::None)? };
/// custom.run(op, |stream| negate(stream, x, y))
/// # }
/// ```
pub struct CustomBuilder<'a> {
    id: u64,
    recorder: Recorder<'a>,
    uses: Vec<Use>,
}

impl<'a> CustomBuilder<'a> {
    pub(crate) fn new(recorder: Recorder<'a>) -> Self {
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), recorder, uses: Vec::new() }
    }

    /// Declares that the forward reads this memory, whose gradient may be wanted. `value` says which value the
    /// adjoint reads.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the recording is too long.
    pub fn reads<'v, T: Differentiable>(
        &mut self,
        what: impl Watched<'v, T>,
        value: Primal,
    ) -> Result<Handle<T>> {
        self.named(memory_of(what)?, T::ELEMENT, Effect::Reads, value, true)
    }

    /// Declares that the forward reads this memory, which has no gradient: indices, flags. `value` says which value the
    /// adjoint reads. It is an error if the memory depends on something watched.
    ///
    /// # Errors
    /// As [`reads`](Self::reads).
    pub fn reads_inactive<'v, T: Copy + 'static>(
        &mut self,
        what: impl Into<DeviceSlice<'v, T>>,
        value: Primal,
    ) -> Result<Handle<T>> {
        self.named(what.into(), Element::bytes(size_of::<T>()), Effect::Reads, value, false)
    }

    /// Works like [`reads_inactive`](Self::reads_inactive), for memory given by its allocation, such as a structure that
    /// the adjoint needs unchanged. The tape keeps no copy of it: it is an error if it is overwritten before the pass.
    ///
    /// # Errors
    /// As [`reads`](Self::reads).
    pub fn reads_allocation(
        &mut self,
        memory: &Arc<Allocation>,
        range: Range<usize>,
    ) -> Result<()> {
        let param = u16::try_from(self.uses.len()).unwrap_or(u16::MAX);
        let recording = &mut *self.recorder.recording;
        let mut used = recording.own_use(memory, range, Element::bytes(1), Effect::Reads)?;
        (used.target, used.value) = (Target::Opaque(param), Primal::Entry);
        used.active = false;
        self.uses.push(used);
        Ok(())
    }

    /// Declares that the forward overwrites all of this memory. `value` says which value the adjoint reads.
    ///
    /// # Errors
    /// As [`reads`](Self::reads).
    pub fn overwrites<'v, T: Differentiable>(
        &mut self,
        what: impl Watched<'v, T>,
        value: Primal,
    ) -> Result<Handle<T>> {
        self.named(memory_of(what)?, T::ELEMENT, Effect::Overwrites, value, true)
    }

    /// Declares that the forward overwrites all of this memory, which has no gradient: indices, flags. `value` says
    /// which value the adjoint reads.
    ///
    /// # Errors
    /// As [`reads`](Self::reads).
    pub fn overwrites_inactive<'v, T: Copy + 'static>(
        &mut self,
        what: impl Into<DeviceSlice<'v, T>>,
        value: Primal,
    ) -> Result<Handle<T>> {
        self.named(what.into(), Element::bytes(size_of::<T>()), Effect::Overwrites, value, false)
    }

    /// Declares that the forward computes this memory from its old contents: the adjoint replaces its gradient.
    ///
    /// # Errors
    /// As [`reads`](Self::reads).
    pub fn updates<'v, T: Differentiable>(
        &mut self,
        what: impl Watched<'v, T>,
        value: Primal,
    ) -> Result<Handle<T>> {
        self.named(memory_of(what)?, T::ELEMENT, Effect::Updates, value, true)
    }

    /// Declares that the forward adds to this memory: the adjoint reads its gradient, and must not change it.
    ///
    /// # Errors
    /// As [`reads`](Self::reads).
    pub fn accumulates<'v, T: Differentiable>(
        &mut self,
        what: impl Watched<'v, T>,
    ) -> Result<Handle<T>> {
        self.named(memory_of(what)?, T::ELEMENT, Effect::Accumulates, Primal::None, true)
    }

    /// Returns the stream on which the forward will be enqueued.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.recorder.stream
    }

    fn named<T: Copy + 'static>(
        &mut self,
        view: DeviceSlice<'_, T>,
        element: Element,
        effect: Effect,
        value: Primal,
        active: bool,
    ) -> Result<Handle<T>> {
        let recording = &mut *self.recorder.recording;
        let mut used = recording.own_use(view.allocation(), view.byte_range(), element, effect)?;
        used.active = active;
        // The value is not copied for an adjoint that writes: such an adjoint makes its own copy.
        used.value = if matches!(value, Primal::EntryPrivate) { Primal::Entry } else { value };
        self.uses.push(used);
        Ok(Handle { at: self.uses.len() - 1, of: self.id, marker: PhantomData })
    }

    /// Runs the forward, and records the operation if gradients flow through it.
    ///
    /// # Errors
    /// A value that depends on something watched is written to memory without a gradient, or a deterministic tape
    /// refuses the operation. Also the errors of the forward.
    pub fn run(self, op: impl CustomOp, forward: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        self.run_with(|stream, _| forward(stream).map(|()| op))
    }

    /// Works like [`run`](Self::run), but the forward creates the operation, with its own memory, to which it writes
    /// data for the adjoint. The forward's argument says whether gradients pass through it; if not, the operation is
    /// dropped.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<C: CustomOp>(
        self,
        forward: impl FnOnce(&Stream, bool) -> Result<C>,
    ) -> Result<()> {
        let Self { id, recorder, mut uses } = self;
        let Recorder { recording, store, stream, scope } = recorder;
        let through = recording.comes_through_custom(&mut uses)?;
        let first = recording.uses.len();
        if through {
            for used in &uses {
                recording.uses.push(*used);
                if used.active {
                    recording.memories.holds(used.memory, used.element.real)?;
                }
                if matches!(used.value, Primal::Entry | Primal::EntryPrivate) {
                    recording.pend(recording.uses.len() - 1, stream)?;
                }
            }
        }
        for used in uses.iter().filter(|used| used.effect != Effect::Reads) {
            recording.rescue(stream, store, used.memory, &used.range())?;
        }
        let op = forward(stream, through)?;
        if through && recording.deterministic && op.summands().is_none() {
            return Err(Error::invalid(format!(
                "`{}` is not made for deterministic tapes",
                op.name()
            ))
            .with_hint(
                "`CustomOp::summands` says that its adjoint gives the same bits each time",
            ));
        }
        recording.custom_done(stream, uses, first, (id, Box::new(op)), scope, through)
    }
}

impl fmt::Debug for CustomBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomBuilder").field("uses", &self.uses.len()).finish()
    }
}

/// The input of a custom operation's adjoint.
pub struct Adjoint<'a> {
    id: u64,
    recording: &'a Recording,
    buffers: &'a mut [DeviceBuffer<u8>],
    uses: &'a [Use],
    places: &'a [Place],
    stream: &'a Stream,
    frame: FrameArg<'a>,
}

impl Adjoint<'_> {
    /// Returns the stream to enqueue on.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// Returns whether the gradient of memory that the forward read is wanted, or whether memory that it wrote has a
    /// gradient.
    #[must_use]
    pub fn wants<T>(&self, what: Handle<T>) -> bool {
        self.place(what).is_ok_and(|place| place.buffer != NONE)
    }

    /// Returns the value of some memory before or after the forward, as was declared when it was recorded.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if no value was declared.
    pub fn value<T: Copy + 'static>(&self, what: Handle<T>) -> Result<Saved<'_, T>> {
        self.place(what)?;
        let used = self.uses.get(what.at).filter(|used| !matches!(used.value, Primal::None));
        let Some(used) = used else {
            return Err(Error::invalid("the value was not kept when it was recorded"));
        };
        Ok(Saved::new(self.recording.place_of_value(used)?))
    }

    /// Returns a gradient as an argument of kernels: its address, or null if it is not wanted or zero. Kernels may
    /// read and write it. Memory recorded twice has one gradient, so two handles may give the same memory; kernels
    /// that add to both must use atomics.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the handle belongs to another operation.
    pub fn gradient<T: Differentiable>(&self, what: Handle<T>) -> Result<Gradient<'_, T>> {
        let place = self.place(what)?;
        let buffer = self.buffers.get(place.buffer as usize);
        Ok(Gradient { buffer, place, marker: PhantomData })
    }

    /// Returns a gradient for writing, for example by copies; `None` if it is not wanted or zero.
    ///
    /// # Errors
    /// As [`gradient`](Self::gradient).
    pub fn gradient_mut<T: Differentiable>(
        &mut self,
        what: Handle<T>,
    ) -> Result<Option<DeviceSliceMut<'_, T::Gradient>>> {
        let place = self.place(what)?;
        let Some(buffer) = self.buffers.get_mut(place.buffer as usize) else { return Ok(None) };
        buffer.slice_mut(place.range())?.cast_mut().map(Some)
    }

    fn place<T>(&self, what: Handle<T>) -> Result<Place> {
        let known = self.places.get(what.at).copied().filter(|_| what.of == self.id);
        known.ok_or_else(|| Error::invalid("the handle is of another operation"))
    }

    /// Returns the frame for kernels that use `geom/tape.cuh`: it has no grid and block, but the log of a
    /// deterministic tape.
    #[must_use]
    pub fn frame(&self) -> impl KernelArg<Abi = Frame> + Copy + fmt::Debug {
        self.frame
    }
}

impl fmt::Debug for Adjoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adjoint").field("uses", &self.uses.len()).finish()
    }
}

/// The gradient of some memory, as an argument of kernels: a pointer, which may be null.
pub struct Gradient<'a, T> {
    buffer: Option<&'a DeviceBuffer<u8>>,
    place: Place,
    marker: PhantomData<T>,
}

impl<T> Clone for Gradient<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

// `Copy` is harmless: recorded launches refuse two arguments with the same memory.
impl<T> Copy for Gradient<'_, T> {}

impl<'a, T: Differentiable> Gradient<'a, T> {
    /// Returns whether the pointer is null: the gradient is not wanted, or zero.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.buffer.is_none()
    }

    /// Returns the elements for reading; `None` if the pointer is null.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the recorded memory is not a whole number of
    /// elements.
    pub fn as_slice(&self) -> Result<Option<DeviceSlice<'a, T::Gradient>>> {
        let Some(buffer) = self.buffer else { return Ok(None) };
        // SAFETY: any bits are a valid `T::Gradient`, which is Pod.
        unsafe { buffer.allocation().view(self.place.range()) }.map(Some)
    }
}

impl<T> fmt::Debug for Gradient<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gradient").field("place", &self.place).finish()
    }
}

// SAFETY: the kernel reaches only the gradient, which is reported, and nothing through a null pointer.
unsafe impl<T> KernelArg for Gradient<'_, T> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.buffer.map_or(0, |buffer| buffer.device_ptr() + self.place.offset as u64)
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Some(buffer) = self.buffer else { return Ok(()) };
        visitor.visit(buffer.allocation(), self.place.range(), Access::Write)
    }
}

impl Pass<'_> {
    /// Runs the adjoint of a custom operation.
    pub(crate) fn run_custom(
        &mut self,
        op: &mut dyn CustomOp,
        id: u64,
        step: u32,
        first: u32,
    ) -> Result<()> {
        let mut frame = Frame::of(&cuda_safe::LaunchConfig::new(0, 0));
        let logs = self.recording.deterministic;
        if logs {
            frame.flags |= DETERMINISTIC;
            self.prepare_log(op.summands().unwrap_or(0), &mut frame)?;
        }
        let Some(known) = self.recording.steps.get(step as usize) else { return Ok(()) };
        let uses = self.recording.uses_of(known);
        let places = self.plan.places.get(first as usize..).unwrap_or_default();
        let log = self.store.known_work(crate::store::Work::Log).filter(|_| frame.log_bytes > 0);
        let status = if self.guarded() { whole(self.store.known_status()?) } else { NO_ARG };
        frame.status = status.address();
        let log = log.map_or(NO_ARG, whole);
        let mut adjoint = Adjoint {
            id,
            recording: self.recording,
            buffers: &mut self.plan.buffers,
            uses,
            places: places.get(..uses.len()).unwrap_or_default(),
            stream: self.stream,
            frame: FrameArg { frame, log, status, gradients: &[], lent: &[], partials: None },
        };
        op.backward(&mut adjoint)?;
        if let Some(message) = self.recording.missing_value(step as usize) {
            // The operation itself or another thread has overwritten the value: the adjoint may have read the new
            // one.
            return Err(Error::invalid(message).with_hint(
                "what a recorded operation has read must stay until the pass has returned",
            ));
        }
        if frame.log_bytes > 0 {
            self.sum_log(&frame)?;
        }
        Ok(())
    }
}

impl Recording {
    /// Returns whether gradients flow through an operation with these uses.
    fn comes_through_custom(&self, uses: &mut [Use]) -> Result<bool> {
        let mut through = false;
        for used in uses {
            let active = self.memories.is_active(used.memory, used.range());
            if used.effect != Effect::Overwrites
                && self.memories.is_stale(used.memory, used.range())
            {
                return Err(self.written_elsewhere("memory of a custom operation"));
            }
            if active && !used.active && used.effect == Effect::Reads {
                return Err(Error::invalid(
                    "a custom operation reads what depends on something watched as if it were constant",
                )
                .with_hint("if that is meant: `stop_gradient` before it"));
            }
            if used.effect == Effect::Reads {
                used.active &= active;
            }
            through |=
                used.active && active && matches!(used.effect, Effect::Reads | Effect::Updates);
        }
        Ok(through)
    }
}
