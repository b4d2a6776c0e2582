//! The crate's events for `tracing`: their levels and fields.
//!
//! One test, since a process has one subscriber for all of its threads.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_safe::sys::noop;
use cuda_safe::{Context, DeviceBuffer, Driver, Event, LaunchConfig, Module, PinnedBuffer};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry one(.param .u64 a) { ret; }
";

#[derive(Debug)]
struct Seen {
    level: Level,
    message: String,
    fields: BTreeMap<&'static str, String>,
}

static EVENTS: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

fn events() -> MutexGuard<'static, Vec<Seen>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Collector;

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").expect("a String takes everything");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.insert(field.name(), text);
        }
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_safe"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let level = *event.metadata().level();
        let mut seen = Seen { level, message: String::new(), fields: BTreeMap::new() };
        event.record(&mut seen);
        events().push(seen);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The events of `act`, by level and message; each has the fields that it must have.
fn told(act: impl FnOnce() -> cuda_safe::Result<()>) -> Vec<(Level, String)> {
    events().clear();
    act().expect("the driver does everything");
    let events = std::mem::take(&mut *events());
    for event in &events {
        let wanted: &[&str] = match &*event.message {
            "launch" => &["kernel", "grid", "block", "shared", "stream", "sequence"],
            "load module" => &["kind", "bytes", "elapsed"],
            "synchronize stream" => &["stream", "elapsed"],
            "synchronize" | "synchronize event" => &["elapsed"],
            "stream waits" => &["stream", "waits_for", "sequence"],
            "allocate" | "free" => &["address", "bytes", "stream"],
            "the driver returned an error" => &["error"],
            _ => &["bytes", "stream"],
        };
        for field in wanted {
            assert!(event.fields.contains_key(field), "{event:?} has no {field}");
        }
    }
    events.into_iter().map(|event| (event.level, event.message)).collect()
}

fn list(events: &[(Level, &str)]) -> Vec<(Level, String)> {
    events.iter().map(|(level, message)| (*level, (*message).to_owned())).collect()
}

#[test]
fn everything_is_told_once() {
    tracing::subscriber::set_global_default(Collector).expect("the only one");
    let driver = Driver::from_sys(noop::driver()).expect("the no-op driver");
    let context: Context = driver.device(0).and_then(|device| device.context()).expect("a context");
    let (stream, other) = (context.stream().expect("a stream"), context.stream().expect("another"));

    let mut loaded = None;
    let events = told(|| {
        loaded = Some(Module::from_ptx(&context, PTX)?.kernel("one")?);
        Ok(())
    });
    assert_eq!(events, list(&[(Level::DEBUG, "load module")]));
    let kernel = loaded.expect("loaded above");

    let mut made = None;
    let events = told(|| {
        made = Some(DeviceBuffer::from_slice(&stream, &[1.0_f32; 4])?);
        Ok(())
    });
    assert_eq!(events, list(&[(Level::TRACE, "allocate"), (Level::TRACE, "upload")]));
    let mut buffer = made.expect("made above");

    // SAFETY: nothing runs on this driver.
    let launch = || unsafe { kernel.launch(&other, LaunchConfig::new(2, 32), (&buffer,)) };
    let events = told(launch);
    assert_eq!(events, list(&[(Level::DEBUG, "stream waits"), (Level::TRACE, "launch")]));
    assert_eq!(told(launch), list(&[(Level::TRACE, "launch")]), "it waits already");

    let events = told(|| {
        buffer.fill(&stream, 2.0)?;
        buffer.to_vec(&stream).map(drop)?;
        let pinned = PinnedBuffer::zeroed(&context, 4)?;
        let pinned = buffer.upload_pinned(&stream, pinned)?.wait()?;
        buffer.download_pinned(&stream, pinned)?.wait().map(drop)?;
        let event = Event::new(&context)?;
        event.synchronize()?;
        stream.synchronize()?;
        context.synchronize()
    });
    // `fill` writes what `other` has read.
    let wanted = list(&[
        (Level::TRACE, "fill"),
        (Level::DEBUG, "stream waits"),
        (Level::TRACE, "download"),
        (Level::TRACE, "pinned upload"),
        (Level::DEBUG, "synchronize event"),
        (Level::TRACE, "pinned download"),
        (Level::DEBUG, "synchronize event"),
        (Level::DEBUG, "synchronize event"),
        (Level::DEBUG, "synchronize stream"),
        (Level::DEBUG, "synchronize"),
    ]);
    assert_eq!(events, wanted);

    let events = told(|| {
        drop(buffer);
        Ok(())
    });
    assert_eq!(events, list(&[(Level::TRACE, "free")]));

    // Refused before the driver is called: the caller gets the error.
    let events = told(|| {
        // SAFETY: refused.
        assert!(unsafe { kernel.launch(&stream, LaunchConfig::new(1, 4096), (1_u64,)) }.is_err());
        Ok(())
    });
    assert_eq!(events, []);
    let events = told(|| {
        assert!(DeviceBuffer::<u64>::zeroed(&stream, 1 << 40).is_err());
        Ok(())
    });
    let error = (Level::ERROR, "the driver returned an error".to_owned());
    assert!(events.contains(&error), "{events:?}");
}
