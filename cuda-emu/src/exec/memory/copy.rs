//! `cp.async`: done at once; its groups are always complete.

use std::array::from_fn;

use super::element::{Mem, U8};
use super::resolve::{Wanted, addresses};
use super::{GLOBAL, SHARED};
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;

/// The copy of a `cp.async` by its lanes.
pub(crate) struct Copies {
    /// The addresses of the destination, in shared memory.
    pub(crate) to: [u64; LANES],
    /// The addresses of the source, in device memory.
    pub(crate) from: [u64; LANES],
    /// How many bytes come from the source; zeros follow.
    pub(crate) given: [u64; LANES],
    /// How many bytes are written.
    pub(crate) bytes: u64,
}

impl Copies {
    /// Takes the list at `e` apart: source address, source bytes, slot of the predicate that asks for
    /// zeros, whether it is negated, bytes, the source's offset (low and high).
    ///
    /// # Safety
    /// `i` is a `cp.async` as the decoder has made it.
    pub(crate) unsafe fn of(m: &Machine<'_>, i: &Inst) -> Option<Self> {
        // SAFETY: the decoder has set slot c by slot a.
        let to = unsafe { addresses(m, i) };
        let &[source, source_bytes, zeros, negated, bytes, low, high] = m.list(i.e) else {
            return None;
        };
        let offset = u64::from(low) | u64::from(high) << 32;
        // SAFETY: the source's address has 64 bits, its size 32; the third is a predicate.
        let (from, given, zeros) =
            unsafe { (m.lanes::<u64>(source), m.lanes::<u32>(source_bytes), m.pred(zeros)) };
        let zeros = if negated != 0 { !zeros } else { zeros };
        let given = |lane: usize| if zeros >> lane & 1 != 0 { 0 } else { bytes.min(given[lane]) };
        Some(Self {
            to,
            from: from_fn(|lane| from[lane].wrapping_add(offset)),
            given: from_fn(|lane| given(lane).into()),
            bytes: bytes.into(),
        })
    }
}

/// The operands are those of [`Copies::of`].
pub(crate) struct CpAsync;
impl Lanes for CpAsync {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder makes this of a `cp.async` only.
        let Some(Copies { to, from, given, bytes }) = (unsafe { Copies::of(m, i) }) else {
            return Flow::Next;
        };
        for lane in lanes(mask) {
            let want = Wanted { bytes, align: bytes, write: true };
            let to = match m.locate(i, SHARED, lane, to[lane], want) {
                Ok(host) => host,
                Err((code, why)) => {
                    return m.fail_access(code, lane, to[lane], SHARED, want, &why);
                }
            };
            let (address, read) = (from[lane], given[lane]);
            let mut data = [0u64; 16];
            if read != 0 {
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
            if let Some(store) = m.space.tangent_store() {
                let mut held = store.lock();
                held.clear(to, bytes);
                held.copy(address, to, read);
            }
        }
        Flow::Next
    }
}
