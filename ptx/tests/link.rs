//! Linking: what a link must keep, and what it must refuse. `cuda-emu` runs linked kernels.

use proptest::prelude::*;
use ptx::ir::{FunctionKind, Linkage};
use ptx::link::{Input, LinkError, Problem, link};

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// Links texts of the names `0.ptx`, `1.ptx`…, each with a head.
fn linked(texts: &[&str]) -> Result<String, LinkError> {
    let texts: Vec<_> = texts.iter().map(|text| format!("{HEAD}{text}")).collect();
    raw(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn raw(texts: &[&str]) -> Result<String, LinkError> {
    let names: Vec<_> = (0..texts.len()).map(|at| format!("{at}.ptx")).collect();
    let inputs = texts.iter().zip(&names).map(|(text, name)| Input { name, text });
    link(&inputs.collect::<Vec<_>>(), |name| name == "vprintf")
}

/// The link's text as a module; panics with the reason.
fn module(texts: &[&str]) -> ptx::ir::Module {
    let text = linked(texts).unwrap_or_else(|error| panic!("{error}"));
    ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn problem(texts: &[&str]) -> String {
    linked(texts).expect_err("there is a problem").to_string()
}

const CALLER: &str = ".extern .func (.param .b32 r) f (.param .b32 a);
.extern .global .align 4 .b32 counter;
.visible .entry k(.param .u64 p) {
.reg .b32 %r<3>; .reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
ld.global.u32 %r1, [counter];
{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 r;
call.uni (r), f, (a); ld.param.b32 %r2, [r]; }
st.global.u32 [%rd1], %r2; ret; }";

const CALLEE: &str = ".visible .global .align 4 .b32 counter = 7;
.visible .func (.param .b32 r) f (.param .b32 a) {
.reg .b32 %r<2>; ld.param.b32 %r1, [a]; add.s32 %r1, %r1, 1; st.param.b32 [r], %r1; ret; }";

#[test]
fn functions_and_variables_of_other_texts_are_found_in_either_order() {
    for texts in [[CALLER, CALLEE], [CALLEE, CALLER]] {
        let module = module(&texts);
        let f = module.functions.iter().find(|f| f.name == "f").expect("f");
        assert!(f.body.is_some() && f.linkage == Linkage::Visible);
        assert_eq!(module.functions.len(), 2);
        let [counter] = &module.globals[..] else { panic!("{:?}", module.globals) };
        assert_eq!(counter.linkage, Linkage::Visible);
        assert_eq!(
            counter.init.as_ref().map(|init| init.runs.clone()),
            Some(vec![(0, vec![7, 0, 0, 0])])
        );
    }
}

#[test]
fn two_texts_may_use_each_other() {
    let text = |mine: &str, other: &str| {
        format!(".extern .func {other};\n.visible .func {mine} {{ call {other}; ret; }}")
    };
    let entry = ".extern .func a; .visible .entry k() { call a; ret; }";
    let module = module(&[&text("a", "b"), &text("b", "a"), entry]);
    assert!(module.functions.iter().all(|function| function.body.is_some()));
    assert_eq!(module.functions.len(), 3);
    // Variables with each other's addresses.
    let text = |mine: &str, other: &str| {
        format!(".extern .global .u64 {other};\n.visible .global .u64 {mine}[1] = {{{other}}};")
            .replace(&format!(".u64 {other};"), &format!(".u64 {other}[1];"))
    };
    let linked = self::module(&[&text("a", "b"), &text("b", "a")]);
    assert_eq!(linked.globals.len(), 2);
    assert!(linked.globals.iter().all(|variable| variable.init.is_some()));
}

#[test]
fn own_names_are_kept_apart() {
    let text = |kernel: &str, value: u32| {
        format!(
            ".global .u32 own = {value};\n.func helper {{ .reg .u32 %r<2>; \
             ld.global.u32 %r1, [own]; ret; }}\n.visible .entry {kernel}() {{ call helper; ret; }}"
        )
    };
    let texts: Vec<_> = ["a", "b", "c"].iter().zip(1..).map(|(k, value)| text(k, value)).collect();
    let module = module(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let names: std::collections::HashSet<_> = module.globals.iter().map(|v| &v.name).collect();
    assert_eq!((names.len(), module.globals.len()), (3, 3));
    // Each kernel reaches the variable of its own text, by way of its own helper.
    let reached = ptx::variables::Reached::of_text(&module.to_string()).expect("PTX");
    for (kernel, value) in ["a", "b", "c"].iter().zip(1_u8..) {
        let found = reached.kernels.iter().find(|reach| reach.kernel == **kernel).expect("kernel");
        let [used] = &found.uses[..] else { panic!("{found:?}") };
        let name = &reached.variables[used.variable];
        let variable = module.globals.iter().find(|v| v.name == *name).expect("variable");
        let init = variable.init.as_ref().expect("a value");
        assert_eq!(init.runs[0].1[0], value, "{kernel} reaches {name}");
    }
}

#[test]
fn an_own_name_that_another_text_exports_is_renamed() {
    let own = ".global .u32 x = 1;\n.visible .entry a() { .reg .u32 %r<2>; ld.global.u32 %r1, [x]; ret; }";
    let exported = ".visible .global .u32 x = 2;\n.visible .entry b() { .reg .u32 %r<2>; ld.global.u32 %r1, [x]; ret; }";
    for texts in [[own, exported], [exported, own]] {
        let module = module(&texts);
        let value = |variable: &ptx::ir::Variable| variable.init.as_ref().unwrap().runs[0].1[0];
        let x = module.globals.iter().find(|variable| variable.name == "x").expect("x");
        assert_eq!((value(x), x.linkage), (2, Linkage::Visible));
        assert_eq!(module.globals.len(), 2);
    }
}

#[test]
fn a_strong_definition_replaces_weak_ones_and_of_weak_ones_the_first_counts() {
    let weak = |value| format!(".weak .global .u32 x = {value};\n.weak .entry k() {{ ret; }}");
    let strong = ".visible .global .u32 x = 9;";
    let value = |texts: &[&str]| {
        let module = module(texts);
        let kernels = module.functions.iter().filter(|f| f.kind == FunctionKind::Entry).count();
        assert_eq!((kernels, module.globals.len()), (1, 1));
        module.globals[0].init.as_ref().unwrap().runs[0].1[0]
    };
    assert_eq!(value(&[&weak(3), &weak(4)]), 3);
    assert_eq!(value(&[&weak(3), strong, &weak(4)]), 9);
}

#[test]
fn common_variables_and_dynamic_shared_memory_are_merged() {
    let text = |n: u32, align: u32| {
        format!(
            ".common .global .align 4 .b8 pool[{n}];\n.extern .shared .align {align} .b8 buffer[];\n\
             .visible .entry k{n}() {{ .reg .u32 %r<3>; ld.shared.u32 %r1, [buffer]; \
             ld.global.u32 %r2, [pool]; ret; }}"
        )
    };
    let module = module(&[&text(8, 4), &text(64, 16), &text(16, 8)]);
    let found = |name: &str| module.globals.iter().find(|variable| variable.name == name).unwrap();
    assert_eq!(found("pool").size(), 64);
    assert_eq!(found("buffer").align, 16);
    assert_eq!(module.globals.len(), 2);
}

#[test]
fn functions_of_the_system_stay_declared_and_unused_declarations_go() {
    let text = |kernel: &str| {
        format!(
            ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n.extern .func unused;\n\
             .extern .global .u32 nowhere;\n.visible .entry {kernel}() {{ .reg .b64 %rd<3>; \
             {{ .param .b64 a; st.param.b64 [a], %rd1; .param .b64 b; st.param.b64 [b], %rd2; .param .b32 r; \
             call.uni (r), vprintf, (a, b); }} ret; }}"
        )
    };
    let module = module(&[&text("a"), &text("b")]);
    let declared: Vec<_> = module.functions.iter().filter(|f| f.body.is_none()).collect();
    assert_eq!(declared.iter().map(|f| &f.name).collect::<Vec<_>>(), ["vprintf"]);
    assert!(module.globals.is_empty());
}

#[test]
fn line_numbers_keep_their_files() {
    let text = |file: &str, kernel: &str| {
        format!(".file 1 \"{file}\"\n.visible .entry {kernel}() {{ .loc 1 7 3\n ret; }}")
    };
    let module = module(&[&text("a.cu", "a"), &text("b.cu", "b")]);
    for function in &module.functions {
        let file = module.files.iter().find(|file| file.index == function.locs[0].file).unwrap();
        assert_eq!(file.name, format!("{}.cu", function.name));
    }
}

#[test]
fn the_newest_version_and_the_highest_architecture_count() {
    let text = |version: &str, target: &str, kernel: &str| {
        format!(
            ".version {version}\n.target {target}\n.address_size 64\n.entry {kernel}() {{ ret; }}"
        )
    };
    let head = |targets: [&str; 2]| {
        let texts = [text("7.8", targets[0], "a"), text("8.3", targets[1], "b")];
        raw(&[&texts[0], &texts[1]]).map(|text| {
            let module = ptx::parse(&text).expect("PTX");
            assert_eq!(module.version, (8, 3));
            module.targets.join(",")
        })
    };
    assert_eq!(head(["sm_75", "sm_80"]).unwrap(), "sm_80");
    assert_eq!(head(["sm_90a", "sm_80"]).unwrap(), "sm_90a");
    assert_eq!(head(["sm_75, debug", "sm_75"]).unwrap(), "sm_75,debug");
    assert_eq!(
        head(["sm_90a", "sm_100"]).unwrap_err().to_string(),
        "0.ptx is for sm_90a, which excludes sm_100 of 1.ptx"
    );
}

#[test]
fn features_of_a_family_reach_every_text_or_exclude_one_in_any_order() {
    let link = |targets: &[&str]| {
        let text = |(at, target): (usize, &&str)| {
            format!(".version 8.8\n.target {target}\n.address_size 64\n.entry k{at}() {{ ret; }}")
        };
        let texts: Vec<_> = targets.iter().enumerate().map(text).collect();
        let linked = raw(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        linked.map(|text| ptx::parse(&text).expect("PTX").targets.join(","))
    };
    for targets in [["sm_100f", "sm_103", "sm_80"], ["sm_80", "sm_103", "sm_100f"]] {
        assert_eq!(link(&targets).unwrap(), "sm_103f");
    }
    assert_eq!(link(&["sm_103a", "sm_100f"]).unwrap(), "sm_103a");
    for targets in [
        ["sm_100f", "sm_103", "sm_120"],
        ["sm_103", "sm_120", "sm_100f"],
        ["sm_120", "sm_100f", "sm_103"],
    ] {
        let error = link(&targets).unwrap_err().to_string();
        let part = "is for sm_100f, which excludes sm_120 of";
        assert!(error.contains(part) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn bad_inputs_are_named() {
    assert_eq!(raw(&[]).unwrap_err().problems, [Problem::NoInput]);
    assert_eq!(
        problem(&[CALLER]),
        "`counter` is used in 0.ptx and defined in no input\n`f` is used in 0.ptx and defined in no input"
    );
    assert_eq!(
        problem(&[CALLEE, CALLER, CALLEE]),
        "`f` is defined in 0.ptx and in 2.ptx\n`counter` is defined in 0.ptx and in 2.ptx"
    );
    let kernel = ".entry k() { ret; }";
    assert_eq!(problem(&[kernel, kernel]), "`k` is defined in 0.ptx and in 1.ptx");
    assert_eq!(
        problem(&[
            CALLER,
            &CALLEE
                .replace("(.param .b32 a)", "(.param .b64 a)")
                .replace("b32 [a]", "b64 [a]")
                .replace("b32 %r<2>", "b64 %r<2>")
                .replace("add.s32", "add.s64")
                .replace("st.param.b32", "st.param.b64")
                .replace("b32 r)", "b64 r)")
        ]),
        "`f` is a function with parameters of 8 bytes and results of 8 bytes in 1.ptx, but a function with parameters of \
         4 bytes and results of 4 bytes in 0.ptx"
    );
    assert_eq!(
        problem(&[
            CALLER,
            &CALLEE.replace(".global .align 4 .b32 counter", ".global .align 8 .b64 counter")
        ]),
        "`counter` is a variable of 8 bytes in .global in 1.ptx, but a variable of 4 bytes in .global in 0.ptx"
    );
    assert_eq!(
        problem(&[
            ".visible .func x { ret; }",
            ".extern .global .u32 x; .entry k() { .reg .u32 %r<2>; ld.global.u32 %r1, [x]; ret; }"
        ]),
        "`x` is a function without parameters in 0.ptx, but a variable of 4 bytes in .global in 1.ptx"
    );
    assert_eq!(
        problem(&[".visible .func a; .visible .func b; .alias a, b; .alias b, a;"]),
        "the alias `a` in 0.ptx leads back to itself\nthe alias `b` in 0.ptx leads back to itself"
    );
    assert!(problem(&["nonsense", CALLEE]).starts_with("0.ptx: PTX line 4"));
    assert!(raw(&["", CALLEE]).unwrap_err().to_string().starts_with("0.ptx: PTX line 1"));
}

#[test]
fn an_array_without_a_size_takes_the_definitions() {
    let uses = ".extern .global .align 4 .b8 table[];\n.visible .entry k() { .reg .u32 %r<2>; ld.global.u32 %r1, [table]; ret; }";
    let module = module(&[uses, ".visible .global .align 4 .b8 table[32];"]);
    assert_eq!(module.globals[0].size(), 32);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the texts are, the link is an error or PTX that reads.
    #[test]
    fn changed_texts_link_or_are_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"abkf.;{}%r1 x".to_vec())), 0..4),
        which in 0..2_usize,
    ) {
        let mut texts = [CALLER.as_bytes().to_vec(), CALLEE.as_bytes().to_vec()];
        for (at, byte) in changes {
            let at = at.index(texts[which].len());
            texts[which][at] = byte;
        }
        let texts = texts.map(|text| String::from_utf8(text).unwrap());
        match linked(&[&texts[0], &texts[1]]) {
            Ok(text) => prop_assert!(ptx::parse(&text).is_ok(), "{text}"),
            Err(error) => prop_assert!(!error.problems.is_empty() && !error.to_string().is_empty()),
        }
    }
}
