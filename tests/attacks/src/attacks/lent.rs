//! Attacks on streams, memory and graphs of frameworks.

mod drops;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use cuda_safe::{Allocation, Context, DeviceBuffer, LaunchConfig, Pool, Result, Stream, kernels};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::framework::Framework;
use crate::lab::Lab;
use drops::{an_allocator_that_panics_when_dropped, kept_values_that_panic_when_dropped};

kernels! {
    struct Kernels;
    // SAFETY: thread i reads element i of y and writes element i of x, if i < n.
    unsafe in r#"
        extern "C" __global__ void lent_copy(const unsigned* y, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = y[i];
        }
    "# {
        safe fn lent_copy(y: &[u32], x: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
    }
}

const N: usize = 1000;

/// Keeps a handle to a lent stream, and enqueues on it after the call, also from another thread.
///
/// - row: a lent stream is used inside its call alone
/// - targets: `DeviceBuffer::zeroed`, `DeviceBuffer::fill`, `Stream::synchronize`
fn stream_after_its_call(lab: &Lab) -> TestResult {
    let refusal = "lent for a call";
    let framework = lab.framework(lab.variant() == "legacy")?;
    let (stream, mut buffer): (Stream, DeviceBuffer<u32>) =
        framework.lend(|lent| Ok(((**lent).clone(), DeviceBuffer::zeroed(lent, N)?)))?;
    drop(framework);
    lab.refused(buffer.fill(&stream, 1), refusal)?;
    lab.refused(DeviceBuffer::<u32>::zeroed(&stream, N), refusal)?;
    lab.refused(stream.synchronize(), refusal)?;
    thread::scope(|scope| scope.spawn(|| stream.synchronize().is_err()).join().is_ok());
    ensure_eq!(buffer.to_vec(&lab.stream()?)?, vec![0; N]);
    Ok(())
}

/// Drops memory of a lent stream when that stream is gone and others read the memory.
///
/// - row: what outlives a call is ordered behind it
/// - targets: `DeviceBuffer::from_slice`, `DeviceBuffer::try_clone`
fn memory_of_a_stream_that_is_gone(lab: &Lab) -> TestResult {
    let framework = lab.framework(lab.variant() == "legacy")?;
    let buffer = framework.lend(|lent| DeviceBuffer::from_slice(lent, &[7_u32; N]))?;
    drop(framework);
    let stream = lab.stream()?;
    let seen = buffer.try_clone(&stream)?;
    drop(buffer);
    let mut others = Vec::new();
    for _ in 0..4 {
        let mut other = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        other.fill(&stream, 1)?;
        others.push(other);
    }
    ensure_eq!(seen.to_vec(&stream)?, vec![7; N]);
    Ok(())
}

/// Uses a tensor's memory on another stream until the call ends, and lets the framework overwrite it then.
///
/// - row: lent memory is not used after its call
/// - targets: `LentStream::view`, `LentStream::view_mut`
fn lent_memory_on_another_stream(lab: &Lab) -> TestResult {
    let framework = lab.framework(false)?;
    let (tensor, stream) = (framework.tensor(&[5; N])?, lab.stream()?);
    let kernels = Kernels::load(&lab.context()?)?;
    let mut seen = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    framework.lend(|lent| {
        let view = lent.view::<u32>(&tensor)?;
        kernels.lent_copy(&stream, LaunchConfig::cover(N, 128), view, &mut seen, N as u32)
    })?;
    framework.lend(|lent| lent.view_mut::<u32>(&tensor)?.fill(lent, 9))?;
    ensure_eq!(seen.to_vec(&stream)?, vec![5; N]);
    Ok(())
}

/// Takes two views of the same bytes of a tensor, one of them for writing.
///
/// - row: no two views of lent memory overlap
/// - targets: `LentStream::view`, `LentStream::view_mut`, `LentStream::view_strided`, `Tensor::into_buffer`
fn overlapping_views(lab: &Lab) -> TestResult {
    let refusal = "overlaps";
    let framework = lab.framework(false)?;
    let (tensor, other) = (framework.tensor(&[5; N])?, framework.tensor(&[5; N])?);
    let (mut read, mut strided, mut kept) = (None, None, None);
    framework.lend(|lent| {
        let mut view = lent.view_mut::<u32>(&tensor)?;
        read = Some(lent.view::<u32>(&tensor).map(drop));
        strided = Some(lent.view_strided::<u32>(&tensor).map(|view| {
            let _ = view.data();
        }));
        view.fill(lent, 1)?;
        lent.view::<u32>(&other)?.to_vec(lent)?;
        kept =
            Some(other.into_buffer::<u32>(lent).map(drop).map_err(|refused| refused.to_string()));
        Ok(())
    })?;
    for refused in [read, strided].into_iter().flatten() {
        lab.refused(refused, refusal)?;
    }
    kept.map_or(Ok(()), |kept| lab.refused(kept, refusal))
}

/// Writes memory that a graph of the framework reads, and drops it before the graph runs.
///
/// - row: a graph of other code keeps what it uses
/// - targets: `LentStream::view_mut`, `DeviceBuffer::fill`
fn memory_of_a_frameworks_graph(lab: &Lab) -> TestResult {
    let refusal = "a graph that other code has captured";
    let framework = lab.framework(false)?;
    let (tensor, stream) = (framework.tensor(&[0; N])?, lab.stream()?);
    let kernels = Kernels::load(&lab.context()?)?;
    let gone = DeviceBuffer::from_slice(&stream, &[3_u32; N])?;
    let mut kept = DeviceBuffer::from_slice(&stream, &[4_u32; N])?;
    let mut scratch = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    kernels.lent_copy(&stream, LaunchConfig::cover(N, 128), &kept, &mut scratch, N as u32)?;
    stream.synchronize()?;
    let graph = framework.capture(|lent| {
        let mut view = lent.view_mut::<u32>(&tensor)?;
        let half = N as u32 / 2;
        kernels.lent_copy(lent, LaunchConfig::cover(N, 128), &kept, &mut view, N as u32)?;
        kernels.lent_copy(lent, LaunchConfig::cover(N, 128), &gone, &mut view, half)
    })?;
    drop(gone);
    let mut other = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    other.fill(&stream, 99)?;
    lab.refused(kept.fill(&stream, 8), refusal)?;
    lab.refused(
        kernels.lent_copy(&stream, LaunchConfig::cover(N, 128), &other, &mut kept, 1),
        refusal,
    )?;
    stream.synchronize()?;
    graph.launch()?;
    let seen = framework.lend(|lent| lent.view::<u32>(&tensor)?.to_vec(lent))?;
    let expected: Vec<u32> = (0..N).map(|i| if i < N / 2 { 3 } else { 4 }).collect();
    ensure_eq!(seen, expected);
    Ok(())
}

/// Does in a framework's capture what would invalidate it.
///
/// - row: a framework's capture is not spoilt
/// - targets: `Stream::synchronize`, `Stream::wait_stream`, `Context::synchronize`, `DeviceBuffer::to_vec`
fn what_would_spoil_a_capture(lab: &Lab) -> TestResult {
    let framework = lab.framework(false)?;
    let (tensor, stream, context) = (framework.tensor(&[0; N])?, lab.stream()?, lab.context()?);
    let busy = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut outcomes = Vec::new();
    let graph = framework.capture(|lent| {
        let mut view = lent.view_mut::<u32>(&tensor)?;
        outcomes.push(lent.synchronize());
        outcomes.push(lent.wait_stream(&stream));
        outcomes.push(stream.wait_stream(lent));
        outcomes.push(context.synchronize());
        outcomes.push(view.to_vec(lent).map(drop));
        view.fill(lent, 6)
    })?;
    for outcome in outcomes {
        lab.refused(outcome, "")?;
    }
    graph.launch()?;
    ensure_eq!(framework.lend(|lent| lent.view::<u32>(&tensor)?.to_vec(lent))?, vec![6; N]);
    drop(busy);
    Ok(())
}

/// Gives a buffer away, and takes memory of its size while the consumer's work may still read it.
///
/// - row: a tensor's deleter runs once
/// - targets: `DeviceBuffer::into_dlpack`, `DeviceBuffer::into_dlpack_unversioned`, `Tensor::into_buffer`
fn memory_of_an_exported_tensor(lab: &Lab) -> TestResult {
    let framework = lab.framework(false)?;
    let (stream, target) = (lab.stream()?, framework.tensor(&[0; N])?);
    let kernels = Kernels::load(&lab.context()?)?;
    let buffer = DeviceBuffer::from_slice(&stream, &[6_u32; N])?;
    let consumer = framework.consumer()?;
    let tensor = match lab.variant() {
        "versioned" => framework.import(buffer.into_dlpack(&[N], consumer)?)?,
        _ => framework.import_unversioned(buffer.into_dlpack_unversioned(&[N], consumer)?)?,
    };
    framework.lend(|lent| {
        let source = tensor.into_buffer::<u32>(lent)?;
        let mut view = lent.view_mut::<u32>(&target)?;
        kernels.lent_copy(lent, LaunchConfig::cover(N, 128), &source, &mut view, N as u32)
    })?;
    for value in 0..4 {
        DeviceBuffer::<u32>::zeroed(&stream, N)?.fill(&stream, value)?;
    }
    ensure_eq!(framework.lend(|lent| lent.view::<u32>(&target)?.to_vec(lent))?, vec![6; N]);
    Ok(())
}

/// Drops pools before their buffers.
///
/// - row: memory of a pool lives
/// - targets: `Pool::new`, `Pool::default_of`, `Pool::context`, `DeviceBuffer::zeroed_in`,
///   `DeviceBuffer::from_slice_in`, `DeviceBuffer::uninit_in`
fn buffers_of_pools_that_are_gone(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let pool = Pool::new(&context)?;
    ensure_eq!(pool.context(), context);
    let values = DeviceBuffer::from_slice_in(&pool, &stream, &[8_u32; N])?;
    let mut zeros = DeviceBuffer::<u32>::zeroed_in(&Pool::default_of(&context)?, &stream, N)?;
    let written = DeviceBuffer::uninit_in(&pool, &stream, N)?.init_from(&stream, &[1_u32; N])?;
    drop(pool);
    zeros.copy_from(&stream, &values)?;
    drop(values);
    ensure_eq!(zeros.to_vec(&stream)?, vec![8; N]);
    ensure_eq!(written.to_vec(&stream)?, vec![1; N]);
    Ok(())
}

/// Closes pools whose buffers and handles are alive, and drops what the errors hand back in every order.
///
/// - row: memory of a pool lives
/// - targets: `Pool::close`, `Pool::default_of`, `DeviceBuffer::zeroed_in`
fn pools_closed_while_in_use(lab: &Lab) -> TestResult {
    let refusal = "still in use";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let pool = Pool::new(&context)?;
    let mut buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, N)?;
    buffer.fill(&stream, 3)?;
    let refused = match pool.close() {
        Err(refused) => refused,
        Ok(()) => return lab.refused(Ok::<(), &str>(()), refusal),
    };
    let (pool, error) = refused.into_parts();
    lab.refused(Err::<(), _>(error), refusal)?;
    ensure_eq!(buffer.to_vec(&stream)?, vec![3; N]);
    let copy = buffer.try_clone(&stream)?;
    if lab.variant() == "buffer_first" {
        drop(buffer);
        pool.close()?;
    } else {
        drop(pool);
        buffer.fill(&stream, 4)?;
        ensure_eq!(buffer.to_vec(&stream)?, vec![4; N]);
    }
    ensure_eq!(copy.to_vec(&stream)?, vec![3; N]);
    // The device's own pool is shared with the frameworks, and closing a handle to it destroys nothing.
    let other = Pool::default_of(&context)?;
    Pool::default_of(&context)?.close()?;
    ensure_eq!(DeviceBuffer::<u32>::zeroed_in(&other, &stream, N)?.to_vec(&stream)?, vec![0; N]);
    Ok(())
}

/// Works with the crate as other code of the process does, on this thread and on one that is waited for.
fn everything(framework: &Framework, context: &Context) -> Result<()> {
    let work = |context: &Context| -> Result<()> {
        let stream = context.stream()?;
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, N)?;
        buffer.fill(&stream, 1)?;
        let mut graph = context.capture(buffer, |stream, buffer| buffer.fill(stream, 2))?;
        graph.launch(&stream)?;
        drop(graph);
        context.synchronize()?;
        context.free_deferred()
    };
    work(context)?;
    let joined = thread::scope(|scope| {
        // The other thread may lend the same stream, since it is in no call.
        let lends = scope.spawn(|| {
            work(context)?;
            framework.lend(|lent| DeviceBuffer::<u32>::zeroed(lent, N)?.to_vec(lent).map(drop))
        });
        lends.join()
    });
    joined.unwrap_or_else(|_| Err(cuda_safe::Error::invalid("a thread panicked")))
}

/// Lends a stream again in a call and in its allocator, works with the crate there, and panics or does not.
///
/// - row: closures of `Context::lend`
/// - targets: `LentStream::set_allocator`, `DeviceBuffer::zeroed`, `Context::capture`, `Context::free_deferred`
fn calls_in_calls(lab: &Lab) -> TestResult {
    let (legacy, place) = match lab.variant().strip_prefix("legacy_") {
        Some(place) => (true, place),
        None => (false, lab.variant()),
    };
    let framework = Arc::new(lab.framework(legacy)?);
    let context = lab.context()?;
    for panics in [false, true] {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let enter = {
            let (framework, context, outcomes) =
                (framework.clone(), context.clone(), outcomes.clone());
            move || {
                let nested = framework.lend(|_| Ok(()));
                let rest = everything(&framework, &context);
                outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((nested, rest));
                assert!(!panics, "on purpose");
            }
        };
        let caught = catch_unwind(AssertUnwindSafe(|| {
            framework.lend(|lent| {
                match place {
                    "closure" => enter(),
                    _ => lent.set_allocator(framework.allocator(enter)),
                }
                let mut scratch = DeviceBuffer::<u32>::zeroed(lent, N)?;
                scratch.fill(lent, 5)?;
                scratch.to_vec(lent)
            })
        }));
        match caught {
            Ok(values) => {
                ensure!(!panics, "the panic did not come out");
                ensure_eq!(values?, vec![5; N]);
            }
            Err(_) => ensure!(panics, "the call has panicked"),
        }
        let outcomes =
            std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        ensure_eq!(outcomes.len(), 1);
        for (nested, rest) in outcomes {
            lab.refused(nested, "inside a call of `Context::lend`")?;
            rest?;
        }
        // The thread is in no call, and no allocator is set.
        let values = framework.lend(|lent| DeviceBuffer::<u32>::zeroed(lent, N)?.to_vec(lent))?;
        ensure_eq!(values, vec![0; N]);
    }
    Ok(())
}

/// Works with the crate, and lends the stream, in the deleters of tensors: where a view has just ended, where a kept
/// tensor is dropped, on another thread, and in `free_deferred`.
///
/// - row: deleters of tensors
/// - row: a tensor's deleter runs once
/// - targets: `LentStream::view`, `Tensor::into_buffer`, `DeviceBuffer::fill`, `Context::free_deferred`
fn deleters_that_use_the_crate(lab: &Lab) -> TestResult {
    let framework = Arc::new(lab.framework(false)?);
    let context = lab.context()?;
    let deletions = Arc::new(Mutex::new(Vec::new()));
    let deleted = {
        let (other, context, deletions) =
            (lab.framework(true)?, context.clone(), deletions.clone());
        move || {
            let outcome = everything(&other, &context);
            deletions.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    let tensor = framework.tensor_with(&[5; N], deleted)?;
    let stream = lab.stream()?;
    match lab.variant() {
        "tensor" => {
            let seen = framework.lend(|lent| lent.view::<u32>(&tensor)?.to_vec(lent))?;
            ensure_eq!(seen, vec![5; N]);
            drop(tensor);
        }
        "in_the_call" => {
            let seen = framework.lend(|lent| {
                let seen = lent.view::<u32>(&tensor)?.to_vec(lent);
                drop(tensor);
                seen
            })?;
            ensure_eq!(seen, vec![5; N]);
        }
        place => {
            let mut kept = framework.lend(|lent| Ok(tensor.into_buffer::<u32>(lent)?))?;
            kept.fill(&stream, 7)?;
            ensure_eq!(kept.to_vec(&stream)?, vec![7; N]);
            match place {
                "kept" => framework.lend(|_| {
                    drop(kept);
                    Ok(())
                })?,
                "elsewhere" => {
                    let joined = thread::scope(|scope| scope.spawn(move || drop(kept)).join());
                    ensure!(joined.is_ok(), "the drop has panicked");
                    framework.lend(|_| Ok(()))?;
                }
                _ => drop(kept),
            }
        }
    }
    context.free_deferred()?;
    let deletions = std::mem::take(&mut *deletions.lock().unwrap_or_else(PoisonError::into_inner));
    ensure_eq!(deletions.len(), 1);
    deletions.into_iter().try_for_each(|outcome| Ok(outcome?))
}

/// Keeps handles to lent memory beyond its call, weak ones too, and looks through them while later calls lend other memory by
/// the same stream, also in two threads.
///
/// - row: what a call leaves for later ones
/// - row: lent memory is not used after its call
/// - targets: `LentStream::view`, `LentStream::view_mut`, `DeviceSlice::allocation`, `Allocation::keep`,
///   `Allocation::version`
fn handles_of_ended_calls(lab: &Lab) -> TestResult {
    let (framework, stream) = (lab.framework(false)?, lab.stream()?);
    let first = framework.tensor(&[5; N])?;
    let others = [framework.tensor(&[6; N])?, framework.tensor(&[7; N / 2])?];
    let mut strong = Vec::new();
    let mut weak: Vec<Weak<Allocation>> = Vec::new();
    let (bytes, version) = framework.lend(|lent| {
        let view = lent.view::<u32>(&first)?;
        let handle = view.allocation();
        match lab.variant() {
            "strong" => strong.push(handle.clone()),
            "weak" => weak.push(Arc::downgrade(handle)),
            _ => {
                view.to_vec(lent)?;
                weak.push(Arc::downgrade(handle));
            }
        }
        Ok(((handle.device_ptr(), handle.size_bytes()), handle.version(0..4 * N)))
    })?;
    for round in 0..4 {
        for tensor in &others {
            framework.lend(|lent| lent.view_mut::<u32>(tensor)?.fill(lent, round))?;
            // The tensor keeps the memory of its views, so a weak handle may bring it back, and no other.
            for handle in strong.iter().cloned().chain(weak.iter().filter_map(Weak::upgrade)) {
                let _kept = handle.keep(&stream);
                ensure_eq!((handle.device_ptr(), handle.size_bytes()), bytes);
                ensure_eq!(handle.version(0..4 * N), version);
            }
        }
    }
    let kept = framework.lend(|lent| Ok((**lent).clone()))?;
    lab.refused(kept.synchronize(), "lent for a call")?;
    drop(kept);
    let ended = thread::scope(|scope| {
        let threads = [1, 2].map(|value| {
            let framework = &framework;
            scope.spawn(move || {
                (0..50).all(|_| {
                    // The stream is one thread's at a time: the other one's call is refused.
                    let filled = framework.lend(|lent| {
                        let mut x = DeviceBuffer::<u32>::zeroed(lent, N)?;
                        x.fill(lent, value)?;
                        x.to_vec(lent)
                    });
                    filled.map_or(true, |seen| seen == [value; N])
                })
            })
        });
        threads.map(|thread| thread.join().is_ok_and(|right| right))
    });
    ensure_eq!(ended, [true; 2]);
    framework.lend(|lent| {
        for (tensor, len) in others.iter().zip([N, N / 2]) {
            let seen = lent.view::<u32>(tensor)?.to_vec(lent)?;
            if seen.len() != len || seen.iter().any(|value| *value != seen[0]) {
                return Err(cuda_safe::Error::invalid("memory of another call"));
            }
        }
        Ok(())
    })?;
    Ok(())
}

attacks![
    "lent",
    right(an_allocator_that_panics_when_dropped).variants(&["own", "legacy", "captured"]),
    right(kept_values_that_panic_when_dropped).variants(&["lend", "collect"]),
    refused(stream_after_its_call).variants(&["own", "legacy"]),
    right(memory_of_a_stream_that_is_gone).variants(&["own", "legacy"]),
    right(lent_memory_on_another_stream),
    refused(overlapping_views),
    refused(memory_of_a_frameworks_graph),
    right(what_would_spoil_a_capture),
    right(memory_of_an_exported_tensor).variants(&["versioned", "unversioned"]),
    right(buffers_of_pools_that_are_gone),
    refused(pools_closed_while_in_use).variants(&["buffer_first", "pool_first"]),
    refused(calls_in_calls).variants(&[
        "closure",
        "allocator",
        "legacy_closure",
        "legacy_allocator"
    ]),
    right(deleters_that_use_the_crate).variants(&[
        "tensor",
        "in_the_call",
        "kept",
        "elsewhere",
        "beyond_the_stream"
    ]),
    refused(handles_of_ended_calls).variants(&["strong", "weak", "weak of a read"]),
];
