//! Copies of structures of doubles: compilers move them as vectors of 32-bit integers.

use ptx::ir::{Dst, Instr, LdKind, Op, Operand, Order, RegId, Type};

use crate::analysis::{Access, Kind, Kinds, Slot};
use crate::body::Body;

/// Makes vectors of 32 bits that hold doubles vectors of 64 bits. Returns whether it has changed any.
///
/// The halves of a double that are moved separately might belong to two numbers. One register of 64 bits shows that
/// they don't.
pub(crate) fn widen(body: &mut Body, kinds: &Kinds) -> bool {
    let mut any = false;
    for at in 0..body.blocks.len() {
        let code = body.blocks.get_mut(at).map(|block| std::mem::take(&mut block.code));
        let mut wider = Vec::new();
        for instr in code.unwrap_or_default() {
            if !has_doubles(&instr, kinds) {
                wider.push(instr);
                continue;
            }
            any = true;
            widen_one(body, instr, &mut wider);
        }
        if let Some(block) = body.blocks.get_mut(at) {
            block.code = wider;
        }
    }
    if any {
        body.index();
    }
    any
}

/// Returns whether an instruction loads or stores both halves of a double as 32 bits each, side by side.
fn has_doubles(instr: &Instr, kinds: &Kinds) -> bool {
    let plain = match &instr.op {
        Op::Ld { kind, .. } => matches!(kind, LdKind::Plain | LdKind::NonCoherent),
        Op::St { a, .. } => a.iter().all(|a| matches!(a, Operand::Reg(_))),
        _ => false,
    };
    let Some(access) = Access::of(instr).filter(|_| plain && instr.guard.is_none()) else {
        return false;
    };
    let halves = |pair: &[Option<RegId>]| match pair {
        [Some(low), Some(high)] => {
            kinds.get(Slot::low(*low)) == Some(Kind::F64)
                && kinds.get(Slot::low(*high)) == Some(Kind::F64High)
        }
        _ => false,
    };
    access.ty.bits() == 32
        && access.order == Order::Weak
        && access.values.len().is_multiple_of(2)
        && access.values.chunks(2).any(halves)
}

fn widen_one(body: &mut Body, instr: Instr, to: &mut Vec<Instr>) {
    let Instr { line, loc, .. } = instr;
    let like = |op: Op| Instr { guard: None, op, line, loc };
    let mut wide = |count: usize| -> Vec<RegId> {
        (0..count).map(|_| body.function.fresh_register(Type::B64)).collect()
    };
    match instr.op {
        Op::Ld { kind, access, d, addr, .. } => {
            let all = wide(d.len() / 2);
            let loaded: Box<[Dst]> = all.iter().copied().map(Some).collect();
            to.push(like(Op::Ld { kind, access, ty: Type::B64, d: loaded, addr }));
            for (pair, from) in d.chunks(2).zip(all) {
                let a = Operand::Reg(from);
                to.push(like(Op::Unpack { ty: Type::B64, d: pair.into(), a }));
            }
        }
        Op::St { access, addr, a, .. } => {
            let all = wide(a.len() / 2);
            for (pair, whole) in a.chunks(2).zip(&all) {
                to.push(like(Op::Pack { ty: Type::B64, d: Some(*whole), a: pair.into() }));
            }
            let a = all.into_iter().map(Operand::Reg).collect();
            to.push(like(Op::St { access, ty: Type::B64, addr, a }));
        }
        op => to.push(like(op)),
    }
}
