//! Wrong arguments and wrong uses: the codes that NCCL documents, a text, and no hang.

use std::ffi::{CStr, c_int};
use std::ptr;

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::abort::alive;
use crate::lab::{Lab, fails, last, nccl};

const FLOATS: ncclDataType_t = ncclDataType_t::ncclFloat32;
const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;

fn id() -> ncclUniqueId {
    let mut id = ncclUniqueId { internal: [0; 128] };
    nccl!(ncclGetUniqueId(&raw mut id));
    id
}

#[test]
fn ranks_and_ids() {
    let lab = Lab::new();
    let before = alive();
    lab.devices[0].enter();
    let mut comm = ptr::null_mut();
    for (ranks, rank) in [(0, 0), (2, 2), (2, -1), (-1, 0), (1, 1)] {
        fails!(ncclInvalidArgument, ncclCommInitRank(&raw mut comm, ranks, id(), rank));
    }
    fails!(ncclInvalidArgument, ncclCommInitRank(ptr::null_mut(), 1, id(), 0));
    fails!(ncclInvalidArgument, ncclGetUniqueId(ptr::null_mut()));
    // An id of nobody, and one that was used.
    let nobody = ncclUniqueId { internal: [1; 128] };
    fails!(ncclInvalidArgument, ncclCommInitRank(&raw mut comm, 1, nobody, 0));
    let used = id();
    nccl!(ncclCommInitRank(&raw mut comm, 1, used, 0));
    let mut other = ptr::null_mut();
    fails!(ncclInvalidUsage, ncclCommInitRank(&raw mut other, 1, used, 0));
    assert!(last().contains("used") && other.is_null(), "{}", last());
    nccl!(ncclCommDestroy(comm));
    assert_eq!(alive(), before);
}

/// One rank says a wrong thing. It fails, and so do those who wait for it.
#[test]
fn ranks_that_do_not_fit_together() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    let before = alive();
    // The number of a rank twice; another number of ranks; a device twice.
    for (ranks, rank, device) in [(2, 0, 1), (3, 1, 1), (2, 1, 0)] {
        let unique = id();
        let mut comms = [ptr::null_mut(); 2];
        nccl!(ncclGroupStart());
        lab.devices[0].enter();
        nccl!(ncclCommInitRank(&raw mut comms[0], 2, unique, 0));
        lab.devices[device].enter();
        nccl!(ncclCommInitRank(&raw mut comms[1], ranks, unique, rank));
        fails!(ncclInvalidUsage, ncclGroupEnd());
        assert_eq!(comms, [ptr::null_mut(); 2]);
    }
    // In threads, the one who waits gets an error as well.
    let unique = id();
    let device = lab.devices[0];
    let waiting = std::thread::spawn(move || {
        device.enter();
        let mut comm = ptr::null_mut();
        // SAFETY: the place is that of the test.
        unsafe { ncclCommInitRank(&raw mut comm, 2, unique, 0) }
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    lab.devices[1].enter();
    let mut comm = ptr::null_mut();
    // SAFETY: as above.
    let own = unsafe { ncclCommInitRank(&raw mut comm, 2, unique, 0) };
    let codes = [own, waiting.join().expect("no panic")];
    assert!(codes.contains(&ncclResult_t::ncclInvalidUsage), "{codes:?}");
    assert!(codes.contains(&ncclResult_t::ncclRemoteError), "{codes:?}");
    assert_eq!(alive(), before);
}

#[test]
fn arguments_of_operations() {
    let lab = Lab::new();
    let ranks = lab.ranks(lab.devices.len(), 4096);
    let size = ranks.all.len() as c_int;
    let rank = &ranks.all[0];
    let (at, comm, stream) = (rank.memory.at(0), rank.comm, rank.stream.0);
    let from = at.cast_const();
    let odd = from.wrapping_byte_add(1);
    fails!(ncclInvalidArgument, ncclAllReduce(from, at, 1, ncclDataType_t(12), SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(from, at, 1, FLOATS, ncclRedOp_t(5), comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(from, at, 1, ncclDataType_t(10), SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(ptr::null(), at, 1, FLOATS, SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(from, ptr::null_mut(), 1, FLOATS, SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(odd, at, 1, FLOATS, SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(from, at, usize::MAX, FLOATS, SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAllReduce(from, at, 1, FLOATS, SUM, ptr::null_mut(), stream));
    for root in [-1, size] {
        fails!(ncclInvalidArgument, ncclBroadcast(from, at, 1, FLOATS, root, comm, stream));
        fails!(ncclInvalidArgument, ncclReduce(from, at, 1, FLOATS, SUM, root, comm, stream));
        fails!(ncclInvalidArgument, ncclGather(from, at, 1, FLOATS, root, comm, stream));
        fails!(ncclInvalidArgument, ncclScatter(from, at, 1, FLOATS, root, comm, stream));
        fails!(ncclInvalidArgument, ncclSend(from, 1, FLOATS, root, comm, stream));
        fails!(ncclInvalidArgument, ncclRecv(at, 1, FLOATS, root, comm, stream));
    }
    let most = usize::MAX / 8;
    fails!(ncclInvalidArgument, ncclAllGather(from, at, most, FLOATS, comm, stream));
    fails!(ncclInvalidArgument, ncclReduceScatter(from, at, most, FLOATS, SUM, comm, stream));
    fails!(ncclInvalidArgument, ncclAlltoAll(from, at, most, FLOATS, comm, stream));
    let place = ptr::null_mut();
    fails!(ncclInvalidArgument, ncclCommCount(comm, place));
    fails!(ncclInvalidArgument, ncclCommCuDevice(comm, place));
    fails!(ncclInvalidArgument, ncclCommUserRank(comm, place));
    fails!(ncclInvalidArgument, ncclCommGetAsyncError(comm, ptr::null_mut()));
    // None of this has touched the communicator.
    assert!(rank.stream.is_done());
    ranks.destroy();
    fails!(ncclInvalidArgument, ncclCommDestroy(comm));
    nccl!(ncclCommDestroy(ptr::null_mut()));
}

#[test]
fn reductions_of_programs() {
    let lab = Lab::new();
    let ranks = lab.ranks(1, 4096);
    let rank = &ranks.all[0];
    let (at, comm, stream) = (rank.memory.at(0), rank.comm, rank.stream.0);
    let (mut op, mut scalar) = (ncclRedOp_t(0), 2.0_f32);
    let place = (&raw mut scalar).cast();
    let host = ncclScalarResidence_t::ncclScalarHostImmediate;
    let odd = ncclScalarResidence_t(2);
    fails!(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&raw mut op, place, FLOATS, odd, comm));
    fails!(
        ncclInvalidArgument,
        ncclRedOpCreatePreMulSum(ptr::null_mut(), place, FLOATS, host, comm)
    );
    fails!(
        ncclInvalidArgument,
        ncclRedOpCreatePreMulSum(&raw mut op, ptr::null_mut(), FLOATS, host, comm)
    );
    nccl!(ncclRedOpCreatePreMulSum(&raw mut op, place, FLOATS, host, comm));
    // For one type, and one communicator.
    let doubles = ncclDataType_t::ncclFloat64;
    fails!(ncclInvalidArgument, ncclAllReduce(at, at, 1, doubles, op, comm, stream));
    let others = lab.ranks(1, 4096);
    let other = others.all[0].comm;
    fails!(ncclInvalidArgument, ncclAllReduce(at, at, 1, FLOATS, op, other, stream));
    fails!(ncclInvalidArgument, ncclRedOpDestroy(op, other));
    fails!(ncclInvalidArgument, ncclRedOpDestroy(SUM, comm));
    nccl!(ncclRedOpDestroy(op, comm));
    fails!(ncclInvalidArgument, ncclRedOpDestroy(op, comm));
    fails!(ncclInvalidArgument, ncclAllReduce(at, at, 1, FLOATS, op, comm, stream));
    others.destroy();
    ranks.destroy();
}

#[test]
fn configurations() {
    let lab = Lab::new();
    lab.devices[0].enter();
    let right = ncclConfig_t::default();
    let wrong = [
        ncclConfig_t { magic: 0, ..right },
        ncclConfig_t { size: 0, ..right },
        ncclConfig_t { blocking: 2, ..right },
        ncclConfig_t { blocking: -1, ..right },
        ncclConfig_t { cgaClusterSize: -1, ..right },
        ncclConfig_t { minCTAs: 0, ..right },
        ncclConfig_t { minCTAs: 3, maxCTAs: 2, ..right },
    ];
    let mut comm = ptr::null_mut();
    for mut config in wrong {
        fails!(
            ncclInvalidArgument,
            ncclCommInitRankConfig(&raw mut comm, 1, id(), 0, &raw mut config)
        );
    }
    // Those of older headers are shorter: what lies behind them is not read.
    for size in [48, 72, 80] {
        let mut config = ncclConfig_t { size, nvlsCTAs: 77, minCTAs: 1, maxCTAs: 4, ..right };
        nccl!(ncclCommInitRankConfig(&raw mut comm, 1, id(), 0, &raw mut config));
        nccl!(ncclCommDestroy(comm));
    }
}

#[test]
fn after_it_was_finalized() {
    let lab = Lab::new();
    let ranks = lab.ranks(1, 4096);
    let rank = &ranks.all[0];
    let at = rank.memory.at(0);
    nccl!(ncclCommFinalize(rank.comm));
    fails!(ncclInvalidUsage, ncclAllReduce(at, at, 1, FLOATS, SUM, rank.comm, rank.stream.0));
    fails!(ncclInvalidUsage, ncclCommFinalize(rank.comm));
    ranks.destroy();
}

#[test]
fn codes_have_strings() {
    for code in 0..10 {
        // SAFETY: the strings are static.
        let text = unsafe { CStr::from_ptr(ncclGetErrorString(ncclResult_t(code))) };
        assert!(!text.is_empty());
        assert_eq!(text == c"unknown result code", code > 7);
    }
}
