//! Addresses: `cvta`, `isspacep`, addresses of local variables.

use super::{CLUSTER, GENERIC, LOCAL, LOCAL_WINDOW, PARAM, PARAM_WINDOW, SHARED, SHARED_WINDOW};
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::ops::lane::ops;
use crate::space::Kind;

/// Returns where a space's window begins; 0 for global and constant memory.
pub(crate) const fn window(space: u8) -> u64 {
    match space {
        SHARED | CLUSTER => SHARED_WINDOW,
        LOCAL => LOCAL_WINDOW,
        PARAM => PARAM_WINDOW,
        _ => 0,
    }
}

ops! {
    // The mode is the window, added or subtracted. A null pointer is null in every space.
    Cvta64[;] = |window, a: u64| -> u64 { a.wrapping_add(window) }
    Cvta32To64[;] = |window, a: u32| -> u64 { u64::from(a).wrapping_add(window) }
    Cvta64To32[;] = |window, a: u64| -> u32 { a.wrapping_add(window) as u32 }
    // The mode is the window's number.
    IsSpace[;] = |window, a: u64| -> bool { a >> 48 == window }
}

/// `isspacep.global` and `.const` (imm is 1): both lie outside the windows, and a `.const` variable
/// is known by its region.
pub(crate) struct IsGlobalOrConst;
impl Lanes for IsGlobalOrConst {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slot a is a 64-bit register.
        let a = unsafe { m.lanes::<u64>(i.a) };
        let mut bits = 0;
        for lane in lanes(mask) {
            let constant = || m.space.find(a[lane]).is_some_and(|r| r.kind == Kind::Constant);
            if a[lane] >> 48 == 0 && constant() == (i.imm != 0) {
                bits |= 1 << lane;
            }
        }
        // SAFETY: slot d is a predicate.
        unsafe { m.put_pred(i.d, bits, mask) };
        Flow::Next
    }
}

/// The address of a local variable: slot d = the frame's base + imm. `e` says 64 bits, `f` generic.
pub(crate) struct LocalAddress;
impl Lanes for LocalAddress {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let base = m.warp.frame(m.frame).map_or(0, |frame| frame.local_base);
        let window = if i.f != 0 { LOCAL_WINDOW } else { window(GENERIC) };
        let address = u64::from(base).wrapping_add(i.imm).wrapping_add(window);
        if i.e != 0 {
            // SAFETY: slot d is a 64-bit register.
            let d = unsafe { m.lanes_mut::<u64>(i.d) };
            lanes(mask).for_each(|lane| d[lane] = address);
        } else {
            // SAFETY: slot d is a 32-bit register.
            let d = unsafe { m.lanes_mut::<u32>(i.d) };
            lanes(mask).for_each(|lane| d[lane] = address as u32);
        }
        Flow::Next
    }
}
