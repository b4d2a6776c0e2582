//! Generates programs of the language of kernels, which the tests run on the CPU and on the software device.
//!
//! `PHASES_PROGRAMS` is the number of kernels over elements, `PHASES_BLOCKS` that of programs over blocks, `PHASES_PLANS`
//! that of the plans of a kernel over blocks, `PHASES_GRADIENTS` that of kernels with a gradient, and `PHASES_SEED` the seed.

#[path = "build/blocks/mod.rs"]
mod blocks;
#[path = "build/gradients/mod.rs"]
mod gradients;
#[path = "build/random.rs"]
mod random;

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use random::Random;

/// The types of values, with those of parameters first.
const TYPES: [&str; 12] =
    ["i32", "u32", "f32", "f64", "i64", "u8", "u64", "i16", "u16", "i8", "usize", "bool"];
const PARAMS: usize = 4;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=PHASES_BLOCKS");
    println!("cargo::rerun-if-env-changed=PHASES_GRADIENTS");
    println!("cargo::rerun-if-env-changed=PHASES_PLANS");
    println!("cargo::rerun-if-env-changed=PHASES_PROGRAMS");
    println!("cargo::rerun-if-env-changed=PHASES_SEED");
    let number = |name: &str, default: u64| {
        env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
    };
    let (programs, seed) = (number("PHASES_PROGRAMS", 24), number("PHASES_SEED", 1));
    let mut text = String::new();
    let mut calls = String::new();
    for program in 0..programs {
        let mut generator = Generator::new(seed.wrapping_mul(1_000_003).wrapping_add(program));
        let _ = write!(text, "{}", generator.kernel(program));
        let _ = writeln!(calls, "    run!(p{program});");
    }
    let _ = writeln!(text, "const PROGRAMS: usize = {programs};\nfn run_all() {{\n{calls}}}");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let over_blocks =
        blocks::programs(number("PHASES_BLOCKS", 500), number("PHASES_PLANS", 40), seed);
    let gradients = gradients::programs(number("PHASES_GRADIENTS", 16), seed);
    for (file, text) in
        [("programs.rs", text), ("blocks.rs", over_blocks), ("gradients.rs", gradients)]
    {
        let written = fs::write(Path::new(&out).join(file), text);
        assert!(written.is_ok(), "cannot write the programs: {written:?}");
    }
}

/// A random program.
struct Generator {
    random: Random,
    /// The names in scope with their types, and whether each can change.
    names: Vec<(String, usize, bool)>,
    /// Counters of loops that are indices: they stay below 9.
    counters: Vec<String>,
    count: usize,
    loops: usize,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            names: Vec::new(),
            counters: Vec::new(),
            count: 0,
            loops: 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        self.random.pick(list)
    }

    fn kernel(&mut self, program: u64) -> String {
        let mut params = String::new();
        let mut lets = String::new();
        for (at, ty) in TYPES.iter().enumerate().take(PARAMS) {
            let _ = write!(params, "x{at}: &[{ty}], ");
            let _ = writeln!(lets, "        let v{at} = x{at}[i];");
            self.names.push((format!("v{at}"), at, false));
        }
        let mut body = String::new();
        for _ in 0..4 + self.below(5) {
            body.push_str(&self.statement(2, 2));
        }
        let sums: Vec<String> = (0..3)
            .map(|_| {
                let ty = self.below(TYPES.len());
                let e = self.expression(ty, 2);
                Self::bits(ty, &e)
            })
            .collect();
        let contract = if self.below(3) == 0 { "(contract)" } else { "" };
        format!(
            "#[kernel{contract}]\nfn p{program}({params}out: &mut [u64]) {{\n    each(out, |i, out| {{\n{lets}        \
             let mut seen = 1u64;\n{body}        *out = seen ^ {};\n    }});\n}}\n",
            sums.join(" ^ ")
        )
    }

    /// The bits of a value as an `u64`.
    fn bits(ty: usize, e: &str) -> String {
        match TYPES[ty] {
            "f32" => format!("(({e}).to_bits() as u64).rotate_left(7)"),
            "f64" => format!("({e}).to_bits()"),
            _ => format!("(({e}) as u64).wrapping_mul(0x9e3779b97f4a7c15)"),
        }
    }

    /// A statement that mixes a variable into the result: what it computes shows, also inside of loops.
    fn shown(name: &str, ty: usize, pad: &str) -> String {
        format!("{pad}seen = seen.rotate_left(9) ^ {};\n", Self::bits(ty, name))
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("n{}", self.count)
    }

    /// A statement; `depth` limits nesting.
    fn statement(&mut self, depth: usize, indent: usize) -> String {
        let pad = "    ".repeat(indent);
        match self.below(if depth == 0 { 4 } else { 9 }) {
            0 | 1 => {
                let ty = self.below(TYPES.len());
                let e = self.expression(ty, 3);
                // Names are reused now and then: shadowing.
                let name = if self.below(4) == 0 && self.count > 0 {
                    format!("n{}", self.count)
                } else {
                    self.name()
                };
                let mutable = self.below(2) == 0;
                let text = format!(
                    "{pad}let {}{name}: {} = {e};\n",
                    if mutable { "mut " } else { "" },
                    TYPES[ty]
                );
                let text = text + &Self::shown(&name, ty, &pad);
                self.names.push((name, ty, mutable));
                text
            }
            2 | 3 => {
                let found: Vec<(String, usize)> =
                    self.visible().filter(|n| n.2).map(|n| (n.0.clone(), n.1)).collect();
                if found.is_empty() {
                    return String::new();
                }
                let at = self.below(found.len());
                let (name, ty) = found[at].clone();
                let e = self.expression(ty, 3);
                let operator = match TYPES[ty] {
                    "f32" | "f64" => self.pick(&["=", "+=", "-=", "*=", "/="]),
                    "bool" => self.pick(&["=", "&=", "|=", "^="]),
                    _ => self.pick(&["=", "^=", "|=", "&="]),
                };
                format!("{pad}{name} {operator} {e};\n{}", Self::shown(&name, ty, &pad))
            }
            4 => {
                let condition = self.expression(11, 2);
                let (a, b) = (self.block(depth - 1, indent + 1), self.block(depth - 1, indent + 1));
                format!("{pad}if {condition} {{\n{a}{pad}}} else {{\n{b}{pad}}}\n")
            }
            5 => {
                // No other name hides it.
                let counter = self.name().replace('n', "k");
                let (low, high) = (self.below(4), 2 + self.below(7));
                let range = self.pick(&[
                    "{a}..{b}",
                    "{a}..={b}",
                    "({a}..{b}).rev()",
                    "({a}..{b}).step_by(2)",
                ]);
                let ty = self.pick(&["i32", "usize"]);
                let range =
                    range.replace("{a}", &low.to_string()).replace("{b}", &format!("{high}{ty}"));
                self.loops += 1;
                let (known, counters) = (self.names.len(), self.counters.len());
                if ty == "usize" {
                    self.counters.push(counter.clone());
                }
                let at = TYPES.iter().position(|t| *t == ty).unwrap_or(0);
                self.names.push((counter.clone(), at, false));
                let body = self.block(depth - 1, indent + 1);
                self.names.truncate(known);
                self.counters.truncate(counters);
                self.loops -= 1;
                format!("{pad}for {counter} in {range} {{\n{body}{pad}}}\n")
            }
            6 => {
                let counter = self.name();
                let condition = self.expression(11, 1);
                self.loops += 1;
                let body = self.block(depth - 1, indent + 1);
                self.loops -= 1;
                format!(
                    "{pad}let mut {counter} = 0;\n{pad}while {counter} < 5 && ({condition}) {{\n{pad}    {counter} += 1;\n\
                     {body}{pad}}}\n"
                )
            }
            7 => {
                let (ty, value) = (self.below(TYPES.len()), self.expression(0, 2));
                let name = self.name();
                let arms: Vec<String> =
                    (0..3).map(|_| self.arm(ty, depth - 1, indent + 1)).collect();
                let text = format!(
                    "{pad}let {name}: {} = match {value} {{\n{pad}    0 | 3 => {},\n{pad}    -7..=9 => {},\n{pad}    _ => {},\n\
                     {pad}}};\n",
                    TYPES[ty], arms[0], arms[1], arms[2]
                );
                let text = text + &Self::shown(&name, ty, &pad);
                self.names.push((name, ty, false));
                text
            }
            _ if self.loops > 0 => {
                let condition = self.expression(11, 2);
                format!(
                    "{pad}if {condition} {{\n{pad}    {};\n{pad}}}\n",
                    self.pick(&["break", "continue"])
                )
            }
            _ => {
                let at = self.expression(0, 2);
                let (a, b, name) = (self.expression(0, 2), self.expression(0, 2), self.name());
                let text = format!(
                    "{pad}let {name} = {{ let t = [{a}, {b}, 3]; t[(({at}) as usize) % 3] }};\n"
                );
                let text = text + &Self::shown(&name, 0, &pad);
                self.names.push((name, 0, false));
                text
            }
        }
    }

    /// The value of an arm: an expression, or a block with statements.
    fn arm(&mut self, ty: usize, depth: usize, indent: usize) -> String {
        if self.below(2) == 0 {
            return self.expression(ty, 2);
        }
        let known = self.names.len();
        let statement = self.statement(depth, indent + 1);
        let value = self.expression(ty, 2);
        self.names.truncate(known);
        format!("{{\n{statement}{}{value}\n{}}}", "    ".repeat(indent + 1), "    ".repeat(indent))
    }

    fn block(&mut self, depth: usize, indent: usize) -> String {
        let known = self.names.len();
        let text = (0..1 + self.below(3)).map(|_| self.statement(depth, indent)).collect();
        self.names.truncate(known);
        text
    }

    /// The names that no other hides.
    fn visible(&self) -> impl Iterator<Item = &(String, usize, bool)> {
        self.names
            .iter()
            .enumerate()
            .filter(|(at, n)| self.names[at + 1..].iter().all(|m| m.0 != n.0))
            .map(|(_, n)| n)
    }

    /// An index of a parameter, of which one in 500 is out of bounds.
    fn index(&mut self, depth: usize) -> String {
        let counters: Vec<String> =
            self.visible().filter(|n| self.counters.contains(&n.0)).map(|n| n.0.clone()).collect();
        if counters.is_empty() || self.below(3) == 0 {
            let bound = if self.below(500) == 0 { 303 } else { 300 };
            return format!("({}) as usize % {bound}", self.expression(1, depth));
        }
        let (at, by, more) = (self.below(counters.len()), self.below(12), self.below(200));
        let counter = &counters[at];
        match self.below(5) {
            0 => format!("{counter} * {by} + {more}"),
            1 => format!("{more} + {counter}"),
            2 => format!("{counter} + i % 200"),
            _ => counter.clone(),
        }
    }

    fn expression(&mut self, ty: usize, depth: usize) -> String {
        let choice = self.below(if depth == 0 { 3 } else { 10 });
        let name = TYPES[ty];
        if choice < 2 {
            let found: Vec<String> =
                self.visible().filter(|n| n.1 == ty).map(|n| n.0.clone()).collect();
            if !found.is_empty() {
                let at = self.below(found.len());
                return found[at].clone();
            }
        }
        if choice < 3 {
            return self.literal(ty);
        }
        if choice == 3 && self.below(3) == 0 {
            return match self.below(3) {
                0 => self.of_enum(ty, depth - 1),
                _ => self.of_option(ty, depth - 1),
            };
        }
        if choice == 3 {
            let condition = self.expression(11, depth - 1);
            let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
            return format!("(if {condition} {{ {a} }} else {{ {b} }})");
        }
        if ty < PARAMS && self.loops > 0 && self.below(3) == 0 {
            return format!("x{ty}[{}]", self.index(depth - 1));
        }
        match name {
            "bool" => {
                if self.below(3) == 0 {
                    let (a, b) = (self.expression(11, depth - 1), self.expression(11, depth - 1));
                    return match self.below(3) {
                        0 => format!("!({a})"),
                        _ => format!(
                            "(({a}) {} ({b}))",
                            self.pick(&["&&", "||", "^", "&", "|", "==", "!="])
                        ),
                    };
                }
                let ty = self.below(11);
                let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                format!("(({a}) {} ({b}))", self.pick(&["<", "<=", ">", ">=", "==", "!="]))
            }
            "f32" | "f64" => match self.below(8) {
                0 => {
                    let method = self.pick(&[
                        "sqrt", "abs", "floor", "ceil", "trunc", "round", "fract", "recip",
                    ]);
                    format!("({}).{method}()", self.expression(ty, depth - 1))
                }
                1 => {
                    let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                    format!("({a}).{}({b})", self.pick(&["min", "max", "copysign"]))
                }
                2 => {
                    let from = self.below(11);
                    format!("(({}) as {name})", self.expression(from, depth - 1))
                }
                3 => format!("(-({}))", self.expression(ty, depth - 1)),
                4 => {
                    let half = self.pick(&["half::f16", "half::bf16"]);
                    let (a, b) = (self.expression(3, depth - 1), self.expression(2, depth - 1));
                    let (op, to) = (self.pick(&["+", "-", "*", "/", "%"]), &name[1..]);
                    format!("({half}::from_f64({a}) {op} {half}::from_f32({b})).to_f{to}()")
                }
                5 => {
                    let [a, b, c] = [(); 3].map(|()| self.expression(ty, depth - 1));
                    let (int, by) = (self.below(11), self.expression(0, depth - 1));
                    let int = if TYPES[int].starts_with('f') { "i64" } else { TYPES[int] };
                    let op = self.pick(&["+", "-"]);
                    format!(
                        "(&Duo {{ a: {a}, b: {b} }} {op} &Duo {{ a: {c}, b: 0.5 }}).mixed::<{int}, 3>({by} as {int})"
                    )
                }
                _ => {
                    let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                    format!("({a} {} {b})", self.pick(&["+", "-", "*", "/", "%"]))
                }
            },
            _ => match self.below(6) {
                0 => {
                    let from = self.below(TYPES.len());
                    if TYPES[from] == "bool" && name.starts_with('f') {
                        return self.literal(ty);
                    }
                    format!("(({}) as {name})", self.expression(from, depth - 1))
                }
                1 => {
                    let (a, b) = (self.expression(ty, depth - 1), self.below(8));
                    format!("(({a}) {} {b})", self.pick(&["<<", ">>"]))
                }
                2 => {
                    let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                    format!("(({a}) {} ({b}))", self.pick(&["&", "|", "^"]))
                }
                3 => {
                    let (a, b) = (self.expression(ty, depth - 1), 1 + self.below(90));
                    format!("(({a}) {} {b})", self.pick(&["/", "%"]))
                }
                _ => {
                    let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                    let method = self.pick(&[
                        "wrapping_add",
                        "wrapping_sub",
                        "wrapping_mul",
                        "min",
                        "max",
                        "saturating_sub",
                    ]);
                    format!("({a}).{method}({b})")
                }
            },
        }
    }

    /// The value of an `Option`, by its methods.
    fn of_option(&mut self, ty: usize, depth: usize) -> String {
        let (condition, other) = (self.expression(11, 1), self.expression(ty, depth));
        let value = self.expression(ty, depth);
        let option = match self.below(2) {
            0 => format!("(if {condition} {{ Some({value}) }} else {{ None }})"),
            _ => format!("first(Some({value}), {condition})"),
        };
        let (name, known) = (self.name(), self.names.len());
        self.names.push((name.clone(), ty, false));
        let changed = self.expression(ty, depth);
        self.names.truncate(known);
        match self.below(4) {
            0 => format!("{option}.map(|{name}| {changed}).unwrap_or({other})"),
            1 => format!(
                "{option}.and_then(|{name}| first(Some({changed}), true)).unwrap_or({other})"
            ),
            2 => format!("{option}.unwrap_or_else(|| {other})"),
            _ => format!("{option}.map_or({other}, |{name}| {changed})"),
        }
    }

    /// The value of a `match` of an enum with values.
    fn of_enum(&mut self, ty: usize, depth: usize) -> String {
        let (condition, int) = (self.expression(11, 1), self.expression(0, depth));
        let (float, known) = (self.expression(3, depth), self.names.len());
        let [(n, a), (m, b), (_, c)] = [0, 3, 11].map(|bound| {
            let name = self.name();
            if bound != 11 {
                self.names.push((name.clone(), bound, false));
            }
            let value = self.expression(ty, depth);
            self.names.truncate(known);
            (name, value)
        });
        format!(
            "(match kind({condition}, {int}, {float}) {{ Kind::Int({n}) => {a}, Kind::Float {{ value: {m} }} => {b}, \
             Kind::Nothing => {c} }})"
        )
    }

    /// A literal with its type.
    fn literal(&mut self, ty: usize) -> String {
        let name = TYPES[ty];
        match name {
            "bool" => self.pick(&["true", "false"]).to_owned(),
            "f32" | "f64" => {
                format!(
                    "{}{name}",
                    self.pick(&["0.0", "1.5", "0.1", "3.0e4", "1.0e-6", "16777217.0"])
                )
            }
            _ => format!("{}{name}", self.below(100)),
        }
    }
}
