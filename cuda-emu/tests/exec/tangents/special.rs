//! Ties, zeros, NaN, infinities, and the markers.

use cuda_emu::Real;

use super::Tracked;
use crate::device::shape;

/// Returns value and tangent of `%f0` after some text, with values and tangents of `%f1` to `%f3`.
fn single(body: &str, values: [f32; 3], tangents: [f64; 3]) -> (f32, f64) {
    let tracked = Tracked::new();
    let program = tracked.load(&format!(
        ".version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 at)
{{
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %w<8>; .reg .f32 %f<8>; .reg .f64 %d<8>;
    ld.param.u64 %w0, [at];
    ld.global.f32 %f1, [%w0];
    ld.global.f32 %f2, [%w0+4];
    ld.global.f32 %f3, [%w0+8];
    {body}
    st.global.f32 [%w0+12], %f0;
    ret;
}}
"
    ));
    let [a, b, c] = values;
    let [da, db, dc] = tangents;
    let at = tracked.upload(&[a, b, c, 9.0], Real::F32, &[da, db, dc, 9.0]);
    tracked.launch(&program, "k", shape(1, 1), &[at]);
    assert_eq!(tracked.lost(), [], "{body}");
    (tracked.device.download(at, 4)[3], tracked.get(at + 12, Real::F32, 1)[0])
}

fn tangent(body: &str, a: f32, b: f32) -> f64 {
    single(body, [a, b, 0.0], [1.0, 100.0, 0.0]).1
}

#[test]
fn ties_zeros_and_nan_follow_the_conventions() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    for (body, a, b, wanted) in [
        ("sqrt.rn.f32 %f0, %f1;", 0.0, 0.0, 0.0),
        ("sqrt.rn.f32 %f0, %f1;", -0.0, 0.0, 0.0),
        ("abs.f32 %f0, %f1;", 0.0, 0.0, 1.0),
        ("abs.f32 %f0, %f1;", -0.0, 0.0, -1.0),
        ("min.f32 %f0, %f1, %f2;", 2.0, 2.0, 1.0),
        ("max.f32 %f0, %f1, %f2;", 2.0, 2.0, 1.0),
        ("max.f32 %f0, %f1, %f2;", NAN, 2.0, 100.0),
        ("max.f32 %f0, %f1, %f2;", 2.0, NAN, 1.0),
        ("min.NaN.f32 %f0, %f1, %f2;", 2.0, NAN, 100.0),
        ("min.NaN.f32 %f0, %f1, %f2;", NAN, 2.0, 1.0),
        ("min.f32 %f0, %f1, %f2, %f3;", 2.0, 1.0, 0.0),
        ("max.f32 %f0, %f1, %f2, %f3;", 2.0, 3.0, 100.0),
        ("add.sat.f32 %f0, %f1, %f2;", 0.25, 0.5, 101.0),
        ("add.sat.f32 %f0, %f1, %f2;", 0.25, 1.0, 0.0),
        ("add.sat.f32 %f0, %f1, %f2;", 0.25, 0.75, 101.0),
        ("add.sat.f32 %f0, %f1, %f2;", 0.25, -0.25, 101.0),
        ("slct.f32.f32 %f0, %f1, %f2, 0f80000000;", 1.0, 1.0, 1.0),
        ("slct.f32.f32 %f0, %f1, %f2, 0f7FC00000;", 1.0, 1.0, 100.0),
        ("slct.ftz.f32.f32 %f0, %f1, %f2, 0f80000001;", 1.0, 1.0, 1.0),
        ("add.sat.f32 %f0, %f1, %f2;", 0.25, -0.5, 0.0),
        ("add.sat.f32 %f0, %f1, %f2;", NAN, -0.5, 0.0),
        ("add.f32 %f0, %f1, %f2;", INF, 1.0, 101.0),
        ("copysign.f32 %f0, %f2, %f1;", 3.0, -0.0, -1.0),
        ("max.f32 %f0, %f1, %f2;", NAN, NAN, 1.0),
        (
            "{cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2; max.f16 %h1, %h1, %h2; cvt.f32.f16 %f0, %h1;}",
            NAN,
            2.0,
            100.0,
        ),
        (
            "{cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2; max.f16 %h1, %h1, %h2; cvt.f32.f16 %f0, %h1;}",
            INF,
            2.0,
            1.0,
        ),
        ("{cvt.rna.satfinite.tf32.f32 %r1, %f1; mov.b32 %f0, %r1;}", INF, 0.0, 0.0),
        ("{cvt.rna.satfinite.tf32.f32 %r1, %f1; mov.b32 %f0, %r1;}", 3.0, 0.0, 1.0),
        // A constant has no slope, so what is infinite about the other factor does not count.
        ("mul.f32 %f0, %f1, 0f40000000;", INF, 0.0, 2.0),
        // A constant stays one, whatever it is multiplied with.
        ("mul.f32 %f0, %f3, %f2; mul.f32 %f0, %f0, %f1;", 1.0, INF, f64::NAN),
        ("mov.f32 %f0, 0f40000000; mul.f32 %f0, %f0, %f1;", 1.0, 0.0, 2.0),
        ("mul.f32 %f0, %f3, 0f7F800000;", 1.0, 1.0, 0.0),
        ("rcp.rn.f32 %f0, %f3;", 1.0, 1.0, 0.0),
        ("slct.f32.s32 %f0, %f1, %f2, -1;", 1.0, 1.0, 100.0),
        ("slct.f32.f32 %f0, %f1, %f2, %f3;", 1.0, 1.0, 1.0),
    ] {
        let got = tangent(body, a, b);
        assert!(got == wanted || got.is_nan() && wanted.is_nan(), "{body} at {a}, {b}: {got}");
    }
}

#[test]
fn markers_are_moves_with_tangents_of_their_own() {
    let rule = "ad.rule.f32 %f0, %f3, %f1, 0f40400000, %f2, %f3;";
    assert_eq!(single(rule, [1.0, 2.0, 5.0], [7.0, 11.0, 13.0]), (5.0, 3.0 * 7.0 + 5.0 * 11.0));
    assert_eq!(single("ad.stop.f32 %f0, %f1;", [1.5, 0.0, 0.0], [7.0; 3]), (1.5, 0.0));
    assert_eq!(single("ad.lost.f32 %f0, %f3;", [1.0, 2.0, 5.0], [7.0, 11.0, 0.0]), (5.0, 0.0));
    let double = "cvt.f64.f32 %d1, %f1; ad.rule.f64 %d0, %d1, %d1, 0d4000000000000000; cvt.rn.f32.f64 %f0, %d0;";
    assert_eq!(single(double, [1.5, 0.0, 0.0], [7.0; 3]), (1.5, 14.0));
    let guarded = "mov.f32 %f0, %f2; setp.gt.f32 %p1, %f1, 0f00000000; @!%p1 ad.stop.f32 %f0, %f1;";
    assert_eq!(single(guarded, [1.0, 2.0, 0.0], [7.0, 11.0, 0.0]), (2.0, 11.0));
}

#[test]
fn markers_are_moves_without_tangents() {
    let mut device = crate::device::Device::new(1);
    device.info.tangents = false;
    let program = device
        .load(
            ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 at)
{
    .reg .b64 %w; .reg .f32 %f<4>; .reg .f64 %d<3>;
    ld.param.u64 %w, [at];
    ld.global.f32 %f1, [%w];
    ad.stop.f32 %f2, %f1;
    ad.lost.f32 %f2, %f2;
    ad.rule.f32 %f3, %f2, %f1, 0f3F800000;
    st.global.f32 [%w+4], %f3;
    ad.stop.f64 %d1, 0d3FF8000000000000;
    st.global.f64 [%w+8], %d1;
    ret;
}",
        )
        .expect("markers are instructions");
    let at = device.upload(&[2.5f32, 0.0, 0.0, 0.0]);
    device.launch(&program, "k", shape(1, 1), &[at]).expect("no fault");
    assert_eq!(device.download::<f32>(at, 2), [2.5, 2.5]);
    assert_eq!(device.download::<f64>(at + 8, 1), [1.5]);
}

#[test]
fn what_is_no_marker_is_refused() {
    for text in [
        "ad.rule.f32 %f1, %f2;",
        "ad.rule.f32 %f1, %f2, %f3;",
        "ad.rule.f32 %f1, %f2, %f3, %f1, %f2;",
        "ad.stop.f32 %f1, %f2, %f3;",
        "ad.stop.f32 %f1, [%w];",
        "ad.stop.f32 %f1, , %f2;",
        "ad.stop.f32 0f00000000, %f2;",
        "ad.stop.f32 %f1, 0f0000;",
        "ad.stop.f32 %f1, w;",
        "ad.stop.f64 %f1, %f2;",
    ] {
        let device = crate::device::Device::new(1);
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<4>;\n.reg .b64 %w;\n{text}\nret;\n}}"
        );
        let refused = match device.load(&ptx) {
            Err(_) => true,
            Ok(program) => program.refused(program.entry("k").expect("the kernel")).is_some(),
        };
        assert!(refused, "{text}");
    }
    for text in [
        "ad.stop.f16 %f1, %f2;",
        "ad.what.f32 %f1, %f2;",
        "ad.stop %f1, %f2;",
        "ad.stop.f32.name %f1, %f2;",
        "ad.lost.f32.two.names %f1, %f2;",
    ] {
        let device = crate::device::Device::new(1);
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<4>;\n{text}\nret;\n}}"
        );
        assert!(device.load(&ptx).is_err(), "{text}");
    }
}
