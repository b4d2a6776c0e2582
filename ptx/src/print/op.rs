//! Instructions as text: arithmetic, data and bits. The rest is in `machine`.

use std::fmt::{self, Write};

use super::Printer;
use super::opcode::Opcode;
use super::operand::Arg::{self, Dst, Group, GroupOps, Number, Op as Src, Pair, Pred};
use crate::ir::{Access, CarryOp, DotOp, Instr, Op, Type};

impl Printer<'_> {
    pub(super) fn instr(&mut self, instr: &Instr) -> fmt::Result {
        if let Op::Ld { access: Access { used: Some(used), .. }, .. } = instr.op {
            writeln!(self.out, "    .pragma \"used_bytes_mask {used:#x}\";")?;
        }
        self.out.push_str("    ");
        if let Some(guard) = instr.guard {
            self.out.push('@');
            self.pred(guard)?;
            self.out.push(' ');
        }
        self.op(&instr.op)?;
        self.out.push_str(";\n");
        Ok(())
    }

    pub(super) fn put(&mut self, opcode: Opcode, args: &[Arg<'_>]) -> fmt::Result {
        self.out.push_str(&opcode.0);
        if self.opcodes {
            return Ok(());
        }
        for (i, arg) in args.iter().enumerate() {
            self.out.push_str(if i == 0 { " " } else { ", " });
            self.arg(arg)?;
        }
        Ok(())
    }

    /// As [`put`](Self::put), with operands that may be missing after the others.
    pub(super) fn put_with<'o>(
        &mut self,
        opcode: Opcode,
        args: &[Arg<'o>],
        more: &[Option<Arg<'o>>],
    ) -> fmt::Result {
        self.put(opcode, args)?;
        let more = if self.opcodes { &[] } else { more };
        for arg in more.iter().flatten() {
            self.out.push_str(", ");
            self.arg(arg)?;
        }
        Ok(())
    }

    pub(super) fn op(&mut self, op: &Op) -> fmt::Result {
        let code = Opcode::new;
        match *op {
            Op::Unary { op, ty, mode, d, a } => {
                self.put(code(op.name()).mode(mode).ty(ty), &[Dst(d), Src(a, ty)])
            }
            Op::Binary { op, ty, mode, d, a, b } => {
                use crate::ir::BinaryOp::{Shl, Shr};
                let second = if matches!(op, Shl | Shr) { Type::U32 } else { ty };
                self.put(code(op.name()).mode(mode).ty(ty), &[Dst(d), Src(a, ty), Src(b, second)])
            }
            Op::MinMax3 { max, ty, mode, d, a, b, c } => self.put(
                code(if max { "max" } else { "min" }).mode(mode).ty(ty),
                &[Dst(d), Src(a, ty), Src(b, ty), Src(c, ty)],
            ),
            Op::Mul { ty, part, mode, d, a, b } => self.put(
                code("mul").opt(part.map(|p| p.name())).mode(mode).ty(ty),
                &[Dst(d), Src(a, ty), Src(b, ty)],
            ),
            Op::Mad { ty, part, mode, d, a, b, c } => self.put(
                code("mad").opt(part.map(|p| p.name())).mode(mode).ty(ty),
                &[Dst(d), Src(a, ty), Src(b, ty), Src(c, crate::parse::widened(ty, part))],
            ),
            Op::Fma { ty, mode, d, a, b, c } => self
                .put(code("fma").mode(mode).ty(ty), &[Dst(d), Src(a, ty), Src(b, ty), Src(c, ty)]),
            Op::Mul24 { ty, part, d, a, b } => {
                self.put(code("mul24").word(part.name()).ty(ty), &[Dst(d), Src(a, ty), Src(b, ty)])
            }
            Op::Mad24 { ty, part, sat, d, a, b, c } => self.put(
                code("mad24").word(part.name()).flag(sat, "sat").ty(ty),
                &[Dst(d), Src(a, ty), Src(b, ty), Src(c, ty)],
            ),
            Op::Carry { op, ty, carry_in, carry_out, d, a, b, c } => {
                let name = match (op, carry_in) {
                    (CarryOp::Add, false) => "add",
                    (CarryOp::Add, true) => "addc",
                    (CarryOp::Sub, false) => "sub",
                    (CarryOp::Sub, true) => "subc",
                    (CarryOp::MadLo, false) => "mad.lo",
                    (CarryOp::MadLo, true) => "madc.lo",
                    (CarryOp::MadHi, false) => "mad.hi",
                    (CarryOp::MadHi, true) => "madc.hi",
                };
                self.put_with(
                    code(name).flag(carry_out, "cc").ty(ty),
                    &[Dst(d), Src(a, ty), Src(b, ty)],
                    &[c.map(|c| Src(c, ty))],
                )
            }
            Op::Sad { ty, d, a, b, c } => {
                self.put(code("sad").ty(ty), &[Dst(d), Src(a, ty), Src(b, ty), Src(c, ty)])
            }
            Op::Selp { ty, d, a, b, p } => {
                self.put(code("selp").ty(ty), &[Dst(d), Src(a, ty), Src(b, ty), Pred(p)])
            }
            Op::Slct { ty, c_ty, ftz, d, a, b, c } => self.put(
                code("slct").flag(ftz, "ftz").ty(ty).ty(c_ty),
                &[Dst(d), Src(a, ty), Src(b, ty), Src(c, c_ty)],
            ),
            Op::Testp { test, ty, d, a } => {
                self.put(code("testp").word(test.name()).ty(ty), &[Dst(d), Src(a, ty)])
            }
            Op::Setp { cmp, ty, ftz, combine, p, q, a, b } => self.put_with(
                code("setp")
                    .word(cmp.name())
                    .opt(combine.map(|(op, _)| op.name()))
                    .flag(ftz, "ftz")
                    .ty(ty),
                &[Pair(p, q), Src(a, ty), Src(b, ty)],
                &[combine.map(|(_, c)| Pred(c))],
            ),
            Op::Set { cmp, d_ty, ty, ftz, combine, d, a, b } => self.put_with(
                code("set")
                    .word(cmp.name())
                    .opt(combine.map(|(op, _)| op.name()))
                    .flag(ftz, "ftz")
                    .ty(d_ty)
                    .ty(ty),
                &[Dst(d), Src(a, ty), Src(b, ty)],
                &[combine.map(|(_, c)| Pred(c))],
            ),
            Op::Mov { ty, d, a } => self.put(code("mov").ty(ty), &[Dst(d), Src(a, ty)]),
            Op::Pack { ty, d, ref a } => self.put(code("mov").ty(ty), &[Dst(d), GroupOps(a, ty)]),
            Op::Unpack { ty, ref d, a } => self.put(code("mov").ty(ty), &[Group(d), Src(a, ty)]),
            Op::Cvta { to, space, ty, d, a } => self
                .put(code("cvta").flag(to, "to").word(space.name()).ty(ty), &[Dst(d), Src(a, ty)]),
            Op::Mapa { space, ty, d, a, b } => {
                self.put(code("mapa").space(space).ty(ty), &[Dst(d), Src(a, ty), Src(b, Type::U32)])
            }
            Op::Getctarank { space, ty, d, a } => {
                self.put(code("getctarank").space(space).ty(ty), &[Dst(d), Src(a, ty)])
            }
            Op::Isspacep { space, d, a } => {
                self.put(code("isspacep").word(space.name()), &[Dst(d), Src(a, Type::B64)])
            }
            Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b } => self.put_with(
                code("cvt")
                    .opt(rounding.map(|r| r.name()))
                    .flag(ftz, "ftz")
                    .flag(satfinite, "satfinite")
                    .flag(relu, "relu")
                    .flag(sat, "sat")
                    .ty(to)
                    .ty(from),
                &[Dst(d), Src(a, from)],
                &[b.map(|b| Src(b, from))],
            ),
            Op::CvtPack { to, from, d, a, b, c } => self.put_with(
                code("cvt.pack.sat").ty(to).ty(from).flag(c.is_some(), "b32"),
                &[Dst(d), Src(a, from), Src(b, from)],
                &[c.map(|c| Src(c, Type::B32))],
            ),
            _ => self.bits(op),
        }
    }

    fn bits(&mut self, op: &Op) -> fmt::Result {
        use Type::{B32, S32, U32};
        let code = Opcode::new;
        match *op {
            Op::Bfind { ty, shiftamt, d, a } => {
                self.put(code("bfind").flag(shiftamt, "shiftamt").ty(ty), &[Dst(d), Src(a, ty)])
            }
            Op::Fns { d, mask, base, offset } => self
                .put(code("fns.b32"), &[Dst(d), Src(mask, B32), Src(base, B32), Src(offset, S32)]),
            Op::Bfe { ty, d, a, b, c } => {
                self.put(code("bfe").ty(ty), &[Dst(d), Src(a, ty), Src(b, U32), Src(c, U32)])
            }
            Op::Bfi { ty, d, a, b, c, e } => self.put(
                code("bfi").ty(ty),
                &[Dst(d), Src(a, ty), Src(b, ty), Src(c, U32), Src(e, U32)],
            ),
            Op::Bmsk { mode, d, a, b } => self
                .put(code("bmsk").word(mode.name()).ty(B32), &[Dst(d), Src(a, U32), Src(b, U32)]),
            Op::Szext { ty, mode, d, a, b } => {
                self.put(code("szext").word(mode.name()).ty(ty), &[Dst(d), Src(a, ty), Src(b, U32)])
            }
            Op::Dot { op, a_ty, b_ty, d, a, b, c } => {
                let name = match op {
                    DotOp::Dp4a => "dp4a",
                    DotOp::Dp2aLo => "dp2a.lo",
                    DotOp::Dp2aHi => "dp2a.hi",
                };
                self.put(
                    code(name).ty(a_ty).ty(b_ty),
                    &[Dst(d), Src(a, a_ty), Src(b, b_ty), Src(c, B32)],
                )
            }
            Op::Lop3 { lut, d, a, b, c } => self.put(
                code("lop3.b32"),
                &[Dst(d), Src(a, B32), Src(b, B32), Src(c, B32), Number(lut.into())],
            ),
            Op::Lop3Bool { op, lut, d, p, a, b, c, q } => self.put(
                code("lop3").word(op.name()).ty(B32),
                &[Pair(d, p), Src(a, B32), Src(b, B32), Src(c, B32), Number(lut.into()), Pred(q)],
            ),
            Op::Shf { right, mode, d, a, b, c } => self.put(
                code(if right { "shf.r" } else { "shf.l" }).word(mode.name()).ty(B32),
                &[Dst(d), Src(a, B32), Src(b, B32), Src(c, U32)],
            ),
            Op::Prmt { mode, d, a, b, c } => self.put(
                code("prmt.b32").opt(mode.map(|m| m.name())),
                &[Dst(d), Src(a, B32), Src(b, B32), Src(c, B32)],
            ),
            Op::Video { op, lanes, d_ty, a_ty, b_ty, cmp, sat, add, mask, d, a, b, c } => {
                let name = format!("{op}{lanes}");
                let opcode = match cmp {
                    Some(cmp) => code(&name).ty(a_ty).ty(b_ty).word(cmp.name()),
                    None => code(&name).ty(d_ty).ty(a_ty).ty(b_ty),
                };
                self.put(opcode.flag(sat, "sat").flag(add, "add"), &[Dst(d)])?;
                if let Some(mask) = mask {
                    self.out.push_str(if lanes == 2 { ".h" } else { ".b" });
                    for bit in (0..lanes).rev().filter(|bit| mask >> bit & 1 == 1) {
                        write!(self.out, "{bit}")?;
                    }
                }
                for (operand, ty) in [(a, a_ty), (b, b_ty), (c, d_ty)] {
                    self.out.push_str(", ");
                    self.arg(&Src(operand, ty))?;
                }
                Ok(())
            }
            _ => self.memory(op),
        }
    }
}
