//! Random programs that are made for other tests. `PTX_AD_PROGRAMS` is the number of each kind.

use std::collections::BTreeMap;

use ptx_ad::Real;
use ptx_gen::{Ending, INPUTS, Program, SCRATCH, THREADS, kernel_name, module};
use test_support::Rng;

use crate::common::{Device, Failure, doubles, floats, shape, word, words};

pub(crate) fn count(otherwise: u64) -> u64 {
    number_of("PTX_AD_PROGRAMS", otherwise)
}

/// The number in an environment variable.
pub(crate) fn number_of(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Takes away what keeps ptxas from errors: integer operations on every number.
fn plain(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> =
            line.split([' ', '\t', ',', ';']).filter(|w| !w.is_empty()).collect();
        match &*words {
            ["xor.b16" | "xor.b32" | "xor.b64", d, a, "%zero" | "%zero16" | "%zero64"] => {
                if d != a {
                    let bits = &words[0][3..];
                    lines.push(format!("mov{bits} {d}, {a};"));
                }
            }
            ["st.global.b64", to, "%next"] => {
                let before: Vec<&str> = lines
                    .last()
                    .map_or("", |line| line.as_str())
                    .trim()
                    .split([' ', ',', ';'])
                    .filter(|w| !w.is_empty())
                    .collect();
                match &*before {
                    ["cvt.u64.u32", "%next", value] => {
                        let store = format!("st.global.b32 {to}, {value};");
                        lines.pop();
                        lines.push(store);
                    }
                    _ => lines.push(line.to_owned()),
                }
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// Programs that are made for other tests are refused, or right. Numbers are where they are not special: between those,
/// derivatives of instructions have jumps.
#[test]
fn others() {
    let device = Device::new();
    let total = count(1500);
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    let (mut right, mut undefined, mut wrong) = (0, 0, Vec::new());
    let mut worst = [0f64; 2];
    let mut rng = Rng::new(5);
    for seed in 0..total {
        let long = seed % 8 == 0;
        let program = if long { Program::new(seed) } else { Program::short(seed) };
        let real = if seed % 3 == 0 { Real::F64 } else { Real::F32 };
        let text = plain(&module([&program], Ending::Registers));
        let count = THREADS * INPUTS * 8 / real.bytes() as usize;
        let values: Vec<f32> = (0..count).map(|_| rng.float() * 4.0).collect();
        let buffer = |values: &[f32]| match real {
            Real::F32 => floats(values),
            Real::F64 => doubles(&values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>()),
        };
        let results = vec![0.0; THREADS * 64 * 8 / real.bytes() as usize];
        let args =
            [buffer(&values), buffer(&results), words(&[0; SCRATCH.div_ceil(4)]), word(0), word(3)];
        match device.compare(&text, &kernel_name(&program), &args, shape(2, 64), seed) {
            Ok((got, _)) => {
                // Approximations, and derivatives of inexact results, differ more than `Smooth`'s.
                let bar = if real == Real::F64 { 1e-6 } else { 2e-3 };
                if got.error.is_nan() || got.error > bar {
                    wrong.push(format!(
                        "{seed}: {:e} of {}\n{}",
                        got.error,
                        got.magnitude,
                        ptx_gen::body(&program)
                    ));
                } else {
                    right += 1;
                    let worst = &mut worst[usize::from(real == Real::F64)];
                    *worst = worst.max(got.error);
                }
            }
            Err(Failure::Refused(refused)) => {
                for refusal in refused.refusals.iter().take(1) {
                    *reasons.entry(format!("{:?}", refusal.reason)).or_default() += 1;
                }
            }
            Err(Failure::Undefined(_)) => undefined += 1,
            Err(Failure::Wrong(why)) => {
                let why: String = why.lines().take(3).collect::<Vec<_>>().join("\n");
                wrong.push(format!("{seed}: {why}\n{}", ptx_gen::body(&program)));
            }
        }
    }
    let mut common: Vec<_> = reasons.into_iter().map(|(reason, n)| (n, reason)).collect();
    common.sort_unstable();
    common.reverse();
    println!(
        "{total} programs: {right} right to {worst:?}, {undefined} without a finite tangent, refused: {:?}",
        &common[..common.len().min(12)]
    );
    for wrong in wrong.iter().take(8) {
        println!("{wrong}");
    }
    assert!(wrong.is_empty(), "{} of {total} are wrong, first {}", wrong.len(), wrong[0]);
    assert!(right * 50 > total, "only {right} were compared");
}
