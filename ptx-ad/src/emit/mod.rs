//! Writes the adjoint: the kernel again without its stores, then the reverse of its blocks from the last to the first.
//!
//! Values keep their registers, since each is defined once. Blocks that not every thread comes to leave a predicate
//! behind, by which their reverse is passed over.

mod builder;
mod dead;
mod frame;
mod memory;
mod rules;
mod sums;

use std::collections::HashMap;

use ptx::ir::{Base, Function, Instr, LabelId, Op, Operand, Pred, RegId, Rounding, Type};

use crate::analysis::{Access, Analysis, Meaning, Origin, Slot, is_global, meaning};
use crate::body::{Body, End};
use crate::spec::Effect;
use builder::{Builder, fails, holds};
use memory::OwnSums;
use rules::Term;

/// What is needed to write an adjoint.
#[derive(Debug)]
struct Emit<'a> {
    body: &'a Body,
    analysis: &'a Analysis,
    b: Builder,
    /// The gradient of each slot; `None` while it is zero.
    gradients: Vec<Option<RegId>>,
    /// The block whose reverse is written.
    block: usize,
    /// Gradients to be made zero before that block's reverse is passed over.
    zeros: Vec<(RegId, Type)>,
    /// From values to gradients in bytes, and whether there are gradients, for each pointer.
    shadows: Vec<Option<(RegId, RegId)>>,
    /// Whether gradients are stored instead of added to, for each pointer of which the adjoint says that it covers it.
    assigns: Vec<Option<RegId>>,
    /// Whether gradients need not be cleared, for each pointer of which that is obeyed.
    drops: Vec<Option<RegId>>,
    /// The sums for numbers that were passed by value, by parameter and offset.
    scalars: HashMap<(usize, u64), RegId>,
    /// Addresses of gradients in the block, by pointer and register.
    addresses: HashMap<(usize, Base), RegId>,
    own: HashMap<usize, OwnSums>,
}

/// Writes the adjoint of a kernel, and returns it with whether it loads from the memory behind each pointer.
pub(crate) fn adjoint(body: &Body, analysis: &Analysis, name: &str) -> (Function, Vec<bool>) {
    let slots = body.function.registers.len() * 2;
    let pointers = analysis.pointers.iter().count();
    let (function, frame) = frame::head(body, analysis, name);
    let mut emit = Emit {
        body,
        analysis,
        b: Builder::new(function),
        gradients: vec![None; slots],
        block: 0,
        zeros: Vec::new(),
        shadows: vec![None; pointers],
        assigns: vec![None; pointers],
        drops: vec![None; pointers],
        scalars: HashMap::new(),
        addresses: HashMap::new(),
        own: HashMap::new(),
    };
    let end = emit.begin(&frame);
    let came = emit.replay(&frame);
    for block in (0..body.blocks.len()).rev() {
        emit.reverse(block, came.get(block).copied().flatten());
    }
    emit.b.place(end);
    emit.finish(&frame);
    let Builder { mut function, code, .. } = emit.b;
    function.body = Some(code);
    let written = dead::remove(&mut function);
    (function, loaded(body, analysis, &written))
}

impl Emit<'_> {
    /// Writes the kernel without its effects, and returns for each block the predicate that the thread came to it;
    /// `None` if every thread does.
    fn replay(&mut self, frame: &frame::Frame) -> Vec<Option<Pred>> {
        let came = self.predicates();
        let labels: Vec<LabelId> = self.body.blocks.iter().map(|_| self.b.label()).collect();
        let label = |block: usize| labels.get(block).copied();
        for (index, block) in self.body.blocks.iter().enumerate() {
            label(index).into_iter().for_each(|label| self.b.place(label));
            if let Some(Some((pred, true))) = came.get(index).copied() {
                self.b.copy(Type::Pred, pred.reg, Operand::Imm(1));
            }
            for instr in &block.code {
                if let Some(instr) = self.repeated(instr, frame) {
                    self.b.code.push(instr);
                }
            }
            self.b.loc = None;
            for to in block.end.targets() {
                self.copy_phis(index, to);
            }
            let next = index + 1;
            match block.end {
                End::Exit => {}
                End::Jump(to) => {
                    label(to)
                        .filter(|_| to != next)
                        .into_iter()
                        .for_each(|label| self.b.jump(label));
                }
                End::Branch { pred, then, otherwise } => {
                    label(then).into_iter().for_each(|label| self.b.jump_if(pred, label));
                    let otherwise = label(otherwise).filter(|_| otherwise != next);
                    otherwise.into_iter().for_each(|label| self.b.jump(label));
                }
            }
        }
        came.into_iter().map(|came| came.map(|(pred, _)| pred)).collect()
    }

    /// Chooses the predicate of each block that not every thread comes to, and whether the block sets it. A branch
    /// that every thread comes to has it already.
    fn predicates(&mut self) -> Vec<Option<(Pred, bool)>> {
        let mut came = vec![None; self.body.blocks.len()];
        for (index, block) in self.body.blocks.iter().enumerate() {
            if self.body.unconditional(index) {
                continue;
            }
            let branch = match &*block.preds {
                [from] if self.body.unconditional(*from) => {
                    self.body.blocks.get(*from).map(|from| from.end)
                }
                _ => None,
            };
            let known = match branch {
                Some(End::Branch { pred, then, .. }) if then == index => Some((pred, false)),
                Some(End::Branch { pred, .. }) => {
                    Some((Pred { negated: !pred.negated, ..pred }, false))
                }
                _ => None,
            };
            let made = known.unwrap_or_else(|| {
                let pred = self.b.reg(Type::Pred);
                self.b.copy(Type::Pred, pred, Operand::Imm(0));
                (holds(pred), true)
            });
            if let Some(place) = came.get_mut(index) {
                *place = Some(made);
            }
        }
        came
    }

    /// Returns an instruction as the replay has it; `None` if it is left out.
    fn repeated(&self, instr: &Instr, frame: &frame::Frame) -> Option<Instr> {
        match (&instr.op, Access::of(instr)) {
            (Op::St { .. } | Op::Atom { .. }, Some(access))
                if (is_global(access.space) && !self.is_local(&access)) || access.is_param() =>
            {
                return None;
            }
            // Arguments and results of calls that are left out.
            (Op::Ld { .. }, Some(access)) if access.is_param() && !self.is_formal(&access) => {
                return None;
            }
            (
                Op::Call { .. } | Op::Prefetch { .. } | Op::Fence { .. } | Op::Brkpt | Op::Trap,
                _,
            ) => return None,
            (Op::Pmevent { .. } | Op::Nanosleep { .. }, _) => return None,
            _ => {}
        }
        let mut instr = instr.clone();
        instr.line = 0;
        frame.renumber(&mut instr);
        // Otherwise the driver's compiler may fuse here what it does not fuse in the kernel.
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
        // A marker is a copy.
        if let Meaning::Rule { real, d, value, .. } = meaning(&instr) {
            instr.op = Op::Mov { ty: builder::type_of(real), d: Some(d), a: value };
        }
        Some(instr)
    }

    /// Memory of the thread, also by a generic address.
    fn is_local(&self, access: &Access<'_>) -> bool {
        let form = self.analysis.forms.address(self.body, access.address);
        form.origin == Origin::Variable(ptx::ir::Space::Local)
    }

    fn is_formal(&self, access: &Access<'_>) -> bool {
        let form = self.analysis.forms.address(self.body, access.address);
        matches!(form.origin, Origin::Param(_))
    }

    fn copy_phis(&mut self, from: usize, to: usize) {
        let Some(block) = self.body.blocks.get(to) else { return };
        for phi in &block.phis {
            let ty = self.b.function.registers.get(phi.reg.index()).copied().unwrap_or(Type::B32);
            let arg = phi.args.iter().find(|(pred, _)| *pred == from).and_then(|(_, arg)| *arg);
            // What was never written may be anything.
            self.b.copy(ty, phi.reg, arg.unwrap_or(Operand::Imm(0)));
        }
    }

    /// Writes the reverse of a block.
    fn reverse(&mut self, index: usize, came: Option<Pred>) {
        let Some(block) = self.body.blocks.get(index) else { return };
        self.block = index;
        self.addresses.clear();
        let before = std::mem::take(&mut self.b.code);
        // What the next block took from here.
        for to in block.end.targets() {
            let Some(next) = self.body.blocks.get(to) else { continue };
            for phi in &next.phis {
                let arg =
                    phi.args.iter().find(|(from, _)| *from == index).and_then(|(_, arg)| *arg);
                let Some(Operand::Reg(arg)) = arg else { continue };
                for half in [Slot::low, Slot::high] {
                    if let Some(g) = self.gradient(half(phi.reg)) {
                        self.add(half(arg), Term::Plus(g));
                    }
                }
            }
        }
        for (position, instr) in block.code.iter().enumerate().rev() {
            self.b.loc = instr.loc;
            self.reverse_value(instr);
            self.reverse_access(position, instr);
        }
        self.b.loc = None;
        let reversed = std::mem::replace(&mut self.b.code, before);
        for (zero, ty) in std::mem::take(&mut self.zeros) {
            self.b.copy(ty, zero, Operand::Imm(0));
        }
        if reversed.is_empty() {
            return;
        }
        let over = came.map(|came| {
            let label = self.b.label();
            let not = if came.negated { holds(came.reg) } else { fails(came.reg) };
            self.b.jump_if(not, label);
            label
        });
        self.b.code.extend(reversed);
        over.into_iter().for_each(|label| self.b.place(label));
    }

    /// Returns whether the adjoint writes the gradient of each element below the length.
    fn covers(&self, pointer: usize) -> bool {
        covers(self.analysis, pointer)
    }
}

/// Returns whether the adjoint adds to the gradient of each element below the length, or the kernel overwrites each.
pub(crate) fn covers(analysis: &Analysis, pointer: usize) -> bool {
    let Some(own) = analysis.own.get(pointer) else { return false };
    let effect = analysis.used.get(pointer).map(|used| used.effect());
    let info = analysis.pointers.get(pointer);
    match effect {
        // Parts of the element that are not loaded get zeros, number by number, so its size is a multiple of a number's.
        Some(Effect::Reads) => {
            let step =
                info.and_then(|info| info.spec.reals).map_or(4, |reals| reals.real().bytes());
            own.everywhere && own.stride.is_multiple_of(step)
        }
        Some(Effect::Overwrites) => own.everywhere && own.is_whole(),
        _ => false,
    }
}

/// Returns for each pointer whether the adjoint reads the memory as it was before the launch.
fn loaded(body: &Body, analysis: &Analysis, written: &[bool]) -> Vec<bool> {
    let mut loaded = vec![false; analysis.pointers.iter().count()];
    for (_, instr) in body.instrs() {
        let Op::Ld { addr, .. } = &instr.op else { continue };
        let Origin::Pointer(pointer) = analysis.forms.address(body, addr).origin else { continue };
        let mut stays = false;
        instr.for_each_def(|reg| stays |= written.get(reg.index()).copied().unwrap_or(false));
        if let Some(place) = loaded.get_mut(pointer) {
            *place |= stays;
        }
    }
    loaded
}
