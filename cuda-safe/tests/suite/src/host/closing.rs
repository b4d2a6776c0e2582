//! What `close` calls, and when it refuses.

use std::fmt::Debug;
use std::sync::mpsc;

use cuda_safe::sys::CUresult;
use cuda_safe::{
    ConsumeError, DeviceBuffer, Error, Event, LaunchConfig, Module, PinnedBuffer, Stream,
};

use test_harness::lab::{Lab, PTX};
use test_harness::table::{Behaviour, Fault};
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "closing",
        host(calls),
        host(what_is_in_use_comes_back),
        host(what_is_left_is_named),
        host(what_is_not_given_away),
        host(what_fails_comes_back),
        host(lent_memory),
        host(without_pools),
        host(functions_go_with_their_stream),
    ]
}

type Closed<T> = Result<(), ConsumeError<T>>;

fn ok<T>(closed: Closed<T>) -> cuda_safe::Result<()> {
    Ok(closed?)
}

/// What came back, and why.
fn back<T>(closed: Closed<T>) -> Result<(T, Error), Failure> {
    match closed {
        Ok(()) => Err(Failure::new("closed")),
        Err(refused) => Ok(refused.into_parts()),
    }
}

fn calls() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (module, other) =
        (Module::from_ptx(&lab.context, PTX)?, Module::from_ptx(&lab.context, PTX)?);
    let kernel = other.kernel("one")?;
    drop(other);
    let event = Event::new(&lab.context)?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let pinned = PinnedBuffer::<u8>::zeroed(&lab.context, 100)?;
    let source = PinnedBuffer::<u8>::zeroed(&lab.context, 100)?;
    let transfer = buffer.upload_pinned(&stream, source)?;

    let none: [&str; 0] = [];
    let empty = PinnedBuffer::<u8>::zeroed(&lab.context, 0)?;
    ensure_eq!(lab.calls(|| ok(empty.close()))?.0, none);
    let empty = DeviceBuffer::<u8>::zeroed(&stream, 0)?;
    ensure_eq!(lab.calls(|| ok(empty.close()))?.0, none);

    let current = ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"];
    let [push, pop] = current;
    ensure_eq!(
        lab.calls(|| ok(transfer.close()))?.0,
        ["cuEventSynchronize", push, "cuMemHostUnregister", pop, "cuEventDestroy_v2"]
    );
    ensure_eq!(lab.calls(|| ok(pinned.close()))?.0, [push, "cuMemHostUnregister", pop]);
    ensure_eq!(lab.calls(|| ok(event.close()))?.0, ["cuEventDestroy_v2"]);
    ensure_eq!(lab.calls(|| ok(module.close()))?.0, [push, "cuModuleUnload", pop]);
    ensure_eq!(lab.calls(|| ok(kernel.close()))?.0, [push, "cuModuleUnload", pop]);
    ensure_eq!(lab.calls(|| ok(buffer.close()))?.0, ["cuMemFreeAsync"]);
    ensure_eq!(lab.calls(|| ok(stream.close()))?.0, ["cuStreamDestroy_v2"]);
    ensure_eq!(lab.context.stats().deferred_frees, 0, "nothing is left for later");
    lab.close()
}

/// Refused because of `reason`, without a call; works once nothing is in the way.
fn refused<T: Debug>(lab: &Lab, closed: Closed<T>, reason: &str) -> Result<T, Failure> {
    let (thing, error) = back(closed)?;
    let text = error.to_string();
    ensure!(text.contains(reason) && error.call().is_none(), "{thing:?}: {text}");
    ensure!(lab.recorder.names().is_empty(), "{thing:?}: the driver was asked");
    Ok(thing)
}

fn what_is_in_use_comes_back() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    let kernel = module.kernel("one")?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let allocation = buffer.allocation().clone();
    lab.recorder.take();

    let module = refused(&lab, module.close(), "the module is still in use by 1 kernel")?;
    let in_use = "the module is still in use by 1 other handle to it";
    let kernel = refused(&lab, kernel.close(), in_use)?;
    let again = kernel.clone();
    let in_use = "the kernel is still in use by 1 other handle to it";
    let kernel = refused(&lab, kernel.close(), in_use)?;
    drop((again, module));
    ok(kernel.close())?;
    lab.recorder.take();

    let in_use = "the memory is still in use by 1 other handle to it";
    let buffer = refused(&lab, buffer.close(), in_use)?;
    ensure_eq!(buffer.len(), 100);
    let again = stream.clone();
    let in_use = "the stream is still in use by 1 buffer and 1 other handle to it";
    let stream = refused(&lab, stream.close(), in_use)?;
    drop((allocation, again));
    ok(buffer.close())?;
    ok(stream.close())?;
    lab.close()
}

/// The error names all that keeps the context, by kind and number.
fn what_is_left_is_named() -> TestResult {
    let lab = Lab::new()?;
    let named = |wanted: &str| {
        let (_, error) = back(lab.context.clone().close())?;
        ensure_eq!(error.to_string(), format!("the context is still in use by {wanted}"));
        Ok::<_, Failure>(())
    };
    named("1 other handle to it")?;
    let (stream, side) = (lab.context.stream()?, lab.context.stream()?);
    named("2 streams and 1 other handle to it")?;
    let buffers =
        [DeviceBuffer::<u8>::zeroed(&stream, 10)?, DeviceBuffer::<u8>::zeroed(&side, 10)?];
    let event = Event::new(&lab.context)?;
    let pinned = PinnedBuffer::<u8>::zeroed(&lab.context, 10)?;
    let kernel = lab.kernel("nothing")?;
    let again = kernel.clone();
    let mut graph = lab.context.capture((), |stream, ()| {
        // SAFETY: nothing runs on this driver.
        unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), ()) }
    })?;
    // Recorded anew it keeps two shapes, and is one graph.
    // SAFETY: as above.
    graph.recapture(|stream, ()| unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), ()) })?;
    named(
        "2 buffers, 1 pinned buffer, 2 streams, 1 event, 1 kernel, 1 module, 1 graph and 1 other \
         handle to it",
    )?;
    graph.close()?;
    drop((kernel, again));
    named("2 buffers, 1 pinned buffer, 2 streams, 1 event and 1 other handle to it")?;
    drop((buffers, event, side));
    named("1 pinned buffer, 1 stream and 1 other handle to it")?;
    drop(pinned);
    let raw = stream.into_raw()?;
    named("1 stream and 1 other handle to it")?;
    ensure!(!raw.is_null());
    Ok(())
}

/// Methods that consume their object say why they did not.
fn what_is_not_given_away() -> TestResult {
    let lab = Lab::new()?;
    let (stream, other) = (lab.context.stream()?, lab.context.stream()?);
    let says = |error: Error, wanted: &str| {
        ensure!(error.to_string().contains(wanted), "{error}");
        Ok::<_, Failure>(())
    };
    // SAFETY: the stream outlives this handle to it.
    let foreign = unsafe { Stream::from_raw(&lab.context, other.as_raw(), ()) }?;
    let refused = foreign.into_raw().err().ok_or_else(|| Failure::new("it is not ours"))?;
    says(refused.into(), "adopted by Stream::from_raw")?;
    let again = stream.clone();
    let refused = again.into_raw().err().ok_or_else(|| Failure::new("there is another"))?;
    says(refused.into(), "the stream is still in use by 1 other handle to it")?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 12)?;
    let held = buffer.allocation().clone();
    let refused = buffer.into_raw().err().ok_or_else(|| Failure::new("it is held"))?;
    says(refused.error().clone(), "the memory is still in use by 1 other handle to it")?;
    drop(held);
    let Err(refused) = refused.into_inner().cast::<u64>() else {
        return Err(Failure::new("12 bytes were taken as elements of 8"));
    };
    says(refused.error().clone(), "12 bytes are not a whole number of u64, which has 8")?;
    let buffer = refused.into_inner();
    // SAFETY: `buffer` keeps the memory.
    let lent = unsafe {
        DeviceBuffer::<u8>::from_raw(&stream, buffer.device_ptr(), 12, Some(Box::new(())))
    }?;
    let refused = lent.into_raw().err().ok_or_else(|| Failure::new("it is lent"))?;
    says(refused.into(), "foreign memory, which a token keeps alive")?;
    drop((buffer, stream, other));
    lab.context.free_deferred()?;
    lab.close()
}

/// Every call that can fail once, and works when it is tried again.
fn what_fails_comes_back() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    let event = Event::new(&lab.context)?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let pinned = PinnedBuffer::from_slice(&lab.context, &[7u8; 100])?;
    let code = CUresult::CUDA_ERROR_NOT_PERMITTED;
    let fail = |call| {
        lab.recorder.take();
        lab.recorder.fail(Some(Fault { call, code, repeated: false }));
    };
    fail(1);
    let (pinned, error) = back(pinned.close())?;
    ensure_eq!((error.call(), error.code()), (Some("cuMemHostUnregister"), Some(code)));
    ensure!(pinned.iter().all(|byte| *byte == 7), "as it was");
    fail(1);
    let (module, error) = back(module.close())?;
    ensure_eq!((error.call(), error.code()), (Some("cuModuleUnload"), Some(code)));
    fail(0);
    let (event, error) = back(event.close())?;
    ensure_eq!((error.call(), error.code()), (Some("cuEventDestroy"), Some(code)));
    fail(0);
    let (buffer, error) = back(buffer.close())?;
    ensure_eq!((error.call(), error.code()), (Some("cuMemFreeAsync"), Some(code)));
    ensure_eq!(buffer.len(), 100);
    lab.recorder.fail(None);
    for closed in [ok(pinned.close()), ok(module.close()), ok(event.close()), ok(buffer.close())] {
        closed?;
    }
    fail(0);
    let (stream, error) = back(stream.close())?;
    ensure_eq!((error.call(), error.code()), (Some("cuStreamDestroy"), Some(code)));
    lab.recorder.fail(None);
    // It is a stream as before: known to the context, so that errors tell of its launches.
    let nothing = lab.kernel("nothing")?;
    // SAFETY: nothing runs on this driver.
    unsafe { nothing.launch(&stream, LaunchConfig::new(1, 1), ()) }?;
    drop(nothing);
    ok(stream.close())?;
    lab.close()
}

fn lent_memory() -> TestResult {
    let lab = Lab::new()?;
    let (home, other) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let memory = DeviceBuffer::<u8>::zeroed(&home, 100)?;
    let token = std::sync::Arc::new(());
    let lent = Some(Box::new(token.clone()) as Box<_>);
    // SAFETY: `memory` keeps it allocated, and is not used meanwhile.
    let buffer = unsafe { DeviceBuffer::<u8>::from_raw(&home, memory.device_ptr(), 100, lent) }?;
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &buffer)) }?;
    let (calls, ()) = lab.calls(|| ok(buffer.close()))?;
    ensure_eq!(calls.last(), Some(&"cuStreamWaitEvent"), "for the use elsewhere");
    ensure_eq!(std::sync::Arc::strong_count(&token), 1, "its owner may have it back");

    // SAFETY: the stream outlives this handle to it.
    let foreign = unsafe { Stream::from_raw(&lab.context, other.as_raw(), token.clone()) }?;
    let (calls, ()) = lab.calls(|| ok(foreign.close()))?;
    ensure!(calls.is_empty(), "not ours to destroy: {calls:?}");
    ensure_eq!(std::sync::Arc::strong_count(&token), 1);
    drop((memory, one, home, other));
    lab.close()
}

fn without_pools() -> TestResult {
    let lab = Lab::with(Behaviour { pools: false, ..Behaviour::default() }, &[])?;
    let stream = lab.context.stream()?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let (calls, ()) = lab.calls(|| ok(buffer.close()))?;
    ensure!(calls.is_empty(), "{calls:?}");
    ensure_eq!(lab.context.stats().deferred_frees, 1, "freeing it would wait");
    ok(stream.close())?;
    lab.close()
}

fn functions_go_with_their_stream() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (sender, receiver) = mpsc::channel();
    stream.host_function_mut(move || {
        // Nobody has hung up: the receiver is below.
        let _ = sender.send(());
    })?;
    stream.synchronize()?;
    ensure_eq!(receiver.recv(), Ok(()));
    ensure_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty), "it may be called again");
    ok(stream.close())?;
    ensure_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected), "it is gone");
    lab.close()
}
