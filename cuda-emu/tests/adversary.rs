//! The adversarial engine: nothing is done before somebody waits, in any order that is legal.

use core::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cuda_emu::Config;

mod common;
use common::{allocate, call, context, event, fill, function, module, ok, stream, words};

/// The tests of this file share one engine, and check the work that it has not done.
static ALONE: Mutex<()> = Mutex::new(());

fn start() -> std::sync::MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Config::new().seed(5).install();
    context();
    ok!(cuCtxSynchronize());
    alone
}

static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn note(which: *mut c_void) {
    ORDER.lock().expect("nobody panics with it").push(which.addr());
}

fn enqueue(stream: cuda_sys::CUstream, which: usize) {
    ok!(cuLaunchHostFunc(stream, Some(note), ptr::without_provenance_mut(which)));
}

fn order() -> Vec<usize> {
    std::mem::take(&mut *ORDER.lock().expect("nobody panics with it"))
}

#[test]
fn work_waits_until_the_host_does_and_keeps_its_streams_order() {
    let _alone = start();
    let streams = [stream(1), stream(1), stream(1)];
    let mut orders = Vec::new();
    for _ in 0..20 {
        for step in 0..4 {
            for (index, &stream) in streams.iter().enumerate() {
                enqueue(stream, index * 10 + step);
            }
        }
        assert!(order().is_empty(), "nobody has waited");
        ok!(cuCtxSynchronize());
        let done = order();
        assert_eq!(done.len(), 12);
        for index in 0..3 {
            let steps: Vec<usize> =
                done.iter().filter(|which| **which / 10 == index).map(|which| which % 10).collect();
            assert_eq!(steps, [0, 1, 2, 3]);
        }
        orders.push(done);
    }
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 10, "only {} orders of 20", orders.len());
}

#[test]
fn events_are_kept() {
    let _alone = start();
    let (one, other, event) = (stream(1), stream(1), event());
    for _ in 0..20 {
        enqueue(one, 1);
        ok!(cuEventRecord(event, one));
        ok!(cuStreamWaitEvent(other, event, 0));
        enqueue(other, 2);
        enqueue(one, 3);
        ok!(cuStreamSynchronize(other));
        let done = order();
        let at = |which| done.iter().position(|done| *done == which);
        assert!(at(1) < at(2) && at(1).is_some(), "{done:?}");
        ok!(cuCtxSynchronize());
        order();
    }
}

#[test]
fn pinned_memory_is_read_late_and_pageable_memory_early() {
    let _alone = start();
    let stream = stream(1);
    let target = allocate(8);
    let mut pageable = [1_u32];
    ok!(cuMemcpyHtoDAsync_v2(target, pageable.as_ptr().cast(), 4, stream));
    pageable[0] = 9;
    let mut pinned = ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut pinned, 4, 0));
    let pinned = pinned.cast::<u32>();
    // SAFETY: four bytes of pinned memory, which only this test uses.
    unsafe { pinned.write_volatile(1) };
    ok!(cuMemcpyHtoDAsync_v2(target + 4, pinned.cast(), 4, stream));
    // SAFETY: as above. This is the mistake that the adversary is to show.
    unsafe { pinned.write_volatile(9) };
    ok!(cuStreamSynchronize(stream));
    assert_eq!(words(target, 2), [1, 9]);
    assert_eq!(pageable, [9]);
    ok!(cuMemFreeHost(pinned.cast()));
}

#[test]
fn asking_again_and_again_comes_to_an_end() {
    let _alone = start();
    let (stream, event) = (stream(1), event());
    let (module, target) = (module(), allocate(400));
    let kernel = function(module, "fill");
    for value in 0..10 {
        assert_eq!(fill(kernel, stream, target, 100, value), common::SUCCESS);
    }
    ok!(cuEventRecord(event, stream));
    let begin = Instant::now();
    while call!(cuEventQuery(event)) == cuda_sys::CUresult::CUDA_ERROR_NOT_READY {
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(words(target, 100), [9; 100]);
}

#[test]
fn asking_does_not_wait_for_a_host_function_that_waits_for_the_host() {
    static GATE: Mutex<()> = Mutex::new(());
    extern "C" fn pass(_: *mut c_void) {
        drop(GATE.lock());
    }

    let _alone = start();
    let stream = stream(1);
    let closed = GATE.lock();
    ok!(cuLaunchHostFunc(stream, Some(pass), ptr::null_mut()));
    for _ in 0..3 {
        assert_eq!(call!(cuStreamQuery(stream)), cuda_sys::CUresult::CUDA_ERROR_NOT_READY);
    }
    drop(closed);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(call!(cuStreamQuery(stream)), common::SUCCESS);
}

#[test]
fn a_host_that_waits_in_its_own_way_is_not_left_alone() {
    let _alone = start();
    let stream = stream(1);
    enqueue(stream, 77);
    let begin = Instant::now();
    while order().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}
