//! The rules of taint, from the typed PTX.

use ptx::ir::{Address, Base, Callee, Instr, Op, RegId, Role, Type};

use super::{Class, Decoder, Refusal};
use crate::exec::count::approximate;
use crate::exec::inst::{Inst, SLOT_TRUE};
use crate::exec::ops::convert::is_int;
use crate::exec::taint::{Access, Decided, Taint, TaintRule};
use crate::exec::tangent::Register;
use crate::exec::tangent::derivative::layout;

/// Returns whether a type is one of integers, or of bits that an instruction takes for an integer.
fn integer(ty: Type) -> bool {
    layout(ty).is_none() && ty != Type::Pred && is_int(ty)
}

/// Returns whether the rule of tangents moves the marks of an instruction.
pub(super) fn moves(op: &Op) -> bool {
    match op {
        Op::Mov { ty, .. } => *ty != Type::Pred,
        Op::Pack { .. } | Op::Unpack { .. } | Op::Shfl { .. } | Op::Redux { .. } | Op::Mma(_) => {
            true
        }
        _ => false,
    }
}

/// Returns whether an instruction loads its results from memory by matrices, whose marks come with them.
fn loads_matrices(op: &Op) -> bool {
    matches!(op, Op::WmmaLoad { .. } | Op::Ldmatrix { .. } | Op::Movmatrix { .. })
}

/// Returns what the sources of an instruction decide, and whether only its predicates do.
fn decides(op: &Op) -> Option<(Decided, bool)> {
    let by_type = |ty: Type| integer(ty).then_some((Decided::Integer, false));
    match op {
        Op::Unary { ty, .. }
        | Op::Binary { ty, .. }
        | Op::MinMax3 { ty, .. }
        | Op::Mul { ty, .. }
        | Op::Mad { ty, .. }
        | Op::Atom { ty, .. }
        | Op::Redux { ty, .. } => by_type(*ty),
        Op::Cvt { to, .. } => by_type(*to),
        Op::Set { d_ty, .. } => by_type(*d_ty),
        Op::Selp { ty, .. } => by_type(*ty).map(|(what, _)| (what, true)),
        Op::Slct { ty, c_ty: Type::F32, .. } => by_type(*ty),
        Op::Mul24 { .. }
        | Op::Mad24 { .. }
        | Op::Carry { .. }
        | Op::Sad { .. }
        | Op::Bfind { .. }
        | Op::Fns { .. }
        | Op::Bfe { .. }
        | Op::Bfi { .. }
        | Op::Bmsk { .. }
        | Op::Szext { .. }
        | Op::Dot { .. }
        | Op::Lop3 { .. }
        | Op::Lop3Bool { .. }
        | Op::Shf { .. }
        | Op::Video { .. }
        | Op::CvtPack { .. }
        | Op::Cvta { .. }
        | Op::Mapa { .. }
        | Op::Getctarank { .. }
        | Op::Match { .. } => Some((Decided::Integer, false)),
        Op::Vote { .. } | Op::Bar { .. } => Some((Decided::Integer, true)),
        Op::BrxIdx { .. } | Op::Call { callee: Callee::Indirect(..), .. } => {
            Some((Decided::Branch, false))
        }
        _ => None,
    }
}

/// Returns whether the guard of an instruction decides more than its results.
fn controls(op: &Op) -> bool {
    matches!(
        op,
        Op::Bra { .. }
            | Op::BrxIdx { .. }
            | Op::Call { .. }
            | Op::Ret { .. }
            | Op::Exit
            | Op::Trap
            | Op::Brkpt
            | Op::St { .. }
            | Op::Atom { .. }
            | Op::Bar { .. }
            | Op::BarWarp { .. }
            | Op::Fence { .. }
            | Op::ClusterBarrier { .. }
            | Op::Shfl { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::CpAsync { .. }
            | Op::MbarrierInit { .. }
            | Op::MbarrierInval { .. }
            | Op::MbarrierArrive { .. }
            | Op::MbarrierTx { .. }
            | Op::WmmaStore { .. }
            | Op::Stmatrix { .. }
    )
}

/// Returns the addresses of an instruction.
fn addresses(op: &Op) -> Vec<&Address> {
    match op {
        Op::Ld { addr, .. }
        | Op::St { addr, .. }
        | Op::Atom { addr, .. }
        | Op::CpAsyncArrive { addr, .. }
        | Op::MbarrierInit { addr, .. }
        | Op::MbarrierInval { addr, .. }
        | Op::MbarrierArrive { addr, .. }
        | Op::MbarrierWait { addr, .. }
        | Op::MbarrierTx { addr, .. }
        | Op::WmmaLoad { addr, .. }
        | Op::WmmaStore { addr, .. }
        | Op::Ldmatrix { addr, .. }
        | Op::Stmatrix { addr, .. } => vec![addr],
        Op::CpAsync { dst, src, .. } => vec![dst, src],
        _ => Vec::new(),
    }
}

impl Decoder<'_, '_> {
    /// Puts the rules of an instruction in front of it.
    pub(super) fn taint(&mut self, instr: &Instr) -> Result<(), Refusal> {
        let op = &instr.op;
        let mut rule = TaintRule {
            guard: instr.guard.is_some().then_some(self.guard),
            seeds: approximate(op).is_some(),
            collective: matches!(op, Op::Vote { .. } | Op::Match { .. } | Op::Bar { .. }),
            controls: controls(op),
            moved: moves(op) || loads_matrices(op),
            ..TaintRule::default()
        };
        if let Some((what, by_predicates)) = decides(op) {
            (rule.decides, rule.by_predicates) = (Some(what), by_predicates);
        }
        let bases: Vec<RegId> = addresses(op)
            .into_iter()
            .filter_map(|address| match address.base {
                Base::Reg(register) => Some(register),
                _ => None,
            })
            .collect();
        for &base in &bases {
            rule.addresses.extend(self.value(base));
        }
        let guard = instr.guard.map(|guard| guard.reg);
        let mut first = true;
        instr.for_each_register(|role, register| {
            // The guard is visited first.
            if std::mem::take(&mut first) && guard == Some(register) {
                return;
            }
            let predicate = self.pred_slot(register).ok();
            let value = self.value(register);
            if role == Role::Use && !bases.contains(&register) {
                rule.predicates.extend(predicate);
                rule.sources.extend(value);
            } else if role != Role::Use {
                rule.predicates_d.extend(predicate);
                rule.d.extend(value);
            }
        });
        let mut accesses = self.taint_accesses(op)?;
        // The first rule has all sources; further elements of an atomic only add theirs.
        let further = accesses.split_off(accesses.len().min(1));
        rule.access = accesses.pop();
        let (guard, addresses) = (rule.guard, rule.addresses.clone());
        // A rule that marks what another one moves comes after it.
        let after = rule.moved.then(|| std::mem::take(&mut rule));
        match after {
            None => self.emit_taint(rule),
            Some(rule) => {
                if moves(op) {
                    self.tangent(instr)?;
                }
                self.emit_taint(rule);
            }
        }
        for access in further {
            let (addresses, access) = (addresses.clone(), Some(access));
            self.emit_taint(TaintRule { guard, addresses, access, ..TaintRule::default() });
        }
        Ok(())
    }

    fn emit_taint(&mut self, rule: TaintRule) {
        self.code.taints.push(rule);
        let imm = self.code.taints.len() as u64 - 1;
        let inst = self.inst(self.pick::<Taint>());
        // The rule reads the guard itself.
        self.emit(Inst { guard: SLOT_TRUE, flip: 0, imm, ..inst });
    }

    /// Returns a register that is no predicate.
    fn value(&self, register: RegId) -> Option<Register> {
        let (slot, class) = self.reg(register).ok()?;
        (class != Class::Pred).then_some(Register { slot, class })
    }

    /// Returns the accesses of memory of an instruction.
    fn taint_accesses(&mut self, op: &Op) -> Result<Vec<Access>, Refusal> {
        let (access, ty, addr) = match op {
            Op::Ld { access, ty, addr, .. }
            | Op::St { access, ty, addr, .. }
            | Op::Atom { access, ty, addr, .. } => (access, *ty, addr),
            _ => return Ok(Vec::new()),
        };
        let bytes = ty.bytes();
        let place = self.place_of(addr, access.space)?;
        let (load, store): (Vec<_>, Vec<_>) = match op {
            Op::Ld { d, .. } => (d.iter().map(|d| self.register(*d)).collect(), Vec::new()),
            Op::St { a, .. } => (Vec::new(), a.iter().map(|a| self.source(a)).collect()),
            Op::Atom { d, a, c, .. } => {
                let new = c.as_ref().map_or(a.first(), Some);
                let mut all = vec![Access {
                    place,
                    bytes,
                    load: d.iter().map(|d| self.register(*d)).collect(),
                    store: match c {
                        None => a.iter().map(|a| self.source(a)).collect(),
                        Some(_) => new.into_iter().map(|a| self.source(a)).collect(),
                    },
                    atomic: true,
                }];
                if let (Some(_), Some(compared)) = (c, a.first()) {
                    // What a `cas` stores depends on what it compares with.
                    let store = vec![self.source(compared)];
                    all.push(Access { place, bytes, load: Vec::new(), store, atomic: true });
                }
                return Ok(all);
            }
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Access { place, bytes, load, store, atomic: false }])
    }
}
