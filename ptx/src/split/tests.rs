//! Tests of splitting a text at its kernels.

use proptest::prelude::*;

use super::Parts;
use crate::ir::FunctionKind;

const HEAD: &str = "// a comment\n.version 8.0\n.target sm_75, debug\n.address_size 64\n";

fn parts(text: &str) -> Parts {
    Parts::new(format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error}"))
}

fn part(text: &str, kernel: &str) -> String {
    let part = parts(text).text_of(kernel).unwrap_or_else(|error| panic!("{error}"));
    part.unwrap_or_else(|| panic!("no kernel {kernel}"))
}

#[test]
fn a_part_has_the_head_and_what_its_kernel_refers_to() {
    let text = "
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
        .global .align 4 .u32 unused = 256;
        .global .align 1 .b8 $str[4] = {37, 100, 10};
        .global .u64 pointer = generic($str);
        .const .f32 first, second = 0f3F800000;
        .shared .align 8 .b8 block[64];
        .func (.param .b32 r) helper(.param .b32 x);
        .visible .entry outer(.param .u64 p)
        .maxntid 128, 1, 1
        { { .reg .u32 %r<3>; call (r), helper, (x); } ret; }
        .visible .entry reads() { ld.const.f32 %f1, [second]; st.shared.u8 [block], %r1; ret; }
        .weak .func (.param .b32 r) helper(.param .b32 x) { ld.global.u64 %rd1, [pointer]; ret; }
        .visible .entry prints() { call (r), vprintf, (a, b); ret; }";
    assert_eq!(parts(text).kernels().collect::<Vec<_>>(), ["outer", "reads", "prints"]);
    let outer = part(text, "outer");
    assert!(outer.starts_with(HEAD), "{outer}");
    for there in [
        ".maxntid 128",
        "pointer = generic",
        "$str[4]",
        "helper(.param .b32 x);",
        "helper(.param .b32 x) {",
    ] {
        assert!(outer.contains(there), "{there}: {outer}");
    }
    for not_there in ["unused", "vprintf", "second", "reads", "block"] {
        assert!(!outer.contains(not_there), "{not_there}: {outer}");
    }
    let reads = part(text, "reads");
    assert!(reads.contains("first, second") && reads.contains("block[64]"), "{reads}");
    assert!(!reads.contains("helper"), "{reads}");
    assert!(part(text, "prints").contains(".extern .func"));
    assert!(parts(text).text_of("helper").unwrap().is_none(), "a function is no kernel");
}

#[test]
fn a_kernel_that_is_launched_by_another_is_in_its_part() {
    let text = ".visible .entry child(); .visible .entry parent() { mov.u64 %rd1, child; ret; }
        .visible .entry child() { ret; }";
    assert_eq!(parts(text).kernels().collect::<Vec<_>>(), ["child", "parent"]);
    assert_eq!(part(text, "parent").matches("child()").count(), 2);
    assert_eq!(part(text, "child").matches("child()").count(), 2, "declared and defined");
}

#[test]
fn files_and_sections_are_in_each_part() {
    let text = ".file 1 \"a.cu\"\n.file\t2 \"b } .entry no( .cu\"\n
        .section .debug_str { .b8 65, 0 }
        .visible .entry a() { .loc 1 2 3 ret; }
        .visible .entry b() { ret; }";
    for kernel in ["a", "b"] {
        let part = part(text, kernel);
        assert!(
            part.contains("a.cu") && part.contains("b }") && part.contains(".debug_str"),
            "{part}"
        );
        assert_eq!(part.matches(".entry ").count(), 2, "one in the name of a file: {part}");
    }
}

#[test]
fn texts_that_end_early_are_errors_or_have_their_kernels() {
    let text = format!(
        "{HEAD}.global .u32 a[2] = {{1, 2}};\n.visible .entry k(.param .u64 p) {{ ld.u32 %r1, [a]; ret; }}"
    );
    for cut in 0..=text.len() {
        if let Ok(parts) = Parts::new(text[..cut].to_owned()) {
            let names: Vec<_> = parts.kernels().map(str::to_owned).collect();
            for name in &names {
                assert!(parts.text_of(name).unwrap().is_some());
            }
            assert_eq!(names.len(), usize::from(cut == text.len()), "{cut}");
        }
    }
}

proptest! {
    /// Each part of a text parses, has its kernel, and the same body as the whole text's.
    #[test]
    fn parts_keep_bodies(count in 1..6usize, uses in proptest::collection::vec((0..6usize, 0..4usize), 0..12)) {
        let mut text = HEAD.to_owned();
        for variable in 0..4 {
            text += &format!(".global .align 4 .u32 v{variable} = {variable};\n");
        }
        for kernel in 0..count {
            text += &format!(".visible .entry k{kernel}(.param .u64 k{kernel}_p)\n{{\n.reg .u32 %r<2>;\n");
            for (_, variable) in uses.iter().filter(|(of, _)| of % count == kernel) {
                text += &format!("ld.global.u32 %r1, [v{variable}];\n");
            }
            text += "ret;\n}\n";
        }
        let whole = crate::parse(&text).unwrap();
        let parts = Parts::new(text).unwrap();
        prop_assert_eq!(parts.kernels().count(), count);
        for kernel in 0..count {
            let name = format!("k{kernel}");
            let part = crate::parse(&parts.text_of(&name).unwrap().unwrap()).unwrap();
            let entries: Vec<_> =
                part.functions.iter().filter(|it| it.kind == FunctionKind::Entry).collect();
            prop_assert_eq!(entries.len(), 1);
            let same = whole.functions.iter().find(|it| it.name == name).unwrap();
            prop_assert_eq!(entries[0].instrs().len(), same.instrs().len());
            let used: std::collections::BTreeSet<usize> =
                uses.iter().filter(|(of, _)| of % count == kernel).map(|(_, variable)| *variable).collect();
            prop_assert_eq!(part.globals.len(), used.len());
        }
    }

    /// Any bytes are split or refused.
    #[test]
    fn any_text_is_split_or_refused(text in "[.a-z{}()\\[\\];,=\"/* \n]{0,80}") {
        if let Ok(parts) = Parts::new(text) {
            let names: Vec<_> = parts.kernels().map(str::to_owned).collect();
            for name in names {
                drop(parts.text_of(&name));
            }
        }
    }
}

/// Declarations that nvopencc wrote, and registers of the module, which every part needs.
#[test]
fn declarations_without_a_semicolon_and_registers_of_the_module() {
    let text = ".reg .u32 g, h<3>;
        .visible .func (.param .b32 r) f (.param .b32 i)
        .visible .entry a() { .reg .u32 x; mov.u32 h2, g; call (r), f, (i); ret; }
        .visible .func (.param .b32 r) f (.param .b32 i)
        .global .u32 unused;
        .visible .entry b() { mov.u32 g, 1; ret; }
        .func (.param .b32 r) f (.param .b32 i) { ret; }
        .func last";
    assert_eq!(parts(text).kernels().collect::<Vec<_>>(), ["a", "b"]);
    let (a, b) = (part(text, "a"), part(text, "b"));
    assert!(a.contains("h<3>") && a.contains("f (.param .b32 i) { ret; }"), "{a}");
    assert!(!a.contains("unused") && !a.contains("entry b") && !a.contains("last"), "{a}");
    assert!(b.contains("h<3>") && !b.contains(".func") && !b.contains("entry a"), "{b}");
    crate::parse(&b).unwrap_or_else(|error| panic!("{error}\n{b}"));
}
