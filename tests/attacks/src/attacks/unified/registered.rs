//! Attacks on vectors that are registered.

use cuda_safe::{DeviceBuffer, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// Takes a vector back while its memory is in use: by work, by a handle to the memory, or by a graph.
///
/// - row: a registered vector comes back only
/// - targets: `UnifiedBuffer::into_vec`, `UnifiedBuffer::register`, `UnifiedBuffer::allocation`, `Context::capture`
pub(super) fn a_vector_taken_back_in_use(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    for round in 1..15u32 {
        let mut vector = Vec::with_capacity(4000);
        vector.resize(3000, 0u32);
        let mut x = UnifiedBuffer::register(&stream, vector)?;
        let y = DeviceBuffer::from_slice(&other, &vec![round; 3000])?;
        match lab.variant() {
            "work" => {
                x.copy_from(&other, &y)?;
                let mut copy = DeviceBuffer::<u32>::zeroed(&stream, 3000)?;
                copy.copy_from(&context.stream()?, &x)?;
                let Ok(mut vector) = x.into_vec() else {
                    return Err(Failure::new("the vector does not come back"));
                };
                ensure!(vector.len() == 3000 && vector.capacity() >= 4000, "another vector");
                ensure!(vector.iter().all(|x| *x == round), "round {round}");
                vector.fill(u32::MAX);
                vector.resize(100_000, 1);
                ensure_eq!(copy.to_vec(&stream)?, vec![round; 3000]);
            }
            "handle" => {
                let memory = x.allocation().clone();
                x.copy_from(&other, &y)?;
                ensure!(x.into_vec().is_err(), "it came back beside a handle to its memory");
                drop(memory);
            }
            _ => {
                let mut graph = context.capture(Some(x), |s, x| match x {
                    Some(x) => x.copy_from(s, &y),
                    None => Ok(()),
                })?;
                let Some(x) = graph.state_mut().take() else { return Ok(()) };
                ensure!(x.into_vec().is_err(), "it came back beside a graph that writes it");
                // The graph has kept the memory, which is no other vector's.
                let beside = vec![7u32; 3000];
                graph.launch(&stream)?;
                stream.synchronize()?;
                ensure!(beside.iter().all(|x| *x == 7), "a launch wrote another vector");
            }
        }
    }
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    Ok(())
}

/// Drops or forgets registered vectors that the device still writes, and takes memory of their size at once.
///
/// - row: a registered vector comes back only
/// - targets: `UnifiedBuffer::register`, `Context::free_deferred`
pub(super) fn registered_vectors_dropped_in_flight(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let n = 1 << 15;
    for round in 0..12u32 {
        let y = DeviceBuffer::from_slice(&other, &vec![round; n])?;
        let mut x = UnifiedBuffer::register(&stream, vec![0u32; n])?;
        x.copy_from(&other, &y)?;
        match lab.variant() {
            "forgotten" => std::mem::forget(x),
            "collected" => {
                drop(x);
                context.free_deferred()?;
            }
            _ => drop(x),
        }
        let fresh = [vec![7u32; n], vec![7; n], vec![7; n]];
        other.synchronize()?;
        for vector in &fresh {
            ensure!(vector.iter().all(|x| *x == 7), "round {round}: the device wrote it");
        }
    }
    Ok(())
}

/// Registers many vectors that share pages, and takes them back in another order, from several threads.
///
/// - row: a registered vector comes back only
/// - targets: `UnifiedBuffer::register`, `UnifiedBuffer::into_vec`, `UnifiedBuffer::host_mut`
pub(super) fn vectors_that_share_pages(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let context = &context;
    let ended = std::thread::scope(|scope| {
        let threads = [1u32, 2, 3].map(|number| {
            scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                let other = context.stream()?;
                let mut all = Vec::new();
                for i in 0..24u32 {
                    let vector = vec![0u32; 1 + i as usize % 5];
                    let mut x = UnifiedBuffer::register(&stream, vector)?;
                    x.host_mut()?[0] = i;
                    let source =
                        DeviceBuffer::from_slice(&other, &vec![number * 100 + i; x.len()])?;
                    x.copy_from(&other, &source)?;
                    all.push((x, i));
                    if i % 3 == 2 {
                        let (x, i) = all.swap_remove(i as usize / 7);
                        let Ok(vector) = x.into_vec() else {
                            return Err(Failure::new("the vector does not come back"));
                        };
                        ensure!(vector.iter().all(|x| *x == number * 100 + i), "vector {i}");
                    }
                }
                for (x, i) in all {
                    ensure!(x.host()?.iter().all(|x| *x == number * 100 + i), "vector {i}");
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
    Ok(())
}
