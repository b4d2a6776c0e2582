//! Clusters of blocks: addresses of other blocks, the cluster's barrier, asynchronous stores.

use super::super::function::Body;
use super::{Family, Words, finish, need};
use crate::ir::{AtomOp, Op, Order, Scope, Space, Type};

/// `{.shared::cluster}`; false for another space.
fn space(w: &mut Words<'_, '_>) -> Option<Space> {
    let space = w.opt(Space::from_name).unwrap_or(Space::Generic);
    matches!(space, Space::Generic | Space::SharedCluster).then_some(space)
}

impl<'a> Body<'_, 'a> {
    /// `mapa` and `getctarank`.
    pub(super) fn cluster_address(&mut self, mapa: bool, w: &mut Words<'_, 'a>) -> Family {
        let space = need!(space(w));
        let ty = need!(w.ty().filter(|ty| matches!(ty, Type::U32 | Type::U64)));
        finish!(w);
        let d = self.dst()?;
        let a = self.next(ty)?;
        if !mapa {
            return Ok(Some(Op::Getctarank { space, ty, d, a }));
        }
        let b = self.next(Type::U32)?;
        Ok(Some(Op::Mapa { space, ty, d, a, b }))
    }

    /// `barrier.cluster`, without the two words.
    pub(super) fn cluster_barrier(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let wait = w.flag("wait");
        if !wait && !w.flag("arrive") {
            return Ok(None);
        }
        let order = if wait {
            w.flag("acquire");
            Order::Acquire
        } else if w.flag("relaxed") {
            Order::Relaxed
        } else {
            w.flag("release");
            Order::Release
        };
        let aligned = w.flag("aligned");
        finish!(w);
        Ok(Some(Op::ClusterBarrier { wait, order, aligned }))
    }

    /// `st.async`, without the two words.
    pub(super) fn st_async(&mut self, w: &mut Words<'_, 'a>) -> Family {
        w.flag("weak");
        let mut space = need!(space(w));
        w.flag("mbarrier::complete_tx::bytes");
        let count = w.opt(|word| match word {
            "v2" => Some(2),
            "v4" => Some(4),
            _ => None,
        });
        let ty = need!(w.ty().filter(|ty| matches!(ty.bytes(), 4 | 8)));
        finish!(w);
        let addr = self.place(&mut space)?;
        self.comma()?;
        let place = self.cur.offset();
        let a = self.operands(ty)?;
        if a.len() != count.unwrap_or(1) {
            let what = format!("{} values of {}", a.len(), count.unwrap_or(1));
            return Err(self.cur.error_at(place, what));
        }
        self.comma()?;
        let mbarrier = self.place(&mut space)?;
        Ok(Some(Op::StAsync { space, ty, addr, a, mbarrier }))
    }

    /// `red.async`, without the two words.
    pub(super) fn red_async(&mut self, w: &mut Words<'_, 'a>) -> Family {
        if !w.flag("relaxed") || w.scope() != Some(Scope::Cluster) {
            return Ok(None);
        }
        let mut space = need!(space(w));
        w.flag("mbarrier::complete_tx::bytes");
        let op = need!(w.opt(AtomOp::from_name));
        let ty = need!(w.ty().filter(|ty| matches!(ty.bytes(), 4 | 8)));
        finish!(w);
        if matches!(op, AtomOp::Exch | AtomOp::Cas) {
            return Ok(None);
        }
        let addr = self.place(&mut space)?;
        let a = self.next(ty)?;
        self.comma()?;
        let mbarrier = self.place(&mut space)?;
        Ok(Some(Op::RedAsync { op, space, ty, addr, a, mbarrier }))
    }
}
