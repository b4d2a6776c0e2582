//! The first word of an instruction with its modifiers.

use crate::ir::{Access, Mode, Order, Precision, Scope, Shape, Space, Type};

/// An opcode, put together from its words.
#[derive(Debug)]
pub(super) struct Opcode(pub(super) String);

impl Opcode {
    pub(super) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn word(mut self, word: &str) -> Self {
        self.0.push('.');
        self.0.push_str(word);
        self
    }

    pub(super) fn flag(self, set: bool, word: &str) -> Self {
        if set { self.word(word) } else { self }
    }

    pub(super) fn opt(self, word: Option<&str>) -> Self {
        match word {
            Some(word) => self.word(word),
            None => self,
        }
    }

    pub(super) fn ty(self, ty: Type) -> Self {
        self.word(ty.name())
    }

    pub(super) fn space(self, space: Space) -> Self {
        if space == Space::Generic { self } else { self.word(space.name()) }
    }

    pub(super) fn scope(self, scope: Option<Scope>) -> Self {
        self.opt(scope.map(Scope::name))
    }

    pub(super) fn shape(mut self, shape: Shape) -> Self {
        let Shape { m, n, k } = shape;
        self.0.push_str(&format!(".m{m}n{n}"));
        if k != 0 {
            self.0.push_str(&format!("k{k}"));
        }
        self
    }

    pub(super) fn mode(self, mode: Mode) -> Self {
        self.flag(mode.precision == Precision::Approx, "approx")
            .flag(mode.precision == Precision::Full, "full")
            .opt(mode.rounding.map(|r| r.name()))
            .flag(mode.ftz, "ftz")
            .flag(mode.sat, "sat")
            .flag(mode.oob, "oob")
            .flag(mode.relu, "relu")
            .flag(mode.nan, "NaN")
            .flag(mode.xorsign_abs, "xorsign.abs")
    }

    /// The modifiers of an access; `usual` is the order that needs no word.
    pub(super) fn access(self, access: &Access, usual: Order) -> Self {
        let order = match access.order {
            Order::Mmio => Some("mmio.relaxed"),
            order => {
                // An atomic with a scope names its order; a load or store has a scope only with one.
                let needed = order != usual || access.scope.is_some();
                Some(order.name()).filter(|_| needed)
            }
        };
        self.opt(order).scope(access.scope).space(access.space).opt(access.cache.map(|c| c.name()))
    }

    /// `.v4` and the type.
    pub(super) fn vector(self, count: usize, ty: Type) -> Self {
        let word = format!("v{count}");
        self.flag(count > 1, &word).ty(ty)
    }

    /// The modifiers of an mbarrier instruction; `usual` is the order that needs no word.
    pub(super) fn barrier(
        self,
        order: Order,
        usual: Order,
        scope: Option<Scope>,
        space: Space,
    ) -> Self {
        self.opt(Some(order.name()).filter(|_| order != usual || scope.is_some()))
            .scope(scope)
            .space(space)
            .word("b64")
    }
}
