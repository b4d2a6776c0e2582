//! Whole texts: their meaning, and that they read the same after printing.

use ptx::ir::{Item, Linkage, Module, Op, Space, Symbol, Type};

const TEXTS: [(&str, &str); 5] = [
    ("grammar", include_str!("samples/grammar.ptx")),
    ("12.0", include_str!("data/nvrtc_12_0.ptx")),
    ("12.0 debug", include_str!("data/nvrtc_12_0_debug.ptx")),
    ("13.0", include_str!("data/nvrtc_13_0.ptx")),
    ("13.0 debug", include_str!("data/nvrtc_13_0_debug.ptx")),
];

fn grammar() -> Module {
    ptx::parse(TEXTS[0].1).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_printed_module_reads_as_the_same_module() {
    for (name, text) in TEXTS {
        let mut module = ptx::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let printed = module.to_string();
        let mut again = ptx::parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}"));
        module.forget_lines();
        again.forget_lines();
        assert_eq!(module, again, "{name}, printed:\n{printed}");
        assert_eq!(printed, again.to_string(), "{name}: printing is a fixed point");
    }
}

#[test]
fn variables_have_their_bytes() {
    let module = grammar();
    let find = |name: &str| module.globals.iter().find(|v| v.name == name).unwrap();
    let bytes = |name: &str| find(name).init.as_ref().unwrap().runs.clone();
    assert!(find("managed").managed);
    assert_eq!(find("dynamic").space, Space::Shared);
    assert_eq!((find("dynamic").linkage, find("dynamic").size()), (Linkage::Extern, 0));
    assert_eq!(find("constants").size(), 48);
    // The second row has one value only, and the rest of the first row is zeros.
    let runs = bytes("constants");
    assert_eq!(
        runs.iter().map(|(at, run)| (*at, run.len())).collect::<Vec<_>>(),
        [(0, 16), (24, 8)]
    );
    assert_eq!(runs[1].1, (-1.0f64).to_le_bytes());
    assert_eq!((find("text").dims.as_slice(), find("text").align), (&[4][..], 1));
    assert_eq!(bytes("text"), [(0, b"hi\n\0".to_vec())]);
    assert_eq!(bytes("negative"), [(0, vec![0xFE, 0xFF])]);
    assert_eq!(bytes("bits"), [(0, vec![0xFF, 7, 0xFF, 0xFF])]);
    assert_eq!(bytes("two"), [(0, 2f32.to_le_bytes().to_vec())]);
    assert_eq!((find("vectors").size(), find("vectors").vector), (32, 4));
    let pointers = find("pointers").init.as_ref().unwrap();
    assert_eq!(pointers.runs, [(24, vec![0; 8])]);
    let seen: Vec<_> =
        pointers.addresses.iter().map(|a| (a.offset, a.addend, a.generic, a.bytes)).collect();
    assert_eq!(seen, [(0, 0, false, 8), (8, 1, true, 8), (16, 16, false, 8), (32, 0, false, 8)]);
    assert!(matches!(pointers.addresses[3].symbol, Symbol::Function(_)));
    let masks: Vec<_> =
        find("packed").init.as_ref().unwrap().addresses.iter().map(|a| a.mask).collect();
    assert_eq!(masks, [Some(0xFF), Some(0xFF00), Some(0xFF)]);
}

#[test]
fn a_kernel_has_its_head_and_its_scopes() {
    let module = grammar();
    let whole = module.functions.iter().find(|f| f.name == "whole").unwrap();
    assert_eq!(whole.param_layout(), (vec![0, 8, 32], 36));
    let d = &whole.directives;
    assert_eq!((d.maxntid, d.minnctapersm, d.maxnreg), (Some([128, 2, 1]), Some(3), Some(64)));
    assert_eq!((d.reqnctapercluster, d.explicitcluster), (Some([2, 1, 1]), true));
    let ptr = whole.variables[0].ptr.unwrap();
    assert_eq!((ptr.space, ptr.align), (Space::Global, Some(16)));
    // Two blocks declare `param0`, and one a register `alone` that is not the function's.
    let params = whole.variables.iter().filter(|v| v.name.starts_with("param0")).count();
    assert_eq!(params, 2);
    // Of four thousand million predicates two are used, and one of an inner block.
    assert_eq!(whole.registers.iter().filter(|&&ty| ty == Type::Pred).count(), 3);
    let refused: Vec<_> = whole
        .instrs()
        .iter()
        .filter_map(|instr| match &instr.op {
            Op::Other { opcode, .. } => Some((&**opcode, instr.line)),
            _ => None,
        })
        .collect();
    let line = |word: &str| {
        let at = TEXTS[0].1.lines().position(|l| l.trim_start().starts_with(word)).unwrap();
        u32::try_from(at + 1).unwrap()
    };
    assert_eq!(
        refused,
        [
            ("tex.2d.v4.f32.f32", line("tex.2d")),
            ("tcgen05.mma.cta_group::1.kind::f16", line("tcgen05"))
        ]
    );
}

#[test]
fn labels_mean_those_of_their_own_block() {
    let module = grammar();
    let whole = module.functions.iter().find(|f| f.name == "whole").unwrap();
    let again: Vec<u32> =
        whole.labels.iter().filter(|l| l.name.starts_with("again")).map(|l| l.at).collect();
    assert_eq!(again.len(), 2);
    let loops = whole.instrs().iter().enumerate().filter(|(at, instr)| match instr.op {
        Op::Bra { target, .. } => whole.target(target) == *at,
        _ => false,
    });
    // `{ again: bra again; }` is an endless loop of one instruction.
    assert_eq!(loops.map(|(at, _)| at).collect::<Vec<_>>(), [again[1] as usize]);
    assert_eq!(
        whole.tables[0].iter().map(|&l| whole.target(l)).max(),
        Some(whole.instrs().len() - 1)
    );
}

#[test]
fn source_places_are_kept_with_what_they_were_inlined_into() {
    let module = grammar();
    let whole = module.functions.iter().find(|f| f.name == "whole").unwrap();
    let loc = |at: usize| &whole.locs[whole.instrs()[at].loc.unwrap().index()];
    assert_eq!((loc(0).file, loc(0).line, loc(0).column), (1, 10, 5));
    let inlined = loc(2).inlined.as_ref().unwrap();
    assert_eq!((loc(2).file, inlined.line, inlined.function.as_str()), (2, 11, "$L_info+12"));
    let section = module.items.iter().find_map(|item| match item {
        Item::Section { name, text } => Some((name.as_str(), text.contains("104, 105"))),
        _ => None,
    });
    assert_eq!(section, Some((".debug_str", true)));
}

#[test]
fn instructions_are_small() {
    // An executor keeps tens of thousands of them; a variant that grows should be boxed.
    assert!(size_of::<ptx::ir::Instr>() <= 176, "{}", size_of::<ptx::ir::Instr>());
}

#[test]
fn a_bodys_pragma_is_not_written_at_the_declaration_before_it() {
    let text = ".version 8.0 .target sm_90 .func f();
        .entry k() { call f, (); ret; }
        .func f() { l: .pragma \"nounroll\"; bra l; }";
    let mut module = ptx::parse(text).expect("a module");
    let printed = module.to_string();
    assert_eq!(printed.matches(".pragma").count(), 1, "{printed}");
    assert!(printed.contains("f();"), "{printed}");
    assert!(printed.contains("{\n.pragma"), "{printed}");
    let mut again = ptx::parse(&printed).expect("its own text");
    again.forget_lines();
    module.forget_lines();
    assert_eq!(again, module);
}

#[test]
fn places_that_code_is_inlined_into_stand_before_it() {
    // No instruction is at 1 7 5 itself, so that only the inlined place remembers it.
    let text = ".version 8.0\n.target sm_90\n.file 1 \"a.cu\"\n.entry k()\n{\n.loc 1 7 5\n\
        .loc 1 3 1, function_name $L_f, inlined_at 1 7 5\nbar.sync 0;\n.loc 1 4 1, function_name $L_f, inlined_at 1 7 5\n\
        bar.sync 1;\nret;\n}\n.section .debug_str\n{\n$L_f:\n.b8 102, 0\n}\n";
    let mut module = ptx::parse(text).expect("a module");
    let printed = module.to_string();
    let locs: Vec<&str> =
        printed.lines().map(str::trim).filter(|line| line.starts_with(".loc")).collect();
    assert_eq!(
        locs,
        [
            ".loc 1 7 5",
            ".loc 1 3 1, function_name $L_f, inlined_at 1 7 5",
            ".loc 1 4 1, function_name $L_f, inlined_at 1 7 5"
        ]
    );
    let mut again = ptx::parse(&printed).expect("its own text");
    again.forget_lines();
    module.forget_lines();
    assert_eq!(again, module);
}

#[test]
fn chains_of_inlined_places_are_kept() {
    // g is inlined into f, which is inlined into the kernel: no instruction is f's own. At the end one is.
    let text = ".version 8.0\n.target sm_90\n.file 1 \"a.cu\"\n.entry k()\n{\n\
        .loc 1 3 1, function_name $L_f, inlined_at 1 7 5\n.loc 1 9 2, function_name $L_g, inlined_at 1 3 1\nbar.sync 0;\n\
        .loc 1 3 1, function_name $L_f, inlined_at 1 8 5\n.loc 1 9 3, function_name $L_g, inlined_at 1 3 1\nbar.sync 1;\n\
        .loc 1 3 1, function_name $L_f, inlined_at 1 8 5\nbar.sync 2;\n\
        .loc 1 5 1, function_name $L_f, inlined_at 1 8 5\n.loc 1 9 4, function_name $L_g, inlined_at 1 3 1\nret;\n}\n\
        .section .debug_str\n{\n$L_f:\n.b8 102, 0\n$L_g:\n.b8 103, 0\n}\n";
    let mut module = ptx::parse(text).expect("a module");
    let function = &module.functions[0];
    let lines: Vec<(u32, u32)> = function
        .locs
        .iter()
        .map(|loc| (loc.line, loc.inlined.as_ref().map_or(0, |inlined| inlined.line)))
        .collect();
    // The last chain is none: what is inlined at 3 1 does not follow from 5 1.
    assert_eq!(lines, [(3, 7), (9, 3), (3, 8), (9, 3), (3, 8), (9, 3)]);
    assert_eq!(function.instrs()[1].loc.map(|loc| loc.index()), Some(3));
    let printed = module.to_string();
    let mut again = ptx::parse(&printed).expect("its own text");
    again.forget_lines();
    module.forget_lines();
    assert_eq!(again, module, "{printed}");
}
