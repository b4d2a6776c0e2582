//! Shuffles: a thread's gradient goes back to the thread that the value came from.

use ptx::ir::{BinaryOp, BoolOp, Cmp, Instr, Op, Operand, RegId, ShflMode, Special, Type};

use super::Emit;
use super::builder::{holds, number, type_of};
use super::rules::Term;
use crate::analysis::Slot;
use crate::spec::Real;

const LAST_LANE: u64 = 31;

/// A shuffle among the threads of `mask`.
#[derive(Debug, Clone, Copy)]
struct Shuffle {
    mode: ShflMode,
    b: Operand,
    c: Operand,
    mask: Operand,
}

impl Emit<'_> {
    /// Writes the reverse of `d = a` of another thread. Whole warps execute this.
    pub(super) fn reverse_exchange(&mut self, instr: &Instr, d: RegId, a: Option<Slot>) {
        let Op::Shfl { mode, b, c, mask: Some(mask), .. } = instr.op else { return };
        let slot = a.filter(|slot| self.analysis.activity.is_active(*slot));
        let (Some(g), Some(real), Some(to)) =
            (self.gradient(Slot::low(d)), self.analysis.kinds.real(Slot::low(d)), slot)
        else {
            return;
        };
        let (ty, zero, reg) = (type_of(real), number(real, 0.0), Operand::Reg);
        let lane = self.b.moved(Type::U32, Operand::Special(Special::Laneid));
        let last = self.thread().last;
        let uniform = match b {
            Operand::Reg(reg) => self.analysis.is_uniform(reg),
            _ => true,
        };
        let whole = self.value(mask) == Some(-1);
        let in_all = |this: &Self, end: i64| this.value(c) == Some(end);
        if mode == ShflMode::Idx && uniform && whole && in_all(self, 31) {
            // All threads have read from one.
            let sum = self.b.moved(ty, reg(g));
            self.warp_sum(real, sum, last);
            let first = Shuffle { mode, b: Operand::Imm(0), c, mask };
            let sum = self.shuffle(real, first, sum, None);
            let source = self.b.binary(BinaryOp::And, Type::B32, b, Operand::Imm(LAST_LANE));
            let is_source = self.b.setp(Cmp::Eq, Type::U32, reg(lane), reg(source));
            let sum = self.b.selp(ty, reg(sum), zero, holds(is_source));
            self.add(to, Term::Plus(sum));
            return;
        }
        let mirror = match mode {
            ShflMode::Up if uniform => (ShflMode::Down, BinaryOp::Add, reg(last)),
            ShflMode::Down if uniform => (ShflMode::Up, BinaryOp::Sub, Operand::Imm(0)),
            ShflMode::Bfly if uniform => (ShflMode::Bfly, BinaryOp::Xor, reg(last)),
            _ => {
                let source = self.shuffle_word(Shuffle { mode, b, c, mask }, reg(lane), None);
                let sum = self.gathered(real, g, source, lane, last, mask);
                self.add(to, Term::Plus(sum));
                return;
            }
        };
        let mut passed = g;
        if mode != ShflMode::Bfly || !in_all(self, 31) {
            // Threads without a partner have kept their own value.
            let source = self.shuffle_word(Shuffle { mode, b, c, mask }, reg(lane), None);
            let own = self.b.setp(Cmp::Eq, Type::U32, reg(source), reg(lane));
            let kept = self.b.selp(ty, reg(g), zero, holds(own));
            passed = self.b.selp(ty, zero, reg(g), holds(own));
            self.add(to, Term::Plus(kept));
        }
        let (mode, op, c) = mirror;
        let within = self.b.reg(Type::Pred);
        let other = self.shuffle(real, Shuffle { mode, b, c, mask }, passed, Some(within));
        let bits = if op == BinaryOp::Xor { Type::B32 } else { Type::U32 };
        let from = self.b.binary(op, bits, reg(lane), b);
        let from = self.is_member(from, mask, within);
        let other = self.b.selp(ty, reg(other), zero, holds(from));
        self.add(to, Term::Plus(other));
    }

    /// Returns the constant that an operand is.
    fn value(&self, operand: Operand) -> Option<i64> {
        match (operand, self.analysis.forms.operand(&operand).residue()) {
            (Operand::Imm(value), _) => u32::try_from(value & u64::from(u32::MAX))
                .ok()
                .map(|value| value.cast_signed().into()),
            (_, (0, value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the sum of the gradients of the threads that got their value from this one.
    fn gathered(
        &mut self,
        real: Real,
        g: RegId,
        source: RegId,
        lane: RegId,
        last: RegId,
        mask: Operand,
    ) -> RegId {
        let (ty, reg) = (type_of(real), Operand::Reg);
        let sum = self.b.moved(ty, number(real, 0.0));
        let other = self.b.moved(Type::U32, Operand::Imm(0));
        let again = self.b.label();
        self.b.place(again);
        let (mode, b, c) = (ShflMode::Idx, reg(other), Operand::Imm(LAST_LANE));
        let from = Shuffle { mode, b, c, mask };
        let theirs = self.shuffle(real, from, g, None);
        let source = self.shuffle_word(from, reg(source), None);
        let mine = self.b.setp(Cmp::Eq, Type::U32, reg(source), reg(lane));
        let there = (BoolOp::And, holds(mine));
        let there = self.b.setp_with(Cmp::Ls, Type::U32, reg(other), reg(last), there);
        let there = self.is_member(other, mask, there);
        let mode = super::builder::nearest();
        let (op, a, b) = (BinaryOp::Add, reg(sum), reg(theirs));
        self.b.push_if(holds(there), Op::Binary { op, ty, mode, d: Some(sum), a, b });
        self.b.binary_to(BinaryOp::Add, Type::U32, other, reg(other), Operand::Imm(1));
        let more = self.b.setp(Cmp::Ls, Type::U32, reg(other), Operand::Imm(LAST_LANE));
        self.b.jump_if(holds(more), again);
        sum
    }

    /// Returns whether a predicate holds and a thread of the warp takes part in a shuffle.
    fn is_member(&mut self, lane: RegId, mask: Operand, holds_too: RegId) -> RegId {
        if self.value(mask) == Some(-1) {
            return holds_too;
        }
        let bits = self.b.moved(Type::B32, mask);
        let bits = self.b.binary(BinaryOp::Shr, Type::U32, Operand::Reg(bits), Operand::Reg(lane));
        let bit = self.b.binary(BinaryOp::And, Type::B32, Operand::Reg(bits), Operand::Imm(1));
        let with = (BoolOp::And, holds(holds_too));
        self.b.setp_with(Cmp::Ne, Type::U32, Operand::Reg(bit), Operand::Imm(0), with)
    }

    /// Shuffles a number.
    fn shuffle(&mut self, real: Real, by: Shuffle, a: RegId, p: Option<RegId>) -> RegId {
        let d = self.b.reg(type_of(real));
        if real != Real::F64 {
            let bits = self.shuffle_word(by, Operand::Reg(a), p);
            self.b.copy(Type::B32, d, Operand::Reg(bits));
            return d;
        }
        let halves = [(); 2].map(|()| self.b.reg(Type::B32));
        let parts = halves.map(Some).into();
        self.b.push(Op::Unpack { ty: Type::B64, d: parts, a: Operand::Reg(a) });
        let [low, high] = halves.map(Operand::Reg);
        let halves = [self.shuffle_word(by, low, p), self.shuffle_word(by, high, None)];
        self.b.push(Op::Pack { ty: Type::B64, d: Some(d), a: halves.map(Operand::Reg).into() });
        d
    }

    fn shuffle_word(&mut self, by: Shuffle, a: Operand, p: Option<RegId>) -> RegId {
        let d = self.b.reg(Type::B32);
        let Shuffle { mode, b, c, mask } = by;
        self.b.push(Op::Shfl { mode, d: Some(d), p, a, b, c, mask: Some(mask) });
        d
    }
}
