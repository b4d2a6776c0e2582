//! Generated kernels with gradients: their adjoints against tangents of the software device, and against differences of
//! the kernels on the CPU, in `f64`.
//!
//! `PHASES_ONLY` names the one program to check, whose PTX is printed. With `TEST_DEEP` 10,000 are checked, in batches that
//! are compiled one after the other.

#[allow(dead_code, reason = "the tests of ptx-ad have more kinds of arguments")]
#[path = "../../../../ptx-ad/tests/adjoint/args.rs"]
mod args;
#[allow(dead_code, unused_imports, reason = "the tests of ptx-ad need more of a device")]
#[path = "../../../../ptx-ad/tests/adjoint/common.rs"]
mod common;
#[allow(dead_code, reason = "as above")]
#[path = "../../../../ptx-ad/tests/adjoint/half.rs"]
mod half;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_phases::kernel::{CpuError, Kernel};
use gpu_phases::text::Text;
use nvrtc::{Arch, Options, Program, Std};
use ptx_ad::{Reason, Refusal};
use test_support::Rng;

use common::{Arg, Compared, Device, Failure, doubles, floats, scalar, shape, word, words};
use generated::{DRAWN, INPUTS, SUMS};

/// A launch of a program, and the number of its outputs.
#[derive(Debug)]
struct Launch {
    threads: u32,
    grid: u32,
    outputs: usize,
    extent: u32,
}

type OnCpu = fn(f64, &[f64], &[f64], &[u32], &mut [f64], &mut [f64]) -> Result<(), CpuError>;

/// A program.
struct Drawn {
    name: &'static str,
    wide: fn() -> &'static Kernel,
    /// The kernel for `f32`, of every third program.
    narrow: Option<fn() -> &'static Kernel>,
    cpu: OnCpu,
    launch: Launch,
    /// Whether gradients are derivatives.
    is_smooth: bool,
}

#[allow(unused, clippy::all, clippy::pedantic, reason = "the programs are random")]
mod generated {
    use super::{CpuError, Drawn, Launch};

    mod prelude {
        pub(super) use gpu_phases::{Atomic, Block, PerThread, Shared, device, kernel};

        pub(super) use super::CpuError;
    }

    include!(concat!(env!("OUT_DIR"), "/gradients.rs"));
}

/// Returns the PTX that a tape differentiates.
fn ptx(kernel: &Kernel) -> Result<String, String> {
    let mut text = Text::new(0);
    (kernel.write)(&mut text);
    let options = Options::new().std(Std::Cpp17).fmad(false).extra("-default-device");
    let program = Program::new(text.finish())
        .name(format!("{}.cu", kernel.name))
        .options(options.define_flag("PHASES_GRADIENT"))
        .host_headers(false)
        .kernel(kernel.entry());
    let compiled = program.compile(Arch::compute(9, 0)).map_err(|error| error.to_string())?;
    compiled.ptx.ok_or_else(|| "no PTX".to_owned())
}

/// The numbers that a program reads.
struct Numbers {
    a: f64,
    x: Vec<f64>,
    y: Vec<f64>,
    index: Vec<u32>,
    out: Vec<f64>,
    sums: Vec<f64>,
}

impl Numbers {
    fn new(seed: u64, outputs: usize) -> Self {
        let mut rng = Rng::new(seed ^ 0x6d61);
        // All are those of `f32`, so that both types compute with the same.
        let mut some = |n: usize| (0..n).map(|_| f64::from(rng.float())).collect::<Vec<_>>();
        let (a, x, y) = (some(1)[0], some(INPUTS), some(INPUTS));
        let (out, sums) = (some(outputs), some(SUMS));
        let index = (0..INPUTS).map(|_| rng.below(1000) as u32).collect();
        Self { a, x, y, index, out, sums }
    }

    /// Those that have a gradient, in the order of the parameters.
    fn active(&mut self) -> [&mut [f64]; 5] {
        let Self { a, x, y, out, sums, .. } = self;
        [std::slice::from_mut(a), x, y, out, sums]
    }
}

/// The arguments of a program's C++ parameters.
fn arguments(kernel: &Kernel, numbers: &Numbers, launch: &Launch, double: bool) -> Vec<Arg> {
    let buffer = |values: &[f64]| match double {
        true => doubles(values),
        false => floats(&values.iter().map(|x| *x as f32).collect::<Vec<_>>()),
    };
    let mut args = vec![Arg::Value { bytes: vec![0; 8], reals: Vec::new(), active: false }];
    let extent = 1 + kernel.params.len() * 2 - 1;
    for param in kernel.params {
        let (arg, len) = match param.name {
            "a" if double => {
                let (bytes, reals) =
                    (numbers.a.to_le_bytes().to_vec(), vec![(0, ptx_ad::Real::F64)]);
                args.push(Arg::Value { bytes, reals, active: true });
                continue;
            }
            "a" => {
                args.push(scalar(numbers.a as f32));
                continue;
            }
            "x" => (buffer(&numbers.x), numbers.x.len()),
            "y" => (buffer(&numbers.y), numbers.y.len()),
            "index" => (words(&numbers.index), numbers.index.len()),
            "out" => (buffer(&numbers.out), numbers.out.len()),
            _ => (buffer(&numbers.sums), numbers.sums.len()),
        };
        let at = args.len();
        args.push(arg.len(1, if param.whole { extent } else { at + 1 }));
        args.push(word(len as u32));
    }
    assert_eq!(args.len(), extent, "the extent's position");
    args.extend([launch.extent, 1, 1].map(word));
    args
}

/// How far the gradient is from a difference of the outputs, relative to the size of their terms.
fn off_differences(drawn: &Drawn, seed: u64, kernel: &Kernel, found: &Compared) -> Option<f64> {
    let launch = &drawn.launch;
    // The parameters with a gradient, by their position in C++.
    let mut at = 1;
    let mut places = [None; 5];
    for param in kernel.params {
        if let Some(slot) =
            ["a", "x", "y", "out", "sums"].iter().position(|name| *name == param.name)
        {
            places[slot] = Some(at);
        }
        at += if param.name == "a" { 1 } else { 2 };
    }
    let mut rng = Rng::new(seed ^ 0x646972);
    let direction: Vec<Vec<f64>> = Numbers::new(seed, launch.outputs)
        .active()
        .iter()
        .map(|values| values.iter().map(|_| f64::from(rng.float())).collect())
        .collect();
    let step = 1e-6;
    let moved = |by: f64| -> Option<Vec<f64>> {
        let mut numbers = Numbers::new(seed, launch.outputs);
        for (values, direction) in numbers.active().into_iter().zip(&direction) {
            values.iter_mut().zip(direction).for_each(|(value, by_one)| *value += by * by_one);
        }
        let Numbers { a, x, y, index, mut out, mut sums } = numbers;
        (drawn.cpu)(a, &x, &y, &index, &mut out, &mut sums).ok()?;
        Some([out, sums].concat())
    };
    let (right, left) = (moved(step)?, moved(-step)?);
    let weights: Vec<f64> = [places[3], places[4]]
        .iter()
        .enumerate()
        .flat_map(|(which, place)| match place {
            Some(at) => found.weights[*at].clone(),
            None => vec![0.0; [launch.outputs, SUMS][which]],
        })
        .collect();
    let (mut wanted, mut size) = (0.0, 0.0);
    for ((right, left), weight) in right.iter().zip(&left).zip(&weights) {
        wanted += weight * (right - left) / (2.0 * step);
        size += (weight * (right - left) / (2.0 * step)).abs();
    }
    let mut got = 0.0;
    for (slot, place) in places.iter().enumerate() {
        let Some(at) = *place else { continue };
        // Gradients of inputs are added to what was there.
        let inputs = slot == 1 || slot == 2;
        for (n, by) in direction[slot].iter().enumerate() {
            let before = if inputs { found.weights[at][n] } else { 0.0 };
            let term = (found.gradient[at][n] - before) * by;
            got += term;
            size += term.abs();
        }
    }
    Some((wanted - got).abs() / size)
}

/// What was found of one program.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    /// Whether it is refused, since a branch of block level may not be the same for whole warps.
    refused: bool,
    wide: f64,
    narrow: f64,
    differences: Option<f64>,
}

fn check(drawn: &Drawn, seed: u64) -> Result<Found, String> {
    let launch = &drawn.launch;
    let mut found = Found::default();
    let narrow = drawn.narrow.map(|narrow| (false, narrow));
    for (double, kernel) in [(true, drawn.wide)].into_iter().chain(narrow) {
        let kernel = kernel();
        let text = ptx(kernel)?;
        let numbers = Numbers::new(seed, launch.outputs);
        let args = arguments(kernel, &numbers, launch, double);
        let mut device = Device::new();
        // Scratch memory is too small at first, or large enough.
        (device.scratch, device.masks) =
            [(0, false), (1 << 12, true), (1 << 21, true)][seed as usize % 3];
        device.logs = seed % 2 == 1;
        let shape = shape(launch.grid, launch.threads);
        let (compared, _) = match device.compare(&text, &kernel.entry(), &args, shape, seed) {
            Ok(compared) => compared,
            Err(Failure::Refused(refused)) => {
                let known =
                    |refusal: &Refusal| matches!(refusal.reason, Reason::Warp | Reason::Barrier);
                if refused.refusals.iter().all(known) {
                    return Ok(Found { refused: true, ..found });
                }
                return Err(format!("refused: {refused}"));
            }
            Err(Failure::Undefined(why)) => return Err(format!("the kernel fails: {why}")),
            Err(Failure::Wrong(why)) => return Err(format!("the adjoint fails: {why}")),
        };
        let most = if double { 1e-11 } else { 1e-4 };
        if compared.error.is_nan() || compared.error > most {
            return Err(format!(
                "error {:e} of {:e}, {double}",
                compared.error, compared.magnitude
            ));
        }
        if compared.magnitude < 0.1 {
            return Err(format!("nothing was compared: {:e}", compared.magnitude));
        }
        match double {
            true => {
                found.wide = compared.error;
                let differ = drawn.is_smooth && !device.masks;
                found.differences =
                    if differ { off_differences(drawn, seed, kernel, &compared) } else { None };
            }
            false => found.narrow = compared.error,
        }
    }
    Ok(found)
}

#[test]
fn drawn_kernels_have_gradients() {
    let only = std::env::var("PHASES_ONLY").ok();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(&str, Result<Found, String>)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some(drawn) = DRAWN.get(next.fetch_add(1, Ordering::Relaxed)) {
            if only.as_deref().is_some_and(|only| only != drawn.name) {
                continue;
            }
            let seed = drawn.name[1..].parse().unwrap_or(0);
            if only.is_some() {
                let text = ptx((drawn.wide)()).unwrap_or_else(|error| error);
                println!("{text}\n{:?}", drawn.launch);
            }
            let result = catch_unwind(AssertUnwindSafe(|| check(drawn, seed)));
            let result = result.unwrap_or_else(|panic| {
                Err(format!("panic: {}", panic.downcast_ref::<String>().map_or("", |text| text)))
            });
            if let Err(error) = &result {
                println!("FAILED {}: {error}", drawn.name);
            }
            results.lock().unwrap().push((drawn.name, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap();
    let right: Vec<Found> = results.iter().filter_map(|(_, found)| found.clone().ok()).collect();
    let worst = |of: fn(&Found) -> f64| right.iter().map(of).fold(0.0f64, f64::max);
    let refused = right.iter().filter(|found| found.refused).count();
    let differences: Vec<f64> = right.iter().filter_map(|found| found.differences).collect();
    let near = differences.iter().filter(|off| **off < 1e-6).count();
    println!(
        "{} of {} programs are right, and {refused} refused: to {:e} in f64, {:e} in f32; {near} of {} agree with differences",
        right.len() - refused,
        results.len(),
        worst(|found| found.wide),
        worst(|found| found.narrow),
        differences.len()
    );
    assert_eq!(right.len(), results.len(), "failed");
    assert!(refused * 4 <= results.len(), "{refused} of {} are refused", results.len());
    // A step may cross a kink.
    assert!(near * 50 >= differences.len() * 48, "{near} of {}", differences.len());
    if test_support::sample::deep() {
        batches();
    }
}

/// The programs of a batch: rustc takes a second and 30 MB for each.
const BATCH: u64 = 100;
/// The batches, unless `PHASES_BATCHES` says from which seed to which, as in `2..12`.
const BATCHES: std::ops::Range<u64> = 2..102;

fn batches() {
    let given = std::env::var("PHASES_BATCHES").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let seeds = given.map_or(BATCHES, |(first, end)| first.parse().unwrap()..end.parse().unwrap());
    for seed in seeds {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut batch = std::process::Command::new(cargo);
        batch.args(["test", "-p", "phases-tests", "--test", "gradients"]);
        batch.args((!cfg!(debug_assertions)).then_some("--release"));
        batch.args(["--", "--nocapture", "drawn_kernels_have_gradients"]);
        batch.env("PHASES_GRADIENTS", BATCH.to_string()).env("PHASES_SEED", seed.to_string());
        let output = batch.env_remove(test_support::sample::DEEP_VARIABLE).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {text}{errors}");
        println!("seed {seed}: {text}");
    }
}
