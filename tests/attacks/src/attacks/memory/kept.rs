//! Attacks on memory that is kept for uses without a borrow.

use std::thread;

use cuda_safe::{DeviceBuffer, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attacks::graphs::kit::{Kit, LEN, N, all};
use crate::lab::Lab;

/// Keeps memory many times, leaks what keeps it, drops the buffers first, and goes on using the memory on streams,
/// threads, graphs and by guards: only what takes the memory away for good is refused.
///
/// - row: a use of kept memory runs wholly before or wholly after
/// - row: device memory is freed after the last work
/// - row: a registered vector comes back only
/// - targets: `Allocation::keep`, `KeptMemory::allocation`, `KeptMemory::version`, `DeviceBuffer::allocation`,
///   `UnifiedBuffer::into_vec`, `UnifiedBuffer::allocation`
pub(super) fn kept_memory_in_every_use(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let mut unified = UnifiedBuffer::register(&stream, vec![1u32; N])?;
    let mut kept = Vec::new();
    for i in 0..100 {
        let on = if i % 2 == 0 { &stream } else { &other };
        kept.push(x.allocation().keep(on)?);
        kept.push(unified.allocation().keep(on)?);
    }
    let newest = kept[0].version(0..4 * N);
    let mut graph = context.capture((), |s, ()| kit.mix(s, all(), &x, &mut unified, LEN))?;
    graph.launch(&other)?;
    drop(graph);
    kit.add(&other, all(), 1, &mut x, LEN)?;
    ensure!(kept[0].version(0..4 * N) > newest, "a write has no number");
    ensure_eq!(kept[2].version(0..4 * N), x.allocation().version(0..4 * N));
    ensure_eq!(unified.host()?[..], [4; N]);
    unified.host_mut()?.fill(7);
    // Each thread's launch is whole, though nobody's memory is borrowed but by the launch itself.
    let sums = thread::scope(|scope| {
        let threads = [10u32, 20].map(|start| {
            let (context, kit, unified) = (&context, &kit, &unified);
            scope.spawn(move || -> cuda_safe::Result<Vec<u32>> {
                let stream = context.stream()?;
                let mut sum = DeviceBuffer::from_slice(&stream, &[start; N])?;
                for _ in 0..10 {
                    kit.mix(&stream, all(), unified, &mut sum, LEN)?;
                }
                sum.to_vec(&stream)
            })
        });
        threads.map(|thread| thread.join())
    });
    for (sum, start) in sums.into_iter().zip([10u32, 20]) {
        let expected = (0..10).fold(start, |sum, _| sum.wrapping_mul(3).wrapping_add(7));
        ensure_eq!(sum.map_err(|_| Failure::new("a thread panicked"))??, [expected; N]);
    }
    let Err(refused) = unified.into_vec() else {
        return Err(Failure::new("a vector came back that is kept"));
    };
    let unified = refused.into_inner();
    // The memory outlives its buffer.
    ensure_eq!(x.to_vec(&stream)?, [2; N]);
    let (address, weak) = (x.allocation().device_ptr(), std::sync::Arc::downgrade(x.allocation()));
    drop(x);
    context.free_deferred()?;
    for _ in 0..20 {
        let fresh = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        ensure!(fresh.allocation().device_ptr() != address, "kept memory was given to others");
    }
    ensure!(kept.iter().any(|kept| kept.allocation().device_ptr() == address));
    match lab.variant() {
        "leaked" => {
            std::mem::forget(kept);
            let Err(refused) = unified.into_vec() else {
                return Err(Failure::new("a vector came back whose keeper is leaked"));
            };
            let mut unified = refused.into_inner();
            unified.host_mut()?.fill(3);
            ensure_eq!(unified.as_slice().to_vec(&stream)?, [3; N]);
            ensure!(weak.upgrade().is_some());
            return Ok(());
        }
        "dropped" => drop(kept),
        _ => {
            let back = kept.split_off(kept.len() / 2);
            let dropped = thread::scope(|scope| {
                let threads = [kept, back].map(|kept| scope.spawn(move || drop(kept)));
                threads.map(|thread| thread.join().is_ok())
            });
            ensure_eq!(dropped, [true; 2]);
        }
    }
    ensure!(weak.upgrade().is_none(), "memory that nobody keeps");
    let Ok(vector) = unified.into_vec() else {
        return Err(Failure::new("the vector does not come back"));
    };
    ensure_eq!(vector, [7; N]);
    Ok(())
}

/// Keeps memory on a stream of another device, whose graph lock its uses would not take.
///
/// - row: a use of kept memory runs wholly before or wholly after
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Allocation::keep`, `Context::enable_peer_access`
pub(super) fn kept_on_another_device(lab: &Lab) -> TestResult {
    let refusal = "memory of another context can't be kept for later";
    let (a, b) = (lab.context_of(0)?, lab.context_of(1)?);
    let (on_a, on_b) = (a.stream()?, b.stream()?);
    let x = DeviceBuffer::from_slice(&on_a, &[5u32; N])?;
    lab.refused(x.allocation().keep(&on_b), refusal)?;
    b.enable_peer_access(&a)?;
    lab.refused(x.allocation().keep(&on_b), refusal)?;
    let recorded = a.capture((), |s, ()| x.allocation().keep(s).map(drop));
    drop(recorded?);
    let kept = x.allocation().keep(&on_a)?;
    // A peer may not use it while it is kept: only one device's lock is taken.
    let mut y = DeviceBuffer::<u32>::zeroed(&on_b, N)?;
    let used = y.copy_from(&on_b, &x);
    if used.is_ok() {
        ensure_eq!(y.to_vec(&on_b)?, [5; N]);
    }
    drop(kept);
    ensure_eq!(x.to_vec(&on_a)?, [5; N]);
    Ok(())
}
