//! Sums over all threads: the gradients of numbers that were passed by value.
//!
//! A block's sum is a fixed tree, so it has the same bits each time. Blocks add theirs to partial sums 128 bytes apart.

use ptx::ir::{
    Address, BarOp, BinaryOp, Cmp, Dim, Mode, MulPart, Op, Operand, RegId, Space, Special, Symbol,
    Type, VarId, Variable,
};

use super::Emit;
use super::builder::{at, holds, number, param, type_of};
use super::frame::Frame;
use crate::analysis::GradientSlot;
use crate::spec::Real;

/// Bytes from one partial sum to the next.
const APART: u64 = 128;
const LANES: u64 = 32;

/// The place of a thread in its block.
struct Thread {
    lane: RegId,
    warp: RegId,
    /// The threads of the warp, as a mask and a number.
    mask: RegId,
    here: RegId,
    /// The warps of the block.
    warps: RegId,
    is_first: RegId,
}

/// A sum that is wanted.
struct Sum {
    real: Real,
    value: RegId,
    /// Whether anybody wants it, and where it is added.
    some: RegId,
    to: (RegId, i64),
    /// Where its warps' sums lie in shared memory.
    shared: i64,
}

impl Emit<'_> {
    /// Adds the sums over all threads to the partial sums. Every thread of the block comes here.
    pub(super) fn partial_sums(&mut self, frame: &Frame) {
        let mut scalars: Vec<_> = self.scalars.iter().map(|(place, sum)| (*place, *sum)).collect();
        scalars.sort_unstable();
        if scalars.is_empty() {
            return;
        }
        let thread = self.thread();
        let place = self.partial_place(frame);
        let mut sums = Vec::new();
        for ((parameter, offset), value) in scalars {
            let slot = self
                .analysis
                .slots
                .iter()
                .position(|slot| *slot == GradientSlot::Partials(parameter));
            let partials = slot.and_then(|slot| frame.gradients.get(slot).copied());
            let number = self.analysis.pointers.number(parameter, offset);
            let (Some(partials), Some((real, _)), Ok(offset)) =
                (partials, number, i64::try_from(offset))
            else {
                continue;
            };
            let partials = self.b.load(Space::Param, Type::U64, param(partials, 0));
            let some = self.b.setp(Cmp::Ne, Type::U64, Operand::Reg(partials), Operand::Imm(0));
            let partials = self.b.global_address(partials);
            let to = self.b.binary(
                BinaryOp::Add,
                Type::S64,
                Operand::Reg(partials),
                Operand::Reg(place),
            );
            let shared = i64::try_from(sums.len()).unwrap_or(0) * 8 * 32;
            sums.push(Sum { real, value, some, to: (to, offset), shared });
        }
        if self.log.is_some() && self.plan.has_stack() {
            // Which threads have enough scratch memory in one run is left to chance, and so would be the rounding of a
            // block's sum.
            for Sum { real, value, some, to, .. } in sums {
                self.log_or_add(Space::Global, real, to, value, some);
            }
            return;
        }
        let memory = self.shared_sums(sums.len());
        for sum in &sums {
            self.warp_sum(sum.real, sum.value, &thread, Operand::Reg(thread.here));
            let leads = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(thread.lane), Operand::Imm(0));
            let to = self.shared_place(memory, thread.warp, sum.shared);
            self.b.store(
                Some(holds(leads)),
                Space::Shared,
                type_of(sum.real),
                to,
                &[Operand::Reg(sum.value)],
            );
        }
        let barrier = Operand::Imm(0);
        self.b.push(Op::Bar {
            op: BarOp::Sync,
            aligned: true,
            d: None,
            barrier,
            threads: None,
            p: None,
        });
        let end = self.b.label();
        let others = self.b.setp(Cmp::Ne, Type::U32, Operand::Reg(thread.warp), Operand::Imm(0));
        self.b.jump_if(holds(others), end);
        for sum in &sums {
            let ty = type_of(sum.real);
            let zero = number(sum.real, 0.0);
            self.b.copy(ty, sum.value, zero);
            let within = self.b.setp(
                Cmp::Lo,
                Type::U32,
                Operand::Reg(thread.lane),
                Operand::Reg(thread.warps),
            );
            let from = self.shared_place(memory, thread.lane, sum.shared);
            self.b.load_to(Some(holds(within)), Space::Shared, ty, &[Some(sum.value)], from);
            self.warp_sum(sum.real, sum.value, &thread, Operand::Reg(thread.here));
            let first = self.both(holds(sum.some), holds(thread.is_first));
            self.log_or_add(Space::Global, sum.real, sum.to, sum.value, first);
        }
        self.b.place(end);
    }

    /// Makes `value` the sum of the first `here` lanes, in lane 0.
    fn warp_sum(&mut self, real: Real, value: RegId, thread: &Thread, here: Operand) {
        let ty = type_of(real);
        for step in [16, 8, 4, 2, 1] {
            let mask = Operand::Reg(thread.mask);
            let other = match real {
                Real::F32 => {
                    let bits = self.b.moved(Type::B32, Operand::Reg(value));
                    let moved = self.b.shuffle_down(Operand::Reg(bits), step, mask);
                    self.b.moved(Type::B32, Operand::Reg(moved))
                }
                Real::F64 => {
                    let halves = [(); 2].map(|()| self.b.reg(Type::B32));
                    let d = halves.map(Some).into();
                    self.b.push(Op::Unpack { ty: Type::B64, d, a: Operand::Reg(value) });
                    let halves =
                        halves.map(|half| self.b.shuffle_down(Operand::Reg(half), step, mask));
                    let (d, a) = (self.b.reg(Type::F64), halves.map(Operand::Reg).into());
                    self.b.push(Op::Pack { ty: Type::B64, d: Some(d), a });
                    d
                }
            };
            let from = self.b.binary(
                BinaryOp::Add,
                Type::U32,
                Operand::Reg(thread.lane),
                Operand::Imm(step),
            );
            let within = self.b.setp(Cmp::Lo, Type::U32, Operand::Reg(from), here);
            let other = self.b.selp(ty, Operand::Reg(other), number(real, 0.0), holds(within));
            self.b.binary_to(BinaryOp::Add, ty, value, Operand::Reg(value), Operand::Reg(other));
        }
    }

    fn thread(&mut self) -> Thread {
        let special =
            |this: &mut Self, special: Special| this.b.moved(Type::U32, Operand::Special(special));
        let [tx, ty, tz] = [Dim::X, Dim::Y, Dim::Z].map(|dim| special(self, Special::Tid(dim)));
        let [nx, ny, nz] = [Dim::X, Dim::Y, Dim::Z].map(|dim| special(self, Special::Ntid(dim)));
        let plane = self.mad(tz, ny, ty);
        let index = self.mad(plane, nx, tx);
        let zero = self.b.moved(Type::U32, Operand::Imm(0));
        let plane = self.mad(nx, ny, zero);
        let count = self.mad(plane, nz, zero);
        let reg = Operand::Reg;
        let lane = self.b.binary(BinaryOp::And, Type::B32, reg(index), Operand::Imm(LANES - 1));
        let warp = self.b.binary(BinaryOp::Shr, Type::U32, reg(index), Operand::Imm(5));
        let start = self.b.binary(BinaryOp::Sub, Type::U32, reg(index), reg(lane));
        let rest = self.b.binary(BinaryOp::Sub, Type::U32, reg(count), reg(start));
        let here = self.b.binary(BinaryOp::Min, Type::U32, reg(rest), Operand::Imm(LANES));
        let others = self.b.binary(BinaryOp::Sub, Type::U32, Operand::Imm(LANES), reg(here));
        let mask = self.b.binary(BinaryOp::Shr, Type::U32, Operand::Imm(0xffff_ffff), reg(others));
        let up = self.b.binary(BinaryOp::Add, Type::U32, reg(count), Operand::Imm(LANES - 1));
        let warps = self.b.binary(BinaryOp::Shr, Type::U32, reg(up), Operand::Imm(5));
        let is_first = self.b.setp(Cmp::Eq, Type::U32, reg(index), Operand::Imm(0));
        Thread { lane, warp, mask, here, warps, is_first }
    }

    /// `a * b + c`
    fn mad(&mut self, a: RegId, b: RegId, c: RegId) -> RegId {
        let d = self.b.reg(Type::U32);
        let [a, b, c] = [a, b, c].map(Operand::Reg);
        let part = Some(MulPart::Lo);
        self.b.push(Op::Mad { ty: Type::S32, part, mode: Mode::default(), d: Some(d), a, b, c });
        d
    }

    /// Returns where the block's partial sums lie, in bytes.
    fn partial_place(&mut self, frame: &Frame) -> RegId {
        let special =
            |this: &mut Self, special: Special| this.b.moved(Type::U32, Operand::Special(special));
        let [x, y, z] = [Dim::X, Dim::Y, Dim::Z].map(|dim| special(self, Special::Ctaid(dim)));
        let [nx, ny] = [Dim::X, Dim::Y].map(|dim| special(self, Special::Nctaid(dim)));
        let plane = self.mad(z, ny, y);
        let block = self.mad(plane, nx, x);
        let log2 = self.b.load(Space::Param, Type::U32, frame.partials_log2());
        let count = self.b.binary(BinaryOp::Shl, Type::B32, Operand::Imm(1), Operand::Reg(log2));
        let last = self.b.binary(BinaryOp::Sub, Type::U32, Operand::Reg(count), Operand::Imm(1));
        let place =
            self.b.binary(BinaryOp::And, Type::B32, Operand::Reg(block), Operand::Reg(last));
        let d = self.b.reg(Type::U64);
        let (ty, part, mode) = (Type::U32, Some(MulPart::Wide), Mode::default());
        self.b.push(Op::Mul {
            ty,
            part,
            mode,
            d: Some(d),
            a: Operand::Reg(place),
            b: Operand::Imm(APART),
        });
        d
    }

    /// Adds a variable of shared memory for the sums of the warps of a block.
    fn shared_sums(&mut self, count: usize) -> VarId {
        let name = format!("{}_sums", self.b.function.name);
        let dims = vec![u64::try_from(count).unwrap_or(1).saturating_mul(LANES)];
        let sums = Variable::new(name, Space::Shared, Type::B64, dims, 8);
        self.b.function.add_variable(sums)
    }

    /// Returns the address of an entry of shared memory.
    fn shared_place(&mut self, memory: VarId, index: RegId, offset: i64) -> Address {
        let base = self.b.moved(Type::U64, Operand::Symbol(Symbol::Var(memory), 0));
        let bytes = self.b.reg(Type::U64);
        let (ty, part, mode) = (Type::U32, Some(MulPart::Wide), Mode::default());
        self.b.push(Op::Mul {
            ty,
            part,
            mode,
            d: Some(bytes),
            a: Operand::Reg(index),
            b: Operand::Imm(8),
        });
        let place =
            self.b.binary(BinaryOp::Add, Type::S64, Operand::Reg(base), Operand::Reg(bytes));
        at(place, offset)
    }
}
