//! Operands: the slots of registers, constants, special registers and addresses.

use ptx::ir::{Address, Base, Dst, Operand, RegId, Space, Special, Symbol};

use super::{Class, Constant, Decoder, Place, Refusal};
use crate::exec::inst::{Inst, SLOT_NO_PRED, SLOT_NONE, SLOT_TRUE};
use crate::exec::memory::CODE_BASE;
use crate::exec::memory::space::LocalAddress;
use crate::exec::ops::moves::{Narrow, Widen};
use crate::exec::ops::special;

impl Decoder<'_, '_> {
    pub(super) fn reg(&self, reg: RegId) -> Result<(u32, Class), Refusal> {
        self.regs.get(reg.index()).copied().ok_or_else(|| "an unknown register".to_owned())
    }

    pub(super) fn pred_slot(&self, reg: RegId) -> Result<u32, Refusal> {
        match self.reg(reg)? {
            (slot, Class::Pred) => Ok(slot),
            _ => Err("a predicate is expected".to_owned()),
        }
    }

    /// Returns a place for the time of one instruction.
    pub(super) fn temp(&mut self, class: Class) -> u32 {
        let free = self.temps[self.temps_used.min(self.temps.len())..]
            .iter()
            .position(|t| t.0 == class)
            .map(|at| at + self.temps_used);
        let at = match free {
            Some(at) => at,
            None => {
                let slot = self.new_slot(class);
                self.temps.push((class, slot));
                self.temps.len() - 1
            }
        };
        self.temps.swap(at, self.temps_used);
        self.temps_used += 1;
        self.temps[self.temps_used - 1].1
    }

    pub(super) fn constant(&mut self, class: Class, bits: u64) -> u32 {
        if class == Class::Pred && bits != 0 {
            return SLOT_TRUE;
        }
        if let Some(&slot) = self.constants.get(&(class, bits)) {
            return slot;
        }
        let slot = self.new_slot(class);
        match class {
            Class::Pred => self.code.constants.push(Constant::Pred { slot, bits: 0 }),
            Class::Narrow => {
                self.code.constants.push(Constant::Narrow { slot, bits: bits as u32 });
            }
            Class::Wide => self.code.constants.push(Constant::Wide { slot, bits }),
            Class::Double => {
                self.code.constants.push(Constant::Wide { slot, bits });
                self.code.constants.push(Constant::Wide { slot: slot + 256, bits: 0 });
            }
        }
        self.constants.insert((class, bits), slot);
        slot
    }

    /// Returns the number of a special register, and notes what its value needs.
    pub(super) fn special(&mut self, register: Special) -> Result<u64, Refusal> {
        match register {
            Special::Envreg(1 | 2) => self.code.reads_workspace = true,
            Special::ReservedSmemBegin
            | Special::ReservedSmemEnd
            | Special::ReservedSmemCap
            | Special::ReservedSmem0
            | Special::ReservedSmem1 => self.code.reads_reserved = true,
            _ => {}
        }
        special::of(register).ok_or_else(|| format!("the special register {register}"))
    }

    fn shared_constant(&mut self, variable: u32, addend: i64, wide: bool, generic: bool) -> u32 {
        if let Some(&slot) = self.shared_constants.get(&(variable, addend, wide, generic)) {
            return slot;
        }
        self.code.shared.push(variable);
        let slot = self.new_slot(if wide { Class::Wide } else { Class::Narrow });
        self.code.constants.push(Constant::Shared { slot, variable, addend, wide, generic });
        self.shared_constants.insert((variable, addend, wide, generic), slot);
        slot
    }

    /// Returns the slot of a source of a class.
    pub(super) fn src(&mut self, operand: &Operand, class: Class) -> Result<u32, Refusal> {
        match *operand {
            Operand::Reg(r) => {
                let (slot, has) = self.reg(r)?;
                match (has, class) {
                    (Class::Wide, Class::Narrow) => {
                        let d = self.temp(Class::Narrow);
                        let inst = self.inst(self.vector::<Narrow>());
                        self.prepare(Inst { d, a: slot, imm: u64::MAX, ..inst });
                        Ok(d)
                    }
                    (Class::Narrow, Class::Wide) => {
                        let d = self.temp(Class::Wide);
                        let inst = self.inst(self.vector::<Widen>());
                        self.prepare(Inst { d, a: slot, ..inst });
                        Ok(d)
                    }
                    (has, wants) if has == wants => Ok(slot),
                    (has, wants) => Err(format!("a {has:?} register where {wants:?} is expected")),
                }
            }
            Operand::Imm(bits) => Ok(self.constant(class, bits)),
            Operand::Special(register) if class == Class::Pred => {
                Err(format!("{register} as a predicate"))
            }
            Operand::Special(register) => {
                let number = self.special(register)?;
                let d = self.temp(class);
                let inst = self.inst(self.pick::<special::Read>());
                let e = u32::from(class == Class::Wide);
                self.prepare(Inst { d, imm: number, e, ..inst });
                Ok(d)
            }
            Operand::Symbol(symbol, addend) => self.symbol(symbol, addend, class),
        }
    }

    /// Returns the slot with the address of a symbol in its own space.
    pub(super) fn symbol(
        &mut self,
        symbol: Symbol,
        addend: i64,
        class: Class,
    ) -> Result<u32, Refusal> {
        let wide = class == Class::Wide;
        match symbol {
            Symbol::Global(g) => {
                if let Some(&number) = self.cx.shared.get(&(None, g.0)) {
                    return Ok(self.shared_constant(number, addend, wide, false));
                }
                let address = self.cx.globals.get(g.index()).copied().unwrap_or(0);
                if address == 0 {
                    let name = self.cx.module.globals.get(g.index()).map_or("", |v| &v.name);
                    return Err(format!("the external variable {name}"));
                }
                Ok(self.constant(class, address.wrapping_add_signed(addend)))
            }
            Symbol::Function(f) => {
                self.code.callees.push(f.0);
                Ok(self.constant(class, CODE_BASE + 16 * u64::from(f.0)))
            }
            Symbol::Var(v) => match self.places.get(v.index()).copied() {
                Some(Place::Shared { number }) => {
                    Ok(self.shared_constant(number, addend, wide, false))
                }
                Some(Place::Local { offset }) => {
                    let d = self.temp(class);
                    let inst = self.inst(self.pick::<LocalAddress>());
                    let imm = u64::from(offset).wrapping_add_signed(addend);
                    self.prepare(Inst { d, imm, e: u32::from(wide), ..inst });
                    Ok(d)
                }
                Some(Place::Kernel { offset, .. }) => {
                    Ok(self.constant(class, u64::from(offset).wrapping_add_signed(addend)))
                }
                _ => Err("the address of a call's parameter".to_owned()),
            },
        }
    }

    /// Returns the slot of a destination, and its class; a sink takes any.
    pub(super) fn dst(&mut self, d: Dst, class: Class) -> Result<u32, Refusal> {
        let Some(reg) = d else {
            return Ok(if class == Class::Pred { SLOT_NO_PRED } else { SLOT_NONE });
        };
        let (slot, has) = self.reg(reg)?;
        match (has, class) {
            (Class::Wide, Class::Narrow) => {
                let a = self.temp(Class::Narrow);
                let inst = self.inst(self.vector::<Widen>());
                self.after.push(Inst { d: slot, a, ..inst });
                Ok(a)
            }
            (has, gives) if has == gives => Ok(slot),
            (has, gives) => Err(format!("a {gives:?} result in a {has:?} register")),
        }
    }

    /// Returns the slot and offset of an address: in 64 bits, or in 32 where the register has 32.
    pub(super) fn address(
        &mut self,
        address: &Address,
        space: Space,
    ) -> Result<(u32, bool, u64), Refusal> {
        let offset = address.offset as u64;
        match address.base {
            Base::Reg(r) => match self.reg(r)? {
                (slot, Class::Wide) => Ok((slot, false, offset)),
                (slot, Class::Narrow) => match space {
                    Space::Shared | Space::SharedCta | Space::SharedCluster | Space::Local => {
                        Ok((slot, true, offset))
                    }
                    _ => Ok((self.src(&Operand::Reg(r), Class::Wide)?, false, offset)),
                },
                _ => Err("an address in a predicate".to_owned()),
            },
            Base::Symbol(symbol) => Ok((self.symbol(symbol, 0, Class::Wide)?, false, offset)),
            Base::Absolute => Ok((self.constant(Class::Wide, offset), false, 0)),
        }
    }
}
