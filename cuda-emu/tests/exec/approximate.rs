//! Approximate instructions stay within the bounds that the PTX manual states, in the measure that
//! it states them in. What was observed at most is in `APPROXIMATE.md`; `BLESS=1` writes it anew.

use std::f64::consts::PI;
use std::fmt::Write as _;

use crate::device::{Device, shape};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/APPROXIMATE.md");

/// Samples of each row.
const SAMPLES: usize = 1 << 19;

#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// Units in the last place of the exact value's binade.
    Ulp,
    Relative,
    Absolute,
    /// Units in the last of the 20 bits of significand that the upper half of an f64 has.
    UpperUlp,
}
use Measure::{Absolute, Relative, Ulp, UpperUlp};

/// Draws the magnitude of a source.
#[derive(Clone, Copy)]
enum Inputs {
    /// Bits of all finite numbers.
    All,
    /// Bits of all positive finite numbers, and +0 where that has no pole.
    Positive,
    /// Numbers between these, evenly.
    Between(f64, f64),
    /// Positive numbers but those between 0.5 and 2.
    Outside,
    /// Each f32 between these positive ones, and its negative.
    Every(f32, f32),
}

/// An instruction and what its manual says.
struct Row {
    /// Without `.ftz`.
    name: &'static str,
    inputs: Inputs,
    /// The words for `inputs`.
    over: &'static str,
    measure: Measure,
    bound: f64,
    exact: fn(f64, f64) -> f64,
}

fn rows() -> Vec<Row> {
    let row = |name, inputs, over, measure, bound, exact| Row {
        name,
        inputs,
        over,
        measure,
        bound,
        exact,
    };
    let power = |p: f64| p.exp2();
    let turn = Inputs::Between(-2.0 * PI, 2.0 * PI);
    let hundred = Inputs::Between(-100.0 * PI, 100.0 * PI);
    // The last binade, where the error is largest.
    let last = Inputs::Every(4.0, (2.0 * PI) as f32);
    let far = Inputs::Every(256.0, (100.0 * PI) as f32);
    let all = Inputs::All;
    let positive = Inputs::Positive;
    let near = Inputs::Between(0.5, 2.0);
    let exponents = Inputs::Between(-150.0, 129.0);
    vec![
        row("ex2.approx.f32", exponents, "-150 to 129", Ulp, 2.0, |a, _| a.exp2()),
        row("ex2.approx.f32", all, "all", Ulp, 2.0, |a, _| a.exp2()),
        row("lg2.approx.f32", near, "0.5 to 2", Absolute, power(-22.0), |a, _| a.log2()),
        row("lg2.approx.f32", Inputs::Outside, "others", Relative, power(-22.0), |a, _| a.log2()),
        row("sin.approx.f32", turn, "-2π to 2π", Absolute, power(-20.5), |a, _| a.sin()),
        row("sin.approx.f32", hundred, "-100π to 100π", Absolute, power(-14.7), |a, _| a.sin()),
        row("cos.approx.f32", turn, "-2π to 2π", Absolute, power(-20.5), |a, _| a.cos()),
        row("cos.approx.f32", hundred, "-100π to 100π", Absolute, power(-14.7), |a, _| a.cos()),
        row("sin.approx.f32", last, "all of ±4 to ±2π", Absolute, power(-20.5), |a, _| a.sin()),
        row("sin.approx.f32", far, "all of ±256 to ±100π", Absolute, power(-14.7), |a, _| {
            a.sin()
        }),
        row("cos.approx.f32", last, "all of ±4 to ±2π", Absolute, power(-20.5), |a, _| a.cos()),
        row("cos.approx.f32", far, "all of ±256 to ±100π", Absolute, power(-14.7), |a, _| {
            a.cos()
        }),
        row("rcp.approx.f32", all, "all", Ulp, 1.0, |a, _| 1.0 / a),
        row("rsqrt.approx.f32", positive, "positive", Relative, power(-22.9), |a, _| {
            1.0 / a.sqrt()
        }),
        row("sqrt.approx.f32", positive, "positive", Relative, power(-23.0), |a, _| a.sqrt()),
        row("tanh.approx.f32", all, "all", Relative, power(-11.0), |a, _| a.tanh()),
        row("div.approx.f32", all, "divisor 2^-126 to 2^126", Ulp, 2.0, |a, b| a / b),
        row("div.full.f32", all, "all", Ulp, 2.0, |a, b| a / b),
        row("rcp.approx.ftz.f64", all, "all", UpperUlp, 1.0, |a, _| 1.0 / a),
        row("rsqrt.approx.ftz.f64", positive, "positive", UpperUlp, 1.0, |a, _| 1.0 / a.sqrt()),
    ]
}

/// Random bits (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The bits of a source.
    fn source(&mut self, inputs: Inputs, double: bool) -> u64 {
        loop {
            let bits = self.next();
            if let Inputs::Between(low, high) = inputs {
                let value = low + (high - low) * (bits >> 11) as f64 / (1_u64 << 53) as f64;
                return u64::from((value as f32).to_bits());
            }
            let bits = if double { bits } else { bits >> 32 };
            let value = value_of(bits, double);
            let fits = match inputs {
                Inputs::All => true,
                Inputs::Outside => value > 0.0 && !(0.5..=2.0).contains(&value),
                _ => value > 0.0,
            };
            if fits && value.is_finite() {
                return bits;
            }
        }
    }
}

fn value_of(bits: u64, double: bool) -> f64 {
    if double { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) }
}

/// A kernel that applies an instruction to each element.
fn kernel(name: &str, double: bool, two: bool) -> String {
    let (ty, bytes) = if double { ("f64", 8) } else { ("f32", 4) };
    let second = if two { ", %v2" } else { "" };
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry apply(.param .u64 a, .param .u64 b, .param .u64 out)\n{{\n\
         .reg .{ty} %v<4>; .reg .b32 %r<5>; .reg .b64 %rd<8>;\n\
         ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [out];\n\
         mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n\
         mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd4, %r4, {bytes};\n\
         add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;\n\
         ld.global.{ty} %v1, [%rd5]; ld.global.{ty} %v2, [%rd6];\n\
         {name} %v3, %v1{second};\n\
         st.global.{ty} [%rd7], %v3;\nret;\n}}\n"
    )
}

/// Applies an instruction, in the executor.
fn apply(name: &str, double: bool, a: &[u64], b: &[u64]) -> Vec<u64> {
    let device = Device::new(2);
    let program = device.load(&kernel(name, double, name.starts_with("div"))).expect(name);
    let shape = shape((a.len() / 128) as u32, 128);
    if double {
        let out = device.upload(&vec![0_u64; a.len()]);
        let args = [device.upload(a), device.upload(b), out];
        device.launch(&program, "apply", shape, &args).expect(name);
        return device.download(out, a.len());
    }
    let narrow = |bits: &[u64]| bits.iter().map(|&bits| bits as u32).collect::<Vec<u32>>();
    let out = device.upload(&vec![0_u32; a.len()]);
    let args = [device.upload(&narrow(a)), device.upload(&narrow(b)), out];
    device.launch(&program, "apply", shape, &args).expect(name);
    device.download::<u32>(out, a.len()).into_iter().map(u64::from).collect()
}

/// The error of a result.
fn error(measure: Measure, got: f64, exact: f64, ftz: bool) -> f64 {
    let (least, limit, digits) = if measure == UpperUlp {
        (f64::MIN_POSITIVE, f64::INFINITY, 20)
    } else {
        (f64::from(f32::MIN_POSITIVE), 128_f64.exp2(), 23)
    };
    if (ftz && exact.abs() < least && got == 0.0) || (got.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    if got == exact {
        return 0.0;
    }
    // Infinity counts as the first number that is too large.
    let (got, exact) = (got.clamp(-limit, limit), exact.clamp(-limit, limit));
    let difference = (got - exact).abs();
    let difference = if difference.is_nan() { f64::INFINITY } else { difference };
    match measure {
        Absolute => difference,
        Relative => difference / exact.abs(),
        Ulp | UpperUlp => {
            let binade = exact.abs().clamp(least, limit).to_bits() >> 52 << 52;
            difference / f64::from_bits(binade) * f64::from(1 << digits)
        }
    }
}

/// The number that the table shows, rounded up: of ulps, or the exponent of 2.
fn shown(measure: Measure, error: f64) -> f64 {
    match measure {
        Ulp | UpperUlp => (error * 1e4).ceil() / 1e4,
        _ => (error.log2() * 1e2).ceil() / 1e2,
    }
}

fn text(measure: Measure, shown: f64) -> String {
    match measure {
        Ulp | UpperUlp => format!("{shown:.4} ulp"),
        _ => format!("2^{shown:.2}"),
    }
}

/// The line of the table for an instruction, up to what was observed; that; and the bound.
fn observe(row: &Row, ftz: bool) -> (String, f64) {
    let double = row.name.ends_with("f64");
    let name = if ftz { row.name.replace(".f32", ".ftz.f32") } else { row.name.to_owned() };
    let flushes = ftz || double;
    let mut random = Random(row.name.len() as u64);
    let divisor = row.name == "div.approx.f32";
    let every = match row.inputs {
        Inputs::Every(low, high) => {
            let magnitudes = low.to_bits()..=high.to_bits();
            // Some are there twice: whole blocks.
            let count = (magnitudes.clone().count() * 2).next_multiple_of(128);
            let both = magnitudes.flat_map(|bits| [bits, bits | 1 << 31]);
            both.cycle().take(count).map(u64::from).collect()
        }
        _ => Vec::new(),
    };
    let samples = if every.is_empty() { SAMPLES } else { every.len() };
    let (a, b): (Vec<u64>, Vec<u64>) = (0..samples)
        .map(|i| {
            let a = every.get(i).copied();
            let a = a.unwrap_or_else(|| random.source(row.inputs, double));
            loop {
                let b = random.source(Inputs::All, double);
                let size = value_of(b, double).abs();
                if !divisor || ((-126_f64).exp2()..=126_f64.exp2()).contains(&size) {
                    break (a, b);
                }
            }
        })
        .unzip();
    let got = apply(&name, double, &a, &b);
    let least = if double { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let mut most = 0.0_f64;
    for ((&a, &b), &got) in a.iter().zip(&b).zip(&got) {
        let source = |bits: u64| {
            // The manual: of an f64 the lower half is ignored.
            let value = value_of(if double { bits >> 32 << 32 } else { bits }, double);
            if flushes && value.abs() < least { 0.0_f64.copysign(value) } else { value }
        };
        let exact = (row.exact)(source(a), source(b));
        let error = error(row.measure, value_of(got, double), exact, flushes);
        assert!(error <= row.bound, "{name}({a:x}, {b:x}) = {got:x}, not {exact}: {error}");
        assert!(!double || got & 0xffff_ffff == 0, "{name}({a:x}) = {got:x}");
        most = most.max(error);
    }
    let bound = match row.measure {
        Ulp => format!("{} ulp", row.bound),
        UpperUlp => "nothing (1 ulp of 20 bits is tested)".to_owned(),
        Relative => format!("2^{} relative", row.bound.log2()),
        Absolute => format!("2^{} absolute", row.bound.log2()),
    };
    (format!("| `{name}` | {} | {bound} |", row.over), shown(row.measure, most))
}

#[test]
fn approximate_instructions_keep_their_bounds() {
    let mut table = format!(
        "# Approximate instructions\n\n\
         The largest error of {SAMPLES} samples (of every f32 where it says `all of`), through the\n\
         executor, against f64. Subnormals are 0 where the instruction has `.ftz`. Written by\n\
         `BLESS=1 cargo test --release -p cuda-emu --test exec approximate`; the test fails when\n\
         an error is larger than the manual allows or than this table says.\n\n\
         | Instruction | Inputs | The manual allows | Observed at most |\n| --- | --- | --- | --- |\n"
    );
    let recorded = std::fs::read_to_string(FILE).unwrap_or_default();
    let bless = std::env::var_os("BLESS").is_some();
    let mut problems = Vec::new();
    for row in rows() {
        let single = row.name.ends_with("f32")
            && !row.name.starts_with("tanh")
            && !matches!(row.inputs, Inputs::Every(..));
        for ftz in [false, true].into_iter().take(1 + usize::from(single)) {
            let (line, most) = observe(&row, ftz);
            let allowed = recorded.lines().find_map(|l| l.strip_prefix(&line)).and_then(|rest| {
                let number = rest.trim_matches([' ', '|']);
                number.trim_end_matches(" ulp").trim_start_matches("2^").parse::<f64>().ok()
            });
            let observed = text(row.measure, most);
            if allowed.is_none_or(|allowed| most > allowed) {
                problems.push(format!("{line} {observed}, recorded {allowed:?}"));
            }
            writeln!(table, "{line} {observed} |").expect("a string");
        }
    }
    println!("{table}");
    if bless {
        std::fs::write(FILE, table).expect(FILE);
    } else {
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}

#[test]
fn special_values_are_those_of_the_manual() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    const TINY: f32 = 1e-40;
    let one: [(&str, &[(f32, f32)]); 11] = [
        ("ex2.approx.f32", &[(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (-TINY, 1.0), (INF, INF)]),
        ("lg2.approx.f32", &[(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, -INF), (INF, INF)]),
        ("lg2.approx.ftz.f32", &[(TINY, -INF), (-TINY, -INF)]),
        ("sin.approx.f32", &[(-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN)]),
        ("cos.approx.f32", &[(-INF, NAN), (-0.0, 1.0), (0.0, 1.0), (TINY, 1.0), (INF, NAN)]),
        ("rcp.approx.f32", &[(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0)]),
        ("rcp.approx.ftz.f32", &[(-TINY, -INF), (TINY, INF), (3e38, 0.0), (-3e38, -0.0)]),
        ("rsqrt.approx.f32", &[(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0)]),
        ("rsqrt.approx.ftz.f32", &[(-TINY, -INF), (TINY, INF)]),
        ("sqrt.approx.f32", &[(-INF, NAN), (-1.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF)]),
        ("tanh.approx.f32", &[(-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0)]),
    ];
    let bits = |value: f32| u64::from(value.to_bits());
    let check = |name: &str, a: f32, b: f32, want: f32| {
        let got = apply(name, false, &[bits(a); 128], &[bits(b); 128])[127];
        let got = f32::from_bits(got as u32);
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{name}({a:e}, {b:e}) = {got:e}, not {want:e}");
    };
    for (name, values) in one {
        for &(a, want) in values {
            check(name, a, 0.0, want);
        }
        check(name, NAN, 0.0, NAN);
    }
    // Divisors above 2^126 give 0 by one and the quotient by the other.
    check("div.approx.f32", 1e38, 2e38, 0.0);
    check("div.approx.f32", INF, 2e38, NAN);
    check("div.full.f32", 1e38, 2e38, 0.5);
}
