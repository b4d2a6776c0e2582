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

/// Modifiers in an order that ptxas 13.0 takes, though it is not the manual's, and in the manual's.
const ORDERS: &[(&str, &str)] = &[
    ("vote.ballot.sync.b32 r, p, -1;", "vote.sync.ballot.b32 r, p, -1;"),
    ("vote.sync.b32.ballot r, p, -1;", "vote.sync.ballot.b32 r, p, -1;"),
    ("vote.all.sync.pred q, p, -1;", "vote.sync.all.pred q, p, -1;"),
    ("vote.any.sync.pred q, !p, -1;", "vote.sync.any.pred q, !p, -1;"),
    ("vote.uni.sync.pred q, p, -1;", "vote.sync.uni.pred q, p, -1;"),
    ("match.sync.any.b32 r, s, -1;", "match.any.sync.b32 r, s, -1;"),
    ("match.sync.all.b64 r|p, l, -1;", "match.all.sync.b64 r|p, l, -1;"),
    ("shfl.up.sync.b32 r|p, s, 1, 0, -1;", "shfl.sync.up.b32 r|p, s, 1, 0, -1;"),
    ("redux.add.sync.u32 r, s, -1;", "redux.sync.add.u32 r, s, -1;"),
    ("barrier.red.aligned.popc.u32 r, 0, p;", "barrier.red.popc.aligned.u32 r, 0, p;"),
    ("setp.u32.lt p, r, s;", "setp.lt.u32 p, r, s;"),
    ("setp.lt.u32.and p, r, s, q;", "setp.lt.and.u32 p, r, s, q;"),
    ("set.u32.eq.s32 r, s, t;", "set.eq.u32.s32 r, s, t;"),
    ("cvt.f32.rn.u32 f, r;", "cvt.rn.f32.u32 f, r;"),
    ("cvt.f32.u32.rn f, r;", "cvt.rn.f32.u32 f, r;"),
    ("fma.f32.rn f, g, g, g;", "fma.rn.f32 f, g, g, g;"),
    ("fma.ftz.rn.f32 f, g, g, g;", "fma.rn.ftz.f32 f, g, g, g;"),
    ("add.s32.sat r, s, t;", "add.sat.s32 r, s, t;"),
    ("testp.f32.finite p, f;", "testp.finite.f32 p, f;"),
    ("bmsk.b32.clamp r, s, t;", "bmsk.clamp.b32 r, s, t;"),
    ("atom.global.gpu.relaxed.add.u32 r, [l], s;", "atom.relaxed.gpu.global.add.u32 r, [l], s;"),
    ("fence.gpu.sc;", "fence.sc.gpu;"),
];

#[test]
fn modifiers_may_stand_in_any_order() {
    for (given, manual) in ORDERS {
        let (mut module, op) = one(given).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert!(!matches!(op, Op::Other { .. }), "not taken apart: {given}");
        assert_eq!(op, one(manual).expect("the manual's order").1, "{given}");
        let mut again = ptx::parse(&module.to_string()).expect("its own text");
        again.forget_lines();
        module.forget_lines();
        assert_eq!(again, module, "{given}");
    }
}

#[test]
fn words_of_one_kind_keep_their_order() {
    let (_, op) = one("cvt.u16.u32.sat h, r;").expect("from u32 to u16");
    assert_eq!(op, one("cvt.sat.u16.u32 h, r;").expect("the manual's order").1);
    assert_ne!(op, one("cvt.sat.u32.u16 r, h;").expect("the other way round").1);
    // A word that the instruction does not have is not dropped.
    for unknown in ["vote.ballot.sync.wide.b32 r, p, -1;", "vote.ballot.sync.sync.b32 r, p, -1;"] {
        let (_, op) = one(unknown).expect("kept as it is");
        let Op::Other { opcode, .. } = op else { panic!("{unknown}: {op:?}") };
        assert!(unknown.starts_with(&*opcode), "{opcode}");
    }
}
