//! Primals, which run again before an adjoint that is called without a tape.

use std::ffi::c_void;

use cuda_safe::{Access, DeviceBuffer, Error, Result};

use super::call::Call;
use crate::frame::{COUNT, Frame};
use crate::record::{Copied, Kind, Recording, Target, index, not_saved, write_address};
use crate::spec::{Effect, Op, Primal, TapeBytes};
use crate::untyped::{Tell, Untyped};

/// Fails if the operation's primal can't run again: all memory that it writes must be known, so that it writes to
/// copies.
pub(super) fn check(op: &Op, recording: &Recording) -> Result<()> {
    let unknown = recording.found.iter().find(|found| found.writes && !found.known);
    match unknown.filter(|_| op.inner.tape_bytes.is_some()) {
        Some(found) => Err(Error::invalid(format!(
            "{} is written by a pointer that the specification does not list, so the primal can't run again",
            op.inner.param(usize::from(found.param))
        ))),
        None => Ok(()),
    }
}

impl Call<'_> {
    /// Runs the primal, if there is one, on copies of the memory that it writes.
    pub(super) fn primal(&mut self) -> Result<()> {
        let Some(tape_bytes) = self.op.inner.tape_bytes else { return Ok(()) };
        let copies = self.copy_what_is_written()?;
        let mut frame = Frame::of(self.launch);
        frame.status = self.store.status()?.device_ptr();
        let bytes = match tape_bytes {
            TapeBytes::Of(bytes) => bytes(self.launch),
            TapeBytes::Counted => {
                let counting = Frame { flags: COUNT, ..frame };
                self.launch_primal(counting, &copies, None)?;
                let status = self.store.take_answer(self.stream)?;
                (status.need as usize).saturating_mul(1024)
            }
        };
        let kept = self.store.take(bytes)?;
        (frame.tape, frame.tape_bytes) = (kept.device_ptr(), bytes as u64);
        self.launch_primal(frame, &copies, Some(&kept))?;
        let recording = &mut self.recording;
        let number = index(recording.copies.len())?;
        recording.copies.push(Copied { buffer: kept, offset: 0 });
        if let Some(Kind::Launch { primal, .. }) =
            recording.steps.first_mut().map(|step| &mut step.kind)
        {
            *primal = number;
        }
        for (at, copy) in copies {
            let Some(used) = recording.uses.get_mut(at) else { continue };
            if used.value == Primal::Exit {
                used.copy = index(recording.copies.len())?;
                recording.copies.push(copy);
                continue;
            }
            let address = match (recording.memories.get(used.memory), used.target) {
                (Some(memory), _) => memory.allocation.device_ptr() + used.start as u64,
                (None, Target::Pointer(pointer)) => not_saved(usize::from(pointer)),
                (None, _) => continue,
            };
            write_address(&mut recording.bytes, used.patch, address);
        }
        Ok(())
    }

    /// Copies the memory that the kernel writes, and passes the copies as arguments.
    fn copy_what_is_written(&mut self) -> Result<Vec<(usize, Copied)>> {
        let mut copies = Vec::new();
        let Self { recording, store, stream, .. } = self;
        for (at, used) in recording.uses.iter().enumerate() {
            let written = used.effect != Effect::Reads && !used.range().is_empty();
            if !written || !matches!(used.target, Target::Pointer(_)) {
                continue;
            }
            let memory = recording.memories.get(used.memory);
            let start = memory.map_or(0, |memory| memory.allocation.device_ptr());
            let offset = ((start + used.start as u64) % 16) as usize;
            let mut buffer = store.take(offset + used.range().len())?;
            if let Some(memory) = memory
                && !(used.effect == Effect::Overwrites && used.covers)
            {
                // SAFETY: bytes are read as bytes; the caller of `Op::vjp` borrows the arguments.
                let old = unsafe { memory.allocation.view::<u8>(used.range()) }?;
                buffer.slice_mut(offset..offset + used.range().len())?.copy_from(stream, old)?;
            }
            let copy = Copied { buffer, offset };
            write_address(&mut recording.bytes, used.patch, copy.address());
            copies.push((at, copy));
        }
        Ok(copies)
    }

    fn launch_primal(
        &mut self,
        mut frame: Frame,
        copies: &[(usize, Copied)],
        kept: Option<&DeviceBuffer<u8>>,
    ) -> Result<()> {
        let inner = &*self.op.inner;
        let Some(kernel) = &inner.kernels.primal else {
            return Err(Error::invalid(format!("`{}` has no primal", inner.name)));
        };
        let bytes = self.recording.bytes.as_mut_ptr().cast::<u8>();
        let params = inner.params.iter();
        let mut pointers: Vec<*mut c_void> =
            params.map(|param| bytes.wrapping_add(param.at).cast()).collect();
        pointers.push((&raw mut frame).cast());
        let (recording, store) = (&self.recording, &self.store);
        let status = store.known_status()?;
        let written = copies.iter().map(|(_, copy)| &copy.buffer).chain(kept).chain([status]);
        let tells = |tell: Tell<'_>| {
            for found in &recording.found {
                if let Some(memory) = recording.memories.get(found.memory) {
                    tell(&memory.allocation, found.range(), Access::Read)?;
                }
            }
            written.clone().try_for_each(|buffer| {
                tell(buffer.allocation(), buffer.byte_range(), Access::Write)
            })
        };
        // SAFETY: the promise of `OpSpec::register`. Parameters and frame have the sizes that it has compared, and
        // stay where they are until the launch was made; the primal writes to the copies, its tape memory and the
        // status. The primal is only known at run time, so `kernels!` can't declare it.
        unsafe { kernel.launch(self.stream, *self.launch, Untyped::new(&mut pointers, tells)) }
    }
}
