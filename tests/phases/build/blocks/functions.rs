//! Functions with phases, and calls of them.

use std::fmt::Write as _;

use super::{Content, Kind, Memory, Own, Program, State, Ty};

/// A function with phases.
#[derive(Debug, Clone)]
pub(super) struct Helper {
    pub(super) name: String,
    memory: Vec<Memory>,
    own: Vec<Own>,
    /// Whether it takes a closure.
    closure: bool,
    /// Whether it is generic over the size of the block.
    generic: bool,
    /// That of what it calls, too.
    content: Content,
}

impl Program {
    /// Writes a function with phases, and remembers it.
    pub(super) fn helper(&mut self) -> String {
        let name = format!("{}_h{}", self.name, self.helpers.len());
        let (memory, own) = (std::mem::take(&mut self.memory), std::mem::take(&mut self.own));
        let locals = std::mem::take(&mut self.locals);
        let mut params = String::new();
        let generic = self.size.1 == 0 && self.random.once_in(2);
        let block = if generic { "<N>".to_owned() } else { self.block() };
        let mut helper = Helper {
            name: name.clone(),
            memory: vec![],
            own: vec![],
            closure: false,
            generic,
            content: Content::default(),
        };
        let content = std::mem::take(&mut self.content);
        for at in 0..1 + self.random.below(2) {
            let fits = |m: &&Memory| m.is_shared() || matches!(m.kind, Kind::Part(_));
            let known: Vec<&Memory> = memory.iter().filter(fits).collect();
            if known.is_empty() {
                break;
            }
            let known = known[self.random.below(known.len())];
            let mut made = Memory::new(format!("m{at}"), known.ty, known.kind);
            let _ = write!(params, ", {}: &mut {}", made.name, known.parameter());
            made.target = format!("&mut *{}", made.name);
            helper.memory.push(known.clone());
            self.memory.push(made);
        }
        if self.random.once_in(2) && !own.is_empty() {
            let known = &own[self.random.below(own.len())];
            let args = match self.size {
                _ if generic => "N".to_owned(),
                (n, 0) => n.to_string(),
                (n, m) => format!("{n}, {m}"),
            };
            let _ = write!(params, ", w: &mut PerThread<{}, {args}>", known.of());
            helper.own.push(known.clone());
            self.own.push(Own { name: "*w".to_owned(), ..known.clone() });
        }
        helper.closure = self.random.once_in(3);
        if helper.closure {
            params.push_str(", g: impl Fn(usize) -> u32 + Sync");
            self.closures.push(("g".to_owned(), Ty::U32));
        }
        self.local("a0", Ty::U32, false);
        self.local("hit", Ty::U32, false);
        (self.returns, self.generic) = (true, generic);
        self.budget = 5;
        let body: String = (0..2 + self.random.below(3)).map(|_| self.statement(1)).collect();
        let mixed = self.mixed(0);
        let value = self.value(Ty::U32, 2);
        (self.returns, self.generic) = (false, false);
        helper.content = std::mem::replace(&mut self.content, content);
        (self.memory, self.own, self.locals) = (memory, own, locals);
        self.closures.clear();
        self.helpers.push(helper);
        let generics = if generic { "<const N: usize>" } else { "" };
        format!(
            "#[device]\nfn {name}{generics}(block: &mut Block{block}, hit: u32, at: usize, a0: u32, x: &[i32], y: &[u32], \
             f: &[f32]{params}) -> u32 {{\nlet bi = block.index();\nlet mut mixed = a0;\n{body}{mixed}mixed ^ {value}\n}}\n"
        )
    }

    /// A call of a function with phases.
    pub(super) fn call(&mut self) -> Option<String> {
        let at = self.random.below(self.helpers.len().max(1));
        let helper = self.helpers.get(at)?.clone();
        if self.generic && !helper.generic {
            return None;
        }
        let (mut taken, mut args) = (Vec::new(), String::new());
        for wanted in &helper.memory {
            let fits = |m: &Memory| m.ty == wanted.ty && m.kind == wanted.kind;
            let known = self.free(fits);
            let at = *known.iter().find(|at| !taken.contains(*at))?;
            taken.push(at);
            let _ = write!(args, ", {}", self.memory[at].target);
        }
        let mut owned: Vec<String> = Vec::new();
        for wanted in &helper.own {
            let fits = |own: &&Own| own.of() == wanted.of() && !owned.contains(&own.name);
            let own = self.own.iter().find(fits)?;
            let _ = write!(args, ", &mut {}", own.name);
            owned.push(own.name.clone());
        }
        let (name, value) = (self.fresh("n"), self.value(Ty::U32, 1));
        let argument = self.fresh("n");
        if helper.closure {
            let index = std::mem::replace(&mut self.index, vec![("k".to_owned(), 1)]);
            let value = self.held(&taken, State::Gone, |s| s.value(Ty::U32, 2));
            self.index = index;
            let _ = write!(args, ", |k| {value}");
        }
        self.content.extend(&helper.content);
        self.local(name.clone(), Ty::U32, false);
        let mut text = format!(
            "let {argument} = {value};\nlet {name} = {}(block, hit, at, {argument}, x, y, f{args});\n",
            helper.name
        );
        // What it has written is read.
        if let Some(at) = taken.into_iter().find(|at| self.memory[*at].is_read())
            && self.random.below(2) == 0
        {
            let (element, name) = (self.element_of(at, 1), self.fresh("n"));
            let _ = writeln!(text, "let {name} = {element} as u32;");
            self.local(name, Ty::U32, false);
        }
        Some(text)
    }
}
