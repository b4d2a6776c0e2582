//! Copies of the kernel without its effects: the whole kernel once, and each iteration of a loop before its reverse.
//!
//! Code in n loops is written n + 1 times. In the copy for its own loop a value keeps its register. In the copies for
//! the loops around, and for the kernel, it has other registers, since those run on to later iterations.

use ptx::ir::{Instr, LabelId, Op, Operand, Pred, RegId, Rounding, Type};

use super::Emit;
use super::builder::{self, Link};
use super::frame::Frame;
use super::plan::Memory;
use crate::analysis::{Access, Origin, is_global, marked};
use crate::body::{End, Part};

impl Emit<'_> {
    /// Writes an iteration of a region, with all iterations of the loops in it. Jumps to `end` when the iteration ends.
    pub(super) fn forward(&mut self, region: usize, end: Option<LabelId>, frame: &Frame) {
        let (range, level) = (self.body.range(region), self.body.depth(region));
        self.replay.level = level;
        let labels: Vec<LabelId> = range.clone().map(|_| self.b.label()).collect();
        // Whether an edge ends the iteration, and the label that it leads to.
        let over = |to: usize| !range.contains(&to) || (region > 0 && to == range.start);
        let label = |to: usize| {
            if over(to) { end } else { labels.get(to.wrapping_sub(range.start)).copied() }
        };
        self.begin_iteration(region);
        for index in range.clone() {
            let Some(block) = self.body.blocks.get(index) else { continue };
            let own = labels.get(index.wrapping_sub(range.start)).copied();
            own.into_iter().for_each(|label| self.b.place(label));
            if let Some(inner) = self.body.loop_at(index).filter(|&inner| inner != region) {
                self.begin_inner_iteration(inner);
            }
            if block.region == region
                && let Some(Some((pred, true))) = self.replay.executed.get(index).copied()
            {
                self.b.copy(Type::Pred, pred.reg, Operand::Imm(1));
            }
            self.after_exit(index);
            for (at, instr) in block.code.iter().enumerate() {
                self.repeat(index, at, instr, frame);
            }
            self.b.loc = None;
            let next = index + 1;
            let follows = |to: usize| if over(to) { next == range.end } else { to == next };
            match block.end {
                End::Exit => {}
                End::Jump(to) => {
                    if !over(to) {
                        self.copy_phis(index, to);
                        self.enter(index, to);
                    }
                    if !follows(to) {
                        label(to).into_iter().for_each(|label| self.b.jump(label));
                    }
                }
                End::Branch { pred, then, otherwise } => {
                    let pred = Pred { reg: self.version(pred.reg), ..pred };
                    label(then).into_iter().for_each(|label| self.b.jump_if(pred, label));
                    if !follows(otherwise) {
                        label(otherwise).into_iter().for_each(|label| self.b.jump(label));
                    }
                }
            }
        }
    }

    /// Resets the predicates of executed blocks and the iteration counters of the loops in a region.
    fn begin_iteration(&mut self, region: usize) {
        for part in self.body.parts(region) {
            match part {
                Part::Block(at) => {
                    if let Some(Some((pred, true))) = self.replay.executed.get(at).copied() {
                        self.b.copy(Type::Pred, pred.reg, Operand::Imm(0));
                    }
                }
                Part::Loop(inner) => {
                    let iterations = self.iterations(inner);
                    self.b.copy(Type::U32, iterations, Operand::Imm(0));
                }
            }
        }
    }

    /// Returns the iteration counter of a loop.
    pub(super) fn iterations(&mut self, region: usize) -> RegId {
        if let Some(&iterations) = self.replay.iterations.get(&region) {
            return iterations;
        }
        let iterations = self.b.reg(Type::U32);
        self.replay.iterations.insert(region, iterations);
        iterations
    }

    /// Begins an iteration of a loop in the region. Keeps what its reverse needs if the region is its parent.
    fn begin_inner_iteration(&mut self, inner: usize) {
        let recorded = self.body.depth(inner) == self.replay.level + 1;
        self.keep(inner, recorded);
        if recorded {
            let iterations = self.iterations(inner);
            let (count, one) = (Operand::Reg(iterations), Operand::Imm(1));
            self.b.binary_to(ptx::ir::BinaryOp::Add, Type::U32, iterations, count, one);
        }
    }

    /// Copies the values that leave a loop, at the block after the exit.
    fn after_exit(&mut self, index: usize) {
        let Some(block) = self.body.blocks.get(index) else { return };
        if let [from] = *block.preds
            && matches!(self.body.blocks.get(from).map(|block| block.end), Some(End::Branch { .. }))
        {
            self.copy_phis(from, index);
        }
        self.leave(index);
    }

    /// Returns the register of a value in the copy that is written.
    pub(super) fn version(&mut self, reg: RegId) -> RegId {
        let depth =
            self.body.definition(reg).map_or(0, |at| self.body.depth(self.body.region_of(at)));
        if depth <= self.replay.level {
            return reg;
        }
        if let Some(&version) = self.replay.versions.get(&(reg, self.replay.level)) {
            return version;
        }
        let version = self.b.reg(self.type_of(reg));
        self.replay.versions.insert((reg, self.replay.level), version);
        version
    }

    pub(super) fn type_of(&self, reg: RegId) -> Type {
        self.b.function.registers.get(reg.index()).copied().unwrap_or(Type::B32)
    }

    /// Copies the arguments of phis, all at once.
    fn copy_phis(&mut self, from: usize, to: usize) {
        let Some(block) = self.body.blocks.get(to) else { return };
        let mut copies = Vec::new();
        for phi in &block.phis {
            let arg = phi.args.iter().find(|(pred, _)| *pred == from).and_then(|(_, arg)| *arg);
            let arg = match arg {
                Some(Operand::Reg(reg)) => Operand::Reg(self.version(reg)),
                // An argument that was never written may have any value.
                other => other.unwrap_or(Operand::Imm(0)),
            };
            let (d, ty) = (self.version(phi.reg), self.type_of(phi.reg));
            if arg != Operand::Reg(d) {
                copies.push((ty, d, arg));
            }
        }
        let targets: Vec<RegId> = copies.iter().map(|(_, d, _)| *d).collect();
        for (ty, _, arg) in &mut copies {
            if matches!(arg, Operand::Reg(reg) if targets.contains(reg)) {
                *arg = Operand::Reg(self.b.moved(*ty, *arg));
            }
        }
        copies.into_iter().for_each(|(ty, d, arg)| self.b.copy(ty, d, arg));
    }

    /// Writes an instruction as the replay has it, unless the replay leaves it out.
    fn repeat(&mut self, block: usize, at: usize, instr: &Instr, frame: &Frame) {
        let link = Link::Logged(block, at);
        let logged = self.plan.logged.contains(&(block, at));
        if logged && self.replay.level > 0 {
            if self.plan.is_needed(link) {
                self.b.loc = instr.loc;
                self.take_logged(link, instr);
            }
            return;
        }
        let access = Access::of(instr);
        let memory =
            access.as_ref().and_then(|access| self.plan.memory(self.body, self.analysis, access));
        let stores = matches!(instr.op, Op::St { .. } | Op::Atom { .. });
        if stores && memory.is_some() && self.replay.level > 0 {
            return;
        }
        let Some(mut repeated) = self.repeated(instr, memory) else { return };
        self.reach(&mut repeated);
        frame.renumber(&mut repeated);
        repeated.for_each_register_mut(|_, reg| *reg = self.version(*reg));
        self.b.link = memory.map(Memory::link);
        self.b.with_halves(repeated);
        self.b.link = None;
        if self.replay.level == self.body.depth(self.body.region_of(block)) {
            self.choose(instr);
        }
        if logged && self.plan.is_needed(link) {
            self.b.loc = instr.loc;
            self.log(link, instr);
            self.b.loc = None;
        }
    }

    /// Returns an instruction as the replay has it; `None` if the replay leaves it out.
    fn repeated(&self, instr: &Instr, memory: Option<Memory>) -> Option<Instr> {
        match (&instr.op, Access::of(instr)) {
            (Op::St { .. } | Op::Atom { .. }, _) if memory.is_some() => {}
            (Op::St { .. } | Op::Atom { .. }, Some(access))
                if is_global(access.space) || access.is_param() =>
            {
                return None;
            }
            // Parameters of calls go with the calls.
            (Op::Ld { .. }, Some(access)) if access.is_param() && !self.is_formal(&access) => {
                return None;
            }
            (
                Op::Call { .. } | Op::Prefetch { .. } | Op::Fence { .. } | Op::Brkpt | Op::Trap,
                _,
            ) => return None,
            (Op::Pmevent { .. } | Op::Nanosleep { .. }, _) => return None,
            // Later copies read what does not change, or the log.
            (Op::Bar { .. } | Op::BarWarp { .. }, _)
                if self.replay.level > 0 || !self.plan.keeps_barriers(self.body) =>
            {
                return None;
            }
            _ => {}
        }
        let mut instr = instr.clone();
        instr.line = 0;
        // Explicit rounding keeps the driver's compiler from fusing here what it does not fuse in the kernel.
        let bare = match &mut instr.op {
            Op::Binary {
                ty, mode, op: ptx::ir::BinaryOp::Add | ptx::ir::BinaryOp::Sub, ..
            }
            | Op::Mul { ty, mode, part: None, .. }
                if ty.is_float() =>
            {
                Some(mode)
            }
            _ => None,
        };
        if let Some(mode) = bare
            && mode.rounding.is_none()
        {
            mode.rounding = Some(Rounding::Rn);
        }
        // Markers become copies.
        if let Some((real, d, value)) = marked(&instr) {
            instr.op = Op::Mov { ty: builder::type_of(real), d: Some(d), a: value };
        }
        Some(instr)
    }

    fn is_formal(&self, access: &Access<'_>) -> bool {
        let form = self.analysis.forms.address(self.body, access.address);
        matches!(form.origin, Origin::Param(_))
    }

    /// Chooses the predicate "executed" of each block that an iteration may skip, and whether the block sets it. A
    /// block after a branch that each iteration executes uses the branch's predicate.
    pub(super) fn predicates(&mut self) -> Vec<Option<(Pred, bool)>> {
        let mut executed = vec![None; self.body.blocks.len()];
        for (index, block) in self.body.blocks.iter().enumerate() {
            if self.body.in_each_turn(index) {
                continue;
            }
            let same = |from: usize| {
                self.body.region_of(from) == block.region && self.body.in_each_turn(from)
            };
            let branch = match &*block.preds {
                [from] if same(*from) => self.body.blocks.get(*from).map(|from| from.end),
                _ => None,
            };
            let known = match branch {
                Some(End::Branch { pred, then, .. }) if then == index => Some((pred, false)),
                Some(End::Branch { pred, .. }) => {
                    Some((Pred { negated: !pred.negated, ..pred }, false))
                }
                _ => None,
            };
            let made = known.unwrap_or_else(|| (builder::holds(self.b.reg(Type::Pred)), true));
            if let Some(place) = executed.get_mut(index) {
                *place = Some(made);
            }
        }
        executed
    }
}
