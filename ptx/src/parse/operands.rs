//! Operands: registers, constants, symbols, vectors, addresses.

use super::cursor::{Number, Result};
use super::function::Body;
use super::init::addend;
use super::scope::Binding;
use super::{bits, constant};
use crate::ir::{Address, Base, Dst, Operand, Pred, RegId, Special, Symbol, Type};
use crate::lex::Kind;

/// Vectors are not longer than this; `tcgen05` has longer ones, which stay text.
const VECTOR: usize = 128;

impl<'a> Body<'_, 'a> {
    pub(super) fn comma(&mut self) -> Result<()> {
        self.cur.require(b',')
    }

    fn unknown(&self, name: &str, place: usize) -> crate::Error {
        let name: String = name.chars().take(60).collect();
        self.cur.error_at(place, format!("`{name}` is not declared"))
    }

    /// `.x` to `.w`, or `.r` to `.a`, of a vector register if it comes next.
    fn component_word(&mut self) -> Result<Option<u8>> {
        let at = match self.cur.peek_dotted() {
            Some("x" | "r") => 0,
            Some("y" | "g") => 1,
            Some("z" | "b") => 2,
            Some("w" | "a") => 3,
            _ => return Ok(None),
        };
        self.cur.advance()?;
        Ok(Some(at))
    }

    /// Parses a register's number, after its name.
    fn register_named(&mut self, name: &'a str, place: usize) -> Result<RegId> {
        match self.find(name) {
            Some(Binding::Reg(id)) => Ok(id),
            Some(Binding::Vector(ty, width)) => match self.component_word()? {
                Some(at) if at < width => Ok(self.component(name, ty, at)),
                _ => Err(self.cur.error_at(place, format!("`{name}` is a vector"))),
            },
            Some(_) => Err(self.cur.error_at(place, format!("`{name}` is not a register"))),
            None => Err(self.unknown(name, place)),
        }
    }

    pub(super) fn register(&mut self) -> Result<RegId> {
        let place = self.cur.offset();
        let name = self.cur.word("a register")?;
        self.register_named(name, place)
    }

    pub(super) fn dst(&mut self) -> Result<Dst> {
        let place = self.cur.offset();
        let name = self.cur.word("a register")?;
        if name == "_" {
            return Ok(None);
        }
        self.register_named(name, place).map(Some)
    }

    /// `d|p`, where `|p` may be missing.
    pub(super) fn dst_pair(&mut self) -> Result<(Dst, Dst)> {
        let d = self.dst()?;
        let p = if self.cur.eat(b'|')? { self.dst()? } else { None };
        Ok((d, p))
    }

    /// `{a, b}`, a vector register, or one register.
    pub(super) fn dsts(&mut self) -> Result<Box<[Dst]>> {
        if self.cur.eat(b'{')? {
            let mut list = Vec::with_capacity(4);
            loop {
                if list.len() == VECTOR {
                    return Err(self.cur.error("the vector is too long"));
                }
                list.push(self.dst()?);
                if !self.cur.comma_or(b'}')? {
                    return Ok(list.into());
                }
            }
        }
        let place = self.cur.offset();
        let name = self.cur.word("a register or `{`")?;
        if name == "_" {
            return Ok(Box::new([None]));
        }
        if let Some(all) = self.whole_vector(name) {
            return Ok(all.into_iter().map(Some).collect());
        }
        Ok(Box::new([Some(self.register_named(name, place)?)]))
    }

    /// Returns the components of a vector register that is named without a component.
    pub(super) fn whole_vector(&mut self, name: &'a str) -> Option<Vec<RegId>> {
        let component =
            matches!(self.cur.peek_dotted(), Some("x" | "y" | "z" | "w" | "r" | "g" | "b" | "a"));
        match self.find(name) {
            Some(Binding::Vector(ty, width)) if !component => {
                Some((0..width).map(|at| self.component(name, ty, at)).collect())
            }
            _ => None,
        }
    }

    /// As [`dsts`](Self::dsts), of sources of type `ty`.
    pub(super) fn operands(&mut self, ty: Type) -> Result<Box<[Operand]>> {
        if self.cur.eat(b'{')? {
            let mut list = Vec::with_capacity(4);
            loop {
                if list.len() == VECTOR {
                    return Err(self.cur.error("the vector is too long"));
                }
                list.push(self.operand(ty)?);
                if !self.cur.comma_or(b'}')? {
                    return Ok(list.into());
                }
            }
        }
        if self.cur.kind() == Kind::Word {
            let before = *self.cur;
            let name = self.cur.word("a register")?;
            if let Some(all) = self.whole_vector(name) {
                return Ok(all.into_iter().map(Operand::Reg).collect());
            }
            *self.cur = before;
        }
        Ok(Box::new([self.operand(ty)?]))
    }

    /// Parses a source of type `ty`.
    pub(super) fn operand(&mut self, ty: Type) -> Result<Operand> {
        let place = self.cur.offset();
        if !self.cur.at_name() {
            if ty == Type::Pred {
                let before = *self.cur;
                if self.cur.eat(b'!')? && self.cur.at_name() {
                    return self.negated();
                }
                *self.cur = before;
            }
            let number = self.cur.constant("an operand")?;
            // ptxas converts none of these.
            let kept = match number {
                Number::Int(_) => !matches!(ty, Type::F32 | Type::F64),
                Number::Float32(_) => matches!(ty, Type::F32 | Type::F64 | Type::B32),
                Number::Float(_) => true,
            };
            return match bits(number, ty).filter(|_| kept) {
                Some(bits) => Ok(Operand::Imm(bits)),
                None => Err(self.cur.error_at(place, format!("not a value of .{ty}"))),
            };
        }
        let name = self.cur.word("an operand")?;
        let symbol = match self.find(name) {
            Some(Binding::Reg(id)) => return Ok(Operand::Reg(id)),
            Some(Binding::Var(id)) => Symbol::Var(id),
            Some(Binding::Global(id)) => Symbol::Global(id),
            Some(_) => return self.register_named(name, place).map(Operand::Reg),
            None => {
                if let Some(special) = self.special(name, place)? {
                    return Ok(Operand::Special(special));
                }
                match self.names.get(name) {
                    Some(&symbol) => symbol,
                    None => return Err(self.unknown(name, place)),
                }
            }
        };
        match self.element(symbol, place)? {
            Some(element) => Ok(element),
            None => Ok(Operand::Symbol(symbol, addend(self.cur)?)),
        }
    }

    /// Returns the special register that `name`, just read, begins.
    fn special(&mut self, name: &'a str, place: usize) -> Result<Option<Special>> {
        if !name.starts_with('%') {
            return Ok(None);
        }
        if let Some(special) = Special::from_name(name) {
            return Ok(Some(special));
        }
        if self.cur.peek_dotted().is_none() {
            return Ok(None);
        }
        let end = self.cur.offset() + self.cur.text().len();
        let found = Special::from_name(self.cur.slice(place, end));
        if found.is_some() {
            self.cur.advance()?;
        }
        Ok(found)
    }

    /// Reads a predicate register, before which `!` may have been read.
    pub(super) fn guard(&mut self, negated: bool) -> Result<Pred> {
        let place = self.cur.offset();
        let reg = self.register()?;
        if self.f.registers[reg.index()] == Type::Pred {
            return Ok(Pred { reg, negated });
        }
        Err(self.cur.error_at(place, "this register is not a predicate"))
    }

    /// `[base+offset]`
    pub(super) fn address(&mut self) -> Result<Address> {
        self.cur.require(b'[')?;
        let place = self.cur.offset();
        let address = if self.cur.at_name() {
            let name = self.cur.word("an address")?;
            let base = match self.find(name) {
                Some(Binding::Var(id)) => Base::Symbol(Symbol::Var(id)),
                Some(Binding::Global(id)) => Base::Symbol(Symbol::Global(id)),
                Some(_) => Base::Reg(self.register_named(name, place)?),
                None => match self.names.get(name) {
                    Some(&symbol) => Base::Symbol(symbol),
                    None => return Err(self.unknown(name, place)),
                },
            };
            Address { base, offset: addend(self.cur)? }
        } else {
            match constant::expression(self.cur, "an address")? {
                Number::Int(n) => Address { base: Base::Absolute, offset: n.cast_signed() },
                _ => return Err(self.cur.error_at(place, "an address must be an integer")),
            }
        };
        self.cur.require(b']')?;
        Ok(address)
    }
}
