//! Gradients through kernels: records launches, and runs their adjoints backwards.
//!
//! ```no_run
//! use cuda_safe::kernel::kernel;
//! use cuda_safe::{Context, DeviceBuffer, Result};
//! use cuda_tape::{Tape, Variable};
//!
//! #[kernel(gradient)]
//! fn scale(#[active] a: f32, x: &[f32], out: &mut [f32]) {
//!     assert!(x.len() == out.len());
//!     each(out, |i, out| *out = a * x[i]);
//! }
//!
//! fn main() -> Result<()> {
//!     let stream = Context::new(0)?.stream()?;
//!     let a = Variable::new(&stream, 3.0f32)?;
//!     let x = DeviceBuffer::from_slice(&stream, &[2.0f32])?;
//!     let mut y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
//!     let mut tape = Tape::record(&stream, |t| {
//!         t.watch(&a)?;
//!         t.watch(&x)?;
//!         scale::record(t, &a, &x, &mut y)
//!     })?;
//!     tape.backward(&stream, &y)?;
//!     assert_eq!(tape.gradient(&x)?.to_vec(&stream)?, [3.0]);
//!     assert_eq!(tape.gradient(&a)?.to_vec(&stream)?, [2.0]);
//!     Ok(())
//! }
//! ```
//!
//! Kernels that [`kernels!`](cuda_safe::kernels) declares have a method that records with `#[gradient]`. [`OpSpec`]
//! describes others.
//!
//! # Correct, or an error
//! Cases that would silently give a wrong gradient are errors:
//! - Values that a launch has read are available to its adjoint. If a recorded step overwrites them, the tape
//!   keeps a copy; if something else does, [`Tape::backward`] names the launch and the parameter.
//! - A value that depends on something watched, and that unrecorded work has written since (a fill of the stream, the
//!   host), is refused at its next use, because its new dependencies are unknown.
//! - A value that depends on something watched, passed to a parameter without a gradient, is refused at the
//!   launch, as is an operation without an adjoint. [`Recorder::stop_gradient`] and [`Op::detach`] allow it.
//! - Where no differentiable path leads, [`Tape::gradient`] returns an error instead of zeros.
//! - A launch whose buffers are shorter than its specification says is refused. Elements that a launch does not write
//!   keep their gradient.
//!
//! # What runs backwards
//! A pass runs the adjoints of the steps between the watched values and the output, in reverse order. Launches that
//! no gradient flows through are not recorded. Gradients belong to memory: each allocation has one buffer for its
//! gradient, which views and aliases share, from its first use until its last. The host plans which gradients are
//! stored instead of added to (ASSIGN), which are not cleared after they were read (DROP), and where zeros must be.
//! Each gradient in a chain of launches is read and written once.
//!
//! The host does not wait for a pass, unless an adjoint takes scratch memory or the tape is deterministic.
//! Recordings and passes can be captured in graphs, together or separately, and launched again with new data.
//! The tape owns all memory and allocates it in the first run. A captured pass uses new data only if the recording is
//! in a graph, too, which was launched before: the graph of a pass alone reads the recording's values where they are
//! (in memory, or in copies that the recording made). A launch of a graph cannot compare versions, so they are not
//! checked then. Gradients of a captured pass exist once its graph was launched. If the recording's graph has not run
//! by then, the pass computes nothing, and [`Tape::check`] returns an error.
//!
//! A pass that is not captured uses no gradients of a graph. [`Tape::gradient`] returns those of the pass that was
//! enqueued or captured last.
//!
//! # Deterministic tapes
//! Sums of floats depend on their order, and atomics add in any order. On a [deterministic](Tape::set_deterministic)
//! tape, values that several threads add go to a log. The summands of one address are then added as integers, whose
//! sum does not depend on the order. Each summand keeps its bits down to 2^-61 of the power of two above the largest;
//! lower bits are cut off, towards negative infinity. The sum is otherwise exact. It is rounded to a `double` (and
//! then to a `float`, if that is the gradient's type), and added to the gradient. If a summand is infinite or NaN,
//! the sum is NaN.
//!
//! # Adjoints
//! Adjoints of Rust kernels and of `#[gradient]` are generated from the compiled kernel, as by
//! [`OpSpec::differentiate`]. [`OpSpec::register`] takes an adjoint
//! written in CUDA C++, for which `geom/tape.cuh` ([`program`]) has the functions. [`CustomOp`] is for adjoints in
//! Rust. [`check`] compares all of them with differences.
//!
//! # Features
//! - `half`: gradients with respect to `f16` and `bf16`, which are `f32`.
//! - `rust-kernels`: gradients of kernels that are Rust functions.

mod backward;
pub mod check;
mod custom;
mod declared;
mod element;
mod frame;
mod gradcheck;
mod kernels;
mod marker;
pub mod prelude;
mod record;
mod report;
mod runs;
mod saved;
mod seeds;
mod spec;
mod store;
mod tape;
mod untyped;
mod variable;
mod vjp;

pub use crate::tape::Tape;
pub use custom::{Adjoint, CustomBuilder, CustomOp, Gradient, Handle};
pub use declared::Active;
pub use element::{Differentiable, Element, FloatType};
pub use frame::{ABI, COUNT, DETERMINISTIC, Frame, RESUME};
pub use gradcheck::{
    Compared, Finding, Gradcheck, Oracle, Place, Problem, Report, Variation, Verdict, gradcheck,
};
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use kernels::ptx;
pub use kernels::{AD_HEADER, HEADER, headers, program};
/// Generates adjoints of kernels; see [`OpSpec::differentiate`].
pub use ptx_ad;
pub use record::{NotSaved, Recorder};
pub use report::MemoryReport;
pub use saved::Saved;
pub use seeds::Seeds;
#[cfg(feature = "rust-kernels")]
pub use spec::derivation;
pub use spec::{Derivation, DerivedAccess, DifferentiateError, Effect, Op, OpSpec, Param, Primal};
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use store::poison_memory;
pub use variable::{Variable, Watched};
pub use vjp::Gradients;

#[doc(hidden)]
pub mod __private {
    pub use crate::declared::{DeclaredGradient, ElementOf, OtherElement, derivation};
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
