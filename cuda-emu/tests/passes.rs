//! Passes of the crate `ptx` over functions: what they make of a program computes the same, bit for bit.

use ptx::ir::{Function, Module};
use ptx::simplify::{branch_guards, single_exit};
use ptx::ssa::Ssa;
use ptx_gen::{BLOCK, Ending, INPUTS, Program, SCRATCH, THREADS};
use test_support::Rng;

#[path = "exec/device.rs"]
#[allow(dead_code, reason = "the executor's tests use all of it")]
mod device;
use device::{Device, shape};

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

/// Returns a module of which each function has been through `pass`.
fn transformed(module: &Module, pass: fn(&Module, &Function) -> Function) -> Module {
    let mut new = module.clone();
    for (new, old) in new.functions.iter_mut().zip(&module.functions) {
        if old.body.is_some() {
            *new = pass(module, old);
        }
    }
    new
}

fn round_trip(module: &Module, function: &Function) -> Function {
    let ssa = Ssa::new(module, function).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ssa.verify(), Ok(()), "{}", function.name);
    ssa.into_function()
}

fn compare(pass: fn(&Module, &Function) -> Function) {
    let mut seed = 0;
    let (mut compared, mut before, mut after) = (0, 0, 0);
    while seed < programs() {
        let programs: Vec<_> = (seed..seed + TOGETHER).map(Program::new).collect();
        let text = ptx_gen::module(&programs, Ending::Hash);
        let module = ptx::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let new = transformed(&module, pass);
        let count = |module: &Module| -> usize {
            module.functions.iter().map(|function| function.instrs().len()).sum()
        };
        before += count(&module);
        after += count(&new);
        let (new, programs) = (new.to_string(), programs.as_slice());
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

#[test]
fn programs_compute_the_same_after_static_single_assignment() {
    compare(round_trip);
}

#[test]
fn programs_compute_the_same_without_guards_and_with_one_exit() {
    compare(|module, function| single_exit(module, &branch_guards(module, function)));
}
