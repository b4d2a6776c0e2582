//! Kernels that are Rust functions, on a stream: the crate [`gpu_phases`] for this crate's streams and memory.
//!
//! ```no_run
//! use cuda_safe::kernel::kernel;
//! use cuda_safe::{Context, DeviceBuffer};
//!
//! #[kernel]
//! fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
//!     assert!(x.len() == out.len() && y.len() == out.len());
//!     each(out, |i, out| *out = a * x[i] + y[i]);
//! }
//!
//! fn main() -> cuda_safe::Result<()> {
//!     let stream = Context::new(0)?.stream()?;
//!     let x = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0])?;
//!     let y = DeviceBuffer::from_slice(&stream, &[10.0f32, 20.0, 30.0])?;
//!     let mut out = DeviceBuffer::<f32>::zeroed(&stream, x.len())?;
//!     saxpy::launch(&stream, 2.5, &x, &y, &mut out)?;
//!     assert_eq!(out.to_vec(&stream)?, [12.5, 25.0, 37.5]);
//!     Ok(())
//! }
//! ```
//!
//! A kernel's `launch` takes a `&Stream`. It reads `&DeviceBuffer`s, slices and `&UnifiedBuffer`s, and writes them as
//! `&mut`, as the methods of [`kernels!`](crate::kernels) do. It is enqueued as those are: ordered with other uses of its
//! memory on all streams, recorded on a stream that records, and one call of the driver.
//!
//! The first launch in a context compiles the kernel's C++ by NVRTC, unless the compiler's cache or the program has its
//! image ([`Pack`]), and loads it. The context keeps it until it is [closed](crate::Context::close); in contexts that were
//! adopted by [`Context::from_raw`](crate::Context::from_raw), each stream does. Lengths of 2^32 and more are another
//! instance, which the first launch with such a length compiles.
//!
//! # Faults
//! A check that fails in a kernel, such as that of an index, ends its thread and is recorded with the kernel, the line and
//! the element. The context works on: the launch ends, and later launches run. What the launch has written is unspecified.
//! Each context records one fault, the first one. From then on, these calls return an error of the kind
//! [`KernelFault`](crate::ErrorKind::KernelFault), until [`Context::take_fault`](crate::Context::take_fault) takes it:
//!
//! - [`Stream::synchronize`], [`Event::synchronize`](crate::Event::synchronize),
//!   [`Mark::synchronize`](crate::Mark::synchronize), [`Context::synchronize`](crate::Context::synchronize) and
//!   [`Devices::synchronize`](crate::Devices::synchronize);
//! - [`Stream::is_done`] and [`Event::is_done`](crate::Event::is_done), where they would return `true`, and
//!   [`Event::elapsed_ms`](crate::Event::elapsed_ms);
//! - downloads of buffers and slices: `to_vec`, `download`, `download_2d`, `download_3d`, and those of globals;
//! - [`Transfer::wait`](crate::Transfer::wait), [`is_done`](crate::Transfer::is_done), [`close`](crate::Transfer::close),
//!   and awaiting a transfer. The buffer of a transfer that fails so is lost, as after other errors;
//! - [`UnifiedBuffer::host`](crate::UnifiedBuffer::host), [`host_mut`](crate::UnifiedBuffer::host_mut) and
//!   [`into_vec`](crate::UnifiedBuffer::into_vec), and the host's guards of managed globals.
//!
//! They return it whatever stream of the context the kernel was launched on. A kernel that writes memory of another context
//! records its fault in its own context. Launches, uploads, captures and launches of graphs do not return faults; a wait
//! for the stream on which a graph was launched does.
//!
//! # Targets
//! [`Place`] is a stream or the CPU, chosen when the program runs, and [`Memory`] is memory for it.

mod args;
mod carry;
mod faults;
mod load;
mod loaded;
mod pack;
mod place;
mod queried;
#[doc(hidden)]
pub mod recording;
mod stream;

use crate::context::{Attachment, ContextInner};
use crate::error::Result;
use crate::stream::Stream;
use faults::Faults;
use loaded::Loaded;

pub use gpu_phases::__private::{
    CudaSafeDevice as Device, cuda_safe_device as device, cuda_safe_kernel as kernel,
};
pub use gpu_phases::*;
pub use load::attributes;
pub use pack::{Pack, check, ptx};
pub use place::{Memory, Place, ReadAt, StructureAt, WriteAt};
pub use queried::{DeviceStructure, Reaches, UseOf};

/// What a context has of Rust kernels.
#[derive(Default)]
struct RustKernels {
    faults: Faults,
    /// Those of the primary context. Others would be kept alive by what they hold, so each stream has its own.
    loaded: Loaded,
}

impl RustKernels {
    /// Returns those of a context, which are made now if they were not yet.
    fn of(context: &ContextInner) -> Result<&Self> {
        context.rust_kernels.get_or_make()
    }
}

impl Attachment for RustKernels {
    fn check(&self) -> Result<()> {
        self.faults.check()
    }

    fn holds(&self) -> usize {
        self.loaded.holds()
    }

    unsafe fn put_away(&self, context: &ContextInner) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.loaded.clear() }?;
        self.faults.put_away(context)
    }
}

impl Attachment for Loaded {}

/// Returns the kernels that launches on the stream use, if there were some.
#[inline]
fn loaded(stream: &Stream) -> Option<&Loaded> {
    let inner = stream.inner();
    match inner.context.is_primary() {
        true => Some(&inner.context.rust_kernels.get::<RustKernels>()?.loaded),
        false => inner.rust_kernels.get(),
    }
}

/// As [`loaded`], which are made now if they were not yet.
fn to_load(stream: &Stream) -> Result<&Loaded> {
    let inner = stream.inner();
    match inner.context.is_primary() {
        true => Ok(&RustKernels::of(&inner.context)?.loaded),
        false => inner.rust_kernels.get_or_make(),
    }
}
