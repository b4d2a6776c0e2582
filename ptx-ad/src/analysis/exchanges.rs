//! Which numbers the results of shuffles are.

use ptx::ir::{Instr, Op, Operand, RegId};

use super::semantics::Slot;

/// The exchanges of a block of code. The halves of a `double` are exchanged separately, by the same operands.
#[derive(Debug, Default)]
pub(super) struct Exchanges(Vec<(Op, RegId, RegId)>);

impl Exchanges {
    /// Returns the number, and the half of it, that the result of an exchange of `source` is.
    pub(super) fn source(&mut self, instr: &Instr, d: RegId, source: Slot) -> Slot {
        let mut op = instr.op.clone();
        if let Op::Shfl { d, p, a, .. } = &mut op {
            (*d, *p, *a) = (None, None, Operand::Imm(0));
        }
        let same = |(known, of, _): &&(Op, RegId, RegId)| *known == op && *of == source.reg();
        let number = match self.0.iter().find(same) {
            Some((_, _, number)) => *number,
            None => {
                self.0.push((op, source.reg(), d));
                d
            }
        };
        if source == Slot::low(source.reg()) { Slot::low(number) } else { Slot::high(number) }
    }
}
