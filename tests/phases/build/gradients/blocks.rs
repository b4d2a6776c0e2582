//! Kernels over blocks: phases, splits, functions of warps and blocks, loops and branches of block level.

use std::fmt::Write as _;

use super::Program;

/// What a phase hands to a thread.
enum Item {
    Number(String),
    Slice(String),
}

impl Program {
    /// Returns a kernel over blocks, and its launch.
    pub(super) fn over_blocks(&mut self) -> (String, String) {
        self.threads = [32, 64, 96, 40][self.below(4)];
        let mut helpers: String = (0..self.below(3)).map(|_| self.helper()).collect();
        if self.random.once_in(3) {
            helpers.push_str(&self.function_with_phases());
        }
        let sums = self.begin();
        self.in_thread = false;
        self.indices.extend(["first".to_owned(), "bi".to_owned()]);
        let threads = self.threads;
        let (grid, chunk) = (1 + self.below(3), [threads, threads + 13, 17][self.below(3)]);
        let outputs = (grid - 1) * chunk + 1 + self.below(chunk);
        let mut body = String::new();
        for at in 0..2 + self.below(2) {
            let len = match at {
                1 if self.random.once_in(2) => self.shared[0].1,
                _ => [threads, threads + 7, threads / 2, 24][self.below(4)],
            };
            let _ = writeln!(body, "let mut t{at} = block.shared([{}; {len}]);", self.literal());
            self.shared.push((format!("t{at}"), len));
            self.reads.push((format!("t{at}"), len.to_string()));
        }
        for at in 0..1 + self.below(3) {
            let _ = writeln!(body, "let mut w{at} = block.per_thread({});", self.literal());
            self.own.push(format!("w{at}"));
        }
        // Values of the inputs in the memory of the block.
        let (x, y) = (self.index("53"), self.index("53"));
        let _ = writeln!(
            body,
            "block.each(&mut t0, |i, t| *t = x[(first + i) % 53] + 0.5F * y[({x} + i) % 53]);\n\
             block.each(&mut w0, |i, w| *w = 0.7F * y[(2 * i + {y}) % 53]);"
        );
        for _ in 0..4 + self.below(6) {
            body.push_str(&self.at_block(2, true));
        }
        for own in self.own.clone() {
            let _ =
                writeln!(body, "block.each((&mut t0, &mut {own}), |_, (t, w)| *t += 0.4F * *w);");
        }
        let all: Vec<String> =
            self.shared.iter().map(|(name, len)| format!("0.5F * {name}[i % {len}]")).collect();
        let adds = self.scope(|s| {
            s.indices.push("i".to_owned());
            let value = s.result();
            format!("*o = {} + {value};\n{}", all.join(" + "), s.add())
        });
        let _ = writeln!(body, "block.each(&mut out, |i, o| {{\n{adds}}});");
        let name = &self.name;
        let text = format!(
            "{helpers}#[kernel(gradient)]\npub(super) fn {name}(\
             #[active] a: F, x: &[F], y: &[F], index: &[u32], out: &mut [F]{sums}) {{\n\
             blocks(Threads::<{threads}>, chunks(out, {chunk}), |block, mut out| {{\n\
             let (first, bi) = (out.start(), block.index());\n{body}}});\n}}\n"
        );
        let launch = format!(
            "Launch {{ threads: {threads}, grid: {grid}, outputs: {outputs}, extent: {grid} }}"
        );
        (text, launch)
    }

    /// A statement of block level. `whole`: all that a closure of a kernel may have, in no branch.
    fn at_block(&mut self, depth: usize, whole: bool) -> String {
        let warps = self.threads.is_multiple_of(32);
        match self.below(if depth == 0 { 13 } else { 18 }) {
            0..5 => self.phase(),
            5..8 if warps && !self.own.is_empty() => self.collective(),
            8 => {
                let (name, value) = (self.fresh("s"), self.bounded(2));
                let text = match self.below(3) {
                    0 => format!("let mut {name} = block.one(|| {value});\n"),
                    _ => format!("let mut {name} = {value};\n"),
                };
                self.variable(name, true);
                text
            }
            9 => {
                let ((name, len), half) = (self.any_shared(), self.fresh("h"));
                let update = [
                    "squash(*a + 0.5F * high[i])",
                    "*a * high[i] * 0.7F",
                    "(*a - high[i]).clamp(-1.0F, 1.0F)",
                ];
                let update = self.pick(&update);
                format!(
                    "let mut {half} = {len}usize / 2;\nwhile {half} > 0 {{\n\
                     let (mut low, high) = {name}.split_at_mut({half});\n\
                     block.each(&mut low, |i, a| *a = {update});\n{half} /= 2;\n}}\n"
                )
            }
            10 => {
                let ((name, _), start, fill) =
                    (self.any_shared(), self.index("53"), self.literal());
                if !self.has_inputs() {
                    return self.phase();
                }
                let from = self.pick(&["x", "y"]);
                let target = Self::target(&name);
                format!("block.load({target}, {from}, ({start}) as isize - 5, {fill});\n")
            }
            11 if whole && self.shared.len() > 1 && self.shared[0].1 == self.shared[1].1 => {
                "std::mem::swap(&mut t0, &mut t1);\n".to_owned()
            }
            12 => {
                let ((name, len), c, count) =
                    (self.any_shared(), self.fresh("c"), 1 + self.below(40));
                let add = self.without(&name, |s| {
                    s.indices.push("i".to_owned());
                    format!("{c}.fetch_add({}, {});", s.index(&len.to_string()), s.bounded(2))
                });
                let target = Self::target(&name);
                format!(
                    "let {c} = {name}.atomic();\nblock.run({count}, |i| {{\n{add}\n}});\n\
                     block.each({target}, |_, t| *t = squash(*t));\n"
                )
            }
            13 | 14 => {
                let (k, end) = (self.fresh("k"), 1 + self.below(3));
                let body = self.scope(|s| {
                    s.indices.push(k.clone());
                    (0..1 + s.below(3)).map(|_| s.at_block(depth - 1, whole)).collect::<String>()
                });
                format!("for {k} in 0..{end}usize {{\n{body}}}\n")
            }
            15 => {
                let condition = self.known_condition();
                let [a, b] = [(); 2].map(|()| {
                    self.scope(|s| {
                        (0..1 + s.below(2))
                            .map(|_| s.at_block(depth - 1, false))
                            .collect::<String>()
                    })
                });
                format!("if {condition} {{\n{a}}} else {{\n{b}}}\n")
            }
            16 => {
                let (n, condition) = (self.fresh("n"), self.known_condition());
                let end = 2 + self.below(3);
                let body = self.scope(|s| {
                    s.indices.push(n.clone());
                    (0..1 + s.below(2)).map(|_| s.at_block(depth - 1, false)).collect::<String>()
                });
                format!(
                    "let mut {n} = 0usize;\nwhile {n} < {end} && {condition} {{\n{n} += 1;\n{body}}}\n"
                )
            }
            17 if !self.phases.is_empty()
                && self.shared.iter().any(|(_, len)| *len == self.threads) =>
            {
                let at = self.below(self.phases.len());
                let function = self.phases[at].clone();
                let tiles: Vec<String> = self
                    .shared
                    .iter()
                    .filter(|(_, len)| *len == self.threads)
                    .map(|(name, _)| name.clone())
                    .collect();
                let (tile, own) = (tiles[self.below(tiles.len())].clone(), self.any_own());
                let (name, value) = (self.fresh("s"), self.bounded(2));
                let text = format!(
                    "let by = {value};\nlet mut {name} = {function}(block, &mut {tile}, &mut {own}, by, bi < 2, x);\n"
                );
                self.variable(name, true);
                text
            }
            _ => {
                let known: Vec<String> = self
                    .variables
                    .iter()
                    .filter(|variable| variable.assignable)
                    .map(|variable| variable.text.clone())
                    .collect();
                if known.is_empty() {
                    return self.phase();
                }
                let (at, value) = (self.below(known.len()), self.bounded(2));
                format!("{} = {value};\n", known[at])
            }
        }
    }

    /// Returns a condition that does not depend on what threads have computed: exchanges between the threads of warps are
    /// in no other branch.
    fn known_condition(&mut self) -> String {
        if self.indices.is_empty() {
            return "many".to_owned();
        }
        let at = self.below(self.indices.len());
        let i = self.indices[at].clone();
        match self.below(3) {
            0 if self.has_inputs() => format!("index[{i} % 53] % 3 != {}", self.below(3)),
            1 if self.has_inputs() => "a < 0.25F".to_owned(),
            _ => format!("{i} % 2 == {}", self.below(2)),
        }
    }

    fn any_shared(&mut self) -> (String, usize) {
        let at = self.below(self.shared.len());
        self.shared[at].clone()
    }

    fn any_own(&mut self) -> String {
        let at = self.below(self.own.len());
        self.own[at].clone()
    }

    /// How a phase is given an array, or a value of each thread: parameters of functions are references.
    fn target(name: &str) -> String {
        if name.starts_with('p') { format!("&mut *{name}") } else { format!("&mut {name}") }
    }

    /// Runs `f` in a thread's scope that does not read an array, nor change variables of block level.
    fn without<R>(&mut self, name: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let (variables, reads) = (self.variables.clone(), self.reads.clone());
        self.variables.iter_mut().for_each(|variable| variable.assignable = false);
        self.reads.retain(|(read, _)| read != name);
        let (before, loops) =
            (std::mem::replace(&mut self.in_thread, true), std::mem::take(&mut self.loops));
        let result = self.scope(f);
        (self.in_thread, self.loops) = (before, loops);
        (self.variables, self.reads) = (variables, reads);
        result
    }

    /// `block.each(…)`.
    fn phase(&mut self) -> String {
        let (array, len) = self.any_shared();
        let (own, target) = (self.any_own(), Self::target(&array));
        let of_own = Self::target(&own);
        let (target, pattern, items, array) = match self.below(8) {
            0 => {
                let distance = 1 << self.below(5);
                let items = vec![Item::Number("(*t)".into()), Item::Number("(*u)".into())];
                (format!("{array}.pairs({distance})"), "(t, u)", items, array)
            }
            1 => {
                let columns = 1 + self.below(6);
                (format!("{array}.rows({columns})"), "t", vec![Item::Slice("t".into())], array)
            }
            2 => {
                let items = vec![Item::Number("(*w)".into())];
                (of_own, "w", items, String::new())
            }
            3 | 4 => {
                let items = vec![Item::Number("(*t)".into()), Item::Number("(*w)".into())];
                (format!("({target}, {of_own})"), "(t, w)", items, array)
            }
            _ => (target, "t", vec![Item::Number("(*t)".into())], array),
        };
        let _ = len;
        let body = self.without(&array, |s| {
            s.indices.push("i".to_owned());
            s.thread(&items)
        });
        format!("block.each({target}, |i, {pattern}| {{\n{body}}});\n")
    }

    fn thread(&mut self, items: &[Item]) -> String {
        for item in items {
            if let Item::Number(name) = item {
                self.variable(name.clone(), true);
            }
        }
        let mut text = String::new();
        if self.random.once_in(8) {
            let _ = writeln!(text, "if {} {{\nreturn;\n}}", self.condition(1));
        }
        for _ in 0..self.below(3) {
            text.push_str(&self.statement(1));
        }
        for item in items {
            match item {
                Item::Number(name) => {
                    let value = self.bounded(3);
                    let _ = match self.below(3) {
                        0 => writeln!(text, "{name} = squash({name} + {value});"),
                        1 => writeln!(text, "{name} = 0.5F * {name} + 0.5F * {value};"),
                        _ => writeln!(text, "{name} = {value};"),
                    };
                }
                Item::Slice(name) => {
                    let k = self.fresh("k");
                    let body = self.scope(|s| {
                        s.indices.push(k.clone());
                        s.variable(format!("{name}[{k}]"), true);
                        s.bounded(2)
                    });
                    let _ =
                        writeln!(text, "for {k} in 0..{name}.len() {{\n{name}[{k}] = {body};\n}}");
                }
            }
        }
        text
    }

    /// A function of the values of warps and blocks.
    fn collective(&mut self) -> String {
        let (own, name) = (self.any_own(), self.fresh("s"));
        let (one, of_own) = (Self::target(&own).replacen("&mut", "&", 1), Self::target(&own));
        let after = format!("block.each({of_own}, |_, w| *w = squash(*w * 0.3F));\n");
        let (value, also) = match self.below(8) {
            0 => (None, format!("block.warp_sum({of_own});\n{after}")),
            1 => (None, format!("block.{}({of_own});\n", self.pick(&["warp_min", "warp_max"]))),
            2 => (None, format!("block.warp_scan({of_own});\n{after}")),
            3 => (None, format!("block.warp_xor({of_own}, {});\n", self.below(32))),
            4 => {
                let (from, by) = (self.fresh("z"), 1 + self.below(11));
                let text = format!(
                    "let mut {from} = block.per_thread(0u32);\n\
                     block.each(&mut {from}, |i, f| *f = (i as u32 * {by}) % 32);\n\
                     block.warp_broadcast({of_own}, &{from});\n"
                );
                (None, text)
            }
            5 => (
                Some(format!("block.broadcast({one}, {})", self.below(self.threads))),
                String::new(),
            ),
            6 => (Some(format!("block.scan({of_own})")), after),
            _ => {
                (Some(format!("block.{}({one})", self.pick(&["min", "max", "sum"]))), String::new())
            }
        };
        let of_block = self.fresh("b");
        let text = value.map(|value| {
            format!("let {of_block} = {value};\nlet mut {name} = squash(0.1F * {of_block});\n")
        });
        if text.is_some() {
            self.variable(name, true);
        }
        format!("{}{also}", text.unwrap_or_default())
    }

    /// A function with phases.
    fn function_with_phases(&mut self) -> String {
        let name = format!("{}_phases", self.name);
        let threads = self.threads;
        self.in_thread = false;
        self.shared.push(("ptile".to_owned(), threads));
        self.own.push("pown".to_owned());
        let body = self.scope(|s| {
            s.variable("by", false);
            s.reads.push(("ptile".to_owned(), threads.to_string()));
            let body: String = (0..1 + s.below(3)).map(|_| s.at_block(1, false)).collect();
            format!("{body}{}\n", s.bounded(2))
        });
        self.shared.clear();
        self.own.clear();
        self.phases.push(name.clone());
        self.in_thread = true;
        format!(
            "#[device]\nfn {name}(block: &mut Block<{threads}>, ptile: &mut Shared<[F; {threads}]>, \
             pown: &mut PerThread<F, {threads}>, \
             by: F, many: bool, x: &[F]) -> F {{\n{body}}}\n"
        )
    }
}
