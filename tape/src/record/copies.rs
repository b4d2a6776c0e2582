//! Recording what is no launch: copies, fills, and what is said of memory.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Allocation, DeviceSlice, DeviceSliceMut, Result, Stream};

use super::{Kind, Recording, Target, Use, Watch, index};
use crate::element::{Differentiable, Element};
use crate::spec::Effect;
use crate::store::Store;

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

    /// As [`own_use`](Self::own_use), of all elements of a view.
    fn use_of<T: Differentiable>(
        &mut self,
        view: &DeviceSlice<'_, T>,
        effect: Effect,
    ) -> Result<Use> {
        self.own_use(view.allocation(), view.byte_range(), T::ELEMENT, effect)
    }

    pub(super) fn copy<T: Differentiable>(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        from: DeviceSlice<'_, T>,
        to: &mut DeviceSliceMut<'_, T>,
        scope: u32,
    ) -> Result<()> {
        let read = self.use_of(&from, Effect::Reads)?;
        let written = self.use_of(&to.as_slice(), Effect::Overwrites)?;
        if self.memories.is_stale(read.memory, read.range()) {
            return Err(self.written_elsewhere("what is copied"));
        }
        self.rescue(stream, store, written.memory, &written.range())?;
        to.copy_from(stream, from)?;
        let through = self.memories.is_active(read.memory, read.range());
        if through {
            self.memories.holds(read.memory, T::ELEMENT.real)?;
            self.memories.holds(written.memory, T::ELEMENT.real)?;
            self.push(Kind::Copy, &[read, written], scope)?;
            self.memories.set_active(written.memory, written.range(), true);
            return Ok(());
        }
        self.overwritten(written, Kind::Fill, scope)
    }

    pub(super) fn fill<T: Differentiable + bytemuck::NoUninit>(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        to: &mut DeviceSliceMut<'_, T>,
        value: T,
        scope: u32,
    ) -> Result<()> {
        let written = self.use_of(&to.as_slice(), Effect::Overwrites)?;
        self.rescue(stream, store, written.memory, &written.range())?;
        to.fill(stream, value)?;
        self.overwritten(written, Kind::Fill, scope)
    }

    pub(super) fn stop<T: Differentiable>(
        &mut self,
        view: &DeviceSlice<'_, T>,
        scope: u32,
    ) -> Result<()> {
        let used = self.use_of(view, Effect::Overwrites)?;
        self.overwritten(used, Kind::Stop, scope)
    }

    /// What a range holds from now on does not depend on what it held.
    fn overwritten(&mut self, used: Use, kind: Kind, scope: u32) -> Result<()> {
        if self.memories.is_active(used.memory, used.range()) {
            self.push(kind, &[used], scope)?;
            self.memories.set_active(used.memory, used.range(), false);
        } else {
            self.inactive += 1;
        }
        Ok(())
    }

    pub(super) fn watch<T: Differentiable>(
        &mut self,
        view: &DeviceSlice<'_, T>,
        scope: u32,
    ) -> Result<()> {
        let used = self.use_of(view, Effect::Reads)?;
        self.memories.holds(used.memory, T::ELEMENT.real)?;
        if self.memories.is_stale(used.memory, used.range()) {
            // What was written by something else is where paths begin.
            self.stop(view, scope)?;
        }
        let number = index(self.watches.len())?;
        let step = self.push(Kind::Watch(number), &[used], scope)?;
        self.watches.push(Watch { memory: used.memory, range: used.range(), step });
        self.memories.set_active(used.memory, used.range(), true);
        Ok(())
    }
}
