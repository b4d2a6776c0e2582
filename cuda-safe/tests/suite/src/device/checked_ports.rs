//! The ported CUDA C++ programs under seeds and under the checkers for races and unwritten memory, at the same time.

use std::collections::BTreeMap;

use ::ports::PORTS;
use cuda_safe::{DeviceBuffer, LaunchConfig, Module};

use super::ports;
use test_harness::sabotage::Plant;
use test_harness::schedules::{Outcome, Test, Unit, first_seed, run_all_with};
use test_harness::{Case, Failure, Run, TestDevice, TestResult, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::software("schedules::ports_under_the_checkers", under_the_checkers).long(),
        Case::software("schedules::planted::under_the_checkers", planted_are_found),
    ]
}

/// How many seeds each port runs under.
const SEEDS: u64 = 6;

/// Processes with both checkers. A cooperative launch of all blocks of 132 multiprocessors, which meet again and again,
/// takes minutes under them.
const CHECKERS: &[(&str, &str)] =
    &[("CUDA_EMU_CHECK", "race,init"), ("CUDA_EMU_MULTIPROCESSORS", "1")];

/// The launches of each port.
const LAUNCHES: [(&str, u64); PORTS.len()] = [
    ("async_streams", 4),
    ("black_scholes", 1),
    ("conjugate_gradient", 1),
    ("fdtd3d", 5),
    ("functors", 2),
    ("matrix_mul", 1),
    ("multi_file", 1),
    ("nbody", 5),
    ("reduction", 2),
    ("simple_graphs", 40),
];

fn run(cases: &[&'static str], seeds: &[u64]) -> BTreeMap<&'static str, Outcome> {
    let unit = |case: &&'static str| {
        let seed = |&seed: &u64| Unit { case, plant: Plant::Nothing, seeds: vec![seed] };
        seeds.iter().map(seed).collect::<Vec<_>>()
    };
    let mut outcomes = BTreeMap::<_, Outcome>::new();
    for (unit, outcome) in run_all_with(CHECKERS, cases.iter().flat_map(unit).collect()) {
        let sum = outcomes.entry(unit.case).or_default();
        sum.ran.extend(outcome.ran);
        sum.wrong = sum.wrong.take().or(outcome.wrong);
    }
    outcomes
}

/// Each port has its results under each seed, and the checkers, which have seen all its launches, find nothing.
fn under_the_checkers() -> TestResult {
    let on_a_device = |case: &Case| matches!(case.run, Run::Device(_));
    let cases: Vec<_> =
        ports::cases().into_iter().filter(on_a_device).map(|case| case.name).collect();
    ensure_eq!(cases.len(), PORTS.len());
    let seeds: Vec<u64> = (first_seed()..).take(SEEDS as usize).collect();
    let (mut wrong, mut orders) = (Vec::new(), 0);
    for (case, outcome) in run(&cases, &seeds) {
        wrong.extend(outcome.wrong);
        let port = case.trim_start_matches("ports::");
        let launches = LAUNCHES.iter().find(|(name, _)| *name == port).map(|&(_, count)| count);
        for ran in &outcome.ran {
            ensure_eq!(Some(ran.checked), launches, "{case}, seed {}", ran.seed);
        }
        let mut found: Vec<_> = outcome.ran.iter().map(|ran| ran.order).collect();
        found.sort_unstable();
        found.dedup();
        orders += found.len();
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "schedules: {} ports under the checkers, {orders} distinct interleavings",
        cases.len()
    );
    Ok(())
}

/// Tests that are wrong on purpose.
const WRONG: [(&str, Test, &str); 2] = [
    ("planted::a_race", race, "race"),
    ("planted::unwritten_memory", unwritten, "nothing has written"),
];

/// The tests that are wrong on purpose.
pub(crate) fn planted() -> Vec<Case> {
    WRONG.iter().map(|&(name, test, _)| Case::device(name, test)).collect()
}

fn launch(device: &TestDevice, text: &str, data: &mut DeviceBuffer<f32>) -> TestResult {
    let kernel = Module::compile(device.context(), text)?.kernel("k")?;
    let launch = LaunchConfig::new(1, 64);
    // SAFETY: the kernels touch 64 floats.
    device.count(unsafe { kernel.launch(&device.stream()?, launch, (data,)) })?;
    Ok(())
}

/// A warp reads what the other one writes, without a barrier.
fn race(device: &TestDevice) -> TestResult {
    let mut data = DeviceBuffer::zeroed(&device.stream()?, 64)?;
    let text = "extern \"C\" __global__ void k(float* x) {
        __shared__ float part[64];
        part[threadIdx.x] = threadIdx.x;
        x[threadIdx.x] = part[threadIdx.x ^ 32];
    }";
    launch(device, text, &mut data)
}

/// A kernel reads a buffer that nothing has written.
fn unwritten(device: &TestDevice) -> TestResult {
    let data = DeviceBuffer::uninit(&device.stream()?, 64)?;
    // SAFETY: it is not: that is the mistake. Any bytes are a float.
    let mut data: DeviceBuffer<f32> = unsafe { data.assume_init() };
    launch(device, "extern \"C\" __global__ void k(float* x) { x[threadIdx.x] += 1; }", &mut data)
}

/// A seed and the checkers together find what either finds alone.
fn planted_are_found() -> TestResult {
    for (name, _, says) in WRONG {
        let outcome = run(&[name], &[first_seed()]).remove(name);
        let wrong = outcome.and_then(|outcome| outcome.wrong);
        let wrong = wrong.ok_or_else(|| Failure::new(format!("{name} was not found")))?;
        ensure!(wrong.contains(says), "{wrong}");
        ensure!(
            wrong.contains("again: CUDA_EMU_CHECK=race,init CUDA_EMU_MULTIPROCESSORS=1 cargo test"),
            "{wrong}"
        );
    }
    Ok(())
}
