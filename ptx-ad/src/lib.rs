//! Generates adjoints of compiled kernels: reverse-mode gradients, from PTX to PTX.
//!
//! [`differentiate`] takes the PTX of a kernel, as NVRTC or another compiler has written it, and a [`Spec`] that says
//! which parameters are differentiated. It returns the PTX of the adjoint: a kernel with the parameters of the first,
//! gradients and a frame, as `geom/tape.cuh` describes. If the gradient would not be right, it returns the reasons with
//! the lines of the source: those of control and calls, and if there are none, those of values and memory.
//!
//! ```
//! use ptx_ad::{Param, Pointer, Real, Reals, Spec, differentiate};
//!
//! // out[i] = x[i] * x[i]
//! let text = ".version 8.0
//! .target sm_75
//! .address_size 64
//! .visible .entry square(.param .u64 x, .param .u64 out)
//! {
//!     .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .f32 %f<3>;
//!     ld.param.u64 %rd1, [x];
//!     ld.param.u64 %rd2, [out];
//!     mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
//!     mad.lo.s32 %r1, %r1, %r2, %r3;
//!     mul.wide.u32 %rd3, %r1, 4;
//!     add.s64 %rd4, %rd1, %rd3;
//!     add.s64 %rd5, %rd2, %rd3;
//!     ld.global.f32 %f1, [%rd4];
//!     mul.f32 %f2, %f1, %f1;
//!     st.global.f32 [%rd5], %f2;
//!     ret;
//! }";
//! let module = ptx::parse(text)?;
//! let buffer = |name: &str| Param {
//!     name: name.to_owned(),
//!     pointers: vec![Pointer {
//!         offset: 0,
//!         size: 4,
//!         reals: Some(Reals::All(Real::F32)),
//!         active: true,
//!         length: None,
//!     }],
//!     ..Param::default()
//! };
//! let spec = Spec { kernel: "square".to_owned(), params: vec![buffer("x"), buffer("out")] };
//! let adjoint = differentiate(&module, &spec)?;
//! assert!(adjoint.text.contains(".entry square_adjoint"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is differentiated
//! Kernels of `float`, `double` and 16-bit floats, with branches, loops, local arrays, shared memory, barriers and
//! shuffles. Comparisons, conversions to integers and rounding to integral
//! values are constants. `sqrt` has the derivative 0 at 0, `fabs` that of the side of the sign bit. An address may be
//! one of up to four that are known, as `c ? a[i] : b[i]` and `std::clamp` compile to. `min` and `max` pass the
//! gradient to their first operand at ties, and to the one that is returned if the other is NaN. What is not chosen
//! gets no gradient, even if its derivative is infinite.
//!
//! The adjoint repeats the kernel, so what the kernel computes must be the same in each run: not by races, and not by
//! which threads happen to run together (`__activemask`), other than in ways that do not change the results.
//!
//! # Threads that exchange values
//! Between two barriers, a number in shared memory, or one in device memory that threads of a block exchange, must be
//! used by one thread, or only loaded, or only added to by atomics; several threads may store the same value to it. The
//! caller promises this for C++ and PTX: kernels with races are not recognized, and their gradients are wrong.
//!
//! Arrays in shared memory need a constant size, and their gradients take as much again, of 48 KiB. Barriers are
//! `bar.sync` and `barrier.sync` of all threads, those with results (`__syncthreads_count`) and `bar.warp.sync`. Threads
//! may leave before a barrier. Whole warps must come to a shuffle of numbers with gradients: branches around it depend
//! on values that are the same in a warp, such as `threadIdx.x / 32` in blocks whose width is a multiple of 32. The
//! adjoint ends with a trap in other blocks.
//!
//! Additions to gradients in shared memory are atomic, in an order that is left to chance, so these kernels have no
//! [`Adjoint::deterministic`].
//!
//! # 16-bit floats
//! Gradients of [`Real::F16`] and [`Real::Bf16`] are `float`, at twice the offset of the number. Values round as in the
//! kernel; derivatives are those of the same functions of `float`. Packed instructions are differentiated lane by lane.
//! Integer instructions may move 16 bits and change their sign bit. If they make other bits of an active number, and
//! those come back to one, the kernel is refused ([`Reason::Bits`]). So is what else is not arithmetic
//! ([`Reason::Half`]): 16-bit floats in local memory, in structures with other members, converted to 8 bits.
//!
//! # Markers
//! Opcodes that no device has, as `geom/ad.cuh` writes them by inline assembly, with registers as operands. TYPE is
//! `f32` or `f64`. In the adjoint, each is a copy of y.
//! - `ad.rule.TYPE d, y, x1, d1, x2, d2, ...`: the differential of d is d1 dx1 + d2 dx2 + ...
//! - `ad.stop.TYPE d, y`: d is a constant.
//! - `ad.lost.TYPE d, y`, or `ad.lost.TYPE.NAME` of a function: the derivative is not known ([`Reason::Lost`]).
//!
//! # Loops
//! The adjoint first repeats the kernel. Each iteration of an outermost loop keeps the values that the loop carries, as
//! far as the reverse needs them; counters and linear functions of carried values are recomputed. Then the iterations
//! are reversed from the last to the first: each is repeated from the values that it has kept, and reversed. Inner
//! loops do the same. So code in n nested loops runs n + 1 times, and memory grows with the sum of the iteration
//! counts, not with their product. See [`Adjoint::kept`] and [`Adjoint::scratch`].
#![forbid(unsafe_code)]

pub mod abi;
mod analysis;
mod body;
mod bytes;
mod chosen;
mod doubles;
mod emit;
mod f16;
mod globals;
mod integral;
mod lcssa;
mod legal;
mod pipeline;
mod prepare;
mod reads;
mod refusal;
mod replay;
mod slots;
mod spec;
mod text;
mod twice;

use std::fmt;

use ptx::ir::Module;

pub use refusal::{Place, Reason, Refusal};
pub use spec::{Access, Effect, Param, Pointer, Real, Reals, Spec};
pub use twice::{Twice, differentiate_twice};

/// Reads a PTX text for [`differentiate`].
pub use ptx::parse;

/// The adjoint of a kernel.
#[derive(Debug, Clone)]
pub struct Adjoint {
    /// The kernel's name: that of the differentiated kernel with `_adjoint`.
    pub name: String,
    /// Its PTX.
    pub text: String,
    /// The effects of the kernel on the memory behind each pointer, in the order of the specification.
    pub accesses: Vec<Access>,
    /// The number of dimensions of a launch that the kernel's indices depend on.
    pub dimensions: u32,
    /// Whether several threads may add to one gradient: by atomics, or by sums over blocks.
    pub shares: bool,
    /// The adjoint for deterministic tapes, if several threads may add to one gradient. All else is as for the adjoint.
    /// There is none if the kernel stores to elements that may be others' and loads them: their gradients are read in
    /// the same launch that adds to them. Nor is there one if threads add to gradients in shared memory.
    pub deterministic: Option<Deterministic>,
    /// Pointers, by their positions in `accesses`, that must not lead to the same memory: the kernel loads through the
    /// first after it has stored through the second, and the adjoint loads what was there before; or it stores through
    /// both, and the adjoint loads both gradients before it clears one; or the first leads to a replay buffer, and the
    /// kernel stores through the second.
    pub apart: Vec<(usize, usize)>,
    /// The largest number of threads in a launch for which adding without atomics is right.
    pub threads: u64,
    /// The values that loops keep for their reverse. Loops that keep nothing are left out.
    pub kept: Vec<Kept>,
    /// Whether the adjoint needs scratch memory: a header, a mark for each thread, and for each thread the words that
    /// its loops keep. Threads whose memory is too small report [`abi::SCRATCH_OVERFLOW`] and touch no gradient. They
    /// run again with [`abi::RESUME`], and with private copies as they were at first.
    pub scratch: bool,
}

impl Adjoint {
    /// Returns the text for blocks of up to `threads` threads. The driver's compiler then gives the kernel no more
    /// registers than such a block has. Without that limit it may give adjoints more than their kernels, and large
    /// blocks can't be launched.
    #[must_use]
    pub fn text_for_blocks_of(&self, threads: u32) -> String {
        text::for_blocks_of(&self.text, &self.name, threads)
    }

    /// Returns the text for deterministic tapes, for blocks of up to `threads` threads.
    #[must_use]
    pub fn deterministic_text_for_blocks_of(&self, threads: u32) -> Option<String> {
        let text = &self.deterministic.as_ref()?.text;
        Some(text::for_blocks_of(text, &self.name, threads))
    }
}

/// An adjoint without atomic additions: it appends the summands of shared gradients to the log that the frame points
/// to.
#[derive(Debug, Clone)]
pub struct Deterministic {
    /// Its PTX. The kernel has the name and the parameters of the other adjoint.
    pub text: String,
    /// The most numbers that each thread adds, by the number of loops around: first outside of loops, second for each
    /// iteration of outermost loops, and so on. Sums for numbers that were passed by value are not counted: each block
    /// adds one for each number, or with [`Adjoint::scratch`] each thread.
    pub added: Vec<u64>,
}

/// What a loop keeps in scratch memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The loop's first line in the kernel's source.
    pub place: Option<Place>,
    /// How many words of 32 bits the loop keeps for each iteration.
    pub words: u32,
    /// The depth of nesting; 1 for an outermost loop. An inner loop keeps the words for the iterations within one
    /// iteration of the loop around.
    pub depth: u32,
}

/// Why a kernel can't be differentiated. Values and memory are checked only if control has no reasons.
#[derive(Clone, PartialEq, Eq)]
pub struct NotDifferentiable {
    /// The kernel.
    pub kernel: String,
    /// The reasons, in the order of the code.
    pub refusals: Vec<Refusal>,
}

impl fmt::Debug for NotDifferentiable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NotDifferentiable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` can't be differentiated:", self.kernel)?;
        self.refusals.iter().try_for_each(|refusal| write!(f, "\n  {refusal}"))
    }
}

impl std::error::Error for NotDifferentiable {}

/// Generates the adjoint of a kernel of `module`. The same input gives the same text.
///
/// # Errors
/// Returns the reasons why the gradient would be wrong.
pub fn differentiate(module: &Module, spec: &Spec) -> Result<Adjoint, NotDifferentiable> {
    pipeline::adjoint(module, spec, false)
        .map_err(|refusals| NotDifferentiable { kernel: spec.kernel.clone(), refusals })
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
