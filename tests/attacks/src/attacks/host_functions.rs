//! Attacks on host functions.

mod lifetime;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;
use lifetime::{
    calls_of_clones_of_a_graph, calls_of_the_crate_in_a_function, dropped_while_it_is_called,
    functions_whose_drops_call_the_crate, host_memory_dropped_in_a_function,
    last_handles_dropped_in_a_function, thousands_of_functions,
};

/// Panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("dropped"));
    }
}

/// Panics in a host function, with a value that panics when it is dropped, and in what the function owns.
///
/// - row: a panic in it, or in what it drops
/// - targets: `Stream::host_function`, `Stream::host_function_mut`
fn panics_in_host_functions(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let drops = Arc::new(AtomicUsize::new(0));
    stream.host_function(|| resume_unwind(Box::new("on purpose")))?;
    let bomb = Bomb(drops.clone());
    stream.host_function(move || resume_unwind(Box::new(bomb)))?;
    let bomb = Bomb(drops.clone());
    stream.host_function(move || drop(bomb))?;
    let bomb = Bomb(drops.clone());
    stream.host_function_mut(move || {
        let _ = &bomb;
    })?;
    stream.synchronize()?;
    drop(stream);
    lab.context()?.free_deferred().map_err(Into::into)
}

/// Counts calls, and that none comes after the drop.
struct Counts {
    calls: Arc<AtomicUsize>,
    drops: Arc<AtomicUsize>,
    dropped: bool,
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.dropped = true;
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
}

/// Drops streams at once after host functions were enqueued on them, some of which are recorded in graphs too.
///
/// - row: it is never called after it was dropped
/// - row: two calls of one function never overlap
/// - targets: `Stream::host_function`, `Context::stream`, `Context::capture`
fn streams_dropped_before_their_functions_run(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (calls, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = || Counts { calls: calls.clone(), drops: drops.clone(), dropped: false };
    for _ in 0..20 {
        let stream = context.stream()?;
        let counted = counts();
        stream.host_function(move || {
            assert!(!counted.dropped);
            counted.calls.fetch_add(1, Ordering::SeqCst);
        })?;
        let counted = counts();
        let mut graph = context.capture((), move |s, ()| {
            s.host_function_mut(move || {
                assert!(!counted.dropped);
                counted.calls.fetch_add(1, Ordering::SeqCst);
            })
        })?;
        graph.launch(&stream)?;
        graph.launch(&context.stream()?)?;
    }
    context.synchronize()?;
    // A function goes with its stream or graph, so that some are never called.
    ensure!(calls.load(Ordering::SeqCst) <= 60);
    context.free_deferred()?;
    ensure_eq!(drops.load(Ordering::SeqCst), 40);
    Ok(())
}

attacks![
    "host_functions",
    right(panics_in_host_functions),
    right(streams_dropped_before_their_functions_run),
    right(calls_of_clones_of_a_graph),
    right(calls_of_the_crate_in_a_function).without_seed(),
    right(dropped_while_it_is_called).variants(&["graph", "recaptured", "stream"]),
    right(functions_whose_drops_call_the_crate).variants(&["refused", "stream", "closed", "graph"]),
    right(host_memory_dropped_in_a_function),
    right(last_handles_dropped_in_a_function),
    right(thousands_of_functions),
];
