//! Ranks that never come, fail, are aborted or dropped; forks and exits. Each leaves the devices usable and nothing behind.

use std::collections::BTreeMap;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use cuda_nccl::raw::ncclResult_t;
use cuda_nccl::{Communicator, Config, Error, Group, ReduceOp, Result, UniqueId};
use cuda_safe::{Context, DeviceBuffer, Stream};

mod fake;

const SHORT: Duration = Duration::from_millis(100);

fn config() -> Config {
    Config::new().library(fake::library())
}

fn ranks(count: usize) -> Result<(Vec<Communicator>, Vec<Stream>)> {
    let contexts = fake::contexts(count);
    let streams = contexts.iter().map(Context::stream).collect::<Result<_, _>>()?;
    Ok((Communicator::all_with(&contexts, &config())?, streams))
}

fn all_reduce(ranks: &mut [Communicator], streams: &[Stream]) -> Result<()> {
    let count = ranks.len() as i32;
    let mut buffers: Vec<DeviceBuffer<i32>> = streams
        .iter()
        .map(|stream| DeviceBuffer::from_slice(stream, &[1; 5]))
        .collect::<Result<_, _>>()?;
    let mut group = Group::new(ranks);
    for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        group.on(rank)?.all_reduce_in_place(stream, buffer, ReduceOp::Sum)?;
    }
    group.run()?;
    for (stream, buffer) in streams.iter().zip(&buffers) {
        assert_eq!(buffer.to_vec(stream)?, [count; 5]);
    }
    Ok(())
}

/// All is gone, and new communicators work on the same devices.
fn all_is_well() -> Result<()> {
    fake::all_gone();
    let (mut ranks, streams) = ranks(fake::DEVICES)?;
    all_reduce(&mut ranks, &streams)?;
    Communicator::close(ranks)?;
    assert_eq!(fake::alive(), 0);
    for context in fake::contexts(fake::DEVICES) {
        assert!(context.take_drop_errors().is_empty());
    }
    fake::no_misuse();
    Ok(())
}

/// Returns the result, which came soon.
#[track_caller]
fn soon<R>(call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    assert!(start.elapsed() < Duration::from_millis(50), "it took {:?}", start.elapsed());
    result
}

#[test]
fn a_rank_that_never_comes_to_the_creation() -> Result<()> {
    let _alone = fake::alone();
    let id = UniqueId::of(fake::library())?;
    let context = &fake::contexts(1)[0];
    let start = Instant::now();
    // SAFETY: there is no other rank.
    let made = unsafe { Communicator::new_with(id, 2, 0, context, &config().timeout(SHORT)) };
    assert!(matches!(made, Err(Error::Timeout { .. })), "{made:?}");
    assert!(start.elapsed() >= SHORT && start.elapsed() < 20 * SHORT);
    all_is_well()
}

#[test]
fn a_rank_that_never_comes_to_a_call() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    ranks[0].set_timeout(SHORT);
    let mut x = DeviceBuffer::from_slice(&streams[0], &[1u8; 3])?;
    let error = ranks[0].all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum).err();
    assert!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    // It is the error of all ranks' later calls; the memory is usable.
    assert!(matches!(ranks[1].check(), Err(Error::Timeout { .. })));
    assert_eq!(x.to_vec(&streams[0])?, [1; 3]);
    fake::all_gone();
    drop(ranks);
    all_is_well()
}

#[test]
fn an_abort_by_another_thread_ends_a_call_and_returns_at_once() -> Result<()> {
    let _alone = fake::alone();
    fake::faults().abort_takes = Duration::from_millis(530);
    let (mut ranks, streams) = ranks(2)?;
    let (abort, other) = (ranks[0].abort_handle(), ranks[1].abort_handle());
    let first = &mut ranks[0];
    let (started, starts) = mpsc::channel();
    let (result, after) = std::thread::scope(|scope| {
        let stream = &streams[0];
        let call = scope.spawn(move || {
            let mut x = DeviceBuffer::from_slice(stream, &[1u8; 3])?;
            let _ = started.send(());
            let result = first.all_reduce_in_place(stream, &mut x, ReduceOp::Sum);
            stream.synchronize()?;
            let free = Instant::now();
            // The memory is not: kernels of peers may still write to it.
            x.to_vec(stream)?;
            Ok::<_, Error>((result, free, Instant::now()))
        });
        let _ = starts.recv();
        while fake::calls() == 0 {
            std::thread::yield_now();
        }
        let aborted = Instant::now();
        soon(|| abort.abort());
        soon(|| abort.abort());
        soon(|| other.abort());
        let (result, free, read) = call.join().unwrap_or(Err(Error::Aborted))?;
        let after = |instant: Instant| instant.saturating_duration_since(aborted);
        assert!(after(read) >= Duration::from_millis(530), "read after {:?}", after(read));
        Ok::<_, Error>((result, after(free)))
    })?;
    assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
    assert!(after < Duration::from_millis(50), "the call and its stream were free after {after:?}");
    assert!(abort.is_aborted() && other.is_aborted());
    assert!(abort.wait(Duration::from_secs(10)));
    for rank in &mut ranks {
        let stream = rank.context().stream()?;
        let mut x = DeviceBuffer::from_slice(&stream, &[1u8; 3])?;
        let later = rank.broadcast(&stream, &mut x, 0);
        assert!(matches!(later, Err(Error::Aborted)), "{later:?}");
        assert!(matches!(rank.split(Some(0), 0), Err(Error::Aborted)));
        assert!(matches!(rank.check(), Err(Error::Aborted)));
    }
    soon(|| drop(ranks));
    soon(|| abort.abort());
    all_is_well()
}

#[test]
fn a_failure_of_earlier_work_is_every_later_calls() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(3)?;
    all_reduce(&mut ranks, &streams)?;
    ranks.iter().try_for_each(Communicator::check)?;
    fake::fail_rank(1, ncclResult_t::ncclRemoteError);
    let error = all_reduce(&mut ranks, &streams).err().map(|error| error.to_string());
    let text =
        "earlier work of rank 1 failed: a peer or the network failed (ncclRemoteError): made up";
    assert_eq!(error.as_deref(), Some(text));
    for rank in &mut ranks {
        assert_eq!(rank.check().err().map(|error| error.to_string()).as_deref(), Some(text));
    }
    assert_eq!(
        ranks[2].synchronize(&streams[2]).err().map(|e| e.to_string()).as_deref(),
        Some(text)
    );
    drop(ranks);
    all_is_well()
}

#[test]
fn a_wait_for_a_stream_notices_a_failure() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    ranks[0].synchronize(&streams[0])?;
    // A host function that ends when the test lets it, in place of a kernel that waits for its peer.
    let (release, released) = mpsc::channel::<()>();
    let stuck = streams[0].clone();
    let enqueued = std::thread::spawn(move || {
        stuck.host_function(move || {
            let _ = released.recv();
        })
    });
    while streams[0].is_done()? {
        std::thread::yield_now();
    }
    ranks[0].set_timeout(SHORT);
    let error = ranks[0].synchronize(&streams[0]).err();
    assert!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    let _ = release.send(());
    let _ = enqueued.join();
    streams[0].synchronize()?;
    assert!(matches!(ranks[1].check(), Err(Error::Timeout { .. })));
    drop(ranks);
    all_is_well()
}

#[test]
fn drops_do_not_wait_and_leave_nothing() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(4)?;
    all_reduce(&mut ranks, &streams)?;
    let last = ranks.pop();
    soon(|| drop(last));
    // The others can't go on without it, and say so before NCCL is called.
    let calls = fake::calls();
    let error = all_reduce(&mut ranks, &streams[..3]).err().ok_or(Error::Aborted)?;
    assert!(matches!(error, Error::Gone { rank: 3, calls: 1 }) && !error.is_final(), "{error}");
    assert_eq!(fake::calls(), calls);
    soon(|| drop(ranks));
    all_is_well()
}

#[test]
fn a_rank_dropped_while_its_peer_waits_for_it_frees_the_peer() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let second = ranks.pop();
    let mut first = ranks.remove(0);
    let result = std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            let mut x = DeviceBuffer::from_slice(&streams[0], &[1u8; 3])?;
            first.all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum)
        });
        while fake::calls() == 0 {
            std::thread::yield_now();
        }
        // As on a panic of its thread.
        let dropped = scope.spawn(move || {
            let _second = second;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        let _ = dropped.join();
        call.join()
    });
    assert!(matches!(result, Ok(Err(Error::Gone { rank: 1, calls: 0 }))), "{result:?}");
    drop(first);
    all_is_well()
}

#[test]
fn a_group_that_panics_or_is_dropped_enqueues_nothing() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let mut x = DeviceBuffer::from_slice(&streams[0], &[1u8; 3])?;
    let mut group = Group::new(&mut ranks);
    group.on(0)?.all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum)?;
    drop(group);
    assert_eq!(fake::calls(), 0);
    all_reduce(&mut ranks, &streams)?;
    drop(ranks);
    all_is_well()
}

#[test]
fn a_split_that_a_rank_does_not_join() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, _streams) = ranks(2)?;
    ranks[0].set_timeout(SHORT);
    let split = ranks[0].split(Some(0), 0);
    assert!(matches!(split, Err(Error::Timeout { .. })), "{split:?}");
    assert!(ranks[1].split(Some(0), 0).is_err());
    drop(ranks);
    all_is_well()
}

#[test]
fn more_ranks_than_one_group_may_be_driven_at_once() -> Result<()> {
    // Two threads with groups over the same two cliques, in either order of their handles.
    let _alone = fake::alone();
    let (one, streams) = ranks(2)?;
    let (two, _) = ranks(2)?;
    let mut halves: [Vec<Communicator>; 2] = [Vec::new(), Vec::new()];
    for clique in [one, two] {
        for (half, rank) in halves.iter_mut().zip(clique) {
            half.push(rank);
        }
    }
    halves[1].reverse();
    std::thread::scope(|scope| {
        let threads: Vec<_> = halves
            .iter_mut()
            .zip(&streams)
            .map(|(half, stream)| {
                scope.spawn(move || -> Result<()> {
                    for _ in 0..200 {
                        let mut x = [
                            DeviceBuffer::from_slice(stream, &[1u8])?,
                            DeviceBuffer::from_slice(stream, &[1u8])?,
                        ];
                        let mut group = Group::new(half.iter_mut());
                        for (index, x) in x.iter_mut().enumerate() {
                            group.on(index)?.all_reduce_in_place(stream, x, ReduceOp::Sum)?;
                        }
                        group.run()?;
                        assert_eq!(x[0].to_vec(stream)?, [2]);
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Aborted)))
    })?;
    drop(halves);
    all_is_well()
}

/// Runs a test of this program in a child process.
fn child(name: &str) -> std::io::Result<(ExitStatus, String, Duration)> {
    child_of(name, "")
}

fn child_of(name: &str, kind: &str) -> std::io::Result<(ExitStatus, String, Duration)> {
    let start = Instant::now();
    let output = Command::new(std::env::current_exe()?)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("NCCL_TEST_CHILD", name)
        .env("NCCL_TEST_KIND", kind)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status, text, start.elapsed()))
}

fn is_child(name: &str) -> bool {
    std::env::var("NCCL_TEST_CHILD").is_ok_and(|child| child == name)
}

#[test]
fn an_exit_does_not_hang_while_communicators_are_aborted() -> Result<()> {
    let name = "an_exit_does_not_hang_while_communicators_are_aborted";
    if !is_child(name) {
        let (status, text, took) = child(name).map_err(|_| Error::Aborted)?;
        assert!(status.success() && text.contains("exits"), "{status}: {text}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        return Ok(());
    }
    let _alone = fake::alone();
    fake::faults().abort_takes = Duration::from_secs(60);
    let (ranks, _) = ranks(2)?;
    ranks[0].abort_handle().abort();
    std::thread::sleep(Duration::from_millis(50));
    drop(ranks);
    println!("exits");
    std::process::exit(0);
}

/// The driver's destructors may run then.
#[cfg(unix)]
#[test]
fn nothing_is_called_behind_the_exit() -> Result<()> {
    static WATCH: Mutex<Option<cuda_emu::Watch>> = Mutex::new(None);
    fn calls() -> Option<BTreeMap<&'static str, u64>> {
        let watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().map(cuda_emu::Watch::calls)
    }
    extern "C" fn behind_the_exit() {
        let before = calls();
        std::thread::sleep(Duration::from_millis(200));
        let after = calls();
        println!("calls behind the exit: {}", before.is_none() || before != after);
    }
    let name = "nothing_is_called_behind_the_exit";
    if !is_child(name) {
        for kind in ["dropped", "aborted"] {
            let (status, text, _) = child_of(name, kind).map_err(|_| Error::Aborted)?;
            let fine = text.contains("calls behind the exit: false");
            assert!(status.success() && fine, "{kind}: {status}: {text}");
        }
        return Ok(());
    }
    let _alone = fake::alone();
    // Handlers run in the reverse order: this one when that of the crate has returned.
    // SAFETY: the handler has the type that is asked for, and nothing that it uses is gone by then.
    assert_eq!(unsafe { libc::atexit(behind_the_exit) }, 0);
    let (mut ranks, streams) = ranks(2)?;
    // Its memory is held back until the communicators are gone.
    all_reduce(&mut ranks, &streams)?;
    fake::faults().never_done = true;
    if std::env::var("NCCL_TEST_KIND").is_ok_and(|kind| kind == "aborted") {
        fake::faults().abort_takes = Duration::from_millis(300);
        ranks[0].abort_handle().abort();
    }
    *WATCH.lock().unwrap_or_else(PoisonError::into_inner) = cuda_emu::watch(None);
    drop((ranks, streams));
    std::thread::sleep(Duration::from_millis(20));
    std::process::exit(0);
}

#[cfg(unix)]
#[test]
fn a_forked_child_refuses_calls_and_drops_without_a_call() -> Result<()> {
    let name = "a_forked_child_refuses_calls_and_drops_without_a_call";
    if !is_child(name) {
        let (status, text, _) = child(name).map_err(|_| Error::Aborted)?;
        assert!(status.success() && text.contains("the parent goes on"), "{status}: {text}");
        return Ok(());
    }
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let abort = ranks[0].abort_handle();
    let mut x = DeviceBuffer::from_slice(&streams[0], &[1u8; 3])?;
    // SAFETY: the child calls what the test is about, and ends by `_exit`.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // Drops would free memory of the parent's device, which cuda-safe refuses too.
        let call = ranks[0].all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum);
        let text = call.err().map(|error| error.to_string()).unwrap_or_default();
        abort.abort();
        let calls = fake::calls();
        drop(ranks);
        let fine = text.contains("forked") && calls == 0 && fake::alive() == 2;
        // SAFETY: ends the child without running destructors of the parent's.
        unsafe { libc::_exit(if fine { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(forked, &raw mut status, 0) }, forked);
    assert_eq!(status, 0, "what the child found");
    all_reduce(&mut ranks, &streams)?;
    drop(ranks);
    all_is_well()?;
    println!("the parent goes on");
    Ok(())
}

const FAULT: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
    .visible .entry fault() {\n.reg .b64 %rd<2>; mov.u64 %rd1, 64; st.global.u32 [%rd1], 1; ret;\n}\n";

#[test]
fn a_fault_of_one_rank_ends_the_calls_of_all_and_drops_are_clean() -> Result<()> {
    let name = "a_fault_of_one_rank_ends_the_calls_of_all_and_drops_are_clean";
    if !is_child(name) {
        let (status, text, took) = child(name).map_err(|_| Error::Aborted)?;
        assert!(status.success() && text.contains("nothing hangs"), "{status}: {text}");
        assert!(took < Duration::from_secs(30), "{took:?}");
        return Ok(());
    }
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(3)?;
    let module = cuda_safe::Module::from_ptx(ranks[1].context(), FAULT)?;
    let kernel = module.kernel("fault")?;
    // SAFETY: the kernel's store is what the test is about: the device checks it.
    unsafe { kernel.launch(&streams[1], (1, 1), ()) }?;
    assert!(streams[1].synchronize().is_err());
    let error = all_reduce(&mut ranks, &streams).err().ok_or(Error::Aborted)?;
    assert!(matches!(&error, Error::Cuda(error) if error.is_fatal()), "{error}");
    for rank in &ranks {
        assert!(matches!(rank.check(), Err(Error::Cuda(_))), "rank {}", rank.rank());
    }
    soon(|| drop(ranks));
    fake::all_gone();
    fake::no_misuse();
    println!("nothing hangs");
    Ok(())
}
