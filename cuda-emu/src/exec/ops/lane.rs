//! Instructions on 32 lanes from functions on one lane.

use crate::arith::{Bits, Int};
use crate::exec::inst::{FULL, Flow, Inst, LANES, lanes};
use crate::exec::machine::Machine;

/// A register's value in one lane.
pub(crate) trait Elem: Copy {
    const ZERO: Self;
}

impl Elem for u32 {
    const ZERO: Self = 0;
}
impl Elem for u64 {
    const ZERO: Self = 0;
}
impl Elem for bool {
    const ZERO: Self = false;
}

/// A value that can be put into a register.
pub(crate) trait Store: Elem {
    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// `slot` is a register of this width in the frame that `m.regs` points to.
    unsafe fn put(m: &mut Machine<'_>, slot: u32, out: &[Self; LANES], mask: u32);

    /// Writes one lane.
    ///
    /// # Safety
    /// As for `put`.
    unsafe fn put_one(m: &mut Machine<'_>, slot: u32, lane: usize, value: Self);
}

macro_rules! store {
    ($($t:ty)*) => { $(
        impl Store for $t {
            #[inline(always)]
            unsafe fn put(m: &mut Machine<'_>, slot: u32, out: &[Self; LANES], mask: u32) {
                // SAFETY: the slot holds 32 values and is aligned to 64; no other reference to the
                // registers lives while this one does.
                let d = unsafe { &mut *m.regs.add(slot as usize).cast::<[Self; LANES]>() };
                if mask == FULL {
                    *d = *out;
                } else {
                    for lane in 0..LANES {
                        d[lane] = if mask & (1 << lane) != 0 { out[lane] } else { d[lane] };
                    }
                }
            }

            #[inline(always)]
            unsafe fn put_one(m: &mut Machine<'_>, slot: u32, lane: usize, value: Self) {
                // SAFETY: as in `put`.
                unsafe { m.lanes_mut::<Self>(slot)[lane] = value };
            }
        }
    )* };
}
store!(u32 u64);

impl Store for bool {
    #[inline(always)]
    unsafe fn put(m: &mut Machine<'_>, slot: u32, out: &[Self; LANES], mask: u32) {
        let bits = gather_bits(out);
        // SAFETY: the slot is a predicate of the frame.
        unsafe { m.put_pred(slot, bits, mask) };
    }

    #[inline(always)]
    unsafe fn put_one(m: &mut Machine<'_>, slot: u32, lane: usize, value: Self) {
        // SAFETY: the slot is a predicate of the frame.
        unsafe { m.put_pred(slot, u32::from(value) << lane, 1 << lane) };
    }
}

/// One bit for each lane.
#[inline(always)]
pub(crate) fn gather_bits(lanes: &[bool; LANES]) -> u32 {
    let mut bits = 0;
    for (lane, &set) in lanes.iter().enumerate() {
        bits |= u32::from(set) << lane;
    }
    bits
}

/// A function of one source; `mode` is the instruction's immediate.
pub(crate) trait Op1 {
    type A: Elem;
    type D: Store;
    fn f(mode: u64, a: Self::A) -> Self::D;
}

/// An operation of two sources.
pub(crate) trait Op2 {
    type A: Elem;
    type B: Elem;
    type D: Store;
    fn f(mode: u64, a: Self::A, b: Self::B) -> Self::D;
}

/// An operation of three sources.
pub(crate) trait Op3 {
    type A: Elem;
    type B: Elem;
    type C: Elem;
    type D: Store;
    fn f(mode: u64, a: Self::A, b: Self::B, c: Self::C) -> Self::D;
}

/// An operation of four sources; the fourth is in slot `e`.
pub(crate) trait Op4 {
    type A: Elem;
    type B: Elem;
    type C: Elem;
    type E: Elem;
    type D: Store;
    fn f(mode: u64, a: Self::A, b: Self::B, c: Self::C, e: Self::E) -> Self::D;
}

/// # Safety
/// As for [`Run`](crate::exec::inst::Run), and the slots have the widths of `O`.
#[inline(always)]
pub(crate) unsafe fn run1<O: Op1>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    let mut out = [O::D::ZERO; LANES];
    // SAFETY: the slot holds 32 values of this width; nothing is written while the reference lives.
    let a = unsafe { m.lanes::<O::A>(i.a) };
    for lane in 0..LANES {
        out[lane] = O::f(i.imm, a[lane]);
    }
    // SAFETY: slot d has the width of O::D.
    unsafe { O::D::put(m, i.d, &out, mask) };
    Flow::Next
}

/// # Safety
/// As for [`run1`].
#[inline(always)]
pub(crate) unsafe fn run2<O: Op2>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    let mut out = [O::D::ZERO; LANES];
    // SAFETY: the slots hold 32 values of their width; nothing is written while the references live.
    let (a, b) = unsafe { (m.lanes::<O::A>(i.a), m.lanes::<O::B>(i.b)) };
    for lane in 0..LANES {
        out[lane] = O::f(i.imm, a[lane], b[lane]);
    }
    // SAFETY: slot d has the width of O::D.
    unsafe { O::D::put(m, i.d, &out, mask) };
    Flow::Next
}

/// # Safety
/// As for [`run1`].
#[inline(always)]
pub(crate) unsafe fn run3<O: Op3>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    let mut out = [O::D::ZERO; LANES];
    // SAFETY: the slots hold 32 values of their width; nothing is written while the references live.
    let (a, b, c) = unsafe { (m.lanes::<O::A>(i.a), m.lanes::<O::B>(i.b), m.lanes::<O::C>(i.c)) };
    for lane in 0..LANES {
        out[lane] = O::f(i.imm, a[lane], b[lane], c[lane]);
    }
    // SAFETY: slot d has the width of O::D.
    unsafe { O::D::put(m, i.d, &out, mask) };
    Flow::Next
}

/// # Safety
/// As for [`run1`].
#[inline(always)]
pub(crate) unsafe fn run4<O: Op4>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    let mut out = [O::D::ZERO; LANES];
    // SAFETY: the slots hold 32 values of their width; nothing is written while the references live.
    let (a, b, c, e) = unsafe {
        (m.lanes::<O::A>(i.a), m.lanes::<O::B>(i.b), m.lanes::<O::C>(i.c), m.lanes::<O::E>(i.e))
    };
    for lane in 0..LANES {
        out[lane] = O::f(i.imm, a[lane], b[lane], c[lane], e[lane]);
    }
    // SAFETY: slot d has the width of O::D.
    unsafe { O::D::put(m, i.d, &out, mask) };
    Flow::Next
}

/// # Safety
/// As for [`run1`].
pub(crate) unsafe fn small1<O: Op1>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    for lane in lanes(mask) {
        // SAFETY: the slots hold 32 values of their width.
        let a = unsafe { m.lanes::<O::A>(i.a)[lane] };
        let d = O::f(i.imm, a);
        // SAFETY: slot d has the width of O::D.
        unsafe { O::D::put_one(m, i.d, lane, d) };
    }
    Flow::Next
}

/// # Safety
/// As for [`run1`].
pub(crate) unsafe fn small2<O: Op2>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    for lane in lanes(mask) {
        // SAFETY: the slots hold 32 values of their width.
        let (a, b) = unsafe { (m.lanes::<O::A>(i.a)[lane], m.lanes::<O::B>(i.b)[lane]) };
        let d = O::f(i.imm, a, b);
        // SAFETY: slot d has the width of O::D.
        unsafe { O::D::put_one(m, i.d, lane, d) };
    }
    Flow::Next
}

/// # Safety
/// As for [`run1`].
pub(crate) unsafe fn small3<O: Op3>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    for lane in lanes(mask) {
        // SAFETY: the slots hold 32 values of their width.
        let (a, b, c) = unsafe {
            (m.lanes::<O::A>(i.a)[lane], m.lanes::<O::B>(i.b)[lane], m.lanes::<O::C>(i.c)[lane])
        };
        let d = O::f(i.imm, a, b, c);
        // SAFETY: slot d has the width of O::D.
        unsafe { O::D::put_one(m, i.d, lane, d) };
    }
    Flow::Next
}

/// # Safety
/// As for [`run1`].
pub(crate) unsafe fn small4<O: Op4>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    for lane in lanes(mask) {
        // SAFETY: the slots hold 32 values of their width.
        let (a, b, c, e) = unsafe {
            (
                m.lanes::<O::A>(i.a)[lane],
                m.lanes::<O::B>(i.b)[lane],
                m.lanes::<O::C>(i.c)[lane],
                m.lanes::<O::E>(i.e)[lane],
            )
        };
        let d = O::f(i.imm, a, b, c, e);
        // SAFETY: slot d has the width of O::D.
        unsafe { O::D::put_one(m, i.d, lane, d) };
    }
    Flow::Next
}

/// Declares operations: a name, its types and constants, and a function of the mode and one to four
/// sources.
macro_rules! ops {
    () => {};
    ($name:ident [$($t:ident: $tb:path),*; $($g:ident: $gt:ty),*] = |$m:pat_param, $a:ident: $ta:ty| -> $r:ty $body:block $($rest:tt)*) => {
        $crate::exec::ops::lane::ops!(@lanes $name [$($t: $tb),*; $($g: $gt),*] run1 small1);
        impl<$($t: $tb,)* $(const $g: $gt),*> $crate::exec::ops::lane::Op1 for $name<$($t,)* $($g),*> {
            type A = $ta;
            type D = $r;
            #[inline(always)]
            fn f($m: u64, $a: $ta) -> $r $body
        }
        $crate::exec::ops::lane::ops!($($rest)*);
    };
    ($name:ident [$($t:ident: $tb:path),*; $($g:ident: $gt:ty),*] = |$m:pat_param, $a:ident: $ta:ty, $b:ident: $tyb:ty| -> $r:ty $body:block $($rest:tt)*) => {
        $crate::exec::ops::lane::ops!(@lanes $name [$($t: $tb),*; $($g: $gt),*] run2 small2);
        impl<$($t: $tb,)* $(const $g: $gt),*> $crate::exec::ops::lane::Op2 for $name<$($t,)* $($g),*> {
            type A = $ta;
            type B = $tyb;
            type D = $r;
            #[inline(always)]
            fn f($m: u64, $a: $ta, $b: $tyb) -> $r $body
        }
        $crate::exec::ops::lane::ops!($($rest)*);
    };
    ($name:ident [$($t:ident: $tb:path),*; $($g:ident: $gt:ty),*] = |$m:pat_param, $a:ident: $ta:ty, $b:ident: $tyb:ty, $c:ident: $tc:ty| -> $r:ty $body:block $($rest:tt)*) => {
        $crate::exec::ops::lane::ops!(@lanes $name [$($t: $tb),*; $($g: $gt),*] run3 small3);
        impl<$($t: $tb,)* $(const $g: $gt),*> $crate::exec::ops::lane::Op3 for $name<$($t,)* $($g),*> {
            type A = $ta;
            type B = $tyb;
            type C = $tc;
            type D = $r;
            #[inline(always)]
            fn f($m: u64, $a: $ta, $b: $tyb, $c: $tc) -> $r $body
        }
        $crate::exec::ops::lane::ops!($($rest)*);
    };
    ($name:ident [$($t:ident: $tb:path),*; $($g:ident: $gt:ty),*] = |$m:pat_param, $a:ident: $ta:ty, $b:ident: $tyb:ty, $c:ident: $tc:ty, $e:ident: $te:ty| -> $r:ty $body:block $($rest:tt)*) => {
        $crate::exec::ops::lane::ops!(@lanes $name [$($t: $tb),*; $($g: $gt),*] run4 small4);
        impl<$($t: $tb,)* $(const $g: $gt),*> $crate::exec::ops::lane::Op4 for $name<$($t,)* $($g),*> {
            type A = $ta;
            type B = $tyb;
            type C = $tc;
            type E = $te;
            type D = $r;
            #[inline(always)]
            fn f($m: u64, $a: $ta, $b: $tyb, $c: $tc, $e: $te) -> $r $body
        }
        $crate::exec::ops::lane::ops!($($rest)*);
    };
    (@lanes $name:ident [$($t:ident: $tb:path),*; $($g:ident: $gt:ty),*] $run:ident $small:ident) => {
        pub(crate) struct $name<$($t,)* $(const $g: $gt),*>(std::marker::PhantomData<($($t,)*)>);
        impl<$($t: $tb,)* $(const $g: $gt),*> $crate::exec::inst::Lanes for $name<$($t,)* $($g),*> {
            #[inline(always)]
            unsafe fn go(
                m: &mut $crate::exec::machine::Machine<'_>,
                i: &$crate::exec::inst::Inst,
                mask: u32,
            ) -> $crate::exec::inst::Flow {
                // SAFETY: the decoder has chosen slots of the operation's widths.
                unsafe { $crate::exec::ops::lane::$run::<Self>(m, i, mask) }
            }

            #[inline(always)]
            unsafe fn small(
                m: &mut $crate::exec::machine::Machine<'_>,
                i: &$crate::exec::inst::Inst,
                mask: u32,
            ) -> $crate::exec::inst::Flow {
                // SAFETY: the decoder has chosen slots of the operation's widths.
                unsafe { $crate::exec::ops::lane::$small::<Self>(m, i, mask) }
            }
        }
    };
}
pub(crate) use ops;

/// The bits of a type in arithmetic, and the register that holds them.
pub(crate) trait Reg: Bits {
    /// The contents of a slot in one lane: 8 and 16 bits lie zero-extended in 32.
    type E: Store;
    fn get(e: Self::E) -> Self;
    fn set(self) -> Self::E;
}

macro_rules! reg {
    ($($t:ty: $e:ty),*) => { $(
        impl Reg for $t {
            type E = $e;
            #[inline(always)]
            fn get(e: $e) -> Self {
                e as Self
            }
            #[inline(always)]
            fn set(self) -> $e {
                <$e>::from(self)
            }
        }
    )* };
}
reg!(u8: u32, u16: u32, u32: u32, u64: u64);

/// An integer type whose values lie in registers.
pub(crate) trait IntReg: Int<Bits: Reg> {}
impl<T: Int<Bits: Reg>> IntReg for T {}

/// The contents of a slot of the integer type.
pub(crate) type IE<T> = <<T as Int>::Bits as Reg>::E;

#[inline(always)]
pub(crate) fn get<R: Reg>(e: R::E) -> R {
    R::get(e)
}
