//! Branches and where their paths meet, and the end of threads.

use super::warp::{Join, NONE, RETURN, Split, State};
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, Lanes};
use crate::exec::machine::Machine;

impl Machine<'_> {
    /// Goes on at `target` with the whole split.
    #[inline(always)]
    fn jump(&mut self, target: u32) -> Flow {
        self.pc = target;
        self.fuel -= 1;
        if self.fuel < 0 { Flow::Expired } else { Flow::Jump }
    }

    /// Returns the join at `pc` for the lanes of the current split: the split's join, or a new one inside.
    fn join_at(&mut self, pc: u32) -> u32 {
        if self.join != NONE {
            let join = &self.warp.joins[self.join as usize];
            if join.pc == pc && join.frame == self.frame {
                return self.join;
            }
        }
        let (frame, parent, expected) = (self.frame, self.join, self.mask);
        self.warp.new_join(Join { pc, frame, parent, expected, arrived: 0 })
    }

    /// Sends each group of lanes to its target. The groups are disjoint, not empty, and together
    /// the current split; paths meet at `meet`.
    fn diverge(&mut self, groups: &[(u32, u32)], meet: u32) -> Flow {
        if meet != NONE {
            self.join = self.join_at(meet);
        }
        let mut first = None;
        for &(target, lanes) in groups {
            if target == meet {
                self.warp.joins[self.join as usize].arrived |= lanes;
            } else if first.is_none() {
                first = Some((target, lanes));
            } else {
                let (frame, join) = (self.frame, self.join);
                let split = Split { pc: target, mask: lanes, frame, join, state: State::Ready };
                self.warp.splits.push(split);
            }
        }
        let Some((target, lanes)) = first else {
            // All groups have reached the join at once, which two groups of one branch don't.
            return Flow::Leave;
        };
        self.mask = lanes;
        self.jump(target)
    }
}

/// `bra`: to `f`, paths meet at `e`.
pub(crate) struct Bra;
impl Lanes for Bra {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        if mask == m.mask {
            return m.jump(i.f);
        }
        let next = m.pc + 1;
        if i.f == next {
            return Flow::Next;
        }
        let (taken, rest) = ((i.f, mask), (next, m.mask & !mask));
        // Loops first: lanes that leave a loop wait after it.
        let groups = if i.f <= m.pc { [taken, rest] } else { [rest, taken] };
        m.diverge(&groups, i.e)
    }
}

/// `brx.idx`: by slot a through the table at `f`, paths meet at `e`.
pub(crate) struct BrxIdx;
impl Lanes for BrxIdx {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: slot a is a 32-bit register.
        let index = unsafe { m.lanes::<u32>(i.a) };
        let table = m.list(i.f);
        let mut groups: Vec<(u32, u32)> = Vec::new();
        let mut add = |target: u32, lanes: u32| match groups.iter_mut().find(|g| g.0 == target) {
            Some(group) => group.1 |= lanes,
            None => groups.push((target, lanes)),
        };
        for lane in crate::exec::inst::lanes(mask) {
            let Some(&target) = table.get(index[lane] as usize) else {
                let text = format!(
                    "brx.idx: index {} is outside its table of {} labels",
                    index[lane],
                    table.len()
                );
                return m.fail(Code::InvalidPc, lane, text);
            };
            add(target, 1 << lane);
        }
        if mask != m.mask {
            add(m.pc + 1, m.mask & !mask);
        }
        if let [(target, _)] = groups[..] {
            return m.jump(target);
        }
        m.diverge(&groups, i.e)
    }
}

/// The place where paths meet: lanes whose join this is wait here for their siblings.
pub(crate) struct Meet;
impl Lanes for Meet {
    #[inline(always)]
    unsafe fn go(m: &mut Machine<'_>, _i: &Inst, mask: u32) -> Flow {
        m.lane_instructions = m.lane_instructions.wrapping_sub(u64::from(mask.count_ones()));
        if m.join == NONE {
            return Flow::Next;
        }
        let join = &m.warp.joins[m.join as usize];
        if join.pc != m.pc || join.frame != m.frame {
            return Flow::Next;
        }
        m.arrive(m.join, mask)
    }
}

/// `exit`, and `ret` of a kernel.
pub(crate) struct Exit;
impl Lanes for Exit {
    unsafe fn go(m: &mut Machine<'_>, _i: &Inst, mask: u32) -> Flow {
        m.exit(mask)
    }
}

/// `ret` of a function.
pub(crate) struct Ret;
impl Lanes for Ret {
    unsafe fn go(m: &mut Machine<'_>, _i: &Inst, mask: u32) -> Flow {
        let Some(frame) = m.warp.frame(m.frame) else { return m.exit(mask) };
        let (join, saved) = (frame.join, frame.saved_top);
        m.hand_back(mask);
        for lane in crate::exec::inst::lanes(mask) {
            m.warp.top[lane] = saved[lane];
        }
        let rest = m.mask & !mask;
        m.leave_joins(mask, join);
        if rest != 0 {
            m.mask = rest;
            m.warp.joins[join as usize].arrived |= mask;
            return Flow::Next;
        }
        debug_assert_eq!(m.warp.joins[join as usize].pc, RETURN);
        m.arrive(join, mask)
    }
}

/// `trap`; with 1 in imm `brkpt`, which is a trap where no debugger waits for it.
pub(crate) struct Trap;
impl Lanes for Trap {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let what = if i.imm == 0 { "trap" } else { "brkpt, and no debugger is attached" };
        m.fail(Code::LaunchFailed, mask.trailing_zeros() as usize, what.to_owned())
    }
}

/// An instruction that does nothing here.
pub(crate) struct Nop;
impl Lanes for Nop {
    unsafe fn go(_m: &mut Machine<'_>, _i: &Inst, _mask: u32) -> Flow {
        Flow::Next
    }
}
