//! `cvt`: the usual pairs compiled for themselves, the others by a description.

use ptx::ir::{Rounding, Type};

use super::float::{FE, FloatReg};
use super::lane::{IE, IntReg, get, ops};
use crate::arith::{Bf16, F16, F32, F64, RM, RN, RP, RZ, S32, S64, U16, U32, U64, convert};
use crate::exec::inst::{Flow, Inst, Isa, LANES, Lanes, Run, lanes};
use crate::exec::machine::Machine;

use super::lane::Reg;

ops! {
    FloatToInt[A: FloatReg, D: IntReg; R: u8] = |_, a: FE<A>| -> IE<D> { convert::float_to_int::<A, D, R, false>(get(a)).set() }
    IntToFloat[A: IntReg, D: FloatReg; R: u8] = |_, a: IE<A>| -> FE<D> { convert::int_to_float::<A, D, R>(get(a)).set() }
    FloatToFloat[A: FloatReg, D: FloatReg; R: u8] = |_, a: FE<A>| -> FE<D> { convert::float_to_float::<A, D, R, false, false>(get(a)).set() }
    Integral[A: FloatReg; R: u8] = |_, a: FE<A>| -> FE<A> { convert::integral::<A, R, false, false>(get(a)).set() }
    // The mode is the distance of the shift to the top and back.
    ExtendSigned[;] = |shift, a: u32| -> u32 { ((a << (shift & 31)).cast_signed() >> (shift & 31)).cast_unsigned() }
    ExtendZero[;] = |shift, a: u32| -> u32 { a << (shift & 31) >> (shift & 31) }
}

/// A `cvt` as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) rounding: Option<Rounding>,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) satfinite: bool,
    pub(crate) relu: bool,
}

/// Returns whether it is an integer type that `cvt` takes.
pub(crate) fn is_int(ty: Type) -> bool {
    matches!(
        ty,
        Type::U8
            | Type::B8
            | Type::S8
            | Type::U16
            | Type::B16
            | Type::S16
            | Type::U32
            | Type::B32
            | Type::S32
            | Type::U64
            | Type::B64
            | Type::S64
    )
}

/// Extends the lower bits of a register of 32 bits.
pub(crate) fn extend(isa: Isa, signed: bool) -> Run {
    if signed { isa.pick::<ExtendSigned>() } else { isa.pick::<ExtendZero>() }
}

/// Returns the pairs that are compiled for themselves. Those of integers alone are made of moves.
fn quick(isa: Isa, spec: &Spec) -> Option<Run> {
    let Spec { to, from, rounding, ftz, sat, satfinite, relu } = *spec;
    if satfinite || relu || sat || ftz {
        return None;
    }
    use Rounding::{Rmi, Rn, Rni, Rpi, Rzi};
    use Type as T;
    Some(match (from, to, rounding) {
        (T::F32, T::S32, Some(Rzi)) => isa.pick::<FloatToInt<F32, S32, RZ>>(),
        (T::F32, T::S32, Some(Rni)) => isa.pick::<FloatToInt<F32, S32, RN>>(),
        (T::F32, T::S32, Some(Rmi)) => isa.pick::<FloatToInt<F32, S32, RM>>(),
        (T::F32, T::S32, Some(Rpi)) => isa.once::<FloatToInt<F32, S32, RP>>(),
        (T::F32, T::U32, Some(Rzi)) => isa.pick::<FloatToInt<F32, U32, RZ>>(),
        (T::F32, T::S64, Some(Rzi)) => isa.once::<FloatToInt<F32, S64, RZ>>(),
        (T::F32, T::U64, Some(Rzi)) => isa.once::<FloatToInt<F32, U64, RZ>>(),
        (T::F64, T::S32, Some(Rzi)) => isa.once::<FloatToInt<F64, S32, RZ>>(),
        (T::F64, T::U32, Some(Rzi)) => isa.once::<FloatToInt<F64, U32, RZ>>(),
        (T::F64, T::S64, Some(Rzi)) => isa.once::<FloatToInt<F64, S64, RZ>>(),
        (T::S32, T::F32, Some(Rn)) => isa.pick::<IntToFloat<S32, F32, RN>>(),
        (T::U32, T::F32, Some(Rn)) => isa.pick::<IntToFloat<U32, F32, RN>>(),
        (T::U16, T::F32, Some(Rn)) => isa.once::<IntToFloat<U16, F32, RN>>(),
        (T::S64, T::F32, Some(Rn)) => isa.once::<IntToFloat<S64, F32, RN>>(),
        (T::U64, T::F32, Some(Rn)) => isa.once::<IntToFloat<U64, F32, RN>>(),
        (T::S32, T::F64, Some(Rn)) => isa.pick::<IntToFloat<S32, F64, RN>>(),
        (T::U32, T::F64, Some(Rn)) => isa.pick::<IntToFloat<U32, F64, RN>>(),
        (T::S64, T::F64, Some(Rn)) => isa.once::<IntToFloat<S64, F64, RN>>(),
        (T::U64, T::F64, Some(Rn)) => isa.once::<IntToFloat<U64, F64, RN>>(),
        (T::F32, T::F64, None) => isa.pick::<FloatToFloat<F32, F64, RN>>(),
        (T::F64, T::F32, Some(Rn)) => isa.pick::<FloatToFloat<F64, F32, RN>>(),
        (T::F16, T::F32, None) => isa.pick::<FloatToFloat<F16, F32, RN>>(),
        (T::F32, T::F16, Some(Rn)) => isa.pick::<FloatToFloat<F32, F16, RN>>(),
        (T::Bf16, T::F32, None) => isa.pick::<FloatToFloat<Bf16, F32, RN>>(),
        (T::F32, T::Bf16, Some(Rn)) => isa.pick::<FloatToFloat<F32, Bf16, RN>>(),
        (T::F32, T::F32, Some(Rni)) => isa.pick::<Integral<F32, RN>>(),
        (T::F32, T::F32, Some(Rzi)) => isa.pick::<Integral<F32, RZ>>(),
        (T::F32, T::F32, Some(Rmi)) => isa.pick::<Integral<F32, RM>>(),
        (T::F32, T::F32, Some(Rpi)) => isa.pick::<Integral<F32, RP>>(),
        (T::F64, T::F64, Some(Rmi)) => isa.once::<Integral<F64, RM>>(),
        (T::F64, T::F64, Some(Rzi)) => isa.once::<Integral<F64, RZ>>(),
        _ => return None,
    })
}

/// How a conversion is done.
pub(crate) enum How {
    Run(Run),
    Closure(Closure),
}

/// A function on one lane that is made when the program is loaded.
pub(crate) type Closure = Box<dyn Fn([u64; 4]) -> u64 + Send + Sync>;

pub(crate) fn cvt(isa: Isa, spec: &Spec) -> Option<How> {
    if let Some(run) = quick(isa, spec) {
        return Some(How::Run(run));
    }
    let Spec { to, from, rounding, ftz, sat, satfinite, relu } = *spec;
    let cvt = convert::Cvt::new(to, from, rounding, ftz, sat, satfinite, relu)?;
    Some(How::Closure(Box::new(move |[a, ..]| cvt.apply(a))))
}

/// Of two sources, which only conversions of f32 to two narrower floats have.
pub(crate) fn cvt2(spec: &Spec) -> Option<Closure> {
    let Spec { to, from, rounding, ftz, sat, satfinite, relu } = *spec;
    let cvt = convert::Cvt::new(to, from, rounding, ftz, sat, satfinite, relu)?;
    (from == Type::F32 && cvt.makes_two()).then_some(())?;
    Some(Box::new(move |[a, b, ..]| cvt.apply2(a, b)))
}

/// Runs the function's closure `imm & 0xffff_ffff`; bits 32 to 36 of imm say which of d, a, b, c
/// are 64 bits wide.
pub(crate) struct ByClosure;
impl Lanes for ByClosure {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let code = m.code;
        let Some(closure) = code.closures.get(i.imm as u32 as usize) else { return Flow::Next };
        let wide = |bit: u32| i.imm >> (32 + bit) & 1 != 0;
        let mut out = [0u64; LANES];
        for lane in lanes(mask) {
            let mut sources = [0; 4];
            for (at, slot) in [i.a, i.b, i.c].into_iter().enumerate() {
                // SAFETY: the decoder has said how wide the slots are.
                sources[at] = unsafe {
                    if wide(at as u32 + 1) {
                        m.lanes::<u64>(slot)[lane]
                    } else {
                        u64::from(m.lanes::<u32>(slot)[lane])
                    }
                };
            }
            out[lane] = closure(sources);
        }
        // SAFETY: as above.
        unsafe {
            if wide(0) {
                super::lane::Store::put(m, i.d, &out, mask);
            } else {
                super::lane::Store::put(m, i.d, &out.map(|bits| bits as u32), mask);
            }
        }
        Flow::Next
    }
}
