//! Code of a thread: values, conditions and statements.

use std::fmt::Write as _;

use super::{INPUTS, Program, SUMS};

impl Program {
    /// Returns an index below a length.
    pub(super) fn index(&mut self, len: &str) -> String {
        let known = self.indices.len();
        if known > 0 && !self.random.once_in(5) {
            let at = self.below(known);
            let i = self.indices[at].clone();
            return match self.below(5) {
                0 => format!("({i} + {}) % {len}", 1 + self.below(40)),
                1 => format!("({i} * {} + {}) % {len}", 1 + self.below(9), self.below(9)),
                2 if self.has_inputs() => {
                    format!("index[({i} + {}) % {INPUTS}] as usize % {len}", self.below(9))
                }
                _ => format!("{i} % {len}"),
            };
        }
        match len.parse::<usize>() {
            Ok(n) => self.below(n).to_string(),
            Err(_) => format!("{} % {len}", self.below(9)),
        }
    }

    /// Whether the inputs are in scope: not in functions.
    pub(super) fn has_inputs(&self) -> bool {
        self.reads.iter().any(|(name, _)| name == "x")
    }

    pub(super) fn literal(&mut self) -> String {
        format!("{}F", self.pick(&["0.5", "1.5", "0.25", "0.7", "1.0", "0.1", "2.0"]))
    }

    fn leaf(&mut self) -> String {
        match self.below(8) {
            0..4 if !self.variables.is_empty() => {
                let at = self.below(self.variables.len());
                self.variables[at].text.clone()
            }
            4 | 5 if !self.reads.is_empty() => {
                let at = self.below(self.reads.len());
                let (name, len) = self.reads[at].clone();
                let i = self.index(&len);
                format!("{name}[{i}]")
            }
            6 if !self.arrays.is_empty() => {
                let at = self.below(self.arrays.len());
                let (name, len) = self.arrays[at].clone();
                let i = self.index(&len.to_string());
                format!("{name}[{i}]")
            }
            _ => match self.variables.last() {
                Some(variable) if !self.random.once_in(3) => variable.text.clone(),
                _ => self.literal(),
            },
        }
    }

    /// Returns a number.
    pub(super) fn value(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(6) {
            return self.leaf();
        }
        let a = self.value(depth - 1);
        match self.below(22) {
            0..4 => format!("({a} * {})", self.value(depth - 1)),
            4..7 => format!("({a} {} {})", self.pick(&["+", "-"]), self.value(depth - 1)),
            7 => {
                let b = self.value(depth - 1);
                format!("({a} / ({b} * {b} + 0.7F))")
            }
            8 => {
                let b = self.value(depth - 1);
                format!("({a}).{}({b})", self.pick(&["min", "max"]))
            }
            9 if self.elementary() => {
                format!("({a}).{}()", self.pick(&["sin", "cos", "tanh", "atan", "sin", "cos"]))
            }
            10 if self.elementary() => match self.below(7) {
                0 => format!("(squash({a}) * 1.5F).exp()"),
                1 => format!("(({a}) * ({a}) + 0.3F).ln()"),
                2 => format!("(({a}) * ({a}) + 0.4F).powf(0.75F)"),
                3 => format!("(squash({a}) * 0.9F).asin()"),
                4 => format!(
                    "(squash({a}) * 2.0F).{}()",
                    self.pick(&["sinh", "cosh", "exp_m1", "exp2"])
                ),
                5 => {
                    let b = self.value(depth - 1);
                    match self.below(2) {
                        0 => format!("({a}).atan2(({b}) * ({b}) + 0.5F)"),
                        _ => format!("({a}).hypot(({b}).abs() + 0.5F)"),
                    }
                }
                _ => format!(
                    "(({a}).abs() + 1.5F).{}()",
                    self.pick(&["log2", "ln_1p", "cbrt", "log10"])
                ),
            },
            11 => format!("(({a}) * ({a}) + 0.3F).sqrt()"),
            12 => format!("({a}).{}()", self.pick(&["abs", "abs", "fract", "abs"])),
            13 => {
                let (b, c) = (self.value(depth - 1), self.value(depth - 1));
                format!("({a}).mul_add({b}, {c})")
            }
            14 => format!("({a}).clamp(-1.25F, 0.75F)"),
            // A check in a branch of block level would let threads leave apart.
            15 if self.in_thread => {
                let (condition, b) = (self.condition(depth - 1), self.value(depth - 1));
                format!("(if {condition} {{ {a} }} else {{ {b} }})")
            }
            16 => {
                let b = self.value(depth - 1);
                format!("({a}).copysign({b})")
            }
            17 => format!("({a}).powi({})", 2 + self.below(2)),
            18 if self.random.once_in(12) => {
                self.is_smooth = false;
                format!("(({a}) * ({a}).stop_gradient())")
            }
            19 => match self.below(3) {
                0 => format!("(({a}) * ({a}) + 0.6F).recip()"),
                1 => format!("(({a}) * 3.0F).floor()"),
                _ => format!("(-({a}))"),
            },
            20 if self.in_thread => {
                let (condition, name) = (self.condition(0), self.fresh("o"));
                let (b, other) = (self.value(depth - 1), self.value(depth - 1));
                format!(
                    "(if {condition} {{ Some({a}) }} else {{ None }}).map(|{name}| {name} * ({b})).unwrap_or({other})"
                )
            }
            _ => match self.helpers.len() {
                0 => format!("(0.5F * {a})"),
                known => {
                    let at = self.below(known);
                    let (name, count) = self.helpers[at].clone();
                    let more: Vec<String> =
                        (1..count).map(|_| self.value(depth.saturating_sub(2))).collect();
                    format!("{name}({})", [vec![a], more].concat().join(", "))
                }
            },
        }
    }

    /// Returns a number that is small.
    pub(super) fn bounded(&mut self, depth: usize) -> String {
        let a = self.value(depth);
        match self.below(6) {
            0 if self.elementary() => format!("({a}).{}()", self.pick(&["sin", "cos", "tanh"])),
            0 | 1 => format!("({a}).clamp(-1.5F, 1.25F)"),
            2 => format!("({a}).min(1.5F).max(-1.0F)"),
            3 => format!("squash({a})"),
            4 => format!("(0.9F * squash(({a}) + 0.25F))"),
            _ => format!("(({a}) / (({a}).abs() + 1.0F))"),
        }
    }

    /// Whether one more elementary function is called, of which few are, since their code is long.
    fn elementary(&mut self) -> bool {
        let calls = self.elementary > 0 && self.random.once_in(2);
        self.elementary -= usize::from(calls);
        calls
    }

    pub(super) fn condition(&mut self, depth: usize) -> String {
        match self.below(5) {
            0 if !self.indices.is_empty() => {
                let at = self.below(self.indices.len());
                let i = self.indices[at].clone();
                format!("({i} % {} == {})", 2 + self.below(3), self.below(2))
            }
            1 if self.has_inputs() => {
                let i = self.index(&INPUTS.to_string());
                format!("(index[{i}] % 3 != {})", self.below(3))
            }
            2 if depth > 0 => {
                let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                format!("({a} {} {b})", self.pick(&["&&", "||"]))
            }
            _ => {
                let (a, b) = (self.value(1), self.literal());
                format!("(({a}) {} {b})", self.pick(&["<", ">", "<=", ">="]))
            }
        }
    }

    fn block(&mut self, depth: usize) -> String {
        self.scope(|s| (0..1 + s.below(2)).map(|_| s.statement(depth)).collect())
    }

    /// A statement of a thread; `depth` limits nesting.
    pub(super) fn statement(&mut self, depth: usize) -> String {
        let assignable: Vec<String> = self
            .variables
            .iter()
            .filter(|variable| variable.assignable)
            .map(|variable| variable.text.clone())
            .collect();
        match self.below(if depth == 0 { 6 } else { 14 }) {
            0 | 1 => {
                let (value, name) = (self.bounded(3), self.fresh("v"));
                let text = format!("let mut {name} = {value};\n");
                self.variable(name, true);
                text
            }
            2..5 if !assignable.is_empty() => {
                let at = self.below(assignable.len());
                let (name, value) = (&assignable[at], self.bounded(3));
                match self.below(4) {
                    0 => format!("{name} = squash({name} + {value});\n"),
                    1 => format!("{name} *= {value} * 0.6F;\n"),
                    2 => format!("{name} = 0.6F * {name} - 0.4F * {value};\n"),
                    _ => format!("{name} = {value};\n"),
                }
            }
            6 => {
                let condition = self.condition(1);
                let (a, b) = (self.block(depth - 1), self.block(depth - 1));
                format!("if {condition} {{\n{a}}} else {{\n{b}}}\n")
            }
            7 => {
                let condition = self.condition(1);
                format!("if {condition} {{\n{}}}\n", self.block(depth - 1))
            }
            8 => self.counted(depth),
            9 => {
                let (counter, condition) = (self.fresh("n"), self.condition(0));
                let body = self.scope(|s| {
                    s.loops += 1;
                    s.indices.push(counter.clone());
                    let body = s.block(depth - 1);
                    s.loops -= 1;
                    body
                });
                let end = 2 + self.below(4);
                format!(
                    "let mut {counter} = 0usize;\nwhile {counter} < {end} && {condition} {{\n{counter} += 1;\n{body}}}\n"
                )
            }
            10 => {
                let (name, len) = (self.fresh("r"), 2 + self.below(4));
                let values: Vec<String> = (0..len).map(|_| self.bounded(1)).collect();
                let text = format!("let mut {name} = [{}];\n", values.join(", "));
                self.arrays.push((name, len));
                text
            }
            11 if !self.arrays.is_empty() => {
                let at = self.below(self.arrays.len());
                let (name, len) = self.arrays[at].clone();
                let (i, value) = (self.index(&len.to_string()), self.bounded(2));
                format!("{name}[{i}] = {value};\n")
            }
            12 if self.has_inputs() => {
                let (i, name) = (self.index(&INPUTS.to_string()), self.fresh("v"));
                let arms: Vec<String> = (0..3)
                    .map(|_| {
                        let text = self.block(depth - 1);
                        format!("{{\n{text}{}\n}}", self.bounded(2))
                    })
                    .collect();
                let text = format!(
                    "let mut {name} = match index[{i}] % 5 {{\n0 | 3 => {}\n1 => {}\n_ => {}\n}};\n",
                    arms[0], arms[1], arms[2]
                );
                self.variable(name, true);
                text
            }
            13 if self.loops > 0 => {
                let condition = self.condition(1);
                format!("if {condition} {{\n{};\n}}\n", self.pick(&["break", "continue"]))
            }
            5 if self.sums && self.in_thread && self.has_inputs() => {
                let (at, value) = (self.index(&SUMS.to_string()), self.bounded(2));
                format!("sums.fetch_add({at}, {value});\n")
            }
            _ => {
                let (value, name) = (self.bounded(2), self.fresh("v"));
                let text = format!("let {name} = {value};\n");
                self.variable(name, false);
                text
            }
        }
    }

    /// A loop with a counter, or over elements.
    fn counted(&mut self, depth: usize) -> String {
        if self.has_inputs() && self.random.once_in(4) {
            let (name, slice) = (self.fresh("e"), self.pick(&["x", "y"]));
            let start = self.index(&INPUTS.to_string());
            let body = self.scope(|s| {
                s.variable(format!("(*{name})"), false);
                s.loops += 1;
                let body = s.block(depth - 1);
                s.loops -= 1;
                body
            });
            let (from, count) = (self.fresh("s"), self.below(5));
            return format!(
                "let {from} = {start};\nfor {name} in &{slice}[{from}..({from} + {count}).min({INPUTS})] {{\n{body}}}\n"
            );
        }
        let (counter, end) = (self.fresh("k"), 1 + self.below(5));
        let mut text = String::new();
        let end = match self.below(3) {
            0 if self.has_inputs() => {
                let i = self.index(&INPUTS.to_string());
                format!("index[{i}] as usize % {}", end + 1)
            }
            _ => format!("{end}usize"),
        };
        let body = self.scope(|s| {
            s.indices.push(counter.clone());
            s.loops += 1;
            let body = s.block(depth - 1);
            s.loops -= 1;
            body
        });
        let range = match self.below(4) {
            0 => format!("(0..{end}).rev()"),
            1 => format!("(0..{end}).step_by(2)"),
            _ => format!("0..{end}"),
        };
        let _ = write!(text, "for {counter} in {range} {{\n{body}}}\n");
        text
    }
}
