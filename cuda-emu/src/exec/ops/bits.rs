//! Instructions on bits: `lop3`, `shf`, `prmt`, `dp4a`…

use ptx::ir::{Clamp, DotOp, PrmtMode, Type};

use super::lane::ops;
use crate::arith::bits;
use crate::exec::inst::{Flow, Inst, Isa, Lanes, Run};
use crate::exec::machine::Machine;

ops! {
    Lop3[;] = |lut, a: u32, b: u32, c: u32| -> u32 { bits::lop3(a, b, c, lut as u8) }
    ShfL[; CLAMP: bool] = |_, a: u32, b: u32, c: u32| -> u32 { bits::shf_l::<CLAMP>(a, b, c) }
    ShfR[; CLAMP: bool] = |_, a: u32, b: u32, c: u32| -> u32 { bits::shf_r::<CLAMP>(a, b, c) }
    Prmt[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt(a, b, c) }
    PrmtF4e[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt_f4e(a, b, c) }
    PrmtB4e[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt_b4e(a, b, c) }
    PrmtRc8[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt_rc8(a, b, c) }
    PrmtEcl[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt_ecl(a, b, c) }
    PrmtEcr[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt_ecr(a, b, c) }
    PrmtRc16[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::prmt_rc16(a, b, c) }
    Bmsk[; CLAMP: bool] = |_, a: u32, b: u32| -> u32 { bits::bmsk::<CLAMP>(a, b) }
    Szext[; S: bool, CLAMP: bool] = |_, a: u32, b: u32| -> u32 { bits::szext::<S, CLAMP>(a, b) }
    Fns[;] = |_, a: u32, b: u32, c: u32| -> u32 { bits::fns(a, b, c) }
    Dp4a[; A: bool, B: bool] = |_, a: u32, b: u32, c: u32| -> u32 { bits::dp4a::<A, B>(a, b, c) }
    Dp2a[; A: bool, B: bool, H: bool] = |_, a: u32, b: u32, c: u32| -> u32 { bits::dp2a::<A, B, H>(a, b, c) }
}

/// `lop3.{and,or}`: d, and `p = (d != 0) op q`. imm: the table in bits 0 to 7, bit 8 says "or",
/// bit 9 negates q; p is slot e, q slot f.
pub(crate) struct Lop3Bool;
impl Lanes for Lop3Bool {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: a, b, c and d are 32-bit registers, e and f predicates.
        unsafe {
            let (a, b, c) = (m.lanes::<u32>(i.a), m.lanes::<u32>(i.b), m.lanes::<u32>(i.c));
            let mut out = [0; crate::exec::inst::LANES];
            let mut set = 0;
            for lane in 0..out.len() {
                out[lane] = bits::lop3(a[lane], b[lane], c[lane], i.imm as u8);
                set |= u32::from(out[lane] != 0) << lane;
            }
            let q = m.pred(i.f) ^ if i.imm & 512 != 0 { u32::MAX } else { 0 };
            let p = if i.imm & 256 != 0 { set | q } else { set & q };
            super::lane::Store::put(m, i.d, &out, mask);
            m.put_pred(i.e, p, mask);
        }
        Flow::Next
    }
}

pub(crate) fn shf(isa: Isa, right: bool, mode: Clamp) -> Option<Run> {
    Some(match (right, mode) {
        (false, Clamp::Clamp) => isa.pick::<ShfL<true>>(),
        (false, Clamp::Wrap) => isa.pick::<ShfL<false>>(),
        (true, Clamp::Clamp) => isa.pick::<ShfR<true>>(),
        (true, Clamp::Wrap) => isa.pick::<ShfR<false>>(),
        _ => return None,
    })
}

pub(crate) fn prmt(isa: Isa, mode: Option<PrmtMode>) -> Option<Run> {
    Some(match mode {
        None => isa.pick::<Prmt>(),
        Some(PrmtMode::F4e) => isa.once::<PrmtF4e>(),
        Some(PrmtMode::B4e) => isa.once::<PrmtB4e>(),
        Some(PrmtMode::Rc8) => isa.once::<PrmtRc8>(),
        Some(PrmtMode::Ecl) => isa.once::<PrmtEcl>(),
        Some(PrmtMode::Ecr) => isa.once::<PrmtEcr>(),
        Some(PrmtMode::Rc16) => isa.once::<PrmtRc16>(),
        _ => return None,
    })
}

pub(crate) fn bmsk(isa: Isa, mode: Clamp) -> Option<Run> {
    Some(if mode == Clamp::Clamp { isa.once::<Bmsk<true>>() } else { isa.once::<Bmsk<false>>() })
}

pub(crate) fn szext(isa: Isa, ty: Type, mode: Clamp) -> Option<Run> {
    Some(match (ty, mode == Clamp::Clamp) {
        (Type::S32, true) => isa.once::<Szext<true, true>>(),
        (Type::S32, false) => isa.once::<Szext<true, false>>(),
        (Type::U32, true) => isa.once::<Szext<false, true>>(),
        (Type::U32, false) => isa.once::<Szext<false, false>>(),
        _ => return None,
    })
}

pub(crate) fn dot(isa: Isa, op: DotOp, a: Type, b: Type) -> Option<Run> {
    macro_rules! signs {
        ($op:ident $(, $more:literal)?) => {
            match (a.is_signed(), b.is_signed()) {
                (false, false) => isa.once::<$op<false, false $(, $more)?>>(),
                (false, true) => isa.once::<$op<false, true $(, $more)?>>(),
                (true, false) => isa.once::<$op<true, false $(, $more)?>>(),
                (true, true) => isa.once::<$op<true, true $(, $more)?>>(),
            }
        };
    }
    Some(match op {
        DotOp::Dp4a => signs!(Dp4a),
        DotOp::Dp2aLo => signs!(Dp2a, false),
        DotOp::Dp2aHi => signs!(Dp2a, true),
    })
}
