//! Instructions on bits and addresses.

use ptx::ir::{BinaryOp, Instr, MulPart, Op, Operand};
use ptx_ad::Real;

use super::flow::Flow;
use super::value::{Cell, Place, State, Value};

impl Flow<'_> {
    /// An instruction on bits.
    pub(super) fn integer(&mut self, state: &mut State, instr: &Instr) {
        let value = match self.sign(state, instr) {
            Some(value) => value,
            None => match self.tainted(state, instr) {
                Some(why) => Value::lost(why),
                None => Value { address: self.sum(state, &instr.op), ..Value::PLAIN },
            },
        };
        self.write_all(state, instr, value);
    }

    /// The absolute value or the negative of a number, by its sign bit.
    fn sign(&mut self, state: &State, instr: &Instr) -> Option<Value> {
        let Op::Binary { op, ty, a, b, .. } = &instr.op else { return None };
        let (operand, mask) = match (a, b) {
            (Operand::Reg(_), Operand::Imm(mask)) => (a, *mask),
            (Operand::Imm(mask), Operand::Reg(_)) => (b, *mask),
            _ => return None,
        };
        let wanted = 1u64 << (ty.bits().max(1) - 1);
        let changes = match op {
            BinaryOp::And => mask == wanted - 1,
            BinaryOp::Xor => mask == wanted,
            _ => false,
        };
        let value = self.value(state, operand);
        match (changes, ty.bits(), value.cells[0], value.whole()) {
            (true, 32, Cell::Single(deps), _) => Some(self.made(Ok(deps.on), Real::F32)),
            (true, 64, Cell::Part { .. }, Some(deps)) => Some(self.made(Ok(deps.on), Real::F64)),
            _ => None,
        }
    }

    /// The address that a sum is, of an address and an integer.
    fn sum(&self, state: &State, op: &Op) -> Option<Place> {
        let address = |operand: &Operand| self.value(state, operand).address;
        let constant = |operand: &Operand| match operand {
            Operand::Imm(value) => Some(*value as i64),
            _ => None,
        };
        match op {
            Op::Binary { op: BinaryOp::Add, a, b, .. } => {
                let (place, more) = match (address(a), address(b)) {
                    (Some(place), None) => (place, constant(b)),
                    (None, Some(place)) => (place, constant(a)),
                    _ => return None,
                };
                Some((place.0, place.1.zip(more).map(|(at, more)| at + more)))
            }
            Op::Mad { part: Some(MulPart::Wide), b, c, .. } => {
                let (origin, at) = address(c)?;
                // Whatever it is a multiple of, 16 divides it.
                let known = constant(b).is_some_and(|by| by % 16 == 0);
                Some((origin, at.filter(|_| known)))
            }
            _ => None,
        }
    }
}
