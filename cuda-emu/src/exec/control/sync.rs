//! `.sync` instructions: they wait for the lanes that they name, save those that have ended.

use super::warp::{Split, State};
use crate::exec::inst::{Flow, Inst, Lanes, lanes};
use crate::exec::machine::Machine;

/// The next step of a `.sync` instruction.
pub(crate) enum Meeting {
    /// All lanes are there: these execute it.
    Together(u32),
    /// Some are missing: the split waits.
    Wait(Flow),
}

impl Machine<'_> {
    /// Returns the lanes named by any of the masks in a slot, of those that live.
    ///
    /// # Safety
    /// `slot` is a 32-bit register of the frame.
    unsafe fn named(&self, slot: u32, mask: u32) -> u32 {
        // SAFETY: the caller's promise.
        let masks = unsafe { self.lanes::<u32>(slot) };
        lanes(mask).fold(0, |all, lane| all | masks[lane]) & self.warp.live
    }

    /// Meets the lanes that the instruction names, at this instruction of this frame.
    ///
    /// # Safety
    /// `slot` is a 32-bit register of the frame.
    pub(crate) unsafe fn meet(&mut self, slot: u32, mask: u32) -> Meeting {
        // SAFETY: the caller's promise.
        let need = unsafe { self.named(slot, mask) };
        if need & !mask == 0 {
            return Meeting::Together(mask);
        }
        let (pc, frame, live) = (self.pc, self.frame, self.warp.live);
        let waits = |s: &Split| match s.state {
            State::Sync(need) if s.pc == pc && s.frame == frame => Some(need & live),
            _ => None,
        };
        let (mut there, mut need) = (mask, need);
        for split in &self.warp.splits {
            if let Some(more) = waits(split) {
                there |= split.mask;
                need |= more;
            }
        }
        if need & !there != 0 {
            return Meeting::Wait(self.wait_as(mask, State::Sync(need)));
        }
        let join = self.join;
        let mut merged = 0;
        self.warp.splits.retain_mut(|split| {
            if waits(split).is_none() {
                return true;
            }
            if split.join == join {
                merged |= split.mask;
                return false;
            }
            split.state = State::Ready;
            split.pc = pc + 1;
            true
        });
        self.mask |= merged;
        Meeting::Together(there)
    }

    /// Returns the lanes of `mask` wait at the current instruction; the others of the split go on.
    fn wait_as(&mut self, mask: u32, state: State) -> Flow {
        let rest = self.mask & !mask;
        let split = Split { mask, ..self.current(self.pc, state) };
        self.warp.splits.push(split);
        if rest != 0 {
            let split = Split { mask: rest, ..self.current(self.pc + 1, State::Ready) };
            self.warp.splits.push(split);
        }
        Flow::Leave
    }

    /// Wakes a split whose missing lanes have come or ended. False if there is none.
    pub(crate) fn wake_sync(&mut self) -> bool {
        let live = self.warp.live;
        for at in 0..self.warp.splits.len() {
            let split = self.warp.splits[at];
            let there = |same: &dyn Fn(&Split) -> bool| {
                self.warp.splits.iter().filter(|s| same(s)).fold((0, 0), |(there, need), s| match s
                    .state
                {
                    State::Sync(more) | State::WarpBarrier(more) => {
                        (there | s.mask, need | more & live)
                    }
                    _ => (there, need),
                })
            };
            let (there, need) = match split.state {
                State::Sync(_) => there(&|s| {
                    matches!(s.state, State::Sync(_)) && s.pc == split.pc && s.frame == split.frame
                }),
                State::WarpBarrier(_) => there(&|s| s.state == split.state),
                _ => continue,
            };
            if need & !there == 0 {
                self.warp.splits[at].state = State::Ready;
                return true;
            }
        }
        false
    }
}

/// `bar.warp.sync` of the lanes in slot a: it waits for each of them to execute one with the same mask,
/// wherever that stands.
pub(crate) struct BarWarp;
impl Lanes for BarWarp {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slot a is a 32-bit register.
        let need = unsafe { m.named(i.a, mask) };
        if need & !mask == 0 {
            return m.pass(mask);
        }
        // SAFETY: as above.
        let masks = unsafe { m.lanes::<u32>(i.a) };
        let value = masks[mask.trailing_zeros() as usize];
        let others = lanes(mask).filter(|&lane| masks[lane] != value);
        let others = others.fold(0, |all, lane| all | 1 << lane);
        if others != 0 {
            // Lanes with another mask wait at another barrier, so they execute this again.
            let split = Split { mask: others, ..m.current(m.pc, State::Ready) };
            m.warp.splits.push(split);
            m.mask &= !others;
        }
        let (mask, state) = (mask & !others, State::WarpBarrier(value));
        let waiting = m.warp.splits.iter().filter(|split| split.state == state);
        let there = waiting.fold(mask, |there, split| there | split.mask);
        if value & m.warp.live & !there != 0 {
            return m.wait_as(mask, state);
        }
        if there != mask {
            let (pc, frame, join) = (m.pc, m.frame, m.join);
            let mut merged = 0;
            m.warp.splits.retain_mut(|split| {
                if split.state != state {
                    return true;
                }
                if split.join == join && split.frame == frame && split.pc == pc {
                    merged |= split.mask;
                    return false;
                }
                split.state = State::Ready;
                split.pc += 1;
                true
            });
            m.mask |= merged;
        }
        m.pass(there)
    }
}

impl Machine<'_> {
    /// These lanes have met at a barrier of the warp.
    fn pass(&mut self, there: u32) -> Flow {
        if let Some(check) = &mut self.block.check {
            check.clocks.meet(&[(self.warp.index, there)]);
        }
        Flow::Next
    }
}
