//! Aborts: streams are free at once, other ranks are left alone, and nothing is left behind.

use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_emu::{Ledger, ledger};
use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::lab::{Lab, Random, Rank, cu, fails, last, nccl};

const FLOATS: ncclDataType_t = ncclDataType_t::ncclFloat32;

fn sum(rank: &Rank, count: usize) {
    let (at, op) = (rank.memory.at(0), ncclRedOp_t::ncclSum);
    rank.device.enter();
    nccl!(ncclAllReduce(at, at, count, FLOATS, op, rank.comm, rank.stream.0));
}

fn abort(rank: &Rank) {
    rank.device.enter();
    nccl!(ncclCommAbort(rank.comm));
}

/// Returns what is alive on the software device.
pub(crate) fn alive() -> Ledger {
    ledger()
}

/// A rank waits for one that never comes. An abort ends its work within 10 ms, whichever operation it is, with few chunks
/// and with many.
#[test]
fn frees_a_stream_that_waits() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    for (buffer, count) in [(0, 10), (512, 10_000), (0, 1 << 20)] {
        nccl_emu::set_buffer_size(buffer);
        let mut times = Vec::new();
        for what in 0..5 {
            for alone in 0..2 {
                let before = alive();
                let ranks = lab.ranks(2, 8 << 20);
                let rank = &ranks.all[alone];
                let (at, comm, stream) = (rank.memory.at(0), rank.comm, rank.stream.0);
                let peer = 1 - alone as c_int;
                rank.device.enter();
                match what {
                    0 => sum(rank, count),
                    1 => nccl!(ncclSend(at, count, FLOATS, peer, comm, stream)),
                    2 => nccl!(ncclRecv(at, count, FLOATS, peer, comm, stream)),
                    3 => nccl!(ncclAllGather(at, at, count / 2, FLOATS, comm, stream)),
                    _ => {
                        nccl!(ncclGroupStart());
                        nccl!(ncclSend(at, count, FLOATS, peer, comm, stream));
                        nccl!(ncclRecv(at, count, FLOATS, peer, comm, stream));
                        nccl!(ncclGroupEnd());
                    }
                }
                // A send that fits into the staging memory does not wait.
                let fits = what == 1 && count * 4 <= if buffer == 0 { 4 << 20 } else { buffer };
                let time = Duration::from_millis(if fits { 5000 } else { 20 });
                assert_eq!(
                    rank.stream.is_done_within(time),
                    fits,
                    "operation {what} of rank {alone}"
                );
                let begin = Instant::now();
                abort(rank);
                rank.stream.wait();
                let took = begin.elapsed();
                times.push(took);
                fails!(
                    ncclInvalidArgument,
                    ncclAllReduce(at, at, 1, FLOATS, ncclRedOp_t::ncclSum, comm, stream)
                );
                fails!(ncclInvalidArgument, ncclCommAbort(comm));
                // The other one knows, and its calls do not wait for ever.
                let other = &ranks.all[1 - alone];
                let mut state = ncclResult_t::ncclSuccess;
                nccl!(ncclCommGetAsyncError(other.comm, &raw mut state));
                assert_eq!(state, ncclResult_t::ncclRemoteError);
                let at = other.memory.at(0);
                fails!(
                    ncclRemoteError,
                    ncclSend(at, 1, FLOATS, alone as c_int, other.comm, other.stream.0)
                );
                assert!(last().contains("aborted"), "{}", last());
                other.device.enter();
                nccl!(ncclCommDestroy(other.comm));
                drop(ranks);
                assert_eq!(alive(), before);
            }
        }
        // Other programs of the machine may delay most.
        times.sort_unstable();
        let fastest = times.first().copied().unwrap_or_default();
        assert!(fastest < Duration::from_millis(10), "{count} by {buffer}: {times:?}");
        assert!(times.iter().all(|time| *time < Duration::from_secs(2)), "{times:?}");
    }
}

/// A sender waits for an empty slot, with nothing to receive.
#[test]
fn frees_a_sender() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    nccl_emu::set_buffer_size(512);
    let ranks = lab.ranks(2, 1 << 16);
    let rank = &ranks.all[0];
    nccl!(ncclSend(rank.memory.at(0), 1000, FLOATS, 1, rank.comm, rank.stream.0));
    assert!(!rank.stream.is_done_within(Duration::from_millis(5)));
    // In another thread: an abort that does not free the stream waits for ever.
    let (done, ended) = std::sync::mpsc::channel();
    let (comm, device) = (rank.comm.addr(), rank.device);
    std::thread::spawn(move || {
        device.enter();
        nccl!(ncclCommAbort(ptr::without_provenance_mut(comm)));
        let _ = done.send(());
    });
    if ended.recv_timeout(Duration::from_secs(20)).is_err() {
        crate::lab::HUNG.store(true, std::sync::atomic::Ordering::SeqCst);
        panic!("the stream still waits");
    }
    rank.stream.wait();
    abort(&ranks.all[1]);
}

/// Two ranks exchange while a third one aborts what it shares with them: nothing that arrives is wrong.
#[test]
fn leaves_other_ranks_alone() {
    let lab = Lab::new();
    if lab.devices.len() < 3 {
        return;
    }
    nccl_emu::set_buffer_size(512);
    let mut random = Random::new(1);
    for turn in 0..40 {
        let ranks = lab.ranks(3, 1 << 16);
        let input = random.bytes(8000);
        for rank in &ranks.all {
            rank.memory.fill(&vec![0xee; 20_000]);
        }
        ranks.all[0].memory.fill(&input);
        let bytes = ncclDataType_t::ncclUint8;
        // Rank 0 sends to rank 1, through rank 2 as the second of three in a ring, which is aborted on the way.
        let [a, b, c] = &ranks.all[..] else { unreachable!("three ranks") };
        for (rank, root) in [(a, 0), (c, 0), (b, 0)] {
            rank.device.enter();
            let (at, comm, stream) = (rank.memory.at(0), rank.comm, rank.stream.0);
            nccl!(ncclBroadcast(at, at, 8000, bytes, root, comm, stream));
        }
        std::thread::sleep(Duration::from_micros(random.next() % 3000));
        abort(b);
        b.stream.wait();
        // What has arrived at the last rank is a beginning of what was sent, in whole chunks; then it waits.
        let done = c.stream.is_done_within(Duration::from_millis(5));
        abort(a);
        abort(c);
        a.stream.wait();
        c.stream.wait();
        let found = c.memory.read(8000);
        let (mut right, mut end) = (0, false);
        for (part, expected) in found.chunks(256).zip(input.chunks(256)) {
            if part == expected {
                assert!(!end, "turn {turn}: a chunk behind one that is missing");
                right += 1;
            } else {
                assert!(part.iter().all(|byte| *byte == 0xee), "turn {turn}: a chunk is wrong");
                end = true;
            }
        }
        assert!(!done || right == 32, "turn {turn}: the stream was freed after {right} chunks");
    }
}

/// A rank whose peer has aborted destroys its communicator: work that can't end is given up, and what has arrived is there.
#[test]
fn destroys_what_a_peer_has_left() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    for arrives in [true, false] {
        let before = alive();
        let ranks = lab.ranks(2, 1 << 16);
        let [a, b] = &ranks.all[..] else { unreachable!("two ranks") };
        let bytes = ncclDataType_t::ncclUint8;
        a.memory.fill(&[7; 100]);
        b.memory.fill(&[0; 100]);
        if arrives {
            nccl!(ncclSend(a.memory.at(0), 100, bytes, 1, a.comm, a.stream.0));
            a.stream.wait();
        }
        nccl!(ncclRecv(b.memory.at(0), 100, bytes, 0, b.comm, b.stream.0));
        abort(a);
        b.device.enter();
        nccl!(ncclCommDestroy(b.comm));
        b.stream.wait();
        assert_eq!(b.memory.read(100), vec![if arrives { 7 } else { 0 }; 100]);
        drop(ranks);
        assert_eq!(alive(), before);
    }
}

/// A thread waits in `ncclCommFinalize`, another one asks for the state and aborts.
#[test]
fn ends_a_finalize_that_waits() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    let ranks = lab.ranks(2, 1 << 16);
    let rank = &ranks.all[0];
    sum(rank, 100);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rank.device.enter();
            nccl!(ncclCommFinalize(rank.comm));
        });
        std::thread::sleep(Duration::from_millis(20));
        let mut state = ncclResult_t::ncclSuccess;
        nccl!(ncclCommGetAsyncError(rank.comm, &raw mut state));
        assert_eq!(state, ncclResult_t::ncclInProgress);
        abort(rank);
    });
    abort(&ranks.all[1]);
}

/// Another communicator of the same devices goes on.
#[test]
fn leaves_other_communicators_alone() {
    let lab = Lab::new();
    let size = lab.devices.len();
    if size < 2 {
        return;
    }
    let before = alive();
    let (first, second) = (lab.ranks(size, 1 << 16), lab.ranks(size, 1 << 16));
    for rank in &second.all {
        rank.memory.fill(&1.0_f32.to_le_bytes().repeat(100));
    }
    // Rank 0 alone: all its streams wait.
    sum(&first.all[0], 100);
    sum(&second.all[0], 100);
    abort(&first.all[0]);
    first.all[0].stream.wait();
    assert!(!second.all[0].stream.is_done_within(Duration::from_millis(5)));
    for rank in &second.all[1..] {
        sum(rank, 100);
    }
    for rank in &second.all {
        rank.stream.wait();
        let expected = (size as f32).to_le_bytes().repeat(100);
        assert_eq!(rank.memory.read(400), expected);
    }
    for rank in &first.all[1..] {
        abort(rank);
    }
    drop(first);
    second.destroy();
    assert_eq!(alive(), before);
}

/// Another thread aborts while a graph waits in its tenth launch.
#[test]
fn ends_launches_of_graphs() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    nccl_emu::set_buffer_size(512);
    let ranks = lab.ranks(2, 1 << 16);
    let rank = &ranks.all[0];
    rank.device.enter();
    let graph = rank.stream.capture(|| sum(rank, 1000));
    for _ in 0..10 {
        graph.launch(&rank.stream);
    }
    assert!(!rank.stream.is_done_within(Duration::from_millis(5)));
    std::thread::scope(|scope| {
        scope.spawn(|| abort(rank));
    });
    rank.stream.wait();
    drop(graph);
    abort(&ranks.all[1]);
}

/// Communicators that have not begun: the rank that waits for others gives up, and these learn of it.
#[test]
fn while_it_begins() {
    let lab = Lab::new();
    if lab.devices.len() < 2 {
        return;
    }
    let before = alive();
    let mut id = ncclUniqueId { internal: [0; 128] };
    nccl!(ncclGetUniqueId(&raw mut id));
    let mut config = ncclConfig_t { blocking: 0, ..ncclConfig_t::default() };
    let mut comm = ptr::null_mut();
    lab.devices[0].enter();
    fails!(ncclInProgress, ncclCommInitRankConfig(&raw mut comm, 2, id, 0, &raw mut config));
    let mut state = ncclResult_t::ncclSuccess;
    nccl!(ncclCommGetAsyncError(comm, &raw mut state));
    assert_eq!(state, ncclResult_t::ncclInProgress);
    fails!(ncclInvalidArgument, ncclSend(ptr::null(), 0, FLOATS, 0, comm, ptr::null_mut()));
    nccl!(ncclCommAbort(comm));
    lab.devices[1].enter();
    let mut other = ptr::null_mut();
    fails!(ncclInvalidUsage, ncclCommInitRank(&raw mut other, 2, id, 1));
    assert!(other.is_null());
    cu!(cuCtxSynchronize());
    assert_eq!(alive(), before);
}
