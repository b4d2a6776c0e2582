//! Moves, selections, packing, conversions, addresses.

use ptx::ir::{Op, Operand, Space, Special, Type};

use super::{Class, Decoder, Refusal};
use crate::exec::cluster::address::{IsExplicit, IsOwnShared};
use crate::exec::inst::Inst;
use crate::exec::memory::space::{
    Cvta32To64, Cvta64, Cvta64To32, IsGlobalOrConst, IsSpace, window,
};
use crate::exec::memory::{CLUSTER, GLOBAL, LOCAL, PARAM, SHARED};
use crate::exec::ops::convert::{self, How, Spec};
use crate::exec::ops::moves::{
    Join2, Join2Wide, Join4, Join4Wide, Move32, Move64, MovePred, Narrow, Part32, Part64, Selp,
    Slct32, Slct64, Widen, WidenSigned,
};

impl Decoder<'_, '_> {
    /// Decodes moves and conversions. False if the instruction is none.
    pub(super) fn data(&mut self, op: &Op) -> Result<bool, Refusal> {
        match op {
            Op::Mov { ty, d, a } => self.mov(*ty, *d, a)?,
            Op::Pack { ty, d, a } => self.pack(*ty, *d, a)?,
            Op::Unpack { ty, d, a } => self.unpack(*ty, d, a)?,
            Op::Selp { ty, d, a, b, p } => {
                let class = Class::of(*ty);
                let run = match class {
                    Class::Narrow => self.vector::<Selp<u32>>(),
                    Class::Wide => self.vector::<Selp<u64>>(),
                    _ => return Err(format!("selp.{ty}")),
                };
                let (a, b) = (self.src(a, class)?, self.src(b, class)?);
                let (c, d) = (self.pred_slot(p.reg)?, self.dst(*d, class)?);
                let imm = if p.negated { u64::MAX } else { 0 };
                let inst = self.inst(run);
                self.emit(Inst { d, a, b, c, imm, ..inst });
            }
            Op::Slct { ty, c_ty, ftz, d, a, b, c } => {
                let class = Class::of(*ty);
                let run = match (class, *c_ty == Type::F32, *ftz) {
                    (Class::Narrow, false, _) => self.pick::<Slct32<false, false>>(),
                    (Class::Narrow, true, false) => self.pick::<Slct32<true, false>>(),
                    (Class::Narrow, true, true) => self.pick::<Slct32<true, true>>(),
                    (_, false, _) => self.pick::<Slct64<false, false>>(),
                    (_, true, false) => self.pick::<Slct64<true, false>>(),
                    (_, true, true) => self.pick::<Slct64<true, true>>(),
                };
                let (a, b) = (self.src(a, class)?, self.src(b, class)?);
                let (c, d) = (self.src(c, Class::Narrow)?, self.dst(*d, class)?);
                let inst = self.inst(run);
                self.emit(Inst { d, a, b, c, ..inst });
            }
            Op::Cvta { to, space, ty, d, a } => {
                let add = window(space_code(*space)?);
                let imm = if *to { add.wrapping_neg() } else { add };
                let wide = Class::of(*ty) == Class::Wide;
                let (a_class, d_class) = (self.class_of(a, *ty), Class::of(*ty));
                let run = match (a_class, wide) {
                    (Class::Narrow, true) => self.pick::<Cvta32To64>(),
                    (Class::Wide, true) => self.vector::<Cvta64>(),
                    (Class::Wide, false) => self.pick::<Cvta64To32>(),
                    _ => return Err(format!("cvta.{ty}")),
                };
                let a = self.src(a, a_class)?;
                let d = self.dst(*d, d_class)?;
                let inst = self.inst(run);
                self.emit(Inst { d, a, imm, ..inst });
            }
            Op::Isspacep { space, d, a } => {
                let (a, d) = (self.src(a, Class::Wide)?, self.dst(*d, Class::Pred)?);
                let code = space_code(*space)?;
                let (imm, inst) = match window(code) {
                    _ if code == SHARED => (0, self.inst(self.pick::<IsOwnShared>())),
                    0 => {
                        let constant = u64::from(*space == Space::Const);
                        (constant, self.inst(self.pick::<IsGlobalOrConst>()))
                    }
                    window => (window >> 48, self.inst(self.pick::<IsSpace>())),
                };
                self.emit(Inst { d, a, imm, ..inst });
            }
            Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b } => {
                let (rounding, ftz, sat) = (*rounding, *ftz, *sat);
                let (satfinite, relu) = (*satfinite, *relu);
                let spec = Spec { to: *to, from: *from, rounding, ftz, sat, satfinite, relu };
                self.cvt(&spec, *d, a, b.as_ref())?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the class in which an operand is at hand.
    fn class_of(&self, operand: &Operand, ty: Type) -> Class {
        match operand {
            Operand::Reg(r) => self.reg(*r).map_or(Class::of(ty), |(_, class)| class),
            _ => Class::of(ty),
        }
    }

    fn mov(&mut self, ty: Type, d: ptx::ir::Dst, a: &Operand) -> Result<(), Refusal> {
        let class = Class::of(ty);
        if let (Operand::Special(Special::IsExplicitCluster), Class::Pred) = (a, class) {
            let d = self.dst(d, class)?;
            let inst = self.inst(self.pick::<IsExplicit>());
            self.emit(Inst { d, ..inst });
            return Ok(());
        }
        if let Operand::Special(register) = a {
            if class == Class::Pred {
                return Err(format!("mov.pred of {register}"));
            }
            let number = self.special(*register)?;
            let d = self.dst(d, class)?;
            let e = u32::from(class == Class::Wide);
            let inst = self.inst(self.pick::<crate::exec::ops::special::Read>());
            self.emit(Inst { d, e, imm: number, ..inst });
            return Ok(());
        }
        let slot = self.src(a, class)?;
        let d = self.dst(d, class)?;
        let run = match class {
            Class::Pred => self.pick::<MovePred>(),
            Class::Narrow => self.vector::<Move32>(),
            Class::Wide | Class::Double => self.vector::<Move64>(),
        };
        let inst = Inst { d, a: slot, ..self.inst(run) };
        self.emit(inst);
        if class == Class::Double {
            self.emit(Inst { d: d + 256, a: slot + 256, ..inst });
        }
        Ok(())
    }

    fn pack(&mut self, ty: Type, d: ptx::ir::Dst, a: &[Operand]) -> Result<(), Refusal> {
        let class = Class::of(ty);
        let part = (ty.bits() as usize).checked_div(a.len()).unwrap_or(0);
        let part_class = if part > 32 { Class::Wide } else { Class::Narrow };
        let mut slots = [crate::exec::inst::SLOT_NONE; 4];
        if a.len() > 4 {
            return Err(format!("mov.{ty} of {} parts", a.len()));
        }
        for (slot, operand) in slots.iter_mut().zip(a) {
            *slot = self.src(operand, part_class)?;
        }
        let [a0, b, c, e] = slots;
        let d = self.dst(d, class)?;
        let run = match (class, a.len(), part) {
            (Class::Double, 2, 64) => {
                let inst = Inst { d, a: a0, ..self.inst(self.vector::<Move64>()) };
                self.emit(inst);
                self.emit(Inst { d: d + 256, a: b, ..inst });
                return Ok(());
            }
            (Class::Double, 4, 32) => {
                let inst = Inst { d, a: a0, b, ..self.inst(self.pick::<Join2Wide>()) };
                self.emit(inst);
                self.emit(Inst { d: d + 256, a: c, b: e, ..inst });
                return Ok(());
            }
            (Class::Wide, 2, 32) => self.pick::<Join2Wide>(),
            (Class::Wide, 4, 16) => self.pick::<Join4Wide>(),
            (Class::Narrow, 2, 16 | 8) => self.vector::<Join2>(),
            (Class::Narrow, 4, 8) => self.pick::<Join4>(),
            _ => return Err(format!("mov.{ty} of {} parts", a.len())),
        };
        let inst = self.inst(run);
        self.emit(Inst { d, a: a0, b, c, e, imm: part as u64, ..inst });
        Ok(())
    }

    fn unpack(&mut self, ty: Type, d: &[ptx::ir::Dst], a: &Operand) -> Result<(), Refusal> {
        let class = Class::of(ty);
        let part = (ty.bits() as usize).checked_div(d.len()).unwrap_or(0);
        let source = self.src(a, class)?;
        for (at, &dst) in d.iter().enumerate() {
            if dst.is_none() {
                continue;
            }
            let shift = at * part;
            // A source of 128 bits is two of 64.
            let from = source + if shift >= 64 { 256 } else { 0 };
            let imm = (shift % 64) as u64 | (part as u64) << 8;
            let (run, gives) = match (class, part) {
                (Class::Double, 64) => (self.vector::<Move64>(), Class::Wide),
                (Class::Double | Class::Wide, 8 | 16 | 32) => {
                    (self.vector::<Part64>(), Class::Narrow)
                }
                (Class::Narrow, 8 | 16) => (self.vector::<Part32>(), Class::Narrow),
                _ => return Err(format!("mov.{ty} into {} parts", d.len())),
            };
            let slot = self.dst(dst, gives)?;
            // The source may be one of the destinations' neighbours, never one of them: PTX
            // registers have one type.
            let inst = self.inst(run);
            self.emit(Inst { d: slot, a: from, imm, ..inst });
        }
        Ok(())
    }

    fn cvt(
        &mut self,
        spec: &Spec,
        d: ptx::ir::Dst,
        a: &Operand,
        b: Option<&Operand>,
    ) -> Result<(), Refusal> {
        let Spec { to, from, .. } = *spec;
        let (d_class, a_class) = (Class::of(to), Class::of(from));
        let refusal = || {
            let rounding = spec.rounding.map_or("", |r| r.name());
            format!("cvt.{rounding}.{to}.{from}")
        };
        if let Some(b) = b {
            let closure = convert::cvt2(spec).ok_or_else(refusal)?;
            return self.closure(closure, (d, d_class), &[(a, a_class), (b, a_class)]);
        }
        if convert::is_int(to) && convert::is_int(from) && !spec.sat {
            return self.cvt_int(to, from, d, a);
        }
        // A signed result is extended to the whole of a wider register.
        let register = d.and_then(|reg| self.function.registers.get(reg.index()));
        let wider = register.is_some_and(|ty| ty.bits() > to.bits()) && to.is_signed();
        let made = if wider { Some(self.temp(d_class)) } else { None };
        let how = convert::cvt(self.cx.isa, spec).ok_or_else(refusal)?;
        let a = self.src(a, a_class)?;
        let slot = match made {
            Some(slot) => slot,
            None => self.dst(d, d_class)?,
        };
        match how {
            How::Closure(closure) => self.closure_slots(closure, (slot, d_class), &[(a, a_class)]),
            How::Run(run) => {
                let inst = self.inst(run);
                self.emit(Inst { d: slot, a, ..inst });
            }
        }
        if made.is_some() {
            self.extend_into(to, d, slot)?;
        }
        Ok(())
    }

    /// An integer cut or extended: the value's low bits first, as `from` says, then as `to` does.
    fn cvt_int(
        &mut self,
        to: Type,
        from: Type,
        d: ptx::ir::Dst,
        a: &Operand,
    ) -> Result<(), Refusal> {
        let slot = self.src(a, Class::of(from))?;
        if to.bits() == 64 && from.bits() == 64 {
            let d = self.dst(d, Class::Wide)?;
            let inst = self.inst(self.vector::<Move64>());
            self.emit(Inst { d, a: slot, ..inst });
            return Ok(());
        }
        // `value` is first the source in 32 bits, extended from the narrower of 32 bits and `from`.
        let mut value = slot;
        if from.bits() == 64 {
            value = self.temp(Class::Narrow);
            let inst = self.inst(self.vector::<Narrow>());
            self.emit(Inst { d: value, a: slot, imm: u64::MAX, ..inst });
        } else if from.bits() < 32 {
            value = self.temp(Class::Narrow);
            let run = convert::extend(self.cx.isa, from.is_signed());
            let inst = self.inst(run);
            self.emit(Inst { d: value, a: slot, imm: u64::from(32 - from.bits()), ..inst });
        }
        if to.bits() < 64 {
            return self.extend_into(to, d, value);
        }
        let d = self.dst(d, Class::Wide)?;
        let run =
            if from.is_signed() { self.vector::<WidenSigned>() } else { self.vector::<Widen>() };
        let inst = self.inst(run);
        self.emit(Inst { d, a: value, ..inst });
        Ok(())
    }

    /// A value of type `ty` in 32 bits goes into a register that may be wider.
    fn extend_into(&mut self, ty: Type, d: ptx::ir::Dst, value: u32) -> Result<(), Refusal> {
        let wide = match d {
            Some(reg) => self.reg(reg)?.1 == Class::Wide,
            None => false,
        };
        let target = if wide { self.temp(Class::Narrow) } else { self.dst(d, Class::Narrow)? };
        let run = if ty.bits() == 32 {
            self.vector::<Move32>()
        } else {
            convert::extend(self.cx.isa, ty.is_signed())
        };
        let inst = self.inst(run);
        self.emit(Inst { d: target, a: value, imm: u64::from(32 - ty.bits()), ..inst });
        if wide {
            let d = self.dst(d, Class::Wide)?;
            let run =
                if ty.is_signed() { self.vector::<WidenSigned>() } else { self.vector::<Widen>() };
            let inst = self.inst(run);
            self.emit(Inst { d, a: target, ..inst });
        }
        Ok(())
    }
}

/// Returns the executor's number of a space.
pub(super) fn space_code(space: Space) -> Result<u8, Refusal> {
    Ok(match space {
        Space::Generic => crate::exec::memory::GENERIC,
        Space::Global | Space::Const => GLOBAL,
        Space::Shared | Space::SharedCta => SHARED,
        Space::SharedCluster => CLUSTER,
        Space::Local => LOCAL,
        Space::Param | Space::ParamEntry => PARAM,
        other => return Err(format!("the state space {other}")),
    })
}
