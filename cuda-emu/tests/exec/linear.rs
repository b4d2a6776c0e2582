//! Long texts: the time to load one is in proportion to its length, whatever it has many of.

use std::hint::black_box;
use std::time::Duration;

use test_support::cost::least;
use test_support::time::Began;

use crate::device::Device;

/// Bytes of each text.
const BYTES: usize = 2 << 20;

/// Seconds of processor time that loading one may take.
const LIMIT: f64 = if cfg!(debug_assertions) { 20.0 } else { 1.0 };

/// `line` for 0, 1, 2 and so on, as many as `share` of all bytes hold.
fn many(share: f64, line: impl Fn(usize) -> String) -> String {
    let bytes = (BYTES as f64 * share) as usize;
    let mut text = String::with_capacity(bytes + 100);
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&line(number));
    }
    text
}

fn text(before: &str, params: &str, body: &str) -> String {
    format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n{before}\n.visible .entry k({params}) {{\n\
         .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n{body}\nret; }}"
    )
}

fn body(share: f64, line: impl Fn(usize) -> String) -> String {
    text("", "", &many(share, line))
}

/// The number of the line before, for chains.
fn before(n: usize) -> usize {
    n.saturating_sub(1)
}

fn texts() -> Vec<(&'static str, String)> {
    let func = |n: usize, body: &str| format!(".func f{n}() {{ {body} ret; }}\n");
    let chain = |share| {
        many(share, |n| func(n, &if n == 0 { String::new() } else { format!("call f{};", n - 1) }))
    };
    let quick = |n: usize| format!(".visible .entry k{n}() {{ call f99; ret; }}\n");
    let params = many(0.5, |n| format!(".param .b8 p{n},")) + ".param .b8 q";
    let calls_of =
        |calls: String| format!(".func f({params}) {{ ret; }} .func g() {{ {calls} ret; }}");
    let shared = |n: usize| format!(".shared .b8 s{n}[4];\n");
    vec![
        (
            "parameters",
            text("", &(many(1.0, |n| format!(".param .u64 p{n},")) + ".param .b8 q"), ""),
        ),
        ("parameters of functions", text(&calls_of(String::new()), "", "")),
        ("calls of many parameters", text(&calls_of(many(0.5, |_| "call f;\n".into())), "", "")),
        ("arguments", body(1.0, |n| format!(".param .b32 a{n};\n"))),
        ("functions", text(&many(1.0, |n| func(n, "")), "", "")),
        ("kernels", text(&many(1.0, |n| format!(".visible .entry k{n}() {{ ret; }}\n")), "", "")),
        ("a chain of calls", text(&chain(1.0), "", "call f999;")),
        ("kernels of one chain", text(&(chain(0.5) + &many(0.5, quick)), "", "")),
        (
            "kernels of indirect calls",
            text(
                &format!(
                    "{}{}.global .u64 t[] = {{ {} f0 }};{}",
                    many(0.2, |n| func(n, "")),
                    ".func last() { ret; }\n",
                    many(0.2, |n| format!("f{},", n % 99)),
                    many(0.5, |n| format!(
                        ".visible .entry k{n}() {{ .reg .b64 %a; ld.global.u64 %a, [t];\n\
                         P: .callprototype _ (); call %a, P; ret; }}\n"
                    )),
                ),
                "",
                "",
            ),
        ),
        ("aliases", {
            let one = |n| format!(".visible .func a{n}();\n.alias a{n}, f;\n");
            let aliases = many(0.5, one);
            let calls = many(0.5, |n| format!("call a{};\n", n % 1000));
            text(&format!(".func f() {{ ret; }}\n{aliases}"), "", &calls)
        }),
        ("globals", text(&many(1.0, |n| format!(".global .b32 g{n} = 5;\n")), "", "")),
        ("a chain of globals", {
            let one = |n| format!(".global .u64 g{n} = g{};\n", before(n));
            text(&(".global .u64 g0;\n".to_owned() + &many(1.0, |n| one(n + 1))), "", "")
        }),
        ("one large global", text(".global .align 8 .b8 g[12000000000];", "", "")),
        (
            "values",
            text(&format!(".global .b8 g[] = {{ {} 1 }};", many(1.0, |_| "1,".into())), "", ""),
        ),
        (
            "shared variables",
            text(&many(0.5, shared), "", &many(0.4, |n| format!("mov.u32 %r1, s{n};\n"))),
        ),
        (
            "kernels beside shared variables",
            text(
                &(many(0.5, shared)
                    + &many(0.5, |n| {
                        format!(
                            ".visible .entry k{n}() {{ .reg .u32 %r; mov.u32 %r, s{n}; ret; }}\n"
                        )
                    })),
                "",
                "",
            ),
        ),
        ("local variables", body(1.0, |n| format!(".local .b8 d{n}[2];\n"))),
        ("registers", body(1.0, |n| format!(".reg .b32 x{n}; mov.u32 x{n}, 1;\n"))),
        ("labels", body(1.0, |n| format!("L{n}: @%p1 bra L{};\n", n / 2))),
        ("loops in loops", {
            let (heads, tails) = (many(0.3, |n| format!("A{n}: add.u32 %r1, %r1, 1;\n")), 0.3);
            let count = heads.lines().count();
            let tails = many(tails, |n| format!("@%p1 bra A{};\n", (count - 1).saturating_sub(n)));
            text("", "", &(heads + &tails))
        }),
        ("a table of labels", {
            let table = format!("t: .branchtargets {} L;\n", many(0.5, |_| "L,".into()));
            text("", "", &format!("{table}{}L:", many(0.5, |_| "brx.idx %r1, t;\n".into())))
        }),
        ("blocks", body(1.0, |n| format!("{{ .reg .b32 x; mov.u32 x, {n}; }}\n"))),
        ("blocks of one name", body(1.0, |_| "{ .local .b8 x; a: bra a; }\n".into())),
        (
            "modifiers",
            text("", "", &format!("add{}.oob.f32 %r1, %r1, %r1;", many(1.0, |_| ".ftz".into()))),
        ),
        ("names of no variables", {
            let names = many(0.5, |n| format!("x{n} "));
            body(0.5, |n| format!(".local .b8 d{n};\n"))
                .replace("ret;", &format!("tex.1d {names};ret;"))
        }),
        ("operands", text("", "", &format!("tex.1d {{ {} 1 }};", many(1.0, |_| "%r1,".into())))),
        ("sums", text("", "", &format!("mov.u32 %r1, {}1;", many(1.0, |_| "1+".into())))),
        ("parentheses", text("", "", &format!("mov.u32 %r1, {}1;", many(1.0, |_| "(".into())))),
        ("signs", text("", "", &format!("mov.u32 %r1, {}1;", many(1.0, |_| "-".into())))),
        ("braces", text(&format!(".global .b8 g[2] = {};", many(1.0, |_| "{".into())), "", "")),
        (
            "a long name",
            text(&format!(".func f{}() {{ ret; }}", many(1.0, |_| "f1".into())), "", ""),
        ),
        ("digits", text(&format!(".global .b8 g = {};", many(1.0, |_| "1".into())), "", "")),
        ("lines", body(1.0, |n| format!(".loc 1 {n} 1\nadd.u32 %r1, %r1, 1;\n"))),
        ("files", text(&many(1.0, |n| format!(".file {} \"a\"\n", n + 1)), "", "")),
        (
            "sections",
            text(&format!(".section .debug {{ {} }}", many(1.0, |_| ".b8 1\n".into())), "", ""),
        ),
        ("pragmas", text(&many(1.0, |_| ".pragma \"a\";\n".into()), "", "")),
        ("instructions", body(1.0, |_| "add.u32 %r1, %r2, %r3;\n".into())),
        (
            "products",
            body(1.0, |n| format!("mul.f32 %r1, %r2, %r3; add.f32 %r{}, %r1, %r5;\n", n % 9)),
        ),
        ("constants", body(1.0, |n| format!("mov.u32 %r1, {n};\n"))),
        ("stray semicolons", body(1.0, |_| ";".into())),
        ("nothing but a comment", body(1.0, |_| "/* */".into())),
    ]
}

#[test]
fn two_megabytes_are_loaded_or_refused_within_a_second() {
    let mut device = Device::new(1);
    // Loading has one step more.
    device.info.contract = true;
    for (what, text) in texts() {
        let seconds = least(LIMIT, Duration::from_secs(20), || -> Result<f64, ()> {
            let began = Began::now();
            if let Ok(program) = device.load(&text) {
                let runs = |(_, entry)| program.refused(entry).is_none();
                black_box(program.entries().filter(|&entry| runs(entry)).count());
            }
            Ok(began.took().processor.as_secs_f64())
        });
        assert!(seconds.is_ok_and(|seconds| seconds <= LIMIT), "{what}: {seconds:?} s");
    }
}
