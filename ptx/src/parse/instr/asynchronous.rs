//! `cp.async` and `mbarrier`.

use super::super::function::Body;
use super::{Family, Words, finish, need};
use crate::ir::{Cache, Op, Operand, Order, Scope, Space, Type};

/// The modifiers that all of `mbarrier` share.
#[derive(Debug)]
struct Common {
    order: Order,
    scope: Option<Scope>,
    space: Space,
}

/// `{.sem}{.scope}{.space}`; `default` is the order without `.sem`.
fn common(w: &mut Words<'_, '_>, default: Order) -> Common {
    let order = w.opt(Order::from_name).unwrap_or(default);
    let scope = w.scope();
    let space = w.opt(Space::from_name).unwrap_or(Space::Generic);
    Common { order, scope, space }
}

impl<'a> Body<'_, 'a> {
    pub(super) fn cp_async(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flag("async") {
            return Ok(None);
        }
        if w.flag("commit_group") {
            finish!(w);
            return Ok(Some(Op::CpAsyncCommit));
        }
        if w.flag("wait_all") {
            finish!(w);
            return Ok(Some(Op::CpAsyncWait { pending: None }));
        }
        if w.flag("wait_group") {
            finish!(w);
            let pending = Some(self.cur.unsigned("a number of groups")?);
            return Ok(Some(Op::CpAsyncWait { pending }));
        }
        if w.flags(&["mbarrier", "arrive"]) {
            let noinc = w.flag("noinc");
            let mut space = w.opt(Space::from_name).unwrap_or(Space::Generic);
            need!(w.ty().filter(|&t| t == Type::B64));
            finish!(w);
            let addr = self.place(&mut space)?;
            return Ok(Some(Op::CpAsyncArrive { noinc, space, addr }));
        }
        let cache = need!(w.opt(Cache::from_name));
        if !w.flag("shared::cta") && !w.flag("shared") || !w.flag("global") {
            return Ok(None);
        }
        let hints = (!w.done()).then(|| w.list.join(".").into_boxed_str());
        if !w.list.iter().all(|word| word.starts_with("L2::")) {
            return Ok(None);
        }
        let has_policy = hints.as_deref().is_some_and(|h| h.contains("cache_hint"));
        let dst = self.place(&mut Space::Shared)?;
        self.comma()?;
        let src = self.place(&mut Space::Global)?;
        self.comma()?;
        let place = self.cur.offset();
        let size = match self.operand(Type::U32)? {
            Operand::Imm(4) => 4,
            Operand::Imm(8) => 8,
            Operand::Imm(16) => 16,
            _ => return Err(self.cur.error_at(place, "`cp.async` copies 4, 8 or 16 bytes")),
        };
        let (mut src_size, mut ignore, mut policy) = (None, None, None);
        let mut rest = Vec::new();
        while self.cur.eat(b',')? {
            if rest.len() == 2 {
                return Err(self.cur.error("too many operands"));
            }
            if self.cur.at(b'!') {
                ignore = Some(self.pred()?);
                continue;
            }
            rest.push(self.operand(Type::B64)?);
        }
        if has_policy {
            policy = rest.pop();
        }
        if let Some(first) = rest.pop() {
            match first {
                Operand::Reg(reg) if self.f.registers[reg.index()] == Type::Pred => {
                    ignore = Some(crate::ir::Pred { reg, negated: false });
                }
                other => src_size = Some(other),
            }
        }
        Ok(Some(Op::CpAsync { cache, hints, dst, src, size, src_size, ignore, policy }))
    }

    pub(super) fn mbarrier(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let Some(what) = w.peek() else { return Ok(None) };
        w.skip();
        match what {
            "init" | "inval" => {
                let mut space = w.opt(Space::from_name).unwrap_or(Space::Generic);
                need!(w.ty().filter(|&t| t == Type::B64));
                finish!(w);
                let addr = self.place(&mut space)?;
                if what == "inval" {
                    return Ok(Some(Op::MbarrierInval { space, addr }));
                }
                let count = self.next(Type::U32)?;
                Ok(Some(Op::MbarrierInit { space, addr, count }))
            }
            "arrive" | "arrive_drop" => self.mbarrier_arrive(what == "arrive_drop", w),
            "test_wait" | "try_wait" => self.mbarrier_wait(what == "try_wait", w),
            "expect_tx" | "complete_tx" => {
                let Common { scope, mut space, .. } = common(w, Order::Relaxed);
                need!(w.ty().filter(|&t| t == Type::B64));
                finish!(w);
                let addr = self.place(&mut space)?;
                let count = self.next(Type::U32)?;
                let complete = what == "complete_tx";
                Ok(Some(Op::MbarrierTx { complete, scope, space, addr, count }))
            }
            "pending_count" => {
                need!(w.ty().filter(|&t| t == Type::B64));
                finish!(w);
                let d = self.dst()?;
                let a = self.next(Type::B64)?;
                Ok(Some(Op::MbarrierPending { d, a }))
            }
            _ => Ok(None),
        }
    }

    fn mbarrier_arrive(&mut self, drop: bool, w: &mut Words<'_, 'a>) -> Family {
        let expect_tx = w.flag("expect_tx");
        let nocomplete = w.flag("noComplete");
        let Common { order, scope, mut space } = common(w, Order::Release);
        need!(w.ty().filter(|&t| t == Type::B64));
        finish!(w);
        // The state is optional only for a barrier of another block, which returns none.
        let mut d = None;
        if !self.cur.at(b'[') {
            d = self.dst()?;
            self.comma()?;
        }
        let addr = self.place(&mut space)?;
        let count = if self.cur.at(b',') { Some(self.next(Type::U32)?) } else { None };
        Ok(Some(Op::MbarrierArrive {
            drop,
            expect_tx,
            nocomplete,
            order,
            scope,
            space,
            d,
            addr,
            count,
        }))
    }

    fn mbarrier_wait(&mut self, blocking: bool, w: &mut Words<'_, 'a>) -> Family {
        let parity = w.flag("parity");
        let Common { order, scope, mut space } = common(w, Order::Acquire);
        need!(w.ty().filter(|&t| t == Type::B64));
        finish!(w);
        let d = self.dst()?;
        self.comma()?;
        let addr = self.place(&mut space)?;
        let a = self.next(if parity { Type::U32 } else { Type::B64 })?;
        let limit = if self.cur.at(b',') { Some(self.next(Type::U32)?) } else { None };
        Ok(Some(Op::MbarrierWait { blocking, parity, order, scope, space, d, addr, a, limit }))
    }
}
