//! Generates adjoints of compiled kernels: reverse-mode gradients, from PTX to PTX.
//!
//! [`differentiate`] takes the PTX of a kernel, as NVRTC or another compiler has written it, and a [`Spec`] that says which
//! parameters are differentiated. It returns the PTX of the adjoint: a kernel with the parameters of the first, gradients
//! and a frame, as `geom/tape.cuh` describes. If the gradient would not be right, it returns the reasons with the lines of the
//! source: those of control and calls, and if there are none, those of values and memory.
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
//! Kernels of `float`, `double` and 16-bit floats without shared memory, with branches, loops and local arrays. Barriers are
//! left out if the threads exchange nothing. Comparisons, conversions to integers and rounding to integral values are
//! constants. `sqrt` has the derivative 0 at 0, `fabs` that of the side of the sign bit. An address may be one of up to
//! four that are known, as `c ? a[i] : b[i]` and `std::clamp` compile to. `min` and `max` pass the gradient to their
//! first operand at ties, and to the one that is returned if the other is NaN. What is not chosen gets no gradient,
//! even if its derivative is infinite.
//!
//! The adjoint repeats the kernel, so what the kernel computes must be the same in each run: not by races, and not by
//! which threads happen to run together (`__activemask`), other than in ways that do not change the results.
//!
//! # 16-bit floats
//! Gradients of [`Real::F16`] and [`Real::Bf16`] are `float`, at twice the offset of the number. Values round as in the
//! kernel; derivatives are those of the same functions of `float`. Packed instructions are differentiated lane by lane.
//! Integer instructions may move 16 bits and change their sign bit. If they make other bits of an active number, and those
//! come back to one, the kernel is refused ([`Reason::Bits`]). So is what else is not arithmetic ([`Reason::Half`]): 16-bit
//! floats in local memory, in structures with other members, converted to 8 bits.
//!
//! # Markers
//! Opcodes that no device has, as `geom/ad.cuh` writes them by inline assembly, with registers as operands. TYPE is `f32`
//! or `f64`. In the adjoint, each is a copy of y.
//! - `ad.rule.TYPE d, y, x1, d1, x2, d2, ...`: the differential of d is d1 dx1 + d2 dx2 + ...
//! - `ad.stop.TYPE d, y`: d is a constant.
//! - `ad.lost.TYPE d, y`, or `ad.lost.TYPE.NAME` of a function: the derivative is not known ([`Reason::Lost`]).
//!
//! # Loops
//! The adjoint first repeats the kernel. Each turn of an outermost loop keeps the values that the loop carries, as far as
//! the reverse needs them: counters and what is linear in what is carried are not kept. Then turns are reversed from the
//! last to the first: each is repeated from what it has kept, which the loops in it do likewise, and reversed. So code in n
//! nested loops runs n + 1 times, and memory grows with the sum of the numbers of turns, not with their product. See
//! [`Adjoint::kept`] and [`Adjoint::scratch`].
#![forbid(unsafe_code)]

pub mod abi;
mod analysis;
mod body;
mod bytes;
mod chosen;
mod closed;
mod doubles;
mod emit;
mod globals;
mod halves;
mod integral;
mod legal;
mod prepare;
mod reads;
mod refusal;
mod replay;
mod spec;

use std::collections::BTreeSet;
use std::fmt;

use ptx::ir::{Function, FunctionId, GlobalId, Item, Module, Op};

pub use refusal::{Place, Reason, Refusal};
pub use spec::{Access, Effect, Param, Pointer, Real, Reals, Spec};

/// Reads a PTX text for [`differentiate`].
pub use ptx::parse;

use analysis::Analysis;

/// The adjoint of a kernel.
#[derive(Debug, Clone)]
pub struct Adjoint {
    /// The kernel's name: that of the differentiated kernel with `_adjoint`.
    pub name: String,
    /// Its PTX.
    pub text: String,
    /// What the kernel does with the memory behind each pointer, in the order of the specification.
    pub accesses: Vec<Access>,
    /// The number of dimensions of a launch that the kernel's indices depend on.
    pub dimensions: u32,
    /// Whether several threads may add to one gradient: by atomics, or by sums over blocks.
    pub shares: bool,
    /// The adjoint for deterministic tapes, if several threads may add to one gradient. All else is as for the adjoint. There
    /// is none if the kernel stores to elements that may be others' and loads them: their gradients are read in the
    /// same launch that adds to them.
    pub deterministic: Option<Deterministic>,
    /// Pointers, by their positions in `accesses`, that must not lead to the same memory: the kernel loads through the
    /// first after it has stored through the second, and the adjoint loads what was there before; or it stores through
    /// both, and the adjoint loads both gradients before it clears one; or the first leads to a replay buffer, and the
    /// kernel stores through the second.
    pub apart: Vec<(usize, usize)>,
    /// The largest number of threads in a launch for which gradients are added without atomics as they should be.
    pub threads: u64,
    /// What loops keep for their reverse. Loops that keep nothing are not among them.
    pub kept: Vec<Kept>,
    /// Whether the adjoint takes scratch memory: a header, a mark for each thread, and for each thread the words that its
    /// loops keep. Threads that have too little report [`abi::SCRATCH_OVERFLOW`] and touch no gradient; they run again with
    /// [`abi::RESUME`], and private copies that are as they were before.
    pub scratch: bool,
}

impl Adjoint {
    /// Returns the text for blocks of up to so many threads: the driver's compiler gives a kernel no more registers than
    /// there are for its threads. Without that, it may give adjoints more than their kernels, and large blocks can't be
    /// launched.
    #[must_use]
    pub fn text_for_blocks_of(&self, threads: u32) -> String {
        with_threads(&self.text, &self.name, threads)
    }

    /// Returns the text for deterministic tapes, for blocks of up to so many threads.
    #[must_use]
    pub fn deterministic_text_for_blocks_of(&self, threads: u32) -> Option<String> {
        let text = &self.deterministic.as_ref()?.text;
        Some(with_threads(text, &self.name, threads))
    }
}

fn with_threads(text: &str, kernel: &str, threads: u32) -> String {
    let head = format!(".entry {kernel}(");
    let body = text.find(&head).and_then(|entry| {
        let body = text.get(entry..)?.find("\n{")?;
        entry.checked_add(body)
    });
    match body.and_then(|at| text.split_at_checked(at)) {
        Some((before, after)) => {
            // So many threads may need fewer registers than there may be.
            let before = match before.rsplit_once('\n') {
                Some((head, last)) if last.starts_with(".maxnreg") => head,
                _ => before,
            };
            format!("{before}\n.maxntid {threads}, 1, 1{after}")
        }
        None => text.to_owned(),
    }
}

/// An adjoint that adds nothing by atomics: what goes to gradients to which other threads may add is written into the log
/// that the frame leads to.
#[derive(Debug, Clone)]
pub struct Deterministic {
    /// Its PTX. The kernel has the name and the parameters of the other adjoint.
    pub text: String,
    /// How many numbers each thread adds at most, by the number of loops around: in the first place outside of loops, in the
    /// second for each turn of loops that are in no other, and so on. Sums for numbers that were passed by value are not
    /// counted: each block adds one for each number, or with [`Adjoint::scratch`] each thread.
    pub added: Vec<u64>,
}

/// What a loop keeps in scratch memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The loop's first line in the kernel's source.
    pub place: Option<Place>,
    /// How many words of 32 bits it keeps for each turn.
    pub words: u32,
    /// How many loops it is in, itself among them. An inner loop keeps them for the turns of one turn of the loop around.
    pub depth: u32,
}

/// Why a kernel can't be differentiated. Reasons of values and memory are looked for once control has none.
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
    let refused = |refusals| NotDifferentiable { kernel: spec.kernel.clone(), refusals };
    let mut body = prepare::prepare(module, spec).map_err(refused)?;
    bytes::join(&mut body, spec);
    chosen::split(&mut body, spec);
    integral::mark(&mut body);
    halves::widen(&mut body, spec);
    let mut analysis = Analysis::new(&body, spec);
    if doubles::widen(&mut body, &analysis.kinds) {
        analysis = Analysis::new(&body, spec);
    }
    let replay = replay::replace(module, spec, &mut body, &analysis).map_err(refused)?;
    if replay.is_used() {
        // The effects are those of the kernel as it was.
        let used = std::mem::take(&mut analysis.used);
        analysis = Analysis::new(&body, spec);
        analysis.used = used;
    }
    let (mut refusals, pairs) = replay::check(module, &body, &analysis, &replay);
    let mut checked = legal::check(module, spec, &body, &analysis);
    refusals.extend(std::mem::take(&mut checked.refusals));
    checked.apart.extend(pairs);
    if !refusals.is_empty() {
        return Err(refused(refusals));
    }
    let mut apart = std::mem::take(&mut checked.apart);
    let name = format!("{}_adjoint", spec.kernel);
    let emit::Written { function, apart: stored, kept, scratch, .. } =
        emit::adjoint(&body, &analysis, &checked.private, &name, None);
    apart.extend(stored);
    let function = emit::early(emit::shorten(module, function));
    let globals = globals::check(module, &body, &function).map_err(refused)?;
    let params = body.params().count();
    let is_replayed = |pointer: usize| replay.buffers.get(pointer) == Some(&true);
    let used = analysis.used.iter().enumerate();
    let anywhere = analysis.loads_anywhere(&body);
    let may = reads::Touched {
        loaded: used.map(|(at, used)| anywhere || used.loaded || is_replayed(at)).collect(),
        stored: checked.private.clone(),
    };
    let touched = |function: &Function| {
        reads::touched(function, params, &analysis, &may).map_err(|refusal| refused(vec![refusal]))
    };
    let mut found = touched(&function)?;
    let is_sum = |instr: &ptx::ir::Instr| matches!(instr.op, Op::Atom { ty, .. } if ty.is_float());
    let shares = function.instrs().iter().any(is_sum);
    let log = shares && !analysis.takes_sums();
    let log = log.then(|| emit::with_log(module, &spec.kernel)).flatten();
    let deterministic = log.and_then(|(module, id)| {
        let made = emit::adjoint(&body, &analysis, &checked.private, &name, Some(id));
        let function = emit::shorten(&module, made.function);
        let globals = globals::check(&module, &body, &function).ok()?;
        Some(touched(&function).map(|touched| {
            let text = text(&module, &globals, Some(id), function);
            (Deterministic { text, added: made.added }, touched)
        }))
    });
    let (deterministic, also) = deterministic.transpose()?.unzip();
    also.iter().for_each(|also| found.also(also));
    let accesses = analysis.pointers.iter().enumerate().map(|(index, pointer)| Access {
        param: pointer.param,
        offset: pointer.spec.offset,
        effect: analysis.used.get(index).copied().unwrap_or_default().effect(),
        loaded: found.loaded.get(index).copied().unwrap_or(true),
        private: found.stored.get(index).copied().unwrap_or(false),
        own: analysis.own.get(index).is_some(),
        covers: emit::covers(&analysis, index),
        drops: emit::drops(&body, &analysis, index),
        constant: !analysis.stores_varied(&body, index),
        replayed: is_replayed(index),
    });
    let accesses = accesses.collect();
    let dimensions = body.dimensions();
    let threads = (1 << 31) / u64::from(analysis.own.widest.max(1));
    Ok(Adjoint {
        text: text(module, &globals, None, function),
        name,
        accesses,
        dimensions,
        shares,
        deterministic,
        apart,
        threads,
        kept: kept
            .into_iter()
            .map(|(region, words)| kept_of(module, &body, region, words))
            .collect(),
        scratch,
    })
}

/// Returns the place of a loop, with what it keeps.
fn kept_of(module: &Module, body: &body::Body, region: usize, words: u32) -> Kept {
    let blocks = body.range(region).filter_map(|at| body.blocks.get(at));
    let instr = blocks.flat_map(|block| &block.code).find(|instr| instr.loc.is_some());
    let place = instr
        .and_then(|instr| Refusal::new(Reason::Loop, "").at(module, &body.function, instr).user);
    Kept { place, words, depth: u32::try_from(body.depth(region)).unwrap_or(u32::MAX) }
}

/// Returns the text of a module with this function, another that it calls, and the variables that it uses.
fn text(
    module: &Module,
    kept: &BTreeSet<GlobalId>,
    called: Option<FunctionId>,
    function: Function,
) -> String {
    let mut adjoint = module.clone();
    // The first that has `activemask`.
    adjoint.version = adjoint.version.max((6, 2));
    for target in &mut adjoint.targets {
        // The first that has `red.relaxed` and `match`.
        let number = target.strip_prefix("sm_").and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| number < 70) {
            *target = "sm_70".to_owned();
        }
    }
    adjoint.items.retain(|item| match item {
        Item::Global(id) => kept.contains(id),
        Item::File(_) => true,
        _ => false,
    });
    adjoint.items.extend(called.map(Item::Function));
    let id = FunctionId(u32::try_from(adjoint.functions.len()).unwrap_or(u32::MAX));
    adjoint.functions.push(function);
    adjoint.aliases.clear();
    // The names of inlined functions stand in sections that are left out.
    for loc in adjoint.functions.last_mut().into_iter().flat_map(|function| &mut function.locs) {
        loc.inlined = None;
    }
    adjoint.items.push(Item::Function(id));
    adjoint.to_string()
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
