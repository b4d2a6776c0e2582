//! The derivatives of arithmetic: what the gradient of a result adds to those of its operands.

use ptx::ir::{BinaryOp, BoolOp, Cmp, Instr, Mode, Operand, Precision, Pred, RegId, Type, UnaryOp};

use super::Emit;
use super::builder::{holds, number, type_of};
use crate::analysis::{
    Arithmetic, Chooser, Clamped, Semantics, Slot, Smooth, semantics, sign_mask,
};
use crate::spec::Real;

/// A summand of a gradient.
#[derive(Debug, Clone, Copy)]
pub(super) enum Term {
    Plus(RegId),
    Minus(RegId),
    /// The product with a number.
    Times(RegId, Operand),
    /// The negated product with a number.
    MinusTimes(RegId, Operand),
}

impl Emit<'_> {
    /// Writes the reverse of an instruction that is neither a load nor a store.
    pub(super) fn reverse_value(&mut self, instr: &Instr) {
        match semantics(instr) {
            Semantics::Copy(pairs) => {
                for (d, a) in pairs {
                    if let (Some(g), Some(a)) = (self.gradient(d), a) {
                        self.add(a, Term::Plus(g));
                    }
                }
            }
            Semantics::Choice { pairs, by } => {
                for (d, sources) in pairs {
                    self.reverse_choice(d, sources, by);
                }
            }
            Semantics::Exchange { d, a } => self.reverse_exchange(instr, d, a),
            Semantics::Arithmetic(arithmetic) => self.reverse_arithmetic(&arithmetic),
            Semantics::Loaded { d, value, .. } => {
                if let (Some(g), Some(value)) = (self.gradient(Slot::low(d)), self.active(&value)) {
                    self.add(value, Term::Plus(g));
                }
            }
            Semantics::Rule { real, d, terms, .. } => {
                let Some(g) = self.gradient(Slot::low(d)) else { return };
                for (by, derivative) in terms {
                    if let Some(by) = self.active(&by) {
                        self.add_product(real, d, by, g, derivative, false);
                    }
                }
            }
            Semantics::Bits => {
                let Some((op, real, d, a)) = sign_mask(instr) else { return };
                let (precision, clamped, rounded) = (Precision::Exact, Clamped::No, false);
                self.reverse_arithmetic(&Arithmetic {
                    op,
                    real,
                    precision,
                    clamped,
                    rounded,
                    d,
                    args: vec![a],
                });
            }
            // Loads and stores are reversed with their addresses. Other instructions have no derivative.
            Semantics::Load | Semantics::Store | Semantics::Accumulate => {}
            Semantics::Constant | Semantics::Opaque(_) | Semantics::Nothing => {}
        }
    }

    fn reverse_choice(&mut self, d: Slot, sources: [Option<Slot>; 2], by: Chooser) {
        let Some(g) = self.gradient(d) else { return };
        let Some(real) = self.analysis.kinds.real(d) else { return };
        let active =
            sources.map(|slot| slot.filter(|slot| self.analysis.activity.is_active(*slot)));
        if active == [None, None] {
            return;
        }
        let first = match by {
            Chooser::Pred(pred) => pred,
            Chooser::Sign(value, ty) => holds(self.b.setp(Cmp::Ge, ty, value, Operand::Imm(0))),
        };
        self.split(real, g, first, active);
    }

    /// Adds a gradient to the first slot if the predicate holds, else to the second.
    fn split(&mut self, real: Real, g: RegId, first: Pred, to: [Option<Slot>; 2]) {
        let ty = type_of(real);
        if to[0].is_some() && to[0] == to[1] {
            to[0].into_iter().for_each(|slot| self.add(slot, Term::Plus(g)));
            return;
        }
        for (slot, chosen) in to.into_iter().zip([true, false]) {
            let Some(slot) = slot else { continue };
            let (zero, g) = (number(real, 0.0), Operand::Reg(g));
            let (a, b) = if chosen { (g, zero) } else { (zero, g) };
            let part = self.b.selp(ty, a, b, first);
            self.add(slot, Term::Plus(part));
        }
    }

    fn reverse_arithmetic(&mut self, arithmetic: &Arithmetic) {
        let Arithmetic { op, real, precision, clamped, rounded, d, ref args } = *arithmetic;
        let Some(g) = self.gradient(Slot::low(d)) else { return };
        let ty = type_of(real);
        let y = Operand::Reg(d);
        let g = match clamped {
            Clamped::No => g,
            Clamped::Unit | Clamped::Positive => {
                // The result before rounding decides: many numbers of 32 bits round to a bound.
                let (of, y) = match rounded {
                    true => self.before_rounding(arithmetic),
                    false => (real, y),
                };
                let in_type = type_of(of);
                let mut inside = self.b.setp(Cmp::Gt, in_type, y, number(of, 0.0));
                if clamped == Clamped::Unit {
                    let below = (BoolOp::And, holds(inside));
                    inside = self.b.setp_with(Cmp::Lt, in_type, y, number(of, 1.0), below);
                }
                self.b.selp(ty, Operand::Reg(g), number(real, 0.0), holds(inside))
            }
        };
        let mut args = args.iter().copied();
        let zero = Operand::Imm(0);
        let [a, b, c] = [(); 3].map(|()| args.next().unwrap_or(zero));
        let [to_a, to_b, to_c] = [a, b, c].map(|arg| self.active(&arg));
        match op {
            Smooth::Add | Smooth::Sub => {
                to_a.into_iter().for_each(|slot| self.add(slot, Term::Plus(g)));
                let term = if op == Smooth::Add { Term::Plus(g) } else { Term::Minus(g) };
                to_b.into_iter().for_each(|slot| self.add(slot, term));
            }
            Smooth::Mul | Smooth::Fma => {
                to_a.into_iter().for_each(|slot| self.add_product(real, d, slot, g, b, false));
                to_b.into_iter().for_each(|slot| self.add_product(real, d, slot, g, a, false));
                if op == Smooth::Fma {
                    to_c.into_iter().for_each(|slot| self.add(slot, Term::Plus(g)));
                }
            }
            Smooth::Div => {
                // d(a / b) = (da - y db) / b
                let part = self.b.div(real, precision, Operand::Reg(g), b);
                let part = self.strong(real, d, g, part);
                to_a.into_iter().for_each(|slot| self.add(slot, Term::Plus(part)));
                to_b.into_iter().for_each(|slot| self.add_product(real, d, slot, part, y, true));
            }
            Smooth::Convert(from) => {
                let Some(slot) = to_a else { return };
                let part = self.converted(real, from, g);
                self.add(slot, Term::Plus(part));
            }
            Smooth::Neg => to_a.into_iter().for_each(|slot| self.add(slot, Term::Minus(g))),
            Smooth::Abs => {
                let Some(slot) = to_a else { return };
                let sign = self.b.binary(BinaryOp::Copysign, ty, a, number(real, 1.0));
                self.add(slot, Term::Times(g, Operand::Reg(sign)));
            }
            Smooth::Copysign => {
                // The magnitude is that of `b` without its sign.
                let Some(slot) = to_b else { return };
                let sign = self.b.binary(BinaryOp::Copysign, ty, b, number(real, 1.0));
                let part = self.b.mul(ty, Operand::Reg(g), Operand::Reg(sign));
                let sign = self.b.binary(BinaryOp::Copysign, ty, a, number(real, 1.0));
                self.add(slot, Term::Times(part, Operand::Reg(sign)));
            }
            Smooth::Min | Smooth::Max => {
                let first = self.chosen(op == Smooth::Max, ty, a, b);
                self.split(real, g, first, [to_a, to_b]);
            }
            Smooth::Min3 | Smooth::Max3 => {
                // op(op(a, b), c)
                let max = op == Smooth::Max3;
                let of = if max { BinaryOp::Max } else { BinaryOp::Min };
                let inner = self.b.binary(of, ty, a, b);
                let outer = self.chosen(max, ty, Operand::Reg(inner), c);
                let zero = number(real, 0.0);
                if let Some(slot) = to_c {
                    let part = self.b.selp(ty, zero, Operand::Reg(g), outer);
                    self.add(slot, Term::Plus(part));
                }
                let g = self.b.selp(ty, Operand::Reg(g), zero, outer);
                let first = self.chosen(max, ty, a, b);
                self.split(real, g, first, [to_a, to_b]);
            }
            _ => {
                let Some(slot) = to_a else { return };
                let mut of = d;
                if rounded && op == Smooth::Ex2 {
                    // A rounded result has too few bits for its derivative.
                    let mode = Mode { precision: Precision::Approx, ..Mode::default() };
                    of = self.b.unary(UnaryOp::Ex2, ty, mode, a);
                }
                let derivative = self.derivative(op, real, precision, a, of);
                self.add_product(real, d, slot, g, Operand::Reg(derivative), false);
            }
        }
    }

    /// Returns a predicate: `max(a, b)` or `min(a, b)` is `a`. It holds at ties too, and if `b` is NaN.
    fn chosen(&mut self, max: bool, ty: Type, a: Operand, b: Operand) -> Pred {
        let cmp = if max { Cmp::Ge } else { Cmp::Le };
        let mut first = self.b.setp(cmp, ty, a, b);
        if matches!(b, Operand::Reg(_)) {
            first = self.b.setp_with(Cmp::Nan, ty, b, b, (BoolOp::Or, holds(first)));
        }
        holds(first)
    }

    /// Returns the derivative of a function of one number, from the argument and the result.
    fn derivative(
        &mut self,
        op: Smooth,
        real: Real,
        precision: Precision,
        a: Operand,
        d: RegId,
    ) -> RegId {
        let (ty, y) = (type_of(real), Operand::Reg(d));
        let approximate = Mode { precision: Precision::Approx, ..Mode::default() };
        match op {
            Smooth::Rcp => {
                let square = self.b.mul(ty, y, y);
                self.b.neg(ty, Operand::Reg(square))
            }
            Smooth::Sqrt => {
                // The derivative is 0 at 0. No root of a float is subnormal or too large for an approximate reciprocal,
                // which is right to 1 ulp and has no branches.
                let part = match real {
                    Real::F32 | Real::F16 | Real::Bf16 => {
                        let mode = Mode { ftz: true, ..approximate };
                        let reciprocal = self.b.unary(UnaryOp::Rcp, ty, mode, y);
                        self.b.mul(ty, Operand::Reg(reciprocal), number(real, 0.5))
                    }
                    Real::F64 => self.b.div(real, precision, number(real, 0.5), y),
                };
                let positive = self.b.setp(Cmp::Equ, ty, y, number(real, 0.0));
                self.b.selp(ty, number(real, 0.0), Operand::Reg(part), holds(positive))
            }
            Smooth::Rsqrt => {
                let square = self.b.mul(ty, y, y);
                let half = self.b.mul(ty, y, number(real, -0.5));
                self.b.mul(ty, Operand::Reg(square), Operand::Reg(half))
            }
            Smooth::Ex2 => self.b.mul(ty, y, number(real, std::f64::consts::LN_2)),
            Smooth::Lg2 => self.b.div(real, precision, number(real, std::f64::consts::LOG2_E), a),
            Smooth::Sin => self.b.unary(UnaryOp::Cos, ty, approximate, a),
            Smooth::Cos => {
                let sin = self.b.unary(UnaryOp::Sin, ty, approximate, a);
                self.b.neg(ty, Operand::Reg(sin))
            }
            Smooth::Tanh => {
                // 4e / (1 + e)² with e = exp(-2|a|): 1 - y² would cancel.
                let size = self.b.unary(UnaryOp::Abs, ty, Mode::default(), a);
                let scale = number(real, -2.0 * std::f64::consts::LOG2_E);
                let power = self.b.mul(ty, Operand::Reg(size), scale);
                let e = self.b.unary(UnaryOp::Ex2, ty, approximate, Operand::Reg(power));
                let sum = self.b.reg(ty);
                let one = number(real, 1.0);
                self.b.binary_to(BinaryOp::Add, ty, sum, Operand::Reg(e), one);
                let square = self.b.mul(ty, Operand::Reg(sum), Operand::Reg(sum));
                let four = self.b.mul(ty, Operand::Reg(e), number(real, 4.0));
                self.b.div(real, precision, Operand::Reg(four), Operand::Reg(square))
            }
            // Other operations have more operands, or no factor.
            _ => self.b.moved(ty, number(real, 0.0)),
        }
    }

    /// Returns the unrounded result of an instruction on 16-bit floats, and its type.
    fn before_rounding(&mut self, arithmetic: &Arithmetic) -> (Real, Operand) {
        let Arithmetic { op, real, d, ref args, .. } = *arithmetic;
        let ty = type_of(real);
        let y = match (op, args.as_slice()) {
            (Smooth::Convert(from), [a]) => return (from, *a),
            (Smooth::Add, [a, b]) => self.b.binary(BinaryOp::Add, ty, *a, *b),
            (Smooth::Sub, [a, b]) => self.b.binary(BinaryOp::Sub, ty, *a, *b),
            (Smooth::Mul, [a, b]) => self.b.mul(ty, *a, *b),
            (Smooth::Fma, [a, b, c]) => {
                let y = self.b.reg(ty);
                self.b.fma(ty, y, *a, *b, *c);
                y
            }
            _ => d,
        };
        (real, Operand::Reg(y))
    }

    fn converted(&mut self, from: Real, to: Real, g: RegId) -> RegId {
        if from == to {
            return g;
        }
        let d = self.b.reg(type_of(to));
        self.b.convert(type_of(to), type_of(from), d, g);
        d
    }

    /// Adds `g * factor` to the gradient of a slot.
    fn add_product(
        &mut self,
        real: Real,
        d: RegId,
        slot: Slot,
        g: RegId,
        factor: Operand,
        negative: bool,
    ) {
        let term = if self.analysis.activity.is_unconditional(Slot::low(d)) {
            if negative { Term::MinusTimes(g, factor) } else { Term::Times(g, factor) }
        } else {
            let product = self.b.mul(type_of(real), Operand::Reg(g), factor);
            let product = self.strong(real, d, g, product);
            if negative { Term::Minus(product) } else { Term::Plus(product) }
        };
        self.add(slot, term);
    }

    /// Returns 0 if `g` is 0, else `product`: the derivative of a value that was not chosen may be infinite.
    fn strong(&mut self, real: Real, d: RegId, g: RegId, product: RegId) -> RegId {
        if self.analysis.activity.is_unconditional(Slot::low(d)) {
            return product;
        }
        let (ty, zero) = (type_of(real), number(real, 0.0));
        let none = self.b.setp(Cmp::Eq, ty, Operand::Reg(g), zero);
        self.b.selp(ty, zero, Operand::Reg(product), holds(none))
    }

    /// Returns the gradient of a slot; `None` if it is zero.
    pub(super) fn gradient(&self, slot: Slot) -> Option<RegId> {
        self.gradients.registers.get(slot.index()).copied().flatten()
    }

    /// Returns the slot of an operand that has a gradient.
    pub(super) fn active(&self, operand: &Operand) -> Option<Slot> {
        Slot::of(operand).filter(|slot| self.analysis.activity.is_active(*slot))
    }

    /// Adds to the gradient of a slot.
    pub(super) fn add(&mut self, slot: Slot, term: Term) {
        if !self.analysis.activity.is_active(slot) {
            return;
        }
        let Some(real) = self.analysis.kinds.real(slot) else { return };
        let ty = type_of(real);
        let reg = Operand::Reg;
        if self.gradient(slot).is_none() {
            self.across_regions(slot);
        }
        if let Some(sum) = self.gradient(slot) {
            match term {
                Term::Plus(g) => self.b.binary_to(BinaryOp::Add, ty, sum, reg(sum), reg(g)),
                Term::Minus(g) => self.b.binary_to(BinaryOp::Sub, ty, sum, reg(sum), reg(g)),
                Term::Times(g, by) => self.b.fma(ty, sum, reg(g), by, reg(sum)),
                Term::MinusTimes(g, by) => {
                    let minus = self.b.neg(ty, reg(g));
                    self.b.fma(ty, sum, reg(minus), by, reg(sum));
                }
            }
            return;
        }
        let sum = self.first(slot, ty);
        match term {
            Term::Plus(g) => self.b.copy(ty, sum, reg(g)),
            Term::Minus(g) => self.b.neg_to(ty, sum, reg(g)),
            Term::Times(g, by) => self.b.mul_to(ty, sum, reg(g), by),
            Term::MinusTimes(g, by) => {
                let minus = self.b.neg(ty, reg(g));
                self.b.mul_to(ty, sum, reg(minus), by);
            }
        }
    }

    /// Makes the register of a gradient for its first summand. It is zero for threads that execute the definition, but
    /// not this block.
    fn first(&mut self, slot: Slot, ty: Type) -> RegId {
        let sum = self.b.reg(ty);
        if let Some(place) = self.gradients.registers.get_mut(slot.index()) {
            *place = Some(sum);
        }
        let defined = self.body.definition(slot.reg());
        if !defined.is_some_and(|defined| self.body.always_reaches(defined, self.block.index)) {
            self.block.zeros.push((sum, ty));
        }
        sum
    }
}
