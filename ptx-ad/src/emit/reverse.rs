//! The reverse of blocks and loops.

use ptx::ir::{BinaryOp, Cmp, Mode, MulPart, Op, Operand, Pred, RegId, Type};

use super::Emit;
use super::builder::{fails, holds, number, type_of};
use super::frame::Frame;
use super::plan::Steady;
use super::rules::Term;
use super::warp_sums::WarpSums;
use crate::analysis::Slot;
use crate::body::Part;

/// A loop whose reverse is written.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) region: usize,
    /// Gradients to be made zero before the loop's reverse.
    pub(super) zeros: Vec<(RegId, Type)>,
    /// Sums over the iterations, to be added after them.
    pub(super) warp_sums: Vec<WarpSums>,
}

impl Emit<'_> {
    /// Writes the reverse of an iteration of a region.
    pub(super) fn reverse_region(&mut self, region: usize, frame: &Frame) {
        for part in self.body.parts(region).into_iter().rev() {
            match part {
                Part::Block(block) => self.reverse_block(block),
                Part::Loop(inner) if self.plan.is_reversed(inner) => {
                    self.reverse_loop(inner, frame);
                }
                // A loop that is not reversed: its results are those of the copy of the kernel.
                Part::Loop(_) => {}
            }
        }
    }

    /// Writes the reverse of a loop: of its iterations from the last to the first.
    fn reverse_loop(&mut self, region: usize, frame: &Frame) {
        let before = std::mem::take(&mut self.b.code);
        self.open.push(Open { region, zeros: Vec::new(), warp_sums: Vec::new() });
        // The gradients of the `phis` are carried from iteration to iteration.
        let header = self.body.range(region).start;
        let phis = self.body.blocks.get(header).map_or(&[][..], |block| &block.phis);
        for slot in phis.iter().flat_map(|phi| [Slot::low(phi.reg), Slot::high(phi.reg)]) {
            if self.analysis.activity.is_active(slot) && self.gradient(slot).is_none() {
                self.zero_before(slot, self.open.len() - 1);
            }
        }
        let (top, done, end) = (self.b.label(), self.b.label(), self.b.label());
        let iterations = self.iterations(region);
        self.b.place(top);
        let none = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(iterations), Operand::Imm(0));
        self.b.jump_if(holds(none), done);
        let one = Operand::Imm(1);
        self.b.binary_to(BinaryOp::Sub, Type::U32, iterations, Operand::Reg(iterations), one);
        self.pop(region);
        for phi in phis {
            if let Some(steady) = self.plan.steady.get(&phi.reg).copied() {
                self.steady(phi.reg, steady, iterations);
            }
        }
        self.forward(region, Some(end), frame);
        self.b.place(end);
        self.reverse_region(region, frame);
        self.b.jump(top);
        self.b.place(done);
        let code = std::mem::replace(&mut self.b.code, before);
        let Some(Open { zeros, warp_sums, .. }) = self.open.pop() else { return };
        for (zero, ty) in zeros {
            self.b.copy(ty, zero, Operand::Imm(0));
        }
        self.b.code.extend(code);
        self.add_carried(warp_sums);
    }

    /// Writes `d = first + iteration * step`.
    fn steady(&mut self, d: RegId, steady: Steady, iteration: RegId) {
        let Steady { first, step, negated } = steady;
        let wide = self.type_of(d).bits() == 64;
        let ty = if wide { Type::S64 } else { Type::S32 };
        let iteration = if wide {
            let wide = self.b.reg(Type::U64);
            self.b.convert(Type::U64, Type::U32, wide, iteration);
            wide
        } else {
            iteration
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
            a: Operand::Reg(iteration),
            b: step,
            c: first,
        });
    }

    /// Writes the reverse of a block.
    fn reverse_block(&mut self, index: usize) {
        let Some(block) = self.body.blocks.get(index) else { return };
        self.block.index = index;
        self.block.addresses.clear();
        let before = std::mem::take(&mut self.b.code);
        for to in block.end.targets() {
            self.reverse_phis(index, to);
        }
        self.block.taken.clear();
        self.take_first(index);
        for (position, instr) in block.code.iter().enumerate().rev() {
            self.b.loc = instr.loc;
            self.reverse_value(instr);
            self.reverse_access(position, instr);
            self.reverse_barrier(instr);
            let mut closed = Vec::new();
            instr.for_each_def(|reg| closed.extend([Slot::low(reg), Slot::high(reg)]));
            closed.into_iter().for_each(|slot| self.close(slot));
        }
        self.b.loc = None;
        self.add_late();
        self.add_all_warp_sums();
        self.reverse_exit(index);
        self.reload();
        let reversed = std::mem::replace(&mut self.b.code, before);
        for (zero, ty) in std::mem::take(&mut self.block.zeros) {
            self.b.copy(ty, zero, Operand::Imm(0));
        }
        if reversed.is_empty() {
            return;
        }
        let executed: Option<Pred> =
            self.replay.executed.get(index).copied().flatten().map(|(pred, _)| pred);
        let over = executed.map(|executed| {
            let label = self.b.label();
            let not = if executed.negated { holds(executed.reg) } else { fails(executed.reg) };
            self.b.jump_if(not, label);
            label
        });
        self.b.code.extend(reversed);
        over.into_iter().for_each(|label| self.b.place(label));
    }

    /// Passes the gradients of the next block's phis on to their arguments.
    fn reverse_phis(&mut self, from: usize, to: usize) {
        let Some(next) = self.body.blocks.get(to) else { return };
        let region = self.body.region_of(from);
        // The arguments of carried values may be carried values: their gradients are taken at once.
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

    /// Passes the gradients of the phis after a loop's exit on to their arguments in the loop.
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

    /// Clears the gradient of a slot at its definition, if code before it belongs to an earlier iteration.
    fn close(&mut self, slot: Slot) {
        if self.gradients.per_iteration.contains(&slot)
            && let (Some(g), Some(real)) = (self.gradient(slot), self.analysis.kinds.real(slot))
        {
            self.b.copy(type_of(real), g, number(real, 0.0));
        }
    }

    /// Makes the register of a gradient that is zero before the reverse of an open loop.
    fn zero_before(&mut self, slot: Slot, open: usize) {
        let Some(real) = self.analysis.kinds.real(slot) else { return };
        let sum = self.b.reg(type_of(real));
        if let Some(place) = self.gradients.registers.get_mut(slot.index()) {
            *place = Some(sum);
        }
        if let Some(open) = self.open.get_mut(open) {
            open.zeros.push((sum, type_of(real)));
        }
    }

    /// Prepares the gradient of a slot for its first summand, if that is in another region than the definition.
    pub(super) fn across_regions(&mut self, slot: Slot) {
        let Some(defined) = self.body.definition(slot.reg()) else { return };
        let (of, here) = (self.body.region_of(defined), self.body.region_of(self.block.index));
        if of == here {
            return;
        }
        if self.body.contains(of, self.block.index) {
            // A read in a loop: all iterations add.
            let parent = |open: &Open| self.body.regions.get(open.region)?.parent;
            let found = self.open.iter().position(|open| parent(open) == Some(of));
            found.into_iter().for_each(|open| self.zero_before(slot, open));
        } else {
            // A value that leaves a loop: only the last iteration gets its gradient.
            self.gradients.per_iteration.insert(slot);
        }
    }
}
