//! The results of `atom`, `red` and `redux` ("Parallel Synchronization and Communication Instructions"): the new value
//! from the old one and the operands.

use ptx::ir::{AtomOp, ReduxOp, Type};

use super::{Bf16, Bits, F16, F32, F64, Float, Int, RN, S32, S64, U32, U64, x2_2};

/// An atomic's function: the old value in memory, the operand, and for `cas` the new value (the
/// operand is what is compared). Bits are zero-extended.
pub(crate) type Rmw = fn(old: u64, a: u64, c: u64) -> u64;

/// A function of two values of a reduction.
pub(crate) type Combine = fn(a: u64, b: u64) -> u64;

/// Makes a function of `u64` of one of two operands of a type.
macro_rules! wide {
    ($ty:ty, $f:expr) => {
        |a, b, _| $f(<$ty>::narrow(a), <$ty>::narrow(b)).widen()
    };
}

/// `inc`: up to the bound `a`, then 0.
fn inc(old: u64, a: u64, _: u64) -> u64 {
    if old >= a { 0 } else { old + 1 }
}

/// `dec`: down to 0, then the bound `a`.
fn dec(old: u64, a: u64, _: u64) -> u64 {
    if old == 0 || old > a { a } else { old - 1 }
}

/// `add.f64` in global memory: a NaN stays as it is, signalling or not.
fn add_f64(old: u64, a: u64, _: u64) -> u64 {
    if F64::is_nan(a) {
        a
    } else if F64::is_nan(old) {
        old
    } else {
        F64::add::<RN, false, false>(old, a)
    }
}

/// `cas`
fn cas(old: u64, a: u64, c: u64) -> u64 {
    if old == a { c } else { old }
}

/// Returns the function of an operation on a type; `None` where PTX has none. In global memory the f32 add
/// flushes subnormals, in shared memory (`shared`) it does not.
#[must_use]
pub(crate) fn rmw(op: AtomOp, ty: Type, shared: bool) -> Option<Rmw> {
    type H = F16;
    type B = Bf16;
    Some(match (op, ty) {
        (AtomOp::Exch, _) => |_, a, _| a,
        (AtomOp::Cas, _) => cas,
        (AtomOp::And, _) => |old, a, _| old & a,
        (AtomOp::Or, _) => |old, a, _| old | a,
        (AtomOp::Xor, _) => |old, a, _| old ^ a,
        (AtomOp::Inc, Type::U32) => inc,
        (AtomOp::Dec, Type::U32) => dec,
        (AtomOp::Add, Type::U32 | Type::S32) => wide!(u32, U32::add),
        (AtomOp::Add, Type::U64 | Type::S64) => wide!(u64, U64::add),
        (AtomOp::Add, Type::F32) if shared => wide!(u32, F32::add::<RN, false, false>),
        (AtomOp::Add, Type::F32) => wide!(u32, F32::add::<RN, true, false>),
        (AtomOp::Add, Type::F64) if shared => {
            wide!(u64, |old, a| F64::add::<RN, false, false>(a, old))
        }
        (AtomOp::Add, Type::F64) => add_f64,
        (AtomOp::Add, Type::F16) => wide!(u16, F16::add::<RN, false, false>),
        (AtomOp::Add, Type::Bf16) => wide!(u16, Bf16::add::<RN, false, false>),
        (AtomOp::Add, Type::F16x2) => wide!(u32, |a, b| x2_2(H::add::<RN, false, false>, a, b)),
        (AtomOp::Add, Type::Bf16x2) => wide!(u32, |a, b| x2_2(B::add::<RN, false, false>, a, b)),
        (AtomOp::Min, Type::U32) => wide!(u32, U32::min),
        (AtomOp::Min, Type::S32) => wide!(u32, S32::min),
        (AtomOp::Min, Type::U64) => wide!(u64, U64::min),
        (AtomOp::Min, Type::S64) => wide!(u64, S64::min),
        (AtomOp::Min, Type::F16) => wide!(u16, F16::min::<false, false, false>),
        (AtomOp::Min, Type::Bf16) => wide!(u16, Bf16::min::<false, false, false>),
        (AtomOp::Min, Type::F16x2) => wide!(u32, |a, b| x2_2(H::min::<false, false, false>, a, b)),
        (AtomOp::Min, Type::Bf16x2) => wide!(u32, |a, b| x2_2(B::min::<false, false, false>, a, b)),
        (AtomOp::Max, Type::U32) => wide!(u32, U32::max),
        (AtomOp::Max, Type::S32) => wide!(u32, S32::max),
        (AtomOp::Max, Type::U64) => wide!(u64, U64::max),
        (AtomOp::Max, Type::S64) => wide!(u64, S64::max),
        (AtomOp::Max, Type::F16) => wide!(u16, F16::max::<false, false, false>),
        (AtomOp::Max, Type::Bf16) => wide!(u16, Bf16::max::<false, false, false>),
        (AtomOp::Max, Type::F16x2) => wide!(u32, |a, b| x2_2(H::max::<false, false, false>, a, b)),
        (AtomOp::Max, Type::Bf16x2) => wide!(u32, |a, b| x2_2(B::max::<false, false, false>, a, b)),
        _ => return None,
    })
}

/// Makes a function of `u64` of one of two `u32`.
macro_rules! combine {
    ($f:expr) => {
        |a, b| $f(u32::narrow(a), u32::narrow(b)).widen()
    };
}

/// Returns the function that `redux.sync` folds its lanes with; `abs` and `nan` belong to f32.
#[must_use]
pub(crate) fn redux(op: ReduxOp, ty: Type, abs: bool, nan: bool) -> Option<Combine> {
    Some(match (op, ty) {
        (ReduxOp::And, Type::B32) => combine!(U32::and),
        (ReduxOp::Or, Type::B32) => combine!(U32::or),
        (ReduxOp::Xor, Type::B32) => combine!(U32::xor),
        (ReduxOp::Add, Type::U32 | Type::S32) => combine!(U32::add),
        (ReduxOp::Min, Type::U32) => combine!(U32::min),
        (ReduxOp::Min, Type::S32) => combine!(S32::min),
        (ReduxOp::Max, Type::U32) => combine!(U32::max),
        (ReduxOp::Max, Type::S32) => combine!(S32::max),
        (ReduxOp::Min, Type::F32) => match (abs, nan) {
            (false, false) => combine!(F32::min::<false, false, false>),
            (false, true) => combine!(F32::min::<false, true, false>),
            (true, false) => combine!(|a, b| absolute(F32::min::<false, false, false>, a, b)),
            (true, true) => combine!(|a, b| absolute(F32::min::<false, true, false>, a, b)),
        },
        (ReduxOp::Max, Type::F32) => match (abs, nan) {
            (false, false) => combine!(F32::max::<false, false, false>),
            (false, true) => combine!(F32::max::<false, true, false>),
            (true, false) => combine!(|a, b| absolute(F32::max::<false, false, false>, a, b)),
            (true, true) => combine!(|a, b| absolute(F32::max::<false, true, false>, a, b)),
        },
        _ => return None,
    })
}

/// `redux.abs`: of the magnitudes.
fn absolute(f: impl Fn(u32, u32) -> u32, a: u32, b: u32) -> u32 {
    f(a & !F32::SIGN, b & !F32::SIGN)
}
