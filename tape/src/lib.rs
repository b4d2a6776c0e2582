//! Gradients through kernels: launches are recorded, and run backwards by their adjoints.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Module, Result};
//! use tape::{Element, OpSpec, Param, Primal, Tape, Variable};
//!
//! const SOURCE: &str = r#"
//!     #include <geom/tape.cuh>
//!     extern "C" __global__ void scale(float a, const float* x, float* out, unsigned n) {
//!         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!         if (i < n) out[i] = a * x[i];
//!     }
//!     extern "C" __global__ void scale_adjoint(
//!         float a, const float* x, float*, unsigned n,   // as the kernel
//!         float* ga, float* gx, float* gout,             // gradients of the active parameters
//!         geom::tape::Frame frame
//!     ) {
//!         using namespace geom::tape;
//!         if (!begin(frame)) return;
//!         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!         float g = i < n ? grad_take(frame, 2, at(gout, i)) : 0.0f;
//!         if (i < n) grad_own(frame, 1, at(gx, i), a * g);
//!         partial_add(frame, ga, i < n ? x[i] * g : 0.0f);
//!     }"#;
//!
//! fn main() -> Result<()> {
//!     let context = Context::new(0)?;
//!     let stream = context.stream()?;
//!     let module = Module::compile(&context, tape::program(SOURCE))?;
//!     let spec = OpSpec::new("scale")
//!         .param(Param::scalar("a", Element::F32).active())
//!         .param(Param::buffer("x", Element::F32).reads(Primal::Entry).len("n").covers_all().active())
//!         .param(Param::buffer("out", Element::F32).overwrites().len("n").covers_all().active())
//!         .param(Param::value("n"));
//!     // Promised by this `unsafe`: thread i touches element i of each buffer, and only if i < n.
//!     let scale = unsafe { spec.register(&module) }?;
//!
//!     let a = Variable::new(&stream, 3.0f32)?;
//!     let x = DeviceBuffer::from_slice(&stream, &[2.0f32])?;
//!     let mut y = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
//!     let mut tape = Tape::record(&stream, |t| {
//!         t.watch(&a)?;
//!         t.watch(&x)?;
//!         t.launch(&scale, LaunchConfig::cover(1, 128), (&a, &x, &mut y, 1u32))
//!     })?;
//!     tape.backward(&stream, &y)?;
//!     assert_eq!(tape.gradient(&x)?.to_vec(&stream)?, [3.0]);
//!     assert_eq!(tape.gradient(&a)?.to_vec(&stream)?, [2.0]);
//!     Ok(())
//! }
//! ```
//!
//! # Right, or an error
//! Whatever would make a gradient wrong in silence is an error here:
//! - What a launch has read is there for its adjoint: if something recorded overwrites it, the tape keeps a
//!   copy; if something else does, [`Tape::backward`] names the launch and the parameter.
//! - What depends on something watched, and was written since by something that is not recorded (a fill
//!   of the stream's, the host), is refused where it is used next: nobody has said what it depends on now.
//! - What depends on something watched and goes where an operation has no gradient is refused when it is
//!   launched, as is an operation without an adjoint. [`Recorder::stop_gradient`] and [`Op::detach`] say
//!   that it is meant.
//! - Where no differentiable path leads, there is no gradient, instead of zeros.
//! - A launch whose buffers are shorter than what its specification says is refused; a part of a buffer
//!   that it does not write keeps its gradient.
//!
//! # What runs backwards
//! Steps between what is watched and what the gradient is taken of, in reverse order; launches that
//! gradients do not come through are not even remembered. A gradient belongs to memory: one buffer for each
//! allocation, which views and aliases share, from when it is first needed until no step needs it any more.
//! The plan for it all is made on the host: which gradients are stored instead of added to (ASSIGN), which
//! are not cleared after they were read (DROP), where zeros must be. Gradients of a chain of launches are
//! read and written once each.
//!
//! The host does not wait for a pass, unless an adjoint takes scratch memory or the tape is deterministic.
//! Recordings and passes can be captured in graphs, together or each in its own, and launched again with
//! new data; all memory is the tape's, and it is made in the first run. The gradients are those of the new
//! data if the recording is in a graph as well, which was launched before: a graph of a pass alone takes what
//! it finds where the recording's values lie (memory, or copies that the recording has made). A launch of a
//! graph can't compare versions, so none of that is checked then. After a captured pass there are gradients
//! once its graph was launched. If the recording's graph has not run by then, the pass computes nothing, and
//! [`Tape::check`] returns that as an error.
//!
//! A pass that is not captured uses no gradients of a graph. [`Tape::gradient`] returns those of the pass that
//! was enqueued or captured last.
//!
//! # Deterministic tapes
//! Sums of floats depend on their order, which atomics leave to chance. On a tape that is
//! [deterministic](Tape::set_deterministic), what several threads add goes to a log. Summands of one address
//! are then added as integers, whose sums do not depend on their order, so nothing need be sorted. Of each
//! summand the bits are kept down to 2^-61 of the power of two above the largest; what lies below is cut off,
//! towards negative infinity. Their sum is exact but for that. It is rounded to a `double`, for a `float` to
//! that, and added to the gradient. With an infinity or a NaN among the summands the sum is NaN.
//!
//! # Adjoints
//! [`OpSpec`] says how they are called and what they are given; `geom/tape.cuh` ([`program`]) has what they
//! need. [`CustomOp`] is for adjoints in Rust. [`check`] holds both against differences.
//!
//! # Features
//! - `half`: gradients with respect to `f16` and `bf16`, which are `f32`.

mod backward;
pub mod check;
mod custom;
mod element;
mod frame;
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

pub use crate::tape::Tape;
pub use custom::{Adjoint, CustomBuilder, CustomOp, Gradient, Handle};
pub use element::{Differentiable, Element, FloatType};
pub use frame::{ABI, COUNT, DETERMINISTIC, Frame, RESUME};
#[cfg(feature = "internals")]
pub use kernels::ptx;
pub use kernels::{HEADER, headers, program};
pub use record::Recorder;
pub use report::MemoryReport;
pub use saved::Saved;
pub use seeds::Seeds;
pub use spec::{Effect, Op, OpSpec, Param, Primal};
#[cfg(feature = "internals")]
pub use store::poison_memory;
pub use variable::{Variable, Watched};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
