//! Multiplications and additions that do not name their rounding.

use std::fmt::Write;

use crate::text::THREADS;
use test_support::Rng;

/// How the instructions of [`Pairs`] are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `mul` and `add`, of which ptxas makes what it likes.
    Bare,
    /// `mul.rn` and `add.rn`: both are rounded.
    Apart,
    /// `fma.rn`
    Fused,
}

/// The use of a product.
#[derive(Debug, Clone, Copy)]
enum Sum {
    /// `a * b + c`
    Add,
    /// `a * b - c`
    Less,
    /// `c - a * b`
    From,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    ty: &'static str,
    ftz: bool,
    /// The product is clamped, and so not fused.
    clamps: bool,
    sat: bool,
    sum: Sum,
    /// Words of the inputs.
    a: usize,
    b: usize,
    c: usize,
}

/// The instructions that pairs are made of, by their words.
pub(crate) const BARE: &[&str] =
    &["{add|sub|mul}{|.ftz}{|.sat}.{f32|f16|f16x2}", "{add|sub|mul}.{f64|bf16|bf16x2}"];

/// A program of pairs of a multiplication and an addition. Each thread writes a word for each pair, so
/// that fusing by ptxas can be detected for each.
#[derive(Debug, Clone)]
pub struct Pairs {
    /// The seed.
    pub seed: u64,
    pairs: Vec<Pair>,
}

const TYPES: [&str; 6] = ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2"];

impl Pairs {
    /// Pairs of a program: words that each thread writes.
    pub const COUNT: usize = 8;
    /// How many programs there must be for each instruction to be in at least 20.
    pub const ROUND: u64 = 300;

    /// The program of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xba4e_ba4e);
        let pairs = (0..Self::COUNT).map(|_| {
            let ty = TYPES[rng.below(TYPES.len())];
            let mut word = || rng.below(8);
            let (a, b, c) = (word(), word(), word());
            let sum = [Sum::Add, Sum::Less, Sum::From][rng.below(3)];
            // Those of bf16 and f64 take neither modifier.
            let takes = ty == "f32" || ty.starts_with("f16");
            let (ftz, sat) = (takes && rng.below(2) == 0, takes && rng.below(2) == 0);
            let clamps = takes && rng.below(6) == 0;
            Pair { ty, ftz, clamps, sat, sum, a, b, c }
        });
        Self { seed, pairs: pairs.collect() }
    }

    /// The kernel's name.
    #[must_use]
    pub fn kernel_name(&self) -> String {
        format!("pairs_{}", self.seed)
    }

    /// A module of programs.
    #[must_use]
    pub fn module(programs: &[Self], form: Form) -> String {
        let mut text = ".version 8.0\n.target sm_90\n.address_size 64\n".to_owned();
        for program in programs {
            program.kernel(form, &mut text);
        }
        text
    }

    fn kernel(&self, form: Form, text: &mut String) {
        let mut line = |line: String| {
            // A string takes all that is written to it.
            let _ = writeln!(text, "{line}");
        };
        line(format!(
            "\n.visible .entry {}(.param .u64 inputs, .param .u64 results, .param .u64 scratch, \
             .param .u32 place, .param .u32 trips)\n{{",
            self.kernel_name()
        ));
        line(BEGIN.to_owned());
        line(format!("\tmad.lo.u32 %thread, %place, {THREADS}, %thread;"));
        line(format!("\tmad.wide.u32 %out, %thread, {}, %out;", Self::COUNT * 8));
        for (at, pair) in self.pairs.iter().enumerate() {
            for one in pair.lines(at, form) {
                line(format!("\t{one};"));
            }
            line(format!("\tst.global.b64 [%out+{}], %word;", at * 8));
        }
        line("\tret;\n}".to_owned());
    }
}

const BEGIN: &str = "	.reg .b16 %ha<8>, %hb<8>, %hc<8>, %hp<8>, %hd<8>;
	.reg .b32 %ra<8>, %rb<8>, %rc<8>, %rp<8>, %rd<8>, %thread, %block, %dim, %place;
	.reg .b64 %da<8>, %db<8>, %dc<8>, %dp<8>, %dd<8>, %in, %out, %word;
	.reg .pred %q;
	mov.u32 %thread, %tid.x;
	mov.u32 %block, %ctaid.x;
	mov.u32 %dim, %ntid.x;
	mad.lo.u32 %thread, %block, %dim, %thread;
	ld.param.u32 %place, [place];
	ld.param.u64 %in, [inputs];
	cvta.to.global.u64 %in, %in;
	mad.wide.u32 %in, %thread, 64, %in;
	ld.param.u64 %out, [results];
	cvta.to.global.u64 %out, %out;";

impl Pair {
    fn lines(&self, at: usize, form: Form) -> Vec<String> {
        let Self { ty, sum, .. } = *self;
        let (bits, letter) = match ty {
            "f64" => (64, 'd'),
            "f16" | "bf16" => (16, 'h'),
            _ => (32, 'r'),
        };
        let ftz = if self.ftz { ".ftz" } else { "" };
        let clamp = |clamps: bool| if clamps { ".sat" } else { "" };
        let (clamps, sat) = (clamp(self.clamps), clamp(self.sat));
        let register = |name: char| format!("%{letter}{name}{at}");
        let [a, b, c, p, d] = ['a', 'b', 'c', 'p', 'd'].map(register);
        let mut lines: Vec<_> = [(&a, self.a), (&b, self.b), (&c, self.c)]
            .iter()
            .map(|(to, word)| format!("ld.global.b{bits} {to}, [%in+{}]", word * 8))
            .collect();
        match form {
            Form::Fused if !self.clamps => {
                let negated = match sum {
                    Sum::Add => None,
                    Sum::Less => Some(&c),
                    Sum::From => Some(&a),
                };
                if let Some(operand) = negated {
                    // The sign bit alone, of a NaN too.
                    let sign = match ty {
                        "f64" => "0x8000000000000000",
                        "f16" | "bf16" => "0x8000",
                        "f32" => "0x80000000",
                        _ => "0x80008000",
                    };
                    lines.push(format!("xor.b{bits} {operand}, {operand}, {sign}"));
                }
                lines.push(format!("fma.rn{ftz}{sat}.{ty} {d}, {a}, {b}, {c}"));
            }
            _ => {
                let rn = if form == Form::Bare { "" } else { ".rn" };
                lines.push(format!("mul{rn}{ftz}{clamps}.{ty} {p}, {a}, {b}"));
                let (op, first, second) = match sum {
                    Sum::Add => ("add", &p, &c),
                    Sum::Less => ("sub", &p, &c),
                    Sum::From => ("sub", &c, &p),
                };
                lines.push(format!("{op}{rn}{ftz}{sat}.{ty} {d}, {first}, {second}"));
            }
        }
        if ty == "f64" {
            // The NaN of the result is undefined.
            lines.push(format!("setp.nan.f64 %q, {d}, {d}"));
            lines.push(format!("selp.b64 {d}, 0x7ff8000000000000, {d}, %q"));
        }
        lines.push(match bits {
            64 => format!("mov.b64 %word, {d}"),
            32 => format!("cvt.u64.u32 %word, {d}"),
            _ => format!("cvt.u64.u16 %word, {d}"),
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::expand;

    #[test]
    fn each_instruction_is_in_enough_programs() {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for seed in 0..Pairs::ROUND {
            let text = Pairs::module(&[Pairs::new(seed)], Form::Bare);
            let words = text.lines().filter_map(|line| line.trim().split(' ').next());
            for word in words.collect::<BTreeSet<_>>() {
                *counts.entry(word.to_owned()).or_default() += 1;
            }
        }
        for words in BARE.iter().flat_map(|line| expand(line)) {
            let count = counts.get(&words).copied().unwrap_or(0);
            assert!(count >= 20, "{count} programs have {words}");
        }
    }

    #[test]
    fn forms_say_what_is_rounded() {
        let programs: Vec<_> = (0..50).map(Pairs::new).collect();
        let [bare, apart, fused] =
            [Form::Bare, Form::Apart, Form::Fused].map(|form| Pairs::module(&programs, form));
        assert!(!bare.contains(".rn") && !bare.contains("fma"));
        assert!(apart.contains("mul.rn.f64") && !apart.contains("fma"));
        assert!(fused.contains("fma.rn.f64") && !fused.contains("mul.rn.f64"));
    }
}
