//! Generates kernels over blocks: phases, splits, functions of warps and blocks, loops, branches and functions at block
//! level.
//!
//! Each program ends, has no race, and has no failing check but a planted one: `site` names it, `at_block` its block, and
//! `at` its position.
//!
//! A kernel is one program, or a set of statements that plans order: `plan` has the numbers of the statements in the order
//! in which they run, as often as it says, and an argument for each, which decides loops, branches and splits. A plan is a
//! program, too: barriers have to be right for each order. Compilers take much longer for a kernel than the rest for a plan.

mod functions;
mod phases;
mod plans;
mod statements;
mod values;

use std::fmt::Write as _;

use crate::random::Random;
use functions::Helper;
use plans::Plan;

pub(crate) use plans::programs;

/// A type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ty {
    I32,
    U32,
    F32,
    U8,
    U64,
    Usize,
    Bool,
}

/// The types of elements.
const ELEMENTS: [Ty; 5] = [Ty::U32, Ty::I32, Ty::F32, Ty::U64, Ty::U8];

impl Ty {
    fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::F32 => "f32",
            Self::U8 => "u8",
            Self::U64 => "u64",
            Self::Usize => "usize",
            Self::Bool => "bool",
        }
    }
}

/// What memory of a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array(usize),
    Matrix(usize, usize),
    /// A part of memory, possibly without elements.
    Part(bool),
    /// A reference to a row of a matrix.
    Row(usize),
    Tile(usize, usize),
    WarpElements,
    WarpRows,
}

/// Who may use memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// References into it live: it is only read.
    Frozen,
    /// Another handle has it.
    Gone,
}

#[derive(Debug, Clone)]
struct Memory {
    name: String,
    /// How a phase is given it.
    target: String,
    ty: Ty,
    kind: Kind,
    state: State,
}

impl Memory {
    fn new(name: impl Into<String>, ty: Ty, kind: Kind) -> Self {
        let name = name.into();
        Self { target: format!("&mut {name}"), name, ty, kind, state: State::Free }
    }

    fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Array(_) | Kind::Matrix(..))
    }

    fn is_read(&self) -> bool {
        self.state != State::Gone
            && matches!(
                self.kind,
                Kind::Array(_) | Kind::Matrix(..) | Kind::Part(false) | Kind::Row(_)
            )
    }

    fn is_line(&self) -> bool {
        matches!(self.kind, Kind::Array(_) | Kind::Part(_))
    }

    /// The type of a reference to it, as a parameter.
    fn parameter(&self) -> String {
        let ty = self.ty.name();
        match self.kind {
            Kind::Array(n) => format!("Shared<[{ty}; {n}]>"),
            Kind::Matrix(r, c) => format!("Shared<[[{ty}; {c}]; {r}]>"),
            _ => format!("Part<'_, {ty}>"),
        }
    }
}

/// A value of each thread.
#[derive(Debug, Clone)]
struct Own {
    name: String,
    ty: Ty,
}

/// A variable of block level, or what a closure of a phase has.
#[derive(Debug, Clone)]
struct Local {
    text: String,
    ty: Ty,
    assignable: bool,
}

/// A part of an output.
struct Output {
    ty: Ty,
    len: usize,
}

/// A program that is being written.
pub(crate) struct Program {
    random: Random,
    name: String,
    /// The dimensions of a block.
    size: (usize, usize),
    memory: Vec<Memory>,
    own: Vec<Own>,
    locals: Vec<Local>,
    /// Closures of block level, which take an index.
    closures: Vec<(String, Ty)>,
    helpers: Vec<Helper>,
    /// Loops around the statement, with their labels.
    loops: Vec<String>,
    /// The number of branches around the statement.
    branches: usize,
    /// Whether the function returns a value, so that it may do so early.
    returns: bool,
    /// Whether it is generic over the size of the block.
    generic: bool,
    /// Names of the index of a thread, with their factors in the position.
    index: Vec<(String, usize)>,
    count: usize,
    sites: usize,
    /// The checks that are planted in the program, or in the function that is being written.
    planted: Vec<usize>,
    budget: usize,
    /// The number of plans, if it has any.
    plans: u64,
}

impl Program {
    fn new(mut random: Random, name: String) -> Self {
        let size = *random.pick(&[&(32, 0), &(96, 0), &(256, 0), &(16, 16), &(64, 0), &(20, 0)]);
        Self {
            random,
            name,
            size,
            memory: Vec::new(),
            own: Vec::new(),
            locals: Vec::new(),
            closures: Vec::new(),
            helpers: Vec::new(),
            loops: Vec::new(),
            branches: 0,
            returns: false,
            generic: false,
            index: Vec::new(),
            count: 0,
            sites: 0,
            planted: Vec::new(),
            budget: 0,
            plans: 0,
        }
    }

    fn threads(&self) -> usize {
        self.size.0 * self.size.1.max(1)
    }

    /// The generic arguments of a block.
    fn block(&self) -> String {
        match self.size {
            (n, 0) => format!("<{n}>"),
            (n, m) => format!("<{n}, {m}>"),
        }
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count)
    }

    fn element(&mut self) -> Ty {
        ELEMENTS[self.random.below(ELEMENTS.len())]
    }

    fn local(&mut self, text: impl Into<String>, ty: Ty, assignable: bool) {
        self.locals.push(Local { text: text.into(), ty, assignable });
    }

    /// Numbers a check that is planted.
    fn site(&mut self) -> usize {
        self.sites += 1;
        self.planted.push(self.sites);
        self.sites
    }

    /// Returns a kernel and the function that runs it, and its programs.
    fn kernel(&mut self) -> (String, Vec<Plan>) {
        let (threads, warps) = (self.threads(), self.threads() / 32);
        let blocks = 2 + self.random.below(2);
        let (mut params, mut parts, mut names) = (String::new(), Vec::new(), Vec::new());
        let mut outputs = Vec::new();
        let count = self.random.below(4);
        for at in 0..count.max(1) {
            let (ty, name) = (self.element(), format!("p{at}"));
            let t = ty.name();
            let rest = |random: &mut Random, n: usize| (blocks - 1) * n + 1 + random.below(n);
            let choice = self.random.below(if threads.is_multiple_of(32) { 8 } else { 5 });
            let (part, kind, len) = match choice {
                _ if count == 0 => break,
                0 => (format!("o{at}"), None, blocks),
                1 | 2 => {
                    let size = *self.random.pick(&[&threads, &50, &77, &(threads + 13)]);
                    let len = rest(&mut self.random, size);
                    (format!("chunks(o{at}, {size})"), Some(Kind::Part(false)), len)
                }
                3 | 4 => {
                    let (h, w) = *self.random.pick(&[&(8, 8), &(16, 16), &(5, 32), &(1, 40)]);
                    let (rows, columns) = match self.random.below(2) {
                        0 => (1 + self.random.below(h), rest(&mut self.random, w)),
                        _ => (rest(&mut self.random, h), 1 + self.random.below(w)),
                    };
                    let part = format!("tiles::<{h}, {w}, _>(o{at}, [{rows}, {columns}])");
                    (part, Some(Kind::Tile(h, w)), rows * columns)
                }
                5 => {
                    let len = rest(&mut self.random, warps);
                    (format!("warps(o{at}, {warps})"), Some(Kind::WarpElements), len)
                }
                _ => {
                    let columns = *self.random.pick(&[&1, &7, &32, &40, &70]);
                    let len = rest(&mut self.random, warps) * columns;
                    (format!("warps(rows(o{at}, {columns}), {warps})"), Some(Kind::WarpRows), len)
                }
            };
            let _ = write!(params, ", o{at}: &mut [{t}]");
            parts.push(part);
            match kind {
                Some(kind) => {
                    names.push(format!("mut {name}"));
                    self.memory.push(Memory::new(name, ty, kind));
                }
                None => names.push(name),
            }
            outputs.push(Output { ty, len });
        }
        let (parts, names) = match &parts[..] {
            [] => (format!("grid({blocks})"), "_".to_owned()),
            [part] => (part.clone(), names[0].clone()),
            _ => (format!("({})", parts.join(", ")), format!("({})", names.join(", "))),
        };
        let slots: Vec<(String, Ty)> = (0..outputs.len())
            .map(|at| (format!("p{at}"), outputs[at].ty))
            .filter(|(name, _)| self.memory.iter().all(|memory| memory.name != *name))
            .collect();
        let (first, mut lets) = self.declarations();
        let helpers: String = (0..self.random.below(3)).map(|_| self.helper()).collect();
        for (name, ty) in [("bi", Ty::Usize), ("bc", Ty::Usize), ("hit", Ty::U32)] {
            self.local(name, ty, false);
        }
        let (mut plans, mut body) = (Vec::new(), first + "let mut mixed = 1u32;\n");
        if self.plans == 0 {
            body.push_str(&self.program(&mut lets));
            plans.push(Plan { plan: Vec::new(), sites: std::mem::take(&mut self.planted) });
        }
        body.extend(lets);
        for memory in &mut self.memory {
            memory.state = State::Free;
        }
        if self.plans > 0 {
            body.push_str(&self.planned(&mut plans));
        }
        body.push_str(&self.finish(&slots));
        let (name, dims) = (&self.name, self.block().replace('<', "::<"));
        let mut text = format!(
            "{helpers}#[kernel]\nfn {name}(plan: &[u32], site: u32, at_block: usize, at: usize, x: &[i32], y: &[u32], f: &[f32]{params}, \
             bins: &Atomic<[u32]>) {{\nblocks(Threads{dims}, {parts}, |block, {names}| {{\nlet bi = block.index();\n\
             let bc = block.count();\nlet hit = if bi == at_block {{ site }} else {{ 0 }};\n{body}}});\n}}\n"
        );
        let outs: String = outputs
            .iter()
            .enumerate()
            .map(|(at, out)| format!(", o{at}: {} = {}", out.ty.name(), out.len))
            .collect();
        let _ = write!(
            text,
            "fn run_{name}(bench: &Bench, planted: Planted<'_>, orders: &[u64]) -> Ended {{\n\
             run!({name}, bench, planted, orders{outs})\n}}\n"
        );
        (text, plans)
    }

    /// Mixes the variables of block level from one on into the result, so that none is left out by the compiler.
    pub(super) fn mixed(&self, from: usize) -> String {
        let values = self.locals[from..].iter().filter(|local| local.ty != Ty::Bool);
        let sum = values.fold("mixed".to_owned(), |sum, local| {
            format!("({sum}).rotate_left(3) ^ {}", Self::bits(&local.ty, &local.text, "u32"))
        });
        if sum == "mixed" { String::new() } else { format!("mixed = {sum};\n") }
    }

    /// Declares shared arrays and values of threads. Returns the arrays that are declared later, which are gone until then.
    fn declarations(&mut self) -> (String, Vec<String>) {
        let mut lets = Vec::new();
        for at in 0..2 + self.random.below(3) {
            let mut ty = self.element();
            // Few items for each thread: NVRTC unrolls the loop over them.
            let threads = self.threads();
            let mut kind = match self.random.below(3) {
                0 => {
                    let rows = threads.div_ceil(9);
                    let (r, c) =
                        *self.random.pick(&[&(4, 9), &(rows, 9), &(rows / 2 + 1, 17), &(7, 3)]);
                    Kind::Matrix(r, c)
                }
                _ => Kind::Array(*self.random.pick(&[
                    &threads,
                    &(threads + 7),
                    &(threads / 2 + 1),
                    &(2 * threads + 3),
                    &40,
                ])),
            };
            // Arrays of one type can be swapped.
            if at > 0
                && self.random.once_in(2)
                && let Some(last) = self.memory.iter().rfind(|memory| memory.is_shared())
            {
                (ty, kind) = (last.ty, last.kind);
            }
            let name = format!("t{at}");
            let value = self.literal(ty);
            let array = match kind {
                Kind::Matrix(r, c) => format!("[[{value}; {c}]; {r}]"),
                Kind::Array(n) => format!("[{value}; {n}]"),
                _ => continue,
            };
            lets.push(format!("let mut {name} = block.shared({array});\n"));
            let mut memory = Memory::new(name, ty, kind);
            memory.state = State::Gone;
            self.memory.push(memory);
        }
        let later = lets.split_off(lets.len() - self.random.below(2));
        let mut text: String = lets.concat();
        self.reveal(&text);
        for at in 0..2 + self.random.below(3) {
            let ty = match self.random.below(6) {
                0 => Ty::Bool,
                _ => self.element(),
            };
            let (name, value) = (format!("v{at}"), self.literal(ty));
            let _ = writeln!(text, "let mut {name} = block.per_thread({value});");
            self.own.push(Own { name, ty });
        }
        (text, later)
    }

    /// Makes the array that a text declares usable.
    fn reveal(&mut self, text: &str) {
        for memory in &mut self.memory {
            if text.contains(&format!("let mut {} = block.shared", memory.name)) {
                memory.state = State::Free;
            }
        }
    }

    /// Mixes all memory into the outputs.
    fn finish(&mut self, slots: &[(String, Ty)]) -> String {
        let mut text = String::new();
        let outputs: Vec<Memory> =
            self.memory.iter().filter(|memory| memory.name.starts_with('p')).cloned().collect();
        for own in self.own.clone() {
            // Values of threads go to an array that a phase reads.
            let Some(at) = self.memory.iter().position(|memory| {
                memory.is_shared() && matches!(memory.kind, Kind::Array(_)) && memory.ty != Ty::F32
            }) else {
                continue;
            };
            let (name, ty) = (self.memory[at].name.clone(), self.memory[at].ty.name());
            let _ = writeln!(
                text,
                "block.each((&mut {name}, &mut {}), |_, (a, b)| *a ^= {});",
                own.name,
                Self::bits(&own.ty, "*b", ty)
            );
        }
        let read: Vec<(String, String)> = self
            .memory
            .iter()
            .filter(|memory| memory.is_shared())
            .map(|memory| match memory.kind {
                Kind::Matrix(r, c) => {
                    let value = format!("{}[k % {r}][k / {r} % {c}]", memory.name);
                    (value.clone(), Self::bits(&memory.ty, &value, "u32"))
                }
                Kind::Array(n) => {
                    let value = format!("{}[k % {n}]", memory.name);
                    (value.clone(), Self::bits(&memory.ty, &value, "u32"))
                }
                _ => (String::new(), "0".to_owned()),
            })
            .collect();
        let mixed = read
            .iter()
            .fold("0u32".to_owned(), |sum, (_, bits)| format!("({sum}).rotate_left(5) ^ {bits}"));
        let _ = writeln!(
            text,
            "block.run(320, |k| {{\nbins.fetch_xor(k % 64, ({mixed} ^ mixed).wrapping_mul(2 * k as u32 + 1));\n}});"
        );
        for out in outputs {
            let ty = out.ty.name();
            let mixed = Self::as_type(&mixed, out.ty);
            let (index, k) = match out.kind {
                Kind::Tile(..) => ("[i, j]", "let k = i * 37 + j;"),
                _ => ("i", "let k = i;"),
            };
            let body = match out.kind {
                Kind::WarpRows => {
                    format!("for q in 0..o.len() {{ let k = o.column(q) + i; o[q] = {mixed}; }}")
                }
                _ if out.ty == Ty::F32 => format!("{k} *o = *o * 0.5 + {mixed};"),
                _ => format!("{k} *o = (*o).rotate_left(3) ^ ({mixed} as {ty});"),
            };
            let item = if out.kind == Kind::WarpRows { "mut o" } else { "o" };
            let _ = writeln!(text, "block.each({}, |{index}, {item}| {{ {body} }});", out.target);
        }
        for (name, ty) in slots {
            let _ = writeln!(text, "{name}.set({});", Self::as_type("mixed", *ty));
        }
        text
    }

    fn bits(ty: &Ty, value: &str, to: &str) -> String {
        match ty {
            Ty::F32 => format!("(({value}).to_bits() as {to})"),
            _ => format!("(({value}) as {to})"),
        }
    }

    fn as_type(value: &str, ty: Ty) -> String {
        format!("(({value}) as {})", ty.name())
    }
}
