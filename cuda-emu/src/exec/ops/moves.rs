//! Moves, selections, packing.

use super::lane::{Store, ops};
use crate::arith::compare;
use crate::exec::inst::{Flow, Inst, LANES, Lanes};
use crate::exec::machine::Machine;

ops! {
    Move32[;] = |_, a: u32| -> u32 { a }
    Move64[;] = |_, a: u64| -> u64 { a }
    Widen[;] = |_, a: u32| -> u64 { u64::from(a) }
    WidenSigned[;] = |_, a: u32| -> u64 { a as i32 as u64 }
    // The mode is the mask of the low bits.
    Narrow[;] = |mask, a: u64| -> u32 { (a & mask) as u32 }
    Slct32[; FLOAT: bool, FTZ: bool] = |_, a: u32, b: u32, c: u32| -> u32 {
        let first = if FLOAT { compare::slct_f32::<FTZ>(c) } else { compare::slct_s32(c) };
        if first { a } else { b }
    }
    Slct64[; FLOAT: bool, FTZ: bool] = |_, a: u64, b: u64, c: u32| -> u64 {
        let first = if FLOAT { compare::slct_f32::<FTZ>(c) } else { compare::slct_s32(c) };
        if first { a } else { b }
    }
    // Joins halves to one register and splits it; the mode is the width of a part in bits.
    Join2[;] = |bits, a: u32, b: u32| -> u32 { a & ((1 << (bits & 31)) - 1) | b << (bits & 31) }
    Join2Wide[;] = |_, a: u32, b: u32| -> u64 { u64::from(a) | u64::from(b) << 32 }
    Join4Wide[;] = |_, a: u32, b: u32, c: u32, e: u32| -> u64 {
        u64::from(a & 0xffff) | u64::from(b & 0xffff) << 16 | u64::from(c & 0xffff) << 32 | u64::from(e) << 48
    }
    Join4[;] = |_, a: u32, b: u32, c: u32, e: u32| -> u32 {
        a & 0xff | (b & 0xff) << 8 | (c & 0xff) << 16 | e << 24
    }
    // Extracts a part: the mode's lower byte is the shift, the bits above the width.
    Part32[;] = |mode, a: u32| -> u32 {
        let kept = if mode >> 8 >= 32 { u32::MAX } else { (1 << (mode >> 8)) - 1 };
        (a >> (mode & 31)) & kept
    }
    Part64[;] = |mode, a: u64| -> u32 {
        let kept = if mode >> 8 >= 32 { u32::MAX } else { (1u32 << (mode >> 8)) - 1 };
        (a >> (mode & 63)) as u32 & kept
    }
}

/// Moves a predicate; imm says whether it is negated.
pub(crate) struct MovePred;
impl Lanes for MovePred {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: a and d are predicates.
        unsafe {
            let bits = m.pred(i.a) ^ (i.imm as u32);
            m.put_pred(i.d, bits, mask);
        }
        Flow::Next
    }
}

/// `and`, `or`, `xor` of predicates, by imm.
pub(crate) struct PredOp<const OP: u8>;
impl<const OP: u8> Lanes for PredOp<OP> {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: a, b and d are predicates.
        unsafe {
            let (a, b) = (m.pred(i.a), m.pred(i.b));
            let bits = match OP {
                0 => a & b,
                1 => a | b,
                2 => a ^ b,
                _ => !a,
            };
            m.put_pred(i.d, bits, mask);
        }
        Flow::Next
    }
}

/// `selp`: the predicate is in slot c, imm negates it.
pub(crate) struct Selp<T>(std::marker::PhantomData<T>);
impl<T: Store> Lanes for Selp<T> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: a, b and d are registers of this width, c is a predicate.
        unsafe {
            let bits = m.pred(i.c) ^ (i.imm as u32);
            let (a, b) = (m.lanes::<T>(i.a), m.lanes::<T>(i.b));
            let mut out = [T::ZERO; LANES];
            for lane in 0..LANES {
                out[lane] = if bits & (1 << lane) != 0 { a[lane] } else { b[lane] };
            }
            T::put(m, i.d, &out, mask);
        }
        Flow::Next
    }
}
