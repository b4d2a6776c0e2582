//! Shared memory: the gradients of an array lie after it, at the same distance for each number.
//!
//! Kernels are free of races: between two barriers, a number in shared memory is used by one thread, or only loaded, or
//! only added to. So additions to gradients are atomic, and the threads of a block may reverse the code between two
//! barriers together.

use ptx::ir::{
    Access as Memory, Address, AtomOp, Base, BinaryOp, Cmp, Instr, Op, Operand, Order, RegId,
    Scope, Space, Symbol, Type, VarId,
};

use super::Emit;
use super::barriers::WORD_BYTES;
use super::builder::{at, holds, number, plain, type_of};
use super::frame::Frame;
use super::memory::Group;
use super::rules::Term;
use super::sums::Thread;
use crate::analysis::{Access, Analysis};
use crate::body::Body;

/// Returns the bytes of a variable, a multiple of its alignment and of a number's.
fn bytes_of(body: &Body, var: VarId) -> u64 {
    let Some(variable) = body.function.variables.get(var.index()) else { return 0 };
    let elements = variable.dims.iter().fold(1u64, |all, &one| all.saturating_mul(one));
    let of_one = u64::from(variable.ty.bytes()).saturating_mul(u64::from(variable.vector));
    let align = u64::from(variable.align.max(8));
    elements.saturating_mul(of_one).checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

/// Returns the variables of shared memory.
fn variables(body: &Body) -> impl Iterator<Item = VarId> {
    let count = u32::try_from(body.function.variables.len()).unwrap_or(u32::MAX);
    (0..count).map(VarId).filter(|var| body.is_shared(*var))
}

/// Returns how much shared memory the kernel's variables and their gradients take, the sums of numbers that were passed
/// by value, and what threads agree by.
pub(crate) fn shared_bytes(body: &Body, analysis: &Analysis) -> u64 {
    let of = |var: VarId| {
        let copies = if analysis.activity.is_local_active(var) { 2 } else { 1 };
        bytes_of(body, var).saturating_mul(copies)
    };
    let all = variables(body).fold(0u64, |all, var| all.saturating_add(of(var)));
    if all == 0 { 0 } else { all.saturating_add(sums_bytes(analysis) + WORD_BYTES) }
}

/// Returns the bytes of shared memory for sums over a block of numbers that were passed by value.
fn sums_bytes(analysis: &Analysis) -> u64 {
    let of = |slot: &crate::analysis::GradientSlot| match slot {
        crate::analysis::GradientSlot::Partials(param) => {
            analysis.pointers.numbers_of(*param).count()
        }
        _ => 0,
    };
    let numbers: usize = analysis.slots.iter().map(of).sum();
    u64::try_from(numbers).unwrap_or(u64::MAX).saturating_mul(256)
}

impl Emit<'_> {
    /// Makes room for the gradients of shared memory, all zero. Later code waits for the threads of the block.
    pub(super) fn shared_begin(&mut self, frame: &Frame) {
        for var in variables(self.body) {
            if !self.analysis.activity.is_local_active(var) {
                continue;
            }
            let (own, bytes) = (frame.variable(var), bytes_of(self.body, var));
            let Ok(apart) = i64::try_from(bytes) else { continue };
            if let Some(variable) = self.b.function.variables.get_mut(own.index()) {
                (variable.ty, variable.vector) = (Type::B8, 1);
                variable.dims = vec![bytes.saturating_mul(2)];
                variable.align = variable.align.max(8);
            }
            self.shadows.shared.insert(var, (own, apart));
            self.clear_shared(own, apart, bytes);
        }
    }

    /// Clears so many bytes from an offset in a variable, each thread a part of them.
    fn clear_shared(&mut self, own: VarId, start: i64, bytes: u64) {
        let Thread { index, count, .. } = self.thread();
        let reg = Operand::Reg;
        let base = self.b.moved(Type::U64, Operand::Symbol(Symbol::Var(own), start));
        let place = self.b.mad_wide(index, Operand::Imm(4), base);
        let end = self.b.binary(BinaryOp::Add, Type::S64, reg(base), Operand::Imm(bytes));
        let zero = self.b.moved(Type::U64, Operand::Imm(0));
        let step = self.b.mad_wide(count, Operand::Imm(4), zero);
        let (again, over) = (self.b.label(), self.b.label());
        self.b.place(again);
        let outside = self.b.setp(Cmp::Hs, Type::U64, reg(place), reg(end));
        self.b.jump_if(holds(outside), over);
        self.b.store(None, Space::Shared, Type::B32, at(place, 0), &[Operand::Imm(0)]);
        self.b.binary_to(BinaryOp::Add, Type::S64, place, reg(place), reg(step));
        self.b.jump(again);
        self.b.place(over);
    }

    /// Returns the address of a gradient, from that of the value and an offset.
    fn shared_shadow(&self, var: VarId, address: &Address, offset: i64) -> Option<Address> {
        let (own, apart) = self.shadows.shared.get(&var).copied()?;
        let base = match address.base {
            Base::Symbol(Symbol::Var(_)) => Base::Symbol(Symbol::Var(own)),
            base => base,
        };
        Some(Address { base, offset: address.offset.checked_add(offset)?.checked_add(apart)? })
    }

    /// Writes the reverse of a load from shared memory, a store to it or an atomic addition.
    pub(super) fn reverse_shared(
        &mut self,
        var: VarId,
        instr: &Instr,
        access: &Access<'_>,
        groups: &[Group],
    ) {
        let mut taken = Vec::new();
        let mut cleared = Vec::new();
        for group in groups {
            let ty = type_of(group.real);
            for (place, slot) in group.places() {
                let Some(slot) = slot.filter(|slot| self.analysis.activity.is_active(*slot)) else {
                    continue;
                };
                let Some(addr) = self.shared_shadow(var, access.address, place) else { continue };
                match instr.op {
                    Op::Ld { .. } => {
                        let Some(g) = self.gradient(slot) else { continue };
                        let (a, zero) = (Operand::Reg(g), number(group.real, 0.0));
                        let any = self.b.setp(Cmp::Neu, ty, a, zero);
                        let op = self.atomic(AtomOp::Add, access.space, ty, None, addr, a);
                        self.b.push_if(holds(any), op);
                    }
                    Op::St { .. } => {
                        // Several threads may store the same number: one takes the gradient.
                        let g = self.b.reg(ty);
                        let bits = if ty.bits() == 64 { Type::B64 } else { Type::B32 };
                        let zero = Operand::Imm(0);
                        let op = self.atomic(AtomOp::Exch, access.space, bits, Some(g), addr, zero);
                        self.b.push(op);
                        cleared.extend((0..i64::from(ty.bytes())).step_by(4).map(|at| place + at));
                        taken.push((slot, g));
                    }
                    _ => taken.push((slot, self.b.load(access.space, ty, addr))),
                }
            }
        }
        // A store of any type ends the gradient of the value before it.
        if matches!(instr.op, Op::St { .. }) {
            let count = i64::try_from(access.values.len()).unwrap_or(0);
            for place in (0..i64::from(access.ty.bytes()) * count / 4).map(|word| word * 4) {
                if let Some(addr) = self.shared_shadow(var, access.address, place)
                    && !cleared.contains(&place)
                {
                    self.b.store(None, access.space, Type::B32, addr, &[Operand::Imm(0)]);
                }
            }
        }
        taken.into_iter().for_each(|(slot, g)| self.add(slot, Term::Plus(g)));
    }

    fn atomic(
        &self,
        op: AtomOp,
        space: Space,
        ty: Type,
        d: Option<RegId>,
        addr: Address,
        a: Operand,
    ) -> Op {
        let access = Memory { order: Order::Relaxed, scope: Some(Scope::Cta), ..plain(space) };
        let d = if d.is_some() { Box::from([d]) } else { Box::default() };
        Op::Atom { op, access, ty, noftz: false, d, addr, a: [a].into(), c: None }
    }
}
