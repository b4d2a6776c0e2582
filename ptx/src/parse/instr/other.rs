//! Instructions that are kept as they were written.

use super::super::cursor::Result;
use super::super::function::Body;
use super::super::scope::Binding;
use super::{Family, Words};
use crate::ir::{Op, Piece};
use crate::lex::Kind;

impl<'a> Body<'_, 'a> {
    /// Returns the whole instruction as text, registers and symbols apart. Its shape is checked only so far
    /// that brackets match.
    pub(super) fn other(&mut self, name: &str, mods: &[&str], place: usize) -> Result<Op> {
        // Without operands or modifiers it is more likely a mistake than an unknown instruction.
        if mods.is_empty() && self.cur.at(b';') {
            return Err(self.cur.error_at(place, format!("unknown instruction `{name}`")));
        }
        // Without its guard it would read as a label.
        if self.cur.at(b':') {
            return Err(self.cur.expected("an operand"));
        }
        let mut opcode = String::from(name);
        for word in mods {
            opcode.push('.');
            opcode.push_str(word);
        }
        Ok(Op::Other { opcode: opcode.into(), operands: self.pieces()? })
    }

    /// Everything up to the semicolon.
    pub(super) fn pieces(&mut self) -> Result<Box<[Piece]>> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut open: Vec<u8> = Vec::new();
        while !self.cur.at(b';') {
            match self.cur.kind() {
                Kind::End => return Err(self.cur.expected("`;`")),
                Kind::Punct(b @ (b'{' | b'[' | b'(')) => {
                    if open.len() == super::super::scope::DEPTH {
                        return Err(self.cur.error("brackets are nested too deeply"));
                    }
                    open.push(b);
                }
                Kind::Punct(b @ (b'}' | b']' | b')')) => {
                    let opened = match b {
                        b'}' => b'{',
                        b']' => b'[',
                        _ => b'(',
                    };
                    if open.pop() != Some(opened) {
                        return Err(self.cur.expected("`;`"));
                    }
                }
                Kind::Word if self.named_piece(&mut pieces, &mut text)? => continue,
                _ => {}
            }
            // A dotted word belongs to what stands before it: `%tid.x`.
            if !text.is_empty() && self.cur.kind() != Kind::Dotted {
                text.push(' ');
            }
            text.push_str(self.cur.text());
            self.cur.advance()?;
        }
        if !open.is_empty() {
            return Err(self.cur.expected("a closing bracket"));
        }
        flush(&mut pieces, &mut text);
        Ok(pieces.into())
    }

    /// Takes the next word as a register or symbol; false if it is neither.
    fn named_piece(&mut self, pieces: &mut Vec<Piece>, text: &mut String) -> Result<bool> {
        let (before, place) = (*self.cur, self.cur.offset());
        let name = self.cur.word("a name")?;
        if let Some(all) = self.whole_vector(name) {
            for (i, reg) in all.into_iter().enumerate() {
                text.push_str(if i == 0 { " {" } else { " ," });
                flush(pieces, text);
                pieces.push(Piece::Reg(reg));
            }
            text.push('}');
            return Ok(true);
        }
        let piece = match self.find(name) {
            Some(Binding::Reg(id)) => Piece::Reg(id),
            Some(Binding::Vector(..)) => {
                *self.cur = before;
                Piece::Reg(self.register()?)
            }
            _ => match self.symbol(name) {
                Some(symbol) => Piece::Symbol(symbol),
                // An undeclared register is an error everywhere.
                None if name.starts_with('%') && !self.is_special(name) => {
                    return Err(self.cur.error_at(place, format!("`{name}` is not declared")));
                }
                // The variable's block has ended: the printer declares it for the whole function.
                None if name != "_" && self.unique.is_variable(name) => {
                    return Err(self.cur.error_at(place, format!("`{name}` is not declared here")));
                }
                None => {
                    *self.cur = before;
                    return Ok(false);
                }
            },
        };
        flush(pieces, text);
        pieces.push(piece);
        Ok(true)
    }

    /// Returns whether `name`, just read, begins a special register.
    fn is_special(&self, name: &str) -> bool {
        use crate::ir::Special;
        Special::from_name(name).is_some() || Special::from_name(&format!("{name}.x")).is_some()
    }

    /// `createpolicy…`
    pub(super) fn create_policy(&mut self, w: &mut Words<'_, 'a>) -> Family {
        let opcode = format!("createpolicy.{}", w.list.join("."));
        let d = self.dst()?;
        // Without operands, the fraction is 1.
        let operands = if self.cur.at(b';') {
            Box::default()
        } else {
            self.comma()?;
            self.pieces()?
        };
        Ok(Some(Op::CreatePolicy { opcode: opcode.into(), d, operands }))
    }
}

fn flush(pieces: &mut Vec<Piece>, text: &mut String) {
    if !text.is_empty() {
        pieces.push(Piece::Text(std::mem::take(text).trim().into()));
    }
}
