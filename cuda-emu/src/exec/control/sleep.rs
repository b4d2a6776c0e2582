//! `nanosleep`: lanes that go on when a time has passed.

use super::warp::{Split, State, Warp};
use crate::exec::block::barrier::merge;
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;

/// Nanoseconds that a thread sleeps at most, as on a GPU.
const LONGEST: u32 = 1_000_000;

/// `nanosleep` of the nanoseconds in slot a. Lanes that sleep together sleep as long as the longest of them.
pub(crate) struct Nanosleep;
impl Lanes for Nanosleep {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slot a is a 32-bit register.
        let times = unsafe { m.lanes::<u32>(i.a) };
        let longest = lanes(mask).map(|lane| times[lane]).max().unwrap_or(0).min(LONGEST);
        let until = m.nanoseconds().saturating_add(longest.into());
        // Others may have to run meanwhile, also blocks that have not begun.
        (m.polled, m.slept) = (true, true);
        let (rest, pc) = (m.mask & !mask, m.pc + 1);
        let split = Split { mask, ..m.current(pc, State::Asleep(until)) };
        m.warp.splits.push(split);
        if rest != 0 {
            let split = Split { mask: rest, ..m.current(pc, State::Ready) };
            m.warp.splits.push(split);
        }
        Flow::Leave
    }
}

impl Warp {
    /// Returns when the first of its lanes that sleep goes on.
    pub(crate) fn asleep(&self) -> Option<u64> {
        let until = |split: &Split| match split.state {
            State::Asleep(until) => Some(until),
            _ => None,
        };
        self.splits.iter().filter_map(until).min()
    }

    /// Wakes the lanes whose time has passed at `now`.
    pub(crate) fn wake(&mut self, now: u64) {
        for split in &mut self.splits {
            if matches!(split.state, State::Asleep(until) if until <= now) {
                split.state = State::Ready;
            }
        }
        merge(&mut self.splits);
    }
}

impl Machine<'_> {
    /// Wakes lanes of a warp of the block. Returns whether some still sleep.
    pub(crate) fn wake_sleepers(&mut self, warp: usize) -> bool {
        let Some(until) = self.block.warps[warp].asleep() else { return false };
        let now = self.nanoseconds();
        if until <= now {
            self.block.warps[warp].wake(now);
        }
        let left = self.block.warps[warp].asleep();
        self.earliest = self.earliest.min(left.unwrap_or(u64::MAX));
        left.is_some()
    }

    /// Sleeps until the first lane of the worker goes on, if all that it runs sleep.
    pub(crate) fn sleep(&mut self) {
        let left =
            std::mem::replace(&mut self.earliest, u64::MAX).saturating_sub(self.nanoseconds());
        // The system takes longer to wake a thread than a short sleep lasts.
        if left > 20_000 {
            std::thread::sleep(std::time::Duration::from_nanos(left.min(LONGEST.into())));
        } else {
            std::thread::yield_now();
        }
    }
}
