//! Which 16 bits of registers hold floats, and of which type.

use ptx::ir::{Instr, Op, Operand, Order, RegId, Type};

use super::parts::{Known, Moved, PARTS, Part, Source, count};
use crate::analysis::{Access, Forms, Origin, Pointers};
use crate::body::{Body, Phi};
use crate::spec::Real;

/// Returns the type of each lane of a type of 16-bit floats, and how many lanes it has.
pub(super) fn lanes(ty: Type) -> Option<(Type, u32)> {
    Some(match ty {
        Type::F16 => (Type::F16, 1),
        Type::F16x2 => (Type::F16, 2),
        Type::Bf16 => (Type::Bf16, 1),
        Type::Bf16x2 => (Type::Bf16, 2),
        _ => return None,
    })
}

/// Returns the PTX type of 16-bit floats in memory.
pub(super) fn half_type(real: Real) -> Option<Type> {
    match real {
        Real::F16 => Some(Type::F16),
        Real::Bf16 => Some(Type::Bf16),
        Real::F32 | Real::F64 => None,
    }
}

/// The contents of a class of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Floats of this type.
    Of(Type),
    /// Floats of both types.
    Mixed,
}

/// Classes of parts that are copies of each other, by union and find.
#[derive(Debug)]
pub(super) struct Kinds {
    parent: Vec<u32>,
    /// The number of parts in the class of each root.
    size: Vec<u32>,
    class: Vec<Option<Class>>,
    /// The number of parts of each register.
    counts: Vec<u32>,
}

impl Kinds {
    pub(super) fn new(body: &Body, pointers: &Pointers, forms: &Forms, known: &Known) -> Self {
        let registers = &body.function.registers;
        let parts = registers.len() * PARTS;
        let mut this = Self {
            parent: (0..u32::try_from(parts).unwrap_or(u32::MAX)).collect(),
            size: vec![1; parts],
            class: vec![None; parts],
            counts: registers.iter().map(|ty| count(*ty)).collect(),
        };
        for (reg, ty) in (0..).map(RegId).zip(registers) {
            this.typed(known, reg, *ty);
        }
        for phi in body.blocks.iter().flat_map(|block| &block.phis) {
            this.phi(known, phi);
        }
        let mut signs = Vec::new();
        for (_, instr) in body.instrs() {
            for (d, moved) in known.moves(instr) {
                match moved {
                    Moved::Copy(source) => this.copy(d, source),
                    Moved::Choice(a, b) => [a, b].into_iter().for_each(|a| this.copy(d, a)),
                    Moved::Neg(a) | Moved::Abs(a) => signs.push((d, a)),
                }
            }
            typed_registers(instr, &mut |reg, ty| this.typed(known, reg, ty));
            this.access(body, pointers, forms, known, instr);
        }
        // The source of a sign bit is a float if the result is one.
        loop {
            let before = signs.len();
            signs.retain(|&(d, a)| {
                let found = this.get(d).is_some() || this.get(a).is_some();
                if found {
                    this.unite(d, a);
                }
                !found
            });
            if signs.len() == before {
                return this;
            }
        }
    }

    /// Returns the type of the float that a part holds.
    pub(super) fn half(&self, part: Part) -> Option<Type> {
        match self.get(part) {
            Some(Class::Of(ty)) => Some(ty),
            Some(Class::Mixed) | None => None,
        }
    }

    /// Returns the parts of a register.
    pub(super) fn parts(&self, reg: RegId) -> impl Iterator<Item = Part> + use<> {
        let count = self.counts.get(reg.index()).copied().unwrap_or(0);
        (0..count).map(move |at| Part::new(reg, at))
    }

    fn get(&self, part: Part) -> Option<Class> {
        self.class.get(self.root(part.index())).copied().flatten()
    }

    fn phi(&mut self, known: &Known, phi: &Phi) {
        for part in self.parts(phi.reg) {
            for arg in phi.args.iter().filter_map(|(_, arg)| arg.as_ref()) {
                if let Some(source) = known.source(arg, part.at) {
                    self.copy(part, source);
                }
            }
        }
    }

    /// Constants have no kind: their bits may be of several types.
    fn copy(&mut self, d: Part, a: Source) {
        if let Source::Part(a) = a {
            self.unite(d, a);
        }
    }

    /// Records that a register holds floats, if `ty` is a type of 16-bit floats.
    fn typed(&mut self, known: &Known, reg: RegId, ty: Type) {
        if let Some((half, lanes)) = lanes(ty) {
            (0..lanes).for_each(|at| self.set(known, Part::new(reg, at), half));
        }
    }

    /// Joins parts with the memory that they are loaded from or stored to.
    fn access(
        &mut self,
        body: &Body,
        pointers: &Pointers,
        forms: &Forms,
        known: &Known,
        instr: &Instr,
    ) {
        let Some(access) = Access::of(instr).filter(|access| moves_halves(instr, access)) else {
            return;
        };
        let form = forms.address(body, access.address);
        for (offset, reg) in access.parts() {
            let Some(reg) = reg else { continue };
            for at in 0..count(access.ty) {
                let more = offset.saturating_add(i64::from(at) * 2);
                let half = match form.origin {
                    Origin::Param(param) => {
                        let place = form.param_offset().and_then(|o| o.checked_add_signed(more));
                        place.and_then(|place| pointers.half_at(param, place))
                    }
                    origin => pointers.half_behind(forms, origin),
                };
                if let Some(half) = half.and_then(half_type) {
                    self.set(known, Part::new(reg, at), half);
                }
            }
        }
    }

    fn set(&mut self, known: &Known, part: Part, half: Type) {
        if known.get(part).is_some() {
            return;
        }
        let root = self.root(part.index());
        if let Some(class) = self.class.get_mut(root) {
            *class = join(*class, Some(Class::Of(half)));
        }
    }

    fn unite(&mut self, a: Part, b: Part) {
        let (a, b) = (self.root(a.index()), self.root(b.index()));
        if a == b {
            return;
        }
        let size = |at: usize| self.size.get(at).copied().unwrap_or(0);
        let both = size(a).saturating_add(size(b));
        let (a, b) = if size(a) < size(b) { (b, a) } else { (a, b) };
        let class = |at: usize| self.class.get(at).copied().flatten();
        let joined = join(class(a), class(b));
        if let (Some(parent), Ok(a)) = (self.parent.get_mut(b), u32::try_from(a)) {
            *parent = a;
        }
        if let Some(size) = self.size.get_mut(a) {
            *size = both;
        }
        if let Some(class) = self.class.get_mut(a) {
            *class = joined;
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

fn join(a: Option<Class>, b: Option<Class>) -> Option<Class> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Some(Class::Mixed),
        (a, b) => a.or(b),
    }
}

/// Returns whether an access may be one of 16-bit floats: it moves integers of 16 bits and more between memory and
/// registers of that size, or adds 16-bit floats.
pub(super) fn moves_halves(instr: &Instr, access: &Access<'_>) -> bool {
    let of_type = match instr.op {
        Op::Atom { .. } => lanes(access.ty).is_some(),
        _ => !access.ty.is_float() || lanes(access.ty).is_some(),
    };
    of_type
        && count(access.ty) > 0
        && instr.guard.is_none()
        && matches!(access.order, Order::Weak | Order::Volatile | Order::Relaxed)
}

/// Calls `f` for each register that an instruction reads or writes as one of its types, with the type.
fn typed_registers(instr: &Instr, f: &mut dyn FnMut(RegId, Type)) {
    let mut all = |ty: Type, operands: &[Operand], results: &[Option<RegId>]| {
        let of = |operand: &Operand| match operand {
            Operand::Reg(reg) => Some(*reg),
            _ => None,
        };
        let found = operands.iter().filter_map(of).chain(results.iter().flatten().copied());
        found.for_each(|reg| f(reg, ty));
    };
    match &instr.op {
        Op::Unary { ty, d, a, .. } | Op::Mov { ty, d, a } => all(*ty, &[*a], &[*d]),
        Op::Selp { ty, d, a, b, .. } => all(*ty, &[*a, *b], &[*d]),
        Op::Binary { ty, d, a, b, .. } | Op::Mul { ty, part: None, d, a, b, .. } => {
            all(*ty, &[*a, *b], &[*d]);
        }
        Op::MinMax3 { ty, d, a, b, c, .. }
        | Op::Mad { ty, part: None, d, a, b, c, .. }
        | Op::Fma { ty, d, a, b, c, .. } => all(*ty, &[*a, *b, *c], &[*d]),
        Op::Setp { ty, a, b, .. } => all(*ty, &[*a, *b], &[]),
        Op::Set { d_ty, ty, d, a, b, .. } => {
            all(*ty, &[*a, *b], &[]);
            all(*d_ty, &[], &[*d]);
        }
        Op::Cvt { to, from, d, a, b, .. } => {
            all(*to, &[], &[*d]);
            all(*from, &[*a], &[]);
            b.iter().for_each(|b| all(*from, &[*b], &[]));
        }
        Op::Atom { ty, d, a, .. } => all(*ty, a, d),
        _ => {}
    }
}
