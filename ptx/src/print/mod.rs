//! Prints a [`Module`] as text, which reads back as the same module.

mod machine;
mod op;
mod opcode;
mod operand;
mod variable;

use std::collections::HashSet;
use std::fmt::{self, Write};

use crate::ir::{
    Directives, Formal, Function, FunctionKind, Inlined, Instr, Item, Loc, LocId, Module,
    PrototypeKind, Type,
};

impl fmt::Display for Module {
    /// Writes PTX. Blocks, register names and comments of the text it was read from are gone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        writeln!(f, ".version {major}.{minor}")?;
        writeln!(f, ".target {}", self.targets.join(", "))?;
        writeln!(f, ".address_size {}\n", self.address_size)?;
        let stem = self.stem();
        for item in &self.items {
            self.item(f, item, &stem)?;
        }
        Ok(())
    }
}

/// Writes items of a module that was parsed: its numbers are in range, so nothing fails.
pub(crate) struct Items<'m> {
    module: &'m Module,
    stem: String,
}

impl<'m> Items<'m> {
    pub(crate) fn new(module: &'m Module) -> Self {
        Self { module, stem: module.stem() }
    }

    /// Returns the text of an item.
    pub(crate) fn text(&self, item: &Item) -> String {
        struct One<'m>(&'m Items<'m>, &'m Item);
        impl fmt::Display for One<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.module.item(f, self.1, &self.0.stem)
            }
        }
        let mut text = String::new();
        let _ = write!(text, "{}", One(self, item));
        text
    }
}

/// Returns how many bars follow `%` in a name, or `None` if it does not begin with `%`.
fn bars(name: &str) -> Option<usize> {
    let rest = name.strip_prefix('%')?;
    Some(rest.len() - rest.trim_start_matches('_').len())
}

impl Module {
    /// Calls `each` with every instruction of a function of the module, and its opcode with the modifiers as `Display`
    /// writes them: `ld.global.v4.f32`.
    pub fn for_each_opcode<'m>(
        &'m self,
        function: &'m Function,
        mut each: impl FnMut(&'m Instr, &str),
    ) {
        let (stem, out) = (String::new(), String::new());
        let mut printer = Printer { module: self, function, stem, opcodes: true, out };
        for instr in function.instrs() {
            printer.out.clear();
            // Only operands can fail, which a transformation may have left without a meaning.
            let _ = printer.op(&instr.op);
            each(instr, printer.out.split(' ').next().unwrap_or_default());
        }
    }

    /// Returns a prefix of no name of a function or a global.
    fn stem(&self) -> String {
        let globals = self.globals.iter().map(|v| &v.name);
        let functions = self.functions.iter().map(|f| &f.name);
        let most = globals.chain(functions).filter_map(|name| bars(name)).max();
        format!("%{}", "_".repeat(most.map_or(0, |most| most + 1)))
    }

    fn item(&self, f: &mut fmt::Formatter<'_>, item: &Item, stem: &str) -> fmt::Result {
        match item {
            Item::Global(id) => match self.globals.get(id.index()) {
                Some(var) => {
                    writeln!(f, "{};", variable::Declared { module: self, function: None, var })
                }
                None => Err(fmt::Error),
            },
            Item::Declaration(id) | Item::Function(id) => {
                let function = self.functions.get(id.index()).ok_or(fmt::Error)?;
                let mut printer = Printer::new(self, function, stem);
                printer.head()?;
                if matches!(item, Item::Function(_)) {
                    printer.body()?;
                } else {
                    printer.out.push_str(";\n");
                }
                writeln!(f, "{}", printer.out)
            }
            Item::File(at) => {
                let file = self.files.get(*at).ok_or(fmt::Error)?;
                write!(f, ".file {} \"{}\"", file.index, file.name)?;
                if let Some((time, size)) = file.stamp {
                    write!(f, ", {time}, {size}")?;
                }
                writeln!(f)
            }
            Item::Alias(at) => {
                let &(alias, target) = self.aliases.get(*at).ok_or(fmt::Error)?;
                let name = |id: crate::ir::FunctionId| {
                    self.functions.get(id.index()).map(|f| f.name.as_str()).ok_or(fmt::Error)
                };
                writeln!(f, ".alias {}, {};", name(alias)?, name(target)?)
            }
            Item::Pragma(text) => writeln!(f, ".pragma \"{text}\";"),
            Item::Section { name, text } => writeln!(f, ".section {name} {{{text}}}"),
        }
    }
}

/// Writes one function.
struct Printer<'m> {
    module: &'m Module,
    function: &'m Function,
    /// The prefix of all registers' names, and of no other name.
    stem: String,
    /// Whether operands are left out.
    opcodes: bool,
    out: String,
}

impl<'m> Printer<'m> {
    /// `stem` is that of the module's names, which the function's may only make longer.
    fn new(module: &'m Module, function: &'m Function, stem: &str) -> Self {
        let variables = function.variables.iter().map(|v| &v.name);
        let labels = function.labels.iter().map(|l| &l.name);
        let most = variables.chain(labels).filter_map(|name| bars(name)).max();
        let more = most.map_or(0, |most| (most + 2).saturating_sub(stem.len()));
        let stem = format!("{stem}{}", "_".repeat(more));
        Self { module, function, stem, opcodes: false, out: String::new() }
    }

    fn head(&mut self) -> fmt::Result {
        let function = self.function;
        let linkage = function.linkage.name();
        if !linkage.is_empty() {
            write!(self.out, "{linkage} ")?;
        }
        match function.kind {
            FunctionKind::Entry => self.out.push_str(".entry "),
            FunctionKind::Func => self.out.push_str(".func "),
        }
        if !function.returns.is_empty() {
            self.formals(&function.returns)?;
            self.out.push(' ');
        }
        self.out.push_str(&function.name);
        self.formals(&function.params)?;
        self.directives(&function.directives)?;
        if function.body.is_none() {
            self.pragmas()?;
        }
        Ok(())
    }

    /// Writes the pragmas of the head and the body. ptxas refuses them at a declaration that a definition follows, and
    /// at the head of a `.func`.
    fn pragmas(&mut self) -> fmt::Result {
        for pragma in &self.function.directives.pragmas {
            write!(self.out, "\n.pragma \"{pragma}\";")?;
        }
        Ok(())
    }

    fn formals(&mut self, formals: &[Formal]) -> fmt::Result {
        self.out.push('(');
        for (i, formal) in formals.iter().enumerate() {
            self.out.push_str(if i == 0 { "" } else { ", " });
            match *formal {
                Formal::Var(id) => {
                    let var = self.function.variables.get(id.index()).ok_or(fmt::Error)?;
                    let function = Some(self.function);
                    write!(
                        self.out,
                        "{}",
                        variable::Declared { module: self.module, function, var }
                    )?;
                }
                Formal::Reg(id) => {
                    let ty = self.function.registers.get(id.index()).ok_or(fmt::Error)?;
                    write!(self.out, ".reg .{ty} ")?;
                    self.reg(id)?;
                }
            }
        }
        self.out.push(')');
        Ok(())
    }

    fn directives(&mut self, d: &Directives) -> fmt::Result {
        let out = &mut self.out;
        let triples = [
            ("maxntid", d.maxntid),
            ("reqntid", d.reqntid),
            ("reqnctapercluster", d.reqnctapercluster),
        ];
        for (name, value) in triples {
            if let Some([x, y, z]) = value {
                write!(out, "\n.{name} {x}, {y}, {z}")?;
            }
        }
        let numbers = [
            ("minnctapersm", d.minnctapersm),
            ("maxnctapersm", d.maxnctapersm),
            ("maxnreg", d.maxnreg),
            ("maxclusterrank", d.maxclusterrank),
        ];
        for (name, value) in numbers {
            if let Some(n) = value {
                write!(out, "\n.{name} {n}")?;
            }
        }
        let flags = [
            ("explicitcluster", d.explicitcluster),
            ("blocksareclusters", d.blocksareclusters),
            ("noreturn", d.noreturn),
        ];
        for (name, _) in flags.iter().filter(|(_, set)| *set) {
            write!(out, "\n.{name}")?;
        }
        for other in &d.others {
            write!(out, "\n{other}")?;
        }
        Ok(())
    }

    fn body(&mut self) -> fmt::Result {
        let function = self.function;
        let entry = function.kind == FunctionKind::Entry;
        if entry {
            self.pragmas()?;
        }
        self.out.push_str("\n{");
        if !entry {
            self.pragmas()?;
        }
        self.out.push('\n');
        self.declarations()?;
        let mut by_place: Vec<_> = function.labels.iter().collect();
        // The sort is stable: labels of one place keep their order.
        by_place.sort_by_key(|label| label.at);
        let mut labels = by_place.into_iter().peekable();
        let mut loc = None;
        let mut places = HashSet::new();
        // Places that no instruction has, which are written once.
        let mut written = HashSet::new();
        let named: HashSet<_> = function.instrs().iter().filter_map(|instr| instr.loc).collect();
        for (at, instr) in function.instrs().iter().enumerate() {
            while let Some(label) = labels.next_if(|label| label.at as usize <= at) {
                writeln!(self.out, "{}:", label.name)?;
            }
            if let Some(id) = instr.loc.filter(|_| instr.loc != loc) {
                // The places that it is inlined into come first, if no instruction has them.
                let mut first = id.index();
                while let Some(around) = first.checked_sub(1)
                    && !written.contains(&around)
                    && !named.contains(&LocId(u32::try_from(around).unwrap_or(u32::MAX)))
                    && let (Some(outer), Some(inner)) =
                        (function.locs.get(around), function.locs.get(first))
                    && inner.is_inlined_at(outer)
                {
                    first = around;
                }
                let all = function.locs.get(first..=id.index()).ok_or(fmt::Error)?;
                for place in all {
                    self.loc(place, &mut places)?;
                }
                written.extend(first..id.index());
                loc = instr.loc;
            }
            self.instr(instr)?;
        }
        for label in labels {
            writeln!(self.out, "{}:", label.name)?;
        }
        self.out.push_str("}\n");
        Ok(())
    }

    /// Writes a place in the source. ptxas wants the place that it is inlined into among the `places` before it.
    fn loc(&mut self, loc: &Loc, places: &mut HashSet<(u32, u32, u32)>) -> fmt::Result {
        let Loc { file, line, column, inlined } = loc;
        if let Some(Inlined { function: _, file, line, column }) = inlined
            && places.insert((*file, *line, *column))
        {
            writeln!(self.out, "    .loc {file} {line} {column}")?;
        }
        places.insert((*file, *line, *column));
        write!(self.out, "    .loc {file} {line} {column}")?;
        if let Some(Inlined { function, file, line, column }) = inlined {
            write!(self.out, ", function_name {function}, inlined_at {file} {line} {column}")?;
        }
        self.out.push('\n');
        Ok(())
    }

    /// Everything that the parser must know before the first instruction.
    fn declarations(&mut self) -> fmt::Result {
        let function = self.function;
        let formals = function.returns.iter().chain(&function.params);
        let register = |formal: &Formal| match formal {
            Formal::Reg(register) => Some(register.0),
            Formal::Var(_) => None,
        };
        let formals: HashSet<u32> = formals.filter_map(register).collect();
        let mut by_type: Vec<(Type, Vec<u32>)> = Vec::new();
        for (id, &ty) in (0u32..).zip(&function.registers) {
            if formals.contains(&id) {
                continue;
            }
            match by_type.iter_mut().find(|(t, _)| *t == ty) {
                Some((_, ids)) => ids.push(id),
                None => by_type.push((ty, vec![id])),
            }
        }
        for (ty, ids) in by_type {
            write!(self.out, "    .reg .{ty} ")?;
            for (i, id) in ids.into_iter().enumerate() {
                self.out.push_str(if i == 0 { "" } else { ", " });
                self.reg(crate::ir::RegId(id))?;
            }
            self.out.push_str(";\n");
        }
        let formals = function.returns.iter().chain(&function.params);
        let formals = formals.filter(|f| matches!(f, Formal::Var(_))).count();
        for var in function.variables.iter().skip(formals) {
            let declared =
                variable::Declared { module: self.module, function: Some(function), var };
            writeln!(self.out, "    {declared};")?;
        }
        self.prototypes()?;
        for (at, table) in function.tables.iter().enumerate() {
            write!(self.out, "{}: .branchtargets ", self.table(at))?;
            for (i, &label) in table.iter().enumerate() {
                self.out.push_str(if i == 0 { "" } else { ", " });
                self.label(label)?;
            }
            self.out.push_str(";\n");
        }
        Ok(())
    }

    fn prototypes(&mut self) -> fmt::Result {
        let function = self.function;
        for prototype in &function.prototypes {
            write!(self.out, "{}: ", prototype.name)?;
            match &prototype.kind {
                PrototypeKind::Signature { returns, params, noreturn } => {
                    self.out.push_str(".callprototype ");
                    for (list, name) in [(returns, "_ "), (params, "")] {
                        self.out.push('(');
                        for (i, var) in list.iter().enumerate() {
                            self.out.push_str(if i == 0 { "" } else { ", " });
                            let declared =
                                variable::Declared { module: self.module, function: None, var };
                            write!(self.out, "{declared}")?;
                        }
                        write!(self.out, ") {name}")?;
                    }
                    self.out.push_str(if *noreturn { ".noreturn;\n" } else { ";\n" });
                }
                PrototypeKind::Targets(targets) => {
                    self.out.push_str(".calltargets ");
                    for (i, target) in targets.iter().enumerate() {
                        self.out.push_str(if i == 0 { "" } else { ", " });
                        let callee = self.module.functions.get(target.index());
                        self.out.push_str(&callee.ok_or(fmt::Error)?.name);
                    }
                    self.out.push_str(";\n");
                }
            }
        }
        Ok(())
    }
}
