//! Arithmetic on integers and floats.

use super::super::function::Body;
use super::super::widened;
use super::{Family, Words, finish, need};
use crate::ir::{
    BinaryOp, CarryOp, Mode, MulPart, Op, Operand, Precision, Rounding, Type, UnaryOp,
};

/// Returns the modifiers that stand before the type of an arithmetic instruction.
fn mode(w: &mut Words<'_, '_>) -> Mode {
    let mut mode = Mode::default();
    loop {
        if w.flag("approx") {
            mode.precision = Precision::Approx;
        } else if w.flag("full") {
            mode.precision = Precision::Full;
        } else if w.flag("ftz") {
            mode.ftz = true;
        } else if w.flag("sat") {
            mode.sat = true;
        } else if w.flag("relu") {
            mode.relu = true;
        } else if w.flag("NaN") {
            mode.nan = true;
        } else if w.flag("oob") {
            mode.oob = true;
        } else if w.flags(&["xorsign", "abs"]) {
            mode.xorsign_abs = true;
        } else if let Some(rounding) = w.opt(Rounding::from_name) {
            mode.rounding = Some(rounding);
        } else {
            return mode;
        }
    }
}

impl<'a> Body<'_, 'a> {
    /// `, a, b` of one type.
    fn two(&mut self, ty: Type) -> super::super::cursor::Result<(Operand, Operand)> {
        self.comma()?;
        let a = self.operand(ty)?;
        self.comma()?;
        Ok((a, self.operand(ty)?))
    }

    /// `, a`
    pub(super) fn next(&mut self, ty: Type) -> super::super::cursor::Result<Operand> {
        self.comma()?;
        self.operand(ty)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, w: &mut Words<'_, 'a>) -> Family {
        let mode = mode(w);
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        Ok(Some(Op::Unary { op, ty, mode, d, a }))
    }

    pub(super) fn binary(&mut self, op: BinaryOp, w: &mut Words<'_, 'a>) -> Family {
        let mode = mode(w);
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let b = self.next(if shift { Type::U32 } else { ty })?;
        Ok(Some(Op::Binary { op, ty, mode, d, a, b }))
    }

    pub(super) fn add_sub(&mut self, sub: bool, w: &mut Words<'_, 'a>) -> Family {
        if w.flag("cc") {
            let op = if sub { CarryOp::Sub } else { CarryOp::Add };
            return self.carry_chain(op, false, true, w);
        }
        self.binary(if sub { BinaryOp::Sub } else { BinaryOp::Add }, w)
    }

    pub(super) fn carry(&mut self, sub: bool, w: &mut Words<'_, 'a>) -> Family {
        let carry_out = w.flag("cc");
        self.carry_chain(if sub { CarryOp::Sub } else { CarryOp::Add }, true, carry_out, w)
    }

    fn carry_chain(
        &mut self,
        op: CarryOp,
        carry_in: bool,
        carry_out: bool,
        w: &mut Words<'_, 'a>,
    ) -> Family {
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        let mad = matches!(op, CarryOp::MadLo | CarryOp::MadHi);
        let c = if mad { Some(self.next(ty)?) } else { None };
        Ok(Some(Op::Carry { op, ty, carry_in, carry_out, d, a, b, c }))
    }

    pub(super) fn min_max(&mut self, max: bool, w: &mut Words<'_, 'a>) -> Family {
        let mut mode = mode(w);
        let ty = need!(w.ty());
        // `min.s32.relu` is `min.relu.s32`.
        if w.flag("relu") {
            mode.relu = true;
        }
        finish!(w);
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        if self.cur.at(b',') {
            let c = self.next(ty)?;
            return Ok(Some(Op::MinMax3 { max, ty, mode, d, a, b, c }));
        }
        let op = if max { BinaryOp::Max } else { BinaryOp::Min };
        Ok(Some(Op::Binary { op, ty, mode, d, a, b }))
    }

    pub(super) fn mul(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let part = w.opt(MulPart::from_name);
        let mode = mode(w);
        let ty = need!(w.ty());
        finish!(w);
        if part.is_none() && !ty.is_float() {
            return Ok(None);
        }
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        Ok(Some(Op::Mul { ty, part, mode, d, a, b }))
    }

    pub(super) fn mad(&mut self, carry_in: bool, w: &mut Words<'_, 'a>) -> Family {
        let part = w.opt(MulPart::from_name);
        let carry_out = w.flag("cc");
        if carry_in || carry_out {
            let op = match part {
                Some(MulPart::Lo) => CarryOp::MadLo,
                Some(MulPart::Hi) => CarryOp::MadHi,
                _ => return Ok(None),
            };
            return self.carry_chain(op, carry_in, carry_out, w);
        }
        let mode = mode(w);
        let ty = need!(w.ty());
        finish!(w);
        if part.is_none() && !ty.is_float() {
            return Ok(None);
        }
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        let c = self.next(widened(ty, part))?;
        Ok(Some(Op::Mad { ty, part, mode, d, a, b, c }))
    }

    pub(super) fn fma(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let mode = mode(w);
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        let c = self.next(ty)?;
        Ok(Some(Op::Fma { ty, mode, d, a, b, c }))
    }

    pub(super) fn mul24(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let part = need!(w.opt(MulPart::from_name).filter(|&p| p != MulPart::Wide));
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        Ok(Some(Op::Mul24 { ty, part, d, a, b }))
    }

    pub(super) fn mad24(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let part = need!(w.opt(MulPart::from_name).filter(|&p| p != MulPart::Wide));
        let sat = w.flag("sat");
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        let c = self.next(ty)?;
        Ok(Some(Op::Mad24 { ty, part, sat, d, a, b, c }))
    }

    pub(super) fn sad(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let (a, b) = self.two(ty)?;
        let c = self.next(ty)?;
        Ok(Some(Op::Sad { ty, d, a, b, c }))
    }
}
