//! Operations of one result.

use test_support::Rng;

use super::render::Render;
use super::statement::{Condition, Mask};

macro_rules! functions {
    ($($name:ident: $text:literal, $double:literal;)*) => {
        /// What an operation computes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Function {
            $($name,)*
        }

        impl Function {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, and whether PTX has it for `double`.
            const fn about(self) -> (&'static str, bool) {
                match self {
                    $(Self::$name => ($text, $double),)*
                }
            }
        }

        /// The names of all operations.
        pub(super) const OPERATIONS: &[&str] = &[$($text,)*];
    };
}

functions! {
    Add: "add", true;
    Sub: "sub", true;
    Mul: "mul", true;
    Fma: "fma", true;
    Mad: "mad", true;
    Div: "div", true;
    Rcp: "rcp", true;
    Sqrt: "sqrt", true;
    Rsqrt: "rsqrt", false;
    Lg2: "lg2", false;
    Ex2: "ex2", false;
    Sin: "sin", false;
    Cos: "cos", false;
    Tanh: "tanh", false;
    Neg: "neg", true;
    Abs: "abs", true;
    Min: "min", true;
    Max: "max", true;
    Copysign: "copysign", true;
    Selp: "selp", true;
    Slct: "slct", true;
    Sat: "sat", false;
    Cvt: "cvt", false;
    SignBit: "and", true;
    MoveBits: "move bits", true;
    Pack: "pack", true;
    Scale: "const", true;
}

/// An operation on variables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Op {
    function: Function,
    a: usize,
    b: usize,
    c: usize,
    /// Which of several forms.
    form: usize,
    /// A constant of the program.
    by: f64,
    when: Condition,
}

impl Op {
    pub(super) fn new(rng: &mut Rng, double: bool, [a, b, c]: [usize; 3], when: Condition) -> Self {
        let function = loop {
            let function = Function::ALL[rng.below(Function::ALL.len())];
            if function.about().1 || !double {
                break function;
            }
        };
        let by = 0.25 + rng.below(56) as f64 / 32.0;
        Self { function, a, b, c, form: rng.below(12), by, when }
    }

    /// The sum of two variables.
    pub(super) const fn add(a: usize, b: usize) -> Self {
        let when = Condition::Thread(1);
        Self { function: Function::Add, a, b, c: a, form: 0, by: 1.0, when }
    }

    pub(super) fn name(&self) -> &'static str {
        self.function.about().0
    }

    /// The variables that it may read.
    pub(super) fn reads(&self) -> Mask {
        let (a, b, c) = (1 << self.a, 1 << self.b, 1 << self.c);
        match self.function {
            Function::Add
            | Function::Sub
            | Function::Mul
            | Function::Div
            | Function::Min
            | Function::Max
            | Function::Copysign
            | Function::Selp
            | Function::Cvt
            | Function::Slct => a | b,
            Function::Fma | Function::Mad | Function::Sat | Function::Pack => a | b | c,
            _ => a,
        }
    }
}

impl Render<'_> {
    /// A register that is at least 1/2, and its bound.
    fn positive(&mut self, a: usize) -> (String, f64) {
        let to = self.fresh('v');
        let half = self.number(0.5);
        self.line(format!("fma.rn.$T {to}, %v{a}, %v{a}, {half};"));
        (to, self.bounds[a] * self.bounds[a] + 0.5)
    }

    /// Writes an operation. Returns the register of the result, and its bound.
    pub(super) fn operation(&mut self, op: &Op) -> (String, f64) {
        let &Op { function, a, b, c, form, by, when } = op;
        let (ba, bb, bc) = (self.bounds[a], self.bounds[b], self.bounds[c]);
        let rn = if form % 2 == 0 { ".rn" } else { "" };
        let single = !self.double;
        let name = op.name();
        self.operations.insert(name);
        match function {
            Function::Add | Function::Sub => {
                let d = self.fresh('v');
                self.line(format!("{name}{rn}.$T {d}, %v{a}, %v{b};"));
                (d, ba + bb)
            }
            Function::Mul => {
                let d = self.fresh('v');
                self.line(format!("mul{rn}.$T {d}, %v{a}, %v{b};"));
                (d, ba * bb)
            }
            Function::Fma | Function::Mad => {
                let d = self.fresh('v');
                self.line(format!("{name}.rn.$T {d}, %v{a}, %v{b}, %v{c};"));
                (d, ba * bb + bc)
            }
            Function::Div => {
                let (by, _) = self.positive(b);
                let form = if single { ["rn", "approx", "full"][form % 3] } else { "rn" };
                let d = self.fresh('v');
                self.line(format!("div.{form}.$T {d}, %v{a}, {by};"));
                (d, 2.0 * ba)
            }
            Function::Rcp => {
                let (by, _) = self.positive(a);
                let form = if single && form % 2 == 0 { "approx.ftz" } else { "rn" };
                let d = self.fresh('v');
                self.line(format!("rcp.{form}.$T {d}, {by};"));
                (d, 2.0)
            }
            Function::Sqrt => {
                let (by, bound) = self.positive(a);
                let form = if single && form % 2 == 0 { "approx" } else { "rn" };
                let d = self.fresh('v');
                self.line(format!("sqrt.{form}.$T {d}, {by};"));
                (d, bound.sqrt())
            }
            Function::Rsqrt | Function::Lg2 => {
                let (by, bound) = self.positive(a);
                let d = self.fresh('v');
                self.line(format!("{name}.approx.f32 {d}, {by};"));
                (d, if function == Function::Lg2 { 1.0 + bound.log2().abs() } else { 1.5 })
            }
            Function::Ex2 => {
                let (by, d) = (self.fresh('v'), self.fresh('v'));
                let half = self.number(0.5);
                self.line(format!("mul.f32 {by}, %v{a}, {half}; ex2.approx.f32 {d}, {by};"));
                (d, (ba * 0.5).exp2())
            }
            Function::Sin | Function::Cos | Function::Tanh => {
                let d = self.fresh('v');
                self.line(format!("{name}.approx.f32 {d}, %v{a};"));
                (d, 1.0)
            }
            Function::Neg | Function::Abs => {
                let d = self.fresh('v');
                self.line(format!("{name}.$T {d}, %v{a};"));
                (d, ba)
            }
            Function::Min | Function::Max => {
                let d = self.fresh('v');
                self.line(format!("{name}.$T {d}, %v{a}, %v{b};"));
                (d, ba.max(bb))
            }
            Function::Copysign => {
                let d = self.fresh('v');
                self.line(format!("copysign.$T {d}, %v{a}, %v{b};"));
                (d, bb)
            }
            Function::Sat => {
                let d = self.fresh('v');
                self.line(format!("fma.rn.sat.f32 {d}, %v{a}, %v{b}, %v{c};"));
                (d, 1.0)
            }
            Function::Scale => {
                let (d, number) = (self.fresh('v'), self.number(by));
                self.line(format!("mul{rn}.$T {d}, %v{a}, {number};"));
                (d, ba * 2.0)
            }
            Function::Selp | Function::Slct => self.choice(op),
            Function::Cvt | Function::SignBit | Function::MoveBits | Function::Pack => {
                self.bits(op, when)
            }
        }
    }

    fn choice(&mut self, op: &Op) -> (String, f64) {
        let &Op { function, a, b, c, form, when, .. } = op;
        let bound = self.bounds[a].max(self.bounds[b]);
        let single = !self.double;
        if function == Function::Slct {
            let d = self.fresh('v');
            if form % 2 == 0 {
                self.line(format!("slct.$T.s32 {d}, %v{a}, %v{b}, %r6;"));
            } else if single {
                self.line(format!("slct.f32.f32 {d}, %v{a}, %v{b}, %v{c};"));
            } else {
                let f = self.fresh('r');
                self.line(format!("sub.s32 {f}, %r3, 7; slct.f64.s32 {d}, %v{a}, %v{b}, {f};"));
            }
            return (d, bound);
        }
        if single && form % 2 == 0 {
            // An arm that is not chosen may be infinite.
            let (by, bad, d) = (self.fresh('v'), self.fresh('v'), self.fresh('v'));
            let (zero, half, p) = (self.number(0.0), self.number(0.5), self.fresh('p'));
            self.line(format!("max.f32 {by}, %v{b}, {zero}; rcp.rn.f32 {bad}, {by};"));
            self.line(format!("setp.gt.f32 {p}, %v{b}, {half}; selp.f32 {d}, {bad}, %v{a}, {p};"));
            return (d, self.bounds[a].max(2.0));
        }
        let p = self.condition(when);
        let d = self.fresh('v');
        self.line(format!("selp.$T {d}, %v{a}, %v{b}, {p};"));
        (d, bound)
    }

    /// Operations on the bits of numbers.
    fn bits(&mut self, op: &Op, when: Condition) -> (String, f64) {
        let &Op { function, a, b, c, form, .. } = op;
        let (ba, bb, bc) = (self.bounds[a], self.bounds[b], self.bounds[c]);
        let single = !self.double;
        let word = if single { 'r' } else { 'w' };
        match function {
            Function::Cvt => {
                let (one, two, d) = (self.fresh('d'), self.fresh('d'), self.fresh('v'));
                self.line(format!("cvt.f64.f32 {one}, %v{a}; cvt.f64.f32 {two}, %v{b};"));
                self.line(format!("mul.f64 {one}, {one}, {two}; cvt.rn.f32.f64 {d}, {one};"));
                (d, ba * bb)
            }
            Function::SignBit => {
                let (r, q, d) = (self.fresh(word), self.fresh(word), self.fresh('v'));
                let (op, mask) = match (form % 2 == 0, single) {
                    (true, true) => ("and", "0x7fffffff"),
                    (false, true) => ("xor", "0x80000000"),
                    (true, false) => ("and", "0x7fffffffffffffff"),
                    (false, false) => ("xor", "0x8000000000000000"),
                };
                self.line(format!("mov.$B {r}, %v{a}; {op}.$B {q}, {r}, {mask}; mov.$B {d}, {q};"));
                (d, ba)
            }
            Function::Pack if single => {
                let (w, x, r, s) =
                    (self.fresh('w'), self.fresh('w'), self.fresh('r'), self.fresh('r'));
                let (p, d, other) = (self.condition(when), self.fresh('v'), self.fresh('v'));
                self.line(format!("mov.b64 {w}, {{%v{a}, %v{b}}}; mov.b64 {x}, {{%v{c}, %v{a}}};"));
                self.line(format!("selp.b64 {w}, {w}, {x}, {p}; mov.b64 {{{r}, {s}}}, {w};"));
                self.line(format!("mov.b32 {d}, {r}; mov.b32 {other}, {s};"));
                self.line(format!("add.f32 {d}, {d}, {other};"));
                (d, ba.max(bc) + ba.max(bb))
            }
            Function::Pack => {
                let (r, s, d) = (self.fresh('r'), self.fresh('r'), self.fresh('v'));
                self.line(format!("mov.b64 {{{r}, {s}}}, %v{a}; mov.b64 {d}, {{{r}, {s}}};"));
                (d, ba)
            }
            _ => {
                let (r, d) = (self.fresh(word), self.fresh('v'));
                self.line(format!("mov.$B {r}, %v{a}; mov.$B {d}, {r};"));
                (d, ba)
            }
        }
    }
}
