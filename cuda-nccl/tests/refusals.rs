//! What makes no sense is an error, nothing is enqueued, and everything is usable afterwards.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use cuda_nccl::raw::{LoadError, NcclFns, ncclResult_t, version_text};
use cuda_nccl::{Communicator, Config, Error, Group, Nccl, ReduceOp, Result, UniqueId};
use cuda_safe::{Context, DeviceBuffer, Stream};

mod fake;

fn config() -> Config {
    Config::new().library(fake::library())
}

fn ranks(count: usize) -> Result<(Vec<Communicator>, Vec<Stream>)> {
    let contexts = fake::contexts(count);
    let streams = contexts.iter().map(Context::stream).collect::<Result<_, _>>()?;
    Ok((Communicator::all_with(&contexts, &config())?, streams))
}

/// Sums one number of each rank, as proof that all is well.
fn works(ranks: &mut [Communicator], streams: &[Stream]) -> Result<()> {
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

#[track_caller]
fn refused<T>(result: Result<T>, part: &str) {
    match result {
        Ok(_) => panic!("accepted, instead of an error about: {part}"),
        Err(error) => {
            assert!(!error.is_final(), "{error}");
            assert!(error.to_string().contains(part), "{error}\nhas not: {part}");
        }
    }
}

#[test]
fn no_devices_one_twice_and_other_contexts() -> Result<()> {
    let _alone = fake::alone();
    let contexts = fake::contexts(2);
    refused(Communicator::all_with(&[], &config()), "at least one rank");
    let twice = [contexts[0].clone(), contexts[1].clone(), contexts[0].clone()];
    refused(Communicator::all_with(&twice, &config()), "ranks 0 and 2 are both of device 0");
    // A context that is not the device's primary one.
    let (driver, mut raw) = (fake::driver(), ptr::null_mut());
    let sys = driver.as_sys();
    // SAFETY: `raw` is valid for the write; the context is destroyed when nothing uses it any more.
    unsafe {
        assert_eq!(sys.cuCtxCreate_v2(&raw mut raw, 0, 1).map(|code| code.0), Ok(0));
        let mut popped = ptr::null_mut();
        assert_eq!(sys.cuCtxPopCurrent_v2(&raw mut popped).map(|code| code.0), Ok(0));
        let other = Context::from_raw(driver, raw, ())?;
        refused(Communicator::all_with(&[other], &config()), "not the primary one of device 1");
        assert_eq!(sys.cuCtxDestroy_v2(raw).map(|code| code.0), Ok(0));
    }
    assert_eq!(fake::alive(), 0);
    let (mut ranks, streams) = ranks(2)?;
    works(&mut ranks, &streams)?;
    fake::no_misuse();
    Ok(())
}

extern "C" fn old_version(version: *mut c_int) -> ncclResult_t {
    // SAFETY: valid for one write.
    unsafe { *version = 21705 };
    ncclResult_t::ncclSuccess
}

extern "C" fn no_version(_: *mut c_int) -> ncclResult_t {
    ncclResult_t::ncclInternalError
}

#[test]
fn a_library_that_is_too_old_or_none() {
    fn with(function: *const c_void) -> Result<&'static Nccl, LoadError> {
        let resolve = move |name: &CStr| match name == c"ncclGetVersion" {
            true => function,
            false => ptr::null(),
        };
        // SAFETY: the function has the ABI of the header.
        unsafe { Nccl::from_resolver(&resolve) }
    }
    let text = |loaded: Result<_, LoadError>| loaded.err().map(|error| error.to_string());
    let old = text(with(old_version as *const c_void)).unwrap_or_default();
    assert!(old.contains("2.17.5") && old.contains("2.18.0"), "{old}");
    let none = text(with(no_version as *const c_void)).unwrap_or_default();
    assert!(none.contains("ncclInternalError"), "{none}");
    let none = text(with(ptr::null())).unwrap_or_default();
    assert!(none.contains("no ncclGetVersion"), "{none}");
    // SAFETY: there is no such file, and none is run.
    let missing = text(unsafe { Nccl::load_from("/nowhere/libnccl.so.2") }).unwrap_or_default();
    assert!(missing.contains("/nowhere/libnccl.so.2"), "{missing}");
    assert_eq!(version_text(21803), "2.18.3");
    assert!(NcclFns::NAMES.iter().any(|(name, since)| (*name, *since) == (c"ncclGather", 22800)));
}

#[test]
fn a_missing_function_is_an_error_of_its_call() -> Result<()> {
    let _alone = fake::alone();
    let contexts = fake::contexts(1);
    let stream = contexts[0].stream()?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1.0f32; 8])?;
    let mut y = DeviceBuffer::from_slice(&stream, &[2.0f32; 8])?;
    let config =
        Config::new().library(fake::without(&["ncclReduceScatter", "ncclSend", "ncclCommSplit"]));
    let mut rank = Communicator::all_with(&contexts, &config)?.remove(0);
    for result in [
        rank.reduce_scatter(&stream, &x, &mut y, ReduceOp::Sum),
        rank.gather(&stream, &x, Some(y.as_slice_mut()), 0),
        rank.all_to_all(&stream, &x, &mut y),
        rank.split(Some(0), 0).map(drop),
    ] {
        assert!(matches!(result, Err(Error::Missing(_))), "{result:?}");
    }
    let text = rank.reduce_scatter(&stream, &x, &mut y, ReduceOp::Sum).err().map(|e| e.to_string());
    assert_eq!(
        text.as_deref(),
        Some("this NCCL (2.28.9) has no ncclReduceScatter, which came with NCCL 2.0.0")
    );
    rank.all_reduce(&stream, &x, &mut y, ReduceOp::Sum)?;
    assert_eq!(y.to_vec(&stream)?, [1.0; 8]);
    rank.all_reduce_in_place(&stream, &mut x, ReduceOp::Sum)?;
    // What every communicator needs is asked for before one is made.
    let config = Config::new().library(fake::without(&["ncclCommAbort"]));
    assert!(matches!(Communicator::all_with(&contexts, &config), Err(Error::Missing(_))));
    fake::no_misuse();
    Ok(())
}

#[test]
fn lengths_roots_and_peers() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let (stream, of_rank) = (&streams[0], fake::calls());
    let x = DeviceBuffer::from_slice(stream, &[1u8; 7])?;
    let mut y = DeviceBuffer::from_slice(stream, &[2u8; 6])?;
    let rank = &mut ranks[0];
    let sum = ReduceOp::Sum;
    refused(rank.all_reduce(stream, &x, &mut y, sum), "7 elements are sent and 6 received");
    refused(
        rank.all_gather(stream, &x, &mut y),
        "all 2 ranks has 6 elements, and that of one has 7",
    );
    refused(rank.reduce_scatter(stream, &x, &mut y, sum), "has 7 elements, and that of one has 6");
    refused(rank.all_to_all(stream, &x, &mut y), "7 elements are sent and 6 received");
    let mut odd = DeviceBuffer::from_slice(stream, &[2u8; 7])?;
    refused(
        rank.all_gather_in_place(stream, &mut odd),
        "7 elements can't be divided among 2 ranks",
    );
    refused(rank.reduce_scatter_in_place(stream, &mut odd, sum), "can't be divided");
    refused(rank.broadcast(stream, &mut y, 2), "there is no rank 2: the communicator has 2");
    refused(rank.broadcast(stream, &mut y, usize::MAX), "there is no rank");
    refused(rank.broadcast_from(stream, None, &mut y, 0), "the root has no slice");
    refused(rank.gather(stream, &x, Some(y.as_slice_mut()), 0), "has 6 elements");
    refused(rank.scatter(stream, None, &mut y, 0), "the root has no slice");
    refused(rank.reduce(stream, &x, None, sum, 0), "the root has no slice");
    refused(rank.send(stream, &x, 0), "rank 0 can't exchange messages with itself");
    refused(rank.recv(stream, &mut y, 5), "there is no rank 5");
    refused(Group::new(&mut ranks).on(2).map(drop), "there is no communicator 2 in the group");
    assert_eq!(fake::calls(), of_rank, "nothing has reached NCCL");
    works(&mut ranks, &streams)?;
    fake::no_misuse();
    Ok(())
}

#[test]
fn slices_and_streams_of_the_wrong_device() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let mut own = DeviceBuffer::from_slice(&streams[0], &[1i32; 4])?;
    let other = DeviceBuffer::from_slice(&streams[1], &[1i32; 4])?;
    let sum = ReduceOp::Sum;
    let text =
        "a slice belongs to another context than the communicator of rank 0, which is of device 0";
    refused(ranks[0].all_reduce(&streams[0], &other, &mut own, sum), text);
    refused(
        ranks[0].all_reduce_in_place(&streams[1], &mut own, sum),
        "the stream belongs to another",
    );
    // Also where kernels could use it.
    ranks[0].context().clone().enable_peer_access(ranks[1].context())?;
    refused(ranks[0].all_reduce(&streams[0], &other, &mut own, sum), text);
    let mut group = Group::new(&mut ranks);
    refused(group.on(0)?.all_reduce(&streams[0], &other, &mut own, sum), text);
    drop(group);
    assert_eq!(fake::calls(), 0);
    works(&mut ranks, &streams)?;
    fake::no_misuse();
    Ok(())
}

#[test]
fn ranks_that_disagree_in_one_group_are_refused_and_work_on() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(3)?;
    let buffers = |len| -> Result<Vec<DeviceBuffer<i32>>> {
        let of = |stream| DeviceBuffer::from_slice(stream, &vec![1; len]);
        Ok(streams.iter().map(of).collect::<Result<_, _>>()?)
    };
    let (mut x, mut y) = (buffers(6)?, buffers(6)?);
    let float = |stream| DeviceBuffer::from_slice(stream, &[1.0f32; 6]);
    let mut floats = streams.iter().map(float).collect::<Result<Vec<_>, _>>()?;
    let (sum, max) = (ReduceOp::Sum, ReduceOp::Max);
    let before = fake::calls();
    // Another length, type, operation, kind, root, order; and a rank that does not take part twice.
    for case in 0..6 {
        let mut group = Group::new(&mut ranks);
        let all = x.iter_mut().zip(y.iter_mut().zip(&mut floats));
        for (rank, (x, (y, floats))) in all.enumerate() {
            let (mut on, stream) = (group.on(rank)?, &streams[rank]);
            match (case, rank) {
                (0, 2) => on.all_reduce_in_place(stream, x.slice_mut(..5)?, sum)?,
                (1, 2) => on.all_reduce_in_place(stream, floats, sum)?,
                (2, 2) => on.all_reduce_in_place(stream, x, max)?,
                (3, 2) => on.broadcast(stream, x, 0)?,
                (4, _) => on.broadcast(stream, x, rank.min(1))?,
                (5, 2) => {
                    on.broadcast(stream, y, 0)?;
                    on.all_reduce_in_place(stream, x, sum)?;
                }
                (5, _) => {
                    on.all_reduce_in_place(stream, x, sum)?;
                    on.broadcast(stream, y, 0)?;
                }
                _ => on.all_reduce_in_place(stream, x, sum)?,
            }
        }
        let error = group.run();
        assert!(matches!(error, Err(Error::Mismatch { .. })), "{case}: {error:?}");
        works(&mut ranks, &streams)?;
    }
    assert_eq!(fake::calls() - before, 6 * 3, "only the right ones have reached NCCL");
    for (stream, x) in streams.iter().zip(&x) {
        assert_eq!(x.to_vec(stream)?, [1; 6]);
    }
    fake::no_misuse();
    Ok(())
}

#[test]
fn messages_that_disagree() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let x = DeviceBuffer::from_slice(&streams[0], &[1i32; 6])?;
    let mut y = DeviceBuffer::from_slice(&streams[1], &[1i32; 6])?;
    for len in [5, 6] {
        let mut group = Group::new(&mut ranks);
        group.on(0)?.send(&streams[0], &x, 1)?;
        group.on(1)?.recv(&streams[1], y.slice_mut(..len)?, 0)?;
        assert_eq!(group.run().is_ok(), len == 6);
    }
    works(&mut ranks, &streams)?;
    fake::no_misuse();
    Ok(())
}

#[test]
fn a_rank_that_disagrees_with_a_call_under_way_frees_its_peer() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(2)?;
    let mut second = ranks.pop().ok_or(Error::Aborted)?;
    let mut first = ranks.pop().ok_or(Error::Aborted)?;
    let (one, two) = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut x = DeviceBuffer::from_slice(&streams[0], &[1i32; 6])?;
            let result = first.all_reduce_in_place(&streams[0], &mut x, ReduceOp::Sum);
            x.to_vec(&streams[0])?;
            result
        });
        while fake::calls() == 0 {
            std::thread::yield_now();
        }
        let mut x = DeviceBuffer::from_slice(&streams[1], &[1i32; 7])?;
        let two = second.all_reduce_in_place(&streams[1], &mut x, ReduceOp::Sum);
        Ok::<_, Error>((waits.join(), two))
    })?;
    let one = one.unwrap_or(Ok(()));
    for error in [one, two, first.check(), second.check()] {
        let text = error.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("all_reduce of 7 i32 (sum)") && text.contains("of 6 i32"), "{text}");
    }
    fake::all_gone();
    // The devices go on.
    let (mut ranks, streams) = self::ranks(2)?;
    works(&mut ranks, &streams)?;
    fake::no_misuse();
    Ok(())
}

#[test]
fn nothing_and_more_than_two_to_the_31() -> Result<()> {
    let _alone = fake::alone();
    let (mut ranks, streams) = ranks(1)?;
    let mut empty = DeviceBuffer::<f64>::zeroed(&streams[0], 0)?;
    ranks[0].all_reduce_in_place(&streams[0], &mut empty, ReduceOp::Sum)?;
    ranks[0].all_to_all(
        &streams[0],
        DeviceBuffer::<f64>::zeroed(&streams[0], 0)?.as_slice(),
        &mut empty,
    )?;
    assert_eq!(fake::calls(), 0, "NCCL is not called without elements");
    // The whole length reaches NCCL: the memory is not touched, since the call fails there.
    let elements = (1usize << 31) + 1;
    // SAFETY: nothing uses the memory.
    let mut huge =
        unsafe { DeviceBuffer::<i8>::from_raw(&streams[0], 4096, elements, Some(Box::new(()))) }?;
    fake::record_counts(true);
    ranks[0].all_reduce_in_place(&streams[0], &mut huge, ReduceOp::Sum)?;
    assert_eq!(fake::record_counts(false), [elements]);
    fake::no_misuse();
    Ok(())
}

#[test]
fn an_error_of_nccl_breaks_the_communicators() -> Result<()> {
    for (function, code) in [
        ("ncclAllReduce", 4),
        ("ncclAllReduce", 1),
        ("ncclGroupEnd", 5),
        ("ncclCommGetAsyncError", 3),
    ] {
        let _alone = fake::alone();
        let (mut ranks, streams) = ranks(2)?;
        fake::faults().codes.insert(function, code);
        let error = works(&mut ranks, &streams).err().ok_or(Error::Aborted)?;
        assert!(matches!(error, Error::Nccl { .. }) && error.is_final(), "{error}");
        assert!(error.to_string().contains(function), "{error}");
        assert!(fake::groups_are_ended());
        fake::faults().codes.clear();
        // It is every later call's, and nothing reaches NCCL.
        let calls = fake::calls();
        for rank in &mut ranks {
            let mut x = DeviceBuffer::from_slice(&rank.context().stream()?, &[1i32])?;
            let stream = x.home_stream().clone();
            let later = rank.all_reduce_in_place(&stream, &mut x, ReduceOp::Sum).err();
            assert_eq!(later.map(|later| later.to_string()), Some(error.to_string()));
        }
        assert_eq!(fake::calls(), calls);
        fake::all_gone();
        let (mut ranks, streams) = self::ranks(2)?;
        works(&mut ranks, &streams)?;
        drop(ranks);
        fake::all_gone();
        fake::no_misuse();
    }
    Ok(())
}

#[test]
fn a_failing_creation_leaves_nothing() -> Result<()> {
    let _alone = fake::alone();
    for function in [
        "ncclGetUniqueId",
        "ncclGroupStart",
        "ncclCommInitRankConfig",
        "ncclGroupEnd",
        "ncclCommGetAsyncError",
    ] {
        fake::faults().codes.insert(function, 2);
        let made = Communicator::all_with(&fake::contexts(3), &config());
        assert!(made.is_err(), "{function}");
        fake::faults().codes.clear();
        fake::all_gone();
        assert!(fake::groups_are_ended());
    }
    let wrong = config().blocks(4, 2);
    refused(Communicator::all_with(&fake::contexts(1), &wrong), "4 to 2 thread blocks");
    let (mut ranks, streams) = ranks(3)?;
    works(&mut ranks, &streams)?;
    fake::no_misuse();
    Ok(())
}

#[test]
fn an_identifier_makes_one_communicator() -> Result<()> {
    let _alone = fake::alone();
    let context = &fake::contexts(1)[0];
    let id = UniqueId::of(fake::library())?;
    assert_eq!(UniqueId::from_bytes(id.to_bytes()), id);
    assert!(!format!("{id:?}").contains('7'), "an identifier is not printed");
    // SAFETY: one rank agrees with itself.
    let new = |ranks, rank| unsafe { Communicator::new_with(id, ranks, rank, context, &config()) };
    refused(new(1, 1), "there is no rank 1 of 1");
    refused(new(0, 0), "there is no rank 0 of 0");
    let first = new(1, 0)?;
    refused(new(1, 0), "the identifier has made a communicator of rank 0 in this process before");
    assert_eq!((first.rank(), first.ranks()), (0, 1));
    fake::no_misuse();
    Ok(())
}

#[test]
fn checked_ranks_compare_before_they_call() -> Result<()> {
    let _alone = fake::alone();
    let contexts = fake::contexts(2);
    let id = UniqueId::of(fake::library())?;
    let config = config().checked(true);
    let wrong = |error: Result<()>| match error {
        Err(Error::Mismatch { call, other, .. }) => (call, other),
        other => panic!("{other:?}"),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = contexts
            .iter()
            .enumerate()
            .map(|(own, context)| {
                let config = &config;
                scope.spawn(move || -> Result<()> {
                    // SAFETY: the ranks are checked.
                    let mut rank = unsafe { Communicator::new_with(id, 2, own, context, config) }?;
                    let stream = context.stream()?;
                    let mut x = DeviceBuffer::from_slice(&stream, &[own as i32 + 1; 8])?;
                    rank.all_reduce_in_place(&stream, &mut x, ReduceOp::Sum)?;
                    assert_eq!(x.to_vec(&stream)?, [3; 8]);
                    let part = x.slice_mut(..5 + own)?;
                    let (call, other) =
                        wrong(rank.all_reduce_in_place(&stream, part, ReduceOp::Sum));
                    assert_eq!(call, format!("all_reduce of {} i32 (sum)", 5 + own));
                    assert_eq!(other, format!("all_reduce of {} i32 (sum)", 6 - own));
                    // Messages, in a group with a collective.
                    for (agree, len) in [(true, 4), (false, 3 + own)] {
                        let mut y = DeviceBuffer::<i32>::zeroed(&stream, 8)?;
                        let mut group = Group::new([&mut rank]);
                        if own == 0 {
                            group.on(0)?.send(&stream, x.slice(..len)?, 1)?;
                        } else {
                            group.on(0)?.recv(&stream, y.slice_mut(..len)?, 0)?;
                        }
                        let result = group.run();
                        match agree {
                            true => result?,
                            false => drop(wrong(result)),
                        }
                    }
                    // A split and a collective.
                    let (call, other) = wrong(match own {
                        0 => rank.split(Some(0), 0).map(drop),
                        _ => rank.all_reduce_in_place(&stream, &mut x, ReduceOp::Max),
                    });
                    let mut both = [call, other];
                    both.sort();
                    assert_eq!(both, ["all_reduce of 8 i32 (max)", "split"]);
                    rank.all_reduce_in_place(&stream, &mut x, ReduceOp::Max)?;
                    let mut half = rank.split(Some(0), 0)?.ok_or(Error::Aborted)?;
                    assert_eq!((half.rank(), half.ranks()), (own, 2));
                    half.all_reduce_in_place(&stream, &mut x, ReduceOp::Min)?;
                    Communicator::close([half, rank])
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    fake::all_gone();
    fake::no_misuse();
    Ok(())
}
