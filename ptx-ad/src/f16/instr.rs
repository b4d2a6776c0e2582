//! Instructions of 16-bit floats, lane by lane.

use ptx::ir::{Dst, Instr, Op, Operand, Rounding, Type, UnaryOp};

use super::kinds::lanes;
use super::rewrite::Widen;

/// Returns whether an instruction is one of 16-bit floats.
pub(super) fn is_of_halves(op: &Op) -> bool {
    let is_half = |ty: &Type| lanes(*ty).is_some();
    match op {
        Op::Unary { ty, .. }
        | Op::Binary { ty, .. }
        | Op::Mul { ty, .. }
        | Op::Mad { ty, .. }
        | Op::Fma { ty, .. }
        | Op::MinMax3 { ty, .. }
        | Op::Setp { ty, .. }
        | Op::Atom { ty, .. } => is_half(ty),
        Op::Set { d_ty: to, ty: from, .. } | Op::Cvt { to, from, .. } => {
            is_half(to) || is_half(from)
        }
        _ => false,
    }
}

/// Returns the type, the result and the operands of an instruction that computes each lane by itself.
pub(super) fn arithmetic(op: &Op) -> Option<(Type, Dst, Vec<Operand>)> {
    let (ty, d, operands) = match op {
        Op::Unary { ty, d, a, .. } => (*ty, *d, vec![*a]),
        Op::Binary { ty, d, a, b, .. } | Op::Mul { ty, d, a, b, .. } => (*ty, *d, vec![*a, *b]),
        Op::Mad { ty, d, a, b, c, .. }
        | Op::Fma { ty, d, a, b, c, .. }
        | Op::MinMax3 { ty, d, a, b, c, .. } => (*ty, *d, vec![*a, *b, *c]),
        // Without flushing, the comparison gives the same for the numbers as `float`.
        Op::Set { d_ty, ty, ftz: false, d, a, b, .. } if lanes(*d_ty) == lanes(*ty) => {
            (*ty, *d, vec![*a, *b])
        }
        _ => return None,
    };
    lanes(ty).map(|_| (ty, d, operands))
}

/// Returns the instruction on one lane.
fn lane(op: &Op, half: Type, result: Dst, args: &[Operand]) -> Op {
    let mut op = op.clone();
    let mut args = args.iter().copied();
    let mut put = |to: &mut Dst, operands: &mut [&mut Operand]| {
        *to = result;
        operands.iter_mut().zip(&mut args).for_each(|(operand, arg)| **operand = arg);
    };
    match &mut op {
        Op::Unary { op, ty, mode, d, a } => {
            // A `float` has the same sign bit.
            let exact = matches!(op, UnaryOp::Abs | UnaryOp::Neg) && !mode.ftz;
            *ty = if exact { Type::F32 } else { half };
            put(d, &mut [a]);
        }
        Op::Binary { ty, d, a, b, .. } | Op::Mul { ty, d, a, b, .. } => {
            *ty = half;
            put(d, &mut [a, b]);
        }
        Op::Mad { ty, d, a, b, c, .. }
        | Op::Fma { ty, d, a, b, c, .. }
        | Op::MinMax3 { ty, d, a, b, c, .. } => {
            *ty = half;
            put(d, &mut [a, b, c]);
        }
        Op::Set { d_ty, ty, d, a, b, .. } => {
            (*d_ty, *ty) = (Type::F32, Type::F32);
            put(d, &mut [a, b]);
        }
        _ => {}
    }
    op
}

/// Returns whether a conversion has 16-bit floats on one side, and plain numbers on the other.
pub(super) fn converts(to: Type, from: Type) -> bool {
    use Type::{F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    let plain = |ty| matches!(ty, F32 | F64 | S8 | S16 | S32 | S64 | U8 | U16 | U32 | U64);
    match (lanes(to), lanes(from)) {
        (Some((_, 1)), Some((_, 1))) => true,
        (Some(_), None) => plain(from),
        (None, Some((_, 1))) => plain(to),
        _ => false,
    }
}

fn is_integral(rounding: Rounding) -> bool {
    matches!(rounding, Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi)
}

impl Widen<'_> {
    pub(super) fn arithmetic(&mut self, instr: Instr) {
        let Some((ty, d, operands)) = arithmetic(&instr.op) else { return };
        let Some((half, count)) = lanes(ty) else { return };
        let mut made = Vec::new();
        for at in 0..count {
            let mut args = Vec::new();
            for operand in &operands {
                args.push(self.operand(operand, at, half).unwrap_or(*operand));
            }
            let result = d.map(|d| self.result(d, at));
            made.extend(result);
            self.push(lane(&instr.op, half, result, &args));
        }
        d.into_iter().for_each(|d| self.define(d, half, &made));
    }

    pub(super) fn setp(&mut self, instr: Instr) {
        let Op::Setp { cmp, ty, ftz, combine, p, q, a, b } = instr.op else { return };
        let Some((half, count)) = lanes(ty) else { return self.other(instr) };
        // Without flushing, the comparison gives the same for the numbers as `float`.
        let ty = if ftz { half } else { Type::F32 };
        for at in 0..count {
            let a = self.operand(&a, at, half).unwrap_or(a);
            let b = self.operand(&b, at, half).unwrap_or(b);
            let (p, q) = match (count, at) {
                (1, _) => (p, q),
                (_, 0) => (p, None),
                _ => (q, None),
            };
            if p.is_some() || q.is_some() {
                self.push(Op::Setp { cmp, ty, ftz, combine, p, q, a, b });
            }
        }
    }

    pub(super) fn convert(&mut self, instr: Instr) {
        let Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b } = instr.op else {
            return;
        };
        let like = |op: Op| Instr { guard: None, op, line: instr.line, loc: instr.loc };
        let of = lanes(from).map(|(half, _)| half);
        let from = if of.is_some() { Type::F32 } else { from };
        let Some((half, count)) = lanes(to) else {
            let a = of.and_then(|half| self.operand(&a, 0, half)).unwrap_or(a);
            let op = if to == Type::F32 && rounding.is_none() && !(ftz || sat || relu) {
                Op::Mov { ty: to, d, a }
            } else {
                Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b }
            };
            return self.other(like(op));
        };
        let mut made = Vec::new();
        for at in 0..count {
            // The first of two operands is the upper lane.
            let source = if at == 0 { b.unwrap_or(a) } else { a };
            let a = of.and_then(|half| self.operand(&source, 0, half)).unwrap_or(source);
            let d = d.map(|d| self.result(d, at));
            made.extend(d);
            // Conversions between the same types round only to integral values.
            let same = of == Some(half);
            let (to, rounding) = match same {
                true => (Type::F32, rounding.filter(|rounding| is_integral(*rounding))),
                // Conversions between half types round to nearest implicitly, those from f32 by a modifier.
                false if of.is_some() => (half, rounding.or(Some(Rounding::Rn))),
                false => (half, rounding),
            };
            let op = if same && rounding.is_none() && !(sat || relu) {
                Op::Mov { ty: to, d, a }
            } else {
                Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b: None }
            };
            self.other(like(op));
        }
        d.into_iter().for_each(|d| self.define(d, half, &made));
    }
}
