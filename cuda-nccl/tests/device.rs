//! Collectives whose kernels wait for each other on the device: graphs, ranks that never come, aborts and drops. By the
//! system's NCCL where it is and there are several devices, else by the stand-in `nccl-emu` on the software device.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cuda_nccl::{Communicator, Config, Error, Group, Nccl, ReduceOp, Result};
use cuda_safe::{Context, DeviceBuffer, Driver, GraphExec, Stream};

mod fake;

/// The devices of the tests, and the NCCL for them.
struct Lab {
    contexts: Vec<Context>,
    config: Config,
}

fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    let real = || {
        let driver = Driver::load().ok().filter(|driver| driver.device_count() > 1)?;
        let config = Config::new().library(Nccl::load().ok()?);
        let contexts = driver.devices().take(fake::DEVICES).map(|device| device.context().ok());
        Some(Lab { contexts: contexts.collect::<Option<_>>()?, config })
    };
    let stand_in = || {
        nccl_emu::use_driver(fake::driver().as_sys());
        // SAFETY: the stand-in has the functions of `nccl.h`, and calls the contexts' driver.
        let library = unsafe { Nccl::from_resolver(&nccl_emu::resolve) };
        let config = Config::new().library(library.expect("a version that is taken"));
        Lab { contexts: fake::contexts(fake::DEVICES), config }
    };
    LAB.get_or_init(|| {
        let lab = real().unwrap_or_else(stand_in);
        println!("{} devices; {:?}", lab.contexts.len(), lab.config);
        lab
    })
}

/// Returns the number of devices.
fn devices() -> usize {
    lab().contexts.len()
}

fn ranks(count: usize) -> Result<(Vec<Communicator>, Vec<Stream>)> {
    let Lab { contexts, config } = lab();
    let contexts = &contexts[..count];
    let streams: Vec<Stream> = contexts.iter().map(Context::stream).collect::<Result<_, _>>()?;
    let mut ranks = Communicator::all_with(contexts, config)?;
    // NCCL connects the ranks in the first calls of each kind, which wait for all of them.
    all_reduce(&mut ranks, &streams, 100)?;
    let mut buffers: Vec<DeviceBuffer<f32>> =
        streams.iter().map(|stream| DeviceBuffer::zeroed(stream, 10)).collect::<Result<_, _>>()?;
    let mut group = Group::new(&mut ranks);
    for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        group.on(rank)?.broadcast(stream, buffer, 0)?;
    }
    group.run()?;
    streams.iter().try_for_each(Stream::synchronize)?;
    Ok((ranks, streams))
}

fn all_reduce(ranks: &mut [Communicator], streams: &[Stream], len: usize) -> Result<()> {
    let count = ranks.len() as i32;
    let mut buffers: Vec<DeviceBuffer<i32>> = streams
        .iter()
        .map(|stream| DeviceBuffer::from_slice(stream, &vec![1; len]))
        .collect::<Result<_, _>>()?;
    let mut group = Group::new(ranks);
    for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
    }
    group.run()?;
    for (stream, buffer) in streams.iter().zip(&buffers) {
        assert_eq!(buffer.to_vec(stream)?, vec![count; len]);
    }
    Ok(())
}

/// New communicators work on all devices, and end.
fn all_is_well() -> Result<()> {
    let (mut ranks, streams) = ranks(devices())?;
    all_reduce(&mut ranks, &streams, 100)?;
    Communicator::close(ranks)?;
    for context in &lab().contexts {
        context.synchronize()?;
        assert!(context.take_drop_errors().is_empty());
    }
    Ok(())
}

fn wait_until_busy(stream: &Stream) -> Result<()> {
    // A kernel that waits for its peer stays busy.
    std::thread::sleep(Duration::from_millis(20));
    assert!(!stream.is_done()?, "it does not wait for its peer");
    Ok(())
}

/// Waits until a stream is done and returns how long that took.
fn done(stream: &Stream, since: Instant) -> Result<Duration> {
    while !stream.is_done()? {
        assert!(since.elapsed() < Duration::from_secs(10), "the stream still waits");
        std::thread::yield_now();
    }
    Ok(since.elapsed())
}

#[test]
fn graphs_of_all_devices_each_captured_by_its_thread() -> Result<()> {
    let _alone = fake::alone();
    let count = devices();
    let (ranks, streams) = ranks(count)?;
    type State = (Communicator, DeviceBuffer<u64>);
    let capture = |mut rank: Communicator, stream: &Stream| -> Result<GraphExec<'static, State>> {
        // SAFETY: this test launches the graphs in one order on all ranks.
        unsafe { rank.allow_recording() };
        let context = rank.context().clone();
        let x = DeviceBuffer::from_slice(stream, &[1u64; 1000])?;
        Ok(context.capture((rank, x), |stream, (rank, x)| {
            rank.all_reduce_in_place(stream, &mut *x, ReduceOp::Sum)
                .and_then(|()| rank.all_reduce_in_place(stream, &mut *x, ReduceOp::Max))
                .map_err(|error| cuda_safe::Error::invalid(error.to_string()))
        })?)
    };
    let mut graphs: Vec<GraphExec<'_, State>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .zip(&streams)
            .map(|(rank, stream)| scope.spawn(move || capture(rank, stream)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(Error::Aborted)))
            .collect::<Result<_>>()
    })?;
    let launches = 10;
    for _ in 0..launches {
        for (graph, stream) in graphs.iter_mut().zip(&streams) {
            graph.launch(stream)?;
        }
    }
    let wanted = (count as u64).pow(launches);
    for (graph, stream) in graphs.iter_mut().zip(&streams) {
        graph.state_mut().0.synchronize(stream)?;
        assert_eq!(graph.state().1.to_vec(stream)?, [wanted; 1000]);
    }
    // A call between launches.
    let mut group_ranks: Vec<&mut State> = graphs.iter_mut().map(GraphExec::state_mut).collect();
    for (state, stream) in group_ranks.iter_mut().zip(&streams) {
        state.1.as_slice_mut().fill(stream, 3)?;
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = group_ranks
            .into_iter()
            .zip(&streams)
            .map(|((rank, x), stream)| {
                scope.spawn(move || rank.all_reduce_in_place(stream, x, ReduceOp::Sum))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Aborted)))
    })?;
    for (graph, stream) in graphs.iter_mut().zip(&streams) {
        graph.launch(stream)?;
    }
    for (graph, stream) in graphs.iter().zip(&streams) {
        assert_eq!(graph.state().1.to_vec(stream)?, [3 * (count as u64).pow(2); 1000]);
    }
    drop(graphs);
    all_is_well()
}

#[test]
fn a_rank_that_never_comes_is_aborted_and_its_peers_stream_is_free_at_once() -> Result<()> {
    let _alone = fake::alone();
    all_is_well()?;
    for waits in 0..2 {
        // Other programs may have the processor for some milliseconds, so it is tried again.
        let mut fastest = Duration::MAX;
        for _ in 0..10 {
            fastest = fastest.min(freed_after_abort(waits)?);
            if fastest < Duration::from_millis(10) {
                break;
            }
        }
        println!("free {fastest:?} after the abort");
        assert!(fastest < Duration::from_millis(10), "{fastest:?}");
    }
    Ok(())
}

/// Rank `waits` of two makes a call, and the other one aborts. Returns how long the first one's stream was busy then.
fn freed_after_abort(waits: usize) -> Result<Duration> {
    let (mut ranks, streams) = ranks(2)?;
    let mut x = DeviceBuffer::from_slice(&streams[waits], &[1u8; 3000])?;
    ranks[waits].all_reduce_in_place(&streams[waits], &mut x, ReduceOp::Sum)?;
    wait_until_busy(&streams[waits])?;
    let abort = ranks[1 - waits].abort_handle();
    let since = Instant::now();
    abort.abort();
    let took = done(&streams[waits], since)?;
    abort.abort();
    assert!(matches!(ranks[waits].check(), Err(Error::Aborted)));
    // The memory has values, and is usable when all kernels have ended.
    assert_eq!(x.to_vec(&streams[waits])?.len(), 3000);
    println!("the memory {:?} after the abort", since.elapsed());
    assert!(abort.wait(Duration::from_secs(10)));
    drop(ranks);
    all_is_well()?;
    Ok(took)
}

/// Graphs that have recorded calls keep communicators, but neither the streams nor the memory for long.
#[test]
fn an_abort_of_a_graphs_launch_frees_its_stream_and_memory() -> Result<()> {
    let _alone = fake::alone();
    let (ranks, streams) = ranks(2)?;
    let abort = ranks[0].abort_handle();
    let mut graphs = Vec::new();
    for (mut rank, stream) in ranks.into_iter().zip(&streams) {
        // SAFETY: an abort ends the work of a rank that does not launch its graph.
        unsafe { rank.allow_recording() };
        let x = DeviceBuffer::from_slice(stream, &[1u64; 1000])?;
        let context = rank.context().clone();
        let record = |stream: &Stream, (rank, x): &mut (Communicator, DeviceBuffer<u64>)| {
            rank.all_reduce_in_place(stream, &mut *x, ReduceOp::Sum)
                .map_err(|error| cuda_safe::Error::invalid(error.to_string()))
        };
        graphs.push(context.capture((rank, x), record)?);
    }
    graphs[0].launch(&streams[0])?;
    wait_until_busy(&streams[0])?;
    let since = Instant::now();
    abort.abort();
    println!("the stream {:?} after the abort", done(&streams[0], since)?);
    // A use waits a second at most, and the gate opens then.
    let used = (0..3).any(|_| graphs[0].state().1.to_vec(&streams[0]).is_ok());
    assert!(used, "the memory is not usable");
    println!(
        "the memory {:?} after the abort; the communicators are gone: {}",
        since.elapsed(),
        abort.wait(Duration::ZERO)
    );
    drop(graphs);
    assert!(abort.wait(Duration::from_secs(10)));
    all_is_well()
}

#[test]
fn a_wait_with_a_limit_ends_what_waits_for_a_peer() -> Result<()> {
    let _alone = fake::alone();
    let last = devices().min(3) - 1;
    let (mut ranks, streams) = ranks(last + 1)?;
    let mut x = DeviceBuffer::from_slice(&streams[last], &[1f32; 10])?;
    ranks[last].broadcast(&streams[last], &mut x, 0)?;
    ranks[last].set_timeout(Duration::from_millis(50));
    let error = ranks[last].synchronize(&streams[last]);
    assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
    done(&streams[last], Instant::now())?;
    assert!(ranks.iter().all(|rank| matches!(rank.check(), Err(Error::Timeout { .. }))));
    drop(ranks);
    all_is_well()
}

#[test]
fn a_rank_that_is_dropped_or_disagrees_frees_its_peer() -> Result<()> {
    let _alone = fake::alone();
    for disagrees in [false, true] {
        let (mut ranks, streams) = ranks(2)?;
        let mut x = DeviceBuffer::from_slice(&streams[0], &[1i64; 100])?;
        ranks[0].all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum)?;
        wait_until_busy(&streams[0])?;
        let since = Instant::now();
        if disagrees {
            let mut y = DeviceBuffer::from_slice(&streams[1], &[1i64; 100])?;
            let error = ranks[1].all_reduce_in_place(&streams[1], &mut y, ReduceOp::Prod);
            assert!(matches!(error, Err(Error::Mismatch { .. })), "{error:?}");
        } else {
            drop(ranks.pop());
        }
        done(&streams[0], since)?;
        let text = ranks[0].check().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(if disagrees { "(prod)" } else { "was dropped" }), "{text}");
        drop(ranks);
        all_is_well()?;
    }
    Ok(())
}

/// Of communicators that have no time limits: collectives, splits, an abort on the device, the end.
#[test]
fn blocking_communicators() -> Result<()> {
    let _alone = fake::alone();
    let Lab { contexts, config } = lab();
    let streams: Vec<Stream> = contexts.iter().map(Context::stream).collect::<Result<_, _>>()?;
    let config = config.clone().blocking(true);
    for aborts in [false, true] {
        let mut ranks = Communicator::all_with(contexts, &config)?;
        all_reduce(&mut ranks, &streams, 1000)?;
        let children = Communicator::split_all(&mut ranks, |rank| (Some(0), -(rank as i32)))?;
        let mut children: Vec<Communicator> = children.into_iter().flatten().collect();
        children.sort_by_key(|child| child.context().device().ordinal());
        all_reduce(&mut children, &streams, 33)?;
        if aborts {
            let mut x = DeviceBuffer::from_slice(&streams[0], &[1u8; 3000])?;
            ranks[0].all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum)?;
            wait_until_busy(&streams[0])?;
            let since = Instant::now();
            ranks[1].abort_handle().abort();
            done(&streams[0], since)?;
            drop((ranks, children));
        } else {
            Communicator::close(children)?;
            Communicator::close(ranks)?;
        }
    }
    all_is_well()
}

#[test]
fn communicators_dropped_with_work_under_way_let_it_end() -> Result<()> {
    let _alone = fake::alone();
    let count = devices();
    let (mut ranks, streams) = ranks(count)?;
    let mut buffers: Vec<DeviceBuffer<i32>> = streams
        .iter()
        .map(|stream| DeviceBuffer::from_slice(stream, &[2; 100_000]))
        .collect::<Result<_, _>>()?;
    for _ in 0..5 {
        let mut group = Group::new(&mut ranks);
        for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
            group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
        }
        group.run()?;
    }
    drop(ranks);
    for (stream, buffer) in streams.iter().zip(&buffers) {
        assert!(buffer.to_vec(stream)?.iter().all(|value| *value == 2 * (count as i32).pow(5)));
    }
    all_is_well()
}
