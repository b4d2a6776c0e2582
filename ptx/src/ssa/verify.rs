//! Whether a form is one.

use super::Ssa;
use crate::cfg::register;
use crate::ir::{Op, RegId, Role};

/// A promise of [`Ssa`] that is broken.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A register has two definitions, or one although it is undefined or a result.
    #[error("register {} is defined again in line {line}", reg.0)]
    Redefined {
        /// The register.
        reg: RegId,
        /// The line of the second one; 0 for a parameter.
        line: u32,
    },
    /// A register is read where its definition does not dominate, or it has none.
    #[error("register {} is read in block {block}, which its definition does not dominate", reg.0)]
    NotDominated {
        /// The register.
        reg: RegId,
        /// The block that reads it.
        block: u32,
    },
    /// An instruction other than `bra`, `ret`, `exit` and `trap` has a guard.
    #[error("the instruction of line {line} has a guard")]
    Guarded {
        /// Its line.
        line: u32,
    },
    /// A block's parameters do not have one argument of their type for each predecessor, or results are missing.
    #[error("the arguments of block {block} do not fit its predecessors")]
    Arguments {
        /// The block.
        block: u32,
    },
    /// The edge to a block with parameters is critical.
    #[error("the edge from block {from} to block {to} is critical")]
    Critical {
        /// The block it comes from.
        from: u32,
        /// The block with parameters.
        to: u32,
    },
    /// The lists of this form do not have a place for each block or register.
    #[error("the form has lists of wrong lengths")]
    Lengths,
}

impl std::fmt::Debug for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Where a register is defined.
#[derive(Clone, Copy)]
enum Definition {
    None,
    /// The start of the function.
    Start,
    /// An instruction of a block; a parameter is before all.
    At(u32, Option<u32>),
}

pub(super) fn verify(ssa: &Ssa) -> Result<(), Violation> {
    let Ssa { function, cfg, params, results, origin, .. } = ssa;
    let blocks = cfg.blocks.len();
    let body = function.instrs();
    let lengths = params.len() == blocks
        && results.len() == blocks
        && origin.len() == function.registers.len()
        && cfg.block_of.len() == body.len();
    if !lengths {
        return Err(Violation::Lengths);
    }
    let definitions = definitions(ssa)?;
    let read = |reg: RegId, block: u32, at: u32| {
        let dominates = match definitions.get(reg.index()) {
            None | Some(Definition::None) => false,
            Some(Definition::Start) => true,
            Some(&Definition::At(home, place)) if home == block => {
                place.is_none_or(|place| place < at)
            }
            Some(&Definition::At(home, _)) => ssa.dominators.dominates(home, block),
        };
        if dominates { Ok(()) } else { Err(Violation::NotDominated { reg, block }) }
    };
    for (at, (instr, &block)) in (0u32..).zip(body.iter().zip(&cfg.block_of)) {
        let control = matches!(instr.op, Op::Bra { .. } | Op::Ret { .. } | Op::Exit | Op::Trap);
        if instr.guard.is_some() && !control {
            return Err(Violation::Guarded { line: instr.line });
        }
        let mut found = Ok(());
        instr.for_each_use(|reg| {
            if found.is_ok() {
                found = read(reg, block, at);
            }
        });
        found?;
    }
    let into = cfg.predecessors();
    let formals = function.returns.iter().filter_map(register).count();
    for (number, block) in (0u32..).zip(&cfg.blocks) {
        let list = &results[number as usize];
        if list.len() != if block.returns { formals } else { 0 } {
            return Err(Violation::Arguments { block: number });
        }
        for &reg in list {
            read(reg, number, u32::MAX)?;
        }
        let params = &params[number as usize];
        for param in params {
            let ty = function.registers.get(param.reg.index());
            let from = param.args.iter().map(|&(from, _)| from);
            let fits = from.eq(into[number as usize].iter().copied())
                && param.args.iter().all(|(_, arg)| function.registers.get(arg.index()) == ty);
            if !fits {
                return Err(Violation::Arguments { block: number });
            }
            for &(from, arg) in &param.args {
                read(arg, from, u32::MAX)?;
            }
        }
        for &from in into[number as usize].iter().filter(|_| !params.is_empty()) {
            let source = &cfg.blocks[from as usize];
            let last = (source.end as usize).checked_sub(1).and_then(|at| body.get(at));
            let forks = last
                .is_some_and(|last| last.guard.is_some() || matches!(last.op, Op::BrxIdx { .. }));
            if source.successors.len() != 1 || source.exits || forks {
                return Err(Violation::Critical { from, to: number });
            }
        }
    }
    Ok(())
}

fn definitions(ssa: &Ssa) -> Result<Vec<Definition>, Violation> {
    let Ssa { function, cfg, params, undefined, .. } = ssa;
    let mut definitions = vec![Definition::None; function.registers.len()];
    let mut define = |reg: RegId, line: u32, definition| match definitions.get_mut(reg.index()) {
        Some(old @ Definition::None) => {
            *old = definition;
            Ok(())
        }
        _ => Err(Violation::Redefined { reg, line }),
    };
    let formals = function.params.iter().filter_map(register);
    for reg in formals.chain(undefined.iter().copied()) {
        define(reg, 0, Definition::Start)?;
    }
    for (block, params) in (0u32..).zip(params) {
        for param in params {
            define(param.reg, 0, Definition::At(block, None))?;
        }
    }
    for (at, (instr, &block)) in (0u32..).zip(function.instrs().iter().zip(&cfg.block_of)) {
        let mut found = Ok(());
        instr.for_each_register(|role, reg| {
            if role != Role::Use && found.is_ok() {
                found = define(reg, instr.line, Definition::At(block, Some(at)));
            }
        });
        found?;
    }
    for reg in function.returns.iter().filter_map(register) {
        define(reg, 0, Definition::None)?;
    }
    Ok(definitions)
}
