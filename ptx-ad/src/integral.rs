//! Rounding to integral values by a large constant: `(x + 2²³) - 2²³`, as mathematical functions of headers have it.
//!
//! Instruction by instruction, the derivative would be 1, and the rest of `x` would have 0: an error of 100%. So the
//! derivative of the difference counts as unknown.

use std::collections::HashMap;

use ptx::ir::{BinaryOp, Instr, Op, Operand, RegId, Type};

use crate::body::Body;
use crate::f16::Marker;

/// Puts a marker after each rounding by a large constant.
pub(crate) fn mark(body: &mut Body) {
    let mut constants: HashMap<RegId, u64> = HashMap::new();
    for (_, instr) in body.instrs() {
        if let Op::Mov { d: Some(d), a: Operand::Imm(bits), .. } = instr.op {
            constants.insert(d, bits);
        }
    }
    let is_large = |ty: Type, operand: &Operand| {
        let bits = match operand {
            Operand::Imm(bits) => Some(*bits),
            Operand::Reg(reg) => constants.get(reg).copied(),
            _ => None,
        };
        bits.is_some_and(|bits| is_large(ty, bits))
    };
    let sum = |instr: &Instr| match &instr.op {
        Op::Binary { op: BinaryOp::Add | BinaryOp::Sub, ty, d: Some(d), a, b, .. } => {
            (is_large(*ty, a) || is_large(*ty, b)).then_some((*d, *ty))
        }
        Op::Fma { ty, d: Some(d), c, .. } => is_large(*ty, c).then_some((*d, *ty)),
        _ => None,
    };
    let sums: HashMap<RegId, Type> = body.instrs().filter_map(|(_, instr)| sum(instr)).collect();
    let of_sum = |instr: &Instr| match &instr.op {
        Op::Binary { op: BinaryOp::Add | BinaryOp::Sub, a, b, .. } => [a, b]
            .into_iter()
            .any(|operand| matches!(operand, Operand::Reg(reg) if sums.contains_key(reg))),
        _ => false,
    };
    let mut found = Vec::new();
    for (block, code) in body.blocks.iter().enumerate() {
        for (at, instr) in code.code.iter().enumerate() {
            if let Some((d, ty)) = sum(instr).filter(|_| of_sum(instr)) {
                found.push((block, at, d, ty));
            }
        }
    }
    let any = !found.is_empty();
    for (block, at, d, ty) in found.into_iter().rev() {
        let rounded = body.function.fresh_register(ty);
        let Some(code) = body.blocks.get_mut(block).map(|block| &mut block.code) else { continue };
        let Some(instr) = code.get_mut(at) else { continue };
        if let Op::Binary { d, .. } = &mut instr.op {
            *d = Some(rounded);
        }
        let op = Marker::Rounded { d, a: rounded }.op();
        let marker = Instr { guard: None, op, line: instr.line, loc: instr.loc };
        code.insert(at + 1, marker);
    }
    if any {
        body.index();
    }
}

/// Returns whether numbers near this one have no fractional bits, or one.
fn is_large(ty: Type, bits: u64) -> bool {
    match ty {
        Type::F32 => (0x4b00_0000..0x4b80_0000).contains(&(bits & 0x7fff_ffff)),
        Type::F64 => (0x4330 << 48..0x4340 << 48).contains(&(bits & (u64::MAX >> 1))),
        _ => false,
    }
}
