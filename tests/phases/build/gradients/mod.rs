//! Generates differentiable kernels, over elements and over blocks, each for `f64` and a third for `f32`.
//!
//! All have the parameters `a: F, x: &[F], y: &[F], index: &[u32], out: &mut [F]`, and some `sums: &Atomic<[F]>`. Each
//! active input has a path to an output, no check fails, and values stay small: what is assigned is bounded. `F` stands for the
//! type, also in literals (`0.5F`).

mod blocks;
mod threads;

use std::fmt::Write as _;

use crate::random::Random;

/// The elements of `x`, `y` and `index`.
pub(crate) const INPUTS: usize = 53;
/// The elements of `sums`.
pub(crate) const SUMS: usize = 5;

/// A variable of the type `F`.
#[derive(Debug, Clone)]
struct Variable {
    text: String,
    assignable: bool,
}

/// A program that is being written.
struct Program {
    random: Random,
    name: String,
    /// Numbers in scope.
    variables: Vec<Variable>,
    /// Memory that an expression may read, with its length.
    reads: Vec<(String, String)>,
    /// Local arrays.
    arrays: Vec<(String, usize)>,
    /// Indices in scope.
    indices: Vec<String>,
    /// Functions, with their numbers of parameters.
    helpers: Vec<(String, usize)>,
    /// Functions with phases.
    phases: Vec<String>,
    /// Shared arrays that phases may write, with their lengths.
    shared: Vec<(String, usize)>,
    /// Values of each thread.
    own: Vec<String>,
    threads: usize,
    /// Loops around the statement.
    loops: usize,
    count: usize,
    /// How many more elementary functions it may call.
    elementary: usize,
    /// Whether it adds to `sums`.
    sums: bool,
    /// Whether the code is a thread's.
    in_thread: bool,
    /// Whether gradients are the derivatives: `stop_gradient` is not used.
    is_smooth: bool,
}

/// Returns the programs as a module's text, with a list of them.
pub(crate) fn programs(count: u64, seed: u64) -> String {
    let (mut wide, mut narrow, mut list) = (String::new(), String::new(), String::new());
    for number in 0..count {
        let random = Random::new(seed.wrapping_mul(9_000_011).wrapping_add(number));
        let mut program = Program::new(random, format!("g{number}"));
        let over_blocks = program.random.below(5) > 1;
        let (kernel, launch) =
            if over_blocks { program.over_blocks() } else { program.over_elements() };
        let (name, smooth) = (&program.name, program.is_smooth);
        let sums = if program.sums { ", Atomic::from_mut(sums)" } else { "" };
        // rustc takes half a second for a kernel of a type.
        let of_narrow = match number % 3 {
            0 => format!("Some(narrow::{name}::kernel)"),
            _ => "None".to_owned(),
        };
        if number % 3 == 0 {
            narrow.push_str(&typed(&kernel, "f32"));
        }
        wide.push_str(&typed(&kernel, "f64"));
        let _ = writeln!(
            wide,
            "pub(super) fn run_{name}(a: F, x: &[F], y: &[F], index: &[u32], out: &mut [F], sums: &mut [F]) \
             -> Result<(), CpuError> {{\n\
             let _ = &sums;\n{name}::cpu(a, x, y, index, out{sums})\n}}"
        );
        let _ = writeln!(
            list,
            "    Drawn {{ name: {name:?}, wide: wide::{name}::kernel, narrow: {of_narrow}, \
             cpu: wide::run_{name}, \
             launch: {launch}, is_smooth: {smooth} }},"
        );
    }
    let module = |name: &str, real: &str, text: &str| {
        let squash =
            format!("#[device]\nfn squash(x: F) -> F {{\nx / (x * x + 1.0{real}).sqrt()\n}}\n");
        format!(
            "pub(super) mod {name} {{\nuse super::prelude::*;\ntype F = {real};\n{squash}{text}}}\n"
        )
    };
    format!(
        "{}{}pub(super) const INPUTS: usize = {INPUTS};\npub(super) const SUMS: usize = {SUMS};\n\
         pub(super) const DRAWN: &[Drawn] = &[\n{list}];\n",
        module("wide", "f64", &wide),
        module("narrow", "f32", &narrow)
    )
}

/// Gives literals their type: `0.5F` is `0.5f64`.
fn typed(text: &str, real: &str) -> String {
    let mut result = String::new();
    let mut after_digit = false;
    for c in text.chars() {
        if c == 'F' && after_digit {
            result.push_str(real);
        } else {
            result.push(c);
        }
        after_digit = c.is_ascii_digit();
    }
    result
}

impl Program {
    fn new(random: Random, name: String) -> Self {
        Self {
            random,
            name,
            variables: Vec::new(),
            reads: Vec::new(),
            arrays: Vec::new(),
            indices: Vec::new(),
            helpers: Vec::new(),
            phases: Vec::new(),
            shared: Vec::new(),
            own: Vec::new(),
            threads: 0,
            loops: 0,
            count: 0,
            elementary: 2,
            sums: false,
            in_thread: true,
            is_smooth: true,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        self.random.pick(list)
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count)
    }

    /// Runs `f`, and forgets what it has added to the scope.
    fn scope<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let (variables, reads) = (self.variables.len(), self.reads.len());
        let (arrays, indices) = (self.arrays.len(), self.indices.len());
        let result = f(self);
        self.variables.truncate(variables);
        self.reads.truncate(reads);
        self.arrays.truncate(arrays);
        self.indices.truncate(indices);
        result
    }

    fn variable(&mut self, text: impl Into<String>, assignable: bool) {
        self.variables.push(Variable { text: text.into(), assignable });
    }

    /// Begins a kernel: its scope, and the parameters after `index`.
    fn begin(&mut self) -> &'static str {
        self.sums = self.random.once_in(3);
        self.variable("a", false);
        for name in ["x", "y"] {
            self.reads.push((name.to_owned(), INPUTS.to_string()));
        }
        if self.sums { ", sums: &Atomic<[F]>" } else { "" }
    }

    /// Returns a kernel over elements, and its launch.
    fn over_elements(&mut self) -> (String, String) {
        let helpers: String = (0..self.below(3)).map(|_| self.helper()).collect();
        let sums = self.begin();
        self.indices.push("i".to_owned());
        let updates = self.random.once_in(3);
        let first = if updates { "squash(*out)" } else { "x[i]" };
        let mut body = format!("let mut v0 = {first};\n");
        self.variable("v0", true);
        if !updates && self.random.once_in(4) {
            let condition = self.condition(1);
            let value = self.result();
            let _ = writeln!(body, "if {condition} {{\n*out = {value};\nreturn;\n}}");
        }
        for _ in 0..3 + self.below(6) {
            body.push_str(&self.statement(2));
        }
        let value = self.result();
        let _ = writeln!(body, "*out = {value};");
        body.push_str(&self.add());
        let n = 1 + self.below(44);
        let contract = if self.random.once_in(4) { ", contract" } else { "" };
        let name = &self.name;
        let text = format!(
            "{helpers}#[kernel(gradient{contract})]\npub(super) fn {name}(\
             #[active] a: F, x: &[F], y: &[F], index: &[u32], out: &mut [F]{sums}) {{\n\
             each(out, |i, out| {{\n{body}}});\n}}\n"
        );
        let threads = [24, 32, 64][self.below(3)];
        let grid = n.div_ceil(threads);
        let launch =
            format!("Launch {{ threads: {threads}, grid: {grid}, outputs: {n}, extent: {n} }}");
        (text, launch)
    }

    /// Returns a value that depends on each active input.
    fn result(&mut self) -> String {
        let value = self.value(2);
        let (i, j) = (self.index("53"), self.index("53"));
        format!("{value} + 0.3F * a * x[{i}] + 0.2F * y[{j}]")
    }

    /// Adds to `sums`, if the program has them.
    fn add(&mut self) -> String {
        if !self.sums {
            return String::new();
        }
        let (at, value) = (self.index(&SUMS.to_string()), self.value(2));
        format!("sums.fetch_add({at}, {value} + 0.1F * a * a);\n")
    }

    /// A function of numbers.
    fn helper(&mut self) -> String {
        let (function, count) = (self.fresh("f"), 1 + self.below(3));
        let name = format!("{}_{function}", self.name);
        let parameters: Vec<String> = (0..count).map(|at| format!("p{at}")).collect();
        let known = std::mem::take(&mut self.variables);
        let body = self.scope(|s| {
            parameters.iter().for_each(|name| s.variable(name.clone(), false));
            let early = match s.below(3) {
                0 => {
                    let (condition, value) = (s.condition(1), s.bounded(2));
                    format!("if {condition} {{\nreturn {value};\n}}\n")
                }
                _ => String::new(),
            };
            let statements: String = (0..1 + s.below(3)).map(|_| s.statement(1)).collect();
            format!("{early}{statements}{}\n", s.bounded(2))
        });
        self.variables = known;
        let list: Vec<String> = parameters.iter().map(|name| format!("{name}: F")).collect();
        self.helpers.push((name.clone(), count));
        format!("#[device]\nfn {name}({}) -> F {{\n{body}}}\n", list.join(", "))
    }
}
