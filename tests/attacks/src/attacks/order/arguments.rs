//! Attacks on the order of uses by the way in which memory is passed.

use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::{DeviceBuffer, LaunchConfig, kernels};
use test_harness::{Failure, TestResult, ensure_eq};

use super::random::Random;
use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i reads element i of a, b and c, and writes element i of x, if i < n.
    unsafe in r#"
        extern "C" __global__ void
        sum(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = a[i] + b[i] + c[i];
        }
    "# {
        safe fn sum(a: &[u32], b: &[u32], c: &[u32], x: &mut [u32], n: u32)
            where n <= a.len(), n <= b.len(), n <= c.len(), n <= x.len();
    }
}

const N: usize = 300;

/// Launches with the same buffers in other orders, twice or in overlapping parts, in several threads at once, while
/// another thread launches a graph that uses them too.
///
/// - row: work that uses the same bytes
/// - row: nothing slips in between
/// - targets: `DeviceBuffer::slice`, `Context::capture`, `DeviceBuffer::zeroed`
pub(super) fn arguments_in_other_orders(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let stream = context.stream()?;
    let kernels = Kernels::load(&context)?;
    let [a, b, c] = [1u32, 10, 100].map(|value| DeviceBuffer::from_slice(&stream, &[value; N]));
    let (a, b, c) = (a?, b?, c?);
    let (a, b, c, kernels, context) = (&a, &b, &c, &kernels, &context);
    let launch = LaunchConfig::cover(N, 64);
    let ended = &AtomicBool::new(false);
    let results = std::thread::scope(|scope| {
        let orders = [[a, b, c], [c, b, a], [b, c, a], [a, a, c]].map(|order| {
            scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                let [p, q, r] = order;
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
                for _ in 0..30 {
                    kernels.sum(&stream, launch, p, q, r, &mut x, N as u32)?;
                    let (p, r) = (p.slice(1..)?, r.slice(..N - 1)?);
                    kernels.sum(&stream, launch, p, r, p, x.slice_mut(..N - 1)?, N as u32 - 1)?;
                }
                let last = order[0].to_vec(&stream)?[0];
                let wanted = 2 * last + order[2].to_vec(&stream)?[0];
                ensure_eq!(x.to_vec(&stream)?[..N - 1], [wanted; N - 1]);
                Ok(())
            })
        });
        let launches = scope.spawn(move || -> TestResult {
            let stream = context.stream()?;
            let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
            let mut graph =
                context.capture(x, |s, x| kernels.sum(s, launch, c, a, b, &mut *x, N as u32))?;
            while !ended.load(Ordering::SeqCst) {
                graph.launch(&stream)?;
                stream.synchronize()?;
            }
            graph.launch(&stream)?;
            ensure_eq!(graph.state().to_vec(&stream)?, [111; N]);
            Ok(())
        });
        let orders = orders.map(|thread| thread.join());
        ended.store(true, Ordering::SeqCst);
        orders.into_iter().chain([launches.join()]).collect::<Vec<_>>()
    });
    for result in results {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}

/// Copies between two devices on streams of either, and drops or overwrites both ends at once.
///
/// - row: work that uses the same bytes
/// - row: memory of a peer is used only where
/// - row: device memory is freed after the last work
/// - targets: `DeviceSliceMut::copy_from_peer`, `DeviceBuffer::slice_mut`, `DeviceBuffer::try_clone`
pub(super) fn copies_between_devices(lab: &Lab) -> TestResult {
    let contexts = [lab.context_of(0)?, lab.context_of(1)?];
    let mut random = Random::new(21);
    let mut kept = Vec::new();
    let mut x = DeviceBuffer::from_slice(&contexts[0].stream()?, &[0u32; N])?;
    let mut now = vec![0u32; N];
    let mut side = 0;
    for round in 1..60u32 {
        let to = &contexts[1 - side];
        let mut y = DeviceBuffer::<u32>::zeroed(&to.stream()?, N)?;
        let begin = random.below(N);
        let on = contexts[random.below(2)].stream()?;
        let (source, target) = (x.slice(begin..)?, y.slice_mut(begin..)?);
        let mut target = target;
        target.copy_from_peer(&on, source)?;
        now[..begin].fill(0);
        // What was copied is overwritten, or freed, on streams that know nothing of the copy.
        x.fill(&contexts[side].stream()?, u32::MAX)?;
        match random.below(3) {
            0 => drop(std::mem::replace(&mut x, y)),
            1 => {
                x = y.try_clone(&to.stream()?)?;
                kept.push((y, now.clone(), 1 - side));
            }
            _ => std::mem::swap(&mut x, &mut y),
        }
        side = 1 - side;
        if random.below(2) == 0 {
            x.fill(&contexts[side].stream()?, round)?;
            now.fill(round);
        }
    }
    kept.push((x, now, side));
    for (x, now, side) in &kept {
        ensure_eq!(x.to_vec(&contexts[*side].stream()?)?, *now);
    }
    Ok(())
}
