//! `ld`

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

use super::element::{Mem, copy_rows};
use super::resolve::{Place, Wanted, addresses, resolve};
use super::{ACQUIRE, POLL};
use crate::exec::inst::{Flow, Inst, LANES, Lanes, NOT_LOADED, lanes};
use crate::exec::machine::Machine;
use crate::exec::ops::lane::Store;

/// A register that takes a loaded value.
pub(crate) trait Into32: Store {
    const BYTES: u64;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}
impl Into32 for u32 {
    const BYTES: u64 = 4;
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits as Self
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}
impl Into32 for u64 {
    const BYTES: u64 = 8;
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
}

/// The cost of an ordered access in the time slice, and its fence.
#[cold]
pub(crate) fn ordered(m: &mut Machine<'_>, flags: u32, acquire: bool) {
    if flags & POLL != 0 {
        m.poll(POLL_COST);
    }
    if acquire && flags & ACQUIRE != 0 {
        fence(Ordering::Acquire);
    }
}

/// Branches that a poll is worth.
pub(crate) const POLL_COST: i64 = 256;

/// Loads one element: address in slot a, to slot d.
pub(crate) struct Load<M, D, const HOW: u8>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32, const HOW: u8> Lanes for Load<M, D, HOW> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let mut at = unsafe { addresses(m, i) };
        let want = Wanted { bytes: M::BYTES, align: M::BYTES, write: false };
        let Some(place) = resolve::<HOW>(m, i, mask, want, &mut at) else {
            return Flow::Fault;
        };
        match place {
            Place::Row(start) if M::BYTES == D::BYTES => {
                let to = m.regs.wrapping_add(i.d as usize);
                let from = start as *const u8;
                // SAFETY: the row was checked to lie in a live region; slot d is as wide as the row.
                unsafe {
                    if M::BYTES == 4 {
                        copy_rows::<1>(m.wide, to, from);
                    } else {
                        copy_rows::<2>(m.wide, to, from);
                    }
                }
            }
            _ => {
                if let Place::Row(start) = place {
                    for (lane, address) in at.iter_mut().enumerate() {
                        *address = start + lane as u64 * M::BYTES;
                    }
                }
                // SAFETY: slot d is a register of this width and nothing else refers to it.
                let d = unsafe { m.lanes_mut::<D>(i.d) };
                if mask == crate::exec::inst::FULL {
                    for lane in 0..LANES {
                        // SAFETY: each lane's element was checked.
                        d[lane] = D::of(unsafe { M::load(at[lane]) });
                    }
                } else {
                    for lane in lanes(mask) {
                        // SAFETY: each active lane's element was checked.
                        d[lane] = D::of(unsafe { M::load(at[lane]) });
                    }
                }
            }
        }
        if i.c & (POLL | ACQUIRE) != 0 {
            ordered(m, i.c, true);
        }
        Flow::Next
    }
}

/// Loads several elements: to the slots of the list at `e`, without those that are [`NOT_LOADED`].
pub(crate) struct LoadVector<M, D, const HOW: u8>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32, const HOW: u8> Lanes for LoadVector<M, D, HOW> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let list = m.list(i.e);
        let used = list.iter().rposition(|slot| *slot != NOT_LOADED).map_or(0, |last| last + 1);
        let bytes = M::BYTES * used as u64;
        // SAFETY: the decoder has set slot c by slot a.
        let mut at = unsafe { addresses(m, i) };
        let want = Wanted { bytes, align: M::BYTES * list.len() as u64, write: false };
        let Some(place) = resolve::<HOW>(m, i, mask, want, &mut at) else {
            return Flow::Fault;
        };
        if let Place::Row(start) = place {
            for (lane, address) in at.iter_mut().enumerate() {
                *address = start + lane as u64 * bytes;
            }
        }
        for (element, &slot) in list.iter().enumerate().filter(|(_, slot)| **slot != NOT_LOADED) {
            let offset = element as u64 * M::BYTES;
            // SAFETY: the slots of the list are registers of this width.
            let d = unsafe { m.lanes_mut::<D>(slot) };
            for lane in lanes(mask) {
                // SAFETY: each active lane's elements were checked.
                d[lane] = D::of(unsafe { M::load(at[lane] + offset) });
            }
        }
        if i.c & (POLL | ACQUIRE) != 0 {
            ordered(m, i.c, true);
        }
        Flow::Next
    }
}
