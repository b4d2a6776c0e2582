//! The derivative of each instruction, alone.

use crate::common::{Arg, Compared, Device, doubles, floats, kernel, shape};

const THREADS: usize = 66;

/// `z[i] = f(x[i], y[i], z[i])`: %f1, %f3 and %f4 are loaded (%d1, %d3, %d4), and %f2 (%d2) is stored.
fn compared(double: bool, code: &str) -> Compared {
    let (bytes, ty, r) = if double { (8, "f64", "d") } else { (4, "f32", "f") };
    // Each input has a path.
    let quarter = if double { "0d3FD0000000000000" } else { "0f3E800000" };
    let text = kernel(
        ".param .u64 x, .param .u64 y, .param .u64 z",
        &format!(
            "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [y]; ld.param.u64 %w3, [z]; mov.u32 %r1, %tid.x; \
             mul.wide.u32 %w4, %r1, {bytes}; add.s64 %w1, %w1, %w4; add.s64 %w2, %w2, %w4; add.s64 %w3, %w3, %w4; \
             ld.global.{ty} %{r}1, [%w1]; ld.global.{ty} %{r}3, [%w2]; ld.global.{ty} %{r}4, [%w3];\n\
             {code}\nfma.rn.{ty} %{r}2, %{r}1, {quarter}, %{r}2; fma.rn.{ty} %{r}2, %{r}3, {quarter}, %{r}2; \
             fma.rn.{ty} %{r}2, %{r}4, {quarter}, %{r}2;\nst.global.{ty} [%w3], %{r}2; ret;"
        ),
    );
    // Of all signs and orders, and nowhere special.
    let number = |at: usize, by: usize, from: f64| ((at * by) % 67) as f64 / 24.0 + from;
    let args: [Arg; 3] = [(31, -1.37), (43, -1.18), (17, -1.46)].map(|(by, from)| {
        let values: Vec<f64> = (0..THREADS).map(|at| number(at, by, from)).collect();
        if double {
            doubles(&values)
        } else {
            floats(&values.iter().map(|value| *value as f32).collect::<Vec<_>>())
        }
    });
    // `min` and `max` of three operands need it.
    let text = text.replacen(".version 8.3\n.target sm_90", ".version 8.8\n.target sm_100", 1);
    let mut device = Device::new();
    device.info.cc = (10, 0);
    let found = device.compare(&text, "k", &args, shape(1, THREADS as u32), 3);
    found.unwrap_or_else(|failure| panic!("{failure:?}\n{text}")).0
}

#[track_caller]
fn right(double: bool, code: &str, most: f64) {
    let got = compared(double, code);
    assert!(
        got.error <= most && got.magnitude > 0.1,
        "{code}: {:e} of {}",
        got.error,
        got.magnitude
    );
}

#[test]
fn single() {
    for code in [
        "add.f32 %f2, %f1, %f3;",
        "sub.f32 %f2, %f1, %f3;",
        "mul.f32 %f2, %f1, %f3;",
        "mul.f32 %f2, %f1, %f1;",
        "fma.rn.f32 %f2, %f1, %f3, %f4;",
        "mad.rn.f32 %f2, %f1, %f3, %f4;",
        "div.rn.f32 %f2, %f1, %f3;",
        // The quotient is all that the divisor is used for.
        "add.f32 %f5, %f3, 0f3D000000; div.rn.f32 %f2, %f1, %f5;",
        "div.approx.f32 %f2, %f1, %f3;",
        "div.full.f32 %f2, %f1, %f3;",
        "neg.f32 %f2, %f1; mul.f32 %f2, %f2, %f3;",
        "abs.f32 %f2, %f1; mul.f32 %f2, %f2, %f3;",
        "rcp.rn.f32 %f2, %f1;",
        "rcp.approx.f32 %f2, %f1;",
        "abs.f32 %f2, %f1; sqrt.rn.f32 %f2, %f2;",
        "abs.f32 %f2, %f1; sqrt.approx.f32 %f2, %f2;",
        "abs.f32 %f2, %f1; rsqrt.approx.f32 %f2, %f2;",
        "ex2.approx.f32 %f2, %f1;",
        "abs.f32 %f2, %f1; lg2.approx.f32 %f2, %f2;",
        "sin.approx.f32 %f2, %f1;",
        "cos.approx.f32 %f2, %f1;",
        "tanh.approx.f32 %f2, %f1;",
        "copysign.f32 %f2, %f1, %f3;",
        "min.f32 %f2, %f1, %f3;",
        "max.f32 %f2, %f1, %f3;",
        "min.f32 %f2, %f1, %f3, %f4;",
        // What NVRTC does not write.
        "selp.f32 %f2, %f1, %f3, 1; mul.f32 %f2, %f2, %f4;",
        "setp.gt.xor.f32 %p1, %f1, 0f00000000, !0; and.pred %p1, !%p1, 1; selp.f32 %f2, %f3, %f4, %p1; \
         mul.f32 %f2, %f2, %f1;",
        ".reg .v2 .f32 v; mov.v2.f32 v, {%f1, %f3}; mov.v2.f32 v, {v.y, v.x}; mul.f32 %f2, v.x, v.y;",
        ".local .align 4 .f32 own[2]; st.f32 own[1], %f1; ld.f32 %f2, [own+4]; mul.f32 %f2, %f2, %f3;",
        ".global .f32 two[2] = {1.0, 1.0+1.0}; ld.f32 %f2, two[1]; mul.f32 %f2, %f2, %f1;",
        "max.f32 %f2, %f1, %f3, %f4;",
        "add.sat.f32 %f2, %f1, %f3;",
        "mul.sat.f32 %f2, %f1, %f3;",
        "fma.rn.sat.f32 %f2, %f1, %f3, %f4;",
        "setp.gt.f32 %p1, %f4, %f1; selp.f32 %f2, %f1, %f3, %p1;",
        "setp.gt.f32 %p1, %f4, %f1; selp.f32 %f2, %f1, %f1, %p1;",
        "slct.f32.f32 %f2, %f1, %f3, %f4;",
        "cvt.rzi.s32.f32 %r2, %f4; slct.f32.s32 %f2, %f1, %f3, %r2;",
        "mov.f32 %f2, %f1; mul.f32 %f2, %f2, %f3;",
        "cvt.f64.f32 %d1, %f1; mul.f64 %d1, %d1, %d1; cvt.rn.f32.f64 %f2, %d1;",
        // Sums of gradients, of which the first is a product, a difference or a negated product.
        "sub.f32 %f2, %f3, %f1; mul.f32 %f5, %f1, %f1; add.f32 %f2, %f2, %f5; sub.f32 %f2, %f2, %f1;",
        "div.rn.f32 %f2, %f3, %f1; add.f32 %f2, %f2, %f1; sub.f32 %f2, %f2, %f1; div.rn.f32 %f2, %f2, %f1;",
        "mul.f32 %f5, %f1, %f1; mul.f32 %f6, %f1, %f3; neg.f32 %f7, %f1; fma.rn.f32 %f2, %f5, %f6, %f7;",
    ] {
        right(false, code, 4e-6);
    }
}

#[test]
fn double() {
    for code in [
        "sub.f64 %d2, %d1, %d3;",
        "mul.f64 %d2, %d1, %d3;",
        "fma.rn.f64 %d2, %d1, %d3, %d4;",
        "div.rn.f64 %d2, %d1, %d3;",
        "rcp.rn.f64 %d2, %d1;",
        "abs.f64 %d2, %d1; sqrt.rn.f64 %d2, %d2;",
        "neg.f64 %d2, %d1; mul.f64 %d2, %d2, %d3;",
        "abs.f64 %d2, %d1; mul.f64 %d2, %d2, %d3;",
        "copysign.f64 %d2, %d1, %d3;",
        "min.f64 %d2, %d1, %d3;",
        "max.f64 %d2, %d1, %d3;",
        "setp.gt.f64 %p1, %d4, %d1; selp.f64 %d2, %d1, %d3, %p1;",
    ] {
        right(true, code, 1e-14);
    }
    // Through a `float`.
    right(true, "cvt.rn.f32.f64 %f1, %d1; mul.f32 %f1, %f1, %f1; cvt.f64.f32 %d2, %f1;", 4e-6);
}
