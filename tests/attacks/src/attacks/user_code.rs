//! Attacks by code of users that the crate runs: closures, panic hooks, drops, wakers.

pub(super) mod drops;
pub(super) mod locks;
pub(super) mod subscribers;
pub(super) mod wakers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use cuda_safe::{Context, DeviceBuffer, Error, GraphBuilder, GraphExec, Result, Stream};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all, on_purpose, unnamed};
use crate::lab::Lab;

/// Records, changes, launches and drops graphs, and waits for a thread that does so too.
fn everything(context: &Context) -> Result<()> {
    let work = || -> Result<()> {
        let stream = context.stream()?;
        let kit = Kit::load(context)?;
        let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let mut graph = context.capture(x, |s, x| {
            kit.add(s, all(), 1, &mut *x, LEN)?;
            s.last_node().map(drop)
        })?;
        graph.launch(&stream)?;
        let node = graph.nodes().next().ok_or_else(on_purpose)?;
        graph.update(node, |s, x| kit.add(s, all(), 10, x, LEN))?;
        graph.launch(&stream)?;
        let _ = graph.recapture(|s, x| kit.add(s, all(), 100, x, LEN))?;
        graph.launch(&stream)?;
        stream.graph_lock([graph.state().allocation()]).run(|| graph.launch(&stream))?;
        drop(graph.try_clone(())?);
        let mut x = graph.into_state();
        kit.add(&stream, all(), 1000, &mut x, LEN)?;
        drop(kit);
        Ok(())
    };
    work()?;
    let joined = thread::scope(|scope| scope.spawn(work).join());
    joined.unwrap_or_else(|_| Err(Error::invalid("a thread panicked")))
}

/// Uses graphs in every closure that records, there and on a thread that the closure waits for, and panics behind that
/// or does not.
///
/// - row: closures of `capture`, `update`, `recapture`
/// - row: a capture is not spoilt by safe calls
/// - targets: `Context::capture`, `GraphExec::update`, `GraphExec::recapture`, `GraphBuilder::add`,
///   `Stream::record_if`, `Stream::record_while`, `GraphExec::try_clone`
fn closures_that_use_graphs(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (context, kit) = (&context, &Kit::load(&context)?);
    let calls = &AtomicUsize::new(0);
    for panics in [true, false] {
        let enter = || -> Result<()> {
            everything(context)?;
            calls.fetch_add(1, Ordering::SeqCst);
            assert!(!panics, "on purpose");
            Ok(())
        };
        let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let mut flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
        let mut named = context.capture(x, |s, x| {
            kit.add(s, all(), 1, &mut *x, LEN)?;
            s.last_node().map(drop)
        })?;
        let node = named.nodes().next().ok_or_else(unnamed)?;
        let result = catch_unwind(AssertUnwindSafe(|| -> Result<Vec<u32>> {
            let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
            let mut graph: GraphExec<'_, DeviceBuffer<u32>> = match lab.variant() {
                "capture" => context.capture(x, |s, x| {
                    enter()?;
                    kit.add(s, all(), 5, x, LEN)
                })?,
                "part" => {
                    let mut builder = GraphBuilder::new(context, x)?;
                    builder.add(&[], |s, x| {
                        enter()?;
                        kit.add(s, all(), 5, x, LEN)
                    })?;
                    builder.instantiate()?
                }
                "condition" => context.capture(x, |s, x| {
                    s.record_if(&flag, |s| {
                        enter()?;
                        kit.add(s, all(), 5, x, LEN)
                    })
                })?,
                "loop" => context.capture(x, |s, x| {
                    s.record_while(&mut flag, |s, mut flag| {
                        enter()?;
                        kit.add(s, all(), 5, x, LEN)?;
                        kit.countdown(s, (1, 1), &mut flag)
                    })
                })?,
                variant => {
                    if variant == "update" {
                        named.update(node, |s, x| {
                            enter()?;
                            kit.add(s, all(), 5, x, LEN)
                        })?;
                    } else {
                        let _ = named.recapture(|s, x| {
                            enter()?;
                            kit.add(s, all(), 5, x, LEN)
                        })?;
                    }
                    named.launch(&stream)?;
                    return named.state().to_vec(&stream);
                }
            };
            graph.launch(&stream)?;
            graph.state().to_vec(&stream)
        }));
        ensure!(!context.is_recording(), "the context still records");
        match result {
            Err(_) => ensure!(panics, "a panic"),
            Ok(seen) => {
                ensure!(!panics, "the panic is lost");
                ensure_eq!(seen?, [5; N]);
            }
        }
        if panics {
            // As it was.
            named.launch(&stream)?;
            ensure_eq!(named.state().to_vec(&stream)?, [1; N]);
        }
    }
    ensure_eq!(calls.load(Ordering::SeqCst), 2);
    everything(context)?;
    Ok(())
}

/// Swallows the panic or the error of a closure inside the closure around it: there must be no graph that lacks a part.
///
/// - row: closures of `capture`, `update`, `recapture`
/// - row: bodies of conditional nodes count
/// - targets: `Stream::record_if`, `Stream::record_while`, `Context::capture`, `GraphExec::recapture`
fn panics_that_are_swallowed(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let state = || -> Result<_> {
        Ok((DeviceBuffer::<u32>::zeroed(&stream, N)?, DeviceBuffer::from_slice(&stream, &[1u32])?))
    };
    let mut before = context.capture(state()?, |s, (x, _)| kit.add(s, all(), 7, x, LEN))?;
    let record = |s: &Stream, (x, flag): &mut (DeviceBuffer<u32>, DeviceBuffer<u32>)| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        // Nobody hears of it.
        drop(catch_unwind(AssertUnwindSafe(|| match lab.variant() {
            "condition" => s.record_if(&*flag, |s| {
                kit.add(s, all(), 10, &mut *x, LEN)?;
                panic!("in a body")
            }),
            "loop" => s.record_while(&mut *flag, |s, mut flag| {
                kit.countdown(s, (1, 1), &mut flag)?;
                kit.add(s, all(), 10, &mut *x, LEN)?;
                panic!("in a loop")
            }),
            _ => context
                .capture((), |s, ()| {
                    kit.add(s, all(), 10, &mut *x, LEN)?;
                    panic!("in an inner capture")
                })
                .map(drop),
        })));
        kit.add(s, all(), 100, x, LEN)
    };
    let captured = context.capture(state()?, record);
    let again = before.recapture(record);
    if lab.variant() == "inner" {
        // Another recording: the outer one is whole without it.
        let mut graph = captured?;
        let _ = again?;
        for graph in [&mut graph, &mut before] {
            graph.launch(&stream)?;
            ensure_eq!(graph.state().0.to_vec(&stream)?, [101; N]);
        }
        return Ok(());
    }
    lab.refused(captured, "body")?;
    lab.refused(again.map(drop), "body")?;
    before.launch(&stream)?;
    ensure_eq!(before.state().0.to_vec(&stream)?, [7; N]);
    Ok(())
}

/// Uses the crate in a panic hook, in every place where code of a user may panic, also with the graph lock held.
///
/// - row: closures of `GraphLock::run`, and panic hooks
/// - row: closures of `capture`, `update`, `recapture`
/// - targets: `Stream::graph_lock`, `GraphLock::run`, `Context::capture`, `GraphExec::update`, `GraphExec::recapture`,
///   `Stream::record_if`, `GraphExec::launch`
fn hooks_that_use_the_crate(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let shared = || -> Result<_> {
        context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| {
            Kit::load(&s.context())?.add(s, all(), 1, &mut *x, LEN)?;
            s.last_node().map(drop)
        })
    };
    // The hook launches this graph, whose memory all sequences are made for.
    let mut graph = shared()?;
    let memory = graph.state().allocation().clone();
    let mut named = shared()?;
    let node = named.nodes().next().ok_or_else(unnamed)?;
    let hooked = Arc::new(Mutex::new((graph.try_clone(())?, Vec::new())));
    let before = std::panic::take_hook();
    let (in_hook, own) = (hooked.clone(), stream.clone());
    std::panic::set_hook(Box::new(move |_| {
        let mut hooked = in_hook.lock().unwrap_or_else(PoisonError::into_inner);
        let (graph, results) = &mut *hooked;
        let launched = graph.launch(&own);
        let work = || {
            let mut x = DeviceBuffer::from_slice(&own, &[3u32; N])?;
            let mut graph = own.context().capture((), |s, ()| x.fill(s, 4))?;
            graph.launch(&own)?;
            drop(graph);
            x.to_vec(&own)
        };
        results.push(launched.and_then(|()| work()));
    }));
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let mut panicked = 0;
    for place in 0..6 {
        let caught = catch_unwind(AssertUnwindSafe(|| match place {
            0 => stream.graph_lock([&memory]).run(|| panic!("in a sequence")),
            1 => {
                let inner = || stream.graph_lock([&memory]).run(|| panic!("in an inner sequence"));
                stream.graph_lock([&memory]).run(inner)
            }
            2 => context.capture((), |_, ()| panic!("in a capture")).map(drop),
            3 => named.update(node, |_, _| panic!("in an update")),
            4 => named.recapture(|_, _| panic!("in a recapture")).map(drop),
            _ => {
                let record = |s: &Stream, (): &mut ()| s.record_if(&flag, |_| panic!("in a body"));
                context.capture((), record).map(drop)
            }
        }));
        panicked += usize::from(caught.is_err());
    }
    drop(std::panic::take_hook());
    std::panic::set_hook(before);
    ensure_eq!(panicked, 6);
    let results = std::mem::take(&mut hooked.lock().unwrap_or_else(PoisonError::into_inner).1);
    ensure_eq!(results.len(), 6);
    for result in results {
        ensure_eq!(result?, [4; N]);
    }
    // Six launches of the hook, and nothing is held: another thread launches too.
    let launched = thread::scope(|scope| scope.spawn(|| graph.launch(&stream)).join());
    launched.map_err(|_| test_harness::Failure::new("a thread panicked"))??;
    ensure_eq!(graph.state().to_vec(&stream)?, [7; N]);
    named.launch(&stream)?;
    ensure_eq!(named.state().to_vec(&stream)?, [1; N]);
    drop(kit);
    Ok(())
}

attacks![
    "user_code",
    right(closures_that_use_graphs).variants(&[
        "capture",
        "update",
        "recapture",
        "part",
        "condition",
        "loop"
    ]),
    right(panics_that_are_swallowed).variants(&["condition", "loop", "inner"]),
    right(hooks_that_use_the_crate).limit(15),
];
