//! Arithmetic, bits and comparisons.

use ptx::ir::{BinaryOp, BoolOp, Mode, MulPart, Op, Operand, Pred, Type};

use super::{Class, Decoder, Refusal};
use crate::arith::convert;
use crate::arith::video::{self, Video};
use crate::exec::inst::{Inst, Run, SLOT_TRUE};
use crate::exec::ops::convert::{ByClosure, Closure};
use crate::exec::ops::{bits, compare, float, half, int, moves};

/// A packed 16-bit float.
fn is_packed_float(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2)
}

impl Decoder<'_, '_> {
    /// An operation on slots: destination, sources, immediate.
    fn lanes(
        &mut self,
        run: Option<Run>,
        d: (ptx::ir::Dst, Class),
        sources: &[(&Operand, Class)],
        imm: u64,
    ) -> Result<Option<()>, Refusal> {
        let Some(run) = run else { return Ok(None) };
        let mut slots = [crate::exec::inst::SLOT_NONE; 4];
        for (slot, (operand, class)) in slots.iter_mut().zip(sources) {
            *slot = self.src(operand, *class)?;
        }
        let [a, b, c, e] = slots;
        let d = self.dst(d.0, d.1)?;
        let inst = Inst { d, a, b, c, e, imm, ..self.inst(run) };
        self.emit(inst);
        Ok(Some(()))
    }

    /// An instruction done by a closure.
    pub(super) fn closure(
        &mut self,
        closure: Closure,
        d: (ptx::ir::Dst, Class),
        sources: &[(&Operand, Class)],
    ) -> Result<(), Refusal> {
        let mut slots = Vec::with_capacity(sources.len());
        for (operand, class) in sources {
            slots.push((self.src(operand, *class)?, *class));
        }
        let d = (self.dst(d.0, d.1)?, d.1);
        self.closure_slots(closure, d, &slots);
        Ok(())
    }

    /// Emits the same instruction on slots.
    pub(super) fn closure_slots(
        &mut self,
        closure: Closure,
        d: (u32, Class),
        sources: &[(u32, Class)],
    ) {
        let mut imm = self.code.closures.len() as u64;
        self.code.closures.push(closure);
        for (bit, class) in [d.1].into_iter().chain(sources.iter().map(|s| s.1)).enumerate() {
            if class == Class::Wide {
                imm |= 1 << (32 + bit);
            }
        }
        let slot = |at: usize| sources.get(at).map_or(crate::exec::inst::SLOT_NONE, |s| s.0);
        let inst = self.inst(self.pick::<ByClosure>());
        self.emit(Inst { d: d.0, a: slot(0), b: slot(1), c: slot(2), imm, ..inst });
    }

    /// A predicate to combine with: its slot and code.
    fn combine(&self, with: Option<(BoolOp, Pred)>) -> Result<(u32, u64), Refusal> {
        let Some((op, pred)) = with else { return Ok((SLOT_TRUE, 0)) };
        let code = compare::combine_code(op, pred.negated).ok_or("popc of a predicate")?;
        Ok((self.pred_slot(pred.reg)?, code))
    }

    /// A comparison into two predicates.
    #[allow(clippy::too_many_arguments, reason = "they are the instruction's operands")]
    fn compare(
        &mut self,
        cmp: ptx::ir::Cmp,
        ty: Type,
        ftz: bool,
        with: Option<(BoolOp, Pred)>,
        (d, e): (u32, u32),
        a: &Operand,
        b: &Operand,
    ) -> Result<(), Refusal> {
        let Some(how) = compare::setp(self.cx.isa, cmp, ty, ftz) else {
            return Err(format!("setp.{cmp}.{ty}"));
        };
        let (mut a, mut b) = (self.src(a, Class::of(ty))?, self.src(b, Class::of(ty))?);
        if how.swap {
            std::mem::swap(&mut a, &mut b);
        }
        let (c, imm) = self.combine(with)?;
        let inst = self.inst(how.run);
        self.emit(Inst { d, e, a, b, c, imm: imm | how.imm, ..inst });
        Ok(())
    }

    /// Decodes arithmetic. False if the instruction is none, an error if it lacks a form.
    pub(super) fn arith(&mut self, op: &Op) -> Result<bool, Refusal> {
        let isa = self.cx.isa;
        let of = Class::of;
        let narrow = Class::Narrow;
        let done = match op {
            Op::Unary { op, ty, mode, d, a } => {
                let run = if is_packed_float(*ty) && float::unary(isa, *op, *ty, mode).is_none() {
                    half::unary(isa, *op, *ty, mode)
                } else if ty.is_float() {
                    float::unary(isa, *op, *ty, mode)
                } else {
                    int::unary(isa, *op, *ty)
                };
                let class = match op {
                    ptx::ir::UnaryOp::Popc | ptx::ir::UnaryOp::Clz => narrow,
                    _ => of(*ty),
                };
                self.lanes(run, (*d, class), &[(a, of(*ty))], 0)?
            }
            Op::Binary { op, ty: Type::Pred, d, a, b, .. } => {
                let run = match op {
                    BinaryOp::And => Some(self.pick::<moves::PredOp<0>>()),
                    BinaryOp::Or => Some(self.pick::<moves::PredOp<1>>()),
                    BinaryOp::Xor => Some(self.pick::<moves::PredOp<2>>()),
                    _ => None,
                };
                let class = Class::Pred;
                self.lanes(run, (*d, class), &[(a, class), (b, class)], 0)?
            }
            Op::Binary { op, ty, mode, d, a, b } => {
                let run = if is_packed_float(*ty) {
                    half::binary(isa, *op, *ty, mode)
                } else if ty.is_float() {
                    float::binary(isa, *op, *ty, mode)
                } else {
                    int::binary(isa, *op, *ty, mode)
                };
                let second = match op {
                    BinaryOp::Shl | BinaryOp::Shr => narrow,
                    _ => of(*ty),
                };
                self.lanes(run, (*d, of(*ty)), &[(a, of(*ty)), (b, second)], 0)?
            }
            Op::MinMax3 { max, ty, mode, d, a, b, c } => {
                let run = if ty.is_float() {
                    float::min_max3(isa, *max, *ty, mode)
                } else {
                    int::min_max3(isa, *max, *ty)
                };
                let t = of(*ty);
                self.lanes(run, (*d, t), &[(a, t), (b, t), (c, t)], 0)?
            }
            Op::Mul { ty, part, mode, d, a, b } => {
                let run = match part {
                    Some(part) => int::mul(isa, *ty, *part),
                    None if is_packed_float(*ty) => half::mul(isa, *ty, mode),
                    None => float::mul(isa, *ty, mode),
                };
                let class = product(*ty, *part);
                self.lanes(run, (*d, class), &[(a, of(*ty)), (b, of(*ty))], 0)?
            }
            Op::Mad { ty, part: Some(part), mode, d, a, b, c } => {
                let run = int::mad(isa, *ty, *part, mode.sat);
                let class = product(*ty, Some(*part));
                self.lanes(run, (*d, class), &[(a, of(*ty)), (b, of(*ty)), (c, class)], 0)?
            }
            Op::Mad { ty, part: None, mode, d, a, b, c } | Op::Fma { ty, mode, d, a, b, c } => {
                let t = of(*ty);
                let run = if is_packed_float(*ty) || mode.relu {
                    half::fma(isa, *ty, mode)
                } else {
                    float::fma(isa, *ty, mode)
                };
                self.lanes(run, (*d, t), &[(a, t), (b, t), (c, t)], 0)?
            }
            Op::Mul24 { ty, part, d, a, b } => {
                let run = int::mul24(isa, *ty, *part);
                self.lanes(run, (*d, narrow), &[(a, narrow), (b, narrow)], 0)?
            }
            Op::Mad24 { ty, part, sat, d, a, b, c } => {
                let run = int::mad24(isa, *ty, *part, *sat);
                self.lanes(run, (*d, narrow), &[(a, narrow), (b, narrow), (c, narrow)], 0)?
            }
            Op::Carry { op, ty, carry_in, carry_out, d, a, b, c } => {
                let t = of(*ty);
                let imm = u64::from(*carry_in) | u64::from(*carry_out) << 1;
                let zero = Operand::Imm(0);
                let c = c.as_ref().unwrap_or(&zero);
                self.lanes(int::carry(isa, *op, *ty), (*d, t), &[(a, t), (b, t), (c, t)], imm)?
            }
            Op::Sad { ty, d, a, b, c } => {
                let t = of(*ty);
                self.lanes(int::sad(isa, *ty), (*d, t), &[(a, t), (b, t), (c, t)], 0)?
            }
            Op::Bfind { ty, shiftamt, d, a } => {
                let run = int::bfind(isa, *ty, *shiftamt);
                self.lanes(run, (*d, narrow), &[(a, of(*ty))], 0)?
            }
            Op::Fns { d, mask, base, offset } => {
                let run = Some(self.pick::<bits::Fns>());
                let sources = [(mask, narrow), (base, narrow), (offset, narrow)];
                self.lanes(run, (*d, narrow), &sources, 0)?
            }
            Op::Bfe { ty, d, a, b, c } => {
                let t = of(*ty);
                self.lanes(int::bfe(isa, *ty), (*d, t), &[(a, t), (b, narrow), (c, narrow)], 0)?
            }
            Op::Bfi { ty, d, a, b, c, e } => {
                let t = of(*ty);
                let sources = [(a, t), (b, t), (c, narrow), (e, narrow)];
                self.lanes(int::bfi(isa, *ty), (*d, t), &sources, 0)?
            }
            Op::Bmsk { mode, d, a, b } => {
                self.lanes(bits::bmsk(isa, *mode), (*d, narrow), &[(a, narrow), (b, narrow)], 0)?
            }
            Op::Szext { ty, mode, d, a, b } => {
                let run = bits::szext(isa, *ty, *mode);
                self.lanes(run, (*d, narrow), &[(a, narrow), (b, narrow)], 0)?
            }
            Op::Dot { op, a_ty, b_ty, d, a, b, c } => {
                let run = bits::dot(isa, *op, *a_ty, *b_ty);
                self.lanes(run, (*d, narrow), &[(a, narrow), (b, narrow), (c, narrow)], 0)?
            }
            Op::Lop3 { lut, d, a, b, c } => {
                let run = Some(self.vector::<bits::Lop3>());
                let sources = [(a, narrow), (b, narrow), (c, narrow)];
                self.lanes(run, (*d, narrow), &sources, u64::from(*lut))?
            }
            Op::Lop3Bool { op, lut, d, p, a, b, c, q } => {
                let or = match op {
                    BoolOp::And => 0,
                    BoolOp::Or => 256,
                    _ => return Err("lop3 with this operation".to_owned()),
                };
                let (a, b, c) = (self.src(a, narrow)?, self.src(b, narrow)?, self.src(c, narrow)?);
                let (d, e) = (self.dst(*d, narrow)?, self.dst(*p, Class::Pred)?);
                let f = self.pred_slot(q.reg)?;
                let imm = u64::from(*lut) | or | u64::from(q.negated) << 9;
                let inst = self.inst(self.pick::<bits::Lop3Bool>());
                self.emit(Inst { d, a, b, c, e, f, imm, ..inst });
                Some(())
            }
            Op::Shf { right, mode, d, a, b, c } => {
                let run = bits::shf(isa, *right, *mode);
                self.lanes(run, (*d, narrow), &[(a, narrow), (b, narrow), (c, narrow)], 0)?
            }
            Op::Prmt { mode, d, a, b, c } => {
                let run = bits::prmt(isa, *mode);
                self.lanes(run, (*d, narrow), &[(a, narrow), (b, narrow), (c, narrow)], 0)?
            }
            Op::Testp { test, ty, d, a } => {
                self.lanes(float::testp(isa, *test, *ty), (*d, Class::Pred), &[(a, of(*ty))], 0)?
            }
            Op::Setp { cmp, ty, ftz, combine, p, q, a, b } => {
                let (d, e) = (self.dst(*p, Class::Pred)?, self.dst(*q, Class::Pred)?);
                self.compare(*cmp, *ty, *ftz, *combine, (d, e), a, b)?;
                Some(())
            }
            Op::Set { cmp, d_ty, ty, ftz, combine, d, a, b } => {
                let (p, q) = (self.temp(Class::Pred), self.temp(Class::Pred));
                self.compare(*cmp, *ty, *ftz, *combine, (p, q), a, b)?;
                let packed = matches!(d_ty, Type::F16x2 | Type::Bf16x2) || is_packed_float(*ty);
                let yes: u64 = match d_ty {
                    Type::F32 => 0x3f80_0000,
                    Type::F16 => 0x3c00,
                    Type::Bf16 => 0x3f80,
                    Type::F16x2 => 0x3c00_3c00,
                    Type::Bf16x2 => 0x3f80_3f80,
                    Type::U16 | Type::S16 => 0xffff,
                    _ => 0xffff_ffff,
                };
                let d = self.dst(*d, narrow)?;
                let inst = self.inst(self.cx.isa.once::<compare::Spread>());
                self.emit(Inst { d, a: p, b: q, imm: yes, e: u32::from(packed), ..inst });
                Some(())
            }
            Op::Video { op, lanes, d_ty, a_ty, b_ty, cmp, sat, add, mask, d, a, b, c } => {
                if cmp.is_some() {
                    return Err(format!("{op}{lanes}"));
                }
                let video = Video {
                    op: match op {
                        ptx::ir::VideoOp::Add => video::ADD,
                        ptx::ir::VideoOp::Sub => video::SUB,
                        ptx::ir::VideoOp::Avrg => video::AVRG,
                        ptx::ir::VideoOp::AbsDiff => video::ABSDIFF,
                        ptx::ir::VideoOp::Min => video::MIN,
                        ptx::ir::VideoOp::Max => video::MAX,
                        _ => return Err(format!("{op}{lanes}")),
                    },
                    lanes: *lanes,
                    d_signed: d_ty.is_signed(),
                    a_signed: a_ty.is_signed(),
                    b_signed: b_ty.is_signed(),
                    sat: *sat,
                    add: *add,
                    mask: mask.unwrap_or(if *lanes == 2 { 3 } else { 15 }),
                };
                let closure: Closure = Box::new(move |[a, b, c, _]| {
                    u64::from(video.apply(a as u32, b as u32, c as u32))
                });
                let sources = [(a, narrow), (b, narrow), (c, narrow)];
                self.closure(closure, (*d, narrow), &sources)?;
                Some(())
            }
            Op::CvtPack { to, from, d, a, b, c } => {
                let (to, from) = (*to, *from);
                if convert::cvt_pack(to, from, 0, 0, 0).is_none() {
                    return Err(format!("cvt.pack.sat.{to}.{from}"));
                }
                let closure: Closure = Box::new(move |[a, b, c, _]| {
                    let packed = convert::cvt_pack(to, from, a as u32, b as u32, c as u32);
                    packed.unwrap_or(0).into()
                });
                let zero = Operand::Imm(0);
                let c = c.as_ref().unwrap_or(&zero);
                self.closure(closure, (*d, narrow), &[(a, narrow), (b, narrow), (c, narrow)])?;
                Some(())
            }
            _ => return Ok(false),
        };
        match done {
            Some(()) => Ok(true),
            None => Err(describe(op)),
        }
    }
}

/// Returns the class of a product.
fn product(ty: Type, part: Option<MulPart>) -> Class {
    match part {
        Some(MulPart::Wide) if ty.bits() == 32 => Class::Wide,
        _ => Class::of(ty),
    }
}

/// Returns an instruction's name, for a refusal.
pub(super) fn describe(op: &Op) -> String {
    let (name, ty, mode): (&str, Type, Option<&Mode>) = match op {
        Op::Unary { op, ty, mode, .. } => (op.name(), *ty, Some(mode)),
        Op::Binary { op, ty, mode, .. } => (op.name(), *ty, Some(mode)),
        Op::MinMax3 { ty, mode, .. } => ("min/max with three sources", *ty, Some(mode)),
        Op::Mul { ty, mode, .. } => ("mul", *ty, Some(mode)),
        Op::Mad { ty, mode, .. } => ("mad", *ty, Some(mode)),
        Op::Fma { ty, mode, .. } => ("fma", *ty, Some(mode)),
        Op::Carry { ty, .. } => ("add with carry", *ty, None),
        Op::Testp { ty, .. } => ("testp", *ty, None),
        other => {
            let text = format!("{other:?}");
            return text.split([' ', '{']).next().unwrap_or_default().to_lowercase();
        }
    };
    let mut text = name.to_owned();
    if let Some(mode) = mode {
        for (set, word) in [
            (mode.relu, ".relu"),
            (mode.oob, ".oob"),
            (mode.nan, ".NaN"),
            (mode.ftz, ".ftz"),
            (mode.sat, ".sat"),
        ] {
            if set {
                text.push_str(word);
            }
        }
        if let Some(rounding) = mode.rounding {
            text.push('.');
            text.push_str(rounding.name());
        }
    }
    text.push('.');
    text.push_str(ty.name());
    text
}
