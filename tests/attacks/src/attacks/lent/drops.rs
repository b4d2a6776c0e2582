//! Attacks by values of frameworks whose drops panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cuda_safe::{DeviceBuffer, LaunchConfig, PinnedBuffer};
use test_harness::{TestResult, ensure, ensure_eq};

use super::{Kernels, N};
use crate::lab::Lab;

/// Panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any("in a drop");
    }
}

/// Ends a call whose allocator panics when it is dropped, while another stream reads lent memory, and lets the framework
/// overwrite that memory and destroy its stream.
///
/// - row: lent memory is not used after its call
/// - row: what outlives a call is ordered behind it
/// - row: drops of what host functions, tokens
/// - targets: `LentStream::set_allocator`, `LentStream::view`, `DeviceBuffer::from_slice`
pub(super) fn an_allocator_that_panics_when_dropped(lab: &Lab) -> TestResult {
    let framework = lab.framework(lab.variant() == "legacy")?;
    let (tensor, stream) = (framework.tensor(&[5; N])?, lab.stream()?);
    let (context, drops) = (lab.context()?, Arc::new(AtomicUsize::new(0)));
    let kernels = Kernels::load(&context)?;
    let allocator = || {
        let bomb = Bomb(drops.clone());
        framework.allocator(move || _ = &bomb)
    };
    if lab.variant() == "captured" {
        drop(framework.capture(|lent| {
            lent.set_allocator(allocator());
            Ok(())
        })?);
        ensure!(!context.is_recording(), "the context still records");
        context.synchronize()?;
    }
    let mut seen = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let made = framework.lend(|lent| {
        let view = lent.view::<u32>(&tensor)?;
        kernels.lent_copy(&stream, LaunchConfig::cover(N, 128), view, &mut seen, N as u32)?;
        let made = DeviceBuffer::from_slice(lent, &[7_u32; N])?;
        lent.set_allocator(allocator());
        Ok(made)
    })?;
    framework.lend(|lent| lent.view_mut::<u32>(&tensor)?.fill(lent, 9))?;
    ensure_eq!(seen.to_vec(&stream)?, vec![5; N]);
    drop((tensor, framework));
    ensure_eq!(made.to_vec(&stream)?, vec![7; N]);
    ensure!(drops.load(Ordering::SeqCst) > 0, "an allocator was not dropped");
    Ok(())
}

/// Lets a framework's graph keep values that panic when they are dropped, and empties the list that they are dropped from
/// together with other things.
///
/// - row: drops of what host functions, tokens
/// - targets: `Stream::retain`, `Context::free_deferred`, `PinnedBuffer::zeroed`
pub(super) fn kept_values_that_panic_when_dropped(lab: &Lab) -> TestResult {
    let framework = lab.framework(false)?;
    let (context, drops) = (lab.context()?, Arc::new(AtomicUsize::new(0)));
    for round in 1..4 {
        let graph = framework.capture(|lent| {
            lent.retain(Arc::new(Bomb(drops.clone())))?;
            lent.retain(Arc::new(Bomb(drops.clone())))
        })?;
        graph.launch()?;
        context.synchronize()?;
        drop(graph);
        drop((Kernels::load(&context)?, PinnedBuffer::<u32>::zeroed(&context, N)?));
        // A thread of the driver destroys what the graph has kept.
        let begin = Instant::now();
        while context.stats().deferred_frees < 3 {
            ensure!(begin.elapsed() < Duration::from_secs(10), "{:?}", context.stats());
            std::thread::yield_now();
        }
        if lab.variant() == "lend" {
            framework.lend(|_| Ok(()))?;
        }
        context.free_deferred()?;
        ensure_eq!(drops.load(Ordering::SeqCst), 2 * round);
        ensure_eq!(context.stats().deferred_frees, 0, "round {round}");
    }
    Ok(())
}
