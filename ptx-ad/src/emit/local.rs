//! Local memory: the gradients of a variable are another variable, of the same size.

use ptx::ir::{
    Address, Base, BinaryOp, Cmp, Instr, Op, Operand, RegId, Space, Symbol, Type, VarId,
};

use super::Emit;
use super::builder::{at, number, type_of};
use super::frame::Frame;
use super::memory::Group;
use super::rules::Term;
use crate::analysis::{Access, Origin};

/// The most words that are cleared without a loop.
const MOST_UNROLLED: u64 = 16;

impl Emit<'_> {
    /// Makes the shadows of variables, all zero.
    pub(super) fn locals_begin(&mut self, frame: &Frame) {
        let count = u32::try_from(self.body.function.variables.len()).unwrap_or(u32::MAX);
        for var in (0..count).map(VarId) {
            let Some(variable) = self.body.function.variables.get(var.index()) else { continue };
            if !self.analysis.activity.is_local_active(var) || self.body.is_shared(var) {
                continue;
            }
            let elements = variable.dims.iter().fold(1u64, |all, &one| all.saturating_mul(one));
            let bytes = elements.saturating_mul(u64::from(variable.ty.bytes())).div_ceil(4) * 4;
            let align = variable.align.max(4);
            let name = format!("{}_shadow_{}", self.b.function.name, var.0);
            let shadow = ptx::ir::Variable::new(name, Space::Local, Type::B8, vec![bytes], align);
            let shadow = self.b.function.add_variable(shadow);
            let address = |this: &mut Self, var: VarId| {
                this.b.moved(Type::U64, Operand::Symbol(Symbol::Var(var), 0))
            };
            let to = address(self, shadow);
            let own = frame.variable(var);
            let from = address(self, own);
            let (a, b) = (Operand::Reg(to), Operand::Reg(from));
            let delta = self.b.binary(BinaryOp::Sub, Type::S64, a, b);
            self.shadows.locals.insert(var, (delta, own));
            self.clear(to, bytes / 4);
        }
    }

    fn clear(&mut self, start: RegId, words: u64) {
        let zero = [Operand::Imm(0)];
        if words <= MOST_UNROLLED {
            for word in 0..i64::try_from(words).unwrap_or(0) {
                self.b.store(None, Space::Local, Type::B32, at(start, word * 4), &zero);
            }
            return;
        }
        let place = self.b.moved(Type::U64, Operand::Reg(start));
        let bytes = Operand::Imm(words.saturating_mul(4));
        let end = self.b.binary(BinaryOp::Add, Type::S64, Operand::Reg(start), bytes);
        let again = self.b.label();
        self.b.place(again);
        self.b.store(None, Space::Local, Type::B32, at(place, 0), &zero);
        let (from, step) = (Operand::Reg(place), Operand::Imm(4));
        self.b.binary_to(BinaryOp::Add, Type::S64, place, from, step);
        let more = self.b.setp(Cmp::Lo, Type::U64, from, Operand::Reg(end));
        self.b.jump_if(super::builder::holds(more), again);
    }

    /// Returns the address of a gradient, from that of the value and an offset.
    fn local_shadow(&mut self, var: VarId, address: &Address, offset: i64) -> Option<Address> {
        let (delta, own) = self.shadows.locals.get(&var).copied()?;
        let key = (Origin::Local(var), address.base);
        let base = match self.block.addresses.get(&key) {
            Some(base) => *base,
            None => {
                let from = match address.base {
                    Base::Reg(reg) => Operand::Reg(reg),
                    Base::Symbol(Symbol::Var(_)) => {
                        let symbol = Operand::Symbol(Symbol::Var(own), 0);
                        Operand::Reg(self.b.moved(Type::U64, symbol))
                    }
                    _ => return None,
                };
                let base = self.b.binary(BinaryOp::Add, Type::S64, from, Operand::Reg(delta));
                self.block.addresses.insert(key, base);
                base
            }
        };
        Some(at(base, address.offset.checked_add(offset)?))
    }

    /// Writes the reverse of a load from local memory, or of a store to it.
    pub(super) fn reverse_local(
        &mut self,
        var: VarId,
        instr: &Instr,
        access: &Access<'_>,
        groups: &[Group],
    ) {
        if matches!(instr.op, Op::Ld { .. }) {
            for group in groups {
                for (place, slot) in group.places() {
                    let Some(g) = slot.and_then(|slot| self.gradient(slot)) else { continue };
                    let Some(to) = self.local_shadow(var, access.address, place) else {
                        continue;
                    };
                    let ty = type_of(group.real);
                    let before = self.b.load(access.space, ty, to);
                    let (a, b) = (Operand::Reg(before), Operand::Reg(g));
                    let sum = self.b.binary(BinaryOp::Add, ty, a, b);
                    self.b.store(None, access.space, ty, to, &[Operand::Reg(sum)]);
                }
            }
            return;
        }
        let mut taken = Vec::new();
        for group in groups {
            for (place, slot) in group.places() {
                let Some(slot) = slot.filter(|slot| self.analysis.activity.is_active(*slot)) else {
                    continue;
                };
                let Some(from) = self.local_shadow(var, access.address, place) else {
                    continue;
                };
                taken.push((slot, self.b.load(access.space, type_of(group.real), from)));
            }
        }
        // A store of any type ends the gradient of the value before it.
        let bytes = i64::from(access.ty.bytes()) * i64::try_from(access.values.len()).unwrap_or(0);
        for word in 0..bytes / 4 {
            if let Some(to) = self.local_shadow(var, access.address, word * 4) {
                let zero = number(crate::spec::Real::F32, 0.0);
                self.b.store(None, access.space, Type::B32, to, &[zero]);
            }
        }
        taken.into_iter().for_each(|(slot, g)| self.add(slot, Term::Plus(g)));
    }
}
