//! Instructions on 16-bit floats. Registers hold them as `float`s: operands are narrowed before, results widened after.

use ptx::ir::{Dst, Instr, Op, Operand, RegId, Rounding, Type};

use super::builder::Builder;
use crate::f16::{Marker, Narrowed, marker, narrowed};

/// Returns the type of the 16-bit floats that an instruction computes, loads or stores.
fn half_of(op: &Op) -> Option<Type> {
    let ty = match op {
        Op::Unary { ty, .. }
        | Op::Binary { ty, .. }
        | Op::Mul { ty, .. }
        | Op::Mad { ty, .. }
        | Op::Fma { ty, .. }
        | Op::MinMax3 { ty, .. }
        | Op::Setp { ty, .. }
        | Op::Ld { ty, .. }
        | Op::St { ty, .. }
        | Op::Cvt { to: ty, .. } => *ty,
        _ => return None,
    };
    matches!(ty, Type::F16 | Type::Bf16).then_some(ty)
}

impl Builder {
    /// Writes an instruction of the kernel.
    pub(super) fn with_halves(&mut self, instr: Instr) {
        match marker(&instr.op) {
            Some(Marker::Widen { half, d, a, at }) => self.widen_part(half, d, a, at),
            Some(Marker::Narrow { d, a, .. }) => self.narrow_parts(d, &a),
            Some(Marker::Rounded { d, a }) => {
                let ty = self.function.registers.get(d.index()).copied();
                self.copy(ty.unwrap_or(Type::B32), d, Operand::Reg(a));
            }
            None => match half_of(&instr.op) {
                Some(half) => self.half(half, instr),
                None => self.instr(instr),
            },
        }
    }

    fn half(&mut self, half: Type, mut instr: Instr) {
        let result = match &mut instr.op {
            Op::Unary { d, a, .. } => self.rounded(half, Some(d), &mut [a]),
            Op::Binary { d, a, b, .. } | Op::Mul { d, a, b, .. } => {
                self.rounded(half, Some(d), &mut [a, b])
            }
            Op::Mad { d, a, b, c, .. }
            | Op::Fma { d, a, b, c, .. }
            | Op::MinMax3 { d, a, b, c, .. } => self.rounded(half, Some(d), &mut [a, b, c]),
            Op::Cvt { d, .. } => self.rounded(half, Some(d), &mut []),
            Op::Setp { a, b, .. } => self.rounded(half, None, &mut [a, b]),
            Op::Ld { .. } => return self.load_halves(half, instr),
            Op::St { .. } => return self.store_halves(half, instr),
            _ => None,
        };
        self.instr(instr);
        if let Some((d, from)) = result {
            self.widen(half, d, from);
        }
    }

    /// Replaces operands by 16-bit registers, and the result by a new one. Returns the old result and the new.
    fn rounded(
        &mut self,
        half: Type,
        d: Option<&mut Dst>,
        operands: &mut [&mut Operand],
    ) -> Option<(RegId, RegId)> {
        for operand in operands {
            **operand = Operand::Reg(self.narrow(half, **operand));
        }
        let d = d?;
        let from = self.reg(Type::B16);
        d.replace(from).map(|d| (d, from))
    }

    /// Returns the 16 bits of a number that they represent exactly.
    fn narrow(&mut self, half: Type, a: Operand) -> RegId {
        match (a, half) {
            (Operand::Imm(bits), _) => {
                let bits = narrowed(half, u32::try_from(bits & 0xffff_ffff).unwrap_or(0));
                self.moved(Type::B16, Operand::Imm(u64::from(bits)))
            }
            (_, Type::Bf16) => {
                let halves = [(); 2].map(|()| self.reg(Type::B16));
                self.push(Op::Unpack { ty: Type::B32, d: halves.map(Some).into(), a });
                halves[1]
            }
            _ => {
                let d = self.reg(Type::B16);
                let (to, from, rounding) = (half, Type::F32, Some(Rounding::Rn));
                let (ftz, sat, satfinite, relu) = (false, false, false, false);
                let (d_of, b) = (Some(d), None);
                self.push(Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d: d_of, a, b });
                d
            }
        }
    }

    /// Makes a `float` of 16 bits.
    fn widen(&mut self, half: Type, d: RegId, a: RegId) {
        if half == Type::Bf16 {
            let a = [Operand::Imm(0), Operand::Reg(a)].into();
            self.push(Op::Pack { ty: Type::B32, d: Some(d), a });
        } else {
            self.convert(Type::F32, half, d, a);
        }
    }

    /// Returns the type of the accesses for so many 16-bit floats.
    fn memory_type(count: usize) -> Type {
        if count == 1 { Type::B16 } else { Type::B32 }
    }

    fn load_halves(&mut self, half: Type, mut instr: Instr) {
        let Op::Ld { ty, d, .. } = &mut instr.op else { return };
        let floats = std::mem::take(d);
        *ty = Self::memory_type(floats.len());
        let pairs = floats.chunks(2);
        let loaded: Vec<RegId> = pairs.clone().map(|_| self.reg(*ty)).collect();
        *d = loaded.iter().copied().map(Some).collect();
        self.instr(instr);
        for (pair, from) in pairs.zip(loaded) {
            if let [Some(d)] = *pair {
                self.widen(half, d, from);
            } else if pair.iter().any(Option::is_some) {
                let halves = [(); 2].map(|()| self.reg(Type::B16));
                let (d, a) = (halves.map(Some).into(), Operand::Reg(from));
                self.push(Op::Unpack { ty: Type::B32, d, a });
                for (d, half_of) in pair.iter().zip(halves) {
                    if let Some(d) = *d {
                        self.widen(half, d, half_of);
                    }
                }
            }
        }
    }

    fn store_halves(&mut self, half: Type, mut instr: Instr) {
        let Op::St { ty, a, .. } = &mut instr.op else { return };
        let floats = std::mem::take(a);
        *ty = Self::memory_type(floats.len());
        let mut stored = Vec::new();
        for pair in floats.chunks(2) {
            let halves: Vec<Operand> =
                pair.iter().map(|a| Operand::Reg(self.narrow(half, *a))).collect();
            stored.push(match *halves {
                [a] => a,
                _ => {
                    let d = self.reg(Type::B32);
                    self.push(Op::Pack { ty: Type::B32, d: Some(d), a: halves.into() });
                    Operand::Reg(d)
                }
            });
        }
        *a = stored.into();
        self.instr(instr);
    }

    fn widen_part(&mut self, half: Type, d: RegId, a: RegId, at: u32) {
        let ty = self.function.registers.get(a.index()).copied().unwrap_or(Type::B16);
        let count = (ty.bits() / 16).max(1);
        let mut from = a;
        if count > 1 {
            let ty = if count == 2 { Type::B32 } else { Type::B64 };
            let parts: Vec<RegId> = (0..count).map(|_| self.reg(Type::B16)).collect();
            from = parts.get(at as usize).copied().unwrap_or(a);
            let d = parts.into_iter().map(Some).collect();
            self.push(Op::Unpack { ty, d, a: Operand::Reg(a) });
        }
        self.widen(half, d, from);
    }

    fn narrow_parts(&mut self, d: RegId, a: &[Narrowed]) {
        let mut parts = Vec::new();
        for part in a {
            parts.push(match *part {
                Narrowed::Float(half, reg) => Operand::Reg(self.narrow(half, Operand::Reg(reg))),
                Narrowed::Bits(bits) => {
                    Operand::Reg(self.moved(Type::B16, Operand::Imm(u64::from(bits))))
                }
            });
        }
        match *parts {
            [a] => self.copy(Type::B16, d, a),
            [_, _] => self.push(Op::Pack { ty: Type::B32, d: Some(d), a: parts.into() }),
            _ => self.push(Op::Pack { ty: Type::B64, d: Some(d), a: parts.into() }),
        }
    }
}
