//! The kinds of numbers that 32 bits of registers hold. A register's declared type gives only its width: a `float` may
//! lie in a `.b32`, and two in a `.b64`.

use std::collections::HashMap;

use ptx::ir::{Address, Instr, Op, Operand, RegId, Type, VarId};

use super::address_form::{Form, Forms, Origin};
use super::cells::{Cell, LocalCells};
use super::constant::constants;
use super::semantics::{Semantics, Slot, real, semantics, sign_mask};
use super::{Access, Pointers};
use crate::body::Body;
use crate::spec::{Real, Reals};

/// The contents of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A `float`.
    F32,
    /// The lower half of a `double`.
    F64,
    /// The upper half of a `double`.
    F64High,
    /// Different kinds at different times.
    Mixed,
}

impl Kind {
    /// Returns the type of the number that begins here.
    pub(crate) fn real(self) -> Option<Real> {
        match self {
            Self::F32 => Some(Real::F32),
            Self::F64 => Some(Real::F64),
            Self::F64High | Self::Mixed => None,
        }
    }
}

/// Returns whether an instruction's types are those of its operands.
fn is_typed(op: &Op) -> bool {
    matches!(op, Op::Setp { .. } | Op::Set { .. } | Op::Cvt { .. } | Op::Testp { .. })
}

/// The kinds of all slots: classes of slots that are copies of each other, by union and find.
#[derive(Debug)]
pub(crate) struct Kinds {
    parent: Vec<u32>,
    /// The number of slots in the class of each root.
    size: Vec<u32>,
    kind: Vec<Option<Kind>>,
    /// Members of elements in memory: the pointer and the offset.
    cells: HashMap<(usize, u64), u32>,
    /// Slots whose value depends on numbers only through comparisons. Their bits may be of several types: 0 is zero in
    /// each.
    constant: Vec<bool>,
    locals: LocalCells,
}

impl Kinds {
    pub(crate) fn new(body: &Body, pointers: &Pointers, forms: &Forms) -> Self {
        let slots = body.function.registers.len() * 2;
        let parent = (0..u32::try_from(slots).unwrap_or(u32::MAX)).collect();
        let (size, kind) = (vec![1; slots], vec![None; slots]);
        let (constant, locals) = (constants(body), LocalCells::new(body, forms));
        let mut kinds = Self { parent, size, kind, cells: HashMap::new(), constant, locals };
        for block in &body.blocks {
            for phi in &block.phis {
                let ty = body.function.registers.get(phi.reg.index()).copied().unwrap_or(Type::B32);
                for (_, arg) in &phi.args {
                    if let Some(Operand::Reg(arg)) = arg {
                        kinds.unite_registers(ty, phi.reg, *arg);
                    }
                }
            }
        }
        let mut masks = Vec::new();
        for (_, instr) in body.instrs() {
            kinds.instr(body, pointers, forms, instr);
            masks.extend(sign_mask(instr));
        }
        // A number with a changed sign bit is still a number, and so are its copies.
        let mut open = masks;
        loop {
            let before = open.len();
            open.retain(|(_, real, d, a)| {
                let Some(source) = Slot::of(a) else { return false };
                let found = kinds
                    .get(source)
                    .and_then(Kind::real)
                    .or(kinds.get(Slot::low(*d)).and_then(Kind::real));
                if found != Some(*real) {
                    return true;
                }
                kinds.number(Slot::low(*d), *real);
                kinds.number(source, *real);
                false
            });
            let changed = kinds.locals();
            if open.len() == before && !changed {
                return kinds;
            }
        }
    }

    /// Joins copies through local memory. (Copies of bits do not say what they copy.)
    fn locals(&mut self) -> bool {
        // A constant may be stored to all of an array: zeros, for any kind.
        let constant = |slot: Slot| self.constant.get(slot.index()) == Some(&true);
        let halves = self.locals.halves().filter(|(slot, _)| !constant(*slot));
        let cells: Vec<(Slot, Cell)> = halves.collect();
        let mut changed = false;
        loop {
            let mut kinds: HashMap<Cell, Kind> = HashMap::new();
            for &(slot, cell) in &cells {
                if let Some(kind) = self.get(slot) {
                    let known = kinds.entry(cell).or_insert(kind);
                    if *known != kind {
                        *known = Kind::Mixed;
                    }
                }
            }
            let mut again = false;
            for &(slot, cell) in &cells {
                if let Some(kind) = kinds.get(&cell)
                    && *kind != Kind::Mixed
                    && self.get(slot).is_none()
                {
                    self.set(slot, *kind);
                    again = true;
                }
            }
            changed |= again;
            if !again {
                return changed;
            }
        }
    }

    /// Returns the words of local memory that bytes at an offset from an address may lie in. Overlapping accesses have
    /// a word in common.
    pub(crate) fn local_words(&self, var: VarId, form: &Form, at: i64, bytes: u32) -> Vec<Cell> {
        self.locals.words(var, form, at, bytes)
    }

    /// Returns whether a float may overlap less than 32 bits at an offset from an address, in local memory.
    pub(crate) fn may_be_local_number(&self, var: VarId, form: &Form, at: i64) -> bool {
        let words = self.locals.words(var, form, at, 1);
        self.locals.halves().any(|(slot, cell)| {
            let constant = self.constant.get(slot.index()) == Some(&true);
            words.contains(&cell) && !constant && self.get(slot).is_some()
        })
    }

    /// Returns what a slot holds; `None` if it is no number.
    pub(crate) fn get(&self, slot: Slot) -> Option<Kind> {
        let root = self.root(slot.index());
        self.kind.get(root).copied().flatten()
    }

    /// Returns the type of the number that begins in a slot.
    pub(crate) fn real(&self, slot: Slot) -> Option<Real> {
        self.get(slot).and_then(Kind::real)
    }

    /// Returns whether a float was found at bytes of an element behind a pointer.
    pub(crate) fn has_number_at(&self, pointer: usize, within: u64, bytes: u64) -> bool {
        let end = within.saturating_add(bytes);
        self.cells.iter().any(|((of, at), cell)| {
            let number = self.kind.get(self.root(*cell as usize)).copied().flatten().is_some();
            *of == pointer && number && *at < end && within < at.saturating_add(4)
        })
    }

    fn instr(&mut self, body: &Body, pointers: &Pointers, forms: &Forms, instr: &Instr) {
        match semantics(instr) {
            Semantics::Copy(pairs) => {
                pairs
                    .into_iter()
                    .filter_map(|(d, a)| Some((d, a?)))
                    .for_each(|(d, a)| self.copy(d, a));
                if let Op::Mov { ty, d: Some(d), a } = &instr.op
                    && let Some(real) = real(*ty)
                {
                    self.number(Slot::low(*d), real);
                    self.operand(a, real);
                }
            }
            Semantics::Exchange { d, a } => {
                a.into_iter().for_each(|a| self.copy(Slot::low(d), a));
            }
            Semantics::Choice { pairs, .. } => {
                for (d, sources) in pairs {
                    sources.into_iter().flatten().for_each(|a| self.copy(d, a));
                }
            }
            Semantics::Arithmetic(arithmetic) => {
                self.number(Slot::low(arithmetic.d), arithmetic.real);
                let of = match arithmetic.op {
                    super::semantics::Smooth::Convert(from) => from,
                    _ => arithmetic.real,
                };
                arithmetic.args.iter().for_each(|arg| self.operand(arg, of));
            }
            Semantics::Loaded { real, d, value } => {
                self.number(Slot::low(d), real);
                self.operand(&value, real);
            }
            Semantics::Rule { real, d, value, terms } => {
                self.number(Slot::low(d), real);
                self.operand(&value, real);
                for (by, derivative) in terms {
                    self.operand(&by, real);
                    self.operand(&derivative, real);
                }
            }
            Semantics::Load | Semantics::Store | Semantics::Accumulate => {
                self.access(body, pointers, forms, instr);
            }
            Semantics::Constant | Semantics::Bits if is_typed(&instr.op) => match &instr.op {
                Op::Setp { ty, a, b, .. } | Op::Set { ty, a, b, .. } => {
                    if let Some(real) = real(*ty) {
                        self.operand(a, real);
                        self.operand(b, real);
                    }
                }
                Op::Testp { ty, a, .. } => {
                    if let Some(real) = real(*ty) {
                        self.operand(a, real);
                    }
                }
                Op::Cvt { to, from, d, a, .. } => {
                    if let (Some(real), Some(d)) = (real(*to), d) {
                        self.number(Slot::low(*d), real);
                    }
                    if let Some(real) = real(*from) {
                        self.operand(a, real);
                    }
                }
                _ => {}
            },
            Semantics::Opaque(_) | Semantics::Bits | Semantics::Constant | Semantics::Nothing => {
                // A register of a float type holds a number, whatever the instruction.
                instr.for_each_def(&mut |reg: RegId| {
                    let declared = body.function.registers.get(reg.index()).copied();
                    if let Some(real) = declared.and_then(real) {
                        self.number(Slot::low(reg), real);
                    }
                });
            }
        }
    }

    fn access(&mut self, body: &Body, pointers: &Pointers, forms: &Forms, instr: &Instr) {
        let Some(access) = Access::of(instr) else { return };
        let values: Vec<RegId> = access.registers().collect();
        for (at, reg) in access.offsets().zip(values) {
            if let Some(real) = real(access.ty) {
                self.number(Slot::low(reg), real);
                let form = forms.address(body, access.address);
                if let Origin::Pointer(index) = form.origin
                    && let Some(pointer) = pointers.get(index)
                    && matches!(pointer.spec.reals, Some(Reals::Some(_)))
                    && let Some(within) = form.within(u64::from(pointer.spec.size), at)
                {
                    let cell = self.cell(index, within);
                    self.unite_indices(Slot::low(reg).index(), cell as usize);
                    if real == Real::F64 {
                        let cell = self.cell(index, within.saturating_add(4));
                        self.unite_indices(Slot::high(reg).index(), cell as usize);
                    }
                }
                continue;
            }
            self.member(
                body,
                pointers,
                forms,
                access.address,
                at,
                Slot::low(reg),
                access.ty.bits(),
            );
            if access.ty.bits() == 64 {
                self.member(body, pointers, forms, access.address, at + 4, Slot::high(reg), 32);
            }
        }
    }

    /// 32 bits at an offset from an address.
    #[allow(clippy::too_many_arguments, reason = "a place has that many parts")]
    fn member(
        &mut self,
        body: &Body,
        pointers: &Pointers,
        forms: &Forms,
        address: &Address,
        at: i64,
        slot: Slot,
        bits: u32,
    ) {
        if bits < 32 {
            return;
        }
        let form = forms.address(body, address);
        match form.origin {
            Origin::Param(param) => {
                let offset = form.param_offset().and_then(|offset| offset.checked_add_signed(at));
                let known = offset.and_then(|offset| pointers.number_at(param, offset));
                if let Some(real) = known {
                    self.part(slot, real, false);
                } else if let Some(real) =
                    offset.and_then(|offset| pointers.number_at(param, offset.checked_sub(4)?))
                {
                    self.part(slot, real, true);
                }
            }
            Origin::Choice(_) => {
                let all = forms.pointers(form.origin).iter().filter_map(|&at| pointers.get(at));
                let is_float = |one: &super::PointerInfo| {
                    one.half.is_none() && one.spec.reals == Some(Reals::All(Real::F32))
                };
                if all.into_iter().any(is_float) {
                    self.part(slot, Real::F32, false);
                }
            }
            Origin::Pointer(index) => {
                let Some(pointer) = pointers.get(index) else { return };
                let size = u64::from(pointer.spec.size);
                match pointer.spec.reals {
                    // Other accesses to 16-bit floats are refused.
                    _ if pointer.half.is_some() => {}
                    None | Some(Reals::All(Real::F16 | Real::Bf16)) => {}
                    Some(Reals::All(Real::F32)) => self.part(slot, Real::F32, false),
                    Some(Reals::All(Real::F64)) => {
                        if let Some(within) = form.within(size, at) {
                            self.part(slot, Real::F64, !within.is_multiple_of(8));
                        }
                    }
                    Some(Reals::Some(_)) => {
                        let Some(within) = form.within(size, at) else { return };
                        let cell = self.cell(index, within);
                        self.unite_indices(slot.index(), cell as usize);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the class of 32 bits of the elements behind a pointer.
    fn cell(&mut self, pointer: usize, within: u64) -> u32 {
        let fresh = u32::try_from(self.parent.len()).unwrap_or(u32::MAX);
        let cell = *self.cells.entry((pointer, within)).or_insert(fresh);
        if cell == fresh {
            self.parent.push(fresh);
            self.size.push(1);
            self.kind.push(None);
        }
        cell
    }

    /// A half of a `double`, or a `float`.
    fn part(&mut self, slot: Slot, real: Real, upper: bool) {
        match (real, upper) {
            (Real::F32 | Real::F16 | Real::Bf16, _) => self.set(slot, Kind::F32),
            (Real::F64, false) => self.set(slot, Kind::F64),
            (Real::F64, true) => self.set(slot, Kind::F64High),
        }
    }

    fn operand(&mut self, operand: &Operand, real: Real) {
        if let Some(slot) = Slot::of(operand) {
            self.number(slot, real);
        }
    }

    /// Records that a number begins in a slot.
    fn number(&mut self, slot: Slot, real: Real) {
        match real {
            Real::F32 | Real::F16 | Real::Bf16 => self.set(slot, Kind::F32),
            Real::F64 => {
                self.set(slot, Kind::F64);
                self.set(Slot::high(slot.reg()), Kind::F64High);
            }
        }
    }

    fn set(&mut self, slot: Slot, kind: Kind) {
        let root = self.root(slot.index());
        if let Some(known) = self.kind.get_mut(root) {
            *known =
                Some(known.map_or(kind, |before| if before == kind { kind } else { Kind::Mixed }));
        }
    }

    fn unite_registers(&mut self, ty: Type, a: RegId, b: RegId) {
        if ty.bits() >= 32 {
            self.copy(Slot::low(a), Slot::low(b));
        }
        if ty.bits() == 64 {
            self.copy(Slot::high(a), Slot::high(b));
        }
    }

    /// Records that a slot is a copy of another.
    fn copy(&mut self, d: Slot, a: Slot) {
        if !self.constant.get(a.index()).copied().unwrap_or(false) {
            self.unite_indices(d.index(), a.index());
        }
    }

    fn unite_indices(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let count = |at: usize| self.size.get(at).copied().unwrap_or(0);
        let (both, swap) = (count(a).saturating_add(count(b)), count(a) < count(b));
        let (a, b) = if swap { (b, a) } else { (a, b) };
        if let Some(size) = self.size.get_mut(a) {
            *size = both;
        }
        let kind = match (self.kind.get(a).copied().flatten(), self.kind.get(b).copied().flatten())
        {
            (Some(a), Some(b)) if a != b => Some(Kind::Mixed),
            (a, b) => a.or(b),
        };
        if let Some(parent) = self.parent.get_mut(b) {
            *parent = u32::try_from(a).unwrap_or(u32::MAX);
        }
        if let Some(place) = self.kind.get_mut(a) {
            *place = kind;
        }
    }

    fn root(&self, at: usize) -> usize {
        let mut at = at;
        while let Some(&parent) = self.parent.get(at) {
            if parent as usize == at {
                break;
            }
            at = parent as usize;
        }
        at
    }
}
