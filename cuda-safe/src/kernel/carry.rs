//! Launches of kernels whose blocks pass values on: they have memory besides their arguments.

use std::ffi::c_void;
use std::sync::Arc;

use super::args::Params;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::function::Kernel;
use crate::launch::{ArgType, KernelArgs, LaunchConfig};
use crate::memory::{Access, Allocation, DeviceBuffer, UseVisitor};
use crate::stream::Stream;

/// Launches a kernel with so many bytes for its blocks, zero or as another launch has left them.
///
/// # Safety
/// As [`Kernel::launch`], with the address of the bytes as the last parameter.
#[cold]
pub(super) unsafe fn launch(
    stream: &Stream,
    kernel: &Kernel,
    config: LaunchConfig,
    params: &mut Params<'_, '_>,
    bytes: u64,
) -> Result<()> {
    let inner = stream.inner();
    inner.usable_here()?;
    let bytes =
        usize::try_from(bytes).map_err(|_| Error::invalid("the kernel has too many blocks"))?;
    if inner.plain {
        // Not locked during the launch, which may wait for the graph lock. The stream keeps the memory.
        let memory = inner.carry.lock()?.for_launch(inner, bytes)?;
        if let Some(address) = memory {
            params.carry(address)?;
            // SAFETY: the caller's promise. Launches on the stream run one after the other, and no others use the
            // memory.
            return unsafe { kernel.launch(stream, config, &*params) };
        }
    }
    let home = if inner.capture.is_some() && !inner.is_lent() {
        // A graph keeps the memory, which no work outside of it uses, with what its launches have left. So the memory
        // is no node of the graph, and its home is a stream that does not record.
        let raw = inner.context.caretaker.stream(&inner.context)?;
        // SAFETY: the stream lives as long as the context, and is never captured.
        unsafe { Stream::from_raw(&Context::from_inner(inner.context.clone()), raw, ()) }?
    } else {
        stream.clone()
    };
    let memory = DeviceBuffer::<u8>::zeroed(&home, bytes)?;
    params.carry(memory.device_ptr())?;
    // SAFETY: the caller's promise. Uses of the memory are ordered as those of arguments.
    unsafe { kernel.launch(stream, config, WithMemory(params, memory.allocation())) }
}

/// The parameters of a launch, and memory that it uses besides.
struct WithMemory<'m, 'a, 's>(&'m Params<'a, 's>, &'m Arc<Allocation>);

// SAFETY: the pointers are those of the parameters, and the memory is among the uses.
unsafe impl KernelArgs for WithMemory<'_, '_, '_> {
    const TYPES: &'static [ArgType] = &[];
    const TYPED: bool = false;

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.0.uses(visitor)?;
        visitor.visit(self.1, 0..self.1.size_bytes(), Access::Write)
    }

    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        self.0.with_pointers(f)
    }
}
