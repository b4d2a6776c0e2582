//! What `close` calls, and when it refuses.

use std::fmt::Debug;
use std::sync::mpsc;

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Error, Event, Launch, Module, PinnedBuffer, Stream};

use super::lab::{Lab, PTX};
use super::table::{Behaviour, Fault};
use crate::harness::{Case, Failure, TestResult, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::host("closing::calls", calls),
        Case::host("closing::what_is_in_use_comes_back", in_use),
        Case::host("closing::what_fails_comes_back", what_fails),
        Case::host("closing::lent_memory", lent_memory),
        Case::host("closing::without_pools", without_pools),
        Case::host("closing::functions_go_with_their_stream", functions),
    ]
}

type Closed<T> = Result<(), (T, Error)>;

fn ok<T>(closed: Closed<T>) -> cuda_safe::Result<()> {
    closed.map_err(|(_, error)| error)
}

/// What came back, and why.
fn back<T>(closed: Closed<T>) -> Result<(T, Error), Failure> {
    match closed {
        Ok(()) => Err(Failure::new("closed")),
        Err(back) => Ok(back),
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
    ensure_eq!(lab.context.stats().in_bin, 0, "nothing is left for later");
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

fn in_use() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    let kernel = module.kernel("one")?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let allocation = buffer.allocation().clone();
    lab.recorder.take();

    let module = refused(&lab, module.close(), "the module is still in use: 1 other")?;
    let kernel = refused(&lab, kernel.close(), "the module is still in use: 1 other")?;
    let again = kernel.clone();
    let kernel = refused(&lab, kernel.close(), "the kernel is still in use: 1 other")?;
    drop((again, module));
    ok(kernel.close())?;
    lab.recorder.take();

    let buffer = refused(&lab, buffer.close(), "the memory is still in use: 1 other")?;
    ensure_eq!(buffer.len(), 100);
    let stream = refused(&lab, stream.close(), "the stream is still in use: 1 other")?;
    drop(allocation);
    ok(buffer.close())?;
    ok(stream.close())?;
    lab.close()
}

/// Every call that can fail once, and works when it is tried again.
fn what_fails() -> TestResult {
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
    unsafe { nothing.launch(&stream, Launch::new(1, 1), ()) }?;
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
    let buffer = unsafe { DeviceBuffer::<u8>::from_raw(&home, memory.as_raw(), 100, lent) }?;
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&other, Launch::new(1, 1), (0u64, &buffer)) }?;
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
    ensure_eq!(lab.context.stats().in_bin, 1, "freeing it would wait");
    ok(stream.close())?;
    lab.close()
}

fn functions() -> TestResult {
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
