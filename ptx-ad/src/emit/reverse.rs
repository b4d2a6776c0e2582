//! The reverse of blocks and loops.

use ptx::ir::{BinaryOp, Cmp, Mode, MulPart, Op, Operand, Pred, RegId, Type};

use super::Emit;
use super::batch::Batch;
use super::builder::{fails, holds, number, type_of};
use super::frame::Frame;
use super::plan::Steady;
use super::rules::Term;
use crate::analysis::Slot;
use crate::body::Part;

/// A loop whose reverse is written.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) region: usize,
    /// Gradients to be made zero before the loop's reverse begins.
    pub(super) zeros: Vec<(RegId, Type)>,
    /// Sums over the turns, to be added behind them.
    pub(super) batches: Vec<Batch>,
}

impl Emit<'_> {
    /// Writes the reverse of a turn of a region.
    pub(super) fn reverse_region(&mut self, region: usize, frame: &Frame) {
        for part in self.body.parts(region).into_iter().rev() {
            match part {
                Part::Block(block) => self.reverse_block(block),
                Part::Loop(inner) if self.plan.is_reversed(inner) => {
                    self.reverse_loop(inner, frame);
                }
                // A search: its result is what the kernel's own run leaves behind.
                Part::Loop(_) => {}
            }
        }
    }

    /// Writes the reverse of a loop: of its turns from the last to the first.
    fn reverse_loop(&mut self, region: usize, frame: &Frame) {
        let before = std::mem::take(&mut self.b.code);
        self.open.push(Open { region, zeros: Vec::new(), batches: Vec::new() });
        // What the loop carries: its gradient goes from turn to turn.
        let header = self.body.range(region).start;
        let phis = self.body.blocks.get(header).map_or(&[][..], |block| &block.phis);
        for slot in phis.iter().flat_map(|phi| [Slot::low(phi.reg), Slot::high(phi.reg)]) {
            if self.analysis.activity.is_active(slot) && self.gradient(slot).is_none() {
                self.zero_before(slot, self.open.len() - 1);
            }
        }
        let (top, done, end) = (self.b.label(), self.b.label(), self.b.label());
        let turns = self.turns(region);
        self.b.place(top);
        let none = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(turns), Operand::Imm(0));
        self.b.jump_if(holds(none), done);
        let one = Operand::Imm(1);
        self.b.binary_to(BinaryOp::Sub, Type::U32, turns, Operand::Reg(turns), one);
        self.pop(region);
        for phi in phis {
            if let Some(steady) = self.plan.steady.get(&phi.reg).copied() {
                self.steady(phi.reg, steady, turns);
            }
        }
        self.forward(region, Some(end), frame);
        self.b.place(end);
        self.reverse_region(region, frame);
        self.b.jump(top);
        self.b.place(done);
        let code = std::mem::replace(&mut self.b.code, before);
        let Some(Open { zeros, batches, .. }) = self.open.pop() else { return };
        for (zero, ty) in zeros {
            self.b.copy(ty, zero, Operand::Imm(0));
        }
        self.b.code.extend(code);
        self.add_carried(batches);
    }

    /// Writes `d = first + turn * step`.
    fn steady(&mut self, d: RegId, steady: Steady, turn: RegId) {
        let Steady { first, step, negated } = steady;
        let wide = self.type_of(d).bits() == 64;
        let ty = if wide { Type::S64 } else { Type::S32 };
        let turn = if wide {
            let wide = self.b.reg(Type::U64);
            self.b.convert(Type::U64, Type::U32, wide, turn);
            wide
        } else {
            turn
        };
        let step = match step {
            Operand::Imm(step) if negated => Operand::Imm(step.wrapping_neg()),
            Operand::Reg(_) if negated => Operand::Reg(self.b.neg(ty, step)),
            step => step,
        };
        let (part, mode) = (Some(MulPart::Lo), Mode::default());
        self.b.push(Op::Mad {
            ty,
            part,
            mode,
            d: Some(d),
            a: Operand::Reg(turn),
            b: step,
            c: first,
        });
    }

    /// Writes the reverse of a block.
    fn reverse_block(&mut self, index: usize) {
        let Some(block) = self.body.blocks.get(index) else { return };
        self.block = index;
        self.addresses.clear();
        let before = std::mem::take(&mut self.b.code);
        for to in block.end.targets() {
            self.reverse_phis(index, to);
        }
        self.taken.clear();
        self.take_first(index);
        for (position, instr) in block.code.iter().enumerate().rev() {
            self.b.loc = instr.loc;
            self.reverse_value(instr);
            self.reverse_access(position, instr);
            let mut closed = Vec::new();
            instr.for_each_def(|reg| closed.extend([Slot::low(reg), Slot::high(reg)]));
            closed.into_iter().for_each(|slot| self.close(slot));
        }
        self.b.loc = None;
        self.add_late();
        self.add_batches();
        self.reverse_exit(index);
        self.load_again();
        let reversed = std::mem::replace(&mut self.b.code, before);
        for (zero, ty) in std::mem::take(&mut self.zeros) {
            self.b.copy(ty, zero, Operand::Imm(0));
        }
        if reversed.is_empty() {
            return;
        }
        let came: Option<Pred> = self.came.get(index).copied().flatten().map(|(pred, _)| pred);
        let over = came.map(|came| {
            let label = self.b.label();
            let not = if came.negated { holds(came.reg) } else { fails(came.reg) };
            self.b.jump_if(not, label);
            label
        });
        self.b.code.extend(reversed);
        over.into_iter().for_each(|label| self.b.place(label));
    }

    /// What the next block took from the end of a block.
    fn reverse_phis(&mut self, from: usize, to: usize) {
        let Some(next) = self.body.blocks.get(to) else { return };
        let region = self.body.region_of(from);
        // The arguments of what a loop carries may be what it carries: all are taken at once.
        let carried = self.body.loop_at(to).is_some();
        if !carried && next.region != region {
            return;
        }
        let mut taken = Vec::new();
        for phi in &next.phis {
            let arg = phi.args.iter().find(|(pred, _)| *pred == from).and_then(|(_, arg)| *arg);
            for half in [Slot::low, Slot::high] {
                let slot = half(phi.reg);
                let Some(g) = self.gradient(slot) else { continue };
                let to = match arg {
                    Some(Operand::Reg(arg)) => Some(half(arg)),
                    _ => None,
                };
                taken.push((slot, g, to));
            }
        }
        if carried {
            for (slot, g, _) in &mut taken {
                let Some(real) = self.analysis.kinds.real(*slot) else { continue };
                let (ty, from) = (type_of(real), *g);
                *g = self.b.moved(ty, Operand::Reg(from));
                self.b.copy(ty, from, number(real, 0.0));
            }
        }
        for (_, g, to) in &taken {
            to.iter().for_each(|to| self.add(*to, Term::Plus(*g)));
        }
        if !carried {
            taken.into_iter().for_each(|(slot, ..)| self.close(slot));
        }
    }

    /// What the first block behind a loop's exit took from the loop.
    fn reverse_exit(&mut self, index: usize) {
        let Some(block) = self.body.blocks.get(index) else { return };
        for phi in &block.phis {
            for (from, arg) in &phi.args {
                let Some(Operand::Reg(arg)) = arg else { continue };
                if self.body.region_of(*from) == block.region
                    || !self.body.contains(block.region, *from)
                    || self.body.loop_at(index).is_some()
                {
                    continue;
                }
                for half in [Slot::low, Slot::high] {
                    if let Some(g) = self.gradient(half(phi.reg)) {
                        self.add(half(*arg), Term::Plus(g));
                        self.close(half(phi.reg));
                    }
                }
            }
        }
    }

    /// Makes the gradient of a slot zero where the slot is defined, if what comes before belongs to an earlier turn.
    fn close(&mut self, slot: Slot) {
        if self.closed.contains(&slot)
            && let (Some(g), Some(real)) = (self.gradient(slot), self.analysis.kinds.real(slot))
        {
            self.b.copy(type_of(real), g, number(real, 0.0));
        }
    }

    /// Makes the register of a gradient that is zero before the reverse of an open loop.
    fn zero_before(&mut self, slot: Slot, open: usize) {
        let Some(real) = self.analysis.kinds.real(slot) else { return };
        let sum = self.b.reg(type_of(real));
        if let Some(place) = self.gradients.get_mut(slot.index()) {
            *place = Some(sum);
        }
        if let Some(open) = self.open.get_mut(open) {
            open.zeros.push((sum, type_of(real)));
        }
    }

    /// Prepares the gradient of a slot that is added to for the first time, where that is not in the region that the slot
    /// is defined in.
    pub(super) fn across_regions(&mut self, slot: Slot) {
        let Some(defined) = self.body.definition(slot.reg()) else { return };
        let (of, here) = (self.body.region_of(defined), self.body.region_of(self.block));
        if of == here {
            return;
        }
        if self.body.contains(of, self.block) {
            // It is read in a loop: all turns add.
            let parent = |open: &Open| self.body.regions.get(open.region)?.parent;
            let found = self.open.iter().position(|open| parent(open) == Some(of));
            found.into_iter().for_each(|open| self.zero_before(slot, open));
        } else {
            // It leaves a loop: in the turns before the last, nothing comes from outside.
            self.closed.insert(slot);
        }
    }
}
