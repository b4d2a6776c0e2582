//! Each instruction with a derivative, at random places, against differences of the function that it computes.

use cuda_emu::Real;
use test_support::Rng;

use super::{Tracked, close, slope};
use crate::device::shape;

/// The type of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    F32,
    F64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
}

impl Kind {
    const ALL: [Self; 6] = [Self::F32, Self::F64, Self::F16, Self::Bf16, Self::F16x2, Self::Bf16x2];

    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F16x2 => "f16x2",
            Self::Bf16x2 => "bf16x2",
        }
    }

    /// The letter of its registers, their type in accesses, and how many numbers they are.
    fn register(self) -> (&'static str, &'static str, usize) {
        match self {
            Self::F32 => ("f", "f32", 1),
            Self::F64 => ("d", "f64", 1),
            Self::F16 | Self::Bf16 => ("h", "b16", 1),
            Self::F16x2 | Self::Bf16x2 => ("r", "b32", 2),
        }
    }

    fn real(self) -> Real {
        match self {
            Self::F32 => Real::F32,
            Self::F64 => Real::F64,
            Self::F16 | Self::F16x2 => Real::F16,
            Self::Bf16 | Self::Bf16x2 => Real::Bf16,
        }
    }

    /// The bytes of a number that is a multiple of 1/16 below 8.
    fn bytes(self, value: f64) -> Vec<u8> {
        let single = value as f32;
        match self.real() {
            Real::F64 => value.to_le_bytes().to_vec(),
            Real::F32 => single.to_le_bytes().to_vec(),
            Real::Bf16 => ((single.to_bits() >> 16) as u16).to_le_bytes().to_vec(),
            _ => {
                let bits = single.to_bits();
                let half = match value {
                    0.0 => 0,
                    _ => (bits >> 13 & 0x3ff) | ((bits >> 23 & 255) - 112) << 10,
                };
                ((half | bits >> 16 & 0x8000) as u16).to_le_bytes().to_vec()
            }
        }
    }
}

/// An instruction: D, A, B, C are its registers, `T` its type.
struct Case {
    text: &'static str,
    kinds: &'static [Kind],
    f: fn([f64; 3]) -> f64,
    /// The least value of the sources, in sixteenths; the greatest is 127.
    from: i32,
}

const SINGLE: &[Kind] = &[Kind::F32];
const DOUBLE: &[Kind] = &[Kind::F64];
const WIDE: &[Kind] = &[Kind::F32, Kind::F64];
const ALL: &[Kind] = &Kind::ALL;
const SMALL: &[Kind] = &[Kind::F16, Kind::Bf16, Kind::F16x2, Kind::Bf16x2];
const HALF: &[Kind] = &[Kind::F16, Kind::F16x2];
const ANY: i32 = -127;
const POSITIVE: i32 = 3;

fn case(text: &'static str, kinds: &'static [Kind], from: i32, f: fn([f64; 3]) -> f64) -> Case {
    Case { text, kinds, f, from }
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    vec![
        case("add.rn.T D, A, B", ALL, ANY, |[a, b, _]| a + b),
        case("add.rz.T D, A, B", WIDE, ANY, |[a, b, _]| a + b),
        case("add.T D, A, 0f3FC00000", SINGLE, ANY, |[a, ..]| a + 1.5),
        case("sub.rn.T D, A, B", ALL, ANY, |[a, b, _]| a - b),
        case("sub.ftz.T D, A, B", SINGLE, ANY, |[a, b, _]| a - b),
        case("mul.rn.T D, A, B", ALL, ANY, |[a, b, _]| a * b),
        case("mul.T D, A, A", ALL, ANY, |[a, ..]| a * a),
        case("mul.rp.ftz.sat.T D, A, B", SINGLE, ANY, |[a, b, _]| (a * b).clamp(0.0, 1.0)),
        case("add.sat.T D, A, B", HALF, ANY, |[a, b, _]| (a + b).clamp(0.0, 1.0)),
        case("fma.rn.T D, A, B, C", ALL, ANY, |[a, b, c]| a * b + c),
        case("{mov.f32 D, A; fma.rn.T D, D, B, D;}", SINGLE, ANY, |[a, b, _]| a * b + a),
        case("fma.rn.relu.T D, A, B, C", SMALL, ANY, |[a, b, c]| (a * b + c).max(0.0)),
        case("fma.rm.sat.T D, A, B, C", SINGLE, ANY, |[a, b, c]| (a * b + c).clamp(0.0, 1.0)),
        case("mad.rn.T D, A, B, C", WIDE, ANY, |[a, b, c]| a * b + c),
        case("div.rn.T D, A, B", WIDE, POSITIVE, |[a, b, _]| a / b),
        case("div.approx.ftz.T D, A, B", SINGLE, POSITIVE, |[a, b, _]| a / b),
        case("div.full.T D, A, B", SINGLE, POSITIVE, |[a, b, _]| a / b),
        case("rcp.rn.T D, A", WIDE, POSITIVE, |[a, ..]| 1.0 / a),
        case("rcp.approx.ftz.T D, A", WIDE, POSITIVE, |[a, ..]| 1.0 / a),
        case("sqrt.rn.T D, A", WIDE, POSITIVE, |[a, ..]| a.sqrt()),
        case("sqrt.approx.T D, A", SINGLE, POSITIVE, |[a, ..]| a.sqrt()),
        case("rsqrt.approx.T D, A", WIDE, POSITIVE, |[a, ..]| 1.0 / a.sqrt()),
        case("rsqrt.approx.ftz.T D, A", WIDE, POSITIVE, |[a, ..]| 1.0 / a.sqrt()),
        case("ex2.approx.T D, A", SINGLE, ANY, |[a, ..]| a.exp2()),
        case("ex2.approx.T D, A", HALF, ANY, |[a, ..]| a.exp2()),
        case("ex2.approx.ftz.T D, A", &[Kind::Bf16, Kind::Bf16x2], ANY, |[a, ..]| a.exp2()),
        case("lg2.approx.T D, A", SINGLE, POSITIVE, |[a, ..]| a.log2()),
        case("sin.approx.T D, A", SINGLE, ANY, |[a, ..]| a.sin()),
        case("cos.approx.ftz.T D, A", SINGLE, ANY, |[a, ..]| a.cos()),
        case("tanh.approx.T D, A", SINGLE, ANY, |[a, ..]| a.tanh()),
        case("tanh.approx.T D, A", SMALL, ANY, |[a, ..]| a.tanh()),
        case("neg.T D, A", ALL, ANY, |[a, ..]| -a),
        case("abs.T D, A", ALL, ANY, |[a, ..]| a.abs()),
        case("min.T D, A, B", ALL, ANY, |[a, b, _]| a.min(b)),
        case("max.NaN.T D, A, B", SINGLE, ANY, |[a, b, _]| a.max(b)),
        case("max.T D, A, B", ALL, ANY, |[a, b, _]| a.max(b)),
        case("min.xorsign.abs.T D, A, B", &[Kind::F32, Kind::F16, Kind::F16x2], ANY,
            |[a, b, _]| (a.signum() * b.signum()) * a.abs().min(b.abs())),
        case("min.T D, A, B, C", SINGLE, ANY, |[a, b, c]| a.min(b).min(c)),
        case("max.NaN.T D, A, B, C", SINGLE, ANY, |[a, b, c]| a.max(b).max(c)),
        case("copysign.T D, A, B", WIDE, ANY, |[a, b, _]| b.copysign(a)),
        case("cvt.sat.T.T D, A", SINGLE, ANY, |[a, ..]| a.clamp(0.0, 1.0)),
        case("{cvt.rn.f16.f32 %h0, A; cvt.f32.f16 D, %h0;}", SINGLE, ANY, |[a, ..]| a),
        case("{cvt.rn.bf16.f32 %h0, A; cvt.f32.bf16 D, %h0;}", SINGLE, ANY, |[a, ..]| a),
        case("{cvt.rn.relu.f16.f32 %h0, A; cvt.f32.f16 D, %h0;}", SINGLE, ANY, |[a, ..]| a.max(0.0)),
        case("{cvt.rna.tf32.f32 %r0, A; mov.b32 D, %r0;}", SINGLE, ANY, |[a, ..]| a),
        case("{cvt.rn.f16x2.f32 %r0, A, B; mov.b32 {%h0, %h1}, %r0; cvt.f32.f16 %f5, %h0;
             cvt.f32.f16 %f6, %h1; fma.rn.f32 D, %f6, 0f40400000, %f5;}", SINGLE, ANY, |[a, b, _]| 3.0 * a + b),
        case("{cvt.f64.f32 %d5, A; mul.rn.f64 %d5, %d5, %d5; cvt.rn.f32.f64 D, %d5;}", SINGLE, ANY, |[a, ..]| a * a),
        case("{setp.gt.T %p1, A, B; selp.T D, B, C, %p1;}", WIDE, ANY, |[a, b, c]| if a > b { b } else { c }),
        case("slct.f32.f32 D, A, B, C", SINGLE, ANY, |[a, b, c]| if c >= 0.0 { a } else { b }),
        case("{set.gt.f32.f32 %f5, A, B; mul.f32 D, %f5, C;}", SINGLE, ANY, |[a, b, c]| if a > b { c } else { 0.0 }),
        case("{cvt.rmi.T.T D, A; sub.T D, A, D;}", WIDE, ANY, |[a, ..]| a - a.floor()),
        case("{cvt.rzi.s32.f32 %r0, A; cvt.rn.f32.s32 D, %r0; mul.f32 D, D, B;}", SINGLE, ANY, |[a, b, _]| a.trunc() * b),
        case("{mov.b32 %r0, A; and.b32 %r0, %r0, 0x7fffffff; mov.b32 D, %r0;}", SINGLE, ANY, |[a, ..]| a.abs()),
        case("{mov.b32 %r0, A; xor.b32 %r0, %r0, 0x80000000; mov.b32 D, %r0;}", SINGLE, ANY, |[a, ..]| -a),
        case("{mov.b64 %w0, A; and.b64 %w0, %w0, 0x7fffffffffffffff; mov.b64 D, %w0;}", DOUBLE, ANY, |[a, ..]| a.abs()),
        case("{mov.b64 %w0, A; xor.b64 %w0, %w0, 0x8000000000000000; mov.b64 D, %w0;}", DOUBLE, ANY, |[a, ..]| -a),
        case("{mov.b32 %r0, A; mov.b32 %r5, B; lop3.b32 %r0, %r0, %r5, 0x80000000, 0xe4; mov.b32 D, %r0;}", SINGLE, ANY,
            |[a, b, _]| b.abs().copysign(a)),
        case("and.b16 D, A, 0x7fff", &[Kind::F16, Kind::Bf16], ANY, |[a, ..]| a.abs()),
        case("xor.b32 D, A, 0x80008000", &[Kind::F16x2, Kind::Bf16x2], ANY, |[a, ..]| -a),
    ]
}

/// A kernel that applies an instruction to three sources of each thread.
fn kernel(text: &str, kind: Kind) -> String {
    let (letter, ty, count) = kind.register();
    let bytes = count * kind.real().bytes();
    let body = text.replace(".T", &format!(".{}", kind.name()));
    let body = body
        .split_inclusive(|c: char| !c.is_alphanumeric())
        .map(|word| {
            let (name, rest) =
                word.split_at(word.len() - usize::from(!word.ends_with(char::is_alphanumeric)));
            match ["D", "A", "B", "C"].iter().position(|&operand| operand == name) {
                Some(at) => format!("%{letter}{}{rest}", at + 1),
                None => word.to_owned(),
            }
        })
        .collect::<String>();
    let end = if body.ends_with('}') { "" } else { ";" };
    format!(
        ".version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 sources, .param .u64 results, .param .u32 n)
{{
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<8>, %i<3>; .reg .b64 %w<8>, %at<3>;
    .reg .f32 %f<8>; .reg .f64 %d<8>;
    mov.u32 %i0, %tid.x;
    ld.param.u32 %i1, [n];
    setp.ge.u32 %p0, %i0, %i1;
    @%p0 ret;
    ld.param.u64 %at0, [sources];
    mad.wide.u32 %at0, %i0, {all}, %at0;
    ld.param.u64 %at1, [results];
    mad.wide.u32 %at1, %i0, {bytes}, %at1;
    ld.global.{ty} %{letter}2, [%at0];
    ld.global.{ty} %{letter}3, [%at0+{bytes}];
    ld.global.{ty} %{letter}4, [%at0+{second}];
    {body}{end}
    st.global.{ty} [%at1], %{letter}1;
    ret;
}}
",
        all = 3 * bytes,
        second = 2 * bytes,
    )
}

/// Compares the tangents of an instruction with differences, for `n` threads.
fn compare(case: &Case, kind: Kind, n: usize, rng: &mut Rng) -> (usize, usize) {
    let count = kind.register().2;
    let real = kind.real();
    let tracked = Tracked::new();
    let mut number = || {
        let step = case.from + rng.below((128 - case.from) as usize) as i32;
        f64::from(step) / 16.0
    };
    let values: Vec<f64> = (0..3 * n * count).map(|_| number()).collect();
    let tangents: Vec<f64> = values.iter().map(|_| f64::from(rng.float())).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|&value| kind.bytes(value)).collect();
    let sources = tracked.upload(&bytes, real, &tangents);
    let results = tracked.device.upload(&vec![0xffu8; n * count * real.bytes()]);
    let program = tracked.load(&kernel(case.text, kind));
    tracked.launch(&program, "k", shape(1, 33), &[sources, results, n as u64]);
    assert_eq!(tracked.lost(), [], "{} {}", case.text, kind.name());
    let got = tracked.get(results, real, n * count);
    let mut kinks = 0;
    for thread in 0..n {
        for part in 0..count {
            let of = |at: usize| (thread * 3 + at) * count + part;
            let (x, dx) = (
                [of(0), of(1), of(2)].map(|at| values[at]),
                [of(0), of(1), of(2)].map(|at| tangents[at]),
            );
            let along = |step: f64| (case.f)(std::array::from_fn(|at| x[at] + step * dx[at]));
            let wanted = slope(1e-4, along);
            // The sum of the terms' magnitudes.
            let terms = (0..3).map(|at| {
                let one = |step: f64| {
                    let mut x = x;
                    x[at] += step * dx[at];
                    (case.f)(x)
                };
                slope(1e-4, one).abs()
            });
            let scale = terms.sum::<f64>().max(1e-3);
            let sides = [along(1e-6) - along(0.0), along(0.0) - along(-1e-6)].map(|d| d / 1e-6);
            if (sides[0] - sides[1]).abs() > 1e-3 * scale {
                kinks += 1;
                continue;
            }
            let what = format!("{} {} at {x:?}", case.text, kind.name());
            close(got[thread * count + part], wanted, scale, 1e-7, &what);
        }
    }
    (n * count, kinks)
}

#[test]
fn each_instruction_agrees_with_differences() {
    let mut rng = Rng::new(23);
    for case in cases() {
        for &kind in case.kinds {
            let (all, kinks) = [0, 1, 31, 32, 33]
                .map(|n| compare(&case, kind, n, &mut rng))
                .into_iter()
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            assert!(kinks * 4 < all, "{}: {kinks} kinks of {all}", case.text);
        }
    }
}
