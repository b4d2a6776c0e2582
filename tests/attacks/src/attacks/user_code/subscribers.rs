//! Attacks by subscribers of `tracing`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_safe::{Context, DeviceBuffer, Module, ModuleImage, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::attack::attacks;
use crate::lab::Lab;

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry one() { ret; }\n.visible .entry two() { ret; }\n";

/// Kernels that are not compiled: so many that another thread gets some if `prepare_kernels` begins one.
const MORE: usize = 3000;

/// What the subscriber asks.
struct Asked {
    context: Context,
    module: Module,
    more: Arc<Vec<String>>,
    /// The stream that records.
    stream: Option<Stream>,
}

static ASKED: Mutex<Option<Asked>> = Mutex::new(None);
static EVENTS: AtomicUsize = AtomicUsize::new(0);
static WRONG: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Asks the crate at each of its events, with whatever locks the call holds that emits it.
struct Asks;

impl Subscriber for Asks {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_safe"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        let Ok(asked) = ASKED.try_lock() else { return };
        let Some(Asked { context, module, more, stream }) = &*asked else { return };
        EVENTS.fetch_add(1, Ordering::Relaxed);
        let mut said = vec![
            ("stats", context.stats().staging_bytes == 0),
            ("compiled_kernels", module.compiled_kernels().is_empty()),
            ("take_drop_errors", context.take_drop_errors().is_empty()),
            ("kernel", module.kernel("one").is_err()),
            (
                "prepare_kernels",
                Module::prepare_kernels(more.iter().map(|name| (module, &**name))).is_err(),
            ),
            ("compile", Module::compile(context, "").is_err()),
            ("is_recording", !context.is_recording()),
        ];
        context.set_copy_threads(2);
        if let Some(stream) = stream {
            stream.freeze_last_node();
            said.push(("keep", stream.retain(Arc::new(1)).is_err()));
            said.push(("last_node", stream.last_node().is_err()));
            said.push(("fork", stream.fork().is_err()));
        }
        let wrong = said.iter().filter(|(_, right)| !right).map(|(what, _)| *what);
        WRONG.lock().unwrap_or_else(PoisonError::into_inner).extend(wrong);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn ask(asked: Option<Asked>) {
    *ASKED.lock().unwrap_or_else(PoisonError::into_inner) = asked;
}

/// Asks the crate in a subscriber, while a kernel is compiled, a graph is recorded, or the driver fails with the recording
/// locked: each call is an error or says nothing, and none waits for a lock of its own thread.
///
/// - row: subscribers of `tracing`
/// - targets: `Context::stats`, `Module::compiled_kernels`, `Module::prepare_kernels`, `Module::compile`,
///   `Context::take_drop_errors`, `Module::kernel`,
///   `Stream::freeze_last_node`, `Stream::retain`, `Stream::last_node`, `Stream::fork`
fn subscribers_that_ask(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let more: Vec<String> = (0..MORE).map(|i| format!("more{i}")).collect();
    let entry = |name: &String| format!(".visible .entry {name}() {{ ret; }}\n");
    let text: String = std::iter::once(PTX.to_owned()).chain(more.iter().map(entry)).collect();
    let (module, more) = (Module::load_lazily(&context, ModuleImage::Ptx(&text))?, Arc::new(more));
    module.kernel("one")?.load()?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1u32; 1000])?;
    tracing::subscriber::set_global_default(Asks)
        .map_err(|error| Failure::new(error.to_string()))?;
    let asked = |stream: Option<&Stream>| {
        let (context, module, more) = (context.clone(), module.clone(), more.clone());
        ask(Some(Asked { context, module, more, stream: stream.cloned() }));
    };
    asked(None);
    module.kernel("two")?.load()?;
    x.fill(&context.stream()?, 2)?;
    ensure!(EVENTS.load(Ordering::Relaxed) >= 2, "no events");
    let mut refused = false;
    let graph = context.capture(x, |s, x| {
        asked(Some(s));
        x.fill(s, 3)?;
        // The driver fails with the recording locked.
        refused = DeviceBuffer::<u8>::zeroed(s, 1 << 60).is_err() && s.synchronize().is_err();
        Ok(())
    });
    ask(None);
    drop(graph);
    ensure!(refused, "memory and a wait in a capture");
    let wrong = std::mem::take(&mut *WRONG.lock().unwrap_or_else(PoisonError::into_inner));
    ensure!(wrong.is_empty(), "not refused in a subscriber: {wrong:?}");
    ensure_eq!(module.compiled_kernels().len(), 2);
    ensure!(context.stats().staging_bytes > 0);
    Ok(())
}

attacks!["user_code", right(subscribers_that_ask).limit(20),];
