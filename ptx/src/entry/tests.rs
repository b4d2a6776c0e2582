//! Tests of the scan for signatures.

use proptest::prelude::*;

use super::*;

fn one(text: &str) -> Signature {
    let mut all = entries(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn layout_is_the_natural_one_of_c() {
    let s =
        one(".entry k(.param .u8 a, .param .f64 b, .param .align 16 .b8 c[20], .param .u16 d){}");
    let got: Vec<_> = s.params.iter().map(|p| (p.offset, p.size, p.align, p.class())).collect();
    let want = vec![
        (0, 1, 1, Class::Int),
        (8, 8, 8, Class::Float),
        (16, 20, 16, Class::Bytes),
        (36, 2, 2, Class::Int),
    ];
    assert_eq!(got, want);
    assert_eq!(s.param_bytes(), 38);
}

#[test]
fn linkage_comments_and_strings_do_not_confuse() {
    let text = "// .entry no1()\n/* .entry no2( */ .file 1 \"a \\\" .entry no3(\"\n\
        .weak .entry /*x*/ a // y\n ( )\n.maxntid 1\n{ mov.u32 %r1, %tid.entry; }\n.visible.entry b{ret;}";
    let names: Vec<_> = entries(text).unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn kernels_are_found_without_blanks() {
    for text in [".target sm_75.entry k(.param .u64 p) {}", ".visible.entry k(.param .u64 p) {}"] {
        assert_eq!((one(text).name.as_str(), one(text).params.len()), ("k", 1), "{text}");
    }
    assert_eq!(one(".entry%k() {}").name, "%k");
    // A function has no kernel in it, whatever is written there.
    assert_eq!(one(".entry k(.param .u64 p) { { x.entry k() } .entry k() }").params.len(), 1);
}

#[test]
fn a_pointers_own_attributes_are_not_the_parameters() {
    let s = one(".entry k(.param .u64 .ptr .global .align 1 p, .param .b32 q)");
    assert_eq!((s.params[0].align, s.params[0].size), (8, 8));
    assert_eq!(s.params[1].class(), Class::Bits);
}

#[test]
fn a_declaration_and_its_definition_are_one() {
    let s = one(".entry k(.param .u32 a);\n.entry k(.param .u32 a) { ret; }");
    assert_eq!(s.params.len(), 1);
}

#[test]
fn vectors_multi_dimensional_arrays_and_other_radices() {
    let s = one(
        ".entry k(.param .v4 .f32 a, .param .f32 b[2][0x3], .param .b8 c[010], .param .u8 d[3U])",
    );
    let got: Vec<_> = s.params.iter().map(|p| (p.offset, p.size, p.align)).collect();
    assert_eq!(got, [(0, 16, 16), (16, 24, 4), (40, 8, 1), (48, 3, 1)]);
}

#[test]
fn errors_say_where() {
    let cases = [
        ("\n  .entry k(.param .u99 a)", "PTX line 2, column 19: unexpected .u99 in a parameter"),
        (".entry", "PTX line 1, column 7: expected the kernel's name"),
        (".entry k(.param .u32 a", "PTX line 1, column 23: expected ','"),
        (".entry k(.param .u32 a[)", "PTX line 1, column 24: expected a number"),
        (
            ".entry k(.param .align 3 .b8 a)",
            "PTX line 1, column 25: an alignment is a power of two",
        ),
        (".entry k(.param a)", "PTX line 1, column 17: expected the parameter's type"),
        (
            ".entry k(.param .b64 a[0xffffffffffffffff])",
            "PTX line 1, column 16: this parameter is too large",
        ),
        ("\n/* .entry", "PTX line 2, column 1: this comment has no end"),
        (" \"abc\n", "PTX line 1, column 2: this string has no end"),
    ];
    for (text, want) in cases {
        let error = entries(text).unwrap_err().to_string();
        assert_eq!(error.lines().next(), Some(want), "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = entries(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_mix_of_its_own_tokens_is_answered_without_a_panic(
        picks in proptest::collection::vec(0_usize..22, 0..60)
    ) {
        let tokens = [
            ".entry", " k", "(", ")", ".param", " .u32", " .align ", "16", "[", "]", ",", "a", "0x",
            "/*", "*/", "//", "\n", "\"", "\\", ".ptr", " 99999999999999999999 ", "é",
        ];
        let text: String = picks.iter().map(|&i| tokens[i]).collect();
        if let Ok(found) = entries(&text) {
            for p in found.iter().flat_map(|s| &s.params) {
                prop_assert!(p.align.is_power_of_two());
                prop_assert_eq!(p.offset % p.align, 0);
            }
        }
    }
}

#[test]
fn time_is_linear_in_the_length() {
    // Each of these would take minutes if a construct were rescanned from its start.
    for piece in [".entry a(", "/* x */ ", "\"\" ", ".", "(", "%a.b.c.d "] {
        let _ = entries(&piece.repeat(200_000));
    }
    let many: String = (0..20_000).map(|i| format!(".entry k{i}(.param .u32 a);\n")).collect();
    assert_eq!(entries(&many).unwrap().len(), 20_000);
}
