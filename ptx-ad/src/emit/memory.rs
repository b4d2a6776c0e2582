//! The reverse of loads and stores: a gradient in memory has its value's offset.

use ptx::ir::{Address, Base, BinaryOp, BoolOp, Cmp, Instr, Op, Operand, Pred, RegId, Space, Type};

use super::Emit;
use super::builder::{at, fails, holds, number, type_of};
use super::frame::stores_once;
use super::rules::Term;
use super::thread_owned::Pieces;
use crate::analysis::{Access, Origin, Slot, real, real_in_memory};
use crate::spec::{Real, Reals};

/// Numbers of one type that are loaded or stored together.
#[derive(Debug)]
pub(super) struct Group {
    /// Bytes from the instruction's address, or from that of its gradient.
    offset: i64,
    pub(super) real: Real,
    /// The slot of each number; `None` for a constant or an unused result.
    slots: Vec<Option<Slot>>,
}

/// Loaded gradients: the address, the numbers, and whether there are any.
pub(super) type Taken = (Address, Vec<RegId>, RegId);

impl Emit<'_> {
    /// Writes the reverse of a load, a store or an atomic addition.
    pub(super) fn reverse_access(&mut self, position: usize, instr: &Instr) {
        let Some(access) = Access::of(instr) else { return };
        let form = self.analysis.forms.address(self.body, access.address);
        match form.origin {
            Origin::Param(param) => {
                for (offset, reg) in access.parts() {
                    let place =
                        form.param_offset().and_then(|place| place.checked_add_signed(offset));
                    let (Some(reg), Some(place)) = (reg, place) else { continue };
                    self.reverse_number(&access, param, place, reg);
                }
            }
            Origin::Choice(_) => self.reverse_choice_of(&access, form.origin),
            Origin::Local(var) if self.analysis.activity.is_local_active(var) => {
                let groups = self.groups(&access, None);
                if self.body.is_shared(var) {
                    self.reverse_shared(var, instr, &access, &groups);
                } else {
                    self.reverse_local(var, instr, &access, &groups);
                }
            }
            Origin::Pointer(pointer)
                if self.analysis.pointers.get(pointer).is_some_and(|p| p.slot.is_some()) =>
            {
                let groups = self.groups(&access, Some(pointer));
                match instr.op {
                    Op::Ld { .. } => self.reverse_load(pointer, position, &access, groups),
                    Op::St { .. } => {
                        let taken = self.block.taken.remove(&position).unwrap_or_default();
                        let mut taken = taken.into_iter();
                        for group in &groups {
                            self.reverse_store(pointer, &access, group, taken.next());
                        }
                    }
                    _ => groups.iter().for_each(|group| self.reverse_add(pointer, &access, group)),
                }
            }
            _ => {}
        }
    }

    /// After an instruction that chooses an address: writes the distance to its gradient.
    pub(super) fn choose(&mut self, instr: &Instr) {
        let mut defined = None;
        instr.for_each_def(|reg| defined = Some(reg));
        let forms = &self.analysis.forms;
        let several = |reg: &RegId| matches!(forms.reg(*reg).origin, Origin::Choice(_));
        let Some(d) = defined.filter(several) else { return };
        let chosen = if let Op::Selp { a, b, p, .. } = &instr.op {
            let (a, b) = (self.chosen_of(a), self.chosen_of(b));
            let delta = self.b.selp(Type::B64, Operand::Reg(a.0), Operand::Reg(b.0), *p);
            let first = self.both(*p, holds(a.1));
            let second = self.both(Pred { negated: !p.negated, ..*p }, holds(b.1));
            let (a, b) = (Operand::Reg(first), Operand::Reg(second));
            Some((delta, self.b.binary(BinaryOp::Or, Type::Pred, a, b)))
        } else {
            // A sum of a chosen address and a number keeps the distance.
            let mut from = None;
            instr.for_each_use(|reg| from = from.or(Some(reg).filter(several)));
            from.and_then(|reg| self.shadows.chosen.get(&reg).copied())
        };
        if let Some(chosen) = chosen {
            self.shadows.chosen.insert(d, chosen);
        }
    }

    /// Returns the distance from an address to its gradient, and whether there is one.
    fn chosen_of(&mut self, address: &Operand) -> (RegId, RegId) {
        let known = match (self.analysis.forms.operand(address).origin, address) {
            (Origin::Pointer(pointer), _) => self.shadows.pointers.get(pointer).copied().flatten(),
            (_, Operand::Reg(reg)) => self.shadows.chosen.get(reg).copied(),
            _ => None,
        };
        known.unwrap_or_else(|| {
            let zero = self.b.moved(Type::U64, Operand::Imm(0));
            (zero, self.b.moved(Type::Pred, Operand::Imm(0)))
        })
    }

    /// Adds to the gradients of values that were loaded from a chosen address.
    fn reverse_choice_of(&mut self, access: &Access<'_>, origin: Origin) {
        let Base::Reg(reg) = access.address.base else { return };
        let Some((delta, some)) = self.shadows.chosen.get(&reg).copied() else { return };
        let first = self.analysis.forms.pointers(origin).first().copied();
        let groups = self.groups(access, first);
        let places: Vec<_> = groups
            .iter()
            .flat_map(|group| group.places().map(|(place, slot)| (group.real, place, slot)))
            .filter_map(|(real, place, slot)| Some((real, place, self.gradient(slot?)?)))
            .collect();
        if places.is_empty() {
            return;
        }
        let first = first.unwrap_or(usize::MAX);
        let base = self.shadow_of(first, reg, delta);
        let scale = i64::from(self.analysis.pointers.scale(first));
        for (real, place, g) in places {
            let offset = access.address.offset.saturating_mul(scale).saturating_add(place);
            self.shared_add(access.space, real, (base, offset), g, some);
        }
    }

    /// Adds to the sum for a number that was passed by value, or for two in 64 bits.
    fn reverse_number(&mut self, access: &Access<'_>, param: usize, place: u64, reg: RegId) {
        for (slot, more) in [(Slot::low(reg), 0), (Slot::high(reg), 4)] {
            if more > 0 && access.ty.bits() < 64 {
                continue;
            }
            let (Some(g), Some(real)) = (self.gradient(slot), self.analysis.kinds.real(slot))
            else {
                continue;
            };
            let Some(&sum) = self.sums.scalars.get(&(param, place.saturating_add(more))) else {
                continue;
            };
            let (ty, sum_of) = (type_of(real), Operand::Reg(sum));
            self.b.binary_to(BinaryOp::Add, ty, sum, sum_of, Operand::Reg(g));
        }
    }

    /// Returns the numbers that an access consists of.
    fn groups(&self, access: &Access<'_>, pointer: Option<usize>) -> Vec<Group> {
        let pointer = pointer.and_then(|pointer| self.analysis.pointers.get(pointer));
        let reals = pointer.and_then(|pointer| pointer.spec.reals);
        let declared = real(access.ty);
        let assumed = match (declared, reals) {
            (Some(real), _) => Some(real),
            (None, Some(Reals::All(real) | Reals::Some(real))) => Some(real),
            (None, None) => None,
        };
        let kind = |slot: Slot| self.analysis.kinds.real(slot);
        // `scale` makes offsets of values those of gradients.
        let scale = real_in_memory(access.ty).map_or(1, |real| i64::from(real.scale()));
        let mut groups: Vec<Group> = Vec::new();
        for (offset, value) in access.parts() {
            let halves: Vec<(i64, Option<Slot>, Option<Real>)> = match (value, access.ty.bits()) {
                (value, _) if scale > 1 => vec![(0, value.map(Slot::low), declared)],
                (_, bits) if bits < 32 => Vec::new(),
                (Some(reg), 64) if kind(Slot::low(reg)) != Some(Real::F64) => {
                    let (low, high) = (Slot::low(reg), Slot::high(reg));
                    vec![(0, Some(low), kind(low)), (4, Some(high), kind(high))]
                }
                (Some(reg), _) => vec![(0, Some(Slot::low(reg)), kind(Slot::low(reg)))],
                (None, 64) if assumed == Some(Real::F32) => {
                    vec![(0, None, assumed), (4, None, assumed)]
                }
                // A half of a `double`, or an integer next to one.
                (None, 32) if declared.is_none() && assumed == Some(Real::F64) => {
                    vec![(0, None, Some(Real::F32))]
                }
                (None, _) => vec![(0, None, assumed)],
            };
            for (more, slot, real) in halves {
                let Some(real) = real else { continue };
                let offset = offset * scale + more;
                let next = groups.last_mut().filter(|group| {
                    let count = i64::try_from(group.slots.len()).unwrap_or(i64::MAX);
                    group.real == real
                        && group.offset + count * i64::from(real.bytes()) == offset
                        && count * i64::from(real.bytes()) < 16
                });
                match next {
                    Some(group) => group.slots.push(slot),
                    None => groups.push(Group { offset, real, slots: vec![slot] }),
                }
            }
        }
        groups.into_iter().flat_map(Group::powers).collect()
    }

    /// Returns the address of a gradient: `offset` bytes of gradients after that of the value's address.
    pub(super) fn shadow(
        &mut self,
        pointer: usize,
        address: &Address,
        offset: i64,
    ) -> Option<(RegId, i64, RegId)> {
        let (delta, some) = self.shadows.pointers.get(pointer).copied().flatten()?;
        let key = (Origin::Pointer(pointer), address.base);
        let base = match self.block.addresses.get(&key) {
            Some(base) => *base,
            None => {
                let Base::Reg(reg) = address.base else { return None };
                let base = self.shadow_of(pointer, reg, delta);
                self.block.addresses.insert(key, base);
                base
            }
        };
        let scale = i64::from(self.analysis.pointers.scale(pointer));
        let start = address.offset.checked_mul(scale)?;
        Some((base, start.checked_add(offset)?, some))
    }

    /// Returns the address of a gradient. Offsets double from 16-bit floats to `float`s.
    fn shadow_of(&mut self, pointer: usize, address: RegId, delta: RegId) -> RegId {
        let mut base = delta;
        for _ in 0..self.analysis.pointers.scale(pointer) {
            let (a, b) = (Operand::Reg(address), Operand::Reg(base));
            base = self.b.binary(BinaryOp::Add, Type::S64, a, b);
        }
        base
    }

    fn reverse_load(
        &mut self,
        pointer: usize,
        position: usize,
        access: &Access<'_>,
        groups: Vec<Group>,
    ) {
        let owned = self.analysis.thread_owned.get(pointer);
        // With a `private` copy, a store between two loads takes the gradient of the second.
        let private = self.plan.private.get(pointer) == Some(&true);
        if let Some(owned) = owned.filter(|owned| owned.together && !private) {
            let Some(site) = owned
                .sites
                .iter()
                .find(|site| (site.block, site.instr) == (self.block.index, position))
            else {
                return;
            };
            for group in &groups {
                for (place, slot) in group.places() {
                    if let Some(g) = slot.and_then(|slot| self.gradient(slot)) {
                        self.owned_add(pointer, site.at + place, group.real, g);
                    }
                }
            }
            // The sums are complete at the first load, which is reversed last.
            if owned.sites.iter().all(|other| other.instr >= position) {
                self.owned_flush(pointer, access, site.at);
            }
            return;
        }
        for group in &groups {
            let with: Vec<(i64, RegId)> = group
                .places()
                .filter_map(|(place, slot)| Some((place, self.gradient(slot?)?)))
                .collect();
            if owned.is_some() {
                let all = with.into_iter().map(|(place, g)| (place, vec![Some(g)])).collect();
                let (space, address) = (access.space, *access.address);
                self.plain_adds(&[Pieces { pointer, space, address, real: group.real, all }]);
                continue;
            }
            for (place, g) in with {
                if self.add_to_warp_sum(pointer, access.space, group.real, access.address, place, g)
                {
                    continue;
                }
                if let Some((base, offset, some)) = self.shadow(pointer, access.address, place) {
                    self.shared_add(access.space, group.real, (base, offset), g, some);
                }
            }
        }
    }

    /// Takes the gradient of a stored value, and clears it: before the store, the value had none.
    fn reverse_store(
        &mut self,
        pointer: usize,
        access: &Access<'_>,
        group: &Group,
        taken: Option<Taken>,
    ) {
        let taken = taken.or_else(|| self.shadow_load(pointer, access, group));
        let Some((addr, taken, some)) = taken else { return };
        let (ty, zero) = (type_of(group.real), number(group.real, 0.0));
        let clears = self.shadows.clears.get(pointer).copied().flatten().unwrap_or(some);
        let mut any: Option<RegId> = None;
        if let [g] = *taken {
            let with = (BoolOp::And, holds(clears));
            any = Some(self.b.setp_with(Cmp::Neu, ty, Operand::Reg(g), zero, with));
        } else {
            for g in &taken {
                let g = Operand::Reg(*g);
                any = Some(match any {
                    None => self.b.setp(Cmp::Neu, ty, g, zero),
                    Some(any) => self.b.setp_with(Cmp::Neu, ty, g, zero, (BoolOp::Or, holds(any))),
                });
            }
            any = any.map(|any| self.both(holds(clears), holds(any)));
        }
        if let Some(any) = any {
            self.b.store(Some(holds(any)), access.space, ty, addr, &vec![zero; taken.len()]);
        }
        self.taken(group, &taken);
    }

    /// Takes the gradient of an added value, which stays.
    fn reverse_add(&mut self, pointer: usize, access: &Access<'_>, group: &Group) {
        let Some((base, offset, some)) = self.shadow(pointer, access.address, group.offset) else {
            return;
        };
        let (addr, ty) = (at(base, offset), type_of(group.real));
        let taken = match self.invariant(pointer, access.address) {
            // An `invariant` gradient is loaded by the first iteration.
            Some(open) => {
                let taken: Vec<RegId> = group.slots.iter().map(|_| self.b.reg(ty)).collect();
                let known = self.b.reg(Type::Pred);
                if let Some(open) = self.open.get_mut(open) {
                    open.zeros.extend(taken.iter().map(|g| (*g, ty)));
                    open.zeros.push((known, Type::Pred));
                }
                let when = self.both(holds(some), fails(known));
                let loaded: Vec<Option<RegId>> = taken.iter().copied().map(Some).collect();
                self.b.load_to(Some(holds(when)), access.space, ty, &loaded, addr);
                self.b.copy(Type::Pred, known, Operand::Imm(1));
                taken
            }
            None => self.load_some(access.space, group, addr, some),
        };
        self.taken(group, &taken);
    }

    /// Returns the outermost open loop, by position, in which the address is invariant, if the kernel only adds to the
    /// memory.
    fn invariant(&self, pointer: usize, address: &Address) -> Option<usize> {
        let Base::Reg(base) = address.base else { return None };
        let used = self.analysis.effects.get(pointer)?;
        let region = self.body.region_of(self.body.definition(base)?);
        let found = self.open.iter().position(|open| self.parent(open.region) == Some(region));
        found.filter(|_| !used.stored && !used.loaded)
    }

    fn taken(&mut self, group: &Group, taken: &[RegId]) {
        for (slot, g) in group.slots.iter().zip(taken) {
            if let Some(slot) = slot {
                self.add(*slot, Term::Plus(*g));
            }
        }
    }

    /// Loads the gradients that the block's stores take before any is stored, if nothing is loaded through the same
    /// pointers and each byte is stored once: independent loads overlap.
    pub(super) fn take_first(&mut self, index: usize) {
        let Some(block) = self.body.blocks.get(index) else { return };
        let origin = |this: &Self, instr: &Instr| {
            let access = Access::of(instr)?;
            Some(this.analysis.forms.address(this.body, access.address).origin)
        };
        let mut found = Vec::new();
        for (position, instr) in block.code.iter().enumerate().rev() {
            let Some(Origin::Pointer(pointer)) = origin(self, instr) else { continue };
            let active = self.analysis.pointers.get(pointer).is_some_and(|p| p.slot.is_some());
            if !active || !matches!(instr.op, Op::St { .. }) {
                continue;
            }
            let stores =
                self.analysis.effects.get(pointer).is_some_and(|used| !used.loaded && !used.added);
            if stores && stores_once(self.body, self.analysis, pointer) {
                found.push((position, instr, pointer));
            }
        }
        if found.len() < 2 {
            return;
        }
        let mut pointers: Vec<usize> = found.iter().map(|(.., pointer)| *pointer).collect();
        pointers.sort_unstable();
        pointers.dedup();
        for (at, a) in pointers.iter().enumerate() {
            let pairs = pointers.iter().skip(at + 1).map(|b| (*a, *b));
            let new: Vec<_> = pairs.filter(|pair| !self.shadows.apart.contains(pair)).collect();
            self.shadows.apart.extend(new);
        }
        for (position, instr, pointer) in found {
            let Some(access) = Access::of(instr) else { continue };
            let groups = self.groups(&access, Some(pointer));
            self.b.loc = instr.loc;
            let loads = groups.iter().map(|group| self.shadow_load(pointer, &access, group));
            if let Some(loads) = loads.collect::<Option<Vec<_>>>() {
                self.block.taken.insert(position, loads);
            }
        }
        self.b.loc = None;
    }

    /// Loads gradients; zeros if there are none.
    fn shadow_load(&mut self, pointer: usize, access: &Access<'_>, group: &Group) -> Option<Taken> {
        let (base, offset, some) = self.shadow(pointer, access.address, group.offset)?;
        let addr = at(base, offset);
        Some((addr, self.load_some(access.space, group, addr, some), some))
    }

    fn load_some(&mut self, space: Space, group: &Group, addr: Address, some: RegId) -> Vec<RegId> {
        let ty = type_of(group.real);
        let taken: Vec<RegId> =
            group.slots.iter().map(|_| self.b.moved(ty, number(group.real, 0.0))).collect();
        let loaded: Vec<Option<RegId>> = taken.iter().copied().map(Some).collect();
        self.b.load_to(Some(holds(some)), space, ty, &loaded, addr);
        taken
    }

    /// Returns a predicate that holds if both do.
    pub(super) fn both(&mut self, a: Pred, b: Pred) -> RegId {
        let known = [a, b].map(|pred| if pred.negated { self.b.not(pred.reg) } else { pred.reg });
        self.b.binary(BinaryOp::And, Type::Pred, Operand::Reg(known[0]), Operand::Reg(known[1]))
    }
}

impl Group {
    pub(super) fn places(&self) -> impl Iterator<Item = (i64, Option<Slot>)> {
        let step = i64::from(self.real.bytes());
        (0i64..).zip(&self.slots).map(move |(at, slot)| (self.offset + at * step, *slot))
    }

    /// Splits groups that no vector instruction can access: of three, or not aligned.
    fn powers(self) -> Vec<Self> {
        let count = i64::try_from(self.slots.len()).unwrap_or(i64::MAX);
        if count != 3 && self.offset % (count * i64::from(self.real.bytes())).max(1) == 0 {
            return vec![self];
        }
        let single = |(offset, slot)| Self { offset, real: self.real, slots: vec![slot] };
        self.places().map(single).collect()
    }
}
