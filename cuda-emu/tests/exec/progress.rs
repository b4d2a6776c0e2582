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

#[test]
fn a_barrier_that_nobody_completes_is_found() {
    each(|device, program, form| {
        let out = device.upload(&[0i32; 64]);
        let fault = device.launch(program, "never_meets", shape(1, 64), &[out]).expect_err(form);
        assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{form}: {fault}");
        assert!(fault.report.what.contains("40 at a barrier"), "{form}: {fault}");
    });
}
