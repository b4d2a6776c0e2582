//! Attacks on tapes that are recorded and run in graphs.

use std::cell::RefCell;

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream};
use geom_kernels::GeometryKernels;
use tape::{Seeds, Tape};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kernels, N, ghosts, numbers, untouched};
use crate::attack::attacks;
use crate::lab::Lab;

/// Asks for gradients of a captured pass before its graph was launched, and after the graph was dropped.
///
/// - row: an adjoint does not follow what a recording in a graph has not written
/// - targets: `Tape::gradient`, `Tape::backward`, `Context::capture`, `GraphExec::launch`
fn gradients_of_a_graph_that_never_ran(lab: &Lab) -> TestResult {
    let refusal =
        "the pass was captured in a graph that was never launched: there are no gradients";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&stream, &numbers(2))?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    // Loads the kernels, which a capture can't.
    tape.backward(&stream, &loss)?;
    let mut graph = context.capture(tape, |s, tape| tape.backward(s, &loss))?;
    lab.refused(graph.state().gradient(&x), refusal)?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().gradient(&x)?.to_vec(&stream)?, numbers(2));
    let tape = graph.into_state();
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    let mut tape = context.capture(tape, |s, tape| tape.backward(s, &loss))?.into_state();
    lab.refused(tape.gradient(&x), refusal)?;
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    Ok(())
}

/// What a graph works on.
struct State {
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    loss: DeviceBuffer<f32>,
    twice: DeviceBuffer<f32>,
    tape: Tape,
}

impl State {
    fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            x: DeviceBuffer::from_slice(stream, &numbers(1))?,
            y: DeviceBuffer::from_slice(stream, &numbers(2))?,
            loss: DeviceBuffer::zeroed(stream, 1)?,
            twice: DeviceBuffer::zeroed(stream, 1)?,
            tape: Tape::new(stream)?,
        })
    }

    /// Records (x y)², and runs the pass.
    fn run(&mut self, stream: &Stream, geometry: &GeometryKernels) -> Result<()> {
        let Self { x, y, loss, twice, tape } = self;
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            geometry.record_dot(t, &*x, &*y, &mut *loss)?;
            geometry.record_squared_norm(t, &*loss, &mut *twice)
        })?;
        tape.backward(stream, &*twice)
    }
}

/// Changes or drops a tape whose recording and pass a graph goes on to launch, between buffers that hide freed memory.
///
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - row: a pass that runs now and the launch of a graph
/// - targets: `Tape::reset`, `Tape::trim`, `Tape::record_again`, `Tape::backward`, `GraphExec::launch`
fn a_tape_changed_under_its_graph(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let mut state = State::new(&stream)?;
    state.run(&stream, &geometry)?;
    let dot: f32 = numbers(1).iter().zip(numbers(2)).map(|(x, y)| x * y).sum();
    let expected: Vec<f32> = numbers(2).iter().map(|y| 2.0 * dot * y).collect();
    let mut copy = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut graph = context.capture(Some(state), |s, state| {
        let Some(state) = state else { return Ok(()) };
        state.run(s, &geometry)?;
        copy.copy_from(s, state.tape.gradient(&state.x)?)
    })?;
    graph.launch(&stream)?;
    match (lab.variant(), graph.state_mut()) {
        ("reset", Some(state)) => {
            state.tape.reset();
            state.tape.trim();
        }
        ("recorded_again", Some(state)) => {
            let other = DeviceBuffer::from_slice(&stream, &[1.0f32; 4 * N])?;
            let mut sum = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
            state.tape.record_again(&stream, |t| {
                t.watch(&other)?;
                geometry.record_squared_norm(t, &other, &mut sum)
            })?;
            state.tape.backward(&stream, &sum)?;
            graph.launch(&stream)?;
            if let Some(state) = graph.state() {
                let seen = state.tape.gradient(&other)?.to_vec(&stream)?;
                ensure_eq!(seen, [2.0; 4 * N]);
            }
        }
        ("passed_again", Some(state)) => {
            state.run(&stream, &geometry)?;
            ensure_eq!(state.tape.gradient(&state.x)?.to_vec(&stream)?, expected);
        }
        (_, state) => drop(state.take()),
    }
    let hidden = ghosts(&context, &stream)?;
    for _ in 0..3 {
        graph.launch(&stream)?;
    }
    stream.synchronize()?;
    drop(graph);
    ensure!(untouched(&stream, &hidden)?, "the graph wrote to memory of others");
    ensure_eq!(copy.to_vec(&stream)?, expected);
    Ok(())
}

/// Records in the body of a conditional that is skipped, and runs the pass outside of the graph or in another one.
///
/// - row: an adjoint does not follow what a recording in a graph has not written
/// - targets: `Stream::record_if`, `Tape::record_again`, `Tape::backward`, `Tape::check`
fn a_recording_that_was_skipped(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let mut state = State::new(&stream)?;
    let flag = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    state.run(&stream, &geometry)?;
    let record = |s: &Stream, State { x, y, loss, tape, .. }: &mut State| {
        tape.record_again(s, |t| {
            t.watch(&*x)?;
            geometry.record_dot(t, &*x, &*y, &mut *loss)?;
            // The tape keeps a copy of y, which a skipped body does not make.
            t.fill(&mut *y, 3.0)
        })
    };
    record(&stream, &mut state)?;
    state.tape.backward(&stream, &state.loss)?;
    state.y.upload(&stream, &numbers(4))?;
    let mut graph = context.capture(state, |s, state| s.record_if(&flag, |s| record(s, state)))?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    // The body was skipped: an error by the end of the check, or y as it still is.
    let State { x, loss, tape, .. } = graph.state_mut();
    let (passed, seen) = match lab.variant() {
        "now" => {
            let passed = tape.backward(&stream, &*loss).and_then(|()| tape.check(&stream));
            (passed, tape.gradient(&*x).and_then(|gradient| gradient.to_vec(&stream)))
        }
        _ => {
            let State { x, loss, tape, .. } = graph.into_state();
            let mut back = match context.capture(tape, |s, tape| tape.backward(s, &loss)) {
                Ok(back) => back,
                Err(error) => return lab.refused(Err::<(), _>(error), "what the gradient is taken of depends on something watched, and was written since by"),
            };
            let passed = back.launch(&stream).and_then(|()| back.state_mut().check(&stream));
            let seen = back.state().gradient(&x).and_then(|gradient| gradient.to_vec(&stream));
            (passed, seen)
        }
    };
    if passed.is_ok() {
        ensure_eq!(seen?, numbers(4));
    }
    Ok(())
}

/// Takes streams out of captures that a tape is recorded in, and uses them when the captures have ended.
///
/// - row: a stream of a recording that has ended does nothing
/// - targets: `Recorder::stream`, `Tape::new`, `Tape::record_again`, `Tape::backward_with`, `Tape::check`
fn streams_out_of_recordings(lab: &Lab) -> TestResult {
    let refusal = "a tape's memory can't be at home on a stream that captures";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let mut state = State::new(&stream)?;
    state.run(&stream, &geometry)?;
    let seed = DeviceBuffer::from_slice(&stream, &[1.0f32])?;
    let taken = (state, None, None);
    let mut graph = context.capture(taken, |s, (state, taken, made)| {
        *made = Some(Tape::new(s));
        let State { x, y, loss, tape, .. } = state;
        tape.record_again(s, |t| {
            *taken = Some(t.stream().clone());
            t.watch(&*x)?;
            geometry.record_dot(t, &*x, &*y, &mut *loss)
        })?;
        // A recording does not wait.
        ensure_refused(tape.check(s))
    })?;
    graph.launch(&stream)?;
    let (State { x, y, mut loss, mut tape, .. }, taken, made) = graph.into_state();
    let (Some(ended), Some(made)) = (taken, made) else { return Err(Failure::new("not run")) };
    lab.refused(made, refusal)?;
    lab.refused(
        tape.backward_with(&ended, &Seeds::new().with(&loss, &seed)?),
        "what the gradient is taken of depends on something watched, and was written since by",
    )?;
    lab.refused(Tape::new(&ended), refusal)?;
    lab.refused(tape.check(&ended), "a download can't be recorded")?;
    lab.refused(
        tape.record_again(&ended, |t| {
            t.watch(&x)?;
            geometry.record_dot(t, &x, &y, &mut loss)
        }),
        "the recording that this stream belongs to has ended",
    )?;
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, numbers(2));
    Ok(())
}

fn ensure_refused<T>(result: Result<T>) -> Result<()> {
    match result {
        Ok(_) => Err(cuda_safe::Error::invalid("a call that waits was recorded")),
        Err(_) => Ok(()),
    }
}

/// Launches the graph of a pass again and again in one thread, while another one runs passes of the same tape's
/// buffers, and a third one fills what both read.
///
/// - row: a pass that runs now and the launch of a graph
/// - row: nothing slips in between
/// - targets: `GraphExec::launch`, `Tape::backward`, `Tape::gradient`, `DeviceBuffer::fill`
fn passes_beside_a_graph_of_a_pass(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, one, two) = (context.stream()?, context.stream()?, context.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let x = DeviceBuffer::from_slice(&stream, &numbers(1))?;
    let y = DeviceBuffer::from_slice(&stream, &[2.0f32; N])?;
    let mut copy = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut second_loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_dot(t, &x, &y, &mut loss)
    })?;
    tape.backward(&stream, &loss)?;
    let mut graph = context.capture((), |s, ()| {
        kernels.put(s, LaunchConfig::cover(N, 64), f32::NAN, &mut copy, N as u32)?;
        tape.backward(s, &loss)?;
        copy.copy_from(s, tape.gradient(&x)?)
    })?;
    std::thread::scope(|scope| {
        let launching = scope.spawn(|| -> TestResult {
            for _ in 0..10 {
                graph.launch(&one)?;
            }
            Ok(one.synchronize()?)
        });
        let passing = scope.spawn(|| -> TestResult {
            for _ in 0..5 {
                let mut tape = Tape::record(&two, |t| {
                    t.watch(&x)?;
                    geometry.record_dot(t, &x, &y, &mut second_loss)
                })?;
                tape.backward(&two, &second_loss)?;
                ensure_eq!(tape.gradient(&x)?.to_vec(&two)?, [2.0; N]);
            }
            Ok(())
        });
        launching.join().map_err(|_| Failure::new("a panic"))??;
        passing.join().map_err(|_| Failure::new("a panic"))?
    })?;
    drop(graph);
    ensure_eq!(copy.to_vec(&stream)?, [2.0; N]);
    Ok(())
}

/// Names the launches of recorded steps, and those before them, and changes what is named before the pass.
///
/// - row: a node whose output an adjoint reads
/// - row: a pass reads what was recorded
/// - targets: `Stream::last_node`, `GraphExec::update`, `Tape::record_again`, `Recorder::copy`, `Recorder::stream`
fn nodes_that_adjoints_rely_on(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (geometry, kernels) = (GeometryKernels::new(&context), Kernels::load(&context)?);
    let zeros = || DeviceBuffer::<f32>::zeroed(&stream, N);
    let one = || DeviceBuffer::<f32>::zeroed(&stream, 1);
    let state = ([zeros()?, zeros()?, zeros()?], [one()?, one()?], Tape::new(&stream)?);
    let launch = LaunchConfig::cover(N, 64);
    // Loads the kernels, which a capture can't.
    let mut warm = Tape::record(&stream, |t| {
        let mut sum = one()?;
        t.watch(&state.0[0])?;
        geometry.record_squared_norm(t, &state.0[0], &mut sum)?;
        geometry.record_dot(t, &state.0[0], &state.0[1], &mut sum)
    })?;
    warm.trim();
    let refused = RefCell::new(Vec::new());
    let kernels = &kernels;
    let mut graph = context.capture(state, |s, ([x, y, z], [norm, dot], tape)| {
        kernels.put(s, launch, 3.0, &mut *x, N as u32)?;
        // Not recorded, and before all that is: it may be changed, and all that follows sees it.
        s.last_node()?;
        kernels.put(s, launch, 2.0, &mut *y, N as u32)?;
        tape.record_again(s, |t| {
            t.watch(&*x)?;
            // The launch before the recording is still the last one.
            t.stream().last_node()?;
            geometry.record_squared_norm(t, &*x, &mut *norm)?;
            refused.borrow_mut().push(t.stream().last_node().map(drop));
            t.copy(&*x, &mut *z)?;
            refused.borrow_mut().push(t.stream().last_node().map(drop));
            geometry.record_dot(t, &*z, &*y, &mut *dot)?;
            refused.borrow_mut().push(t.stream().clone().last_node().map(drop));
            refused.borrow_mut().push(t.stream().fork()?.last_node().map(drop));
            Ok(())
        })?;
        refused.borrow_mut().push(s.last_node().map(drop));
        tape.backward(s, &*dot)?;
        refused.borrow_mut().push(s.last_node().map(drop));
        Ok(())
    })?;
    ensure_eq!(refused.borrow().len(), 6);
    for refused in refused.take() {
        lab.refused(refused, "no launch of a kernel, or is named already")?;
    }
    let nodes: Vec<_> = graph.nodes().collect();
    ensure_eq!(nodes.len(), 2);
    graph.launch(&stream)?;
    ensure_eq!(graph.state().2.gradient(&graph.state().0[0])?.to_vec(&stream)?, [2.0; N]);
    for value in [5.0f32, -1.0, 7.5] {
        graph.update(nodes[1], move |s, ([_, y, _], ..)| {
            kernels.put(s, launch, value, y, N as u32)
        })?;
        graph.update(nodes[0], move |s, ([x, ..], ..)| {
            kernels.put(s, launch, -value, x, N as u32)
        })?;
        graph.launch(&stream)?;
        let ([x, ..], [_, dot], tape) = graph.state();
        ensure_eq!(tape.gradient(x)?.to_vec(&stream)?, [value; N]);
        ensure_eq!(dot.to_vec(&stream)?, [-value * value * N as f32]);
    }
    // A pass outside of the graph reads what its last launch has recorded, or is refused.
    let ([x, ..], [norm, _], tape) = graph.state_mut();
    if tape.backward(&stream, &*norm).is_ok() {
        ensure_eq!(tape.gradient(&*x)?.to_vec(&stream)?, [-15.0; N]);
    }
    Ok(())
}

attacks![
    "tape",
    refused(gradients_of_a_graph_that_never_ran),
    right(a_tape_changed_under_its_graph).variants(&[
        "dropped",
        "reset",
        "recorded_again",
        "passed_again"
    ]),
    right(a_recording_that_was_skipped).variants(&["now", "graph"]),
    refused(streams_out_of_recordings),
    right(passes_beside_a_graph_of_a_pass),
    refused(nodes_that_adjoints_rely_on),
];
