//! `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`.
//!
//! The lanes of one instruction may name different members: each group then acts on its own.

use std::marker::PhantomData;

use super::sync::Meeting;
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::ops::lane::Store;

/// The kind of `vote`, in imm; bit 8 negates the predicate.
pub(crate) mod vote {
    pub(crate) const ALL: u64 = 0;
    pub(crate) const ANY: u64 = 1;
    pub(crate) const UNI: u64 = 2;
    pub(crate) const BALLOT: u64 = 3;
}

/// Meets the lanes that slot e names and goes on with all of them, or waits.
macro_rules! together {
    ($m:ident, $i:ident, $mask:ident) => {
        // SAFETY: slot e is a 32-bit register.
        match unsafe { $m.meet($i.e, $mask) } {
            Meeting::Together(there) => there,
            Meeting::Wait(flow) => return flow,
        }
    };
}

/// The groups of lanes with the same members: each with the lanes of it that execute.
///
/// # Safety
/// `slot` is a 32-bit register.
#[inline(always)]
unsafe fn groups(m: &Machine<'_>, slot: u32, there: u32, mut each: impl FnMut(u32)) {
    // SAFETY: the caller's promise.
    let members = unsafe { m.lanes::<u32>(slot) };
    let mut rest = there;
    while rest != 0 {
        let first = members[rest.trailing_zeros() as usize];
        let same = lanes(rest).fold(0, |all, l| all | u32::from(members[l] == first) << l);
        // Without `.sync` there is no mask: all active lanes take part.
        each(if first == 0 { same } else { same & first });
        rest &= !same;
    }
}

/// `shfl`: a from the lane that b, c and the mode say; p in slot f. With `TANGENTS` those too, by the rule in imm.
pub(crate) struct Shfl<const MODE: u8, const TANGENTS: bool>;
impl<const MODE: u8, const TANGENTS: bool> Lanes for Shfl<MODE, TANGENTS> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let there = together!(m, i, mask);
        // SAFETY: a, b and c are 32-bit registers; nothing is written meanwhile.
        let (a, b, c) = unsafe { (m.lanes::<u32>(i.a), m.lanes::<u32>(i.b), m.lanes::<u32>(i.c)) };
        let mut out = [0u32; LANES];
        let mut sources = [0u8; LANES];
        let mut inside = 0;
        for lane in 0..LANES as u32 {
            let (by, clamp) = (b[lane as usize] & 31, c[lane as usize]);
            let (limit, segment) = (clamp & 31, clamp >> 8 & 31);
            let max = (lane & segment) | (limit & !segment);
            let min = lane & segment;
            let (from, ok) = match MODE {
                0 => {
                    let from = lane.wrapping_sub(by);
                    (from, from.cast_signed() >= max.cast_signed())
                }
                1 => (lane + by, lane + by <= max),
                2 => (lane ^ by, lane ^ by <= max),
                _ => {
                    let from = min | (by & !segment);
                    (from, from <= max)
                }
            };
            let from = if ok { from } else { lane };
            out[lane as usize] = a[from as usize & 31];
            if TANGENTS {
                sources[lane as usize] = (from & 31) as u8;
            }
            inside |= u32::from(ok) << lane;
        }
        if TANGENTS {
            // SAFETY: the decoder has made the rule for this instruction.
            unsafe { m.exchange_tangents(i.imm, there, &sources) };
        }
        // SAFETY: d is a 32-bit register, f a predicate.
        unsafe {
            Store::put(m, i.d, &out, there);
            m.put_pred(i.f, inside, there);
        }
        Flow::Next
    }
}

/// `vote`: the predicate in slot a.
pub(crate) struct Vote;
impl Lanes for Vote {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let there = together!(m, i, mask);
        // SAFETY: a is a predicate.
        let set = unsafe { m.pred(i.a) } ^ if i.imm & 256 != 0 { u32::MAX } else { 0 };
        let mut out = [0u32; LANES];
        let mut answers = 0;
        // SAFETY: slot e is a 32-bit register.
        unsafe {
            groups(m, i.e, there, |group| {
                let yes = set & group;
                let answer = match i.imm & 255 {
                    vote::ALL => yes == group,
                    vote::ANY => yes != 0,
                    vote::UNI => yes == group || yes == 0,
                    _ => false,
                };
                answers |= if answer { group } else { 0 };
                lanes(group).for_each(|lane| out[lane] = yes);
            });
        }
        // SAFETY: d is a predicate, or a 32-bit register for a ballot.
        unsafe {
            if i.imm & 255 == vote::BALLOT {
                Store::put(m, i.d, &out, there);
            } else {
                m.put_pred(i.d, answers, there);
            }
        }
        Flow::Next
    }
}

/// `match.any`
pub(crate) struct MatchAny<T>(PhantomData<T>);
impl<T: Store + PartialEq> Lanes for MatchAny<T> {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let there = together!(m, i, mask);
        let mut out = [0u32; LANES];
        // SAFETY: a is a register of this width, d and e 32-bit registers.
        unsafe {
            let a = m.lanes::<T>(i.a);
            groups(m, i.e, there, |group| {
                for lane in lanes(group) {
                    let same = |all, other: usize| all | u32::from(a[other] == a[lane]) << other;
                    out[lane] = lanes(group).fold(0, same);
                }
            });
            Store::put(m, i.d, &out, there);
        }
        Flow::Next
    }
}

/// `match.all`: p in slot f.
pub(crate) struct MatchAll<T>(PhantomData<T>);
impl<T: Store + PartialEq> Lanes for MatchAll<T> {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let there = together!(m, i, mask);
        let mut out = [0u32; LANES];
        let mut equal = 0;
        // SAFETY: a is a register of this width, d and e 32-bit registers, f a predicate.
        unsafe {
            let a = m.lanes::<T>(i.a);
            groups(m, i.e, there, |group| {
                let first = a[group.trailing_zeros() as usize & 31];
                if lanes(group).all(|lane| a[lane] == first) {
                    equal |= group;
                    lanes(group).for_each(|lane| out[lane] = group);
                }
            });
            Store::put(m, i.d, &out, there);
            m.put_pred(i.f, equal, there);
        }
        Flow::Next
    }
}

/// `redux.sync`: the function's fold `f`; imm is the rule of tangents, if they are tracked.
pub(crate) struct Redux;
impl Lanes for Redux {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let there = together!(m, i, mask);
        let Some(&fold) = m.code.folds.get(i.f as usize) else { return Flow::Next };
        let mut out = [0u32; LANES];
        let mut results = Vec::new();
        // SAFETY: a, d and e are 32-bit registers; the decoder has made the rule for this instruction.
        unsafe {
            let a = m.lanes::<u32>(i.a);
            groups(m, i.e, there, |group| {
                let all = lanes(group).map(|lane| u64::from(a[lane])).reduce(fold);
                lanes(group).for_each(|lane| out[lane] = all.unwrap_or(0) as u32);
                if m.code.shadow != 0 {
                    results.push((group, all.unwrap_or(0) as u32));
                }
            });
            for (group, result) in results {
                m.reduce_tangents(i.imm, group, result);
            }
            Store::put(m, i.d, &out, there);
        }
        Flow::Next
    }
}

/// `activemask`
pub(crate) struct Activemask;
impl Lanes for Activemask {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: d is a 32-bit register.
        unsafe { Store::put(m, i.d, &[mask; LANES], mask) };
        Flow::Next
    }
}

/// `elect.sync`: the first of the members; p in slot f.
pub(crate) struct Elect;
impl Lanes for Elect {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let there = together!(m, i, mask);
        let mut out = [0u32; LANES];
        let mut elected = 0;
        // SAFETY: d and e are 32-bit registers, f a predicate.
        unsafe {
            groups(m, i.e, there, |group| {
                let first = group.trailing_zeros();
                elected |= 1u32.checked_shl(first).unwrap_or(0);
                lanes(group).for_each(|lane| out[lane] = first);
            });
            Store::put(m, i.d, &out, there);
            m.put_pred(i.f, elected, there);
        }
        Flow::Next
    }
}
