//! Primals: kernels that run instead of a forward kernel, and save data for its adjoint.

use std::ffi::c_void;

use cuda_safe::{
    Access, DeviceBuffer, Error, LaunchConfig, Result, Stream,
    arg::{ArgType, KernelArgs, UseVisitor},
};

use super::{Copied, Recording, index};
use crate::frame::{COUNT, Frame};
use crate::spec::{Op, TapeBytes};
use crate::store::Store;

impl Recording {
    /// Runs the primal of `op`; returns the index of its tape memory among the copies.
    pub(super) fn run_primal<A: KernelArgs>(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        op: &Op,
        launch: &LaunchConfig,
        args: &A,
    ) -> Result<u32> {
        let bytes = match op.inner.tape_bytes {
            Some(TapeBytes::Of(bytes)) => bytes(launch),
            _ => self.counted(stream, store, op, launch, args)?,
        };
        let buffer = store.take(bytes)?;
        let number = index(self.copies.len())?;
        let mut frame = Frame::of(launch);
        (frame.tape, frame.tape_bytes) = (buffer.device_ptr(), bytes as u64);
        self.copies.push(Copied { buffer, offset: 0 });
        self.launch_primal(stream, store, op, launch, args, frame)?;
        Ok(number)
    }

    /// Returns how much tape memory the primal needs: the size that it counts, or the size of the last recording in a
    /// capture, which can't wait for the count.
    fn counted<A: KernelArgs>(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        op: &Op,
        launch: &LaunchConfig,
        args: &A,
    ) -> Result<usize> {
        let place = self.counted;
        if stream.is_recording() {
            let known = self.counts.get(place).copied().inspect(|_| self.counted += 1);
            return known.ok_or_else(|| {
                Error::invalid(format!(
                    "`{}` has to run once to tell how much memory it needs, which a capture can't",
                    op.name()
                ))
                .with_hint("record the same launches once before they are captured")
            });
        }
        let mut frame = Frame::of(launch);
        frame.flags = COUNT;
        self.launch_primal(stream, store, op, launch, args, frame)?;
        let status = store.take_answer(stream)?;
        self.counted += 1;
        let bytes = (status.need as usize).saturating_mul(1024);
        self.counts.truncate(place);
        self.counts.push(bytes);
        Ok(bytes)
    }

    fn launch_primal<A: KernelArgs>(
        &mut self,
        stream: &Stream,
        store: &mut Store,
        op: &Op,
        launch: &LaunchConfig,
        args: &A,
        mut frame: Frame,
    ) -> Result<()> {
        let Some(primal) = &op.inner.kernels.primal else {
            return Err(Error::invalid(format!("`{}` has no primal", op.name())));
        };
        let status = store.status()?;
        frame.status = status.device_ptr();
        let kept = self.copies.last().filter(|_| frame.tape != 0).map(|kept| &kept.buffer);
        // The arguments are the caller's: the bytes that are kept for the adjoint may point to copies by now.
        let args = WithFrame { args, frame, memory: [Some(status), kept] };
        // SAFETY: the promise of `OpSpec::register`, which has checked that the primal takes the kernel's parameters
        // and a frame; `Op::check` has compared the arguments with the kernel. The primal is only known at run time,
        // so `kernels!` can't declare it.
        unsafe { primal.launch(stream, *launch, args) }
    }
}

/// The unchanged arguments of a launch, and a frame.
struct WithFrame<'a, A> {
    args: &'a A,
    frame: Frame,
    /// The memory that the frame points to.
    memory: [Option<&'a DeviceBuffer<u8>>; 2],
}

// SAFETY: a pointer for each argument, to its value, and one to the frame. `TYPES` omits the types, which are not
// compared.
unsafe impl<A: KernelArgs> KernelArgs for WithFrame<'_, A> {
    const TYPES: &'static [ArgType] = &[];
    const TYPED: bool = false;

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.args.uses(visitor)?;
        self.memory.iter().flatten().try_for_each(|memory| {
            visitor.visit(memory.allocation(), memory.byte_range(), Access::Write)
        })
    }

    fn check_unborrowed(&self) -> Result<()> {
        self.args.check_unborrowed()
    }

    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        self.args.with_pointers(|pointers| {
            let mut all: Vec<*mut c_void> = Vec::with_capacity(pointers.len() + 1);
            all.extend_from_slice(pointers);
            all.push((&raw const self.frame).cast_mut().cast());
            f(&mut all)
        })
    }
}
