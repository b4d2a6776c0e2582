//! Operands that the IR has no form for: the instruction is preceded by others that bring them into it.
//!
//! Constants as predicates, negated predicates as sources, elements of arrays and moves of vectors are rare, and stay
//! known to the parser alone this way.

use super::cursor::{Number, Result};
use super::function::Body;
use super::init::addend;
use crate::ir::{
    Address, Base, Dst, Function, Mode, MulPart, Op, Operand, Pred, RegId, Space, Special, Symbol,
    Type, UnaryOp,
};

impl<'a> Body<'_, 'a> {
    /// Emits an instruction ahead of the one that is being read.
    fn ahead(&mut self, op: Op) {
        self.rewritten = true;
        self.emit(None, op, self.line);
    }

    /// `%p`, `!%p` or a constant, of which zero is false.
    pub(super) fn pred(&mut self) -> Result<Pred> {
        let before = *self.cur;
        let negated = self.cur.eat(b'!')?;
        if self.cur.at_name() {
            return self.guard(negated);
        }
        *self.cur = before;
        let place = self.cur.offset();
        let Number::Int(n) = self.cur.constant("a predicate")? else {
            return Err(self.cur.error_at(place, "a predicate is a register or an integer"));
        };
        let value = usize::from(n != 0);
        let reg = match self.constants[value] {
            Some(reg) => reg,
            None => self.new_register(Type::Pred),
        };
        self.constants[value] = Some(reg);
        // The predicate is set at each use, since other uses need not come before this one.
        self.ahead(Op::Mov { ty: Type::Pred, d: Some(reg), a: Operand::Imm(value as u64) });
        Ok(Pred { reg, negated: false })
    }

    /// Reads `!%p` as a source, after its `!`.
    pub(super) fn negated(&mut self) -> Result<Operand> {
        let Pred { reg, .. } = self.guard(true)?;
        let d = self.new_register(Type::Pred);
        let (op, mode) = (UnaryOp::Not, Mode::default());
        self.ahead(Op::Unary { op, ty: Type::Pred, mode, d: Some(d), a: Operand::Reg(reg) });
        Ok(Operand::Reg(d))
    }

    /// `mov.v2 {a, b}, {c, d}`, where either may be a vector register: a move of each element.
    pub(super) fn mov_vector(&mut self, width: u8, ty: Type) -> Result<Op> {
        let place = self.cur.offset();
        let d = self.dsts()?;
        self.comma()?;
        let mut a = match self.whole_special()? {
            Some(all) => all,
            None => self.operands(ty)?,
        };
        let width = usize::from(width);
        if d.len() != width || a.len() != width {
            let message = format!("expected {width} elements, met {} and {}", d.len(), a.len());
            return Err(self.cur.error_at(place, message));
        }
        self.rewritten = true;
        let overwritten = |at: usize, source: &Operand| match source {
            Operand::Reg(reg) => d[..at].contains(&Some(*reg)),
            _ => false,
        };
        // All elements are read before one is written.
        if a.iter().enumerate().any(|(at, source)| overwritten(at, source)) {
            for source in &mut a {
                let copy = self.new_register(ty);
                let a = std::mem::replace(source, Operand::Reg(copy));
                self.ahead(Op::Mov { ty, d: Some(copy), a });
            }
        }
        let mut moves = d.iter().zip(&a).map(|(&d, &a)| Op::Mov { ty, d, a });
        let last = moves.next_back();
        for op in moves {
            self.emit(self.guard, op, self.line);
        }
        last.ok_or_else(|| self.cur.error_at(place, "a vector without elements"))
    }

    /// `%tid` and the like without a component, if it comes next.
    fn whole_special(&mut self) -> Result<Option<Box<[Operand]>>> {
        let name = self.cur.text();
        if !name.starts_with('%') || self.find(name).is_some() {
            return Ok(None);
        }
        let part = |dim| Special::from_name(&format!("{name}.{dim}")).map(Operand::Special);
        let all: Option<Box<[Operand]>> = ["x", "y", "z", "w"].into_iter().map(part).collect();
        if all.is_some() {
            self.cur.advance()?;
        }
        Ok(all)
    }

    /// `mov` of one value, which can be packed in a vector register or between braces.
    pub(super) fn mov_scalar(&mut self, ty: Type) -> Result<Op> {
        let place = self.cur.offset();
        let (d, unpacks) = self.packed_dst(ty)?;
        self.comma()?;
        let braces = self.cur.at(b'{');
        let a = self.operands(ty)?;
        if !braces && a.len() > 1 {
            self.fits(
                a.iter().map(|a| if let Operand::Reg(r) = a { Some(*r) } else { None }),
                ty,
                place,
            )?;
        }
        Ok(match (unpacks, &*a, &*d) {
            (true, &[a], _) if !braces => Op::Unpack { ty, d, a },
            (false, &[a], &[d]) if !braces => Op::Mov { ty, d, a },
            (false, _, &[d]) => Op::Pack { ty, d, a },
            _ => {
                let message = "a vector is moved to another by mov.v2 or mov.v4";
                return Err(self.cur.error_at(place, message));
            }
        })
    }

    /// Returns the destinations of a `mov`, and whether they are parts of its value.
    fn packed_dst(&mut self, ty: Type) -> Result<(Box<[Dst]>, bool)> {
        let place = self.cur.offset();
        let braces = self.cur.at(b'{');
        let d = self.dsts()?;
        if braces && d.len() == 1 {
            return Err(self.cur.error_at(place, "one register needs no braces"));
        }
        if !braces && d.len() > 1 {
            self.fits(d.iter().copied(), ty, place)?;
        }
        let unpacks = braces || d.len() > 1;
        Ok((d, unpacks))
    }

    /// The registers of a vector that is moved as one value have as many bits as the value.
    fn fits(&self, parts: impl Iterator<Item = Dst>, ty: Type, place: usize) -> Result<()> {
        let bits = |reg: RegId| self.f.registers[reg.index()].bits();
        let sum: u32 = parts.flatten().map(bits).sum();
        if sum == ty.bits() && matches!(ty, Type::B16 | Type::B32 | Type::B64 | Type::B128) {
            return Ok(());
        }
        let message = format!("a vector of {sum} bits is not moved as .{ty}: write .v2 or .v4");
        Err(self.cur.error_at(place, message))
    }

    /// `[4]`, `[%r]` or `[%r+4]` after the name of an array, if it comes next: the address of that element. The elements
    /// of a vector count one by one.
    pub(super) fn element(&mut self, symbol: Symbol, place: usize) -> Result<Option<Operand>> {
        if !self.cur.eat(b'[')? {
            return Ok(None);
        }
        let Some((size, true)) = self.variable(symbol).map(|v| (v.ty.bytes(), !v.dims.is_empty()))
        else {
            return Err(self.cur.error_at(place, "only an array has elements"));
        };
        let at = |index: i64| Operand::Symbol(symbol, index.wrapping_mul(i64::from(size)));
        if !self.cur.at_name() {
            let Number::Int(index) = self.cur.constant("an index")? else {
                return Err(self.cur.error_at(place, "an index is an integer"));
            };
            self.cur.require(b']')?;
            return Ok(Some(at(index.cast_signed())));
        }
        let index = self.register()?;
        let first = at(addend(self.cur)?);
        self.cur.require(b']')?;
        let wide = self.address_type();
        let (ty, part) = match (self.f.registers[index.index()], wide) {
            (Type::U32 | Type::B32, Type::U64) => (Type::U32, MulPart::Wide),
            (Type::S32, Type::U64) => (Type::S32, MulPart::Wide),
            (ty, _) if ty.bits() == wide.bits() && !ty.is_float() => (wide, MulPart::Lo),
            (ty, _) => return Err(self.cur.error_at(place, format!("an index of .{ty}"))),
        };
        let (base, d) = (self.new_register(wide), self.new_register(wide));
        self.ahead(Op::Mov { ty: wide, d: Some(base), a: first });
        self.ahead(Op::Mad {
            ty,
            part: Some(part),
            mode: Mode::default(),
            d: Some(d),
            a: Operand::Reg(index),
            b: Operand::Imm(u64::from(size)),
            c: Operand::Reg(base),
        });
        Ok(Some(Operand::Reg(d)))
    }

    fn address_type(&self) -> Type {
        if self.address_size == 32 { Type::U32 } else { Type::U64 }
    }

    /// Reads the address of an access to `space`. A variable's name without a state space means the variable's own, which
    /// `space` is set to. ptxas, too, refuses a name of another space, and of a space without generic addresses.
    pub(super) fn place(&mut self, space: &mut Space) -> Result<Address> {
        let place = self.cur.offset();
        let address = self.address()?;
        self.named(space, address.base, place)?;
        Ok(address)
    }

    /// As [`place`](Self::place), of an instruction that also takes `array[index]`.
    pub(super) fn place_or_element(&mut self, space: &mut Space) -> Result<Address> {
        if !self.cur.at_name() {
            return self.place(space);
        }
        let place = self.cur.offset();
        let name = self.cur.word("an address")?;
        let Some(symbol) = self.symbol(name) else {
            return Err(self.cur.error_at(place, format!("expected an address, met `{name}`")));
        };
        let element = self.element(symbol, place)?;
        self.named(space, Base::Symbol(symbol), place)?;
        match element {
            Some(Operand::Reg(reg)) => Ok(Address { base: Base::Reg(reg), offset: 0 }),
            Some(Operand::Symbol(symbol, offset)) => {
                Ok(Address { base: Base::Symbol(symbol), offset })
            }
            _ => Err(self.cur.error_at(place, format!("write `[{name}]` for an address"))),
        }
    }

    /// As [`place`](Self::place), of an atomic. Those have no `.local`, so that the generic address is formed first.
    pub(super) fn atomic_place(&mut self, space: &mut Space) -> Result<Address> {
        let generic = *space == Space::Generic;
        let mut address = self.place(space)?;
        if let (true, Space::Local, Base::Symbol(symbol)) = (generic, *space, address.base) {
            *space = Space::Generic;
            let ty = self.address_type();
            let d = self.new_register(ty);
            let a = Operand::Symbol(symbol, 0);
            self.ahead(Op::Cvta { to: false, space: Space::Local, ty, d: Some(d), a });
            address.base = Base::Reg(d);
        }
        Ok(address)
    }

    /// Compares the state space of an access with that of the variable it names.
    fn named(&mut self, space: &mut Space, base: Base, place: usize) -> Result<()> {
        let Base::Symbol(symbol) = base else { return Ok(()) };
        let Some(own) = self.variable(symbol).map(|var| var.space) else {
            return Err(self
                .cur
                .error_at(place, "the address of a function is not an address of data"));
        };
        match (*space, own) {
            (Space::Generic, Space::Shared | Space::Local) => *space = own,
            (Space::Generic | Space::Global, Space::Global)
            | (Space::Const, Space::Const)
            | (Space::Local, Space::Local)
            | (Space::Shared | Space::SharedCta | Space::SharedCluster, Space::Shared)
            | (Space::Param | Space::ParamEntry | Space::ParamFunc, Space::Param) => {}
            (Space::Generic, _) => {
                let message = format!(
                    "the variable lies in .{own}, whose names are no generic addresses: name the state space"
                );
                return Err(self.cur.error_at(place, message));
            }
            (space, _) => {
                let message = format!("the variable lies in .{own}, and the access is to .{space}");
                return Err(self.cur.error_at(place, message));
            }
        }
        Ok(())
    }
}

/// Numbers the registers in the order of the text again: those of instructions put ahead were numbered after the
/// operands before them.
pub(super) fn renumber(f: &mut Function) {
    let mut new: Vec<Option<RegId>> = vec![None; f.registers.len()];
    let mut types = Vec::with_capacity(f.registers.len());
    let mut number = |reg: &mut RegId| {
        let old = reg.index();
        *reg = *new[old].get_or_insert_with(|| {
            types.push(f.registers[old]);
            RegId(super::index(types.len() - 1))
        });
    };
    for formal in f.returns.iter_mut().chain(&mut f.params) {
        if let crate::ir::Formal::Reg(reg) = formal {
            number(reg);
        }
    }
    for instr in f.body.iter_mut().flatten() {
        instr.for_each_register_mut(|_, reg| number(reg));
    }
    f.registers = types;
}

impl<'a> Body<'_, 'a> {
    /// Returns the variable that a symbol names; `None` for a function.
    fn variable(&self, symbol: Symbol) -> Option<&crate::ir::Variable> {
        match symbol {
            Symbol::Var(id) => self.f.variables.get(id.index()),
            Symbol::Global(id) => self
                .globals
                .get(id.index())
                .or_else(|| self.hoisted.get(id.index().checked_sub(self.globals.len())?)),
            Symbol::Function(_) => None,
        }
    }
}
