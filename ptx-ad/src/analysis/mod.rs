//! The analyses of a kernel before its adjoint is written.

mod activity;
mod address_form;
mod cells;
mod constant;
mod halves;
mod part;
mod semantics;
mod thread_owned;
mod together;
mod unconditional;
mod uniform;
mod value_kind;

use ptx::ir::{Address, Instr, Op, Operand, Order, RegId, Space, Type, VarId};

pub(crate) use activity::{Activity, Lost};
pub(crate) use address_form::{Form, Forms, Origin};
pub(crate) use part::is_part_of_number;
pub(crate) use semantics::{
    Arithmetic, Chooser, Clamped, Semantics, Slot, Smooth, is_global, marked, real, real_in_memory,
    semantics, sign_mask,
};
pub(crate) use thread_owned::ThreadOwned;
pub(crate) use together::{Barriers, Shape, is_block_barrier, is_reduction, uses_shared};
pub(crate) use value_kind::{Kind, Kinds};

use crate::body::Body;
use crate::spec::{self, Effect, Real, Reals, Spec};

/// A pointer of a kernel's parameters.
#[derive(Debug, Clone)]
pub(crate) struct PointerInfo {
    pub(crate) param: usize,
    pub(crate) spec: spec::Pointer,
    /// The type of the 16-bit floats behind it. `spec` then says `float`, their type in registers.
    pub(crate) half: Option<Real>,
    /// The gradient parameter, and its bit in the frame's masks; `None` if it is not active.
    pub(crate) slot: Option<usize>,
}

/// The pointers and numbers of a kernel's parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pointers {
    list: Vec<PointerInfo>,
    /// The numbers: parameter, offset, type, and whether they are active.
    numbers: Vec<(usize, u64, Real, bool)>,
}

/// A gradient parameter of the adjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GradientSlot {
    /// A pointer to the gradients of the elements of the pointer with this index.
    Pointer(usize),
    /// The parameter with this index, as the structure that it is.
    Structure(usize),
    /// A pointer to the partial sums of the numbers in the parameter with this index.
    Partials(usize),
}

impl Pointers {
    /// Returns the pointers, and the gradient parameters in order.
    pub(crate) fn new(spec: &Spec) -> (Self, Vec<GradientSlot>) {
        let (mut pointers, mut slots) = (Self::default(), Vec::new());
        for (index, param) in spec.params.iter().enumerate() {
            let first = slots.len();
            for pointer in &param.pointers {
                let slot = pointer.active.then_some(first);
                if pointer.active && !param.structure {
                    slots.push(GradientSlot::Pointer(pointers.list.len()));
                }
                let half = match pointer.reals {
                    Some(Reals::All(real)) => Some(real).filter(|real| real.scale() > 1),
                    _ => None,
                };
                let mut spec = pointer.clone();
                if half.is_some() {
                    spec.reals = Some(Reals::All(Real::F32));
                }
                pointers.list.push(PointerInfo { param: index, spec, half, slot });
            }
            if param.structure && param.pointers.iter().any(|pointer| pointer.active) {
                slots.push(GradientSlot::Structure(index));
            }
            if param.active && !param.reals.is_empty() {
                slots.push(GradientSlot::Partials(index));
            }
            let numbers = param.reals.iter();
            pointers
                .numbers
                .extend(numbers.map(|(at, real)| (index, u64::from(*at), *real, param.active)));
        }
        (pointers, slots)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&PointerInfo> {
        self.list.get(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PointerInfo> {
        self.list.iter()
    }

    /// Returns the pointer at an offset in a parameter.
    pub(crate) fn find(&self, param: usize, offset: u64) -> Option<usize> {
        self.list
            .iter()
            .position(|known| known.param == param && u64::from(known.spec.offset) == offset)
    }

    /// Returns the offsets and types of the numbers in a parameter.
    pub(crate) fn numbers_of(&self, param: usize) -> impl Iterator<Item = (u64, Real)> {
        let of = move |(known, at, real, _): &(usize, u64, Real, bool)| {
            (*known == param).then_some((*at, *real))
        };
        self.numbers.iter().filter_map(of)
    }

    /// Returns whether gradients with respect to the numbers in a parameter are wanted.
    pub(crate) fn numbers_are_active(&self, param: usize) -> bool {
        self.numbers.iter().any(|(of, _, _, active)| *of == param && *active)
    }

    /// Returns the type of the number of 32 or 64 bits that lies at an offset in a parameter.
    pub(crate) fn number_at(&self, param: usize, offset: u64) -> Option<Real> {
        self.number(param, offset).map(|(real, _)| real).filter(|real| real.scale() == 1)
    }

    /// Returns the type of the 16-bit float that lies at an offset in a parameter.
    pub(crate) fn half_at(&self, param: usize, offset: u64) -> Option<Real> {
        self.number(param, offset).map(|(real, _)| real).filter(|real| real.scale() > 1)
    }

    /// Returns the type of the 16-bit floats behind an address.
    pub(crate) fn half_behind(&self, forms: &Forms, origin: Origin) -> Option<Real> {
        match origin {
            Origin::Pointer(index) => self.get(index)?.half,
            Origin::Choice(_) => {
                let mut all = forms.pointers(origin).iter().map(|&at| self.get(at)?.half);
                let first = all.next().flatten();
                all.all(|half| half == first).then_some(first).flatten()
            }
            _ => None,
        }
    }

    /// Returns whether there are numbers of 32 or 64 bits behind an address.
    pub(crate) fn are_wide(&self, forms: &Forms, origin: Origin) -> bool {
        let is_wide = |index: usize| {
            self.get(index).is_some_and(|known| known.half.is_none() && known.spec.reals.is_some())
        };
        match origin {
            Origin::Pointer(index) => is_wide(index),
            Origin::Choice(_) => forms.pointers(origin).iter().any(|&index| is_wide(index)),
            _ => false,
        }
    }

    /// Returns whether there are 16-bit floats behind a pointer or in a parameter.
    pub(crate) fn has_halves(&self) -> bool {
        self.list.iter().any(|pointer| pointer.half.is_some())
            || self.numbers.iter().any(|(_, _, real, _)| real.scale() > 1)
    }

    /// Returns whether bits of active 16-bit floats are loaded as another type.
    fn takes_halves(&self, access: &Access<'_>, form: &Form, at: i64) -> bool {
        match form.origin {
            Origin::Param(param) => {
                let place = form.param_offset().and_then(|place| place.checked_add_signed(at));
                let Some(place) = place else { return false };
                let end = place.saturating_add(u64::from(access.ty.bytes().min(4)));
                (place.saturating_sub(1)..end).any(|place| {
                    self.number(param, place)
                        .is_some_and(|(real, active)| active && real.scale() > 1)
                })
            }
            Origin::Pointer(index) => {
                self.get(index).is_some_and(|p| p.slot.is_some() && p.half.is_some())
            }
            _ => false,
        }
    }

    /// Returns the bytes of gradients for each byte behind a pointer.
    pub(crate) fn scale(&self, pointer: usize) -> u32 {
        let half = self.get(pointer).and_then(|pointer| pointer.half);
        half.map_or(1, Real::scale)
    }

    /// Returns the type of the number that lies at an offset in a parameter, and whether it is active.
    pub(crate) fn number(&self, param: usize, offset: u64) -> Option<(Real, bool)> {
        let found = self.numbers.iter().find(|(of, at, ..)| (*of, *at) == (param, offset));
        found.map(|(_, _, real, active)| (*real, *active))
    }
}

/// A load, a store or an atomic operation without a result.
#[derive(Debug, Clone)]
pub(crate) struct Access<'i> {
    pub(crate) space: Space,
    pub(crate) order: Order,
    pub(crate) ty: Type,
    pub(crate) address: &'i Address,
    /// The results or stored operands; `None` for a constant or an unused result.
    pub(crate) values: Vec<Option<RegId>>,
}

impl<'i> Access<'i> {
    pub(crate) fn of(instr: &'i Instr) -> Option<Self> {
        let registers = |operands: &[Operand]| {
            let of = |operand: &Operand| match operand {
                Operand::Reg(reg) => Some(*reg),
                _ => None,
            };
            operands.iter().map(of).collect()
        };
        Some(match &instr.op {
            Op::Ld { access, ty, d, addr, .. } => Self {
                space: access.space,
                order: access.order,
                ty: *ty,
                address: addr,
                values: d.to_vec(),
            },
            Op::St { access, ty, addr, a } | Op::Atom { access, ty, addr, a, .. } => Self {
                space: access.space,
                order: access.order,
                ty: *ty,
                address: addr,
                values: registers(a),
            },
            _ => return None,
        })
    }

    /// Returns the registers that are loaded to or stored.
    pub(crate) fn registers(&self) -> impl Iterator<Item = RegId> {
        self.values.iter().flatten().copied()
    }

    /// Returns the offsets of [`registers`](Self::registers) from the address.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = i64> {
        let step = i64::from(self.ty.bytes());
        let all = (0i64..).zip(&self.values);
        all.filter(|(_, value)| value.is_some()).map(move |(at, _)| at.saturating_mul(step))
    }

    /// Returns each value with its offset from the address.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (i64, Option<RegId>)> {
        let step = i64::from(self.ty.bytes());
        (0i64..).zip(&self.values).map(move |(at, value)| (at.saturating_mul(step), *value))
    }

    /// Returns whether the address lies in a parameter of the kernel, or of a call.
    pub(crate) fn is_param(&self) -> bool {
        matches!(self.space, Space::Param | Space::ParamEntry | Space::ParamFunc)
    }
}

/// The effects of a kernel on the memory behind each pointer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) loaded: bool,
    pub(crate) stored: bool,
    pub(crate) added: bool,
}

impl Used {
    pub(crate) fn effect(self) -> Effect {
        match (self.loaded, self.stored, self.added) {
            (_, false, false) => Effect::Reads,
            (false, true, false) => Effect::Overwrites,
            (false, false, true) => Effect::Accumulates,
            _ => Effect::Updates,
        }
    }
}

/// The results of all analyses.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub(crate) pointers: Pointers,
    pub(crate) slots: Vec<GradientSlot>,
    pub(crate) forms: Forms,
    pub(crate) kinds: Kinds,
    pub(crate) activity: Activity,
    /// The effects of the source kernel on the memory behind each pointer. [`update`](Self::update) keeps them.
    pub(crate) effects: Vec<Used>,
    pub(crate) thread_owned: ThreadOwned,
    /// Whether each register has the same value in all threads of a block that are in the same iterations.
    uniform: Vec<bool>,
}

impl Analysis {
    pub(crate) fn new(body: &Body, spec: &Spec) -> Self {
        let (pointers, slots) = Pointers::new(spec);
        let forms = Forms::new(body, &pointers);
        let kinds = Kinds::new(body, &pointers, &forms);
        let activity = Activity::new(body, &pointers, &forms, &kinds);
        let effects = effects(body, &pointers, &forms);
        let thread_owned = ThreadOwned::new(body, &pointers, &forms, &effects);
        let uniform = uniform::uniform(body, &forms, &effects, uniform::Scope::Block);
        Self { pointers, slots, forms, kinds, activity, effects, thread_owned, uniform }
    }

    /// Analyses a body that a step has rewritten.
    pub(crate) fn update(&mut self, body: &Body, spec: &Spec) {
        let effects = std::mem::take(&mut self.effects);
        *self = Self { effects, ..Self::new(body, spec) };
    }

    /// Returns whether all threads of a block that are in the same iterations have the same value in a register.
    pub(crate) fn is_uniform(&self, reg: RegId) -> bool {
        self.uniform.get(reg.index()).copied().unwrap_or(false)
    }

    /// Returns whether the kernel loads by an address of unknown origin, which may be that of any parameter.
    pub(crate) fn loads_anywhere(&self, body: &Body) -> bool {
        body.instrs().any(|(_, instr)| {
            let is_unknown = |access: Access<'_>| {
                let origin = self.forms.address(body, access.address).origin;
                is_global(access.space) && matches!(origin, Origin::Unknown | Origin::Number)
            };
            matches!(instr.op, Op::Ld { .. }) && Access::of(instr).is_some_and(is_unknown)
        })
    }

    /// Returns whether the kernel stores or adds something through a pointer that depends on active inputs.
    pub(crate) fn stores_varied(&self, body: &Body, pointer: usize) -> bool {
        let depends = |slot: Slot| self.activity.is_varied(slot) || self.activity.is_lost(slot);
        body.instrs().filter(|(_, instr)| !matches!(instr.op, Op::Ld { .. })).any(|(_, instr)| {
            let Some(access) = Access::of(instr) else { return false };
            let origin = self.forms.address(body, access.address).origin;
            let may_be = match origin {
                Origin::Pointer(_) | Origin::Choice(_) => self.forms.may_be(origin, pointer),
                Origin::Unknown | Origin::Number => true,
                Origin::Param(_)
                | Origin::Local(_)
                | Origin::Variable(_)
                | Origin::Distance(..) => false,
            };
            may_be
                && access.registers().any(|reg| depends(Slot::low(reg)) || depends(Slot::high(reg)))
        })
    }

    /// Returns whether the reverse of stores may read gradients to which several threads add.
    pub(crate) fn takes_sums(&self) -> bool {
        self.pointers.iter().enumerate().any(|(index, pointer)| {
            let used = self.effects.get(index).copied().unwrap_or_default();
            pointer.slot.is_some()
                && used.loaded
                && used.stored
                && self.thread_owned.get(index).is_none()
        })
    }

    /// Returns whether some variable of local memory holds numbers with gradients.
    pub(crate) fn has_active_locals(&self, body: &Body) -> bool {
        let count = u32::try_from(body.function.variables.len()).unwrap_or(u32::MAX);
        (0..count).any(|var| self.activity.is_local_active(VarId(var)))
    }
}

/// Returns the effects of a kernel on the memory behind each pointer.
fn effects(body: &Body, pointers: &Pointers, forms: &Forms) -> Vec<Used> {
    let mut used = vec![Used::default(); pointers.list.len()];
    for (_, instr) in body.instrs() {
        let address = match &instr.op {
            Op::Ld { addr, .. } | Op::St { addr, .. } | Op::Atom { addr, .. } => addr,
            _ => continue,
        };
        let origin = forms.address(body, address).origin;
        for &index in forms.pointers(origin) {
            if let Some(used) = used.get_mut(index) {
                used.loaded = true;
            }
        }
        let Origin::Pointer(index) = origin else { continue };
        let Some(used) = used.get_mut(index) else { continue };
        match (&instr.op, semantics(instr)) {
            (Op::Ld { .. }, _) => used.loaded = true,
            (Op::Atom { .. }, Semantics::Accumulate) => used.added = true,
            (Op::Atom { .. }, _) => (used.loaded, used.stored) = (true, true),
            _ => used.stored = true,
        }
    }
    used
}

/// Returns the greatest common divisor; of 0 and another number, that.
fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
