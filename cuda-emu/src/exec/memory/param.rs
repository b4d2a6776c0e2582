//! Parameters: of the kernel, which all lanes share, and of calls, which lie in the frame.

use std::marker::PhantomData;

use super::element::Mem;
use super::load::Into32;
use crate::exec::inst::{FULL, Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;

/// `ld.param` of a kernel's parameter: offset in imm, to slot d.
pub(crate) struct LoadKernel<M, D>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32> Lanes for LoadKernel<M, D> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let at = m.job.params.as_ptr().wrapping_add(i.imm as usize);
        // SAFETY: the decoder has checked that the element lies in the kernel's parameters, which
        // are a copy as long as the signature says, aligned to 16; and that it is aligned.
        let value = D::of(unsafe { M::load(at.expose_provenance() as u64) });
        if mask == FULL {
            // SAFETY: slot d is a register of this width.
            unsafe { *m.lanes_mut::<D>(i.d) = [value; LANES] };
        } else {
            // SAFETY: slot d is a register of this width.
            let d = unsafe { m.lanes_mut::<D>(i.d) };
            lanes(mask).for_each(|lane| d[lane] = value);
        }
        Flow::Next
    }
}

/// `ld.param` of a call's result or a function's parameter: the variable is at slot a with stride
/// `e`, the offset in imm.
pub(crate) struct LoadFrame<M, D>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32> Lanes for LoadFrame<M, D> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let base = m.regs.wrapping_add(i.a as usize + i.imm as usize);
        // SAFETY: slot d is a register of this width; variables are not registers.
        let d = unsafe { m.lanes_mut::<D>(i.d) };
        for lane in lanes(mask) {
            let at = base.wrapping_add(lane * i.e as usize);
            // SAFETY: the decoder has checked that the element lies in the variable, aligned.
            d[lane] = D::of(unsafe { M::load(at.expose_provenance() as u64) });
        }
        Flow::Next
    }
}

/// `st.param` of a call's argument or a function's result.
pub(crate) struct StoreFrame<M, D>(PhantomData<(M, D)>);

impl<M: Mem, D: Into32> Lanes for StoreFrame<M, D> {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let base = m.regs.wrapping_add(i.a as usize + i.imm as usize);
        // SAFETY: slot d is a register of this width; variables are not registers.
        let d = unsafe { m.lanes::<D>(i.d) };
        for lane in lanes(mask) {
            let at = base.wrapping_add(lane * i.e as usize);
            // SAFETY: the decoder has checked that the element lies in the variable, aligned.
            unsafe { M::store(at.expose_provenance() as u64, d[lane].bits()) };
        }
        Flow::Next
    }
}
