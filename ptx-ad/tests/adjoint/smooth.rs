//! Random differentiable programs. `PTX_AD_PROGRAMS` is the number of each kind, `PTX_AD_REDUCTIONS` how many failures of
//! each class are reduced.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_emu::{Check, Checks, findings};
use ptx_ad::Real;
use ptx_gen::{Construct, Set, Smooth};
use test_support::Rng;

use crate::common::{
    Arg, Device, Failure, Layout, Shape, doubles, floats, number, read, shape, word, words,
};
use crate::programs::{count, number_of};

/// Threads of the launches, of which the last block's do not all have elements.
const N: usize = 40;
const NAME: &str = "smooth";

fn launched() -> Shape {
    shape(2, 24)
}

fn arguments(seed: u64, program: &Smooth) -> Vec<Arg> {
    let double = program.double;
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
    let [x, out] = [0, 1].map(|_| buffer(4 * N));
    let [y, z] = [0, 1].map(|_| buffer(2 * N));
    let sums = buffer(Smooth::SUMS);
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
    let trips = rng.below(Smooth::TRIPS as usize + 1) as u32;
    let mut args = vec![
        x.len(4, 9),
        y.len(2, 9),
        z.len(2, 9),
        out.len(4, 9),
        sums,
        elements.len(1, 9),
        words(&index),
        scalars,
        word(trips),
        word(N as u32),
    ];
    // Some have constants. What is active depends on active inputs.
    if seed / 2 % 4 == 3 {
        let mut constant = |at: usize| {
            let chosen = rng.below(2) == 0;
            if chosen {
                args[at] = args[at].clone().constant();
            }
            chosen
        };
        constant(2);
        // What is stored to `y` and loaded again would lose its gradient, which is refused.
        if constant(4) && !program.constructs.contains(&Construct::InPlace) && constant(1) {
            constant(5);
            constant(7);
        }
    }
    args
}

/// How an argument's numbers move.
type Directions = Vec<Vec<f64>>;

fn directions(args: &[Arg], seed: u64) -> Directions {
    let mut rng = Rng::new(seed ^ 0xd1);
    args.iter().map(|arg| arg.numbers().iter().map(|_| f64::from(rng.float())).collect()).collect()
}

/// Runs a program on arguments moved by `by` times the directions. Returns the tangents and the values of all numbers in
/// memory after it.
fn forward(
    device: &Device,
    program: &cuda_emu::exec::Program,
    args: &[Arg],
    directions: &Directions,
    by: f64,
) -> Result<(Directions, Directions), String> {
    let tangents = device.info.tangents.then(|| device.tangents());
    let entry = program.entry(NAME).ok_or("no kernel")?;
    let places = program.params(entry).to_vec();
    let (mut values, mut memory) = (Vec::new(), Vec::new());
    for ((arg, &(place, _)), direction) in args.iter().zip(&places).zip(directions) {
        let numbers = arg.numbers();
        let (Arg::Buffer { bytes, .. } | Arg::Value { bytes, .. }) = arg;
        let mut image = bytes.clone();
        for ((at, real), step) in numbers.iter().zip(direction) {
            if *real == Real::F64 {
                let moved = read(&image, *at, *real) + by * step;
                image[*at..*at + 8].copy_from_slice(&moved.to_le_bytes());
            }
        }
        let Arg::Buffer { .. } = arg else {
            for ((at, real), step) in numbers.iter().zip(direction) {
                if let Some(tangents) = &tangents {
                    let real = number(*real);
                    tangents.set_argument(NAME, place + at, real, *step).expect("an offset");
                }
            }
            values.push(image);
            memory.push(None);
            continue;
        };
        let start = device.upload(&image);
        for ((at, real), step) in numbers.iter().zip(direction) {
            if let Some(tangents) = &tangents {
                tangents.set(start + *at as u64, number(*real), &[*step]).expect("memory");
            }
        }
        values.push(start.to_le_bytes().to_vec());
        memory.push(Some(start));
    }
    let result = device.launch(program, NAME, launched(), &values);
    let (mut moved, mut after) = (Vec::new(), Vec::new());
    for (arg, start) in args.iter().zip(&memory) {
        let (Some(start), Arg::Buffer { bytes, .. }) = (*start, arg) else {
            moved.push(Vec::new());
            after.push(Vec::new());
            continue;
        };
        let image = device.download(start, bytes.len());
        let numbers = arg.numbers();
        after.push(numbers.iter().map(|(at, real)| read(&image, *at, *real)).collect());
        let get = |(at, real): &(usize, Real)| {
            tangents.as_ref().map_or(0.0, |tangents| {
                tangents.get(start + *at as u64, number(*real), 1).expect("memory")[0]
            })
        };
        moved.push(numbers.iter().map(get).collect());
    }
    if let Some(tangents) = tangents {
        let lost = tangents.lost();
        tangents.clear_arguments();
        tangents.clear();
        if let Some(lost) = lost.first() {
            return Err(format!("a tangent was lost: {lost:?}"));
        }
    }
    for start in memory.into_iter().flatten() {
        device.space.free(start);
    }
    result.map(|()| (moved, after))
}

fn dot(weights: &Directions, values: &Directions) -> (f64, f64) {
    let terms = weights.iter().flatten().zip(values.iter().flatten()).map(|(a, b)| a * b);
    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
}

/// Programs end, without a fault or a race, and values stay small. An input that is alone active has an effect, and
/// tangents of `double` are central differences.
#[test]
fn programs_are_as_they_should_be() {
    let device = Device::new();
    let mut checked = Device::new();
    checked.info.tangents = false;
    checked.info.checks = Checks { race: true, ..Checks::default() };
    let total = count(150);
    let inputs = ["x", "y", "z", "out", "sums", "elements", "index", "scalars"];
    let (mut tried, mut moves) = ([0; 8], [0; 8]);
    let (mut doubles, mut agree, mut worst) = (0, 0, 0f64);
    let mut largest = 0f64;
    for seed in 0..total {
        let program = Smooth::new(seed);
        let args = arguments(seed, &program);
        let text = &program.text;
        let directions = directions(&args, seed);
        let loaded = device.load(text).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let run = |directions: &Directions, by: f64| {
            forward(&device, &loaded, &args, directions, by)
                .unwrap_or_else(|fault| panic!("{seed}: {fault}\n{text}"))
        };
        let (tangents, after) = run(&directions, 0.0);
        let values = after.iter().flatten().copied();
        largest = values.map(f64::abs).fold(largest, f64::max);
        assert!(tangents.iter().flatten().all(|tangent| tangent.is_finite()), "{seed}\n{text}");
        assert!(largest < 1e3, "{seed}: {largest}\n{text}");
        if seed < 200 {
            for at in 0..inputs.len() {
                let alone = |(other, direction): (usize, &Vec<f64>)| {
                    direction.iter().map(|step| if other == at { *step } else { 0.0 }).collect()
                };
                let alone: Directions = directions.iter().enumerate().map(alone).collect();
                if alone[at].is_empty() {
                    continue;
                }
                tried[at] += 1;
                // What is kept where it was is no effect.
                let (tangents, _) = run(&alone, 0.0);
                let others = tangents.iter().enumerate().filter(|(other, _)| *other != at);
                moves[at] += usize::from(others.flat_map(|(_, all)| all).any(|t| *t != 0.0));
            }
            let loaded = checked.load(text).unwrap_or_else(|error| panic!("{seed}: {error}"));
            let run = forward(&checked, &loaded, &args, &directions, 0.0);
            let (_, again) = run.unwrap_or_else(|fault| panic!("{seed}: {fault}\n{text}"));
            let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
            assert!(after.iter().flatten().zip(again.iter().flatten()).all(same), "{seed}\n{text}");
            let races = findings()
                .into_iter()
                .filter(|found| found.check == Check::Race && found.access.kernel == NAME);
            assert_eq!(races.count(), 0, "{seed}\n{text}");
        }
        if program.double {
            doubles += 1;
            let mut rng = Rng::new(seed ^ 0xfd);
            let weights: Directions = tangents
                .iter()
                .map(|all| all.iter().map(|_| f64::from(rng.float())).collect())
                .collect();
            let (product, size) = dot(&weights, &tangents);
            // A comparison may change within a step, and then not within a shorter one.
            let error = [1e-5, 1e-6, 1e-7].into_iter().map(|step| {
                let (up, down) = (run(&directions, step).1, run(&directions, -step).1);
                let difference = (dot(&weights, &up).0 - dot(&weights, &down).0) / (2.0 * step);
                (difference - product).abs() / size
            });
            let error = error.fold(f64::INFINITY, f64::min);
            if error < 1e-6 {
                agree += 1;
                worst = worst.max(error);
            } else {
                println!("{seed}: differences are off by {error:e}");
            }
        }
    }
    println!("{total} programs: values up to {largest}");
    println!("{agree} of {doubles} of double agree with differences, to {worst:e}");
    for (name, (tried, moves)) in inputs.iter().zip(tried.iter().zip(moves)) {
        println!("{name}: {moves} of {tried} have an effect");
        // What was in `out` and `sums` has none on anything else.
        assert!(["out", "sums"].contains(name) || moves * 20 >= tried * 19, "{name}");
    }
    assert!(agree * 50 >= doubles * 49, "{agree} of {doubles}");
}

/// Where a program has one statement with a construct, the gradient depends on it: none is zero by construction.
#[test]
fn constructs_matter() {
    let device = Device::new();
    let mut tried: BTreeMap<Construct, [u32; 2]> = BTreeMap::new();
    for seed in 0..count(150).min(300) {
        let program = Smooth::new(seed);
        let args = arguments(seed, &program);
        let directions = directions(&args, seed);
        let tangents = |program: &Smooth| {
            let loaded = device.load(&program.text).unwrap_or_else(|error| panic!("{error}"));
            let run = forward(&device, &loaded, &args, &directions, 0.0);
            run.unwrap_or_else(|fault| panic!("{seed}: {fault}\n{}", program.text)).0
        };
        let all = tangents(&program);
        for smaller in program.smaller() {
            let without = program.constructs.difference(&smaller.constructs);
            let mut without = without.copied().peekable();
            if without.peek().is_none() {
                continue;
            }
            let matters = u32::from(tangents(&smaller) != all);
            for construct in without {
                let [tried, matter] = tried.entry(construct).or_default();
                *tried += 1;
                *matter += matters;
            }
        }
    }
    for (construct, [tried, matter]) in &tried {
        println!("{}: {matter} of {tried} matter", construct.name());
    }
    for (construct, [tried, matter]) in &tried {
        // A loop without iterations does nothing.
        let bar = if *construct == Construct::TripsZero { 0 } else { 2 * tried / 5 };
        assert!(*matter >= bar, "{}: {matter} of {tried} matter", construct.name());
    }
}

/// What is wrong with the adjoint of a program.
#[derive(Debug, Clone)]
struct Wrong {
    /// What it has in common with other failures.
    class: String,
    text: String,
}

/// Compares the adjoint of a program. Returns the error, the magnitude and the text of the adjoint.
fn check(
    device: &Device,
    program: &Smooth,
    seed: u64,
    bars: [f64; 2],
) -> Result<(f64, f64, String), Wrong> {
    let args = arguments(seed, program);
    let compare = || device.compare(&program.text, NAME, &args, launched(), seed);
    let wrong = |class: &str, text: String| Wrong { class: class.to_owned(), text };
    // A panic is reduced like any other failure.
    match catch_unwind(AssertUnwindSafe(compare)) {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            Err(wrong("panic", text))
        }
        Ok(Ok((got, adjoint))) => {
            let bar = bars[usize::from(program.double)];
            if got.error.is_nan() || got.error > bar {
                let text = format!("error {:e} of {}", got.error, got.magnitude);
                Err(wrong("error", text))
            } else {
                Ok((got.error, got.magnitude, adjoint.text))
            }
        }
        Ok(Err(Failure::Refused(refused))) => {
            let reason = refused.refusals.first().map(|refusal| &refusal.reason);
            Err(wrong(&format!("refused: {reason:?}"), refused.to_string()))
        }
        Ok(Err(Failure::Wrong(fault))) => Err(wrong("the adjoint fails", fault)),
        Ok(Err(Failure::Undefined(fault))) => Err(wrong("the kernel fails", fault)),
    }
}

/// Tries programs of a set. Prints each class of failures with its smallest program, the commonest first, and returns how
/// many failed.
fn tried(set: Set, total: u64, bars: [f64; 2]) -> BTreeMap<String, u64> {
    // Scratch memory is too small at first, or for some threads, or large enough. Some gradients may be zero. Where it
    // may be so, gradients are stored, and not cleared.
    let most = usize::MAX;
    let devices: Vec<Device> = [(0, most, false), (1 << 12, most, true), (1 << 21, 2, true)]
        .map(|(scratch, zeros, masks)| {
            let mut device = Device::new();
            (device.scratch, device.zeros, device.masks) = (scratch, zeros, masks);
            device.logs = zeros < most;
            device
        })
        .into();
    let device = |seed: u64| &devices[seed as usize / 2 % devices.len()];
    let mut shares: BTreeMap<Construct, u64> = BTreeMap::new();
    let mut operations: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut worst, mut growth, mut right) = ([0f64; 2], [0usize; 2], 0);
    let mut failures: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for seed in 0..total {
        let program = Smooth::with(seed, set);
        for one in &program.constructs {
            *shares.entry(*one).or_default() += 1;
        }
        for name in &program.operations {
            *operations.entry(name).or_default() += 1;
        }
        match check(device(seed), &program, seed, bars) {
            Ok((error, magnitude, adjoint)) => {
                assert!(magnitude > 1.0, "{seed}: {magnitude}\n{}", program.text);
                let worst = &mut worst[usize::from(program.double)];
                *worst = worst.max(error);
                growth[0] += instructions(&program.text);
                growth[1] += instructions(&adjoint);
                right += 1;
            }
            Err(wrong) => failures.entry(wrong.class).or_default().push((seed, wrong.text)),
        }
    }
    println!("{right} of {total} programs are right: errors to {worst:?}; instructions {growth:?}");
    let share =
        |(construct, n): (&Construct, &u64)| format!("{} {}%", construct.name(), n * 100 / total);
    println!("{}", shares.iter().map(share).collect::<Vec<_>>().join(", "));
    println!("operations: {operations:?}");
    let reductions = number_of("PTX_AD_REDUCTIONS", 1) as usize;
    let mut classes: Vec<_> = failures.iter().collect();
    classes.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
    for (class, all) in &classes {
        println!("== {class}: {} programs, of {total}", all.len());
        for (seed, text) in all.iter().take(reductions) {
            let program = Smooth::with(*seed, set);
            let fails = |one: &Smooth| matches!(check(device(*seed), one, *seed, bars), Err(wrong) if wrong.class == **class);
            let reduced = program.reduce(fails);
            let text = match check(device(*seed), &reduced, *seed, bars) {
                Err(wrong) => wrong.text,
                Ok(_) => text.clone(),
            };
            println!("-- reduced from seed {seed}: {text}\n{}", reduced.text);
        }
    }
    let most = 5 * growth[0] + 400 * usize::try_from(right).expect("a count");
    // Sums over a block of three scalars are up to 400 instructions, whatever the kernel is.
    assert!(set != Set::ACYCLIC || growth[1] <= most, "the adjoints are too long: {growth:?}");
    classes.into_iter().map(|(class, all)| (class.clone(), all.len() as u64)).collect()
}

fn instructions(text: &str) -> usize {
    let module = ptx_ad::parse(text).expect("valid");
    module.functions.iter().map(|function| function.instrs().len()).sum()
}

/// All are differentiated, and right.
#[test]
fn acyclic() {
    let failed = tried(Set::ACYCLIC, count(400), [1e-6, 1e-13]);
    assert!(failed.is_empty(), "{failed:?}");
}

/// All are differentiated, and right.
#[test]
fn smooth() {
    let failed = tried(Set::ALL, count(150), [1e-6, 1e-13]);
    assert!(failed.is_empty(), "{failed:?}");
}
