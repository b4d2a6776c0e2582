//! The host's time for an all-reduce above the bare call of NCCL. This is the only test of its program: nothing runs beside
//! it.

use std::ffi::{CStr, c_int, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

use cuda_nccl::raw::*;
use cuda_nccl::{Communicator, Config, Group, Nccl, ReduceOp};
use cuda_safe::sys::{CUstream, noop};
use cuda_safe::{DeviceBuffer, Driver};
use test_support::cost::{cheap, least, reference_burst, slowness};

/// The limit for each rank. A slower core has a higher one; programs without optimisation are not measured.
const MOST_NANOSECONDS: f64 = 400.0;

/// How long the measurement is repeated while it is above the limit.
const PATIENCE: Duration = Duration::from_secs(20);

const BURSTS: usize = 201;
const CALLS: u32 = 500;

const OK: ncclResult_t = ncclResult_t::ncclSuccess;

extern "C" fn version(version: *mut c_int) -> ncclResult_t {
    // SAFETY: valid for one write.
    unsafe { *version = 22809 };
    OK
}

extern "C" fn unique_id(_: *mut ncclUniqueId) -> ncclResult_t {
    OK
}

extern "C" fn init(
    comm: *mut ncclComm_t,
    _: c_int,
    _: ncclUniqueId,
    rank: c_int,
    _: *mut ncclConfig_t,
) -> ncclResult_t {
    // SAFETY: valid for one write.
    unsafe { *comm = std::ptr::without_provenance_mut(0x1000 + rank as usize) };
    OK
}

extern "C" fn async_error(_: ncclComm_t, error: *mut ncclResult_t) -> ncclResult_t {
    // SAFETY: valid for one write.
    unsafe { *error = OK };
    OK
}

extern "C" fn end(_: ncclComm_t) -> ncclResult_t {
    OK
}

extern "C" fn group() -> ncclResult_t {
    OK
}

extern "C" fn all_reduce(
    send: *const c_void,
    _: *mut c_void,
    count: usize,
    _: ncclDataType_t,
    _: ncclRedOp_t,
    _: ncclComm_t,
    _: CUstream,
) -> ncclResult_t {
    black_box((send, count));
    OK
}

fn resolve(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"ncclGetVersion" => version as *const c_void,
        b"ncclGetUniqueId" => unique_id as *const c_void,
        b"ncclCommInitRankConfig" => init as *const c_void,
        b"ncclCommGetAsyncError" => async_error as *const c_void,
        b"ncclCommFinalize" | b"ncclCommDestroy" | b"ncclCommAbort" => end as *const c_void,
        b"ncclGroupStart" | b"ncclGroupEnd" => group as *const c_void,
        b"ncclAllReduce" => all_reduce as *const c_void,
        _ => std::ptr::null(),
    }
}

fn burst(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    (0..CALLS).for_each(|_| call());
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

#[test]
fn an_all_reduce_costs_little_more_than_the_bare_call() -> Result<(), Box<dyn std::error::Error>> {
    let context = Driver::from_sys(noop::driver())?.device(0)?.context()?;
    // SAFETY: the functions of this file have the ABI of `nccl.h`.
    let library = unsafe { Nccl::from_resolver(&resolve) }?;
    let config = Config::new().library(library);
    // Of two communicators, since the driver that does nothing has one device: a group of two costs as that of two ranks.
    let all = || Communicator::all_with(std::slice::from_ref(&context), &config);
    let mut ranks: Vec<Communicator> = [all()?, all()?].into_iter().flatten().collect();
    let streams = [context.stream()?, context.stream()?];
    let stream = &streams[0];
    let x = DeviceBuffer::<f32>::zeroed(stream, 1000)?;
    let mut y = DeviceBuffer::<f32>::zeroed(stream, 1000)?;
    let other = DeviceBuffer::<f32>::zeroed(&streams[1], 1000)?;
    let mut another = DeviceBuffer::<f32>::zeroed(&streams[1], 1000)?;
    let bare = library.fns().ncclAllReduce.ok_or("it has ncclAllReduce")?;
    let (send, recv, raw) = (x.device_ptr(), y.device_ptr(), stream.as_raw());
    let mut measure = |in_group: bool| -> f64 {
        let mut failed = None;
        let mut above = Vec::new();
        for _ in 0..BURSTS {
            let alone = burst(|| {
                let (send, recv) = black_box((send as *const c_void, recv as *mut c_void));
                let comm = std::ptr::without_provenance_mut(0x1000);
                // SAFETY: the function uses nothing.
                black_box(unsafe {
                    bare(
                        send,
                        recv,
                        1000,
                        ncclDataType_t::ncclFloat32,
                        ncclRedOp_t::ncclSum,
                        comm,
                        raw,
                    )
                });
            });
            let whole = burst(|| {
                let result = match in_group {
                    false => ranks[0].all_reduce(stream, &x, &mut y, ReduceOp::Sum),
                    true => {
                        let mut group = Group::new(&mut ranks);
                        group
                            .on(0)
                            .and_then(|mut on| on.all_reduce(stream, &x, &mut y, ReduceOp::Sum))
                            .and_then(|()| group.on(1))
                            .and_then(|mut on| {
                                let (x, y) = (&other, &mut another);
                                on.all_reduce(&streams[1], x, y, ReduceOp::Sum)
                            })
                            .and_then(|()| group.run())
                    }
                };
                failed = result.err().or(failed.take());
            });
            // For each rank.
            let whole = if in_group { whole / 2.0 } else { whole };
            above.push(whole - alone);
        }
        assert!(failed.is_none(), "{failed:?}");
        cheap(&mut above)
    };
    for in_group in [false, true] {
        // Once, to fill caches and to see that it works.
        measure(in_group);
        if cfg!(debug_assertions) {
            continue;
        }
        let slow =
            slowness(&mut std::iter::repeat_with(reference_burst).take(101).collect::<Vec<_>>());
        let limit = MOST_NANOSECONDS * slow;
        let took = least(limit, PATIENCE, || Ok::<_, std::convert::Infallible>(measure(in_group)))?;
        println!(
            "{took:.0} ns a rank above the bare call, in a group: {in_group}; limit {limit:.0}"
        );
        assert!(took <= limit, "an all-reduce costs {took:.0} ns, at most {limit:.0} are allowed");
    }
    Ok(())
}
