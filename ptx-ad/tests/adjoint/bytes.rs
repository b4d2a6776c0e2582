//! Numbers that are copied byte by byte, as `memcpy` of structures compiles to. The device follows no tangents through
//! bytes, so adjoints are compared with kernels that copy whole numbers.

use std::fmt::Write;

use ptx_ad::{Reason, differentiate, parse};

use crate::common::{Arg, Device, doubles, floats, kernel, shape, spec};

const PARAMS: &str = ".param .u64 x, .param .u64 out";
/// The thread's elements of 16 bytes of x and out are at `%w4` and `%w5`.
const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; \
    mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; mul.wide.u32 %w3, %r1, 16; add.s64 %w4, %w1, %w3; \
    add.s64 %w5, %w2, %w3;";

fn text(code: &str) -> String {
    kernel(PARAMS, &format!("{START}\n{code}\nret;"))
}

/// Compares the adjoint of the code by bytes with the code by numbers.
#[track_caller]
fn right(args: &[Arg], by_bytes: &str, by_numbers: &str) {
    let module = parse(&text(by_bytes)).unwrap_or_else(|error| panic!("{error}\n{by_bytes}"));
    let adjoint = differentiate(&module, &spec("k", args))
        .unwrap_or_else(|refused| panic!("{refused}\n{by_bytes}"));
    for scratch in [0, 1 << 20] {
        let mut device = Device::new();
        device.scratch = scratch;
        let got = device.compare_with(&text(by_numbers), "k", args, shape(2, 16), 1, &adjoint);
        let got = got.unwrap_or_else(|failure| panic!("{failure:?}\n{}", adjoint.text));
        assert!(got.error <= 2e-6 && got.magnitude > 0.1, "{got:?}\n{}", adjoint.text);
    }
}

#[track_caller]
fn refused(args: &[Arg], code: &str) {
    let module = parse(&text(code)).unwrap_or_else(|error| panic!("{error}\n{code}"));
    let refused = differentiate(&module, &spec("k", args)).expect_err(code);
    assert!(refused.refusals.iter().any(|refusal| refusal.reason == Reason::Bits), "{refused}");
}

fn singles() -> Vec<Arg> {
    let values =
        |from: f32| floats(&(0..128).map(|at| from + at as f32 / 64.0).collect::<Vec<_>>());
    vec![values(0.5), values(-1.0)]
}

fn pairs() -> Vec<Arg> {
    let values =
        |from: f64| doubles(&(0..64).map(|at| from + f64::from(at) / 64.0).collect::<Vec<_>>());
    vec![values(0.5), values(-1.0)]
}

/// Loads a `float` at an offset of x to `%f{to}`, by four bytes.
fn load(at: usize, to: usize) -> String {
    let mut code = String::new();
    for byte in 0..4 {
        let _ = write!(code, "ld.global.u8 %r{}, [%w4+{}]; ", 10 + byte, at + byte);
    }
    code + &format!(
        "prmt.b32 %r14, %r11, %r10, 30212; prmt.b32 %r15, %r13, %r12, 30212; prmt.b32 %r16, %r15, %r14, 4180; \
         mov.b32 %f{to}, %r16;\n"
    )
}

/// Stores `%f{from}` at an offset of out, by four bytes.
fn store(at: usize, from: usize) -> String {
    format!(
        "mov.b32 %r20, %f{from}; st.global.u8 [%w5+{}], %r20; shr.u32 %r21, %r20, 24; shr.u32 %r22, %r20, 8; \
         shr.u32 %r23, %r20, 16; st.global.u8 [%w5+{}], %r21; st.global.u8 [%w5+{}], %r22; st.global.u8 [%w5+{}], %r23;\n",
        at,
        at + 3,
        at + 1,
        at + 2
    )
}

#[test]
fn numbers() {
    let compute = "mul.f32 %f3, %f1, %f2; ";
    let whole = "ld.global.f32 %f1, [%w4]; ld.global.f32 %f2, [%w4+8]; mul.f32 %f3, %f1, %f2; \
        st.global.f32 [%w5+4], %f3; st.global.f32 [%w5+8], %f2;";
    let by_bytes = [load(0, 1), load(8, 2), compute.to_owned(), store(4, 3), store(8, 2)].concat();
    right(&singles(), &by_bytes, whole);
    // By shifts, and two bytes together.
    let shifts = "ld.global.u8 %r10, [%w4+1]; ld.global.u8 %r11, [%w4]; ld.global.u16 %r12, [%w4+2]; shl.b32 %r10, \
        %r10, 8; or.b32 %r10, %r10, %r11; shl.b32 %r12, %r12, 16; add.s32 %r10, %r10, %r12; mov.b32 %f1, %r10; ";
    let code = [shifts, &load(8, 2), compute, &store(4, 3), &store(8, 2)].concat();
    right(&singles(), &code, whole);
    // Copies that nothing else reads.
    let mut copies = String::new();
    for byte in [3, 1, 0, 2] {
        let _ = write!(copies, "add.s64 %w9, %w4, {byte}; ld.global.u8 %h{}, [%w9]; ", byte + 1);
    }
    for byte in 0..4 {
        let _ = write!(copies, "add.s64 %w9, %w5, {byte}; st.global.u8 [%w9+4], %h{}; ", byte + 1);
    }
    right(&singles(), &copies, "ld.global.f32 %f1, [%w4]; st.global.f32 [%w5+4], %f1;");
    // A constant.
    let zeros = "mov.u32 %r10, 0; st.global.u8 [%w5], %r10; st.global.u8 [%w5+1], 0; st.global.u8 [%w5+2], 128; \
        st.global.u8 [%w5+3], 63; ld.global.f32 %f1, [%w4]; st.global.f32 [%w5+4], %f1;";
    right(
        &singles(),
        zeros,
        "st.global.f32 [%w5], 0f3F800000; ld.global.f32 %f1, [%w4]; st.global.f32 [%w5+4], %f1;",
    );
}

#[test]
fn wide_numbers() {
    let mut code = String::new();
    for byte in 0..8 {
        let _ = write!(code, "ld.global.u8 %w{}, [%w4+{}]; ", 10 + byte, 8 + byte);
    }
    code += "bfi.b64 %w20, %w11, %w10, 8, 8; bfi.b64 %w21, %w13, %w12, 8, 8; bfi.b64 %w22, %w21, %w20, 16, 16; \
        bfi.b64 %w23, %w15, %w14, 8, 8; bfi.b64 %w24, %w17, %w16, 8, 8; bfi.b64 %w25, %w24, %w23, 16, 16; \
        bfi.b64 %w26, %w25, %w22, 32, 32; mov.b64 %d1, %w26; mul.f64 %d2, %d1, %d1; mov.b64 %w27, %d2; ";
    for byte in 0..8 {
        let _ = write!(
            code,
            "shr.u64 %w28, %w27, {}; st.global.u8 [%w5+{byte}], %w28; st.global.u8 [%w5+{}], %w{}; ",
            8 * byte,
            8 + byte,
            10 + byte
        );
    }
    right(
        &pairs(),
        &code,
        "ld.global.f64 %d1, [%w4+8]; mul.f64 %d2, %d1, %d1; st.global.f64 [%w5], %d2; st.global.f64 [%w5+8], %d1;",
    );
}

fn copying(from: &str, to: &str, count: u32, label: &str) -> String {
    let (from_space, to_space) =
        if from == "%w10" { ("local", "global") } else { ("global", "local") };
    format!(
        "mov.u64 %w11, 0; {label}: add.s64 %w12, {from}, %w11; ld.{from_space}.u8 %h1, [%w12]; add.s64 %w13, {to}, \
         %w11; st.{to_space}.u8 [%w13], %h1; add.s64 %w11, %w11, 1; setp.lt.u64 %p1, %w11, {count}; @%p1 bra {label};\n"
    )
}

#[test]
fn loops() {
    let own = ".local .align 8 .b8 own[16]; mov.u64 %w10, own;";
    let compute = "ld.local.f32 %f1, [own]; ld.local.f32 %f2, [own+4]; mul.f32 %f1, %f1, %f2; st.local.f32 [own], %f1;\n";
    let whole = "ld.global.f32 %f1, [%w4]; ld.global.f32 %f2, [%w4+4]; mul.f32 %f1, %f1, %f2; \
        ld.global.f32 %f3, [%w4+8]; ld.global.f32 %f4, [%w4+12]; st.global.f32 [%w5], %f1; st.global.f32 [%w5+4], %f2; \
        st.global.f32 [%w5+8], %f3; st.global.f32 [%w5+12], %f4;";
    let code =
        [own, &copying("%w4", "%w10", 16, "IN"), compute, &copying("%w10", "%w5", 16, "OUT")];
    right(&singles(), &code.concat(), whole);
    let wide = whole.replace(".f32", ".f64").replace("%f", "%d");
    let wide = wide.split(" ld.global.f64 %d3").next().unwrap_or_default().replace("+4", "+8");
    let code = code
        .concat()
        .replace("ld.local.f32", "ld.local.f64")
        .replace("st.local.f32", "st.local.f64");
    let code = code.replace("mul.f32", "mul.f64").replace("%f", "%d").replace("own+4", "own+8");
    right(
        &pairs(),
        &code,
        &format!("{wide} st.global.f64 [%w5], %d1; st.global.f64 [%w5+8], %d2;"),
    );
}

/// What is no copy of a number, or may not be one.
#[test]
fn no_numbers() {
    let compute = "mul.f32 %f3, %f1, %f1; st.global.f32 [%w5], %f3;";
    let out = "st.global.f32 [%w5+4], %f1;";
    // Something is stored between the loads; the bytes are those of two numbers, or in another order.
    let torn = load(0, 1)
        .replace("ld.global.u8 %r12", "st.global.f32 [%w5], 0f00000000; ld.global.u8 %r12");
    let swapped = load(0, 1).replace("30212", "30276");
    for code in [torn, load(2, 1), swapped] {
        refused(&singles(), &[&code, compute, out].concat());
    }
    let value = "ld.global.f32 %f3, [%w4];";
    // Three bytes, another number between, and a load between.
    let three = store(0, 3).replace("shr.u32 %r21, %r20, 24;", "mov.u32 %r21, 7;");
    let again = store(0, 3).replace("shr.u32 %r21, %r20, 24;", "ld.global.u32 %r21, [%w5];");
    for code in [three, store(2, 3), again] {
        refused(&singles(), &[value, &code].concat());
    }
    let own = ".local .align 8 .b8 own[16]; mov.u64 %w10, own;";
    let last = "ld.local.f32 %f1, [own]; st.global.f32 [%w5], %f1;";
    let five = copying("%w4", "%w10", 5, "IN");
    // The counter is read after the loop.
    let counted = copying("%w4", "%w10", 4, "IN") + "st.local.u64 [own+8], %w11;";
    for code in [five, counted] {
        refused(&singles(), &[own, &code, last].concat());
    }
    // Within one array, an iteration reads what the iteration before has stored.
    let shifted =
        copying("%w4", "%w10", 4, "IN").replace(".local", ".global").replace("%w10", "%w8");
    let value = "ld.global.f32 %f1, [%w4]; st.global.f32 [%w5], %f1; add.s64 %w8, %w4, 4;";
    refused(&singles(), &[value, &shifted].concat());
}

/// Flags in the place of a number.
#[test]
fn flags() {
    const START: &str = ".local .align 8 .b8 own[16]; mov.u64 %w10, own; cvta.local.u64 %w9, %w10; \
        ld.global.f32 %f1, [%w4]; ld.global.f32 %f2, [%w4+4]; mov.u32 %r4, 0; mov.u32 %r5, 1; mov.f32 %f3, %f1; \
        setp.gt.f32 %p3, %f1, 0f3F800000;\n";
    const END: &str = "\nst.global.f32 [%w5], %f3;";
    let flag = "st.local.u8 [own+4], %r5;";
    let pair = "st.local.v2.f32 [own], {%f3, %f2};";
    let product = "ld.local.f32 %f3, [own]; ld.local.f32 %f4, [own+4]; mul.f32 %f3, %f3, %f4;";
    let used = "setp.eq.u32 %p2, %r5, 1; selp.f32 %f3, %f3, %f1, %p2;";
    let repeat = |code: &str| {
        format!("TOP: {code} add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP;")
    };
    let whole = "mul.f32 %f3, %f3, %f2;";
    for (code, whole) in [
        // Nothing loads the flag.
        (format!("{pair} {product} {flag}"), whole.to_owned()),
        (format!("{flag} {pair} {product}"), whole.to_owned()),
        (repeat(&format!("{pair} {product} {flag}")), repeat(whole)),
        // It is stored and loaded on one of two paths, by a generic address, too, with a marker between.
        (
            format!(
                "{pair} {product} mov.u32 %r5, 0; {flag} @%p3 bra OFF; mov.u32 %r5, 1; {flag}\nOFF: \
                 ad.stop.f32 %f5, %f2; ld.u8 %r5, [%w9+4]; {used}"
            ),
            format!("{whole} @%p3 bra OFF; bra ON;\nOFF: mov.f32 %f3, %f1;\nON:"),
        ),
    ] {
        right(&singles(), &[START, &code, END].concat(), &[START, &whole, END].concat());
    }
    for code in [
        // What is loaded is the flag or a part of the number.
        format!("{pair} {product} @%p3 bra OFF; {flag}\nOFF: ld.local.u8 %r5, [own+4]; {used}"),
        // The flag is a part of a number that is loaded on one of two paths, or in the next iteration.
        format!("{pair} {flag} @%p3 bra OFF; {product}\nOFF:"),
        format!("{pair} {}", repeat(&format!("{product} {flag} st.local.f32 [own], %f3;"))),
        // An index without bounds, and an address that may be that of the flag.
        format!(
            "{pair} {product} {flag} mul.wide.u32 %w11, %r1, 4; add.s64 %w11, %w10, %w11; \
             ld.local.u8 %r5, [%w11]; {used}"
        ),
        format!("{pair} {product} {flag} ld.global.u64 %w11, [%w5+8]; ld.u8 %r5, [%w11]; {used}"),
        // A store ends half of the flag.
        format!(
            "{pair} st.local.v2.u16 [own+2], {{%r4, %r4}}; st.local.f32 [own+4], %f2; {product}"
        ),
    ] {
        refused(&singles(), &[START, &code, END].concat());
    }
}
