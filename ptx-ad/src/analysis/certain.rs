//! Numbers that reach an output whatever is chosen on the way. Their gradients need no guard against derivatives that are
//! infinite.

use std::collections::{HashMap, HashSet};

use ptx::ir::Operand;

use super::Pointers;
use super::activity::{Activity, Passed, passes};
use super::form::Forms;
use super::kind::Kinds;
use super::meaning::{Arithmetic, Clamped, Meaning, Slot, meaning};
use crate::body::{Body, End};

/// Returns for each slot whether its value reaches an output whatever is chosen.
pub(super) fn certain(
    body: &Body,
    pointers: &Pointers,
    forms: &Forms,
    kinds: &Kinds,
    activity: &Activity,
) -> Vec<bool> {
    let mut uses: HashMap<Slot, Vec<(usize, Option<Slot>)>> = HashMap::new();
    for (index, instr) in body.instrs() {
        for Passed { to, from, certain } in passes(body, pointers, forms, kinds, &|_| false, instr)
        {
            if certain {
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
                    // A branch may go elsewhere: what is used behind a loop's exit is looked for there.
                    let ends = body.blocks.get(*from).map(|block| block.end);
                    if matches!(ends, Some(End::Jump(_))) {
                        uses.push((*from, Some(half(phi.reg))));
                    }
                }
            }
        }
    }
    for (_, instr) in body.instrs() {
        // What is cut off has no gradient, whatever the operands are.
        if let Meaning::Arithmetic(Arithmetic { clamped, d, .. }) = meaning(instr)
            && clamped != Clamped::No
        {
            uses.remove(&Slot::low(d));
        }
    }
    // All that have such a use are taken for certain; then those are dropped that some way does not come to.
    let certain = vec![false; activity.slots()];
    let mut this = Search { body, uses, certain };
    let mut slots: Vec<Slot> = this.uses.keys().copied().collect();
    slots.sort_unstable_by_key(|slot| std::cmp::Reverse(*slot));
    for slot in &slots {
        this.mark(*slot, activity.is_useful(*slot));
    }
    loop {
        let before = slots.len();
        slots.retain(|slot| {
            let holds = this.is_certain(*slot) && this.always_used(*slot);
            this.mark(*slot, holds);
            holds
        });
        if slots.len() == before {
            return this.certain;
        }
    }
}

/// The search for slots whose value reaches an output whatever is chosen.
struct Search<'a> {
    body: &'a Body,
    /// The uses of each slot: the block, and the slot that depends on it; `None` for an output.
    uses: HashMap<Slot, Vec<(usize, Option<Slot>)>>,
    certain: Vec<bool>,
}

impl Search<'_> {
    fn mark(&mut self, slot: Slot, certain: bool) {
        if let Some(place) = self.certain.get_mut(slot.index()) {
            *place = certain;
        }
    }

    fn is_certain(&self, slot: Slot) -> bool {
        self.certain.get(slot.index()).copied().unwrap_or(false)
    }

    /// Returns whether every way from a slot's definition, within the turn, comes to a block with a certain use.
    fn always_used(&self, slot: Slot) -> bool {
        let Some(defined) = self.body.definition(slot.reg()) else { return false };
        let region = self.body.region_of(defined);
        let holds = |to: &Option<Slot>| to.is_none_or(|to| self.is_certain(to));
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
                // The value behind an exit is another slot, which stands for this one where it is used.
                let inside = self.body.contains(region, to);
                let exit = !inside
                    && self.body.blocks.get(to).is_some_and(|block| {
                        block.phis.iter().any(|phi| {
                            let same = phi.args.iter().any(|(from, arg)| {
                                *from == at && *arg == Some(Operand::Reg(slot.reg()))
                            });
                            let half =
                                if slot == Slot::low(slot.reg()) { Slot::low } else { Slot::high };
                            same && self.is_certain(half(phi.reg))
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
