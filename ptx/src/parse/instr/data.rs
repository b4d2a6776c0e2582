//! Comparison, selection, moves and conversions.

use super::super::function::Body;
use super::super::variable::vector;
use super::{Family, Words, finish, need};
use crate::ir::{BoolOp, Cmp, Op, Rounding, Space, TestP, Type};

impl<'a> Body<'_, 'a> {
    pub(super) fn testp(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let test = need!(w.opt(TestP::from_name));
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        Ok(Some(Op::Testp { test, ty, d, a }))
    }

    pub(super) fn setp(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let cmp = need!(w.opt(Cmp::from_name));
        let combine = w.opt(BoolOp::from_name).filter(|&op| op != BoolOp::Popc);
        let ftz = w.flag("ftz");
        let ty = need!(w.ty());
        finish!(w);
        let (p, q) = self.dst_pair()?;
        let a = self.next(ty)?;
        let b = self.next(ty)?;
        let combine = match combine {
            Some(op) => {
                self.comma()?;
                Some((op, self.pred()?))
            }
            None => None,
        };
        Ok(Some(Op::Setp { cmp, ty, ftz, combine, p, q, a, b }))
    }

    pub(super) fn set(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let cmp = need!(w.opt(Cmp::from_name));
        let combine = w.opt(BoolOp::from_name).filter(|&op| op != BoolOp::Popc);
        let ftz = w.flag("ftz");
        let d_ty = need!(w.ty());
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let b = self.next(ty)?;
        let combine = match combine {
            Some(op) => {
                self.comma()?;
                Some((op, self.pred()?))
            }
            None => None,
        };
        Ok(Some(Op::Set { cmp, d_ty, ty, ftz, combine, d, a, b }))
    }

    pub(super) fn selp(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let b = self.next(ty)?;
        self.comma()?;
        let p = self.pred()?;
        Ok(Some(Op::Selp { ty, d, a, b, p }))
    }

    pub(super) fn slct(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let ftz = w.flag("ftz");
        let ty = need!(w.ty());
        let c_ty = need!(w.ty().filter(|t| matches!(t, Type::S32 | Type::F32)));
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let b = self.next(ty)?;
        let c = self.next(c_ty)?;
        Ok(Some(Op::Slct { ty, c_ty, ftz, d, a, b, c }))
    }

    pub(super) fn mov(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let width = w.opt(vector);
        let ty = need!(w.ty());
        finish!(w);
        // The parts of a packed source are narrower; a constant among them keeps its low bits.
        Ok(Some(match width {
            Some(_) if ty == Type::Pred => return Ok(None),
            Some(width) => self.mov_vector(width, ty)?,
            None => self.mov_scalar(ty)?,
        }))
    }

    pub(super) fn cvta(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let to = w.flag("to");
        let space = need!(w.opt(Space::from_name));
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        Ok(Some(Op::Cvta { to, space, ty, d, a }))
    }

    pub(super) fn isspacep(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let space = need!(w.opt(Space::from_name));
        finish!(w);
        let d = self.dst()?;
        let a = self.next(Type::B64)?;
        Ok(Some(Op::Isspacep { space, d, a }))
    }

    pub(super) fn cvt(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if w.flag("pack") {
            return self.cvt_pack(w);
        }
        let mut rounding = None;
        let (mut ftz, mut sat, mut satfinite, mut relu) = (false, false, false, false);
        loop {
            if w.flag("ftz") {
                ftz = true;
            } else if w.flag("sat") {
                sat = true;
            } else if w.flag("satfinite") {
                satfinite = true;
            } else if w.flag("relu") {
                relu = true;
            } else if let Some(found) = w.opt(Rounding::from_name) {
                rounding = Some(found);
            } else {
                break;
            }
        }
        let to = need!(w.ty());
        let from = need!(w.ty());
        finish!(w);
        // Stochastic rounding has a source of random bits.
        if rounding == Some(Rounding::Rs) {
            return Ok(None);
        }
        let d = self.dst()?;
        let a = self.next(from)?;
        let b = if self.cur.at(b',') { Some(self.next(from)?) } else { None };
        Ok(Some(Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b }))
    }

    fn cvt_pack(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flag("sat") {
            return Ok(None);
        }
        let to = need!(w.ty());
        let from = need!(w.ty());
        let third = w.flag("b32");
        finish!(w);
        let d = self.dst()?;
        let a = self.next(from)?;
        let b = self.next(from)?;
        let c = if third { Some(self.next(Type::B32)?) } else { None };
        Ok(Some(Op::CvtPack { to, from, d, a, b, c }))
    }
}
