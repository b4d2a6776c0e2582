//! Taint: which values depend on an approximate instruction, and what they decide.
//!
//! The decoder puts an instruction ([`Taint`]) in front of each instruction of the program, with a rule of its sources and
//! results. A result depends on an approximate instruction if a source, its address or its guard does, or if the
//! instruction itself is approximate. The marks lie where those of tangents do ([`tangent`](super::tangent)): those of a
//! register in its frame, those of memory in a table. Moves, exchanges between lanes, calls, matrix instructions and copies
//! of the driver carry them in the same way. A predicate has a mask of lanes.
//!
//! The report has the places where such a value decides one of these ([`Decided`]): a branch, or whether a thread does
//! something that others see; an address; the result of an integer instruction or of a conversion to an integer. Taint
//! does not follow values through the host's arithmetic or the predicate of `shfl`, nor the arrival of other threads at a
//! barrier or a lock.

use std::collections::HashMap;

use super::decode::Class;
use super::inst::{Flow, Inst, LANES, Lanes, lanes};
use super::machine::Machine;
use super::tangent::{Place, Register, Source};
use crate::report::Report;
use crate::space::tangent::Held;
use crate::space::tangent::unit::{self, Unit, WIDEST};

/// What an approximate value decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decided {
    /// The way that a thread takes, or whether it does something that others see.
    Branch,
    /// An address.
    Address,
    /// The result of an integer instruction, or of a conversion to an integer.
    Integer,
}

impl Decided {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Branch => "a branch",
            Self::Address => "an address",
            Self::Integer => "an integer",
        }
    }
}

/// A place where approximate values decided something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reached {
    /// What they decided.
    pub what: Decided,
    /// The place, and the first thread.
    pub place: Report,
    /// How often, counted once for each thread.
    pub count: u64,
}

/// The places so far, in the order in which they were first found.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Whether a mark may be anywhere: until then, rules have nothing to do.
    live: bool,
    known: HashMap<(Decided, u32, u32), usize>,
    all: Vec<Reached>,
}

impl Places {
    /// Returns none, for a launch that finds marks in memory (`live`) or not.
    pub(crate) fn new(live: bool) -> Self {
        Self { live, ..Self::default() }
    }

    /// Returns whether a mark may be anywhere.
    pub(crate) fn live(&self) -> bool {
        self.live
    }

    /// Takes the places.
    pub(crate) fn take(&mut self) -> Vec<Reached> {
        self.known.clear();
        std::mem::take(&mut self.all)
    }
}

/// The rule of an instruction for taint.
#[derive(Debug, Default)]
pub(crate) struct TaintRule {
    /// Slot of the guard, and all ones if it is negated.
    pub(crate) guard: Option<(u32, u32)>,
    /// The sources: registers, and slots of predicates.
    pub(crate) sources: Vec<Register>,
    pub(crate) predicates: Vec<u32>,
    /// Registers with addresses.
    pub(crate) addresses: Vec<Register>,
    /// The results.
    pub(crate) d: Vec<Register>,
    pub(crate) predicates_d: Vec<u32>,
    /// Whether the instruction is approximate.
    pub(crate) seeds: bool,
    /// Whether the results depend on the sources of all lanes.
    pub(crate) collective: bool,
    /// What the sources decide, or only the predicates among them.
    pub(crate) decides: Option<Decided>,
    pub(crate) by_predicates: bool,
    /// Whether the guard decides more than the results.
    pub(crate) controls: bool,
    /// Whether the results are marked by another rule; this one adds the guard's.
    pub(crate) moved: bool,
    pub(crate) access: Option<Access>,
}

/// The access of memory of an instruction, of elements of `bytes` bytes.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) place: Place,
    pub(crate) bytes: u32,
    /// What is loaded, of each element.
    pub(crate) load: Vec<Option<Register>>,
    /// What is stored, of each element.
    pub(crate) store: Vec<Source>,
    /// Whether the stored value is made of the old one, too.
    pub(crate) atomic: bool,
}

/// The unit of a marked value. It is that of bits which an unknown integer instruction made, so that the rules of tangents
/// which are used here keep it.
fn marked() -> Unit {
    unit::lost(u32::MAX)
}

/// Returns where the units of a value in memory are.
fn units_of(address: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes.max(2)).step_by(2).map(move |offset| address + offset)
}

/// Returns in how many parts the units of a register lie, and how many a lane has in each.
fn parts(register: Register) -> (u32, usize) {
    match register.class {
        Class::Double => (2, 4),
        class => (1, class.units()),
    }
}

/// Applies the rule whose number is imm.
pub(crate) struct Taint;
impl Lanes for Taint {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let code = m.code;
        let rule = code.taints.get(i.imm as usize);
        if let Some(rule) = rule.filter(|rule| m.reached.live || rule.seeds) {
            m.reached.live = true;
            // SAFETY: the decoder has made the rule of registers of this function.
            unsafe { m.follow(rule, mask) };
        }
        // This is no instruction of the program.
        m.lane_instructions = m.lane_instructions.wrapping_sub(u64::from(mask.count_ones()));
        Flow::Next
    }
}

impl Machine<'_> {
    /// Returns where the mask of marked lanes of a predicate lies: in the first of its units.
    fn predicate_mask(&self, slot: u32) -> *mut u64 {
        self.shadow(slot).cast()
    }

    /// Returns the marked lanes of a predicate.
    ///
    /// # Safety
    /// `slot` is a predicate of the current frame.
    unsafe fn marked_predicate(&self, slot: u32) -> u32 {
        // SAFETY: a predicate has 4 bytes, so the frame has two units for it, which nothing else uses.
        unsafe { *self.predicate_mask(slot) as u32 }
    }

    /// Returns the marked lanes of a register.
    ///
    /// # Safety
    /// The register is one of the current frame.
    unsafe fn marked_lanes(&self, register: Register) -> u32 {
        let (parts, units) = parts(register);
        let mut found = 0;
        for part in 0..parts {
            let start = self.shadow(register.slot + 256 * part);
            // SAFETY: a register is 32 values one after the other, and so are their units.
            let all = unsafe { std::slice::from_raw_parts(start, units * LANES) };
            for (lane, units) in all.chunks_exact(units.max(1)).enumerate() {
                let any = units.iter().fold(0, |any, &unit| any | unit);
                found |= u32::from(any != 0) << lane;
            }
        }
        found
    }

    /// Marks the lanes `marks` of a register, of the lanes `mask`; the others of them are not marked then.
    ///
    /// # Safety
    /// The register is one of the current frame.
    unsafe fn mark_register(&mut self, register: Register, marks: u32, mask: u32) {
        let (parts, units) = parts(register);
        for part in 0..parts {
            let start = self.shadow(register.slot + 256 * part);
            // SAFETY: a register is 32 values one after the other, and so are their units, which nothing else refers to.
            let all = unsafe { std::slice::from_raw_parts_mut(start, units * LANES) };
            for (lane, units) in all.chunks_exact_mut(units.max(1)).enumerate() {
                if mask >> lane & 1 != 0 {
                    units.fill(if marks >> lane & 1 != 0 { marked() } else { 0 });
                }
            }
        }
    }

    /// Marks results that an instruction found to be approximate as it ran.
    ///
    /// # Safety
    /// The registers are of the current frame.
    pub(crate) unsafe fn seed(&mut self, registers: &[Register], lanes: u32) {
        if registers.is_empty() {
            return;
        }
        self.reached.live = true;
        for &register in registers {
            // SAFETY: the caller's promise.
            unsafe { self.mark_register(register, lanes, lanes) };
        }
    }

    /// Returns whether a value of some bytes in memory is marked.
    pub(crate) fn is_marked(&self, address: u64, bytes: u64) -> bool {
        let store = self.space.tangent_store().filter(|_| self.reached.live);
        store.is_some_and(|store| {
            let held = store.lock();
            units_of(address, bytes).any(|at| held.get(at) != 0)
        })
    }

    /// Carries the mark of a lane of a register into memory; with `adds`, that of the old value stays.
    ///
    /// # Safety
    /// The register is one of the current frame.
    pub(crate) unsafe fn mark_memory(
        &mut self,
        register: Register,
        lane: usize,
        (address, bytes): (u64, u64),
        adds: bool,
    ) {
        let Some(store) = self.space.tangent_store().filter(|_| self.reached.live) else { return };
        // SAFETY: the caller's promise.
        let unit = match unsafe { self.marked_lanes(register) } >> lane & 1 {
            // A byte shares its unit with its neighbour.
            0 if adds || bytes == 1 => return,
            0 => 0,
            _ => marked(),
        };
        let mut held = store.lock();
        for at in units_of(address, bytes) {
            held.put(at, unit);
        }
    }

    /// The same for a predicate.
    ///
    /// # Safety
    /// `slot` is a predicate of the current frame.
    unsafe fn mark_predicate(&mut self, slot: u32, marks: u32, mask: u32) {
        // SAFETY: as in `marked_predicate`.
        let known = unsafe { &mut *self.predicate_mask(slot) };
        *known = u64::from(*known as u32 & !mask | marks & mask);
    }

    /// Notes what the marked lanes decide.
    fn decided(&mut self, what: Decided, marks: u32) {
        if marks == 0 {
            return;
        }
        let entry = self.job.program.function_of(self.job.entry);
        let here = self.warp.frame(self.frame).map_or(entry, |frame| frame.function);
        let next = self.reached.all.len();
        let at = *self.reached.known.entry((what, here, self.pc)).or_insert(next);
        if at == next {
            let lane = marks.trailing_zeros() as usize;
            let place = self.report(lane, format!("an approximate value decides {}", what.name()));
            self.reached.all.push(Reached { what, place, count: 0 });
        }
        self.reached.all[at].count += u64::from(marks.count_ones());
    }

    /// Applies a rule for the lanes of a split.
    ///
    /// # Safety
    /// The rule is one of the current function.
    unsafe fn follow(&mut self, rule: &TaintRule, split: u32) {
        let (mut mask, mut by_guard) = (split, 0);
        if let Some((slot, flip)) = rule.guard {
            // SAFETY: the guard is a predicate of the frame.
            unsafe {
                mask = split & (self.pred(slot) ^ flip);
                by_guard = split & self.marked_predicate(slot);
            }
        }
        if rule.controls {
            self.decided(Decided::Branch, by_guard);
        }
        // SAFETY: the caller's promise, here and in the rest.
        let all = |m: &Self, registers: &[Register]| unsafe {
            registers.iter().fold(0, |all, &register| all | m.marked_lanes(register)) & mask
        };
        let predicates = rule.predicates.iter().fold(0, |all, &slot| {
            // SAFETY: the slots are predicates of the frame.
            all | unsafe { self.marked_predicate(slot) }
        }) & mask;
        let mut marks = all(self, &rule.sources) | predicates;
        let addresses = all(self, &rule.addresses);
        self.decided(Decided::Address, addresses);
        if let Some(what) = rule.decides {
            self.decided(what, if rule.by_predicates { predicates } else { marks });
        }
        if rule.seeds || rule.collective && marks != 0 {
            marks = mask;
        }
        if let Some(access) = &rule.access {
            if let Some(store) = self.space.tangent_store() {
                // SAFETY: the caller's promise.
                unsafe {
                    self.follow_access(access, &mut store.lock(), (addresses, by_guard), mask);
                };
            }
        } else if !rule.moved {
            for &d in &rule.d {
                // SAFETY: the caller's promise.
                unsafe { self.mark_register(d, marks, mask) };
            }
        }
        if !rule.moved {
            for &slot in &rule.predicates_d {
                // SAFETY: the caller's promise.
                unsafe { self.mark_predicate(slot, marks, mask) };
            }
        }
        if by_guard != 0 {
            // The results of lanes that do not execute the instruction depend on the guard, too.
            for &d in &rule.d {
                // SAFETY: the caller's promise.
                unsafe { self.mark_register(d, by_guard, by_guard) };
            }
            for &slot in &rule.predicates_d {
                // SAFETY: the caller's promise.
                unsafe { self.mark_predicate(slot, by_guard, by_guard) };
            }
        }
    }

    /// Loads or stores marks; what was got by a marked address or guard is marked.
    ///
    /// # Safety
    /// The registers are of the current frame.
    unsafe fn follow_access(
        &mut self,
        access: &Access,
        held: &mut Held,
        (addresses, by_guard): (u32, u32),
        mask: u32,
    ) {
        let Access { place, bytes, load, store, atomic } = access;
        let elements = load.len().max(store.len()) as u32;
        for element in 0..elements {
            for lane in lanes(mask) {
                // SAFETY: the caller's promise.
                let Some(start) = (unsafe { self.at(*place, lane) }) else { continue };
                let at = start.plus(bytes * element);
                let offsets = (0..(*bytes).max(2)).step_by(2);
                let chosen = (addresses | by_guard) >> lane & 1 != 0;
                let mut old = [0; WIDEST];
                for (old, offset) in old.iter_mut().zip(offsets.clone()) {
                    *old = if chosen { marked() } else { self.memory_unit(held, at.plus(offset)) };
                }
                if let Some(&source) = store.get(element as usize) {
                    // SAFETY: the caller's promise.
                    let units = unsafe { self.units(source, lane) };
                    let any = old.iter().chain(&units).any(|&unit| unit != 0);
                    for ((&new, &old), offset) in units.iter().zip(&old).zip(offsets) {
                        let unit = match () {
                            // A byte shares its unit with its neighbour.
                            () if *atomic || *bytes == 1 => {
                                if any {
                                    marked()
                                } else {
                                    0
                                }
                            }
                            () if chosen => old,
                            () => new,
                        };
                        self.put_memory_unit(held, at.plus(offset), unit);
                    }
                }
                if let Some(&Some(register)) = load.get(element as usize) {
                    // SAFETY: the caller's promise.
                    unsafe { self.put_units(register, lane, &old) };
                }
            }
        }
    }
}
