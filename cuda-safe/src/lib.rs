//! Safe, thin RAII over the CUDA driver: contexts, streams, events, memory, modules, kernels.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer, kernels};
//!
//! kernels! {
//!     struct Kernels;
//!     // Promised by this `unsafe`: thread i touches element i of x and y, and only if i < n.
//!     unsafe in r#"
//!         extern "C" __global__ void axpy(float a, const float* x, float* y, size_t n) {
//!             size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
//!             if (i < n) y[i] += a * x[i];
//!         }
//!     "# {
//!         safe fn axpy(a: f32, x: &[f32], y: &mut [f32], n: usize = x.len()) over n
//!             where y.len() == n;
//!     }
//! }
//!
//! fn main() -> cuda_safe::Result<()> {
//!     let context = Context::new(0)?;
//!     let stream = context.stream()?;
//!     let kernels = Kernels::load(&context)?;
//!     let x = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0])?;
//!     let mut y = DeviceBuffer::from_slice(&stream, &[10.0f32, 20.0, 30.0])?;
//!     kernels.axpy(&stream, 2.0, &x, &mut y)?;
//!     assert_eq!(y.to_vec(&stream)?, [12.0, 24.0, 36.0]);
//!     Ok(())
//! }
//! ```
//!
//! # Three levels of launching
//! Foreign code is unsafe to run: the compiler can't see what a kernel does with what it is given.
//! [`Kernel::launch`], also spelled [`launch!`], says so at each launch. [`kernels!`] states the
//! promise once, beside the kernel's declaration, and makes methods that are safe to call. The third
//! level are crates on top of this one, with whole operations that are safe.
//!
//! # Order
//! Work on one stream runs in order. A buffer that is used on several streams orders them: a writer
//! waits for all earlier uses, and a reader for the last write. Such a conflict costs an event and a
//! wait; uses without a conflict cost nothing.
//!
//! # Errors
//! Every failure is an [`Error`] with the call, the code, what was asked and what to do. Faults of
//! kernels come later than their launch; such an error says so and names the stream's last
//! launches. After a fatal one the process has lost the device: every later call answers the same
//! error and every drop is quiet.
//!
//! # Beyond launches
//! - [`Context::capture`] records work as a graph, [`GraphExec`], that is launched as often as wanted.
//! - [`PinnedBuffer`]s are moved into a [`Transfer`], to be waited for or awaited; [`UnifiedBuffer`] is
//!   memory that host and device both see, managed, pinned or registered.
//! - [`PitchedLayout`] says where rectangles and boxes lie, for 2D and 3D copies.
//! - [`Context::enable_peer_access`] and [`DeviceSliceMut::copy_from_peer`] are for several devices.
//! - [`Stream::enqueue`] and [`Stream::mark`] order work that other libraries enqueue, and
//!   [`Stream::graph_lock`] keeps graphs of other threads out of what several enqueues do together.
//!
//! # Features
//! None is on by default.
//! - `half`: `f16` and `bf16` as elements and kernel arguments.
//! - `ndarray`: buffers from and to arrays of `ndarray`.
//! - `packed-ptx`: [`PackedPtx`], PTX that a program embeds compressed.
//! - `tracing`: events of the `tracing` crate, under the target `cuda_safe`: launches,
//!   recorded ones too, launches of graphs, copies of whole slices, allocations and frees at `TRACE`;
//!   streams made to wait and, with their times in nanoseconds, loads of modules and waits of the host
//!   at `DEBUG`; compiles, cached ones too, at `INFO`; every error of the driver at `ERROR`, also one
//!   that is dealt with, such as a cubin refused in favour of PTX; those that a drop met at `WARN`.
//! - `nvtx`: ranges and marks for NVIDIA's profilers, in the module `nvtx`.

// First: the others use their macros.
#[macro_use]
mod call;
mod trace;

pub mod arg;
mod consume;
mod context;
pub mod device;
mod driver;
mod error;
mod event;
mod generation;
mod graph;
mod image;
mod kernel;
mod launch;
mod memory;
mod module;
mod peer;
pub mod prelude;
mod stream;
mod sync;
pub mod vector;

#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "nvtx")]
pub mod nvtx;

pub use consume::ConsumeError;
pub use context::{Context, Stats};
pub use device::Device;
pub use driver::Driver;
pub use error::{Error, ErrorKind, LaunchRecord, Result};
pub use event::Event;
pub use graph::{GraphBuilder, GraphExec, GraphNode, GraphPart, Recaptured, RecordingId};
pub use kernel::{Kernel, KernelAttributes, KernelParameter};
pub use launch::{
    DeviceRepr, Dim3, IntoLaunchConfig, KernelArg, LaunchConfig, ReadView, WriteView,
};
pub use memory::{
    Access, Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, Extent, HostMut, HostRef,
    KeptMemory, PinnedBuffer, PitchedLayout, Transfer, UnifiedBuffer,
};
#[cfg(feature = "packed-ptx")]
pub use module::PackedPtx;
pub use module::{
    DeclaredKernels, Global, JitOptions, KernelSource, LoadedFrom, Module, ModuleImage,
    OptimizationLevel,
};
pub use stream::{GraphLock, Mark, Stream};

pub use cuda_macros::kernels;
/// The raw bindings, for driver functions that this crate does not wrap.
pub use cuda_sys as sys;
/// The compiler, for options, headers and templates.
pub use nvrtc;

/// What the code made by [`kernels!`] calls. Not for anybody else.
#[doc(hidden)]
pub mod __private {
    use crate::error::{Error, ErrorKind};
    pub use crate::launch::{fill, in_x_alone, over};
    pub use crate::module::{Declared, DeclaredIn, DeclaredInstances, Instance, instance, symbol};

    /// The error of a `where` clause that does not hold.
    #[cold]
    #[must_use]
    pub fn precondition(
        kernel: &'static str,
        clause: &'static str,
        values: &[(&'static str, i128)],
    ) -> Error {
        Error::new(ErrorKind::Precondition { kernel, clause, values: values.to_vec() })
    }
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
