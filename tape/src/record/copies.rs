//! Records copies, fills, and declarations about memory.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::NoUninit;
use cuda_safe::{Allocation, DeviceSlice, ReadView, Result, WriteView};

use super::{Kind, Recorder, Recording, Target, Use, Watch, index};
use crate::element::{Differentiable, Element};
use crate::spec::Effect;
use crate::variable::{Watched, memory_of};

impl Recording {
    /// A use of a step that is no launch.
    pub(crate) fn own_use(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        element: Element,
        effect: Effect,
    ) -> Result<Use> {
        let memory = self.memories.number(allocation)?;
        let used = Use::new(Target::Own, memory, range, element, effect);
        Ok(Use { covers: true, active: true, alone: true, ..used })
    }

    /// Like [`own_use`](Self::own_use), for all elements of a view.
    fn use_of<T: Differentiable>(
        &mut self,
        view: &DeviceSlice<'_, T>,
        effect: Effect,
    ) -> Result<Use> {
        self.own_use(view.allocation(), view.byte_range(), T::ELEMENT, effect)
    }

    /// Notes that a range's new contents do not depend on the old.
    fn overwritten(&mut self, used: Use, kind: Kind, scope: u32) -> Result<()> {
        if self.memories.is_active(used.memory, used.range()) {
            self.push(kind, &[used], scope)?;
            self.memories.set_active(used.memory, used.range(), false);
        } else {
            self.inactive += 1;
        }
        Ok(())
    }
}

impl Recorder<'_> {
    /// Watches this memory (a buffer, a view, or a [`Variable`](crate::Variable)): its gradient at this point of the
    /// recording can be taken, and gradients flow through all memory that depends on it from here on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the memory was used with numbers of
    /// another type.
    pub fn watch<'a, T: Differentiable>(&mut self, what: impl Watched<'a, T>) -> Result<()> {
        let view = memory_of(what)?;
        self.watch_bytes(view.allocation(), view.byte_range(), T::ELEMENT)
    }

    /// Like [`watch`](Self::watch), for elements whose type is known only at run time.
    pub(crate) fn watch_bytes(
        &mut self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        element: Element,
    ) -> Result<()> {
        let scope = self.scope;
        let used = self.recording.own_use(allocation, range, element, Effect::Reads)?;
        self.recording.memories.holds(used.memory, element.real)?;
        if self.recording.memories.is_stale(used.memory, used.range()) {
            // The watched memory starts without dependencies if unrecorded work has written it.
            let old = Use { effect: Effect::Overwrites, ..used };
            self.recording.overwritten(old, Kind::Stop, scope)?;
        }
        let recording = &mut *self.recording;
        let number = index(recording.watches.len())?;
        let step = recording.push(Kind::Watch(number), &[used], scope)?;
        recording.watches.push(Watch { memory: used.memory, range: used.range(), step });
        recording.memories.set_active(used.memory, used.range(), true);
        Ok(())
    }

    /// Copies elements on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the lengths differ; otherwise if the
    /// driver returns an error.
    pub fn copy<'a, 'b, T: Differentiable>(
        &mut self,
        from: impl ReadView<'a, T>,
        to: impl WriteView<'b, T>,
    ) -> Result<()> {
        let (from, mut to) = (from.read_view(), to.write_view());
        let Self { recording, store, stream, scope } = self;
        let read = recording.use_of(&from, Effect::Reads)?;
        let written = recording.use_of(&to.as_slice(), Effect::Overwrites)?;
        if recording.memories.is_stale(read.memory, read.range()) {
            return Err(recording.written_elsewhere("what is copied"));
        }
        recording.rescue(stream, store, written.memory, &written.range())?;
        to.copy_from(stream, from)?;
        if !recording.memories.is_active(read.memory, read.range()) {
            return recording.overwritten(written, Kind::Fill, *scope);
        }
        recording.memories.holds(read.memory, T::ELEMENT.real)?;
        recording.memories.holds(written.memory, T::ELEMENT.real)?;
        recording.push(Kind::Copy, &[read, written], *scope)?;
        recording.memories.set_active(written.memory, written.range(), true);
        Ok(())
    }

    /// Writes `value` to every element.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn fill<'b, T: Differentiable + NoUninit>(
        &mut self,
        to: impl WriteView<'b, T>,
        value: T,
    ) -> Result<()> {
        let mut to = to.write_view();
        let Self { recording, store, stream, scope } = self;
        let written = recording.use_of(&to.as_slice(), Effect::Overwrites)?;
        recording.rescue(stream, store, written.memory, &written.range())?;
        to.fill(stream, value)?;
        recording.overwritten(written, Kind::Fill, *scope)
    }

    /// Stops gradients at this memory: none flow from its later uses to its earlier writers.
    ///
    /// # Errors
    /// If the recording is too long.
    pub fn stop_gradient<'a, T: Differentiable>(
        &mut self,
        what: impl Watched<'a, T>,
    ) -> Result<()> {
        let used = self.recording.use_of(&memory_of(what)?, Effect::Overwrites)?;
        self.recording.overwritten(used, Kind::Stop, self.scope)
    }
}
