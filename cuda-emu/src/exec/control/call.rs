//! Calls, and the stack in local memory.

use super::frame::{Frame, Registers};
use super::warp::{Join, NONE, RETURN, Split, State};
use crate::exec::decode::{Class, Spot};
use crate::exec::fault::Code;
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::tangent::pass;

/// Bytes of the stack that a call takes besides the function's variables.
pub(crate) const CALL_BYTES: u32 = 8;
/// The most frames of a warp, whatever the stack allows: each has separate registers.
const DEPTH: u32 = 20_000;

/// Copies arguments or results of some lanes from one frame to another.
///
/// # Safety
/// The spots lie in the frames that the pointers point to.
unsafe fn copy(from: *mut u8, source: &Spot, to: *mut u8, target: &Spot, mask: u32) {
    for lane in lanes(mask) {
        // SAFETY: every spot was laid out for 32 lanes within its frame.
        unsafe {
            match (source, target) {
                (
                    Spot::Reg { slot: s, class: Class::Pred },
                    Spot::Reg { slot: t, class: Class::Pred },
                ) => {
                    let bit = *from.add(*s as usize).cast::<u32>() >> lane & 1;
                    let word = to.add(*t as usize).cast::<u32>();
                    *word = (*word & !(1 << lane)) | bit << lane;
                }
                _ => {
                    let (s, n) = element(from, source, lane);
                    let (t, m) = element(to, target, lane);
                    if s != t {
                        std::ptr::copy(s, t, n.min(m));
                        if m > n {
                            std::ptr::write_bytes(t.add(n), 0, m - n);
                        }
                    }
                    // The upper half of 128 bits is separate.
                    if let (
                        Spot::Reg { slot: s, class: Class::Double },
                        Spot::Reg { slot: t, class: Class::Double },
                    ) = (source, target)
                    {
                        let high = *from.add(*s as usize + 256).cast::<u64>().add(lane);
                        *to.add(*t as usize + 256).cast::<u64>().add(lane) = high;
                    }
                }
            }
        }
    }
}

/// Returns where a lane's value lies, and its bytes.
///
/// # Safety
/// The spot lies in the frame that `base` points to.
pub(crate) unsafe fn element(base: *mut u8, spot: &Spot, lane: usize) -> (*mut u8, usize) {
    // SAFETY: the caller's promise; lanes are below 32.
    unsafe {
        match *spot {
            Spot::Reg { slot, class: Class::Wide | Class::Double } => {
                (base.add(slot as usize + 8 * lane), 8)
            }
            Spot::Reg { slot, .. } => (base.add(slot as usize + 4 * lane), 4),
            Spot::Var { slot, stride, bytes } => {
                (base.add(slot as usize + stride as usize * lane), bytes as usize)
            }
        }
    }
}

impl Machine<'_> {
    /// Calls a function with the lanes of the current split; they go on at `return_pc`.
    fn enter_function(&mut self, function: u32, call: u32, lanes_in: u32, return_pc: u32) -> bool {
        let program = self.job.program;
        let code = program.code(function);
        let Some(site) = self.code.calls.get(call as usize) else { return false };
        let depth = self.warp.frame(self.frame).map_or(0, |f| f.depth) + 1;
        let top = lanes(lanes_in).map(|lane| self.warp.top[lane]).max().unwrap_or(0);
        let base = (top + CALL_BYTES).next_multiple_of(if code.local_bytes == 0 {
            CALL_BYTES
        } else {
            code.local_align
        });
        let new_top = base.saturating_add(code.local_bytes);
        if new_top > self.job.local_bytes || depth > DEPTH {
            let text = format!(
                "stack overflow: {new_top} bytes of {} at call depth {depth}",
                self.job.local_bytes
            );
            let lane = lanes_in.trailing_zeros() as usize;
            self.fail(Code::LaunchFailed, lane, text);
            return false;
        }
        if site.args.len() != code.params.len() || site.returns.len() > code.returns.len() {
            let text = format!("the function {} is called with another signature", code.name);
            self.fail(Code::InvalidPc, lanes_in.trailing_zeros() as usize, text);
            return false;
        }
        let spare = self.spare.get_mut(function as usize).and_then(Vec::pop);
        let offsets = program.shared_offsets(self.job.entry);
        let registers = spare.unwrap_or_else(|| Registers::of(code, offsets));
        if self.job.cluster_blocks > 1 {
            registers.place_shared(code, offsets, self.shared_start);
        }
        for (from, to) in site.args.iter().zip(&code.params) {
            // SAFETY: arguments lie in the caller's frame, parameters in the callee's.
            unsafe {
                copy(self.regs, from, registers.start(), to, lanes_in);
                if code.shadow != 0 {
                    let caller = (self.regs, self.code.shadow);
                    pass(caller, from, (registers.start(), code.shadow), to, lanes_in);
                }
            }
        }
        let mut saved_top = [0; LANES];
        for lane in lanes(lanes_in) {
            saved_top[lane] = self.warp.top[lane];
            self.warp.top[lane] = new_top;
        }
        let frame = self.warp.new_frame(Box::new(Frame {
            function,
            registers,
            parent: self.frame,
            return_pc,
            call,
            local_base: base,
            saved_top,
            join: NONE,
            depth,
        }));
        let join = self.warp.new_join(Join {
            pc: RETURN,
            frame,
            parent: self.join,
            expected: lanes_in,
            arrived: 0,
        });
        if let Some(Some(f)) = self.warp.frames.get_mut(frame as usize) {
            f.join = join;
        }
        (self.mask, self.join, self.pc) = (lanes_in, join, 0);
        self.enter_frame(frame);
        self.fuel -= 1;
        true
    }

    /// Copies the results of returning lanes to their caller.
    pub(crate) fn hand_back(&mut self, mask: u32) {
        let Some(frame) = self.warp.frame(self.frame) else { return };
        let Some(parent) = self.warp.frame(frame.parent) else { return };
        let program = self.job.program;
        let caller = program.code(parent.function);
        let Some(call) = caller.calls.get(frame.call as usize) else { return };
        let (from, to) = (frame.registers.start(), parent.registers.start());
        let callee = program.code(frame.function);
        for (source, target) in callee.returns.iter().zip(&call.returns) {
            // SAFETY: results lie in the callee's frame, their targets in the caller's.
            unsafe {
                copy(from, source, to, target, mask);
                if callee.shadow != 0 {
                    pass((from, callee.shadow), source, (to, caller.shadow), target, mask);
                }
            }
        }
    }

    /// A join after the call, for lanes that call different functions, or none.
    fn meet_after_call(&mut self, mask: u32) {
        let (pc, frame, parent, expected) = (self.pc + 1, self.frame, self.join, self.mask);
        let arrived = expected & !mask;
        self.join = self.warp.new_join(Join { pc, frame, parent, expected, arrived });
    }

    /// Ends the slice if it is over, at the first instruction of the function.
    fn entered(&self) -> Flow {
        if self.fuel < 0 { Flow::Expired } else { Flow::Switch }
    }
}

/// `call` of a function by name: the call `e`.
pub(crate) struct CallDirect;
impl Lanes for CallDirect {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let callee = m.code.calls.get(i.e as usize).and_then(|call| call.callee);
        let Some(callee) = callee else { return Flow::Next };
        if i.f != 0 && mask != m.mask {
            m.meet_after_call(mask);
        }
        if !m.enter_function(callee, i.e, mask, m.pc + 1) {
            return Flow::Fault;
        }
        m.entered()
    }
}

/// `call` through an address.
pub(crate) struct CallIndirect;
impl Lanes for CallIndirect {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let Some(slot) = m.code.calls.get(i.e as usize).map(|call| call.address) else {
            return Flow::Next;
        };
        // SAFETY: the address is in a 64-bit register.
        let targets = unsafe { m.lanes::<u64>(slot) };
        let mut groups: Vec<(u32, u32)> = Vec::new();
        for lane in lanes(mask) {
            let Some(function) = m.job.program.function_at(targets[lane]) else {
                let text = format!("call of {:#x}, which is no function", targets[lane]);
                return m.fail(Code::InvalidPc, lane, text);
            };
            match groups.iter_mut().find(|g| g.0 == function) {
                Some(group) => group.1 |= 1 << lane,
                None => groups.push((function, 1 << lane)),
            }
        }
        if groups.len() > 1 || mask != m.mask {
            m.meet_after_call(mask);
        }
        let (here, pc) = (m.current(m.pc, State::Ready), m.pc);
        let mut first: Option<Split> = None;
        for (function, group) in groups {
            m.enter(here);
            if !m.enter_function(function, i.e, group, pc + 1) {
                return Flow::Fault;
            }
            let split = m.current(0, State::Ready);
            if let Some(first) = first.replace(split) {
                m.warp.splits.push(first);
            }
        }
        m.entered()
    }
}

/// `alloca`: bytes in slot a, alignment in imm; `e` says 64 bits.
pub(crate) struct Alloca;
impl Lanes for Alloca {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let align = u32::try_from(i.imm).unwrap_or(16).max(1);
        for lane in lanes(mask) {
            // SAFETY: `e` says how wide slots a and d are.
            let bytes = unsafe {
                if i.e != 0 { m.lanes::<u64>(i.a)[lane] } else { m.lanes::<u32>(i.a)[lane].into() }
            };
            let base = m.warp.top[lane].next_multiple_of(align);
            let top = u64::from(base).saturating_add(bytes);
            if top > u64::from(m.job.local_bytes) {
                let text = format!("stack overflow: alloca of {bytes} bytes");
                return m.fail(Code::LaunchFailed, lane, text);
            }
            m.warp.top[lane] = top as u32;
            // SAFETY: as above.
            unsafe { put(m, i, lane, base) };
        }
        Flow::Next
    }
}

/// # Safety
/// `e` says how wide slot d is.
unsafe fn put(m: &mut Machine<'_>, i: &Inst, lane: usize, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if i.e != 0 {
            m.lanes_mut::<u64>(i.d)[lane] = value.into();
        } else {
            m.lanes_mut::<u32>(i.d)[lane] = value;
        }
    }
}

/// `stacksave`
pub(crate) struct StackSave;
impl Lanes for StackSave {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        for lane in lanes(mask) {
            let top = m.warp.top[lane];
            // SAFETY: the decoder has set `e` by slot d.
            unsafe { put(m, i, lane, top) };
        }
        Flow::Next
    }
}

/// `stackrestore`
pub(crate) struct StackRestore;
impl Lanes for StackRestore {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        for lane in lanes(mask) {
            // SAFETY: `e` says how wide slot a is.
            let top = unsafe {
                if i.e != 0 { m.lanes::<u64>(i.a)[lane] } else { m.lanes::<u32>(i.a)[lane].into() }
            };
            m.warp.top[lane] = u32::try_from(top).unwrap_or(0).min(m.warp.top[lane]);
        }
        Flow::Next
    }
}
