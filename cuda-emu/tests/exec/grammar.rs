//! What the grammar of PTX allows beyond what NVRTC writes, with the values that an H200 computed.

use crate::device::{Device, shape};

/// Statements, and after `=>` the values of `r` and `s` at the end on an H200 with driver 580.159.04, hexadecimal, or
/// `refused`, where its ptxas refuses the text. The first thread of 32 stores them.
const STATEMENTS: &str = include_str!("../ptx/grammar.txt");

fn text(statements: &str) -> String {
    format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n.reg .u32 g;\n\
         .global .align 16 .u32 gl[8]={{1,2,3,4,5,6,7,8}};.const .u32 co[4]={{1,2,3,4}};\n\
         .func (.reg .u32 a) f1(.reg .u32 b){{mov.u32 a,b;ret;}}\n\
         .func (.reg .u32 a,.reg .u32 b) f2(.reg .u32 c){{mov.u32 a,c;mov.u32 b,8;ret;}}\n\
         .func (.reg .v2 .u32 a) fv(.reg .v2 .u32 b){{mov.v2.u32 a,{{b.y,b.x}};ret;}}\n\
         .visible .entry k(.param .u64 out){{.reg .u64 o,l,m;.reg .u32 r,s,t;.reg .pred p,q;.reg .f32 f;\n\
         .reg .v2 .u32 v;.reg .v4 .u32 w;.shared .align 16 .b32 sh[8];.local .u32 lo[4];\n\
         ld.param.u64 o,[out];mov.u32 r,99;mov.u32 s,98;setp.eq.u32 p,1,1;setp.eq.u32 q,1,1;\n\
         {statements}\nst.global.u32 [o],r;st.global.u32 [o+4],s;ret;}}\n"
    )
}

/// Runs a kernel `k(out)` of a text and returns what it wrote; the reason where text or kernel are refused.
fn run(text: &str, threads: u32, count: usize) -> Result<Vec<u32>, String> {
    let device = Device::new(1);
    let program = device.load(text).map_err(|error| error.to_string())?;
    if let Some(reason) = program.refused(program.entry("k").expect("k")) {
        return Err(reason);
    }
    let out = device.upload(&vec![0_u32; count]);
    device.launch(&program, "k", shape(1, threads), &[out]).map_err(|fault| fault.to_string())?;
    Ok(device.download(out, count))
}

#[test]
fn statements_compute_what_a_gpu_computes() {
    let mut wrong = Vec::new();
    for line in STATEMENTS.lines() {
        let (statements, right) = line.split_once(" => ").expect(line);
        let got = match run(&text(statements), 32, 2) {
            Ok(got) => format!("{:x} {:x}", got[0], got[1]),
            Err(_) if right == "refused" => continue,
            Err(reason) => reason,
        };
        if got != right {
            wrong.push(format!("{line}\n    {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whatever is read prints as a text that means the same.
#[test]
fn statements_print_as_the_same_module() {
    for line in STATEMENTS.lines() {
        let (statements, _) = line.split_once(" => ").expect(line);
        let Ok(mut module) = ptx::parse(&text(statements)) else { continue };
        let printed = module.to_string();
        let mut again = ptx::parse(&printed).unwrap_or_else(|e| panic!("{line}: {e}\n{printed}"));
        module.forget_lines();
        again.forget_lines();
        assert_eq!(module, again, "{line}, printed:\n{printed}");
        assert_eq!(run(&printed, 32, 2).ok(), run(&text(statements), 32, 2).ok(), "{line}");
    }
}

fn kernel(body: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .u64 o; .reg .u32 r, s, t; .reg .u64 u, v;\nld.param.u64 o, [out];\n{body}\nret;\n}}\n"
    )
}

/// Writes `r` to `out[0]`, `out[1]` and so on after each of the groups of instructions.
fn groups(groups: &[&str]) -> String {
    let mut body = String::new();
    for (at, group) in groups.iter().enumerate() {
        body.push_str(&format!("{group} st.global.u32 [o+{}], r;\n", at * 4));
    }
    kernel(&body)
}

/// One flag, which subtractions set where they borrow nothing, as the carry of `a + ~b + 1`.
#[test]
fn additions_subtractions_and_products_share_the_carry_flag() {
    let text = groups(&[
        "mov.u32 t, 5; sub.cc.u32 t, t, 9; addc.u32 r, 0, 0;",
        "mov.u32 t, 9; sub.cc.u32 t, t, 5; addc.u32 r, 0, 0;",
        "mov.u32 t, -1; add.cc.u32 t, t, 1; subc.u32 r, 9, 5;",
        "mov.u32 t, 1; add.cc.u32 t, t, 1; subc.u32 r, 9, 5;",
        "mov.u32 t, -1; mad.lo.cc.u32 t, t, 1, 1; subc.u32 r, 9, 5;",
        "mov.u32 t, 9; sub.cc.u32 t, t, 5; madc.lo.u32 r, 3, 4, 0;",
        "mov.u32 t, 3; sub.cc.u32 t, t, 3; addc.cc.u32 t, t, 0; mov.u32 r, t;",
        "addc.u32 r, 0, 0;",
        "mov.u64 u, 5; sub.cc.u64 u, u, 9; addc.u64 v, 0, 0; cvt.u32.u64 r, v;",
    ]);
    assert_eq!(run(&text, 1, 9), Ok(vec![0, 1, 4, 3, 4, 13, 1, 0, 0]));
}

#[test]
fn names_without_a_state_space_mean_the_variables_own() {
    let text = groups(&[
        ".shared .align 8 .u32 t1[2]; .local .u32 l1[2]; mov.u32 s, 6; st.shared.u32 [t1], s; ld.u32 r, [t1];",
        "st.u32 [t1+4], s; ld.shared.u32 r, [t1+4];",
        "st.local.u32 [l1+4], s; ld.u32 r, [l1+4];",
        "atom.add.u32 r, [t1], 1;",
        "ld.shared.u32 r, [t1];",
        "red.add.u32 [t1], 5; ld.shared.u32 r, [t1];",
        "red.add.u32 [l1+4], 5; ld.local.u32 r, [l1+4];",
    ]);
    assert_eq!(run(&text, 1, 7), Ok(vec![6, 6, 6, 6, 7, 12, 11]));
}

#[test]
fn variables_of_a_function_can_live_as_long_as_the_module() {
    let text = groups(&[
        ".global .u32 g[4] = {1, 2, 3, 4}; .const .u32 c[4] = {1, 2, 3, 4}; ld.global.u32 r, [g+4];",
        "mov.u64 u, g; ld.global.u32 r, [u+8];",
        "ld.const.u32 r, [c+4];",
    ]);
    assert_eq!(run(&text, 1, 3), Ok(vec![2, 3, 2]));
    // Each function has a variable of its own, and a text can use any name.
    let two = format!(
        "{text}.global .u32 g$in0$0 = 5;\n.visible .entry j(.param .u64 out) {{ .reg .u64 o; .reg .u32 r; \
         .global .u32 g; ld.param.u64 o, [out]; ld.global.u32 r, [g]; st.global.u32 [o], r; ret; }}\n"
    );
    assert_eq!(run(&two, 1, 3), Ok(vec![2, 3, 2]));
    let mut module = ptx::parse(&two).expect("a module");
    let mut again = ptx::parse(&module.to_string()).expect("its text");
    module.forget_lines();
    again.forget_lines();
    assert_eq!(module, again);
    assert_eq!(module.globals.len(), 4);
}

/// As nvopencc wrote them.
#[test]
fn declarations_need_no_semicolon() {
    let declaration = ".visible .func (.param .b32 r) f (.param .b32 i)";
    let kernel = kernel("st.global.u32 [o], 1;");
    let (head, rest) = kernel.split_at(kernel.find(".visible").expect("an entry"));
    for next in ["", ".file 1 \"a.cu\"\n", ".global .u32 x;\n", ".reg .u32 x;\n"] {
        let text =
            format!("{head}{declaration}\n{next}{rest}{declaration} {{ .reg .b32 t; ret; }}\n");
        assert_eq!(run(&text, 1, 1), Ok(vec![1]), "{text}");
    }
    assert_eq!(run(&format!("{kernel}{declaration}\n"), 1, 1), Ok(vec![1]));
    let wrong = format!("{head}{declaration}\nmov {rest}");
    assert!(run(&wrong, 1, 1).expect_err("no declaration").contains("expected `;`, met `mov`"));
}

/// Registers of the module are the thread's own, and on a GPU one register for all functions.
#[test]
fn registers_of_the_module_are_refused_in_functions_that_are_called() {
    let text = |function: &str| {
        kernel("mov.u32 g, 7; call f; st.global.u32 [o], g;").replacen(
            ".visible",
            &format!(".reg .u32 g, h<3>; .reg .v2 .u32 v;\n{function}\n.visible"),
            1,
        )
    };
    assert_eq!(run(&text(".func f { .reg .u32 g; mov.u32 g, 1; ret; }"), 1, 1), Ok(vec![7]));
    for wrong in ["add.u32 g, g, 1;", "mov.u32 h2, 1;", "mov.u32 v.x, 1;"] {
        let error = run(&text(&format!(".func f {{ {wrong} ret; }}")), 1, 1).expect_err(wrong);
        assert!(error.contains("declare them in the function"), "{error}");
    }
    let vector = kernel("mov.v2.u32 w, {3, 4}; mov.u32 h1, w.y; st.global.u32 [o], h1;").replacen(
        ".visible",
        ".reg .u32 h<3>; .reg .v2 .u32 w;\n.visible",
        1,
    );
    assert_eq!(run(&vector, 1, 1), Ok(vec![4]));
}

/// What driver 580 takes and refuses outside of functions; the manual and ptxas also refuse `.reg` and `.local` there.
#[test]
fn variables_outside_of_functions() {
    let declared = |what: &str| kernel("").replacen(".visible", &format!("{what}\n.visible"), 1);
    for (what, why) in [
        (".param .u32 g;", "PTX line 4, column 1: `.param` outside of functions"),
        (".global .pred g;", "the type `.pred` is a register"),
        (".common .const .u32 g;", "a `.common` variable lies in `.global`"),
    ] {
        let error = run(&declared(what), 1, 1).expect_err(what);
        assert!(error.contains(why), "{what}: {error}");
    }
    for what in [
        ".reg .u32 g, h;",
        ".reg .u32 g<3>;",
        ".reg .v2 .u32 g;",
        ".reg .pred g;",
        ".local .u32 g;",
    ] {
        assert_eq!(run(&declared(what), 1, 1), Ok(vec![0]), "{what}");
        let older = declared(what).replacen(
            ".version 7.0\n.target sm_80",
            ".version 3.0\n.target sm_20",
            1,
        );
        assert_eq!(run(&older, 1, 1), Ok(vec![0]), "{what}");
    }
}

/// Elements of a vector register are packed and unpacked by a `mov` of as many bits.
#[test]
fn vector_registers_hold_what_moves_pack() {
    let text = groups(&[
        ".reg .v2 .b16 h; mov.u32 t, 0x30002; mov.b32 h, t; mov.b32 r, h;",
        ".reg .b16 a; mov.b16 a, h.y; cvt.u32.u16 r, a;",
        ".reg .v4 .u32 w; mov.v4.u32 w, {3, 4, 5, 6}; mov.u32 r, w.a;",
        "mov.v4.u32 w, {w.w, w.z, w.y, w.x}; mov.u32 r, w.g;",
        "@!p mov.v2.u32 {s, r}, {8, 9};",
        "@p mov.v2.u32 {s, r}, {8, s};",
    ])
    .replacen(".reg .u64 o;", ".reg .u64 o; .reg .pred p;", 1)
    .replacen("ld.param", "setp.eq.u32 p, 0, 0; ld.param", 1);
    assert_eq!(run(&text, 1, 6), Ok(vec![0x30002, 3, 6, 5, 5, 0]), "{text}");
}

/// Programs whose values the generator has computed, also after printing.
#[test]
fn generated_programs_have_their_values() {
    for seed in 0..400 {
        let program = ptx_gen::Spelled::new(seed);
        let text = ptx_gen::Spelled::module([&program]);
        let named = text.replacen(&program.kernel_name(), "k", 1);
        let got = run(&named, 1, program.values.len());
        assert_eq!(got.as_ref(), Ok(&program.values), "seed {seed}\n{text}");
        let mut module = ptx::parse(&named).expect("a module");
        let printed = module.to_string();
        let mut again = ptx::parse(&printed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        module.forget_lines();
        again.forget_lines();
        assert_eq!(module, again, "seed {seed}\n{text}\nprinted as\n{printed}");
        assert_eq!(run(&printed, 1, program.values.len()), got, "seed {seed}\n{printed}");
    }
}
