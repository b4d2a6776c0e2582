//! Settings, and bad input.

use cuda_emu::{Real, TangentError, Tangents};

use super::Tracked;
use crate::device::{Device, shape};

const REALS: [Real; 4] = [Real::F16, Real::Bf16, Real::F32, Real::F64];

#[test]
fn what_is_set_is_returned() {
    for real in REALS {
        for n in [0, 1, 31, 32, 33, 5000] {
            let tracked = Tracked::new();
            let start = tracked.device.upload(&vec![0u8; n * real.bytes() + 16]);
            let tangents: Vec<f64> = (0..n).map(|at| at as f64 - 7.0).collect();
            tracked.tangents().set(start + 8, real, &tangents).expect("memory");
            assert_eq!(tracked.get(start + 8, real, n), tangents);
            assert_eq!(tracked.get(start, real, 8 / real.bytes()), vec![0.0; 8 / real.bytes()]);
            tracked.tangents().clear();
            assert_eq!(tracked.get(start + 8, real, n), vec![0.0; n]);
            assert_eq!(tracked.lost(), []);
        }
    }
}

#[test]
fn new_memory_is_constant() {
    let tracked = Tracked::new();
    let first = tracked.upload(&[1f32; 1024], Real::F32, &[1.0; 1024]);
    tracked.device.space.free(first);
    for _ in 0..100 {
        let next = tracked.device.upload(&[1f32; 1024]);
        assert_eq!(tracked.get(next, Real::F32, 1024), [0.0; 1024]);
        tracked.device.space.free(next);
    }
}

#[test]
fn memory_that_comes_again_is_constant() {
    let tracked = Tracked::new();
    let space = &tracked.device.space;
    let region = space.set_aside(4096, 256, cuda_emu::space::Kind::Pool, 0).expect("addresses");
    for _ in 0..2 {
        assert!(space.map(&region));
        assert_eq!(tracked.get(region.start, Real::F64, 512), [0.0; 512]);
        tracked.tangents().set(region.start, Real::F64, &[1.0; 512]).expect("memory");
        assert!(space.unmap(&region));
        assert!(tracked.tangents().get(region.start, Real::F64, 1).is_err());
    }
}

/// Atomics look memory up while they hold the tangents, and allocation clears tangents while it holds the memory.
#[test]
fn memory_is_allocated_while_kernels_run() {
    let (done, wait) = std::sync::mpsc::channel();
    let work = std::thread::spawn(move || {
        let tracked = Tracked::new();
        let program = tracked.load(
            ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x) {\n\
             .reg .b64 %w<3>; .reg .b32 %r; .reg .f64 %d<3>;\n\
             ld.param.u64 %w1, [x]; mov.u32 %r, %tid.x; mul.wide.u32 %w2, %r, 8; add.u64 %w1, %w1, %w2;\n\
             mov.f64 %d1, 0d3FF0000000000000; atom.global.add.f64 %d2, [%w1], %d1;\nret;\n}\n",
        );
        let sums = tracked.upload(&[0f64; 256], Real::F64, &[1.0; 256]);
        let space = &tracked.device.space;
        let running = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while running.load(std::sync::atomic::Ordering::Relaxed) {
                    let kind = cuda_emu::space::Kind::Device;
                    let start = space.allocate(4096, 256, kind, 0).expect("memory");
                    space.free(start);
                }
            });
            for _ in 0..1000 {
                tracked.launch(&program, "k", shape(4, 256), &[sums]);
            }
            running.store(false, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(tracked.get(sums, Real::F64, 256), [1.0; 256]);
        done.send(()).expect("somebody waits");
    });
    wait.recv_timeout(std::time::Duration::from_secs(60)).expect("neither waits for the other");
    work.join().expect("no panic");
}

#[test]
fn bad_input_is_an_error_and_changes_nothing() {
    assert!(Tangents::of(&Device::new(1).space).is_none());
    let tracked = Tracked::new();
    let tangents = tracked.tangents();
    let start = tracked.upload(&[1f32; 8], Real::F32, &[3.0; 8]);
    let outside = |result| matches!(result, Err(TangentError::Outside { .. }));
    for (address, count) in
        [(0, 1), (start + 4, 8), (start - 4, 2), (start, usize::MAX), (!3, 2), (!3, 1)]
    {
        assert!(
            outside(tangents.get(address, Real::F32, count).map(|_| ())),
            "{address:#x}, {count}"
        );
    }
    assert!(outside(tangents.set(start, Real::F32, &[1.0; 9])));
    for real in REALS {
        let misaligned = tangents.set(start + 1, real, &[1.0]);
        assert!(matches!(misaligned, Err(TangentError::Misaligned { .. })), "{misaligned:?}");
    }
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = tangents.set(start, Real::F32, &[1.0, wrong]).expect_err("no number");
        assert!(matches!(error, TangentError::NotFinite { index: 1, .. }), "{error}");
        assert!(tangents.set_argument("k", 0, Real::F32, wrong).is_err());
    }
    assert_eq!(tracked.get(start, Real::F32, 8), [3.0; 8]);
    for (offset, real) in [
        (2, Real::F32),
        (4, Real::F64),
        (1, Real::F16),
        (usize::MAX, Real::F16),
        (32_764, Real::F32),
        (32_760, Real::F64),
    ] {
        assert!(tangents.set_argument("k", offset, real, 1.0).is_err(), "{offset}");
    }
    tangents.set_argument("k", 32_760, Real::F32, 1.0).expect("the last");
    // Parts of two numbers are no number.
    tangents.set(start, Real::F64, &[1.0]).expect("memory");
    assert!(tangents.get(start + 4, Real::F32, 1).expect("memory")[0].is_nan());
}
