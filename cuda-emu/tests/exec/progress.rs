//! Threads that wait for each other make progress, on any number of workers.

use std::time::{Duration, Instant};

use cuda_emu::exec::Program;
use cuda_sys::CUresult;

use crate::device::{Device, Shape, shape};

const TEXTS: [(&str, &str); 2] = [
    ("optimised", include_str!("../ptx/progress.ptx")),
    ("debug", include_str!("../ptx/progress_debug.ptx")),
];

/// Runs a check with both forms, on one worker and more, with blocks in order and not.
fn each(check: impl Fn(&Device, &Program, &str)) {
    for (form, text) in TEXTS {
        for (workers, seed) in [(1, None), (2, None), (4, None), (1, Some(7)), (2, Some(11))] {
            let mut device = Device::new(workers);
            device.config.block_order_seed = seed;
            let program = device.load(text).unwrap_or_else(|e| panic!("{form}: {e}"));
            check(&device, &program, &format!("{form}, {workers} workers, seed {seed:?}"));
        }
    }
}

#[test]
fn a_spin_lock_between_lanes_is_handed_on() {
    each(|device, program, form| {
        let counter = device.upload(&[0i32]);
        device
            .launch(program, "spin_lock", shape(3, 64), &[counter, 2])
            .unwrap_or_else(|e| panic!("{form}: {e}"));
        assert_eq!(device.download::<i32>(counter, 1), [3 * 64 * 2], "{form}");
    });
}

#[test]
fn a_scan_looks_back() {
    let n = 20_000usize;
    let input: Vec<i32> = (0..n as i32).map(|i| i % 17 - 5).collect();
    let blocks = n.div_ceil(256);
    each(|device, program, form| {
        let a = device.upload(&input);
        let b = device.upload(&vec![0i32; n]);
        let parts = device.upload(&vec![0i32; 4 * blocks]);
        let ticket = device.upload(&[0i32]);
        device
            .launch(program, "scan", shape(blocks as u32, 256), &[a, b, parts, ticket, n as u64])
            .unwrap_or_else(|e| panic!("{form}: {e}"));
        let got: Vec<i32> = device.download(b, n);
        let mut sum = 0;
        for i in 0..n {
            sum += input[i];
            assert_eq!(got[i], sum, "{form}: {i}");
        }
    });
}

#[test]
fn all_blocks_meet_at_a_grid_barrier() {
    each(|device, program, form| {
        let (blocks, rounds) = (40usize, 5i32);
        let count = device.upload(&[0i32]);
        let data = device.upload(&vec![0i32; blocks + 1]);
        let dims = Shape { cooperative: true, ..shape(blocks as u32, 64) };
        device
            .launch(program, "grid_barrier", dims, &[count, data, rounds as u64])
            .unwrap_or_else(|e| panic!("{form}: {e}"));
        let got: Vec<i32> = device.download(data, blocks + 1);
        assert!(got[..blocks].iter().all(|&v| v == rounds * (rounds + 1) / 2), "{form}: {got:?}");
        assert_eq!(got[blocks], 0, "{form}");
    });
}

#[test]
fn a_producer_feeds_a_consumer() {
    each(|device, program, form| {
        let (flag, data) = (device.upload(&[0i32]), device.upload(&[0i32]));
        let out = device.upload(&[0i32]);
        device
            .launch(program, "producer", shape(4, 64), &[flag, data, out, 20])
            .unwrap_or_else(|e| panic!("{form}: {e}"));
        assert_eq!(device.download::<i32>(out, 1), [2870], "{form}");
    });
}

#[test]
fn sleeping_lanes_let_others_work() {
    each(|device, program, form| {
        let flag = device.upload(&[0i32]);
        device.launch(program, "sleepers", shape(1, 32), &[flag]).expect(form);
        assert_eq!(device.download::<i32>(flag, 1), [31], "{form}");
    });
}

#[test]
fn an_endless_kernel_times_out() {
    for (form, text) in TEXTS {
        for workers in [1, 2] {
            let mut device = Device::new(workers);
            device.config.timeout = Some(Duration::from_millis(200));
            let program = device.load(text).expect(form);
            let flag = device.upload(&[0i32]);
            let start = Instant::now();
            let fault = device.launch(&program, "endless", shape(2, 64), &[flag]).expect_err(form);
            assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, "{form}: {fault}");
            assert!(start.elapsed() < Duration::from_secs(5), "{form}");
        }
    }
}

/// A loop through a barrier, for ever or until `flag` is not 0; `set` sets it, as block 1.
const MEETINGS: &str = "
    .version 8.0
    .target sm_75
    .address_size 64
    .visible .entry endless(.param .u64 flag) {
    again:
        bar.sync 0;
        bra again;
    }
    .visible .entry signal(.param .u64 flag) {
        .reg .pred %p<3>;
        .reg .b32 %r<3>;
        .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [flag];
        mov.u32 %r1, %ctaid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra set;
    again:
        bar.sync 0;
        ld.relaxed.gpu.u32 %r2, [%rd1];
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra again;
        ret;
    set:
        st.relaxed.gpu.u32 [%rd1], 1;
        ret;
    }";

#[test]
fn meeting_at_a_barrier_for_ever_times_out() {
    for workers in [1, 2] {
        let mut device = Device::new(workers);
        device.config.timeout = Some(Duration::from_millis(200));
        let program = device.load(MEETINGS).unwrap_or_else(|e| panic!("{e}"));
        let start = Instant::now();
        let launched = device.launch(&program, "endless", shape(2, 64), &[0]);
        let fault = launched.expect_err("it has no end");
        assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, "{fault}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_block_that_meets_at_barriers_lets_others_begin() {
    let device = Device::new(1);
    let program = device.load(MEETINGS).unwrap_or_else(|e| panic!("{e}"));
    let flag = device.upload(&[0i32]);
    device.launch(&program, "signal", shape(2, 64), &[flag]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(device.download::<i32>(flag, 1), [1]);
}

#[test]
fn a_barrier_that_nobody_completes_is_found() {
    each(|device, program, form| {
        let out = device.upload(&[0i32; 64]);
        let fault = device.launch(program, "never_meets", shape(1, 64), &[out]).expect_err(form);
        assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{form}: {fault}");
        assert!(fault.report.what.contains("40 at a barrier"), "{form}: {fault}");
    });
}

/// Odd lanes meet among themselves, one after the other, while the even ones wait for all; then the
/// two halves of the warp, in one instruction with two masks; and all.
const MASKS: &str = "
    .version 8.0
    .target sm_75
    .address_size 64
    .visible .entry masks(.param .u64 out) {
        .reg .pred %p<4>;
        .reg .b32 %r<10>;
        .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mad.wide.u32 %rd2, %r1, 4, %rd1;
        and.b32 %r2, %r1, 1;
        setp.ne.u32 %p1, %r2, 0;
        vote.sync.ballot.b32 %r3, %p1, 0xffffffff;
        @!%p1 bra all;
        mov.u32 %r4, %r1;
    again:
        nanosleep.u32 20;
        sub.u32 %r4, %r4, 1;
        setp.gt.s32 %p2, %r4, 0;
        @%p2 bra again;
        bar.warp.sync %r3;
    all:
        bar.warp.sync 0xffffffff;
        vote.sync.ballot.b32 %r5, %p1, 0xffffffff;
        setp.lt.u32 %p3, %r1, 16;
        selp.b32 %r6, 0xffff, 0xffff0000, %p3;
        setp.lt.u32 %p2, %r1, 8;
        @%p2 bra some;
        nanosleep.u32 20;
    some:
        bar.warp.sync %r6;
        vote.sync.ballot.b32 %r7, %p3, 0xffffffff;
        xor.b32 %r8, %r5, %r7;
        st.global.u32 [%rd2], %r8;
        ret;
    }";

#[test]
fn barriers_of_a_warp_with_other_masks_are_others() {
    for workers in [1, 2] {
        let device = Device::new(workers);
        let program = device.load(MASKS).unwrap_or_else(|e| panic!("{e}"));
        let out = device.upload(&[0i32; 32]);
        device.launch(&program, "masks", shape(1, 32), &[out]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(device.download::<u32>(out, 32), [0xaaaa_5555; 32]);
    }
}

/// `polls`: block 0 sleeps for no time until block 1 has set the first word, and writes how often to the second.
/// `sleeps`: block 0 sleeps for a millisecond, and writes how many of the other blocks have ended.
const SLEEPS: &str = "
    .version 8.0
    .target sm_75
    .address_size 64
    .visible .entry polls(.param .u64 word) {
        .reg .pred %p<3>;
        .reg .b32 %r<4>;
        .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [word];
        mov.u32 %r1, %ctaid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra set;
        mov.u32 %r3, 0;
    again:
        nanosleep.u32 0;
        add.u32 %r3, %r3, 1;
        ld.relaxed.gpu.u32 %r2, [%rd1];
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra again;
        st.global.u32 [%rd1+4], %r3;
        ret;
    set:
        st.relaxed.gpu.u32 [%rd1], 1;
        ret;
    }
    .visible .entry sleeps(.param .u64 word) {
        .reg .pred %p<2>;
        .reg .b32 %r<3>;
        .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [word];
        mov.u32 %r1, %ctaid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra count;
        nanosleep.u32 1000000;
        ld.relaxed.gpu.u32 %r2, [%rd1];
        st.global.u32 [%rd1+4], %r2;
        ret;
    count:
        red.relaxed.gpu.global.add.u32 [%rd1], 1;
        ret;
    }";

#[test]
fn a_block_that_sleeps_again_and_again_lets_others_run() {
    let device = Device::new(1);
    let program = device.load(SLEEPS).unwrap_or_else(|e| panic!("{e}"));
    let word = device.upload(&[0u32; 2]);
    device.launch(&program, "polls", shape(2, 1), &[word]).unwrap_or_else(|e| panic!("{e}"));
    let polls = device.download::<u32>(word, 2)[1];
    assert!((1..16).contains(&polls), "{polls}");
}

#[test]
fn other_blocks_begin_and_end_while_one_sleeps() {
    let device = Device::new(1);
    let program = device.load(SLEEPS).unwrap_or_else(|e| panic!("{e}"));
    // The system may let the worker wait for as long as the block sleeps, but not each time.
    let seen = || {
        let word = device.upload(&[0u32; 2]);
        device.launch(&program, "sleeps", shape(9, 1), &[word]).unwrap_or_else(|e| panic!("{e}"));
        device.download::<u32>(word, 2)[1]
    };
    assert!((0..20).any(|_| seen() == 8));
}
