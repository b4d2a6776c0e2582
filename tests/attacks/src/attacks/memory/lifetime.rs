//! Attacks on the lifetime of device memory, and on large copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::{DeviceBuffer, ErrorKind, Event, PinnedBuffer, Pool, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// Keeps the memory of buffers that were dropped, and looks whether new buffers are given it.
///
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::allocation`, `Allocation::home_stream`, `DeviceBuffer::as_slice`,
///   `DeviceSlice::allocation`
pub(super) fn memory_kept_after_its_buffer(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut kept = Vec::new();
    for round in 0..40 {
        let x = DeviceBuffer::from_slice(&stream, &vec![round; 1000])?;
        if round % 3 == 0 {
            kept.push(x.as_slice().allocation().clone());
        }
        if round % 7 == 6 {
            kept.swap_remove(round as usize % kept.len());
        }
        drop(x);
        let new = DeviceBuffer::<u8>::zeroed(&stream, 4000)?;
        let new = new.device_ptr()..new.device_ptr() + 4000;
        for kept in &kept {
            let old = kept.device_ptr()..kept.device_ptr() + kept.size_bytes() as u64;
            ensure!(
                new.end <= old.start || old.end <= new.start,
                "{old:?} is given out as {new:?}"
            );
        }
    }
    for kept in &kept {
        ensure!(kept.home_stream().context() == context, "another context");
    }
    drop(stream);
    std::thread::scope(|scope| scope.spawn(move || drop(kept)).join())
        .map_err(|_| Failure::new("a drop panicked"))?;
    context.synchronize()?;
    Ok(())
}

/// Drops the last handles of buffers, pinned and unified memory, an event, a stream and a pool in a host function, on a thread
/// of the driver, where nothing can be freed. They are freed later.
///
/// - row: device memory is freed after the last work
/// - row: a drop never waits, never panics
/// - targets: `Stream::host_function`, `DeviceBuffer::from_slice`, `DeviceBuffer::zeroed_in`, `Pool::used_bytes`
pub(super) fn buffers_dropped_in_a_host_function(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let pool = Pool::new(&context)?;
    let mut copies = Vec::new();
    for round in 0..5u32 {
        let x = DeviceBuffer::from_slice(&stream, &[round; 1000])?;
        copies.push(x.try_clone(&other)?);
        let of_pool = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 1000)?;
        let (event, gone) = (Event::new(&context)?, (context.stream()?, Pool::new(&context)?));
        let unified = UnifiedBuffer::<u32>::pinned(&stream, 100)?;
        let pinned = PinnedBuffer::<u32>::zeroed(&context, 100)?;
        stream.host_function(move || drop((x, of_pool, event, gone, unified, pinned)))?;
        let mut y = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        y.fill(&stream, u32::MAX)?;
    }
    stream.synchronize()?;
    for (round, copy) in (0..).zip(&copies) {
        ensure_eq!(copy.to_vec(&stream)?, [round; 1000]);
    }
    // The next allocation frees what was dropped, without a wait, but for what only a wait frees.
    drop(DeviceBuffer::<u32>::zeroed(&stream, 1)?);
    ensure!(context.stats().deferred_frees <= 10, "{:?}", context.stats());
    stream.synchronize()?;
    ensure_eq!(pool.used_bytes()?, 0);
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    Ok(())
}

/// Allocates until there is no more, drops what other streams still use, and allocates all of it again.
///
/// - row: no answer of the driver makes the crate panic
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::zeroed`, `DeviceBuffer::try_clone`, `Context::trim_pool`, `Context::set_pool_release_threshold`
pub(super) fn all_memory_again_and_again(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let n = 1 << 19;
    let total = context.memory_info()?.total;
    ensure!(total >= 16 << 20, "the device has {total} bytes");
    let mut most = 0;
    if lab.variant() == "trimmed" {
        context.set_pool_release_threshold(0)?;
    }
    for round in 0..4u32 {
        let mut all = Vec::new();
        let error = loop {
            match DeviceBuffer::<u32>::zeroed(if all.len() % 2 == 0 { &stream } else { &other }, n)
            {
                Ok(mut x) => {
                    x.slice_mut(..10)?
                        .fill(if all.len() % 3 == 0 { &stream } else { &other }, round)?;
                    all.push(x);
                }
                Err(error) => break error,
            }
            ensure!(all.len() < 100, "more memory than there is");
        };
        ensure!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error}");
        ensure!(!error.is_fatal(), "{error}");
        for x in &all {
            ensure_eq!(x.slice(..11)?.to_vec(&stream)?, [&[round; 10][..], &[0]].concat());
        }
        most = most.max(all.len());
        ensure!(all.len() >= most, "round {round}: {} of {most} buffers", all.len());
        // Dropped from both ends, while copies of them are under way.
        while all.len() > 2 {
            let first = all.remove(0);
            let last = all.len() - 1;
            all[last].copy_from(&other, &first)?;
        }
        if lab.variant() == "trimmed" {
            drop(all);
            context.trim_pool(0)?;
            context.trim_pool(usize::MAX)?;
        }
    }
    Ok(())
}

/// Changes over how many threads copies are spread while threads copy to halves of one vector.
///
/// - row: threads that help with a copy have left its slices
/// - row: a host slice is not read or written after the call
/// - targets: `DeviceBuffer::download`, `Context::set_copy_threads`, `Context::copy_threads`, `Context::stats`
pub(super) fn copy_threads_that_come_and_go(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let n = 9 << 18;
    let ended = AtomicBool::new(false);
    let mut target = vec![0u32; 2 * n];
    let results = std::thread::scope(|scope| {
        let (ended, context) = (&ended, &context);
        let changes = scope.spawn(move || {
            for threads in [0, 3, 1, usize::MAX, 8, 2].into_iter().cycle() {
                context.set_copy_threads(threads);
                if context.copy_threads() > 8 || ended.load(Ordering::SeqCst) {
                    break;
                }
                std::thread::yield_now();
            }
        });
        let (left, right) = target.split_at_mut(n);
        let copies = [(left, 1u32), (right, 2)].map(|(half, value)| {
            scope.spawn(move || -> cuda_safe::Result<()> {
                let stream = context.stream()?;
                for round in 0..3 {
                    let mut source = vec![value + 10 * round; n];
                    let x = DeviceBuffer::from_slice(&stream, &source)?;
                    source.fill(u32::MAX);
                    drop(source);
                    half.fill(0);
                    x.download(&stream, half)?;
                }
                Ok(())
            })
        });
        let results = copies.map(|copy| copy.join());
        ended.store(true, Ordering::SeqCst);
        (results, changes.join())
    });
    for result in results.0 {
        result.map_err(|_| Failure::new("a copy panicked"))??;
    }
    results.1.map_err(|_| Failure::new("setting the number of threads panicked"))?;
    ensure!(target[..n].iter().all(|x| *x == 21), "the left half");
    ensure!(target[n..].iter().all(|x| *x == 22), "the right half");
    ensure!(context.copy_threads() <= 8, "{} threads", context.copy_threads());
    context.set_copy_threads(0);
    ensure!(context.stats().copy_helpers <= 8, "{:?}", context.stats());
    Ok(())
}

/// Lets threads drop handles of shared buffers in any order while others still read them.
///
/// - row: device memory is freed after the last work
/// - row: all types may go to other threads
/// - targets: `DeviceBuffer::try_clone`, `DeviceBuffer::to_vec`
pub(super) fn shared_buffers_dropped_by_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    for round in 0..10u32 {
        let x = Arc::new(DeviceBuffer::from_slice(&context.stream()?, &[round; 5000])?);
        let threads = [0, 1, 2, 3].map(|_| {
            let (x, context) = (x.clone(), context.clone());
            std::thread::spawn(move || -> cuda_safe::Result<bool> {
                let stream = context.stream()?;
                let copy = x.try_clone(&stream)?;
                drop(x);
                let mut reused = DeviceBuffer::<u32>::zeroed(&stream, 5000)?;
                reused.fill(&stream, u32::MAX)?;
                Ok(copy.to_vec(&stream)? == [round; 5000])
            })
        });
        drop(x);
        for thread in threads {
            let right = thread.join().map_err(|_| Failure::new("a thread panicked"))??;
            ensure!(right, "round {round}");
        }
    }
    Ok(())
}
