//! `call`, in all its forms.

use super::cursor::Result;
use super::function::Body;
use super::scope::Binding;
use crate::ir::{Callee, FunctionId, Op, Operand, Symbol, Type};

impl Body<'_, '_> {
    /// Returns the function whose name comes next.
    pub(super) fn callee_name(&mut self) -> Result<FunctionId> {
        let place = self.cur.offset();
        let name = self.cur.word("a function")?;
        match self.names.get(name) {
            Some(&Symbol::Function(id)) => Ok(id),
            _ => Err(self.cur.error_at(place, format!("`{name}` is not a declared function"))),
        }
    }

    /// `(a, b)`
    fn actuals(&mut self) -> Result<Box<[Operand]>> {
        self.cur.require(b'(')?;
        let mut list = Vec::new();
        if self.cur.eat(b')')? {
            return Ok(list.into());
        }
        loop {
            list.push(self.operand(Type::B64)?);
            if !self.cur.comma_or(b')')? {
                return Ok(list.into());
            }
        }
    }

    /// Parses the rest of `call` or `call.uni`.
    pub(super) fn call(&mut self, uni: bool) -> Result<Op> {
        let mut returns = Box::default();
        if self.cur.at(b'(') {
            returns = self.actuals()?;
            self.comma()?;
        }
        let place = self.cur.offset();
        let name = self.cur.word("a function or a register")?;
        let pointer = match self.find(name) {
            Some(Binding::Reg(id)) => Some(id),
            Some(_) => {
                return Err(self.cur.error_at(place, format!("`{name}` cannot be called")));
            }
            None => None,
        };
        let direct = match (pointer, self.names.get(name)) {
            (Some(_), _) => None,
            (None, Some(&Symbol::Function(id))) => Some(id),
            _ => {
                return Err(self.cur.error_at(place, format!("function `{name}` is not declared")));
            }
        };
        let mut args = Box::default();
        let mut more = self.cur.eat(b',')?;
        if more && self.cur.at(b'(') {
            args = self.actuals()?;
            more = self.cur.eat(b',')?;
        }
        let prototype = if more {
            let place = self.cur.offset();
            let name = self.cur.word("a prototype")?;
            match self.find(name) {
                Some(Binding::Prototype(id)) => Some(id),
                _ => {
                    return Err(self.cur.error_at(place, format!("`{name}` is not a prototype")));
                }
            }
        } else {
            None
        };
        let callee = match (direct, pointer, prototype) {
            (Some(id), _, None) => Callee::Function(id),
            (None, Some(reg), Some(prototype)) => Callee::Indirect(reg, prototype),
            (Some(_), ..) => {
                return Err(self.cur.error_at(place, "a call by name takes no prototype"));
            }
            _ => return Err(self.cur.error_at(place, "an indirect call wants a prototype")),
        };
        Ok(Op::Call { uni, callee, returns, args })
    }
}
