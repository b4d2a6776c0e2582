//! Phases: their targets and closures, and functions of warps and blocks.

use std::fmt::Write as _;

use super::{Kind, Own, Program, State, Ty};

/// Returns the slice with elements of a type, if there is one.
fn source(ty: Ty) -> Option<&'static str> {
    match ty {
        Ty::I32 => Some("x"),
        Ty::U32 => Some("y"),
        Ty::F32 => Some("f"),
        _ => None,
    }
}

/// What a phase hands to a thread.
enum Item {
    Value(String, Ty),
    Slice(String, Ty),
    /// An array of this length, of arrays of the other one if that is not 0.
    Array(String, Ty, usize, usize),
    Lane(String, Ty),
}

/// The target of a phase.
struct Target {
    text: String,
    pattern: String,
    items: Vec<Item>,
    /// The names of its index.
    names: Vec<String>,
    /// Indices, with their factors in the position.
    index: Vec<(String, usize)>,
}

impl Program {
    /// Returns the positions of the memory that satisfies a condition and that phases may write.
    pub(super) fn free(&self, wanted: impl Fn(&super::Memory) -> bool) -> Vec<usize> {
        let free = |at: &usize| self.memory[*at].state == State::Free && wanted(&self.memory[*at]);
        (0..self.memory.len()).filter(free).collect()
    }

    /// Runs `f` while memory is in a state.
    pub(super) fn held<R>(
        &mut self,
        at: &[usize],
        state: State,
        f: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let before: Vec<State> = at.iter().map(|at| self.memory[*at].state).collect();
        at.iter().for_each(|at| self.memory[*at].state = state);
        let result = f(self);
        at.iter().zip(before).for_each(|(at, before)| self.memory[*at].state = before);
        result
    }

    /// Returns a target, and the memory that it writes.
    fn target(&mut self, taken: &mut Vec<usize>, own: &mut Vec<usize>, number: usize) -> Target {
        let known: Vec<usize> =
            self.free(|_| true).into_iter().filter(|at| !taken.contains(at)).collect();
        let owned: Vec<usize> = (0..self.own.len()).filter(|at| !own.contains(at)).collect();
        let (i, j, a) = (format!("i{number}"), format!("j{number}"), format!("a{number}"));
        let a = format!("{a}_");
        let one = |i: &str| vec![(i.to_owned(), 1)];
        let two = |c: usize| vec![(i.clone(), c), (j.clone(), 1)];
        let named =
            |index: &Vec<(String, usize)>| index.iter().map(|(name, _)| name.clone()).collect();
        if known.is_empty() || !owned.is_empty() && self.random.once_in(3) {
            let at = owned[self.random.below(owned.len().max(1))];
            own.push(at);
            let Own { name, ty, len } = self.own[at].clone();
            let index = if self.size.1 == 0 { one(&i) } else { two(self.size.1) };
            let item = match len {
                0 => Item::Value(a.clone(), ty),
                len => Item::Array(a.clone(), ty, len, 0),
            };
            return Target {
                text: format!("&mut {name}"),
                pattern: a,
                items: vec![item],
                names: named(&index),
                index,
            };
        }
        let at = known[self.random.below(known.len())];
        taken.push(at);
        let memory = self.memory[at].clone();
        let (ty, name) = (memory.ty, memory.name.clone());
        let whole = |index| Target {
            text: memory.target.clone(),
            pattern: a.clone(),
            items: vec![Item::Value(a.clone(), ty)],
            names: named(&index),
            index,
        };
        match memory.kind {
            Kind::Matrix(r, c) => match self.random.below(3) {
                0 => {
                    let most = if r * c > 256 { c.min(20) } else { c };
                    let columns = 1 + self.random.below(most);
                    let columns = self.planted_split(columns, c + 1);
                    Target {
                        text: format!("{name}.cells({columns})"),
                        ..whole(vec![(i.clone(), c), (j.clone(), 1)])
                    }
                }
                _ => whole(two(c)),
            },
            Kind::Tile(_, w) if self.random.below(2) == 0 => {
                let (text, [rows, columns]) = self.patches_of_tile();
                Target {
                    text: format!("{name}.{text}"),
                    pattern: format!("mut {a}"),
                    items: vec![Item::Array(a.clone(), ty, rows, columns)],
                    index: vec![
                        (format!("({i} / {rows})"), w),
                        (format!("({j} / {columns})"), 1),
                        (i.clone(), 0),
                        (j.clone(), 0),
                    ],
                    ..whole(two(w))
                }
            }
            Kind::Tile(_, w) => whole(two(w)),
            Kind::WarpElements => whole(one(&i)),
            Kind::WarpRows => Target {
                pattern: format!("mut {a}"),
                items: vec![Item::Lane(a.clone(), ty)],
                ..whole(one(&i))
            },
            _ => match self.random.below(6) {
                0 => {
                    let b = format!("{a}b");
                    let distance = 1usize << self.random.below(7);
                    let distance = self.planted_split(distance, 6);
                    Target {
                        text: format!("{name}.pairs({distance})"),
                        pattern: format!("({a}, {b})"),
                        items: vec![Item::Value(a.clone(), ty), Item::Value(b, ty)],
                        ..whole(one(&i))
                    }
                }
                1 => {
                    let columns = 1 + self.random.below(12);
                    let columns = self.planted_split(columns, 0);
                    Target {
                        text: format!("{name}.rows({columns})"),
                        items: vec![Item::Slice(a.clone(), ty)],
                        ..whole(one(&i))
                    }
                }
                2 => {
                    let (text, len) = self.patches_of_part();
                    Target {
                        text: format!("{name}.{text}"),
                        pattern: format!("mut {a}"),
                        items: vec![Item::Array(a.clone(), ty, len, 0)],
                        index: vec![(format!("({i} / {len})"), 1), (i.clone(), 0)],
                        ..whole(one(&i))
                    }
                }
                _ => whole(one(&i)),
            },
        }
    }

    /// `patches::<K>()`, and the length of a patch.
    pub(super) fn patches_of_part(&mut self) -> (String, usize) {
        self.has(0);
        let len = *self.random.pick(&[&1, &2, &3, &4, &4, &8]);
        (format!("patches::<{len}>()"), len)
    }

    /// `patches::<R, K>()`, and the rows and columns of a patch.
    pub(super) fn patches_of_tile(&mut self) -> (String, [usize; 2]) {
        self.has(1);
        let [rows, columns] = *self.random.pick(&[&[2, 2], &[4, 4], &[1, 3], &[3, 2], &[8, 8]]);
        (format!("patches::<{rows}, {columns}>()"), [rows, columns])
    }

    /// Returns an argument of a split, which a planted fault makes bad.
    pub(super) fn planted_split(&mut self, good: usize, bad: usize) -> String {
        if !self.random.once_in(8) {
            return good.to_string();
        }
        format!("if hit == {} {{ {bad} }} else {{ {good} }}", self.site())
    }

    /// `block.each(…)`.
    pub(super) fn each(&mut self) -> String {
        if self.free(|_| true).is_empty() && self.own.is_empty() {
            return String::new();
        }
        let (mut taken, mut own, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..1 + self.random.below(3).min(self.random.below(4)) {
            let left = self.free(|_| true).iter().any(|at| !taken.contains(at));
            if number > 0 && !left && own.len() == self.own.len() {
                break;
            }
            if !left && own.len() == self.own.len() {
                break;
            }
            targets.push(self.target(&mut taken, &mut own, number));
        }
        let index = targets[0].index.clone();
        let names = targets[0].names.clone();
        let (index_pattern, known) = match &names[..] {
            _ if self.random.once_in(8) => ("_".to_owned(), vec![]),
            [one] => (one.clone(), index),
            names => (format!("[{}]", names.join(", ")), index),
        };
        let (text, pattern) = match &targets[..] {
            [one] if !self.random.once_in(12) => (one.text.clone(), one.pattern.clone()),
            [one] => (format!("({},)", one.text), format!("({},)", one.pattern)),
            [a, b, c] if self.random.once_in(3) => (
                format!("(({}, {}), {})", a.text, b.text, c.text),
                format!("(({}, {}), {})", a.pattern, b.pattern, c.pattern),
            ),
            all => {
                let join =
                    |f: fn(&Target) -> &str| all.iter().map(f).collect::<Vec<_>>().join(", ");
                (format!("({})", join(|t| &t.text)), format!("({})", join(|t| &t.pattern)))
            }
        };
        let items: Vec<Item> = targets.into_iter().flat_map(|target| target.items).collect();
        let body = self.held(&taken, State::Gone, |s| s.thread(&items, known));
        format!("block.each({text}, |{index_pattern}, {pattern}| {{\n{body}}});\n")
    }

    /// The statements of a thread.
    fn thread(&mut self, items: &[Item], index: Vec<(String, usize)>) -> String {
        let (locals, before) = (self.locals.len(), std::mem::replace(&mut self.index, index));
        let mut text = String::new();
        if !self.index.is_empty() && self.random.once_in(5) {
            text.push_str(&self.planted());
        }
        for item in items {
            match item {
                Item::Value(name, ty) => self.local(format!("(*{name})"), *ty, false),
                Item::Array(name, ty, len, inner) => {
                    let mut element = format!("{name}[{}]", self.random.below(*len));
                    if *inner > 0 {
                        let _ = write!(element, "[{}]", self.random.below(*inner));
                    }
                    self.local(element, *ty, false);
                }
                _ => {}
            }
        }
        if self.random.once_in(4) {
            let (ty, name) = (self.element(), self.fresh("z"));
            let value = self.value(ty, 2);
            let _ = writeln!(text, "let {name}: {} = {value};", ty.name());
            self.local(name, ty, false);
        }
        if self.random.once_in(12) {
            let _ = writeln!(text, "if {} {{\nreturn;\n}}", self.condition(1));
        }
        for item in items {
            if items.len() > 1 && self.random.once_in(5) {
                continue;
            }
            match item {
                Item::Value(name, ty) => {
                    let assign = self.assigned(&format!("*{name}"), *ty);
                    match self.random.below(6) {
                        0 => {
                            let condition = self.condition(2);
                            let other = self.assigned(&format!("*{name}"), *ty);
                            let _ = writeln!(
                                text,
                                "if {condition} {{\n{assign}\n}} else {{\n{other}\n}}"
                            );
                        }
                        1 => {
                            let k = self.fresh("k");
                            self.index.push((k.clone(), 0));
                            let assign = self.assigned(&format!("*{name}"), *ty);
                            self.index.pop();
                            let end = 1 + self.random.below(4);
                            let _ = writeln!(text, "for {k} in 0..{end}usize {{\n{assign}\n}}");
                        }
                        _ => {
                            let _ = writeln!(text, "{assign}");
                        }
                    }
                }
                Item::Slice(name, ty) => {
                    let k = self.fresh("k");
                    self.index.push((k.clone(), 0));
                    let assign = self.assigned(&format!("{name}[{k}]"), *ty);
                    self.index.pop();
                    let _ = writeln!(text, "for {k} in 0..{name}.len() {{\n{assign}\n}}");
                }
                Item::Array(name, ty, len, inner) => {
                    let (k, q) = (self.fresh("k"), self.fresh("q"));
                    let known = self.index.len();
                    self.index.push((k.clone(), 0));
                    let (place, head) = match inner {
                        0 => (format!("{name}[{k}]"), String::new()),
                        n => {
                            self.index.push((q.clone(), 0));
                            (format!("{name}[{k}][{q}]"), format!("for {q} in 0..{n}usize "))
                        }
                    };
                    let value = self.value(*ty, 1);
                    self.index.truncate(known);
                    let _ = writeln!(
                        text,
                        "for {k} in 0..{len}usize {{\n{head}{{ {place} = {value}; }}\n}}"
                    );
                }
                Item::Lane(name, ty) => {
                    let (k, q) = (self.fresh("k"), self.fresh("q"));
                    self.index.push((q.clone(), 0));
                    let assign = self.assigned(&format!("{name}[{k}]"), *ty);
                    self.index.pop();
                    let _ = writeln!(
                        text,
                        "for {k} in 0..{name}.len() {{\nlet {q} = {name}.column({k});\n{assign}\n}}"
                    );
                }
            }
        }
        self.locals.truncate(locals);
        self.index = before;
        text
    }

    fn assigned(&mut self, place: &str, ty: Ty) -> String {
        let value = self.value(ty, 2);
        let op = match ty {
            Ty::Bool => *self.random.pick(&[&"=", &"^="]),
            Ty::F32 => *self.random.pick(&[&"=", &"=", &"+="]),
            _ => *self.random.pick(&[&"=", &"=", &"^=", &"|="]),
        };
        format!("{place} {op} {value};")
    }

    /// A check that fails in one thread of one block if its site is asked for.
    fn planted(&mut self) -> String {
        let site = self.site();
        let position: Vec<String> =
            self.index.iter().map(|(name, factor)| format!("{name} * {factor}")).collect();
        let bad = format!("hit == {site} && {} == at", position.join(" + "));
        let name = self.fresh("z");
        match self.random.below(5) {
            // Of several checks of a loop that fail the first one counts.
            4 => {
                let (k, i) = (self.fresh("k"), self.below("300", 1));
                format!(
                    "for {k} in 0..4usize {{\nassert!(!({bad} && {k} == 2));\n\
                     let {name} = x[if {bad} && {k} > 0 {{ 300 + {k} }} else {{ {i} }}];\n}}\n"
                )
            }
            0 => format!("assert!(!({bad}));\n"),
            1 => format!("let {name} = 77u32 / if {bad} {{ 0 }} else {{ 3 }};\n"),
            2 => format!("let {name} = (if {bad} {{ None }} else {{ Some(3u32) }}).unwrap();\n"),
            _ => {
                // The first operand fails first.
                let (i, j) = (self.below("300", 1), self.below("300", 1));
                format!(
                    "let {name} = x[if {bad} {{ 300 + {site} }} else {{ {i} }}] as u32 \
                     ^ y[if {bad} {{ 400 + {site} }} else {{ {j} }}];\n"
                )
            }
        }
    }

    /// `block.run(…)` with atomic operations: of one kind, so that their order does not matter.
    pub(super) fn run(&mut self, atomic: &str, len: usize, ty: Ty, method: &str) -> String {
        let count = match self.random.below(3) {
            0 => format!("({} % 90) as usize", self.value(Ty::U32, 1)),
            1 => "block.threads()".to_owned(),
            _ => (1 + self.random.below(200)).to_string(),
        };
        self.index.push(("i".to_owned(), 1));
        let planted = if self.random.once_in(5) { self.planted() } else { String::new() };
        let (i, value) = (self.below(&len.to_string(), 2), self.value(ty, 2));
        self.index.pop();
        format!("block.run({count}, |i| {{\n{planted}{atomic}.{method}({i}, {value});\n}});\n")
    }

    /// `let v = block.one(…);`
    pub(super) fn one(&mut self) -> String {
        let (name, ty) = (self.fresh("n"), self.element());
        let value = self.value(ty, 2);
        let planted = match self.random.below(6) {
            0 => {
                format!("assert!(hit != {});\n", self.site())
            }
            _ => String::new(),
        };
        self.local(name.clone(), ty, false);
        format!("let {name} = block.one(|| {{\n{planted}{value}\n}});\n")
    }

    /// `block.load(…)` and `block.load_matrix(…)`.
    pub(super) fn load(&mut self) -> String {
        let known = self.free(|memory| {
            let of_warps = matches!(memory.kind, Kind::WarpElements | Kind::WarpRows);
            source(memory.ty).is_some() && !of_warps
        });
        let owned: Vec<usize> = (0..self.own.len())
            .filter(|at| source(self.own[*at].ty).is_some() && self.size.1 == 0)
            .collect();
        if !owned.is_empty() && (known.is_empty() || self.random.once_in(3)) {
            let at = owned[self.random.below(owned.len())];
            return self.load_own(at);
        }
        if known.is_empty() {
            return String::new();
        }
        let at = known[self.random.below(known.len())];
        let pair = if self.random.below(2) == 0 { self.loads_in_a_row() } else { None };
        pair.unwrap_or_else(|| self.load_into(at, false))
    }

    /// Loads into two arrays, between which no value is computed: they read together.
    pub(super) fn loads_in_a_row(&mut self) -> Option<String> {
        let arrays = self.free(|memory| {
            matches!(memory.kind, Kind::Array(_) | Kind::Matrix(..)) && source(memory.ty).is_some()
        });
        match arrays[..] {
            [first, .., second] => {
                Some(self.load_into(first, true) + &self.load_into(second, true))
            }
            _ => None,
        }
    }

    /// `block.load(…)` or `block.load_matrix(…)` into memory, unless its type has no source; `plain`: of numbers alone.
    pub(super) fn load_into(&mut self, at: usize, plain: bool) -> String {
        let memory = self.memory[at].clone();
        if source(memory.ty).is_none() {
            return String::new();
        }
        let is_matrix = matches!(memory.kind, Kind::Matrix(..) | Kind::Tile(..));
        self.held(&[at], State::Gone, |s| {
            let (from, start, fill) = s.loaded(memory.ty, plain);
            if !is_matrix {
                return format!("block.load({}, {from}, {start}, {fill});\n", memory.target);
            }
            let columns = *s.random.pick(&[&15, &15, &13, &7]);
            let rows = s.planted_split(20, 300 / columns + 1);
            // Half of them begin inside.
            let (row, column) = match s.random.below(2) {
                0 if !plain => (format!("({start}) / 15"), s.random.below(20) as isize - 9),
                _ => (s.random.below(3).to_string(), s.random.below(columns) as isize),
            };
            format!(
                "block.load_matrix({}, {from}, [{rows}, {columns}], [{row}, {column}], {fill});\n",
                memory.target
            )
        })
    }

    /// `block.load(…)` of a value of each thread.
    pub(super) fn load_own(&mut self, at: usize) -> String {
        let Own { name, ty, len } = self.own[at].clone();
        if len > 0 {
            self.has(3);
        }
        let (from, start, fill) = self.loaded(ty, false);
        format!("block.load(&mut {name}, {from}, {start}, {fill});\n")
    }

    /// Returns the source of a load, its start, and what stands for elements outside.
    fn loaded(&mut self, ty: Ty, plain: bool) -> (&'static str, String, String) {
        let from = source(ty).unwrap_or("x");
        if plain {
            // Most are inside.
            let start = *self.random.pick(&[&0, &21, &40, &-7, &280]);
            return (from, i32::to_string(&start), self.literal(ty));
        }
        let start =
            format!("({} % 310) as isize - {}", self.value(Ty::U32, 1), self.random.below(60));
        (from, start, self.value(ty, 1))
    }

    /// `let n = block.carry(…);`, at the top of the kernel's closure.
    pub(super) fn carry(&mut self) -> String {
        let (name, ty) = (self.fresh("n"), self.element());
        let (value, first) = (self.value(ty, 2), self.value(ty, 1));
        let (wraps, planted) = match ty {
            Ty::F32 => ("a + b", false),
            _ => ("a.wrapping_add(b)", self.random.once_in(3)),
        };
        let op = if self.random.once_in(3) { "a.max(b)" } else { wraps };
        let planted = match planted {
            // The first block combines nothing.
            true => {
                format!("assert!(hit != {});\n", self.site())
            }
            false => String::new(),
        };
        self.has(5);
        self.local(name.clone(), ty, false);
        format!("let {name} = block.carry({value}, {first}, |a, b| {{\n{planted}{op}\n}});\n")
    }

    fn own_of(&mut self, wanted: impl Fn(Ty) -> bool) -> Option<(String, Ty)> {
        let known: Vec<usize> = (0..self.own.len())
            .filter(|at| self.own[*at].len == 0 && wanted(self.own[*at].ty))
            .collect();
        if known.is_empty() {
            return None;
        }
        let own = &self.own[known[self.random.below(known.len())]];
        Some((own.name.clone(), own.ty))
    }

    /// A function of warps or blocks.
    pub(super) fn collective(&mut self) -> Option<String> {
        if !self.threads().is_multiple_of(32) {
            return None;
        }
        let (name, ty) = self.own_of(|ty| ty != Ty::Bool)?;
        let new = self.fresh("n");
        Some(match self.random.below(10) {
            0 | 1 => {
                let method = self.random.pick(&["warp_sum", "warp_min", "warp_max", "warp_scan"]);
                format!("block.{method}(&mut {name});\n")
            }
            2 => {
                let name = self.own[self.random.below(self.own.len())].name.clone();
                format!("block.warp_xor(&mut {name}, {});\n", self.value(Ty::U32, 1))
            }
            3 => {
                let (bits, _) = self.own_of(|ty| ty == Ty::U32)?;
                let name = self.own[self.random.below(self.own.len())].name.clone();
                if bits == name {
                    return None;
                }
                format!("block.warp_broadcast(&mut {name}, &{bits});\n")
            }
            4 => {
                let (flags, _) = self.own_of(|ty| ty == Ty::Bool)?;
                let (to, _) = self.own_of(|ty| ty == Ty::U32)?;
                match self.random.below(2) {
                    0 => format!("block.warp_ballot(&{flags}, &mut {to});\n"),
                    _ => {
                        self.local(new.clone(), Ty::U32, false);
                        format!("let {new} = block.compact(&{flags}, &mut {to});\n")
                    }
                }
            }
            5 => {
                let threads = self.threads();
                let at = self.below(&threads.to_string(), 1);
                let at = match self.random.below(6) {
                    0 => {
                        format!("if hit == {} {{ {threads} }} else {{ {at} }}", self.site())
                    }
                    _ => at,
                };
                self.local(new.clone(), ty, false);
                format!("let {new} = block.broadcast(&{name}, {at});\n")
            }
            6 => {
                self.local(new.clone(), ty, false);
                format!("let {new} = block.scan(&mut {name});\n")
            }
            7 => {
                let known = self.free(|memory| matches!(memory.kind, Kind::Array(_)));
                let at = *known.get(self.random.below(known.len().max(1)))?;
                format!("block.sort({});\n", self.memory[at].target)
            }
            _ => {
                let method = *self.random.pick(&[&"sum", &"min", &"max"]);
                self.local(new.clone(), ty, false);
                format!("let {new} = block.{method}(&{name});\n")
            }
        })
    }
}
