//! Subscribers of `tracing` that call the crate while it emits an event: in the middle of a sequence, behind
//! locks of the crate, and with a panic. The driver is the no-op one.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::{Once, mpsc};
use std::time::Duration;

use cuda_safe::sys::noop;
use cuda_safe::{Context, DeviceBuffer, Driver, Result, Stream};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

type Handler = Box<dyn FnMut()>;

thread_local! {
    /// The action at each event of this thread with this message.
    static HANDLER: RefCell<Option<(&'static str, Handler)>> = const { RefCell::new(None) };
}

/// Calls the thread's handler.
struct Calling;

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Calling {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_safe"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let handler = HANDLER.with(RefCell::take);
        let Some((wanted, mut handle)) = handler else { return };
        if message.0 == wanted {
            handle();
        }
        HANDLER.set(Some((wanted, handle)));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn on_event(message: &'static str, handle: impl FnMut() + 'static) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        tracing::subscriber::set_global_default(Calling).expect("the only one");
    });
    HANDLER.set(Some((message, Box::new(handle))));
}

fn no_handler() {
    HANDLER.set(None);
}

fn context() -> Result<Context> {
    Driver::from_sys(noop::driver())?.device(0)?.context()
}

/// Runs `test` in a thread; fails if it doesn't end, as if it waits for a lock of its own.
fn ends(test: impl FnOnce() -> Result<()> + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = test();
        no_handler();
        let _ = done.send(());
        result
    });
    match ended.recv_timeout(Duration::from_secs(20)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the thread waits for ever"),
        _ => thread.join().expect("no panic").expect("no error"),
    }
}

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, 100)
}

/// A graph that a subscriber launches does not come between the enqueues of a sequence.
#[test]
fn launches_in_a_sequence_are_refused() {
    ends(|| {
        let context = context()?;
        let (one, two) = (context.stream()?, context.stream()?);
        let mut graph = context.capture(zeroed(&one)?, |stream, data| data.fill(stream, 2))?;
        let mut scratch = std::mem::replace(graph.state_mut(), zeroed(&one)?);
        let graph = Rc::new(RefCell::new(graph));
        let launched = Rc::new(RefCell::new(Vec::new()));
        let (its_graph, its_results, its_stream) = (graph.clone(), launched.clone(), two.clone());
        on_event("fill", move || {
            its_results.borrow_mut().push(its_graph.borrow_mut().launch(&its_stream));
        });
        one.graph_lock([&scratch.allocation().clone()]).run(|| {
            scratch.fill(&one, 1)?;
            scratch.fill(&one, 3)
        })?;
        no_handler();
        let launched = launched.take();
        assert_eq!(launched.len(), 2, "an event for each fill");
        for result in launched {
            let error = result.expect_err("a launch in the middle of a sequence");
            assert!(error.to_string().contains("subscriber"), "{error}");
        }
        graph.borrow_mut().launch(&two)
    });
}

/// The event of a wait is emitted while the uses of the memory are locked.
#[test]
fn calls_behind_a_lock_do_not_wait() {
    ends(|| {
        let context = context()?;
        let (one, two) = (context.stream()?, context.stream()?);
        let (data, mut other) = (Rc::new(zeroed(&one)?), zeroed(&two)?);
        let refused = Rc::new(Cell::new(0));
        let (its_data, its_stream, count) = (data.clone(), one.clone(), refused.clone());
        on_event("stream waits", move || {
            let copied = its_data.to_vec(&its_stream).map(drop);
            let made = its_stream.context().stream().map(drop);
            let closed = its_stream.context().close().map_err(Into::into);
            let drivers = Driver::from_sys(noop::driver()).map(drop);
            let results = [copied, made, closed, drivers, its_stream.synchronize()];
            count.set(count.get() + results.iter().filter(|result| result.is_err()).count());
        });
        other.copy_from(&two, &*data)?;
        assert_eq!(refused.get(), 5, "calls in a subscriber");
        no_handler();
        data.to_vec(&one).map(drop)
    });
}

/// Resources that a subscriber drops are leaked, and the drop waits for no lock.
#[test]
fn drops_behind_a_lock_do_not_wait() {
    ends(|| {
        let context = context()?;
        let (one, two) = (context.stream()?, context.stream()?);
        let (data, mut other) = (zeroed(&one)?, zeroed(&two)?);
        // Used on both, so that dropping it asks for the streams' marks.
        let mut dropped = zeroed(&one)?;
        dropped.fill(&two, 1)?;
        let mut things = Some((dropped, context.stream()?));
        on_event("stream waits", move || drop(things.take()));
        other.copy_from(&two, &data)?;
        no_handler();
        assert!(context.take_drop_errors().is_empty());
        data.to_vec(&one).map(drop)
    });
}

/// A panic of a subscriber does not leave a call half done.
#[test]
fn panics_are_caught() {
    ends(|| {
        let context = context()?;
        let (one, two) = (context.stream()?, context.stream()?);
        let (data, mut other) = (zeroed(&one)?, zeroed(&two)?);
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        on_event("stream waits", move || {
            counted.set(counted.get() + 1);
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        other.copy_from(&two, &data)?;
        assert_eq!(count.get(), 1);
        other.copy_from(&two, &data)?;
        data.to_vec(&one).map(drop)
    });
}
