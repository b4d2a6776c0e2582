//! Integer arithmetic.

use ptx::ir::{BinaryOp, CarryOp, Mode, MulPart, Type, UnaryOp};

use super::lane::{IE, IntReg, Reg, get, ops};
use crate::arith::int as scalar;
use crate::arith::{Int, S16, S32, S64, U16, U32, U64, Wide, pair};
use crate::exec::inst::{Flow, Inst, Isa, LANES, Lanes, Run, SLOT_CARRY};
use crate::exec::machine::Machine;

/// Integer types whose product has a type.
pub(crate) trait WideReg: Wide<Bits: Reg, Product: IntReg> {}
impl<T: Wide<Bits: Reg, Product: IntReg>> WideReg for T {}
type PE<T> = IE<<T as Wide>::Product>;

ops! {
    Add[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::add(get(a), get(b)).set() }
    AddSat[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::add_sat(get(a), get(b)).set() }
    Sub[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::sub(get(a), get(b)).set() }
    SubSat[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::sub_sat(get(a), get(b)).set() }
    Div[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::div(get(a), get(b)).set() }
    Rem[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::rem(get(a), get(b)).set() }
    Min[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::min(get(a), get(b)).set() }
    Max[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::max(get(a), get(b)).set() }
    MinRelu[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::min_relu(get(a), get(b)).set() }
    MaxRelu[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::max_relu(get(a), get(b)).set() }
    Min3[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: IE<T>| -> IE<T> { T::min(T::min(get(a), get(b)), get(c)).set() }
    Max3[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: IE<T>| -> IE<T> { T::max(T::max(get(a), get(b)), get(c)).set() }
    And[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::and(get(a), get(b)).set() }
    Or[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::or(get(a), get(b)).set() }
    Xor[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::xor(get(a), get(b)).set() }
    Shl[T: IntReg;] = |_, a: IE<T>, b: u32| -> IE<T> { T::shl(get(a), b).set() }
    Shr[T: IntReg;] = |_, a: IE<T>, b: u32| -> IE<T> { T::shr(get(a), b).set() }
    Abs[T: IntReg;] = |_, a: IE<T>| -> IE<T> { T::abs(get(a)).set() }
    Neg[T: IntReg;] = |_, a: IE<T>| -> IE<T> { T::neg(get(a)).set() }
    Not[T: IntReg;] = |_, a: IE<T>| -> IE<T> { T::not(get(a)).set() }
    Cnot[T: IntReg;] = |_, a: IE<T>| -> IE<T> { T::cnot(get(a)).set() }
    Popc[T: IntReg;] = |_, a: IE<T>| -> u32 { T::popc(get(a)) }
    Clz[T: IntReg;] = |_, a: IE<T>| -> u32 { T::clz(get(a)) }
    Brev[T: IntReg;] = |_, a: IE<T>| -> IE<T> { T::brev(get(a)).set() }
    Bfind[T: IntReg;] = |_, a: IE<T>| -> u32 { T::bfind(get(a)) }
    BfindShift[T: IntReg;] = |_, a: IE<T>| -> u32 { T::bfind_shift(get(a)) }
    MulLo[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::mul_lo(get(a), get(b)).set() }
    MulHi[T: IntReg;] = |_, a: IE<T>, b: IE<T>| -> IE<T> { T::mul_hi(get(a), get(b)).set() }
    MadLo[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: IE<T>| -> IE<T> { T::mad_lo(get(a), get(b), get(c)).set() }
    MadHi[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: IE<T>| -> IE<T> { T::mad_hi(get(a), get(b), get(c)).set() }
    MadHiSat[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: IE<T>| -> IE<T> { T::mad_hi_sat(get(a), get(b), get(c)).set() }
    MulWide[T: WideReg;] = |_, a: IE<T>, b: IE<T>| -> PE<T> { T::mul_wide(get(a), get(b)).set() }
    MadWide[T: WideReg;] = |_, a: IE<T>, b: IE<T>, c: PE<T>| -> PE<T> { T::mad_wide(get(a), get(b), get(c)).set() }
    Sad[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: IE<T>| -> IE<T> { T::sad(get(a), get(b), get(c)).set() }
    Bfe[T: IntReg;] = |_, a: IE<T>, b: u32, c: u32| -> IE<T> { T::bfe(get(a), b, c).set() }
    Bfi[T: IntReg;] = |_, a: IE<T>, b: IE<T>, c: u32, e: u32| -> IE<T> { T::bfi(get(a), get(b), c, e).set() }
    Mul24Lo[; S: bool] = |_, a: u32, b: u32| -> u32 { scalar::mul24_lo::<S>(a, b) }
    Mul24Hi[; S: bool] = |_, a: u32, b: u32| -> u32 { scalar::mul24_hi::<S>(a, b) }
    Mad24Lo[; S: bool] = |_, a: u32, b: u32, c: u32| -> u32 { scalar::mad24_lo::<S>(a, b, c) }
    Mad24Hi[; S: bool] = |_, a: u32, b: u32, c: u32| -> u32 { scalar::mad24_hi::<S>(a, b, c) }
    Mad24HiSat[;] = |_, a: u32, b: u32, c: u32| -> u32 { scalar::mad24_hi_sat(a, b, c) }
    AddX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::add, a, b) }
    AddSatX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::add_sat, a, b) }
    SubX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::sub, a, b) }
    SubSatX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::sub_sat, a, b) }
    MinX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::min, a, b) }
    MaxX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::max, a, b) }
    MinReluX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::min_relu, a, b) }
    MaxReluX2[T: Int16;] = |_, a: u32, b: u32| -> u32 { pair!(T::max_relu, a, b) }
    NegX2[T: Int16;] = |_, a: u32| -> u32 { pair!(T::neg, a) }
}

/// 16-bit integers, of which two lie in a register.
pub(crate) trait Int16: Int<Bits = u16> {}
impl<T: Int<Bits = u16>> Int16 for T {}

/// Chooses an operation whose bits don't depend on the sign.
macro_rules! by_width {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U16 | Type::S16 | Type::B16 => $isa.once::<$op<U16>>(),
            Type::U32 | Type::S32 | Type::B32 => $isa.pick::<$op<U32>>(),
            Type::U64 | Type::S64 | Type::B64 => $isa.pick::<$op<U64>>(),
            _ => return None,
        }
    };
}

/// Chooses an operation by an integer type.
macro_rules! by_int {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U16 | Type::B16 => $isa.once::<$op<U16>>(),
            Type::S16 => $isa.once::<$op<S16>>(),
            Type::U32 | Type::B32 => $isa.pick::<$op<U32>>(),
            Type::S32 => $isa.pick::<$op<S32>>(),
            Type::U64 | Type::B64 => $isa.pick::<$op<U64>>(),
            Type::S64 => $isa.pick::<$op<S64>>(),
            _ => return None,
        }
    };
}

/// The same of an operation that is not worth compiling twice.
macro_rules! by_int_once {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U16 | Type::B16 => $isa.once::<$op<U16>>(),
            Type::S16 => $isa.once::<$op<S16>>(),
            Type::U32 | Type::B32 => $isa.once::<$op<U32>>(),
            Type::S32 => $isa.once::<$op<S32>>(),
            Type::U64 | Type::B64 => $isa.once::<$op<U64>>(),
            Type::S64 => $isa.once::<$op<S64>>(),
            _ => return None,
        }
    };
}

/// The implementation for 32 and 64 bits.
macro_rules! bits {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U32 | Type::S32 | Type::B32 => $isa.once::<$op<U32>>(),
            Type::U64 | Type::S64 | Type::B64 => $isa.once::<$op<U64>>(),
            _ => return None,
        }
    };
}

/// 16 to 64 bits, once.
macro_rules! bits16 {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U16 | Type::S16 | Type::B16 => $isa.once::<$op<U16>>(),
            _ => bits!($isa, $ty, $op),
        }
    };
}

/// Operations that only s32 has.
macro_rules! signed32 {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::S32 => $isa.once::<$op<S32>>(),
            _ => return None,
        }
    };
}

/// Chooses a packed operation.
macro_rules! by_x2 {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U16x2 => $isa.once::<$op<U16>>(),
            Type::S16x2 => $isa.once::<$op<S16>>(),
            _ => return None,
        }
    };
}

/// `mul.wide` and the like: 16 and 32 bits.
macro_rules! by_wide {
    ($isa:expr, $ty:expr, $op:ident) => {
        match $ty {
            Type::U16 => $isa.once::<$op<U16>>(),
            Type::S16 => $isa.once::<$op<S16>>(),
            Type::U32 => $isa.pick::<$op<U32>>(),
            Type::S32 => $isa.pick::<$op<S32>>(),
            _ => return None,
        }
    };
}

pub(crate) fn binary(isa: Isa, op: BinaryOp, ty: Type, mode: &Mode) -> Option<Run> {
    if matches!(ty, Type::U16x2 | Type::S16x2) {
        return Some(match (op, mode.sat, mode.relu) {
            (BinaryOp::Add, false, _) => by_x2!(isa, ty, AddX2),
            (BinaryOp::Add, true, _) => by_x2!(isa, ty, AddSatX2),
            (BinaryOp::Sub, false, _) => by_x2!(isa, ty, SubX2),
            (BinaryOp::Sub, true, _) => by_x2!(isa, ty, SubSatX2),
            (BinaryOp::Min, _, false) => by_x2!(isa, ty, MinX2),
            (BinaryOp::Max, _, false) => by_x2!(isa, ty, MaxX2),
            (BinaryOp::Min, _, true) => by_x2!(isa, ty, MinReluX2),
            (BinaryOp::Max, _, true) => by_x2!(isa, ty, MaxReluX2),
            _ => return None,
        });
    }
    Some(match (op, mode.sat) {
        (BinaryOp::Add, false) => by_width!(isa, ty, Add),
        (BinaryOp::Add, true) => signed32!(isa, ty, AddSat),
        (BinaryOp::Sub, false) => by_width!(isa, ty, Sub),
        (BinaryOp::Sub, true) => signed32!(isa, ty, SubSat),
        (BinaryOp::Div, _) => by_int_once!(isa, ty, Div),
        (BinaryOp::Rem, _) => by_int_once!(isa, ty, Rem),
        (BinaryOp::Min, _) if mode.relu => signed32!(isa, ty, MinRelu),
        (BinaryOp::Max, _) if mode.relu => signed32!(isa, ty, MaxRelu),
        (BinaryOp::Min, _) => by_int!(isa, ty, Min),
        (BinaryOp::Max, _) => by_int!(isa, ty, Max),
        (BinaryOp::And, _) => by_width!(isa, ty, And),
        (BinaryOp::Or, _) => by_width!(isa, ty, Or),
        (BinaryOp::Xor, _) => by_width!(isa, ty, Xor),
        (BinaryOp::Shl, _) => by_width!(isa, ty, Shl),
        (BinaryOp::Shr, _) => by_int!(isa, ty, Shr),
        _ => return None,
    })
}

pub(crate) fn min_max3(isa: Isa, max: bool, ty: Type) -> Option<Run> {
    Some(if max { by_int_once!(isa, ty, Max3) } else { by_int_once!(isa, ty, Min3) })
}

pub(crate) fn unary(isa: Isa, op: UnaryOp, ty: Type) -> Option<Run> {
    Some(match op {
        UnaryOp::Not if ty == Type::Pred => isa.pick::<super::moves::PredOp<3>>(),
        UnaryOp::Neg if matches!(ty, Type::S16x2 | Type::U16x2) => by_x2!(isa, ty, NegX2),
        UnaryOp::Abs => by_int_once!(isa, ty, Abs),
        UnaryOp::Neg => by_width!(isa, ty, Neg),
        UnaryOp::Not => by_width!(isa, ty, Not),
        UnaryOp::Cnot => bits16!(isa, ty, Cnot),
        UnaryOp::Popc => bits!(isa, ty, Popc),
        UnaryOp::Clz => bits!(isa, ty, Clz),
        UnaryOp::Brev => bits!(isa, ty, Brev),
        _ => return None,
    })
}

pub(crate) fn bfind(isa: Isa, ty: Type, shiftamt: bool) -> Option<Run> {
    Some(if shiftamt { by_int_once!(isa, ty, BfindShift) } else { by_int_once!(isa, ty, Bfind) })
}

pub(crate) fn mul(isa: Isa, ty: Type, part: MulPart) -> Option<Run> {
    Some(match part {
        MulPart::Lo => by_width!(isa, ty, MulLo),
        MulPart::Hi if ty == Type::U32 => isa.pick::<MulHi<U32>>(),
        MulPart::Hi if ty == Type::S32 => isa.pick::<MulHi<S32>>(),
        MulPart::Hi => by_int_once!(isa, ty, MulHi),
        MulPart::Wide => by_wide!(isa, ty, MulWide),
        _ => return None,
    })
}

pub(crate) fn mad(isa: Isa, ty: Type, part: MulPart, sat: bool) -> Option<Run> {
    Some(match part {
        MulPart::Lo => by_width!(isa, ty, MadLo),
        MulPart::Hi if sat => signed32!(isa, ty, MadHiSat),
        MulPart::Hi => by_int_once!(isa, ty, MadHi),
        MulPart::Wide => by_wide!(isa, ty, MadWide),
        _ => return None,
    })
}

pub(crate) fn mul24(isa: Isa, ty: Type, part: MulPart) -> Option<Run> {
    Some(match (part, ty) {
        (MulPart::Lo, Type::S32) => isa.once::<Mul24Lo<true>>(),
        (MulPart::Lo, Type::U32) => isa.once::<Mul24Lo<false>>(),
        (MulPart::Hi, Type::S32) => isa.once::<Mul24Hi<true>>(),
        (MulPart::Hi, Type::U32) => isa.once::<Mul24Hi<false>>(),
        _ => return None,
    })
}

pub(crate) fn mad24(isa: Isa, ty: Type, part: MulPart, sat: bool) -> Option<Run> {
    Some(match (part, ty, sat) {
        (MulPart::Lo, Type::S32, false) => isa.once::<Mad24Lo<true>>(),
        (MulPart::Lo, Type::U32, false) => isa.once::<Mad24Lo<false>>(),
        (MulPart::Hi, Type::S32, false) => isa.once::<Mad24Hi<true>>(),
        (MulPart::Hi, Type::U32, false) => isa.once::<Mad24Hi<false>>(),
        (MulPart::Hi, Type::S32, true) => isa.once::<Mad24HiSat>(),
        _ => return None,
    })
}

pub(crate) fn sad(isa: Isa, ty: Type) -> Option<Run> {
    Some(by_int_once!(isa, ty, Sad))
}

pub(crate) fn bfe(isa: Isa, ty: Type) -> Option<Run> {
    Some(by_int_once!(isa, ty, Bfe))
}

pub(crate) fn bfi(isa: Isa, ty: Type) -> Option<Run> {
    Some(bits!(isa, ty, Bfi))
}

/// `add.cc` and the like: imm says whether the flag is read (1) and written (2).
pub(crate) struct Carry<T, const OP: u8>(std::marker::PhantomData<T>);

impl<T: IntReg, const OP: u8> Lanes for Carry<T, OP> {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let zero = <T::Bits as crate::arith::Bits>::narrow(0);
        let mut out = [zero.set(); LANES];
        // SAFETY: the frame's carry flags.
        let flags = unsafe { m.pred(SLOT_CARRY) };
        let mut carried = 0;
        // SAFETY: the slots hold values of the type; nothing is written while the references live.
        let (a, b, c) =
            unsafe { (m.lanes::<IE<T>>(i.a), m.lanes::<IE<T>>(i.b), m.lanes::<IE<T>>(i.c)) };
        for lane in 0..LANES {
            // A subtraction adds the complement and one. Its flag is that sum's carry: set if nothing is borrowed.
            let flag = if i.imm & 1 != 0 { flags & (1 << lane) != 0 } else { OP == 1 };
            let (a, b, c) = (get(a[lane]), get(b[lane]), get(c[lane]));
            let (value, carry) = match OP {
                0 => T::add_carry(a, b, flag),
                1 => T::add_carry(a, T::not(b), flag),
                2 => T::mad_lo_carry(a, b, c, flag),
                _ => T::mad_hi_carry(a, b, c, flag),
            };
            out[lane] = value.set();
            carried |= u32::from(carry) << lane;
        }
        // SAFETY: slot d has the type's width.
        unsafe { super::lane::Store::put(m, i.d, &out, mask) };
        if i.imm & 2 != 0 {
            // SAFETY: the frame's carry flags.
            unsafe { m.put_pred(SLOT_CARRY, carried, mask) };
        }
        Flow::Next
    }
}

pub(crate) fn carry(isa: Isa, op: CarryOp, ty: Type) -> Option<Run> {
    macro_rules! choose {
        ($op:literal) => {
            match ty {
                Type::U32 | Type::B32 => isa.once::<Carry<U32, $op>>(),
                Type::S32 => isa.once::<Carry<S32, $op>>(),
                Type::U64 | Type::B64 => isa.once::<Carry<U64, $op>>(),
                Type::S64 => isa.once::<Carry<S64, $op>>(),
                _ => return None,
            }
        };
    }
    Some(match op {
        CarryOp::Add => choose!(0),
        CarryOp::Sub => choose!(1),
        CarryOp::MadLo => choose!(2),
        CarryOp::MadHi => choose!(3),
    })
}
