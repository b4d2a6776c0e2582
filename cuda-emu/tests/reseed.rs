//! One process, many seeds: graphs among streams in any legal order, each order again, and their interleavings.

use core::ffi::c_void;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Mutex;

use cuda_sys::*;

mod common;
use common::*;

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
    assert!(
        orders.iter().any(
            |order| order.iter().position(|&of| of == 2) < order.iter().position(|&of| of == 3)
        )
    );
    assert!(
        orders.iter().any(
            |order| order.iter().position(|&of| of == 3) < order.iter().position(|&of| of == 2)
        )
    );

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
