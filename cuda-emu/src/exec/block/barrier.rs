//! The sixteen barriers of a block.

use crate::exec::check::clock::Clock;
use crate::exec::control::warp::{Split, State, Warp};
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;

/// The operation of `bar`, in imm; bit 8 negates the predicate in slot c.
pub(crate) mod mode {
    pub(crate) const SYNC: u64 = 0;
    pub(crate) const ARRIVE: u64 = 1;
    pub(crate) const POPC: u64 = 2;
    pub(crate) const AND: u64 = 3;
    pub(crate) const OR: u64 = 4;
}

/// A barrier between two completions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    /// The lanes of each warp that have come.
    arrived: Vec<u32>,
    /// Threads that it waits for; 0 for all.
    threads: u32,
    /// How many came with a true predicate, and with any.
    yes: u32,
    all: u32,
    waited: bool,
    /// The clocks of the threads that have arrived, while that is checked.
    published: Clock,
}

impl Barrier {
    pub(crate) fn reset(&mut self) {
        self.arrived.clear();
        (self.threads, self.yes, self.all, self.waited) = (0, 0, 0, false);
        self.published = Clock::default();
    }

    fn arrive(&mut self, warp: u32, lanes: u32, threads: u32, yes: u32) {
        let at = warp as usize;
        if self.arrived.len() <= at {
            self.arrived.resize(at + 1, 0);
        }
        self.arrived[at] |= lanes;
        self.threads = threads;
        self.yes += yes.count_ones();
        self.all += lanes.count_ones();
        self.waited = true;
    }

    /// Returns whether everybody has come. `live` gives each warp's lanes that have not ended.
    fn complete(&self, warps: usize, live: impl Fn(usize) -> u32) -> bool {
        let arrived = |at: usize| self.arrived.get(at).copied().unwrap_or(0);
        if self.threads == 0 {
            return (0..warps).all(|at| live(at) & !arrived(at) == 0);
        }
        // Warps count as a whole: lanes that have ended or never existed count as arrived.
        let count: u32 = (0..warps)
            .map(|at| match arrived(at) {
                0 => 0,
                here if live(at) & !here == 0 => LANES as u32,
                here => here.count_ones(),
            })
            .sum();
        count >= self.threads
    }
}

impl Machine<'_> {
    /// Lets the lanes that wait at a barrier go on, if it is complete.
    fn check_barrier(&mut self, id: u8) {
        let (current, own) = (self.warp.index as usize, self.warp.live);
        let Some(barrier) = self.block.barriers.get(usize::from(id)) else { return };
        let warps = &self.block.warps;
        let live = |at: usize| if at == current { own } else { warps[at].live };
        if !barrier.waited || !barrier.complete(warps.len(), live) {
            return;
        }
        let (yes, all) = (barrier.yes, barrier.all);
        let published = std::mem::take(&mut self.block.barriers[usize::from(id)].published);
        self.block.barriers[usize::from(id)].reset();
        let program = self.job.program;
        let mut wake = |warp: &mut Warp| {
            for at in 0..warp.splits.len() {
                let split = warp.splits[at];
                if split.state != State::Barrier(id) {
                    continue;
                }
                warp.splits[at].state = State::Ready;
                if let Some(check) = &mut self.block.check {
                    check.wake(&published, warp.index, split.mask);
                }
                let Some(frame) = warp.frame(split.frame) else { continue };
                let code = program.code(frame.function);
                let Some(inst) = code.insts.get(split.pc as usize - 1) else { continue };
                let to = frame.registers.start().wrapping_add(inst.d as usize);
                // SAFETY: slot d of a reduction is a register or predicate of the split's frame.
                unsafe { write_result(to, inst.imm & 255, split.mask, yes, all) };
            }
            merge(&mut warp.splits);
        };
        wake(&mut self.warp);
        self.block.warps.iter_mut().for_each(wake);
    }

    /// Lanes have ended: barriers may have waited for them alone.
    pub(crate) fn recheck_barriers(&mut self) {
        for id in 0..self.block.barriers.len() {
            if self.block.barriers[id].waited {
                self.check_barrier(id as u8);
            }
        }
    }
}

/// Writes the result of a reduction.
///
/// # Safety
/// `to` is the destination of a `bar.red` with this mode.
unsafe fn write_result(to: *mut u8, op: u64, mask: u32, yes: u32, all: u32) {
    let bit = match op {
        mode::POPC => {
            // SAFETY: the caller's promise: 32 values of 32 bits.
            let d = unsafe { &mut *to.cast::<[u32; LANES]>() };
            lanes(mask).for_each(|lane| d[lane] = yes);
            return;
        }
        mode::AND => yes == all,
        mode::OR => yes != 0,
        _ => return,
    };
    // SAFETY: the caller's promise: a predicate.
    let d = unsafe { &mut *to.cast::<u32>() };
    *d = (*d & !mask) | if bit { mask } else { 0 };
}

/// Splits that are at the same place of the same frame and join become one.
pub(crate) fn merge(splits: &mut Vec<Split>) {
    let mut at = 0;
    while at < splits.len() {
        let split = splits[at];
        let same = |s: &Split| {
            s.state == State::Ready
                && split.state == State::Ready
                && (s.pc, s.frame, s.join) == (split.pc, split.frame, split.join)
        };
        match splits[..at].iter().position(same) {
            Some(first) => {
                splits[first].mask |= split.mask;
                splits.remove(at);
            }
            None => at += 1,
        }
    }
}

/// `bar` and `barrier`: number in slot a, threads in slot b, predicate in slot c.
pub(crate) struct Bar;
impl Lanes for Bar {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let lane = mask.trailing_zeros() as usize & 31;
        // SAFETY: a and b are 32-bit registers, c is a predicate.
        let (id, threads, set) =
            unsafe { (m.lanes::<u32>(i.a)[lane], m.lanes::<u32>(i.b)[lane], m.pred(i.c)) };
        if id >= 16 {
            return m.fail(Code::IllegalInstruction, lane, format!("barrier {id} of 16"));
        }
        let yes = (set ^ if i.imm & 256 != 0 { u32::MAX } else { 0 }) & mask;
        let index = m.warp.index;
        m.block.barriers[id as usize].arrive(index, mask, threads, yes);
        if let Some(check) = &mut m.block.check {
            check.clocks.arrive(&mut m.block.barriers[id as usize].published, index, mask);
        }
        if i.imm & 255 == mode::ARRIVE {
            m.check_barrier(id as u8);
            return Flow::Next;
        }
        let rest = m.mask & !mask;
        let pc = m.pc + 1;
        let split = Split { mask, ..m.current(pc, State::Barrier(id as u8)) };
        m.warp.splits.push(split);
        if rest != 0 {
            let split = Split { mask: rest, ..m.current(pc, State::Ready) };
            m.warp.splits.push(split);
        }
        m.check_barrier(id as u8);
        Flow::Leave
    }
}
