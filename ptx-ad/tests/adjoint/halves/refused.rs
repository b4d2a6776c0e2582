//! What is refused, and bits that do no harm.

use ptx_ad::{Real, Reason};

use super::{PARAMS, buffers, inputs, right, start};
use crate::common::{Arg, Device, Failure, Layout, kernel, shape};
use crate::half as numbers;

fn refused(code: &str, params: &str, args: &[Arg]) -> (Vec<Reason>, String) {
    let text = kernel(params, code);
    match Device::new().compare(&text, "k", args, shape(1, 32), 7) {
        Err(Failure::Refused(refused)) => {
            (refused.refusals.iter().map(|r| r.reason.clone()).collect(), refused.to_string())
        }
        Ok((compared, _)) => panic!("{code}: accepted, {:e}", compared.error),
        Err(other) => panic!("{code}: {other:?}"),
    }
}

/// What is not arithmetic of 16-bit floats is refused, if it matters.
#[test]
fn refusals() {
    let load = "ld.global.b16 %h1, [%w1]; ld.global.b16 %h2, [%w2];";
    let store = "st.global.b16 [%w4], %h4; ret;";
    let half = Reason::Half;
    for (code, reason) in [
        ("add.u16 %h3, %h1, 1; add.rn.f16 %h4, %h3, %h2;", Reason::Bits),
        (
            "cvt.u32.u16 %r5, %h1; mul.lo.u32 %r5, %r5, 3; cvt.u16.u32 %h3, %r5; mul.rn.f16 %h4, %h3, %h2;",
            Reason::Bits,
        ),
        ("and.b16 %h3, %h1, 0xfff0; mul.rn.f16 %h4, %h3, %h2;", Reason::Bits),
        // The bits of one type as the other.
        (
            "mov.b16 %h3, 0; mov.b32 %f1, {%h3, %h1}; cvt.rn.f16.f32 %h3, %f1; mul.rn.f16 %h4, %h3, %h2;",
            half.clone(),
        ),
        ("add.rn.bf16 %h3, %h1, %h1; mul.rn.f16 %h4, %h3, %h2;", Reason::Parameter),
        ("cvt.f32.f16 %f1, %h1; mov.b32 {%h3, %h5}, %f1; mul.rn.f16 %h4, %h5, %h2;", Reason::Bits),
        (
            "mov.b32 %r5, {%h1, %h1}; shfl.sync.down.b32 %r6, %r5, 1, 31, -1; mov.b32 {%h3, %h5}, %r6; \
          mul.rn.f16 %h4, %h3, %h2;",
            Reason::Warp,
        ),
        (
            "mov.b32 %r5, {%h1, %h2}; cvt.rn.satfinite.e4m3x2.f16x2 %h3, %r5; cvt.rn.f16x2.e4m3x2 %r6, %h3; \
          mov.b32 {%h4, %h5}, %r6;",
            half.clone(),
        ),
        (
            ".local .align 4 .b8 own[8]; st.local.b16 [own], %h1; ld.local.b16 %h3, [own]; mul.rn.f16 %h4, %h3, %h2;",
            half.clone(),
        ),
        (
            ".local .align 4 .b8 own[8]; mov.b32 %r5, {%h1, %h2}; st.local.b32 [own], %r5; ld.local.b32 %r6, [own]; \
          mov.b32 {%h3, %h5}, %r6; mul.rn.f16 %h4, %h3, %h5;",
            half.clone(),
        ),
        (
            "ld.global.u64 %w5, [%w9]; ld.global.b16 %h3, [%w5]; fma.rn.f16 %h4, %h1, %h2, %h3;",
            Reason::PointerInMemory,
        ),
        (
            "mul.rn.f16 %h4, %h1, %h2; ld.global.u64 %w5, [%w8]; mov.b32 %r5, {%h4, %h1}; st.global.b32 [%w5], %r5;",
            Reason::PointerInMemory,
        ),
        (
            "mul.rn.f16 %h4, %h1, %h2; ld.global.u64 %w5, [%w8]; cvt.u16.u32 %h5, %r1; mov.b32 %r5, {%h4, %h5}; \
          st.global.b32 [%w5], %r5;",
            Reason::PointerInMemory,
        ),
        ("ld.global.u8 %h3, [%w1]; fma.rn.f16 %h4, %h1, %h2, %h3;", Reason::Bits),
        (
            "ld.global.f32 %f1, [%w21]; cvt.rn.f16.f32 %h3, %f1; fma.rn.f16 %h4, %h1, %h2, %h3;",
            Reason::Parameter,
        ),
        ("mul.rn.f16 %h4, %h1, %h2; st.global.b8 [%w4], %h4;", Reason::Bits),
        (
            "mul.rn.f16 %h4, %h1, %h2; cvt.f32.f16 %f1, %h4; st.global.f32 [%w24], %f1;",
            Reason::Parameter,
        ),
        (
            "mul.rn.f16 %h4, %h1, %h2; atom.global.add.noftz.f16 %h4, [%w24], %h4;",
            Reason::AtomicResult,
        ),
        ("setp.gt.f16 %p1, %h1, %h2; selp.b16 %h4, 0x3c00, 0, %p1;", Reason::NoPath),
        ("set.gt.f16.f16 %h4, %h1, %h2;", Reason::NoPath),
        ("cvt.rni.f16.f16 %h4, %h1;", Reason::NoPath),
    ] {
        let code = format!("{} {load} {code} {store}", start([2; 4]));
        let mut args = buffers(Real::F16, [1; 4], 64);
        args[2] = args[2].clone().constant();
        let (reasons, text) = refused(&code, PARAMS, &args);
        assert!(reasons.contains(&reason), "{code}: {text}");
        assert!(text.contains("PTX line"), "{text}");
    }
    // Structures with other members, and pointers to several types.
    let code = format!("{} {load} mul.rn.f16 %h4, %h1, %h2; {store}", start([4; 4]));
    let mut args = buffers(Real::F16, [2; 4], 64);
    args[2] = args[2].clone().constant();
    if let Arg::Buffer { size, layout, .. } = &mut args[0] {
        (*size, *layout) = (4, Layout::Some(Real::F16, vec![0]));
    }
    assert_eq!(refused(&code, PARAMS, &args).0, [Reason::Half]);
    let code = format!(
        "{} setp.lt.u32 %p1, %r1, 9; selp.b64 %w5, %w1, %w2, %p1; ld.global.b16 %h1, [%w5]; \
         mul.rn.f16 %h4, %h1, %h1; {store}",
        start([2; 4])
    );
    let mut args = buffers(Real::F16, [1; 4], 64);
    args[1] = numbers::buffer(Real::Bf16, &inputs(2, 64));
    args[2] = args[2].clone().constant();
    assert_eq!(refused(&code, PARAMS, &args).0, [Reason::Bits, Reason::Parameter]);
}

/// Bits that only decide do no harm.
#[test]
fn bits_that_decide() {
    for decide in [
        "and.b16 %h3, %h1, 0x7fff; setp.gt.u16 %p1, %h3, 0x3c00;",
        "shr.u16 %h3, %h1, 15; setp.eq.u16 %p1, %h3, 1;",
        "cvt.rzi.s32.f16 %r5, %h1; setp.gt.s32 %p1, %r5, 0;",
        "setp.gt.ftz.f16 %p1, %h1, %h2;",
        "set.gt.u32.f16 %r5, %h1, %h2; setp.ne.u32 %p1, %r5, 0;",
        "mov.b32 %r5, {%h1, %h2}; mov.b32 %r6, {%h2, %h1}; set.gt.u32.f16x2 %r7, %r5, %r6; setp.ne.u32 %p1, %r7, 0;",
        "cvt.rni.f16.f16 %h3, %h1; setp.gt.f16 %p1, %h3, %h2;",
        "setp.gt.f16 %p1, %h1, %h2; mov.b32 %r5, {%h1, %h2}; shfl.sync.down.b32 %r6, %r5, 1, 31, -1;",
    ] {
        let code = format!(
            "{} ld.global.b16 %h1, [%w1]; ld.global.b16 %h2, [%w2]; {decide} mul.rn.f16 %h5, %h1, %h2; \
             selp.b16 %h4, %h5, %h1, %p1; st.global.b16 [%w4], %h4; ret;",
            start([2; 4])
        );
        let mut args = buffers(Real::F16, [1; 4], 64);
        args[2] = args[2].clone().constant();
        right(&code, PARAMS, &args, shape(2, 32));
    }
}
