//! The text of a program. Bounds of variables are known where they are written, so that results are made smaller where
//! they might grow.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::loops::Frame;
use super::memory;
use super::statement::{
    CELLS, Callee, Carry, Condition, Index, Leave, Mask, Statement, VALUES, uses,
};
use super::{Program, Smooth};

/// Variables are kept within this.
pub(super) const BOUND: f64 = 4.0;

pub(super) struct Render<'a> {
    pub(super) program: &'a Program,
    pub(super) double: bool,
    pub(super) text: String,
    pub(super) bounds: [f64; VALUES],
    names: usize,
    /// The loops around what is written, the innermost last.
    pub(super) loops: Vec<Frame>,
    pub(super) callees: BTreeSet<Callee>,
    pub(super) operations: BTreeSet<&'static str>,
}

/// Returns the text of a program, and the operations that it has.
pub(super) fn render(program: &Program) -> (String, BTreeSet<&'static str>) {
    let mut render = Render {
        program,
        double: program.double,
        text: String::new(),
        bounds: [1.0; VALUES],
        names: 0,
        loops: Vec::new(),
        callees: BTreeSet::new(),
        operations: BTreeSet::new(),
    };
    render.kernel();
    let Render { text: code, names, callees, operations, double, .. } = render;
    let mut text = ".version 8.0\n.target sm_90\n.address_size 64\n\n".to_owned();
    for callee in callees {
        text.push_str(&memory::function(callee, double));
    }
    text.push_str(".visible .entry smooth(");
    for buffer in BUFFERS {
        let _ = write!(text, ".param .u64 {buffer}, ");
    }
    let bytes = if double { 24 } else { 12 };
    let _ = write!(text, ".param .align 8 .b8 scalars[{bytes}], .param .u32 trips, ");
    text.push_str(".param .u32 n)\n{\n");
    let count = names + FIRST;
    let ty = if double { "f64" } else { "f32" };
    let _ = writeln!(
        text,
        "\t.reg .pred %p<{count}>; .reg .b32 %r<{count}>; .reg .b64 %w<{count}>; .reg .{ty} %v<{count}>; .reg .f64 %d<{count}>;"
    );
    if program.has_arrays() {
        let bytes = bytes / 3 * CELLS;
        let _ = writeln!(
            text,
            "\t.local .align 16 .b8 first[{bytes}]; .local .align 16 .b8 second[{bytes}];"
        );
    }
    text.push_str(&code);
    (text, operations)
}

/// The parameters that are pointers.
const BUFFERS: [&str; 7] = ["x", "y", "z", "out", "sums", "elements", "index"];
/// Fresh registers have numbers from this.
const FIRST: usize = 99;

impl Render<'_> {
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = memory::typed(line.as_ref(), self.double);
        let _ = writeln!(self.text, "\t{line}");
    }

    pub(super) fn label(&mut self, label: impl AsRef<str>) {
        let _ = writeln!(self.text, "{}:", label.as_ref());
    }

    /// A number that no other name has.
    pub(super) fn name(&mut self) -> usize {
        self.names += 1;
        self.names
    }

    /// A fresh register: of numbers for `v`.
    pub(super) fn fresh(&mut self, kind: char) -> String {
        format!("%{kind}{}", self.name() + FIRST - 1)
    }

    pub(super) fn number(&self, value: f64) -> String {
        memory::number(value, self.double)
    }

    pub(super) fn size(&self) -> usize {
        if self.double { 8 } else { 4 }
    }

    fn kernel(&mut self) {
        let (size, element) = (self.size(), if self.double { 32 } else { 16 });
        for (at, name) in BUFFERS.iter().enumerate() {
            self.line(format!("ld.param.u64 %w{at}, [{name}]; cvta.to.global.u64 %w{at}, %w{at};"));
        }
        self.line("ld.param.u32 %r0, [n]; ld.param.u32 %r1, [trips];");
        self.line("mov.u32 %r2, %ctaid.x; mov.u32 %r9, %ntid.x; mov.u32 %r3, %tid.x;");
        self.line("mad.lo.s32 %r3, %r2, %r9, %r3; setp.ge.u32 %p0, %r3, %r0; @%p0 bra END;");
        self.line(format!("mul.wide.u32 %w10, %r3, {}; add.s64 %w11, %w0, %w10;", 4 * size));
        self.line(format!("add.s64 %w14, %w3, %w10; mul.wide.u32 %w12, %r3, {};", 2 * size));
        self.line("add.s64 %w13, %w1, %w12; add.s64 %w15, %w2, %w12;");
        self.line(format!("mul.wide.u32 %w16, %r3, {element}; add.s64 %w16, %w5, %w16;"));
        self.line("mul.wide.u32 %w17, %r3, 4; add.s64 %w18, %w6, %w17; ld.global.u32 %r4, [%w18];");
        self.line(format!("mul.wide.u32 %w19, %r4, {size}; add.s64 %w20, %w0, %w19;"));
        self.line(format!("rem.u32 %r5, %r4, {};", Smooth::SUMS));
        self.line(format!("mul.wide.u32 %w21, %r5, {size}; add.s64 %w22, %w4, %w21;"));
        self.line("and.b32 %r11, %r4, 15; and.b32 %r12, %r3, 1; setp.eq.u32 %p1, %r12, 0;");
        self.inputs();
        self.line(format!("mov.$B {}, %v0;", self.kept()));
        let body = &self.program.body;
        if self.program.has_arrays() {
            self.arrays();
        }
        self.list(body);
        self.label("STORE");
        self.finish();
        self.label("END");
        self.text.push_str("\tret;\n}\n");
    }

    /// Loads all inputs of a thread: into variables, and into a sum that is stored whatever happens to those.
    fn inputs(&mut self) {
        let size = self.size();
        if self.program.start.is_multiple_of(2) {
            if self.double {
                self.line("ld.global.v2.f64 {%v0, %v50}, [%w11]; ld.global.v2.f64 {%v51, %v1}, [%w11+16];");
            } else {
                self.line("ld.global.v4.f32 {%v0, %v50, %v51, %v1}, [%w11];");
            }
            self.line("ld.global.v2.$T {%v3, %v52}, [%w13];");
        } else {
            self.line(format!("ld.global.$T %v0, [%w11]; ld.global.$T %v1, [%w11+{}];", 3 * size));
            self.line(format!("ld.global.$T %v50, [%w11+{size}];"));
            self.line(format!("ld.global.$T %v51, [%w11+{}];", 2 * size));
            self.line(format!("ld.global.$T %v3, [%w13]; ld.global.$T %v52, [%w13+{size}];"));
        }
        self.line(format!("ld.global.$T %v53, [%w15]; ld.global.$T %v54, [%w15+{size}];"));
        self.line("ld.global.$T %v2, [%w20];");
        if self.double {
            self.line("ld.global.f64 %v4, [%w16]; ld.global.u32 %r6, [%w16+8];");
            self.line("ld.global.v2.f64 {%v5, %v55}, [%w16+16];");
        } else if self.program.start / 2 == 0 {
            self.line("ld.global.v4.b32 {%r7, %r6, %r8, %r10}, [%w16];");
            self.line("mov.b32 %v4, %r7; mov.b32 %v5, %r8; mov.b32 %v55, %r10;");
        } else {
            self.line("ld.global.f32 %v4, [%w16]; ld.global.u32 %r6, [%w16+4];");
            self.line("ld.global.f32 %v5, [%w16+8]; ld.global.f32 %v55, [%w16+12];");
        }
        self.line(format!("ld.param.$T %v6, [scalars]; ld.param.$T %v7, [scalars+{}];", 2 * size));
        self.line(format!("ld.param.$T %v56, [scalars+{size}];"));
        self.line("fma.rn.$T %v60, %v50, %v51, %v52; fma.rn.$T %v60, %v53, %v54, %v60;");
        self.line("fma.rn.$T %v60, %v55, %v56, %v60;");
        for at in 50..57 {
            self.line(format!("add.$T %v60, %v60, %v{at};"));
        }
        for at in 0..VALUES {
            self.line(format!("add.$T %v60, %v60, %v{at};"));
        }
        // What the rest of the program does matters more.
        let small = self.number(0.0625);
        self.line(format!("mul.$T %v60, %v60, {small};"));
    }

    /// Stores a sum of all variables.
    pub(super) fn finish(&mut self) {
        let (size, all) = (self.size(), self.fresh('v'));
        let mut from = "%v60".to_owned();
        for at in 0..VALUES {
            let by = self.number(0.375 + at as f64 * 0.125);
            self.line(format!("fma.rn.$T {all}, %v{at}, {by}, {from};"));
            from.clone_from(&all);
        }
        match self.program.finish {
            0 => self.line(format!("st.global.v2.$T [%w14], {{{all}, %v3}};")),
            1 => self.line(format!("st.global.$T [%w14+{size}], {all}; st.global.$T [%w14], %v1;")),
            _ => {
                // What was stored first is overwritten.
                self.line(format!(
                    "st.global.$T [%w14], %v2; st.global.v2.$T [%w14], {{%v4, {all}}};"
                ));
            }
        }
        let updates = |one: &Statement| matches!(one, Statement::InPlace { .. });
        if !self.program.body.iter().any(|one| one.any(&updates)) {
            self.line("st.global.$T [%w13], %v5;");
        }
        self.line("red.global.add.$T [%w22], %v6;");
    }

    fn list(&mut self, list: &[Statement]) {
        for statement in list {
            self.statement(statement);
        }
    }

    /// Writes statements as the body of a loop: what they write may have any value before.
    pub(super) fn turns(&mut self, list: &[Statement]) {
        let (_, written) = uses(list);
        self.forget(written);
        self.list(list);
        self.forget(written);
    }

    fn forget(&mut self, written: Mask) {
        for (at, bound) in self.bounds.iter_mut().enumerate() {
            if written & 1 << at != 0 {
                *bound = BOUND;
            }
        }
    }

    /// A predicate.
    pub(super) fn condition(&mut self, condition: Condition) -> String {
        match condition {
            Condition::Greater(a, b) => {
                let p = self.fresh('p');
                self.line(format!("setp.gt.$T {p}, %v{a}, %v{b};"));
                p
            }
            Condition::Below(a) => {
                let (p, by) = (self.fresh('p'), self.number(0.125));
                self.line(format!("setp.lt.$T {p}, %v{a}, {by};"));
                p
            }
            Condition::Turn(other) if !self.loops.is_empty() => {
                let (turn, p) = (self.turn(), self.fresh('p'));
                self.line(format!("setp.ne.s32 {p}, {turn}, {other};"));
                p
            }
            Condition::State(bit) => {
                let (r, p) = (self.fresh('r'), self.fresh('p'));
                self.line(format!("and.b32 {r}, %r11, {bit}; setp.ne.u32 {p}, {r}, 0;"));
                p
            }
            Condition::Flag => {
                // What uses it may come after another value of it.
                let (r, p) = (self.fresh('r'), self.fresh('p'));
                self.line(format!("selp.u32 {r}, 1, 0, %p1; setp.ne.u32 {p}, {r}, 0;"));
                p
            }
            Condition::Thread(_) | Condition::Turn(_) => {
                let bit = if let Condition::Thread(bit) = condition { bit } else { 1 };
                let (r, p) = (self.fresh('r'), self.fresh('p'));
                self.line(format!("and.b32 {r}, %r3, {bit}; setp.ne.u32 {p}, {r}, 0;"));
                p
            }
            Condition::Data(by) => {
                let p = self.fresh('p');
                self.line(format!("setp.gt.s32 {p}, %r6, {by};"));
                p
            }
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Set { to, op, guard } => {
                let (result, bound) = self.operation(op);
                self.set(*to, &result, bound, *guard);
            }
            Statement::Carry { carry, to, by, add } => self.carry(*carry, *to, *by, *add),
            Statement::Swap { a, b, when } => {
                let guard = when.map(|when| self.condition(when));
                let guard = guard.map_or(String::new(), |p| format!("@{p} "));
                let t = self.fresh('v');
                self.line(format!("mov.$T {t}, %v{a};"));
                self.line(format!("{guard}mov.$T %v{a}, %v{b}; {guard}mov.$T %v{b}, {t};"));
                if when.is_some() {
                    self.bounds[*a] = self.bounds[*a].max(self.bounds[*b]);
                    self.bounds[*b] = self.bounds[*a];
                } else {
                    self.bounds.swap(*a, *b);
                }
            }
            Statement::If { when, then, otherwise } => {
                self.branch(*when, then, otherwise.as_deref());
            }
            Statement::Switch { on, arms } => self.switch(*on, arms),
            Statement::Loop(inner) => self.write_loop(inner),
            Statement::State { add } => {
                self.line(format!("mad.lo.s32 %r11, %r11, 5, {add}; and.b32 %r11, %r11, 15;"));
            }
            Statement::Flag { when } => {
                let p = self.condition(*when);
                self.line(format!("xor.pred %p1, %p1, {p};"));
            }
            Statement::Keep { value } => {
                self.line(format!("mov.$B {}, %v{value};", self.kept()));
            }
            Statement::Fetch { to } => {
                self.line(format!("mov.$B %v{to}, {};", self.kept()));
                self.bounds[*to] = BOUND;
            }
            Statement::Leave { when, how } => {
                if !self.loops.is_empty() || matches!(how, Leave::Return { .. }) {
                    let p = self.condition(*when);
                    self.leave(&p, *how);
                }
            }
            Statement::Call { callee, to, a, b } => self.call(*callee, *to, *a, *b),
            _ => self.memory(statement),
        }
    }

    /// Writes a result to a variable, smaller if its bound is too large.
    pub(super) fn set(
        &mut self,
        to: usize,
        result: &str,
        bound: f64,
        guard: Option<(Condition, bool)>,
    ) {
        let (mut result, mut bound) = (result.to_owned(), bound);
        if bound > BOUND {
            let (less, by) = (self.fresh('v'), self.number(1.5 / bound));
            self.line(format!("mul.$T {less}, {result}, {by};"));
            (result, bound) = (less, 1.5);
        }
        if let Some((when, negated)) = guard {
            let (p, not) = (self.condition(when), if negated { "!" } else { "" });
            self.line(format!("@{not}{p} mov.$T %v{to}, {result};"));
            self.bounds[to] = self.bounds[to].max(bound);
        } else {
            self.line(format!("mov.$T %v{to}, {result};"));
            self.bounds[to] = bound;
        }
    }

    fn carry(&mut self, carry: Carry, to: usize, by: usize, add: usize) {
        let (small, f, t) = (self.number(0.0625), self.fresh('v'), self.fresh('v'));
        let (half, more) = (self.number(0.5), self.number(0.75));
        let quarter = self.number(0.25);
        let (was, added) = (self.bounds[to], self.bounds[add]);
        match carry {
            Carry::Product => {
                self.line(format!("fma.rn.$T {f}, %v{by}, {small}, {more};"));
                self.line(format!("mul.$T %v{to}, %v{to}, {f};"));
            }
            Carry::Affine => {
                self.line(format!("fma.rn.$T {f}, %v{by}, {small}, {half};"));
                self.line(format!("mul.$T {t}, %v{add}, {quarter};"));
                self.line(format!("fma.rn.$T %v{to}, %v{to}, {f}, {t};"));
                self.bounds[to] = was * 0.75 + added * 0.25;
            }
            Carry::Function => {
                if self.double {
                    self.line(format!("fma.rn.f64 {f}, %v{to}, %v{to}, {half};"));
                    self.line(format!("sqrt.rn.f64 {f}, {f}; div.rn.f64 {t}, %v{to}, {f};"));
                } else {
                    self.line(format!("sin.approx.f32 {t}, %v{to};"));
                }
                self.line(format!("fma.rn.$T %v{to}, %v{add}, {quarter}, {t};"));
                self.bounds[to] = 1.0 + added * 0.25;
            }
        }
    }

    /// The register without a type.
    fn kept(&self) -> &'static str {
        if self.double { "%w23" } else { "%r13" }
    }

    fn switch(&mut self, on: Index, arms: &[Vec<Statement>]) {
        let (r, label, before) = (self.index(on, arms.len()), self.name(), self.bounds);
        let labels: Vec<String> = (0..arms.len()).map(|at| format!("CASE{label}_{at}")).collect();
        let _ = writeln!(self.text, "TABLE{label}: .branchtargets {};", labels.join(", "));
        self.line(format!("brx.idx {r}, TABLE{label};"));
        let mut after = [0f64; VALUES];
        for (arm, at) in arms.iter().zip(labels) {
            self.label(at);
            self.bounds = before;
            self.list(arm);
            self.line(format!("bra.uni JOIN{label};"));
            for (bound, other) in after.iter_mut().zip(self.bounds) {
                *bound = bound.max(other);
            }
        }
        self.label(format!("JOIN{label}"));
        self.bounds = after;
    }

    fn branch(&mut self, when: Condition, then: &[Statement], otherwise: Option<&[Statement]>) {
        let p = self.condition(when);
        let (before, label) = (self.bounds, self.name());
        self.line(format!("@{p} bra ELSE{label};"));
        self.list(then);
        let mut other = before;
        if let Some(otherwise) = otherwise {
            let after = std::mem::replace(&mut self.bounds, before);
            self.line(format!("bra.uni JOIN{label};"));
            self.label(format!("ELSE{label}"));
            self.list(otherwise);
            self.label(format!("JOIN{label}"));
            other = after;
        } else {
            self.label(format!("ELSE{label}"));
        }
        for (bound, other) in self.bounds.iter_mut().zip(other) {
            *bound = bound.max(other);
        }
    }
}
