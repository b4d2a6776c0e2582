//! Time in proportion to the text: texts of about two megabytes, each of many of one thing, through every function.

use std::fmt::Write;
use std::time::{Duration, Instant};

use ptx::link::{Input, link};

/// Many times what the slowest case takes, and a small part of what any of them takes if its time grows with the square.
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Bytes of a text.
const BYTES: usize = 2_000_000;

/// Returns pieces, as many as fit into the text.
fn many(piece: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0.. {
        let next = piece(i);
        if text.len() + next.len() > BYTES {
            break;
        }
        text += &next;
    }
    text
}

/// Returns a kernel with these declarations and instructions.
fn kernel(body: &str) -> String {
    format!(".visible .entry k(.param .u64 p) {{\n{body}\nret; }}\n")
}

/// Texts of many of one thing.
fn texts() -> Vec<(&'static str, String)> {
    let mut chain = ".func f0() { ret; }\n".to_owned();
    chain += &many(|i| format!(".func f{}() {{ call f{i}; ret; }}\n", i + 1));
    let all = |name: &str, count: usize, end: &str| {
        let mut list = String::new();
        for i in 0..count {
            let _ = write!(list, "{}{name}{i}{end}", if i == 0 { "" } else { ", " });
        }
        list
    };
    let targets = format!(
        "ts: .branchtargets {};\n.reg .u32 %r1;\nbrx.idx %r1, ts;\n{}",
        all("l", 60_000, ""),
        many(|i| format!("l{i}: ret;\n")).lines().take(60_000).collect::<Vec<_>>().join("\n")
    );
    vec![
        ("functions that call each other", chain),
        ("functions", many(|i| format!(".func f{i}() {{ ret; }}\n"))),
        ("kernels", many(|i| format!(".visible .entry k{i}(.param .u64 p) {{ ret; }}\n"))),
        ("declarations", many(|i| format!(".extern .func f{i}();\n"))),
        ("declarations of one name", format!("{}{}", many(|_| ".extern .func f();\n".to_owned()), kernel("call f;"))),
        ("parameters", format!(".entry k({}) {{ ret; }}\n", all(".param .u64 p", 100_000, ""))),
        (
            "parameters in registers",
            format!(".func k({}) {{ ret; }}\n", all(".reg .u64 p", 100_000, "")),
        ),
        ("variables", many(|i| format!(".global .u32 v{i};\n"))),
        (
            "addresses",
            format!(
                ".global .u32 a;\n{}",
                many(|i| format!(".global .u64 v{i} = {};\n", if i == 0 { "a".into() } else { format!("v{}", i - 1) }))
            ),
        ),
        ("elements", format!(".global .u32 t[] = {{{}}};\n", all("", 300_000, ""))),
        (
            "aliases",
            format!(
                ".func f() {{ ret; }}\n{}",
                many(|i| format!(".extern .func a{i}();\n.alias a{i}, {};\n", if i == 0 { "f".into() } else { format!("a{}", i - 1) }))
            ),
        ),
        ("branches", kernel(&many(|i| format!("bra l{i};\nl{i}:\n")))),
        ("labels of one place", kernel(&format!("bra l0;\n{}", many(|i| format!("l{i}:\n"))))),
        ("targets", kernel(&targets)),
        ("blocks", kernel(&many(|i| format!("{{ .reg .u32 %a; mov.u32 %a, {i}; bra end; }}\n"))).replace("\nret;", "\nend: ret;")),
        ("registers", kernel(&many(|i| format!(".reg .u32 %r{i}; mov.u32 %r{i}, 1;\n")))),
        ("local variables", kernel(&many(|i| format!(".local .u32 v{i}; frob.u32 v{i};\n")))),
        ("hidden variables", kernel(&many(|i| format!("{{ .local .u32 v; frob.u32 v; }}\nfrob.u32 w{i};\n")))),
        ("unknown words", kernel(&format!(".local .b8 a[4];\n{}", many(|i| format!(".local .u32 v{i}; frob.u32 w{i};\n"))))),
        ("instructions", kernel(&format!(".reg .u32 %r<3>;\n{}", many(|_| "add.u32 %r1, %r2, %r1;\n".to_owned())))),
        ("prototypes", kernel(&many(|i| format!("p{i}: .callprototype _ (.param .u64 _);\n")))),
        ("places", format!(".file 1 \"a.cu\"\n{}", kernel(&many(|i| format!(".loc 1 {} 1\nbar.sync 0;\n", i + 1))))),
        (
            "inlined places",
            format!(
                ".file 1 \"a.cu\"\n{}",
                kernel(&format!(
                    ".loc 1 1 1\nbar.sync 0;\n{}{}",
                    many(|i| format!(
                        ".loc 1 {} 1, function_name $L, inlined_at 1 {} 1\n",
                        i + 2,
                        i + 1
                    )).lines().take(20_000).map(|line| format!("{line}\n")).collect::<String>(),
                    "bar.sync 0;\n.loc 1 1 1\nbar.sync 0;\n.loc 1 20001 1, function_name $L, inlined_at 1 20000 1\n"
                        .repeat(5_000)
                ))
            ),
        ),
        ("files", many(|i| format!(".file {} \"a\"\n", i + 1))),
        ("pragmas", many(|_| ".pragma \"a\";\n".to_owned())),
        ("sections", many(|_| ".section .debug_str { .b8 1 }\n".to_owned())),
        ("a name of bars", format!(".global .u32 %{};\n{}", "_".repeat(BYTES / 2), kernel("bar.sync 0;"))),
        ("names of bars", many(|i| format!(".func %{}{i}() {{ ret; }}\n", "_".repeat(i % 2000)))),
        ("an open comment", format!("{}/*", kernel("bar.sync 0;"))),
        ("comments", format!("{}{}", many(|_| "/*/ */ // /*\n".to_owned()), kernel("bar.sync 0;"))),
        ("wrong words", many(|_| "f ".to_owned())),
        ("commas", format!(".entry k(.param .u64 p) {{ mov {}; }}", ",".repeat(BYTES))),
        ("brackets", format!(".entry k(.param .u64 p) {{ mov {}; }}", "[".repeat(BYTES))),
        ("signs", format!(".entry k(.param .u64 p) {{ .reg .u32 %a; mov.u32 %a, {}1; }}", "-".repeat(BYTES))),
    ]
}

/// Runs one function, and returns how long it took if that was too long.
fn timed(slow: &mut Vec<String>, what: &str, run: impl FnOnce()) {
    let begin = Instant::now();
    run();
    let took = begin.elapsed();
    if std::env::var_os("PTX_LINEAR").is_some() {
        println!("{what}: {took:?}");
    }
    if took > LIMIT {
        slow.push(format!("{what}: {took:?}"));
    }
}

#[test]
fn texts_of_many_things_take_time_in_proportion() {
    let mut slow = Vec::new();
    let only = std::env::var("PTX_LINEAR").unwrap_or_default();
    for (what, text) in texts() {
        if !what.contains(&only) {
            continue;
        }
        let text = format!("{HEAD}{text}");
        let mut parsed = None;
        timed(&mut slow, &format!("{what}: parse"), || parsed = ptx::parse(&text).ok());
        if let Some(module) = &parsed {
            timed(&mut slow, &format!("{what}: print"), || drop(module.to_string()));
            timed(&mut slow, &format!("{what}: flow"), || {
                for function in &module.functions {
                    let cfg = ptx::cfg::Cfg::new(module, function);
                    assert!(cfg.predecessors().len() == cfg.blocks.len());
                }
            });
            timed(&mut slow, &format!("{what}: simplify"), || {
                for function in module.functions.iter().filter(|function| function.body.is_some()) {
                    let function = ptx::simplify::branch_guards(module, function);
                    let function = ptx::simplify::branch_tables(module, &function);
                    let function = ptx::simplify::remove_unreachable(module, &function);
                    let function = ptx::simplify::single_exit(module, &function);
                    drop(ptx::simplify::split_critical_edges(module, &function));
                }
            });
        }
        timed(&mut slow, &format!("{what}: kernels"), || drop(ptx::entries(&text)));
        timed(&mut slow, &format!("{what}: globals"), || drop(ptx::globals(&text)));
        timed(&mut slow, &format!("{what}: variables"), || {
            drop(ptx::variables::Reached::of_text(&text));
        });
        timed(&mut slow, &format!("{what}: split"), || {
            if let Ok(parts) = ptx::Parts::new(text.clone()) {
                let first = parts.kernels().next().map(str::to_owned);
                drop(first.map(|kernel| parts.text_of(&kernel)));
            }
        });
        timed(&mut slow, &format!("{what}: link"), || {
            let input = |name| Input { name, text: &text };
            drop(link(&[input("a.ptx"), input("b.ptx")], |_| false));
        });
    }
    // One name in many texts.
    let text = format!("{HEAD}.func f() {{ ret; }}\n.global .u32 v;\n");
    let inputs: Vec<_> = (0..20_000).map(|_| Input { name: "a.ptx", text: &text }).collect();
    timed(&mut slow, "many inputs: link", || drop(link(&inputs, |_| false)));
    for name in ["N", "P", "S_", "I", "_Z1f", "_ZN1f"] {
        let name = format!("_Z1f{}", name.repeat(BYTES / name.len()));
        timed(&mut slow, "a mangled name", || {
            drop(ptx::mangled::parameters(&name));
            drop(ptx::mangled::variable(&name));
        });
    }
    assert!(slow.is_empty(), "slow: {slow:#?}");
}
