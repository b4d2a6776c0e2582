//! Random differentiable programs: acyclic ones of `float` or `double`, with bounded values.
//!
//! Each register has a bound that its value keeps on every path, so that no result is infinite and no rounding large:
//! arguments of `div`, `rcp`, `rsqrt`, `lg2` and `sqrt` are at least 1/2. All inputs reach an output.

use std::collections::BTreeSet;
use std::fmt::Write;

use test_support::Rng;

/// Registers that statements read and write.
const VALUES: usize = 8;
/// Values are kept below this.
const BOUND: f64 = 4.0;
/// How deep branches lie in each other.
const DEPTH: usize = 3;

/// A kernel `smooth(x, y, out, sums, elements, index, scalars, n)` in a module of its own. With T the type of numbers:
/// x has 4 n numbers, y (updated) and out (overwritten) 2 n, sums (added to) [`Smooth::SUMS`]. `elements` has n
/// structures `{ T a; int n; [4 bytes if T is double] T b; T c; }`, padded to 16 or 32 bytes. `index` has n numbers below
/// 4 n, `scalars` is a structure of 3 T, and n a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smooth {
    /// The PTX.
    pub text: String,
    /// Whether the numbers are `double`.
    pub double: bool,
    /// The constructs that it has: operations by their names in PTX, and others.
    pub constructs: BTreeSet<&'static str>,
}

impl Smooth {
    /// The cells of `sums`.
    pub const SUMS: usize = 5;
    /// All constructs that programs are made of. Of these, `sat` and `cvt` are in programs of `float` alone, and so are
    /// the functions that PTX has for `float` alone.
    pub const CONSTRUCTS: [&'static str; 38] = [
        "abs", "add", "and", "atomic", "branch", "const", "copysign", "cos", "cvt", "div", "else", "ex2", "fma",
        "gather", "guard", "in place", "lg2", "load vector", "mad", "max", "member", "min", "mov", "move bits",
        "mul", "neg", "pack", "rcp", "return", "rsqrt", "sat", "scalar", "selp", "sin", "slct", "sqrt", "sub",
        "tanh",
    ];

    /// The program of a seed: of `double` if it is odd.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut draw = Draw {
            rng: Rng::new(seed ^ 0x5300_7400),
            double: seed % 2 == 1,
            text: String::new(),
            bounds: [0.0; VALUES],
            names: 0,
            constructs: BTreeSet::new(),
        };
        draw.kernel();
        let Draw { double, text, constructs, .. } = draw;
        Self { text, double, constructs }
    }
}

struct Draw {
    rng: Rng,
    double: bool,
    text: String,
    bounds: [f64; VALUES],
    names: usize,
    constructs: BTreeSet<&'static str>,
}

impl Draw {
    fn line(&mut self, line: impl AsRef<str>) {
        let ty = if self.double { "f64" } else { "f32" };
        let bits = if self.double { "b64" } else { "b32" };
        let line = line.as_ref().replace("$T", ty).replace("$B", bits);
        let _ = writeln!(self.text, "\t{line}");
    }

    fn has(&mut self, construct: &'static str) {
        self.constructs.insert(construct);
    }

    /// A fresh register: of numbers for `v`.
    fn fresh(&mut self, kind: char) -> String {
        self.names += 1;
        format!("%{kind}{}", self.names + 99)
    }

    fn number(&self, value: f64) -> String {
        if self.double {
            format!("0d{:016X}", value.to_bits())
        } else {
            format!("0f{:08X}", (value as f32).to_bits())
        }
    }

    /// A random register.
    fn pick(&mut self) -> usize {
        self.rng.below(VALUES)
    }

    /// A number in 1/4..2, which may be a constant of the program.
    fn constant(&mut self) -> f64 {
        0.25 + self.rng.below(56) as f64 / 32.0
    }

    fn kernel(&mut self) {
        let (size, element) = if self.double { (8, 32) } else { (4, 16) };
        self.text.push_str(".version 8.0\n.target sm_90\n.address_size 64\n\n");
        self.text.push_str(".visible .entry smooth(.param .u64 x, .param .u64 y, .param .u64 out, .param .u64 sums, ");
        let _ = write!(
            self.text,
            ".param .u64 elements, .param .u64 index, .param .align 8 .b8 scalars[{}], .param .u32 n)\n{{\n",
            3 * size
        );
        self.line(".reg .pred %p<999>; .reg .b32 %r<999>; .reg .b64 %w<999>; .reg .$T %v<999>; .reg .f64 %d<999>;");
        for (at, name) in ["x", "y", "out", "sums", "elements", "index"].iter().enumerate() {
            self.line(format!("ld.param.u64 %w{at}, [{name}];"));
            self.line(format!("cvta.to.global.u64 %w{at}, %w{at};"));
        }
        self.line("ld.param.u32 %r0, [n]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;");
        self.line("mad.lo.s32 %r3, %r1, %r2, %r3; setp.ge.u32 %p0, %r3, %r0; @%p0 bra END;");
        self.line(format!("mul.wide.u32 %w10, %r3, {}; add.s64 %w11, %w0, %w10;", 4 * size));
        self.line(format!("mul.wide.u32 %w12, %r3, {}; add.s64 %w13, %w1, %w12; add.s64 %w14, %w2, %w12;", 2 * size));
        self.line(format!("mul.wide.u32 %w15, %r3, {element}; add.s64 %w16, %w4, %w15;"));
        self.line("mul.wide.u32 %w17, %r3, 4; add.s64 %w18, %w5, %w17; ld.global.u32 %r4, [%w18];");
        self.line(format!("mul.wide.u32 %w19, %r4, {size}; add.s64 %w20, %w0, %w19;"));
        self.line(format!("rem.u32 %r5, %r4, {}; mul.wide.u32 %w21, %r5, {size}; add.s64 %w22, %w3, %w21;", Smooth::SUMS));

        // Eight values from all inputs.
        for at in 0..VALUES {
            self.bounds[at] = 1.0;
        }
        if self.rng.below(2) == 0 {
            self.has("load vector");
            if self.double {
                self.line("ld.global.v2.f64 {%v0, %v1}, [%w11+16];");
            } else {
                self.line("ld.global.v4.f32 {%v0, %v60, %v1, %v61}, [%w11];");
            }
        } else {
            self.line(format!("ld.global.$T %v0, [%w11]; ld.global.$T %v1, [%w11+{}];", 3 * size));
        }
        self.has("gather");
        self.line("ld.global.$T %v2, [%w20];");
        self.has("in place");
        self.line("ld.global.$T %v3, [%w13];");
        self.has("member");
        if self.double {
            self.line("ld.global.f64 %v4, [%w16]; ld.global.u32 %r6, [%w16+8]; ld.global.f64 %v5, [%w16+16];");
        } else {
            self.line("ld.global.v4.b32 {%r7, %r6, %r8, %r9}, [%w16]; mov.b32 %v4, %r7; mov.b32 %v5, %r9;");
        }
        self.has("scalar");
        self.line(format!("ld.param.$T %v6, [scalars]; ld.param.$T %v7, [scalars+{}];", 2 * size));
        // Whatever happens to them, their sum reaches the output.
        self.line("add.$T %v50, %v0, %v1;");
        for at in 2..VALUES {
            self.line(format!("add.$T %v50, %v50, %v{at};"));
        }
        for _ in 0..8 + self.rng.below(25) {
            self.statement(0);
        }
        if self.rng.below(3) == 0 {
            self.has("return");
            let p = self.condition();
            self.line(format!("@{p} bra STORE;"));
            // Those that go on change what is stored.
            let before = self.bounds;
            for _ in 0..3 {
                self.statement(1);
            }
            self.join(&before);
            self.line("STORE:");
        }
        for at in 0..VALUES {
            let by = self.constant();
            let by = self.number(by);
            self.line(format!("fma.rn.$T %v50, %v{at}, {by}, %v50;"));
        }
        match self.rng.below(3) {
            0 => self.line("st.global.v2.$T [%w14], {%v50, %v3};"),
            1 => self.line(format!("st.global.$T [%w14+{size}], %v50; st.global.$T [%w14], %v1;")),
            _ => {
                // What was stored first is overwritten.
                self.line("st.global.$T [%w14], %v2; st.global.v2.$T [%w14], {%v4, %v50};");
            }
        }
        self.line("st.global.$T [%w13], %v5;");
        self.has("atomic");
        self.line("red.global.add.$T [%w22], %v6;");
        self.text.push_str("END:\n\tret;\n}\n");
    }

    fn join(&mut self, other: &[f64; VALUES]) {
        for (bound, other) in self.bounds.iter_mut().zip(other) {
            *bound = bound.max(*other);
        }
    }

    /// A predicate: of values, of bits, or of the thread.
    fn condition(&mut self) -> String {
        let (p, a, b) = (self.fresh('p'), self.pick(), self.pick());
        match self.rng.below(4) {
            0 => self.line(format!("setp.gt.$T {p}, %v{a}, %v{b};")),
            1 => {
                let by = self.number(0.125);
                self.line(format!("setp.lt.$T {p}, %v{a}, {by};"));
            }
            2 => {
                let (r, bit) = (self.fresh('r'), 1 << self.rng.below(4));
                self.line(format!("and.b32 {r}, %r3, {bit}; setp.ne.u32 {p}, {r}, 0;"));
            }
            _ => {
                let by = self.rng.below(4);
                self.line(format!("setp.gt.s32 {p}, %r6, {by};"));
            }
        }
        p
    }

    fn statement(&mut self, depth: usize) {
        if depth < DEPTH && self.rng.below(9) == 0 {
            let p = self.condition();
            let before = self.bounds;
            self.names += 1;
            let label = self.names;
            self.has("branch");
            self.line(format!("@{p} bra ELSE{label};"));
            for _ in 0..1 + self.rng.below(4) {
                self.statement(depth + 1);
            }
            let then = self.bounds;
            if self.rng.below(2) == 0 {
                self.has("else");
                self.line(format!("bra.uni JOIN{label};"));
                self.line(format!("ELSE{label}:"));
                self.bounds = before;
                for _ in 0..1 + self.rng.below(4) {
                    self.statement(depth + 1);
                }
                self.line(format!("JOIN{label}:"));
                self.join(&then);
            } else {
                self.line(format!("ELSE{label}:"));
                self.join(&before);
            }
            return;
        }
        if self.rng.below(12) == 0 {
            self.memory();
            return;
        }
        let (result, bound) = self.operation();
        let (result, bound) = if bound > BOUND {
            let (less, by) = (self.fresh('v'), self.number(1.5 / bound));
            self.has("const");
            self.line(format!("mul.$T {less}, {result}, {by};"));
            (less, 1.5)
        } else {
            (result, bound)
        };
        let to = self.pick();
        if self.rng.below(8) == 0 {
            let p = self.condition();
            let not = if self.rng.below(2) == 0 { "!" } else { "" };
            self.has("guard");
            self.line(format!("@{not}{p} mov.$T %v{to}, {result};"));
            self.bounds[to] = self.bounds[to].max(bound);
        } else {
            self.has("mov");
            self.line(format!("mov.$T %v{to}, {result};"));
            self.bounds[to] = bound;
        }
    }

    /// A sum in memory, or a number from there.
    fn memory(&mut self) {
        let a = self.pick();
        if self.rng.below(2) == 0 {
            self.has("atomic");
            self.line(format!("red.global.add.$T [%w22], %v{a};"));
        } else {
            let size = if self.double { 8 } else { 4 };
            self.has("gather");
            let (w, r) = (self.fresh('w'), self.fresh('r'));
            self.line(format!("xor.b32 {r}, %r4, 1; mul.wide.u32 {w}, {r}, {size}; add.s64 {w}, %w0, {w};"));
            self.line(format!("ld.global.$T %v{a}, [{w}];"));
            self.bounds[a] = 1.0;
        }
    }

    /// A register that is at least 1/2, and its bound.
    fn positive(&mut self) -> (String, f64) {
        let (a, to) = (self.pick(), self.fresh('v'));
        let half = self.number(0.5);
        self.line(format!("fma.rn.$T {to}, %v{a}, %v{a}, {half};"));
        (to, self.bounds[a] * self.bounds[a] + 0.5)
    }

    /// The register of a result, and its bound.
    fn operation(&mut self) -> (String, f64) {
        let (a, b, c) = (self.pick(), self.pick(), self.pick());
        let (ba, bb, bc) = (self.bounds[a], self.bounds[b], self.bounds[c]);
        let d = self.fresh('v');
        let rn = if self.rng.below(2) == 0 { ".rn" } else { "" };
        let single = !self.double;
        let what = self.rng.below(30);
        match what {
            0 | 1 => {
                let op = ["add", "sub"][what];
                self.has(op);
                self.line(format!("{op}{rn}.$T {d}, %v{a}, %v{b};"));
                (d, ba + bb)
            }
            2 => {
                self.has("mul");
                self.line(format!("mul{rn}.$T {d}, %v{a}, %v{b};"));
                (d, ba * bb)
            }
            3 | 4 => {
                let op = ["fma", "mad"][what - 3];
                self.has(op);
                self.line(format!("{op}.rn.$T {d}, %v{a}, %v{b}, %v{c};"));
                (d, ba * bb + bc)
            }
            5 | 6 => {
                let (by, _) = self.positive();
                let form = if self.double { "rn" } else { ["rn", "approx", "full"][self.rng.below(3)] };
                self.has("div");
                self.line(format!("div.{form}.$T {d}, %v{a}, {by};"));
                (d, 2.0 * ba)
            }
            7 => {
                let (by, _) = self.positive();
                let form = if single && self.rng.below(2) == 0 { "approx.ftz" } else { "rn" };
                self.has("rcp");
                self.line(format!("rcp.{form}.$T {d}, {by};"));
                (d, 2.0)
            }
            8 => {
                let (by, bound) = self.positive();
                let form = if single && self.rng.below(2) == 0 { "approx" } else { "rn" };
                self.has("sqrt");
                self.line(format!("sqrt.{form}.$T {d}, {by};"));
                (d, bound.sqrt())
            }
            9 if single => {
                let (by, _) = self.positive();
                self.has("rsqrt");
                self.line(format!("rsqrt.approx.f32 {d}, {by};"));
                (d, 1.5)
            }
            10 if single => {
                let (by, bound) = self.positive();
                self.has("lg2");
                self.line(format!("lg2.approx.f32 {d}, {by};"));
                (d, 1.0 + bound.log2().abs())
            }
            11 if single => {
                let by = self.fresh('v');
                let half = self.number(0.5);
                self.has("ex2");
                self.line(format!("mul.f32 {by}, %v{a}, {half}; ex2.approx.f32 {d}, {by};"));
                (d, (ba * 0.5).exp2())
            }
            12..=14 if single => {
                let op = ["sin", "cos", "tanh"][what - 12];
                self.has(op);
                self.line(format!("{op}.approx.f32 {d}, %v{a};"));
                (d, 1.0)
            }
            15 | 16 => {
                let op = ["neg", "abs"][what - 15];
                self.has(op);
                self.line(format!("{op}.$T {d}, %v{a};"));
                (d, ba)
            }
            17 | 18 => {
                let op = ["min", "max"][what - 17];
                self.has(op);
                self.line(format!("{op}.$T {d}, %v{a}, %v{b};"));
                (d, ba.max(bb))
            }
            19 => {
                self.has("copysign");
                self.line(format!("copysign.$T {d}, %v{a}, %v{b};"));
                (d, bb)
            }
            20 | 21 => {
                let p = self.condition();
                self.has("selp");
                // An arm that is not chosen may be infinite.
                let bad = self.fresh('v');
                let zero = self.number(0.0);
                if single && self.rng.below(2) == 0 {
                    let by = self.fresh('v');
                    let none = self.fresh('p');
                    self.line(format!("max.f32 {by}, %v{b}, {zero}; rcp.rn.f32 {bad}, {by}; setp.gt.f32 {none}, %v{b}, 0f3F000000;"));
                    self.line(format!("selp.f32 {d}, {bad}, %v{a}, {none};"));
                    return (d, ba.max(2.0));
                }
                self.line(format!("selp.$T {d}, %v{a}, %v{b}, {p};"));
                (d, ba.max(bb))
            }
            22 => {
                self.has("slct");
                if self.rng.below(2) == 0 {
                    self.line(format!("slct.$T.s32 {d}, %v{a}, %v{b}, %r6;"));
                } else if single {
                    self.line(format!("slct.f32.f32 {d}, %v{a}, %v{b}, %v{c};"));
                } else {
                    let f = self.fresh('r');
                    self.line(format!("sub.s32 {f}, %r3, 7; slct.f64.s32 {d}, %v{a}, %v{b}, {f};"));
                }
                (d, ba.max(bb))
            }
            23 if single => {
                self.has("sat");
                self.line(format!("fma.rn.sat.f32 {d}, %v{a}, %v{b}, %v{c};"));
                (d, 1.0)
            }
            24 if single => {
                let (one, two) = (self.fresh('d'), self.fresh('d'));
                self.has("cvt");
                self.line(format!("cvt.f64.f32 {one}, %v{a}; cvt.f64.f32 {two}, %v{b}; mul.f64 {one}, {one}, {two};"));
                self.line(format!("cvt.rn.f32.f64 {d}, {one};"));
                (d, ba * bb)
            }
            25 => {
                self.has("and");
                let (r, q) = if single { (self.fresh('r'), self.fresh('r')) } else { (self.fresh('w'), self.fresh('w')) };
                let (op, mask) = match (self.rng.below(2), single) {
                    (0, true) => ("and", "0x7fffffff"),
                    (_, true) => ("xor", "0x80000000"),
                    (0, false) => ("and", "0x7fffffffffffffff"),
                    (_, false) => ("xor", "0x8000000000000000"),
                };
                self.line(format!("mov.$B {r}, %v{a}; {op}.$B {q}, {r}, {mask}; mov.$B {d}, {q};"));
                (d, ba)
            }
            26 => {
                let r = self.fresh(if single { 'r' } else { 'w' });
                self.has("move bits");
                self.line(format!("mov.$B {r}, %v{a}; mov.$B {d}, {r};"));
                (d, ba)
            }
            27 | 28 => {
                self.has("pack");
                let (w, x, r) = (self.fresh('w'), self.fresh('w'), self.fresh('r'));
                let s = self.fresh('r');
                if single {
                    let (other, p) = (self.fresh('v'), self.condition());
                    self.line(format!("mov.b64 {w}, {{%v{a}, %v{b}}}; mov.b64 {x}, {{%v{c}, %v{a}}}; selp.b64 {w}, {w}, {x}, {p};"));
                    self.line(format!("mov.b64 {{{r}, {s}}}, {w}; mov.b32 {d}, {r}; mov.b32 {other}, {s}; add.f32 {d}, {d}, {other};"));
                    (d, ba.max(bc) + ba.max(bb))
                } else {
                    self.line(format!("mov.b64 {{{r}, {s}}}, %v{a}; mov.b64 {d}, {{{r}, {s}}};"));
                    (d, ba)
                }
            }
            _ => {
                let by = self.constant();
                let by = self.number(by);
                self.has("const");
                self.line(format!("mul{rn}.$T {d}, %v{a}, {by};"));
                (d, ba * 2.0)
            }
        }
    }
}
