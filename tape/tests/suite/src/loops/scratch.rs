//! Memory for what iterations of loops overwrite: too little, in passes and in captured ones, and for launches of other
//! sizes.

use cuda_safe::{LaunchConfig, Stream};
use tape::{Op, Seeds, Tape};

use super::super::awkward::refused;
use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use super::{Inputs, State, Uses, compare, gradients, kernel, spec};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::loops",
        device(too_little_scratch_f32 = too_little::<f32>),
        device(too_little_scratch_f64 = too_little::<f64>),
        device(too_little_scratch_in_several_steps),
        device(too_little_scratch_in_a_captured_pass),
        device(a_tape_for_launches_of_other_sizes),
        device(deterministic_tapes),
    ]
}

const REGISTERS: &str = "real p = s[0], q = s[1];
    for (unsigned k = 0; k < trips; ++k) { real old = p; p = p * q * real(0.5) + a; q = old - q * p * real(0.25); }
    t[0] = p; t[1] = q;";
const ARRAY: &str = "real v[4] = {s[0], s[1], s[2], s[3]};
    for (unsigned k = 0; k < 3 * trips; ++k) v[k & 3] = v[(k + trips) & 3] * v[k & 3] * a + real(0.25);
    for (unsigned k = 0; k < 4; ++k) t[k] = v[k];";
/// Whose gradients by x are its own.
const SUMS: &str = "real p = s[0];
    for (unsigned k = 0; k < 2 * trips; ++k) { p = p * s[k & 3] * real(0.5) + a; atomicAdd(&y[k & 3], p * p); }";

fn made<T: Number>(device: &TestDevice, body: &str) -> Result<Op, Failure> {
    differentiate(device, spec::<T>(Uses::of(body)), &kernel::<T>(body)).map_err(failure)
}

/// Resumed, a pass gives the gradients of one with enough: what no two threads add to has the same bits.
fn too_little<T: Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let most = if T::SUFFIX == "f32" { 2e-6 } else { 1e-12 };
    for body in [REGISTERS, ARRAY, SUMS] {
        let (op, uses) = (made::<T>(device, body)?, Uses::of(body));
        for n in [1, 33, 3000] {
            let inputs = Inputs::new(&mut Rng::new(2350), n);
            let launch = LaunchConfig::cover(n, 64);
            let wanted = gradients::<T>(&stream, &op, &inputs, launch, uses)?;
            for bytes in [0, 1, 100, 9000, 1 << 20] {
                let mut state = State::<T>::new(&stream, &inputs)?;
                let mut tape = Tape::new(&stream)?;
                tape.set_scratch_bytes(bytes);
                state.record(&mut tape, &stream, &op, uses, launch)?;
                for _ in 0..2 {
                    state.backward(&mut tape, &stream, uses)?;
                    let given = state.gradients(&tape, &stream, uses)?;
                    let what = format!("n = {n}, {bytes} bytes: {body}");
                    compare(&what, &given, &wanted, most)?;
                    ensure_eq!(given.get(1..), wanted.get(1..), "{what}");
                }
            }
        }
    }
    Ok(())
}

/// out = array(registers(x)) and the sums of both, where each step runs out of memory, one after the other.
fn too_little_scratch_in_several_steps(device: &TestDevice) -> TestResult {
    let (stream, n) = (device.stream()?, 2000usize);
    let [registers, array, sums] = [REGISTERS, ARRAY, SUMS].map(|body| made::<f64>(device, body));
    let (registers, array, sums) = (registers?, array?, sums?);
    let inputs = Inputs::new(&mut Rng::new(2351), n);
    let (launch, count) = (LaunchConfig::cover(n, 128), n as u32);
    let mut wanted: Option<Vec<f64>> = None;
    for bytes in [None, Some(1), Some(5000)] {
        let State { a, x, mut y, mut out, before: [y0, _], index, seeds, .. } =
            State::<f64>::new(&stream, &inputs)?;
        let (mut middle, mut unused) = (out.try_clone(&stream)?, out.try_clone(&stream)?);
        let mut tape = Tape::new(&stream)?;
        tape.set_scratch_bytes(bytes);
        tape.record_again(&stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.copy(&y0, &mut y)?;
            t.launch(&registers, launch, (&a, &x, &mut unused, &mut middle, &index, count))?;
            t.launch(&sums, launch, (&a, &middle, &mut y, &mut unused, &index, count))?;
            t.launch(&array, launch, (&a, &middle, &mut unused, &mut out, &index, count))?;
            t.launch(&sums, launch, (&a, &out, &mut y, &mut unused, &index, count))
        })?;
        let of_both = Seeds::new().with(&y, &seeds[0])?.with(&out, &seeds[1])?;
        tape.backward_with(&stream, &of_both)?;
        let mut given = tape.gradient(&a)?.to_vec(&stream)?;
        given.extend(tape.gradient(&x)?.to_vec(&stream)?);
        match &wanted {
            None => wanted = Some(given),
            Some(wanted) => {
                compare(&format!("{bytes:?} bytes"), &given, wanted, 1e-12)?;
                ensure_eq!(given.get(1..), wanted.get(1..), "{bytes:?} bytes");
            }
        }
    }
    Ok(())
}

/// A pass with its buffers and its tape, to be captured.
struct Pass<T: Number>(State<T>, Tape);

impl<T: Number> Pass<T> {
    fn new(stream: &Stream, inputs: &Inputs, bytes: Option<usize>) -> cuda_safe::Result<Self> {
        let mut tape = Tape::new(stream)?;
        tape.set_scratch_bytes(bytes);
        Ok(Self(State::new(stream, inputs)?, tape))
    }

    fn run(&mut self, stream: &Stream, op: &Op, uses: Uses) -> cuda_safe::Result<()> {
        let Self(state, tape) = self;
        let launch = LaunchConfig::cover(state.n as usize, 64);
        state.record(tape, stream, op, uses, launch)?;
        state.backward(tape, stream, uses)
    }
}

/// A captured pass can't take more memory: it says how much it needs. Run once before, or with what was said, it has
/// enough.
fn too_little_scratch_in_a_captured_pass(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for body in [REGISTERS, ARRAY] {
        let (op, uses) = (&made::<f64>(device, body)?, Uses::of(body));
        let inputs = Inputs::new(&mut Rng::new(2352), 1000);
        let wanted = gradients::<f64>(&stream, op, &inputs, LaunchConfig::cover(1000, 64), uses)?;
        for bytes in [None, Some(0), Some(1), Some(1 << 22)] {
            let pass = Pass::<f64>::new(&stream, &inputs, bytes)?;
            let mut graph =
                device.context().capture(pass, |stream, pass| pass.run(stream, op, uses))?;
            for _ in 0..2 {
                graph.launch(&stream)?;
                let Pass(state, tape) = graph.state_mut();
                if bytes.is_some_and(|bytes| bytes < 100) {
                    refused(tape.check(&stream), "bytes of scratch memory")?;
                } else {
                    tape.check(&stream)?;
                    let given = state.gradients(tape, &stream, uses)?;
                    ensure_eq!(given.get(1..), wanted.get(1..), "{bytes:?} bytes");
                }
            }
            if bytes.is_none_or(|bytes| bytes >= 100) {
                continue;
            }
            let mut pass = graph.into_state();
            pass.run(&stream, op, uses)?;
            let mut graph = device
                .context()
                .capture(pass, |stream, Pass(state, tape)| state.backward(tape, stream, uses))?;
            for _ in 0..2 {
                graph.launch(&stream)?;
                let Pass(state, tape) = graph.state_mut();
                tape.check(&stream)?;
                let given = state.gradients(tape, &stream, uses)?;
                compare("captured behind one that was run", &given, &wanted, 1e-12)?;
            }
        }
    }
    Ok(())
}

/// One tape records launches of few threads and of many, in blocks of other sizes, and none.
fn a_tape_for_launches_of_other_sizes(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut tape = Tape::new(&stream)?;
    let bodies =
        [REGISTERS, ARRAY, SUMS].map(|body| made::<f64>(device, body).map(|op| (op, body)));
    for (n, block, number) in [
        (10, 32, 0),
        (3000, 64, 1),
        (33, 1024, 2),
        (0, 32, 0),
        (3000, 96, 2),
        (1, 1, 1),
        (5000, 33, 0),
        (2999, 64, 1),
    ] {
        let Some((op, body)) = bodies.get(number).and_then(|found| found.as_ref().ok()) else {
            return bodies.into_iter().try_for_each(|found| found.map(drop));
        };
        let (inputs, uses) = (Inputs::new(&mut Rng::new(2353), n), Uses::of(body));
        let launch = LaunchConfig::cover(n, block);
        let mut state = State::<f64>::new(&stream, &inputs)?;
        state.record(&mut tape, &stream, op, uses, launch)?;
        if n == 0 {
            continue;
        }
        state.backward(&mut tape, &stream, uses)?;
        let given = state.gradients(&tape, &stream, uses)?;
        let wanted = gradients::<f64>(&stream, op, &inputs, launch, uses)?;
        compare(&format!("n = {n}, {block}: {body}"), &given, &wanted, 1e-12)?;
        ensure_eq!(given.get(1..), wanted.get(1..), "n = {n}, {block}: {body}");
    }
    Ok(())
}

/// A loop's gradients have the same bits on a deterministic tape, with enough memory and with too little.
fn deterministic_tapes(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let body = "real p = s[0]; for (unsigned k = 0; k < trips; ++k) p = p * s[0] * real(0.5) + s[1] / (2 + p * p); t[0] = p;";
    let (op, uses) = (made::<f32>(device, body)?, Uses::of(body));
    let inputs = Inputs::new(&mut Rng::new(2354), 2000);
    let launch = LaunchConfig::cover(2000, 64);
    let wanted = gradients::<f32>(&stream, &op, &inputs, launch, uses)?;
    ensure!(wanted.iter().any(|g| *g != 0.0));
    for bytes in [None, Some(1)] {
        let mut state = State::<f32>::new(&stream, &inputs)?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(true);
        tape.set_scratch_bytes(bytes);
        state.record(&mut tape, &stream, &op, uses, launch)?;
        state.backward(&mut tape, &stream, uses)?;
        ensure_eq!(state.gradients(&tape, &stream, uses)?, wanted, "{bytes:?} bytes");
    }
    // Of numbers that threads share, too.
    let (op, uses) = (made::<f32>(device, REGISTERS)?, Uses::of(REGISTERS));
    let wanted = gradients::<f32>(&stream, &op, &inputs, launch, uses)?;
    let mut same: Option<Vec<f64>> = None;
    for bytes in [None, Some(1), Some(9000)] {
        let mut state = State::<f32>::new(&stream, &inputs)?;
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(true);
        tape.set_scratch_bytes(bytes);
        state.record(&mut tape, &stream, &op, uses, launch)?;
        state.backward(&mut tape, &stream, uses)?;
        let given = state.gradients(&tape, &stream, uses)?;
        compare(&format!("{bytes:?} bytes"), &given, &wanted, 2e-6)?;
        let same = same.get_or_insert_with(|| given.clone());
        ensure_eq!(given, *same, "{bytes:?} bytes");
    }
    Ok(())
}
