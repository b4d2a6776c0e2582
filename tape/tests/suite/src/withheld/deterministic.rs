//! Deterministic tapes: the bits of a hundred passes.

use cuda_safe::{LaunchConfig, Stream};
use tape::{Op, Tape};

use super::super::ops::Number;
use super::{
    BODIES, Gradients, Inputs, LOOPS, NETWORK, State, Uses, compare, each, gradients, made, stride,
};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::withheld",
        device(deterministic_bits_of_a_hundred_passes),
        device(deterministic_bits_with_too_little_scratch),
    ]
}

const PASSES: usize = 100;
/// In which threads add to each other's gradients.
const SCATTER: &str = "
    unsigned j = (i * 7 + 3) % n, k = (i + 1) % n; real d = x[8 * j] - s[0], e = x[8 * k + 1] * w[i % 5];
    t[0] = d * e * s[2]; t[1] = x[8 * (i / 3)] * d;";
/// As `SCATTER`, with a loop that keeps two numbers for each turn.
const KEPT: &str = "
    real p = s[0], q = s[1];
    for (unsigned k = 0; k < 40 + i % 5; ++k) {
        real r = x[8 * ((i + k) % n)]; real old = p; p = p * q * real(0.5) + r * w[k]; q = old - q * p * real(0.25);
    }
    t[0] = p; t[1] = q;";

/// The gradients of several passes, each of a fresh tape or again of one, as bits of doubles.
fn passes<T: Number>(
    stream: &Stream,
    op: &Op,
    inputs: &Inputs,
    launch: LaunchConfig,
    uses: Uses,
    (count, bytes): (usize, Option<usize>),
) -> cuda_safe::Result<Vec<Gradients>> {
    let mut state = State::<T>::new(stream, inputs, uses)?;
    let mut tape = Tape::new(stream)?;
    let mut all = Vec::new();
    for pass in 0..count {
        if pass % 10 == 0 {
            tape = Tape::new(stream)?;
            tape.set_deterministic(true);
            tape.set_scratch_bytes(bytes);
        }
        state.record(&mut tape, stream, op, launch)?;
        let found = state.backward(&mut tape, stream)?;
        all.push(found.map(|part| part.into_iter().map(T::to).collect()));
    }
    Ok(all)
}

fn same_bits(what: &str, all: &[Gradients]) -> TestResult {
    let bits = |all: &Gradients| all.concat().iter().map(|g| g.to_bits()).collect::<Vec<_>>();
    let Some((first, rest)) = all.split_first() else { return Ok(()) };
    for (pass, other) in rest.iter().enumerate() {
        let at = bits(first).iter().zip(bits(other)).position(|(a, b)| *a != b);
        ensure!(at.is_none(), "{what}: pass {} differs at {at:?}", pass + 1);
    }
    Ok(())
}

fn one<T: Number>(
    device: &TestDevice,
    kernel: &str,
    n: usize,
    launch: LaunchConfig,
    (count, bytes): (usize, &[Option<usize>]),
) -> TestResult {
    let (stream, uses) = (device.stream()?, Uses::of(kernel));
    let op = made::<T>(device, kernel)?;
    let inputs = Inputs::new(&mut Rng::new(2421), n);
    let free = gradients::<T>(&stream, &op, &inputs, launch, uses)?;
    let mut all = Vec::new();
    for bytes in bytes {
        all.extend(passes::<T>(&stream, &op, &inputs, launch, uses, (count, *bytes))?);
    }
    same_bits(kernel, &all)?;
    let most = if T::SUFFIX == "f32" { 2e-6 } else { 1e-12 };
    all.first().map_or(Ok(()), |first| compare(kernel, first, &free, most))
}

fn kernels() -> Vec<(String, LaunchConfig)> {
    let covering = [NETWORK, BODIES[1].1, BODIES[3].1, BODIES[10].1, SCATTER]
        .map(|body| (each(body), LaunchConfig::cover(300, 48)));
    let few =
        [LOOPS[0].1, LOOPS[4].1, LOOPS[5].1].map(|parts| (stride(parts), LaunchConfig::new(3, 64)));
    covering.into_iter().chain(few).collect()
}

fn deterministic_bits_of_a_hundred_passes(device: &TestDevice) -> TestResult {
    let is_checked = device.is_instrumented() || std::env::var_os("CUDA_EMU_CHECK").is_some();
    let count = if is_checked { 3 } else { PASSES };
    for (kernel, launch) in kernels() {
        one::<f32>(device, &kernel, 300, launch, (count, &[None]))?;
        one::<f64>(device, &kernel, 300, launch, (count.min(20), &[None]))?;
    }
    Ok(())
}

fn deterministic_bits_with_too_little_scratch(device: &TestDevice) -> TestResult {
    let (kernel, launch) = (each(KEPT), LaunchConfig::cover(300, 64));
    for n in [33, 300] {
        one::<f32>(device, &kernel, n, launch, (5, &[None, Some(1), Some(3000), Some(1 << 20)]))?;
        one::<f64>(device, &kernel, n, launch, (5, &[None, Some(1), Some(9000)]))?;
    }
    Ok(())
}
