//! Attacks on the guards of memory that the host sees.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_safe::{DeviceBuffer, LaunchConfig, PinnedBuffer, PitchedLayout, UnifiedBuffer, kernels};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i reads and writes element i of x, and reads element i of y, if i < n.
    unsafe in r#"
        extern "C" __global__ void increment(unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += 1;
        }
        extern "C" __global__ void add(const unsigned* y, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += y[i];
        }
    "# {
        safe fn increment(x: &mut [u32], n: u32) where n <= x.len();
        safe fn add(y: &[u32], x: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
    }
}

const N: usize = 600;

fn made(lab: &Lab, stream: &cuda_safe::Stream) -> Result<UnifiedBuffer<u32>, Failure> {
    Ok(match lab.variant() {
        "managed" => UnifiedBuffer::managed(stream, N)?,
        "pinned" => UnifiedBuffer::pinned(stream, N)?,
        _ => UnifiedBuffer::register(stream, vec![0; N])?,
    })
}

/// Launches a graph that increments a buffer in one thread, while another thread increments it through guards and
/// checks that all elements are equal.
///
/// - row: while a guard lives nothing that conflicts
/// - row: when the host reads, all writes are done
/// - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::host`, `Context::capture`
pub(super) fn guards_race_with_launches(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut graph = context.capture(Some(made(lab, &stream)?), |s, x| match x {
        Some(x) => {
            kernels.increment(s, LaunchConfig::cover(N, 64), &mut *x, N as u32)?;
            kernels.increment(s, LaunchConfig::cover(N, 64), x, N as u32)
        }
        None => Ok(()),
    })?;
    let Some(mut x) = graph.state_mut().take() else { return Ok(()) };
    let launched = AtomicUsize::new(0);
    let (mut by_host, launched) = (0, &launched);
    let refused = Mutex::new(Vec::new());
    let ended = std::thread::scope(|scope| -> Result<_, Failure> {
        let refused = &refused;
        let launches = scope.spawn(move || {
            let mut graph = graph;
            for _ in 0..60 {
                match graph.launch(&stream) {
                    Ok(()) => drop(launched.fetch_add(1, Ordering::SeqCst)),
                    Err(error) => {
                        refused.lock().unwrap_or_else(PoisonError::into_inner).push(error);
                    }
                }
                std::thread::yield_now();
            }
        });
        for round in 0..60 {
            if round % 3 == 0 {
                let seen = x.host()?;
                let first = seen[0];
                for _ in 0..20 {
                    ensure!(seen.iter().all(|x| *x == first), "round {round}: torn");
                }
            } else {
                let mut all = x.host_mut()?;
                for element in all.iter_mut() {
                    *element += 1;
                }
                by_host += 1;
            }
        }
        Ok(launches.join())
    });
    ended?.map_err(|_| Failure::new("a launch panicked"))?;
    for error in refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
        lab.refused(Err::<(), _>(error), "host")?;
    }
    let wanted = by_host + 2 * launched.load(Ordering::SeqCst) as u32;
    ensure_eq!(x.host()?[..], [wanted; N]);
    Ok(())
}

/// Writes a buffer through a guard while streams and graphs that read it have work left to do.
///
/// - row: when the host reads, all writes are done
/// - row: work that uses the same bytes
/// - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::as_slice`, `UnifiedBuffer::slice`, `UnifiedBuffer::slice_mut`,
///   `UnifiedBuffer::home_stream`
pub(super) fn written_while_others_read(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let home = context.stream()?;
    let kernels = Kernels::load(&context)?;
    let mut x = made(lab, &home)?;
    ensure!(*x.home_stream() == home, "another home");
    let mut copies = Vec::new();
    for round in 1..25u32 {
        x.host_mut()?.fill(round);
        let streams = [context.stream()?, context.stream()?];
        let mut copy = DeviceBuffer::<u32>::zeroed(&streams[1], N)?;
        copy.slice_mut(..9)?.copy_from(&streams[0], x.slice(..9)?)?;
        copy.slice_mut(9..)?.copy_from(&streams[0], x.as_slice().slice(9..)?)?;
        let launch = LaunchConfig::cover(N, 64);
        kernels.add(&streams[1], launch, &x, &mut copy, N as u32)?;
        if round % 2 == 0 {
            kernels.increment(&streams[0], launch, x.slice_mut(N / 2..)?, N as u32 / 2)?;
            kernels.increment(&home, launch, x.slice_mut(..N / 2)?, N as u32 / 2)?;
        }
        // Dropped now; the copies are at home on one of them.
        drop(streams);
        copies.push(copy);
    }
    for (round, copy) in (1..).zip(&copies) {
        ensure_eq!(copy.to_vec(&home)?, [2 * round; N]);
    }
    Ok(())
}

/// Leaks a guard for reading, then reads and writes the buffer by all means there are.
///
/// - row: while a guard lives nothing that conflicts
/// - row: a registered vector comes back only
/// - targets: `UnifiedBuffer::host`, `UnifiedBuffer::host_mut`, `UnifiedBuffer::as_slice_mut`,
///   `UnifiedBuffer::into_vec`, `UnifiedBuffer::allocation`
pub(super) fn a_reading_guard_leaked(lab: &Lab) -> TestResult {
    let refusal = "host";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = made(lab, &stream)?;
    x.host_mut()?.fill(4);
    std::mem::forget(x.host()?);
    let y = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let launch = LaunchConfig::cover(N, 64);
    ensure_eq!(x.as_slice().to_vec(&stream)?, [4; N]);
    ensure_eq!(x.host()?[..], [4; N]);
    lab.refused(x.copy_from(&stream, &y), refusal)?;
    lab.refused(x.as_slice_mut().fill(&stream, 5), refusal)?;
    lab.refused(x.slice_mut(3..4)?.upload(&stream, &[5]), refusal)?;
    lab.refused(kernels.increment(&stream, launch, &mut x, N as u32), refusal)?;
    lab.refused(x.host_mut().map(drop), "guard")?;
    let mut graph = context.capture(y, |s, y| kernels.add(s, launch, &x, &mut *y, N as u32))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [5; N]);
    drop(graph);
    let memory = x.allocation().clone();
    ensure!(x.into_vec().is_err(), "a vector came back under a leaked guard");
    drop(memory);
    context.free_deferred()?;
    Ok(())
}

/// Sends guards to other threads, which look and drop them there while this thread enqueues what does not conflict.
///
/// - row: while a guard lives nothing that conflicts
/// - row: all types may go to other threads
/// - targets: `UnifiedBuffer::host`, `UnifiedBuffer::host_mut`
pub(super) fn guards_on_other_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let mut x = made(lab, &stream)?;
    for round in 0..15u32 {
        let mut guard = x.host_mut()?;
        let written = std::thread::scope(|scope| {
            scope.spawn(move || guard.iter_mut().for_each(|x| *x += 1)).join()
        });
        written.map_err(|_| Failure::new("a thread panicked"))?;
        let (one, two) = (x.host()?, x.host()?);
        let copy = std::thread::scope(|scope| {
            let reader = scope.spawn(move || one.iter().all(|x| *x == round + 1));
            let copy = DeviceBuffer::<u32>::zeroed(&other, N).and_then(|mut copy| {
                copy.copy_from(&other, &x)?;
                Ok(copy)
            });
            (copy, reader.join())
        });
        ensure!(copy.1.unwrap_or(false), "round {round}");
        ensure_eq!(two[..], [round + 1; N]);
        drop(two);
        x.as_slice_mut().copy_from(&stream, &copy.0?)?;
    }
    ensure_eq!(x.host()?[..], [15; N]);
    Ok(())
}

/// Moves pages of managed memory to and fro while guards live and kernels run, and pages of memory that is not
/// managed.
///
/// - row: while a guard lives nothing that conflicts
/// - targets: `UnifiedBuffer::prefetch_to_device`, `UnifiedBuffer::prefetch_to_host`, `UnifiedBuffer::host`
pub(super) fn pages_moved_under_guards(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = made(lab, &stream)?;
    if lab.variant() != "managed" {
        lab.refused(x.prefetch_to_device(&stream), "managed")?;
        return lab.refused(x.prefetch_to_host(&stream), "managed");
    }
    for round in 1..20u32 {
        x.prefetch_to_device(&context.stream()?)?;
        kernels.increment(&stream, LaunchConfig::cover(N, 64), &mut x, N as u32)?;
        x.prefetch_to_host(&context.stream()?)?;
        let seen = x.host()?;
        // It changes no byte: refused or done, the guard sees the same.
        for result in [x.prefetch_to_device(&stream), x.prefetch_to_host(&stream)] {
            if result.is_err() {
                lab.refused(result, "host")?;
            }
        }
        ensure_eq!(seen[..], [round; N]);
    }
    let empty = UnifiedBuffer::<u32>::managed(&stream, 0)?;
    empty.prefetch_to_device(&stream)?;
    empty.prefetch_to_host(&stream)?;
    Ok(())
}

/// Uses a buffer whose guard for writing was leaked, by every kind of copy, launch and recording.
///
/// - row: while a guard lives nothing that conflicts
/// - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::as_slice`, `UnifiedBuffer::as_slice_mut`,
///   `DeviceSlice::download_pinned`, `DeviceSliceMut::upload_pinned`, `Stream::record_if`, `Context::capture`
pub(super) fn every_use_under_a_leaked_guard(lab: &Lab) -> TestResult {
    let refusal = "host";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = made(lab, &stream)?;
    let mut y = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let guard = x.host_mut()?;
    let address = guard.as_ptr().addr();
    std::mem::forget(guard);
    ensure!(address != 0, "a guard of nothing");
    let (row, launch) = (PitchedLayout::compact((N, 1)), LaunchConfig::cover(N, 64));
    let pinned = || PinnedBuffer::<u32>::zeroed(&context, N);
    let mut host = vec![0u32; N];
    lab.refused(x.as_slice().download(&stream, &mut host), refusal)?;
    lab.refused(x.as_slice().download_3d(&stream, row, &mut host, row, (N, 1)), refusal)?;
    lab.refused(x.as_slice().download_pinned(&stream, pinned()?), refusal)?;
    lab.refused(x.as_slice_mut().upload_pinned(&stream, pinned()?), refusal)?;
    lab.refused(x.as_slice_mut().upload(&stream, &host), refusal)?;
    lab.refused(x.as_slice_mut().upload_3d(&stream, row, &host, row, (N, 1)), refusal)?;
    lab.refused(x.as_slice_mut().copy_3d_from(&stream, row, &y, row, (N, 1)), refusal)?;
    lab.refused(x.as_slice_mut().copy_from_peer(&stream, &y), refusal)?;
    lab.refused(x.as_slice_mut().fill(&stream, 1), refusal)?;
    lab.refused(y.copy_from(&stream, &x), refusal)?;
    lab.refused(y.copy_3d_from(&stream, row, &x, row, (N, 1)), refusal)?;
    lab.refused(y.as_slice_mut().copy_from_peer(&stream, &x), refusal)?;
    lab.refused(kernels.add(&stream, launch, &x, &mut y, N as u32), refusal)?;
    lab.refused(kernels.increment(&stream, launch, x.slice_mut(5..6)?, 1), refusal)?;
    // Refused when it is recorded, or when it is launched.
    let launched = context
        .capture((), |s, ()| kernels.increment(s, launch, &mut x, N as u32))
        .and_then(|mut graph| graph.launch(&stream));
    lab.refused(launched, refusal)?;
    let launched = context
        .capture((), |s, ()| s.record_if(&x, |s| y.fill(s, 3)))
        .and_then(|mut graph| graph.launch(&stream));
    lab.refused(launched, refusal)?;
    ensure_eq!(y.to_vec(&stream)?, [1; N]);
    Ok(())
}

/// Unwinds through a guard for writing, and uses the buffer afterwards.
///
/// - row: while a guard lives nothing that conflicts
/// - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::host`
pub(super) fn a_panic_under_a_guard(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = made(lab, &stream)?;
    for round in 1..10u32 {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let Ok(mut guard) = x.host_mut() else { return };
            guard.fill(round);
            resume_unwind(Box::new("on purpose"));
        }));
        ensure!(unwound.is_err(), "the guard was refused");
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let Ok(_guard) = x.host() else { return };
            resume_unwind(Box::new("on purpose"));
        }));
        ensure!(unwound.is_err(), "the guard was refused");
        kernels.increment(&context.stream()?, LaunchConfig::cover(N, 64), &mut x, N as u32)?;
        ensure_eq!(x.host()?[..], [round + 1; N]);
    }
    Ok(())
}
