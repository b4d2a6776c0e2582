//! `setp` and `set`.

use std::marker::PhantomData;

use ptx::ir::{BoolOp, Cmp, Type};

use super::float::{FE, FloatReg, HalfReg};
use super::lane::{IE, IntReg, Store, gather_bits, get};
use crate::arith::{Bf16, F16, F32, F64, Float, S16, S32, S64, U16, U32, U64, compare, high, low};
use crate::exec::inst::{Flow, Inst, Isa, LANES, Lanes, Run, lanes};
use crate::exec::machine::Machine;

/// A comparison of 32 lanes.
pub(crate) trait Compare {
    /// # Safety
    /// Slots a and b have the operands' width.
    unsafe fn bits(m: &Machine<'_>, i: &Inst) -> u32;
}

/// Relations that are compiled; the others are these with operands exchanged or the result negated.
const REL_EQ: u8 = 0;
const REL_LT: u8 = 1;
const REL_LE: u8 = 2;
/// Ordered and different.
const REL_NE: u8 = 3;
/// No operand is NaN.
const REL_NUM: u8 = 4;

/// A comparison of integers.
pub(crate) struct OfInt<T, const REL: u8>(PhantomData<T>);
impl<T: IntReg, const REL: u8> Compare for OfInt<T, REL> {
    #[inline(always)]
    unsafe fn bits(m: &Machine<'_>, i: &Inst) -> u32 {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (m.lanes::<IE<T>>(i.a), m.lanes::<IE<T>>(i.b)) };
        let mut out = [false; LANES];
        for lane in 0..LANES {
            let (a, b) = (get(a[lane]), get(b[lane]));
            out[lane] = if REL == REL_EQ { T::eq(a, b) } else { T::lt(a, b) };
        }
        gather_bits(&out)
    }
}

/// A comparison of floats.
pub(crate) struct OfFloat<T, const REL: u8, const FTZ: bool>(PhantomData<T>);
impl<T: FloatReg, const REL: u8, const FTZ: bool> Compare for OfFloat<T, REL, FTZ> {
    #[inline(always)]
    unsafe fn bits(m: &Machine<'_>, i: &Inst) -> u32 {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (m.lanes::<FE<T>>(i.a), m.lanes::<FE<T>>(i.b)) };
        let mut out = [false; LANES];
        for lane in 0..LANES {
            out[lane] = related::<T, REL, FTZ>(get(a[lane]), get(b[lane]));
        }
        gather_bits(&out)
    }
}

#[inline(always)]
fn related<T: Float, const REL: u8, const FTZ: bool>(a: T::Bits, b: T::Bits) -> bool {
    match REL {
        REL_EQ => T::eq::<FTZ>(a, b),
        REL_LT => T::lt::<FTZ>(a, b),
        REL_LE => T::le::<FTZ>(a, b),
        REL_NE => compare::float::<T, { compare::NE }, FTZ>(a, b),
        _ => compare::float::<T, { compare::NUM }, FTZ>(a, b),
    }
}

/// Returns how a predicate is combined with the result: bits 0 and 1 of imm, bit 2 negates it.
pub(crate) fn combine_code(op: BoolOp, negated: bool) -> Option<u64> {
    let code = match op {
        BoolOp::And => 0,
        BoolOp::Or => 1,
        BoolOp::Xor => 2,
        _ => return None,
    };
    Some(code | u64::from(negated) << 2)
}

#[inline(always)]
fn combine(imm: u64, bits: u32, with: u32) -> u32 {
    let with = if imm & 4 != 0 { !with } else { with };
    match imm & 3 {
        0 => bits & with,
        1 => bits | with,
        _ => bits ^ with,
    }
}

/// `setp`: p in slot d, q in slot e, combined with the predicate in slot c.
pub(crate) struct Setp<C>(PhantomData<C>);
impl<C: Compare> Lanes for Setp<C> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slots a and b have the comparison's width, c, d and e are predicates.
        unsafe {
            let bits = C::bits(m, i) ^ if i.imm & NEGATED != 0 { u32::MAX } else { 0 };
            let with = m.pred(i.c);
            m.put_pred(i.d, combine(i.imm, bits, with), mask);
            m.put_pred(i.e, combine(i.imm, !bits, with), mask);
        }
        Flow::Next
    }
}

/// A comparison of both halves, the upper ones separately.
pub(crate) struct SetpX2<T, const REL: u8>(PhantomData<T>);
impl<T: HalfReg, const REL: u8> Lanes for SetpX2<T, REL> {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slots a and b are 32-bit registers; c, d and e are predicates.
        unsafe {
            let (a, b) = (m.lanes::<u32>(i.a), m.lanes::<u32>(i.b));
            let (mut p, mut q) = (0, 0);
            for lane in lanes(mask) {
                let (a, b) = (a[lane], b[lane]);
                p |= u32::from(related::<T, REL, false>(low(a), low(b))) << lane;
                q |= u32::from(related::<T, REL, false>(high(a), high(b))) << lane;
            }
            if i.imm & NEGATED != 0 {
                (p, q) = (!p, !q);
            }
            let with = m.pred(i.c);
            m.put_pred(i.d, combine(i.imm, p, with), mask);
            m.put_pred(i.e, combine(i.imm, q, with), mask);
        }
        Flow::Next
    }
}

/// `set`: imm where the predicate in slot a is true, else 0; in the upper half of a packed result
/// that in slot b.
pub(crate) struct Spread;
impl Lanes for Spread {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: a and b are predicates, d is a 32-bit register.
        unsafe {
            let (p, q, yes) = (m.pred(i.a), m.pred(i.b), i.imm as u32);
            let (below, above) = if i.e != 0 { (0xffff, 0xffff_0000) } else { (u32::MAX, 0) };
            let mut out = [0u32; LANES];
            for (lane, value) in out.iter_mut().enumerate() {
                let low = if p & (1 << lane) != 0 { yes & below } else { 0 };
                let high = if q & (1 << lane) != 0 { yes & above } else { 0 };
                *value = low | high;
            }
            Store::put(m, i.d, &out, mask);
        }
        Flow::Next
    }
}

/// A bit of imm: the result of the comparison is negated.
pub(crate) const NEGATED: u64 = 8;

/// How a comparison is done.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) run: Run,
    /// The operands are exchanged.
    pub(crate) swap: bool,
    /// The bits of imm besides the combination.
    pub(crate) imm: u64,
}

/// Returns the relation of a comparison, whether operands are exchanged and the result is negated.
fn relation(cmp: Cmp, float: bool) -> Option<(u8, bool, bool)> {
    Some(match cmp {
        Cmp::Eq => (REL_EQ, false, false),
        Cmp::Ne if float => (REL_NE, false, false),
        Cmp::Ne | Cmp::Neu => (REL_EQ, false, true),
        Cmp::Lt | Cmp::Lo => (REL_LT, false, false),
        Cmp::Gt | Cmp::Hi => (REL_LT, true, false),
        Cmp::Le | Cmp::Ls if float => (REL_LE, false, false),
        Cmp::Ge | Cmp::Hs if float => (REL_LE, true, false),
        Cmp::Le | Cmp::Ls => (REL_LT, true, true),
        Cmp::Ge | Cmp::Hs => (REL_LT, false, true),
        // `equ` is the negation of `ne`, which is false for NaN.
        Cmp::Equ => (REL_NE, false, true),
        Cmp::Ltu => (REL_LE, true, true),
        Cmp::Leu => (REL_LT, true, true),
        Cmp::Gtu => (REL_LE, false, true),
        Cmp::Geu => (REL_LT, false, true),
        Cmp::Num => (REL_NUM, false, false),
        Cmp::Nan => (REL_NUM, false, true),
        _ => return None,
    })
}

/// Chooses a comparison.
pub(crate) fn setp(isa: Isa, cmp: Cmp, ty: Type, ftz: bool) -> Option<How> {
    let unsigned = matches!(cmp, Cmp::Lo | Cmp::Ls | Cmp::Hi | Cmp::Hs);
    let (rel, swap, negated) = relation(cmp, ty.is_float())?;
    macro_rules! float {
        ($how:ident, $t:ty, $ftz:literal) => {
            match rel {
                REL_EQ => isa.$how::<Setp<OfFloat<$t, REL_EQ, $ftz>>>(),
                REL_LT => isa.$how::<Setp<OfFloat<$t, REL_LT, $ftz>>>(),
                REL_LE => isa.$how::<Setp<OfFloat<$t, REL_LE, $ftz>>>(),
                REL_NE => isa.once::<Setp<OfFloat<$t, REL_NE, $ftz>>>(),
                _ => isa.once::<Setp<OfFloat<$t, REL_NUM, $ftz>>>(),
            }
        };
    }
    macro_rules! packed {
        ($t:ty) => {
            match rel {
                REL_EQ => isa.once::<SetpX2<$t, REL_EQ>>(),
                REL_LT => isa.once::<SetpX2<$t, REL_LT>>(),
                REL_LE => isa.once::<SetpX2<$t, REL_LE>>(),
                REL_NE => isa.once::<SetpX2<$t, REL_NE>>(),
                _ => isa.once::<SetpX2<$t, REL_NUM>>(),
            }
        };
    }
    let run = match (ty, rel) {
        (Type::F32, _) if ftz => float!(pick, F32, true),
        (Type::F32, _) => float!(pick, F32, false),
        (Type::F64, _) => float!(pick, F64, false),
        (Type::F16, _) if ftz => float!(once, F16, true),
        (Type::F16, _) => float!(once, F16, false),
        (Type::Bf16, _) => float!(once, Bf16, false),
        (Type::F16x2, _) if !ftz => packed!(F16),
        (Type::Bf16x2, _) if !ftz => packed!(Bf16),
        (Type::U16 | Type::B16 | Type::S16, REL_EQ) => isa.once::<Setp<OfInt<U16, REL_EQ>>>(),
        (Type::U32 | Type::B32 | Type::S32, REL_EQ) => isa.pick::<Setp<OfInt<U32, REL_EQ>>>(),
        (Type::U64 | Type::B64 | Type::S64, REL_EQ) => isa.pick::<Setp<OfInt<U64, REL_EQ>>>(),
        (Type::S16, _) if !unsigned => isa.once::<Setp<OfInt<S16, REL_LT>>>(),
        (Type::S32, _) if !unsigned => isa.pick::<Setp<OfInt<S32, REL_LT>>>(),
        (Type::S64, _) if !unsigned => isa.pick::<Setp<OfInt<S64, REL_LT>>>(),
        (Type::U16 | Type::B16 | Type::S16, _) => isa.once::<Setp<OfInt<U16, REL_LT>>>(),
        (Type::U32 | Type::B32 | Type::S32, _) => isa.pick::<Setp<OfInt<U32, REL_LT>>>(),
        (Type::U64 | Type::B64 | Type::S64, _) => isa.pick::<Setp<OfInt<U64, REL_LT>>>(),
        _ => return None,
    };
    Some(How { run, swap, imm: if negated { NEGATED } else { 0 } })
}
