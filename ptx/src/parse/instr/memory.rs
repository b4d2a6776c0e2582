//! Loads, stores, atomics, fences and the stack.

use super::super::function::Body;
use super::super::variable::vector;
use super::{Family, Words, finish, need};
use crate::ir::{Access, AtomOp, BoolOp, Cache, FenceKind, LdKind, Op, Order, Scope, Space, Type};

/// The modifiers of an access, as they are met.
struct Found {
    access: Access,
    nc: bool,
    noftz: bool,
    op: Option<AtomOp>,
    vector: u8,
    ty: Type,
}

impl Found {
    fn policy(&self) -> bool {
        self.access.hints.as_deref().is_some_and(|hints| hints.contains("cache_hint"))
    }
}

/// Reads the modifiers of a load, store or atomic; `None` where one is unknown.
fn modifiers(w: &mut Words<'_, '_>, atomic: bool) -> Option<Found> {
    let mut order = None;
    let mut hints = String::new();
    let mut found = Found {
        access: Access {
            space: Space::Generic,
            order: Order::Weak,
            scope: None,
            cache: None,
            hints: None,
            policy: None,
            used: None,
        },
        nc: false,
        noftz: false,
        op: None,
        vector: 1,
        ty: Type::B8,
    };
    let mut ty = None;
    while let Some(word) = w.peek() {
        w.skip();
        if let Some(space) = Space::from_name(word).filter(|_| word != "generic") {
            found.access.space = space;
        } else if let Some(t) = Type::from_name(word).filter(|_| ty.is_none()) {
            ty = Some(t);
        } else if let Some(n) = vector(word) {
            found.vector = n;
        } else if let Some(scope) = Scope::from_name(word) {
            found.access.scope = Some(scope);
        } else if let Some(o) = Order::from_name(word) {
            // `.mmio.relaxed.sys`: the second word adds nothing.
            if order != Some(Order::Mmio) {
                order = Some(o);
            }
        } else if let (false, Some(cache)) = (atomic, Cache::from_name(word)) {
            found.access.cache = Some(cache);
        } else if let (true, None, Some(op)) = (atomic, found.op, AtomOp::from_name(word)) {
            found.op = Some(op);
        } else if word == "nc" && !atomic {
            found.nc = true;
        } else if word == "noftz" && atomic {
            found.noftz = true;
        } else if word == "unified" || word.starts_with("L1::") || word.starts_with("L2::") {
            if !hints.is_empty() {
                hints.push('.');
            }
            hints.push_str(word);
        } else {
            return None;
        }
    }
    found.ty = ty?;
    found.access.order = order.unwrap_or(if atomic { Order::Relaxed } else { Order::Weak });
    if !hints.is_empty() {
        found.access.hints = Some(hints.into());
    }
    Some(found)
}

impl<'a> Body<'_, 'a> {
    /// Returns the operand of a cache policy, if the modifiers have announced one.
    fn policy(&mut self, found: &mut Found) -> super::super::cursor::Result<()> {
        if found.policy() {
            found.access.policy = Some(self.next(Type::B64)?);
        }
        Ok(())
    }

    /// A vector must have as many elements as its modifier says.
    fn width(&self, met: usize, found: &Found, place: usize) -> super::super::cursor::Result<()> {
        if met == usize::from(found.vector) {
            return Ok(());
        }
        let message = format!("expected {} elements, met {met}", found.vector);
        Err(self.cur.error_at(place, message))
    }

    pub(super) fn ld(&mut self, uniform: bool, w: &mut Words<'_, 'a>) -> Family {
        let mut found = need!(modifiers(w, false));
        let place = self.cur.offset();
        let d = self.dsts()?;
        self.width(d.len(), &found, place)?;
        self.comma()?;
        let addr = self.place_or_element(&mut found.access.space)?;
        self.policy(&mut found)?;
        let kind = match (uniform, found.nc) {
            (true, _) => LdKind::Uniform,
            (_, true) => LdKind::NonCoherent,
            _ => LdKind::Plain,
        };
        Ok(Some(Op::Ld { kind, access: found.access, ty: found.ty, d, addr }))
    }

    pub(super) fn st(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if w.flag("async") {
            return self.st_async(w);
        }
        let mut found = need!(modifiers(w, false));
        if found.nc {
            return Ok(None);
        }
        let addr = self.place_or_element(&mut found.access.space)?;
        self.comma()?;
        let place = self.cur.offset();
        let a = self.operands(found.ty)?;
        self.width(a.len(), &found, place)?;
        self.policy(&mut found)?;
        Ok(Some(Op::St { access: found.access, ty: found.ty, addr, a }))
    }

    pub(super) fn atom(&mut self, red: bool, w: &mut Words<'_, 'a>) -> Family {
        if red && w.flag("async") {
            return self.red_async(w);
        }
        let mut found = need!(modifiers(w, true));
        let op = need!(found.op);
        let mut d = Box::default();
        if !red {
            let place = self.cur.offset();
            d = self.dsts()?;
            self.width(d.len(), &found, place)?;
            self.comma()?;
        }
        let addr = self.atomic_place(&mut found.access.space)?;
        self.comma()?;
        let place = self.cur.offset();
        let a = self.operands(found.ty)?;
        self.width(a.len(), &found, place)?;
        let c = if op == AtomOp::Cas { Some(self.next(found.ty)?) } else { None };
        self.policy(&mut found)?;
        let Found { access, noftz, ty, .. } = found;
        Ok(Some(Op::Atom { op, access, ty, noftz, d, addr, a, c }))
    }

    pub(super) fn prefetch(&mut self, name: &str, w: &mut Words<'_, 'a>) -> Family {
        let space = w.opt(Space::from_name).unwrap_or(Space::Generic);
        let mut opcode = String::from(name);
        for word in w.list.iter() {
            opcode.push('.');
            opcode.push_str(word);
        }
        let known = matches!(w.peek(), Some("L1" | "L2" | "L2::evict_last" | "L2::evict_normal"));
        if !known || w.list.len() != 1 {
            return Ok(None);
        }
        // A hint without an operation: only the spaces that it can name have one.
        let mut named = space;
        let addr = self.place(&mut named)?;
        let size = if self.cur.at(b',') { Some(self.next(Type::U32)?) } else { None };
        Ok(Some(Op::Prefetch { opcode: opcode.into(), space, addr, size }))
    }

    pub(super) fn membar(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let scope = match w.peek() {
            Some("cta") => Scope::Cta,
            Some("gl") => Scope::Gpu,
            Some("sys") => Scope::Sys,
            Some("proxy") => {
                let kind = FenceKind::Other(w.list.join(".").into());
                return Ok(Some(Op::Fence { kind, scope: None }));
            }
            _ => return Ok(None),
        };
        w.skip();
        finish!(w);
        Ok(Some(Op::Fence { kind: FenceKind::Membar, scope: Some(scope) }))
    }

    pub(super) fn fence(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let words = w.list.join(".");
        let kind = if w.flag("sc") {
            FenceKind::Sc
        } else if w.flag("acquire") {
            FenceKind::Acquire
        } else if w.flag("release") {
            FenceKind::Release
        } else {
            w.flag("acq_rel");
            FenceKind::AcqRel
        };
        let scope = w.scope();
        if w.done() && scope.is_some() {
            return Ok(Some(Op::Fence { kind, scope }));
        }
        // Fences between proxies, or for barriers, have no operands, except `fence.proxy.tensormap`. They are read in
        // the second pass only, since the scope may come first.
        if !w.any_order || !self.cur.at(b';') {
            return Ok(None);
        }
        Ok(Some(Op::Fence { kind: FenceKind::Other(words.into()), scope: None }))
    }

    pub(super) fn stack(&mut self, name: &str, w: &mut Words<'_, 'a>) -> Family {
        let ty = need!(w.ty());
        finish!(w);
        if name == "stackrestore" {
            let a = self.operand(ty)?;
            return Ok(Some(Op::Stackrestore { ty, a }));
        }
        let d = self.dst()?;
        if name == "stacksave" {
            return Ok(Some(Op::Stacksave { ty, d }));
        }
        let size = self.next(ty)?;
        let align =
            if self.cur.eat(b',')? { Some(super::super::variable::align(self.cur)?) } else { None };
        Ok(Some(Op::Alloca { ty, d, size, align }))
    }

    /// `and`, `or`, `popc` of a reducing barrier.
    pub(super) fn reduction(w: &mut Words<'_, 'a>) -> Option<BoolOp> {
        w.opt(BoolOp::from_name).filter(|&op| op != BoolOp::Xor)
    }
}
