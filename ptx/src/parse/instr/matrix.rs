//! Matrix instructions: `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use super::super::fragment;
use super::super::function::Body;
use super::{Family, Words, finish, need};
use crate::ir::{Fragment, Layout, Mma, MmaBitOp, Op, Rounding, Shape, Space, Type};

fn bit_op(w: &mut Words<'_, '_>) -> Option<MmaBitOp> {
    if w.flags(&["xor", "popc"]) {
        Some(MmaBitOp::XorPopc)
    } else if w.flags(&["and", "popc"]) {
        Some(MmaBitOp::AndPopc)
    } else {
        None
    }
}

impl<'a> Body<'_, 'a> {
    pub(super) fn mma(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flags(&["sync", "aligned"]) {
            return Ok(None);
        }
        let shape = need!(w.shape());
        let a_layout = need!(w.opt(Layout::from_name));
        let b_layout = need!(w.opt(Layout::from_name));
        let rounding = w.opt(Rounding::from_name);
        let satfinite = w.flag("satfinite");
        let d_ty = need!(w.ty());
        let a_ty = need!(w.ty());
        let b_ty = need!(w.ty());
        let c_ty = need!(w.ty());
        let bit_op = bit_op(w);
        finish!(w);
        self.mma_operands(Mma {
            wmma: false,
            shape,
            a_layout,
            b_layout,
            d_ty,
            a_ty,
            b_ty,
            c_ty,
            rounding,
            satfinite,
            bit_op,
            d: Box::default(),
            a: Box::default(),
            b: Box::default(),
            c: Box::default(),
        })
    }

    fn mma_operands(&mut self, mut mma: Mma) -> Family {
        mma.d = self.dsts()?;
        self.comma()?;
        mma.a = self.operands(fragment(mma.a_ty))?;
        self.comma()?;
        mma.b = self.operands(fragment(mma.b_ty))?;
        self.comma()?;
        mma.c = self.operands(fragment(mma.c_ty))?;
        Ok(Some(Op::Mma(Box::new(mma))))
    }

    pub(super) fn wmma(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if w.flag("mma") {
            return self.wmma_mma(w);
        }
        let store = w.flag("store");
        if !store && !w.flag("load") {
            return Ok(None);
        }
        let fragment = need!(w.opt(Fragment::from_name));
        if store != (fragment == Fragment::D) || !w.flags(&["sync", "aligned"]) {
            return Ok(None);
        }
        let layout = need!(w.opt(Layout::from_name));
        let shape = need!(w.shape());
        let mut space = w.opt(Space::from_name).unwrap_or(Space::Generic);
        let ty = need!(w.ty());
        finish!(w);
        if store {
            let addr = self.place(&mut space)?;
            self.comma()?;
            let a = self.operands(Type::B64)?;
            let stride = if self.cur.at(b',') { Some(self.next(Type::U32)?) } else { None };
            return Ok(Some(Op::WmmaStore { layout, shape, space, ty, addr, a, stride }));
        }
        let d = self.dsts()?;
        self.comma()?;
        let addr = self.place(&mut space)?;
        let stride = if self.cur.at(b',') { Some(self.next(Type::U32)?) } else { None };
        Ok(Some(Op::WmmaLoad { fragment, layout, shape, space, ty, d, addr, stride }))
    }

    fn wmma_mma(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let bit_op = bit_op(w);
        if !w.flags(&["sync", "aligned"]) {
            return Ok(None);
        }
        let a_layout = need!(w.opt(Layout::from_name));
        let b_layout = need!(w.opt(Layout::from_name));
        let shape = need!(w.shape());
        let rounding = w.opt(Rounding::from_name);
        let d_ty = need!(w.ty());
        let second = need!(w.ty());
        // For f16 only the types of d and c are named.
        let (a_ty, b_ty, c_ty) = match w.ty() {
            Some(b_ty) => (second, b_ty, need!(w.ty())),
            None => (Type::F16, Type::F16, second),
        };
        let satfinite = w.flag("satfinite");
        // The manual has it before the types, NVRTC writes it after them.
        let rounding = rounding.or_else(|| w.opt(Rounding::from_name));
        finish!(w);
        self.mma_operands(Mma {
            wmma: true,
            shape,
            a_layout,
            b_layout,
            d_ty,
            a_ty,
            b_ty,
            c_ty,
            rounding,
            satfinite,
            bit_op,
            d: Box::default(),
            a: Box::default(),
            b: Box::default(),
            c: Box::default(),
        })
    }

    pub(super) fn matrix_memory(&mut self, store: bool, w: &mut Words<'_, 'a>) -> Family {
        if !w.flags(&["sync", "aligned"]) {
            return Ok(None);
        }
        let shape: Shape = need!(w.shape());
        let count = match w.peek() {
            Some("x1") => 1,
            Some("x2") => 2,
            Some("x4") => 4,
            _ => return Ok(None),
        };
        w.skip();
        let trans = w.flag("trans");
        let mut space = w.opt(Space::from_name).unwrap_or(Space::Generic);
        let ty = need!(w.ty());
        finish!(w);
        // Other shapes hand out their matrices in other ways.
        if shape != (Shape { m: 8, n: 8, k: 0 }) || ty != Type::B16 {
            return Ok(None);
        }
        let place = self.cur.offset();
        let wrong = format!("expected {count} registers");
        if store {
            let addr = self.place(&mut space)?;
            self.comma()?;
            let a = self.operands(Type::B32)?;
            if a.len() != count {
                return Err(self.cur.error_at(place, wrong));
            }
            return Ok(Some(Op::Stmatrix { shape, trans, space, ty, addr, a }));
        }
        let d = self.dsts()?;
        if d.len() != count {
            return Err(self.cur.error_at(place, wrong));
        }
        self.comma()?;
        let addr = self.place(&mut space)?;
        Ok(Some(Op::Ldmatrix { shape, trans, space, ty, d, addr }))
    }

    pub(super) fn movmatrix(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flags(&["sync", "aligned", "m8n8", "trans", "b16"]) {
            return Ok(None);
        }
        finish!(w);
        let d = self.dst()?;
        let a = self.next(Type::B32)?;
        Ok(Some(Op::Movmatrix { d, a }))
    }
}
