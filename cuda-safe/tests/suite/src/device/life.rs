//! The end of things: in every order, and never waited for.

use std::time::{Duration, Instant};

use cuda_safe::{
    Context, DeviceBuffer, Event, GraphBuilder, Kernel, LaunchConfig, Module, PinnedBuffer, Stream,
    UnifiedBuffer,
};

use super::MS;
use test_harness::programs::{BASIC, Basic, Delay, TEMPLATES};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "life",
        device(dropped_in_every_order).serial(),
        device(no_drop_waits).serial(),
        device(dropped_on_another_thread),
        device(closed),
    ]
}

/// One thing of each kind.
struct Things {
    context: Option<Context>,
    stream: Option<Stream>,
    buffer: Option<DeviceBuffer<u32>>,
    module: Option<Module>,
    kernel: Option<Kernel>,
    event: Option<Event>,
}

const KINDS: usize = 6;

impl Things {
    fn drop_one(&mut self, kind: usize) {
        match kind {
            0 => drop(self.context.take()),
            1 => drop(self.stream.take()),
            2 => drop(self.buffer.take()),
            3 => drop(self.module.take()),
            4 => drop(self.kernel.take()),
            _ => drop(self.event.take()),
        }
    }
}

/// The permutation of this number, of `KINDS` things.
fn permutation(mut number: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..KINDS).collect();
    (1..=KINDS)
        .rev()
        .map(|count| {
            let index = number % count;
            number /= count;
            left.remove(index)
        })
        .collect()
}

fn dropped_in_every_order(device: &TestDevice) -> TestResult {
    let image = device.image(&BASIC)?;
    let delay = Delay::of(device)?;
    let watcher = device.stream()?;
    let orders: usize = (1..=KINDS).product();
    for number in 0..orders {
        let context = device.context().device().context()?;
        let stream = context.stream()?;
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        let module = Module::load(&context, &image)?;
        let kernel = module.kernel("iota")?;
        let event = Event::new(&context)?;
        // Work that is under way meanwhile, and whose result is looked at afterwards.
        let mut seen = DeviceBuffer::<u32>::zeroed(&watcher, 1000)?;
        device.count(delay.delay(&stream, (1, 1), MS / 10))?;
        let arguments = (&mut buffer, 1000_u64, number as u32);
        // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many.
        unsafe { device.launch(&kernel, &stream, (4, 256), arguments) }?;
        event.record(&stream)?;
        seen.copy_from(&watcher, &buffer)?;
        let mut things = Things {
            context: Some(context),
            stream: Some(stream),
            buffer: Some(buffer),
            module: Some(module),
            kernel: Some(kernel),
            event: Some(event),
        };
        let order = permutation(number);
        for kind in &order {
            things.drop_one(*kind);
        }
        let first = number as u32;
        first_difference(&seen.to_vec(&watcher)?, &(first..first + 1000).collect::<Vec<_>>())
            .map_err(|failure| Failure::new(format!("order {order:?}: {failure}")))?;
        let errors = device.context().take_drop_errors();
        ensure!(errors.is_empty(), "order {order:?}: {errors:?}");
        if number % 100 == 99 {
            device.context().free_deferred()?;
        }
    }
    device.context().free_deferred()?;
    ensure_eq!(device.context().stats().deferred_frees, 0);
    Ok(())
}

/// How long a drop may take while a kernel runs elsewhere.
const LIMIT: Duration = Duration::from_millis(1);

/// How long a busy machine is given for drops within the limit.
const PATIENCE: Duration = Duration::from_secs(20);

fn no_drop_waits(device: &TestDevice) -> TestResult {
    // The scheduler may take the processor away in the middle of a drop, so the best of all rounds counts for each
    // kind, until all are within the limit. A drop that waits is slow in each round.
    let mut table: Vec<(&'static str, Duration)> = Vec::new();
    let begin = Instant::now();
    loop {
        if let Some(round) = time_drops(device)? {
            table.resize(round.len(), ("", Duration::MAX));
            for (best, (what, time)) in table.iter_mut().zip(round) {
                *best = (what, best.1.min(time));
            }
        }
        let within = !table.is_empty() && table.iter().all(|(_, time)| *time < LIMIT);
        if within || device.is_instrumented() || begin.elapsed() > PATIENCE {
            break;
        }
    }
    if table.is_empty() && device.is_instrumented() {
        return Ok(());
    }
    let worst = table.iter().max_by_key(|(_, time)| *time);
    let (what, time) =
        worst.ok_or_else(|| Failure::new("in each round the kernel ended before the drops did"))?;
    eprintln!("the slowest of {} drops: {what}, {:.1} µs", table.len(), time.as_secs_f64() * 1e6);
    if !device.is_instrumented() {
        for (what, time) in &table {
            ensure!(*time < LIMIT, "dropping {what} took {time:?}");
        }
    }
    Ok(())
}

/// Drops one thing of each kind while a kernel of 200 ms runs on another stream, and returns the times. `None` if the
/// kernel ended before the last drop did.
fn time_drops(device: &TestDevice) -> Result<Option<Vec<(&'static str, Duration)>>, Failure> {
    let context = device.context().device().context()?;
    let (busy, stream, other) = (context.stream()?, context.stream()?, context.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let elements = 1 << 20;

    // All of them are made before: making some of them waits for the device.
    let at_home = DeviceBuffer::<u32>::zeroed(&stream, elements)?;
    let mut shared = DeviceBuffer::<u32>::zeroed(&stream, elements)?;
    let mut in_use = DeviceBuffer::<u32>::zeroed(&busy, 1000)?;
    let empty = DeviceBuffer::<u32>::zeroed(&stream, 0)?;
    let idle_stream = context.stream()?;
    let busy_stream = context.stream()?;
    let staged_stream = context.stream()?;
    let staged = DeviceBuffer::from_slice(&staged_stream, &[1_u32; 1000])?;
    let called_stream = context.stream()?;
    let event = Event::new(&context)?;
    let pending_event = Event::timing(&context)?;
    let pinned = PinnedBuffer::<u32>::zeroed(&context, elements)?;
    let (up, down) = (
        PinnedBuffer::<u32>::zeroed(&context, 1000)?,
        PinnedBuffer::<u32>::zeroed(&context, 1000)?,
    );
    let module = Module::load(&context, &device.image(&BASIC)?)?;
    let running = Module::load(&context, &device.image(&BASIC)?)?;
    let (running_kernel, kernel) = (running.kernel("fill")?, running.kernel("add")?);
    let variables = Module::load(&context, &device.image(&TEMPLATES)?)?;
    let global = variables.global::<u32>(&stream, "counters")?;
    let step = |stream: &Stream, data: &mut DeviceBuffer<u32>| {
        delay.delayed_fill(stream, (1, 32), data, 1000, 3, 0)
    };
    let graph_data = || DeviceBuffer::<u32>::zeroed(&stream, 1000);
    let idle_graph = context.capture(graph_data()?, step)?;
    let mut busy_graph = context.capture(graph_data()?, step)?;
    let mut rich_graph = context.capture(graph_data()?, |stream, data| {
        // Memory and a source of its own, and a host function.
        let mut scratch = DeviceBuffer::<u32>::zeroed(stream, 1000)?;
        scratch.upload(stream, &[9; 1000])?;
        data.copy_from(stream, &scratch)?;
        stream.host_function_mut(|| ())?;
        step(stream, data)
    })?;
    for graph in [&mut busy_graph, &mut rich_graph] {
        graph.launch(&stream)?;
    }
    let (recorded_stream, recorded) = {
        let kept = std::cell::RefCell::new(None);
        let graph = context.capture((), |stream, ()| {
            *kept.borrow_mut() = Some(stream.fork()?);
            Ok(())
        })?;
        drop(graph);
        (kept.into_inner(), GraphBuilder::new(&context, graph_data()?)?)
    };
    let mut managed = UnifiedBuffer::<u32>::managed(&stream, elements)?;
    let mut mapped = UnifiedBuffer::<u32>::pinned(&stream, elements)?;
    let mut registered = UnifiedBuffer::register(&stream, vec![1_u32; elements])?;
    // Code that runs for the first time is brought to the device, which may wait.
    for stream in [&stream, &busy_stream, &called_stream] {
        device.count(delay.delay(stream, (1, 1), 0))?;
    }
    device.count(basic.fill(&other, (4, 256), &mut shared, elements as u64, 1))?;
    // SAFETY: `fill` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
    unsafe {
        device.launch(&running_kernel, &stream, (1, 256), (&mut shared, 1000_u64, 1_u32))?;
    }
    device.count(delay.delayed_fill(&busy, (1, 32), &mut in_use, 1000, 1, 0))?;
    context.synchronize()?;

    device.count(delay.delayed_fill(&busy, (1, 32), &mut in_use, 1000, 1, 200 * MS))?;
    device.count(delay.delay(&busy_stream, (1, 1), 200 * MS))?;
    device.count(delay.delay(&called_stream, (1, 1), 200 * MS))?;
    called_stream.host_function(|| {})?;
    pending_event.record(&busy)?;
    let transfer_up = in_use.as_slice_mut().upload_pinned(&busy, up)?;
    let transfer_down = in_use.as_slice().download_pinned(&busy, down)?;
    // SAFETY: as above.
    unsafe {
        let launch = LaunchConfig::new(1, 256);
        device.launch(&running_kernel, &busy, launch, (&mut in_use, 1000_u64, 1_u32))?;
    }
    for graph in [&mut busy_graph, &mut rich_graph] {
        graph.launch(&busy)?;
    }
    for unified in [&mut managed, &mut mapped, &mut registered] {
        basic.fill(&busy, (1, 256), unified.as_slice_mut().slice_mut(..1000)?, 1000, 4)?;
    }
    let mark = busy.mark()?;
    let clone = context.clone();

    let mut table = Vec::new();
    macro_rules! time {
        ($($what:literal: $thing:expr;)+) => {$(
            let thing = $thing;
            let begin = Instant::now();
            drop(thing);
            table.push(($what, begin.elapsed()));
        )+};
    }
    time! {
        "a buffer": at_home;
        "a buffer used on two streams": shared;
        "a buffer in use": in_use;
        "an empty buffer": empty;
        "a stream": idle_stream;
        "a busy stream": busy_stream;
        "a stream with a host function": called_stream;
        "a buffer whose home has no other handle": { drop(staged_stream); staged };
        "an event": event;
        "a pending event": pending_event;
        "pinned memory": pinned;
        "an upload under way": transfer_up;
        "a download under way": transfer_down;
        "a graph": idle_graph;
        "a graph that is running": busy_graph;
        "a running graph with memory, a source and a host function": rich_graph;
        "a graph being built": recorded;
        "a stream of a recording": recorded_stream;
        "managed memory in use": managed;
        "pinned memory that the device uses": mapped;
        "a registered vector in use": registered;
        "a mark": mark;
        "a kernel": kernel;
        "a kernel that is running": running_kernel;
        "the module of a kernel that is running": running;
        "a module": module;
        "a global": global;
        "the module of a global": variables;
        "a handle to the context": clone;
    }
    let running = !busy.is_done()?;
    context.synchronize()?;
    context.free_deferred()?;
    Ok(running.then_some(table))
}

fn dropped_on_another_thread(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    device.count(delay.delayed_fill(&stream, (1, 32), &mut buffer, 1000, 1, 5 * MS))?;
    let event = Event::new(device.context())?;
    event.record(&stream)?;
    let context = device.context().clone();
    // A thread on which no context was ever current.
    let thread = std::thread::spawn(move || drop((buffer, event, stream, context)));
    thread.join().map_err(|_| Failure::new("panicked"))
}

/// Closed while work is under way, with the errors that nobody else would hear of.
fn closed(device: &TestDevice) -> TestResult {
    let context = device.context();
    let (stream, watcher) = (device.stream()?, device.stream()?);
    let module = Module::load(context, &device.image(&BASIC)?)?;
    let (kernel, delay) = (module.kernel("iota")?, Delay::of(device)?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let mut seen = DeviceBuffer::<u32>::zeroed(&watcher, 1000)?;
    let event = Event::new(context)?;
    device.count(delay.delay(&stream, (1, 1), 20 * MS))?;
    // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many.
    unsafe { device.launch(&kernel, &stream, (4, 256), (&mut buffer, 1000_u64, 5_u32)) }?;
    event.record(&stream)?;
    seen.copy_from(&watcher, &buffer)?;
    let refused = match module.close() {
        Ok(()) => return Err(Failure::new("unloaded below its kernel")),
        Err(refused) => refused,
    };
    ensure!(refused.to_string().contains("still in use by 1 kernel"), "{refused}");
    drop(refused);
    let pinned = PinnedBuffer::from_slice(context, &[7_u32; 1000])?;
    let transfer = seen.as_slice().download_pinned(&watcher, pinned)?;
    let errors = [
        event.close().map_err(cuda_safe::Error::from),
        buffer.close().map_err(cuda_safe::Error::from),
        stream.close().map_err(cuda_safe::Error::from),
        kernel.close().map_err(cuda_safe::Error::from),
    ];
    for closed in errors {
        closed?;
    }
    let pinned = transfer.wait()?;
    first_difference(&pinned, &(5..1005).collect::<Vec<_>>())?;
    let transfer = seen.as_slice().download_pinned(&watcher, pinned)?;
    transfer.close()?;
    seen.close()?;
    watcher.close()?;
    Ok(())
}
