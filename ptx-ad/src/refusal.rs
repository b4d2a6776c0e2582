//! Reasons for which a kernel can't be differentiated, with the places in the source.

use std::collections::HashSet;
use std::fmt;

use ptx::ir::{Function, Instr, Loc, LocId, Module};

/// The reason of a [`Refusal`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// There is no kernel of this name, or it has no body.
    NoKernel,
    /// A parameter's specification does not fit the kernel.
    Parameter,
    /// No differentiable path leads from an active input to an active output.
    NoPath,
    /// Bits of a number were computed with integer instructions, and became a number again.
    Bits,
    /// The address was loaded from memory or comes from several parameters, or the memory behind a parameter is not
    /// accessed as global memory.
    PointerInMemory,
    /// The result of an atomic operation is used, so an adjoint can't repeat it; or it can't be replayed as the kernel
    /// stores it, see [`Param::replay`](crate::Param::replay).
    AtomicResult,
    /// An atomic operation on numbers that is not an addition.
    AtomicOther,
    /// The same memory is loaded from and added to by atomics.
    MixedAtomics,
    /// Memory is loaded that the kernel may have stored to before, and a copy for the adjoint does not help: the kernel
    /// also adds there, the memory is unknown, or it has no gradient and took a number that depends on active inputs.
    LoadAfterStore,
    /// A volatile or ordered access: it waits for other threads, or relies on those that run in step.
    Volatile,
    /// A variable of the module that depends on active inputs, or that the host or another kernel may write: the
    /// adjoint is a module of its own. Private variables with an initial value that nothing stores to are constants.
    ModuleGlobal,
    /// A loop without an end, too many loops within each other, or one that carries 128 bits.
    Loop,
    /// Blocks that can be entered in several ways without being a loop.
    Irreducible,
    /// Local memory that depends on active inputs, read as other than numbers or by an address that is not known; or a
    /// parameter with an index that is not constant.
    LocalMemory,
    /// Shared memory whose size comes with the launch, or of other blocks; accesses by an address that is not known, or
    /// as other than numbers; or more than a block has, with the gradients.
    SharedMemory,
    /// A barrier of some threads of a block, or one with a result that threads may not reach.
    Barrier,
    /// An exchange of numbers that a part of a warp may not come to, one without a mask, or `redux`.
    Warp,
    /// A call of a function.
    Call,
    /// A call of a function that calls itself.
    Recursion,
    /// A call by address.
    Indirect,
    /// 16-bit floats that are not plain arithmetic: in local memory, in structures with other members, converted to 8
    /// bits.
    Half,
    /// An asynchronous copy.
    Async,
    /// A matrix instruction.
    Matrix,
    /// A texture or surface.
    Texture,
    /// A value whose derivative is not known.
    Lost,
    /// The adjoint can't be differentiated again.
    Second,
    /// The module was compiled for debugging (`-G`).
    Debug,
    /// The generated adjoint contradicts the analysis of its kernel: a fault of this crate.
    Internal,
    /// An unknown instruction.
    Unknown(String),
}

/// A place in a source text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// A reason why a kernel can't be differentiated, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The reason, to be matched on.
    pub reason: Reason,
    /// The message for a reader.
    pub message: String,
    /// The place in the kernel's source; where code was inlined, the place of the outermost call.
    pub user: Option<Place>,
    /// The place that the instruction was compiled from, if it is another: a header's.
    pub inner: Option<Place>,
    /// The line of the PTX text, from 1; 0 if there is none.
    pub ptx_line: u32,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), user: None, inner: None, ptx_line: 0 }
    }

    /// Adds the places of an instruction.
    pub(crate) fn at(mut self, module: &Module, function: &Function, instr: &Instr) -> Self {
        self.ptx_line = instr.line;
        if let Some(loc) = instr.loc {
            (self.user, self.inner) = places(module, function, loc);
        }
        if self.user.as_ref().is_some_and(|user| user.line == 0)
            && let Some((function, loc)) = before(module, instr.line)
        {
            (self.user, self.inner) = places(module, function, loc);
        }
        self
    }
}

/// Refusals in the order of the code, each once: unrolled loops have a line many times.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    list: Vec<Refusal>,
    /// Refusals with a source location, without their line in the PTX text.
    known: HashSet<Refusal>,
}

impl Refusals {
    /// Adds a refusal, unless another has the same reason, message and place.
    pub(crate) fn push(&mut self, refusal: Refusal) {
        let ptx_line = if refusal.user.is_some() { 0 } else { refusal.ptx_line };
        if self.known.insert(Refusal { ptx_line, ..refusal.clone() }) {
            self.list.push(refusal);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn into_list(self) -> Vec<Refusal> {
        self.list
    }
}

/// Returns the location of the last instruction up to a line of the text that has a line in a source. Compilers give
/// line 0 to merged code.
/// merged the line 0.
fn before(module: &Module, line: u32) -> Option<(&Function, LocId)> {
    module.functions.iter().find_map(|function| {
        let instrs = function.instrs();
        let at = instrs.iter().position(|instr| instr.line == line && line > 0)?;
        let has_line = |loc: &LocId| function.locs.get(loc.index()).is_some_and(|loc| loc.line > 0);
        let loc = instrs.iter().take(at).rev().filter_map(|instr| instr.loc).find(has_line)?;
        Some((function, loc))
    })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(Place { file, line }) => write!(f, "{file}:{line}  ")?,
            None if self.ptx_line > 0 => write!(f, "PTX line {}  ", self.ptx_line)?,
            None => {}
        }
        f.write_str(&self.message)?;
        if let Some(Place { file, line }) = &self.inner {
            write!(f, " (inlined from {file}:{line})")?;
        }
        Ok(())
    }
}

/// Returns the location in the kernel's source of the outermost call around an instruction, and the instruction's own
/// location if it is another.
fn places(module: &Module, function: &Function, loc: LocId) -> (Option<Place>, Option<Place>) {
    let place = |file: u32, line: u32| {
        let file = module.files.iter().find(|known| known.index == file)?;
        Some(Place { file: file.name.clone(), line })
    };
    let Some(first) = function.locs.get(loc.index()) else { return (None, None) };
    let inner = place(first.file, first.line);
    let mut outer = (first.file, first.line);
    let mut inlined = first.inlined.as_ref();
    // A call may itself have been inlined: then another `.loc` says into what. A text can make that a circle, as a
    // macro with several functions in one line does.
    let own = function.locs.iter().find(|loc| loc.inlined.is_none()).map(|loc| loc.file);
    let mut seen = vec![(first.file, first.line, first.column)];
    for _ in 0..64 {
        let Some(by) = inlined else { break };
        outer = (by.file, by.line);
        seen.push((by.file, by.line, by.column));
        let leads_on = |loc: &&Loc| {
            let to = loc.inlined.as_ref().map(|to| (to.file, to.line, to.column));
            loc.file == by.file && to.is_some_and(|to| !seen.contains(&to))
        };
        let exact = |loc: &Loc| (loc.line, loc.column) == (by.line, by.column);
        // A call without instructions of its own may have no `.loc`. The nearest line of a header is of the same
        // function; the kernel's file may have other functions next to it.
        let found = function.locs.iter().filter(leads_on);
        let found = found.filter(|loc| exact(loc) || Some(by.file) != own);
        let found =
            found.min_by_key(|loc| (loc.line.abs_diff(by.line), loc.column.abs_diff(by.column)));
        inlined = found.and_then(|loc| loc.inlined.as_ref());
    }
    let user = place(outer.0, outer.1);
    let inner = inner.filter(|inner| Some(inner) != user.as_ref());
    (user, inner)
}
