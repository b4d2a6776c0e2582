//! Hostile texts: for any bytes the parser returns a result, quickly and in little memory.

use proptest::prelude::*;

const TEXTS: [&str; 4] = [
    include_str!("samples/grammar.ptx"),
    include_str!("data/nvrtc_12_0.ptx"),
    include_str!("data/nvrtc_12_0_debug.ptx"),
    include_str!("data/nvrtc_13_0_debug.ptx"),
];

/// Reads `text`; what can be read must print and read as the same module, and have a graph.
fn check(text: &str) {
    let mut module = match ptx::parse(text) {
        Ok(module) => module,
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.lines().count() + 1, "{error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let printed = module.to_string();
    let mut again = match ptx::parse(&printed) {
        Ok(again) => again,
        Err(error) => panic!("{error}\nread from\n{text}\nprinted as\n{printed}"),
    };
    let mut formed = module.clone();
    for (at, function) in module.functions.iter().enumerate() {
        let graph = ptx::cfg::Cfg::new(&module, function);
        assert_eq!(graph.block_of.len(), function.instrs().len());
        formed.functions[at] = ptx::simplify::single_exit(&module, function);
        if let Ok(ssa) = ptx::ssa::Ssa::new(&module, &formed.functions[at]) {
            assert_eq!(ssa.verify(), Ok(()), "read from\n{text}");
            formed.functions[at] = ssa.into_function();
        }
    }
    for (at, _) in (0..).zip(&module.functions) {
        let id = ptx::ir::FunctionId(at);
        let Ok(flat) = ptx::inline::inline(&module, id) else { continue };
        if let Ok(ssa) = ptx::ssa::Ssa::new(&module, &flat) {
            assert_eq!(ssa.verify(), Ok(()), "read from\n{text}");
            if at % 2 == 0 {
                formed.functions[id.index()] = ssa.into_function();
            }
        }
    }
    let formed = formed.to_string();
    if let Err(error) = ptx::parse(&formed) {
        panic!("{error}\nread from\n{text}\nformed as\n{formed}");
    }
    module.forget_lines();
    again.forget_lines();
    assert!(again == module, "read from\n{text}\nprinted as\n{printed}");
}

/// Splits into words, numbers, blanks and single marks.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
        let end = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_words_of_the_language_get_an_answer(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
        of in 0..TEXTS.len(),
    ) {
        let words = tokens(TEXTS[of]);
        let body: Vec<&str> = picks.iter().map(|pick| *pick.get(&words)).collect();
        let body = body.join(" ");
        check(&body);
        check(&format!(".version 8.0\n.target sm_90\n.address_size 64\n{body}"));
        check(&format!(".version 8.0 .target sm_90 .entry k() {{ .reg .b32 %r<9>; {body} }}"));
    }

    #[test]
    fn a_text_with_flipped_bytes_gets_an_answer(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        of in 0..TEXTS.len(),
    ) {
        let mut bytes = TEXTS[of].as_bytes().to_vec();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_text_with_moved_words_gets_an_answer(
        edits in prop::collection::vec((0..3u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
        of in 0..TEXTS.len(),
    ) {
        let mut words = tokens(TEXTS[of]);
        for (edit, at, other) in edits {
            let (at, other) = (at.index(words.len()), other.index(words.len()));
            match edit {
                0 => { words.remove(at); }
                1 => words.insert(at, words[other]),
                _ => words.swap(at, other),
            }
        }
        check(&words.concat());
    }
}

#[test]
fn a_text_cut_anywhere_gets_an_answer() {
    for text in TEXTS {
        for (at, _) in text.match_indices([' ', '\n', ',']) {
            check(&text[..at]);
        }
    }
}

/// A kernel with this body.
fn kernel(body: &str) -> String {
    format!(".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{\n{body}\n}}")
}

/// In an instruction that is kept as it was written, a name of a block that has ended is undeclared.
#[test]
fn names_of_ended_blocks_are_not_declared() {
    let text = kernel(
        ".reg .f32 %f<5>; .reg .b64 %rd<2>; { .param .b32 gone; }
         tex.2d.v4.f32.f32 gone {%f1, %f2, %f3, %f4}, [%rd1, {%f0, %f0}];",
    );
    let error = ptx::parse(&text).expect_err("refused").message;
    assert!(error.contains("`gone` is not declared here"), "{error}");
    check(&text.replace(" gone {", " {"));
}

#[test]
fn depth_and_size_are_limited() {
    let deep = 200_000;
    let error = |text: &str| ptx::parse(text).expect_err("refused").message;
    assert!(error(&kernel(&"{".repeat(deep))).contains("nested too deeply"));
    let parens = format!("mov.u32 %r1, {}1;", "(".repeat(deep));
    assert!(error(&kernel(&format!(".reg .b32 %r1; {parens}"))).contains("nested too deeply"));
    let minus = format!(".reg .b32 %r1; mov.u32 %r1, {}1;", "-".repeat(deep));
    assert!(error(&kernel(&minus)).contains("nested too deeply"));
    let global = |decl: &str| format!(".version 8.0\n.target sm_90\n.global .b8 x{decl};");
    assert!(error(&global(&"[1]".repeat(deep))).contains("too many dimensions"));
    assert!(error(&global("[4294967296][4294967296]")).contains("too large"));
    assert!(error(&global("[2] = {1, 2, 3}")).contains("more values"));
    assert!(error(&global(&format!("[2] = {}", "{".repeat(deep)))).contains("braces"));
    // Declared, not used: none of them takes any memory.
    let large = kernel(".reg .b32 %r<4294967295>; .local .b8 depot[9000000000000000000]; ret;");
    let module = ptx::parse(&large).unwrap_or_else(|error| panic!("{error}"));
    assert!(module.functions[0].registers.is_empty());
    check(&global("[2][4000000000][4] = {{{1}}, {{2}, {3, 4}}}"));
}

/// A guard that always holds is dropped, and what remains of `@p word: name;` would be a label.
#[test]
fn a_colon_after_the_opcode_is_no_operand() {
    let guarded = "setp.eq.b32 p, 0, 0; @p br: end; end:";
    for body in
        [guarded, "mov.pred p, 1; @p br.uni : end; end:", "mov.pred p, 1; @p br : : end; end:"]
    {
        let text = kernel(&format!(".reg .pred p; {body}"));
        let error = ptx::parse(&text).expect_err("refused").message;
        assert_eq!(error, "expected an operand, met `:`", "{body}");
    }
    check(&kernel(&format!(".reg .pred p; {}", guarded.replace(": end;", " 1 : end;"))));
}

#[test]
fn long_texts_take_time_in_proportion() {
    // Each of these was or could be quadratic: scopes, labels of one name, one table used often,
    // parameters of one name, a long line with an error at its end.
    let n = 20_000;
    let mut bodies = vec![
        "{ .param .b32 p; st.param.b32 [p], 1; }\n".repeat(n),
        "{ a: bra a; }\n".repeat(n),
        format!("t: .branchtargets {}e;\n{}\ne:", "e, ".repeat(n), "brx.idx 0, t;\n".repeat(n)),
        format!("{}\nend:", "bra end;\n".repeat(n)),
        format!("{} mov", "add.u32 _, 1, 1; ".repeat(n)),
        format!(".reg .b32 r; {}", "selp.b32 r, 1, 2, !0;\n".repeat(n)),
        format!(".reg .b32 r; {}", "{ .global .u32 g = 1; ld.u32 r, [g]; }\n".repeat(n)),
        format!(".reg .b32 r; mov.b32 r, {}1;", "1+".repeat(n)),
        format!(".reg .b32 r; mov.b32 r, {}1;", "1?1:".repeat(n)),
        format!(".reg .b32 r; mov.b32 r, 1\n{};", "    # ".repeat(n)),
    ];
    // Variables, and instructions that are kept as text with names that are none of theirs.
    let variables: String = (0..n).map(|at| format!(".local .b32 v{at};\n")).collect();
    bodies.push(variables + &"tex.1d name;\n".repeat(n));
    let nest = "{".repeat(60) + &"bra end;\n".repeat(n) + &"}".repeat(60) + "end:";
    bodies.push(nest);
    let mut texts: Vec<_> = bodies.iter().map(|body| kernel(body)).collect();
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let registers: String = (0..n).map(|at| format!(".reg .b32 g{at}, r{at}<9>;\n")).collect();
    let users = (0..n).map(|at| format!(".entry k{at}() {{ mov.b32 g{at}, r{at}5; }}\n"));
    texts.push(format!("{head}{registers}{}", users.collect::<String>()));
    let declared = (0..n).map(|at| format!(".func (.param .b32 r) f{at} (.reg .v4 .b32 i)\n"));
    texts.push(format!("{head}{}", declared.collect::<String>()));
    let start = std::time::Instant::now();
    for text in texts {
        if let Ok(module) = ptx::parse(&text) {
            let graph = ptx::cfg::Cfg::new(&module, &module.functions[0]);
            assert_eq!(graph.blocks.is_empty(), module.functions[0].body.is_none());
        }
    }
    // Seconds where a debug build needs tenths; quadratic ones need minutes.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
