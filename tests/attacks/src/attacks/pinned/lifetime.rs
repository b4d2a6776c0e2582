//! Attacks on the lifetime of pinned memory.

use std::cell::RefCell;

use cuda_safe::{DeviceBuffer, PinnedBuffer, Transfer, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attacks::order::random::Random;
use crate::lab::Lab;

const N: usize = 5000;

/// Drops everything but the transfer while it is in flight: the buffer, the streams, and the context's handle.
///
/// - row: the host can't touch a pinned buffer
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::download_pinned`, `DeviceSlice::download_pinned`, `DeviceSliceMut::upload_pinned`,
///   `Transfer::wait`, `Transfer::close`
pub(super) fn everything_else_dropped_under_a_transfer(lab: &Lab) -> TestResult {
    let mut transfers = Vec::new();
    for round in 0..20u32 {
        let context = lab.context()?;
        let (home, other) = (context.stream()?, context.stream()?);
        let mut x = DeviceBuffer::<u32>::zeroed(&home, N)?;
        let source = PinnedBuffer::from_slice(&context, &[round; N])?;
        let up = x.as_slice_mut().upload_pinned(&home, source)?;
        let target = PinnedBuffer::zeroed(&context, N)?;
        transfers.push((x.as_slice().download_pinned(&other, target)?, round));
        drop((x, home, other));
        // The next round takes the same memory.
        DeviceBuffer::<u32>::zeroed(&context.stream()?, N)?.fill(&context.stream()?, u32::MAX)?;
        match round % 4 {
            0 => ensure_eq!(up.wait()?[..], [round; N]),
            1 => ensure!(up.close().is_ok(), "a transfer was not closed"),
            2 => transfers.push((up, round)),
            _ => drop(up),
        }
    }
    let ended = std::thread::scope(|scope| {
        scope
            .spawn(move || -> TestResult {
                for (transfer, round) in transfers.into_iter().rev() {
                    ensure_eq!(transfer.wait()?[..], [round; N]);
                }
                Ok(())
            })
            .join()
    });
    ended.map_err(|_| Failure::new("a thread panicked"))?
}

/// Copies between a device and pinned memory of another one's context, and drops or forgets that in flight.
///
/// - row: dropped or forgotten in flight
/// - row: handles of different contexts or drivers do not mix
/// - targets: `DeviceBuffer::upload_pinned`, `DeviceBuffer::download_pinned`, `PinnedBuffer::from_slice`,
///   `PinnedBuffer::close`
pub(super) fn transfers_between_contexts(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let stream = b.stream()?;
    for round in 0..15u32 {
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        let transfer = x.upload_pinned(&stream, PinnedBuffer::from_slice(&a, &[round; N])?);
        let transfer = match transfer {
            Ok(transfer) => transfer,
            refused => {
                lab.refused(refused, "context")?;
                continue;
            }
        };
        let back = x.download_pinned(&stream, PinnedBuffer::zeroed(&a, N)?)?;
        match lab.variant() {
            "waited" => {
                let source = transfer.wait()?;
                ensure_eq!(source[..], [round; N]);
                ensure!(source.close().is_ok(), "pinned memory was not freed");
            }
            "dropped" => drop(transfer),
            _ => std::mem::forget(transfer),
        }
        // Collected on either side, while the copy may be under way.
        a.free_deferred()?;
        let mut next = PinnedBuffer::<u32>::zeroed(&a, N)?;
        next.fill(u32::MAX);
        ensure_eq!(back.wait()?[..], [round; N]);
        b.free_deferred()?;
        ensure_eq!(next[..], [u32::MAX; N]);
    }
    Ok(())
}

/// Uploads pinned memory in a capture, takes it back or drops it, changes it, and launches the graph.
///
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - row: the host can't touch a pinned buffer
/// - targets: `DeviceBuffer::upload_pinned`, `DeviceBuffer::download_pinned`, `Context::capture`, `Transfer::wait`
pub(super) fn transfers_in_a_capture(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let refused = RefCell::new(Vec::new());
    let uploaded = RefCell::new(None);
    let mut graph = context.capture(x, |stream, x| {
        let target = PinnedBuffer::zeroed(&context, N)?;
        refused.borrow_mut().push(x.download_pinned(stream, target).map(drop));
        let source = PinnedBuffer::from_slice(&context, &[7u32; N])?;
        match x.upload_pinned(stream, source) {
            Ok(transfer) => *uploaded.borrow_mut() = Some(transfer),
            Err(error) => {
                refused.borrow_mut().push(Err(error));
                x.upload(stream, &[7; N])?;
            }
        }
        Ok(())
    })?;
    for result in refused.take() {
        lab.refused(result, "record")?;
    }
    if let Some(transfer) = uploaded.take() {
        match lab.variant() {
            "waited" => {
                if let Ok(mut source) = transfer.wait() {
                    source.fill(8);
                }
            }
            "dropped" => drop(transfer),
            "closed" => drop(transfer.close()),
            _ => std::mem::forget(transfer),
        }
    }
    context.free_deferred()?;
    let others: Vec<_> = (0..4).map(|_| PinnedBuffer::from_slice(&context, &[9u32; N])).collect();
    for _ in 0..3 {
        graph.state_mut().fill(&stream, 0)?;
        graph.launch(&stream)?;
        ensure_eq!(graph.state().to_vec(&stream)?, [7; N]);
    }
    drop((graph, others));
    context.free_deferred()?;
    Ok(())
}

/// Begins transfers of lengths that differ, of nothing, and of parts, and asks for more pinned memory than there is.
///
/// - row: no answer of the driver makes the crate panic
/// - row: the host can't touch a pinned buffer
/// - targets: `DeviceBuffer::upload_pinned`, `DeviceBuffer::download_pinned`, `PinnedBuffer::zeroed`,
///   `PinnedBuffer::from_slice`
pub(super) fn lengths_that_differ(lab: &Lab) -> TestResult {
    let refusal = "elements on";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::from_slice(&stream, &[1u64; 100])?;
    for len in [0, 99, 101, 10_000] {
        lab.refused(x.upload_pinned(&stream, PinnedBuffer::zeroed(&context, len)?), refusal)?;
        lab.refused(x.download_pinned(&stream, PinnedBuffer::zeroed(&context, len)?), refusal)?;
    }
    let nothing = PinnedBuffer::<u64>::zeroed(&context, 0)?;
    let nothing = x.slice_mut(50..50)?.upload_pinned(&stream, nothing)?.wait()?;
    ensure_eq!(x.slice(100..)?.download_pinned(&stream, nothing)?.wait()?.len(), 0);
    for len in [usize::MAX, usize::MAX / 8, usize::MAX / 8 + 1, 1 << 61, 1 << 46] {
        let pinned = PinnedBuffer::<u64>::zeroed(&context, len);
        ensure!(pinned.is_err(), "{len} elements of pinned memory");
    }
    ensure_eq!(x.to_vec(&stream)?, [1; 100]);
    Ok(())
}

/// Makes, drops, closes and collects pinned memory of random sizes in several threads, each with its own pattern in
/// it, while copies are under way.
///
/// - row: dropped or forgotten in flight
/// - targets: `PinnedBuffer::from_slice`, `PinnedBuffer::close`, `Transfer::is_done`, `Context::free_deferred`,
///   `Context::stats`
pub(super) fn pinned_memory_of_many_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let context = &context;
    let ended = std::thread::scope(|scope| {
        let threads = [1u32, 2, 3].map(|number| {
            scope.spawn(move || -> TestResult {
                let mut random = Random::new(u64::from(number));
                let stream = context.stream()?;
                let mut held: Vec<PinnedBuffer<u32>> = Vec::new();
                let mut flying: Vec<Transfer<u32>> = Vec::new();
                for _ in 0..60 {
                    let n = 1 << random.below(14);
                    match random.below(6) {
                        0 | 1 => held.push(PinnedBuffer::from_slice(context, &vec![number; n])?),
                        2 => context.free_deferred()?,
                        3 => {
                            if let Some(buffer) = held.pop() {
                                ensure!(buffer.close().is_ok(), "pinned memory was not freed");
                            }
                        }
                        4 => {
                            if let Some(buffer) = held.pop() {
                                let mut x = DeviceBuffer::<u32>::zeroed(&stream, buffer.len())?;
                                flying.push(x.upload_pinned(&stream, buffer)?);
                            }
                        }
                        _ => match flying.pop() {
                            Some(transfer) if transfer.is_done()? => held.push(transfer.wait()?),
                            transfer => drop(transfer),
                        },
                    }
                    for buffer in &held {
                        ensure!(buffer.iter().all(|x| *x == number), "thread {number}");
                    }
                }
                for transfer in flying {
                    ensure!(transfer.wait()?.iter().all(|x| *x == number), "thread {number}");
                }
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    Ok(())
}

/// Drops pinned and unified memory of ever other sizes, registered vectors, and graphs with sources of uploads. What is
/// kept for later buffers is bounded.
///
/// - row: dropped or forgotten in flight
/// - targets: `PinnedBuffer::zeroed`, `UnifiedBuffer::pinned`, `UnifiedBuffer::register`, `Context::stats`
pub(super) fn dropped_in_many_sizes(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut most = 0;
    for round in 1..20usize {
        // Too many bytes for what lies there, which so is not used again.
        let len = (4 << 20) + round * (2 << 20);
        match lab.variant() {
            "pinned" => drop(PinnedBuffer::<u8>::zeroed(&context, len)?),
            "registered" => drop(UnifiedBuffer::register(&stream, vec![1u8; len])?),
            "recorded" => {
                let mut x = DeviceBuffer::<u8>::zeroed(&stream, len)?;
                drop(context.capture((), |s, ()| x.upload(s, &vec![1; len]))?);
            }
            _ => drop(UnifiedBuffer::<u8>::pinned(&stream, len)?),
        }
        most = most.max(context.stats().deferred_frees);
    }
    ensure!(most < 10, "{most} buffers were kept");
    context.free_deferred()?;
    Ok(())
}
