//! `geom/math/exact.cuh`: each operation has the bits of IEEE arithmetic, under all flags.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, LaunchConfig};
use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round};

use super::flags::{flags, module};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure_eq};

pub(super) const SOURCE: &str = include_str!("../kernels/exact.cu");

pub(super) fn cases() -> Vec<Case> {
    cases!["geometry::exact", device(f32_has_the_bits_of_ieee), device(f64_has_the_bits_of_ieee),]
}

/// What an operation must give: these bits, or any NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Bits(u64),
    Nan,
}

/// The operations in the kernels' order; the last of `f32` is `widen`, and `f64` has the last two.
const NAMES: [&str; 24] = [
    "add",
    "add_up",
    "add_down",
    "sub",
    "sub_up",
    "sub_down",
    "mul",
    "mul_up",
    "mul_down",
    "div",
    "fma",
    "sqrt",
    "sqrt_up",
    "min",
    "max",
    "abs",
    "neg",
    "floor",
    "round",
    "less",
    "less_equal",
    "equal",
    "is_finite",
    "floor_to_int",
];

/// The oracle for one type: what is common to both.
macro_rules! oracle {
    ($name:ident, $float:ty, $soft:ty, $nan_as_int:expr) => {
        fn $name(x: $float, y: $float, z: $float) -> Vec<Wanted> {
            let float = |value: $float| match value.is_nan() {
                true => Wanted::Nan,
                false => Wanted::Bits(value.to_bits().into()),
            };
            let hard = |value: $soft| float(<$float>::from_bits(value.to_bits() as _));
            let yes = |holds: bool| Wanted::Bits(holds.into());
            let soft = |value: $float| <$soft>::from_bits(value.to_bits().into());
            let (a, b, c) = (soft(x), soft(y), soft(z));
            let (near, up, down) =
                (Round::NearestTiesToEven, Round::TowardPositive, Round::TowardNegative);
            // -0 is less than 0, and a NaN loses.
            let first =
                |x: $float, y: $float| y.is_nan() || x < y || (x == y && x.is_sign_negative());
            let least = if first(x, y) { x } else { y };
            let greatest = if x.is_nan() || (!y.is_nan() && first(x, y)) { y } else { x };
            // What the root's square lacks of x, rounded so that its sign is kept.
            let root = x.sqrt();
            let missing = soft(root).mul_add_r(soft(root), -a, down).value;
            let short = missing.is_negative() && !missing.is_zero();
            let int = if x.is_nan() { $nan_as_int } else { x.floor() as i32 };
            vec![
                hard(a.add_r(b, near).value),
                hard(a.add_r(b, up).value),
                hard(a.add_r(b, down).value),
                hard(a.sub_r(b, near).value),
                hard(a.sub_r(b, up).value),
                hard(a.sub_r(b, down).value),
                hard(a.mul_r(b, near).value),
                hard(a.mul_r(b, up).value),
                hard(a.mul_r(b, down).value),
                hard(a.div_r(b, near).value),
                hard(a.mul_add_r(b, c, near).value),
                float(root),
                float(if short { root.next_up() } else { root }),
                float(least),
                float(greatest),
                float(x.abs()),
                float(-x),
                float(x.floor()),
                float(x.round_ties_even()),
                yes(x < y),
                yes(x <= y),
                yes(x == y),
                yes(x.is_finite()),
                Wanted::Bits((int as u32).into()),
            ]
        }
    };
}

oracle!(common_f32, f32, Single, 0);
oracle!(common_f64, f64, Double, i32::MIN);

fn of_f32(x: f32, y: f32, z: f32) -> Vec<Wanted> {
    let wide = f64::from(x);
    let wide = if wide.is_nan() { Wanted::Nan } else { Wanted::Bits(wide.to_bits()) };
    let mut all = common_f32(x, y, z);
    all.push(wide);
    all
}

fn of_f64(x: f64, y: f64, z: f64) -> Vec<Wanted> {
    let narrow = x as f32;
    let narrow = if x.is_nan() { Wanted::Nan } else { Wanted::Bits(narrow.to_bits().into()) };
    let int = if x.is_nan() { i64::MIN } else { x.floor() as i64 };
    let mut all = common_f64(x, y, z);
    all.extend([narrow, Wanted::Bits(int as u64)]);
    all
}

/// Bit patterns of floats with `fraction` bits behind the point and `exponent` bits: what is special, and
/// numbers of all sizes, of like sizes (which cancel and tie), around integers, and subnormal.
fn patterns(rng: &mut Rng, exponent: u32, fraction: u32, count: usize) -> Vec<[u64; 3]> {
    let ones = |bits: u32| (1_u64 << bits) - 1;
    let (sign, infinity) = (1 << (exponent + fraction), ones(exponent) << fraction);
    let (one, step) = (ones(exponent - 1) << fraction, 1_u64 << fraction);
    let half = one - step;
    let special = [
        0,
        1,
        ones(fraction),
        step,
        half,
        half - 1,
        half + 1,
        one,
        one + 1,
        one - 1,
        one + step / 2,
        infinity - 1,
        infinity,
        infinity | (step / 2),
        infinity | 1,
    ];
    let special: Vec<u64> = special.iter().flat_map(|bits| [*bits, bits | sign]).collect();
    let mut all = Vec::new();
    for x in &special {
        all.extend(special.iter().map(|y| [*x, *y, special[rng.below(special.len())]]));
    }
    while all.len() < count {
        let kind = rng.below(5);
        let base = rng.next() & ones(exponent);
        all.push([0; 3].map(|_: u64| {
            let bits = rng.next();
            let fraction_bits = match bits >> 62 {
                0 => bits & ones(fraction) & (ones(fraction) << (fraction - 4)),
                1 => bits & ones(fraction) & 0xf,
                _ => bits & ones(fraction),
            };
            let power = match kind {
                0 => rng.next() & ones(exponent),
                1 => base.saturating_add(rng.next() % 4).min(ones(exponent)),
                2 => 0,
                3 => ones(exponent - 1) - 2 + rng.next() % u64::from(fraction + 12),
                _ => ones(exponent - 1) - rng.next() % 3,
            };
            (rng.next() & sign) | power << fraction | fraction_bits
        }));
    }
    all
}

/// Runs a kernel on all inputs under all flags and compares each result with the oracle's.
fn compare<B: Pod + Into<u64>>(
    device: &TestDevice,
    kernel: &str,
    inputs: &[[B; 3]],
    last: &[&str],
    is_nan: impl Fn(usize, u64) -> bool,
    oracle: impl Fn([B; 3]) -> Vec<Wanted>,
) -> TestResult {
    let stream = device.stream()?;
    let n = inputs.len();
    let names: Vec<&str> = NAMES.iter().chain(last).copied().collect();
    let wanted: Vec<Vec<Wanted>> = inputs.iter().map(|input| oracle(*input)).collect();
    ensure_eq!(wanted[0].len(), names.len());
    let mut columns = Vec::new();
    for column in 0..3 {
        let values: Vec<B> = inputs.iter().map(|input| input[column]).collect();
        columns.push(DeviceBuffer::from_slice(&stream, &values)?);
    }
    let mut before: Option<Vec<u64>> = None;
    for (flag, options) in flags() {
        let kernel = module(device, SOURCE, options)?.kernel(kernel)?;
        let mut out = DeviceBuffer::<u64>::zeroed(&stream, n * names.len())?;
        let arguments = (&columns[0], &columns[1], &columns[2], &mut out, n as u32);
        // SAFETY: the kernel reads element i of three arrays and writes element k * n + i of the last,
        // for i below n and as many k as there are names.
        unsafe { device.launch(&kernel, &stream, LaunchConfig::cover(n, 128), arguments) }?;
        let got = out.to_vec(&stream)?;
        for (k, name) in names.iter().enumerate() {
            for (i, wanted) in wanted.iter().enumerate() {
                let got = got[k * n + i];
                let right = match wanted[k] {
                    Wanted::Bits(bits) => got == bits,
                    Wanted::Nan => is_nan(k, got),
                };
                if !right {
                    let input = inputs[i].map(Into::<u64>::into);
                    return Err(Failure::new(format!(
                        "{name} of {input:x?} is {got:x}, not {:x?}, with {flag}",
                        wanted[k]
                    )));
                }
            }
        }
        // A NaN's bits too.
        if let Some(before) = &before {
            test_harness::first_difference(&got, before)
                .map_err(|error| Failure::new(format!("{flag}: {error}")))?;
        }
        before = Some(got);
    }
    Ok(())
}

fn count() -> usize {
    if deep() { 200_000 } else { 6_000 }
}

fn nan_f32(bits: u64) -> bool {
    u32::try_from(bits).is_ok_and(|bits| f32::from_bits(bits).is_nan())
}

fn nan_f64(bits: u64) -> bool {
    f64::from_bits(bits).is_nan()
}

fn f32_has_the_bits_of_ieee(device: &TestDevice) -> TestResult {
    let patterns = patterns(&mut device.rng(40), 8, 23, count());
    let inputs: Vec<[u32; 3]> = patterns.iter().map(|row| row.map(|bits| bits as u32)).collect();
    // The last result is f64.
    let is_nan = |k, bits| if k < NAMES.len() { nan_f32(bits) } else { nan_f64(bits) };
    compare(device, "of_float", &inputs, &["widen"], is_nan, |row| {
        let [x, y, z] = row.map(f32::from_bits);
        of_f32(x, y, z)
    })
}

fn f64_has_the_bits_of_ieee(device: &TestDevice) -> TestResult {
    let inputs = patterns(&mut device.rng(41), 11, 52, count());
    let is_nan = |k, bits| if k == NAMES.len() { nan_f32(bits) } else { nan_f64(bits) };
    compare(device, "of_double", &inputs, &["narrow", "floor_to_long"], is_nan, |row| {
        let [x, y, z] = row.map(f64::from_bits);
        of_f64(x, y, z)
    })
}
