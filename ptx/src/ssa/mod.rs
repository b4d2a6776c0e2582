//! Static single assignment: a function in which every register has one definition.
//!
//! [`Ssa::new`] takes a function there, and [`Ssa::into_function`] back. Where control joins, blocks have parameters:
//! the registers that hold, depending on the predecessor, one of several values.
//!
//! ```
//! let text = ".version 8.0 .target sm_90
//! .entry count(.param .u32 n)
//! {
//!     .reg .b32 %i, %n; .reg .pred %p;
//!     ld.param.u32 %n, [n];
//!     mov.u32 %i, 0;
//! again:
//!     add.u32 %i, %i, 1;
//!     setp.lt.u32 %p, %i, %n;
//!     @%p bra again;
//!     ret;
//! }";
//! let mut module = ptx::parse(text)?;
//! let ssa = ptx::ssa::Ssa::new(&module, &module.functions[0])?;
//! // The loop's block has one parameter: the counter, which comes from before the loop or from its last iteration.
//! let params: Vec<_> = ssa.params.iter().flatten().collect();
//! assert_eq!(params.len(), 1);
//! assert_eq!(params[0].args.len(), 2);
//! module.functions[0] = ssa.into_function();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod out;
mod place;
mod verify;

pub use verify::Violation;

use crate::cfg::{Cfg, Dominators};
use crate::ir::{Function, Module, RegId};

/// A function in static single assignment form.
///
/// - No instruction but `bra`, `ret`, `exit` and `trap` has a guard: [`simplify::branch_guards`] has put branches in
///   their place, so that an operation that a lane must not do is not done. A merge by `selp` would do it, or read what
///   was not computed.
/// - Every block can be reached, no edge is critical ([`simplify::split_critical_edges`]), and no branch leads to the
///   entry.
/// - Every register that is read has one definition, which dominates its uses: an instruction, a block's parameter, a
///   formal parameter of the function, or none, if it is in [`undefined`](Self::undefined). A use as an argument is at
///   the end of the predecessor.
/// - Parameters are minimal and pruned: a block has one for an original register only if several definitions of that
///   meet there, and the value may be read later.
///
/// The body is valid PTX if no block has a parameter. The condition code of [`Op::Carry`](crate::ir::Op::Carry) is no
/// register; instructions keep their order, so that it keeps its meaning.
///
/// [`simplify::branch_guards`]: crate::simplify::branch_guards
/// [`simplify::split_critical_edges`]: crate::simplify::split_critical_edges
#[derive(Debug, Clone, PartialEq)]
pub struct Ssa {
    /// The function, with new registers.
    pub function: Function,
    /// The graph of its blocks.
    pub cfg: Cfg,
    /// The dominators of its blocks.
    pub dominators: Dominators,
    /// The parameters of each block, in the order of [`Cfg::blocks`].
    pub params: Vec<Vec<BlockParam>>,
    /// For each block that returns ([`Block::returns`](crate::cfg::Block::returns)) the values of the function's
    /// results in registers, in the order of [`Function::returns`]; those have no definition in the body. Empty for
    /// other blocks.
    pub results: Vec<Vec<RegId>>,
    /// The registers without a definition. They stand for the values that registers of the original function have
    /// before they are written, which PTX does not specify; reading them is allowed.
    pub undefined: Vec<RegId>,
    /// The register of the original function that each register was.
    pub origin: Vec<RegId>,
}

/// A parameter of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockParam {
    /// The register that holds the value in the block.
    pub reg: RegId,
    /// The value for each predecessor: the block and the register, in ascending order of blocks.
    pub args: Vec<(u32, RegId)>,
}

/// A function that has no static single assignment form.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SsaError {
    /// The function has no body.
    #[error("`{name}` is only declared")]
    Declaration {
        /// The function's name.
        name: String,
    },
    /// An instruction that this crate does not take apart uses registers, and it is not known which it reads and which
    /// it writes. [`Op::set_results`](crate::ir::Op::set_results) states that.
    #[error("line {line}: it is not known which registers `{opcode}` writes")]
    UnknownRoles {
        /// The instruction's opcode.
        opcode: String,
        /// The line of the PTX text.
        line: u32,
    },
    /// Many registers that are written more than once live in many blocks: the search would take seconds.
    #[error("`{name}` is too large")]
    TooLarge {
        /// The function's name.
        name: String,
    },
    /// An instruction names a register, label or table that the function does not have. No parsed text has one.
    #[error(
        "line {line}: an instruction names a register, label or table that `{name}` does not have"
    )]
    Malformed {
        /// The function's name.
        name: String,
        /// The line of the PTX text.
        line: u32,
    },
}

impl std::fmt::Debug for SsaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Ssa {
    /// Returns the form of `function`, a function of `module`. Time is nearly linear in its size and the lengths of its
    /// registers' lives, in blocks: of those with several definitions, 2²⁵ in all, above which the function is refused.
    ///
    /// # Errors
    /// See [`SsaError`].
    pub fn new(module: &Module, function: &Function) -> Result<Self, SsaError> {
        build::build(module, function)
    }

    /// Returns a function of the same module that computes the same, without parameters of blocks: predecessors copy
    /// the arguments, all at once as far as the result shows, before they go on to the block.
    #[must_use]
    pub fn into_function(self) -> Function {
        out::into_function(self)
    }

    /// Checks what the documentation of this type promises of registers and parameters: for a pass that has changed
    /// them.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn verify(&self) -> Result<(), Violation> {
        verify::verify(self)
    }
}
