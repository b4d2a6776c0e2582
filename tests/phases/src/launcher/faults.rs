//! Faults: every wait and download returns them until they are taken, and the context works on.

use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};

use cuda_safe::kernel::{Fault, FaultKind};
use cuda_safe::{
    DeviceBuffer, Error, ErrorKind, Event, PinnedBuffer, PitchedLayout, Result, Stream,
    UnifiedBuffer,
};

use crate::by_hand::{Float, Word, gather, places, saxpy};
use crate::turn;

/// Launches a kernel whose element 300 has the index `bad`; there are 400 elements.
fn launch_bad(stream: &Stream, bad: u32) -> Result<DeviceBuffer<Float>> {
    let mut at: Vec<_> = (0..400).map(|i| Word(i % 10)).collect();
    at[300] = Word(bad);
    let at = DeviceBuffer::from_slice(stream, &at)?;
    let x = DeviceBuffer::from_slice(stream, &[Float(1.0); 10])?;
    let mut out = DeviceBuffer::<Float>::zeroed(stream, 400)?;
    gather(stream, &at, &x, &mut out)?;
    Ok(out)
}

fn fault_of(error: &Error) -> &Fault {
    match error.kind() {
        ErrorKind::KernelFault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn faulted<T>(what: &str, result: Result<T>, index: u64) {
    match result {
        Ok(_) => panic!("{what} does not return the fault"),
        Err(error) => assert_eq!(fault_of(&error).index, index, "{what}"),
    }
}

#[test]
fn the_fault_names_kernel_line_and_element() -> Result<()> {
    let turn = turn();
    let stream = turn.context.stream()?;
    let out = launch_bad(&stream, 17)?;
    let error = out.to_vec(&stream).expect_err("an index is out of bounds");
    let expected = Fault {
        kernel: "gather",
        file: "src/by_hand.rs",
        line: 42,
        kind: FaultKind::Index,
        index: 17,
        len: 10,
        element: [300, 0, 0],
        block: None,
    };
    assert_eq!(fault_of(&error), &expected);
    let text = error.to_string();
    for part in ["index 17", "length 10", "`gather`", "src/by_hand.rs:42", "300", "take_fault"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!error.is_fatal() && error.is_asynchronous() && error.code().is_none());
    assert_eq!(turn.context.take_fault(), Some(expected));
    assert_eq!(turn.context.take_fault(), None);
    Ok(())
}

#[test]
fn every_wait_returns_it_until_it_is_taken() -> Result<()> {
    let turn = turn();
    let context = &turn.context;
    let (stream, other) = (context.stream()?, context.stream()?);
    let (start, event) = (Event::timing(context)?, Event::timing(context)?);
    start.record(&stream)?;
    let mut unified = UnifiedBuffer::<Word>::pinned(&stream, 4)?;
    let managed = UnifiedBuffer::<Word>::managed(&stream, 4)?;
    let registered = UnifiedBuffer::register(&stream, vec![Word(1); 4])?;
    let unrelated = DeviceBuffer::from_slice(&other, &[Word(3); 64])?;
    // Before anything has failed, all is well.
    context.synchronize()?;
    let out = launch_bad(&stream, 1000)?;
    event.record(&stream)?;
    let mark = stream.mark()?;

    faulted("Stream::synchronize", stream.synchronize(), 1000);
    faulted("Stream::synchronize again", stream.synchronize(), 1000);
    faulted("of another stream", other.synchronize(), 1000);
    faulted("Stream::is_done", stream.is_done(), 1000);
    faulted("Event::synchronize", event.synchronize(), 1000);
    faulted("Event::is_done", event.is_done(), 1000);
    faulted("Event::elapsed_ms", start.elapsed_ms(&event), 1000);
    faulted("Mark::synchronize", mark.synchronize(), 1000);
    faulted("Context::synchronize", context.synchronize(), 1000);
    faulted("DeviceBuffer::to_vec", out.to_vec(&stream), 1000);
    faulted("of unrelated memory", unrelated.to_vec(&other), 1000);
    let mut host = [Word(0); 64];
    faulted("download", unrelated.download(&stream, &mut host), 1000);
    let (layout, extent) = (PitchedLayout::compact((8, 8, 1)), (3, 8, 1));
    let boxed = unrelated.download_3d(&stream, layout, &mut host, layout, extent);
    faulted("download_3d", boxed, 1000);
    faulted("UnifiedBuffer::host", unified.host(), 1000);
    faulted("UnifiedBuffer::host_mut", unified.host_mut(), 1000);
    faulted("of managed memory", managed.host(), 1000);
    let refused = registered.into_vec().expect_err("a fault");
    let (registered, error) = refused.into_parts();
    faulted("UnifiedBuffer::into_vec", Err::<(), _>(error), 1000);

    let pinned = || PinnedBuffer::<Word>::zeroed(context, 64);
    let transfer = unrelated.as_slice().download_pinned(&stream, pinned()?)?;
    // It is done soon, and then the query returns the fault.
    faulted("Transfer::is_done", wait_until_err(|| transfer.is_done()), 1000);
    faulted("Transfer::wait", transfer.wait(), 1000);
    let transfer = unrelated.as_slice().download_pinned(&stream, pinned()?)?;
    let mut transfer = pin!(transfer);
    let awaited = wait_until_err(|| {
        let mut task = TaskContext::from_waker(Waker::noop());
        match transfer.as_mut().poll(&mut task) {
            Poll::Pending => Ok(false),
            Poll::Ready(result) => result.map(|_| true),
        }
    });
    faulted("awaiting a transfer", awaited, 1000);

    // Launches and uploads go on, and so does the context after the fault was taken.
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 10)?;
    let x = DeviceBuffer::from_slice(&stream, &[Float(2.0); 10])?;
    saxpy(&stream, 2.0, &x, &mut out)?;
    assert!(context.take_fault().is_some());
    stream.synchronize()?;
    assert!(event.is_done()? && stream.is_done()?);
    assert_eq!(out.to_vec(&stream)?, [Float(4.0); 10]);
    assert_eq!(&unified.host()?[..], [Word(0); 4]);
    let vector = registered.into_vec().map_err(|refused| refused.into_parts().1)?;
    assert_eq!(vector, [Word(1); 4]);
    Ok(())
}

/// Asks until the result is an error; fails if it becomes `Ok(true)`.
fn wait_until_err(mut ask: impl FnMut() -> Result<bool>) -> Result<()> {
    loop {
        if ask()? {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

#[test]
fn the_first_fault_is_kept_and_the_next_one_recorded_after_it_was_taken() -> Result<()> {
    let turn = turn();
    let context = &turn.context;
    let stream = context.stream()?;
    let first = launch_bad(&stream, 50)?;
    faulted("the first", stream.synchronize(), 50);
    let second = launch_bad(&stream, 60)?;
    faulted("still the first", stream.synchronize(), 50);
    assert_eq!(context.take_fault().map(|fault| fault.index), Some(50));
    stream.synchronize()?;
    let mut out = DeviceBuffer::<Word>::zeroed(&stream, 40 * 20 * 3)?;
    places(&stream, [40, 20, 3], 3, &mut out)?;
    let error = out.to_vec(&stream).expect_err("one element fails");
    let fault = fault_of(&error);
    assert_eq!((fault.kernel, fault.kind, fault.line), ("places", FaultKind::Assert, 77));
    assert_eq!((fault.element, fault.index, fault.len), ([33, 9, 2], 0, 0));
    assert!(context.take_fault().is_some());
    assert_eq!(first.to_vec(&stream)?.len() + second.to_vec(&stream)?.len(), 800);
    // All other elements of the launch were written.
    let written = out.to_vec(&stream)?;
    assert_eq!(written[32 + 40 * 9], Word(32 + 9000));
    Ok(())
}

#[test]
fn launches_of_graphs_record_faults() -> Result<()> {
    let turn = turn();
    let context = &turn.context;
    let stream = context.stream()?;
    let mut at = DeviceBuffer::from_slice(&stream, &[Word(3); 5])?;
    let x = DeviceBuffer::from_slice(&stream, &[Float(1.5); 4])?;
    let out = DeviceBuffer::<Float>::zeroed(&stream, 5)?;
    let mut graph = context.capture(out, |stream, out| gather(stream, &at, &x, out))?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    drop(graph);
    at.as_slice_mut().slice_mut(2..3)?.upload(&stream, &[Word(4)])?;
    let out = DeviceBuffer::<Float>::zeroed(&stream, 5)?;
    let mut graph = context.capture(out, |stream, out| gather(stream, &at, &x, out))?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        faulted("a wait behind a launch of a graph", stream.synchronize(), 4);
        let fault = context.take_fault();
        assert_eq!(fault.map(|fault| (fault.element, fault.len)), Some(([2, 0, 0], 4)));
    }
    Ok(())
}

#[test]
fn many_threads_fail_and_one_fault_is_recorded() -> Result<()> {
    let turn = turn();
    let stream = turn.context.stream()?;
    let at: Vec<_> = (0..5000).map(|i| Word(100 + i)).collect();
    let at = DeviceBuffer::from_slice(&stream, &at)?;
    let x = DeviceBuffer::from_slice(&stream, &[Float(1.0); 10])?;
    let mut out = DeviceBuffer::<Float>::zeroed(&stream, 5000)?;
    gather(&stream, &at, &x, &mut out)?;
    let error = out.to_vec(&stream).expect_err("all fail");
    let fault = fault_of(&error);
    // All parts are of one thread.
    assert_eq!(fault.index, 100 + fault.element[0]);
    assert_eq!((fault.len, fault.line), (10, 42));
    assert!(turn.context.take_fault().is_some());
    assert_eq!(out.to_vec(&stream)?, [Float(0.0); 5000]);
    Ok(())
}

#[test]
fn threads_wait_and_take_while_others_launch() -> Result<()> {
    let turn = turn();
    let context = &turn.context;
    let taken = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                scope.spawn(move || {
                    let stream = context.stream().expect("a stream");
                    let mut taken = 0;
                    for _ in 0..10 {
                        // Its uploads may wait for a fault of another thread, which may take this one's first.
                        let done = launch_bad(&stream, 100 + worker);
                        if let Err(error) = done.and_then(|_out| stream.synchronize()) {
                            assert!((100..104).contains(&fault_of(&error).index), "{error}");
                        }
                        if let Some(fault) = context.take_fault() {
                            assert_eq!((fault.len, fault.element), (10, [300, 0, 0]));
                            taken += 1;
                        }
                    }
                    taken
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<u32>()
    });
    // The first launch of each thread at least competes for an empty slot.
    assert!((1..=40).contains(&taken), "{taken}");
    context.synchronize().or_else(|error| {
        assert_eq!(fault_of(&error).line, 42);
        let _ = context.take_fault();
        context.synchronize()
    })
}
