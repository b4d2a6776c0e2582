//! Programs of the table of instructions, which are made for other tests. The scan says which are to be differentiated:
//! those must be, and be right. All others are refused, or right. `PTX_AD_PROGRAMS` is the number of each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ptx_ad::{NotDifferentiable, Real, differentiate};
use ptx_gen::{
    Ending, INPUTS, Profile, Program, Row, SCRATCH, Scratch, THREADS, kernel_name, module, rows,
};
use test_support::Rng;

use crate::common::{Arg, Device, Failure, doubles, floats, kernel, shape, spec, word, words};
use crate::programs::count;
use crate::scan::{Scan, TAKEN, Why, scan};

/// How many findings are reduced and printed, and behind how many no further program is tried.
const SHOWN: usize = 2;
const ENOUGH: usize = 10;

/// How often other inputs are tried where a derivative is infinite, or all are zero.
const TRIES: u64 = 6;

/// A program and what is said of its parameters.
struct Case {
    program: Program,
    text: String,
    real: Real,
    scratch: Scratch,
}

impl Case {
    /// A program of whatever instructions.
    fn any(seed: u64) -> Self {
        let program =
            if seed.is_multiple_of(8) { Program::new(seed) } else { Program::short(seed) };
        let real = if seed.is_multiple_of(3) { Real::F64 } else { Real::F32 };
        let scratch = if seed % 4 == 1 { Scratch::Numbers } else { Scratch::Integers };
        Self::new(program, real, scratch)
    }

    fn new(program: Program, real: Real, scratch: Scratch) -> Self {
        let text = plain(&module([&program], Ending::Registers), real);
        let scratch = if text.contains("[scratch]") { scratch } else { Scratch::Integers };
        Self { program, text, real, scratch }
    }

    /// A program of numbers.
    fn numbers(seed: u64) -> Self {
        let double = seed.is_multiple_of(3);
        let scratch = [Scratch::Integers, Scratch::Numbers, Scratch::Sums][(seed / 3 % 3) as usize];
        let (loops, local, reloads) = (TAKEN.loops, TAKEN.local, TAKEN.reloads);
        let program = Program::numbers(seed, Profile { double, scratch, loops, local, reloads });
        let real = if double { Real::F64 } else { Real::F32 };
        Self::new(program, real, scratch)
    }

    /// Returns what is left of a program of which `fails` says something, and what.
    fn reduced(&self, fails: impl Fn(&Self) -> Option<String>) -> String {
        let with = |program: &Program| Self::new(program.clone(), self.real, self.scratch);
        let least =
            with(&ptx_gen::reduce(&self.program, |program| fails(&with(program)).is_some()));
        let lines: Vec<String> =
            (1..).zip(least.text.lines()).map(|(at, line)| format!("{at:4} {line}")).collect();
        // What comes before is the same in all.
        let start = lines.iter().position(|line| line.contains("%zero64, %zero;")).unwrap_or(0);
        let (why, seed) = (fails(&least).unwrap_or_default(), self.program.seed);
        format!("{seed}, of {:?}: {why}\n{}\n", self.real, lines[start..].join("\n"))
    }

    fn scan(&self) -> Option<Scan> {
        let parsed = ptx_ad::parse(&self.text).ok()?;
        Some(scan(&parsed, &self.name(), &self.args(0), TAKEN))
    }

    /// Returns why a program that the scan passes is refused.
    fn needlessly_refused(&self) -> Option<String> {
        let parsed = ptx_ad::parse(&self.text).ok()?;
        let refused = differentiate(&parsed, &spec(&self.name(), &self.args(0))).err()?;
        self.scan()?.reasons.is_empty().then(|| refused.to_string())
    }

    fn name(&self) -> String {
        kernel_name(&self.program)
    }

    /// Numbers where they are not special: between those, derivatives of instructions have jumps.
    fn args(&self, again: u64) -> [Arg; 5] {
        let mut rng = Rng::new(self.program.seed ^ again << 40);
        let size = if again == 0 { 4.0 } else { 1.0 };
        let mut buffer = |bytes: usize| {
            let values: Vec<f32> =
                (0..bytes / self.real.bytes() as usize).map(|_| rng.float() * size).collect();
            match self.real {
                Real::F32 | Real::F16 | Real::Bf16 => floats(&values),
                Real::F64 => doubles(&values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>()),
            }
        };
        let inputs = buffer(THREADS * INPUTS * 8);
        let results = buffer(THREADS * 64 * 8);
        let scratch = match self.scratch {
            Scratch::Integers => words(&[0; SCRATCH.div_ceil(4)]),
            Scratch::Numbers | Scratch::Sums => buffer(SCRATCH),
        };
        [inputs, results, scratch, word(0), word(3)]
    }

    /// Differentiates, runs and compares, with some of the inputs.
    fn judge(&self, device: &Device, again: u64) -> Judged {
        let (name, seed) = (self.name(), self.program.seed);
        let compare = || device.compare(&self.text, &name, &self.args(again), shape(2, 64), seed);
        match catch_unwind(AssertUnwindSafe(compare)) {
            Err(_) => Judged::Wrong("it panics".to_owned()),
            Ok(Err(Failure::Refused(refused))) => Judged::Refused(refused),
            Ok(Err(Failure::Undefined(_))) => Judged::Nothing,
            Ok(Err(Failure::Wrong(why))) => {
                Judged::Wrong(why.lines().take(3).collect::<Vec<_>>().join("\n"))
            }
            // Where a result is infinite, a product with a gradient of zero may be none.
            Ok(Ok((got, _))) if got.error.is_nan() && !got.finite => Judged::Nothing,
            Ok(Ok((got, _))) if got.magnitude == 0.0 => Judged::Nothing,
            Ok(Ok((got, _))) => {
                let double = self.is_double();
                let bar = if double { 1e-11 } else { 1e-4 };
                if got.error.is_nan() || got.error > bar {
                    Judged::Wrong(format!("{:e} of {}", got.error, got.magnitude))
                } else {
                    Judged::Right(got.error, double)
                }
            }
        }
    }

    /// Whether all numbers on the way are `double`.
    fn is_double(&self) -> bool {
        self.real == Real::F64 && self.scan().is_some_and(|scan| !scan.has_singles)
    }
}

/// What became of a program with some inputs.
enum Judged {
    /// The error, and whether the bar of `double` holds.
    Right(f64, bool),
    /// A derivative is infinite, or all are zero.
    Nothing,
    Refused(NotDifferentiable),
    Wrong(String),
}

/// Takes away what keeps ptxas from errors: integer operations on every number.
fn plain(text: &str, real: Real) -> String {
    let mut lines: Vec<String> = Vec::new();
    let words = |line: &str| -> Vec<String> {
        let words = line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    for line in text.lines() {
        let these = words(line);
        let these: Vec<&str> = these.iter().map(String::as_str).collect();
        match &*these {
            ["xor.b16" | "xor.b32" | "xor.b64", d, a, "%zero" | "%zero16" | "%zero64"] => {
                if d != a {
                    let bits = &these[0][3..];
                    lines.push(format!("mov{bits} {d}, {a};"));
                }
            }
            // A number that is not NaN.
            ["and.b32", d, a, "0xbfffffff"] => lines.push(format!("mov.b32 {d}, {a};")),
            ["setp.nan.f32", "%q3", ..] | ["selp.b32", _, _, _, "%q3"] => {}
            ["st.global.b64", to, "%next"] if real == Real::F32 => {
                let before = lines.last().map(|line| words(line)).unwrap_or_default();
                match before.iter().map(String::as_str).collect::<Vec<_>>()[..] {
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

/// What became of programs.
#[derive(Default)]
struct Tally {
    tried: u64,
    right: u64,
    /// Those of which nothing could be compared, with all inputs that were tried.
    undefined: u64,
    worst: [f64; 2],
    reasons: BTreeMap<String, u64>,
    wrong: Vec<String>,
    refused: Vec<String>,
    rows: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn add(&mut self, device: &Device, case: &Case, passed: bool) {
        self.tried += 1;
        for again in 0..TRIES {
            match case.judge(device, again) {
                Judged::Nothing => continue,
                Judged::Right(error, double) => {
                    self.right += 1;
                    let worst = &mut self.worst[usize::from(double)];
                    *worst = worst.max(error);
                    case.program.rows().into_iter().for_each(|row| {
                        *self.rows.entry(row).or_default() += 1;
                    });
                }
                Judged::Refused(refused) => {
                    let first = &refused.refusals[0];
                    *self.reasons.entry(format!("{:?}", first.reason)).or_default() += 1;
                    let shown = passed && self.refused.len() < SHOWN;
                    let reduce = || case.reduced(Case::needlessly_refused);
                    self.refused.push(if shown { reduce() } else { String::new() });
                }
                Judged::Wrong(_) => {
                    let wrong = |case: &Case| match case.judge(device, again) {
                        Judged::Wrong(why) => Some(why),
                        _ => None,
                    };
                    let shown = self.wrong.len() < SHOWN;
                    self.wrong.push(if shown { case.reduced(wrong) } else { String::new() });
                }
            }
            return;
        }
        self.undefined += 1;
    }

    fn print(&self, what: &str) {
        let Self { tried, right, undefined, worst, .. } = self;
        println!(
            "{what}: {tried} programs, {right} right to {worst:?}, {undefined} with nothing to compare"
        );
        println!("  refused: {}", common(&self.reasons));
        self.wrong.iter().take(SHOWN).for_each(|wrong| println!("{wrong}"));
    }

    fn findings(&self) -> usize {
        self.wrong.len() + self.refused.len()
    }

    /// Of programs that the scan passes, all are differentiated and right.
    fn check(&self) {
        self.refused.iter().take(SHOWN).for_each(|refused| println!("{refused}"));
        assert!(self.wrong.is_empty(), "{} are wrong", self.wrong.len());
        assert!(self.refused.is_empty(), "{} are refused", self.refused.len());
    }
}

fn common<K: std::fmt::Debug>(counts: &BTreeMap<K, u64>) -> String {
    let mut counts: Vec<_> =
        counts.iter().map(|(key, count)| (*count, format!("{key:?}"))).collect();
    counts.sort_unstable();
    counts.reverse();
    let shown = counts.iter().take(16).map(|(count, key)| format!("{key} {count}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// Counts why the scan refuses programs.
#[derive(Default)]
struct Scanned(BTreeMap<Why, u64>);

impl Scanned {
    /// Scans a program.
    fn scan(&mut self, case: &Case) -> Scan {
        let found = case.scan().unwrap_or_else(|| panic!("it is no program\n{}", case.text));
        for why in &found.reasons {
            *self.0.entry(*why).or_default() += 1;
        }
        found
    }
}

/// What the scan passes is differentiated, and right.
#[test]
fn what_the_scan_passes() {
    let device = Device::new();
    let total = count(600);
    let mut tally = Tally::default();
    let mut scanned = Scanned::default();
    let mut seeds = 0..;
    while tally.tried < total && tally.findings() < ENOUGH {
        let seed = seeds.next().expect("endless");
        let case = Case::numbers(seed);
        let found = scanned.scan(&case);
        if found.reasons.is_empty() {
            tally.add(&device, &case, true);
        }
    }
    println!("of {} programs of numbers the scan refuses: {}", seeds.start, common(&scanned.0));
    tally.print("passed by the scan");
    let is_compared = |row: &&Row| !row.has_derivative() || tally.rows.contains_key(row.name());
    let missing: Vec<&str> = rows().iter().filter(|row| !is_compared(row)).map(Row::name).collect();
    tally.check();
    assert!(tally.right * 100 > total * 85, "only {} were compared", tally.right);
    assert!(total < 600 || missing.is_empty(), "in no program that was compared: {missing:?}");
}

/// Whatever else is refused, or right.
#[test]
fn others() {
    let device = Device::new();
    let total = count(1500);
    let [mut passed, mut others] = [(); 2].map(|()| Tally::default());
    let mut scanned = Scanned::default();
    let mut seeds = 0..;
    while others.tried < total && passed.findings() + others.wrong.len() < ENOUGH {
        let case = Case::any(seeds.next().expect("endless"));
        let found = scanned.scan(&case);
        let passes = found.reasons.is_empty();
        let tally = if passes { &mut passed } else { &mut others };
        tally.add(&device, &case, passes);
    }
    println!("of {} programs the scan refuses: {}", seeds.start, common(&scanned.0));
    passed.print("passed by the scan");
    others.print("others");
    passed.check();
    assert!(others.wrong.is_empty(), "{} are wrong", others.wrong.len());
    assert!(passed.right * 100 > passed.tried * 85, "only {} were compared", passed.right);
    // The scan does not refuse everything.
    assert!(passed.tried * 25 > seeds.start, "only {} are passed", passed.tried);
}

/// The scan sees what stands in the way, and what does not.
#[test]
fn the_scan_is_tried() {
    const START: &str = "ld.param.u64 %w1, [x]; ld.param.u64 %w2, [out]; mov.u32 %r1, %tid.x; \
        mul.wide.u32 %w3, %r1, 4; add.s64 %w4, %w1, %w3; add.s64 %w5, %w2, %w3; ld.global.f32 %f1, [%w4];";
    let reasons = |code: &str| {
        let code = format!("{START} {code} st.global.f32 [%w5], %f2; ret;");
        let text = kernel(".param .u64 x, .param .u64 out", &code);
        let parsed = ptx_ad::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        scan(&parsed, "k", &[floats(&[1.0]), floats(&[1.0])], TAKEN).reasons
    };
    for (code, why) in [
        ("mul.f32 %f2, %f1, %f1;", None),
        ("mov.b32 %r2, %f1; xor.b32 %r2, %r2, 0x80000000; mov.b32 %f2, %r2;", None),
        (
            "mov.b32 %r2, %f1; shr.u32 %r2, %r2, 23; setp.gt.u32 %p1, %r2, 9; selp.f32 %f2, %f1, %f1, %p1;",
            None,
        ),
        (
            "cvt.f64.f32 %d1, %f1; mov.b64 {%r2, %r3}, %d1; mov.b64 %d2, {%r2, %r3}; cvt.rn.f32.f64 %f2, %d2;",
            None,
        ),
        ("mov.b32 %r2, %f1; add.u32 %r2, %r2, 5; mov.b32 %f2, %r2;", Some(Why::Bits)),
        (
            "cvt.f64.f32 %d1, %f1; mov.b64 {%r2, %r3}, %d1; mov.b64 %d2, {%r3, %r2}; cvt.rn.f32.f64 %f2, %d2;",
            Some(Why::Bits),
        ),
        (
            "ld.global.f64 %d1, [%w4]; cvt.rn.f32.f64 %f3, %d1; add.f32 %f2, %f1, %f3;",
            Some(Why::Type),
        ),
        (
            "setp.gt.f32 %p1, %f1, 0f00000000; selp.f32 %f2, 0f3f800000, 0f00000000, %p1;",
            Some(Why::NoPath),
        ),
        ("ld.global.u64 %w6, [%w4]; ld.global.f32 %f2, [%w6];", Some(Why::PointerInMemory)),
        ("atom.global.add.f32 %f2, [%w5], %f1;", Some(Why::AtomicResult)),
        ("mov.f32 %f2, %f1; red.global.max.u32 [%w5], 7;", Some(Why::AtomicOther)),
        ("mov.f32 %f2, %f1; red.global.add.f32 [%w5], %f1;", Some(Why::MixedAtomics)),
        ("ld.volatile.global.f32 %f2, [%w4];", Some(Why::Volatile)),
        (".shared .b32 s; st.shared.f32 [s], %f1; ld.shared.f32 %f2, [s];", Some(Why::Shared)),
        ("mov.f32 %f2, %f1; bar.warp.sync -1;", Some(Why::Barrier)),
        ("shfl.sync.down.b32 %f2, %f1, 1, 31, -1;", Some(Why::Warp)),
        ("cvt.rn.f16.f32 %h1, %f1; cvt.f32.f16 %f2, %h1;", Some(Why::Half)),
        ("mov.f32 %f2, %f1; cp.async.wait_all;", Some(Why::Async)),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r3; mov.f32 %f2, %f1;", Some(Why::Matrix)),
        ("tex.1d.v4.f32.s32 {%f2, %f3, %f4, %f5}, [%w6, {%r1}];", Some(Why::Texture)),
        ("max.xorsign.abs.f32 %f2, %f1, %f1;", Some(Why::Unknown)),
        (".local .b32 own; alloca.u64 %w6, 16; mov.f32 %f2, %f1;", Some(Why::Local)),
    ] {
        let found = reasons(code);
        assert!(why.map_or(found.is_empty(), |why| found.contains(&why)), "{code}: {found:?}");
    }
    let local = reasons(".local .b32 own; st.local.f32 [own], %f1; ld.local.f32 %f2, [own];");
    assert_eq!(local.contains(&Why::Local), !TAKEN.local);
    let reload = reasons("st.global.f32 [%w5], %f1; ld.global.f32 %f2, [%w5];");
    assert_eq!(reload.contains(&Why::Reload), !TAKEN.reloads);
    let again = reasons(
        "mov.u32 %r2, 0; mov.f32 %f2, %f1; L: mul.f32 %f2, %f2, %f1; add.u32 %r2, %r2, 1; \
        setp.lt.u32 %p1, %r2, 4; @%p1 bra L;",
    );
    assert_eq!(again.contains(&Why::Loop), !TAKEN.loops);
}
