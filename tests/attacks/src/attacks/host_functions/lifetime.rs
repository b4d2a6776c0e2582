//! Attacks on what host functions own, and on what happens while one is called.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// Calls the crate in a host function: what asks the driver or waits for a lock must fail, and nothing may hang.
///
/// Runs without a seed, because the function waits for nothing that a drawn order could give it.
///
/// - row: a panic in it, or in what it drops
/// - row: no answer of the driver makes the crate panic
/// - row: host functions
/// - targets: `Stream::host_function`, `Context::stream`, `DeviceBuffer::zeroed`, `UnifiedBuffer::host`
pub(super) fn calls_of_the_crate_in_a_function(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let x = Arc::new(DeviceBuffer::from_slice(&stream, &[3u32; 100])?);
    let unified = Arc::new(UnifiedBuffer::<u32>::pinned(&stream, 100)?);
    let (give, take) = mpsc::channel();
    {
        let (x, unified, own, context) =
            (x.clone(), unified.clone(), stream.clone(), context.clone());
        stream.host_function(move || {
            let asks: [(&str, Result<()>); 5] = [
                ("a new stream", context.stream().map(std::mem::forget)),
                ("waiting for its own stream", own.synchronize()),
                ("waiting for the context", context.synchronize()),
                ("memory", DeviceBuffer::<u32>::zeroed(&own, 10).map(std::mem::forget)),
                ("a download", x.to_vec(&own).map(drop)),
            ];
            let hosts = (context.stats().staging_bytes, x.len(), unified.host().is_ok());
            // The receiver waits.
            let _ = give.send((asks, hosts));
        })?;
    }
    stream.synchronize()?;
    let (asks, hosts) = take.recv_timeout(Duration::from_secs(10))?;
    for (what, result) in asks {
        let Err(error) = result else {
            return Err(Failure::new(format!("{what} in a host function")));
        };
        ensure!(!error.is_fatal(), "{what} has lost the device");
        ensure!(error.to_string().contains("a host function called cuda-safe"), "{what}: {error}");
    }
    ensure_eq!(hosts, (0, 100, false));
    ensure_eq!(x.to_vec(&stream)?, [3; 100]);
    Ok(())
}

/// Drops the last handles of a stream, an event's memory and a graph in a function of that stream.
///
/// - row: it is never called after it was dropped
/// - row: a drop never waits, never panics
/// - targets: `Stream::host_function`, `Context::capture`
pub(super) fn last_handles_dropped_in_a_function(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let calls = Arc::new(AtomicUsize::new(0));
    for round in 0..4u32 {
        let stream = context.stream()?;
        let x = DeviceBuffer::from_slice(&stream, &[round; 1000])?;
        let graph = context.capture(x, |s, x| x.fill(s, 9))?;
        let (own, calls) = (stream.clone(), calls.clone());
        stream.host_function(move || {
            calls.fetch_add(1, Ordering::SeqCst);
            drop((graph, own));
        })?;
        drop(stream);
        context.synchronize()?;
    }
    // The function keeps the stream, and the stream the function: it runs, as nothing else ends that.
    ensure_eq!(calls.load(Ordering::SeqCst), 4);
    Ok(())
}

/// Drops pinned memory, transfers and unified memory in a host function, which has written them.
///
/// - row: dropped or forgotten in flight
/// - row: a function owns what it uses
/// - targets: `Stream::host_function`, `PinnedBuffer::zeroed`, `UnifiedBuffer::pinned`, `Context::free_deferred`
pub(super) fn host_memory_dropped_in_a_function(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    for round in 0..10u32 {
        let mut pinned = PinnedBuffer::<u32>::zeroed(&context, 1000)?;
        stream.host_function(move || {
            pinned.fill(round);
            drop(pinned);
        })?;
        let next = PinnedBuffer::from_slice(&context, &[77u32; 1000])?;
        stream.synchronize()?;
        ensure_eq!(next[..], [77; 1000]);
        let again = PinnedBuffer::<u32>::zeroed(&context, 1000)?;
        ensure_eq!(again[..], [0; 1000], "memory that was used again is not zero");
    }
    context.free_deferred()?;
    Ok(())
}

/// Calls the crate when it is dropped.
struct Reenters {
    context: Context,
    results: Arc<Mutex<Vec<Result<()>>>>,
}

impl Drop for Reenters {
    fn drop(&mut self) {
        let work = || {
            let stream = self.context.stream()?;
            let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
            stream.host_function(|| ())?;
            x.fill(&stream, 1)?;
            x.to_vec(&stream)?;
            self.context.free_deferred()
        };
        let result = work();
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
    }
}

/// Drops host functions that were never run, whose captured values call the crate: with their stream, their graph, or
/// as a refused call returns.
///
/// - row: it is never called after it was dropped
/// - row: a panic in it, or in what it drops
/// - row: drops of what host functions, tokens
/// - targets: `Stream::host_function`, `Stream::host_function_mut`, `Context::capture`, `Stream::close`
pub(super) fn functions_whose_drops_call_the_crate(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let results = Arc::new(Mutex::new(Vec::new()));
    let value = || Reenters { context: context.clone(), results: results.clone() };
    for _ in 0..5 {
        let value = value();
        match lab.variant() {
            "refused" => {
                let mut first = Some(value);
                // Other errors than the expected one would leave the value alone.
                let captured = context.capture((), |s, ()| {
                    let value = first.take();
                    if s.host_function(move || drop(value)).is_ok() {
                        return Err(cuda_safe::Error::invalid("a function to call once"));
                    }
                    s.host_function_mut(|| ())
                });
                drop(captured?);
            }
            "graph" => {
                let graph = context.capture((), |s, ()| {
                    s.host_function_mut(move || {
                        let _ = &value;
                    })
                })?;
                drop(graph);
            }
            variant => {
                let stream = context.stream()?;
                stream.host_function_mut(move || {
                    let _ = &value;
                })?;
                stream.synchronize()?;
                match variant {
                    "closed" => ensure!(stream.close().is_ok(), "a stream was not closed"),
                    _ => drop(stream),
                }
            }
        }
    }
    context.synchronize()?;
    context.free_deferred()?;
    let results = std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner));
    ensure_eq!(results.len(), 5);
    for result in results {
        match result {
            // In a capture the device can't be waited for.
            Err(error) if lab.variant() == "refused" => {
                lab.refused(Err::<(), _>(error), "record")?;
            }
            result => result?,
        }
    }
    Ok(())
}

/// Says when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Drops or records anew the graph, or drops the stream, of a host function while it is being called.
///
/// - row: it is never called after it was dropped
/// - targets: `Stream::host_function_mut`, `Context::capture`, `GraphExec::recapture`
pub(super) fn dropped_while_it_is_called(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    for _ in 0..3 {
        let dropped = Arc::new(AtomicBool::new(false));
        let (started, starts) = mpsc::channel::<()>();
        let (go, goes) = mpsc::channel::<()>();
        let alive = Arc::new(AtomicUsize::new(0));
        let function = {
            let (flag, alive) = (Flag(dropped.clone()), alive.clone());
            move || {
                // The receivers wait, or are gone as the test has failed.
                let _ = started.send(());
                let _ = goes.recv_timeout(Duration::from_secs(30));
                alive.store(if flag.0.load(Ordering::SeqCst) { 2 } else { 1 }, Ordering::SeqCst);
            }
        };
        let (stream, waiter) = (context.stream()?, context.stream()?);
        let mut graph = None;
        if lab.variant() == "stream" {
            stream.host_function_mut(function)?;
        } else {
            let made = context.capture((), |s, ()| s.host_function_mut(function))?;
            graph.insert(made).launch(&stream)?;
        }
        // Not the context: a capture waits until nobody waits for all of it.
        waiter.wait_stream(&stream)?;
        let waits = std::thread::spawn(move || waiter.synchronize());
        starts.recv_timeout(Duration::from_secs(10))?;
        match (&mut graph, lab.variant()) {
            (Some(graph), "recaptured") => {
                let _ = graph.recapture(|s, ()| s.host_function_mut(|| ()))?;
            }
            _ => graph = None,
        }
        if lab.variant() == "stream" {
            drop(stream);
        }
        ensure!(alive.load(Ordering::SeqCst) == 0, "the function has ended");
        go.send(())?;
        waits.join().map_err(|_| Failure::new("a thread panicked"))??;
        ensure_eq!(alive.load(Ordering::SeqCst), 1, "what the function owns was dropped under it");
        drop(graph);
        context.free_deferred()?;
        ensure!(dropped.load(Ordering::SeqCst), "what the function owns was never dropped");
    }
    Ok(())
}

/// Enqueues thousands of functions on streams that come and go, and looks at their order.
///
/// - row: it is never called after it was dropped
/// - row: work that uses the same bytes
/// - targets: `Stream::host_function`, `Stream::host_function_mut`, `Stream::new`
pub(super) fn thousands_of_functions(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let ended = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|_| {
            let context = context.clone();
            scope.spawn(move || -> TestResult {
                for round in 0..4 {
                    let stream = Stream::new(&context)?;
                    let seen = Arc::new(Mutex::new(Vec::new()));
                    for i in 0..300u32 {
                        let seen = seen.clone();
                        let call = move || {
                            seen.lock().unwrap_or_else(PoisonError::into_inner).push(i);
                        };
                        match i % 2 {
                            0 => stream.host_function(call)?,
                            _ => stream.host_function_mut(call)?,
                        }
                    }
                    if round % 2 == 0 {
                        stream.synchronize()?;
                        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        ensure!(seen.iter().copied().eq(0..300), "{seen:?}");
                    } else {
                        // What was not run by now is dropped: the others were, in order.
                        drop(stream);
                        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        ensure!(seen.iter().is_sorted(), "{seen:?}");
                    }
                }
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}

/// Launches a graph and its clones from several threads and streams, whose functions note whether two calls overlap.
///
/// - row: two calls of one function never overlap
/// - targets: `Stream::host_function_mut`, `Context::capture`, `GraphExec::try_clone`
pub(super) fn calls_of_clones_of_a_graph(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (inside, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let overlaps = Arc::new(AtomicUsize::new(0));
    let graph = {
        let (inside, calls, overlaps) = (inside.clone(), calls.clone(), overlaps.clone());
        context.capture((), |s, ()| {
            s.host_function_mut(move || {
                if inside.swap(true, Ordering::SeqCst) {
                    overlaps.fetch_add(1, Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_micros(200));
                calls.fetch_add(1, Ordering::SeqCst);
                inside.store(false, Ordering::SeqCst);
            })
        })?
    };
    let mut graphs = vec![graph];
    for _ in 0..3 {
        let clone = graphs[0].try_clone(())?;
        graphs.push(clone);
    }
    let ended = std::thread::scope(|scope| {
        let threads: Vec<_> = graphs
            .into_iter()
            .map(|mut graph| {
                let context = context.clone();
                scope.spawn(move || -> Result<()> {
                    let streams = [context.stream()?, context.stream()?];
                    for i in 0..12 {
                        graph.launch(&streams[i % 2])?;
                    }
                    streams[0].synchronize()?;
                    streams[1].synchronize()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    ensure_eq!((calls.load(Ordering::SeqCst), overlaps.load(Ordering::SeqCst)), (48, 0));
    Ok(())
}
