//! Branches, calls and the end of threads.

use super::super::function::Body;
use super::super::scope::Binding;
use super::{Family, Words, finish, need};
use crate::ir::{Op, Type};

impl<'a> Body<'_, 'a> {
    pub(super) fn control(&mut self, name: &str, w: &mut Words<'_, 'a>) -> Family {
        let indexed = name == "brx" && w.flag("idx");
        let uni = matches!(name, "bra" | "brx" | "call" | "ret") && w.flag("uni");
        let mask = name == "pmevent" && w.flag("mask");
        if name == "nanosleep" {
            need!(w.ty().filter(|&t| t == Type::U32));
        }
        finish!(w);
        Ok(Some(match name {
            "bra" => {
                let place = self.cur.offset();
                let label = self.cur.word("a label")?;
                Op::Bra { uni, target: self.refer(label, place)? }
            }
            "brx" if indexed => self.brx(uni)?,
            "call" => self.call(uni)?,
            "ret" => Op::Ret { uni },
            "exit" => Op::Exit,
            "trap" => Op::Trap,
            "brkpt" => Op::Brkpt,
            "pmevent" => Op::Pmevent { mask, a: self.operand(Type::U32)? },
            "nanosleep" => Op::Nanosleep { a: self.operand(Type::U32)? },
            _ => return Ok(None),
        }))
    }

    fn brx(&mut self, uni: bool) -> super::super::cursor::Result<Op> {
        let index = self.operand(Type::U32)?;
        self.comma()?;
        let place = self.cur.offset();
        let name = self.cur.word("a table of labels")?;
        match self.find(name) {
            Some(Binding::Table(table)) => {
                self.edges += self.f.tables[table.index()].len();
                if self.edges > self.cur.len() {
                    return Err(self.cur.error_at(place, "large tables are used too often"));
                }
                Ok(Op::BrxIdx { uni, index, table })
            }
            _ => Err(self
                .cur
                .error_at(place, format!("`{name}` is not a table of `.branchtargets`"))),
        }
    }

    pub(super) fn grid_dependency(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let wait = w.flag("wait");
        if !wait && !w.flag("launch_dependents") {
            return Ok(None);
        }
        finish!(w);
        Ok(Some(Op::GridDependency { wait }))
    }
}
