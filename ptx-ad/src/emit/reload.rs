//! Reloads: where a kernel loads many values, a register for each would be live from its load to its reverse. The
//! reverse loads them again. Loads from addresses that are the same in a warp hit the cache.

use std::collections::HashMap;

use ptx::ir::{Base, Instr, LdKind, Op, Order, PlaceMut, RegId, Role, Space};

use super::Emit;
use super::builder::Line;
use super::plan::Plan;
use crate::analysis::{Access, Analysis, Origin};
use crate::body::Body;

/// The most registers that are held without reloads.
const MOST_HELD: usize = 64;

/// The loads that the reverse may repeat, by their results.
pub(super) type Reloads = HashMap<RegId, Instr>;

/// Finds loads outside of loops from uniform addresses of memory that the kernel only loads. Returns none if they are
/// few.
pub(super) fn find(body: &Body, analysis: &Analysis, plan: &Plan) -> Reloads {
    let mut found = Reloads::new();
    for (block, instr) in body.instrs() {
        let Op::Ld { kind: LdKind::Plain | LdKind::NonCoherent, access, addr, d, .. } = &instr.op
        else {
            continue;
        };
        let Base::Reg(base) = addr.base else { continue };
        let weak = access.order == Order::Weak && access.space == Space::Global;
        if body.region_of(block) > 0 || !weak || !analysis.is_uniform(base) {
            continue;
        }
        let Origin::Pointer(pointer) = analysis.forms.address(body, addr).origin else { continue };
        let loaded = analysis.effects.get(pointer).is_some_and(|used| !used.stored && !used.added);
        let active = Access::of(instr).is_some_and(|access| access.registers().next().is_some());
        if !loaded || !active || plan.private.get(pointer) == Some(&true) {
            continue;
        }
        for d in d.iter().flatten() {
            found.insert(*d, instr.clone());
        }
    }
    if found.len() > MOST_HELD { found } else { Reloads::new() }
}

impl Emit<'_> {
    /// Reloads the values that a block's reverse reads, once for each run of instructions without branches.
    pub(super) fn reload(&mut self) {
        if self.replay.reloads.is_empty() || !self.open.is_empty() {
            return;
        }
        let mut known: HashMap<RegId, RegId> = HashMap::new();
        for line in std::mem::take(&mut self.b.code) {
            let Line::Instr(mut instr, link) = line else {
                known.clear();
                self.b.code.push(line);
                continue;
            };
            let mut wanted = Vec::new();
            instr.for_each_use(|reg| wanted.push(reg));
            for reg in wanted {
                if !known.contains_key(&reg)
                    && let Some(load) = self.replay.reloads.get(&reg).cloned()
                {
                    self.repeat_load(load, &mut known);
                }
            }
            instr.for_each_place_mut(|place| {
                if let PlaceMut::Register(Role::Use, reg) = place {
                    *reg = known.get(reg).copied().unwrap_or(*reg);
                }
            });
            if matches!(instr.op, Op::Bra { .. }) {
                known.clear();
            }
            self.b.code.push(Line::Instr(instr, link));
        }
    }

    fn repeat_load(&mut self, mut load: Instr, known: &mut HashMap<RegId, RegId>) {
        if let Op::Ld { d, .. } = &mut load.op {
            for d in d.iter_mut().flatten() {
                let fresh = self.b.reg(self.type_of(*d));
                known.insert(*d, fresh);
                *d = fresh;
            }
        }
        load.line = 0;
        self.b.code.push(Line::Instr(load, None));
    }
}
