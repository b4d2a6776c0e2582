//! Adjoints of adjoints: against tangents of the first adjoint, and formulas. Others are refused by name.

use ptx_ad::{Reason, Twice, differentiate_twice};
use test_support::Rng;

use crate::common::{Arg, Compared, Device, Failure, floats, kernel, scalar, shape, spec, write};

/// Compares the second adjoint of a kernel with tangents of the first.
fn compare(
    device: &Device,
    text: &str,
    name: &str,
    args: &[Arg],
    seed: u64,
) -> Result<(Compared, Twice), Failure> {
    let module = ptx_ad::parse(text).expect("valid");
    let twice = differentiate_twice(&module, &spec(name, args)).map_err(Failure::Refused)?;
    let mut all = args.to_vec();
    let mut rng = Rng::new(seed ^ 0x2d);
    for arg in args.iter().filter(|arg| arg.is_active()) {
        let mut gradient = arg.clone();
        let numbers = gradient.numbers();
        if let Arg::Buffer { bytes, .. } = &mut gradient {
            numbers.iter().for_each(|(at, real)| write(bytes, *at, *real, f64::from(rng.float())));
            all.push(gradient);
        }
    }
    all.push(Arg::Value { bytes: vec![0; 128], reals: Vec::new(), active: false });
    let (text, name) = (&twice.first.text, &twice.first.name);
    let compared = device.compare_with(text, name, &all, shape(2, 24), seed, &twice.second)?;
    Ok((compared, twice))
}

const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [y]; ld.param.u64 %w3, [z]; mov.u32 %r1, %tid.x; \
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; mul.wide.u32 %w4, %r1, 4; \
    add.s64 %w5, %w1, %w4; add.s64 %w6, %w2, %w4; add.s64 %w7, %w3, %w4;";

fn of(code: &str) -> String {
    kernel(".param .u64 x, .param .u64 y, .param .u64 z", &format!("{START}\n{code}\nret;"))
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| 0.5 + (at * 37 % 101) as f32 / 128.0).collect()
}

#[test]
fn second_derivatives() {
    let args = [0; 3].map(|_| floats(&numbers(48)));
    for code in [
        "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w6]; mul.f32 %f3, %f1, %f1; fma.rn.f32 %f3, %f3, %f1, %f2; \
         mul.f32 %f3, %f3, %f2; st.global.f32 [%w7], %f3;",
        "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w6]; div.rn.f32 %f3, %f1, %f2; sqrt.rn.f32 %f4, %f1; \
         fma.rn.f32 %f3, %f3, %f4, %f2; st.global.f32 [%w7], %f3;",
        // In branches, and a second output.
        "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w6]; setp.gt.f32 %p1, %f1, 0f3F800000; mul.f32 %f3, %f1, %f2; \
         @%p1 mul.f32 %f3, %f3, %f3; @%p1 bra ON; st.global.f32 [%w6], %f3; ON: mul.f32 %f3, %f3, %f1; \
         st.global.f32 [%w7], %f3;",
        // Linear: nothing of `x` is left.
        "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w6]; add.f32 %f3, %f1, %f2; st.global.f32 [%w7], %f3;",
        // From others' elements, with gradients that are added by atomics.
        "ld.global.f32 %f1, [%w5]; xor.b32 %r4, %r1, 5; mul.wide.u32 %w8, %r4, 4; add.s64 %w8, %w1, %w8; \
         ld.global.f32 %f2, [%w8]; ld.global.f32 %f4, [%w6]; mul.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, %f4; \
         st.global.f32 [%w7], %f3;",
    ] {
        let text = of(code);
        for seed in 0..3 {
            let found = compare(&Device::new(), &text, "k", &args, seed);
            let (got, _) = found.unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
            assert!(got.error <= 2e-6 && got.magnitude > 0.1, "{got:?}\n{text}");
        }
    }
}

/// Of `z = x³ y`: by x, 6 x y ḡ; by the gradient of z, 3 x² y and x³.
#[test]
fn of_a_cube() {
    let text = of(
        "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w6]; mul.f32 %f3, %f1, %f1; mul.f32 %f3, %f3, %f1; \
         mul.f32 %f3, %f3, %f2; st.global.f32 [%w7], %f3;",
    );
    let args = [0; 3].map(|_| floats(&numbers(48)));
    let (got, twice) = compare(&Device::new(), &text, "k", &args, 5).expect("right");
    assert_eq!(twice.spec.params.len(), 7);
    let mut rng = Rng::new(5 ^ 0x2d);
    let drawn: Vec<f64> = (0..3 * 48).map(|_| f64::from(rng.float())).collect();
    for (at, x) in numbers(48).into_iter().enumerate() {
        let (x, g) = (f64::from(x), drawn[2 * 48 + at]);
        let (by_x, by_y) = (got.weights[3][at], got.weights[4][at]);
        let wanted = [
            (0, got.weights[0][at] + by_x * 6.0 * x * x * g + by_y * 3.0 * x * x * g),
            (1, got.weights[1][at] + by_x * 3.0 * x * x * g),
            (5, by_x * 3.0 * x * x * x + by_y * x * x * x),
        ];
        for (of, wanted) in wanted {
            let got = got.gradient[of][at];
            assert!((got - wanted).abs() <= 1e-5, "{of} at {at}: {got}, not {wanted}");
        }
    }
}

#[test]
fn refused_by_name() {
    let refused = |text: &str, args: &[Arg], why: &str| {
        let module = ptx_ad::parse(text).expect("valid");
        let error = differentiate_twice(&module, &spec("k", args)).expect_err("it is refused");
        let named = error.refusals.iter().any(|refusal| {
            refusal.reason == Reason::Second
                && refusal.message.contains(why)
                && refusal.message.contains("take differences of gradients")
        });
        assert!(named, "{error}, not {why}");
    };
    let args = [0; 3].map(|_| floats(&numbers(48)));
    for (code, why) in [
        (
            "ld.global.f32 %f1, [%w5]; ad.stop.f32 %f2, %f1; mul.f32 %f3, %f1, %f2; ld.global.f32 %f4, [%w6]; \
             mul.f32 %f3, %f3, %f4; st.global.f32 [%w7], %f3;",
            "derivative is stated",
        ),
        (
            "ld.global.f32 %f1, [%w5]; ld.global.f32 %f3, [%w6]; mov.u32 %r4, 0; TOP: mul.f32 %f3, %f3, %f1; \
             add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra TOP; st.global.f32 [%w7], %f3;",
            "scratch memory",
        ),
        (
            "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%w5], %f3; \
             ld.global.f32 %f4, [%w5]; mul.f32 %f3, %f3, %f4; st.global.f32 [%w7], %f3;",
            "what it has stored",
        ),
        (
            "ld.global.f32 %f1, [%w5]; ld.global.f32 %f2, [%w2]; mul.f32 %f3, %f1, %f2; st.global.f32 [%w7], %f3;",
            "exchange values",
        ),
    ] {
        refused(&of(code), &args, why);
    }
    let text = kernel(
        ".param .u64 x, .param .f32 y",
        "ld.param.u64 %w1, [x]; ld.param.f32 %f2, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %w4, %r1, 4; \
         add.s64 %w5, %w1, %w4; ld.global.f32 %f1, [%w5]; mul.f32 %f1, %f1, %f2; st.global.f32 [%w5], %f1; ret;",
    );
    refused(&text, &[floats(&numbers(48)), scalar(0.5)], "passed by value");
}
