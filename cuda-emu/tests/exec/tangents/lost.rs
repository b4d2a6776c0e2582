//! Lost tangents are noted with the line of the integer instruction, and nothing else is.

use cuda_emu::Real;

use super::Tracked;
use crate::device::shape;

const HEAD: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 at)
{
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %w<8>; .reg .f32 %f<8>; .reg .f64 %d<8>;
    ld.param.u64 %w0, [at];
    ld.global.f32 %f1, [%w0];
    ld.global.f64 %d1, [%w0+8];
    mov.b32 %r1, %f1;
";

/// Runs a body on 2 threads and returns the lost tangents: opcode, line of the body from 0, count.
fn lost(body: &str, tangent: f64) -> (Vec<(String, u32, u64)>, f64) {
    let tracked = Tracked::new();
    let program =
        tracked.load(&format!("{HEAD}{body}\n    st.global.f32 [%w0+4], %f0;\n    ret;\n}}"));
    let at = tracked.upload(&[1.5f32, 0.0, 0.0, 1.0], Real::F32, &[tangent, 0.0, 0.0, 0.0]);
    tracked.tangents().set(at + 8, Real::F64, &[tangent]).expect("memory");
    tracked.launch(&program, "k", shape(1, 2), &[at]);
    let first = HEAD.lines().count() as u32 + 1;
    let got = tracked.get(at + 4, Real::F32, 1)[0];
    let lost = tracked.lost();
    assert!(tracked.lost().is_empty(), "taken twice");
    let each = lost.into_iter().map(|one| {
        assert_eq!(one.place.kernel, "k");
        (one.opcode, one.place.ptx_line - first, one.count)
    });
    (each.collect(), got)
}

#[test]
fn integers_that_return_into_floats_are_noted_with_their_line() {
    for (body, opcode, line) in [
        (
            "shr.u32 %r1, %r1, 1;\nsub.u32 %r1, 0x5f3759df, %r1;\nmov.b32 %f2, %r1;\nneg.f32 %f0, %f2;",
            "shr.u32",
            0,
        ),
        ("add.s32 %r1, %r1, 0x800000;\nmov.b32 %f2, %r1;\nneg.f32 %f0, %f2;", "add.s32", 0),
        (
            "mov.u32 %r2, 5;\nxor.b32 %r1, %r1, %r2;\nmov.b32 %f2, %r1;\nneg.f32 %f0, %f2;",
            "xor.b32",
            1,
        ),
        ("mul.lo.s32 %r2, %r1, 3;\ncvt.rn.f32.s32 %f0, %r2;", "mul.lo.s32", 0),
        (
            "and.b32 %r2, %r1, 0xff800000;\nst.global.u32 [%w0+4], %r2;\nld.global.f32 %f2, [%w0+4];\nabs.f32 %f0, %f2;",
            "and.b32",
            0,
        ),
        ("ad.lost.f32 %f0, %f1;", "ad.lost.f32", 0),
        ("ad.lost.f32.name %f0, %f1;", "ad.lost.f32.name", 0),
        ("bfe.u32 %r2, %r1, 3, 20;\nmov.b32 %f2, %r2;\nsqrt.rn.f32 %f0, %f2;", "bfe", 0),
        // The upper half of a number is no number.
        ("mov.b64 {%r2, %r3}, %d1;\nmov.b32 %f2, %r3;\nneg.f32 %f0, %f2;", "neg.f32", 2),
        ("mov.b64 {%r2, %r3}, %d1;\nmov.b32 %f2, %r2;\nneg.f32 %f0, %f2;", "neg.f32", 2),
        // Nor are two halves of which one was changed.
        (
            "mov.b64 {%r2, %r3}, %d1;\nadd.s32 %r3, %r3, 0x100000;\nmov.b64 %d2, {%r2, %r3};\ncvt.rn.f32.f64 %f0, %d2;",
            "add.s32",
            1,
        ),
        ("ld.global.u8 %r2, [%w0+3];\nmov.b32 %f2, %r2;\nneg.f32 %f0, %f2;", "ld", 0),
        ("st.global.u8 [%w0+3], 0;\nld.global.f32 %f2, [%w0];\nneg.f32 %f0, %f2;", "st", 0),
    ] {
        let (found, got) = lost(body, 2.0);
        let [(name, at, count)] = &found[..] else { panic!("{body}: {found:?}") };
        // `describe` names integer instructions without a type where they have but one.
        assert!(opcode.starts_with(name.split('.').next().unwrap_or("?")), "{body}: {name}");
        assert_eq!((*at, *count), (line, 2), "{body}: {name}");
        assert!(got.is_nan(), "{body}: {got}");
        // Of constants nothing is lost.
        assert_eq!(lost(body, 0.0), (Vec::new(), 0.0), "{body}");
    }
}

#[test]
fn predicates_addresses_and_constants_lose_nothing() {
    for body in [
        // Finite, by its bits.
        "and.b32 %r2, %r1, 0x7f800000;\nsetp.ne.u32 %p1, %r2, 0x7f800000;\nselp.f32 %f0, %f1, 0f00000000, %p1;",
        // A sort by bits, and an address.
        "shr.u32 %r2, %r1, 20;\nand.b32 %r2, %r2, 4;\ncvt.u64.u32 %w2, %r2;\nsub.u64 %w2, %w2, %w2;\nadd.u64 %w2, %w2, %w0;\nld.global.f32 %f0, [%w2];",
        "cvt.rzi.s32.f32 %r2, %f1;\nshl.b32 %r2, %r2, 3;\ncvt.rn.f32.s32 %f2, %r2;\nfma.rn.f32 %f0, %f2, 0f00000000, %f1;",
        "popc.b32 %r2, %r1;\nmov.f32 %f0, %f1;",
        // Moves in pieces.
        "mov.b32 {%h1, %h2}, %r1;\nmov.b32 %r2, {%h1, %h2};\nmov.b32 %f0, %r2;",
        "cvt.u64.u32 %w2, %r1;\nshl.b64 %w2, %w2, 32;\nshr.u64 %w2, %w2, 32;\ncvt.u32.u64 %r2, %w2;\nmov.b32 %f0, %r2;",
        "prmt.b32 %r2, %r1, 0, 0x5410;\nprmt.b32 %r3, %r1, 0, 0x5432;\nprmt.b32 %r2, %r2, %r3, 0x5410;\nmov.b32 %f0, %r2;",
        "max.s32 %r2, %r1, 0;\nmov.b32 %f0, %r2;",
    ] {
        let (found, got) = lost(body, 2.0);
        assert_eq!((found, got), (Vec::new(), 2.0), "{body}");
    }
}

#[test]
fn a_lost_tangent_is_noted_when_it_is_read() {
    let body = "shl.b32 %r2, %r1, 1;\nmov.b32 %f0, %r2;";
    let (found, got) = lost(body, 2.0);
    let [(name, 0, 1)] = &found[..] else { panic!("{found:?}") };
    assert!(name.starts_with("shl") && got.is_nan(), "{name} {got}");
}

#[test]
fn the_source_line_is_named() {
    let tracked = Tracked::new();
    let program = tracked.load(
        ".version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) helper(.param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [a];
    .loc 1 42 7
    add.s32 %r2, %r1, 8;
    st.param.b32 [r], %r2;
    ret;
}
.visible .entry k(.param .f32 x, .param .u64 out)
{
    .reg .b32 %r<3>; .reg .f32 %f<3>; .reg .b64 %w;
    ld.param.f32 %f1, [x];
    mov.b32 %r1, %f1;
    .loc 1 50 1
    { .param .b32 a; .param .b32 r;
    st.param.b32 [a], %r1;
    call (r), helper, (a);
    ld.param.b32 %r2, [r]; }
    mov.b32 %f2, %r2;
    neg.f32 %f2, %f2;
    ld.param.u64 %w, [out];
    st.global.f32 [%w], %f2;
    ret;
}
.file 1 \"user.cu\"
",
    );
    let out = tracked.device.upload(&[0f32]);
    tracked.tangents().set_argument("k", 0, Real::F32, 1.0).expect("an offset");
    let x = u64::from(2.5f32.to_bits());
    tracked.launch(&program, "k", shape(1, 1), &[x, out]);
    let lost = tracked.lost();
    let [one] = &lost[..] else { panic!("{lost:?}") };
    assert_eq!(one.place.source, Some(("user.cu".to_owned(), 42, 7)));
    assert_eq!((one.place.function.as_deref(), one.place.ptx_line), (Some("helper"), 9));
    assert_eq!(one.opcode, "add.s32");
    assert!(one.to_string().contains("user.cu:42"), "{one}");
}
