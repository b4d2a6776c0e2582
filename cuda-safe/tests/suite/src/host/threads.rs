//! Large copies, spread over threads: what they ask the driver, and what is left when it fails.

use std::collections::BTreeSet;

use cuda_safe::sys::CUresult;
use cuda_safe::{Context, DeviceBuffer};

use test_harness::lab::Lab;
use test_harness::table::{Call, Fault};
use test_harness::{Case, Failure, TestResult, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::host("threads::every_byte_once", every_byte_once),
        Case::host("threads::small_copies_stay_with_the_caller", small_copies),
        Case::host("threads::switched_off", switched_off),
        Case::host("threads::two_callers_at_once", two_callers_at_once),
        Case::host("threads::every_call_of_an_upload_fails", || every_call_fails(upload)),
        Case::host("threads::every_call_of_a_download_fails", || every_call_fails(download)),
        Case::host("threads::closing_ends_them", closing_ends_them),
        #[cfg(unix)]
        Case::host("threads::in_a_forked_child", unix::in_a_forked_child),
    ]
}

/// Spread over threads, with a block of the ring for each chunk.
const LARGE: usize = (9 << 20) + 5;

/// More chunks than the ring has blocks, which are used again.
const LARGER: usize = (35 << 20) + 5;

fn upload(context: &Context) -> cuda_safe::Result<()> {
    let stream = context.stream()?;
    DeviceBuffer::from_slice(&stream, &vec![1u8; LARGE]).map(drop)
}

fn download(context: &Context) -> cuda_safe::Result<()> {
    let stream = context.stream()?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, LARGE)?;
    let mut target = vec![1u8; LARGE];
    buffer.download(&stream, &mut target)?;
    assert!(target.iter().all(|byte| *byte == 0), "the driver's zeros were copied");
    Ok(())
}

/// The parts that copies have, as offset and bytes, from `start` on.
fn parts(calls: &[Call], name: &str, address: usize, start: u64) -> BTreeSet<(u64, u64)> {
    let copies = calls.iter().filter(|call| call.name == name);
    copies.map(|call| (call.args[address].wrapping_sub(start), call.args[2])).collect()
}

fn covers(parts: &BTreeSet<(u64, u64)>, bytes: usize) -> TestResult {
    let mut end = 0;
    for (offset, bytes) in parts {
        ensure_eq!(*offset, end, "the parts follow one another: {parts:?}");
        end += bytes;
    }
    ensure_eq!(end, bytes as u64);
    Ok(())
}

fn every_byte_once() -> TestResult {
    [LARGE, LARGER].into_iter().try_for_each(every_byte_of)
}

fn every_byte_of(bytes: usize) -> TestResult {
    let lab = Lab::new()?;
    let context = &lab.context;
    context.set_copy_threads(4);
    ensure_eq!((context.copy_threads(), context.stats().copy_helpers), (4, 0), "none before use");
    let stream = context.stream()?;
    let source = vec![1u8; bytes];
    let mut buffer = DeviceBuffer::from_slice(&stream, &source)?;
    ensure_eq!(context.stats().copy_helpers, 3);
    for round in 1..10 {
        lab.recorder.take();
        buffer.upload(&stream, &source)?;
        let calls = lab.recorder.take();
        covers(&parts(&calls, "cuMemcpyHtoDAsync_v2", 0, buffer.device_ptr()), bytes)?;
        let never = |name: &str| calls.iter().all(|call| call.name != name);
        ensure!(never("cuMemHostRegister_v2"), "the ring's blocks are used again");
        ensure!(never("cuStreamSynchronize") && never("cuCtxSynchronize"));

        let mut target = vec![1u8; bytes];
        buffer.download(&stream, &mut target)?;
        ensure!(target.iter().all(|byte| *byte == 0), "the driver's zeros were copied");
        covers(
            &parts(&lab.recorder.take(), "cuMemcpyDtoHAsync_v2", 1, buffer.device_ptr()),
            bytes,
        )?;
        ensure_eq!(context.stats().threaded_copies, 1 + 2 * round);
    }
    ensure_eq!(context.stats().copy_helpers, 3, "they are used again");
    drop((buffer, stream));
    lab.close()
}

/// Just below the limit nothing is different from a context without threads.
fn small_copies() -> TestResult {
    let run = |threads| {
        let lab = Lab::new()?;
        lab.context.set_copy_threads(threads);
        let stream = lab.context.stream()?;
        let source = vec![1u8; (8 << 20) - 1];
        let buffer = DeviceBuffer::from_slice(&stream, &source)?;
        lab.recorder.take();
        drop(buffer.to_vec(&stream)?);
        let calls = lab.recorder.names();
        ensure_eq!(lab.context.stats().threaded_copies, 0);
        ensure_eq!(lab.context.stats().copy_helpers, 0);
        drop((buffer, stream));
        lab.close()?;
        Ok::<_, Failure>(calls)
    };
    ensure_eq!(run(8)?, run(1)?);
    Ok(())
}

fn switched_off() -> TestResult {
    for off in [0, 1] {
        let lab = Lab::new()?;
        lab.context.set_copy_threads(3);
        upload(&lab.context)?;
        ensure_eq!(lab.context.stats().copy_helpers, 2);
        lab.context.set_copy_threads(off);
        ensure_eq!(lab.context.copy_threads(), 1);
        while lab.context.stats().copy_helpers > 0 {
            std::thread::yield_now();
        }
        upload(&lab.context)?;
        download(&lab.context)?;
        ensure_eq!(lab.context.stats().threaded_copies, 1);
        lab.close()?;
    }
    Ok(())
}

/// One of them has the threads, the other does without: neither waits for the other.
fn two_callers_at_once() -> TestResult {
    let lab = Lab::new()?;
    lab.context.set_copy_threads(4);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let lab = &lab;
                scope.spawn(move || -> TestResult {
                    let _installed = lab.recorder.install();
                    for _ in 0..5 {
                        upload(&lab.context)?;
                        download(&lab.context)?;
                    }
                    Ok(())
                })
            })
            .collect();
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
    })?;
    lab.close()
}

/// Whichever call fails, the copy says so, leaves nothing in use, and the next one works.
fn every_call_fails(copy: fn(&Context) -> cuda_safe::Result<()>) -> TestResult {
    let prepare = || -> Result<Lab, Failure> {
        let lab = Lab::new()?;
        lab.context.set_copy_threads(4);
        lab.recorder.take();
        Ok(lab)
    };
    let lab = prepare()?;
    copy(&lab.context)?;
    let count = lab.recorder.count();
    lab.close()?;
    for number in 0..count {
        for code in [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_LAUNCH_FAILED] {
            let lab = prepare()?;
            lab.recorder.fail(Some(Fault { call: number, code, repeated: false }));
            let result = copy(&lab.context);
            let failed = lab.recorder.failed();
            lab.recorder.fail(None);
            let Some(failed) = failed else {
                // The threads had blocks to wait for less often this time.
                ensure!(result.is_ok(), "{result:?}");
                lab.close()?;
                continue;
            };
            let kept = lab.context.take_drop_errors();
            let told = result.as_ref().err().or(kept.first()).and_then(|error| error.code());
            let fatal = code == CUresult::CUDA_ERROR_LAUNCH_FAILED;
            let by_drop = fatal && result.is_ok();
            ensure!(told == Some(code) || by_drop, "{failed}, call {number}: {result:?}");
            if failed.starts_with("cuMemcpy") {
                ensure!(result.is_err(), "{failed}, call {number}");
            }
            let again = copy(&lab.context);
            if fatal {
                ensure_eq!(again.err().and_then(|error| error.code()), Some(code));
                continue;
            }
            again?;
            ensure!(lab.context.stats().threaded_copies > 0);
            lab.close().map_err(|failure| {
                Failure::new(format!("{failed} failed, call {number}: {failure}"))
            })?;
        }
    }
    Ok(())
}

fn closing_ends_them() -> TestResult {
    let lab = Lab::new()?;
    lab.context.set_copy_threads(4);
    let foreign = || {
        // SAFETY: the context outlives the handle.
        unsafe { Context::from_raw(lab.context.driver(), lab.context.as_raw(), ()) }
    };
    let other = foreign()?;
    other.set_copy_threads(4);
    upload(&other)?;
    ensure_eq!(other.stats().copy_helpers, 3);
    // They keep nothing alive: the last handle is the last, and closing finds no other.
    other.close()?;
    upload(&lab.context)?;
    lab.close()
}

#[cfg(unix)]
mod unix {
    use cuda_safe::{DeviceBuffer, ErrorKind};

    use super::{LARGE, upload};
    use crate::host::fork::unix::forked;
    use test_harness::lab::Lab;
    use test_harness::{TestResult, ensure_eq};

    pub(super) fn in_a_forked_child() -> TestResult {
        let lab = Lab::new()?;
        lab.context.set_copy_threads(4);
        let stream = lab.context.stream()?;
        let source = vec![1u8; LARGE];
        let mut buffer = DeviceBuffer::from_slice(&stream, &source)?;
        let status = forked(|| {
            let is_forked = |result: cuda_safe::Result<()>| match result {
                Err(error) => matches!(error.kind(), ErrorKind::Forked),
                Ok(()) => false,
            };
            if !is_forked(buffer.upload(&stream, &source)) {
                return 1;
            }
            if !is_forked(buffer.to_vec(&stream).map(drop)) {
                return 2;
            }
            lab.context.set_copy_threads(1);
            if lab.context.copy_threads() != 1 { 3 } else { 0 }
        })?;
        ensure_eq!(status, 0);
        // The parent has its threads still.
        upload(&lab.context)?;
        ensure_eq!(lab.context.stats().threaded_copies, 2);
        drop((buffer, stream));
        lab.close()
    }
}
