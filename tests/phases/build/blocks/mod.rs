//! Generates kernels over blocks: phases, splits, functions of warps and blocks, loops, branches and functions at block
//! level.
//!
//! Each program ends, has no race, and has no failing check but a planted one: `site` names it, `at_block` its block, and
//! `at` its position.
//!
//! A kernel is one program, or a set of statements that plans order: `plan` has the numbers of the statements in the order
//! in which they run, as often as it says, and an argument for each, which decides loops, branches and splits. A plan is a
//! program, too: barriers have to be right for each order. Compilers take much longer for a kernel than the rest for a plan.

mod declarations;
mod functions;
mod phases;
mod plans;
mod statements;
mod values;

use std::collections::BTreeSet;
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
    /// A shared array whose length this expression computes at the launch.
    Sized(&'static str),
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
        matches!(self.kind, Kind::Array(_) | Kind::Matrix(..) | Kind::Sized(_))
    }

    fn is_read(&self) -> bool {
        self.state != State::Gone
            && matches!(
                self.kind,
                Kind::Array(_)
                    | Kind::Matrix(..)
                    | Kind::Sized(_)
                    | Kind::Part(false)
                    | Kind::Row(_)
            )
    }

    fn is_line(&self) -> bool {
        matches!(self.kind, Kind::Array(_) | Kind::Sized(_) | Kind::Part(_))
    }

    /// The type of a reference to it, as a parameter.
    fn parameter(&self) -> String {
        let ty = self.ty.name();
        match self.kind {
            Kind::Array(n) => format!("Shared<[{ty}; {n}]>"),
            Kind::Matrix(r, c) => format!("Shared<[[{ty}; {c}]; {r}]>"),
            Kind::Sized(_) => format!("Shared<Vec<{ty}>>"),
            _ => format!("Part<'_, {ty}>"),
        }
    }
}

/// A value of each thread.
#[derive(Debug, Clone)]
struct Own {
    name: String,
    ty: Ty,
    /// Of an array the number of elements, else 0.
    len: usize,
}

impl Own {
    /// The type of the value.
    fn of(&self) -> String {
        match self.len {
            0 => self.ty.name().to_owned(),
            n => format!("[{}; {n}]", self.ty.name()),
        }
    }
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

/// What must be in at least a tenth of the programs, whatever the seed.
const CONSTRUCTS: [&str; 6] = [
    "patches of parts",
    "patches of tiles",
    "shared_slice",
    "loads of arrays of threads",
    "warps with rows",
    "carry",
];

/// What a piece of a program has.
#[derive(Debug, Clone, Default)]
struct Content {
    /// The checks that are planted.
    sites: Vec<usize>,
    constructs: BTreeSet<&'static str>,
}

impl Content {
    fn extend(&mut self, other: &Self) {
        self.sites.extend(&other.sites);
        self.constructs.extend(&other.constructs);
    }
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
    /// That of the program, or of the function that is being written.
    content: Content,
    /// One of [`CONSTRUCTS`] that the kernel must have.
    wanted: usize,
    budget: usize,
    /// The number of plans, if it has any.
    plans: u64,
}

impl Program {
    fn new(mut random: Random, name: String, wanted: usize) -> Self {
        let mut draw = || {
            *random.pick(&[&(32, 0), &(96, 0), &(256, 0), &(128, 0), &(64, 0), &(16, 16), &(20, 0)])
        };
        let mut size = draw();
        // Not all sizes have it.
        while wanted == 3 && size.1 > 0 || wanted > 3 && size.0 == 20 {
            size = draw();
        }
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
            content: Content::default(),
            wanted,
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
        self.content.sites.push(self.sites);
        self.sites
    }

    /// Notes that the program has one of [`CONSTRUCTS`].
    fn has(&mut self, construct: usize) {
        self.content.constructs.insert(CONSTRUCTS[construct]);
    }

    /// Returns whether the kernel gets one of [`CONSTRUCTS`]: the one that it must have, and each other one in `n` times.
    fn gets(&mut self, construct: usize, n: usize) -> bool {
        self.wanted == construct || self.random.once_in(n)
    }

    /// Returns a kernel and the function that runs it, and its programs.
    fn kernel(&mut self) -> (String, Vec<Plan>) {
        let (threads, warps) = (self.threads(), self.threads() / 32);
        let blocks = 2 + self.random.below(2);
        let (mut params, mut parts, mut names) = (String::new(), Vec::new(), Vec::new());
        let mut outputs = Vec::new();
        let count = self.random.below(4).max([1, 1, 0, 0, 1, 0][self.wanted]);
        for at in 0..count.max(1) {
            let (ty, name) = (self.element(), format!("p{at}"));
            let t = ty.name();
            let rest = |random: &mut Random, n: usize| (blocks - 1) * n + 1 + random.below(n);
            let choice = match (at, self.wanted) {
                (0, 0) => 1,
                (0, 1) => 3,
                (0, 4) => 6,
                _ => self.random.below(if threads.is_multiple_of(32) { 8 } else { 5 }),
            };
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
                    self.has(4);
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
        // What the whole kernel has, each of its programs has.
        let mut of_kernel = std::mem::take(&mut self.content);
        let helpers: String = (0..self.random.below(3)).map(|_| self.helper()).collect();
        for (name, ty) in [("bi", Ty::Usize), ("bc", Ty::Usize), ("hit", Ty::U32)] {
            self.local(name, ty, false);
        }
        let (mut plans, mut body) = (Vec::new(), first + "let mut mixed = 1u32;\n");
        if self.plans == 0 {
            body.push_str(&self.program(&mut lets));
            plans.push(Plan { plan: Vec::new(), content: std::mem::take(&mut self.content) });
        }
        body.extend(lets);
        for memory in &mut self.memory {
            memory.state = State::Free;
        }
        let carries = self.plans > 0 && threads.is_multiple_of(32) && self.gets(5, 2);
        let (before, after) = (carries && self.random.below(2) == 0, carries);
        if before {
            body.push_str(&self.carry());
            of_kernel.extend(&std::mem::take(&mut self.content));
        }
        if self.plans > 0 {
            body.push_str(&self.planned(&mut plans));
        }
        if after && !(before && self.random.below(2) == 0) {
            let (carry, known) = (self.carry(), self.locals.len() - 1);
            body.push_str(&(carry + &self.mixed(known)));
        }
        body.push_str(&self.finish(&slots));
        of_kernel.extend(&std::mem::take(&mut self.content));
        plans.iter_mut().for_each(|plan| plan.content.extend(&of_kernel));
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

    /// Mixes all memory into the outputs.
    fn finish(&mut self, slots: &[(String, Ty)]) -> String {
        let mut text = String::new();
        let outputs: Vec<Memory> =
            self.memory.iter().filter(|memory| memory.name.starts_with('p')).cloned().collect();
        for own in self.own.clone() {
            // Values of threads go to an array that a phase reads.
            let Some(at) = self.memory.iter().position(|memory| {
                matches!(memory.kind, Kind::Array(_) | Kind::Sized(_)) && memory.ty != Ty::F32
            }) else {
                continue;
            };
            let (name, ty) = (self.memory[at].name.clone(), self.memory[at].ty.name());
            let (head, value) = match own.len {
                0 => (String::new(), "*b"),
                n => (format!("for k in 0..{n} "), "b[k]"),
            };
            let _ = writeln!(
                text,
                "block.each((&mut {name}, &mut {}), |_, (a, b)| {{ {head}{{ *a ^= {}; }} }});",
                own.name,
                Self::bits(&own.ty, value, ty)
            );
        }
        let shared = self.memory.iter().filter(|memory| memory.is_shared());
        let mixed = shared.fold("0u32".to_owned(), |sum, memory| {
            let value = match memory.kind {
                Kind::Matrix(r, c) => format!("{}[k % {r}][k / {r} % {c}]", memory.name),
                _ => format!("{0}[k % {0}.len()]", memory.name),
            };
            format!("({sum}).rotate_left(5) ^ {}", Self::bits(&memory.ty, &value, "u32"))
        });
        let _ = writeln!(
            text,
            "block.run(320, |k| {{\nbins.fetch_xor(k % 64, ({mixed} ^ mixed).wrapping_mul(2 * k as u32 + 1));\n}});"
        );
        for out in outputs {
            let ty = out.ty.name();
            let mixed = Self::as_type(&mixed, out.ty);
            let (mut target, mut item) = (out.target.clone(), "mut o");
            let (index, head, k, o) = match out.kind {
                Kind::WarpRows => {
                    ("i", "for q in 0..o.len() ".to_owned(), "o.column(q) + i", "o[q]")
                }
                Kind::Tile(..) if self.gets(1, 2) => {
                    let (text, [rows, _]) = self.patches_of_tile();
                    target = format!("{}.{text}", out.name);
                    ("[i, j]", format!("for a in 0..{rows}usize "), "i * 37 + j + a", "o[a][0]")
                }
                Kind::Part(_) if self.gets(0, 2) => {
                    let (text, len) = self.patches_of_part();
                    target = format!("{}.{text}", out.name);
                    ("i", format!("for a in 0..{len}usize "), "i + a", "o[a]")
                }
                Kind::Tile(..) => {
                    item = "o";
                    ("[i, j]", String::new(), "i * 37 + j", "*o")
                }
                _ => {
                    item = "o";
                    ("i", String::new(), "i", "*o")
                }
            };
            let value = match out.ty {
                Ty::F32 => format!("{o} * 0.5 + {mixed}"),
                _ => format!("({o}).rotate_left(3) ^ ({mixed} as {ty})"),
            };
            let _ = writeln!(
                text,
                "block.each({target}, |{index}, {item}| {{ {head}{{ let k = {k}; {o} = {value}; }} }});"
            );
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
