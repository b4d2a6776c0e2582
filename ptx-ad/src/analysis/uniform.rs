//! Values that are the same in all threads of a block, or of a warp, that are in the same iterations of the loops around
//! the definition.
//!
//! Threads that run an instruction together may still differ: they may be in different iterations.

use ptx::ir::{BinaryOp, Cmp, Dim, Instr, LdKind, Op, Operand, RegId, Space, Special};

use super::Used;
use super::address_form::{Forms, Origin};
use super::together;
use crate::body::{Body, specials};

/// The most passes over the code. If they do not suffice, nothing counts as uniform.
const MOST_PASSES: u32 = 32;

/// The threads that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those of a block.
    Block,
    /// Those of a warp of a one-dimensional block, or of one whose width is a multiple of 32.
    Rows,
    /// Those of a warp of a block whose width is a multiple of 32.
    Warps,
}

/// Returns for each register whether its value is the same in all of the threads.
pub(super) fn uniform(body: &Body, forms: &Forms, used: &[Used], scope: Scope) -> Vec<bool> {
    let is_special = |special| {
        is_special(special)
            || scope == Scope::Warps && matches!(special, Special::Tid(Dim::Y | Dim::Z))
    };
    // All registers start as uniform.
    let mut uniform = vec![true; body.function.registers.len()];
    for pass in 0.. {
        if pass == MOST_PASSES {
            return vec![false; uniform.len()];
        }
        let mut changed = false;
        for (index, block) in body.blocks.iter().enumerate() {
            let is = |uniform: &[bool], reg: RegId| uniform.get(reg.index()) == Some(&true);
            let is_operand = |uniform: &[bool], operand: &Operand| match operand {
                Operand::Reg(reg) => is(uniform, *reg),
                Operand::Special(special) => is_special(*special),
                Operand::Imm(_) | Operand::Symbol(..) => true,
            };
            for phi in &block.phis {
                let mut args = phi.args.iter().filter_map(|(_, arg)| *arg);
                let known = if body.loop_at(index).is_some() {
                    args.all(|arg| is_operand(&uniform, &arg))
                } else {
                    // Threads may come from different blocks, or leave a loop after different iterations.
                    let first = args.next();
                    let leaves =
                        phi.args.iter().any(|(from, _)| body.region_of(*from) != block.region);
                    !leaves
                        && args.all(|arg| Some(arg) == first)
                        && first.is_none_or(|arg| is_operand(&uniform, &arg))
                };
                changed |= !known && clear(&mut uniform, phi.reg);
            }
            for instr in &block.code {
                let mut known = is_pure(instr) && specials(&instr.op).into_iter().all(is_special);
                instr.for_each_use(|reg| known &= is(&uniform, reg));
                known &=
                    !matches!(instr.op, Op::Ld { .. }) || is_constant(body, forms, used, instr);
                // The threads of a block get the same result.
                known |= together::is_reduction(instr) && instr.guard.is_none();
                known |= is_of_warp(forms, instr, scope);
                if !known {
                    instr.for_each_def(|reg| changed |= clear(&mut uniform, reg));
                }
            }
        }
        if !changed {
            break;
        }
    }
    uniform
}

/// Returns whether an instruction computes the number of the warp from the index of the thread, or compares the index
/// with a multiple of 32.
fn is_of_warp(forms: &Forms, instr: &Instr, scope: Scope) -> bool {
    if scope == Scope::Block {
        return false;
    }
    let added = |a: &Operand| forms.operand(a).after_thread(scope == Scope::Warps);
    let is_index = |a: &Operand| added(a).is_some_and(|added| added % 32 == 0);
    match &instr.op {
        Op::Binary { op: BinaryOp::Shr, a, b: Operand::Imm(by), .. } => *by >= 5 && is_index(a),
        Op::Binary { op: BinaryOp::And, a, b: Operand::Imm(mask), .. } => {
            mask % 32 == 0 && is_index(a)
        }
        Op::Binary { op: BinaryOp::Div, a, b: Operand::Imm(by), .. } => {
            by % 32 == 0 && *by > 0 && is_index(a)
        }
        Op::Setp { cmp, combine: None, a, b: Operand::Imm(to), .. } => {
            let least = match cmp {
                Cmp::Lt | Cmp::Ge | Cmp::Lo | Cmp::Hs => *to,
                Cmp::Le | Cmp::Gt | Cmp::Ls | Cmp::Hi => to.wrapping_add(1),
                _ => return false,
            };
            // Sums of small numbers do not wrap.
            let small = |added: &i64| (0..1 << 20).contains(added);
            let added = added(a).filter(small).map(i64::cast_unsigned);
            added.is_some_and(|added| least.wrapping_sub(added) % 32 == 0)
        }
        _ => false,
    }
}

/// Marks a register, and returns whether that is new.
fn clear(uniform: &mut [bool], reg: RegId) -> bool {
    uniform.get_mut(reg.index()).is_some_and(|place| std::mem::replace(place, false))
}

fn is_special(special: Special) -> bool {
    matches!(
        special,
        Special::Ntid(_)
            | Special::Ctaid(_)
            | Special::Nctaid(_)
            | Special::Clusterid(_)
            | Special::Nclusterid(_)
    )
}

/// Returns whether the result depends only on the operands, or on memory that [`is_constant`] checks.
fn is_pure(instr: &Instr) -> bool {
    instr.guard.is_none()
        && matches!(
            instr.op,
            Op::Unary { .. }
                | Op::Binary { .. }
                | Op::Mul { .. }
                | Op::Mad { .. }
                | Op::Fma { .. }
                | Op::Bfe { .. }
                | Op::Bfi { .. }
                | Op::Lop3 { .. }
                | Op::Shf { .. }
                | Op::Setp { .. }
                | Op::Set { .. }
                | Op::Selp { .. }
                | Op::Slct { .. }
                | Op::Mov { .. }
                | Op::Pack { .. }
                | Op::Unpack { .. }
                | Op::Cvta { .. }
                | Op::Cvt { .. }
                | Op::Ld { kind: LdKind::Plain | LdKind::NonCoherent, .. }
        )
}

/// Returns whether a load reads memory that the kernel does not store to.
fn is_constant(body: &Body, forms: &Forms, used: &[Used], instr: &Instr) -> bool {
    let Op::Ld { access, addr, .. } = &instr.op else { return true };
    if access.order != ptx::ir::Order::Weak {
        return false;
    }
    match forms.address(body, addr).origin {
        Origin::Param(_) => true,
        Origin::Pointer(pointer) => {
            used.get(pointer).is_some_and(|used| !used.stored && !used.added)
        }
        Origin::Variable(space) => space == Space::Const,
        _ => false,
    }
}
