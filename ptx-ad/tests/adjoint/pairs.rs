//! Doubles whose halves are exchanged, chosen and joined separately.

use ptx_ad::{Reason, differentiate, parse};

use crate::common::{Arg, Device, Failure, doubles, kernel, shape, spec, word};

const THREADS: u32 = 64;

/// A kernel `k(x, out, n)`: loads `x[i]` to `%d1`, and stores `%d9` to `out[i]` after the code. `%d2` is the square of
/// `%d1`, and `%p1` whether `n` is less than 3. The halves of `%d1` are in `%r10` and `%r11`, those of `%d2` in `%r12` and
/// `%r13`.
fn text(code: &str) -> String {
    kernel(
        ".param .u64 x, .param .u64 out, .param .u32 n",
        &format!(
            "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x;\n\
             mul.wide.u32 %w3, %r1, 8; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3;\n\
             ld.global.f64 %d1, [%w4]; mul.f64 %d2, %d1, %d1; setp.lt.u32 %p1, %r9, 3;\n\
             mov.b64 {{%r10, %r11}}, %d1; mov.b64 {{%r12, %r13}}, %d2;\n\
             {code}\nst.global.f64 [%w5], %d9; ret;"
        ),
    )
}

fn args(n: u32) -> [Arg; 3] {
    let values = |from: f64| {
        doubles(&(0..THREADS).map(|at| from + f64::from(at) / 64.0).collect::<Vec<_>>())
    };
    [values(0.5), values(1.0), word(n)]
}

/// Compares the adjoint with tangents, for both sides of each branch on `n`.
#[track_caller]
fn right(code: &str) {
    for n in [1, 2, 5] {
        let text = text(code);
        match Device::new().compare(&text, "k", &args(n), shape(1, THREADS), 11) {
            Ok((compared, adjoint)) => {
                assert!(compared.error <= 1e-13, "{code}: {:e}\n{}", compared.error, adjoint.text);
                assert!(compared.magnitude > 0.1, "nothing was compared: {code}");
            }
            Err(Failure::Refused(refused)) => panic!("{code}: {refused}"),
            Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{code}: {why}"),
        }
    }
}

#[track_caller]
fn refused(code: &str) {
    let text = text(code);
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let error = match differentiate(&module, &spec("k", &args(1))) {
        Ok(adjoint) => panic!("{code}: accepted\n{}", adjoint.text),
        Err(error) => error,
    };
    let is_known = error.refusals.iter().any(|refusal| refusal.reason == Reason::Bits);
    assert!(is_known, "{code}: {error}");
}

/// Exchanges the halves in two registers.
fn exchanged(low: &str, high: &str, by: &str) -> String {
    [low, high].map(|half| format!("shfl.sync.{by}, -1; ").replace('_', half)).concat()
}

fn down(low: &str, high: &str) -> String {
    exchanged(low, high, "down.b32 _, _, 1, 31")
}

/// Two sides of a branch that write the same registers.
fn branch(then: &str, otherwise: &str) -> String {
    format!("@%p1 bra THEN;\n{otherwise} bra JOIN;\nTHEN: {then}\nJOIN: ")
}

#[test]
fn halves_meet_after_a_branch() {
    let both = "mov.b64 %d9, {%r10, %r11};";
    for code in [
        // Exchanged on one side, on both sides, and before the branch.
        branch(&down("%r10", "%r11"), "") + both,
        branch(&down("%r10", "%r11"), &exchanged("%r10", "%r11", "bfly.b32 _, _, 3, 31")) + both,
        down("%r10", "%r11") + &branch("mov.b32 %r10, %r12; mov.b32 %r11, %r13;", "") + both,
        // The halves of a constant on one side, and a double that is not active.
        branch(&down("%r10", "%r11"), "mov.b32 %r10, 0; mov.b32 %r11, 0x3ff80000;") + both,
        "ld.param.u32 %r20, [n]; cvt.rn.f64.u32 %d3, %r20;".to_owned()
            + &branch(&down("%r10", "%r11"), "mov.b64 {%r10, %r11}, %d3;")
            + both,
        // Two doubles, of which one side exchanges the places.
        branch(
            "mov.b32 %r5, %r10; mov.b32 %r10, %r12; mov.b32 %r12, %r5; \
             mov.b32 %r6, %r11; mov.b32 %r11, %r13; mov.b32 %r13, %r6;",
            "",
        ) + "mov.b64 %d3, {%r10, %r11}; mov.b64 %d4, {%r12, %r13}; fma.rn.f64 %d9, %d3, %d3, %d4;",
        // Exchanged after the branch, too.
        branch("mov.b32 %r10, %r12; mov.b32 %r11, %r13;", "") + &down("%r10", "%r11") + both,
        // The upper half alone decides.
        branch(&down("%r10", "%r11"), "")
            + "setp.gt.s32 %p2, %r11, 0x3ff00000; mov.b64 %d3, {%r10, %r11}; mul.f64 %d4, %d3, %d3; \
               selp.f64 %d9, %d3, %d4, %p2;",
        // Nothing reads the lower half.
        branch(&down("%r10", "%r11"), "")
            + "and.b32 %r5, %r11, 0x80000000; setp.eq.s32 %p2, %r5, 0; selp.f64 %d9, %d1, %d2, %p2;",
    ] {
        right(&code);
        right(&format!("{code} mul.f64 %d9, %d9, %d9;"));
    }
}

#[test]
fn halves_are_chosen() {
    let choice = |pred: &str| {
        format!(
            "setp.lt.u32 %p2, %r1, 20; setp.lt.u32 %p3, %r1, 21; selp.b32 %r5, %r10, %r12, %p2; \
             selp.b32 %r6, %r11, %r13, {pred}; mov.b64 %d9, {{%r5, %r6}};"
        )
    };
    right(&choice("%p2"));
    right(&choice("%p2").replace("%r12", "0").replace("%r13", "0x3ff80000"));
    refused(&choice("%p3"));
    refused(&choice("%p2").replace("%r11, %r13", "%r13, %r11"));
    refused(&choice("%p2").replace("%r13", "0x3ff80000"));
    let by_sign = "slct.b32.s32 %r5, %r10, %r12, %r1; slct.b32.s32 %r6, %r11, %r13, %r1; \
        mov.b64 %d9, {%r5, %r6};";
    right(by_sign);
    refused(&by_sign.replacen("%r1;", "%r9;", 1));
}

#[test]
fn loops_carry_halves() {
    let repeat = |start: &str, each: &str, end: &str| {
        format!(
            "{start} mov.u32 %r20, 0;\nTOP: {each} add.u32 %r20, %r20, 1; setp.lt.u32 %p2, %r20, %r9; \
             @%p2 bra TOP;\n{end}"
        )
    };
    let add =
        "mov.b64 %d3, {%r10, %r11}; fma.rn.f64 %d3, %d3, %d1, %d2; mov.b64 {%r10, %r11}, %d3;";
    let constant = "mov.b32 %r10, 0; mov.b32 %r11, 0x3ff80000;";
    let start = format!("{constant} mov.b32 %r12, 0; mov.b32 %r13, 0x3ff80000;");
    let other =
        "mov.b64 %d4, {%r12, %r13}; fma.rn.f64 %d4, %d4, %d2, %d1; mov.b64 {%r12, %r13}, %d4;";
    let both = "mov.b64 %d9, {%r10, %r11};";
    let swap = |a: &str, b: &str| format!("mov.b32 %r5, {a}; mov.b32 {a}, {b}; mov.b32 {b}, %r5;");
    let two =
        "mov.b64 %d3, {%r10, %r11}; mov.b64 %d4, {%r12, %r13}; fma.rn.f64 %d9, %d3, %d3, %d4;";
    for code in [
        repeat("", &down("%r10", "%r11"), both),
        repeat("", &(add.to_owned() + &down("%r10", "%r11")), both),
        repeat(constant, &(down("%r10", "%r11") + add), both),
        // Two that start as the same constant, and are exchanged in each iteration.
        repeat(&start, &format!("{add} {} {}", swap("%r10", "%r12"), swap("%r11", "%r13")), two),
        repeat(&start, &format!("{add} {other}"), two),
        // A branch in the loop, and a loop in the loop.
        repeat(
            "",
            &(branch("mov.b32 %r10, %r12; mov.b32 %r11, %r13;", &down("%r10", "%r11")) + add),
            both,
        ),
        repeat(
            constant,
            &format!(
                "mov.u32 %r21, 0;\nINNER: {add} {} add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, 2; \
                 @%p3 bra INNER;\n",
                down("%r10", "%r11")
            ),
            both,
        ),
    ] {
        right(&code);
    }
    for code in [
        // Two that start as the same constant, of which the lower halves alone are exchanged in each iteration.
        repeat(&start, &format!("{add} {other} {}", swap("%r10", "%r12")), two),
        // Two that start as the same constant, and change differently: the halves of both, in the loop and after it.
        repeat(
            &start,
            &format!("mov.b64 %d9, {{%r10, %r13}}; add.f64 %d9, %d9, %d1; {add} {other}"),
            "",
        ),
        repeat(
            &start,
            &format!("{add} {other}"),
            "mov.b64 %d9, {%r10, %r13}; add.f64 %d9, %d9, %d1;",
        ),
        // The lower half of the iteration before.
        repeat(
            "mov.b32 %r14, %r10;",
            &format!("mov.b32 %r15, %r14; mov.b32 %r14, %r10; {add}"),
            "mov.b64 %d9, {%r15, %r11};",
        ),
    ] {
        refused(&code);
    }
}

/// Numbers that a loop passes on from register to register, from the same constant. Too many are refused.
#[test]
fn loops_pass_numbers_on() {
    let code = |count: u32| {
        let all = |line: &dyn Fn(u32) -> String| (0..count).map(line).collect::<String>();
        format!(
            ".reg .b32 %l<{count}>, %u<{count}>; {} mov.u32 %r20, 0;\n\
             TOP: mov.b64 %d3, {{%l0, %u0}}; fma.rn.f64 %d3, %d3, %d1, %d2; {}\n\
             mov.b64 {{%l{last}, %u{last}}}, %d3; add.u32 %r20, %r20, 1; setp.lt.u32 %p2, %r20, %r9; @%p2 bra TOP;\n\
             mov.b64 %d3, {{%l{last}, %u{last}}}; mov.b64 %d4, {{%l2, %u2}}; fma.rn.f64 %d9, %d3, %d3, %d4;",
            all(&|at| format!("mov.b32 %l{at}, 0; mov.b32 %u{at}, 0x3ff80000;")),
            all(&|at| match at + 1 {
                next if next < count =>
                    format!("mov.b32 %l{at}, %l{next}; mov.b32 %u{at}, %u{next};"),
                _ => String::new(),
            }),
            last = count - 1,
        )
    };
    right(&code(4));
    right(&code(40));
    refused(&code(100));
}

#[test]
fn halves_of_two_numbers_meet() {
    let both = "mov.b64 %d9, {%r10, %r11};";
    for (code, also) in [
        // Those of two numbers on one side, and one that only one side changes.
        (branch("mov.b32 %r11, %r13;", ""), both),
        (branch("mov.b32 %r11, %r13;", "mov.b32 %r10, %r12; mov.b32 %r11, %r13;"), both),
        (branch("mov.b32 %r10, %r12;", "mov.b32 %r11, %r13;"), both),
        (branch("mov.b32 %r11, 0x3ff80000;", ""), both),
        (branch("mov.b32 %r10, 0; mov.b32 %r11, %r13;", ""), both),
        // The same numbers from the other sides.
        (
            branch(
                "mov.b32 %r5, %r12; mov.b32 %r6, %r11;",
                "mov.b32 %r5, %r10; mov.b32 %r6, %r13;",
            ),
            "mov.b64 %d9, {%r5, %r6};",
        ),
        // Halves that change places, on one side and on both.
        (branch("mov.b32 %r5, %r10; mov.b32 %r10, %r11; mov.b32 %r11, %r5;", ""), both),
        (branch("mov.b32 %r10, %r12; mov.b32 %r11, %r13;", ""), "mov.b64 %d9, {%r11, %r10};"),
        // One half is exchanged, or both differently, or from different threads.
        (branch("shfl.sync.down.b32 %r11, %r11, 1, 31, -1;", ""), both),
        (
            branch(
                "shfl.sync.down.b32 %r10, %r10, 1, 31, -1; shfl.sync.up.b32 %r11, %r11, 1, 0, -1;",
                "",
            ),
            both,
        ),
        (
            branch(
                "shfl.sync.down.b32 %r10, %r10, 1, 31, -1; shfl.sync.down.b32 %r11, %r11, 2, 31, -1;",
                "",
            ),
            both,
        ),
        // Each is exchanged before it is known that they differ.
        (branch("mov.b32 %r11, %r13;", "") + &down("%r10", "%r11"), both),
    ] {
        refused(&(code.clone() + also));
        refused(&format!("{code} {also} fma.rn.f64 %d9, %d9, %d9, %d1;"));
    }
}

/// One half is joined in another block than the other, though each side has the halves of one number.
#[test]
fn halves_meet_in_different_blocks() {
    let joins = |first: &str, second: &str| {
        format!(
            "setp.lt.u32 %p2, %r9, 4; mov.b32 %r5, %r10; mov.b32 %r6, %r11;\n\
             @%p1 bra A; {first} A: @%p2 bra B; {second} B: mov.b64 %d9, {{%r5, %r6}};"
        )
    };
    refused(&joins("mov.b32 %r5, %r12;", "mov.b32 %r6, %r13;"));
    right(&joins("mov.b32 %r5, %r12; mov.b32 %r6, %r13;", ""));
    right(&joins("", "mov.b32 %r5, %r12; mov.b32 %r6, %r13;"));
}
