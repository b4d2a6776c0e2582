//! Functions: head, directives and the statements of the body.

use std::collections::HashMap;

use super::cursor::{Cursor, Result};
use super::rewrite::renumber;
use super::scope::{Binding, Scope, UniqueNames};
use super::variable::{declarator, head, parenthesized};
use super::{Names, Parser, index, init, pragma};
use crate::ir::{
    Directives, Formal, Function, FunctionId, FunctionKind, GlobalId, Inlined, Instr, Item,
    LabelId, Linkage, Loc, LocId, Op, Pred, RegId, Space, Symbol, Variable, declares,
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
    /// The guard and the line of the instruction being read.
    pub(super) guard: Option<Pred>,
    pub(super) line: u32,
    /// Predicates that hold a constant: false, true.
    pub(super) constants: [Option<RegId>; 2],
    /// Whether instructions were put ahead of others.
    pub(super) rewritten: bool,
    /// The registers of the module, and those of them that the function uses.
    pub(super) shared: &'p Scope<'a>,
    pub(super) outer: Scope<'a>,
    /// The opcodes as the text spells them and their first lines, where the caller wants them.
    pub(super) opcodes: Option<&'p mut HashMap<&'a str, u32>>,
    /// The functions of the module so far.
    pub(super) functions: &'p [Function],
    /// The variables of the module so far, and those that the function adds to them.
    pub(super) globals: &'p [Variable],
    pub(super) hoisted: Vec<Variable>,
    /// Part of the names of variables that functions add to the module's; nothing in the text has it in its name.
    mark: &'p str,
    pub(super) address_size: u8,
    /// The place that the next instruction has, when it is a new one.
    next_loc: Option<Loc>,
    loc: Option<LocId>,
    /// The bytes that the next instruction uses, if it is a load.
    used: Option<u32>,
}

impl<'a> Parser<'a> {
    fn body(
        &mut self,
        f: Function,
        scopes: Vec<Scope<'a>>,
        unique: UniqueNames<'a>,
    ) -> Body<'_, 'a> {
        Body {
            cur: &mut self.cur,
            names: &self.names,
            f,
            instrs: Vec::new(),
            scopes,
            unique,
            slots: Vec::new(),
            edges: 0,
            mods: Vec::new(),
            guard: None,
            line: 0,
            constants: [None; 2],
            rewritten: false,
            shared: &self.registers,
            opcodes: self.opcodes.as_mut(),
            outer: Scope::default(),
            functions: &self.module.functions,
            globals: &self.module.globals,
            hoisted: Vec::new(),
            mark: &self.mark,
            address_size: self.module.address_size,
            next_loc: None,
            loc: None,
            used: None,
        }
    }

    /// Reads the function after `.entry` or `.func`.
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
        let mut body = self.body(f, vec![Scope::default()], UniqueNames::default());
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
        // nvopencc wrote declarations without a semicolon; ptxas accepts them.
        if !defines && !body.cur.eat(b';')? && !matches!(body.cur.kind(), Kind::Dotted | Kind::End)
        {
            return Err(body.cur.expected("`;`"));
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
            let mut body = self.body(f, scopes, unique);
            body.mods.reserve(16);
            let (function, hoisted, registers) = body.statements()?;
            f = function;
            for var in hoisted {
                self.module.items.push(Item::Global(GlobalId(index(self.module.globals.len()))));
                self.module.globals.push(var);
            }
            // Each function has separate copies, unlike on a GPU as soon as one of them is called.
            if registers && kind == FunctionKind::Func {
                let message = "a function that is called shares registers of the module with its callers, which is \
                               not supported: declare them in the function";
                return Err(self.cur.error_at(place, message));
            }
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
                self.declare_register(name, None, head.ty, head.vector, place)?;
                // A vector is several registers.
                match self.find(name) {
                    Some(Binding::Reg(id)) => formals.push(Formal::Reg(id)),
                    _ => {
                        let all = self.whole_vector(name).into_iter().flatten();
                        formals.extend(all.map(Formal::Reg));
                    }
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
            // A declaration without a semicolon has ended.
            if ends_declaration(word) {
                return Ok(());
            }
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
    fn statements(mut self) -> Result<(Function, Vec<Variable>, bool)> {
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
    fn finish(mut self) -> (Function, Vec<Variable>, bool) {
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
        if self.rewritten {
            renumber(&mut self.f);
        }
        (self.f, self.hoisted, self.outer.is_used())
    }

    /// A statement that begins with a dot.
    fn directive(&mut self) -> Result<()> {
        let place = self.cur.offset();
        let word = self.cur.dotted("a directive")?;
        match word {
            "reg" => self.registers(),
            "loc" => {
                let next = source_place(self.cur)?;
                // Compilers write the places that an instruction is inlined into before its own. They stay in the
                // table.
                if let Some(around) = self.next_loc.replace(next)
                    && self.next_loc.as_ref().is_some_and(|next| next.is_inlined_at(&around))
                {
                    self.f.locs.push(around);
                }
                Ok(())
            }
            "pragma" => {
                for text in pragma(self.cur)? {
                    match text.strip_prefix("used_bytes_mask ") {
                        // It says something of the next instruction alone.
                        Some(mask) => self.used = number(mask.trim()),
                        None => self.f.directives.pragmas.push(text),
                    }
                }
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
            let (name, count) = register_names(self.cur)?;
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
            let (names, scopes) = (self.names, &self.scopes);
            init::initializer(self.cur, &mut var, &mut |name| {
                let inner = scopes.iter().rev().find_map(|scope| scope.global(name));
                inner.map(Symbol::Global).or_else(|| names.get(name).copied())
            })?;
            if matches!(space, Space::Global | Space::Const) {
                // A variable of a function lives as long as the module, under a unique name.
                let id = GlobalId(index(self.globals.len() + self.hoisted.len()));
                var.name = format!("{name}{}{}", self.mark, id.0);
                self.hoisted.push(var);
                self.bind(name, Binding::Global(id), place)?;
            } else {
                self.declare_variable(name, var, place)?;
            }
            if !self.cur.comma_or(b';')? {
                return Ok(());
            }
        }
    }

    /// `@%p bra …;`
    fn instruction(&mut self) -> Result<()> {
        self.cur.require(b'@')?;
        let negated = self.cur.eat(b'!')?;
        let guard = Some(self.guard(negated)?);
        let (place, line) = (self.cur.offset(), self.cur.line());
        let word = self.cur.word("an instruction")?;
        self.opcode(word, guard, place, line)
    }

    pub(super) fn emit(&mut self, guard: Option<Pred>, mut op: Op, line: u32) {
        if let (Some(used), Op::Ld { access, .. }) = (self.used.take(), &mut op) {
            access.used = Some(used);
        }
        if let Some(loc) = self.next_loc.take() {
            self.loc = Some(LocId(index(self.f.locs.len())));
            self.f.locs.push(loc);
        }
        self.instrs.push(Instr { guard, op, line, loc: self.loc });
    }
}

/// Returns the number that a text is, in decimal or in hexadecimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns whether the directive `word` is one of modules, so that the declaration of a function before it has ended.
fn ends_declaration(word: &str) -> bool {
    let others = ["reg", "entry", "func", "visible", "extern", "weak", "common", "alias"];
    declares(word).is_some() || others.contains(&word) || matches!(word, "file" | "section")
}

/// `a` or `a<4>`: a register's name, and how many there are of it.
pub(super) fn register_names<'a>(cur: &mut Cursor<'a>) -> Result<(&'a str, Option<u32>)> {
    let name = cur.word("a register's name")?;
    if !cur.eat(b'<')? {
        return Ok((name, None));
    }
    let count = cur.unsigned("a number of registers")?;
    cur.require(b'>')?;
    Ok((name, Some(count)))
}

/// Parses a formal parameter after its `.param`.
pub(super) fn parameter<'a>(cur: &mut Cursor<'a>) -> Result<(&'a str, Variable)> {
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
