//! Numbers that reach an output whatever way is taken and whatever is chosen. Their gradients need no guard against
//! infinite derivatives.

use std::collections::{HashMap, HashSet};

use ptx::ir::Operand;

use super::Pointers;
use super::activity::{Activity, Passed, passes};
use super::address_form::Forms;
use super::semantics::{Arithmetic, Clamped, Semantics, Slot, semantics};
use super::value_kind::Kinds;
use crate::body::{Body, End};

/// Returns for each slot whether its value reaches an output unconditionally.
pub(super) fn unconditional(
    body: &Body,
    pointers: &Pointers,
    forms: &Forms,
    kinds: &Kinds,
    activity: &Activity,
) -> Vec<bool> {
    let mut uses: HashMap<Slot, Vec<(usize, Option<Slot>)>> = HashMap::new();
    for (index, instr) in body.instrs() {
        for Passed { to, from, unconditional } in
            passes(body, pointers, forms, kinds, &|_| false, instr)
        {
            if unconditional {
                uses.entry(from).or_default().push((index, to));
            }
        }
    }
    for block in &body.blocks {
        for phi in &block.phis {
            for half in [Slot::low, Slot::high] {
                for (from, arg) in &phi.args {
                    let Some(Operand::Reg(reg)) = arg else { continue };
                    let uses = uses.entry(half(*reg)).or_default();
                    // A branch may go elsewhere. Uses after a loop's exit are those of the exit's phi.
                    let ends = body.blocks.get(*from).map(|block| block.end);
                    if matches!(ends, Some(End::Jump(_))) {
                        uses.push((*from, Some(half(phi.reg))));
                    }
                }
            }
        }
    }
    for (_, instr) in body.instrs() {
        // A clamped result may have no gradient.
        if let Semantics::Arithmetic(Arithmetic { clamped, d, .. }) = semantics(instr)
            && clamped != Clamped::No
        {
            uses.remove(&Slot::low(d));
        }
    }
    // All slots with such a use start as unconditional; then those are dropped that some path misses.
    let unconditional = vec![false; activity.slots()];
    let mut this = Search { body, uses, unconditional };
    let mut slots: Vec<Slot> = this.uses.keys().copied().collect();
    slots.sort_unstable_by_key(|slot| std::cmp::Reverse(*slot));
    for slot in &slots {
        this.mark(*slot, activity.is_useful(*slot));
    }
    loop {
        let before = slots.len();
        slots.retain(|slot| {
            let holds = this.is_unconditional(*slot) && this.always_used(*slot);
            this.mark(*slot, holds);
            holds
        });
        if slots.len() == before {
            return this.unconditional;
        }
    }
}

/// The search for unconditional slots.
struct Search<'a> {
    body: &'a Body,
    /// The uses of each slot: the block, and the slot that depends on it; `None` for an output.
    uses: HashMap<Slot, Vec<(usize, Option<Slot>)>>,
    unconditional: Vec<bool>,
}

impl Search<'_> {
    fn mark(&mut self, slot: Slot, unconditional: bool) {
        if let Some(place) = self.unconditional.get_mut(slot.index()) {
            *place = unconditional;
        }
    }

    fn is_unconditional(&self, slot: Slot) -> bool {
        self.unconditional.get(slot.index()).copied().unwrap_or(false)
    }

    /// Returns whether every path from a slot's definition, within the iteration, reaches an unconditional use.
    fn always_used(&self, slot: Slot) -> bool {
        let Some(defined) = self.body.definition(slot.reg()) else { return false };
        let region = self.body.region_of(defined);
        let holds = |to: &Option<Slot>| to.is_none_or(|to| self.is_unconditional(to));
        let uses = self.uses.get(&slot).map_or(&[][..], Vec::as_slice);
        let mut blocks: Vec<usize> =
            uses.iter().filter(|(_, to)| holds(to)).map(|(block, _)| *block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        if blocks.iter().any(|&block| self.body.always_reaches(defined, block)) {
            return true;
        }
        let header = self.body.range(region).start;
        let (mut open, mut seen) = (vec![defined], HashSet::from([defined]));
        while let Some(at) = open.pop() {
            if blocks.binary_search(&at).is_ok() {
                continue;
            }
            let Some(block) = self.body.blocks.get(at) else { return false };
            let mut ends = true;
            for to in block.end.targets() {
                ends = false;
                // A value that leaves a loop has another slot after the exit, whose uses count for this one.
                let inside = self.body.contains(region, to);
                let exit = !inside
                    && self.body.blocks.get(to).is_some_and(|block| {
                        block.phis.iter().any(|phi| {
                            let same = phi.args.iter().any(|(from, arg)| {
                                *from == at && *arg == Some(Operand::Reg(slot.reg()))
                            });
                            let half =
                                if slot == Slot::low(slot.reg()) { Slot::low } else { Slot::high };
                            same && self.is_unconditional(half(phi.reg))
                        })
                    });
                if exit {
                    continue;
                }
                if !inside || (region > 0 && to == header) {
                    return false;
                }
                if seen.insert(to) {
                    open.push(to);
                }
            }
            if ends {
                return false;
            }
        }
        true
    }
}
