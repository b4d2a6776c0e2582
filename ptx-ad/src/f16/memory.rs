//! Loads, stores and atomic additions of 16-bit floats, and moves of them.

use ptx::ir::{AtomOp, Dst, Instr, Mode, Op, Operand, RegId, Type, UnaryOp};

use super::kinds::{half_type, lanes, moves_halves};
use super::marker::constant;
use super::parts::{Moved, Part, Source, count};
use super::rewrite::Widen;
use crate::analysis::{Access, Origin};

impl Widen<'_> {
    /// Returns the type of the floats at an address, if the specification gives it.
    fn in_memory(&self, access: &Access<'_>, offset: i64) -> Option<Type> {
        let form = self.forms.address(self.body, access.address);
        let half = match form.origin {
            Origin::Param(param) => {
                let place = form.param_offset().and_then(|place| place.checked_add_signed(offset));
                place.and_then(|place| self.pointers.half_at(param, place))
            }
            origin => self.pointers.half_behind(&self.forms, origin),
        };
        half.and_then(half_type)
    }

    pub(super) fn load(&mut self, instr: Instr) {
        let Op::Ld { kind, access, ty, d, addr } = &instr.op else { return };
        let parts = count(*ty);
        let all: Vec<Option<Part>> =
            d.iter().flat_map(|d| (0..parts).map(|at| d.map(|d| Part::new(d, at)))).collect();
        for half in [Type::F16, Type::Bf16] {
            let mut floats: Vec<Dst> = Vec::new();
            for part in &all {
                let part = part.filter(|part| self.float(*part) == Some(half));
                floats.push(part.map(|part| self.value(part)));
            }
            if floats.iter().any(Option::is_some) {
                let (kind, access, addr) = (*kind, access.clone(), *addr);
                self.as_it_is(Op::Ld { kind, access, ty: half, d: floats.into(), addr });
            }
        }
        d.iter().flatten().for_each(|d| self.define_plain(*d));
        let rest: Box<[Dst]> = d.iter().map(|d| d.filter(|d| !self.wide.contains(d))).collect();
        if rest.iter().any(Option::is_some) {
            let (kind, access, addr) = (*kind, access.clone(), *addr);
            self.as_it_is(Op::Ld { kind, access, ty: *ty, d: rest.clone(), addr });
            rest.iter().flatten().for_each(|d| self.entries(*d, parts));
        }
    }

    pub(super) fn store(&mut self, instr: Instr) {
        let Op::St { access, ty, addr, a } = &instr.op else { return };
        let Some(known) = Access::of(&instr)
            .filter(|known| moves_halves(&instr, known) && self.is_outside(known))
        else {
            return self.other(instr);
        };
        let parts = count(*ty);
        let all: Vec<(&Operand, u32)> =
            a.iter().flat_map(|a| (0..parts).map(move |at| (a, at))).collect();
        // The type of each float: that of the memory, or else of the stored value.
        let mut halves: Vec<Option<Type>> = Vec::new();
        for (offset, (a, at)) in (0i64..).step_by(2).zip(&all) {
            halves.push(match (self.in_memory(&known, offset), self.known.source(a, *at)) {
                (Some(half), Some(_)) => Some(half),
                (None, Some(Source::Part(part))) => self.float(part),
                (None, Some(Source::Bits(_))) => continue,
                (_, None) => None,
            });
        }
        halves.dedup();
        let [Some(half)] = *halves else { return self.other(instr) };
        let mut floats = Vec::new();
        for (a, at) in all {
            floats.extend(self.operand(a, at, half));
        }
        let (access, addr) = (access.clone(), *addr);
        self.as_it_is(Op::St { access, ty: half, addr, a: floats.into() });
    }

    pub(super) fn add(&mut self, instr: Instr) {
        let Op::Atom { op: AtomOp::Add, access, ty, noftz, d, addr, a, c: None } = &instr.op else {
            return self.other(instr);
        };
        let Some((half, count)) = lanes(*ty).filter(|_| d.is_empty()) else {
            return self.other(instr);
        };
        let mut floats = Vec::new();
        for a in a {
            for at in 0..count {
                floats.push(self.operand(a, at, half).unwrap_or(*a));
            }
        }
        let (op, access, addr, noftz) = (AtomOp::Add, access.clone(), *addr, *noftz);
        let (d, a, c) = (Box::default(), floats.into(), None);
        self.as_it_is(Op::Atom { op, access, ty: half, noftz, d, addr, a, c });
    }

    /// Writes an access. Its address is no float.
    fn as_it_is(&mut self, op: Op) {
        let (line, loc) = self.place;
        let mut instr = Instr { guard: None, op, line, loc };
        self.with_bits(&mut instr);
        self.code.push(instr);
    }

    /// Moves floats. Other bits move as before.
    pub(super) fn moved(&mut self, instr: Instr) {
        let mut wide: Vec<RegId> = Vec::new();
        instr.for_each_def(|reg| wide.extend(Some(reg).filter(|reg| self.wide.contains(reg))));
        if wide.is_empty() {
            return self.other(instr);
        }
        for (d, moved) in self.known.moves(&instr) {
            if let Some(half) = self.float(d).filter(|_| wide.contains(&d.reg)) {
                self.moved_part(&instr, d, moved, half);
            }
        }
        wide.iter().for_each(|reg| self.define_plain(*reg));
        if let Op::Unpack { ty, d, a } = &instr.op {
            let rest: Box<[Dst]> = d.iter().map(|d| d.filter(|d| !wide.contains(d))).collect();
            if rest.iter().any(Option::is_some) {
                let op = Op::Unpack { ty: *ty, d: rest, a: *a };
                self.other(Instr { op, ..instr });
            }
        }
    }

    fn moved_part(&mut self, instr: &Instr, d: Part, moved: Moved, half: Type) {
        let to = Some(self.value(d));
        let source = |this: &mut Self, source: Source| match source {
            Source::Bits(bits) => constant(half, bits),
            Source::Part(part) => Operand::Reg(this.value(part)),
        };
        let ty = Type::F32;
        let op = match moved {
            Moved::Copy(from) => Op::Mov { ty, d: to, a: source(self, from) },
            Moved::Choice(a, b) => {
                let (a, b) = (source(self, a), source(self, b));
                match &instr.op {
                    Op::Slct { c_ty, ftz, c, .. } => {
                        Op::Slct { ty, c_ty: *c_ty, ftz: *ftz, d: to, a, b, c: *c }
                    }
                    Op::Selp { p, .. } => Op::Selp { ty, d: to, a, b, p: *p },
                    // Only these instructions choose.
                    _ => return,
                }
            }
            Moved::Neg(a) | Moved::Abs(a) => {
                let op = if matches!(moved, Moved::Neg(_)) { UnaryOp::Neg } else { UnaryOp::Abs };
                let a = Operand::Reg(self.value(a));
                Op::Unary { op, ty, mode: Mode::default(), d: to, a }
            }
        };
        self.as_it_is(op);
    }
}
