//! The text of accesses to memory, and of functions.

use super::render::{BOUND, Render};
use super::statement::{CELLS, Callee, Choice, Count, Gather, Index, Local, Statement, VALUES};

/// Puts types into a line.
pub(super) fn typed(line: &str, double: bool) -> String {
    let (ty, bits) = if double { ("f64", "b64") } else { ("f32", "b32") };
    line.replace("$T", ty).replace("$B", bits)
}

pub(super) fn number(value: f64, double: bool) -> String {
    if double {
        format!("0d{:016X}", value.to_bits())
    } else {
        format!("0f{:08X}", (value as f32).to_bits())
    }
}

/// The names and texts of functions. Results are within [`BOUND`] if arguments are.
pub(super) fn function(callee: Callee, double: bool) -> String {
    let [small, quarter, half] = [0.0625, 0.25, 0.5].map(|value| number(value, double));
    let (name, more, code) = match callee {
        Callee::Mix => (
            "mix",
            "",
            format!(
                "\tmul.$T %v2, %v1, {small}; mul.$T %v3, %v1, {half}; fma.rn.$T %v4, %v0, %v2, %v3;\n\
                 \tst.param.$T [result], %v4; ret;\n"
            ),
        ),
        Callee::Either => (
            "either",
            "",
            format!(
                "\tsetp.gt.$T %p0, %v0, %v1; @%p0 bra FIRST;\n\
                 \tmul.$T %v2, %v0, {quarter}; fma.rn.$T %v2, %v1, {quarter}, %v2;\n\
                 \tst.param.$T [result], %v2; ret;\n\
                 FIRST:\n\tmul.$T %v2, %v0, {half}; st.param.$T [result], %v2; ret;\n"
            ),
        ),
        Callee::Turns => (
            "turns",
            ", .param .b32 count",
            format!(
                "\tld.param.u32 %r0, [count]; mov.u32 %r1, 0; mov.$T %v2, %v0;\n\
                 \tfma.rn.$T %v3, %v1, {small}, {half}; mul.$T %v4, %v1, {quarter};\n\
                 HEAD:\n\tsetp.ge.u32 %p0, %r1, %r0; @%p0 bra DONE;\n\
                 \tfma.rn.$T %v2, %v2, %v3, %v4; add.u32 %r1, %r1, 1; bra.uni HEAD;\n\
                 DONE:\n\tst.param.$T [result], %v2; ret;\n"
            ),
        ),
    };
    let text = format!(
        ".func (.param .$B result) {name}(.param .$B a, .param .$B b{more})\n{{\n\
         \t.reg .pred %p<2>; .reg .b32 %r<3>; .reg .$T %v<6>;\n\
         \tld.param.$T %v0, [a]; ld.param.$T %v1, [b];\n{code}}}\n\n"
    );
    typed(&text, double)
}

impl Render<'_> {
    pub(super) fn call(&mut self, callee: Callee, to: usize, a: usize, b: usize) {
        self.callees.insert(callee);
        let name = match callee {
            Callee::Mix => "mix",
            Callee::Either => "either",
            Callee::Turns => "turns",
        };
        self.line("{");
        self.line(format!(".param .$B one; st.param.$T [one], %v{a};"));
        self.line(format!(".param .$B two; st.param.$T [two], %v{b};"));
        let mut more = "";
        if callee == Callee::Turns {
            let r = self.fresh('r');
            self.line(format!(
                "and.b32 {r}, %r6, 3; .param .b32 three; st.param.b32 [three], {r};"
            ));
            more = ", three";
        }
        self.line(format!(".param .$B back; call.uni (back), {name}, (one, two{more});"));
        self.line(format!("ld.param.$T %v{to}, [back+0];"));
        self.line("}");
        self.bounds[to] = BOUND;
    }

    /// Fills the local arrays, so that no load reads what was never written.
    pub(super) fn arrays(&mut self) {
        let size = self.size();
        self.line("mov.u64 %w30, first; mov.u64 %w31, second;");
        self.line("cvta.local.u64 %w32, %w30; cvta.local.u64 %w33, %w31;");
        for at in 0..CELLS {
            let (one, two, place) = (at % VALUES, (at * 3 + 1) % VALUES, at * size);
            self.line(format!(
                "st.local.$T [%w30+{place}], %v{one}; st.local.$T [%w31+{place}], %v{two};"
            ));
        }
    }

    /// A register with an index below a power of two.
    pub(super) fn index(&mut self, at: Index, below: usize) -> String {
        let (r, mask) = (self.fresh('r'), below - 1);
        let (from, more) = match at {
            Index::Constant(at) => {
                self.line(format!("mov.u32 {r}, {};", at & mask));
                return r;
            }
            Index::Turn(more) => (self.turn(), more),
            Index::Data(more) => ("%r6".to_owned(), more),
            Index::State(more) => ("%r11".to_owned(), more),
        };
        self.line(format!("add.s32 {r}, {from}, {more}; and.b32 {r}, {r}, {mask};"));
        r
    }

    /// An address: a base and the index of a number.
    fn place(&mut self, base: &str, at: Index, below: usize, offset: usize) -> String {
        let size = self.size();
        if let Index::Constant(at) = at {
            return format!("{base}+{}", (at & (below - 1)) * size + offset);
        }
        let (r, w) = (self.index(at, below), self.fresh('w'));
        self.line(format!("mul.wide.u32 {w}, {r}, {size}; add.s64 {w}, {base}, {w};"));
        format!("{w}+{offset}")
    }

    pub(super) fn memory(&mut self, statement: &Statement) {
        let size = self.size();
        match *statement {
            Statement::Sum { value, cell } => {
                let at = if let Index::Constant(_) = cell {
                    "%w22".to_owned()
                } else {
                    // One of the first four sums.
                    self.place("%w4", cell, 4, 0)
                };
                self.line(format!("red.global.add.$T [{at}], %v{value};"));
            }
            Statement::Gather { to, by } => self.gather(to, by),
            Statement::Scatter { value, at, pair } => {
                if pair {
                    let other = (value + 1) % VALUES;
                    let at = 2 * size;
                    self.line(format!("st.global.v2.$T [%w14+{at}], {{%v{value}, %v{other}}};"));
                } else {
                    let at = self.place("%w14", at, 2, 2 * size);
                    self.line(format!("st.global.$T [{at}], %v{value};"));
                }
            }
            Statement::InPlace { at, by, to } => {
                let at = self.place("%w13", at, 2, 0);
                let (was, f, t) = (self.fresh('v'), self.fresh('v'), self.fresh('v'));
                let (small, half) = (self.number(0.0625), self.number(0.5));
                self.line(format!("ld.global.$T {was}, [{at}];"));
                self.line(format!("fma.rn.$T {f}, %v{by}, {small}, {half};"));
                let quarter = self.number(0.25);
                self.line(format!(
                    "mul.$T {t}, %v{by}, {quarter}; fma.rn.$T {t}, {was}, {f}, {t};"
                ));
                self.line(format!("st.global.$T [{at}], {t}; ld.global.$T %v{to}, [{at}];"));
                self.bounds[to] = BOUND;
            }
            Statement::Choose { when, to, choice } => {
                let (p, w) = (self.condition(when), self.fresh('w'));
                match choice {
                    Choice::Load => {
                        self.line(format!("selp.b64 {w}, %w11, %w20, {p};"));
                        self.line(format!("ld.global.$T %v{to}, [{w}];"));
                        self.bounds[to] = 1.0;
                    }
                    Choice::LoadTwo => {
                        self.line(format!("selp.b64 {w}, %w11, %w15, {p};"));
                        self.line(format!("ld.global.$T %v{to}, [{w}+{size}];"));
                        self.bounds[to] = 1.0;
                    }
                    Choice::Store => {
                        let x = self.fresh('w');
                        self.line(format!(
                            "add.s64 {w}, %w14, {}; add.s64 {x}, %w14, {};",
                            2 * size,
                            3 * size
                        ));
                        self.line(format!(
                            "selp.b64 {w}, {w}, {x}, {p}; st.global.$T [{w}], %v{to};"
                        ));
                    }
                }
            }
            Statement::Vector { to: [a, b, c, d], at, four } => {
                if four && !self.double {
                    self.line(format!("ld.global.v4.f32 {{%v{a}, %v{b}, %v{c}, %v{d}}}, [%w11];"));
                    for to in [a, b, c, d] {
                        self.bounds[to] = 1.0;
                    }
                } else {
                    let (r, w) = (self.index(at, 2), self.fresh('w'));
                    self.line(format!(
                        "mul.wide.u32 {w}, {r}, {}; add.s64 {w}, %w11, {w};",
                        2 * size
                    ));
                    self.line(format!("ld.global.v2.$T {{%v{a}, %v{b}}}, [{w}];"));
                    self.bounds[a] = 1.0;
                    self.bounds[b] = 1.0;
                }
            }
            Statement::Local { local, array, at, generic } => {
                self.local(local, array, at, generic);
            }
            _ => {}
        }
    }

    fn gather(&mut self, to: usize, by: Gather) {
        let size = self.size();
        match by {
            Gather::Changed(at) => {
                let (r, w) = (self.index(at, 4), self.fresh('w'));
                self.line(format!("xor.b32 {r}, %r4, {r}; mul.wide.u32 {w}, {r}, {size};"));
                self.line(format!("add.s64 {w}, %w0, {w}; ld.global.$T %v{to}, [{w}];"));
                self.bounds[to] = 1.0;
            }
            Gather::Loaded => {
                let (turn, r, w) = (self.turn(), self.fresh('r'), self.fresh('w'));
                self.line(format!("add.s32 {r}, %r3, {turn}; rem.u32 {r}, {r}, %r0;"));
                self.line(format!("mul.wide.u32 {w}, {r}, 4; add.s64 {w}, %w6, {w};"));
                self.line(format!("ld.global.u32 {r}, [{w}]; mul.wide.u32 {w}, {r}, {size};"));
                self.line(format!("add.s64 {w}, %w0, {w}; ld.global.$T %v{to}, [{w}];"));
                self.bounds[to] = 1.0;
            }
            Gather::Value(of) => {
                let (r, w, t) = (self.fresh('r'), self.fresh('w'), self.fresh('v'));
                self.line(format!("add.$T {t}, %v{of}, %v{of}; cvt.rzi.s32.$T {r}, {t};"));
                self.line(format!("and.b32 {r}, {r}, 3; xor.b32 {r}, %r4, {r};"));
                self.line(format!("mul.wide.u32 {w}, {r}, {size}; add.s64 {w}, %w0, {w};"));
                self.line(format!("ld.global.$T %v{to}, [{w}];"));
                self.bounds[to] = 1.0;
            }
            Gather::Walk => {
                let pointer =
                    self.loops.iter().rev().find_map(|frame| frame.pointer(Count::Pointer));
                let (pointer, t) = (pointer.unwrap_or("%w11").to_owned(), self.fresh('v'));
                let half = self.number(0.5);
                self.line(format!("ld.global.$T {t}, [{pointer}];"));
                self.line(format!("fma.rn.$T %v{to}, %v{to}, {half}, {t};"));
                self.bounds[to] = self.bounds[to] * 0.5 + 1.0;
            }
        }
    }

    fn local(&mut self, local: Local, array: usize, at: Index, generic: bool) {
        let space = if generic { "" } else { ".local" };
        let base = |array: usize| format!("%w{}", 30 + array + if generic { 2 } else { 0 });
        // By 64 bits, two floats are copied at once.
        if let Local::Copy { wide } = local {
            let at = match at {
                Index::Constant(at) => Index::Constant(at & 6),
                other => other,
            };
            let (r, w) = (self.index(at, CELLS), self.fresh('w'));
            if wide && !self.double {
                self.line(format!("and.b32 {r}, {r}, 6;"));
            }
            let (from, to) = (self.fresh('w'), self.fresh('w'));
            self.line(format!("mul.wide.u32 {w}, {r}, {};", self.size()));
            self.line(format!("add.s64 {from}, {}, {w};", base(array)));
            self.line(format!("add.s64 {to}, {}, {w};", base(1 - array)));
            let (kind, bits) = if wide { ('w', 64) } else { ('r', 32) };
            let q = self.fresh(kind);
            self.line(format!("ld{space}.b{bits} {q}, [{from}]; st{space}.b{bits} [{to}], {q};"));
            return;
        }
        // A pointer that runs over the array is used itself.
        let pointer = self.loops.last().and_then(|frame| frame.pointer(Count::Local));
        let place = match (at, pointer) {
            (Index::Turn(_), Some(pointer)) if array == 0 && !generic => pointer.to_owned(),
            _ => self.place(&base(array), at, CELLS, 0),
        };
        match local {
            Local::Load { to } => {
                self.line(format!("ld{space}.$T %v{to}, [{place}];"));
                self.bounds[to] = BOUND;
            }
            Local::Store { value } => self.line(format!("st{space}.$T [{place}], %v{value};")),
            Local::Update { by } => {
                let (was, f, t) = (self.fresh('v'), self.fresh('v'), self.fresh('v'));
                let [small, half, quarter] = [0.0625, 0.5, 0.25].map(|value| self.number(value));
                self.line(format!("ld{space}.$T {was}, [{place}];"));
                self.line(format!("fma.rn.$T {f}, %v{by}, {small}, {half};"));
                self.line(format!(
                    "mul.$T {t}, %v{by}, {quarter}; fma.rn.$T {t}, {was}, {f}, {t};"
                ));
                self.line(format!("st{space}.$T [{place}], {t};"));
            }
            Local::Copy { .. } => {}
        }
    }
}
