//! Operands as text.

use std::fmt::{self, Write};

use super::Printer;
use crate::ir::{
    Address, Base, Dst, Function, LabelId, Module, Operand, Piece, Pred, RegId, Symbol, Type,
};

/// An operand in its place.
pub(super) enum Arg<'o> {
    Dst(Dst),
    /// `d|p`
    Pair(Dst, Dst),
    Op(Operand, Type),
    Pred(Pred),
    Addr(Address),
    /// `{a, b}`, or one register when alone.
    Dsts(&'o [Dst]),
    Ops(&'o [Operand], Type),
    /// With braces even when alone.
    Group(&'o [Dst]),
    GroupOps(&'o [Operand], Type),
    Number(u64),
    Pieces(&'o [Piece]),
}

/// Returns the name of a symbol.
pub(super) fn symbol<'m>(
    module: &'m Module,
    function: Option<&'m Function>,
    symbol: Symbol,
) -> Result<&'m str, fmt::Error> {
    let name = match symbol {
        Symbol::Global(id) => module.globals.get(id.index()).map(|v| &v.name),
        Symbol::Function(id) => module.functions.get(id.index()).map(|f| &f.name),
        Symbol::Var(id) => function.and_then(|f| f.variables.get(id.index())).map(|v| &v.name),
    };
    name.map(String::as_str).ok_or(fmt::Error)
}

impl Printer<'_> {
    pub(super) fn reg(&mut self, id: RegId) -> fmt::Result {
        let ty = *self.function.registers.get(id.index()).ok_or(fmt::Error)?;
        let class = match (ty, ty.bits()) {
            (Type::Pred, _) => "p",
            (Type::F32, _) => "f",
            (Type::F64, _) => "fd",
            (_, 128) => "rq",
            (_, 64) => "rd",
            (_, 16) => "rs",
            (_, 8) => "rc",
            _ => "r",
        };
        write!(self.out, "{}{class}{}", self.stem, id.0)
    }

    pub(super) fn label(&mut self, id: LabelId) -> fmt::Result {
        let label = self.function.labels.get(id.index()).ok_or(fmt::Error)?;
        self.out.push_str(&label.name);
        Ok(())
    }

    /// Returns the name of a table of labels, which the text must have and the module has not.
    pub(super) fn table(&self, at: usize) -> String {
        format!("{}table{at}", self.stem)
    }

    pub(super) fn pred(&mut self, pred: Pred) -> fmt::Result {
        if pred.negated {
            self.out.push('!');
        }
        self.reg(pred.reg)
    }

    fn dst(&mut self, dst: Dst) -> fmt::Result {
        match dst {
            Some(id) => self.reg(id),
            None => {
                self.out.push('_');
                Ok(())
            }
        }
    }

    fn symbol(&mut self, named: Symbol) -> fmt::Result {
        self.out.push_str(symbol(self.module, Some(self.function), named)?);
        Ok(())
    }

    fn operand(&mut self, operand: Operand, ty: Type) -> fmt::Result {
        match operand {
            Operand::Reg(id) => self.reg(id),
            Operand::Imm(bits) => write!(self.out, "{}", Literal { bits, ty }),
            Operand::Special(special) => write!(self.out, "{special}"),
            Operand::Symbol(named, offset) => {
                self.symbol(named)?;
                self.offset(offset)
            }
        }
    }

    fn offset(&mut self, offset: i64) -> fmt::Result {
        if offset == 0 { Ok(()) } else { write!(self.out, "+{offset}") }
    }

    fn list<T: Copy>(
        &mut self,
        list: &[T],
        braces: bool,
        mut each: impl FnMut(&mut Self, T) -> fmt::Result,
    ) -> fmt::Result {
        if braces {
            self.out.push('{');
        }
        for (i, &item) in list.iter().enumerate() {
            self.out.push_str(if i == 0 { "" } else { ", " });
            each(self, item)?;
        }
        if braces {
            self.out.push('}');
        }
        Ok(())
    }

    pub(super) fn arg(&mut self, arg: &Arg<'_>) -> fmt::Result {
        match *arg {
            Arg::Dst(d) => self.dst(d),
            Arg::Pair(d, None) => self.dst(d),
            Arg::Pair(d, p) => {
                self.dst(d)?;
                self.out.push('|');
                self.dst(p)
            }
            Arg::Op(operand, ty) => self.operand(operand, ty),
            Arg::Pred(pred) => self.pred(pred),
            Arg::Addr(Address { base, offset }) => {
                self.out.push('[');
                match base {
                    Base::Reg(id) => self.reg(id)?,
                    Base::Symbol(named) => self.symbol(named)?,
                    Base::Absolute => write!(self.out, "{}", offset.cast_unsigned())?,
                }
                if base != Base::Absolute {
                    self.offset(offset)?;
                }
                self.out.push(']');
                Ok(())
            }
            Arg::Dsts(list) => self.list(list, list.len() != 1, Self::dst),
            Arg::Ops(list, ty) => self.list(list, list.len() != 1, |p, o| p.operand(o, ty)),
            Arg::Group(list) => self.list(list, true, Self::dst),
            Arg::GroupOps(list, ty) => self.list(list, true, |p, o| p.operand(o, ty)),
            Arg::Number(n) => write!(self.out, "{n}"),
            Arg::Pieces(pieces) => self.pieces(pieces),
        }
    }

    fn pieces(&mut self, pieces: &[Piece]) -> fmt::Result {
        for (i, piece) in pieces.iter().enumerate() {
            let joined = matches!(piece, Piece::Text(text) if text.starts_with('.'));
            if i > 0 && !joined {
                self.out.push(' ');
            }
            match piece {
                Piece::Text(text) => self.out.push_str(text),
                Piece::Reg(id) | Piece::Src(id) | Piece::Dst(id) => self.reg(*id)?,
                Piece::Symbol(named) => self.symbol(*named)?,
            }
        }
        Ok(())
    }

    pub(super) fn actuals(&mut self, list: &[Operand]) -> fmt::Result {
        self.out.push('(');
        self.list(list, false, |p, o| p.operand(o, Type::B64))?;
        self.out.push(')');
        Ok(())
    }
}

/// A constant of a type.
pub(super) struct Literal {
    pub(super) bits: u64,
    pub(super) ty: Type,
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bits, ty } = *self;
        match ty {
            Type::F32 => write!(f, "0f{bits:08X}"),
            Type::F64 => write!(f, "0d{bits:016X}"),
            _ if ty.is_signed() && ty.bits() <= 64 => {
                let unused = 64 - ty.bits();
                write!(f, "{}", (bits << unused).cast_signed() >> unused)
            }
            _ => write!(f, "{bits}"),
        }
    }
}
