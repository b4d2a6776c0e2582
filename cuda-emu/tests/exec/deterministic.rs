//! A deterministic kernel gives the same bits on any number of workers, in any order of blocks.

use crate::device::{Device, Shape, shape};

const TEXT: &str = include_str!("../ptx/deterministic.ptx");
const CONTROL: &str = include_str!("../ptx/control.ptx");
const PROGRESS: &str = include_str!("../ptx/progress.ptx");

const WORKERS: [usize; 3] = [1, 2, 4];
const SEEDS: [Option<u64>; 3] = [None, Some(1), Some(0x9e37_79b9_7f4a_7c15)];

/// A device for each number of workers and each order of blocks.
fn configurations() -> impl Iterator<Item = (usize, Option<u64>, Device)> {
    WORKERS.into_iter().flat_map(|workers| {
        SEEDS.into_iter().map(move |seed| {
            let mut device = Device::new(workers);
            device.config.block_order_seed = seed;
            (workers, seed, device)
        })
    })
}

/// An argument of a kernel.
enum Arg {
    Value(u64),
    /// Memory of words that the test reads afterwards.
    Output(Vec<u32>),
    /// Memory of words that it does not.
    Memory(Vec<u32>),
}
use Arg::{Memory, Output, Value};

struct Case {
    text: &'static str,
    kernel: &'static str,
    shape: Shape,
    args: Vec<Arg>,
}

/// Launches a kernel and gives the words of its outputs.
fn run(device: &Device, case: &Case) -> Vec<Vec<u32>> {
    let program = device.load(case.text).expect("the program");
    let values: Vec<u64> = case
        .args
        .iter()
        .map(|arg| match arg {
            Value(value) => *value,
            Output(words) | Memory(words) => device.upload(words),
        })
        .collect();
    device
        .launch(&program, case.kernel, case.shape, &values)
        .unwrap_or_else(|fault| panic!("{}: {fault}", case.kernel));
    let read = |(arg, &at): (&Arg, &u64)| match arg {
        Output(words) => Some(device.download(at, words.len())),
        _ => None,
    };
    case.args.iter().zip(&values).filter_map(read).collect()
}

/// Numbers between -4 and 4 whose sums are rounded.
fn floats(n: usize) -> Vec<u32> {
    let mut x = 99_u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((x >> 8) as f32 / 2_097_152.0 - 4.0).to_bits()
    };
    (0..n).map(|_| next()).collect()
}

fn integers(n: usize) -> Vec<u32> {
    floats(n).iter().map(|bits| (bits >> 3) & 0x7fff).collect()
}

fn zeros(n: usize) -> Vec<u32> {
    vec![0; n]
}

fn cases() -> Vec<Case> {
    let of = |text, kernel, shape, args| Case { text, kernel, shape, args };
    let new = |kernel, shape, args| Case { text: TEXT, kernel, shape, args };
    let tiles = |x, y| Shape {
        grid: [x, y, 1],
        block: [16, 16, 1],
        shared: 0,
        cooperative: false,
        cluster: None,
    };
    let n = 10_000;
    let count = || Value(n as u64);
    let blocks = |threads: u32| shape((n as u32).div_ceil(threads), threads);
    let a = Value(u64::from(1.7_f32.to_bits()));
    vec![
        new("saxpy", blocks(128), vec![count(), a, Memory(floats(n)), Output(floats(n))]),
        new("reduce", shape(40, 256), vec![Memory(floats(40 * 256)), Output(zeros(40))]),
        new("scan_block", shape(40, 256), vec![Memory(floats(10_240)), Output(zeros(10_240))]),
        new(
            "transpose",
            tiles(7, 5),
            vec![Memory(floats(7000)), Output(zeros(7000)), Value(100), Value(70)],
        ),
        new("atomics", blocks(256), vec![Memory(integers(n)), Output(vec![0; 24]), count()]),
        new("divergent", blocks(96), vec![Memory(integers(n)), Output(zeros(n)), count()]),
        new(
            "multiply",
            tiles(4, 4),
            vec![Memory(floats(4096)), Memory(floats(4096)), Output(zeros(4096)), Value(64)],
        ),
        new("shuffles", shape(40, 128), vec![Memory(integers(5120)), Output(zeros(5120))]),
        new("special", shape(40, 128), vec![Memory(floats(5120)), Output(zeros(5120))]),
        of(CONTROL, "branches", blocks(256), vec![Memory(integers(n)), Output(zeros(n)), count()]),
        of(
            CONTROL,
            "barriers",
            Shape { shared: 1024, ..shape(12, 256) },
            vec![Memory(integers(3072)), Output(zeros(3072))],
        ),
        of(CONTROL, "recursion", shape(1, 96), vec![Output(zeros(96))]),
        of(CONTROL, "pointers", shape(1, 96), vec![Output(zeros(96))]),
        of(
            PROGRESS,
            "scan",
            blocks(256),
            vec![
                Memory(integers(n)),
                Output(zeros(n)),
                Memory(zeros(4 * 40)),
                Memory(zeros(1)),
                count(),
            ],
        ),
    ]
}

#[test]
fn the_same_bits_for_any_workers_and_order() {
    let cases = cases();
    let mut runs = 0;
    for case in &cases {
        let mut first: Option<Vec<Vec<u32>>> = None;
        for (workers, seed, device) in configurations() {
            let got = run(&device, case);
            runs += 1;
            let Some(first) = &first else {
                let before: Vec<&Vec<u32>> = case
                    .args
                    .iter()
                    .filter_map(|arg| if let Output(words) = arg { Some(words) } else { None })
                    .collect();
                assert!(!before.is_empty(), "{} has an output", case.kernel);
                for (before, after) in before.into_iter().zip(&got) {
                    assert_ne!(before, after, "{} writes its output", case.kernel);
                }
                first = Some(got);
                continue;
            };
            assert!(*first == got, "{}: {workers} workers, seed {seed:?}", case.kernel);
        }
    }
    println!("{} kernels, {runs} runs", cases.len());
    assert!(cases.len() >= 8);
    assert_eq!(runs, cases.len() * 9);
}

/// The settings do something: a kernel that sees the order of its blocks sees other ones.
#[test]
fn the_order_of_blocks_is_drawn_from_the_seed() {
    let case = Case {
        text: TEXT,
        kernel: "order",
        shape: shape(64, 1),
        args: vec![Memory(zeros(1)), Output(vec![99; 64])],
    };
    let order = |seed| {
        let mut device = Device::new(1);
        device.config.block_order_seed = seed;
        run(&device, &case).remove(0)
    };
    let [plain, one, other] = SEEDS.map(order);
    assert_eq!(plain, (0..64).collect::<Vec<u32>>());
    assert!(plain != one && plain != other && one != other);
    assert_eq!(one, order(SEEDS[1]), "one worker and one seed: the same order again");
}
