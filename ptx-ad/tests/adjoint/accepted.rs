//! Kernels that look like those that are refused, and special values.

use ptx_ad::Real;

use crate::common::{
    Arg, Compared, Device, Failure, Layout, Shape, doubles, floats, kernel, module, scalar, shape,
    word, words,
};

const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %tid.x; \
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; \
    mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3;";

fn right(text: &str, args: &[Arg], shape: Shape) -> Compared {
    let compared = match Device::new().compare(text, "k", args, shape, 1) {
        Ok((compared, _)) => compared,
        Err(Failure::Refused(refused)) => panic!("{refused}\n{text}"),
        Err(Failure::Undefined(why) | Failure::Wrong(why)) => panic!("{why}\n{text}"),
    };
    assert!(compared.error <= 2e-6, "{compared:?}\n{text}");
    assert!(compared.magnitude > 0.1, "nothing was compared\n{text}");
    compared
}

fn simple(before: &str, code: &str) -> Compared {
    let code =
        format!("{START} ld.global.f32 %f1, [%w4];\n{code}\nst.global.f32 [%w5], %f2;\nret;");
    let text = module(before, ".param .u64 x, .param .u64 out", &code);
    let values: Vec<f32> = (0..70).map(|at| 0.5 + at as f32 / 64.0).collect();
    right(&text, &[floats(&values), floats(&values)], shape(2, 35))
}

#[test]
fn constants_of_the_module() {
    for (before, read) in [
        (".global .f32 v = 0f40000000;", "ld.global.f32 %f3, [v];"),
        (".const .f32 v[2] = {0f40000000, 0f40400000};", "ld.const.f32 %f3, [v+4];"),
        (
            ".global .align 4 .f32 v[4] = {0f40000000, 0f40400000, 0f3f800000, 0f40000000};",
            "mov.u64 %w6, v; and.b32 %r4, %r1, 3; mul.wide.u32 %w7, %r4, 4; add.s64 %w6, %w6, %w7; ld.global.f32 %f3, [%w6];",
        ),
    ] {
        simple(before, &format!("{read} mul.f32 %f2, %f1, %f3;"));
    }
    // By a generic address, after a store to other memory.
    simple(
        ".const .align 4 .f32 v[2] = {0f40000000, 0f40400000};",
        "st.global.f32 [%w5], 0f3f800000; mov.u64 %w6, v; cvta.const.u64 %w6, %w6; ld.f32 %f3, [%w6+4]; mul.f32 %f2, %f1, %f3;",
    );
    // Its address is compared, and the result stored.
    simple(
        ".const .f32 v = 0f40000000; .visible .global .b32 n;",
        "mov.u64 %w6, v; cvta.const.u64 %w6, %w6; setp.eq.u64 %p1, %w6, %w1; selp.b32 %r5, 1, 0, %p1; \
         st.global.u32 [n], %r5; ld.f32 %f3, [%w6]; mul.f32 %f2, %f1, %f3;",
    );
    // What is only stored to is not in the adjoint.
    simple(".visible .global .b32 n;", "st.global.u32 [n], 1; mul.f32 %f2, %f1, %f1;");
    simple(".visible .global .b32 n;", "red.global.add.u32 [n], 1; mul.f32 %f2, %f1, %f1;");
}

#[test]
fn calls_that_print_or_stop() {
    let before = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b); \
        .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn; \
        .global .align 1 .b8 text[4] = {37, 102, 10, 0};";
    simple(
        before,
        ".local .align 8 .b8 own[8]; cvt.f64.f32 %d1, %f1; st.local.f64 [own], %d1;\n\
         mov.u64 %w6, text; cvta.global.u64 %w6, %w6; mov.u64 %w7, own; cvta.local.u64 %w7, %w7;\n\
         { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %w6; st.param.b64 [b], %w7;\n\
         call.uni (c), vprintf, (a, b); ld.param.b32 %r9, [c]; }\nmul.f32 %f2, %f1, %f1;",
    );
    simple(
        before,
        "setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra FINE;\n\
         { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; mov.u64 %w6, text;\n\
         st.param.b64 [a], %w6; st.param.b64 [b], %w6; st.param.b32 [c], 7; st.param.b64 [d], %w6; st.param.b64 [e], 1;\n\
         call.uni __assertfail, (a, b, c, d, e); }\ntrap;\nFINE: mul.f32 %f2, %f1, %f1;",
    );
    simple("", "setp.lt.f32 %p1, %f1, 0f00000000; @%p1 trap; mul.f32 %f2, %f1, %f1;");
    simple(
        "",
        "setp.lt.f32 %p1, %f1, 0f00000000; @%p1 bra BAD; mul.f32 %f2, %f1, %f1; bra GOOD; BAD: trap; GOOD:",
    );
}

/// Numbers where others may only be integers.
#[test]
fn moves() {
    for code in [
        "mov.b32 %r5, %f1; mov.b64 %w6, {%r5, %r5}; mov.b64 {%r6, %r7}, %w6; mov.b32 %f3, %r7; mul.f32 %f2, %f1, %f3;",
        "cvt.f64.f32 %d1, %f1; mov.b64 {%r5, %r6}, %d1; mov.b64 %d2, {%r5, %r6}; mul.f64 %d2, %d2, %d1; cvt.rn.f32.f64 %f2, %d2;",
        "mov.b32 %r5, %f1; and.b32 %r5, %r5, 0x7fffffff; xor.b32 %r5, %r5, 0x80000000; mov.b32 %f2, %r5;",
        "cvt.f64.f32 %d1, %f1; mov.b64 %w6, %d1; and.b64 %w6, %w6, 0x7fffffffffffffff; mov.b64 %d2, %w6; mul.f64 %d2, %d2, %d1; cvt.rn.f32.f64 %f2, %d2;",
        "mov.b32 %r5, %f1; setp.gt.s32 %p1, %r5, 0x3f800000; selp.b32 %r6, %r5, 0f40000000, %p1; mov.b32 %f3, %r6; mul.f32 %f2, %f1, %f3;",
        // Halves of 64 bits, as compilers take them from structures.
        "mov.b32 %r5, %f1; cvt.u64.u32 %w6, %r5; cvt.u32.u64 %r6, %w6; mov.b32 %f3, %r6; mul.f32 %f2, %f1, %f3;",
        "mov.b32 %r5, %f1; mul.f32 %f3, %f1, %f1; mov.b32 %r6, %f3; mov.b64 %w6, {%r5, %r6}; shr.u64 %w7, %w6, 32; \
         cvt.u32.u64 %r7, %w7; cvt.u32.u64 %r8, %w6; mov.b32 %f4, %r7; mov.b32 %f5, %r8; fma.rn.f32 %f2, %f4, %f5, %f4;",
        "mov.b32 %r5, %f1; cvt.u64.u32 %w6, %r5; shl.b64 %w6, %w6, 32; shr.u64 %w6, %w6, 32; cvt.u32.u64 %r6, %w6; \
         mov.b32 %f3, %r6; mul.f32 %f2, %f1, %f3;",
        // One zero for numbers of both types.
        "mov.u32 %r5, 0; mov.b32 %f3, %r5; mov.b64 %d1, {%r5, %r5}; setp.gt.f32 %p1, %f1, 0f40000000; \
         selp.f32 %f3, %f3, %f1, %p1; cvt.f64.f32 %d2, %f3; selp.f64 %d2, %d1, %d2, %p1; cvt.rn.f32.f64 %f3, %d2; \
         mul.f32 %f2, %f3, %f1;",
        // The exponent is only compared.
        "mov.b32 %r5, %f1; shr.u32 %r5, %r5, 23; setp.gt.u32 %p1, %r5, 126; selp.f32 %f3, %f1, 0f3f800000, %p1; mul.f32 %f2, %f3, %f3;",
        "cvt.rzi.s32.f32 %r5, %f1; cvt.rn.f32.s32 %f3, %r5; add.f32 %f3, %f3, %f1; mul.f32 %f2, %f3, %f1;",
        // The sign alone, as products of complex numbers take it.
        "mov.b32 %r5, %f1; and.b32 %r5, %r5, 0x80000000; or.b32 %r5, %r5, 0x3f800000; mov.b32 %f3, %r5; mul.f32 %f2, %f1, %f3;",
        "cvt.f64.f32 %d1, %f1; mov.b64 %w6, %d1; and.b64 %w6, %w6, -9223372036854775808; or.b64 %w6, %w6, \
         0x3ff0000000000000; mov.b64 %d2, %w6; fma.rn.f64 %d2, %d2, %d1, %d1; cvt.rn.f32.f64 %f2, %d2;",
        // What has no derivative is only compared.
        "ad.lost.f32 %f3, %f1; setp.gt.f32 %p1, %f3, 0f40000000; selp.f32 %f3, %f1, 0f3f800000, %p1; mul.f32 %f2, %f1, %f3;",
    ] {
        simple("", code);
    }
}

/// The sign of a double in 32 bits. The device follows tangents in 64 bits alone, so the adjoint is compared with the
/// kernel that takes the sign so.
#[test]
fn signs_of_upper_halves() {
    let text = |sign: &str| {
        let code = format!(
            "{START} ld.global.f32 %f1, [%w4]; cvt.f64.f32 %d1, %f1; {sign} fma.rn.f64 %d2, %d2, %d1, %d1;\n\
             mul.f64 %d2, %d2, %d1; cvt.rn.f32.f64 %f2, %d2; st.global.f32 [%w5], %f2; ret;"
        );
        kernel(".param .u64 x, .param .u64 out", &code)
    };
    let halves = text(
        "mov.b64 {%r5, %r6}, %d1; and.b32 %r6, %r6, 0x80000000; or.b32 %r6, %r6, 0x3ff00000; mov.u32 %r5, 0; \
         mov.b64 %d2, {%r5, %r6};",
    );
    let whole = text(
        "mov.b64 %w6, %d1; and.b64 %w6, %w6, 0x8000000000000000; or.b64 %w6, %w6, 0x3ff0000000000000; mov.b64 %d2, %w6;",
    );
    let args = [floats(&[0.5, 1.5, -2.0]), floats(&[0.0; 3])];
    let module = ptx_ad::parse(&halves).expect("valid");
    let adjoint = ptx_ad::differentiate(&module, &crate::common::spec("k", &args)).expect("signs");
    let got = Device::new().compare_with(&whole, "k", &args, shape(1, 3), 3, &adjoint);
    let got = got.expect("it runs");
    assert!(got.error < 1e-6 && got.magnitude > 0.1, "{got:?}");
}

#[test]
fn markers() {
    // A device has no such instruction, so the adjoint is compared with what it stands for.
    let made = |code: &str| {
        let code =
            format!("{START} ld.global.f32 %f1, [%w4];\n{code}\nst.global.f32 [%w5], %f2;\nret;");
        let text = kernel(".param .u64 x, .param .u64 out", &code);
        let args = [floats(&[1.0]), floats(&[1.0])];
        let spec = crate::common::spec("k", &args);
        ptx_ad::differentiate(&ptx_ad::parse(&text).expect("valid"), &spec).expect("rules").text
    };
    let device = Device::new();
    let rule =
        made("mul.f32 %f3, %f1, %f1; add.f32 %f4, %f1, %f1; ad.rule.f32 %f2, %f3, %f1, %f4;");
    assert!(device.load(&rule).is_ok(), "{rule}");
    let args = [floats(&[0.5, 1.5, -2.0]), floats(&[0.0; 3])];
    let text = kernel(
        ".param .u64 x, .param .u64 out",
        &format!(
            "{START} ld.global.f32 %f1, [%w4];\nmul.f32 %f2, %f1, %f1;\nst.global.f32 [%w5], %f2;\nret;"
        ),
    );
    let module = ptx_ad::parse(&text).expect("valid");
    let mut adjoint =
        ptx_ad::differentiate(&module, &crate::common::spec("k", &args)).expect("plain");
    adjoint.text = rule;
    let got = device.compare_with(&text, "k", &args, shape(1, 3), 3, &adjoint).expect("it runs");
    assert!(got.error < 1e-6, "{got:?}");
    // x stop(x): half of the derivative.
    adjoint.text = made("ad.stop.f32 %f3, %f1; mul.f32 %f2, %f1, %f3;");
    let half = device.compare_with(&text, "k", &args, shape(1, 3), 3, &adjoint).expect("it runs");
    for ((whole, half), kept) in got.gradient[0].iter().zip(&half.gradient[0]).zip(&got.weights[0])
    {
        assert!((whole - kept - 2.0 * (half - kept)).abs() < 1e-6, "{whole} {half}");
    }
}

/// Integers in memory of the thread, by generic addresses, choose what is read.
#[test]
fn local_memory_of_integers() {
    simple(
        "",
        ".local .align 4 .b8 own[16]; mov.u64 %w6, own; cvta.local.u64 %w6, %w6; and.b32 %r5, %r1, 3;\n\
         st.u32 [%w6+0], 3; st.u32 [%w6+4], 1; st.local.u32 [own+8], 0; st.u32 [%w6+12], 2;\n\
         mul.wide.u32 %w7, %r5, 4; add.s64 %w7, %w6, %w7; ld.u32 %r6, [%w7];\n\
         mul.wide.u32 %w8, %r6, 4; add.s64 %w8, %w1, %w8; ld.global.f32 %f3, [%w8]; mul.f32 %f2, %f1, %f3;",
    );
}

/// A structure of the thread with integers beside numbers: by constant addresses, and by an index.
#[test]
fn local_memory_of_both() {
    for (store, load) in [
        ("mov.u64 %w6, own;", "mov.u64 %w7, own; add.s64 %w7, %w7, 16;"),
        // { float; int; } own[4]
        (
            "and.b32 %r5, %r1, 3; mov.u64 %w6, own; mul.wide.u32 %w8, %r5, 8; add.s64 %w6, %w6, %w8;",
            "mov.u64 %w7, own; add.s64 %w7, %w7, %w8;",
        ),
    ] {
        simple(
            "",
            &format!(
                ".local .align 16 .b8 own[32]; mov.b64 %w9, 0; st.local.v2.b64 [own], {{%w9, %w9}};\n\
                 st.local.v2.b64 [own+16], {{%w9, %w9}}; {store} {load}\n\
                 st.local.f32 [%w6], %f1; st.local.u32 [%w7+4], 3; ld.local.u32 %r6, [%w7+4]; cvt.rn.f32.u32 %f3, %r6;\n\
                 ld.local.f32 %f4, [%w6]; mul.f32 %f3, %f3, %f4; mul.f32 %f2, %f3, %f1;"
            ),
        );
    }
}

/// The carry is read by the next instruction only.
#[test]
fn carries() {
    simple(
        "",
        "add.cc.u32 %r5, %r1, 0xfffffffe; addc.u32 %r6, 0, 0; mul.wide.u32 %w8, %r6, 4; add.s64 %w8, %w1, %w8;\n\
         ld.global.f32 %f3, [%w8]; mul.f32 %f2, %f1, %f3;",
    );
}

/// Threads that differ in y share what they index by x.
#[test]
fn two_dimensions() {
    let code = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; \
        mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; mov.u32 %r4, %tid.y; \
        mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; mov.u32 %r5, %nctaid.x; mul.lo.u32 %r5, %r5, %r3; \
        mad.lo.u32 %r6, %r4, %r5, %r1; mul.wide.u32 %w6, %r6, 4; add.s64 %w5, %w2, %w6;\n\
        ld.global.f32 %f1, [%w4]; cvt.rn.f32.u32 %f2, %r4; fma.rn.f32 %f2, %f1, %f1, %f2; st.global.f32 [%w5], %f2; ret;";
    let text = kernel(".param .u64 x, .param .u64 out", code);
    let args = [floats(&[0.5; 16]), floats(&[0.0; 64])];
    let shape = Shape { grid: [2, 1, 1], block: [8, 4, 1] };
    right(&text, &args, shape);
    let right = Device::new().compare(&text, "k", &args, shape, 1);
    let (_, adjoint) = right.unwrap_or_else(|failure| panic!("{failure:?}"));
    assert!(!adjoint.accesses[0].own && adjoint.dimensions == 2);
}

/// Members of structures: integers, and numbers by vectors.
#[test]
fn structures() {
    // { float a; int n; double is not here; float b, c; }
    let code = format!(
        "{START} shl.b32 %r4, %r1, 4; cvt.u64.u32 %w6, %r4; add.s64 %w4, %w1, %w6; add.s64 %w5, %w2, %w6;\n\
         ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%w4]; mov.b32 %f1, %r5; mov.b32 %f3, %r7; mov.b32 %f4, %r8;\n\
         cvt.rn.f32.s32 %f5, %r6; mul.f32 %f1, %f1, %f5; mul.f32 %f3, %f3, %f4; add.s32 %r6, %r6, 1;\n\
         mov.b32 %r5, %f1; mov.b32 %r7, %f3; st.global.v4.b32 [%w5], {{%r5, %r6, %r7, 0}}; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let elements = |n: i32| {
        let each = |at: i32| {
            let float = |by: f32| (by + at as f32 / 8.0).to_le_bytes();
            [float(0.5), at.to_le_bytes(), float(1.5), float(-2.0)].concat()
        };
        let bytes = (0..n).flat_map(each).collect();
        let layout = Layout::Some(Real::F32, vec![0, 8, 12]);
        Arg::Buffer { bytes, size: 16, layout, active: true, length: None }
    };
    right(&text, &[elements(33), elements(33)], shape(1, 33));

    // Halves of doubles that only decide.
    let code = format!(
        "{START} shl.b32 %r4, %r1, 3; cvt.u64.u32 %w6, %r4; add.s64 %w4, %w1, %w6; add.s64 %w5, %w2, %w6;\n\
         ld.global.f64 %d1, [%w4]; ld.global.b32 %r5, [%w4]; setp.gt.f64 %p1, %d1, 0d4000000000000000;\n\
         @%p1 ld.global.b32 %r5, [%w4+4]; and.b32 %r6, %r5, 1; setp.eq.u32 %p2, %r6, 0;\n\
         mul.f64 %d2, %d1, %d1; @%p2 mul.f64 %d2, %d2, %d1; st.global.f64 [%w5], %d2; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let values: Vec<f64> = (0..33).map(|at| 1.0 + f64::from(at) / 10.0).collect();
    right(&text, &[doubles(&values), doubles(&[0.0; 33])], shape(1, 33));

    // { int a, b; double v; }: constants beside a double.
    let code = format!(
        "{START} shl.b32 %r4, %r1, 4; cvt.u64.u32 %w6, %r4; add.s64 %w4, %w1, %w6; add.s64 %w5, %w2, %w6;\n\
         ld.global.f64 %d1, [%w4+8]; mul.f64 %d1, %d1, %d1; st.global.v2.u32 [%w5], {{1, 2}}; \
         st.global.u32 [%w5+4], 7; st.global.f64 [%w5+8], %d1; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let elements = || {
        let bytes = (0..33)
            .flat_map(|at| [0f64.to_le_bytes(), (0.5 + f64::from(at)).to_le_bytes()].concat());
        let layout = Layout::Some(Real::F64, vec![8]);
        Arg::Buffer { bytes: bytes.collect(), size: 16, layout, active: true, length: None }
    };
    right(&text, &[elements(), elements()], shape(1, 33));
}

/// Compilers copy structures of doubles as vectors of 32 bits.
#[test]
fn copies_of_doubles() {
    let start = format!(
        "{START} shl.b32 %r4, %r1, 4; cvt.u64.u32 %w6, %r4; add.s64 %w4, %w1, %w6; add.s64 %w5, %w2, %w6;"
    );
    let two = |n: u32| doubles(&(0..2 * n).map(|at| 0.5 + f64::from(at) / 8.0).collect::<Vec<_>>());
    for code in [
        // From memory to memory.
        "ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%w4]; st.global.v4.b32 [%w5], {%r5, %r6, %r7, %r8};",
        "ld.global.v2.b32 {%r5, %r6}, [%w4]; st.global.v2.b32 [%w5+8], {%r5, %r6};\
         ld.global.v2.b32 {%r5, %r6}, [%w4+8]; st.global.v2.b32 [%w5], {%r5, %r6};",
        // With a number that was computed.
        "ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%w4]; mov.b64 %d1, {%r7, %r8}; mul.f64 %d1, %d1, %d1;\
         mov.b64 {%r7, %r8}, %d1; st.global.v4.b32 [%w5], {%r7, %r8, %r5, %r6};",
        // By way of local memory.
        "ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%w4]; st.local.v4.b32 [own], {%r5, %r6, %r7, %r8};\
         ld.local.f64 %d1, [own]; mul.f64 %d1, %d1, %d1; st.local.f64 [own], %d1;\
         ld.local.v4.b32 {%r5, %r6, %r7, %r8}, [own]; st.global.v4.b32 [%w5], {%r5, %r6, %r7, %r8};",
    ] {
        let local = ".local .align 16 .b8 own[16];";
        let text =
            kernel(".param .u64 x, .param .u64 out", &format!("{local} {start}\n{code} ret;"));
        right(&text, &[two(33), two(33)], shape(1, 33));
    }
    // { double v; int a, b; }
    let code = format!(
        "{start} ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%w4]; st.global.v4.b32 [%w5], {{%r5, %r6, %r8, %r7}};\
         ld.global.f64 %d1, [%w4]; setp.gt.f64 %p1, %d1, 0d4010000000000000; mul.f64 %d1, %d1, %d1;\
         @%p1 st.global.f64 [%w5], %d1; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let elements = || {
        let each = |at: i32| [(0.5 + f64::from(at)).to_le_bytes(), [at as u8; 8]].concat();
        let layout = Layout::Some(Real::F64, vec![0]);
        let bytes = (0..33).flat_map(each).collect();
        Arg::Buffer { bytes, size: 16, layout, active: true, length: None }
    };
    right(&text, &[elements(), elements()], shape(1, 33));
}

/// Where a kernel stores a constant, what was there has no gradient.
#[test]
fn what_is_overwritten_has_no_gradient() {
    let code = format!(
        "{START} ld.global.f32 %f1, [%w4]; setp.lt.u32 %p1, %r1, 3; @%p1 st.global.f32 [%w5], 0f40000000; \
         @!%p1 st.global.f32 [%w5], %f1; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let got = right(&text, &[floats(&[1.0; 8]), floats(&[2.0; 8])], shape(1, 8));
    assert_eq!(got.gradient[1], [0.0; 8]);
    // Of the input, what was there is left.
    assert_eq!(got.gradient[0][..3], got.weights[0][..3]);
}

/// What is not chosen has no gradient, though its derivative is infinite.
#[test]
fn strong_zeros() {
    for code in [
        // l > 0 ? v / l : 0
        "div.rn.f32 %f3, %f1, %f4; setp.gt.f32 %p1, %f4, 0f00000000; selp.f32 %f2, %f3, 0f00000000, %p1;",
        "rcp.rn.f32 %f3, %f4; setp.gt.f32 %p1, %f4, 0f00000000; selp.f32 %f2, %f3, 0f00000000, %p1;",
        "rsqrt.approx.f32 %f3, %f4; min.f32 %f2, %f3, 0f40000000;",
        "lg2.approx.f32 %f3, %f4; max.f32 %f2, %f3, 0fC0000000;",
        // By a branch, across blocks.
        "div.rn.f32 %f3, %f1, %f4; setp.gt.f32 %p1, %f4, 0f00000000; mov.f32 %f2, %f1; @!%p1 bra SKIP; mov.f32 %f2, %f3; SKIP:",
        "div.rn.f32 %f3, %f1, %f4; mul.f32 %f5, %f3, %f3; setp.gt.f32 %p1, %f4, 0f00000000; mov.f32 %f2, %f1; @!%p1 bra SKIP; mov.f32 %f2, %f5; SKIP:",
        "sqrt.rn.f32 %f2, %f4;",
        "slct.f32.f32 %f2, %f1, %f4, %f4;",
        // What is outside is cut off.
        "rcp.rn.f32 %f3, %f4; add.sat.f32 %f2, %f3, 0f3E800000;",
        "rcp.rn.f32 %f3, %f4; cvt.sat.f32.f32 %f2, %f3;",
        "rcp.rn.f32 %f3, %f4; fma.rn.sat.f32 %f2, %f3, %f1, 0f3f800000;",
    ] {
        let code = format!(
            "{START} ld.global.f32 %f1, [%w4]; abs.f32 %f4, %f1; {code} st.global.f32 [%w5], %f2; ret;"
        );
        let text = kernel(".param .u64 x, .param .u64 out", &code);
        let values: Vec<f32> =
            (0..40).map(|at| if at % 3 == 0 { 0.0 } else { 0.5 + at as f32 }).collect();
        let args = [floats(&values), floats(&[0.0; 40])];
        let module = ptx_ad::parse(&text).expect("valid");
        let adjoint =
            ptx_ad::differentiate(&module, &crate::common::spec("k", &args)).expect("smooth");
        // Tangents of what is not chosen may be infinite; the gradient must not be.
        match Device::new().compare_with(&text, "k", &args, shape(1, 40), 5, &adjoint) {
            Ok(got) => {
                assert!(
                    got.gradient[0].iter().all(|g| g.is_finite()),
                    "{code}: {:?}",
                    got.gradient[0]
                );
                assert!(got.error < 2e-5, "{code}: {got:?}");
            }
            Err(Failure::Undefined(_)) => {}
            Err(other) => panic!("{other:?}\n{code}"),
        }
    }
}

/// Ties, signs of zero and NaN, as documented.
#[test]
fn special_values() {
    let gradient = |code: &str, a: f32, b: f32| {
        let code = format!(
            "{START} ld.param.f32 %f1, [n]; ld.param.f32 %f3, [m]; {code} st.global.f32 [%w5], %f2; ret;"
        );
        let text = kernel(".param .u64 x, .param .u64 out, .param .f32 n, .param .f32 m", &code);
        let args = [floats(&[1.0]).constant(), floats(&[0.0]), scalar(a), scalar(b)];
        let module = ptx_ad::parse(&text).expect("valid");
        let adjoint =
            ptx_ad::differentiate(&module, &crate::common::spec("k", &args)).expect("smooth");
        let got = Device::new().compare_with(&text, "k", &args, shape(1, 1), 5, &adjoint);
        let got = got.unwrap_or_else(|error| panic!("{error:?}"));
        // The gradient of the output: what an identity of the first number gets.
        [got.gradient[2][0], got.gradient[3][0]].map(|g| (g * 1e6).round())
    };
    let [unit, none] = gradient("fma.rn.f32 %f2, %f3, 0f00000000, %f1;", 1.0, 1.0);
    assert_eq!(none, 0.0);
    for (code, a, b, wanted) in [
        ("max.f32 %f2, %f1, %f3;", 1.0, 1.0, [unit, 0.0]),
        ("min.f32 %f2, %f1, %f3;", 1.0, 1.0, [unit, 0.0]),
        ("max.f32 %f2, %f1, %f3;", 1.0, 2.0, [0.0, unit]),
        ("min.f32 %f2, %f1, %f3;", 1.0, 2.0, [unit, 0.0]),
        ("max.f32 %f2, %f1, %f3;", 1.0, f32::NAN, [unit, 0.0]),
        ("min.f32 %f2, %f1, %f3;", f32::NAN, 2.0, [0.0, unit]),
        ("abs.f32 %f2, %f1; fma.rn.f32 %f2, %f3, 0f00000000, %f2;", -0.0, 1.0, [-unit, 0.0]),
        ("abs.f32 %f2, %f1; fma.rn.f32 %f2, %f3, 0f00000000, %f2;", 0.0, 1.0, [unit, 0.0]),
        ("sqrt.rn.f32 %f2, %f1; fma.rn.f32 %f2, %f3, 0f00000000, %f2;", 0.0, 1.0, [0.0, 0.0]),
        ("copysign.f32 %f2, %f3, %f1;", -2.0, -1.0, [unit, 0.0]),
        ("copysign.f32 %f2, %f3, %f1;", -2.0, 1.0, [-unit, 0.0]),
        ("add.sat.f32 %f2, %f1, %f3;", 0.25, 0.5, [unit, unit]),
        ("add.sat.f32 %f2, %f1, %f3;", 0.75, 0.5, [0.0, 0.0]),
        ("add.sat.f32 %f2, %f1, %f3;", -0.75, 0.5, [0.0, 0.0]),
        ("slct.f32.f32 %f2, %f1, %f3, 0fBF800000;", 1.0, 2.0, [0.0, unit]),
    ] {
        if code.contains("copysign") || code.contains("sat") && a > 0.7 || code.contains("slct") {
            // One of the two has no path.
        }
        let code = format!(
            "{code} fma.rn.f32 %f2, %f1, 0f00000000, %f2; fma.rn.f32 %f2, %f3, 0f00000000, %f2;"
        );
        let zero = a.is_nan() || b.is_nan();
        let got = if zero {
            gradient(code.split(" fma").next().expect("the first"), a, b)
        } else {
            gradient(&code, a, b)
        };
        assert_eq!(got, wanted, "{code} of {a} and {b}");
    }
}

/// Launches of all sizes, with and without own elements.
#[test]
fn sizes() {
    let code = format!(
        "{START} ld.param.u32 %r9, [n]; ld.param.f32 %f9, [a]; setp.ge.u32 %p1, %r1, %r9; @%p1 bra END;\n\
         ld.global.f32 %f1, [%w4]; ld.global.f32 %f2, [%w5]; mul.f32 %f3, %f1, %f9; fma.rn.f32 %f2, %f2, %f3, %f1; \
         st.global.f32 [%w5], %f2; END: ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out, .param .b32 n, .param .f32 a", &code);
    for n in [0, 1, 31, 32, 33, 1000] {
        let values: Vec<f32> = (0..n).map(|at| (at % 7) as f32 - 2.5).collect();
        let args = [floats(&values).len(1, 2), floats(&values).len(1, 2), word(n), scalar(0.75)];
        for block in [1, 33, 1024] {
            let grid = n.div_ceil(block).clamp(1, 1000);
            for masks in [false, true] {
                let mut device = Device::new();
                device.masks = masks;
                let got = device.compare(&text, "k", &args, shape(grid, block), 9);
                let (got, adjoint) = got.unwrap_or_else(|error| panic!("{error:?}"));
                assert!(got.error < 2e-6, "{n} in {block}: {got:?}");
                assert!(adjoint.accesses.iter().all(|access| access.own));
            }
        }
    }
}

/// Gathers, scatters by atomics, and a pointer that is not the thread's own.
#[test]
fn gathers_and_scatters() {
    let code = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; ld.param.u64 %w3, [at]; mov.u32 %r1, %tid.x; \
        mul.wide.u32 %w4, %r1, 4; add.s64 %w5, %w3, %w4; ld.global.u32 %r2, [%w5]; mul.wide.u32 %w6, %r2, 8; \
        add.s64 %w7, %w1, %w6; add.s64 %w8, %w2, %w6; ld.global.f64 %d1, [%w7]; mul.f64 %d1, %d1, %d1; \
        red.global.add.f64 [%w8], %d1; ret;";
    let text = kernel(".param .u64 x, .param .u64 out, .param .u64 at", code);
    let at: Vec<u32> = (0..64).map(|n| n * 7 % 5).collect();
    let got = right(
        &text,
        &[doubles(&[0.5, 1.5, -2.0, 3.0, 0.25]), doubles(&[0.0; 5]), words(&at)],
        shape(1, 64),
    );
    assert!(got.error < 1e-14);
}

/// Threads that read their neighbours' elements, and those that read two floats at once.
#[test]
fn stencils_and_pairs() {
    let code = format!(
        "{START} ld.global.f32 %f1, [%w4]; ld.global.f32 %f3, [%w4+4]; mul.f32 %f2, %f1, %f3; st.global.f32 [%w5], %f2; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let values: Vec<f32> = (0..71).map(|at| 0.5 + at as f32 / 64.0).collect();
    let args = [floats(&values), floats(&[0.0; 70])];
    let (got, adjoint) = Device::new()
        .compare(&text, "k", &args, shape(2, 35), 1)
        .unwrap_or_else(|failure| panic!("{failure:?}"));
    assert!(got.error < 1e-6, "{got:?}");
    assert!(!adjoint.accesses[0].own && adjoint.accesses[1].own && adjoint.shares);

    // A sum of both halves of 64 bits, loaded and stored whole.
    let code = format!(
        "{START} mul.wide.u32 %w6, %r1, 8; add.s64 %w7, %w1, %w6; add.s64 %w8, %w2, %w6; \
         ld.global.b64 %w9, [%w7]; mov.b64 {{%f1, %f3}}, %w9; mul.f32 %f2, %f1, %f3; mov.b64 %w10, {{%f2, %f3}}; \
         st.global.b64 [%w8], %w10; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    right(&text, &[floats(&values[..70]), floats(&[0.0; 70])], shape(1, 35));
    // Elements by an index: sums by atomics.
    let gather =
        text.replace("add.s64 %w7, %w1, %w6;", "and.b64 %w11, %w6, 56; add.s64 %w7, %w1, %w11;");
    right(&gather, &[floats(&values[..70]), floats(&[0.0; 70])], shape(1, 35));
}

/// One number of a vector that has a gradient is enough to clear it.
#[test]
fn vectors_with_zeros() {
    let code = format!(
        "{START} mul.wide.u32 %w6, %r1, 16; add.s64 %w7, %w1, %w6; add.s64 %w8, %w2, %w6; \
         ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%w7]; mul.f32 %f1, %f1, %f2; mul.f32 %f3, %f3, %f4; \
         st.global.v4.f32 [%w8], {{%f1, %f3, 0f00000000, %f1}}; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out", &code);
    let values: Vec<f32> = (0..32).map(|at| 0.5 + at as f32 / 64.0).collect();
    for zeros in 2..=4 {
        let mut device = Device::new();
        device.zeros = zeros;
        let (got, _) = device
            .compare(&text, "k", &[floats(&values), floats(&[0.0; 32])], shape(1, 8), 1)
            .unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(got.error < 1e-6, "{got:?}");
        assert_eq!(got.gradient[1], [0.0; 32]);
    }
}

/// Gradients are loaded before arithmetic, beside what the kernel loads; not where a store is between.
#[test]
fn loads_come_first() {
    let code = format!(
        "{START} ld.param.u64 %w6, [more]; add.s64 %w7, %w6, %w3; ld.global.f32 %f1, [%w4]; fma.rn.f32 %f2, %f1, %f1, 0f3F800000; sqrt.rn.f32 %f2, %f2; \
         mul.f32 %f3, %f2, %f1; st.global.f32 [%w5], %f2; st.global.f32 [%w7], %f3; ret;"
    );
    let text = kernel(".param .u64 x, .param .u64 out, .param .u64 more", &code);
    let values: Vec<f32> = (0..70).map(|at| at as f32 / 64.0 - 0.5).collect();
    let args = [floats(&values), floats(&values), floats(&values)];
    let (got, adjoint) = Device::new()
        .compare(&text, "k", &args, shape(2, 35), 3)
        .unwrap_or_else(|error| panic!("{error:?}"));
    assert!(got.error < 2e-6 && got.magnitude > 0.1, "{got:?}");
    let root = adjoint.text.find("sqrt.rn").expect("it is repeated");
    let before = adjoint.text[..root].matches("ld.global.f32").count();
    // That of the kernel, and those of two gradients.
    assert_eq!(before, 3, "{}", adjoint.text);
}
