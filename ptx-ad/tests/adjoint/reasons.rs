//! Each reason for which a kernel is refused, with its place.

use ptx_ad::{Param, Place, Reals, Reason, Refusal, Spec, differentiate, parse};

use crate::common::{Arg, Layout, doubles, floats, module, scalar, spec, word, words};

/// `out[i] = f(x[i])`: loads %f1, and stores %f2 after the code. The line with a `!` is where it is refused.
fn refusals(before: &str, code: &str, args: &[Arg]) -> (Vec<Refusal>, u32) {
    let params = "x, out, n, i".split(", ").zip(args).map(|(name, arg)| match arg {
        Arg::Buffer { .. } => format!(".param .u64 {name}"),
        Arg::Value { bytes, .. } if bytes.len() == 4 => format!(".param .b32 {name}"),
        Arg::Value { bytes, .. } => format!(".param .align 8 .b8 {name}[{}]", bytes.len()),
    });
    let params = params.collect::<Vec<_>>().join(", ");
    let text = module(
        before,
        &params,
        &format!(
            "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %tid.x; \
             mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3; \
             ld.global.f32 %f1, [%w4];\n{code}\nst.global.f32 [%w5], %f2;\nret;"
        ),
    );
    let line = text.lines().position(|line| line.contains("// !")).map_or(0, |at| at + 1);
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let error = differentiate(&module, &spec("k", args));
    let refusals =
        error.map_or_else(|error| error.refusals, |made| panic!("{}\n{text}", made.text));
    (refusals, u32::try_from(line).expect("few lines"))
}

#[track_caller]
fn refused_with(before: &str, code: &str, args: &[Arg], reason: &Reason) {
    let (refusals, line) = refusals(before, code, args);
    let found = refusals.iter().any(|r| r.reason == *reason && r.ptx_line == line);
    assert!(found, "{reason:?} at line {line} expected: {refusals:#?}\n{code}");
}

fn two() -> [Arg; 2] {
    [floats(&[1.0; 8]), floats(&[1.0; 8])]
}

#[track_caller]
fn refused(code: &str, reason: &Reason) {
    refused_with("", code, &two(), reason);
}

fn unknown(what: &str) -> Reason {
    Reason::Unknown(what.to_owned())
}

#[test]
fn bits_of_numbers() {
    for code in [
        // Arithmetic on bits.
        "mov.b32 %r2, %f1; add.u32 %r2, %r2, 5; mov.b32 %f2, %r2;",
        // The upper bit of a lower half is no sign, nor is that of shifted bits.
        "cvt.f64.f32 %d1, %f1; mov.b64 {%r2, %r3}, %d1; and.b32 %r2, %r2, 0x80000000; mov.b64 %d2, {%r2, %r3}; cvt.rn.f32.f64 %f2, %d2;",
        "mov.b32 %r2, %f1; shl.b32 %r2, %r2, 9; and.b32 %r2, %r2, 0x80000000; or.b32 %r2, %r2, 0x3f800000; mov.b32 %f2, %r2;",
        // A logarithm by the bits, as a number.
        "mov.b32 %r2, %f1; cvt.rn.f32.s32 %f2, %r2;",
        "mov.b32 %r2, %f1; cvt.s64.s32 %w6, %r2; shr.u64 %w6, %w6, 31; cvt.u32.u64 %r3, %w6; mov.b32 %f2, %r3;",
        "mov.b32 %r2, %f1; mov.b64 %w6, {%r2, %r2}; shr.u64 %w6, %w6, 16; cvt.u32.u64 %r3, %w6; mov.b32 %f2, %r3;",
        // Halves of 16 bits.
        "mov.b32 {%h1, %h2}, %f1; mov.b32 %f2, {%h2, %h1};",
        "mov.b32 {%h1, %h2}, %f1; setp.gt.u32 %p1, %r1, 3; selp.b16 %h3, %h1, %h2, %p1; mov.b16 %h4, %h3; mov.b32 %f2, {%h4, %h2};",
        // A half of a number in memory.
        "ld.global.u16 %h1, [%w4+2]; cvt.u32.u16 %r2, %h1; shl.b32 %r2, %r2, 16; mov.b32 %f2, %r2;",
        "ld.global.u8 %h1, [%w4]; cvt.rn.f32.u16 %f2, %h1;",
        "prmt.b32 %r2, %f1, %f1, 0x3210; mov.b32 %f2, %r2;",
        "shf.l.wrap.b32 %r2, %f1, %f1, 8; mov.b32 %f2, %r2;",
        "lop3.b32 %r2, %f1, %f1, 1, 0x3f; mov.b32 %f2, %r2;",
        "mov.b32 %r2, %f1; and.b32 %r2, %r2, 0x7ffffff0; mov.b32 %f2, %r2;",
        // The bits of two floats as a double.
        "mov.b64 %d1, {%f1, %f1}; cvt.rn.f32.f64 %f2, %d1;",
    ] {
        // Wherever the bits change, on the one line.
        let line = code.replacen("\n", " ", 9) + " // !";
        refused(&line, &Reason::Bits);
    }
    refused("mov.f32 %f2, %f1;\nst.global.u8 [%w5], 3; // !", &Reason::Bits);
}

#[test]
fn halves_of_doubles() {
    for code in [
        // The sign, the exponent, and the halves of two numbers.
        "mov.b64 {%r2, %r3}, %d1; and.b32 %r3, %r3, 0x7fffffff; mov.b64 %d2, {%r2, %r3};",
        "mov.b64 {%r2, %r3}, %d1; add.s32 %r3, %r3, 0x100000; mov.b64 %d2, {%r2, %r3};",
        "add.f64 %d3, %d1, %d1; mov.b64 {%r2, %r3}, %d1; mov.b64 {%r4, %r5}, %d3; mov.b64 %d2, {%r2, %r5};",
        "mov.b64 {%r2, %r3}, %d1; mov.b64 %d2, {0, %r3};",
        "mov.b64 {%r2, %r3}, %d1; mov.b64 %d2, {%r2, 0x3ff00000};",
    ] {
        for last in ["", "mul.f64 %d2, %d2, %d2;"] {
            refused(
                &format!("cvt.f64.f32 %d1, %f1; {code} {last} cvt.rn.f32.f64 %f2, %d2; // !"),
                &Reason::Bits,
            );
        }
    }
}

#[test]
fn memory() {
    // The address was loaded.
    refused(
        "ld.global.u64 %w6, [%w4]; ld.global.f32 %f3, [%w6]; add.f32 %f2, %f3, %f1; // !",
        &Reason::PointerInMemory,
    );
    // One of two holds numbers of another type, or is not known.
    refused_with(
        "",
        "ld.param.u64 %w7, [n]; setp.gt.u32 %p1, %r1, 3; selp.b64 %w6, %w4, %w7, %p1;\nld.global.f32 %f2, [%w6]; // !",
        &[two().to_vec(), vec![doubles(&[1.0; 8])]].concat(),
        &Reason::Parameter,
    );
    for access in ["st.global.f32 [%w6], %f1; // !", "ld.global.f32 %f2, [%w6]; // !"] {
        refused(
            &format!(
                "ld.global.u64 %w7, [%w4]; setp.gt.u32 %p1, %r1, 3; selp.b64 %w6, %w4, %w7, %p1; mov.f32 %f2, %f1;\n{access}"
            ),
            &Reason::PointerInMemory,
        );
    }
    refused(
        "ld.global.u64 %w6, [%w4]; mov.f32 %f2, %f1;\nst.global.f32 [%w6], %f1; // !",
        &Reason::PointerInMemory,
    );
    // Memory without a gradient holds a number that depends on active inputs, and is loaded again.
    let three = [two().to_vec(), vec![floats(&[1.0; 8]).constant()]].concat();
    for code in [
        "st.global.f32 [%w9], %f1;\nld.global.f32 %f2, [%w9]; // !",
        "st.global.f32 [%w9], %f1;\nld.global.u32 %r2, [%w9]; // !\nmov.b32 %f2, %r2;",
        "mov.f32 %f2, %f1; mov.u32 %r4, 0;\nTOP: ld.global.f32 %f3, [%w9]; // !\n\
         mul.f32 %f2, %f2, %f3; st.global.f32 [%w9], %f2; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;",
    ] {
        let code = format!("ld.param.u64 %w8, [n]; add.s64 %w9, %w8, %w3; {code}");
        refused_with("", &code, &three, &Reason::LoadAfterStore);
    }
    // What other threads have added is loaded.
    refused_with(
        "",
        "mov.f32 %f2, %f1; ld.param.u64 %w8, [n]; red.global.add.u32 [%w8], 1;\nld.global.u32 %r2, [%w8]; // !\n\
         setp.gt.u32 %p1, %r2, 1; selp.f32 %f2, %f1, 0f00000000, %p1;",
        &[two().to_vec(), vec![words(&[0; 8])]].concat(),
        &Reason::LoadAfterStore,
    );
    // Memory that is not known is written after it is read: the adjoint would read what was written.
    refused(
        "mov.f32 %f2, %f1; ld.global.u64 %w6, [%w4];\nld.global.u32 %r2, [%w6]; // !\n\
         setp.gt.u32 %p1, %r2, 1; selp.f32 %f2, %f1, 0f00000000, %p1; st.global.u32 [%w6], %r1;",
        &Reason::LoadAfterStore,
    );
    for access in ["ld.volatile.global.f32", "ld.relaxed.gpu.global.f32", "ld.acquire.gpu.f32"] {
        refused(&format!("{access} %f2, [%w4]; // !"), &Reason::Volatile);
    }
    for (access, reason) in [
        (
            "st.local.f32 [own], %f1; ld.local.u16 %h1, [own]; cvt.rn.f32.u16 %f2, %h1;",
            Reason::LocalMemory,
        ),
        (
            "st.local.f32 [own], %f1; ld.local.u32 %r2, [own]; cvt.rn.f32.s32 %f2, %r2;",
            Reason::Bits,
        ),
        // An index that may be that of the number.
        (
            "mov.u64 %w6, own; mul.wide.u32 %w7, %r1, 4; add.s64 %w7, %w6, %w7; st.local.f32 [own], %f1; \
             ld.local.u32 %r2, [%w7]; cvt.rn.f32.s32 %f2, %r2;",
            Reason::Bits,
        ),
        (
            "and.b32 %r2, %r1, 3; mov.u64 %w6, own; mul.wide.u32 %w7, %r2, 4; add.s64 %w7, %w6, %w7; \
             st.local.f32 [own+12], %f1; ld.local.u32 %r2, [%w7]; cvt.rn.f32.s32 %f2, %r2;",
            Reason::Bits,
        ),
        // By an address from memory.
        (
            "st.local.f32 [own], %f1; ld.local.u64 %w8, [own+8]; ld.local.f32 %f2, [%w8];",
            Reason::LocalMemory,
        ),
        (
            "mov.f32 %f2, %f1; ld.local.u64 %w8, [own+8]; st.local.f32 [%w8], %f1;",
            Reason::LocalMemory,
        ),
        // A part of a number is overwritten.
        ("st.local.f32 [own], %f1; st.local.u8 [own+3], 0; ld.local.f32 %f2, [own];", Reason::Bits),
        (
            "cvt.f64.f32 %d1, %f1; st.local.f64 [own], %d1; ld.local.b32 %r2, [own]; st.local.b32 [own+8], %r2;\
             ld.local.b32 %r2, [own+4]; st.local.b32 [own+12], %r2; ld.local.f64 %d2, [own+8]; cvt.rn.f32.f64 %f2, %d2;",
            Reason::Bits,
        ),
    ] {
        refused(&format!(".local .align 8 .b8 own[16]; {access} // !"), &reason);
    }
    for (access, reason) in [
        // Which array it is is not known.
        (
            ".shared .b32 s; .shared .b32 t; mov.u32 %r2, s; mov.u32 %r3, t; setp.lt.u32 %p1, %r1, 2; \
             selp.b32 %r2, %r2, %r3, %p1; mov.f32 %f2, %f1;\nst.shared.f32 [%r2], %f1;",
            Reason::SharedMemory,
        ),
        (".shared .b32 s; mov.f32 %f2, %f1;\nst.volatile.shared.f32 [s], %f1;", Reason::Volatile),
        (
            ".shared .b32 s; mov.f32 %f2, %f1;\nst.shared::cluster.f32 [s], %f1;",
            Reason::SharedMemory,
        ),
        (
            ".shared .b32 s; st.shared.f32 [s], %f1;\nld.shared.u8 %r2, [s+3]; // !\n \
             cvt.rn.f32.u32 %f2, %r2; mul.f32 %f2, %f2, %f1; ld.shared.f32 %f3, [s]; mul.f32 %f2, %f2, %f3;",
            Reason::SharedMemory,
        ),
        (
            ".shared .b32 s; st.shared.f32 [s], %f1; ld.shared.f32 %f2, [s];\n\
             red.shared.max.u32 [s], %r1;",
            Reason::AtomicOther,
        ),
        (
            ".shared .b32 s; st.shared.f32 [s], %f1; ld.shared.f32 %f2, [s];\n\
             atom.shared.add.f32 %f3, [s], %f1; // !\nmul.f32 %f2, %f2, %f3;",
            Reason::AtomicResult,
        ),
    ] {
        let end = if access.contains("// !") { "" } else { " // !" };
        refused(&format!("{access}{end}"), &reason);
    }
    let half = ".shared .b16 s; cvt.rn.f16.f32 %h1, %f1; st.shared.b16 [s], %h1; ld.shared.b16 %h2, [s];\n\
        cvt.f32.f16 %f2, %h2;";
    let (halves, _) = refusals("", half, &two());
    assert!(halves.iter().any(|one| one.reason == Reason::Half), "{halves:?}");
    // Gradients need as much again.
    let large = ".shared .align 4 .b8 s[25000]; st.shared.f32 [s], %f1; ld.shared.f32 %f2, [s];";
    let (refusals, _) = refusals("", large, &two());
    assert!(refusals[0].message.contains("take 50012 bytes"), "{refusals:?}");
    // At the scope of the module.
    refused_with(
        ".extern .shared .align 4 .b8 s[];",
        "mov.u64 %w6, s; cvta.shared.u64 %w6, %w6; st.f32 [%w6], %f1; ld.f32 %f2, [%w6]; // !",
        &two(),
        &Reason::SharedMemory,
    );
}

#[test]
fn variables_of_the_module() {
    let read = "ld.global.f32 %f3, [v]; mul.f32 %f2, %f1, %f3; // !";
    for before in [
        ".visible .global .f32 v = 0f40000000;",
        ".global .f32 v;",
        ".extern .global .f32 v;",
        ".weak .global .f32 v = 0f40000000;",
        ".global .attribute(.managed) .f32 v = 0f40000000;",
        // Another kernel writes it, also by its address.
        ".global .f32 v = 0f40000000; .visible .entry o() { st.global.f32 [v], 0f00000000; ret; }",
        ".global .f32 v = 0f40000000; .visible .entry o() { .reg .b64 %w<3>; mov.u64 %w1, v; \
         add.u64 %w2, %w1, 0; st.global.f32 [%w2], 0f00000000; ret; }",
        ".global .f32 v = 0f40000000; .visible .entry o(.param .u64 p) { .reg .b64 %w<3>; \
         mov.u64 %w1, v; ld.param.u64 %w2, [p]; st.global.u64 [%w2], %w1; ret; }",
        ".global .f32 v = 0f40000000; .global .u64 at = v;",
    ] {
        refused_with(before, read, &two(), &Reason::ModuleGlobal);
    }
    refused_with(
        ".visible .const .f32 v = 0f40000000;",
        "ld.const.f32 %f3, [v]; mul.f32 %f2, %f1, %f3; // !",
        &two(),
        &Reason::ModuleGlobal,
    );
    refused_with(
        ".global .f32 v = 0f40000000;",
        "mov.f32 %f2, %f1;\nst.global.f32 [v], %f1; // !",
        &two(),
        &Reason::ModuleGlobal,
    );
}

#[test]
fn atomics() {
    refused(
        "atom.global.add.u32 %r2, [%w5], 1; cvt.rn.f32.u32 %f2, %r2; // !",
        &Reason::AtomicResult,
    );
    refused("atom.global.add.f32 %f2, [%w5], %f1; // !", &Reason::AtomicResult);
    for op in [
        "red.global.min.s32 [%w5], %r1;",
        "red.global.add.u32 [%w5], %r1;",
        "red.global.max.u32 [%w5], 7;",
        "red.global.xor.b32 [%w5], %r1;",
    ] {
        refused(&format!("mov.f32 %f2, %f1;\n{op} // !"), &Reason::AtomicOther);
    }
    refused("mov.f32 %f2, %f1;\nred.global.add.f32 [%w5], %f1; // !", &Reason::MixedAtomics);
    refused(
        "mov.f32 %f2, %f1; cvt.rn.f16.f32 %h1, %f1; mov.b32 %r2, {%h1, %h1};\n\
        red.global.add.noftz.f16x2 [%w5], %r2; // !",
        &Reason::Parameter,
    );
}

#[test]
fn control() {
    refused(
        "mov.f32 %f2, %f1; setp.gt.u32 %p1, %r1, 1000; @!%p1 bra ON;\nAGAIN: mul.f32 %f2, %f2, %f1; // !\nbra AGAIN; ON:",
        &Reason::Loop,
    );
    let nested: String =
        (0..13).map(|at| format!("L{at}: add.f32 %f2, %f2, %f1; // !\n")).collect();
    let ends: String = (0..13).rev().map(|at| format!("@%p1 bra L{at};")).collect();
    refused(
        &format!(
            "mov.f32 %f2, %f1; setp.gt.u32 %p1, %r1, 1000;\n{}{ends}",
            nested.replacen(" // !", "", 12)
        ),
        &Reason::Loop,
    );
    refused(
        "mov.f32 %f2, %f1; setp.gt.u32 %p1, %r1, 3; @%p1 bra B;\n\
         A: add.f32 %f2, %f2, %f1; // !\nB: mul.f32 %f2, %f2, %f1; setp.lt.f32 %p2, %f2, 0f00000000; @%p2 bra A;",
        &Reason::Irreducible,
    );
    for code in ["barrier.sync 1, 32;", "bar.sync 1;", "bar.arrive 1, 64;"] {
        let shared = format!("st.shared.f32 [s], %f1; mov.f32 %f2, %f1;\n{code} // !");
        refused_with(".shared .b32 s;", &shared, &two(), &Reason::Barrier);
        // By memory of the device.
        let load = format!("ld.global.f32 %f2, [%w2]; mul.f32 %f2, %f2, %f1;\n{code} // !");
        refused(&load, &Reason::Barrier);
        // Elements that two threads store to: the last one has the gradient.
        let store = format!("mov.f32 %f2, %f1; st.global.f32 [%w2+4], %f2;\n{code} // !");
        refused(&store, &Reason::Barrier);
    }
    refused("mov.f32 %f2, %f1;\nbar.arrive 1, 64; // !", &Reason::Barrier);
    // Threads leave before a barrier that counts them.
    refused(
        "mov.f32 %f2, %f1; setp.gt.u32 %p1, %r1, 5; @%p1 bra END;\nbar.red.popc.u32 %r2, 0, %p1; // !\n\
         cvt.rn.f32.u32 %f3, %r2; mul.f32 %f2, %f2, %f3; END:",
        &Reason::Barrier,
    );
    refused_with(
        ".extern .func (.param .b32 r) f(.param .b32 a);",
        "{ .param .b32 a; .param .b32 b; st.param.f32 [a], %f1;\ncall (b), f, (a); // !\nld.param.f32 %f2, [b]; }",
        &two(),
        &Reason::Call,
    );
    refused_with(
        ".func (.param .b32 r) f(.param .b32 a) { .reg .f32 %f<3>; .param .b32 c; .param .b32 d; ld.param.f32 %f1, [a]; st.param.f32 [c], %f1; call (d), f, (c); /* // ! */ ld.param.f32 %f1, [d]; st.param.f32 [r], %f1; ret; }",
        "{ .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; call (b), f, (a); ld.param.f32 %f2, [b]; }",
        &two(),
        &Reason::Recursion,
    );
    refused(
        "{ .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; P: .callprototype (.param .b32 _) _ (.param .b32 _);\n\
         call (b), %w4, (a), P; // !\nld.param.f32 %f2, [b]; }",
        &Reason::Indirect,
    );
    // What `printf` returns.
    refused_with(
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);",
        "{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %w1; st.param.b64 [b], 0; call (c), vprintf, (a, b);\n\
         ld.param.b32 %r2, [c]; // !\n} setp.gt.s32 %p1, %r2, 3; selp.f32 %f2, %f1, 0f00000000, %p1;",
        &two(),
        &Reason::Call,
    );
}

#[test]
fn other_instructions() {
    refused("shfl.down.b32 %f2, %f1, 1, 31; // !", &Reason::Warp);
    refused("redux.sync.min.f32 %f2, %f1, -1; // !", &Reason::Warp);
    // Some threads of a warp do not come there.
    for condition in ["%r1, 5", "%r1, 33"] {
        let code = format!(
            "mov.f32 %f2, %f1; setp.ge.u32 %p1, {condition}; @%p1 bra ON;\n\
             shfl.sync.down.b32 %f2, %f1, 1, 31, -1; // !\nON:"
        );
        refused(&code, &Reason::Warp);
    }
    let barrier = "st.shared.f32 [s], %f1; setp.eq.u32 %p1, %r1, 0; @%p1 bra ON;\n\
        bar.warp.sync -1; // !\nON: ld.shared.f32 %f2, [s];";
    refused_with(".shared .b32 s;", barrier, &two(), &Reason::Warp);
    refused(
        "cvt.rn.f16.f32 %h1, %f1; add.u16 %h1, %h1, %h1; cvt.f32.f16 %f2, %h1; // !",
        &Reason::Bits,
    );
    refused("cvt.rna.tf32.f32 %r2, %f1; mov.b32 %f2, %r2; // !", &Reason::Half);
    refused("mov.f32 %f2, %f1;\ncp.async.wait_all; // !", &Reason::Async);
    refused(
        ".shared .align 8 .b64 s; mov.f32 %f2, %f1;\nmbarrier.init.shared.b64 [s], 4; // !",
        &Reason::Async,
    );
    refused(
        "mov.f32 %f2, %f1;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r2, %r3; // !",
        &Reason::Matrix,
    );
    refused("tex.1d.v4.f32.s32 {%f2, %f3, %f4, %f5}, [%w6, {%r1}]; // !", &Reason::Texture);
    for sum in [
        "fma.rn.f32 %f3, %f1, %f1, %f9;",
        "add.f32 %f3, %f1, 0f4b400000;",
        "sub.rn.f32 %f3, 0f4b400001, %f1;",
    ] {
        for rest in ["sub.rn.f32 %f4, %f3, %f9;", "add.f32 %f4, %f3, 0fcb40007f;"] {
            let code =
                format!("mov.f32 %f9, 0f4b400000; {sum}\n{rest} // !\nsub.f32 %f2, %f1, %f4;");
            refused(&code, &unknown("rounding by a large constant"));
        }
    }
    refused("ad.lost.f32 %f2, %f1; // !", &Reason::Lost);
    refused("ad.lost.f32.jnf %f2, %f1; // !", &Reason::Lost);
    refused("ad.mystery.f32 %f2, %f1; // !", &unknown("ad.mystery.f32"));
    // Wrong numbers of operands, and constants in places of registers.
    for operands in [
        "%f2, %f1",
        "%f2, %f1, %f1",
        "%f2, %f1, %f1, %f1, %f1",
        "%f2, %f1, %f1, 0f3f800000",
        "%f2, %f1, %f1, 0f3f800000, %f1, 0f3f800000",
    ] {
        refused(&format!("ad.rule.f32 {operands}; // !"), &unknown("ad.rule.f32"));
    }
    refused("ad.stop.f32 %f2, %f1, %f1; // !", &unknown("ad.stop.f32"));
    refused("max.xorsign.abs.f32 %f2, %f1, %f1; // !", &unknown("max.xorsign.abs"));
    refused("mov.f32 %f2, %f1;\nwibble.f32 %f3, %f1; // !", &unknown("wibble.f32"));
    refused(
        "mov.u64 %w6, %clock64; // !\nsetp.gt.u64 %p1, %w6, 99; selp.f32 %f2, %f1, 0f00000000, %p1;",
        &unknown("%clock64"),
    );
    refused("alloca.u64 %w6, 16; mov.f32 %f2, %f1; // !", &Reason::LocalMemory);
}

#[test]
fn no_path() {
    // Only compared.
    refused(
        "setp.gt.f32 %p1, %f1, 0f00000000; // !\nselp.f32 %f2, 0f3f800000, 0f00000000, %p1;",
        &Reason::NoPath,
    );
    refused("cvt.rni.f32.f32 %f2, %f1; // !", &Reason::NoPath);
    refused(
        "mov.f32 %f3, %f1;\nmov.f32 %f2, 0f3f800000;\nst.global.f32 [%w5+4], %f2; // !",
        &Reason::NoPath,
    );
    let idle = spec("k", &two().map(Arg::constant));
    let text = module("", ".param .u64 x, .param .u64 out", "ret;");
    let error = differentiate(&parse(&text).expect("valid"), &idle).expect_err("nothing is active");
    assert_eq!(error.refusals[0].reason, Reason::NoPath);
}

#[test]
fn specifications_that_do_not_fit() {
    let text = module("", ".param .u64 x, .param .u64 out, .param .b32 a", "ret;");
    let parsed = parse(&text).expect("valid");
    let args = [floats(&[1.0]), floats(&[1.0]), scalar(1.0)];
    let whole = spec("k", &args);
    let reason =
        |spec: &Spec| differentiate(&parsed, spec).expect_err("wrong").refusals[0].reason.clone();
    let changed = |change: &dyn Fn(&mut Vec<Param>)| {
        let mut spec = whole.clone();
        change(&mut spec.params);
        spec
    };
    let other = Spec { kernel: "none".to_owned(), ..whole.clone() };
    assert_eq!(reason(&other), Reason::NoKernel);
    let wrong: [(&str, Spec); 8] = [
        ("one less", changed(&|params| drop(params.pop()))),
        ("one more", changed(&|params| params.push(Param::default()))),
        ("beyond the end", changed(&|params| params[0].pointers[0].offset = 8)),
        ("not aligned", changed(&|params| params[0].pointers[0].offset = 4)),
        ("at the largest offset", changed(&|params| params[2].reals[0].0 = u32::MAX)),
        (
            "twice",
            changed(&|params| {
                let again = params[2].reals[0];
                params[2].reals.push(again);
            }),
        ),
        ("no numbers", changed(&|params| params[0].pointers[0].reals = None)),
        ("empty elements", changed(&|params| params[0].pointers[0].size = 0)),
    ];
    for (what, spec) in wrong {
        assert_eq!(reason(&spec), Reason::Parameter, "{what}");
    }
    let debug = text.replacen("sm_90", "sm_90, debug", 1);
    let error = differentiate(&parse(&debug).expect("valid"), &whole).expect_err("-G");
    assert_eq!(error.refusals[0].reason, Reason::Debug);

    // Other types than the kernel's.
    refused(
        "mov.f32 %f2, %f1;\nld.global.f64 %d1, [%w4]; // !\ncvt.rn.f32.f64 %f2, %d1;",
        &Reason::Parameter,
    );
    let both = [
        two().to_vec(),
        vec![Arg::Value { bytes: vec![0; 8], reals: vec![(0, ptx_ad::Real::F32)], active: true }],
    ]
    .concat();
    refused_with(
        "",
        "ld.param.f64 %d1, [n]; // !\ncvt.rn.f32.f64 %f2, %d1; add.f32 %f2, %f2, %f1;",
        &both,
        &Reason::Parameter,
    );
    // An element of an array that is passed by value.
    let array = [
        two().to_vec(),
        vec![Arg::Value {
            bytes: vec![0; 16],
            reals: (0..4).map(|at| (at * 4, ptx_ad::Real::F32)).collect(),
            active: true,
        }],
    ]
    .concat();
    refused_with(
        "",
        "mov.u64 %w6, n; add.u64 %w6, %w6, %w3; ld.param.f32 %f3, [n]; ld.param.f32 %f4, [%w6]; // !\nfma.rn.f32 %f2, %f1, %f3, %f4;",
        &array,
        &Reason::LocalMemory,
    );
    // Integers and numbers in one element.
    let mixed = |at: Vec<u32>| {
        [
            Arg::Buffer {
                bytes: vec![0; 64],
                size: 8,
                layout: Layout::Some(ptx_ad::Real::F32, at),
                active: true,
                length: None,
            },
            floats(&[0.0; 8]),
            word(1),
            words(&[1; 8]),
        ]
    };
    refused_with(
        "",
        "add.u64 %w7, %w4, %w3; mov.f32 %f2, %f1;\nld.global.u8 %r2, [%w7+1]; // !\nld.global.f32 %f3, [%w7]; mul.f32 %f2, %f2, %f3; cvt.rn.f32.u32 %f4, %r2; mul.f32 %f2, %f2, %f4;",
        &mixed(vec![0]),
        &Reason::Bits,
    );
    let _ = Reals::All(ptx_ad::Real::F32);
}

/// All at once, in the order of the code, with the user's line and the header's.
#[test]
fn places() {
    let code = ".loc 1 14 3\nshfl.down.b32 %f2, %f1, 1, 31;\n\
        .loc 2 7 1, function_name $n, inlined_at 1 21 5\n\
        ld.volatile.global.f32 %f3, [%w5+4]; ld.volatile.global.f32 %f3, [%w5+8];\n.loc 1 22 1\nadd.f32 %f2, %f2, %f3;\n\
        .loc 1 0 3\nld.volatile.global.f32 %f3, [%w5+12];";
    let text = module(".file 1 \"fluid.cu\" .file 2 \"head.cuh\"", ".param .u64 x, .param .u64 out", &format!(
        "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %w3, %r1, 4;
         add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3; ld.global.f32 %f1, [%w4];\n{code}\nst.global.f32 [%w5], %f2;\nret;"));
    let text = text.replace(".file 2", "\n.file 2");
    let text = format!("{text}\n.section .debug_str\n{{\n$n:\n.b8 102\n.b8 0\n}}\n");
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let error = differentiate(&module, &spec("k", &two())).expect_err("refused");
    let place = |file: &str, line: u32| Some(Place { file: file.to_owned(), line });
    let found: Vec<_> = error
        .refusals
        .iter()
        .map(|r| (r.reason.clone(), r.user.clone(), r.inner.clone()))
        .collect();
    assert_eq!(
        found,
        [
            (Reason::Warp, place("fluid.cu", 14), None),
            // Two on one line are told once.
            (Reason::Volatile, place("fluid.cu", 21), place("head.cuh", 7)),
            // A line 0 is that of merged code: the line before it is told.
            (Reason::Volatile, place("fluid.cu", 22), None),
        ]
    );
    let shown = error.to_string();
    assert!(shown.starts_with("`k` can't be differentiated:\n  fluid.cu:14  "), "{shown}");
    assert!(shown.contains("(inlined from head.cuh:7)\n"), "{shown}");
}
