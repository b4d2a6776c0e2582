//! Sums over all threads: the gradients of numbers passed by value.
//!
//! A block's sum is a fixed tree, so its bits are reproducible. Blocks add to partial sums 128 bytes apart.

use ptx::ir::{
    Address, BarOp, BinaryOp, Cmp, Dim, Mode, MulPart, Op, Operand, RegId, ShflMode, Space,
    Special, Symbol, Type, VarId, Variable,
};

use super::Emit;
use super::builder::{at, fails, holds, nearest, number, param, type_of};
use super::frame::Frame;
use crate::analysis::GradientSlot;
use crate::spec::Real;

/// Bytes from one partial sum to the next.
const APART: u64 = 128;
const LANES: u64 = 32;

/// The place of a thread in its block.
pub(super) struct Thread {
    pub(super) index: RegId,
    pub(super) lane: RegId,
    pub(super) warp: RegId,
    /// The last lane of the warp that the block has.
    pub(super) last: RegId,
    /// The number of threads in the block.
    pub(super) count: RegId,
}

/// A wanted sum.
struct Sum {
    real: Real,
    value: RegId,
    /// The partial sums, whether there are any, and the offset of this sum in each.
    partials: RegId,
    some: RegId,
    offset: i64,
    /// The offset of its warps' sums in shared memory.
    shared: i64,
}

impl Emit<'_> {
    /// Adds the sums over all threads to the partial sums. Every thread of the block executes this.
    pub(super) fn partial_sums(&mut self, frame: &Frame) {
        let sums = self.wanted(frame);
        let wanted = sums.iter().map(|sum| sum.some).reduce(|a, b| {
            self.b.binary(BinaryOp::Or, Type::Pred, Operand::Reg(a), Operand::Reg(b))
        });
        let Some(wanted) = wanted else { return };
        let end = self.b.label();
        self.b.jump_if(fails(wanted), end);
        if self.sums.log.is_some() && self.plan.has_stack() {
            // Which threads have enough scratch memory varies from run to run, and the rounding of a block's sum would
            // too.
            let place = self.partial_place(frame);
            for sum in sums {
                self.partial_add(&sum, place, sum.some);
            }
            self.b.place(end);
            return;
        }
        let thread = self.thread();
        let memory = self.shared_sums(sums.len());
        let leads = self.b.setp(Cmp::Eq, Type::U32, Operand::Reg(thread.lane), Operand::Imm(0));
        for sum in &sums {
            self.warp_sum(sum.real, sum.value, thread.last);
            let to = self.shared_place(memory, thread.warp, sum.shared);
            let (ty, value) = (type_of(sum.real), [Operand::Reg(sum.value)]);
            self.b.store(Some(holds(leads)), Space::Shared, ty, to, &value);
        }
        self.barrier(BarOp::Sync);
        let reg = Operand::Reg;
        let others = self.b.setp(Cmp::Ne, Type::U32, reg(thread.warp), Operand::Imm(0));
        self.b.jump_if(holds(others), end);
        // Only the first warp continues.
        let before = self.b.binary(BinaryOp::Sub, Type::U32, reg(thread.count), Operand::Imm(1));
        let last = self.b.binary(BinaryOp::Shr, Type::U32, reg(before), Operand::Imm(5));
        let within = self.b.setp(Cmp::Ls, Type::U32, reg(thread.lane), reg(last));
        let is_first = self.b.setp(Cmp::Eq, Type::U32, reg(thread.index), Operand::Imm(0));
        let place = self.partial_place(frame);
        for sum in &sums {
            let ty = type_of(sum.real);
            self.b.copy(ty, sum.value, number(sum.real, 0.0));
            let from = self.shared_place(memory, thread.lane, sum.shared);
            self.b.load_to(Some(holds(within)), Space::Shared, ty, &[Some(sum.value)], from);
            self.warp_sum(sum.real, sum.value, last);
            let when = self.both(holds(sum.some), holds(is_first));
            self.partial_add(sum, place, when);
        }
        self.b.place(end);
    }

    /// Returns the sums for numbers that were passed by value.
    fn wanted(&mut self, frame: &Frame) -> Vec<Sum> {
        let mut scalars: Vec<_> =
            self.sums.scalars.iter().map(|(place, sum)| (*place, *sum)).collect();
        scalars.sort_unstable();
        let mut sums = Vec::new();
        let mut known: Option<(usize, RegId, RegId)> = None;
        for ((parameter, offset), value) in scalars {
            let is = |slot: &GradientSlot| *slot == GradientSlot::Partials(parameter);
            let slot = self.analysis.slots.iter().position(is);
            let gradient = slot.and_then(|slot| frame.gradients.get(slot).copied());
            let number = self.analysis.pointers.number(parameter, offset);
            let (Some(gradient), Some((real, _)), Ok(offset)) =
                (gradient, number, i64::try_from(offset))
            else {
                continue;
            };
            // `offset` and `real` become those of the gradient.
            let offset = offset.saturating_mul(i64::from(real.scale()));
            let real = real.gradient();
            let (_, partials, some) = match known.filter(|(of, ..)| *of == parameter) {
                Some(known) => known,
                None => {
                    let partials = self.b.load(Space::Param, Type::U64, param(gradient, 0));
                    let (a, b) = (Operand::Reg(partials), Operand::Imm(0));
                    (parameter, partials, self.b.setp(Cmp::Ne, Type::U64, a, b))
                }
            };
            known = Some((parameter, partials, some));
            let shared = i64::try_from(sums.len()).unwrap_or(0) * 8 * 32;
            sums.push(Sum { real, value, partials, some, offset, shared });
        }
        sums
    }

    /// Adds to a partial sum at `place`, in bytes.
    fn partial_add(&mut self, sum: &Sum, place: RegId, when: RegId) {
        let partials = self.b.global_address(sum.partials);
        let (a, b) = (Operand::Reg(partials), Operand::Reg(place));
        let to = self.b.binary(BinaryOp::Add, Type::S64, a, b);
        self.log_or_add(Space::Global, sum.real, (to, sum.offset), sum.value, when);
    }

    /// Makes `value` in lane 0 the sum of the lanes up to `last`. All threads of the warp execute this. Lanes that a
    /// block lacks, whose size is no multiple of 32, count as exited.
    pub(super) fn warp_sum(&mut self, real: Real, value: RegId, last: RegId) {
        let ty = type_of(real);
        for step in [16, 8, 4, 2, 1] {
            // Whether the other lane is at most `last`.
            let within = self.b.reg(Type::Pred);
            let shuffle = |this: &mut Self, a: RegId, p: Option<RegId>| {
                let d = this.b.reg(Type::B32);
                let (a, b, c) = (Operand::Reg(a), Operand::Imm(step), Operand::Reg(last));
                let (mode, mask) = (ShflMode::Down, Some(Operand::Imm(0xffff_ffff)));
                this.b.push(Op::Shfl { mode, d: Some(d), p, a, b, c, mask });
                d
            };
            let other = match real {
                Real::F32 | Real::F16 | Real::Bf16 => shuffle(self, value, Some(within)),
                Real::F64 => {
                    let [low, high] = [(); 2].map(|()| self.b.reg(Type::B32));
                    let d = [Some(low), Some(high)].into();
                    self.b.push(Op::Unpack { ty: Type::B64, d, a: Operand::Reg(value) });
                    let halves = [shuffle(self, low, Some(within)), shuffle(self, high, None)];
                    let (d, a) = (self.b.reg(Type::F64), halves.map(Operand::Reg).into());
                    self.b.push(Op::Pack { ty: Type::B64, d: Some(d), a });
                    d
                }
            };
            let other = match real {
                Real::F32 | Real::F16 | Real::Bf16 => self.b.moved(Type::B32, Operand::Reg(other)),
                Real::F64 => other,
            };
            let (op, mode, a, b) =
                (BinaryOp::Add, nearest(), Operand::Reg(value), Operand::Reg(other));
            self.b.push_if(holds(within), Op::Binary { op, ty, mode, d: Some(value), a, b });
        }
    }

    pub(super) fn thread(&mut self) -> Thread {
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
        let last = self.b.binary(BinaryOp::Sub, Type::U32, reg(here), Operand::Imm(1));
        Thread { index, lane, warp, last, count }
    }

    /// `a * b + c`
    fn mad(&mut self, a: RegId, b: RegId, c: RegId) -> RegId {
        let d = self.b.reg(Type::U32);
        let [a, b, c] = [a, b, c].map(Operand::Reg);
        let part = Some(MulPart::Lo);
        self.b.push(Op::Mad { ty: Type::S32, part, mode: Mode::default(), d: Some(d), a, b, c });
        d
    }

    /// Returns the offset of the block's partial sums, in bytes.
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
