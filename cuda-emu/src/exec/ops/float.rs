//! Floating-point arithmetic of f32 and f64.

use ptx::ir::{BinaryOp, Mode, Precision, Rounding, TestP, Type, UnaryOp};

use super::lane::{Reg, get, ops};
use crate::arith::{Bf16, F16, F32, F64, Float, RM, RN, RP, RZ, approx};
use crate::exec::inst::{Isa, Run};

/// A float type whose values lie in registers.
pub(crate) trait FloatReg: Float<Bits: Reg> {}
impl<T: Float<Bits: Reg>> FloatReg for T {}
/// The contents of a slot of the float type.
pub(crate) type FE<T> = <<T as Float>::Bits as Reg>::E;

ops! {
    Add[T: FloatReg; R: u8, FTZ: bool, SAT: bool] = |_, a: FE<T>, b: FE<T>| -> FE<T> { T::add::<R, FTZ, SAT>(get(a), get(b)).set() }
    Sub[T: FloatReg; R: u8, FTZ: bool, SAT: bool] = |_, a: FE<T>, b: FE<T>| -> FE<T> { T::sub::<R, FTZ, SAT>(get(a), get(b)).set() }
    Mul[T: FloatReg; R: u8, FTZ: bool, SAT: bool] = |_, a: FE<T>, b: FE<T>| -> FE<T> { T::mul::<R, FTZ, SAT>(get(a), get(b)).set() }
    Fma[T: FloatReg; R: u8, FTZ: bool, SAT: bool] = |_, a: FE<T>, b: FE<T>, c: FE<T>| -> FE<T> { T::fma::<R, FTZ, SAT>(get(a), get(b), get(c)).set() }
    Div32[; R: u8, FTZ: bool] = |_, a: u32, b: u32| -> u32 { F32::div::<R, FTZ>(a, b) }
    Div64[; R: u8] = |_, a: u64, b: u64| -> u64 { F64::div::<R>(a, b) }
    Sqrt32[; R: u8, FTZ: bool] = |_, a: u32| -> u32 { F32::sqrt::<R, FTZ>(a) }
    Sqrt64[; R: u8] = |_, a: u64| -> u64 { F64::sqrt::<R>(a) }
    Rcp32[; R: u8, FTZ: bool] = |_, a: u32| -> u32 { F32::rcp::<R, FTZ>(a) }
    Rcp64[; R: u8] = |_, a: u64| -> u64 { F64::rcp::<R>(a) }
    Min[T: FloatReg; FTZ: bool, NAN: bool, XS: bool] = |_, a: FE<T>, b: FE<T>| -> FE<T> { T::min::<FTZ, NAN, XS>(get(a), get(b)).set() }
    Max[T: FloatReg; FTZ: bool, NAN: bool, XS: bool] = |_, a: FE<T>, b: FE<T>| -> FE<T> { T::max::<FTZ, NAN, XS>(get(a), get(b)).set() }
    Min3[T: FloatReg; FTZ: bool, NAN: bool, XS: bool] = |_, a: FE<T>, b: FE<T>, c: FE<T>| -> FE<T> { T::min3::<FTZ, NAN, XS>(get(a), get(b), get(c)).set() }
    Max3[T: FloatReg; FTZ: bool, NAN: bool, XS: bool] = |_, a: FE<T>, b: FE<T>, c: FE<T>| -> FE<T> { T::max3::<FTZ, NAN, XS>(get(a), get(b), get(c)).set() }
    Abs[T: FloatReg; FTZ: bool] = |_, a: FE<T>| -> FE<T> { T::abs::<FTZ>(get(a)).set() }
    Neg[T: FloatReg; FTZ: bool] = |_, a: FE<T>| -> FE<T> { T::neg::<FTZ>(get(a)).set() }
    Copysign[T: FloatReg;] = |_, a: FE<T>, b: FE<T>| -> FE<T> { T::copysign(get(a), get(b)).set() }
    Finite[T: FloatReg;] = |_, a: FE<T>| -> bool { T::is_finite(get(a)) }
    Infinite[T: FloatReg;] = |_, a: FE<T>| -> bool { T::is_infinite(get(a)) }
    Number[T: FloatReg;] = |_, a: FE<T>| -> bool { T::is_number(get(a)) }
    NotANumber[T: FloatReg;] = |_, a: FE<T>| -> bool { T::is_nan(get(a)) }
    Normal[T: FloatReg;] = |_, a: FE<T>| -> bool { T::is_normal(get(a)) }
    Subnormal[T: FloatReg;] = |_, a: FE<T>| -> bool { T::is_subnormal(get(a)) }
    Ex2[; FTZ: bool] = |_, a: u32| -> u32 { approx::ex2::<FTZ>(a) }
    Lg2[; FTZ: bool] = |_, a: u32| -> u32 { approx::lg2::<FTZ>(a) }
    Sin[; FTZ: bool] = |_, a: u32| -> u32 { approx::sin::<FTZ>(a) }
    Cos[; FTZ: bool] = |_, a: u32| -> u32 { approx::cos::<FTZ>(a) }
    RcpApprox[; FTZ: bool] = |_, a: u32| -> u32 { approx::rcp::<FTZ>(a) }
    Rsqrt[; FTZ: bool] = |_, a: u32| -> u32 { approx::rsqrt::<FTZ>(a) }
    SqrtApprox[; FTZ: bool] = |_, a: u32| -> u32 { approx::sqrt::<FTZ>(a) }
    Tanh[;] = |_, a: u32| -> u32 { approx::tanh(a) }
    DivApprox[; FTZ: bool] = |_, a: u32, b: u32| -> u32 { approx::div::<FTZ>(a, b) }
    DivFull[; FTZ: bool] = |_, a: u32, b: u32| -> u32 { approx::div_full::<FTZ>(a, b) }
    Rcp64Approx[;] = |_, a: u64| -> u64 { approx::rcp_f64(a) }
    Rsqrt64[; FTZ: bool] = |_, a: u64| -> u64 { approx::rsqrt_f64::<FTZ>(a) }
    Ex2Half[F: HalfReg; FTZ: bool] = |_, a: u32| -> u32 { u32::from(approx::ex2_half::<F, FTZ>(a as u16)) }
    TanhHalf[F: HalfReg;] = |_, a: u32| -> u32 { u32::from(approx::tanh_half::<F>(a as u16)) }
    Ex2HalfX2[F: HalfReg; FTZ: bool] = |_, a: u32| -> u32 { crate::arith::pair!(approx::ex2_half::<F, FTZ>, a) }
    TanhHalfX2[F: HalfReg;] = |_, a: u32| -> u32 { crate::arith::pair!(approx::tanh_half::<F>, a) }
}

/// A 16-bit float.
pub(crate) trait HalfReg: Float<Bits = u16> {}
impl<T: Float<Bits = u16>> HalfReg for T {}

/// Chooses `$op<$t, R, FTZ, SAT>` by the modifiers.
macro_rules! rounded {
    ($isa:expr, $op:ident, $t:ty, $mode:expr) => {{
        macro_rules! flags {
            ($how:ident, $r:expr) => {
                match ($mode.ftz, $mode.sat) {
                    (false, false) => $isa.$how::<$op<$t, { $r }, false, false>>(),
                    (true, false) => $isa.$how::<$op<$t, { $r }, true, false>>(),
                    (false, true) => $isa.once::<$op<$t, { $r }, false, true>>(),
                    (true, true) => $isa.once::<$op<$t, { $r }, true, true>>(),
                }
            };
        }
        match $mode.rounding {
            None | Some(Rounding::Rn) => flags!(pick, RN),
            Some(Rounding::Rz) => flags!(once, RZ),
            Some(Rounding::Rm) => flags!(once, RM),
            Some(Rounding::Rp) => flags!(once, RP),
            _ => return None,
        }
    }};
}

/// Instructions of f64, which has no `.ftz` and no `.sat`.
macro_rules! rounded64 {
    ($isa:expr, $op:ident, $mode:expr) => {
        match $mode.rounding {
            None | Some(Rounding::Rn) => $isa.pick::<$op<F64, RN, false, false>>(),
            Some(Rounding::Rz) => $isa.once::<$op<F64, RZ, false, false>>(),
            Some(Rounding::Rm) => $isa.once::<$op<F64, RM, false, false>>(),
            Some(Rounding::Rp) => $isa.once::<$op<F64, RP, false, false>>(),
            _ => return None,
        }
    };
}

/// 16-bit: to nearest only.
macro_rules! nearest16 {
    ($isa:expr, $op:ident, $t:ty, $mode:expr) => {
        match ($mode.rounding, $mode.ftz, $mode.sat) {
            (None | Some(Rounding::Rn), false, false) => $isa.pick::<$op<$t, RN, false, false>>(),
            (None | Some(Rounding::Rn), true, false) => $isa.once::<$op<$t, RN, true, false>>(),
            (None | Some(Rounding::Rn), false, true) => $isa.once::<$op<$t, RN, false, true>>(),
            (None | Some(Rounding::Rn), true, true) => $isa.once::<$op<$t, RN, true, true>>(),
            _ => return None,
        }
    };
}
pub(crate) use nearest16;

macro_rules! arithmetic {
    ($isa:expr, $op:ident, $ty:expr, $mode:expr) => {
        match $ty {
            Type::F32 => rounded!($isa, $op, F32, $mode),
            Type::F64 => rounded64!($isa, $op, $mode),
            Type::F16 => nearest16!($isa, $op, F16, $mode),
            Type::Bf16 => nearest16!($isa, $op, Bf16, $mode),
            _ => return None,
        }
    };
}

macro_rules! extremum {
    ($isa:expr, $how:ident, $op:ident, $ty:expr, $mode:expr) => {{
        macro_rules! flags {
            ($hot:ident, $t:ty) => {
                match ($mode.ftz, $mode.nan, $mode.xorsign_abs) {
                    (false, false, false) => $isa.$hot::<$op<$t, false, false, false>>(),
                    (true, false, false) => $isa.$hot::<$op<$t, true, false, false>>(),
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
            Type::F32 => flags!($how, F32),
            Type::F64 => $isa.$how::<$op<F64, false, false, false>>(),
            Type::F16 => flags!(once, F16),
            Type::Bf16 => flags!(once, Bf16),
            _ => return None,
        }
    }};
}

macro_rules! by_float {
    ($isa:expr, $op:ident, $ty:expr) => {
        match $ty {
            Type::F32 => $isa.once::<$op<F32>>(),
            Type::F64 => $isa.once::<$op<F64>>(),
            Type::F16 => $isa.once::<$op<F16>>(),
            Type::Bf16 => $isa.once::<$op<Bf16>>(),
            _ => return None,
        }
    };
}

macro_rules! by_ftz {
    ($isa:expr, $op:ident, $ftz:expr) => {
        if $ftz { $isa.pick::<$op<true>>() } else { $isa.pick::<$op<false>>() }
    };
}

macro_rules! exact {
    ($isa:expr, $narrow:ident, $wide:ident, $ty:expr, $mode:expr) => {
        match ($ty, $mode.rounding, $mode.ftz) {
            (Type::F32, None | Some(Rounding::Rn), false) => $isa.pick::<$narrow<RN, false>>(),
            (Type::F32, None | Some(Rounding::Rn), true) => $isa.pick::<$narrow<RN, true>>(),
            (Type::F32, Some(Rounding::Rz), false) => $isa.once::<$narrow<RZ, false>>(),
            (Type::F32, Some(Rounding::Rz), true) => $isa.once::<$narrow<RZ, true>>(),
            (Type::F32, Some(Rounding::Rm), false) => $isa.once::<$narrow<RM, false>>(),
            (Type::F32, Some(Rounding::Rm), true) => $isa.once::<$narrow<RM, true>>(),
            (Type::F32, Some(Rounding::Rp), false) => $isa.once::<$narrow<RP, false>>(),
            (Type::F32, Some(Rounding::Rp), true) => $isa.once::<$narrow<RP, true>>(),
            (Type::F64, None | Some(Rounding::Rn), _) => $isa.pick::<$wide<RN>>(),
            (Type::F64, Some(Rounding::Rz), _) => $isa.once::<$wide<RZ>>(),
            (Type::F64, Some(Rounding::Rm), _) => $isa.once::<$wide<RM>>(),
            (Type::F64, Some(Rounding::Rp), _) => $isa.once::<$wide<RP>>(),
            _ => return None,
        }
    };
}

/// Modifiers that no operation here knows: the instruction is refused.
fn plain(mode: &Mode) -> bool {
    !mode.relu && !mode.oob
}

pub(crate) fn binary(isa: Isa, op: BinaryOp, ty: Type, mode: &Mode) -> Option<Run> {
    if !plain(mode) {
        return None;
    }
    Some(match op {
        BinaryOp::Add => arithmetic!(isa, Add, ty, mode),
        BinaryOp::Sub => arithmetic!(isa, Sub, ty, mode),
        BinaryOp::Min => extremum!(isa, pick, Min, ty, mode),
        BinaryOp::Max => extremum!(isa, pick, Max, ty, mode),
        BinaryOp::Copysign => by_float!(isa, Copysign, ty),
        BinaryOp::Div => match (ty, mode.precision) {
            (Type::F32, Precision::Approx) => by_ftz!(isa, DivApprox, mode.ftz),
            (Type::F32, Precision::Full) => by_ftz!(isa, DivFull, mode.ftz),
            _ => exact!(isa, Div32, Div64, ty, mode),
        },
        _ => return None,
    })
}

pub(crate) fn min_max3(isa: Isa, max: bool, ty: Type, mode: &Mode) -> Option<Run> {
    if !plain(mode) {
        return None;
    }
    Some(if max {
        extremum!(isa, once, Max3, ty, mode)
    } else {
        extremum!(isa, once, Min3, ty, mode)
    })
}

pub(crate) fn mul(isa: Isa, ty: Type, mode: &Mode) -> Option<Run> {
    plain(mode).then_some(())?;
    Some(arithmetic!(isa, Mul, ty, mode))
}

pub(crate) fn fma(isa: Isa, ty: Type, mode: &Mode) -> Option<Run> {
    plain(mode).then_some(())?;
    Some(arithmetic!(isa, Fma, ty, mode))
}

pub(crate) fn unary(isa: Isa, op: UnaryOp, ty: Type, mode: &Mode) -> Option<Run> {
    let approx = mode.precision == Precision::Approx;
    Some(match (op, ty) {
        (UnaryOp::Abs, Type::F32) if mode.ftz => isa.pick::<Abs<F32, true>>(),
        (UnaryOp::Abs, Type::F32) => isa.pick::<Abs<F32, false>>(),
        (UnaryOp::Abs, Type::F64) => isa.once::<Abs<F64, false>>(),
        (UnaryOp::Abs, Type::F16) if mode.ftz => isa.once::<Abs<F16, true>>(),
        (UnaryOp::Abs, Type::F16) => isa.once::<Abs<F16, false>>(),
        (UnaryOp::Abs, Type::Bf16) => isa.once::<Abs<Bf16, false>>(),
        (UnaryOp::Neg, Type::F32) if mode.ftz => isa.pick::<Neg<F32, true>>(),
        (UnaryOp::Neg, Type::F32) => isa.pick::<Neg<F32, false>>(),
        (UnaryOp::Neg, Type::F64) => isa.once::<Neg<F64, false>>(),
        (UnaryOp::Neg, Type::F16) if mode.ftz => isa.once::<Neg<F16, true>>(),
        (UnaryOp::Neg, Type::F16) => isa.once::<Neg<F16, false>>(),
        (UnaryOp::Neg, Type::Bf16) => isa.once::<Neg<Bf16, false>>(),
        (UnaryOp::Rcp, Type::F32) if approx => by_ftz!(isa, RcpApprox, mode.ftz),
        (UnaryOp::Rcp, Type::F64) if approx => isa.once::<Rcp64Approx>(),
        (UnaryOp::Rcp, _) => exact!(isa, Rcp32, Rcp64, ty, mode),
        (UnaryOp::Sqrt, Type::F32) if approx => by_ftz!(isa, SqrtApprox, mode.ftz),
        (UnaryOp::Sqrt, _) => exact!(isa, Sqrt32, Sqrt64, ty, mode),
        (UnaryOp::Rsqrt, Type::F32) => by_ftz!(isa, Rsqrt, mode.ftz),
        (UnaryOp::Rsqrt, Type::F64) => by_ftz!(isa, Rsqrt64, mode.ftz),
        (UnaryOp::Sin, Type::F32) => by_ftz!(isa, Sin, mode.ftz),
        (UnaryOp::Cos, Type::F32) => by_ftz!(isa, Cos, mode.ftz),
        (UnaryOp::Lg2, Type::F32) => by_ftz!(isa, Lg2, mode.ftz),
        (UnaryOp::Ex2, Type::F32) => by_ftz!(isa, Ex2, mode.ftz),
        (UnaryOp::Tanh, Type::F32) => isa.once::<Tanh>(),
        (UnaryOp::Ex2, Type::F16) if mode.ftz => isa.once::<Ex2Half<F16, true>>(),
        (UnaryOp::Ex2, Type::F16) => isa.once::<Ex2Half<F16, false>>(),
        (UnaryOp::Ex2, Type::Bf16) if mode.ftz => isa.once::<Ex2Half<Bf16, true>>(),
        (UnaryOp::Ex2, Type::Bf16) => isa.once::<Ex2Half<Bf16, false>>(),
        (UnaryOp::Ex2, Type::F16x2) if mode.ftz => isa.once::<Ex2HalfX2<F16, true>>(),
        (UnaryOp::Ex2, Type::F16x2) => isa.once::<Ex2HalfX2<F16, false>>(),
        (UnaryOp::Ex2, Type::Bf16x2) if mode.ftz => isa.once::<Ex2HalfX2<Bf16, true>>(),
        (UnaryOp::Ex2, Type::Bf16x2) => isa.once::<Ex2HalfX2<Bf16, false>>(),
        (UnaryOp::Tanh, Type::F16) => isa.once::<TanhHalf<F16>>(),
        (UnaryOp::Tanh, Type::Bf16) => isa.once::<TanhHalf<Bf16>>(),
        (UnaryOp::Tanh, Type::F16x2) => isa.once::<TanhHalfX2<F16>>(),
        (UnaryOp::Tanh, Type::Bf16x2) => isa.once::<TanhHalfX2<Bf16>>(),
        _ => return None,
    })
}

pub(crate) fn testp(isa: Isa, test: TestP, ty: Type) -> Option<Run> {
    Some(match test {
        TestP::Finite => by_float!(isa, Finite, ty),
        TestP::Infinite => by_float!(isa, Infinite, ty),
        TestP::Number => by_float!(isa, Number, ty),
        TestP::NotANumber => by_float!(isa, NotANumber, ty),
        TestP::Normal => by_float!(isa, Normal, ty),
        TestP::Subnormal => by_float!(isa, Subnormal, ty),
        _ => return None,
    })
}
