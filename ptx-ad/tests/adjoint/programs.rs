//! Random programs. `PTX_AD_PROGRAMS` is the number of each kind.

use std::collections::BTreeMap;

use ptx_ad::Real;
use ptx_gen::Smooth;
use test_support::Rng;

use crate::common::{Arg, Device, Layout, doubles, floats, shape, word, words};

pub(crate) fn count(otherwise: u64) -> u64 {
    std::env::var("PTX_AD_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Threads of the launches, of which the last block's do not all have elements.
const N: usize = 40;

fn arguments(seed: u64, double: bool) -> Vec<Arg> {
    let mut rng = Rng::new(seed ^ 0xa26);
    let real = if double { Real::F64 } else { Real::F32 };
    let mut buffer = |count: usize| {
        let values = rng.floats(count);
        if double {
            doubles(&values.into_iter().map(f64::from).collect::<Vec<_>>())
        } else {
            floats(&values)
        }
    };
    let (x, y, out, sums) = (buffer(4 * N), buffer(2 * N), buffer(2 * N), buffer(Smooth::SUMS));
    let numbers = rng.floats(3 * N);
    let number = |value: f32| {
        if double { f64::from(value).to_le_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    };
    let mut bytes = Vec::new();
    for three in numbers.chunks(3) {
        bytes.extend(number(three[0]));
        bytes.extend((rng.below(9) as i32 - 3).to_le_bytes());
        if double {
            bytes.extend([0; 4]);
        }
        bytes.extend(number(three[1]));
        bytes.extend(number(three[2]));
    }
    let (size, layout) = if double { (32, vec![0, 16, 24]) } else { (16, vec![0, 8, 12]) };
    let layout = Layout::Some(real, layout);
    let elements = Arg::Buffer { bytes, size, layout, active: true, length: None };
    let index: Vec<u32> = (0..N).map(|_| rng.below(4 * N) as u32).collect();
    let scalars = rng.floats(3).into_iter().flat_map(number).collect();
    let reals = (0..3).map(|at| (at * real.bytes(), real)).collect();
    let scalars = Arg::Value { bytes: scalars, reals, active: true };
    vec![
        x.len(4, 7),
        y.len(2, 7),
        out.len(2, 7),
        sums,
        elements.len(1, 7),
        words(&index),
        scalars,
        word(N as u32),
    ]
}

/// All are differentiated, and right.
#[test]
fn smooth() {
    let device = Device::new();
    let total = count(400);
    let mut shares: BTreeMap<&str, u64> =
        Smooth::CONSTRUCTS.iter().map(|&name| (name, 0)).collect();
    let (mut worst, mut wrong) = ([0f64; 2], Vec::new());
    let mut growth = [0usize; 2];
    for seed in 0..total {
        let program = Smooth::new(seed);
        for name in &program.constructs {
            *shares.entry(name).or_default() += 1;
        }
        let args = arguments(seed, program.double);
        let bar = if program.double { 1e-13 } else { 1e-6 };
        match device.compare(&program.text, "smooth", &args, shape(2, 24), seed) {
            Ok((got, adjoint)) => {
                let worst = &mut worst[usize::from(program.double)];
                *worst = worst.max(got.error);
                if got.error.is_nan() || got.error > bar || got.magnitude < 1.0 {
                    wrong.push(format!("{seed}: {:e} of {}", got.error, got.magnitude));
                }
                growth[0] += instructions(&program.text);
                growth[1] += instructions(&adjoint.text);
            }
            Err(failure) => wrong.push(format!("{seed}: {failure:?}\n{}", program.text)),
        }
    }
    println!("{total} programs: worst errors {worst:?}; instructions {growth:?}");
    let rare: Vec<_> =
        shares.iter().map(|(name, n)| format!("{name} {}%", n * 100 / total)).collect();
    println!("{}", rare.join(", "));
    assert!(wrong.is_empty(), "{} of {total} are wrong, first {}", wrong.len(), wrong[0]);
    assert_eq!(shares.len(), Smooth::CONSTRUCTS.len(), "a construct is not listed");
    assert!(shares.values().all(|&n| n * 100 >= total), "a construct is missing: {shares:?}");
    // Sums over a block of three scalars are up to 400 instructions, whatever the kernel is.
    let most = 5 * growth[0] + 400 * usize::try_from(total).expect("a count");
    assert!(growth[1] <= most, "the adjoints are too long: {growth:?}");
}

fn instructions(text: &str) -> usize {
    let module = ptx_ad::parse(text).expect("valid");
    module.functions.iter().map(|function| function.instrs().len()).sum()
}
