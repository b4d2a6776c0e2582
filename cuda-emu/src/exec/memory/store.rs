//! `st`

use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

use super::RELEASE;
use super::element::{Mem, copy_rows};
use super::load::Into32;
use super::resolve::{Place, Wanted, addresses, resolve};
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;

/// Stores one element: slot d, at the address in slot a.
pub(crate) struct StoreOne<M, D, const HOW: u8>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32, const HOW: u8> Lanes for StoreOne<M, D, HOW> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let mut at = unsafe { addresses(m, i) };
        let want = Wanted { bytes: M::BYTES, align: M::BYTES, write: true };
        let Some(place) = resolve::<HOW>(m, i, mask, want, &mut at) else {
            return Flow::Fault;
        };
        if i.c & RELEASE != 0 {
            fence(Ordering::Release);
        }
        match place {
            Place::Row(start) if M::BYTES == D::BYTES => {
                let from = m.regs.wrapping_add(i.d as usize);
                let to = start as *mut u8;
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
                // SAFETY: slot d is a register of this width, not written meanwhile.
                let d = unsafe { m.lanes::<D>(i.d) };
                for lane in lanes(mask) {
                    // SAFETY: each active lane's element was checked.
                    unsafe { M::store(at[lane], d[lane].bits()) };
                }
            }
        }
        Flow::Next
    }
}

/// Stores several elements: the slots of the list at `e`.
pub(crate) struct StoreVector<M, D, const HOW: u8>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32, const HOW: u8> Lanes for StoreVector<M, D, HOW> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let list = m.list(i.e);
        let bytes = M::BYTES * list.len() as u64;
        // SAFETY: the decoder has set slot c by slot a.
        let mut at = unsafe { addresses(m, i) };
        let want = Wanted { bytes, align: bytes, write: true };
        let Some(place) = resolve::<HOW>(m, i, mask, want, &mut at) else {
            return Flow::Fault;
        };
        if i.c & RELEASE != 0 {
            fence(Ordering::Release);
        }
        if let Place::Row(start) = place {
            for (lane, address) in at.iter_mut().enumerate() {
                *address = start + lane as u64 * bytes;
            }
        }
        for (element, &slot) in list.iter().enumerate() {
            let offset = element as u64 * M::BYTES;
            // SAFETY: the slots of the list are registers of this width, not written meanwhile.
            let d = unsafe { m.lanes::<D>(slot) };
            for lane in lanes(mask) {
                // SAFETY: each active lane's elements were checked.
                unsafe { M::store(at[lane] + offset, d[lane].bits()) };
            }
        }
        Flow::Next
    }
}
