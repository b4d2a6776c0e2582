//! `st.async` and `red.async`: done at once; their bytes complete at an `mbarrier` of the same block.

use crate::exec::decode::Rmw;
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::atomic::Cell;
use crate::exec::memory::element::{Mem, U32, U64};
use crate::exec::memory::resolve::{Wanted, addresses};

/// Address in slot a. The list at `e` has the slot and the offset (low, high) of the `mbarrier`, whether that slot has 32
/// bits, the bytes of an element, the function of `red.async` plus 1, and the slots of the values.
pub(crate) struct Asynchronous;
impl Lanes for Asynchronous {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let &[slot, low, high, narrow, bytes, function, ref values @ ..] = m.list(i.e) else {
            return Flow::Next;
        };
        let offset = u64::from(low) | u64::from(high) << 32;
        // SAFETY: the decoder has set slot c by slot a, and the list by the slot of the `mbarrier`.
        let (at, gates) = unsafe {
            let gate = Inst { a: slot, imm: offset, c: narrow, ..*i };
            (addresses(m, i), addresses(m, &gate))
        };
        let code = m.code;
        let rmw: Option<Rmw> =
            (function as usize).checked_sub(1).and_then(|at| code.rmws.get(at)).copied();
        let (space, element) = ((i.c >> 16) as u8, u64::from(bytes));
        let all = element * values.len() as u64;
        for lane in lanes(mask) {
            let want = Wanted { bytes: all, align: all, write: true };
            let (address, gate) = (at[lane], gates[lane]);
            let to = match m.locate(i, space, lane, address, want) {
                Ok(host) => host,
                Err((code, why)) => return m.fail_access(code, lane, address, space, want, &why),
            };
            let block = |m: &Machine<'_>, at| m.target(space, at).map(|target| target.rank);
            if block(m, address).is_none() || block(m, address) != block(m, gate) {
                let what = format!(
                    "the bytes at {address:#x} and their mbarrier at {gate:#x} are not in the shared memory of one block"
                );
                return m.fail(Code::IllegalAddress, lane, what);
            }
            for (number, &slot) in (0..).zip(values) {
                let host = to + element * number;
                // SAFETY: the values have the width of an element, whose bytes were checked.
                unsafe {
                    if element == 8 {
                        let value = m.lanes::<u64>(slot)[lane];
                        match rmw {
                            Some(rmw) => drop(U64::update(host, 0, rmw, value, 0)),
                            None => U64::store(host, value),
                        }
                    } else {
                        let value = m.lanes::<u32>(slot)[lane].into();
                        match rmw {
                            Some(rmw) => drop(U32::update(host, 0, rmw, value, 0)),
                            None => U32::store(host, value),
                        }
                    }
                }
            }
            if let Some(flow) = m.complete_bytes(i, space, lane, gate, all) {
                return flow;
            }
        }
        Flow::Next
    }
}
