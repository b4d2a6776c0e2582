//! Attacks by threads: what is current on them, how they end, what they share, and code of others that runs in calls.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, mpsc};
use std::thread;

use cuda_safe::{
    Context, DeviceBuffer, Event, GraphBuilder, GraphExec, PinnedBuffer, Stream, UnifiedBuffer,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all, on_purpose, unnamed};
use crate::lab::Lab;

/// Fails and panics in closures, drops everything, and ends threads, while the other device's context is current.
///
/// - row: no call changes which context is current
/// - targets: `Context::capture`, `GraphExec::update`, `Stream::record_if`, `GraphBuilder::add`,
///   `DeviceSliceMut::copy_from_peer`, `Context::free_deferred`, `UnifiedBuffer::into_vec`
fn current_after_unwinding(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let before = match lab.variant() {
        "none" => None,
        "own" => Some(0),
        _ => Some(1),
    };
    lab.make_current(before)?;
    let still = |what: &str| {
        let now = lab.current()?;
        ensure_eq!(now, before, "{what}");
        Ok::<(), Failure>(())
    };
    let (stream, on_b) = (a.stream()?, b.stream()?);
    let kit = Kit::load(&a)?;
    let kit = &kit;
    still("loading")?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let mut graph = a.capture((x, flag), |s, (x, flag)| {
        kit.add(s, all(), 1, &mut *x, LEN)?;
        s.last_node()?;
        s.record_if(&*flag, |s| kit.add(s, all(), 1, x, LEN))
    })?;
    still("a capture")?;
    let node = graph.nodes().next().ok_or_else(unnamed)?;
    for panics in [false, true] {
        let end =
            move || if panics { std::panic::panic_any("on purpose") } else { Err(on_purpose()) };
        let mut seen = Vec::new();
        let mut done = |failed: thread::Result<bool>| seen.push(failed.unwrap_or(true));
        done(catch_unwind(AssertUnwindSafe(|| a.capture((), |_, ()| end()).is_err())));
        done(catch_unwind(AssertUnwindSafe(|| {
            a.capture((), |s, ()| {
                let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
                s.record_if(&flag, |_| end())
            })
            .is_err()
        })));
        done(catch_unwind(AssertUnwindSafe(|| graph.update(node, move |_, _| end()).is_err())));
        done(catch_unwind(AssertUnwindSafe(|| graph.recapture(move |_, _| end()).is_err())));
        done(catch_unwind(AssertUnwindSafe(|| {
            GraphBuilder::new(&a, ())
                .and_then(|mut builder| builder.add(&[], |_, ()| end()).map(drop))
                .is_err()
        })));
        ensure_eq!(seen, [true; 5]);
        still(if panics { "panics" } else { "errors" })?;
    }
    graph.launch(&stream)?;
    let mut y = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    y.as_slice_mut().copy_from_peer(&stream, &graph.state().0)?;
    ensure_eq!(y.to_vec(&on_b)?, [2; N]);
    still("copies between devices")?;
    let unified = UnifiedBuffer::register(&stream, vec![1u8; 64])?;
    ensure!(unified.into_vec().is_ok());
    let pinned = PinnedBuffer::<u32>::zeroed(&b, N)?;
    drop(y.download_pinned(&on_b, pinned)?);
    drop((graph, y, stream, on_b));
    still("drops")?;
    a.free_deferred()?;
    b.free_deferred()?;
    b.synchronize()?;
    still("collecting")?;
    lab.make_current(None)
}

thread_local! {
    /// Dropped when its thread ends, in an order that nobody knows.
    static AT_THE_END: RefCell<Vec<Box<dyn Send>>> = const { RefCell::new(Vec::new()) };
    static LAST: Cell<Option<(DeviceBuffer<u32>, Kit)>> = const { Cell::new(None) };
}

/// A value whose drop uses the device.
struct UsesTheDevice {
    stream: Stream,
    result: mpsc::Sender<bool>,
}

impl Drop for UsesTheDevice {
    fn drop(&mut self) {
        let right = || {
            let context = self.stream.context();
            let kit = Kit::load(&context)?;
            let x = DeviceBuffer::<u32>::zeroed(&self.stream, N)?;
            let mut graph = context.capture(x, |s, x| kit.add(s, all(), 3, x, LEN))?;
            graph.launch(&self.stream)?;
            Ok::<bool, cuda_safe::Error>(graph.state().to_vec(&self.stream)? == [3; N])
        };
        // The receiver waits for this alone.
        let _ = self.result.send(right().unwrap_or(false));
    }
}

/// Leaves buffers, graphs, streams and a guard's worth of work to destructors of a thread's local storage, which use
/// the device themselves.
///
/// - row: a thread may end at any time
/// - row: all types may go to other threads that their contents allow
/// - targets: `Context::capture`, `Stream::new`, `Event::new`, `DeviceBuffer::download_pinned`
fn destructors_at_the_end_of_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (send, receive) = mpsc::channel();
    let threads: Vec<_> = (0..3u32)
        .map(|id| {
            let (context, send) = (context.clone(), send.clone());
            thread::spawn(move || -> TestResult {
                let stream = Stream::new(&context)?;
                let kit = Kit::load(&context)?;
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
                kit.add(&stream, all(), id, &mut x, LEN)?;
                let graph = context.capture(x.try_clone(&stream)?, |_, _| Ok(()))?;
                let transfer = x.download_pinned(&stream, PinnedBuffer::zeroed(&context, N)?)?;
                let event = Event::new(&context)?;
                event.record(&stream)?;
                AT_THE_END.with_borrow_mut(|kept| {
                    kept.push(Box::new(UsesTheDevice { stream: stream.clone(), result: send }));
                    kept.push(Box::new(graph));
                    kept.push(Box::new(transfer));
                    kept.push(Box::new((event, stream)));
                });
                LAST.set(Some((x, kit)));
                Ok(())
            })
        })
        .collect();
    drop(send);
    for thread in threads {
        thread.join().map_err(|_| Failure::new("a thread panicked"))??;
    }
    let seen: Vec<bool> = receive.iter().collect();
    ensure_eq!(seen, [true; 3]);
    context.synchronize()?;
    Ok(())
}

/// Records one event, and waits for it, from four threads at once, which launch on one stream and close their handles.
///
/// - row: all types may go to other threads that their contents allow
/// - row: work that uses the same bytes
/// - targets: `Event::record`, `Stream::wait_event`, `Stream::mark`, `Stream::wait_mark`, `Mark::synchronize`
fn one_stream_of_four_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Arc::new(Kit::load(&context)?);
    let event = Event::timing(&context)?;
    let x = Mutex::new(DeviceBuffer::<u32>::zeroed(&stream, N)?);
    let start = Barrier::new(4);
    let results: Vec<TestResult> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (context, stream, kit, event, x, start) =
                    (&context, stream.clone(), kit.clone(), &event, &x, &start);
                scope.spawn(move || -> TestResult {
                    let own = context.stream()?;
                    start.wait();
                    for round in 0..15 {
                        let on = if round % 2 == 0 { &stream } else { &own };
                        let mark = {
                            let mut x = x.lock().unwrap_or_else(PoisonError::into_inner);
                            kit.add(on, all(), 1, &mut *x, LEN)?;
                            on.mark()?
                        };
                        event.record(on)?;
                        own.wait_event(event)?;
                        own.wait_mark(&mark)?;
                        stream.wait_mark(&mark)?;
                        if round % 5 == 0 {
                            mark.synchronize()?;
                            event.synchronize()?;
                            // Another thread may have recorded it anew meanwhile.
                            match event.elapsed_ms(event) {
                                Ok(milliseconds) => ensure!(milliseconds >= 0.0),
                                Err(error) => ensure!(!error.is_fatal(), "{error}"),
                            }
                        }
                    }
                    // The buffer is at home on it.
                    ensure!(stream.close().is_err());
                    Ok(own.synchronize()?)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
            .collect()
    });
    results.into_iter().collect::<TestResult>()?;
    let x = x.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure_eq!(x.to_vec(&stream)?, [60; N]);
    Ok(())
}

/// What the subscriber calls the crate with.
type Tools = (Stream, Kit, DeviceBuffer<u32>, GraphExec<'static, DeviceBuffer<u32>>);

/// What the subscriber does at an event.
enum Does {
    Panic,
    Use(Box<Tools>),
    Close(Context),
}

static DOES: Mutex<Option<Does>> = Mutex::new(None);
static TOLD: AtomicUsize = AtomicUsize::new(0);

struct Meddles;

impl Subscriber for Meddles {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("cuda_safe")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        // Not in what it does itself.
        let Ok(mut does) = DOES.try_lock() else { return };
        let told = TOLD.fetch_add(1, Ordering::Relaxed);
        match &mut *does {
            None => {}
            Some(Does::Panic) => {
                drop(does);
                if told.is_multiple_of(3) {
                    std::panic::panic_any("in a subscriber");
                }
            }
            Some(Does::Use(used)) => {
                let (stream, kit, x, graph) = &mut **used;
                let context = stream.context();
                // Each of these may be refused, as in a recording.
                let _ = kit.add(stream, all(), 1, &mut *x, LEN);
                let _ = graph.launch(stream);
                let _ = graph.recapture(|s, x| x.fill(s, 3));
                let _ = x.try_clone(stream).map(DeviceBuffer::close);
                let _ = context.capture((), |s, ()| s.fork().map(drop));
                let _ = stream.mark();
                let _ = context.stream().map(Stream::close);
            }
            Some(Does::Close(context)) => drop(context.clone().close()),
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The work that the subscriber meddles with; returns what it has computed, if all calls succeed.
fn work(context: &Context) -> cuda_safe::Result<Vec<u32>> {
    let (stream, other) = (context.stream()?, context.stream()?);
    let kit = Kit::load(context)?;
    let x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let mut y = DeviceBuffer::<u32>::zeroed(&other, N)?;
    kit.mix(&other, all(), &x, &mut y, LEN)?;
    let mut graph = context.capture((x, y), |s, (x, y)| {
        kit.add(s, all(), 2, &mut *x, LEN)?;
        s.last_node()?;
        kit.mix(&s.fork()?, all(), &*x, y, LEN)
    })?;
    graph.launch(&stream)?;
    let name = graph.nodes().next();
    if let Some(node) = name {
        graph.update(node, |s, (x, _)| kit.add(s, all(), 4, x, LEN))?;
    }
    graph.launch(&other)?;
    let unified = UnifiedBuffer::register(&stream, vec![0u32; N])?;
    let pinned = PinnedBuffer::<u32>::zeroed(context, N)?;
    let (_, y) = graph.into_state();
    let back = y.download_pinned(&stream, pinned)?.wait()?;
    drop(unified);
    context.free_deferred()?;
    Ok(back.to_vec())
}

/// Panics in a `tracing` subscriber, uses the device there, captures there, and closes the context there.
///
/// - row: nothing slips in between
/// - row: no answer of the driver makes the crate panic
/// - targets: `Context::capture`, `GraphExec::launch`, `Context::close`, `GraphExec::recapture`
fn subscriber_that_meddles(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    // y = 1; x = 3, y = 6; x = 7, y = 25.
    let expected = vec![25; N];
    ensure_eq!(work(&context)?, expected);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let graph = context.capture(x.try_clone(&stream)?, |s, x| x.fill(s, 2))?;
    let does = match lab.variant() {
        "panics" => Does::Panic,
        "uses" => Does::Use(Box::new((stream.clone(), kit, x, graph))),
        _ => Does::Close(context.clone()),
    };
    tracing::subscriber::set_global_default(Meddles)
        .map_err(|error| Failure::new(error.to_string()))?;
    *DOES.lock().unwrap_or_else(PoisonError::into_inner) = Some(does);
    let mut caught = 0;
    for _ in 0..8 {
        match catch_unwind(AssertUnwindSafe(|| work(&context))) {
            Ok(result) => ensure_eq!(result?, expected),
            Err(_) => caught += 1,
        }
    }
    let did = DOES.lock().unwrap_or_else(PoisonError::into_inner).take();
    ensure!(caught == 0 || lab.variant() == "panics", "{caught} panics");
    ensure!(TOLD.load(Ordering::Relaxed) > 10, "the subscriber was hardly told anything");
    drop(did);
    // Nothing of a call that was left by a panic stays behind.
    ensure!(!context.is_recording());
    ensure_eq!(work(&context)?, expected);
    Ok(())
}

/// Opens ranges with names that are none, closes them in the wrong order and on unwinding, leaks some, and drops
/// their domain.
///
/// - row: all types may go to other threads that their contents allow
/// - targets: `Domain::new`, `Domain::range`, `range`
fn ranges_in_the_wrong_order(lab: &Lab) -> TestResult {
    use cuda_safe::nvtx::{Domain, mark, range};
    if lab.step().is_empty() && lab.variant() == "tool that is none" {
        std::fs::write("tool.so", "no library\n")?;
        for path in ["./tool.so", "/nonexistent/tool.so", "."] {
            let mut command = lab.again("inside")?;
            command.env("NVTX_INJECTION64_PATH", path).env("NVTX_INJECTION32_PATH", path);
            let status = command.status()?;
            ensure!(status.success(), "{path}: {status}");
        }
        return Ok(());
    }
    let long = "r".repeat(1 << 20);
    let names = ["", "a\0b", "\0", "½\u{10ffff}", &long];
    for name in names {
        let domain = Domain::new(name);
        let (outer, inner) = (domain.range(name), domain.range(name));
        let own = range(name);
        mark(name);
        domain.mark(name);
        drop(outer);
        drop(own);
        drop(inner);
        std::mem::forget(domain.range(name));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _open = (domain.range(name), range(name));
            std::panic::panic_any("inside a range");
        }));
        ensure!(caught.is_err());
        let moved = thread::spawn(move || drop(domain)).join();
        ensure!(moved.is_ok());
    }
    let stream = lab.stream()?;
    let _range = range("around a copy");
    let x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    ensure_eq!(x.to_vec(&stream)?, [1; N]);
    Ok(())
}

attacks![
    "contexts",
    right(current_after_unwinding).variants(&["none", "own", "other"]).devices(2),
    right(destructors_at_the_end_of_threads),
    right(one_stream_of_four_threads),
    right(subscriber_that_meddles).variants(&["panics", "uses", "closes"]),
    right(ranges_in_the_wrong_order).variants(&["without a tool", "tool that is none"]),
];
