//! The splits, joins and frames of a warp, and which split runs.

use super::frame::{Frame, Registers};
use crate::exec::inst::{Flow, LANES};
use crate::exec::machine::Machine;

/// No join, no frame.
pub(crate) const NONE: u32 = u32::MAX;
/// The place of a join whose lanes return from their frame.
pub(crate) const RETURN: u32 = u32::MAX;

/// The condition that a split waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// A barrier of the block.
    Barrier(u8),
    /// The barrier of the cluster.
    Cluster,
    /// The time since the launch, in nanoseconds.
    Asleep(u64),
    /// The lanes that a `.sync` instruction names, to execute it together.
    Sync(u32),
    /// The lanes that a `bar.warp.sync` with this mask names, wherever they are.
    WarpBarrier(u32),
}

/// Lanes at one place of one frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Split {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) frame: u32,
    pub(crate) join: u32,
    pub(crate) state: State,
}

/// A place where the paths of a branch meet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Join {
    pub(crate) pc: u32,
    pub(crate) frame: u32,
    pub(crate) parent: u32,
    /// Lanes that are on their way here, or wait here.
    pub(crate) expected: u32,
    /// Lanes that wait here.
    pub(crate) arrived: u32,
}

/// A warp's control state.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Its number in the block.
    pub(crate) index: u32,
    /// Lanes that have not exited.
    pub(crate) live: u32,
    pub(crate) splits: Vec<Split>,
    pub(crate) joins: Vec<Join>,
    free_joins: Vec<u32>,
    pub(crate) frames: Vec<Option<Box<Frame>>>,
    free_frames: Vec<u32>,
    /// Local memory: a stack for each lane.
    pub(crate) local: Option<Registers>,
    /// Bytes of it that each lane uses.
    pub(crate) top: [u32; LANES],
}

impl Default for Warp {
    fn default() -> Self {
        Self {
            index: 0,
            live: 0,
            splits: Vec::new(),
            joins: Vec::new(),
            free_joins: Vec::new(),
            frames: Vec::new(),
            free_frames: Vec::new(),
            local: None,
            top: [0; LANES],
        }
    }
}

impl Warp {
    pub(crate) fn new_join(&mut self, join: Join) -> u32 {
        if let Some(at) = self.free_joins.pop() {
            self.joins[at as usize] = join;
            return at;
        }
        self.joins.push(join);
        (self.joins.len() - 1) as u32
    }

    pub(crate) fn new_frame(&mut self, frame: Box<Frame>) -> u32 {
        if let Some(at) = self.free_frames.pop() {
            self.frames[at as usize] = Some(frame);
            return at;
        }
        self.frames.push(Some(frame));
        (self.frames.len() - 1) as u32
    }

    pub(crate) fn take_frame(&mut self, at: u32) -> Option<Box<Frame>> {
        let frame = self.frames.get_mut(at as usize)?.take();
        if frame.is_some() {
            self.free_frames.push(at);
        }
        frame
    }

    pub(crate) fn frame(&self, at: u32) -> Option<&Frame> {
        self.frames.get(at as usize)?.as_deref()
    }

    /// Restarts with `lanes` at the start of a kernel whose frame exists.
    pub(crate) fn restart(&mut self, lanes: u32, local_top: u32) {
        self.splits.clear();
        self.joins.clear();
        self.free_joins.clear();
        self.live = lanes;
        self.top = [local_top; LANES];
        if lanes != 0 {
            self.splits.push(Split {
                pc: 0,
                mask: lanes,
                frame: 0,
                join: NONE,
                state: State::Ready,
            });
        }
    }

    /// Returns whether a split can run.
    pub(crate) fn ready(&self) -> bool {
        self.splits.iter().any(|s| s.state == State::Ready)
    }

    /// Returns whether lanes wait for others of this warp.
    pub(crate) fn waits_inside(&self) -> bool {
        self.joins.iter().any(|join| join.arrived != 0)
            || self.splits.iter().any(|s| matches!(s.state, State::Sync(_) | State::WarpBarrier(_)))
    }

    /// Lets the lanes that wait in joins go on without their siblings.
    pub(crate) fn release(&mut self) -> Vec<(u32, Join)> {
        let mut released = Vec::new();
        for (at, join) in self.joins.iter_mut().enumerate() {
            if join.arrived != 0 {
                released.push((at as u32, *join));
                join.expected &= !join.arrived;
                join.arrived = 0;
            }
        }
        released
    }

    /// Gives a join's place back.
    pub(crate) fn drop_join(&mut self, at: u32) {
        self.joins[at as usize].expected = 0;
        self.joins[at as usize].arrived = 0;
        self.free_joins.push(at);
    }
}

impl Machine<'_> {
    /// Takes the last ready split for the current one. False if there is none.
    pub(crate) fn choose(&mut self) -> bool {
        let Some(at) = self.warp.splits.iter().rposition(|s| s.state == State::Ready) else {
            return false;
        };
        let split = self.warp.splits.remove(at);
        self.enter(split);
        true
    }

    /// Makes a split the current one.
    pub(crate) fn enter(&mut self, split: Split) {
        self.pc = split.pc;
        self.mask = split.mask;
        self.join = split.join;
        self.enter_frame(split.frame);
    }

    /// Makes a frame the current one.
    pub(crate) fn enter_frame(&mut self, frame: u32) {
        self.frame = frame;
        if let Some(f) = self.warp.frame(frame) {
            self.regs = f.registers.start();
            self.code = self.job.program.code(f.function);
        }
    }

    /// Returns the current split, to go on at `pc`.
    pub(crate) fn current(&self, pc: u32, state: State) -> Split {
        Split { pc, mask: self.mask, frame: self.frame, join: self.join, state }
    }

    /// Returns the lanes of the current split have come to a join. Those of a complete join go on.
    pub(crate) fn arrive(&mut self, at: u32, lanes: u32) -> Flow {
        let join = &mut self.warp.joins[at as usize];
        join.arrived |= lanes;
        if join.arrived != join.expected {
            return Flow::Leave;
        }
        let Join { pc, arrived, parent, .. } = *join;
        if pc == RETURN {
            self.complete(at);
            return Flow::Leave;
        }
        self.warp.drop_join(at);
        (self.mask, self.join, self.pc) = (arrived, parent, pc + 1);
        Flow::Jump
    }

    /// Removes lanes that end, or return from their frame, from every join up to `last`, which is not changed. Joins
    /// that waited for no other lanes are complete.
    pub(crate) fn leave_joins(&mut self, lanes: u32, last: u32) {
        let mut done = Vec::new();
        let mut at = self.join;
        while at != last && at != NONE {
            let join = &mut self.warp.joins[at as usize];
            join.expected &= !lanes;
            if join.expected == join.arrived {
                done.push(at);
            }
            at = join.parent;
        }
        for at in done {
            self.complete(at);
        }
    }

    /// All expected lanes of a join are there: they go on as one split.
    fn complete(&mut self, at: u32) {
        let join = self.warp.joins[at as usize];
        self.warp.drop_join(at);
        if join.arrived != 0 {
            self.resume(join);
        }
        if join.pc == RETURN
            && let Some(frame) = self.warp.take_frame(join.frame)
        {
            let Frame { function, registers, .. } = *frame;
            if let Some(spare) = self.spare.get_mut(function as usize) {
                spare.push(registers);
            }
        }
    }

    /// The lanes that wait in a join go on.
    fn resume(&mut self, join: Join) {
        let (pc, frame) = if join.pc == RETURN {
            match self.warp.frame(join.frame) {
                Some(f) => (f.return_pc, f.parent),
                None => return,
            }
        } else {
            (join.pc, join.frame)
        };
        // The join's own check at `pc` must not take them again: their join is the parent.
        self.warp.splits.push(Split {
            pc,
            mask: join.arrived,
            frame,
            join: join.parent,
            state: State::Ready,
        });
    }

    /// Lets lanes that wait in joins go on without their siblings. False if none waited.
    pub(crate) fn release_joins(&mut self) -> bool {
        let released = self.warp.release();
        for (at, join) in &released {
            self.resume(*join);
            if self.warp.joins[*at as usize].expected == 0 {
                self.complete(*at);
            }
        }
        !released.is_empty()
    }

    /// The lanes end: no join and no barrier waits for them any more.
    pub(crate) fn exit(&mut self, lanes: u32) -> Flow {
        self.warp.live &= !lanes;
        self.mask &= !lanes;
        self.leave_joins(lanes, NONE);
        if let Some(check) = &mut self.block.check {
            check.exit(self.warp.index, lanes);
        }
        self.recheck_barriers();
        self.check_cluster_barrier();
        if self.mask != 0 { Flow::Next } else { Flow::Leave }
    }

    /// Runs the current warp until it has nothing to run or its time slice is over.
    pub(crate) fn run_warp(&mut self) -> Turn {
        loop {
            if !self.choose() {
                if self.wake_sync() || self.release_joins() {
                    self.moved = true;
                    continue;
                }
                return Turn::Blocked;
            }
            match self.execute() {
                Flow::Fault => return Turn::Fault,
                Flow::Expired => {
                    let split = self.current(self.pc, State::Ready);
                    // Index 0: the other splits run first.
                    self.warp.splits.insert(0, split);
                    self.slices = self.slices.wrapping_add(1);
                    // Lanes that compute for long keep their siblings waiting; lanes that poll memory may be waiting
                    // for them.
                    if self.polled || self.slices.is_multiple_of(16) {
                        self.release_joins();
                    }
                    return Turn::Expired;
                }
                _ => {}
            }
        }
    }

    /// Runs the current split until something else than the next instruction follows.
    fn execute(&mut self) -> Flow {
        let mut code = self.code.insts.as_slice();
        let mut pc = self.pc as usize;
        let mut count = 0u64;
        let flow = loop {
            // SAFETY: targets lie in the function, and its last instruction never falls through:
            // the decoder has seen to both.
            let inst = unsafe { code.get_unchecked(pc) };
            self.pc = pc as u32;
            // SAFETY: the guard is a predicate of the frame.
            let lanes = self.mask & (unsafe { self.pred(inst.guard) } ^ inst.flip);
            pc += 1;
            if lanes == 0 {
                continue;
            }
            count += u64::from(lanes.count_ones());
            // SAFETY: the instruction belongs to `self.code`, whose frame `self.regs` points to.
            match unsafe { (inst.run)(self, inst, lanes) } {
                Flow::Next => {}
                Flow::Jump => pc = self.pc as usize,
                Flow::Switch => {
                    code = self.code.insts.as_slice();
                    pc = self.pc as usize;
                }
                other => break other,
            }
        };
        self.lane_instructions = self.lane_instructions.wrapping_add(count);
        flow
    }
}

/// The end of a warp's slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Every lane has ended or waits.
    Blocked,
    Expired,
    Fault,
}
