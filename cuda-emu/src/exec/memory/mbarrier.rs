//! `mbarrier`: objects of 64 bits in shared memory, opaque to the program.
//!
//! Bits 0 to 19 are the arrivals that the phase still waits for, 20 to 39 those of each phase, 40
//! the phase's parity, 41 up the bytes of transactions that are expected, signed.

use super::element::{Mem, U64};
use super::load::POLL_COST;
use super::resolve::{Wanted, addresses};
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, Lanes, SLOT_NONE, lanes};
use crate::exec::machine::Machine;
use crate::exec::ops::lane::gather_bits;

/// The operation, in slot e.
pub(crate) mod action {
    pub(crate) const INIT: u32 = 0;
    pub(crate) const INVALIDATE: u32 = 1;
    pub(crate) const ARRIVE: u32 = 2;
    pub(crate) const ARRIVE_DROP: u32 = 3;
    pub(crate) const ARRIVE_EXPECT: u32 = 4;
    pub(crate) const EXPECT: u32 = 5;
    pub(crate) const COMPLETE: u32 = 6;
    /// `test_wait` with a state, and with a parity.
    pub(crate) const WAIT: u32 = 7;
    pub(crate) const WAIT_PARITY: u32 = 8;
}

const COUNT: u64 = (1 << 20) - 1;
const PARITY: u64 = 1 << 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    pending: u64,
    expected: u64,
    parity: bool,
    bytes: i64,
}

impl State {
    fn of(bits: u64) -> Self {
        Self {
            pending: bits & COUNT,
            expected: bits >> 20 & COUNT,
            parity: bits & PARITY != 0,
            bytes: bits.cast_signed() >> 41,
        }
    }

    fn bits(self) -> u64 {
        self.pending & COUNT
            | (self.expected & COUNT) << 20
            | u64::from(self.parity) << 40
            | self.bytes.cast_unsigned() << 41
    }

    /// The phase ends when nothing is waited for.
    fn check(mut self) -> Self {
        if self.pending == 0 && self.bytes == 0 {
            self.parity = !self.parity;
            self.pending = self.expected;
        }
        self
    }

    fn apply(mut self, action: u32, count: u64) -> Self {
        match action {
            action::INIT => Self { pending: count, expected: count, parity: false, bytes: 0 },
            action::ARRIVE => {
                self.pending = self.pending.saturating_sub(count);
                self.check()
            }
            action::ARRIVE_DROP => {
                self.pending = self.pending.saturating_sub(count);
                self.expected = self.expected.saturating_sub(count);
                self.check()
            }
            action::ARRIVE_EXPECT => {
                self.bytes += count as i64;
                self.pending = self.pending.saturating_sub(1);
                self.check()
            }
            action::EXPECT => {
                self.bytes += count as i64;
                self
            }
            action::COMPLETE => {
                self.bytes -= count as i64;
                self.check()
            }
            _ => self,
        }
    }
}

/// Returns whether an action is only for an `mbarrier` of the thread's own block: it sets the state, or tells of it.
fn needs_own(i: &Inst) -> bool {
    use action::{ARRIVE, ARRIVE_DROP, ARRIVE_EXPECT, INIT, INVALIDATE, WAIT, WAIT_PARITY};
    match i.e {
        INIT | INVALIDATE | WAIT | WAIT_PARITY => true,
        ARRIVE | ARRIVE_DROP | ARRIVE_EXPECT => i.d != SLOT_NONE,
        _ => false,
    }
}

/// An action: the address in slot a, a count or parity (32 bits) or a state (64) in slot b, the
/// state before or the result to slot d.
pub(crate) struct Mbarrier;
impl Lanes for Mbarrier {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let at = unsafe { addresses(m, i) };
        let space = (i.c >> 16) as u8;
        let mut done = [false; 32];
        for lane in lanes(mask) {
            let want = Wanted { bytes: 8, align: 8, write: true };
            let host = match m.locate(i, space, lane, at[lane], want) {
                Ok(host) => host,
                Err((code, why)) => {
                    return m.fail_access(code, lane, at[lane], space, want, &why);
                }
            };
            let other =
                m.target(space, at[lane]).is_some_and(|of| of.rank != u64::from(m.block.rank));
            if other && needs_own(i) {
                let why = "of an mbarrier of another block the state can neither be set nor read";
                return m.fail_access(Code::IllegalAddress, lane, at[lane], space, want, why);
            }
            // SAFETY: the element was checked.
            let old = unsafe { U64::load(host) };
            let state = State::of(old);
            match i.e {
                action::WAIT => {
                    // SAFETY: slot b has 64 bits here.
                    let token = unsafe { m.lanes::<u64>(i.b)[lane] };
                    done[lane] = State::of(token).parity != state.parity;
                }
                action::WAIT_PARITY => {
                    // SAFETY: slot b has 32 bits here.
                    let parity = unsafe { m.lanes::<u32>(i.b)[lane] };
                    done[lane] = (parity & 1 != 0) != state.parity;
                }
                action => {
                    // SAFETY: slot b has 32 bits here.
                    let count = unsafe { m.lanes::<u32>(i.b)[lane] };
                    let new = state.apply(action, count.into());
                    // SAFETY: the element was checked, for writing.
                    unsafe { U64::store(host, new.bits()) };
                    // SAFETY: slot d is a 64-bit register.
                    unsafe { m.lanes_mut::<u64>(i.d)[lane] = old };
                }
            }
            if let Some(check) = &mut m.block.check {
                let (gates, warp) = (&mut m.cluster.gates, m.warp.index);
                let waits = matches!(i.e, action::WAIT | action::WAIT_PARITY);
                match (waits, done[lane]) {
                    (true, true) => check.wait(gates, host, warp, lane),
                    (true, false) => {}
                    (false, _) => check.arrive(gates, host, warp, lane),
                }
            }
        }
        if matches!(i.e, action::WAIT | action::WAIT_PARITY) {
            let bits = gather_bits(&done);
            // SAFETY: slot d is a predicate here.
            unsafe { m.put_pred(i.d, bits, mask) };
            if bits & mask != mask {
                m.poll(POLL_COST);
            }
        }
        Flow::Next
    }
}

impl Machine<'_> {
    /// Completes bytes of a lane's asynchronous store at the `mbarrier` at `at`. Returns the fault, if there is one.
    pub(crate) fn complete_bytes(
        &mut self,
        i: &Inst,
        space: u8,
        lane: usize,
        at: u64,
        bytes: u64,
    ) -> Option<Flow> {
        let want = Wanted { bytes: 8, align: 8, write: true };
        let host = match self.locate(i, space, lane, at, want) {
            Ok(host) => host,
            Err((code, why)) => {
                return Some(self.fail_access(code, lane, at, space, want, &why));
            }
        };
        // SAFETY: the element was checked, for writing.
        unsafe {
            let state = State::of(U64::load(host)).apply(action::COMPLETE, bytes);
            U64::store(host, state.bits());
        }
        if let Some(check) = &mut self.block.check {
            check.arrive(&mut self.cluster.gates, host, self.warp.index, lane);
        }
        None
    }
}

/// `mbarrier.pending_count`: of the state in slot a.
pub(crate) struct Pending;
impl Lanes for Pending {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slot a is a 64-bit register, d a 32-bit one.
        let (a, d) = unsafe { (m.lanes::<u64>(i.a), m.lanes_mut::<u32>(i.d)) };
        lanes(mask).for_each(|lane| d[lane] = State::of(a[lane]).pending as u32);
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::{State, action};

    #[test]
    fn a_phase_ends_with_its_last_arrival_and_byte() {
        let state = State::of(0).apply(action::INIT, 2).apply(action::ARRIVE_EXPECT, 64);
        assert_eq!(State::of(state.bits()), state);
        let state = state.apply(action::ARRIVE, 1);
        assert!(!state.parity, "64 bytes are missing");
        let state = State::of(state.bits()).apply(action::COMPLETE, 64);
        assert!(state.parity);
        assert_eq!((state.pending, state.bytes), (2, 0));
        let state = state.apply(action::ARRIVE_DROP, 1).apply(action::ARRIVE, 1);
        assert!(!state.parity);
        assert_eq!(state.pending, 1);
    }
}
