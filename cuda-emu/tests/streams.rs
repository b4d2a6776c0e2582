//! Streams: captures that are not ended or lose a stream, and the order that a seed draws. Each test has a process of its own.

mod common;

mod abandoned {
    //! Captures that are never ended, and the remains of failed captures.

    use core::ptr;

    use cuda_emu::ledger;
    use cuda_sys::*;

    use crate::common::*;

    /// One test: the ledger is the process's.
    #[test]
    fn a_capture_goes_with_its_stream_and_leaves_the_users_graph() {
        crate::common::apart!(a_capture_goes_with_its_stream_and_leaves_the_users_graph);
        context();
        let (kept, lost, target) = (stream(1), stream(1), allocate(64));
        let before = ledger();
        begin(lost);
        ok!(cuMemsetD32Async(target, 4, 4, lost));
        assert_eq!(ledger().graphs, before.graphs + 1);
        ok!(cuStreamDestroy_v2(lost));
        assert_eq!(ledger().graphs, before.graphs);
        assert_eq!(ledger().streams, before.streams - 1);

        let (mut graph, mut ended) = (ptr::null_mut(), ptr::null_mut());
        ok!(cuGraphCreate(&raw mut graph, 0));
        let mode = CUstreamCaptureMode(2);
        ok!(cuStreamBeginCaptureToGraph(kept, graph, ptr::null(), ptr::null(), 0, mode));
        fails!(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(kept));
        fails!(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(kept, &raw mut ended));
        assert!(ended.is_null());
        assert_eq!(ledger().graphs, before.graphs + 1);
        ok!(cuGraphDestroy(graph));
        assert_eq!(ledger().graphs, before.graphs);
    }
}

mod destroyed {
    //! Streams that are destroyed while they take part in a capture.

    use core::ptr;

    use cuda_sys::*;

    use crate::common::*;

    /// A capture with a fork: word 0 is set before the fork, word 1 on the fork if it works.
    struct Fork {
        origin: CUstream,
        fork: CUstream,
        target: u64,
    }

    fn fork(works: bool) -> Fork {
        let (origin, fork, there, target) = (stream(1), stream(1), event(), allocate(64));
        // It does not wait by itself, and the streams of these tests do not wait for it.
        ok!(cuMemsetD32_v2(target, 0, 4));
        ok!(cuCtxSynchronize());
        begin(origin);
        ok!(cuMemsetD32Async(target, 5, 1, origin));
        ok!(cuEventRecord(there, origin));
        ok!(cuStreamWaitEvent(fork, there, 0));
        if works {
            ok!(cuMemsetD32Async(target + 4, 6, 1, fork));
        }
        Fork { origin, fork, target }
    }

    fn join(fork: &Fork) {
        let back = event();
        ok!(cuEventRecord(back, fork.fork));
        ok!(cuStreamWaitEvent(fork.origin, back, 0));
    }

    fn is_active(stream: CUstream) -> bool {
        let mut status = CUstreamCaptureStatus(9);
        ok!(cuStreamIsCapturing(stream, &raw mut status));
        status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
    }

    #[test]
    fn a_fork_that_has_joined_may_go() {
        crate::common::apart!(a_fork_that_has_joined_may_go);
        context();
        for works in [true, false] {
            let fork = fork(works);
            join(&fork);
            ok!(cuStreamDestroy_v2(fork.fork));
            assert!(is_active(fork.origin));
            ok!(cuMemsetD32Async(fork.target + 8, 7, 1, fork.origin));
            let graph = end(fork.origin);
            assert_eq!(nodes(graph).len(), if works { 3 } else { 2 });
            run(instantiate(graph), stream(1));
            assert_eq!(words(fork.target, 4), [5, if works { 6 } else { 0 }, 7, 0]);
        }
    }

    #[test]
    fn a_fork_that_has_not_joined_is_missed_at_the_end() {
        crate::common::apart!(a_fork_that_has_not_joined_is_missed_at_the_end);
        context();
        for join_first in [false, true] {
            let fork = fork(true);
            if join_first {
                // Work behind the join is not joined.
                join(&fork);
                ok!(cuMemsetD32Async(fork.target + 12, 8, 1, fork.fork));
            }
            ok!(cuStreamDestroy_v2(fork.fork));
            assert!(is_active(fork.origin));
            let mut graph = ptr::dangling_mut();
            fails!(
                CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                cuStreamEndCapture(fork.origin, &raw mut graph)
            );
            assert!(graph.is_null());
            // The origin works again.
            ok!(cuMemsetD32Async(fork.target, 9, 1, fork.origin));
            ok!(cuStreamSynchronize(fork.origin));
        }
    }

    #[test]
    fn an_event_joins_a_fork_that_is_gone() {
        crate::common::apart!(an_event_joins_a_fork_that_is_gone);
        context();
        let (fork, back) = (fork(true), event());
        ok!(cuEventRecord(back, fork.fork));
        ok!(cuStreamDestroy_v2(fork.fork));
        ok!(cuStreamWaitEvent(fork.origin, back, 0));
        let graph = end(fork.origin);
        assert_eq!(nodes(graph).len(), 2);
    }

    #[test]
    fn a_capture_ends_with_its_origin() {
        crate::common::apart!(a_capture_ends_with_its_origin);
        context();
        let fork = fork(true);
        ok!(cuStreamDestroy_v2(fork.origin));
        assert!(!is_active(fork.fork));
        ok!(cuMemsetD32Async(fork.target + 4, 3, 1, fork.fork));
        ok!(cuStreamSynchronize(fork.fork));
        assert_eq!(words(fork.target, 2), [0, 3]);
    }
}

mod replay {
    //! The same calls with the same seed give the same order, in another process, too.

    use core::ffi::c_void;
    use std::process::Command;
    use std::ptr;
    use std::sync::Mutex;

    use crate::common::{context, ok, stream};

    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    extern "C" fn note(which: *mut c_void) {
        ORDER.lock().expect("nobody panics with it").push(which.addr());
    }

    /// The child process: prints the order that it saw. Without the variable it is not a child.
    #[test]
    fn child() {
        if std::env::var_os("EMU_TEST_CHILD").is_none() {
            return;
        }
        context();
        let streams = [stream(1), stream(1), stream(0), ptr::null_mut()];
        for which in 0..40_usize {
            ok!(cuLaunchHostFunc(
                streams[which % 4],
                Some(note),
                ptr::without_provenance_mut(which)
            ));
        }
        ok!(cuCtxSynchronize());
        println!("order: {:?}", ORDER.lock().expect("nobody panics with it"));
    }

    fn order(seed: &str) -> String {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "replay::child", "--nocapture"])
            .env("EMU_TEST_CHILD", "1")
            .env("CUDA_EMU_SEED", seed)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once("order: "));
        line.unwrap_or_else(|| panic!("no order in {text}")).1.to_owned()
    }

    #[test]
    fn a_seed_replays_exactly() {
        let first = order("11");
        assert_eq!(first.matches(',').count(), 39);
        for _ in 0..3 {
            assert_eq!(order("11"), first);
        }
        assert_ne!(order("12"), first);
    }
}

mod reseed {
    //! One process, many seeds: graphs among streams in any legal order, each order again, and their interleavings.

    use core::ffi::c_void;
    use std::collections::{HashMap, HashSet};
    use std::ptr;
    use std::sync::Mutex;

    use cuda_sys::*;

    use crate::common::*;

    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    extern "C" fn note(which: *mut c_void) {
        ORDER.lock().expect("nobody panics with it").push(which.addr());
    }

    fn enqueue(stream: CUstream, which: usize) {
        ok!(cuLaunchHostFunc(stream, Some(note), ptr::without_provenance_mut(which)));
    }

    fn order() -> Vec<usize> {
        std::mem::take(&mut *ORDER.lock().expect("nobody panics with it"))
    }

    fn event() -> CUevent {
        let mut event = ptr::null_mut();
        ok!(cuEventCreate(&raw mut event, 0));
        event
    }

    /// A graph of 1, then 2 and 3 side by side, then 4.
    fn diamond(one: CUstream, other: CUstream) -> CUgraphExec {
        let (forked, joined) = (event(), event());
        begin(one);
        enqueue(one, 1);
        ok!(cuEventRecord(forked, one));
        ok!(cuStreamWaitEvent(other, forked, 0));
        enqueue(one, 2);
        enqueue(other, 3);
        ok!(cuEventRecord(joined, other));
        ok!(cuStreamWaitEvent(one, joined, 0));
        enqueue(one, 4);
        let graph = end(one);
        let exec = instantiate(graph);
        ok!(cuGraphDestroy(graph));
        exec
    }

    #[test]
    fn branches_run_in_any_legal_order_and_each_seed_again() {
        crate::common::apart!(branches_run_in_any_legal_order_and_each_seed_again);
        context();
        let (one, other) = (stream(1), stream(1));
        let exec = diamond(one, other);
        assert_eq!(cuda_emu::interleaving(), None, "no seed is set");
        let play = |seed: u64| {
            assert!(cuda_emu::reseed(Some(seed)));
            enqueue(other, 5);
            ok!(cuGraphLaunch(exec, one));
            assert!(!cuda_emu::reseed(Some(seed)), "work is enqueued");
            enqueue(other, 6);
            assert!(order().is_empty(), "nobody has waited");
            // The first wait leaves the rest for later, however fast the host goes on.
            ok!(cuStreamSynchronize(other));
            let first = order();
            ok!(cuStreamSynchronize(one));
            let all: Vec<usize> = first.iter().copied().chain(order()).collect();
            assert_eq!(first.last(), Some(&6), "nothing is done behind what is waited for");
            let at = |which| all.iter().position(|&done| done == which).expect("each is done");
            assert_eq!(all.len(), 6, "{all:?}");
            assert!(at(1) < at(2) && at(1) < at(3) && at(2) < at(4) && at(3) < at(4), "{all:?}");
            assert!(at(5) < at(6), "{all:?}");
            let interleaving = cuda_emu::interleaving().expect("a seed is set");
            assert_eq!(interleaving.operations, 6, "the host functions");
            assert!(interleaving.choices > 0);
            (all, interleaving.order)
        };
        let orders: Vec<(Vec<usize>, u64)> = (0..200).map(play).collect();
        for seed in [0, 7, 199, 63] {
            assert_eq!(play(seed), orders[seed as usize], "seed {seed}");
        }
        // One fingerprint for each order that the host functions saw, and another one for each other.
        let prints: HashMap<&Vec<usize>, u64> =
            orders.iter().map(|(order, print)| (order, *print)).collect();
        assert!(orders.iter().all(|(order, print)| prints[order] == *print));
        let different: HashSet<u64> = prints.values().copied().collect();
        assert_eq!(different.len(), prints.len());
        assert!(different.len() > 10, "{} orders", different.len());
        let orders: Vec<Vec<usize>> = orders.into_iter().map(|(order, _)| order).collect();
        assert!(orders.iter().any(
            |order| order.iter().position(|&of| of == 2) < order.iter().position(|&of| of == 3)
        ));
        assert!(orders.iter().any(
            |order| order.iter().position(|&of| of == 3) < order.iter().position(|&of| of == 2)
        ));

        // The destructor of a user object is work that no call waits for.
        assert!(cuda_emu::reseed(Some(1)));
        let mut object = ptr::null_mut();
        let which = ptr::without_provenance_mut(7);
        ok!(cuUserObjectCreate(&raw mut object, which, Some(note), 1, 1));
        ok!(cuUserObjectRelease(object, 1));
        assert!(order().is_empty(), "nobody has waited");
        assert!(cuda_emu::reseed(Some(2)), "destructors are waited for");
        assert_eq!(order(), [7]);

        // And back to the eager engine, which needs no wait.
        begin(one);
        assert!(!cuda_emu::reseed(None), "a stream captures");
        ok!(cuGraphDestroy(end(one)));
        assert!(cuda_emu::reseed(None));
        assert_eq!(cuda_emu::interleaving(), None);
        ok!(cuGraphLaunch(exec, one));
        let begun = std::time::Instant::now();
        while ORDER.lock().expect("nobody panics with it").len() < 4 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20));
            std::thread::yield_now();
        }
    }
}
