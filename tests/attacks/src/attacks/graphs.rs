//! Attacks on graphs.

pub(super) mod bodies;
pub(super) mod changes;
pub(super) mod kit;
pub(super) mod memory;
pub(super) mod order;
pub(super) mod recording;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use cuda_safe::{DeviceBuffer, GraphExec, LaunchConfig, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::algorithms::Algorithms;
use test_harness::{Failure, TestResult, ensure, ensure_eq};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i if i < n.
    unsafe in r#"
        extern "C" __global__ void fill(float v, float* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v;
        }
    "# {
        safe fn fill(v: f32, x: &mut [f32], n: u32) where n <= x.len();
    }
}

/// Asks the stream inside `GraphExec::update` for its priority, and goes on using the context.
///
/// - row: every method that takes a stream works or is refused
/// - row: a changed node keeps what it uses now
/// - targets: `Stream::priority`, `GraphExec::update`, `GraphExec::nodes`, `Stream::last_node`
fn priority_inside_an_update(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let mut graph = context.capture(x, |s, x| {
        kernels.fill(s, LaunchConfig::cover(64, 64), 1.0, &mut *x, 64)?;
        s.last_node().map(drop)
    })?;
    let node = graph.nodes().next().ok_or_else(|| Failure::new("the launch has no node"))?;
    graph.update(node, |s, x| {
        // The stream has no handle of the driver, which must not be asked.
        match s.priority() {
            Err(error) if error.code().is_some() => return Err(error),
            _ => {}
        }
        kernels.fill(s, LaunchConfig::cover(64, 64), 2.0, &mut *x, 64)
    })?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [2.0; 64]);
    drop(context.stream()?);
    Ok(())
}

/// Sends a recording's stream to a thread, which records there what only that thread has borrowed.
///
/// - row: what its closures have borrowed stays borrowed
/// - targets: `Context::capture`, `DeviceBuffer::as_slice`, `GraphExec::launch`
fn recording_sent_to_a_thread(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let (give, take) = mpsc::channel::<Stream>();
    let (done, wait) = mpsc::channel::<()>();
    let captured = std::thread::scope(|scope| {
        let x = &mut x;
        scope.spawn(move || {
            if let Ok(recording) = take.recv() {
                // Refused, it is withstood.
                let _ = x.fill(&recording, 9.0);
            }
            drop(done);
        });
        context.capture((), move |stream, ()| {
            // A scoped thread ends in any case.
            let _ = give.send(stream.clone());
            drop(give);
            let _ = wait.recv();
            Ok(())
        })
    });
    let view = x.as_slice();
    let before = view.to_vec(&stream)?;
    if let Ok(mut graph) = captured {
        graph.launch(&stream)?;
    }
    ensure_eq!(view.to_vec(&stream)?, before, "a launch changed memory under a view");
    Ok(())
}

/// Keeps the stream of a recording, and uses it after the recording has ended.
///
/// - row: a stream of a recording that has ended does nothing
/// - targets: `Context::capture`, `Stream::fork`
fn stream_of_an_ended_recording(lab: &Lab) -> TestResult {
    let refusal = "record";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let mut graph = context.capture(Vec::new(), |stream, kept| {
        kept.push(stream.clone());
        kept.push(stream.fork()?);
        Ok(())
    })?;
    let kept = std::mem::take(graph.state_mut());
    for ended in &kept {
        lab.refused(x.fill(ended, 1.0), refusal)?;
        lab.refused(DeviceBuffer::<f32>::zeroed(ended, 64).map(drop), refusal)?;
    }
    drop((graph, kept));
    ensure_eq!(x.to_vec(&stream)?, [0.0; 64]);
    Ok(())
}

/// Drops the memory of a graph that its state has given up, and launches the graph.
///
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - row: nothing of that lives longer
/// - targets: `Context::capture`, `GraphExec::launch`, `GraphExec::into_state`
fn state_given_up_before_a_launch(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let state = Some((DeviceBuffer::<f32>::zeroed(&stream, 1 << 14)?, kernels));
    let mut graph = context.capture(state, |s, state| match state {
        Some((x, kernels)) => kernels.fill(s, LaunchConfig::cover(1 << 14, 128), 3.0, x, 1 << 14),
        None => Ok(()),
    })?;
    drop(graph.state_mut().take());
    context.free_deferred()?;
    let others: Vec<_> =
        (0..8).map(|_| DeviceBuffer::<f32>::zeroed(&stream, 1 << 14)).collect::<Result<_, _>>()?;
    for _ in 0..3 {
        graph.launch(&stream)?;
    }
    for other in &others {
        ensure!(
            other.to_vec(&stream)?.iter().all(|x| *x == 0.0),
            "a launch wrote memory of others"
        );
    }
    drop(graph.into_state());
    Ok(())
}

/// The graph that the subscriber launches, and the stream to launch it on.
static BETWEEN: Mutex<Option<(GraphExec<'static, ()>, Stream)>> = Mutex::new(None);
/// How often it was launched between others.
static LAUNCHED: AtomicUsize = AtomicUsize::new(0);

struct Launches;

impl Subscriber for Launches {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_safe"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        // Not while this very launch reports itself.
        if let Ok(mut between) = BETWEEN.try_lock()
            && let Some((graph, stream)) = &mut *between
            && graph.launch(stream).is_ok()
        {
            LAUNCHED.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Launches a graph from a `tracing` subscriber, between the launches of a sort: the graph overwrites the sort's
/// scratch memory.
///
/// - row: subscribers of `tracing`
/// - row: several enqueues that belong together
/// - targets: `Algorithms::with_scratch`, `GeometryKernels::algorithms`, `Context::capture`
fn subscriber_launches_between_launches(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let n = 20_000;
    let sort = GeometryKernels::new(&context).algorithms();
    let keys: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let mut expected = keys.clone();
    expected.sort_unstable();
    let keys = DeviceBuffer::from_slice(&stream, &keys)?;
    let mut sorted = DeviceBuffer::<u32>::zeroed(&stream, n)?;
    // Loads the kernels.
    sort.sort_keys(&stream, &keys, &mut sorted, ..)?;
    let scratch = DeviceBuffer::<u8>::zeroed(&stream, Algorithms::keys_scratch::<u32>(n, ..)?)?;
    let mut graph = context.capture(Some(scratch), |s, x| match x {
        Some(x) => x.fill(s, 0x55),
        None => Ok(()),
    })?;
    let Some(mut scratch) = graph.state_mut().take() else { return Ok(()) };
    let own = graph.try_clone(())?;
    *BETWEEN.lock().unwrap_or_else(PoisonError::into_inner) = Some((own, context.stream()?));
    tracing::subscriber::set_global_default(Launches)
        .map_err(|error| Failure::new(error.to_string()))?;
    let mut results = Vec::new();
    for _ in 0..5 {
        results.push(sort.with_scratch(&mut scratch).sort_keys(&stream, &keys, &mut sorted, ..));
        results.push(stream.synchronize());
        let seen = sorted.to_vec(&stream)?;
        ensure!(seen == expected, "a launch came between those of a sort");
    }
    *BETWEEN.lock().unwrap_or_else(PoisonError::into_inner) = None;
    results.into_iter().collect::<Result<(), _>>()?;
    println!("{} launches of the subscriber", LAUNCHED.load(Ordering::Relaxed));
    Ok(())
}

/// Names a launch with `last_node` where there is none, and updates a node of another graph.
///
/// - row: a recapture that fails leaves the graph as it was
/// - targets: `Stream::last_node`, `GraphExec::update`, `GraphExec::recapture`
fn nodes_of_other_graphs(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let capture = || {
        let x = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
        context.capture(x, |s, x| {
            kernels.fill(s, LaunchConfig::cover(64, 64), 1.0, &mut *x, 64)?;
            s.last_node().map(drop)
        })
    };
    let (one, mut two) = (capture()?, capture()?);
    let node = one.nodes().next().ok_or_else(|| Failure::new("the launch has no node"))?;
    lab.refused(
        two.update(node, |s, x| kernels.fill(s, LaunchConfig::cover(64, 64), 2.0, &mut *x, 64)),
        "node",
    )?;
    let failed = two.recapture(|s, x| {
        kernels.fill(s, LaunchConfig::cover(64, 64), 3.0, &mut *x, 64)?;
        Err(cuda_safe::Error::invalid("on purpose"))
    });
    ensure!(failed.is_err(), "a recapture that fails");
    two.launch(&stream)?;
    ensure_eq!(two.state().to_vec(&stream)?, [1.0; 64]);
    Ok(())
}

/// Forgets a prepared sequence in another thread, and launches a graph that uses its memory.
///
/// - row: several enqueues that belong together
/// - targets: `Stream::graph_lock`, `GraphExec::launch`
fn forgotten_sequence(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let shared = DeviceBuffer::from_slice(&stream, &[3.0f32; 100])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 100)?;
    let state = &mut out;
    let mut graph = context.capture(state, |s, out| out.copy_from(s, &shared))?;
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(stream.graph_lock([shared.allocation()])));
    });
    graph.launch(&stream)?;
    drop(graph);
    ensure_eq!(out.to_vec(&stream)?, [3.0; 100]);
    Ok(())
}

attacks![
    "graphs",
    right(priority_inside_an_update),
    right(recording_sent_to_a_thread),
    refused(stream_of_an_ended_recording),
    right(state_given_up_before_a_launch),
    right(subscriber_launches_between_launches).limit(15),
    refused(nodes_of_other_graphs),
    right(forgotten_sequence).limit(10),
];
