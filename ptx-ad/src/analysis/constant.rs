//! Values that depend on numbers only through comparisons: their bits may be of any type.

use ptx::ir::Operand;

use super::semantics::{Semantics, Slot, semantics};
use crate::body::Body;

/// Returns which slots are computed from constants, special registers and comparisons alone.
pub(super) fn constants(body: &Body) -> Vec<bool> {
    // The upper halves of registers of 32 bits and less are never written.
    let halves = body.function.registers.iter().flat_map(|ty| [false, ty.bits() < 64]);
    let mut constant: Vec<bool> = halves.collect();
    let get = |constant: &[bool], slot: Slot| constant.get(slot.index()) == Some(&true);
    let set = |constant: &mut [bool], slot: Slot, known: bool| {
        if let Some(place) = constant.get_mut(slot.index()) {
            *place = known;
        }
    };
    // Blocks are in topological order. Values that come round a loop are unknown, and count as not constant.
    for block in &body.blocks {
        for phi in &block.phis {
            for half in [Slot::low, Slot::high] {
                let is_constant = |(_, arg): &(usize, Option<Operand>)| match arg {
                    Some(Operand::Reg(reg)) => get(&constant, half(*reg)),
                    _ => true,
                };
                let known = phi.args.iter().all(is_constant);
                set(&mut constant, half(phi.reg), known);
            }
        }
        for instr in &block.code {
            let mut known = true;
            match semantics(instr) {
                Semantics::Copy(pairs) => {
                    for (d, a) in pairs {
                        let known = a.is_none_or(|a| get(&constant, a));
                        set(&mut constant, d, known);
                    }
                    continue;
                }
                Semantics::Choice { pairs, .. } => {
                    for (d, sources) in pairs {
                        let known = sources.into_iter().flatten().all(|a| get(&constant, a));
                        set(&mut constant, d, known);
                    }
                    continue;
                }
                Semantics::Constant => {}
                Semantics::Bits => instr.for_each_use(|reg| {
                    known &= get(&constant, Slot::low(reg)) && get(&constant, Slot::high(reg));
                }),
                _ => continue,
            }
            instr.for_each_def(|reg| {
                for slot in [Slot::low(reg), Slot::high(reg)] {
                    set(&mut constant, slot, known);
                }
            });
        }
    }
    constant
}
