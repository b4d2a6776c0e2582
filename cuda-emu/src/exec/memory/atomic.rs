//! `atom`, `red` and fences.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use ptx::ir::{AtomOp, Type};

use super::element::{Mem, U16, U32, U64};
use super::load::{Into32, POLL_COST};
use super::resolve::{Place, Wanted, addresses, resolve};
use crate::exec::decode::Rmw;
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;

/// Operations that the host has; the others are loops of compare-and-swap.
pub(crate) fn native(op: AtomOp, ty: Type) -> u8 {
    let int = !ty.is_float();
    match op {
        AtomOp::Add if int => 1,
        AtomOp::And => 2,
        AtomOp::Or => 3,
        AtomOp::Xor => 4,
        AtomOp::Exch => 5,
        AtomOp::Cas => 6,
        _ => 0,
    }
}

/// An element on which atomics work.
pub(crate) trait Cell: Mem {
    /// Does the operation and gives the old and the new value.
    ///
    /// # Safety
    /// The address is of live device memory and aligned to the element.
    unsafe fn update(address: u64, op: u8, rmw: Rmw, a: u64, c: u64) -> (u64, u64);
}

macro_rules! cell {
    ($($name:ty: $t:ty, $atomic:ty;)*) => { $(
        impl Cell for $name {
            #[inline(always)]
            unsafe fn update(address: u64, op: u8, rmw: Rmw, a: u64, c: u64) -> (u64, u64) {
                // SAFETY: the caller has checked that the element lies in a live region and is
                // aligned; all accesses of device memory are atomic.
                let cell = unsafe { <$atomic>::from_ptr(address as *mut $t) };
                let (x, order) = (a as $t, Ordering::SeqCst);
                let old = match op {
                    1 => cell.fetch_add(x, order),
                    2 => cell.fetch_and(x, order),
                    3 => cell.fetch_or(x, order),
                    4 => cell.fetch_xor(x, order),
                    5 => cell.swap(x, order),
                    6 => match cell.compare_exchange(x, c as $t, order, order) {
                        Ok(old) | Err(old) => old,
                    },
                    _ => {
                        let mut old = cell.load(Ordering::Relaxed);
                        loop {
                            let new = rmw(u64::from(old), a, c) as $t;
                            match cell.compare_exchange_weak(old, new, order, Ordering::Relaxed) {
                                Ok(_) => break old,
                                Err(now) => old = now,
                            }
                        }
                    }
                };
                let new = rmw(u64::from(old), u64::from(x), u64::from(c as $t)) as $t;
                (u64::from(old), u64::from(new))
            }
        }
    )* };
}
cell! {
    U16: u16, AtomicU16;
    U32: u32, AtomicU32;
    U64: u64, AtomicU64;
}

/// Changes an element of 4 or 8 bytes by an operation.
///
/// # Safety
/// As for [`Cell::update`].
pub(crate) unsafe fn update(address: u64, bytes: u64, rmw: Rmw, a: u64) {
    // SAFETY: the caller's promise is the same.
    unsafe {
        match bytes {
            4 => U32::update(address, 0, rmw, a, 0),
            _ => U64::update(address, 0, rmw, a, 0),
        };
    }
}

/// An atomic: address in slot a, operand in slot b, the third and the function by the list at `e`, old value to slot d.
pub(crate) struct Atomic<M, D, const HOW: u8>(PhantomData<(M, D)>);

impl<M: Cell, D: Into32, const HOW: u8> Lanes for Atomic<M, D, HOW> {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let mut at = unsafe { addresses(m, i) };
        let want = Wanted { bytes: M::BYTES, align: M::BYTES, write: true };
        let Some(place) = resolve::<HOW>(m, i, mask, want, &mut at) else {
            return Flow::Fault;
        };
        if let Place::Row(start) = place {
            for (lane, address) in at.iter_mut().enumerate() {
                *address = start + lane as u64 * M::BYTES;
            }
        }
        let code = m.code;
        let Some(&rmw) = m.list(i.e & 0xff_ffff).get(1).and_then(|&at| code.rmws.get(at as usize))
        else {
            return Flow::Next;
        };
        let (op, third) =
            ((i.e >> 24) as u8, m.list(i.e & 0xff_ffff).first().copied().unwrap_or(i.b));
        // SAFETY: slots b and c are registers of this width; nothing is written meanwhile.
        let (b, c) = unsafe { (m.lanes::<D>(i.b), m.lanes::<D>(third)) };
        let mut out = [D::ZERO; LANES];
        let mut unchanged = true;
        for lane in lanes(mask) {
            // SAFETY: each active lane's element was checked.
            let (old, new) =
                unsafe { M::update(at[lane], op, rmw, b[lane].bits(), c[lane].bits()) };
            unchanged &= old == new;
            out[lane] = D::of(old);
        }
        // SAFETY: slot d is a register of this width.
        unsafe { D::put(m, i.d, &out, mask) };
        if unchanged {
            // The atomic may poll a lock or a flag: another block may have to run first.
            m.poll(POLL_COST);
        }
        Flow::Next
    }
}

/// `fence` and `membar` of any scope.
pub(crate) struct Fence;
impl Lanes for Fence {
    unsafe fn go(_m: &mut Machine<'_>, _i: &Inst, _mask: u32) -> Flow {
        fence(Ordering::SeqCst);
        Flow::Next
    }
}
