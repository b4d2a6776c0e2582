//! Values that are the same in all threads of a block that are in the same iterations of the loops around the
//! definition.
//!
//! Threads that run an instruction together may still differ: they may be in different iterations.

use ptx::ir::{Instr, LdKind, Op, Operand, RegId, Space, Special};

use super::Used;
use super::address_form::{Forms, Origin};
use crate::body::{Body, specials};

/// The most passes over the code. If they do not suffice, nothing counts as uniform.
const MOST_PASSES: u32 = 32;

/// Returns for each register whether its value is uniform.
pub(super) fn uniform(body: &Body, forms: &Forms, used: &[Used]) -> Vec<bool> {
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
