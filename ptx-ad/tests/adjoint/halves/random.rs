//! Programs of 16-bit floats of the rows of `ptx-gen`'s table, and of moves of lanes, in branches and loops. Registers
//! have kinds, so each program must be differentiated, and be right. `PTX_AD_PROGRAMS` is the number of programs.

use std::collections::BTreeMap;

use ptx_ad::Real;
use test_support::Rng;

use super::inputs;
use crate::common::{Arg, Device, Failure, floats, kernel, shape};
use crate::half;
use crate::programs::count;

/// The contents of a register: the letter that its name begins with, and how many there are.
const FILES: [(char, u32); 10] = [
    ('a', 6), // f16
    ('b', 6), // bf16
    ('c', 3), // integers of 16 bits
    ('u', 5), // f16x2
    ('v', 5), // bf16x2
    ('s', 5), // f32
    ('i', 3), // integers of 32 bits
    ('x', 3), // f64
    ('y', 2), // integers of 64 bits
    ('q', 3), // predicates
];

fn file_of(ty: &str) -> Option<char> {
    Some(match ty {
        "f16" => 'a',
        "bf16" => 'b',
        "f16x2" => 'u',
        "bf16x2" => 'v',
        "f32" => 's',
        "f64" => 'x',
        "u16" | "s16" | "b16" => 'c',
        "u8" | "s8" | "u32" | "s32" | "b32" => 'i',
        "u64" | "s64" | "b64" => 'y',
        _ => return None,
    })
}

/// An instruction: its words, and the files of its results and operands.
#[derive(Debug, Clone)]
struct Form {
    row: String,
    words: String,
    operands: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Text(String),
    Result(char),
    Source(char),
}

/// Moves that the table has as those of bits. Capital letters are results.
const MOVES: [&str; 33] = [
    "mov.b32 {A, A}, u",
    "mov.b32 {B, B}, v",
    "mov.b32 U, {a, a}",
    "mov.b32 V, {b, b}",
    "mov.b16 A, a",
    "mov.b32 V, v",
    "prmt.b32 U, u, u, 0x5410",
    "prmt.b32 U, u, u, 0x7632",
    "prmt.b32 V, v, v, 0x1076",
    "prmt.b32 V, v, v, 0x3254",
    "shf.l.wrap.b32 U, u, u, 16",
    "shf.r.wrap.b32 V, v, v, 16",
    "xor.b16 A, a, 0x8000",
    "and.b16 B, b, 0x7fff",
    "xor.b32 U, u, 0x80008000",
    "xor.b32 V, v, 0x8000",
    "and.b32 U, u, 0x7fff7fff",
    "selp.b16 A, a, a, q",
    "selp.b16 B, b, b, q",
    "selp.b32 U, u, u, q",
    "selp.b32 V, v, v, q",
    "selp.f32 S, s, s, q",
    "mov.b16 A, 0x3a00",
    "mov.b16 B, 0x3f10",
    "mov.b32 U, 0x3a003c00",
    "ex2.approx.f16 A, a",
    "ex2.approx.ftz.bf16 B, b",
    "tanh.approx.f16x2 U, u",
    "tanh.approx.bf16 B, b",
    "mul.rn.f32 S, s, s",
    "add.rn.f32 S, s, s",
    "mov.b32 S, {%zero, b}",
    "slct.b32.s32 U, u, u, i",
];

/// The rows of 16-bit floats that have a derivative, or whose result is none of them.
fn rows() -> Vec<Form> {
    let mut found = Vec::new();
    for row in ptx_gen::rows() {
        let text = row.name().split(" ~").next().unwrap_or_default();
        let Some((words, operands)) = text.split_once(' ') else { continue };
        let of_halves = words.contains("f16");
        let other = ["e4m3", "e5m2", "xorsign", "oob"].iter().any(|word| words.contains(word));
        let known = ["add", "sub", "mul", "fma", "abs", "neg", "min", "max", "set", "setp", "cvt"];
        if !of_halves || other || text.contains(';') || !known.contains(&row.opcode()) {
            continue;
        }
        for words in row.instructions() {
            let types: Vec<char> = words.split('.').filter_map(file_of).collect();
            let (Some(&first), Some(&last)) = (types.first(), types.last()) else { continue };
            let mut form =
                Form { row: row.name().to_owned(), words: words.clone(), operands: Vec::new() };
            let mut text = String::new();
            for letter in operands.chars() {
                let operand = match letter {
                    'H' | 'R' | 'W' => Operand::Result(first),
                    'P' => Operand::Result('q'),
                    'q' => Operand::Source('q'),
                    'h' | 't' | 'v' | 's' | 'd' | 'e' | 'u' => Operand::Source(last),
                    other => {
                        text.push(other);
                        continue;
                    }
                };
                form.operands.push(Operand::Text(std::mem::take(&mut text)));
                form.operands.push(operand);
            }
            found.push(form);
        }
    }
    for text in MOVES {
        let (words, operands) = text.split_once(' ').expect("operands");
        let mut form = Form { row: text.to_owned(), words: words.to_owned(), operands: Vec::new() };
        let mut parts = String::new();
        let mut before = ' ';
        for letter in operands.chars() {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '%';
            let file = letter.to_ascii_lowercase();
            // `%zero` and numbers are what they are.
            if letter.is_ascii_alphabetic() && !is_name(before) {
                form.operands.push(Operand::Text(std::mem::take(&mut parts)));
                form.operands.push(match letter.is_ascii_uppercase() {
                    true => Operand::Result(file),
                    false => Operand::Source(file),
                });
            } else {
                parts.push(letter);
            }
            before = letter;
        }
        form.operands.push(Operand::Text(parts));
        found.push(form);
    }
    found
}

struct Draw<'r> {
    rng: Rng,
    forms: &'r [Form],
    text: String,
    labels: usize,
}

impl Draw<'_> {
    fn register(&mut self, file: char, result: bool) -> String {
        let count = FILES.iter().find(|(name, _)| *name == file).map_or(1, |(_, count)| *count);
        // The first of each keeps what was loaded.
        let first = u32::from(result);
        let number = first + self.rng.below((count - first) as usize) as u32;
        format!("%{file}{number}")
    }

    fn one(&mut self, form: &Form) {
        let mut line = format!("{} ", form.words);
        let mut results: Vec<String> = Vec::new();
        for operand in &form.operands {
            match operand {
                Operand::Text(text) => line += text,
                Operand::Source(file) => line += &self.register(*file, false),
                Operand::Result(file) => {
                    let mut register = self.register(*file, true);
                    while results.contains(&register) {
                        register = self.register(*file, true);
                    }
                    line += &register;
                    results.push(register);
                }
            }
        }
        self.text += &format!("{line};\n");
    }

    fn any(&mut self) -> Form {
        // Each kind of rows as often as any other: there are many comparisons.
        let kinds = ["add", "mul", "fma", "cvt", "mov", "prmt", "selp", "set", "m", ""];
        let kind = kinds[self.rng.below(kinds.len())];
        let fits = |form: &&Form| form.words.starts_with(kind);
        let all: Vec<&Form> = self.forms.iter().filter(fits).collect();
        all[self.rng.below(all.len())].clone()
    }

    fn statements(&mut self, first: &Form, depth: usize) {
        let label = self.labels;
        let (before, after) = match self.rng.below(if depth > 1 { 1 } else { 4 }) {
            0 | 1 => (String::new(), String::new()),
            2 => {
                let pred = self.register('q', false);
                self.labels += 1;
                (format!("@{pred} bra over{label};\n"), format!("over{label}:\n"))
            }
            _ => {
                self.labels += 1;
                let iterations = 1 + self.rng.below(3);
                (
                    format!("mov.u32 %turn{depth}, 0;\nagain{label}:\n"),
                    format!(
                        "add.u32 %turn{depth}, %turn{depth}, 1; setp.lt.u32 %last, %turn{depth}, {iterations};\n\
                         @%last bra again{label};\n"
                    ),
                )
            }
        };
        self.text += &before;
        self.one(first);
        for _ in 0..self.rng.below(4) {
            let form = self.any();
            if self.rng.below(8) == 0 { self.statements(&form, depth + 1) } else { self.one(&form) }
        }
        self.text += &after;
    }
}

const THREADS: usize = 64;

/// A program: 8 numbers of each type come in for each thread, and go out.
fn program(seed: u64, first: &[&Form], forms: &[Form]) -> String {
    let mut draw = Draw { rng: Rng::new(seed), forms, text: String::new(), labels: 0 };
    for form in first {
        draw.statements(form, 0);
    }
    let body = draw.text;
    let files: String = FILES
        .iter()
        .map(|(file, count)| {
            let ty = match file {
                'a' | 'b' | 'c' => "b16",
                's' => "f32",
                'x' => "f64",
                'y' => "b64",
                'q' => "pred",
                _ => "b32",
            };
            format!(".reg .{ty} %{file}<{count}>; ")
        })
        .collect();
    let address = |name: &str, at: usize, bytes: usize| {
        format!(
            "ld.param.u64 %w{at}, [{name}]; cvta.to.global.u64 %w{at}, %w{at}; mul.wide.u32 %w20, %r1, {bytes};\n\
             add.s64 %w{at}, %w{at}, %w20;\n"
        )
    };
    let mut code = format!(
        "{files} .reg .b32 %turn0, %turn1, %turn2; .reg .pred %last; .reg .b16 %zero; mov.b16 %zero, 0;\n\
         mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;\n"
    );
    for (at, (name, bytes)) in [
        ("half", 32),
        ("brain", 32),
        ("single", 16),
        ("halves", 32),
        ("brains", 32),
        ("singles", 24),
    ]
    .into_iter()
    .enumerate()
    {
        code += &address(name, at + 1, bytes);
    }
    code += "ld.global.v4.b16 {%a0, %a1, %a2, %a3}, [%w1]; ld.global.v2.b16 {%a4, %a5}, [%w1+8];\n\
             ld.global.v4.b32 {%u0, %u1, %u2, %u3}, [%w1+16]; ld.global.b32 %u4, [%w1+12];\n\
             ld.global.b64 %w10, [%w2]; mov.b64 {%b0, %b1, %b2, %b3}, %w10; ld.global.v2.b16 {%b4, %b5}, [%w2+8];\n\
             ld.global.v2.b64 {%w10, %w11}, [%w2+16]; mov.b64 {%v0, %v1}, %w10; mov.b64 {%v2, %v3}, %w11;\n\
             ld.global.b32 %v4, [%w2+12]; ld.global.v4.f32 {%s0, %s1, %s2, %s3}, [%w3];\n\
             mul.f32 %s4, %s0, %s1; cvt.f64.f32 %x0, %s0; cvt.f64.f32 %x1, %s1; cvt.f64.f32 %x2, %s2;\n\
             mov.u32 %i0, %tid.x; and.b32 %i1, %i0, 7; sub.u32 %i2, 3, %i1; cvt.u16.u32 %c0, %i0;\n\
             cvt.u16.u32 %c1, %i1; cvt.u16.u32 %c2, %i2; cvt.u64.u32 %y0, %i0; cvt.u64.u32 %y1, %i1;\n\
             setp.gt.u32 %q0, %i1, 3; setp.gt.f32 %q1, %s0, %s1; setp.gt.f32 %q2, %s2, 0f00000000;\n";
    code += &body;
    code += "st.global.v4.b16 [%w4], {%a0, %a1, %a2, %a3}; st.global.v2.b16 [%w4+8], {%a4, %a5};\n\
             st.global.v4.b32 [%w4+16], {%u0, %u1, %u2, %u3}; st.global.b32 [%w4+12], %u4;\n\
             mov.b64 %w10, {%b0, %b1, %b2, %b3}; st.global.b64 [%w5], %w10; st.global.v2.b16 [%w5+8], {%b4, %b5};\n\
             mov.b64 %w10, {%v0, %v1}; mov.b64 %w11, {%v2, %v3}; st.global.v2.b64 [%w5+16], {%w10, %w11};\n\
             st.global.b32 [%w5+12], %v4; st.global.v2.f32 [%w6], {%s0, %s1}; st.global.v2.f32 [%w6+8], {%s2, %s3};\n\
             cvt.rn.f32.f64 %f1, %x1; cvt.rn.f32.f64 %f2, %x2; add.f32 %f1, %f1, %f2; st.global.v2.f32 [%w6+16], {%s4, %f1};\n\
             ret;";
    kernel(
        ".param .u64 half, .param .u64 brain, .param .u64 single, .param .u64 halves, .param .u64 brains, .param .u64 singles",
        &code,
    )
}

fn args(seed: u64) -> [Arg; 6] {
    let values = |more: u32, each: usize| -> Vec<f32> {
        inputs(seed as u32 * 7 + more, each * THREADS).iter().map(|value| value * 0.45).collect()
    };
    [
        half::buffer(Real::F16, &values(1, 16)),
        half::buffer(Real::Bf16, &values(2, 16)),
        floats(&values(3, 4)),
        half::buffer(Real::F16, &values(4, 16)),
        half::buffer(Real::Bf16, &values(5, 16)),
        floats(&values(6, 6)),
    ]
}

/// Each row is in some program; all are differentiated, and right.
#[test]
fn rows_of_the_table() {
    let device = Device::new();
    let forms = rows();
    assert!(forms.len() > 500, "{}", forms.len());
    let total = count(300);
    let (mut worst, mut compared) = (0f64, BTreeMap::new());
    let mut wrong = Vec::new();
    for seed in 0..total {
        // All forms are dealt before one comes again.
        let each = forms.len().div_ceil(300);
        let first: Vec<&Form> =
            (0..each).map(|at| &forms[(seed as usize + at * 300) % forms.len()]).collect();
        let text = program(seed, &first, &forms);
        match device.compare(&text, "k", &args(seed), shape(2, 32), seed) {
            Ok((got, _)) if got.error.is_nan() && !got.finite => {}
            Ok((got, _)) if got.error <= 1e-6 => {
                worst = worst.max(got.error);
                for form in &first {
                    *compared.entry(form.row.clone()).or_insert(0u32) += 1;
                }
            }
            Err(Failure::Undefined(_)) => {}
            other => {
                let why = format!("{other:?}");
                wrong.push(format!("{seed}: {}\n{text}", &why[..why.len().min(400)]));
            }
        }
    }
    println!("{total} programs, right to {worst:e}");
    wrong.iter().take(2).for_each(|wrong| println!("{wrong}"));
    assert!(wrong.is_empty(), "{} of {total} are wrong", wrong.len());
    let missing: Vec<&str> = forms
        .iter()
        .map(|form| form.row.as_str())
        .filter(|row| !compared.contains_key(*row))
        .collect();
    assert!(total < 300 || missing.is_empty(), "in no program that was compared: {missing:?}");
}
