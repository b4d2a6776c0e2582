//! Statements of block level.

use std::fmt::Write as _;

use super::{Kind, Memory, Own, Program, State, Ty};

impl Program {
    /// Statements in a scope of their own.
    fn body(&mut self, depth: usize) -> String {
        self.scope(|s| {
            let known = s.locals.len();
            let text: String = (0..1 + s.random.below(3)).map(|_| s.statement(depth)).collect();
            text + &s.mixed(known)
        })
    }

    pub(super) fn scope<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let (locals, own, closures) = (self.locals.len(), self.own.len(), self.closures.len());
        let result = f(self);
        self.locals.truncate(locals);
        self.own.truncate(own);
        self.closures.truncate(closures);
        result
    }

    /// Statements while a handle, or a reference, uses memory in place of its name.
    fn group(&mut self, depth: usize, at: &[usize], state: State, made: Vec<Memory>) -> String {
        let memory = self.memory.len();
        let text = self.held(at, state, |s| {
            s.memory.extend(made);
            s.body(depth)
        });
        self.memory.truncate(memory);
        text
    }

    /// A statement of block level; `depth` limits nesting.
    pub(super) fn statement(&mut self, depth: usize) -> String {
        let nested = depth > 0 && self.budget > 0;
        match self.random.below(if nested { 34 } else { 17 }) {
            0..6 => self.each(),
            6 => self.one(),
            7 => self.load(),
            8..11 => self.collective().unwrap_or_else(|| self.each()),
            11 if self.returns => self.each(),
            11 => self.run("bins", 64, Ty::U32, "fetch_xor"),
            12 | 13 => self.let_value(),
            14 => self.assignment().unwrap_or_else(|| self.let_value()),
            15 => self.checked(),
            16 => self.swap().unwrap_or_else(|| self.each()),
            kind => {
                self.budget -= 1;
                match kind {
                    17..20 => self.branch(depth - 1),
                    20..23 => self.counted(depth - 1),
                    23 | 24 => self.waiting(depth - 1),
                    25 => self.left(depth - 1),
                    26 => self.split(depth - 1),
                    27 | 28 => self.reference(depth - 1),
                    29 => self.atomic(depth - 1),
                    30 if self.random.once_in(3) => self.other_name(depth - 1),
                    30 => self.handle(depth - 1),
                    31 => self.closure(depth - 1),
                    _ => self.call().unwrap_or_else(|| self.branch(depth - 1)),
                }
            }
        }
    }

    fn let_value(&mut self) -> String {
        let (name, ty) = (self.fresh("n"), self.element());
        let mutable = self.random.below(2) == 0;
        let word = if mutable { "mut " } else { "" };
        let text = match self.random.below(5) {
            0 => {
                let other = self.fresh("n");
                let (a, b) = (self.value(ty, 2), self.value(Ty::U32, 2));
                self.local(other.clone(), Ty::U32, false);
                format!("let ({word}{name}, {other}) = ({a}, {b});\n")
            }
            1 => {
                let (condition, a, b) = (self.condition(2), self.value(ty, 2), self.value(ty, 2));
                let t = ty.name();
                format!(
                    "let {name}: {t};\nif {condition} {{\n{name} = {a};\n}} else {{\n{name} = {b};\n}}\n"
                )
            }
            _ => format!("let {word}{name}: {} = {};\n", ty.name(), self.value(ty, 2)),
        };
        let mutable = mutable && text.contains("mut ");
        self.local(name, ty, mutable);
        text
    }

    fn assignment(&mut self) -> Option<String> {
        let known: Vec<usize> =
            (0..self.locals.len()).filter(|at| self.locals[*at].assignable).collect();
        let at = *known.get(self.random.below(known.len().max(1)))?;
        let local = self.locals[at].clone();
        let op = match local.ty {
            Ty::F32 => *self.random.pick(&[&"=", &"+="]),
            _ => *self.random.pick(&[&"=", &"^="]),
        };
        Some(format!("{} {op} {};\n", local.text, self.value(local.ty, 2)))
    }

    /// A check of block level, which fails if its site is asked for.
    fn checked(&mut self) -> String {
        let (site, name) = (self.site(), self.fresh("n"));
        let text = match self.random.below(3) {
            0 => return format!("assert!(hit != {site} || {} > 200);\n", self.value(Ty::U8, 0)),
            1 => format!("let {name} = 9u32 / if hit == {site} {{ 0 }} else {{ 2 }};\n"),
            _ => {
                let i = self.below("300", 2);
                format!("let {name} = y[if hit == {site} {{ 400 }} else {{ {i} }}];\n")
            }
        };
        self.local(name, Ty::U32, false);
        text
    }

    pub(super) fn swap(&mut self) -> Option<String> {
        // NVRTC loads from both arrays if a short branch decides which one it is. The checker for races sees loads whose
        // values nothing uses.
        if self.branches > 0 {
            return None;
        }
        let known = self.free(Memory::is_shared);
        for (at, a) in known.iter().enumerate() {
            for b in &known[at + 1..] {
                let (a, b) = (&self.memory[*a], &self.memory[*b]);
                if a.kind == b.kind && a.ty == b.ty {
                    return Some(format!("std::mem::swap({}, {});\n", a.target, b.target));
                }
            }
        }
        None
    }

    fn branch(&mut self, depth: usize) -> String {
        self.branches += 1;
        let text = self.branch_of(depth);
        self.branches -= 1;
        text
    }

    fn branch_of(&mut self, depth: usize) -> String {
        match self.random.below(5) {
            0 => {
                let (value, a, b) = (self.value(Ty::U32, 2), self.body(depth), self.body(depth));
                let c = self.body(depth);
                format!(
                    "match {value} % 4 {{\n0 => {{\n{a}}}\n1 | 2 => {{\n{b}}}\n_ => {{\n{c}}}\n}}\n"
                )
            }
            1 => {
                let (name, ty, condition) = (self.fresh("n"), self.element(), self.condition(2));
                let [a, b] = [(); 2].map(|()| {
                    self.scope(|s| {
                        let text = s.statement(depth);
                        format!("{text}{}\n", s.value(ty, 2))
                    })
                });
                self.local(name.clone(), ty, false);
                format!("let {name} = if {condition} {{\n{a}}} else {{\n{b}}};\n")
            }
            2 if self.returns => {
                let condition = self.condition(2);
                let (body, value) = self.scope(|s| (s.statement(depth), s.value(Ty::U32, 1)));
                format!("if {condition} {{\n{body}return {value};\n}}\n")
            }
            2 => {
                let label = self.fresh("'l");
                let (first, condition) = (self.body(depth), self.condition(2));
                let second = self.body(depth);
                format!("{label}: {{\n{first}if {condition} {{\nbreak {label};\n}}\n{second}}}\n")
            }
            _ => {
                let (condition, a) = (self.condition(2), self.body(depth));
                let b = match self.random.below(2) {
                    0 => format!(" else {{\n{}}}", self.body(depth)),
                    _ => String::new(),
                };
                format!("if {condition} {{\n{a}}}{b}\n")
            }
        }
    }

    /// A `for` loop over a range.
    fn counted(&mut self, depth: usize) -> String {
        let (name, label) = (self.fresh("k"), self.fresh("'l"));
        let end = 1 + self.random.below(3);
        // Compilers take long for loops with constant ends, as they are unrolled.
        let argument = self.argument().filter(|_| !self.random.once_in(5));
        let range = match (self.random.below(5), argument) {
            (0 | 2 | 3, Some(arg)) => {
                let part = self.random.below(14);
                format!("0..({arg} >> {part}) as usize % {}", end + 1)
            }
            (0, _) => format!("(0..{end}usize).rev()"),
            (1, _) => format!("0..({} % 4) as usize", self.value(Ty::U32, 1)),
            (2, _) => format!("(0..{}usize).step_by(2)", 2 * end),
            _ => format!("0..{end}usize"),
        };
        self.loops.push(label.clone());
        let body = self.scope(|s| {
            s.local(name.clone(), Ty::Usize, false);
            let text = s.body(depth);
            let jump = s.jump();
            text + &jump
        });
        let (rest, _) = (self.body(depth), self.loops.pop());
        format!("{label}: for {name} in {range} {{\n{body}{rest}}}\n")
    }

    /// Perhaps leaves a loop.
    fn jump(&mut self) -> String {
        if self.loops.is_empty() || self.random.once_in(2) {
            return String::new();
        }
        let at = self.random.below(self.loops.len());
        let label = self.loops[at].clone();
        let word = self.random.pick(&["break", "continue"]);
        let condition = self.condition(2);
        format!("if {condition} {{\n{word} {label};\n}}\n")
    }

    /// A loop that ends by a condition, at the latest after three iterations.
    fn waiting(&mut self, depth: usize) -> String {
        let (name, label) = (self.fresh("k"), self.fresh("'l"));
        self.loops.push(label.clone());
        let text = match self.random.below(3) {
            0 => {
                let condition = self.condition(2);
                let body = self.scope(|s| s.body(depth) + &s.jump() + &s.statement(0));
                format!(
                    "let mut {name} = 0usize;\n{label}: while {name} < 3 && {condition} {{\n{name} += 1;\n{body}}}\n"
                )
            }
            1 => {
                let first = self.scope(|s| s.body(depth) + &s.jump());
                let condition = self.condition(2);
                let rest = self.scope(|s| s.body(depth));
                format!(
                    "let mut {name} = 0usize;\n{label}: loop {{\n{name} += 1;\nif {name} > 3 {{\nbreak;\n}}\n{first}\
                     if {condition} {{\nbreak {label};\n}}\n{rest}}}\n"
                )
            }
            _ => {
                // A `break` has a value here.
                self.loops.pop();
                let (value, ty) = (self.fresh("n"), self.element());
                let (body, condition) = (self.scope(|s| s.body(depth)), self.condition(2));
                let [a, b] = [(); 2].map(|()| self.value(ty, 2));
                self.local(value.clone(), ty, false);
                return format!(
                    "let mut {name} = 0usize;\nlet {value} = loop {{\n{name} += 1;\n{body}\
                     if {name} > 2 {{\nbreak {a};\n}}\nif {condition} {{\nbreak {b};\n}}\n}};\n"
                );
            }
        };
        self.loops.pop();
        text
    }

    /// A loop that ends when phases have counted down: with a thread that has left it would not end.
    fn left(&mut self, depth: usize) -> String {
        let wanted = |m: &Memory| matches!(m.kind, Kind::Array(_)) && m.ty == Ty::U32;
        let known = self.free(wanted);
        let Some(at) = known.get(self.random.below(known.len().max(1))).copied() else {
            return self.counted(depth);
        };
        let (name, target) = (self.memory[at].name.clone(), self.memory[at].target.clone());
        let Kind::Array(len) = self.memory[at].kind else { return String::new() };
        let k = self.random.below(len);
        let go = self.fresh("n");
        let more = match self.random.below(6) {
            0 => return self.left_by_condition(at, depth),
            1 => format!("{go} = block.one(|| {name}[{k}] > 0);\n"),
            2 => format!("let {go}r = &{name}[{k}];\n{go} = *{go}r > 0;\n"),
            3 => format!("if {name}[{k}] == 0 {{\n{go} = false;\n}}\n"),
            4 => format!(
                "{{\nlet ({go}a, {go}b) = {name}.split_at_mut({k});\n{go} = {go}b[0] > 0;\n}}\n"
            ),
            _ => format!("let {go}f = |k: usize| {name}[k] > 0;\n{go} = {go}f({k});\n"),
        };
        let body = self.counting_down(at, depth);
        format!(
            "block.each({target}, |_, c| *c = *c % 3 + 1);\nlet mut {go} = true;\nwhile {go} {{\n{body}{more}}}\n"
        )
    }

    fn left_by_condition(&mut self, at: usize, depth: usize) -> String {
        let (name, target) = (self.memory[at].name.clone(), self.memory[at].target.clone());
        let Kind::Array(len) = self.memory[at].kind else { return String::new() };
        let k = self.random.below(len);
        let body = self.counting_down(at, depth);
        let head = format!("block.each({target}, |_, c| *c = *c % 3 + 1);\n");
        match self.random.below(2) {
            0 => format!("{head}while {name}[{k}] > 0 {{\n{body}}}\n"),
            _ => format!("{head}loop {{\n{body}if {name}[{k}] == 0 {{\nbreak;\n}}\n}}\n"),
        }
    }

    /// Statements that count an array down, with a thread that may leave.
    fn counting_down(&mut self, at: usize, depth: usize) -> String {
        let target = self.memory[at].target.clone();
        let loops = std::mem::take(&mut self.loops);
        let text = self.held(&[at], State::Frozen, |s| s.body(depth));
        self.loops = loops;
        let site = self.site();
        format!(
            "{text}block.each({target}, |i, c| {{\nassert!(hit != {site} || i != at);\n*c -= (*c > 0) as u32;\n}});\n"
        )
    }

    /// `split_at_mut`, and statements with both pieces.
    fn split(&mut self, depth: usize) -> String {
        let known = self.free(Memory::is_line);
        let Some(at) = known.get(self.random.below(known.len().max(1))).copied() else {
            return self.each();
        };
        let memory = self.memory[at].clone();
        let (low, high) = (self.fresh("s"), self.fresh("s"));
        let (middle, empty) = match memory.kind {
            Kind::Array(n) => match self.random.below(2) {
                0 => {
                    let middle = 1 + self.random.below(n - 1);
                    (self.planted_split(middle, n + 1), false)
                }
                _ => (format!("1 + ({} % {}) as usize", self.value(Ty::U32, 1), n - 2), false),
            },
            _ => (format!("{}.len() / 2", memory.name), true),
        };
        let made = [&low, &high].map(|name| Memory::new(name, memory.ty, Kind::Part(empty)));
        let middle_name = self.fresh("n");
        let text = self.group(depth, &[at], State::Gone, made.to_vec());
        format!(
            "let {middle_name} = {middle};\nlet (mut {low}, mut {high}) = {}.split_at_mut({middle_name});\n{text}",
            memory.name
        )
    }

    /// A reference into memory, over statements that do not write it.
    fn reference(&mut self, depth: usize) -> String {
        let known: Vec<usize> =
            (0..self.memory.len()).filter(|at| self.memory[*at].is_read()).collect();
        if known.is_empty() {
            return self.each();
        }
        let at = known[self.random.below(known.len())];
        let memory = self.memory[at].clone();
        let name = self.fresh("r");
        let (index, made) = match memory.kind {
            Kind::Matrix(r, c) => {
                let row =
                    Memory { state: State::Frozen, ..Memory::new(&name, memory.ty, Kind::Row(c)) };
                (self.below(&r.to_string(), 1), Some(row))
            }
            Kind::Array(n) | Kind::Row(n) => (self.below(&n.to_string(), 1), None),
            _ => (self.below(&format!("{}.len()", memory.name), 1), None),
        };
        let text = self.scope(|s| {
            if made.is_none() {
                s.local(format!("(*{name})"), memory.ty, false);
            }
            let text = s.group(depth, &[at], State::Frozen, made.into_iter().collect());
            text + &s.let_value()
        });
        format!("let {name} = &{}[{index}];\n{text}", memory.name)
    }

    /// Elements for atomic operations.
    fn atomic(&mut self, depth: usize) -> String {
        let wanted = |m: &Memory| {
            matches!(m.kind, Kind::Array(_)) && matches!(m.ty, Ty::U32 | Ty::I32 | Ty::U64)
        };
        let known = self.free(wanted);
        let Some(at) = known.get(self.random.below(known.len().max(1))).copied() else {
            return self.each();
        };
        let memory = self.memory[at].clone();
        let Kind::Array(len) = memory.kind else { return String::new() };
        let name = self.fresh("c");
        let mut text = format!("let {name} = {}.atomic();\n", memory.name);
        for _ in 0..1 + self.random.below(3) {
            let more = self.held(&[at], State::Gone, |s| {
                let method = *s.random.pick(&[
                    &"fetch_add",
                    &"fetch_max",
                    &"fetch_min",
                    &"fetch_xor",
                    &"fetch_or",
                    &"fetch_sub",
                ]);
                let run = s.run(&name, len, memory.ty, method);
                let other = s.statement(depth.min(1));
                run + &other
            });
            text.push_str(&more);
            let free =
                self.held(&[at], State::Gone, |s| s.free(|m| m.is_shared() && m.ty == memory.ty));
            if let Some(to) = free.first().copied() {
                let (to, i) = (self.memory[to].clone(), 1 + self.random.below(40));
                let index = match to.kind {
                    Kind::Matrix(..) => "[i, j]",
                    _ => "i",
                };
                let _ = writeln!(
                    text,
                    "block.each({}, |{index}, t| *t ^= {name}.load((i + {i}) % {len}));",
                    to.target
                );
            }
        }
        text
    }

    /// Another name of memory.
    fn handle(&mut self, depth: usize) -> String {
        let known = self.free(Memory::is_shared);
        let Some(at) = known.get(self.random.below(known.len().max(1))).copied() else {
            return self.each();
        };
        let memory = self.memory[at].clone();
        let name = self.fresh("h");
        let mut made = Memory::new(&name, memory.ty, memory.kind);
        made.target = format!("&mut *{name}");
        let same: Vec<usize> = known
            .into_iter()
            .filter(|other| {
                let other = &self.memory[*other];
                other.name != memory.name && other.ty == memory.ty && other.kind == memory.kind
            })
            .collect();
        let target = &memory.target;
        let Some(other) = same.first().copied().filter(|_| self.branches == 0) else {
            let text = self.group(depth, &[at], State::Gone, vec![made]);
            return format!("let {name} = {target};\n{text}");
        };
        let second = self.memory[other].target.clone();
        let next = self.fresh("h");
        let mut both = made.clone();
        both.name = next.clone();
        both.target = format!("&mut *{next}");
        let [first, then] = [(); 2].map(|()| {
            let both = vec![made.clone(), both.clone()];
            self.group(depth, &[at, other], State::Gone, both)
        });
        let swap = match self.random.below(3) {
            0 => format!("std::mem::swap(&mut {name}, &mut {next});"),
            1 => format!("std::mem::swap(&mut *{name}, &mut *{next});"),
            _ => format!("std::mem::swap({name}, {next});"),
        };
        format!("let mut {name} = {target};\nlet mut {next} = {second};\n{first}{swap}\n{then}")
    }

    /// Another name of a value of each thread.
    fn other_name(&mut self, depth: usize) -> String {
        if self.own.is_empty() {
            return self.each();
        }
        let (at, name) = (self.random.below(self.own.len()), self.fresh("w"));
        let own = self.own.remove(at);
        let known = self.own.len();
        self.own.push(Own { name: format!("*{name}"), ..own.clone() });
        let text: String = (0..2).map(|_| self.statement(depth)).collect();
        self.own.truncate(known);
        let text = format!("let {name} = &mut {};\n{text}", own.name);
        self.own.insert(at, own);
        text
    }

    /// A closure of block level, over statements that do not change what it has captured.
    fn closure(&mut self, depth: usize) -> String {
        let (name, ty) = (self.fresh("f"), self.element());
        let index = std::mem::replace(&mut self.index, vec![("k".to_owned(), 1)]);
        let value = self.value(ty, 2);
        self.index = index;
        let all: Vec<usize> = (0..self.memory.len())
            .filter(|at| self.memory[*at].state == State::Free)
            .filter(|at| value.contains(&format!("{}[", self.memory[*at].name)))
            .collect();
        let assignable: Vec<bool> = self.locals.iter().map(|local| local.assignable).collect();
        self.locals.iter_mut().for_each(|local| local.assignable = false);
        let text = self.scope(|s| {
            s.closures.push((name.clone(), ty));
            s.group(depth, &all, State::Frozen, Vec::new()) + &s.let_value()
        });
        for (local, assignable) in self.locals.iter_mut().zip(assignable) {
            local.assignable = assignable;
        }
        format!("let {name} = |k: usize| {value};\n{text}")
    }
}
