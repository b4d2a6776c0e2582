//! The instructions in front of each access of memory that is checked.

use super::finding::{Check, Finding, note, note_with};
use super::shadow::{Access, How};
use super::{BlockCheck, GlobalCheck, SharedCheck};
use crate::exec::cluster::address::Target;
use crate::exec::inst::{Flow, Inst, LANES, Lanes, lanes};
use crate::exec::machine::Machine;
use crate::exec::memory::copy::Copies;
use crate::exec::memory::element::{Mem, U8};
use crate::exec::memory::resolve::addresses;
use crate::exec::memory::{GENERIC, GLOBAL, SHARED};
use crate::report::Report;

/// The access, in slot d of [`Watch`].
pub(crate) const READ: u32 = 1;
pub(crate) const WRITE: u32 = 2;
/// An access that does not race with other strong ones.
pub(crate) const STRONG: u32 = 4;
/// An access that acquires the writer's clock.
pub(crate) const ACQUIRE: u32 = 8;
/// An access that publishes its thread's clock.
pub(crate) const RELEASE: u32 = 16;

/// An access by the next instruction.
struct Seen<'a> {
    /// The kind of access.
    what: u32,
    bytes: u64,
    /// The addresses of its lanes, and which of them there are.
    at: &'a [u64; LANES],
    mask: u32,
    /// The registers whose values it writes, each of so many bytes; none if they are not known.
    slots: &'a [u32],
    element: u64,
    /// Whether it is an asynchronous copy's.
    copies: bool,
}

/// An access by the next instruction: address in slot a, bytes in slot e, what it does in slot d, the
/// registers that it writes in the list in slot b, the bytes of each in slot f.
pub(crate) struct Watch;
impl Lanes for Watch {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let at = unsafe { addresses(m, i) };
        let slots = m.list(i.b);
        let (bytes, element) = (i.e.into(), i.f.into());
        let seen = Seen { what: i.d, bytes, at: &at, mask, slots, element, copies: false };
        m.watch((i.c >> 16) as u8, &seen);
        Flow::Next
    }
}

/// A `cp.async` is next: its own operands.
pub(crate) struct WatchCopy;
impl Lanes for WatchCopy {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has put this in front of a `cp.async`, with its operands.
        let Some(Copies { to, from, given, bytes }) = (unsafe { Copies::of(m, i) }) else {
            return Flow::Next;
        };
        for lane in lanes(mask).filter(|&lane| given[lane] != 0) {
            let mask = 1 << lane;
            m.watch(GLOBAL, &Seen { mask, copies: true, ..Seen::new(READ, given[lane], &from) });
        }
        let to = Seen { mask, copies: true, ..Seen::new(WRITE, bytes, &to) };
        m.watch(SHARED, &to);
        Flow::Next
    }
}

/// The check after a fence.
pub(crate) struct Fenced;
impl Lanes for Fenced {
    unsafe fn go(m: &mut Machine<'_>, _i: &Inst, mask: u32) -> Flow {
        if let Some(check) = &mut m.block.check {
            check.clocks.fence(m.warp.index, mask);
        }
        Flow::Next
    }
}

/// The immediate of [`Groups`] for `cp.async.commit_group`.
pub(crate) const COMMIT: u64 = u64::MAX;
/// The immediate for `cp.async.wait_all`; others are the number of groups that may be left.
pub(crate) const WAIT_ALL: u64 = u64::MAX - 1;

/// Groups of asynchronous copies.
pub(crate) struct Groups;
impl Lanes for Groups {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let warp = m.warp.index;
        let Some(check) = &mut m.block.check else { return Flow::Next };
        match i.imm {
            COMMIT => check.clocks.commit(warp, mask),
            WAIT_ALL => check.clocks.wait(warp, mask, None),
            left => check.clocks.wait(warp, mask, Some(left as u32)),
        }
        Flow::Next
    }
}

/// The asynchronous copies so far come to the `mbarrier` at the address in slot a.
pub(crate) struct CopiesArrive;
impl Lanes for CopiesArrive {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the decoder has set slot c by slot a.
        let at = unsafe { addresses(m, i) };
        let (warp, space) = (m.warp.index, (i.c >> 16) as u8);
        for lane in lanes(mask) {
            // `mbarrier` reports its own faults.
            let target = m.target(space, at[lane]);
            let host = target.and_then(|target| m.locate_shared(target, 8).ok());
            if let (Some(host), Some(check)) = (host, &mut m.block.check) {
                check.arrive_copies(&mut m.cluster.gates, host, warp, lane);
            }
        }
        Flow::Next
    }
}

impl<'a> Seen<'a> {
    fn new(what: u32, bytes: u64, at: &'a [u64; LANES]) -> Self {
        Self { what, bytes, at, mask: 0, slots: &[], element: 0, copies: false }
    }

    fn how(&self) -> How {
        How { write: self.what & WRITE != 0, strong: self.what & STRONG != 0 }
    }
}

/// Returns how a report calls an access.
fn name(how: How) -> &'static str {
    match (how.strong, how.write) {
        (true, true) => "strong or atomic write",
        (true, false) => "strong read",
        (false, true) => "write",
        (false, false) => "read",
    }
}

impl Machine<'_> {
    /// An access that an instruction makes for one lane, while something is checked.
    pub(crate) fn watch_one(&mut self, space: u8, lane: usize, at: u64, bytes: u64, what: u32) {
        if self.block.check.is_some() {
            self.watch(
                space,
                &Seen { mask: 1 << (lane % LANES), ..Seen::new(what, bytes, &[at; LANES]) },
            );
        }
    }

    fn watch(&mut self, space: u8, seen: &Seen<'_>) {
        // The check is taken out so that the machine can make a report meanwhile.
        let Some(mut check) = self.block.check.take() else { return };
        let mut global = self.global.take();
        for lane in lanes(seen.mask) {
            let at = seen.at[lane];
            if let Some(target) = self.target(space, at) {
                self.watch_shared(&mut check, seen, lane, target);
                continue;
            }
            match (space, at >> 48) {
                (GLOBAL, _) | (GENERIC, 0) => {
                    self.watch_written(seen, lane, at);
                    if let Some(global) = &mut global {
                        self.watch_global(&mut check, global, seen, lane, at);
                    }
                }
                _ => {}
            }
        }
        self.global = global;
        self.block.check = Some(check);
    }

    fn watch_shared(
        &mut self,
        check: &mut BlockCheck,
        seen: &Seen<'_>,
        lane: usize,
        target: Target,
    ) {
        // An access out of bounds, or of a block that has ended, reports its own fault.
        let Ok(host) = self.locate_shared(target, seen.bytes) else { return };
        let mut published = std::mem::take(&mut self.cluster.published);
        let rank = target.rank as usize;
        let BlockCheck { clocks, shared, .. } = check;
        let at = (target.offset, host);
        if rank == self.block.rank as usize {
            self.watch_block(clocks, shared, &mut published, seen, lane, at, "");
        } else if let Some(mut other) =
            self.cluster.blocks.get_mut(rank).and_then(|b| b.check.take())
        {
            other.shared.reached = true;
            let of = format!(" of block {rank} of the cluster");
            self.watch_block(clocks, &mut other.shared, &mut published, seen, lane, at, &of);
            if let Some(block) = self.cluster.blocks.get_mut(rank) {
                block.check = Some(other);
            }
        }
        self.cluster.published = published;
    }

    /// An access of a block's shared memory: its offset, and the host's address.
    #[allow(clippy::too_many_arguments, reason = "they are parts of the machine, taken out of it")]
    fn watch_block(
        &self,
        clocks: &mut super::Clocks,
        shared: &mut SharedCheck,
        published: &mut super::Published,
        seen: &Seen<'_>,
        lane: usize,
        (at, host): (u64, u64),
        of: &str,
    ) {
        let SharedCheck { words, written, .. } = shared;
        if let Some(written) = written {
            if seen.what & READ != 0 && written.first_unwritten(at, seen.bytes).is_some() {
                self.unwritten(lane, at, seen.bytes, &format!("shared memory{of}"));
            }
            if seen.what & WRITE != 0 {
                written.mark(at, seen.bytes);
            }
        }
        if words.is_empty() {
            return;
        }
        let warp = (self.warp.index, lane);
        self.order_before(clocks, published, seen, warp, host);
        let base = host - at;
        // In the system's part `cooperative_groups.h` relies on lanes that execute together, which orders nothing by
        // the manual. No program can change that, so only what its barriers order counts.
        let system = at < u64::from(self.job.shared_reserved);
        for (number, new) in self.pieces(clocks, seen, lane, at).filter(|_| !system) {
            let Some(word) = words.get_mut(number as usize) else { continue };
            let same = |old: &Access| self.same(seen, lane, &new, old, number * 4, Some(base));
            if let Some(old) = word.access(clocks, new, same) {
                let what = format!("shared memory{of}");
                self.race(lane, seen.how(), at.max(number * 4), &what, &old);
            }
        }
        self.order_after(clocks, published, seen, warp, host);
    }

    /// Initcheck of an access of device memory. An access outside of all regions reports its own fault.
    fn watch_written(&self, seen: &Seen<'_>, lane: usize, at: u64) {
        let Some(written) = self.space.written() else { return };
        if seen.what & READ != 0
            && let Some(first) = written.first_unwritten(at, seen.bytes)
            && self.space.find_range(at, seen.bytes).is_some()
        {
            self.unwritten(lane, at, seen.bytes, &self.space.describe(first));
        }
        if seen.what & WRITE != 0 {
            written.mark(at, seen.bytes);
        }
    }

    fn watch_global(
        &self,
        check: &mut BlockCheck,
        global: &mut GlobalCheck,
        seen: &Seen<'_>,
        lane: usize,
        at: u64,
    ) {
        if at.checked_add(seen.bytes).is_none() {
            return;
        }
        let warp = (self.warp.index, lane);
        self.order_before(&mut check.clocks, &global.published, seen, warp, at);
        for (number, new) in self.pieces(&check.clocks, seen, lane, at) {
            let Some(word) = global.word(number) else { continue };
            let same = |old: &Access| self.same(seen, lane, &new, old, number * 4, None);
            if let Some(old) = word.access(&check.clocks, new, same) {
                let first = at.max(number * 4);
                self.race(lane, seen.how(), first, &self.space.describe(first), &old);
            }
        }
        self.order_after(&mut check.clocks, &mut global.published, seen, warp, at);
    }

    /// Notes a strong read.
    fn order_before(
        &self,
        clocks: &mut super::Clocks,
        published: &super::Published,
        seen: &Seen<'_>,
        warp: (u32, usize),
        at: u64,
    ) {
        if seen.what & (READ | STRONG) == READ | STRONG {
            clocks.read(published, at, warp, seen.what & ACQUIRE != 0);
        }
    }

    /// Notes a strong write.
    fn order_after(
        &self,
        clocks: &mut super::Clocks,
        published: &mut super::Published,
        seen: &Seen<'_>,
        warp: (u32, usize),
        at: u64,
    ) {
        if seen.what & (WRITE | STRONG) == WRITE | STRONG {
            let reads = seen.what & READ != 0;
            clocks.write(published, at, warp, (seen.what & RELEASE != 0, reads));
        }
    }

    /// The access of a lane to each word, by the word's number.
    fn pieces(
        &self,
        clocks: &super::Clocks,
        seen: &Seen<'_>,
        lane: usize,
        at: u64,
    ) -> impl Iterator<Item = (u64, Access)> + use<> {
        let warp = self.warp.index;
        let warp = if seen.copies { clocks.copies(warp) } else { warp };
        let line = self.code.lines.get(self.pc as usize).map_or(0, |line| line.0);
        let all = Access {
            block: clocks.block(),
            warp,
            lanes: 1 << lane,
            counter: clocks.stamp(warp),
            at: line,
            bytes: 0,
            how: seen.how(),
        };
        let end = at + seen.bytes;
        (at / 4..end.div_ceil(4)).map(move |number| {
            let (low, high) = (at.max(number * 4), end.min(number * 4 + 4));
            let bytes = (15u8 >> (4 - (high - low))) << (low % 4);
            (number, Access { bytes, ..all })
        })
    }

    /// Returns whether a lane writes the same value to the word at `start` as an earlier access.
    #[cold]
    fn same(
        &self,
        seen: &Seen<'_>,
        lane: usize,
        new: &Access,
        old: &Access,
        start: u64,
        shared: Option<u64>,
    ) -> bool {
        if seen.slots.is_empty() {
            return false;
        }
        // Without the window, and in shared memory without the rank of the block.
        let bits = if shared.is_some() { 24 } else { 48 };
        let value = |lane: usize, at: u64| -> Option<u8> {
            let offset = at.checked_sub(seen.at[lane] & ((1 << bits) - 1))?;
            if offset >= seen.bytes {
                return None;
            }
            let &slot = seen.slots.get((offset / seen.element) as usize)?;
            // SAFETY: the list holds registers of 64 bits, or of 32 for elements that are no wider.
            let bits = unsafe {
                if seen.element == 8 {
                    self.lanes::<u64>(slot)[lane]
                } else {
                    self.lanes::<u32>(slot)[lane].into()
                }
            };
            Some((bits >> (8 * (offset % seen.element))) as u8)
        };
        // The words of earlier instructions are still there.
        let there = |at: u64| -> Option<u8> {
            let host = match shared {
                Some(base) => base + at,
                None => self.space.find_range(at, 1).map(|_| at)?,
            };
            // SAFETY: the byte lies in the block's shared memory, or in a region that was just found.
            Some(unsafe { U8::load(host) } as u8)
        };
        let now = (old.block, old.warp, old.counter, old.at)
            == (new.block, new.warp, new.counter, new.at);
        (0..4).filter(|byte| old.bytes & new.bytes & 1 << byte != 0).all(|byte| {
            let at = start + byte;
            let mine = value(lane, at);
            mine.is_some()
                && lanes(old.lanes).all(|other| {
                    // The lanes before this one in the same instruction have yet to write.
                    let next = now && other < lane && seen.mask & 1 << other != 0;
                    let theirs = if next { value(other, at) } else { None };
                    theirs.or_else(|| there(at)) == mine
                })
        })
    }

    #[cold]
    fn unwritten(&self, lane: usize, at: u64, bytes: u64, of: &str) {
        let what = format!("read of {bytes} bytes at {at:#x} that nothing has written: {of}");
        let access = Report { address: Some(at), ..self.report(lane, what) };
        note(Finding { check: Check::Init, access, other: None, count: 1 });
    }

    #[cold]
    fn race(&self, lane: usize, how: How, at: u64, of: &str, old: &Access) {
        let what = format!("race: {} at {at:#x}: {of}", name(how));
        let access = Report { address: Some(at), ..self.report(lane, what) };
        // Asynchronous copies belong to their thread.
        let tid = self.job.tids.get((old.warp % self.job.warps.max(1)) as usize);
        let thread =
            |d: usize| tid.map_or(0, |tid| tid[d][old.lanes.trailing_zeros() as usize & 31]);
        let other = Report {
            kernel: access.kernel.clone(),
            block: self.job.block_index(old.block),
            thread: [thread(0), thread(1), thread(2)],
            address: Some(at),
            what: name(old.how).to_owned(),
            ptx_line: old.at,
            ..Report::default()
        };
        let finding = Finding { check: Check::Race, access, other: Some(other), count: 1 };
        note_with(finding, |finding| {
            if let Some(other) = &mut finding.other {
                other.source = self.source_of_line(other.ptx_line);
            }
        });
    }
}
