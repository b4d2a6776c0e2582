//! Attacks by drops of what states, closures and host functions own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use cuda_safe::{Context, DeviceBuffer, GraphBuilder, GraphExec, Result, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::everything;
use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all, on_purpose};
use crate::lab::Lab;

/// Uses the crate when it is dropped, and says how that went.
struct UsesGraphs {
    context: Context,
    x: DeviceBuffer<u32>,
    results: mpsc::Sender<Result<()>>,
}

impl Drop for UsesGraphs {
    fn drop(&mut self) {
        let used = everything(&self.context);
        let filled = self.context.stream().and_then(|s| self.x.fill(&s, 9));
        // The receiver waits for this alone.
        let _ = self.results.send(used.and(filled));
    }
}

/// Drops states and closures of graphs, whose drops record, launch and drop other graphs and wait for a thread.
///
/// - row: drops of what host functions, tokens
/// - targets: `Context::capture`, `GraphExec::into_state`, `GraphExec::state_mut`, `GraphBuilder::new`,
///   `GraphExec::recapture`, `GraphExec::try_clone`
fn states_that_use_graphs(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (send, results) = mpsc::channel();
    let state = || -> Result<_> {
        let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        Ok(Some(UsesGraphs { context: context.clone(), x, results: send.clone() }))
    };
    let record = |s: &Stream, state: &mut Option<UsesGraphs>| {
        state.as_mut().map_or(Ok(()), |state| state.x.fill(s, 1))
    };
    let made = || -> Result<GraphExec<'static, Option<UsesGraphs>>> {
        let mut graph = context.capture(state()?, record)?;
        graph.launch(&stream)?;
        Ok(graph)
    };
    match lab.variant() {
        "graph" => drop(made()?),
        "clone" => {
            let mut graph = context.capture((), |_, ()| Ok(()))?;
            drop(graph.try_clone(state()?)?);
        }
        "replaced" => {
            let mut graph = made()?;
            *graph.state_mut() = None;
            graph.launch(&stream)?;
        }
        "failed" => {
            let failed = context.capture(state()?, |s, state| {
                record(s, state)?;
                Err(on_purpose())
            });
            ensure!(failed.is_err());
        }
        "panicked" => {
            let failed = catch_unwind(AssertUnwindSafe(|| {
                context.capture(state()?, |s, state| {
                    record(s, state)?;
                    std::panic::panic_any("on purpose")
                })
            }));
            ensure!(failed.is_err());
        }
        "builder" => drop(GraphBuilder::new(&context, state()?)?),
        "part" => {
            let mut builder = GraphBuilder::new(&context, state()?)?;
            builder.add(&[], record)?;
            ensure!(builder.add(&[], |_, _| Err(on_purpose())).is_err());
            drop(builder);
        }
        "thread" => {
            let graph = made()?;
            thread::spawn(move || drop(graph)).join().map_err(|_| Failure::new("a panic"))?;
        }
        "closure" => {
            // Dropped as the closure returns, while the recording goes on.
            let owned = state()?;
            drop(context.capture((), move |_, ()| {
                drop(owned);
                Ok(())
            })?);
        }
        "in a capture" => {
            let graph = made()?;
            drop(context.capture((), move |_, ()| {
                drop(graph);
                Ok(())
            })?);
        }
        _ => {
            let graph = made()?;
            let memory = graph.state().as_ref().map(|state| state.x.allocation().clone());
            // The thread of the drop would wait for the sequence: the state alone must not come first.
            let state = stream.graph_lock(&memory).run(|| Ok(graph.into_state()))?;
            drop(state);
        }
    }
    results.recv_timeout(Duration::from_secs(10))??;
    ensure!(results.try_recv().is_err(), "a state was dropped twice");
    everything(&context)?;
    Ok(())
}

/// Panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any("in a drop");
    }
}

/// Drops graphs whose state panics as it is dropped, and looks whether the memory that the graph used stays for ever.
///
/// - row: drops of what host functions, tokens
/// - row: nothing of that lives longer
/// - targets: `Context::capture`, `GraphExec::launch`, `DeviceBuffer::allocation`, `GraphBuilder::instantiate`,
///   `GraphExec::try_clone`
fn states_that_panic(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    for round in 1..4 {
        let drops = Arc::new(AtomicUsize::new(0));
        let bomb = Bomb(drops.clone());
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let kept = Arc::downgrade(x.allocation());
        let dropped = match lab.variant() {
            "graph" => {
                let mut graph =
                    context.capture((bomb, ()), |s, _| kit.add(s, all(), 1, &mut x, LEN))?;
                graph.launch(&stream)?;
                catch_unwind(AssertUnwindSafe(|| drop(graph)))
            }
            "clone" => {
                let mut graph = context.capture((), |s, ()| kit.add(s, all(), 1, &mut x, LEN))?;
                let mut clone = graph.try_clone(bomb)?;
                clone.launch(&stream)?;
                drop(graph);
                catch_unwind(AssertUnwindSafe(|| drop(clone)))
            }
            "builder" => {
                let mut builder = GraphBuilder::new(&context, bomb)?;
                builder.add(&[], |s, _| kit.add(s, all(), 1, &mut x, LEN))?;
                let mut graph = builder.instantiate()?;
                graph.launch(&stream)?;
                catch_unwind(AssertUnwindSafe(|| drop(graph)))
            }
            "closure" => {
                let recorded = &mut x;
                let kit = &kit;
                let captured = catch_unwind(AssertUnwindSafe(|| {
                    context.capture((), move |s, ()| {
                        let _bomb = bomb;
                        kit.add(s, all(), 1, recorded, LEN)
                    })
                }));
                let captured = captured.map(drop);
                ensure!(!context.is_recording(), "the context still records");
                kit.add(&stream, all(), 1, &mut x, LEN)?;
                captured
            }
            _ => {
                let graph = context.capture((), |s, ()| {
                    s.host_function_mut(move || {
                        let _ = &bomb;
                    })?;
                    kit.add(s, all(), 1, &mut x, LEN)
                });
                let mut graph = graph?;
                graph.launch(&stream)?;
                stream.synchronize()?;
                drop(graph);
                // Not with a panic out of a drop: the function is the crate's to drop.
                Err(Box::new(()) as _)
            }
        };
        ensure!(dropped.is_err(), "the panic is lost");
        ensure_eq!(x.to_vec(&stream)?, [1; N]);
        drop(x);
        stream.synchronize()?;
        context.free_deferred()?;
        ensure_eq!(drops.load(Ordering::SeqCst), 1, "round {round}");
        ensure!(kept.upgrade().is_none(), "round {round}: memory is kept for ever");
    }
    everything(&context)?;
    Ok(())
}

/// The graph that its own host function takes away.
type Taken = Arc<Mutex<Option<GraphExec<'static, DeviceBuffer<u32>>>>>;

/// Drops a graph in the host function of that graph, while it is called, and looks whether what the function owns
/// lives until its call has ended.
///
/// - row: host functions
/// - row: drops of what host functions, tokens
/// - row: it is never called after it was dropped
/// - targets: `Stream::host_function_mut`, `GraphExec::launch`, `Context::free_deferred`
fn a_function_that_drops_its_graph(lab: &Lab) -> TestResult {
    struct Owned(Arc<AtomicUsize>);
    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    for _ in 0..4 {
        let taken = Taken::default();
        let drops = Arc::new(AtomicUsize::new(0));
        let (seen, sees) = mpsc::channel();
        let (own, owned, counted) = (taken.clone(), Owned(drops.clone()), drops.clone());
        let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let kept = Arc::downgrade(x.allocation());
        let graph = context.capture(x, move |s, x| {
            s.host_function_mut(move || {
                let _owned = &owned;
                let graph = own.lock().unwrap_or_else(PoisonError::into_inner).take();
                let was_there = graph.is_some();
                // The drop must not wait for this very call, nor free what it owns.
                drop(graph);
                // The receiver waits, or the attack has failed.
                let _ = seen.send((was_there, counted.load(Ordering::SeqCst)));
            })?;
            // Runs when the graph is gone.
            x.fill(s, 6)
        })?;
        let mut held = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = held.insert(graph);
        graph.launch(&stream)?;
        drop(held);
        let mut other = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        other.fill(&stream, 5)?;
        ensure_eq!(other.to_vec(&stream)?, [5; N]);
        ensure_eq!(sees.recv_timeout(Duration::from_secs(10))?, (true, 0));
        context.synchronize()?;
        context.free_deferred()?;
        let begin = std::time::Instant::now();
        while drops.load(Ordering::SeqCst) == 0 {
            ensure!(begin.elapsed() < Duration::from_secs(10), "the function is never dropped");
            thread::yield_now();
        }
        ensure_eq!(drops.load(Ordering::SeqCst), 1);
        ensure!(kept.upgrade().is_none(), "memory of the graph is kept");
    }
    // A graph that is dropped on the driver's thread waits for its end in the context's list.
    drop(context.take_drop_errors());
    Ok(())
}

/// Panics in a host function of a graph at every second call, with a value whose drop uses the crate, and in between
/// changes the graph.
///
/// - row: host functions
/// - row: a panic in it, or in what it drops
/// - row: drops of what host functions, tokens
/// - targets: `Stream::host_function_mut`, `GraphExec::recapture`, `GraphExec::try_clone`
fn functions_that_panic_again_and_again(lab: &Lab) -> TestResult {
    struct Payload {
        context: Context,
        drops: Arc<AtomicUsize>,
    }
    impl Drop for Payload {
        fn drop(&mut self) {
            // Refused on the driver's thread or not: it must neither hang nor spoil the device.
            if let Ok(stream) = self.context.stream() {
                drop(DeviceBuffer::from_slice(&stream, &[1u32; 9]));
            }
            let _ = self.context.free_deferred();
            self.drops.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (calls, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let record = |s: &Stream, x: &mut DeviceBuffer<u32>| {
        let (calls, drops, context) = (calls.clone(), drops.clone(), context.clone());
        s.host_function_mut(move || {
            if calls.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                std::panic::resume_unwind(Box::new(Payload {
                    context: context.clone(),
                    drops: drops.clone(),
                }));
            }
        })?;
        x.fill(s, 8)
    };
    let mut graph = context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, record)?;
    for round in 0..6 {
        graph.launch(&stream)?;
        let mut clone = graph.try_clone(())?;
        clone.launch(&stream)?;
        ensure_eq!(graph.state().to_vec(&stream)?, [8; N]);
        stream.synchronize()?;
        ensure_eq!(calls.load(Ordering::SeqCst), 2 * round + 2);
        ensure_eq!(drops.load(Ordering::SeqCst), round + 1);
        drop(clone);
        let _ = graph.recapture(record)?;
        graph.state_mut().fill(&stream, 0)?;
    }
    drop(graph);
    context.free_deferred()?;
    drop(context.take_drop_errors());
    Ok(())
}

attacks![
    "user_code",
    right(states_that_use_graphs).variants(&[
        "graph",
        "clone",
        "replaced",
        "failed",
        "panicked",
        "builder",
        "part",
        "thread",
        "closure",
        "in a capture",
        "in a sequence"
    ]),
    right(states_that_panic).variants(&["graph", "clone", "builder", "closure", "function"]),
    right(a_function_that_drops_its_graph),
    right(functions_that_panic_again_and_again),
];
