//! Somebody else destroys the primary context under us: by a reset, or by one release too many.

use cuda_safe::sys::{CUcontext, CUresult};
use cuda_safe::{
    Context, DeviceBuffer, Event, Module, PinnedBuffer, Result, Stream, UnifiedBuffer,
};

use super::error_of;
use test_harness::programs::{BASIC, Basic};
use test_harness::{Case, Failure, Open, TestResult, cases, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "fault::reset",
        process(whichever_call_meets_it),
        process(dropped_in_every_order),
        process(found_by_the_next_context),
        process(looked_at),
        process(released_once_too_often),
        process(retained_anew_by_others),
        process(adopted_primary_context),
    ]
}

/// One thing of each kind.
struct Things {
    context: Context,
    stream: Stream,
    other: Stream,
    event: Event,
    basic: Basic,
    module: Module,
    buffer: DeviceBuffer<u32>,
    shared: DeviceBuffer<u32>,
    pinned: PinnedBuffer<u32>,
    unified: UnifiedBuffer<u32>,
    registered: UnifiedBuffer<u32>,
}

impl Things {
    fn new(context: Context) -> std::result::Result<Self, Failure> {
        let (stream, other) = (context.stream()?, context.stream()?);
        let event = Event::new(&context)?;
        event.record(&stream)?;
        let image = {
            let arch = context.device().arch()?;
            BASIC.to_nvrtc().compile_for_driver(arch, context.driver().version()?)?
        };
        let module = Module::load(&context, &image)?;
        // SAFETY: the module is made of the source that the declaration names.
        let basic = unsafe { Basic::from_module(&module) }?;
        let mut buffer = DeviceBuffer::from_slice(&stream, &[1_u32; 1000])?;
        let mut shared = DeviceBuffer::from_slice(&stream, &[1_u32; 1000])?;
        test_harness::count_launches(2);
        basic.fill(&stream, (4, 256), &mut buffer, 1000, 7)?;
        basic.fill(&other, (4, 256), &mut shared, 1000, 8)?;
        let pinned = PinnedBuffer::zeroed(&context, 1000)?;
        let unified = UnifiedBuffer::pinned(&stream, 1000)?;
        let registered = UnifiedBuffer::register(&stream, vec![5; 1000])?;
        first_difference(&buffer.to_vec(&stream)?, &[7; 1000])?;
        context.synchronize()?;
        Ok(Self {
            context,
            stream,
            other,
            event,
            basic,
            module,
            buffer,
            shared,
            pinned,
            unified,
            registered,
        })
    }
}

type Call = fn(&mut Things) -> Result<()>;

/// A call of each kind; each is the first that meets the reset in its turn.
const CALLS: [(&str, Call); 16] = [
    ("launch", |all| all.basic.fill(&all.stream, (4, 256), &mut all.buffer, 1000, 1)),
    ("launch on another stream", |all| {
        all.basic.fill(&all.other, (4, 256), &mut all.buffer, 1000, 1)
    }),
    ("synchronize", |all| all.stream.synchronize()),
    ("query a stream", |all| all.stream.is_done().map(drop)),
    ("query an event", |all| all.event.is_done().map(drop)),
    ("record", |all| all.event.record(&all.stream)),
    ("wait for an event", |all| all.other.wait_event(&all.event)),
    ("upload", |all| all.buffer.upload(&all.stream, &[1; 1000])),
    ("download", |all| all.buffer.to_vec(&all.stream).map(drop)),
    ("fill", |all| all.buffer.fill(&all.stream, 3)),
    ("allocate", |all| DeviceBuffer::<u8>::zeroed(&all.stream, 100).map(drop)),
    ("pin", |all| PinnedBuffer::<u8>::zeroed(&all.context, 100_000).map(drop)),
    ("make a stream", |all| all.context.stream().map(drop)),
    ("make an event", |all| Event::new(&all.context).map(drop)),
    ("find a kernel", |all| all.module.kernel("iota").map(drop)),
    ("synchronize the context", |all| all.context.synchronize()),
];

/// Whether the driver answers stale handles at all: a software device does. NVIDIA's does at first,
/// and later crashes (measured on driver 580), so there the context has to be looked at before.
fn answers_stale_handles(context: &Context) -> Result<bool> {
    Ok(context.device().name()?.contains("(software)"))
}

/// Looks at the context, where the driver can't be trusted to tell.
fn look(context: &Context) -> TestResult {
    if !answers_stale_handles(context)? {
        says_gone("check", context.check_alive())?;
    }
    Ok(())
}

/// What another library does.
fn reset(context: &Context) -> TestResult {
    let device = context.device().as_raw();
    // SAFETY: the device is the driver's. What is destroyed is not touched by this test.
    let answer = unsafe { context.driver().as_sys().cuDevicePrimaryCtxReset_v2(device) };
    ensure_eq!(answer?, CUresult::CUDA_SUCCESS);
    Ok(())
}

fn says_gone(what: &str, result: Result<()>) -> TestResult {
    let error = error_of(what, result)?;
    let gone = [CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, CUresult::CUDA_ERROR_INVALID_CONTEXT];
    ensure!(error.code().is_some_and(|code| gone.contains(&code)), "{what}: {error}");
    ensure!(error.is_fatal() && !error.is_asynchronous(), "{what}: {error}");
    ensure!(error.hint().is_some_and(|hint| hint.contains("Context")), "{what}: {error}");
    Ok(())
}

fn whichever_call_meets_it(open: Open) -> TestResult {
    let device = open()?.device(0)?;
    for (first, call) in CALLS {
        let mut all = Things::new(device.context()?)?;
        reset(&all.context)?;
        look(&all.context)?;
        says_gone(first, call(&mut all))?;
        // From then on everything answers that, and nothing is asked of the driver.
        for (what, call) in CALLS {
            says_gone(what, call(&mut all))
                .map_err(|failure| Failure::new(format!("after {first}: {failure}")))?;
        }
        says_gone("look", all.unified.host().map(drop))?;
        let context = all.context.clone();
        let taken = all.registered.into_vec().map(drop).map_err(cuda_safe::Error::from);
        says_gone("take a vector back", taken)?;
        drop((all.context, all.stream, all.other, all.event, all.basic, all.module));
        drop((all.buffer, all.shared, all.pinned, all.unified));
        says_gone("collect", context.free_deferred())?;
        ensure_eq!(context.take_drop_errors().len(), 0, "{first}");
        let closed = context.close().map_err(cuda_safe::Error::from);
        says_gone("close", closed)?;
    }
    // The device itself is as it was.
    ensure!(!device.name()?.is_empty());
    Things::new(device.context()?)?.context.synchronize()?;
    Ok(())
}

/// The drop that meets it first is as quiet as the others.
fn dropped_in_every_order(open: Open) -> TestResult {
    let device = open()?.device(0)?;
    for first in 0..7 {
        let Things {
            context,
            stream,
            other,
            event,
            basic,
            module,
            buffer,
            shared,
            pinned,
            unified,
            registered,
        } = Things::new(device.context()?)?;
        let mut drops: Vec<Option<Box<dyn FnOnce()>>> = vec![
            Some(Box::new(move || drop((buffer, shared)))),
            Some(Box::new(move || drop(event))),
            Some(Box::new(move || drop((basic, module)))),
            Some(Box::new(move || drop(pinned))),
            Some(Box::new(move || drop((unified, registered)))),
            Some(Box::new(move || drop(stream))),
            Some(Box::new(move || drop(other))),
        ];
        reset(&context)?;
        look(&context)?;
        let count = drops.len();
        for index in 0..count {
            if let Some(act) = drops[(first + index) % count].take() {
                act();
            }
        }
        let errors = context.take_drop_errors();
        ensure!(errors.is_empty(), "from {first}: {errors:?}");
    }
    Ok(())
}

/// Nobody has touched a stale handle: a new context finds out by itself, and calls on the old one return the error.
fn found_by_the_next_context(open: Open) -> TestResult {
    let device = open()?.device(0)?;
    let mut old = Things::new(device.context()?)?;
    reset(&old.context)?;
    let mut new = Things::new(device.context()?)?;
    for (what, call) in CALLS {
        says_gone(what, call(&mut old))?;
        call(&mut new)?;
    }
    // Streams of the one are of no use with buffers of the other, though the handles may be equal.
    let crossed = new.basic.fill(&old.stream, (4, 256), &mut new.buffer, 1000, 1);
    says_gone("an old stream", crossed)?;
    let crossed = new.basic.fill(&new.stream, (4, 256), &mut old.buffer, 1000, 1);
    error_of("an old buffer", crossed)?;
    drop(old);
    first_difference(&new.unified.host()?, &[0; 1000])?;
    let vector = new.registered.into_vec()?;
    first_difference(&vector, &[5; 1000])?;
    ensure_eq!(new.context.take_drop_errors().len(), 0);
    Ok(())
}

/// A program that calls `check_alive` before anything else is safe on every driver.
fn looked_at(open: Open) -> TestResult {
    let device = open()?.device(0)?;
    for _ in 0..3 {
        let mut all = Things::new(device.context()?)?;
        all.context.check_alive()?;
        reset(&all.context)?;
        says_gone("check", all.context.check_alive())?;
        for (what, call) in CALLS {
            says_gone(what, call(&mut all))?;
        }
        says_gone("look", all.unified.host().map(drop))?;
        // The pages are the process's own and stay.
        all.pinned.fill(7);
        first_difference(&all.pinned, &[7; 1000])?;
    }
    Ok(())
}

fn released_once_too_often(open: Open) -> TestResult {
    let device = open()?.device(0)?;
    for round in 0..2 {
        let mut all = Things::new(device.context()?)?;
        let sys = all.context.driver().as_sys();
        // SAFETY: as for `reset`.
        let mut answer = unsafe { sys.cuDevicePrimaryCtxRelease_v2(device.as_raw()) };
        ensure_eq!(answer?, CUresult::CUDA_SUCCESS);
        if round == 1 {
            // Our own release then finds nothing to release.
            // SAFETY: as above.
            answer = unsafe { sys.cuDevicePrimaryCtxRelease_v2(device.as_raw()) };
            ensure_eq!(answer?, CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        look(&all.context)?;
        for (what, call) in CALLS {
            says_gone(what, call(&mut all))?;
        }
        let context = all.context.clone();
        drop(all);
        ensure_eq!(context.take_drop_errors().len(), 0);
    }
    Ok(())
}

/// What another library does to use the device again.
fn retain(context: &Context) -> std::result::Result<CUcontext, Failure> {
    let mut raw = std::ptr::null_mut();
    let (sys, device) = (context.driver().as_sys(), context.device().as_raw());
    // SAFETY: `raw` is a valid place for a handle, and the device is the driver's.
    let code = unsafe { sys.cuDevicePrimaryCtxRetain(&raw mut raw, device) }?;
    ensure_eq!(code, CUresult::CUDA_SUCCESS);
    Ok(raw)
}

/// The primary context is active again, perhaps by the same handle, and still not ours.
fn retained_anew_by_others(open: Open) -> TestResult {
    let device = open()?.device(0)?;
    // `check_alive` reports it.
    let mut old = Things::new(device.context()?)?;
    old.context.check_alive()?;
    reset(&old.context)?;
    retain(&old.context)?;
    says_gone("check", old.context.check_alive())?;
    for (what, call) in CALLS {
        says_gone(what, call(&mut old))?;
    }
    says_gone("look", old.unified.host().map(drop))?;
    // A new context is found without asking the old one.
    let mut new = Things::new(device.context()?)?;
    new.context.check_alive()?;
    reset(&new.context)?;
    retain(&new.context)?;
    let newest = device.context()?;
    for (what, call) in CALLS {
        says_gone(what, call(&mut new))?;
    }
    drop((old, new));
    newest.check_alive()?;
    ensure_eq!(newest.take_drop_errors().len(), 0);
    Things::new(newest)?.context.synchronize()?;
    // So does a call that meets a stale handle, where the driver refuses those. The others would
    // work in the new context.
    let context = device.context()?;
    if !answers_stale_handles(&context)? {
        return Ok(());
    }
    drop(context);
    let needs_the_context_alone =
        ["pin", "make a stream", "make an event", "synchronize the context"];
    for (first, call) in CALLS {
        if needs_the_context_alone.contains(&first) {
            continue;
        }
        let mut all = Things::new(device.context()?)?;
        reset(&all.context)?;
        retain(&all.context)?;
        says_gone(first, call(&mut all))?;
        for (what, call) in CALLS {
            says_gone(what, call(&mut all))
                .map_err(|failure| Failure::new(format!("after {first}: {failure}")))?;
        }
    }
    Ok(())
}

/// A primary context that a framework has retained, and that was adopted by its handle.
fn adopted_primary_context(open: Open) -> TestResult {
    let driver = open()?;
    let device = driver.device(0)?;
    let mut raw = std::ptr::null_mut();
    // SAFETY: `raw` is a valid place for a handle, and the device is the driver's.
    let code = unsafe { driver.as_sys().cuDevicePrimaryCtxRetain(&raw mut raw, device.as_raw()) }?;
    ensure_eq!(code, CUresult::CUDA_SUCCESS);
    for _ in 0..2 {
        // SAFETY: the context is retained. What is destroyed below is not touched by this test.
        let adopted = unsafe { Context::from_raw(driver, raw, ()) }?;
        let mut all = Things::new(adopted.clone())?;
        adopted.check_alive()?;
        reset(&adopted)?;
        raw = retain(&adopted)?;
        says_gone("check", adopted.check_alive())?;
        for (what, call) in CALLS {
            says_gone(what, call(&mut all))?;
        }
        drop(all);
        ensure_eq!(adopted.take_drop_errors().len(), 0);
    }
    // A context that its owner has given back in the meantime says nothing of the device.
    // SAFETY: as above.
    drop(unsafe { Context::from_raw(driver, raw, ()) }?);
    // SAFETY: nothing of the context is used any more.
    while unsafe { driver.as_sys().cuDevicePrimaryCtxRelease_v2(device.as_raw()) }?
        == CUresult::CUDA_SUCCESS
    {}
    Things::new(device.context()?)?.context.synchronize()?;
    Ok(())
}
