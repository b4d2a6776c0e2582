//! Instructions of textures and surfaces, which `ptx` keeps as text.

use ptx::ir::{AtomOp, Module, Op, Piece, RegId, Type};

use super::{Class, Decoder, Refusal};
use crate::arith::atomics;
use crate::exec::count::Counted;
use crate::exec::inst::{Inst, SLOT_NONE};
use crate::exec::ops::moves::{Narrow, Widen};
use crate::exec::tangent::Register;
use crate::exec::texture::{Access, Dims, Outside, Result as Results, Textures, What};

/// A piece of the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Register(RegId),
    Constant(u32),
    /// The sink `_`.
    Sink,
    /// A bracket, brace, comma or bar.
    Mark(char),
    /// Another word, or a symbol.
    Other,
}

/// A source: a register or a constant.
type Source = Token;

/// The operands: results or the stored values, the handle and the coordinates, and the rest.
#[derive(Debug, Default)]
struct Operands {
    before: Vec<Source>,
    object: Option<Source>,
    coordinates: Vec<Source>,
    after: Vec<Vec<Source>>,
}

/// Returns whether an opcode is one of textures or surfaces that is decoded here.
fn is_one(opcode: &str) -> bool {
    matches!(opcode.split('.').next(), Some("tex" | "tld4" | "suld" | "sust" | "sured" | "istypep"))
}

/// States which registers of the instructions are results.
pub(in crate::exec) fn state_results(module: &mut Module) {
    for function in &mut module.functions {
        for instr in function.body.iter_mut().flatten() {
            let Op::Other { opcode, operands } = &instr.op else { continue };
            if !is_one(opcode) {
                continue;
            }
            let stores = opcode.starts_with("sust") || opcode.starts_with("sured");
            let results = match stores {
                true => 0,
                false if opcode.starts_with("istypep") => 1,
                false => registers_before_bracket(operands),
            };
            instr.op.set_results(results);
        }
    }
}

fn registers_before_bracket(pieces: &[Piece]) -> usize {
    let before = pieces.iter().take_while(|piece| match piece {
        Piece::Text(text) => !text.contains('['),
        _ => true,
    });
    before.filter(|piece| matches!(piece, Piece::Reg(_) | Piece::Src(_) | Piece::Dst(_))).count()
}

/// Returns the bits of a constant of 32 bits.
fn constant(word: &str) -> Option<u32> {
    if let Some(digits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
        return (digits.len() == 8).then(|| u32::from_str_radix(digits, 16).ok()).flatten();
    }
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).ok();
    }
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    if digits.contains('.') {
        let value: f32 = word.parse().ok()?;
        return Some(value.to_bits());
    }
    let value: u32 = digits.parse().ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

fn tokens(pieces: &[Piece]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Reg(register) | Piece::Src(register) | Piece::Dst(register) => {
                tokens.push(Token::Register(*register));
            }
            Piece::Symbol(_) => tokens.push(Token::Other),
            Piece::Text(text) => {
                let mut rest = text.trim();
                while let Some(first) = rest.chars().next() {
                    let length = match first {
                        '{' | '}' | '[' | ']' | ',' | '|' | '(' | ')' => {
                            tokens.push(Token::Mark(first));
                            1
                        }
                        _ => {
                            let end = rest.find(['{', '}', '[', ']', ',', '|', '(', ')']);
                            let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
                            let plain: String = word.split_whitespace().collect();
                            tokens.push(match plain.as_str() {
                                "_" => Token::Sink,
                                word => constant(word).map_or(Token::Other, Token::Constant),
                            });
                            word.len()
                        }
                    };
                    rest = rest.get(length..).unwrap_or_default().trim_start();
                }
            }
        }
    }
    tokens
}

/// Takes a source, or several in braces.
fn sources(tokens: &mut &[Token]) -> Option<Vec<Source>> {
    let value = |token: &Token| !matches!(token, Token::Mark(_));
    match tokens {
        [Token::Mark('{'), rest @ ..] => {
            let end = rest.iter().position(|token| *token == Token::Mark('}'))?;
            let (inside, after) = rest.split_at(end);
            let mut list = Vec::new();
            for part in inside.split(|token| *token == Token::Mark(',')) {
                match part {
                    [one] if value(one) => list.push(*one),
                    _ => return None,
                }
            }
            *tokens = after.get(1..)?;
            Some(list)
        }
        [one, rest @ ..] if value(one) => {
            let one = *one;
            *tokens = rest;
            Some(vec![one])
        }
        _ => None,
    }
}

fn comma(tokens: &mut &[Token]) -> Option<()> {
    match tokens {
        [Token::Mark(','), rest @ ..] => {
            *tokens = rest;
            Some(())
        }
        _ => None,
    }
}

/// Takes the operands apart.
fn operands(pieces: &[Piece]) -> Option<Operands> {
    let all = tokens(pieces);
    let mut rest = all.as_slice();
    let mut operands = Operands::default();
    if rest.first() != Some(&Token::Mark('[')) {
        operands.before = sources(&mut rest)?;
        comma(&mut rest)?;
    }
    if let [Token::Mark('['), inside @ ..] = rest {
        rest = inside;
        let [object] = sources(&mut rest)?[..] else { return None };
        operands.object = Some(object);
        if comma(&mut rest).is_some() {
            operands.coordinates = sources(&mut rest)?;
        }
        let [Token::Mark(']'), after @ ..] = rest else { return None };
        rest = after;
    } else {
        let [object] = sources(&mut rest)?[..] else { return None };
        operands.object = Some(object);
    }
    while !rest.is_empty() {
        comma(&mut rest)?;
        operands.after.push(sources(&mut rest)?);
    }
    Some(operands)
}

fn dims(word: &str) -> Option<Dims> {
    let (layered, cube) = (word.starts_with('a'), word.ends_with("cube"));
    let coordinates = match word.strip_prefix('a').unwrap_or(word) {
        "1d" => 1,
        "2d" => 2,
        "3d" | "cube" => 3,
        _ => return None,
    };
    (!(layered && word == "a3d")).then_some(Dims { coordinates, layered, cube })
}

fn outside(word: &str) -> Option<Outside> {
    Some(match word {
        "trap" => Outside::Trap,
        "clamp" => Outside::Clamp,
        "zero" => Outside::Zero,
        _ => return None,
    })
}

impl Decoder<'_, '_> {
    /// Decodes an instruction of textures or surfaces. False if it is none.
    pub(super) fn texture(&mut self, op: &Op) -> Result<bool, Refusal> {
        let Op::Other { opcode, operands: pieces } = op else { return Ok(false) };
        if !is_one(opcode) {
            return Ok(false);
        }
        let refusal = || opcode.to_string();
        let operands = operands(pieces).ok_or_else(refusal)?;
        let words: Vec<&str> = opcode.split('.').collect();
        let access = match words[..] {
            ["tex", ref rest @ ..] => self.fetch(opcode, rest, operands),
            ["tld4", component, ref rest @ ..] => {
                let component = ["r", "g", "b", "a"].iter().position(|one| *one == component);
                let component = component.ok_or_else(refusal)? as u8;
                let access = self.fetch(opcode, rest, operands)?;
                let What::Fetch(result) = access.what else { return Err(refusal()) };
                if access.level.is_some() || access.gradient.is_some() {
                    return Err(refusal());
                }
                Ok(Access { what: What::Gather(component, result), ..access })
            }
            ["istypep", kind] => {
                let texture = match kind {
                    "texref" | "samplerref" => true,
                    "surfref" => false,
                    _ => return Err(refusal()),
                };
                let (Some(Token::Register(d)), Some(object)) =
                    (operands.before.first(), operands.object)
                else {
                    return Err(refusal());
                };
                let slot = self.pred_slot(*d)?;
                let mut access = self.access(opcode, What::Is(texture), object)?;
                access.values = vec![(slot, Class::Pred)];
                Ok(access)
            }
            [name, ref rest @ ..] => self.surface(opcode, name, rest, operands),
            [] => Err(refusal()),
        }?;
        self.code.textures.push(access);
        let imm = self.code.textures.len() as u64 - 1;
        let inst = self.inst(self.pick::<Textures>());
        self.emit(Inst { imm, ..inst });
        Ok(true)
    }

    /// Returns an access without operands but the handle.
    fn access(&mut self, opcode: &str, what: What, object: Source) -> Result<Access, Refusal> {
        let Token::Register(object) = object else {
            return Err(format!("{opcode} of a variable: pass a texture or surface object"));
        };
        let (slot, class) = self.reg(object)?;
        let object = match class {
            Class::Wide => slot,
            Class::Narrow => {
                let d = self.temp(Class::Wide);
                let inst = self.inst(self.vector::<Widen>());
                self.prepare(Inst { d, a: slot, ..inst });
                d
            }
            _ => return Err(format!("{opcode} of a handle of another type")),
        };
        Ok(Access {
            opcode: opcode.into(),
            what,
            dims: Dims { coordinates: 0, layered: false, cube: false },
            object,
            layer: SLOT_NONE,
            at: [SLOT_NONE; 3],
            integers: false,
            level: None,
            gradient: None,
            values: Vec::new(),
            counter: None,
            marked: Vec::new(),
        })
    }

    /// Returns the slot of a source of 32 bits.
    fn narrow(&mut self, source: Source) -> Result<u32, Refusal> {
        match source {
            Token::Constant(bits) => Ok(self.constant(Class::Narrow, bits.into())),
            Token::Register(register) => match self.reg(register)? {
                (slot, Class::Narrow) => Ok(slot),
                (slot, Class::Wide) => {
                    let d = self.temp(Class::Narrow);
                    let inst = self.inst(self.vector::<Narrow>());
                    self.prepare(Inst { d, a: slot, imm: u64::MAX, ..inst });
                    Ok(d)
                }
                _ => Err("a coordinate of another type".to_owned()),
            },
            _ => Err("a coordinate that is no register".to_owned()),
        }
    }

    /// Sets the layer and the coordinates.
    fn place_at(&mut self, access: &mut Access, dims: Dims, at: &[Source]) -> Result<(), Refusal> {
        access.dims = dims;
        let zero = self.constant(Class::Narrow, 0);
        (access.layer, access.at) = (zero, [zero; 3]);
        let mut at = at.iter();
        if dims.layered {
            let layer = at.next().ok_or("no layer")?;
            access.layer = self.narrow(*layer)?;
        }
        for axis in 0..dims.coordinates {
            let coordinate = at.next().ok_or("too few coordinates")?;
            access.at[axis] = self.narrow(*coordinate)?;
        }
        // Vectors of three have a fourth element, which means nothing.
        if at.len() > 1 { Err("too many coordinates".to_owned()) } else { Ok(()) }
    }

    /// `tex` and `tld4`: the words after the name.
    fn fetch(
        &mut self,
        opcode: &str,
        words: &[&str],
        operands: Operands,
    ) -> Result<Access, Refusal> {
        let refusal = || opcode.to_owned();
        let (how, rest) = match words {
            ["base", rest @ ..] => ("base", rest),
            ["level", rest @ ..] => ("level", rest),
            ["grad", rest @ ..] => ("grad", rest),
            rest => ("", rest),
        };
        let [geometry, vector, result, coordinate] = rest else { return Err(refusal()) };
        let dims = dims(geometry).ok_or_else(refusal)?;
        let result = match (*vector, *result) {
            ("v4", "u32" | "s32" | "f32") => Results::Words,
            ("v4", "f16") => Results::Halves,
            ("v2", "f16x2") => Results::Packed,
            _ => return Err(refusal()),
        };
        let integers = match *coordinate {
            "s32" => true,
            "f32" => false,
            _ => return Err(refusal()),
        };
        let object = operands.object.ok_or_else(refusal)?;
        let mut access = self.access(opcode, What::Fetch(result), object)?;
        access.integers = integers;
        self.place_at(&mut access, dims, &operands.coordinates)?;
        match (how, &operands.after[..]) {
            ("" | "base", []) => {}
            ("level", [level]) if level.len() == 1 => {
                let level = level.first().copied().ok_or_else(refusal)?;
                // The type of the level is that of the coordinates.
                if integers {
                    return Err(refusal());
                }
                access.level = Some(self.narrow(level)?);
            }
            ("grad", [dx, dy]) if !integers => {
                let zero = self.constant(Class::Narrow, 0);
                let mut both = [[zero; 3]; 2];
                for (slots, sources) in both.iter_mut().zip([dx, dy]) {
                    for (slot, source) in slots.iter_mut().zip(sources).take(dims.coordinates) {
                        *slot = self.narrow(*source)?;
                    }
                }
                access.gradient = Some(both);
            }
            _ => return Err(refusal()),
        }
        let count = if result == Results::Packed { 2 } else { 4 };
        if operands.before.len() != count {
            return Err(refusal());
        }
        for d in &operands.before {
            let (slot, class) = match d {
                Token::Sink => (SLOT_NONE, Class::Narrow),
                Token::Register(register) => self.reg(*register)?,
                _ => return Err(refusal()),
            };
            if !matches!(class, Class::Narrow | Class::Wide) {
                return Err(refusal());
            }
            access.values.push((slot, class));
        }
        if let Some(counted) = self.cx.counted.as_mut() {
            access.counter = Some(counted.len() as u64);
            counted.push(Counted { all: 0, approximate: vec!["tex"] });
        }
        if self.cx.taint {
            let sinks = |&&(slot, _): &&(u32, Class)| slot != SLOT_NONE;
            let values = access.values.iter().filter(sinks);
            access.marked = values.map(|&(slot, class)| Register { slot, class }).collect();
        }
        Ok(access)
    }

    /// `suld`, `sust` and `sured`: the words after the name.
    fn surface(
        &mut self,
        opcode: &str,
        name: &str,
        words: &[&str],
        operands: Operands,
    ) -> Result<Access, Refusal> {
        let refusal = || opcode.to_owned();
        let [form, words @ ..] = words else { return Err(refusal()) };
        let (operation, words) = match (name, words) {
            ("sured", [operation, words @ ..]) => (*operation, words),
            _ => ("", words),
        };
        // Cache operators are hints.
        let hints = ["ca", "cg", "cs", "cv", "wb", "wt"];
        let words: Vec<&str> = words.iter().copied().filter(|word| !hints.contains(word)).collect();
        let (geometry, vector, ty, clamp) = match words[..] {
            [geometry, ty, clamp] => (geometry, 1, ty, clamp),
            [geometry, "v2", ty, clamp] => (geometry, 2, ty, clamp),
            [geometry, "v4", ty, clamp] => (geometry, 4, ty, clamp),
            _ => return Err(refusal()),
        };
        let dims = dims(geometry).filter(|dims| !dims.cube).ok_or_else(refusal)?;
        let outside = outside(clamp).ok_or_else(refusal)?;
        let bytes = match ty {
            "b8" => 1,
            "b16" => 2,
            "b32" | "u32" | "s32" | "f32" => 4,
            "b64" | "u64" | "s64" => 8,
            _ => return Err(refusal()),
        };
        let what = match (name, *form) {
            ("suld", "b") if ty.starts_with('b') => What::Load(bytes, outside),
            ("sust", "b") if ty.starts_with('b') => What::Store(bytes, outside),
            ("sust", "p") if bytes == 4 => What::Pack(outside),
            ("sured", "b" | "p") => {
                let kind = Type::from_name(ty).ok_or_else(refusal)?;
                let operation = AtomOp::from_name(operation).ok_or_else(refusal)?;
                let fits = match (operation, kind) {
                    (AtomOp::Add, Type::U32 | Type::S32 | Type::U64) => true,
                    (AtomOp::Min | AtomOp::Max, Type::U32 | Type::S32 | Type::U64 | Type::S64) => {
                        true
                    }
                    (AtomOp::And | AtomOp::Or, Type::B32) => true,
                    _ => *form == "p" && kind == Type::B32,
                };
                // The type of the formatted one is the surface's, with or without signs.
                let kinds = match (operation, kind) {
                    (AtomOp::Add | AtomOp::Min | AtomOp::Max, Type::B32) => [Type::U32, Type::S32],
                    _ => [kind; 2],
                };
                let rmw = |kind| atomics::rmw(operation, kind, false).filter(|_| fits);
                let both = [rmw(kinds[0]).ok_or_else(refusal)?, rmw(kinds[1]).ok_or_else(refusal)?];
                What::Reduce(bytes, both, outside, *form == "p")
            }
            _ => return Err(refusal()),
        };
        let object = operands.object.ok_or_else(refusal)?;
        let mut access = self.access(opcode, what, object)?;
        self.place_at(&mut access, dims, &operands.coordinates)?;
        let class = if bytes == 8 { Class::Wide } else { Class::Narrow };
        let values = match (name, &operands.before[..], &operands.after[..]) {
            ("suld", before, []) => before,
            ("sust" | "sured", [], [after]) => after,
            _ => return Err(refusal()),
        };
        if values.len() != vector {
            return Err(refusal());
        }
        for value in values {
            let known = match value {
                Token::Sink if name == "suld" => (SLOT_NONE, class),
                Token::Register(register) => self.reg(*register)?,
                Token::Constant(_) if name != "suld" && class == Class::Narrow => {
                    (self.narrow(*value)?, class)
                }
                _ => return Err(refusal()),
            };
            // A narrow element may be in a wider register.
            if known.1 != class && (known.1, class) != (Class::Wide, Class::Narrow) {
                return Err(refusal());
            }
            access.values.push(known);
        }
        Ok(access)
    }
}
