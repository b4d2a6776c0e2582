//! One line for each form of each instruction: it is taken apart, and printed as it was written.

use ptx::ir::{Op, Operand};

/// Registers by what the instructions below need of them.
const HEAD: &str = ".version 8.6
.target sm_90
.address_size 64
.func callee(.param .b32 callee_0);
.entry k()
{
.reg .pred p, q; .reg .b16 h, i; .reg .b32 r, s, t; .reg .b64 l, m; .reg .f32 f, g; .reg .f64 d, e;
.reg .b128 w; .shared .b64 bar; .param .b32 arg;
here:
";

const FORMS: &str = include_str!("samples/instructions.txt");

fn one(line: &str) -> Result<(ptx::ir::Module, Op), ptx::Error> {
    let module = ptx::parse(&format!("{HEAD}{line}\n}}"))?;
    let op = module.functions.iter().flat_map(|f| f.instrs()).next_back().map(|i| i.op.clone());
    Ok((module, op.expect("one instruction")))
}

#[test]
fn every_form_is_taken_apart_and_keeps_its_opcode() {
    let mut forms = 0;
    for line in FORMS.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let (mut module, op) = one(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(!matches!(op, Op::Other { .. }), "not taken apart: {line}");
        let printed = module.to_string();
        // The opcode with all its modifiers is what must survive; registers have other names.
        let opcode =
            |text: &str| text.trim().split([' ', ';']).next().unwrap_or_default().to_owned();
        let guard = line.starts_with('@');
        if !guard {
            let found = printed.lines().any(|text| opcode(text) == opcode(line));
            assert!(found, "{line} is printed as\n{printed}");
        }
        let mut again = ptx::parse(&printed).unwrap_or_else(|error| panic!("{line}: {error}"));
        again.forget_lines();
        module.forget_lines();
        assert_eq!(again, module, "{line} is printed as\n{printed}");
        forms += 1;
    }
    assert!(forms > 300, "only {forms} forms");
}

/// The constant that an instruction ends with.
fn constant(line: &str) -> u64 {
    let (_, op) = one(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    match op {
        Op::Mov { a: Operand::Imm(bits), .. } | Op::Binary { b: Operand::Imm(bits), .. } => bits,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn constants_have_the_bits_of_the_instructions_type() {
    assert_eq!(constant("add.s32 r, s, -1;"), 0xFFFF_FFFF);
    assert_eq!(constant("add.s64 l, m, -1;"), u64::MAX);
    assert_eq!(constant("mov.b16 h, -1;"), 0xFFFF);
    assert_eq!(constant("shl.b64 l, m, 63;"), 63);
    assert_eq!(constant("mov.f32 f, 0f7FC00001;"), 0x7FC0_0001);
    assert_eq!(constant("mov.b32 r, 0f3F800000;"), 0x3F80_0000);
    assert_eq!(constant("mov.f32 f, 1.5;"), 0x3FC0_0000);
    assert_eq!(constant("mov.f64 d, 1.5;"), 1.5f64.to_bits());
    assert_eq!(constant("mov.f64 d, 0f3F800000;"), 1f64.to_bits());
    assert_eq!(constant("mov.f32 f, -0d3FF0000000000000;"), 0xBF80_0000);
    assert_eq!(constant("mov.u32 r, WARP_SZ;"), 32);
    assert_eq!(constant("mov.u32 r, (4*3+0x10)|1;"), 29);
    assert_eq!(constant("mov.u32 r, -7/2;"), 0xFFFF_FFFD);
    assert_eq!(constant("mov.pred p, -1;"), 1);
}

#[test]
fn errors_name_the_place() {
    let cases = [
        ("add.u32 r, s, nobody;", 15, "`nobody` is not declared"),
        ("add.u32 r, s;", 13, "expected `,`, met `;`"),
        ("bra nowhere;", 5, "label `nowhere` is not defined"),
        ("ld.global.v2.u32 {r, s, t}, [l];", 18, "expected 2 elements, met 3"),
        ("call nobody, (arg);", 6, "function `nobody` is not declared"),
        ("call l, (arg);", 6, "an indirect call wants a prototype"),
        ("add.u32 r, s, 99999999999999999999;", 15, "not a number, or one too large"),
        ("@r exit;", 2, "this register is not a predicate"),
        ("fly;", 1, "unknown instruction `fly`"),
        ("mov.f32 f, 0f3F80;", 12, "not a number, or one too large"),
        ("tex.2d.v4.f32.f32 {f, f], [l];", 24, "expected `;`, met `]`"),
    ];
    for (line, column, message) in cases {
        let error = one(line).expect_err(line);
        assert_eq!((error.line, error.column), (10, column), "{line}: {error}");
        assert_eq!(error.message, message, "{line}");
        assert_eq!(error.source_line, line);
    }
}
