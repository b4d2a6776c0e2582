//! Parses a text to a [`Module`]: the directives outside of functions.

mod call;
mod constant;
mod cursor;
mod function;
mod init;
mod instr;
mod operands;
mod rewrite;
mod scope;
mod variable;

use std::collections::HashMap;

use crate::Error;
use crate::ir::{
    File, FunctionId, FunctionKind, GlobalId, Item, Linkage, Module, MulPart, Space, Symbol, Type,
    declares,
};
use crate::lex::Kind;
use cursor::{Cursor, Number, Result};
use scope::Scope;

/// Reads a PTX text.
///
/// Memory and time are in proportion to the text. A well-formed instruction that this crate does not know becomes
/// [`Op::Other`](crate::ir::Op::Other).
///
/// # Errors
/// The first place that is not PTX: a word out of place, a name that is not declared, a number that
/// does not fit.
pub fn parse(text: &str) -> std::result::Result<Module, Error> {
    Ok(Parser::read(text, None)?.module)
}

/// Reads a PTX text as [`parse`] does, and returns also each opcode with its modifiers as the text spells it, and the
/// line where it is first, in the order of the lines.
///
/// A [`Module`] does not tell spellings of the same instruction apart, but versions of PTX do: `barrier.sync.aligned`
/// is newer than `bar.sync`.
///
/// # Errors
/// As [`parse`].
#[expect(clippy::type_complexity, reason = "an alias would say less in the documentation")]
pub fn parse_with_opcodes(text: &str) -> std::result::Result<(Module, Vec<(&str, u32)>), Error> {
    let parser = Parser::read(text, Some(HashMap::new()))?;
    let mut opcodes: Vec<_> = parser.opcodes.into_iter().flatten().collect();
    opcodes.sort_unstable_by_key(|&(opcode, line)| (line, opcode));
    Ok((parser.module, opcodes))
}

/// The meaning of the module's names.
type Names<'a> = HashMap<&'a str, Symbol>;

struct Parser<'a> {
    cur: Cursor<'a>,
    module: Module,
    names: Names<'a>,
    /// Registers that are declared outside of functions.
    registers: Scope<'a>,
    /// The opcodes as the text spells them and their first lines, where the caller wants them.
    opcodes: Option<HashMap<&'a str, u32>>,
    /// Part of the names of variables that are declared in functions and live as long as the module.
    mark: String,
}

/// Returns `$in` and the least number that does not follow it anywhere in the text.
fn mark(text: &str) -> String {
    let digits = text.split("$in").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<usize>()
    });
    let taken: std::collections::HashSet<usize> = digits.flatten().collect();
    let free = (0..=taken.len()).find(|n| !taken.contains(n)).unwrap_or_default();
    format!("$in{free}$")
}

impl<'a> Parser<'a> {
    fn read(text: &'a str, opcodes: Option<HashMap<&'a str, u32>>) -> Result<Self> {
        // NVRTC's text ends in a NUL that callers may have kept.
        let mut parser = Self {
            cur: Cursor::new(text.trim_end_matches('\0'))?,
            module: Module { address_size: 64, ..Module::default() },
            names: HashMap::new(),
            registers: Scope::default(),
            opcodes,
            mark: mark(text),
        };
        parser.run()?;
        Ok(parser)
    }

    fn run(&mut self) -> Result<()> {
        self.header()?;
        while self.cur.kind() != Kind::End {
            // ptxas allows stray semicolons, as hand-written texts have them.
            if !self.cur.eat(b';')? {
                self.item()?;
            }
        }
        Ok(())
    }

    /// `.version` and `.target`, which every text begins with.
    fn header(&mut self) -> Result<()> {
        if !self.cur.eat_dotted("version")? {
            return Err(self.cur.expected("`.version`"));
        }
        let version = self
            .cur
            .text()
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let Some(version) = version else { return Err(self.cur.expected("a version, as 8.0")) };
        self.module.version = version;
        self.cur.advance()?;
        if !self.cur.eat_dotted("target")? {
            return Err(self.cur.expected("`.target`"));
        }
        loop {
            let target = self.cur.word("a target")?;
            self.module.targets.push(target.to_owned());
            if !self.cur.eat(b',')? {
                return Ok(());
            }
        }
    }

    fn item(&mut self) -> Result<()> {
        let start = self.cur.offset();
        let line = self.cur.line();
        let word = self.cur.dotted("a directive")?;
        match word {
            "address_size" => {
                self.module.address_size = self.cur.unsigned("an address size")?;
                if !matches!(self.module.address_size, 32 | 64) {
                    return Err(self.cur.error_at(start, "the address size is 32 or 64"));
                }
            }
            "file" => self.file()?,
            "section" => self.section()?,
            "alias" => self.alias()?,
            "pragma" => {
                for text in pragma(&mut self.cur)? {
                    self.module.items.push(Item::Pragma(text));
                }
            }
            "reg" => self.registers()?,
            "entry" => self.function(FunctionKind::Entry, Linkage::Internal, line)?,
            "func" => self.function(FunctionKind::Func, Linkage::Internal, line)?,
            "visible" => self.linked(Linkage::Visible, line)?,
            "extern" => self.linked(Linkage::Extern, line)?,
            "weak" => self.linked(Linkage::Weak, line)?,
            "common" => self.linked(Linkage::Common, line)?,
            _ => match declares(word) {
                Some(space) => self.variables(start, space, Linkage::Internal)?,
                None => {
                    return Err(self.cur.error_at(start, format!("unknown directive `.{word}`")));
                }
            },
        }
        Ok(())
    }

    /// Parses the rest after `.visible`, `.extern`…
    fn linked(&mut self, linkage: Linkage, line: u32) -> Result<()> {
        let start = self.cur.offset();
        match self.cur.dotted("`.entry`, `.func` or a state space")? {
            "entry" => self.function(FunctionKind::Entry, linkage, line),
            "func" => self.function(FunctionKind::Func, linkage, line),
            word => match declares(word) {
                Some(space) => self.variables(start, space, linkage),
                None => Err(self.cur.error_at(start, format!("`.{word}` cannot be linked"))),
            },
        }
    }

    /// `.reg .u32 a, b<4>;` outside of functions.
    ///
    /// The manual and ptxas refuse them, and `.local` variables there, since ISA 3.0; driver 580 takes them in each
    /// version.
    fn registers(&mut self) -> Result<()> {
        let head = variable::head(&mut self.cur, Space::Param, Linkage::Internal)?;
        loop {
            let place = self.cur.offset();
            let (name, count) = function::register_names(&mut self.cur)?;
            if !self.registers.declare(name, count, head.ty, head.vector) {
                return Err(self.cur.error_at(place, format!("`{name}` is declared twice")));
            }
            if !self.cur.comma_or(b';')? {
                return Ok(());
            }
        }
    }

    /// Parses the rest after the state space; `start` is the place of the directive.
    fn variables(&mut self, start: usize, space: Space, linkage: Linkage) -> Result<()> {
        match space {
            Space::Param => {
                return Err(self.cur.error_at(start, "`.param` outside of functions"));
            }
            space if linkage == Linkage::Common && space != Space::Global => {
                return Err(self.cur.error_at(start, "a `.common` variable lies in `.global`"));
            }
            _ => {}
        }
        let head = variable::head(&mut self.cur, space, linkage)?;
        loop {
            let place = self.cur.offset();
            let (name, mut var) = variable::declarator(&mut self.cur, &head)?;
            let known = match self.names.get(name) {
                None => None,
                Some(&Symbol::Global(id)) => {
                    let old = &self.module.globals[id.index()];
                    if old.linkage != Linkage::Extern && linkage != Linkage::Extern {
                        return Err(self
                            .cur
                            .error_at(place, format!("`{name}` is declared twice")));
                    }
                    Some(id)
                }
                Some(_) => {
                    return Err(self.cur.error_at(place, format!("`{name}` is a function")));
                }
            };
            let id = known.unwrap_or(GlobalId(index(self.module.globals.len())));
            self.names.insert(name, Symbol::Global(id));
            let names = &self.names;
            init::initializer(&mut self.cur, &mut var, &mut |name| names.get(name).copied())?;
            match known {
                None => {
                    self.module.globals.push(var);
                    self.module.items.push(Item::Global(id));
                }
                // A definition replaces the declaration before it; a declaration after it adds nothing.
                Some(_) if linkage != Linkage::Extern => self.module.globals[id.index()] = var,
                Some(_) => {}
            }
            if !self.cur.comma_or(b';')? {
                return Ok(());
            }
        }
    }

    fn file(&mut self) -> Result<()> {
        let index = self.cur.unsigned("a file's number")?;
        let name = self.cur.string()?.to_owned();
        let stamp = if self.cur.eat(b',')? {
            let time = self.cur.unsigned("a time")?;
            self.cur.require(b',')?;
            Some((time, self.cur.unsigned("a size")?))
        } else {
            None
        };
        self.module.items.push(Item::File(self.module.files.len()));
        self.module.files.push(File { index, name, stamp });
        Ok(())
    }

    fn section(&mut self) -> Result<()> {
        let mut name = String::new();
        while let Some(part) = self.cur.peek_dotted() {
            name.push('.');
            name.push_str(part);
            self.cur.advance()?;
        }
        if name.is_empty() {
            return Err(self.cur.expected("a section's name"));
        }
        let text = self.cur.raw_block()?.to_owned();
        self.module.items.push(Item::Section { name, text });
        Ok(())
    }

    fn alias(&mut self) -> Result<()> {
        let alias = self.function_name()?;
        self.cur.require(b',')?;
        let target = self.function_name()?;
        self.cur.require(b';')?;
        self.module.items.push(Item::Alias(self.module.aliases.len()));
        self.module.aliases.push((alias, target));
        Ok(())
    }

    fn function_name(&mut self) -> Result<FunctionId> {
        let place = self.cur.offset();
        let name = self.cur.word("a function")?;
        match self.names.get(name) {
            Some(&Symbol::Function(id)) => Ok(id),
            _ => Err(self.cur.error_at(place, format!("`{name}` is not a declared function"))),
        }
    }
}

/// `"text", "text";`
fn pragma(cur: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    loop {
        texts.push(cur.string()?.to_owned());
        if !cur.comma_or(b';')? {
            return Ok(texts);
        }
    }
}

/// Returns a table's length as the next id. A text has fewer bytes than u32 counts: each entry needs some.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Returns the bits of a number in the type `ty`; `None` if it has no such value.
fn bits(number: Number, ty: Type) -> Option<u64> {
    let width = ty.bits().min(64);
    let mask = u64::MAX >> (64 - width);
    match (number, ty) {
        (Number::Int(n), Type::F32) => Some(u64::from((n.cast_signed() as f32).to_bits())),
        (Number::Int(n), Type::F64) => Some((n.cast_signed() as f64).to_bits()),
        (Number::Int(n), Type::Pred) => Some(u64::from(n != 0)),
        (Number::Int(n), _) => Some(n & mask),
        (Number::Float32(bits), Type::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
        (Number::Float32(bits), _) => (width >= 32).then_some(u64::from(bits)),
        (Number::Float(x), Type::F32) => Some(u64::from((x as f32).to_bits())),
        (Number::Float(x), _) => (width == 64).then_some(x.to_bits()),
    }
}

/// Returns the type of the addend of a product.
pub(crate) fn widened(ty: Type, part: Option<MulPart>) -> Type {
    match (part, ty) {
        (Some(MulPart::Wide), Type::U16) => Type::U32,
        (Some(MulPart::Wide), Type::S16) => Type::S32,
        (Some(MulPart::Wide), Type::U32) => Type::U64,
        (Some(MulPart::Wide), Type::S32) => Type::S64,
        _ => ty,
    }
}

/// Returns the contents of a register of a matrix fragment: packed elements, or one f64.
pub(crate) fn fragment(ty: Type) -> Type {
    if ty == Type::F64 { Type::F64 } else { Type::B32 }
}
