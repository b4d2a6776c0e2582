//! Attacks on what is left after errors: of kernels, of the driver, and of others that take the context away.

use std::collections::BTreeSet;

use cuda_safe::{
    DeviceBuffer, Event, LaunchConfig, PinnedBuffer, Result, Stream, UnifiedBuffer, kernels,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq, limited_to};

use crate::attacks::order::random::Random;
use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: `stop` touches no memory. Thread i of `add` reads element i of y, and reads and writes element i of x,
    // if i < n.
    unsafe in r#"
        extern "C" __global__ void stop() { __trap(); }
        extern "C" __global__ void add(const unsigned* y, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += y[i];
        }
    "# {
        safe fn stop();
        safe fn add(y: &[u32], x: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
    }
}

const N: usize = 500;

/// Runs the attack's step in a process of its own, under these variables.
fn in_a_process(lab: &Lab, step: &str, variables: &[(&str, String)]) -> TestResult {
    let mut again = lab.again(step)?;
    again.envs(variables.iter().map(|(name, value)| (name, value)));
    let outcome = limited_to(again, 25)?;
    ensure!(
        outcome.status.success(),
        "{step}, {variables:?}: {}{}",
        outcome.stdout,
        outcome.stderr
    );
    Ok(())
}

/// Uses and drops handles of every kind after a kernel has stopped with a trap.
///
/// - row: after a fatal error the driver is not asked
/// - row: a drop never waits, never panics
/// - targets: `UnifiedBuffer::host`, `PinnedBuffer::close`, `Event::close`, `Context::capture`, `Stream::mark`,
///   `DeviceBuffer::close`, `Context::take_drop_errors`
pub(super) fn handles_after_a_trap(lab: &Lab) -> TestResult {
    if lab.step() != "trap" {
        return in_a_process(lab, "trap", &[]);
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let mut unified = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    unified.host_mut()?.fill(6);
    let pinned = PinnedBuffer::from_slice(&context, &[7u32; N])?;
    let event = Event::new(&context)?;
    let mark = stream.mark()?;
    let mut graph = context.capture((), |s, ()| s.host_function_mut(|| ()))?;
    let transfer = x.upload_pinned(&stream, PinnedBuffer::from_slice(&context, &[8u32; N])?)?;
    let kept = unified.allocation().clone();
    kernels.stop(&stream, LaunchConfig::new(1, 1))?;
    kernels.add(&stream, LaunchConfig::cover(N, 64), &unified, &mut x, N as u32)?;
    let Err(first) = stream.synchronize() else { return Err(Failure::new("no error")) };
    ensure!(first.is_fatal() && first.is_asynchronous(), "{first}");
    let named = first.launches().iter().any(|launch| format!("{launch:?}").contains("stop"));
    ensure!(named, "the launch is not among {:?}", first.launches());
    let mut results: Vec<(&str, Result<()>)> = vec![
        ("download", x.to_vec(&stream).map(drop)),
        ("allocation", DeviceBuffer::<u32>::zeroed(&stream, 1).map(drop)),
        ("fill", x.fill(&stream, 1)),
        ("host", unified.host().map(drop)),
        ("host_mut", unified.host_mut().map(drop)),
        ("new stream", context.stream().map(drop)),
        ("new event", Event::new(&context).map(drop)),
        ("event", event.record(&stream)),
        ("mark", mark.synchronize()),
        ("graph", graph.launch(&stream)),
        ("capture", context.capture((), |_, ()| Ok(())).map(drop)),
        ("synchronize", context.synchronize()),
        ("check", context.check_alive()),
        ("context", context.device().context().map(drop)),
        ("load", Kernels::load(&context).map(drop)),
    ];
    results.push(("transfer", transfer.wait().map(drop)));
    for (what, result) in results {
        match result {
            // The host has seen the mark done before the kernel.
            Ok(()) => ensure!(what == "mark" || what == "transfer", "{what} is no error"),
            Err(error) => {
                ensure!(error.is_fatal(), "{what}: {error}");
                ensure_eq!(error.code(), first.code(), "{what}");
            }
        }
    }
    ensure_eq!(pinned[..], [7; N]);
    let closed = (event.close().is_ok(), x.close().is_ok(), pinned.close().is_ok());
    ensure!(closed == (false, false, false), "closed without asking the driver: {closed:?}");
    drop((kept, graph, mark, unified, kernels));
    let errors = context.take_drop_errors();
    ensure!(errors.iter().all(|error| error.is_fatal()), "{errors:?}");
    Ok(())
}

/// Takes a call of the driver away, once at each of several places, from a program on several streams: a call that
/// fails is an error, and what it was to do is not done; all else is right.
///
/// - row: no answer of the driver makes the crate panic
/// - row: work that uses the same bytes
/// - targets: `DeviceBuffer::try_clone`, `UnifiedBuffer::host_mut`, `DeviceBuffer::upload_pinned`,
///   `Context::free_deferred`, `Context::take_drop_errors`
pub(super) fn calls_that_fail_in_a_program(lab: &Lab) -> TestResult {
    if lab.step() == "program" {
        return program_with_failures(lab);
    }
    for nth in [1, 4, 9] {
        let fail = format!("{}:{nth}:CUDA_ERROR_INVALID_VALUE", lab.variant());
        in_a_process(lab, "program", &[("CUDA_EMU_FAIL", fail)])?;
    }
    Ok(())
}

fn program_with_failures(lab: &Lab) -> TestResult {
    let Ok(context) = lab.context() else { return Ok(()) };
    let Ok(kernels) = Kernels::load(&context) else { return Ok(()) };
    let mut random = Random::new(3);
    let mut streams: Vec<Stream> = Vec::new();
    while streams.len() < 3 {
        streams.extend(context.stream());
    }
    // Each value with what must be there; `None` after a call that has failed.
    let mut all: Vec<(DeviceBuffer<u32>, Option<Vec<u32>>)> = Vec::new();
    while all.len() < 4 {
        if let Ok(x) = DeviceBuffer::from_slice(&streams[all.len() % 3], &[1; N]) {
            all.push((x, Some(vec![1; N])));
        }
    }
    let mut unified = loop {
        if let Ok(unified) = UnifiedBuffer::<u32>::pinned(&streams[0], N) {
            break unified;
        }
    };
    for step in 0..100u32 {
        let stream = random.pick(&streams).clone();
        let (i, j) = (random.below(4), random.below(3));
        let j = if j >= i { j + 1 } else { j };
        let [(x, x_now), (y, y_now)] =
            all.get_disjoint_mut([i, j]).map_err(|error| Failure::new(error.to_string()))?;
        let (result, now) = match random.below(8) {
            0 => (x.fill(&stream, step), Some(vec![step; N])),
            1 => (x.upload(&stream, &[step; N]), Some(vec![step; N])),
            2 => (x.copy_from(&stream, &*y), y_now.clone()),
            3 => match y.try_clone(&stream) {
                Ok(clone) => {
                    *x = clone;
                    (Ok(()), y_now.clone())
                }
                // Nothing has happened to `x`.
                Err(_) => (Ok(()), x_now.clone()),
            },
            4 => {
                let result =
                    kernels.add(&stream, LaunchConfig::cover(N, 64), &*y, &mut *x, N as u32);
                let sum = x_now.as_ref().zip(y_now.as_ref()).map(|(x, y)| {
                    x.iter().zip(y).map(|(x, y)| x.wrapping_add(*y)).collect::<Vec<_>>()
                });
                (result, sum)
            }
            5 => {
                if let Ok(seen) = x.to_vec(&stream)
                    && let Some(now) = x_now
                {
                    ensure!(seen == *now, "step {step}: {} instead of {}", seen[0], now[0]);
                }
                (Ok(()), x_now.clone())
            }
            6 => {
                let moved = unified.copy_from(&stream, &*x);
                if moved.is_ok()
                    && let Ok(mut seen) = unified.host_mut()
                {
                    if let Some(now) = x_now {
                        ensure!(seen[..] == now[..], "step {step}: a guard");
                    }
                    seen.fill(step);
                }
                (Ok(()), x_now.clone())
            }
            _ => {
                let transfer = PinnedBuffer::from_slice(&context, &[step; N])
                    .and_then(|source| x.upload_pinned(&stream, source));
                if transfer.is_err() {
                    // The copy may have been enqueued before an event that failed.
                    (transfer.map(drop), None)
                } else {
                    drop(transfer);
                    (Ok(()), Some(vec![step; N]))
                }
            }
        };
        match result {
            Ok(()) => *x_now = now,
            Err(error) => {
                ensure!(!error.is_fatal(), "step {step}: {error}");
                *x_now = None;
            }
        }
    }
    for (x, now) in &all {
        let seen = x.to_vec(&streams[0]).or_else(|_| x.to_vec(&streams[0]))?;
        if let Some(now) = now {
            ensure!(seen == *now, "at the end: {} instead of {}", seen[0], now[0]);
        }
    }
    drop((all, unified, streams));
    let _ = context.free_deferred();
    drop(context.take_drop_errors());
    ensure!(context.take_drop_errors().is_empty(), "errors of drops are given twice");
    context.free_deferred()?;
    Ok(())
}

/// Makes more drops fail than errors are kept, and looks for their errors in other calls.
///
/// - row: a drop never waits, never panics
/// - targets: `Context::take_drop_errors`, `Event::new`, `Event::close`, `DeviceBuffer::from_slice`
pub(super) fn errors_of_many_drops(lab: &Lab) -> TestResult {
    if lab.step() != "drops" {
        let fail = (1..=100).map(|n| format!("cuEventDestroy_v2:{n}:CUDA_ERROR_INVALID_VALUE"));
        let fail = fail.collect::<Vec<_>>().join(",");
        return in_a_process(lab, "drops", &[("CUDA_EMU_FAIL", fail)]);
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let closed = Event::new(&context)?.close();
    ensure!(closed.is_err(), "the driver has refused");
    drop(closed);
    for round in 0..120u32 {
        let event = Event::new(&context)?;
        event.record(&stream)?;
        drop(event);
        ensure_eq!(DeviceBuffer::from_slice(&stream, &[round; 9])?.to_vec(&stream)?, [round; 9]);
        context.synchronize()?;
    }
    let errors = context.take_drop_errors();
    ensure_eq!(errors.len(), 64);
    for error in &errors {
        ensure!(error.to_string().contains("cuEventDestroy"), "{error}");
        ensure!(!error.is_fatal(), "{error}");
    }
    ensure!(context.take_drop_errors().is_empty(), "errors are given twice");
    Ok(())
}

/// Goes on with old and new handles, and mixes them, after a call has told that others have destroyed the primary
/// context.
///
/// - row: once it is known that others have destroyed
/// - row: a drop never waits, never panics
/// - targets: `Context::check_alive`, `Context::close`, `Device::context`, `UnifiedBuffer::host`,
///   `PinnedBuffer::from_slice`, `DeviceBuffer::copy_from`
pub(super) fn handles_of_a_context_that_is_gone(lab: &Lab) -> TestResult {
    if lab.step() != "gone" {
        // The context is there, so the crate must not be able to find that out.
        let fail = "cuStreamSynchronize:1:CUDA_ERROR_CONTEXT_IS_DESTROYED,\
                    cuDevicePrimaryCtxGetState:1:CUDA_ERROR_INVALID_VALUE"
            .to_owned();
        return in_a_process(lab, "gone", &[("CUDA_EMU_FAIL", fail)]);
    }
    let context = lab.context()?;
    let stream = context.stream()?;
    let mut old = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let mut unified = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    unified.host_mut()?.fill(6);
    let pinned = PinnedBuffer::from_slice(&context, &[7u32; N])?;
    let guard = unified.host()?;
    let transfer =
        old.upload_pinned(&context.stream()?, PinnedBuffer::from_slice(&context, &[8u32; N])?)?;
    let mut graph = context.capture((), |s, ()| s.host_function_mut(|| ()))?;
    let Err(error) = stream.synchronize() else { return Err(Failure::new("no error")) };
    ensure!(error.name() == Some("CUDA_ERROR_CONTEXT_IS_DESTROYED"), "{error}");
    let stale = |what: &str, result: Result<()>| match result {
        Ok(()) => Err(Failure::new(format!("{what} of a context that is gone"))),
        Err(_) => Ok(()),
    };
    if lab.variant() == "before" {
        drop(guard);
        drop((transfer, graph, old, unified));
        ensure_eq!(pinned[..], [7; N]);
        stale("check", context.check_alive())?;
        let new = context.device().context()?;
        let stream = new.stream()?;
        ensure_eq!(DeviceBuffer::from_slice(&stream, &[1u32; N])?.to_vec(&stream)?, [1; N]);
        return Ok(());
    }
    stale("check", context.check_alive())?;
    let new = context.device().context()?;
    let on_new = new.stream()?;
    let mut x = DeviceBuffer::from_slice(&on_new, &[3u32; N])?;
    ensure_eq!(guard[..], [6; N]);
    drop(guard);
    stale("a download", old.to_vec(&stream).map(drop))?;
    stale("a download on a new stream", old.to_vec(&on_new).map(drop))?;
    stale("a copy", x.copy_from(&on_new, &old))?;
    stale("a copy on an old stream", x.copy_from(&stream, &old))?;
    stale("a fill", x.fill(&stream, 9))?;
    stale("a launch", graph.launch(&on_new))?;
    stale("a guard", unified.host_mut().map(drop))?;
    stale("a wait", on_new.wait_stream(&stream))?;
    stale("a mark", stream.mark().and_then(|mark| on_new.wait_mark(&mark)))?;
    stale("a transfer", x.upload_pinned(&stream, PinnedBuffer::zeroed(&new, N)?).map(drop))?;
    ensure_eq!(pinned[..], [7; N]);
    if lab.variant() == "between" {
        drop((old, unified, graph, stream));
        let _ = transfer.wait().is_ok();
        let _ = context.free_deferred();
        drop((pinned, context));
    }
    let kernels = Kernels::load(&new)?;
    let y = x.try_clone(&new.stream()?)?;
    kernels.add(&on_new, LaunchConfig::cover(N, 64), &y, &mut x, N as u32)?;
    ensure_eq!(x.to_vec(&on_new)?, [6; N]);
    new.free_deferred()?;
    Ok(())
}

/// Ends the process with work, transfers and host functions in flight: by leaving, exiting, or exiting in a host
/// function or another thread.
///
/// - row: the process may end with work in flight
/// - targets: `Stream::host_function`, `DeviceBuffer::download_pinned`, `Context::capture`
pub(super) fn ends_with_work_in_flight(lab: &Lab) -> TestResult {
    if lab.step() != "end" {
        let mut again = lab.again("end")?;
        again.env_remove("RUST_BACKTRACE");
        let outcome = limited_to(again, 15)?;
        let codes: BTreeSet<i32> = match lab.variant() {
            "leaving" | "forgotten" => [0].into(),
            _ => [7].into(),
        };
        let code = outcome.status.code().unwrap_or(-1);
        ensure!(codes.contains(&code), "ended with {}: {}", outcome.status, outcome.stderr);
        return Ok(());
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let other = context.stream()?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 1 << 16)?;
    let mut graph = context.capture((), |s, ()| {
        s.host_function_mut(|| std::thread::sleep(std::time::Duration::from_millis(5)))
    })?;
    let mut transfers = Vec::new();
    for _ in 0..10 {
        graph.launch(&stream)?;
        x.fill(&stream, 1)?;
        transfers.push(x.download_pinned(&other, PinnedBuffer::zeroed(&context, 1 << 16)?)?);
        other.host_function(|| std::thread::sleep(std::time::Duration::from_millis(5)))?;
    }
    match lab.variant() {
        "exiting" => std::process::exit(7),
        "in_a_function" => {
            stream.host_function(|| std::process::exit(7))?;
            context.synchronize()?;
            Err(Failure::new("the function did not exit"))
        }
        "in_a_thread" => {
            let ends = std::thread::spawn(|| std::process::exit(7));
            for _ in 0..100 {
                x.fill(&other, 2)?;
                context.synchronize()?;
            }
            drop(ends.join());
            Err(Failure::new("the thread did not exit"))
        }
        "forgotten" => {
            std::mem::forget((x, graph, transfers, stream, other, context));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Lets calls of the driver answer that the context is invalid, as they do if a context of somebody else was destroyed
/// while it was current: the call fails, and buffers, graphs and guards are as they were.
///
/// - row: a code that calls a context invalid
/// - row: no answer of the driver makes the crate panic
/// - targets: `Context::check_alive`, `DeviceBuffer::fill`, `Context::capture`, `UnifiedBuffer::host`,
///   `Driver::device`, `Device::context`
pub(super) fn contexts_that_are_called_invalid(lab: &Lab) -> TestResult {
    const CALLS: [&str; 6] = [
        "cuMemsetD32Async",
        "cuMemcpyDtoDAsync_v2",
        "cuStreamCreateWithPriority",
        "cuLaunchKernel",
        "cuGraphLaunch",
        "cuMemAllocFromPoolAsync",
    ];
    if lab.step() != "invalid" {
        for call in CALLS {
            // Every fourth call, from one on that finds the handles made.
            let fail = (9..=60).step_by(4).map(|nth| format!("{call}:{nth}:{}", lab.variant()));
            let fail = fail.collect::<Vec<_>>().join(",");
            in_a_process(lab, "invalid", &[("CUDA_EMU_FAIL", fail)])?;
        }
        return Ok(());
    }
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let y = DeviceBuffer::from_slice(&stream, &[4u32; N])?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    let mut unified = UnifiedBuffer::<u32>::pinned(&stream, N)?;
    unified.host_mut()?.fill(6);
    let mut graph = context.capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, z| {
        kernels.add(s, LaunchConfig::cover(N, 64), &y, z, N as u32)
    })?;
    let (mut failed, mut sum, mut added) = (0, 1, 0);
    for round in 0..12 {
        let other = context.stream();
        let mut results = vec![other.as_ref().map(drop).map_err(ToString::to_string)];
        let other = other.as_ref().unwrap_or(&stream);
        let launched = kernels.add(other, LaunchConfig::cover(N, 64), &y, &mut x, N as u32);
        sum += if launched.is_ok() { 4 } else { 0 };
        let replayed = graph.launch(other);
        added += if replayed.is_ok() { 4 } else { 0 };
        let mut made = DeviceBuffer::<u32>::zeroed(&stream, N);
        let filled = made.as_mut().map_or(Ok(()), |made| made.fill(&stream, 9));
        let copied = made.as_mut().map_or(Ok(()), |made| made.copy_from(&stream, &y));
        for result in [launched, replayed, made.map(drop), filled, copied] {
            results.push(result.map_err(|error| {
                if error.is_fatal() { format!("fatal: {error}") } else { error.to_string() }
            }));
        }
        for error in results.into_iter().filter_map(Result::err) {
            failed += 1;
            ensure!(!error.contains("fatal") && error.contains("CUDA_ERROR_"), "{error}");
        }
        context.check_alive()?;
        ensure_eq!(x.to_vec(&stream)?, [sum; N], "round {round}");
        ensure_eq!(graph.state().to_vec(&stream)?, [added; N], "round {round}");
        ensure_eq!(unified.host()?[..], [6; N]);
        ensure!(context.driver().device(0)?.context()? == context, "another context");
    }
    ensure!(failed > 0, "no call has failed");
    drop((graph, x, unified));
    drop(context.take_drop_errors());
    context.check_alive()?;
    Ok(())
}
