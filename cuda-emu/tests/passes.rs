//! Passes of the crate `ptx` over functions: what they make of a program computes the same, bit for bit.

use ptx::simplify::{branch_guards, single_exit};
use ptx_gen::{BLOCK, Ending, INPUTS, Program, SCRATCH, THREADS};
use test_support::Rng;

#[path = "exec/device.rs"]
#[allow(dead_code, reason = "the executor's tests use all of it")]
mod device;
use device::{Device, shape};
#[path = "exec/passed.rs"]
mod passed;

/// Random programs, or as many as the variable `PROGRAMS` says.
const PROGRAMS: u64 = 300;
/// Programs of one module.
const TOGETHER: u64 = 20;

fn programs() -> u64 {
    std::env::var("PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(PROGRAMS)
}

/// Runs the programs in a text, and returns the results and all memory that they may change.
fn run(text: &str, programs: &[Program]) -> Vec<(Vec<u64>, Vec<u64>)> {
    let device = Device::new(1);
    let module = device.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut found = Vec::new();
    for program in programs {
        let mut rng = Rng::new(program.seed % 16);
        let inputs: Vec<u64> = (0..THREADS * INPUTS).map(|_| rng.next()).collect();
        let inputs = device.upload(&inputs);
        let results = device.upload(&vec![0u64; THREADS]);
        let scratch = device.upload(&vec![0u64; SCRATCH / 8]);
        let grid = shape((THREADS / BLOCK) as u32, BLOCK as u32);
        let name = ptx_gen::kernel_name(program);
        device
            .launch(&module, &name, grid, &[inputs, results, scratch, 0, 3])
            .unwrap_or_else(|fault| panic!("{fault:?} of {name} in\n{text}"));
        found.push((device.download(results, THREADS), device.download(scratch, SCRATCH / 8)));
    }
    found
}

fn compare(pass: impl Fn(&str) -> String) {
    let mut seed = 0;
    let (mut compared, mut before, mut after) = (0, 0, 0);
    while seed < programs() {
        let programs: Vec<_> = (seed..seed + TOGETHER).map(Program::new).collect();
        let text = ptx_gen::module(&programs, Ending::Hash);
        let new = pass(&text);
        before += instructions(&text);
        after += instructions(&new);
        let programs = programs.as_slice();
        let (want, got) = (run(&text, programs), run(&new, programs));
        for ((want, got), program) in want.iter().zip(&got).zip(programs) {
            assert!(want.0.iter().any(|&hash| hash != 0), "{} computes nothing", program.seed);
            assert!(want == got, "program {} differs:\n{new}", program.seed);
            compared += 1;
        }
        seed += TOGETHER;
    }
    println!("{compared} programs of {before} instructions, then {after}");
    assert!(compared >= 100);
}

fn instructions(text: &str) -> usize {
    let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
    module.functions.iter().map(|function| function.instrs().len()).sum()
}

#[test]
fn programs_compute_the_same_after_static_single_assignment() {
    compare(passed::formed);
}

#[test]
fn programs_compute_the_same_with_calls_inlined() {
    compare(passed::inlined);
}

#[test]
fn programs_compute_the_same_without_guards_and_with_one_exit() {
    compare(|text| {
        let module = ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let pass = |module: &_, at: usize| {
            let module: &ptx::ir::Module = module;
            single_exit(module, &branch_guards(module, &module.functions[at]))
        };
        passed::each(&module, pass).to_string()
    });
}

/// Functions with parameters and results of many kinds.
const CALLS: &str = include_str!("ptx/calls.ptx");

#[test]
fn calls_of_all_kinds_compute_the_same_inlined() {
    let run = |text: &str| {
        let device = Device::new(1);
        let module = device.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let results = device.upload(&vec![0u64; 64 * 16]);
        let launched = device.launch(&module, "calls", shape(2, 32), &[results]);
        launched.unwrap_or_else(|fault| panic!("{fault:?}\n{text}"));
        (device.download::<u64>(results, 64 * 16), device.text())
    };
    let (want, printed) = run(CALLS);
    for column in 0..15 {
        assert!((0..64).any(|thread| want[thread * 16 + column] != 0), "{column} is nowhere set");
    }
    assert_eq!(printed.matches("thread").count(), 64 + 43);
    let text = passed::inlined(CALLS);
    let (got, also_printed) = run(&text);
    for (at, (want, got)) in want.iter().zip(&got).enumerate() {
        assert_eq!(want, got, "thread {}, column {}:\n{text}", at / 16, at % 16);
    }
    assert_eq!(printed, also_printed);
    assert_eq!(run(&passed::formed(CALLS)).0, want);
}
