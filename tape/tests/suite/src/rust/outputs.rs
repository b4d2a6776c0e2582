//! Rust kernels with several outputs, structures, sums by atomics, numbers by value, and without a gradient.

use cuda_safe::kernel::target::{Activates, Active};
use cuda_safe::{DeviceBuffer, DeviceSlice, ErrorKind, Result, Stream};
use tape::{Differentiable, Element, FloatType, Recorder, Seeds, Tape, Variable};

use super::kernels::{self, Body, Field};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::rust",
        device(numbers_by_value),
        device(places_of_a_program),
        device(several_outputs),
        device(structures),
        device(sums_by_atomics),
        device(in_place),
        device(outputs_without_a_gradient),
        device(inputs_without_a_gradient),
        device(what_has_no_adjoint_is_named),
        device(after_a_fault),
        device(in_graphs),
    ]
}

// SAFETY: `repr(C)`, floats beside an integer; a gradient has the same layout.
unsafe impl Differentiable for Body {
    type Gradient = Self;
    const ELEMENT: Element =
        Element::structure(32, FloatType::F32).numbers_at(&[0, 4, 8, 12, 16, 20, 28]);
}

// SAFETY: two floats.
unsafe impl Differentiable for Field {
    type Gradient = Self;
    const ELEMENT: Element = Element::vector(FloatType::F32, 2);
}

// SAFETY: as the structure of the kernel, which is generated from it.
unsafe impl cuda_safe::DeviceRepr for Field {}

fn buffer<T: bytemuck::Pod>(stream: &Stream, values: &[T]) -> Result<DeviceBuffer<T>> {
    DeviceBuffer::from_slice(stream, values)
}

fn ones(stream: &Stream, n: usize) -> Result<DeviceBuffer<f32>> {
    buffer(stream, &vec![1.0f32; n])
}

#[track_caller]
pub(super) fn refused(recorded: Result<Tape>, parts: &[&str]) -> TestResult {
    match recorded {
        Ok(_) => Err(Failure::new(format!("recorded, and not refused with {parts:?}"))),
        Err(error) => {
            let message = error.to_string();
            for part in parts {
                ensure!(message.contains(part), "{message:?} lacks {part:?}");
            }
            Ok(())
        }
    }
}

fn random(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| 2.0 * rng.float()).collect()
}

#[track_caller]
fn near(given: &[f32], wanted: &[f32]) -> TestResult {
    ensure_eq!(given.len(), wanted.len());
    let largest = wanted.iter().fold(0.0f32, |most, wanted| most.max(wanted.abs()));
    for (i, (given, wanted)) in given.iter().zip(wanted).enumerate() {
        ensure!((given - wanted).abs() <= 1e-5 * largest, "{i}: {given}, not {wanted}");
    }
    Ok(())
}

/// The gradient by `a` of the sum of `a x + y`, as a variable and as a value.
fn numbers_by_value(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(311));
    for n in [1, 33, 1000] {
        let host = random(&mut rng, n);
        let (x, y) = (buffer(&stream, &host)?, buffer(&stream, &host)?);
        let (a, mut out) = (Variable::new(&stream, 0.5f32)?, ones(&stream, n)?);
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a)?;
            t.watch(&y)?;
            kernels::saxpy::record(t, &a, &x, &y, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, n)?)?)?;
        near(&tape.gradient(&a)?.to_vec(&stream)?, &[host.iter().sum()])?;
        near(&tape.gradient(&y)?.to_vec(&stream)?, &vec![1.0; n])?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            kernels::saxpy::record(t, 0.25, &x, &y, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, n)?)?)?;
        near(&tape.gradient(&x)?.to_vec(&stream)?, &vec![0.25; n])?;
    }
    Ok(())
}

/// A number of a program, which says itself where its gradient is.
struct Own<'a>(DeviceSlice<'a, f32>);

impl<'a, 'r> Activates<'a, f32, Own<'a>> for Recorder<'r> {
    fn activate(own: Own<'a>) -> Result<Active<'a, &'r Stream, f32>> {
        Ok(Active { value: 0.5, place: Some(own.0) })
    }
}

/// The adjoint adds to a gradient as long as the number: other memory is refused.
fn places_of_a_program(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (x, mut out) = (buffer(&stream, &[2.0; 33])?, ones(&stream, 33)?);
    let (one, two) = (ones(&stream, 1)?, ones(&stream, 2)?);
    let mut record = |place: DeviceSlice<'_, f32>| {
        Tape::record(&stream, |t| {
            t.watch(&one)?;
            kernels::saxpy::record(t, Own(place), &x, &x, &mut out)
        })
    };
    for place in [one.slice(..0)?, one.slice(1..)?, two.slice(1..)?, two.as_slice()] {
        refused(record(place), &["does not begin with exactly its value"])?;
    }
    let mut tape = record(one.as_slice())?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, 33)?)?)?;
    near(&tape.gradient(&one)?.to_vec(&stream)?, &[66.0])
}

/// Both ends of a spring: by its stiffness, by one output alone, and by both.
fn several_outputs(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(312));
    let (n, step) = (37, 0.25f32);
    let (at, speed) = (random(&mut rng, n), random(&mut rng, n));
    let (x, v) = (buffer(&stream, &at)?, buffer(&stream, &speed)?);
    let (mut end, mut end_speed) = (ones(&stream, n)?, ones(&stream, n)?);
    let k = Variable::new(&stream, 0.5f32)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&k)?;
        t.watch(&x)?;
        kernels::swing::record(t, &k, step, 1, &x, &v, &mut end, &mut end_speed)
    })?;
    // v' = v - h k (x + x³), x' = x + h v'
    let force: f32 = at.iter().map(|x| x + x * x * x).sum();
    let by_speed: Vec<f32> = at.iter().map(|x| -step * 0.5 * (1.0 + 3.0 * x * x)).collect();
    let by_place: Vec<f32> = by_speed.iter().map(|d| 1.0 + step * d).collect();
    let one = ones(&stream, n)?;
    for (of_end, of_speed) in [(true, false), (false, true), (true, true)] {
        let mut seeds = Seeds::new();
        if of_end {
            seeds = seeds.with(&end, &one)?;
        }
        if of_speed {
            seeds = seeds.with(&end_speed, &one)?;
        }
        tape.backward_with(&stream, &seeds)?;
        let (a, b) = (f32::from(u8::from(of_end)), f32::from(u8::from(of_speed)));
        let wanted: Vec<f32> =
            by_place.iter().zip(&by_speed).map(|(place, speed)| a * place + b * speed).collect();
        near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
        let by_k = -step * force * (a * step + b);
        near(&tape.gradient(&k)?.to_vec(&stream)?, &[by_k])?;
    }
    Ok(())
}

fn structures(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(313));
    let n = 65;
    let mut three = || [2.0 * rng.float(), 2.0 * rng.float(), 2.0 * rng.float()];
    let host: Vec<Body> = (0..n)
        .map(|i| Body { at: three(), speed: three(), kind: i % 3, mass: 1.0 + i as f32 / 8.0 })
        .collect();
    let bodies = buffer(&stream, &host)?;
    let field = Field { gravity: 9.5, drag: 0.125 };
    let variable = Variable::new(&stream, field)?;
    let mut energy = DeviceBuffer::<f32>::zeroed(&stream, host.len())?;
    let mut next = DeviceBuffer::<[f32; 3]>::zeroed(&stream, host.len())?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&bodies)?;
        t.watch(&variable)?;
        kernels::energies::record(t, &variable, &bodies, &mut energy, &mut next)
    })?;
    let by_next = buffer(&stream, &vec![[1.0f32, 2.0, -1.0]; host.len()])?;
    let one = ones(&stream, host.len())?;
    let seeds = Seeds::new().with(&energy, &one)?.with(&next, &by_next)?;
    tape.backward_with(&stream, &seeds)?;
    let given = tape.gradient(&bodies)?.to_vec(&stream)?;
    let (mut wanted, mut by_gravity, mut by_drag) = (Vec::new(), 0.0, 0.0);
    for body in &host {
        let kept = 1.0 - field.drag * body.kind as f32;
        let square: f32 = body.speed.iter().map(|v| v * v).sum();
        wanted.push(Body {
            at: [1.0, 2.0, -1.0 + body.mass * field.gravity],
            speed: [0, 1, 2].map(|k| body.mass * body.speed[k] + kept * [1.0, 2.0, -1.0][k]),
            kind: 0,
            mass: 0.5 * square + field.gravity * body.at[2],
        });
        by_gravity += body.mass * body.at[2];
        by_drag -= body.kind as f32 * (body.speed[0] + 2.0 * body.speed[1] - body.speed[2]);
    }
    near(bytemuck::cast_slice(&given), bytemuck::cast_slice(&wanted))?;
    let given = tape.gradient(&variable)?.to_vec(&stream)?;
    near(bytemuck::cast_slice(&given), &[by_gravity, by_drag])
}

fn sums_by_atomics(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(314));
    for n in [1, 33, 700] {
        let host = random(&mut rng, n);
        let x = buffer(&stream, &host)?;
        let mut threads = DeviceBuffer::<u8>::zeroed(&stream, n)?;
        let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
        let wanted: Vec<f32> = host.iter().map(|x| 2.0 * x / n as f32).collect();
        for deterministic in [false, true] {
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            tape.record_again(&stream, |t| {
                t.watch(&x)?;
                t.fill(&mut sum, 0.0)?;
                kernels::mean_of_squares::record(t, &x, &mut threads, &mut sum)
            })?;
            tape.backward(&stream, &sum)?;
            near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
        }
        let mean: f32 = host.iter().map(|x| x * x).sum::<f32>() / n as f32;
        near(&sum.to_vec(&stream)?, &[mean])?;
    }
    Ok(())
}

/// `x = a x²`, twice.
fn in_place(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(315));
    let n = 200;
    let host = random(&mut rng, n);
    let (start, mut x) = (buffer(&stream, &host)?, ones(&stream, n)?);
    let a = Variable::new(&stream, 0.5f32)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&a)?;
        t.watch(&start)?;
        t.copy(&start, &mut x)?;
        kernels::square_in_place::record(t, &a, &mut x)?;
        kernels::square_in_place::record(t, &a, &mut x)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&x, &ones(&stream, n)?)?)?;
    let wanted: Vec<f32> = host.iter().map(|x| 4.0 * 0.125 * x.powi(3)).collect();
    near(&tape.gradient(&start)?.to_vec(&stream)?, &wanted)?;
    let wanted: f32 = host.iter().map(|x| 3.0 * 0.25 * x.powi(4)).sum();
    near(&tape.gradient(&a)?.to_vec(&stream)?, &[wanted])
}

fn outputs_without_a_gradient(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(316));
    let host = random(&mut rng, 40);
    let x = buffer(&stream, &host)?;
    let (mut out, mut sign) = (ones(&stream, 40)?, ones(&stream, 40)?);
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::with_flag::record(t, &x, &mut out, &mut sign)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, 40)?)?)?;
    let wanted: Vec<f32> = host.iter().map(|x| 3.0 * x * x).collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
    let wanted: Vec<f32> = host.iter().map(|x| if *x > 0.0 { 1.0 } else { -1.0 }).collect();
    near(&sign.to_vec(&stream)?, &wanted)?;
    // What takes values of `x` needs a gradient.
    let leaked = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::leaks::record(t, &x, &mut out, &mut sign)
    });
    refused(leaked, &["`copy` of `leaks`", "takes values"])?;
    // Without gradients it is launched as by `launch`.
    Tape::record(&stream, |t| kernels::leaks::record(t, &x, &mut out, &mut sign))?;
    near(&sign.to_vec(&stream)?, &host)
}

fn inputs_without_a_gradient(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(317));
    let (weights, host) = (random(&mut rng, 40), random(&mut rng, 40));
    let (w, x) = (buffer(&stream, &weights)?, buffer(&stream, &host)?);
    let mut out = ones(&stream, 40)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::weighted::record(t, &w, &x, &mut out)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, 40)?)?)?;
    let wanted: Vec<f32> = weights.iter().zip(&host).map(|(w, x)| 2.0 * w * x).collect();
    near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
    let watched = Tape::record(&stream, |t| {
        t.watch(&w)?;
        kernels::weighted::record(t, &w, &x, &mut out)
    });
    refused(watched, &["`kernel` of `weighted` depends on something watched"])?;
    // Of no elements there is nothing to record.
    let (empty, mut none) = (buffer::<f32>(&stream, &[])?, buffer::<f32>(&stream, &[])?);
    Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::weighted::record(t, &empty, &empty, &mut none)
    })?;
    let unequal = Tape::record(&stream, |t| kernels::weighted::record(t, &empty, &x, &mut out));
    refused(unequal, &["it needs", "kernel.len() = 0"])
}

/// Returns the place of a part of a file of kernels.
pub(super) fn line_in(file: &str, text: &str, part: &str) -> String {
    let before = text.find(part).map_or("", |at| &text[..at]);
    format!("src/rust/{file}:{}  ", before.lines().count())
}

/// Returns the place of the comment `refused: NAME` in the text of a file.
pub(super) fn line_of(text: &str, file: &str, name: &str) -> String {
    line_in(file, text, &format!("refused: {name}\n"))
}

fn what_has_no_adjoint_is_named(device: &TestDevice) -> TestResult {
    let line_of = |name: &str| line_of(include_str!("kernels.rs"), "kernels.rs", name);
    let stream = device.stream()?;
    let x = ones(&stream, 4)?;
    let (mut out, mut slots) = (ones(&stream, 4)?, DeviceBuffer::<u32>::zeroed(&stream, 4)?);
    let mut taken = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    // A first launch allocates the fault slot, and its error is not one of those below.
    kernels::weighted::launch(&stream, &x, &x, &mut out)?;
    let by_bits = Tape::record(&stream, |t| kernels::by_bits::record(t, &x, &mut out));
    refused(by_bits, &["`by_bits` can't be", &line_of("by_bits"), "integer instructions"])?;
    let by_place = Tape::record(&stream, |t| {
        kernels::by_place::record(t, &x, &mut out, &mut taken, &mut slots)
    });
    refused(by_place, &[&line_of("by_place"), "the result of an atomic operation"])?;
    let nothing = Tape::record(&stream, |t| kernels::of_nothing::record(t, &x, &mut out));
    refused(nothing, &[&line_of("of_nothing"), "no active output depends on `x`"])?;
    let mixed = buffer(&stream, &[kernels::Mixed { a: 1.0, b: [1.0, 2.0] }])?;
    let of_two =
        Tape::record(&stream, |t| kernels::of_two_types::record(t, &mixed, out.slice_mut(..1)?));
    refused(of_two, &["`of_two_types`: `x`", "several types"])?;
    ensure_eq!(out.to_vec(&stream)?, [1.0; 4]);
    let derived = tape::derivation(&stream, kernels::roots::kernel::<f32>())?;
    let places: Vec<_> = derived.kept.iter().filter_map(|kept| kept.place.as_ref()).collect();
    ensure!(!places.is_empty(), "{derived}");
    ensure!(places.iter().all(|place| place.file.starts_with("tape/tests/")), "{derived}");
    Ok(())
}

/// A thread whose index is out of bounds stops, in the adjoint too.
fn after_a_fault(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let x = buffer(&stream, &[1.0f32, 2.0, 3.0])?;
    let index = buffer(&stream, &[2u32, 7, 0, u32::MAX, 1])?;
    let mut out = ones(&stream, 5)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::gather::record(t, &index, &x, &mut out)
    })?;
    let waited = stream.synchronize();
    let is_fault = |kind: &ErrorKind| matches!(kind, ErrorKind::KernelFault(_));
    ensure!(waited.as_ref().is_err_and(|error| is_fault(error.kind())), "{waited:?}");
    ensure!(device.context().take_fault().is_some(), "the fault is recorded");
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones(&stream, 5)?)?)?;
    near(&tape.gradient(&x)?.to_vec(&stream)?, &[2.0, 4.0, 6.0])
}

/// A recording and a pass in one graph, launched with new data.
fn in_graphs(device: &TestDevice) -> TestResult {
    struct State {
        x: DeviceBuffer<f32>,
        threads: DeviceBuffer<u8>,
        y: DeviceBuffer<f32>,
        sum: DeviceBuffer<f32>,
        tape: Tape,
    }
    fn record(state: &mut State, stream: &Stream) -> Result<()> {
        let State { x, threads, y, sum, tape } = state;
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.fill(&mut *sum, 0.0)?;
            kernels::saxpy::record(t, 2.0, &*x, &*x, &mut *y)?;
            kernels::mean_of_squares::record(t, &*y, &mut *threads, &mut *sum)
        })?;
        tape.backward(stream, &*sum)
    }
    let (stream, n) = (device.stream()?, 64);
    let mut state = State {
        x: ones(&stream, n)?,
        threads: DeviceBuffer::zeroed(&stream, n)?,
        y: ones(&stream, n)?,
        sum: ones(&stream, 1)?,
        tape: Tape::new(&stream)?,
    };
    // The first recording loads the kernels, which a capture can't.
    record(&mut state, &stream)?;
    let mut graph = device.context().capture(state, |stream, state| record(state, stream))?;
    for value in [0.5f32, -3.0] {
        let x = vec![value; n];
        graph.state_mut().x.upload(&stream, &x)?;
        graph.launch(&stream)?;
        let state = graph.state();
        let wanted = vec![2.0 * 9.0 * value / n as f32; n];
        near(&state.tape.gradient(&state.x)?.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}
