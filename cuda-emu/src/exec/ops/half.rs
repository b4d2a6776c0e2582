//! Packed 16-bit floats, and the `.relu` forms.

use ptx::ir::{BinaryOp, Mode, Type, UnaryOp};

use super::float::{HalfReg, nearest16};
use super::lane::ops;
use crate::arith::{Bf16, F16, RN, pair};
use crate::exec::inst::{Isa, Run};
use ptx::ir::Rounding;

ops! {
    AddX2[T: HalfReg; R: u8, FTZ: bool, SAT: bool] = |_, a: u32, b: u32| -> u32 { pair!(T::add::<R, FTZ, SAT>, a, b) }
    SubX2[T: HalfReg; R: u8, FTZ: bool, SAT: bool] = |_, a: u32, b: u32| -> u32 { pair!(T::sub::<R, FTZ, SAT>, a, b) }
    MulX2[T: HalfReg; R: u8, FTZ: bool, SAT: bool] = |_, a: u32, b: u32| -> u32 { pair!(T::mul::<R, FTZ, SAT>, a, b) }
    FmaX2[T: HalfReg; R: u8, FTZ: bool, SAT: bool] = |_, a: u32, b: u32, c: u32| -> u32 { pair!(T::fma::<R, FTZ, SAT>, a, b, c) }
    FmaRelu[T: HalfReg; R: u8, FTZ: bool, SAT: bool] = |_, a: u32, b: u32, c: u32| -> u32 {
        u32::from(T::relu(T::fma::<R, FTZ, SAT>(a as u16, b as u16, c as u16)))
    }
    FmaReluX2[T: HalfReg; R: u8, FTZ: bool, SAT: bool] = |_, a: u32, b: u32, c: u32| -> u32 {
        pair!(relu::<T, R, FTZ, SAT>, a, b, c)
    }
    MinX2[T: HalfReg; FTZ: bool, NAN: bool, XS: bool] = |_, a: u32, b: u32| -> u32 { pair!(T::min::<FTZ, NAN, XS>, a, b) }
    MaxX2[T: HalfReg; FTZ: bool, NAN: bool, XS: bool] = |_, a: u32, b: u32| -> u32 { pair!(T::max::<FTZ, NAN, XS>, a, b) }
    NegX2[T: HalfReg; FTZ: bool] = |_, a: u32| -> u32 { pair!(T::neg::<FTZ>, a) }
    AbsX2[T: HalfReg; FTZ: bool] = |_, a: u32| -> u32 { pair!(T::abs::<FTZ>, a) }
}

/// `fma.relu`
#[inline(always)]
fn relu<T: HalfReg, const R: u8, const FTZ: bool, const SAT: bool>(a: u16, b: u16, c: u16) -> u16 {
    T::relu(T::fma::<R, FTZ, SAT>(a, b, c))
}

macro_rules! packed {
    ($isa:expr, $op:ident, $ty:expr, $mode:expr) => {
        match $ty {
            Type::F16x2 | Type::F16 => nearest16!($isa, $op, F16, $mode),
            Type::Bf16x2 | Type::Bf16 => nearest16!($isa, $op, Bf16, $mode),
            _ => return None,
        }
    };
}

macro_rules! extremum {
    ($isa:expr, $op:ident, $ty:expr, $mode:expr) => {{
        macro_rules! flags {
            ($t:ty) => {
                match ($mode.ftz, $mode.nan, $mode.xorsign_abs) {
                    (false, false, false) => $isa.once::<$op<$t, false, false, false>>(),
                    (true, false, false) => $isa.once::<$op<$t, true, false, false>>(),
                    (false, true, false) => $isa.once::<$op<$t, false, true, false>>(),
                    (true, true, false) => $isa.once::<$op<$t, true, true, false>>(),
                    (false, false, true) => $isa.once::<$op<$t, false, false, true>>(),
                    (true, false, true) => $isa.once::<$op<$t, true, false, true>>(),
                    (false, true, true) => $isa.once::<$op<$t, false, true, true>>(),
                    (true, true, true) => $isa.once::<$op<$t, true, true, true>>(),
                }
            };
        }
        match $ty {
            Type::F16x2 => flags!(F16),
            Type::Bf16x2 => flags!(Bf16),
            _ => return None,
        }
    }};
}

pub(crate) fn binary(isa: Isa, op: BinaryOp, ty: Type, mode: &Mode) -> Option<Run> {
    if mode.relu || mode.oob {
        return None;
    }
    Some(match op {
        BinaryOp::Add => packed!(isa, AddX2, ty, mode),
        BinaryOp::Sub => packed!(isa, SubX2, ty, mode),
        BinaryOp::Min => extremum!(isa, MinX2, ty, mode),
        BinaryOp::Max => extremum!(isa, MaxX2, ty, mode),
        _ => return None,
    })
}

pub(crate) fn mul(isa: Isa, ty: Type, mode: &Mode) -> Option<Run> {
    Some(packed!(isa, MulX2, ty, mode))
}

/// `fma` of packed types, and of single ones with `.relu`.
pub(crate) fn fma(isa: Isa, ty: Type, mode: &Mode) -> Option<Run> {
    if mode.oob {
        return None;
    }
    Some(match (ty, mode.relu) {
        (Type::F16x2 | Type::Bf16x2, false) => packed!(isa, FmaX2, ty, mode),
        (Type::F16x2 | Type::Bf16x2, true) => packed!(isa, FmaReluX2, ty, mode),
        (Type::F16 | Type::Bf16, true) => packed!(isa, FmaRelu, ty, mode),
        _ => return None,
    })
}

pub(crate) fn unary(isa: Isa, op: UnaryOp, ty: Type, mode: &Mode) -> Option<Run> {
    Some(match (op, ty, mode.ftz) {
        (UnaryOp::Neg, Type::F16x2, false) => isa.once::<NegX2<F16, false>>(),
        (UnaryOp::Neg, Type::F16x2, true) => isa.once::<NegX2<F16, true>>(),
        (UnaryOp::Neg, Type::Bf16x2, _) => isa.once::<NegX2<Bf16, false>>(),
        (UnaryOp::Abs, Type::F16x2, false) => isa.once::<AbsX2<F16, false>>(),
        (UnaryOp::Abs, Type::F16x2, true) => isa.once::<AbsX2<F16, true>>(),
        (UnaryOp::Abs, Type::Bf16x2, _) => isa.once::<AbsX2<Bf16, false>>(),
        _ => return None,
    })
}
