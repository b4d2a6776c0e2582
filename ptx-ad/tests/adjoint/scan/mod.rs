//! A scan of a kernel: whether it holds anything that the design refuses, or puts off.
//!
//! It shares nothing with the generator. It follows the instructions in the order in which they run, without static
//! single assignment, and knows of each 32 bits of a register whether they are part of a number, and of which parameters'
//! numbers that is computed. So the two agree only if both are right.

mod flow;
mod integers;
mod memory;
mod value;

use std::collections::BTreeSet;

use ptx::ir::{Function, Module};
use ptx_ad::Real;

use crate::common::{Arg, Layout};
use flow::Flow;
use value::Vars;

/// What the generator takes, of what the design puts off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) loops: bool,
    /// Numbers that depend on inputs, in local memory.
    pub(crate) local: bool,
    /// Loads from memory that the kernel may have stored to.
    pub(crate) reloads: bool,
    /// Branches by a table.
    pub(crate) tables: bool,
}

/// What is taken now.
pub(crate) const TAKEN: Taken = Taken { loops: true, local: true, reloads: true, tables: true };

/// Why a kernel is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Why {
    /// Bits of a number went through integer instructions, or a part of a number was stored.
    Bits,
    /// Memory is accessed as another type than is said of it.
    Type,
    NoPath,
    PointerInMemory,
    AtomicResult,
    AtomicOther,
    MixedAtomics,
    Volatile,
    ModuleGlobal,
    Loop,
    Local,
    Reload,
    Shared,
    Barrier,
    Warp,
    Call,
    Recursion,
    Indirect,
    Half,
    Async,
    Matrix,
    Texture,
    /// An opcode, modifier or special register without a derivative.
    Unknown,
}

/// A parameter: the numbers in the memory that it points to, if it is a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The type of the numbers whose gradient is wanted.
    pub(crate) active: Option<Real>,
}

/// What is found of a kernel.
#[derive(Debug)]
pub(crate) struct Scan {
    /// All reasons for which it is to be refused; none if it is to be differentiated.
    pub(crate) reasons: BTreeSet<Why>,
    /// Whether results depend on inputs by a `float`.
    pub(crate) has_singles: bool,
}

/// Scans a kernel.
pub(crate) fn scan(module: &Module, kernel: &str, args: &[Arg], taken: Taken) -> Scan {
    let params = args.iter().map(|arg| match arg {
        Arg::Buffer { active: true, layout: Layout::All(real), .. } => {
            Memory { active: Some(*real) }
        }
        Arg::Buffer { active: true, .. } => panic!("the scan knows no structures"),
        Arg::Buffer { .. } | Arg::Value { .. } => Memory { active: None },
    });
    let params: Vec<Memory> = params.collect();
    let is_kernel = |function: &&Function| function.name == kernel && function.body.is_some();
    let function = module.functions.iter().find(is_kernel).expect("a kernel");
    let mut flow = Flow::new(module, &params, taken);
    flow.run(function, Vars::new(), 0);
    if flow.local_numbers && !taken.local {
        // Whatever local memory is loaded from may hold a number.
        flow = Flow::new(module, &params, taken);
        flow.local_numbers = true;
        flow.run(function, Vars::new(), 0);
    }
    let has_singles = flow.has_singles;
    Scan { reasons: flow.finish(), has_singles }
}
