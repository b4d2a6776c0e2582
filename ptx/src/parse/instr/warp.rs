//! Barriers, and instructions that the lanes of a warp execute together.

use super::super::function::Body;
use super::{Family, Words, finish, need};
use crate::ir::{BarOp, BoolOp, Op, ReduxOp, ShflMode, Type, VoteMode};

impl<'a> Body<'_, 'a> {
    pub(super) fn bar(&mut self, short: bool, w: &mut Words<'_, 'a>) -> Family {
        if short && w.flags(&["warp", "sync"]) {
            finish!(w);
            let mask = self.operand(Type::B32)?;
            return Ok(Some(Op::BarWarp { mask }));
        }
        if !short && w.flag("cluster") {
            return self.cluster_barrier(w);
        }
        w.flag("cta");
        let op = if w.flag("sync") {
            BarOp::Sync
        } else if w.flag("arrive") {
            BarOp::Arrive
        } else if w.flag("red") {
            BarOp::Red(need!(Self::reduction(w)))
        } else {
            return Ok(None);
        };
        let mut aligned = short | w.flag("aligned");
        if let BarOp::Red(reduction) = op {
            let ty = need!(w.ty());
            if ty != if reduction == BoolOp::Popc { Type::U32 } else { Type::Pred } {
                return Ok(None);
            }
            aligned |= w.flag("aligned");
        }
        finish!(w);
        let mut d = None;
        if matches!(op, BarOp::Red(_)) {
            d = self.dst()?;
            self.comma()?;
        }
        let barrier = self.operand(Type::U32)?;
        let mut threads = None;
        let mut p = None;
        if matches!(op, BarOp::Red(_)) {
            self.comma()?;
            // `a, p` or `a, b, p`
            let before = *self.cur;
            if !self.cur.at(b'!') {
                let next = self.operand(Type::U32)?;
                if self.cur.eat(b',')? {
                    threads = Some(next);
                } else {
                    *self.cur = before;
                }
            }
            p = Some(self.pred()?);
        } else if self.cur.at(b',') {
            threads = Some(self.next(Type::U32)?);
        }
        Ok(Some(Op::Bar { op, aligned, d, barrier, threads, p }))
    }

    pub(super) fn shfl(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let sync = w.flag("sync");
        let mode = need!(w.opt(ShflMode::from_name));
        need!(w.ty().filter(|&t| t == Type::B32));
        finish!(w);
        let (d, p) = self.dst_pair()?;
        let a = self.next(Type::B32)?;
        let b = self.next(Type::U32)?;
        let c = self.next(Type::U32)?;
        let mask = if sync { Some(self.next(Type::B32)?) } else { None };
        Ok(Some(Op::Shfl { mode, d, p, a, b, c, mask }))
    }

    pub(super) fn vote(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let sync = w.flag("sync");
        let mode = need!(w.opt(VoteMode::from_name));
        let ty = need!(w.ty());
        if ty != if mode == VoteMode::Ballot { Type::B32 } else { Type::Pred } {
            return Ok(None);
        }
        finish!(w);
        let d = self.dst()?;
        self.comma()?;
        let p = self.pred()?;
        let mask = if sync { Some(self.next(Type::B32)?) } else { None };
        Ok(Some(Op::Vote { mode, d, p, mask }))
    }

    pub(super) fn match_sync(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let all = w.flag("all");
        if (!all && !w.flag("any")) || !w.flag("sync") {
            return Ok(None);
        }
        let ty = need!(w.ty());
        finish!(w);
        let (d, p) = self.dst_pair()?;
        let a = self.next(ty)?;
        let mask = self.next(Type::B32)?;
        Ok(Some(Op::Match { all, ty, d, p, a, mask }))
    }

    pub(super) fn redux(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flag("sync") {
            return Ok(None);
        }
        let op = need!(w.opt(ReduxOp::from_name));
        let abs = w.flag("abs");
        let nan = w.flag("NaN");
        let ty = need!(w.ty());
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        let mask = self.next(Type::B32)?;
        Ok(Some(Op::Redux { op, ty, abs, nan, d, a, mask }))
    }

    pub(super) fn activemask(&mut self, w: &mut Words<'_, 'a>) -> Family {
        need!(w.ty().filter(|&t| t == Type::B32));
        finish!(w);
        Ok(Some(Op::Activemask { d: self.dst()? }))
    }

    pub(super) fn elect(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flag("sync") {
            return Ok(None);
        }
        finish!(w);
        let (d, p) = self.dst_pair()?;
        let mask = self.next(Type::B32)?;
        Ok(Some(Op::Elect { d, p, mask }))
    }
}
