//! Functions: head, directives and the statements of the body.

use super::cursor::{Cursor, Result};
use super::scope::{Scope, UniqueNames};
use super::variable::{declarator, head, parenthesized};
use super::{Names, Parser, index, init, pragma};
use crate::ir::{
    Directives, Formal, Function, FunctionId, FunctionKind, Inlined, Instr, Item, LabelId, Linkage,
    Loc, LocId, Op, Prototype, PrototypeId, PrototypeKind, Space, Symbol, TableId, Variable,
    declares,
};
use crate::lex::Kind;

/// A function while it is read.
pub(super) struct Body<'p, 'a> {
    pub(super) cur: &'p mut Cursor<'a>,
    pub(super) names: &'p Names<'a>,
    pub(super) f: Function,
    pub(super) instrs: Vec<Instr>,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) unique: UniqueNames<'a>,
    /// The meaning of each reference to a label.
    pub(super) slots: Vec<LabelId>,
    /// Edges from tables of labels. If many branches shared a table, the number of edges could be the square of the
    /// text's length; compilers emit one table for each branch.
    pub(super) edges: usize,
    /// The modifiers of the instruction being read; kept for its memory.
    pub(super) mods: Vec<&'a str>,
    /// The place that the next instruction has, when it is a new one.
    next_loc: Option<Loc>,
    loc: Option<LocId>,
}

impl<'a> Parser<'a> {
    /// Reads what follows `.entry` or `.func`.
    pub(super) fn function(
        &mut self,
        kind: FunctionKind,
        linkage: Linkage,
        line: u32,
    ) -> Result<()> {
        let f = Function {
            name: String::new(),
            linkage,
            kind,
            returns: Vec::new(),
            params: Vec::new(),
            registers: Vec::new(),
            variables: Vec::new(),
            labels: Vec::new(),
            tables: Vec::new(),
            prototypes: Vec::new(),
            locs: Vec::new(),
            directives: Directives::default(),
            body: None,
            line,
        };
        let mut body = Body {
            cur: &mut self.cur,
            names: &self.names,
            f,
            instrs: Vec::new(),
            scopes: vec![Scope::default()],
            unique: UniqueNames::default(),
            slots: Vec::new(),
            edges: 0,
            mods: Vec::new(),
            next_loc: None,
            loc: None,
        };
        while body.cur.eat_dotted("attribute")? {
            body.attribute()?;
        }
        if body.cur.at(b'(') {
            body.f.returns = body.formals()?;
        }
        let place = body.cur.offset();
        let name = body.cur.word("the function's name")?;
        name.clone_into(&mut body.f.name);
        if body.cur.at(b'(') {
            body.f.params = body.formals()?;
        }
        body.directives()?;
        let defines = body.cur.at(b'{');
        if !defines {
            body.cur.require(b';')?;
        }
        let Body { mut f, scopes, unique, .. } = body;
        // The name is known inside the body: recursion.
        let known = match self.names.get(name) {
            None => None,
            Some(&Symbol::Function(id)) => Some(id),
            Some(_) => return Err(self.cur.error_at(place, format!("`{name}` is a variable"))),
        };
        if let Some(id) = known {
            let old = &self.module.functions[id.index()];
            if defines && old.body.is_some() {
                return Err(self.cur.error_at(place, format!("`{name}` is defined twice")));
            }
        }
        let id = known.unwrap_or(FunctionId(index(self.module.functions.len())));
        self.names.insert(name, Symbol::Function(id));
        if defines {
            let body = Body {
                cur: &mut self.cur,
                names: &self.names,
                f,
                instrs: Vec::new(),
                scopes,
                unique,
                slots: Vec::new(),
                edges: 0,
                mods: Vec::with_capacity(16),
                next_loc: None,
                loc: None,
            };
            f = body.statements()?;
        }
        self.module.items.push(if defines { Item::Function(id) } else { Item::Declaration(id) });
        match known {
            None => self.module.functions.push(f),
            Some(_) if defines => self.module.functions[id.index()] = f,
            // A second declaration adds nothing.
            Some(_) => {}
        }
        Ok(())
    }
}

impl<'a> Body<'_, 'a> {
    /// `(.param .b64 a, .reg .u32 b)`
    fn formals(&mut self) -> Result<Vec<Formal>> {
        self.cur.require(b'(')?;
        let mut formals = Vec::new();
        if self.cur.eat(b')')? {
            return Ok(formals);
        }
        loop {
            let place = self.cur.offset();
            let space = self.cur.dotted("`.param` or `.reg`")?;
            if space == "reg" {
                let head = head(self.cur, Space::Param, Linkage::Internal)?;
                let name = self.cur.word("a name")?;
                self.declare_register(name, None, head.ty, 1, place)?;
                if let Some(super::scope::Binding::Reg(id)) = self.find(name) {
                    formals.push(Formal::Reg(id));
                }
            } else if space == "param" {
                let (name, var) = parameter(self.cur)?;
                formals.push(Formal::Var(self.declare_variable(name, var, place)?));
            } else {
                return Err(self.cur.error_at(place, "a parameter lies in `.param` or `.reg`"));
            }
            if !self.cur.comma_or(b')')? {
                return Ok(formals);
            }
        }
    }

    fn attribute(&mut self) -> Result<()> {
        let text = parenthesized(self.cur)?;
        self.f.directives.others.push(format!(".attribute({text})"));
        Ok(())
    }

    /// The directives between the head and the body.
    fn directives(&mut self) -> Result<()> {
        while let Some(word) = self.cur.peek_dotted() {
            let place = self.cur.offset();
            self.cur.advance()?;
            let cur = &mut *self.cur;
            let d = &mut self.f.directives;
            match word {
                "maxntid" => d.maxntid = Some(triple(cur)?),
                "reqntid" => d.reqntid = Some(triple(cur)?),
                "reqnctapercluster" => d.reqnctapercluster = Some(triple(cur)?),
                "minnctapersm" => d.minnctapersm = Some(cur.unsigned("a number of blocks")?),
                "maxnctapersm" => d.maxnctapersm = Some(cur.unsigned("a number of blocks")?),
                "maxnreg" => d.maxnreg = Some(cur.unsigned("a number of registers")?),
                "maxclusterrank" => d.maxclusterrank = Some(cur.unsigned("a number of blocks")?),
                "explicitcluster" => d.explicitcluster = true,
                "blocksareclusters" => d.blocksareclusters = true,
                "noreturn" => d.noreturn = true,
                "pragma" => d.pragmas.append(&mut pragma(cur)?),
                "attribute" => self.attribute()?,
                "abi_preserve" | "abi_preserve_control" => {
                    let n: u32 = cur.unsigned("a number of registers")?;
                    d.others.push(format!(".{word} {n}"));
                }
                _ => return Err(cur.error_at(place, format!("unknown directive `.{word}`"))),
            }
        }
        Ok(())
    }

    /// Reads the body, up to and with its last brace.
    fn statements(mut self) -> Result<Function> {
        self.cur.require(b'{')?;
        loop {
            match self.cur.kind() {
                Kind::Punct(b'{') => {
                    self.cur.advance()?;
                    self.open()?;
                }
                Kind::Punct(b'}') => {
                    self.close()?;
                    self.cur.advance()?;
                    if self.scopes.is_empty() {
                        return Ok(self.finish());
                    }
                }
                Kind::Punct(b';') => self.cur.advance()?,
                Kind::Punct(b'@') => self.instruction()?,
                Kind::Dotted => self.directive()?,
                Kind::Word => {
                    // A label and an opcode begin alike.
                    let (place, line) = (self.cur.offset(), self.cur.line());
                    let word = self.cur.word("an instruction")?;
                    if self.cur.eat(b':')? {
                        self.label(word, place)?;
                    } else {
                        self.opcode(word, None, place, line)?;
                    }
                }
                _ => return Err(self.cur.expected("an instruction, a declaration or `}`")),
            }
        }
    }

    /// Puts the labels' numbers where references stand.
    fn finish(mut self) -> Function {
        for instr in &mut self.instrs {
            if let Op::Bra { target, .. } = &mut instr.op {
                *target = self.slots[target.index()];
            }
        }
        for label in self.f.tables.iter_mut().flatten() {
            *label = self.slots[label.index()];
        }
        self.instrs.shrink_to_fit();
        self.f.body = Some(self.instrs);
        self.f
    }

    /// Parses the rest after `name:`.
    fn label(&mut self, name: &'a str, place: usize) -> Result<()> {
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
                "param" | "reg" => types.push(parameter(self.cur)?.1),
                _ => return Err(self.cur.error_at(place, "expected `.param` or `.reg`")),
            }
            if !self.cur.comma_or(b')')? {
                return Ok(types);
            }
        }
    }

    /// A statement that begins with a dot.
    fn directive(&mut self) -> Result<()> {
        let place = self.cur.offset();
        let word = self.cur.dotted("a directive")?;
        match word {
            "reg" => self.registers(),
            "loc" => {
                let next = source_place(self.cur)?;
                // Compilers write the places that an instruction is inlined into before its own. They stay in the table.
                if let Some(around) = self.next_loc.replace(next)
                    && self.next_loc.as_ref().is_some_and(|next| next.is_inlined_at(&around))
                {
                    self.f.locs.push(around);
                }
                Ok(())
            }
            "pragma" => {
                let mut texts = pragma(self.cur)?;
                self.f.directives.pragmas.append(&mut texts);
                Ok(())
            }
            "maxnreg" | "maxntid" | "minnctapersm" => {
                Err(self.cur.error_at(place, format!("`.{word}` stands before the body")))
            }
            "extern" => {
                let place = self.cur.offset();
                match declares(self.cur.dotted("a state space")?) {
                    Some(Space::Shared) => self.variables(Space::Shared, Linkage::Extern),
                    _ => Err(self.cur.error_at(place, "only `.shared` can be extern here")),
                }
            }
            _ => match declares(word) {
                Some(space) => self.variables(space, Linkage::Internal),
                None => Err(self.cur.error_at(place, format!("unknown directive `.{word}`"))),
            },
        }
    }

    fn registers(&mut self) -> Result<()> {
        let head = head(self.cur, Space::Param, Linkage::Internal)?;
        loop {
            let place = self.cur.offset();
            let name = self.cur.word("a register's name")?;
            let count = if self.cur.eat(b'<')? {
                let count = self.cur.unsigned("a number of registers")?;
                self.cur.require(b'>')?;
                Some(count)
            } else {
                None
            };
            self.declare_register(name, count, head.ty, head.vector, place)?;
            if !self.cur.comma_or(b';')? {
                return Ok(());
            }
        }
    }

    fn variables(&mut self, space: Space, linkage: Linkage) -> Result<()> {
        let head = head(self.cur, space, linkage)?;
        loop {
            let place = self.cur.offset();
            let (name, mut var) = declarator(self.cur, &head)?;
            let names = self.names;
            init::initializer(self.cur, &mut var, &mut |name| names.get(name).copied())?;
            self.declare_variable(name, var, place)?;
            if !self.cur.comma_or(b';')? {
                return Ok(());
            }
        }
    }

    /// `@%p bra …;`
    fn instruction(&mut self) -> Result<()> {
        self.cur.require(b'@')?;
        let guard = Some(self.pred()?);
        let (place, line) = (self.cur.offset(), self.cur.line());
        let word = self.cur.word("an instruction")?;
        self.opcode(word, guard, place, line)
    }

    pub(super) fn emit(&mut self, guard: Option<crate::ir::Pred>, op: Op, line: u32) {
        if let Some(loc) = self.next_loc.take() {
            self.loc = Some(LocId(index(self.f.locs.len())));
            self.f.locs.push(loc);
        }
        self.instrs.push(Instr { guard, op, line, loc: self.loc });
    }
}

/// Parses a formal parameter after its `.param`.
fn parameter<'a>(cur: &mut Cursor<'a>) -> Result<(&'a str, Variable)> {
    let head = head(cur, Space::Param, Linkage::Internal)?;
    declarator(cur, &head)
}

/// One to three sizes; those not given are 1.
fn triple(cur: &mut Cursor<'_>) -> Result<[u32; 3]> {
    let mut sizes = [1; 3];
    for size in &mut sizes {
        *size = cur.unsigned("a size")?;
        if !cur.eat(b',')? {
            break;
        }
    }
    Ok(sizes)
}

/// `1 20 3, function_name $L__info_string0+4, inlined_at 1 9 1`
fn source_place(cur: &mut Cursor<'_>) -> Result<Loc> {
    let (file, line, column) = file_line_column(cur)?;
    let mut function = None;
    let mut call = None;
    while cur.eat(b',')? {
        match cur.word("`function_name` or `inlined_at`")? {
            "function_name" => {
                let start = cur.offset();
                cur.word("a label")?;
                if cur.eat(b'+')? {
                    cur.number("an offset")?;
                }
                function = Some(cur.slice(start, cur.offset()).trim_end());
            }
            "inlined_at" => call = Some(file_line_column(cur)?),
            _ => return Err(cur.error("only `function_name` and `inlined_at` belong here")),
        }
    }
    let inlined = match (function, call) {
        (Some(function), Some((file, line, column))) => {
            Some(Inlined { function: function.replace(' ', ""), file, line, column })
        }
        (None, None) => None,
        _ => return Err(cur.error("`function_name` and `inlined_at` go together")),
    };
    Ok(Loc { file, line, column, inlined })
}

fn file_line_column(cur: &mut Cursor<'_>) -> Result<(u32, u32, u32)> {
    Ok((
        cur.unsigned("a file's number")?,
        cur.unsigned("a line")?,
        if cur.kind() == Kind::Number { cur.unsigned("a column")? } else { 0 },
    ))
}
