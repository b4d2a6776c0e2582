//! Collectives that graphs record, and the uses of work on several streams that `cuda_safe::EnqueueGroup` orders.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_nccl::{Communicator, Config, Group, ReduceOp, Result};
use cuda_safe::sys::CUresult;
use cuda_safe::{Context, DeviceBuffer, EnqueueGroup, Stream};

mod fake;

fn one() -> Result<(Communicator, Context, Stream)> {
    let context = fake::contexts(1).remove(0);
    let config = Config::new().library(fake::library());
    let rank = Communicator::all_with(std::slice::from_ref(&context), &config)?.remove(0);
    let stream = context.stream()?;
    Ok((rank, context, stream))
}

fn cuda(error: cuda_nccl::Error) -> cuda_safe::Error {
    cuda_safe::Error::invalid(error.to_string())
}

#[test]
fn a_recorded_collective_runs_at_each_launch() -> Result<()> {
    let _alone = fake::alone();
    let (mut rank, context, stream) = one()?;
    let x = DeviceBuffer::from_slice(&stream, &[1i32; 100])?;
    let y = DeviceBuffer::<i32>::zeroed(&stream, 100)?;
    let refused = context.capture((x, y), |stream, (x, y)| {
        let refused = rank.all_reduce(stream, &*x, &mut *y, ReduceOp::Sum);
        assert!(refused.is_err_and(|error| error.to_string().contains("allow_recording")));
        Ok(())
    })?;
    let (x, y) = refused.into_state();
    // SAFETY: one rank agrees with itself.
    unsafe { rank.allow_recording() };
    let mut graph = context.capture((Some(rank), x, y), |stream, (rank, x, y)| {
        let Some(rank) = rank else { return Ok(()) };
        rank.all_reduce(stream, &*x, &mut *y, ReduceOp::Sum).map_err(cuda)?;
        // And by a group.
        let mut group = Group::new([rank]);
        group.on(0).map_err(cuda)?.all_reduce(stream, &*y, &mut *x, ReduceOp::Sum).map_err(cuda)?;
        group.run().map_err(cuda)
    })?;
    for round in 2..5 {
        graph.state_mut().1.as_slice_mut().fill(&stream, round)?;
        graph.launch(&stream)?;
        assert_eq!(graph.state().2.to_vec(&stream)?, [round; 100]);
        // The graph keeps the communicator.
        drop(graph.state_mut().0.take());
        assert_eq!(fake::alive(), 1);
    }
    stream.synchronize()?;
    drop(graph);
    fake::all_gone();
    fake::no_misuse();
    Ok(())
}

#[test]
fn a_communicator_dropped_in_a_capture() -> Result<()> {
    let _alone = fake::alone();
    let (mut rank, context, stream) = one()?;
    // SAFETY: one rank agrees with itself.
    unsafe { rank.allow_recording() };
    let x = DeviceBuffer::from_slice(&stream, &[3u64; 10])?;
    let y = DeviceBuffer::<u64>::zeroed(&stream, 10)?;
    let mut graph = context.capture((x, y), move |stream, (x, y)| {
        rank.all_reduce(stream, &*x, &mut *y, ReduceOp::Sum).map_err(cuda)?;
        drop(rank);
        Ok(())
    })?;
    graph.launch(&stream)?;
    assert_eq!(graph.state().1.to_vec(&stream)?, [3; 10]);
    // A capture that fails drops it as well.
    let (rank, ..) = one()?;
    let failed = context.capture((), move |_, ()| {
        drop(rank);
        Err(cuda_safe::Error::invalid("on purpose"))
    });
    assert!(failed.is_err());
    drop(graph);
    fake::all_gone();
    fake::no_misuse();
    Ok(())
}

#[test]
fn a_group_records_all_or_nothing() -> Result<()> {
    let _alone = fake::alone();
    let (mut rank, context, stream) = one()?;
    // SAFETY: one rank agrees with itself.
    unsafe { rank.allow_recording() };
    let mut outside = DeviceBuffer::from_slice(&stream, &[1u8; 10])?;
    let state = DeviceBuffer::from_slice(&stream, &[1u8; 10])?;
    context.capture(state, |records, inside| {
        let mut group = Group::new([&mut rank]);
        let mut on = group.on(0).map_err(cuda)?;
        on.broadcast(records, &mut *inside, 0).map_err(cuda)?;
        let mixed = on.broadcast(&stream, &mut outside, 0);
        assert!(mixed.is_err_and(|error| error.to_string().contains("one graph, or none")));
        Ok(())
    })?;
    Ok(())
}

/// Two contexts, a stream of each, and another stream of each.
fn streams() -> Result<Vec<[Stream; 2]>> {
    let contexts = fake::contexts(2);
    Ok(contexts
        .iter()
        .map(|context| Ok::<_, cuda_safe::Error>([context.stream()?, context.stream()?]))
        .collect::<Result<_, _>>()?)
}

#[test]
fn uses_on_several_streams_are_ordered_and_recorded() -> Result<()> {
    let _alone = fake::alone();
    let (streams, sys) = (streams()?, fake::driver().as_sys());
    let mut x: Vec<DeviceBuffer<u8>> = streams
        .iter()
        .map(|[home, _]| DeviceBuffer::zeroed(home, 1 << 20))
        .collect::<Result<_, _>>()?;
    for round in 1..50u8 {
        for ([home, _], x) in streams.iter().zip(&mut x) {
            x.as_slice_mut().fill(home, round)?;
        }
        let waits: Vec<u64> =
            streams.iter().map(|[home, _]| home.context().stats().stream_waits).collect();
        // Each buffer is changed on the other stream of its device by one call for both.
        let raw: Vec<_> = streams
            .iter()
            .zip(&x)
            .map(|([_, other], x)| (other.as_raw(), x.device_ptr(), x.size_bytes()))
            .collect();
        let mut group = EnqueueGroup::new();
        for ([_, other], x) in streams.iter().zip(&mut x) {
            group.write(other, x);
        }
        // SAFETY: each memset is on the stream of its buffer, within bounds.
        let codes = unsafe {
            group.run(|| {
                raw.iter()
                    .map(|(stream, start, bytes)| {
                        sys.cuMemsetD8Async(*start, round + 100, *bytes, *stream)
                    })
                    .collect::<Vec<_>>()
            })
        }?;
        assert!(codes.iter().all(|code| *code == Ok(CUresult::CUDA_SUCCESS)));
        for (index, ([home, _], x)) in streams.iter().zip(&x).enumerate() {
            assert_eq!(
                home.context().stats().stream_waits,
                waits[index] + 1,
                "it waits for the fill"
            );
            let values = x.to_vec(home)?;
            assert!(values.iter().all(|value| *value == round + 100), "round {round}");
            // The home stream has waited for the group's work.
            assert_eq!(home.context().stats().stream_waits, waits[index] + 2);
        }
    }
    Ok(())
}

#[test]
fn a_panic_in_the_call_of_a_group_records_its_uses() -> Result<()> {
    let _alone = fake::alone();
    let streams = streams()?;
    let mut x = DeviceBuffer::from_slice(&streams[0][0], &[1u8; 16])?;
    let context = streams[0][0].context();
    let mut group = EnqueueGroup::new();
    group.write(&streams[0][1], &mut x).stream(&streams[1][0]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the call enqueues nothing.
        unsafe { group.run(|| std::panic::resume_unwind(Box::new("on purpose"))) }
    }));
    assert!(panicked.is_err());
    let waits = context.stats().stream_waits;
    assert_eq!(x.to_vec(&streams[0][0])?, [1; 16]);
    assert_eq!(context.stats().stream_waits, waits + 1, "the use was recorded");
    Ok(())
}

#[test]
fn groups_and_graphs() -> Result<()> {
    let _alone = fake::alone();
    let (streams, sys) = (streams()?, fake::driver().as_sys());
    let memset = |x: &DeviceBuffer<u8>, stream: &Stream, value: u8| {
        let (start, bytes, raw) = (x.device_ptr(), x.size_bytes(), stream.as_raw());
        move || {
            // SAFETY: within bounds; called in a group that says so.
            let code = unsafe { sys.cuMemsetD8Async(start, value, bytes, raw) };
            assert_eq!(code, Ok(CUresult::CUDA_SUCCESS));
        }
    };
    let contexts: Vec<Context> = streams.iter().map(|[home, _]| home.context()).collect();
    let buffer = |index: usize| DeviceBuffer::<u8>::zeroed(&streams[index][0], 64);
    // Two branches of one recording in one group, one of which reads what the other stream wrote before.
    let mut graph = contexts[0].capture([buffer(0)?, buffer(0)?], |stream, [x, y]| {
        let fork = stream.fork()?;
        let (one, two) = (memset(x, stream, 5), memset(y, &fork, 6));
        let mut group = EnqueueGroup::new();
        group.write(stream, &mut *x).write(&fork, &mut *y);
        // SAFETY: each memset is on the stream of its buffer.
        unsafe { group.run(|| (one(), two())) }?;
        y.copy_from(stream, &*x)?;
        Ok(())
    })?;
    graph.launch(&streams[0][0])?;
    assert_eq!(graph.state()[1].to_vec(&streams[0][0])?, [5; 64]);
    // Memory of a graph, in a group over two contexts.
    let [mut of_graph, _] = graph.into_state();
    let mut other = buffer(1)?;
    let (one, two) = (memset(&of_graph, &streams[0][1], 7), memset(&other, &streams[1][1], 8));
    let mut group = EnqueueGroup::new();
    group.write(&streams[0][1], &mut of_graph).write(&streams[1][1], &mut other);
    // SAFETY: as above.
    unsafe { group.run(|| (one(), two())) }?;
    assert_eq!(of_graph.to_vec(&streams[0][0])?, [7; 64]);
    assert_eq!(other.to_vec(&streams[1][0])?, [8; 64]);
    // Memory of graphs of both contexts.
    let far = contexts[1].capture(other, |stream, x| x.as_slice_mut().fill(stream, 1))?;
    let mut other = far.into_state();
    let (one, two) = (memset(&of_graph, &streams[0][1], 9), memset(&other, &streams[1][1], 10));
    let mut group = EnqueueGroup::new();
    group.write(&streams[0][1], &mut of_graph).write(&streams[1][1], &mut other);
    // SAFETY: each memset is on the stream of its buffer.
    unsafe { group.run(|| (one(), two())) }?;
    assert_eq!(of_graph.to_vec(&streams[0][0])?, [9; 64]);
    assert_eq!(other.to_vec(&streams[1][0])?, [10; 64]);
    // Within a closure that holds one of the two locks.
    let held = streams[1][0].graph_lock([other.allocation()]);
    let mut group = EnqueueGroup::new();
    group.write(&streams[0][1], &mut of_graph).write(&streams[1][1], &mut other);
    // SAFETY: the call is not made.
    let refused = held.run(|| unsafe { group.run(|| panic!("it is not called")) });
    assert!(
        refused.is_err_and(|error: cuda_safe::Error| error.to_string().contains("holds the lock"))
    );
    // A stream that records beside one that does not.
    contexts[0].capture(buffer(0)?, |stream, x| {
        let mut group = EnqueueGroup::new();
        group.write(stream, &mut *x).write(&streams[1][1], &mut other);
        // SAFETY: the call enqueues nothing.
        let mixed = unsafe { group.run(|| ()) };
        assert!(mixed.is_err_and(|error| error.to_string().contains("1 of 2 streams")));
        Ok(())
    })?;
    Ok(())
}

#[test]
fn nothing_is_called_if_a_use_is_refused() -> Result<()> {
    let _alone = fake::alone();
    let streams = streams()?;
    let (mut mine, mut far) = (
        DeviceBuffer::<u8>::zeroed(&streams[0][0], 8)?,
        DeviceBuffer::<u8>::zeroed(&streams[1][0], 8)?,
    );
    let mut group = EnqueueGroup::new();
    group.write(&streams[0][0], &mut mine).write(&streams[0][0], &mut far);
    let mut called = false;
    // SAFETY: the call enqueues nothing.
    let refused = unsafe { group.run(|| called = true) };
    assert!(refused.is_err_and(|error| error.to_string().contains("belongs to another context")));
    assert!(!called);
    Ok(())
}
