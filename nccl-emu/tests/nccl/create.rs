//! Creating, splitting, querying and ending communicators.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::abort::alive;
use crate::lab::{Lab, SUCCESS, cu, fails, last, nccl};

fn id() -> ncclUniqueId {
    let mut id = ncclUniqueId { internal: [0; 128] };
    nccl!(ncclGetUniqueId(&raw mut id));
    id
}

fn facts(comm: ncclComm_t) -> [c_int; 3] {
    let mut facts = [-1; 3];
    let [count, device, rank] = &mut facts;
    nccl!(ncclCommCount(comm, count));
    nccl!(ncclCommCuDevice(comm, device));
    nccl!(ncclCommUserRank(comm, rank));
    facts
}

#[test]
fn in_threads_and_in_groups() {
    let lab = Lab::new();
    let before = alive();
    for size in lab.sizes() {
        let count = size as c_int;
        let unique = id();
        // Threads: each call waits for the others.
        std::thread::scope(|scope| {
            for (rank, device) in lab.devices[..size].iter().enumerate() {
                scope.spawn(move || {
                    device.enter();
                    let mut comm = ptr::null_mut();
                    nccl!(ncclCommInitRank(&raw mut comm, count, unique, rank as c_int));
                    assert_eq!(facts(comm), [count, device.number, rank as c_int]);
                    nccl!(ncclCommDestroy(comm));
                });
            }
        });
        // A group: the last device is the first rank.
        let unique = id();
        let mut comms = vec![ptr::null_mut(); size];
        nccl!(ncclGroupStart());
        for (rank, comm) in comms.iter_mut().enumerate() {
            lab.devices[size - 1 - rank].enter();
            nccl!(ncclCommInitRank(comm, count, unique, rank as c_int));
        }
        nccl!(ncclGroupEnd());
        for (rank, comm) in comms.into_iter().enumerate() {
            assert_eq!(facts(comm), [count, count - 1 - rank as c_int, rank as c_int]);
            let mut state = ncclResult_t::ncclInternalError;
            nccl!(ncclCommGetAsyncError(comm, &raw mut state));
            assert_eq!(state, SUCCESS);
            nccl!(ncclCommFinalize(comm));
            nccl!(ncclCommDestroy(comm));
        }
    }
    assert_eq!(alive(), before);
}

#[test]
fn on_chosen_devices() {
    let lab = Lab::new();
    let size = lab.devices.len();
    let chosen: Vec<c_int> = (0..size as c_int).rev().collect();
    let mut comms = vec![ptr::null_mut(); size];
    nccl!(ncclCommInitAll(comms.as_mut_ptr(), size as c_int, chosen.as_ptr()));
    for (rank, comm) in comms.into_iter().enumerate() {
        assert_eq!(facts(comm), [size as c_int, chosen[rank], rank as c_int]);
        nccl!(ncclCommDestroy(comm));
    }
    let mut comms = vec![ptr::null_mut(); 8];
    fails!(ncclInvalidUsage, ncclCommInitAll(comms.as_mut_ptr(), 2, [0, 0].as_ptr()));
    fails!(ncclInvalidArgument, ncclCommInitAll(comms.as_mut_ptr(), 1, [99].as_ptr()));
    fails!(ncclInvalidArgument, ncclCommInitAll(comms.as_mut_ptr(), 0, ptr::null()));
}

/// Without blocking: the calls return at once, and the state says when all have come.
#[test]
fn without_blocking() {
    let lab = Lab::new();
    let size = lab.devices.len();
    let before = alive();
    let unique = id();
    let mut config = ncclConfig_t { blocking: 0, ..ncclConfig_t::default() };
    let mut comms = vec![ptr::null_mut(); size];
    for (rank, comm) in comms.iter_mut().enumerate() {
        lab.devices[rank].enter();
        // SAFETY: the places are those of the test.
        let code = unsafe {
            ncclCommInitRankConfig(comm, size as c_int, unique, rank as c_int, &raw mut config)
        };
        assert!(code == ncclResult_t::ncclInProgress || code == SUCCESS, "{}", last());
    }
    let state = |comm| {
        let mut state = ncclResult_t::ncclInternalError;
        nccl!(ncclCommGetAsyncError(comm, &raw mut state));
        state
    };
    // The first ones have to take what the last one has brought.
    for _ in 0..2 {
        comms.iter().for_each(|comm| assert_ne!(state(*comm), ncclResult_t::ncclInternalError));
    }
    for comm in &comms {
        assert_eq!(state(*comm), SUCCESS, "{}", last());
    }
    for (rank, comm) in comms.into_iter().enumerate() {
        assert_eq!(facts(comm)[2], rank as c_int);
        // SAFETY: as above.
        let code = unsafe { ncclCommFinalize(comm) };
        assert!(code == ncclResult_t::ncclInProgress || code == SUCCESS);
        while state(comm) == ncclResult_t::ncclInProgress {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(state(comm), SUCCESS);
        nccl!(ncclCommDestroy(comm));
    }
    assert_eq!(alive(), before);
}

/// Ranks of one colour, in the order of their keys; and one that joins none.
#[test]
fn splits() {
    let lab = Lab::new();
    let size = lab.devices.len();
    if size < 4 {
        return;
    }
    let before = alive();
    for threads in [false, true] {
        let ranks = lab.ranks(size, 4096);
        let colours = [7, 3, 7, NCCL_SPLIT_NOCOLOR];
        let keys = [5, 0, -5, 0];
        let mut parts = vec![ptr::dangling_mut::<ncclComm>(); size];
        if threads {
            std::thread::scope(|scope| {
                for ((number, rank), part) in ranks.all.iter().enumerate().zip(&mut parts) {
                    let part = std::sync::atomic::AtomicPtr::new(part);
                    scope.spawn(move || {
                        rank.device.enter();
                        let place = part.into_inner();
                        let (colour, key) = (colours[number], keys[number]);
                        nccl!(ncclCommSplit(rank.comm, colour, key, place, ptr::null_mut()));
                    });
                }
            });
        } else {
            nccl!(ncclGroupStart());
            for ((number, rank), part) in ranks.all.iter().enumerate().zip(&mut parts) {
                let (colour, key) = (colours[number], keys[number]);
                nccl!(ncclCommSplit(rank.comm, colour, key, part, ptr::null_mut()));
            }
            nccl!(ncclGroupEnd());
        }
        let found: Vec<Option<[c_int; 3]>> =
            parts.iter().map(|part| (!part.is_null()).then(|| facts(*part))).collect();
        assert_eq!(found, [Some([2, 0, 1]), Some([1, 1, 0]), Some([2, 2, 0]), None]);
        // The new ones work beside their parent, which may go first.
        ranks.all[0].memory.fill(&[0; 8]);
        ranks.all[2].memory.fill(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let streams: Vec<_> = ranks.all.iter().map(|rank| rank.device.stream()).collect();
        let comms: Vec<_> = ranks.all.iter().map(|rank| rank.comm).collect();
        for comm in comms {
            nccl!(ncclCommDestroy(comm));
        }
        for number in [0, 2] {
            let (at, bytes) = (ranks.all[number].memory.at(0), ncclDataType_t::ncclUint8);
            nccl!(ncclBcast(at, 8, bytes, 0, parts[number], streams[number].0));
        }
        streams[0].wait();
        assert_eq!(ranks.all[0].memory.read(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        streams[2].wait();
        for part in parts.into_iter().filter(|part| !part.is_null()) {
            nccl!(ncclCommDestroy(part));
        }
        drop(streams);
        drop(ranks);
        assert_eq!(alive(), before);
    }
}

/// Every function of the header's part that this crate implements is found by name, and no other.
#[test]
fn functions_are_found_by_name() {
    let names = [
        c"ncclGetVersion",
        c"ncclGetUniqueId",
        c"ncclCommInitRank",
        c"ncclCommInitRankConfig",
        c"ncclCommInitAll",
        c"ncclCommSplit",
        c"ncclCommFinalize",
        c"ncclCommDestroy",
        c"ncclCommAbort",
        c"ncclGetErrorString",
        c"ncclGetLastError",
        c"ncclCommGetAsyncError",
        c"ncclCommCount",
        c"ncclCommCuDevice",
        c"ncclCommUserRank",
        c"ncclReduce",
        c"ncclBcast",
        c"ncclBroadcast",
        c"ncclAllReduce",
        c"ncclReduceScatter",
        c"ncclAllGather",
        c"ncclSend",
        c"ncclRecv",
        c"ncclGather",
        c"ncclScatter",
        c"ncclAlltoAll",
        c"ncclGroupStart",
        c"ncclGroupEnd",
        c"ncclMemAlloc",
        c"ncclMemFree",
        c"ncclRedOpCreatePreMulSum",
        c"ncclRedOpDestroy",
    ];
    let addresses: BTreeSet<usize> =
        names.iter().map(|name| nccl_emu::resolve(name).addr()).collect();
    assert_eq!(addresses.len(), names.len(), "two names have one address");
    assert!(!addresses.contains(&0));
    for name in [c"ncclCommShrink", c"pncclSend", c"", c"\xff"] {
        assert!(nccl_emu::resolve(name).is_null());
    }
    let mut version = 0;
    nccl!(ncclGetVersion(&raw mut version));
    assert_eq!(version, 22803);
    fails!(ncclInvalidArgument, ncclGetVersion(ptr::null_mut()));
}

#[test]
fn memory_is_allocated_in_the_current_context() {
    let lab = Lab::new();
    let before = alive();
    lab.devices[0].enter();
    let mut memory = ptr::null_mut();
    nccl!(ncclMemAlloc(&raw mut memory, 1000));
    assert!(!memory.is_null());
    nccl!(ncclMemFree(memory));
    nccl!(ncclMemAlloc(&raw mut memory, 0));
    assert!(memory.is_null());
    nccl!(ncclMemFree(memory));
    fails!(ncclUnhandledCudaError, ncclMemAlloc(&raw mut memory, 1 << 60));
    assert!(last().contains("cuMemAlloc_v2"), "{}", last());
    assert_eq!(alive(), before);
}

/// A thread without a context creates its rank on device 0, as with the runtime.
#[test]
fn without_a_context() {
    let lab = Lab::new();
    let unique = id();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut comm = ptr::null_mut();
            nccl!(ncclCommInitRank(&raw mut comm, 1, unique, 0));
            assert_eq!(facts(comm), [1, 0, 0]);
            nccl!(ncclCommDestroy(comm));
        });
    });
    drop(lab);
}

/// Another context of the device than its primary one is refused.
#[test]
fn in_another_context() {
    let lab = Lab::new();
    let before = alive();
    let (mut context, mut comm) = (ptr::null_mut(), ptr::null_mut());
    cu!(cuCtxCreate_v2(&raw mut context, 0, 0));
    fails!(ncclInvalidUsage, ncclCommInitRank(&raw mut comm, 1, id(), 0));
    assert!(last().contains("primary context"), "{}", last());
    cu!(cuCtxDestroy_v2(context));
    assert_eq!(alive(), before);
    drop(lab);
}

/// Where devices do not reach each other's memory, data passes through the host's.
#[test]
fn without_peer_access() {
    let lab = Lab::new();
    let output = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args([
            "--exact",
            "collectives::chunks",
            "messages::random_exchanges",
            "abort::frees_a_sender",
        ])
        .env("NCCL_P2P_DISABLE", "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("3 passed"), "{text}");
    drop(lab);
}

/// The staging memory has the size that the variable says.
#[test]
fn sizes_of_staging_memory() {
    if std::env::var_os("NCCL_BUFFSIZE").is_none() {
        let output = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "create::sizes_of_staging_memory"])
            .env("NCCL_BUFFSIZE", "65536")
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    let bytes = |before: cuda_emu::Ledger| alive().device_memory.1 - before.device_memory.1;
    for (set, expected) in [(0, 65536), (1 << 20, 1 << 20), (1, 512)] {
        nccl_emu::set_buffer_size(set);
        let before = alive();
        let mut comms = [ptr::null_mut(); 2];
        nccl!(ncclCommInitAll(comms.as_mut_ptr(), 2, ptr::null()));
        // One edge at each of two devices, and the counters.
        assert!(crate::lab::on_gpu() || bytes(before) == 2 * (expected + 4096));
        for comm in comms {
            nccl!(ncclCommDestroy(comm));
        }
    }
}
