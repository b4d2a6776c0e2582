//! The forms of integers and addresses: which pointer an address comes from, and how it depends on the thread.

use std::collections::HashMap;

use ptx::ir::{
    Address, Base as AddressBase, BinaryOp, Dim, Instr, MulPart, Op, Operand, RegId, Space,
    Special, Symbol, Type, VarId,
};

use super::{Pointers, gcd};
use crate::body::Body;

/// The origin of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Origin {
    /// A number: nothing that is known to be an address was added to it.
    #[default]
    Number,
    /// The pointer of this index in [`Pointers`].
    Pointer(usize),
    /// One of several pointers, chosen by `selp`: position in [`Forms::choices`].
    Choice(usize),
    /// The memory of this parameter itself.
    Param(usize),
    /// This variable of the function, in local or shared memory.
    Local(VarId),
    /// A variable of the module or the function, or the stack.
    Variable(Space),
    /// The distance from the second of these pointers to the first: no address. Adjoints add it to addresses.
    Distance(usize, usize),
    /// Another origin: a loaded address, or one of several of these.
    Unknown,
}

/// A part of a thread's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Atom {
    Tid,
    Ntid,
    Ctaid,
    /// `%ctaid.x * %ntid.x`
    First,
    /// `%ctaid.x * %ntid.x + %tid.x`
    Thread,
}

/// A number that depends on the thread alone: `scale * atom + constant`, where neither the launch nor the arguments
/// make it wrap. `widest` is the largest factor by which 32 bits were multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Linear {
    atom: Option<Atom>,
    scale: i64,
    constant: i64,
    widest: u32,
}

/// A value: `origin + linear`, or `origin + residue` up to multiples of `modulus`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) origin: Origin,
    linear: Option<Linear>,
    /// 1 for an unknown value; 0 for `residue` itself.
    modulus: u64,
    residue: i64,
    /// The least and the largest offset from the origin, if they are known: of 32 bits, as a signed number.
    range: Option<(i64, i64)>,
}

/// An offset from a pointer that depends on the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadOffset {
    /// Bytes from one thread to the next.
    pub(crate) stride: i64,
    pub(crate) constant: i64,
    /// The largest factor by which the thread's index was multiplied in 32 bits.
    pub(crate) widest: u32,
}

impl Form {
    const UNKNOWN: Self =
        Self { origin: Origin::Number, linear: None, modulus: 1, residue: 0, range: None };

    fn constant(value: i64) -> Self {
        let constant = Linear { atom: None, scale: 0, constant: value, widest: 1 };
        let range = Some((value, value));
        Self { origin: Origin::Number, linear: Some(constant), modulus: 0, residue: value, range }
    }

    fn atom(atom: Atom) -> Self {
        let linear = Linear { atom: Some(atom), scale: 1, constant: 0, widest: 1 };
        Self { linear: Some(linear), ..Self::UNKNOWN }
    }

    fn of(origin: Origin) -> Self {
        Self { origin, ..Self::constant(0) }
    }

    /// Returns the offset from the origin, if it is the index of the thread times a constant plus a constant.
    pub(crate) fn thread_offset(&self) -> Option<ThreadOffset> {
        let Linear { atom: Some(Atom::Thread), scale, constant, widest } = self.linear? else {
            return None;
        };
        Some(ThreadOffset { stride: scale, constant, widest })
    }

    /// Returns whether it is the index of the thread.
    pub(crate) fn is_thread(&self) -> bool {
        self.origin == Origin::Number
            && self.thread_offset().is_some_and(|offset| (offset.stride, offset.constant) == (1, 0))
    }

    /// Returns what is added to the first coordinate of the thread in its block, or in the launch if `grid` says so.
    pub(super) fn after_thread(&self, grid: bool) -> Option<i64> {
        let linear =
            self.linear.filter(|linear| linear.scale == 1 && self.origin == Origin::Number)?;
        let is = linear.atom == Some(Atom::Tid) || grid && linear.atom == Some(Atom::Thread);
        is.then_some(linear.constant)
    }

    /// Returns the offset from the origin within elements of `size` bytes, if it is the same in each.
    pub(crate) fn within(&self, size: u64, more: i64) -> Option<u64> {
        let known = self.modulus == 0 || (size > 0 && self.modulus.is_multiple_of(size));
        let size = i128::from(size.max(1));
        let at = i128::from(self.residue) + i128::from(more);
        known.then(|| u64::try_from(at.rem_euclid(size)).unwrap_or(0))
    }

    /// Returns the modulus and the residue of the offset from the origin.
    pub(crate) fn residue(&self) -> (u64, i64) {
        (self.modulus, self.residue)
    }

    /// Returns the least and the largest offset from the origin, if they are known.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        self.range
    }

    /// Sets the range, if the bits do not wrap.
    fn ranged(mut self, range: Option<(i64, i64)>, bits: u32) -> Self {
        if self.modulus != 0 {
            let fits = |(low, high): &(i64, i64)| {
                bits == 64 || bits == 32 && *low >= i32::MIN.into() && *high <= i32::MAX.into()
            };
            self.range = range.filter(fits);
        }
        self
    }

    /// Converts to an unsigned number of more bits.
    fn unsigned(mut self) -> Self {
        self.range = self.range.filter(|(low, _)| *low >= 0);
        self
    }

    /// Returns the constant that the value is.
    fn value(&self) -> Option<i64> {
        (self.origin == Origin::Number && self.modulus == 0).then_some(self.residue)
    }

    fn add(self, other: Self, negate: bool, bits: u32) -> Self {
        let origin = match (self.origin, other.origin) {
            (origin, Origin::Number) => origin,
            (Origin::Number, origin) if !negate => origin,
            // The distance of two addresses is a number.
            (a, b) if negate && a == b => return Self::UNKNOWN,
            (Origin::Pointer(to), Origin::Pointer(from)) if negate => Origin::Distance(to, from),
            (Origin::Pointer(at), Origin::Distance(to, from))
            | (Origin::Distance(to, from), Origin::Pointer(at))
                if at == from && !negate =>
            {
                Origin::Pointer(to)
            }
            _ => Origin::Unknown,
        };
        let sign = if negate { -1 } else { 1 };
        let linear = || {
            let (a, b) = (self.linear?, other.linear?);
            let constant = a.constant.checked_add(b.constant.checked_mul(sign)?)?;
            let widest = a.widest.max(b.widest);
            let (atom, scale) = match (a.atom, b.atom) {
                (atom, None) => (atom, a.scale),
                (None, atom) => (atom, b.scale.checked_mul(sign)?),
                (Some(Atom::First), Some(Atom::Tid)) | (Some(Atom::Tid), Some(Atom::First))
                    if a.scale == b.scale && !negate =>
                {
                    (Some(Atom::Thread), a.scale)
                }
                _ => return None,
            };
            Some(Linear { atom, scale, constant, widest })
        };
        let modulus = gcd(self.modulus, other.modulus);
        let (a, b) = (i128::from(self.residue), i128::from(other.residue) * i128::from(sign));
        let range = || {
            let ((low, high), (least, most)) = (self.range?, other.range?);
            let (least, most) =
                if negate { (most.checked_neg()?, least.checked_neg()?) } else { (least, most) };
            Some((low.checked_add(least)?, high.checked_add(most)?))
        };
        let form = Self { origin, linear: linear(), ..residue(modulus, a + b, bits) };
        form.ranged(range(), bits)
    }

    fn times(self, factor: i64, bits: u32, wide: bool) -> Self {
        if self.origin != Origin::Number {
            return Self { origin: Origin::Unknown, ..Self::UNKNOWN };
        }
        let linear = || {
            let Linear { atom, scale, constant, widest } = self.linear?;
            let by = u32::try_from(factor.unsigned_abs()).ok();
            let widest = if wide || bits == 64 { widest } else { widest.checked_mul(by?)? };
            let (scale, constant) = (scale.checked_mul(factor)?, constant.checked_mul(factor)?);
            Some(Linear { atom, scale, constant, widest })
        };
        let modulus = match self.modulus {
            // A modulus that overflows is replaced by one of its divisors.
            0 => 0,
            modulus => {
                let by = factor.unsigned_abs();
                modulus
                    .checked_mul(by)
                    .filter(|&product| product > 0)
                    .unwrap_or(1 << by.trailing_zeros().min(63))
            }
        };
        let product = i128::from(self.residue) * i128::from(factor);
        let range = || {
            let (low, high) = self.range?;
            let ends = (low.checked_mul(factor)?, high.checked_mul(factor)?);
            Some((ends.0.min(ends.1), ends.0.max(ends.1)))
        };
        let form = Self { linear: linear(), ..residue(modulus, product, bits) };
        form.ranged(range(), bits)
    }

    fn product(self, other: Self, bits: u32, wide: bool) -> Self {
        if let Some(factor) = other.value() {
            return self.times(factor, bits, wide);
        }
        if let Some(factor) = self.value() {
            return other.times(factor, bits, wide);
        }
        let atoms = |a: Self, b: Self| {
            let of = |form: Self, atom: Atom| {
                form.linear.is_some_and(|linear| {
                    linear == Linear { atom: Some(atom), scale: 1, constant: 0, widest: 1 }
                })
            };
            of(a, Atom::Ctaid) && of(b, Atom::Ntid)
        };
        if atoms(self, other) || atoms(other, self) {
            return Self::atom(Atom::First);
        }
        if (self.origin, other.origin) != (Origin::Number, Origin::Number) {
            return Self { origin: Origin::Unknown, ..Self::UNKNOWN };
        }
        // The product of the factors' divisors, where they leave no remainder.
        let divisor = |form: Self| if form.residue == 0 { form.modulus.max(1) } else { 1 };
        let modulus = divisor(self).checked_mul(divisor(other)).unwrap_or(1);
        residue(modulus, 0, bits)
    }

    fn join(self, other: Self) -> Self {
        let origin = if self.origin == other.origin { self.origin } else { Origin::Unknown };
        let linear = self.linear.filter(|_| self.linear == other.linear);
        let apart = self.residue.abs_diff(other.residue);
        let modulus = gcd(gcd(self.modulus, other.modulus), apart);
        let range = || {
            let ((low, high), (least, most)) = (self.range?, other.range?);
            Some((low.min(least), high.max(most)))
        };
        let form = Self { origin, linear, ..residue(modulus, i128::from(self.residue), 64) };
        form.ranged(range(), 64)
    }
}

/// Returns numbers of `bits` that are `value` up to multiples of `modulus`. If a number may wrap, only powers of two
/// remain of the modulus.
fn residue(modulus: u64, value: i128, bits: u32) -> Form {
    let whole = 1i128 << bits.min(64);
    if modulus == 0 {
        // As a signed number of so many bits.
        let value = (value + whole / 2).rem_euclid(whole) - whole / 2;
        return Form::constant(i64::try_from(value).unwrap_or(0));
    }
    // Residues stay below 2^63.
    let power = 1 << modulus.trailing_zeros().min(62);
    let modulus = if bits < 64 || modulus > i64::MAX.cast_unsigned() { power } else { modulus };
    let residue = i64::try_from(value.rem_euclid(i128::from(modulus))).unwrap_or(0);
    Form { modulus, residue, ..Form::UNKNOWN }
}

/// Returns whether it is one number of 32 or 64 bits.
fn is_integer(ty: Type) -> bool {
    use Type::{B32, B64, S32, S64, U32, U64};
    matches!(ty, B32 | B64 | S32 | S64 | U32 | U64)
}

/// After this pass, carried values become unknown: residues shrink at each pass.
const MOST_PASSES: u32 = 64;

/// After this pass, growing ranges of carried values become unknown.
const WIDEST_PASS: u32 = 2;

/// The forms of a kernel's registers.
#[derive(Debug)]
pub(crate) struct Forms {
    list: Vec<Form>,
    /// Sets of pointers of which one is chosen, in ascending order.
    choices: Vec<Vec<usize>>,
}

impl Forms {
    pub(crate) fn new(body: &Body, pointers: &Pointers) -> Self {
        let list = vec![Form::UNKNOWN; body.function.registers.len()];
        let mut forms = Self { list, choices: Vec::new() };
        // Carried values begin as those that enter the loop.
        let mut joins: HashMap<RegId, Form> = HashMap::new();
        for pass in 0.. {
            let mut changed = false;
            for (index, block) in body.blocks.iter().enumerate() {
                for phi in &block.phis {
                    let mut joined = joins.get(&phi.reg).copied();
                    for (from, arg) in &phi.args {
                        if pass == 0 && *from >= index {
                            continue;
                        }
                        let form = arg.map_or(Form::UNKNOWN, |arg| forms.operand(&arg));
                        joined = Some(joined.map_or(form, |joined| joined.join(form)));
                    }
                    let mut joined = joined.unwrap_or(Form::UNKNOWN);
                    // A range that grows with each iteration has no end.
                    if pass > WIDEST_PASS
                        && joins.get(&phi.reg).is_some_and(|known| known.range != joined.range)
                    {
                        joined.range = None;
                    }
                    if joins.get(&phi.reg) != Some(&joined) {
                        if pass > MOST_PASSES {
                            joined = Form { origin: Origin::Unknown, ..Form::UNKNOWN };
                        }
                        changed |= joins.insert(phi.reg, joined) != Some(joined);
                    }
                    forms.set(phi.reg, joined);
                }
                for instr in &block.code {
                    forms.instr(body, pointers, instr);
                }
            }
            if !changed {
                break;
            }
        }
        forms
    }

    pub(crate) fn reg(&self, reg: RegId) -> Form {
        self.list.get(reg.index()).copied().unwrap_or_default()
    }

    pub(crate) fn operand(&self, operand: &Operand) -> Form {
        match *operand {
            Operand::Reg(reg) => self.reg(reg),
            Operand::Imm(value) => Form::constant(value.cast_signed()),
            Operand::Special(Special::Tid(Dim::X)) => Form::atom(Atom::Tid),
            Operand::Special(Special::Ntid(Dim::X)) => Form::atom(Atom::Ntid),
            Operand::Special(Special::Ctaid(Dim::X)) => Form::atom(Atom::Ctaid),
            Operand::Special(_) => Form::UNKNOWN,
            Operand::Symbol(..) => Form { origin: Origin::Unknown, ..Form::UNKNOWN },
        }
    }

    /// Returns the form of an integer of this type. Constants have their sign.
    fn int(&self, operand: &Operand, ty: Type) -> Form {
        match *operand {
            Operand::Imm(value) if ty.bits() == 32 => {
                let low = u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0);
                Form::constant(i64::from(low.cast_signed()))
            }
            _ => self.operand(operand),
        }
    }

    /// Returns the form of a factor. Numbers that may be negative differ as unsigned numbers of more bits.
    fn factor(&self, operand: &Operand, ty: Type, wide: bool) -> Form {
        let form = self.int(operand, ty);
        if wide && !ty.is_signed() { form.unsigned() } else { form }
    }

    /// Returns the form of the address of an access.
    pub(crate) fn address(&self, body: &Body, address: &Address) -> Form {
        let base = match address.base {
            AddressBase::Reg(reg) => self.reg(reg),
            AddressBase::Symbol(symbol) => symbol_form(body, symbol),
            AddressBase::Absolute => Form { origin: Origin::Unknown, ..Form::UNKNOWN },
        };
        let form = base.add(Form::constant(address.offset), false, 64);
        match form.origin {
            Origin::Distance(..) => Form { origin: Origin::Unknown, ..Form::UNKNOWN },
            _ => form,
        }
    }

    /// Returns the pointers that an address may come from.
    pub(crate) fn pointers(&self, origin: Origin) -> &[usize] {
        match origin {
            Origin::Choice(at) => self.choices.get(at).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Returns whether an address comes from a pointer, or may come from it.
    pub(crate) fn may_be(&self, origin: Origin, pointer: usize) -> bool {
        origin == Origin::Pointer(pointer) || self.pointers(origin).contains(&pointer)
    }

    /// Returns the origin of an address that comes from one of two different ones, if both are pointers.
    fn choice(&mut self, a: Origin, b: Origin) -> Option<Origin> {
        if a == b {
            return None;
        }
        let mut all = Vec::new();
        for origin in [a, b] {
            match origin {
                Origin::Pointer(pointer) => all.push(pointer),
                Origin::Choice(_) => all.extend(self.pointers(origin)),
                _ => return None,
            }
        }
        all.sort_unstable();
        all.dedup();
        let known = self.choices.iter().position(|known| *known == all);
        Some(Origin::Choice(known.unwrap_or_else(|| {
            self.choices.push(all);
            self.choices.len() - 1
        })))
    }

    fn set(&mut self, reg: RegId, form: Form) {
        if let Some(place) = self.list.get_mut(reg.index()) {
            *place = form;
        }
    }

    fn instr(&mut self, body: &Body, pointers: &Pointers, instr: &Instr) {
        // An unknown result may still be an address that one of the operands was.
        let mut origins = Origin::Number;
        instr.for_each_use(&mut |reg: RegId| {
            if self.reg(reg).origin != Origin::Number {
                origins = Origin::Unknown;
            }
        });
        let other = Form { origin: origins, ..Form::UNKNOWN };
        instr.for_each_def(&mut |reg: RegId| self.set(reg, other));
        let bits = |ty: Type| ty.bits();
        let (d, form) = match &instr.op {
            Op::Mov { d, a: Operand::Symbol(symbol, offset), .. } => {
                let offset = Form::constant(*offset);
                (*d, symbol_form(body, *symbol).add(offset, false, 64))
            }
            Op::Mov { ty, d, a } if bits(*ty) >= 32 => {
                let known = d.and_then(|d| body.origins.get(&d));
                let form = self.int(a, *ty);
                (*d, Form { origin: known.copied().unwrap_or(form.origin), ..form })
            }
            Op::Cvta { d, a, .. } => (*d, self.operand(a)),
            Op::Binary { op: BinaryOp::Add, ty, mode, d, a, b } if is_integer(*ty) && !mode.sat => {
                (*d, self.int(a, *ty).add(self.int(b, *ty), false, bits(*ty)))
            }
            Op::Binary { op: BinaryOp::Sub, ty, mode, d, a, b } if is_integer(*ty) && !mode.sat => {
                (*d, self.int(a, *ty).add(self.int(b, *ty), true, bits(*ty)))
            }
            Op::Binary { op: BinaryOp::Shl, ty, d, a, b, .. } if is_integer(*ty) => {
                match self.operand(b).value() {
                    Some(by @ 0..=31) => (*d, self.int(a, *ty).times(1 << by, bits(*ty), false)),
                    _ => return,
                }
            }
            // A result of some bits of a number.
            Op::Binary { op: BinaryOp::And, ty, d, a, b: Operand::Imm(mask), .. }
                if is_integer(*ty)
                    && self.operand(a).origin == Origin::Number
                    && (1..1 << 31).contains(mask) =>
            {
                let masked = residue(1 << mask.trailing_zeros(), 0, bits(*ty));
                (*d, masked.ranged(Some((0, mask.cast_signed())), bits(*ty)))
            }
            Op::Binary { op: BinaryOp::Rem, ty, d, a, b: Operand::Imm(by), .. }
                if is_integer(*ty)
                    && self.operand(a).origin == Origin::Number
                    && (1..1 << 31).contains(by) =>
            {
                let most = by.cast_signed() - 1;
                let least = if ty.is_signed() { -most } else { 0 };
                (*d, Form::UNKNOWN.ranged(Some((least, most)), bits(*ty)))
            }
            Op::Mul { ty, part: Some(part @ (MulPart::Lo | MulPart::Wide)), d, a, b, .. } => {
                let wide = *part == MulPart::Wide;
                let of = if wide { bits(*ty) * 2 } else { bits(*ty) };
                let factor = |operand| self.factor(operand, *ty, wide);
                (*d, factor(a).product(factor(b), of, wide))
            }
            Op::Mad { ty, part: Some(part @ (MulPart::Lo | MulPart::Wide)), mode, d, a, b, c }
                if !mode.sat =>
            {
                let wide = *part == MulPart::Wide;
                let of = if wide { bits(*ty) * 2 } else { bits(*ty) };
                let factor = |operand| self.factor(operand, *ty, wide);
                let product = factor(a).product(factor(b), of, wide);
                let c = if wide { self.operand(c) } else { self.int(c, *ty) };
                (*d, product.add(c, false, of))
            }
            // Conversions keep a thread's index, up to 2^31 threads.
            Op::Cvt { to, from, d, a, b: None, .. }
                if !to.is_float() && !from.is_float() && bits(*to) >= 32 && bits(*from) >= 32 =>
            {
                let form = self.int(a, *from);
                let extended = bits(*to) >= bits(*from);
                match (extended, form.value()) {
                    (true, Some(value)) if value < 0 && !from.is_signed() => return,
                    (true, _) if bits(*from) < bits(*to) && !from.is_signed() => {
                        (*d, form.unsigned())
                    }
                    (true, _) => (*d, form),
                    (false, _) if form.origin == Origin::Number => {
                        let narrow = residue(form.modulus, i128::from(form.residue), 32);
                        let narrow = Form { linear: form.linear, ..narrow };
                        (*d, narrow.ranged(form.range, 32))
                    }
                    _ => return,
                }
            }
            Op::Selp { ty, d, a, b, .. } => {
                let (a, b) = (self.int(a, *ty), self.int(b, *ty));
                let joined = a.join(b);
                let origin = self.choice(a.origin, b.origin).unwrap_or(joined.origin);
                (*d, Form { origin, ..joined })
            }
            Op::Ld { ty, d, addr, .. } => {
                let address = self.address(body, addr);
                for (at, d) in (0u64..).zip(d) {
                    let Some(d) = *d else { continue };
                    let form = match address.origin {
                        Origin::Param(param) if ty.bits() == 64 => {
                            let offset = address
                                .param_offset()
                                .and_then(|offset| offset.checked_add(8 * at));
                            let found = offset.and_then(|offset| pointers.find(param, offset));
                            found
                                .map_or(Form::UNKNOWN, |pointer| Form::of(Origin::Pointer(pointer)))
                        }
                        _ => Form::UNKNOWN,
                    };
                    self.set(d, form);
                }
                return;
            }
            // Values from memory are like those of a load.
            Op::Atom { d, .. } => {
                d.iter().flatten().for_each(|d| self.set(*d, Form::UNKNOWN));
                return;
            }
            _ => return,
        };
        if let Some(d) = d {
            self.set(d, form);
        }
    }
}

impl Form {
    /// The offset in a parameter.
    pub(crate) fn param_offset(&self) -> Option<u64> {
        (self.modulus == 0).then(|| u64::try_from(self.residue).ok()).flatten()
    }
}

fn symbol_form(body: &Body, symbol: Symbol) -> Form {
    let origin = match symbol {
        Symbol::Var(var) => match body.params().position(|known| known == var) {
            Some(param) => Origin::Param(param),
            None => match body.function.variables.get(var.index()) {
                Some(variable) if matches!(variable.space, Space::Local | Space::Shared) => {
                    Origin::Local(var)
                }
                Some(variable) => Origin::Variable(variable.space),
                None => Origin::Unknown,
            },
        },
        Symbol::Global(id) => {
            let space = body.globals.get(id.index()).copied();
            Origin::Variable(space.unwrap_or(Space::Global))
        }
        Symbol::Function(_) => Origin::Unknown,
    };
    Form::of(origin)
}
