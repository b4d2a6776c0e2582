//! Which numbers depend on active inputs, and which of them active outputs depend on.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Instr, Operand, RegId, Space, VarId};

use super::address_form::{Forms, Origin};
use super::cells::Cell;
use super::halves::Halves;
use super::part::is_part_of_number;
use super::semantics::{
    Semantics, Slot, lost_function, operands, real, semantics, sign_bit, sign_mask, slots,
};
use super::unconditional::unconditional;
use super::value_kind::{Kind, Kinds};
use super::{Access, Pointers};
use crate::Reason;
use crate::body::Body;
use crate::spec::Real;

/// A loss of a derivative.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lost {
    pub(crate) block: usize,
    pub(crate) instr: usize,
    pub(crate) reason: Reason,
}

/// The activity of all slots.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    varied: Vec<bool>,
    useful: Vec<bool>,
    /// The loss of each slot: a position in `losses`.
    lost: Vec<Option<usize>>,
    losses: Vec<Lost>,
    known: HashMap<Lost, usize>,
    /// The losses of loads by a loaded pointer that was joined with no declared pointer.
    undeclared: HashSet<usize>,
    /// The numbers that slots are halves of; `None` until it is known which slots are varied.
    halves: Option<Halves>,
    /// Slots whose value reaches an output unconditionally.
    unconditional: Vec<bool>,
    /// Words of local memory.
    locals: HashMap<Cell, Local>,
    /// Variables with words that have gradients.
    active_locals: HashSet<VarId>,
}

/// The possible contents of a word of local memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Local {
    varied: bool,
    useful: bool,
    lost: Option<usize>,
}

impl Activity {
    pub(crate) fn new(body: &Body, pointers: &Pointers, forms: &Forms, kinds: &Kinds) -> Self {
        let slots = body.function.registers.len() * 2;
        let mut this = Self {
            varied: vec![false; slots],
            useful: vec![false; slots],
            lost: vec![None; slots],
            unconditional: vec![false; slots],
            ..Self::default()
        };
        this.all_forward(body, pointers, forms, kinds);
        // The halves of different numbers lose a derivative, but change nothing that is varied.
        this.halves = Some(Halves::new(body, kinds, &this.varied));
        this.all_forward(body, pointers, forms, kinds);
        loop {
            let before = (this.useful.clone(), this.locals.clone());
            this.backward(body, pointers, forms, kinds);
            if before == (this.useful.clone(), this.locals.clone()) {
                break;
            }
        }
        let active = this.locals.iter().filter(|(_, local)| local.varied && local.useful);
        this.active_locals = active.map(|((var, _), _)| *var).collect();
        this.unconditional = unconditional(body, pointers, forms, kinds, &this);
        this
    }

    /// Returns whether a variable of local memory holds numbers with gradients.
    pub(crate) fn is_local_active(&self, var: VarId) -> bool {
        self.active_locals.contains(&var)
    }

    /// Returns whether a number depends on active inputs.
    pub(crate) fn is_varied(&self, slot: Slot) -> bool {
        self.varied.get(slot.index()).copied().unwrap_or(false)
    }

    /// Returns whether a number depends on active inputs in a way whose derivative is not known.
    pub(crate) fn is_lost(&self, slot: Slot) -> bool {
        self.lost.get(slot.index()).is_some_and(Option::is_some)
    }

    /// Returns how many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.useful.len()
    }

    /// Returns whether active outputs depend on a number.
    pub(crate) fn is_useful(&self, slot: Slot) -> bool {
        self.useful.get(slot.index()).copied().unwrap_or(false)
    }

    /// Returns whether a number has a gradient.
    pub(crate) fn is_active(&self, slot: Slot) -> bool {
        self.is_varied(slot) && self.is_useful(slot)
    }

    /// Returns whether threads exchange a number with a gradient.
    pub(crate) fn exchanges(&self, instr: &Instr) -> bool {
        matches!(semantics(instr), Semantics::Exchange { d, .. } if self.is_active(Slot::low(d)))
    }

    /// Returns whether a number reaches an output unconditionally.
    pub(crate) fn is_unconditional(&self, slot: Slot) -> bool {
        self.unconditional.get(slot.index()).copied().unwrap_or(false)
    }

    /// Returns whether bits were made from those of a number that depends on active inputs.
    pub(crate) fn is_of_bits(&self, slot: Slot) -> bool {
        let lost = self.lost.get(slot.index()).copied().flatten();
        let reason = lost.and_then(|at| self.losses.get(at)).map(|lost| &lost.reason);
        matches!(reason, Some(Reason::Bits | Reason::Half | Reason::Warp))
    }

    /// Returns the losses that outputs depend on.
    pub(crate) fn losses(&self) -> Vec<Lost> {
        let found = self.lost.iter().zip(&self.useful).filter(|(_, useful)| **useful);
        let mut indices: Vec<usize> = found.filter_map(|(lost, _)| *lost).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().filter_map(|at| self.losses.get(at).cloned()).collect()
    }

    fn vary(&mut self, slot: Slot, from: impl IntoIterator<Item = Slot>) {
        let (mut varied, mut lost) = (false, None);
        for slot in from {
            varied |= self.is_varied(slot);
            lost = lost.or(self.lost.get(slot.index()).copied().flatten());
        }
        self.set(slot, varied, lost);
    }

    /// Records that a number depends on these slots.
    fn vary_number(&mut self, d: RegId, real: Real, from: &[Slot]) {
        self.vary(Slot::low(d), from.iter().copied());
        if real == Real::F64 {
            self.vary(Slot::high(d), from.iter().copied());
        }
    }

    fn set(&mut self, slot: Slot, varied: bool, lost: Option<usize>) {
        if let Some(place) = self.varied.get_mut(slot.index()) {
            *place |= varied;
        }
        if let Some(place) = self.lost.get_mut(slot.index()) {
            *place = place.or(lost);
        }
    }

    /// Repeats passes until nothing changes: loops and local memory lead back to earlier code.
    fn all_forward(&mut self, body: &Body, pointers: &Pointers, forms: &Forms, kinds: &Kinds) {
        loop {
            let before = (self.varied.clone(), self.lost.clone(), self.locals.clone());
            self.forward(body, pointers, forms, kinds);
            if before == (self.varied.clone(), self.lost.clone(), self.locals.clone()) {
                break;
            }
        }
    }

    fn forward(&mut self, body: &Body, pointers: &Pointers, forms: &Forms, kinds: &Kinds) {
        for (index, block) in body.blocks.iter().enumerate() {
            for phi in &block.phis {
                for half in [Slot::low, Slot::high] {
                    let args = phi.args.iter().filter_map(|(_, arg)| match arg {
                        Some(Operand::Reg(reg)) => Some(half(*reg)),
                        _ => None,
                    });
                    self.vary(half(phi.reg), args.collect::<Vec<_>>());
                }
            }
            for (at, instr) in block.code.iter().enumerate() {
                let mut lose = |this: &mut Self, reason: Reason| {
                    let lost = Lost { block: index, instr: at, reason };
                    *this.known.entry(lost.clone()).or_insert_with(|| {
                        this.losses.push(lost);
                        this.losses.len() - 1
                    })
                };
                match semantics(instr) {
                    Semantics::Copy(pairs) => {
                        for (d, a) in &pairs {
                            self.vary(*d, *a);
                        }
                        for (d, _) in &pairs {
                            let (d, high) = (*d, Slot::high(d.reg()));
                            let both = pairs.iter().any(|(other, _)| *other == high);
                            let varied = self.is_varied(d) || self.is_varied(high);
                            let is_double = both && kinds.get(d) == Some(Kind::F64);
                            if is_double && varied && !self.is_whole(d) {
                                let lost = lose(self, Reason::Bits);
                                self.set(d, false, Some(lost));
                            }
                        }
                    }
                    Semantics::Exchange { d, a } => {
                        self.vary(Slot::low(d), a);
                    }
                    Semantics::Choice { pairs, .. } => {
                        for (d, sources) in pairs {
                            self.vary(d, sources.into_iter().flatten());
                        }
                    }
                    Semantics::Arithmetic(arithmetic) => {
                        self.vary_number(arithmetic.d, arithmetic.real, &operands(&arithmetic));
                    }
                    Semantics::Loaded { real, d, value } => {
                        for (slot, a) in slots(&Operand::Reg(d), real).zip(slots(&value, real)) {
                            let lost = self.lost.get(a.index()).copied().flatten();
                            let lost = lost.filter(|at| !self.undeclared.contains(at));
                            self.set(slot, self.is_varied(a), lost);
                        }
                    }
                    Semantics::Rule { real, d, terms, .. } => {
                        let terms = terms.iter().flat_map(|(by, _)| slots(by, real));
                        self.vary_number(d, real, &terms.collect::<Vec<_>>());
                    }
                    Semantics::Bits => {
                        if let Some((_, real, d, a)) = sign_mask(instr)
                            && kinds.real(Slot::low(d)) == Some(real)
                        {
                            self.vary_number(d, real, &slots(&a, real).collect::<Vec<_>>());
                            continue;
                        }
                        if self.sign_bit(kinds, instr) {
                            continue;
                        }
                        self.tainted(kinds, instr, Reason::Bits, &mut lose);
                    }
                    Semantics::Opaque(reason) => self.tainted(kinds, instr, reason, &mut lose),
                    Semantics::Load => {
                        self.load(body, pointers, forms, kinds, instr, &mut lose);
                    }
                    Semantics::Store | Semantics::Accumulate => {
                        let Some(access) = Access::of(instr) else { continue };
                        for (slot, word) in local_slots(body, forms, kinds, &access) {
                            let lost = self.lost.get(slot.index()).copied().flatten();
                            let varied = self.is_varied(slot);
                            let local = self.locals.entry(word).or_default();
                            local.varied |= varied;
                            local.lost = local.lost.or(lost);
                        }
                    }
                    Semantics::Constant | Semantics::Nothing => {}
                }
            }
        }
    }

    /// Returns whether an instruction takes the sign bit of a number, which is a constant like a comparison with 0.
    /// A lost derivative stays lost: the bits may be anything.
    fn sign_bit(&mut self, kinds: &Kinds, instr: &Instr) -> bool {
        let Some((d, a, bits)) = sign_bit(instr) else { return false };
        let Some(low) = Slot::of(&a) else { return false };
        let is_number = match kinds.get(low) {
            Some(Kind::F32 | Kind::F64High) => bits == 32,
            Some(Kind::F64) => bits == 64,
            _ => false,
        };
        if is_number {
            let halves = [low, Slot::high(low.reg())].into_iter().take(bits as usize / 32);
            let lost =
                halves.filter_map(|slot| self.lost.get(slot.index()).copied().flatten()).next();
            self.set(Slot::low(d), false, lost);
            self.set(Slot::high(d), false, lost);
        }
        is_number
    }

    /// Records that results have no known derivative, if an operand had one.
    fn tainted(
        &mut self,
        kinds: &Kinds,
        instr: &Instr,
        reason: Reason,
        lose: &mut impl FnMut(&mut Self, Reason) -> usize,
    ) {
        let (mut varied, mut lost) = (false, None);
        instr.for_each_use(&mut |reg: RegId| {
            for slot in [Slot::low(reg), Slot::high(reg)] {
                varied |= self.is_varied(slot) && kinds.get(slot).is_some();
                lost = lost.or(self.lost.get(slot.index()).copied().flatten());
            }
        });
        // An atomic operation returns values that other threads have added. A marker says that a value depends on
        // something; a marker of a function depends on its arguments alone.
        varied |= reason == Reason::AtomicResult
            || reason == Reason::Lost && lost_function(instr).is_none();
        if varied && (lost.is_none() || reason == Reason::Lost) {
            lost = Some(lose(self, reason));
        }
        if lost.is_some() {
            instr.for_each_def(&mut |reg: RegId| {
                self.set(Slot::low(reg), false, lost);
                self.set(Slot::high(reg), false, lost);
            });
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a load depends on all that")]
    fn load(
        &mut self,
        body: &Body,
        pointers: &Pointers,
        forms: &Forms,
        kinds: &Kinds,
        instr: &Instr,
        lose: &mut impl FnMut(&mut Self, Reason) -> usize,
    ) {
        let Some(access) = Access::of(instr) else { return };
        let form = forms.address(body, access.address);
        let memory = |shared| if shared { Reason::SharedMemory } else { Reason::LocalMemory };
        let halves = |reg: RegId| {
            let high = (access.ty.bits() == 64).then(|| (Slot::high(reg), 4));
            [Some((Slot::low(reg), 0)), high].into_iter().flatten()
        };
        for (at, reg) in access.parts() {
            let Some(reg) = reg else { continue };
            for (slot, more) in halves(reg) {
                if let Origin::Local(var) = form.origin {
                    let bytes = access.ty.bytes().min(4);
                    let mut local = Local::default();
                    for word in kinds.local_words(var, &form, at + more, bytes) {
                        let more = self.locals.get(&word).copied().unwrap_or_default();
                        local.varied |= more.varied;
                        local.lost = local.lost.or(more.lost);
                    }
                    let number = access.ty.bits() >= 32 && kinds.get(slot).is_some();
                    self.set(slot, local.varied && number, local.lost);
                    if local.varied && !number && local.lost.is_none() {
                        // An unknown value may be the bits of a number. For an integer the loss does no harm.
                        let lost = lose(self, memory(body.is_shared(var)));
                        self.set(slot, false, Some(lost));
                    }
                    continue;
                }
                if matches!(access.space, Space::Local | Space::Shared) {
                    // The variable is unknown.
                    if kinds.get(slot).is_some() && !self.locals.is_empty() {
                        let lost = lose(self, memory(access.space == Space::Shared));
                        self.set(slot, false, Some(lost));
                    }
                    continue;
                }
                let is_number = real(access.ty).is_some();
                if !is_number && pointers.takes_halves(&access, &form, at + more) {
                    let lost = lose(self, Reason::Bits);
                    self.set(slot, false, Some(lost));
                    continue;
                }
                if access.ty.bits() < 32 && !is_number {
                    // A part of a number's bits.
                    let Origin::Pointer(index) = form.origin else { continue };
                    if is_part_of_number(pointers, kinds, index, &form, at, access.ty.bytes()) {
                        let lost = lose(self, Reason::Bits);
                        self.set(slot, false, Some(lost));
                    }
                    continue;
                }
                if kinds.get(slot).is_none() {
                    continue;
                }
                match form.origin {
                    Origin::Param(param) => {
                        let offset =
                            form.param_offset().and_then(|o| o.checked_add_signed(at + more));
                        let number = offset.and_then(|offset| pointers.number(param, offset));
                        let is_f64_high = || {
                            offset.and_then(|offset| pointers.number(param, offset.checked_sub(4)?))
                        };
                        let active = number.or_else(is_f64_high).is_some_and(|(_, active)| active);
                        self.set(slot, active, None);
                        let any = pointers.numbers_are_active(param);
                        if any && offset.is_none() {
                            let lost = lose(self, Reason::LocalMemory);
                            self.set(slot, false, Some(lost));
                        }
                    }
                    Origin::Pointer(index) => {
                        let active =
                            pointers.get(index).is_some_and(|pointer| pointer.slot.is_some());
                        self.set(slot, active, None);
                    }
                    Origin::Choice(_) => {
                        let all = forms.pointers(form.origin).iter();
                        let active =
                            |&at: &usize| pointers.get(at).is_some_and(|p| p.slot.is_some());
                        self.set(slot, all.into_iter().any(active), None);
                    }
                    Origin::Variable(_) | Origin::Local(_) => {}
                    Origin::Number | Origin::Unknown | Origin::Distance(..) => {
                        // An unknown address may lead to active memory, unless no pointer is active.
                        if !matches!(access.space, Space::Const)
                            && pointers.iter().any(|p| p.slot.is_some())
                        {
                            let lost = lose(self, Reason::PointerInMemory);
                            if form.origin == Origin::Number {
                                self.undeclared.insert(lost);
                            }
                            self.set(slot, false, Some(lost));
                        }
                    }
                }
            }
        }
    }

    fn backward(&mut self, body: &Body, pointers: &Pointers, forms: &Forms, kinds: &Kinds) {
        for block in body.blocks.iter().rev() {
            for instr in block.code.iter().rev() {
                if let (Semantics::Load, Some(access)) = (semantics(instr), Access::of(instr)) {
                    for (slot, word) in local_slots(body, forms, kinds, &access) {
                        if self.is_useful(slot) {
                            self.locals.entry(word).or_default().useful = true;
                        }
                    }
                }
                let stores = |word| self.locals.get(&word).is_some_and(|local| local.useful);
                let found = passes(body, pointers, forms, kinds, &stores, instr);
                let loaded = matches!(semantics(instr), Semantics::Loaded { .. });
                for Passed { to, from, .. } in found {
                    let lost = self.lost.get(from.index()).copied().flatten();
                    if loaded && lost.is_some_and(|at| self.undeclared.contains(&at)) {
                        // Memory that the specification does not name holds constants.
                        continue;
                    }
                    if to.is_none_or(|to| self.is_useful(to))
                        && let Some(place) = self.useful.get_mut(from.index())
                    {
                        *place = true;
                    }
                }
            }
            for phi in &block.phis {
                for half in [Slot::low, Slot::high] {
                    if !self.is_useful(half(phi.reg)) {
                        continue;
                    }
                    for (_, arg) in &phi.args {
                        if let Some(Operand::Reg(reg)) = arg
                            && let Some(place) = self.useful.get_mut(half(*reg).index())
                        {
                            *place = true;
                        }
                    }
                }
            }
        }
    }

    /// Returns whether the lower half of a `double` and its upper half are those of one number.
    fn is_whole(&self, low: Slot) -> bool {
        self.halves.as_ref().is_none_or(|halves| halves.is_whole(low))
    }
}

/// A slot that another depends on, or memory.
pub(super) struct Passed {
    /// `None` for memory that outputs depend on.
    pub(super) to: Option<Slot>,
    pub(super) from: Slot,
    /// Whether `to` depends on `from` unconditionally.
    pub(super) unconditional: bool,
}

/// Returns the halves of registers that an access to local memory loads or stores, each with the words that it may be
/// in.
fn local_slots(
    body: &Body,
    forms: &Forms,
    kinds: &Kinds,
    access: &Access<'_>,
) -> Vec<(Slot, Cell)> {
    let form = forms.address(body, access.address);
    let Origin::Local(var) = form.origin else { return Vec::new() };
    let bytes = access.ty.bytes().min(4);
    let mut found = Vec::new();
    for (at, reg) in access.parts() {
        let Some(reg) = reg else { continue };
        let high = (access.ty.bits() == 64).then(|| (Slot::high(reg), 4));
        for (slot, more) in [Some((Slot::low(reg), 0)), high].into_iter().flatten() {
            let words = kinds.local_words(var, &form, at + more, bytes);
            found.extend(words.into_iter().map(|word| (slot, word)));
        }
    }
    found
}

/// Returns the slots that an instruction's results depend on. `stores` says whether outputs depend on a word of local
/// memory.
pub(super) fn passes(
    body: &Body,
    pointers: &Pointers,
    forms: &Forms,
    kinds: &Kinds,
    stores: &dyn Fn(Cell) -> bool,
    instr: &Instr,
) -> Vec<Passed> {
    let mut found = Vec::new();
    let mut pass = |to: Option<Slot>, from: Slot, unconditional: bool| {
        found.push(Passed { to, from, unconditional });
    };
    match semantics(instr) {
        Semantics::Store | Semantics::Accumulate => {
            let Some(access) = Access::of(instr) else { return found };
            let unconditional = match forms.address(body, access.address).origin {
                Origin::Pointer(pointer)
                    if pointers.get(pointer).is_some_and(|pointer| pointer.slot.is_some()) =>
                {
                    true
                }
                Origin::Local(_) => {
                    for (slot, word) in local_slots(body, forms, kinds, &access) {
                        if kinds.get(slot).is_some() && stores(word) {
                            pass(None, slot, false);
                        }
                    }
                    return found;
                }
                _ => return found,
            };
            for reg in access.registers() {
                let high = (access.ty.bits() == 64).then(|| Slot::high(reg));
                for slot in [Some(Slot::low(reg)), high].into_iter().flatten() {
                    if kinds.get(slot).is_some() {
                        // The upper half of a `double` has no separate gradient.
                        pass(None, slot, unconditional);
                    }
                }
            }
        }
        Semantics::Copy(pairs) => {
            for (d, a) in pairs {
                a.into_iter().for_each(|a| pass(Some(d), a, true));
            }
        }
        // Other threads may not read it.
        Semantics::Exchange { d, a } => {
            a.into_iter().for_each(|a| pass(Some(Slot::low(d)), a, false));
        }
        Semantics::Choice { pairs, .. } => {
            for (d, sources) in pairs {
                sources.into_iter().flatten().for_each(|a| pass(Some(d), a, false));
            }
        }
        Semantics::Arithmetic(arithmetic) => {
            use super::semantics::Smooth::{Copysign, Max, Max3, Min, Min3};
            let chooses = matches!(arithmetic.op, Min | Max | Min3 | Max3 | Copysign);
            for arg in operands(&arithmetic) {
                pass(Some(Slot::low(arithmetic.d)), arg, !chooses);
            }
        }
        Semantics::Loaded { real, d, value } => {
            slots(&value, real).for_each(|a| pass(Some(Slot::low(d)), a, true));
        }
        Semantics::Rule { real, d, terms, .. } => {
            for by in terms.iter().flat_map(|(by, _)| slots(by, real)) {
                pass(Some(Slot::low(d)), by, true);
            }
        }
        Semantics::Bits => {
            if let Some((_, real, d, a)) = sign_mask(instr)
                && kinds.real(Slot::low(d)) == Some(real)
            {
                slots(&a, real).for_each(|a| pass(Some(Slot::low(d)), a, true));
            }
        }
        Semantics::Load | Semantics::Opaque(_) | Semantics::Constant | Semantics::Nothing => {}
    }
    found
}
