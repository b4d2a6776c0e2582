//! Safe, thin RAII over the CUDA driver: contexts, streams, events, memory, modules, kernels.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer, kernels};
//!
//! kernels! {
//!     struct Kernels;
//!     // The promise: thread i touches element i of x and y, and only if i < n.
//!     unsafe in r#"
//!         __global__ void axpy(float a, const float* x, float* y, size_t n) {
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
//! Foreign code is unsafe to run, because the Rust compiler cannot check a kernel.
//! 1. [`Kernel::launch`], also spelled [`launch!`], is `unsafe` at each launch.
//! 2. [`kernels!`] states the promise once, beside the kernel's declaration, and generates methods
//!    that are safe to call.
//! 3. Crates on top of this one offer whole operations that are safe.
//!
//! # Order
//! Work on one stream runs in order. A buffer that is used on several streams orders them: a writer
//! waits for all earlier uses, and a reader for the last write. Such a conflict costs an event and a
//! wait; uses without a conflict cost nothing.
//!
//! # Errors
//! Every failure is an [`Error`] with the call, its code and values, and what to do. The fault of a
//! kernel is returned by a later call; that error says so and names the stream's last launches. After
//! a fatal error the process has lost the device: every later call returns the same error, and drops
//! do not call the driver.
//!
//! # Beyond launches
//! - [`Context::capture`] records work as a graph, [`GraphExec`], which can be launched many times.
//! - A [`PinnedBuffer`] is moved into a [`Transfer`], which is waited for or awaited. A [`UnifiedBuffer`]
//!   is memory that host and device both see: managed, pinned or registered.
//! - [`PitchedLayout`] describes rectangles and boxes for 2D and 3D copies.
//! - [`Devices`] opens several devices with peer access; [`DeviceSliceMut::copy_from_peer`] copies between two, and
//!   [`Context::capture_on`] records work of several as one graph.
//! - [`Stream::enqueue`], [`EnqueueGroup`] and [`Stream::mark`] order work that other libraries enqueue, and
//!   [`Stream::graph_lock`] keeps graphs of other threads out of what several enqueues do together.
//!
//! # Features
//! None is on by default.
//! - `dlpack`: tensors of other frameworks, in the module `dlpack`.
//! - `half`: `f16` and `bf16` as elements and kernel arguments.
//! - `libraries`: raw bindings to cuBLAS, cuBLASLt, cuFFT and cuRAND, in modules of `sys` such as `sys::cublas`.
//! - `ndarray`: buffers from and to arrays of `ndarray`.
//! - `rust-kernels`: kernels that are Rust functions, in the module `kernel`.
//! - `packed-ptx`: [`PackedPtx`], PTX that a program embeds compressed.
//! - `tracing`: events of the `tracing` crate, under the target `cuda_safe`: launches,
//!   also recorded ones, launches of graphs, copies of whole slices, allocations and frees at `TRACE`;
//!   waits between streams at `DEBUG`, and loads of modules and waits of the host there, with their
//!   times in nanoseconds; compiles, also cached ones, at `INFO`; every error of the driver at `ERROR`,
//!   also a handled one, such as a cubin refused in favour of PTX; errors of drops at `WARN`.
//! - `testing`: launches that try whether the declarations of [`kernels!`] hold, in the module `testing`.
//! - `nvtx`: ranges and marks for NVIDIA's profilers, in the module `nvtx`.

// `call` comes first: the other modules use its macros.
#[macro_use]
mod call;
mod trace;

pub mod arg;
mod caller;
mod consume;
mod context;
pub mod device;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod driver;
mod error;
mod event;
mod function;
mod graph;
mod image;
#[cfg(feature = "rust-kernels")]
pub mod kernel;
mod launch;
mod lend;
mod memory;
mod module;
mod peer;
pub mod prelude;
mod quiet;
mod stream;
mod sync;
pub mod sys;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vector;

#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "nvtx")]
pub mod nvtx;

pub use caller::check_caller;
pub use consume::ConsumeError;
pub use context::{Context, MemoryInfo, Stats};
pub use device::Device;
pub use driver::Driver;
pub use error::{Error, ErrorKind, LaunchRecord, Result};
pub use event::Event;
pub use function::{Kernel, KernelAttributes, KernelParameter};
pub use graph::{GraphBuilder, GraphExec, GraphNode, GraphPart, Recaptured, RecordingId};
pub use launch::{DeviceRepr, Dim3, IntoLaunchConfig, KernelArg, LaunchConfig};
pub use lend::LentStream;
pub use memory::pluggable;
pub use memory::{
    Access, Allocation, Allocator, DeviceBuffer, DeviceSlice, DeviceSliceMut, Extent,
    ForeignMemory, Gate, HostMut, HostRef, KeptMemory, PinnedBuffer, PitchedLayout, Pool, ReadView,
    Transfer, UnifiedBuffer, WriteView,
};
#[cfg(feature = "packed-ptx")]
pub use module::PackedPtx;
pub use module::{
    DeclaredKernels, Global, GlobalInfo, GlobalKind, JitOptions, KernelSignatures, KernelSource,
    Linker, LoadedFrom, Module, ModuleImage, OptimizationLevel,
};
pub use peer::Devices;
pub use stream::{EnqueueGroup, GraphLock, Mark, Stream};

pub use cuda_macros::{include_cuda, kernels};
/// The compiler, for options, headers and templates.
pub use nvrtc;

/// Functions for code that [`kernels!`] generates; not for other use.
#[doc(hidden)]
pub mod __private {
    use crate::error::{Error, ErrorKind};
    pub use crate::launch::{
        Fallback, Known, Number, Probe, extent, fill, in_x_alone, integer, named, number, over,
    };
    pub use crate::module::{
        Declared, DeclaredGlobal, DeclaredIn, DeclaredInstances, DeclaredSource, Instance,
        instance, symbol,
    };

    /// Returns the error of a `where` clause that does not hold.
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
