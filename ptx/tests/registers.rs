//! The registers that instructions use and define: compared with those that stand in the printed text.

use ptx::ir::{Instr, Op, Role};

/// As in `instructions.rs`.
const HEAD: &str = ".version 8.6
.target sm_90
.address_size 64
.func callee(.param .b32 callee_0);
.func (.reg .b32 result) regs(.reg .b32 regs_0, .reg .b64 regs_1);
.entry k()
{
.reg .pred p, q; .reg .b16 h, i; .reg .b32 r, s, t; .reg .b64 l, m; .reg .f32 f, g; .reg .f64 d, e;
.reg .b128 w; .shared .b64 bar; .param .b32 arg;
here:
";

const FORMS: &str = include_str!("samples/instructions.txt");

const MORE: &[&str] = &[
    "call (r), regs, (s, l);",
    "call regs, (s, l);",
    "@!p call (r), regs, (7, l);",
    "proto: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (r), l, (s), proto;",
    "targets: .branchtargets here, here; @p brx.idx r, targets;",
    "@q setp.lt.and.f32 p|q, f, g, !q;",
    "ld.global.L2::cache_hint.b32 r, [l], m;",
    "st.global.L2::cache_hint.v2.f32 [l+8], {f, g}, m;",
    "@p atom.global.add.L2::cache_hint.u32 r, [l], s, m;",
    "mov.b64 {r, _}, l;",
    "@p shfl.sync.idx.b32 r|q, s, t, 31, -1;",
];

/// Opcodes whose first operand is not a result.
const WITHOUT_RESULT: &[&str] = &[
    "st",
    "red",
    "bar.sync",
    "bar.arrive",
    "bar.warp",
    "barrier.sync",
    "barrier.arrive",
    "bra",
    "brx",
    "stmatrix",
    "wmma.store",
    "nanosleep",
    "pmevent",
    "prefetch",
    "prefetchu",
    "applypriority",
    "discard",
    "stackrestore",
    "cp",
    "mbarrier.init",
    "mbarrier.inval",
    "mbarrier.expect_tx",
    "mbarrier.complete_tx",
];

/// The registers in a text: a word with `%`, letters, digits.
fn registers(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for word in text.split('%').skip(1) {
        let letters = word.trim_start_matches('_');
        let class = letters.chars().take_while(char::is_ascii_alphabetic).count();
        let rest = &letters[class..];
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let known = ["p", "f", "fd", "rq", "rd", "rs", "rc", "r"].contains(&&letters[..class]);
        if known && digits > 0 && !rest[digits..].starts_with('_') {
            found.push(rest[..digits].parse().expect("digits"));
        }
    }
    found
}

/// Splits a printed instruction into its results and the rest, with the guard.
fn split(text: &str) -> (String, String) {
    let text = text.trim().trim_end_matches(';');
    let (guard, text) = match text.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ').expect("an instruction"),
        None => ("", text),
    };
    let (opcode, operands) = text.split_once(' ').unwrap_or((text, ""));
    let starts = |name: &str| opcode == name || opcode.starts_with(&format!("{name}."));
    if opcode.starts_with("call") {
        // Results stand in parentheses before the callee.
        let end = if operands.starts_with('(') { operands.find(')').expect("`)`") } else { 0 };
        return (operands[..end].to_owned(), format!("{guard} {}", &operands[end..]));
    }
    if WITHOUT_RESULT.iter().any(|name| starts(name)) {
        return (String::new(), format!("{guard} {operands}"));
    }
    let mut depth = 0;
    let end = operands.find(|c| {
        depth += i32::from(matches!(c, '{' | '[' | '(')) - i32::from(matches!(c, '}' | ']' | ')'));
        c == ',' && depth == 0
    });
    let (results, rest) = operands.split_at(end.unwrap_or(operands.len()));
    (results.to_owned(), format!("{guard} {rest}"))
}

fn compare(instr: &Instr, printed: &str) {
    let (results, rest) = split(printed);
    let (mut want, mut got) = ([registers(&results), registers(&rest)], [Vec::new(), Vec::new()]);
    let mut unknown = Vec::new();
    instr.for_each_register(|role, reg| match role {
        Role::Def => got[0].push(reg.0),
        Role::Use => got[1].push(reg.0),
        Role::Unknown => unknown.push(reg.0),
    });
    if matches!(instr.op, Op::Other { .. } | Op::CreatePolicy { .. }) {
        // What they do with their operands is not known.
        let mut all = [got.concat(), unknown].concat();
        let mut want = want.concat();
        all.sort_unstable();
        want.sort_unstable();
        assert_eq!(all, want, "{printed}");
    } else {
        want.iter_mut().chain(&mut got).for_each(|list| list.sort_unstable());
        assert_eq!(got, want, "{printed}");
        assert_eq!(unknown, [], "{printed}");
        let conditional = printed.trim().starts_with('@') && !want[0].is_empty();
        assert_eq!(instr.is_conditional_def(), conditional, "{printed}");
    }
    let mut copy = instr.clone();
    let mut all = Vec::new();
    copy.for_each_register_mut(|role, reg| {
        all.push((role, *reg));
        reg.0 += 100;
    });
    let (mut each, mut moved) = (Vec::new(), Vec::new());
    instr.for_each_register(|role, reg| each.push((role, reg)));
    copy.for_each_register(|role, mut reg| {
        reg.0 -= 100;
        moved.push((role, reg));
    });
    assert_eq!(all, each, "{printed}");
    assert_eq!(moved, each, "{printed}");
    let (mut uses, mut defs) = (Vec::new(), Vec::new());
    instr.for_each_use(|reg| uses.push(reg));
    instr.for_each_def(|reg| defs.push(reg));
    let of = |not: Role| each.iter().filter(move |(r, _)| *r != not).map(|(_, reg)| *reg);
    assert!(uses.into_iter().eq(of(Role::Def)), "{printed}");
    assert!(defs.into_iter().eq(of(Role::Use)), "{printed}");
}

/// Compares all instructions of a text, and returns how many there are.
fn check(text: &str) -> usize {
    let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let mut compared = 0;
    // Each function alone, as it is printed: one line an instruction, in order.
    let printed = module.to_string();
    let mut lines = printed.lines().filter(|line| {
        let line = line.trim();
        let word = line.trim_start_matches('.');
        let declares = ["reg ", "loc ", "local ", "shared ", "param ", "global ", "pragma "];
        line.ends_with(';')
            && !line.contains(": .")
            && !(line.starts_with('.') && declares.iter().any(|d| word.starts_with(d)))
            && text_is_indented(&printed, line)
    });
    for function in module.functions.iter().filter(|function| function.body.is_some()) {
        for instr in function.instrs() {
            compare(instr, lines.next().expect("a line for each instruction"));
            compared += 1;
        }
    }
    assert_eq!(lines.next(), None);
    compared
}

/// Instructions are indented; declarations outside functions are not.
fn text_is_indented(printed: &str, line: &str) -> bool {
    let at = line.as_ptr() as usize - printed.as_ptr() as usize;
    printed[..at].ends_with("    ")
}

#[test]
fn every_form_names_the_registers_of_its_text() {
    let forms = FORMS.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let mut compared = 0;
    for line in forms.chain(MORE.iter().copied()) {
        compared += check(&format!("{HEAD}{line}\n}}"));
    }
    assert!(compared > 300, "only {compared} forms");
}

#[test]
fn compiled_and_generated_texts_name_the_registers_of_their_text() {
    let mut compared = 0;
    for text in [
        include_str!("data/nvrtc_12_0.ptx"),
        include_str!("data/nvrtc_12_0_debug.ptx"),
        include_str!("data/nvrtc_13_0.ptx"),
        include_str!("data/nvrtc_13_0_debug.ptx"),
    ] {
        compared += check(text);
    }
    let programs: Vec<_> = (0..200).map(ptx_gen::Program::new).collect();
    compared += check(&ptx_gen::module(&programs, ptx_gen::Ending::Hash));
    assert!(compared > 10_000, "only {compared} instructions");
}

#[test]
fn the_roles_of_other_instructions_can_be_stated() {
    let text = format!("{HEAD}@p ad.rule.f32 f, g, f, d;\n}}");
    let mut module = ptx::parse(&text).expect("a made-up opcode");
    let kernel = module.functions.last_mut().expect("a kernel");
    let instr = &mut kernel.body.as_mut().expect("a body")[0];
    let roles = |instr: &Instr| {
        let mut roles = Vec::new();
        instr.for_each_register(|role, reg| roles.push((role, reg.0)));
        roles
    };
    let unknown = [(Role::Use, 0), (Role::Unknown, 1), (Role::Unknown, 2), (Role::Unknown, 1)];
    assert_eq!(roles(instr)[..4], unknown);
    instr.op.set_results(1);
    assert_eq!(
        roles(instr),
        [(Role::Use, 0), (Role::Def, 1), (Role::Use, 2), (Role::Use, 1), (Role::Use, 3)]
    );
    assert!(instr.is_conditional_def());
    instr.op.set_results(0);
    assert!(!instr.is_conditional_def());
    let printed = module.to_string();
    assert!(printed.contains("@%p0 ad.rule.f32 %f1 , %f2 , %f1 , %fd3;"), "{printed}");
}
