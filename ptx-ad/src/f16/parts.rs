//! Instructions that move 16 bits of registers without changing them: moves, packs, shifts, masks, permutations.

use ptx::ir::{BinaryOp, Instr, Op, Operand, RegId, Type};

use crate::body::Body;

/// 16 bits of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) reg: RegId,
    /// The position from 0 to 3, the lowest first.
    pub(super) at: u32,
}

/// Parts of a register.
pub(super) const PARTS: usize = 4;

impl Part {
    pub(super) fn new(reg: RegId, at: u32) -> Self {
        Self { reg, at }
    }

    /// Returns the index in lists of all parts.
    pub(super) fn index(self) -> usize {
        self.reg.index() * PARTS + self.at as usize
    }
}

/// The source of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Part(Part),
    Bits(u16),
}

/// A move of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Copy(Source),
    /// One of two sources, chosen as the instruction says.
    Choice(Source, Source),
    /// The highest bit is inverted.
    Neg(Part),
    /// The highest bit is cleared.
    Abs(Part),
}

/// Returns the number of parts of a register of this type.
pub(super) fn count(ty: Type) -> u32 {
    match ty.bits() {
        bits @ (16 | 32 | 64) => bits / 16,
        _ => 0,
    }
}

/// The parts that are constants.
#[derive(Debug)]
pub(super) struct Known {
    bits: Vec<Option<u16>>,
    /// The number of parts of each register.
    counts: Vec<u32>,
}

impl Known {
    pub(super) fn new(body: &Body) -> Self {
        let registers = &body.function.registers;
        let counts = registers.iter().map(|ty| count(*ty)).collect();
        let mut known = Self { bits: vec![None; registers.len() * PARTS], counts };
        // Each register is written before it is read, except by phis.
        for (_, instr) in body.instrs() {
            for (part, moved) in known.moves(instr) {
                if let Moved::Copy(Source::Bits(bits)) = moved
                    && let Some(place) = known.bits.get_mut(part.index())
                {
                    *place = Some(bits);
                }
            }
        }
        known
    }

    pub(super) fn get(&self, part: Part) -> Option<u16> {
        self.bits.get(part.index()).copied().flatten()
    }

    /// Returns 16 bits of an operand, if they are known to be a register's or a constant.
    pub(super) fn source(&self, operand: &Operand, at: u32) -> Option<Source> {
        match *operand {
            Operand::Reg(reg) => {
                let part = Part::new(reg, at);
                Some(self.get(part).map_or(Source::Part(part), Source::Bits))
            }
            Operand::Imm(value) => Some(Source::Bits(piece(value, at))),
            Operand::Special(_) | Operand::Symbol(..) => None,
        }
    }

    /// Returns the parts of the results that an instruction moves. Computed parts are left out.
    pub(super) fn moves(&self, instr: &Instr) -> Vec<(Part, Moved)> {
        let mut found = Vec::new();
        if instr.guard.is_some() {
            return found;
        }
        let mut moved = |d: Option<RegId>, at: u32, moved: Option<Moved>| {
            if let (Some(d), Some(moved)) = (d, moved) {
                found.push((Part::new(d, at), moved));
            }
        };
        let copy = |a: &Operand, at: u32| self.source(a, at).map(Moved::Copy);
        let zero = Some(Moved::Copy(Source::Bits(0)));
        match &instr.op {
            Op::Mov { ty, d, a } => {
                (0..count(*ty)).for_each(|at| moved(*d, at, copy(a, at)));
            }
            Op::Pack { ty, d, a } => {
                let each = count(*ty) / u32::try_from(a.len()).unwrap_or(u32::MAX).max(1);
                let parts = a.iter().flat_map(|a| (0..each).map(move |at| (a, at)));
                (0..).zip(parts).for_each(|(at, (a, from))| moved(*d, at, copy(a, from)));
            }
            Op::Unpack { ty, d, a } => {
                let each = count(*ty) / u32::try_from(d.len()).unwrap_or(u32::MAX).max(1);
                let parts = d.iter().flat_map(|d| (0..each).map(move |at| (*d, at)));
                (0..).zip(parts).for_each(|(from, (d, at))| moved(d, at, copy(a, from)));
            }
            Op::Selp { ty, d, a, b, .. } | Op::Slct { ty, d, a, b, .. } => {
                for at in 0..count(*ty) {
                    let both = self.source(a, at).zip(self.source(b, at));
                    moved(*d, at, both.map(|(a, b)| Moved::Choice(a, b)));
                }
            }
            Op::Cvt { to, from, sat: false, d, a, b: None, .. }
                if !to.is_float() && !from.is_float() =>
            {
                for at in 0..count(*to) {
                    let inside = at < count(*from);
                    let above = zero.filter(|_| count(*from) > 0 && !from.is_signed());
                    moved(*d, at, if inside { copy(a, at) } else { above });
                }
            }
            Op::Binary { op, ty, mode, d, a, b } if !ty.is_float() && !mode.sat => {
                for at in 0..count(*ty) {
                    moved(*d, at, self.binary(*op, *ty, a, b, at));
                }
            }
            // The middle of 64 bits.
            Op::Shf { d, a, b, c: Operand::Imm(16), .. } => {
                moved(*d, 0, copy(a, 1));
                moved(*d, 1, copy(b, 0));
            }
            Op::Prmt { mode: None, d, a, b, c: Operand::Imm(bytes) } => {
                for at in 0..2 {
                    let pair = u32::try_from(bytes >> (8 * at) & 0xff).unwrap_or(0);
                    let (low, high) = (pair & 0xf, pair >> 4);
                    // `whole`: the two bytes are adjacent in one operand.
                    let whole = low < 8 && low.is_multiple_of(2) && high == low + 1;
                    let from = if low < 4 { a } else { b };
                    moved(*d, at, copy(from, low % 4 / 2).filter(|_| whole));
                }
            }
            // A zero-extending load clears the parts above.
            Op::Ld { ty, d, .. } if !ty.is_signed() && count(*ty) > 0 => {
                for d in d.iter().flatten() {
                    let all = self.counts.get(d.index()).copied().unwrap_or(0);
                    (count(*ty)..all).for_each(|at| moved(Some(*d), at, zero));
                }
            }
            _ => {}
        }
        found
    }

    fn binary(&self, op: BinaryOp, ty: Type, a: &Operand, b: &Operand, at: u32) -> Option<Moved> {
        use Source::{Bits, Part};
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            let Operand::Imm(by) = b else { return None };
            let by = u32::try_from(*by).ok().filter(|by| by.is_multiple_of(16))? / 16;
            let from = if op == BinaryOp::Shr { at.checked_add(by) } else { at.checked_sub(by) };
            return match from.filter(|&from| from < count(ty)) {
                Some(from) => self.source(a, from).map(Moved::Copy),
                None if op == BinaryOp::Shr && ty.is_signed() => None,
                None => Some(Moved::Copy(Bits(0))),
            };
        }
        let both = (self.source(a, at)?, self.source(b, at)?);
        // An addition carries nothing if one operand is zero in each part.
        let apart = |at: u32| {
            let zero = |operand| self.source(operand, at) == Some(Bits(0));
            zero(a) || zero(b)
        };
        Some(match (op, both) {
            (BinaryOp::And, (Bits(a), Bits(b))) => Moved::Copy(Bits(a & b)),
            (BinaryOp::Or, (Bits(a), Bits(b))) => Moved::Copy(Bits(a | b)),
            (BinaryOp::Xor, (Bits(a), Bits(b))) => Moved::Copy(Bits(a ^ b)),
            (BinaryOp::And, (_, Bits(0)) | (Bits(0), _)) => Moved::Copy(Bits(0)),
            (BinaryOp::And, (source, Bits(0xffff)) | (Bits(0xffff), source))
            | (BinaryOp::Or | BinaryOp::Xor, (source, Bits(0)) | (Bits(0), source)) => {
                Moved::Copy(source)
            }
            (BinaryOp::And, (Part(part), Bits(0x7fff)) | (Bits(0x7fff), Part(part))) => {
                Moved::Abs(part)
            }
            (BinaryOp::Xor, (Part(part), Bits(0x8000)) | (Bits(0x8000), Part(part))) => {
                Moved::Neg(part)
            }
            (BinaryOp::Add, (source, Bits(0)) | (Bits(0), source)) if (0..count(ty)).all(apart) => {
                Moved::Copy(source)
            }
            _ => return None,
        })
    }
}

/// Returns 16 bits of a constant.
pub(super) fn piece(value: u64, at: u32) -> u16 {
    u16::try_from(value.checked_shr(16 * at).unwrap_or(0) & 0xffff).unwrap_or(0)
}
