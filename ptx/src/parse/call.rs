//! `call`, in all its forms, and the labels of prototypes and tables.

use super::cursor::Result;
use super::function::{Body, parameter};
use super::index;
use super::scope::Binding;
use crate::ir::{
    Callee, Formal, FunctionId, Op, Operand, Prototype, PrototypeId, PrototypeKind, Symbol,
    TableId, Type, Variable,
};
use crate::lex::Kind;

impl<'a> Body<'_, 'a> {
    /// Returns the function whose name comes next.
    pub(super) fn callee_name(&mut self) -> Result<FunctionId> {
        let place = self.cur.offset();
        let name = self.cur.word("a function")?;
        match self.names.get(name) {
            Some(&Symbol::Function(id)) => Ok(id),
            _ => Err(self.cur.error_at(place, format!("`{name}` is not a declared function"))),
        }
    }

    /// Returns what takes result `at` of a function, for which the text has `_`.
    fn discarded(
        &mut self,
        callee: Option<FunctionId>,
        at: usize,
        place: usize,
    ) -> Result<Operand> {
        let function = callee.and_then(|id| self.functions.get(id.index()));
        let formal = function.and_then(|function| match *function.returns.get(at)? {
            Formal::Reg(id) => Some((Some(*function.registers.get(id.index())?), None)),
            Formal::Var(id) => Some((None, function.variables.get(id.index()))),
        });
        self.rewritten = true;
        match formal {
            Some((Some(ty), _)) => Ok(Operand::Reg(self.new_register(ty))),
            Some((None, Some(var))) => {
                let id = self.declare_variable("_", var.clone(), place)?;
                self.f.variables[id.index()].name = self.unique.make("unused", self.names, true);
                Ok(Operand::Symbol(Symbol::Var(id), 0))
            }
            _ => {
                let message =
                    "`_` takes a result of a function that is declared and called by its name";
                Err(self.cur.error_at(place, message))
            }
        }
    }

    /// `(a, b)`; of results, `sinks` takes the place of each `_`.
    fn actuals(&mut self, mut sinks: Option<&mut Vec<usize>>) -> Result<Box<[Operand]>> {
        self.cur.require(b'(')?;
        let mut list = Vec::new();
        if self.cur.eat(b')')? {
            return Ok(list.into());
        }
        loop {
            if self.cur.at(b'{') {
                return Err(self.cur.expected("a register, a parameter or a constant"));
            }
            match &mut sinks {
                Some(sinks) if self.cur.text() == "_" => {
                    self.cur.advance()?;
                    sinks.push(list.len());
                    list.push(Operand::Imm(0));
                }
                _ => list.extend(self.operands(Type::B64)?),
            }
            if !self.cur.comma_or(b')')? {
                return Ok(list.into());
            }
        }
    }

    /// Parses the rest of `call` or `call.uni`.
    pub(super) fn call(&mut self, uni: bool) -> Result<Op> {
        let mut returns: Box<[Operand]> = Box::default();
        let mut sinks = Vec::new();
        if self.cur.at(b'(') {
            returns = self.actuals(Some(&mut sinks))?;
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
            args = self.actuals(None)?;
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
        for at in sinks {
            returns[at] = self.discarded(direct, at, place)?;
        }
        Ok(Op::Call { uni, callee, returns, args })
    }

    /// Parses the rest after `name:`.
    pub(super) fn label(&mut self, name: &'a str, place: usize) -> Result<()> {
        match self.cur.peek_dotted() {
            Some("callprototype") => {
                self.cur.advance()?;
                let kind = self.signature()?;
                self.prototype(name, kind, place)
            }
            Some("calltargets") => {
                self.cur.advance()?;
                let mut targets = Vec::new();
                loop {
                    targets.push(self.callee_name()?);
                    if !self.cur.comma_or(b';')? {
                        break;
                    }
                }
                self.prototype(name, PrototypeKind::Targets(targets), place)
            }
            Some("branchtargets") => {
                self.cur.advance()?;
                let mut table = Vec::new();
                loop {
                    let place = self.cur.offset();
                    let label = self.cur.word("a label")?;
                    table.push(self.refer(label, place)?);
                    if !self.cur.comma_or(b';')? {
                        break;
                    }
                }
                let id = TableId(index(self.f.tables.len()));
                self.f.tables.push(table);
                self.declare_table(name, id, place)
            }
            _ => self.define_label(name, place),
        }
    }

    fn prototype(&mut self, name: &'a str, kind: PrototypeKind, place: usize) -> Result<()> {
        let id = PrototypeId(index(self.f.prototypes.len()));
        let name = self.declare_prototype(name, id, place)?;
        self.f.prototypes.push(Prototype { name, kind });
        Ok(())
    }

    /// `(.param .b32 _) _ (.param .b64 _);`
    fn signature(&mut self) -> Result<PrototypeKind> {
        let returns = if self.cur.at(b'(') { self.formal_types()? } else { Vec::new() };
        self.cur.word("`_`")?;
        let params = if self.cur.at(b'(') { self.formal_types()? } else { Vec::new() };
        let noreturn = self.cur.eat_dotted("noreturn")?;
        while self.cur.kind() == Kind::Dotted {
            // `.abi_preserve n`: promises about machine registers.
            self.cur.advance()?;
            if self.cur.kind() == Kind::Number {
                self.cur.advance()?;
            }
        }
        self.cur.require(b';')?;
        Ok(PrototypeKind::Signature { returns, params, noreturn })
    }

    fn formal_types(&mut self) -> Result<Vec<Variable>> {
        self.cur.require(b'(')?;
        let mut types = Vec::new();
        if self.cur.eat(b')')? {
            return Ok(types);
        }
        loop {
            let place = self.cur.offset();
            match self.cur.dotted("`.param` or `.reg`")? {
                "param" => types.push(parameter(self.cur)?.1),
                "reg" => {
                    let mut var = parameter(self.cur)?.1;
                    let width = std::mem::replace(&mut var.vector, 1);
                    types.extend(std::iter::repeat_n(var, usize::from(width)));
                }
                _ => return Err(self.cur.error_at(place, "expected `.param` or `.reg`")),
            }
            if !self.cur.comma_or(b')')? {
                return Ok(types);
            }
        }
    }
}
