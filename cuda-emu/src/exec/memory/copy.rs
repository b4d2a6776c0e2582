//! `cp.async`: done at once; its groups are always complete.

use super::element::{Mem, U8};
use super::resolve::{Wanted, addresses};
use super::{GLOBAL, SHARED};
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;

/// The list at `e`: source address, source bytes, slot of the predicate that asks for zeros, whether
/// it is negated, bytes, the source's offset (low and high), the destination's space.
pub(crate) struct CpAsync;
impl Lanes for CpAsync {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let to = unsafe { addresses(m, i) };
        let &[source, source_bytes, zeros, negated, bytes, low, high] = m.list(i.e) else {
            return Flow::Next;
        };
        let offset = u64::from(low) | u64::from(high) << 32;
        // SAFETY: the source's address has 64 bits, its size 32; the third is a predicate.
        let (from, given, zeros) =
            unsafe { (m.lanes::<u64>(source), m.lanes::<u32>(source_bytes), m.pred(zeros)) };
        let zeros = if negated != 0 { !zeros } else { zeros };
        let bytes = u64::from(bytes);
        for lane in lanes(mask) {
            let want = Wanted { bytes, align: bytes, write: true };
            let to = match m.locate(i, SHARED, lane, to[lane], want) {
                Ok(host) => host,
                Err((code, why)) => {
                    return m.fail_access(code, lane, to[lane], SHARED, want, &why);
                }
            };
            let read = if zeros >> lane & 1 != 0 { 0 } else { bytes.min(given[lane].into()) };
            let mut data = [0u64; 16];
            if read != 0 {
                let address = from[lane].wrapping_add(offset);
                let want = Wanted { bytes: read, align: bytes, write: false };
                let host = match m.locate(i, GLOBAL, lane, address, want) {
                    Ok(host) => host,
                    Err((code, why)) => {
                        return m.fail_access(code, lane, address, GLOBAL, want, &why);
                    }
                };
                for (at, byte) in data.iter_mut().enumerate().take(read as usize) {
                    // SAFETY: the bytes were checked.
                    *byte = unsafe { U8::load(host + at as u64) };
                }
            }
            for (at, &byte) in data.iter().enumerate().take(bytes as usize) {
                // SAFETY: the bytes were checked, for writing.
                unsafe { U8::store(to + at as u64, byte) };
            }
        }
        Flow::Next
    }
}
