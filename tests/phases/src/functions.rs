//! Elementary functions: equal bits, and errors in units of the last place.

use gpu_phases::kernel;

use crate::both;

macro_rules! kernels {
    ($($f:ident $unary:ident $binary:ident $pairs:ident;)+) => {$(
        #[kernel]
        fn $unary(x: &[$f], out: &mut [[$f; 18]]) {
            assert!(x.len() == out.len());
            each(out, |i, out| {
                let x = x[i];
                let (sin, cos) = x.sin_cos();
                *out = [
                    x.sin(), x.cos(), x.tan(), x.asin(), x.acos(), x.atan(), x.sinh(), x.cosh(), x.tanh(),
                    x.exp(), $f::exp2(x), x.exp_m1(), x.ln(), x.ln_1p(), x.log2(), x.log10(), x.cbrt(),
                    if sin == x.sin() && cos == x.cos() { 1.0 } else { 0.0 },
                ];
                // Payloads of NaNs may differ.
                for value in out {
                    if value.is_nan() {
                        *value = $f::NAN;
                    }
                }
            });
        }

        #[kernel]
        fn $binary(x: &[$f], y: &[$f], out: &mut [[$f; 3]]) {
            assert!(x.len() == out.len() && y.len() == out.len());
            each(out, |i, out| {
                *out = [x[i].powf(y[i]), x[i].atan2(y[i]), $f::hypot(x[i], y[i])];
                for value in out {
                    if value.is_nan() {
                        *value = $f::NAN;
                    }
                }
            });
        }

        /// The largest error of each function over some arguments, after a comparison of the targets' bits.
        fn $pairs(x: Vec<$f>, y: Vec<$f>) -> Vec<(&'static str, f64)> {
            let (n, names) = (x.len(), UNARY.iter().chain(&BINARY));
            let one = both!($unary(read x, write vec![[0.0; 18]; n])).unwrap();
            let two = both!($binary(read x, read y, write vec![[0.0; 3]; n])).unwrap();
            let mut worst: Vec<(&str, f64)> = names.map(|(name, _)| (*name, 0.0)).collect();
            for i in 0..n {
                let (x, y) = (f64::from(x[i]), f64::from(y[i]));
                let wanted = UNARY.iter().map(|(_, f)| f(x, 0.0)).chain(BINARY.iter().map(|(_, f)| f(x, y)));
                let got = one[i][..17].iter().chain(&two[i]);
                for ((wanted, got), worst) in wanted.zip(got).zip(&mut worst) {
                    let error = ulps::<$f>(*got, wanted);
                    assert!(error < 1e6, "{}: {} {y}: {got:?} instead of {wanted:?}", worst.0, x);
                    worst.1 = worst.1.max(error);
                }
                assert!(x.is_nan() || x.is_infinite() || one[i][17] == 1.0, "{x}");
            }
            worst
        }
    )+};
}

kernels! {
    f32 unary_f32 binary_f32 errors_f32;
    f64 unary_f64 binary_f64 errors_f64;
}

type Function = fn(f64, f64) -> f64;

const UNARY: [(&str, Function); 17] = [
    ("sin", |x, _| x.sin()),
    ("cos", |x, _| x.cos()),
    ("tan", |x, _| x.tan()),
    ("asin", |x, _| x.asin()),
    ("acos", |x, _| x.acos()),
    ("atan", |x, _| x.atan()),
    ("sinh", |x, _| x.sinh()),
    ("cosh", |x, _| x.cosh()),
    ("tanh", |x, _| x.tanh()),
    ("exp", |x, _| x.exp()),
    ("exp2", |x, _| x.exp2()),
    ("exp_m1", |x, _| x.exp_m1()),
    ("ln", |x, _| x.ln()),
    ("ln_1p", |x, _| x.ln_1p()),
    ("log2", |x, _| x.log2()),
    ("log10", |x, _| x.log10()),
    ("cbrt", |x, _| x.cbrt()),
];

const BINARY: [(&str, Function); 3] =
    [("powf", f64::powf), ("atan2", f64::atan2), ("hypot", f64::hypot)];

trait Ulp: Copy {
    fn wide(self) -> f64;
    /// The value that a number rounds to, and the distance of its neighbours.
    fn rounded(x: f64) -> (f64, f64);
}

impl Ulp for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn rounded(x: f64) -> (f64, f64) {
        let near = x as f32;
        let spacing = (f64::from(near.abs().next_up()) - f64::from(near.abs()))
            .max(f64::from(f32::from_bits(1)));
        (f64::from(near), spacing)
    }
}

impl Ulp for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn rounded(x: f64) -> (f64, f64) {
        (x, (x.abs().next_up() - x.abs()).max(f64::from_bits(1)))
    }
}

/// The error of a result; a wrong sign of zero, infinity or NaN is infinite.
fn ulps<F: Ulp>(got: F, wanted: f64) -> f64 {
    let (near, spacing) = F::rounded(wanted);
    let got = got.wide();
    if near.is_nan() || got.is_nan() {
        return if near.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == near {
        return if got != 0.0 || got.is_sign_negative() == near.is_sign_negative() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    (got - wanted).abs() / spacing
}

const SPECIAL: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    1e-30,
    -1e-30,
    1e30,
    -1e30,
    2.5,
    100.0,
    -100.0,
    1e-3,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1.000_001,
    0.999_999,
    -7.0,
];

/// Arguments of all sizes: a third with exponents at random, a third near 1, a third of angles and powers.
fn arguments(n: usize, digits: i32) -> (Vec<f64>, Vec<f64>) {
    let mut state = 11u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut one = |i: usize| {
        let sign = if next() < 0.5 { -1.0 } else { 1.0 };
        sign * match i % 3 {
            0 => (1.0 + next()) * 2f64.powi((next() * f64::from(2 * digits)) as i32 - digits),
            1 => 1.0 + (next() - 0.5) * 2f64.powi(-(next() * 20.0) as i32),
            _ => next() * 100.0,
        }
    };
    let (mut x, mut y): (Vec<f64>, Vec<f64>) = (0..n).map(|i| (one(i), one(i / 3))).unzip();
    for a in SPECIAL {
        for b in SPECIAL {
            x.push(a);
            y.push(b);
        }
    }
    (x, y)
}

fn check(errors: &[(&str, f64)], most: f64) {
    println!("{errors:.2?}");
    for (name, error) in errors {
        assert!(*error <= most, "{name}: {error} units in the last place");
    }
}

#[test]
fn functions_of_floats_are_right() {
    let (x, y) = arguments(6_000, 120);
    let narrow = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect();
    check(&errors_f32(narrow(x), narrow(y)), 2.5);
}

#[test]
fn functions_of_doubles_are_right() {
    let (x, y) = arguments(3_000, 1000);
    // The oracle is right to one unit.
    check(&errors_f64(x, y), 3.5);
}
