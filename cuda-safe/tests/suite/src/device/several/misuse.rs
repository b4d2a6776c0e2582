//! What graphs of several devices can't be: errors and panics that leave every context as it was.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cuda_safe::{Context, DeviceBuffer, Error, ErrorKind, Result, Stream, UnifiedBuffer};

use super::super::checks::{has_panicked, no_drop_errors};
use super::{Side, apart, count, is_invalid, joined};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "several",
        several(wrong_contexts),
        several(closures_that_fail),
        several(what_cannot_be_recorded),
        several(streams_that_have_ended),
    ]
}

const N: usize = 100;

/// Nothing is left of a recording: every context can be waited for, and records again.
fn unharmed(sides: &[Side]) -> TestResult {
    for side in sides {
        ensure!(!side.context.is_recording());
        side.context.synchronize()?;
        side.context.free_deferred()?;
        no_drop_errors(&side.context)?;
    }
    let contexts: Vec<&Context> = sides.iter().map(|side| &side.context).collect();
    let buffers = sides.iter().map(|side| side.zeroed(N)).collect::<Result<Vec<_>>>()?;
    let mut graph = Context::capture_on(&contexts, buffers, |streams, buffers| {
        buffers.iter_mut().zip(streams).try_for_each(|(buffer, stream)| buffer.fill(stream, 3))
    })?;
    graph.launch(&sides[0].stream)?;
    for (side, buffer) in sides.iter().zip(graph.state()) {
        side.holds(buffer, &[3; N])?;
    }
    Ok(())
}

fn wrong_contexts(device: &TestDevice) -> TestResult {
    let sides = apart(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let record = |_: &[Stream], (): &mut ()| -> Result<()> { Err(Error::invalid("it was called")) };
    let none: [&Context; 0] = [];
    is_invalid(Context::capture_on(&none, (), record), "no context")?;
    let twice = [&first.context, &second.context, &first.context];
    let ordinal = first.context.device().ordinal();
    is_invalid(
        Context::capture_on(&twice, (), record),
        &format!("the context of device {ordinal} is given twice"),
    )?;
    // One is enough, and is as a plain capture.
    let mut graph = Context::capture_on(&[&second.context], second.zeroed(N)?, |streams, x| {
        ensure_one(streams)?;
        x.fill(&streams[0], 7)
    })?;
    graph.launch(&second.stream)?;
    second.holds(graph.state(), &[7; N])?;
    is_invalid(graph.launch(&first.stream), "another context")?;
    // A graph of two is the first one's.
    let both = [&second.context, &first.context];
    let mut graph = Context::capture_on(&both, (), |_, ()| Ok(()))?;
    is_invalid(graph.launch(&first.stream), "another context")?;
    is_invalid(graph.upload(&first.stream), "another context")?;
    graph.upload(&second.stream)?;
    graph.launch(&second.stream)?;
    drop(graph);
    unharmed(&sides)
}

fn ensure_one(streams: &[Stream]) -> Result<()> {
    if streams.len() == 1 { Ok(()) } else { Err(Error::invalid("not one stream")) }
}

fn closures_that_fail(device: &TestDevice) -> TestResult {
    let sides = apart(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let contexts: Vec<&Context> = sides.iter().map(|side| &side.context).collect();
    let some_work = |streams: &[Stream],
                     (near, far): &mut (DeviceBuffer<u32>, DeviceBuffer<u32>)| {
        near.fill(&streams[0], 1)?;
        far.as_slice_mut().copy_from_peer(&streams[1], &*near)?;
        streams[1].fork().map(drop)
    };
    let state = || Ok::<_, Error>((first.zeroed(N)?, second.zeroed(N)?));
    let failed = Context::capture_on(&contexts, state()?, |streams, state| {
        some_work(streams, state)?;
        Err::<(), _>(Error::invalid("on purpose"))
    });
    is_invalid(failed, "on purpose")?;
    unharmed(&sides)?;
    let given = state()?;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Context::capture_on(&contexts, given, |streams, state| {
            // An error of the driver's is one of the test's.
            some_work(streams, state)?;
            resume_unwind(Box::new("on purpose"))
        })
        .map(drop)
    }));
    has_panicked(caught)?;
    unharmed(&sides)
}

/// The call was refused before the driver was asked, for a reason that names `part`; an error of the driver's is handed on.
fn refused<T>(result: Result<T>, part: &str) -> Result<()> {
    match result {
        Err(error) if error.code().is_some() => Err(error),
        Err(error)
            if matches!(error.kind(), ErrorKind::Invalid(_))
                && error.to_string().contains(part) =>
        {
            Ok(())
        }
        Err(error) => Err(Error::invalid(format!("another error than {part:?}: {error}"))),
        Ok(_) => Err(Error::invalid(format!("no error about {part:?}"))),
    }
}

fn what_cannot_be_recorded(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [first, second, rest @ ..] = &sides[..] else { return Ok(()) };
    let both = [&first.context, &second.context];
    let shape = (1, 128);
    let far_flag = second.buffer(&[1])?;
    let near_flag = first.buffer(&[1])?;
    let mut of_third = rest.first().map(|third| third.zeroed(N)).transpose()?;
    let mut seen = UnifiedBuffer::<u32>::pinned(&first.stream, N)?;
    seen.host_mut()?.fill(4);
    let state = (first.zeroed(N)?, second.zeroed(N)?);
    let mut graph = Context::capture_on(&both, state, |streams, (near, far)| {
        let [one, two] = streams else { return ensure_one(streams) };
        for side in [first, second] {
            refused(side.context.synchronize(), "is being recorded")?;
            refused(side.context.free_deferred(), "is being recorded").or_else(|error| {
                // With nothing to be freed there is nothing to wait for.
                if error.to_string().contains("no error about") { Ok(()) } else { Err(error) }
            })?;
        }
        // On the first context's streams alone.
        refused(DeviceBuffer::<u32>::zeroed(two, N), "memory can't be allocated")?;
        refused(two.record_if(&far_flag, |_| Ok(())), "a conditional part")?;
        count(second.basic.add(two, shape, &mut *far, N as u64, 5))?;
        refused(two.last_node(), "a launch can't be named")?;
        // Memory of the graph is of one context.
        let mut mine = DeviceBuffer::<u32>::zeroed(one, N)?;
        refused(far.as_slice_mut().copy_from_peer(one, &mine), "allocated in a capture")?;
        refused(mine.as_slice_mut().copy_from_peer(two, &*far), "allocated in a capture")?;
        refused(second.basic.add(two, shape, &mut mine, N as u64, 1), "allocated in a capture")?;
        drop(mine);
        // Memory that the host sees, and of a context that does not record.
        refused(far.as_slice_mut().copy_from_peer(one, &seen), "that the host sees")?;
        if let Some(third) = &mut of_third {
            let used = first.basic.add(one, shape, &mut *third, N as u64, 1);
            refused(used, "a buffer of another context")?;
            let copied = third.copy_from(one, &*near);
            refused(copied, "a buffer of another context")?;
            refused(third.as_slice_mut().copy_from_peer(&second.stream, &*near), "neither")?;
        }
        // Streams outside.
        refused(one.wait_stream(&second.stream), "outside the recording")?;
        refused(second.stream.wait_stream(two), "outside the recording")?;
        refused(two.synchronize(), "can't be recorded")?;
        // All of that has left the recording as it was. A body may use memory of the first context.
        one.record_if(&near_flag, |stream| {
            refused(far.as_slice_mut().copy_from_peer(stream, &*near), "in the body")?;
            count(first.basic.add(stream, shape, &mut *near, N as u64, 2))
        })?;
        far.as_slice_mut().copy_from_peer(two, &*near)
    })?;
    graph.launch(&first.stream)?;
    first.holds(&graph.state().0, &[2; N])?;
    second.holds(&graph.state().1, &[2; N])?;
    // In a capture of one context kernels use that context's memory alone.
    let alone = first.context.capture((), |stream, ()| {
        let mut far = second.zeroed(N)?;
        refused(
            first.basic.add(stream, shape, &mut far, N as u64, 1),
            "a buffer of another context",
        )
    });
    drop(alone?);
    drop(graph);
    unharmed(&sides)
}

/// Streams of every context end with the recording, and hold nothing then.
fn streams_that_have_ended(device: &TestDevice) -> TestResult {
    let sides = apart(device)?;
    let [first, second, ..] = &sides[..] else { return Ok(()) };
    let both = [&first.context, &second.context];
    let state = (first.zeroed(N)?, Vec::new());
    let mut graph = Context::capture_on(&both, state, |streams, (x, kept)| {
        kept.extend(streams.iter().cloned());
        kept.push(streams[1].fork()?);
        x.fill(&streams[0], 1)
    })?;
    let mut far = second.zeroed(N)?;
    let kept = std::mem::take(&mut graph.state_mut().1);
    for stream in &kept {
        is_invalid(far.fill(stream, 1), "has ended")?;
        is_invalid(far.as_slice_mut().copy_from_peer(stream, &graph.state().0), "has ended")?;
        is_invalid(stream.fork(), "has ended")?;
        is_invalid(graph.launch(stream), "")?;
    }
    graph.launch(&first.stream)?;
    first.holds(&graph.state().0, &[1; N])?;
    second.holds(&far, &[0; N])?;
    ensure_eq!(kept.len(), 3);
    drop(kept);
    drop(graph);
    unharmed(&sides)
}
