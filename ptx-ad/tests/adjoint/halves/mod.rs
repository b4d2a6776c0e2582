//! 16-bit floats: one by one, packed, in vectors, and what is refused.

mod random;
mod refused;

use ptx_ad::{Adjoint, Real};

use crate::common::{Arg, Compared, Device, Shape, floats, kernel, shape, word, words};
use crate::half;

/// A thread's index in `%r1`, and the addresses of its elements of so many bytes behind the parameters a, b, c and out, in
/// `%w1` to `%w4`.
fn start(bytes: [u32; 4]) -> String {
    let mut text =
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;"
            .to_owned();
    for (at, (name, bytes)) in (1..).zip(["a", "b", "c", "out"].iter().zip(bytes)) {
        text += &format!(
            "ld.param.u64 %w1{at}, [{name}]; cvta.to.global.u64 %w2{at}, %w1{at};\
             mul.wide.u32 %w3{at}, %r1, {bytes}; add.s64 %w{at}, %w2{at}, %w3{at};"
        );
    }
    text
}

const PARAMS: &str = ".param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out";

/// Numbers between -2 and 2 that are different in each lane, and none that is near zero.
fn inputs(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = (state >> 8) as f32 / 16_777_216.0 * 4.0 - 2.0;
        if value.abs() < 0.1 { value + 0.5 } else { value }
    };
    (0..count).map(|_| next()).collect()
}

fn right(code: &str, params: &str, args: &[Arg], shape: Shape) -> (Compared, Adjoint) {
    let text = kernel(params, code);
    match Device::new().compare(&text, "k", args, shape, 7) {
        Ok((compared, adjoint)) => {
            assert!(compared.error <= 1e-6, "{code}: {:e}\n{}", compared.error, adjoint.text);
            assert!(compared.magnitude > 1e-3, "{code}: nothing to compare\n{}", adjoint.text);
            (compared, adjoint)
        }
        Err(failure) => panic!("{code}: {failure:?}"),
    }
}

fn buffers(real: Real, each: [usize; 4], threads: usize) -> Vec<Arg> {
    (1..).zip(each).map(|(seed, each)| half::buffer(real, &inputs(seed, each * threads))).collect()
}

/// Instructions on one lane: `%h1`, `%h2`, `%h3` to `%h4`.
fn single(ty: &str) -> Vec<String> {
    let real = |op: &str, operands: &str| format!("{op}.{ty} %h4, {operands};");
    let mut all = vec![
        real("add.rn", "%h1, %h2"),
        real("sub.rn", "%h1, %h2"),
        real("mul.rn", "%h1, %h2"),
        real("fma.rn", "%h1, %h2, %h3"),
        real("fma.rn.relu", "%h1, %h2, %h3"),
        real("neg", "%h1"),
        real("abs", "%h1"),
        real("min", "%h1, %h2"),
        real("max", "%h1, %h2"),
        real("max.NaN", "%h1, %h2"),
        real("tanh.approx", "%h1"),
        // Numbers that are not powers of two, and constants in registers.
        format!("mov.b16 %h5, 0x3d91; fma.rn.{ty} %h4, %h1, %h5, %h2;"),
        format!("setp.gt.{ty} %p1, %h1, %h2; selp.b16 %h4, %h2, %h1, %p1;"),
        format!("xor.b16 %h5, %h1, 0x8000; mul.rn.{ty} %h4, %h5, %h2;"),
        format!("and.b16 %h5, %h1, 0x7fff; mul.rn.{ty} %h4, %h5, %h2;"),
        format!("mul.{ty} %h5, %h1, %h2; mul.{ty} %h6, %h5, %h1; add.{ty} %h4, %h6, %h3;"),
    ];
    if ty == "f16" {
        all.extend([
            real("add.rn.sat", "%h1, %h2"),
            real("mul.rn.ftz.sat", "%h1, %h2"),
            real("add.rn.ftz", "%h1, %h2"),
            real("ex2.approx", "%h1"),
            real("neg.ftz", "%h1"),
            "cvt.f32.f16 %f1, %h1; sqrt.approx.f32 %f2, %f1; cvt.f32.f16 %f3, %h2; \
             abs.f32 %f1, %f1; sqrt.approx.f32 %f2, %f1; div.approx.f32 %f2, %f3, %f2; \
             cvt.rn.f16.f32 %h4, %f2;"
                .to_owned(),
            "cvt.f64.f16 %d1, %h1; mul.f64 %d2, %d1, %d1; cvt.rn.f16.f64 %h4, %d2;".to_owned(),
            "cvt.sat.f16.f16 %h4, %h1;".to_owned(),
            "cvt.rn.relu.f16.f32 %h4, %f1;".replace("%f1;", "%f2;").replacen(
                "cvt.rn",
                "cvt.f32.f16 %f1, %h1; mul.f32 %f2, %f1, %f1; sub.f32 %f2, %f2, 0f3f800000; cvt.rn",
                1,
            ),
        ]);
    } else {
        all.extend([
            real("ex2.approx.ftz", "%h1"),
            "mov.b16 %h5, 0; mov.b32 %f1, {%h5, %h1}; mov.b32 %f2, {%h5, %h2}; \
             mul.f32 %f3, %f1, %f2; cvt.rn.bf16.f32 %h4, %f3;"
                .to_owned(),
            "cvt.u32.u16 %r4, %h1; shl.b32 %r4, %r4, 16; mov.b32 %f1, %r4; \
             mul.f32 %f3, %f1, %f1; cvt.rn.bf16.f32 %h4, %f3;"
                .to_owned(),
            "cvt.f32.bf16 %f1, %h1; mul.f32 %f3, %f1, %f1; cvt.rz.bf16.f32 %h4, %f3;".to_owned(),
        ]);
    }
    all
}

#[test]
fn one_lane() {
    for (real, ty) in [(Real::F16, "f16"), (Real::Bf16, "bf16")] {
        for code in single(ty) {
            let code = format!(
                "{} ld.global.b16 %h1, [%w1]; ld.global.u16 %h2, [%w2]; ld.global.nc.b16 %h3, [%w3]; \
                 {code} st.global.b16 [%w4], %h4; ret;",
                start([2; 4])
            );
            let used = |name: &str| code.matches(name).count() > 1;
            let mut args = buffers(real, [1; 4], 64);
            for (at, name) in ["%h1", "%h2", "%h3"].into_iter().enumerate() {
                if !used(name) {
                    args[at] = args[at].clone().constant();
                }
            }
            right(&code, PARAMS, &args, shape(2, 32));
        }
    }
}

/// Two lanes: `%r11`, `%r12`, `%r13` to `%r14`.
#[test]
fn two_lanes() {
    let both = |ty: &str| {
        let x2 = |op: &str, operands: &str| format!("{op}.{ty}x2 %r14, {operands};");
        vec![
            x2("add.rn", "%r11, %r12"),
            x2("sub.rn", "%r11, %r12"),
            x2("mul.rn", "%r11, %r12"),
            x2("fma.rn", "%r11, %r12, %r13"),
            x2("fma.rn.relu", "%r11, %r12, %r13"),
            x2("neg", "%r11"),
            x2("abs", "%r11"),
            x2("max", "%r11, %r12"),
            x2("min", "%r11, %r12"),
            x2("tanh.approx", "%r11"),
            // Moves of lanes.
            format!(
                "mov.b32 {{%h1, %h2}}, %r11; mov.b32 %r15, {{%h2, %h1}}; {}",
                x2("mul.rn", "%r15, %r12")
            ),
            format!("prmt.b32 %r15, %r11, %r12, 0x5410; {}", x2("mul.rn", "%r15, %r15")),
            format!("prmt.b32 %r15, %r11, %r12, 0x7632; {}", x2("mul.rn", "%r15, %r13")),
            format!("shr.u32 %r15, %r11, 16; {}", x2("fma.rn", "%r15, %r12, %r13")),
            format!(
                "shl.b32 %r15, %r11, 16; shr.u32 %r16, %r12, 16; or.b32 %r17, %r15, %r16; {}",
                x2("mul.rn", "%r17, %r13")
            ),
            format!(
                "and.b32 %r15, %r11, 0xffff; and.b32 %r16, %r12, 0xffff0000; or.b32 %r17, %r15, %r16; {}",
                x2("mul.rn", "%r17, %r13")
            ),
            format!("xor.b32 %r15, %r11, 0x80008000; {}", x2("mul.rn", "%r15, %r12")),
            format!("and.b32 %r15, %r11, 0x7fff7fff; {}", x2("mul.rn", "%r15, %r12")),
            format!("xor.b32 %r15, %r11, 0x80000000; {}", x2("mul.rn", "%r15, %r12")),
            format!(
                "cvt.u16.u32 %h1, %r11; mov.b32 %r15, {{%h1, %h1}}; {}",
                x2("mul.rn", "%r15, %r12")
            ),
            format!("shf.l.wrap.b32 %r15, %r11, %r12, 16; {}", x2("mul.rn", "%r15, %r13")),
            format!(
                "setp.gt.{ty}x2 %p1|%p2, %r11, %r12; selp.b32 %r15, %r11, %r13, %p1; \
                     selp.b32 %r16, %r12, %r13, %p2; {}",
                x2("mul.rn", "%r15, %r16")
            ),
            format!("set.gt.{ty}x2.{ty}x2 %r15, %r11, %r12; {}", x2("fma.rn", "%r15, %r11, %r12")),
            format!(
                "mov.b32 {{%h1, %h2}}, %r11; add.rn.{ty} %h3, %h1, %h2; mov.b32 %r14, {{%h3, %h2}};"
            ),
            format!(
                "mov.b32 {{%h1, %h2}}, %r11; setp.lt.{ty} %p1, %h1, %h2; selp.b32 %r14, %r12, %r11, %p1;"
            ),
            // The lower lane is a constant.
            format!(
                "mov.b32 {{%h1, %h2}}, %r11; mov.b16 %h3, 0x3e00; mov.b32 %r15, {{%h3, %h2}}; {}",
                x2("mul.rn", "%r15, %r12")
            ),
            // Through 64 bits.
            format!(
                "mov.b64 %w5, {{%r11, %r12}}; mov.b64 {{%r15, %r16}}, %w5; {}",
                x2("mul.rn", "%r15, %r16")
            ),
            format!(
                "mov.b64 %w5, {{%r11, %r12}}; shr.u64 %w6, %w5, 16; cvt.u32.u64 %r15, %w6; {}",
                x2("mul.rn", "%r15, %r13")
            ),
        ]
    };
    for (real, ty) in [(Real::F16, "f16"), (Real::Bf16, "bf16")] {
        let mut all = both(ty);
        if ty == "f16" {
            all.push("cvt.f32.f16 %f1, %h1;".replace("cvt", "mov.b32 {%h1, %h2}, %r11; cvt")
                + "cvt.f32.f16 %f2, %h2; mul.f32 %f3, %f1, %f2; add.f32 %f4, %f1, %f2; cvt.rn.f16x2.f32 %r14, %f3, %f4;");
            all.push("ex2.approx.f16x2 %r14, %r11;".to_owned());
            all.push("add.rn.sat.f16x2 %r14, %r11, %r12;".to_owned());
        } else {
            all.push("mov.b32 {%h1, %h2}, %r11; mov.b16 %h3, 0; mov.b32 %f1, {%h3, %h1}; and.b32 %r15, %r11, 0xffff0000; \
                mov.b32 %f2, %r15; mul.f32 %f3, %f1, %f2; cvt.rn.relu.bf16x2.f32 %r14, %f3, %f2;".to_owned());
        }
        for code in all {
            let code = format!(
                "{} ld.global.b32 %r11, [%w1]; ld.global.u32 %r12, [%w2]; ld.global.nc.b32 %r13, [%w3]; \
                 {code} st.global.b32 [%w4], %r14; ret;",
                start([4; 4])
            );
            let mut args = buffers(real, [2; 4], 64);
            for (at, name) in ["%r11", "%r12", "%r13"].into_iter().enumerate() {
                if code.matches(name).count() <= 1 {
                    args[at] = args[at].clone().constant();
                }
            }
            right(&code, PARAMS, &args, shape(2, 32));
        }
    }
}

/// Loads and stores of up to 8 lanes: the code between, with registers of 32 bits.
#[test]
fn vectors() {
    let multiply = |ty: &str, pairs: std::ops::Range<u32>| {
        pairs.map(|at| format!("mul.rn.{ty}x2 %r3{at}, %r1{at}, %r2{at};")).collect::<String>()
    };
    for (real, ty) in [(Real::F16, "f16"), (Real::Bf16, "bf16")] {
        let all = [
            (
                2,
                format!(
                    "ld.global.v2.b16 {{%h1, %h2}}, [%w1]; ld.global.nc.v2.u16 {{%h3, %h4}}, [%w2]; \
                 fma.rn.{ty} %h5, %h1, %h3, %h2; mul.rn.{ty} %h6, %h2, %h4; st.global.v2.b16 [%w4], {{%h5, %h6}};"
                ),
            ),
            (
                4,
                format!(
                    "ld.global.v4.u16 {{%h1, %h2, %h3, %h4}}, [%w1]; ld.global.v2.b32 {{%r20, %r21}}, [%w2]; \
                 mov.b32 %r10, {{%h1, %h2}}; mov.b32 %r11, {{%h3, %h4}}; {} st.global.v2.u32 [%w4], {{%r30, %r31}};",
                    multiply(ty, 0..2)
                ),
            ),
            (
                4,
                format!(
                    "ld.global.b64 %w5, [%w1]; ld.global.nc.u64 %w6, [%w2]; mov.b64 {{%r10, %r11}}, %w5; \
                 mov.b64 {{%r20, %r21}}, %w6; {} mov.b64 %w7, {{%r30, %r31}}; st.global.b64 [%w4], %w7;",
                    multiply(ty, 0..2)
                ),
            ),
            (
                8,
                format!(
                    "ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%w1]; \
                 ld.global.nc.v4.u32 {{%r20, %r21, %r22, %r23}}, [%w2]; {} \
                 st.global.v4.b32 [%w4], {{%r30, %r31, %r32, %r33}};",
                    multiply(ty, 0..4)
                ),
            ),
            (
                8,
                format!(
                    "ld.global.v2.b64 {{%w5, %w6}}, [%w1]; ld.global.v2.u64 {{%w7, %w8}}, [%w2]; \
                 mov.b64 {{%r10, %r11}}, %w5; mov.b64 {{%r12, %r13}}, %w6; mov.b64 {{%r20, %r21}}, %w7; \
                 mov.b64 {{%r22, %r23}}, %w8; {} mov.b64 %w5, {{%r30, %r31}}; mov.b64 %w6, {{%r32, %r33}}; \
                 st.global.v2.b64 [%w4], {{%w5, %w6}};",
                    multiply(ty, 0..4)
                ),
            ),
        ];
        for (lanes, code) in all {
            let code = format!("{} {code} ret;", start([2 * lanes; 4]));
            let mut args = buffers(real, [lanes as usize; 4], 64);
            args[2] = args[2].clone().constant();
            let (_, adjoint) = right(&code, PARAMS, &args, shape(2, 32));
            assert!(adjoint.accesses[0].own && adjoint.accesses[3].own, "{code}");
            assert!(!adjoint.shares, "{code}\n{}", adjoint.text);
            // Gradients are moved as wide as values are, up to 128 bits.
            let wide =
                [".v2.f32", ".v4.f32"].map(|part| adjoint.text.contains(part)).contains(&true);
            assert!(wide, "{code}\n{}", adjoint.text);
        }
    }
}

/// An element is covered if each of its lanes is.
#[test]
fn lengths() {
    let code = format!(
        "{} ld.param.u32 %r9, [n]; setp.ge.u32 %p1, %r1, %r9; @%p1 bra end; ld.global.b32 %r11, [%w1]; \
         ld.global.b32 %r12, [%w2]; mul.rn.f16x2 %r14, %r11, %r12; st.global.b32 [%w4], %r14; end: ret;",
        start([4; 4])
    );
    let params = format!("{PARAMS}, .param .u32 n");
    for count in [1, 31, 32, 33, 64] {
        let mut args: Vec<Arg> =
            buffers(Real::F16, [2; 4], 64).into_iter().map(|arg| arg.len(2, 4)).collect();
        args[2] = args[2].clone().constant();
        args.push(word(count));
        let (_, adjoint) = right(&code, &params, &args, shape(2, 32));
        assert!([0, 1, 3].into_iter().all(|at| adjoint.accesses[at].covers));
    }
}

/// The numbers that a kernel gets by value.
#[test]
fn by_value() {
    for (real, ty) in [(Real::F16, "f16"), (Real::Bf16, "bf16")] {
        let code = format!(
            "{} ld.param.b16 %h1, [s]; ld.param.b32 %r11, [t]; mov.b32 {{%h2, %h3}}, %r11; ld.param.b16 %h7, [t+4]; \
             ld.global.b16 %h4, [%w1]; fma.rn.{ty} %h5, %h1, %h4, %h2; mul.rn.{ty} %h6, %h5, %h3; \
             fma.rn.{ty} %h6, %h6, %h7, %h1; st.global.b16 [%w4], %h6; ret;",
            start([2; 4])
        );
        let params = format!("{PARAMS}, .param .align 2 .b8 s[2], .param .align 4 .b8 t[8]");
        let mut args = buffers(real, [1; 4], 64);
        for arg in &mut args[1..3] {
            *arg = arg.clone().constant();
        }
        args.push(half::scalar(real, 0.75));
        let bytes = [1.25, -0.5, 1.5, 0.0]
            .iter()
            .flat_map(|v| half::near(real, *v).to_le_bytes())
            .collect();
        args.push(Arg::Value { bytes, reals: vec![(0, real), (2, real), (4, real)], active: true });
        let (compared, _) = right(&code, &params, &args, shape(2, 32));
        assert_eq!(compared.gradient[5].len(), 3);
        assert!(compared.gradient[5].iter().all(|g| *g != 0.0), "{:?}", compared.gradient[5]);
        // Passive ones, and those whose bits are used.
        args[5] = args[5].clone().constant();
        right(&code, &params, &args, shape(2, 32));
    }
}

/// Sums by atomics, whose gradient stays, and gathers.
#[test]
fn atomics_and_gathers() {
    for (real, ty) in [(Real::F16, "f16"), (Real::Bf16, "bf16")] {
        let code = format!(
            "{} ld.param.u64 %w9, [index]; cvta.to.global.u64 %w9, %w9; mul.wide.u32 %w10, %r1, 4; \
             add.s64 %w9, %w9, %w10; ld.global.u32 %r8, [%w9]; mul.wide.u32 %w10, %r8, 4; add.s64 %w11, %w21, %w10; \
             ld.global.b32 %r11, [%w11]; ld.global.b32 %r12, [%w2]; mul.rn.{ty}x2 %r13, %r11, %r12; \
             add.s64 %w12, %w24, %w10; red.global.add.noftz.{ty}x2 [%w12], %r13; mov.b32 {{%h1, %h2}}, %r13; \
             atom.global.add.noftz.{ty} %h3, [%w12+2], %h1; ret;",
            start([4; 4])
        );
        let params = format!("{PARAMS}, .param .u64 index");
        let mut args = buffers(real, [2; 4], 64);
        args[2] = args[2].clone().constant();
        let index: Vec<u32> = (0..64).map(|at| at * at % 7).collect();
        args.push(words(&index));
        let (_, adjoint) = right(&code, &params, &args, shape(2, 32));
        assert!(adjoint.shares && !adjoint.accesses[0].own && adjoint.accesses[1].own);
    }
}

/// A sum over a row, in `float`; in place; with bf16 that are widened by shifts.
#[test]
fn loops() {
    let sum = |load: &str, add: &str| {
        format!(
            "{} mov.f32 %f9, 0f00000000; mov.b16 %h8, 0; mov.u32 %r9, 0; mul.wide.u32 %w9, %r1, 16; \
             add.s64 %w9, %w21, %w9; again: {load} {add} add.s64 %w9, %w9, 2; add.u32 %r9, %r9, 1; \
             setp.lt.u32 %p1, %r9, 5; @%p1 bra again; ",
            start([16, 2, 2, 2])
        )
    };
    // A `float` that is carried.
    let f16 = sum(
        "ld.global.b16 %h1, [%w9]; cvt.f32.f16 %f1, %h1;",
        "ld.global.b16 %h2, [%w2]; cvt.f32.f16 %f2, %h2; fma.rn.f32 %f9, %f9, %f2, %f1; fma.rn.f32 %f9, %f1, %f1, %f9;",
    ) + "cvt.rn.f16.f32 %h4, %f9; st.global.b16 [%w4], %h4; ret;";
    let bf16 = sum(
        "ld.global.u16 %r5, [%w9]; shl.b32 %r5, %r5, 16; mov.b32 %f1, %r5;",
        "ld.global.b16 %h2, [%w2]; mov.b16 %h3, 0; mov.b32 %f2, {%h3, %h2}; fma.rn.f32 %f9, %f9, %f2, %f1;",
    ) + "cvt.rn.bf16.f32 %h4, %f9; st.global.b16 [%w4], %h4; ret;";
    // A 16-bit float that is carried.
    let carried = |ty: &str| {
        sum(
            "ld.global.b16 %h1, [%w9];",
            &format!(
                "ld.global.b16 %h2, [%w2]; fma.rn.{ty} %h8, %h8, %h2, %h1; mul.rn.{ty} %h8, %h8, %h8;"
            ),
        ) + "st.global.b16 [%w4], %h8; ret;"
    };
    for (real, code) in [
        (Real::F16, f16),
        (Real::Bf16, bf16),
        (Real::F16, carried("f16")),
        (Real::Bf16, carried("bf16")),
    ] {
        let mut args = vec![
            half::buffer(real, &inputs(1, 8 * 64).iter().map(|v| v / 2.0).collect::<Vec<_>>()),
            half::buffer(real, &inputs(2, 64).iter().map(|v| v / 4.0).collect::<Vec<_>>()),
            half::buffer(real, &inputs(3, 64)).constant(),
            half::buffer(real, &inputs(4, 64)),
        ];
        right(&code, PARAMS, &args, shape(2, 32));
        // Other types beside it.
        args[1] = args[1].clone().constant();
        right(&code, PARAMS, &args, shape(2, 32));
    }
    // What was stored is loaded again.
    let code = format!(
        "{} mov.u32 %r9, 0; again: ld.global.b32 %r11, [%w4]; ld.global.b32 %r12, [%w1]; \
         fma.rn.f16x2 %r13, %r11, %r12, %r12; st.global.b32 [%w4], %r13; add.u32 %r9, %r9, 1; \
         setp.lt.u32 %p1, %r9, 3; @%p1 bra again; ret;",
        start([4; 4])
    );
    let mut args = buffers(Real::F16, [2; 4], 64);
    for arg in &mut args[1..3] {
        *arg = arg.clone().constant();
    }
    let (_, adjoint) = right(&code, PARAMS, &args, shape(2, 32));
    assert!(adjoint.accesses[3].private);
}

/// Elements at odd offsets, and pointers that are chosen.
#[test]
fn offsets() {
    let code = format!(
        "{} setp.lt.u32 %p1, %r1, 9; selp.b64 %w5, %w1, %w2, %p1; ld.global.b16 %h1, [%w5+6]; \
         ld.global.b16 %h2, [%w1+2]; mul.rn.f16 %h3, %h1, %h2; st.global.b16 [%w4+2], %h3; ret;",
        start([8; 4])
    );
    let mut args = buffers(Real::F16, [4; 4], 64);
    args[2] = args[2].clone().constant();
    right(&code, PARAMS, &args, shape(2, 32));
}

/// `float`s and 16-bit floats of both types in one kernel.
#[test]
fn several_types() {
    let code = format!(
        "{} ld.global.b16 %h1, [%w1]; cvt.f32.f16 %f1, %h1; ld.global.b16 %h2, [%w2]; mov.b16 %h3, 0; \
         mov.b32 %f2, {{%h3, %h2}}; ld.global.f32 %f3, [%w3]; mul.f32 %f4, %f1, %f2; fma.rn.f32 %f5, %f3, %f3, %f4; \
         cvt.rn.f16.f32 %h4, %f5; cvt.rn.bf16.f32 %h5, %f3; mov.b32 %r11, {{%h3, %h5}}; mov.b32 %f6, %r11; \
         mul.f32 %f7, %f6, %f5; st.global.f32 [%w4], %f7; st.global.b16 [%w1], %h4; ret;",
        start([2, 2, 4, 4])
    );
    let args = [
        half::buffer(Real::F16, &inputs(1, 64)),
        half::buffer(Real::Bf16, &inputs(2, 64)),
        floats(&inputs(3, 64)),
        floats(&inputs(4, 64)),
    ];
    right(&code, PARAMS, &args, shape(2, 32));
}
