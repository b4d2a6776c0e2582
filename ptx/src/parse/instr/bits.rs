//! Bits, bytes and packed integers.

use super::super::cursor::Number;
use super::super::function::Body;
use super::{Family, Words, finish, need};
use crate::ir::{BoolOp, Clamp, Cmp, DotOp, Op, PrmtMode, Type, VideoOp};

impl<'a> Body<'_, 'a> {
    pub(super) fn bfind(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let shiftamt = w.flag("shiftamt");
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        Ok(Some(Op::Bfind { ty, shiftamt, d, a }))
    }

    pub(super) fn fns(&mut self, w: &mut Words<'_, 'a>) -> Family {
        need!(w.ty().filter(|&t| t == Type::B32));
        finish!(w);
        let d = self.dst()?;
        let mask = self.next(Type::B32)?;
        let base = self.next(Type::B32)?;
        let offset = self.next(Type::S32)?;
        Ok(Some(Op::Fns { d, mask, base, offset }))
    }

    pub(super) fn bfe(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let b = self.next(Type::U32)?;
        let c = self.next(Type::U32)?;
        Ok(Some(Op::Bfe { ty, d, a, b, c }))
    }

    pub(super) fn bfi(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let b = self.next(ty)?;
        let c = self.next(Type::U32)?;
        let e = self.next(Type::U32)?;
        Ok(Some(Op::Bfi { ty, d, a, b, c, e }))
    }

    pub(super) fn bmsk(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let mode = need!(w.opt(Clamp::from_name));
        need!(w.ty().filter(|&t| t == Type::B32));
        finish!(w);
        let d = self.dst()?;
        let a = self.next(Type::U32)?;
        let b = self.next(Type::U32)?;
        Ok(Some(Op::Bmsk { mode, d, a, b }))
    }

    pub(super) fn szext(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let mode = need!(w.opt(Clamp::from_name));
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let b = self.next(Type::U32)?;
        Ok(Some(Op::Szext { ty, mode, d, a, b }))
    }

    pub(super) fn dot(&mut self, four: bool, w: &mut Words<'_, 'a>) -> Family {
        let op = if four {
            DotOp::Dp4a
        } else if w.flag("lo") {
            DotOp::Dp2aLo
        } else if w.flag("hi") {
            DotOp::Dp2aHi
        } else {
            return Ok(None);
        };
        let integer = |t: &Type| matches!(t, Type::U32 | Type::S32);
        let a_ty = need!(w.ty().filter(integer));
        let b_ty = need!(w.ty().filter(integer));
        finish!(w);
        let d = self.dst()?;
        let a = self.next(a_ty)?;
        let b = self.next(b_ty)?;
        let c = self.next(Type::B32)?;
        Ok(Some(Op::Dot { op, a_ty, b_ty, d, a, b, c }))
    }

    pub(super) fn lop3(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let op = w.opt(BoolOp::from_name).filter(|op| matches!(op, BoolOp::And | BoolOp::Or));
        need!(w.ty().filter(|&t| t == Type::B32));
        finish!(w);
        let (d, p) = self.dst_pair()?;
        let a = self.next(Type::B32)?;
        let b = self.next(Type::B32)?;
        let c = self.next(Type::B32)?;
        self.comma()?;
        let lut = self.small("a table of 8 bits")?;
        let Some(op) = op else { return Ok(Some(Op::Lop3 { lut, d, a, b, c })) };
        self.comma()?;
        let q = self.pred()?;
        Ok(Some(Op::Lop3Bool { op, lut, d, p, a, b, c, q }))
    }

    /// Parses a constant of 8 bits.
    fn small(&mut self, what: &str) -> super::super::cursor::Result<u8> {
        let place = self.cur.offset();
        match self.cur.constant(what)? {
            Number::Int(n) => u8::try_from(n).ok(),
            _ => None,
        }
        .ok_or_else(|| self.cur.error_at(place, format!("expected {what}")))
    }

    pub(super) fn shf(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let right = w.flag("r");
        if !right && !w.flag("l") {
            return Ok(None);
        }
        let mode = need!(w.opt(Clamp::from_name));
        need!(w.ty().filter(|&t| t == Type::B32));
        finish!(w);
        let d = self.dst()?;
        let a = self.next(Type::B32)?;
        let b = self.next(Type::B32)?;
        let c = self.next(Type::U32)?;
        Ok(Some(Op::Shf { right, mode, d, a, b, c }))
    }

    pub(super) fn prmt(&mut self, w: &mut Words<'_, 'a>) -> Family {
        need!(w.ty().filter(|&t| t == Type::B32));
        let mode = w.opt(PrmtMode::from_name);
        finish!(w);
        let d = self.dst()?;
        let a = self.next(Type::B32)?;
        let b = self.next(Type::B32)?;
        let c = self.next(Type::B32)?;
        Ok(Some(Op::Prmt { mode, d, a, b, c }))
    }

    /// Packed video instructions without byte selectors on their sources.
    pub(super) fn video(&mut self, op: VideoOp, lanes: u8, w: &mut Words<'_, 'a>) -> Family {
        let integer = |t: &Type| matches!(t, Type::U32 | Type::S32);
        // `vset4.u32.u32.lt` has no separate result type.
        let set = op == VideoOp::Set;
        let first = need!(w.ty().filter(integer));
        let second = need!(w.ty().filter(integer));
        let (d_ty, a_ty, b_ty, cmp) = if set {
            (Type::U32, first, second, Some(need!(w.opt(Cmp::from_name))))
        } else {
            (first, second, need!(w.ty().filter(integer)), None)
        };
        let sat = w.flag("sat");
        let add = w.flag("add");
        finish!(w);
        let d = self.dst()?;
        let mask = self.video_mask(lanes)?;
        let a = self.next(a_ty)?;
        let b = self.next(b_ty)?;
        let c = self.next(d_ty)?;
        Ok(Some(Op::Video { op, lanes, d_ty, a_ty, b_ty, cmp, sat, add, mask, d, a, b, c }))
    }

    /// `.h10`, `.b3210` after the result: the halves or bytes that are written.
    fn video_mask(&mut self, lanes: u8) -> super::super::cursor::Result<Option<u8>> {
        let Some(word) = self.cur.peek_dotted() else { return Ok(None) };
        let letter = if lanes == 2 { 'h' } else { 'b' };
        let digits = word.strip_prefix(letter).unwrap_or("");
        let mut mask = 0u8;
        for digit in digits.bytes() {
            let bit = digit.wrapping_sub(b'0');
            if bit >= lanes {
                mask = 0;
                break;
            }
            mask |= 1 << bit;
        }
        if mask == 0 {
            return Err(self.cur.expected("a mask of halves or bytes"));
        }
        self.cur.advance()?;
        Ok(Some(mask))
    }
}
