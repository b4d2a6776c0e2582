//! Attacks on contexts that are closed, and on calls beside captures and children.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::{
    Context, DeviceBuffer, Driver, Event, GraphBuilder, PinnedBuffer, Stream, UnifiedBuffer,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// Opens a context that the lab does not hold too.
fn own() -> Result<Context, Failure> {
    Ok(Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?)
}

/// Opens, uses and closes the primary context in several threads at once.
///
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::close`, `Driver::from_sys`, `Driver::device`, `Device::context`
pub(super) fn contexts_closed_by_threads(_: &Lab) -> TestResult {
    let threads = [0u32, 1, 2, 3].map(|number| {
        std::thread::spawn(move || -> Result<usize, Failure> {
            let mut closed = 0;
            for round in 0..12 {
                let context = own()?;
                let stream = context.stream()?;
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
                x.fill(&context.stream()?, number + round)?;
                let pinned = PinnedBuffer::from_slice(&context, &[number; 100])?;
                ensure_eq!(x.to_vec(&stream)?, [number + round; 100]);
                if round % 3 == 0 {
                    drop((x, stream, pinned));
                    closed += usize::from(context.close().is_ok());
                } else {
                    drop(context);
                    ensure_eq!(pinned[..], [number; 100]);
                    drop(stream);
                    ensure_eq!(x.to_vec(x.home_stream())?, [number + round; 100]);
                }
            }
            Ok(closed)
        })
    });
    for thread in threads {
        thread.join().map_err(|_| Failure::new("a thread panicked"))??;
    }
    let context = own()?;
    let stream = context.stream()?;
    ensure!(context.clone().close().is_err(), "closed beside another handle");
    ensure_eq!(DeviceBuffer::from_slice(&stream, &[1u8; 3])?.to_vec(&stream)?, [1; 3]);
    drop(stream);
    ensure!(context.close().is_ok(), "a context without handles was not closed");
    Ok(())
}

/// Closes a context while one thing of it is alive, of each kind, and again when it is gone.
///
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::close`, `Stream::mark`, `Event::timing`, `PinnedBuffer::zeroed`, `UnifiedBuffer::register`,
///   `DeviceBuffer::allocation`, `Context::capture`, `GraphBuilder::new`
pub(super) fn closed_beside_one_handle(lab: &Lab) -> TestResult {
    for _ in 0..3 {
        let context = own()?;
        let stream = context.stream()?;
        let x = DeviceBuffer::from_slice(&stream, &[4u32; 100])?;
        let alive: Box<dyn std::any::Any> = match lab.variant() {
            "stream" => Box::new(stream.clone()),
            "mark" => Box::new(stream.mark()?),
            "event" => Box::new(Event::timing(&context)?),
            "buffer" => Box::new(x.try_clone(&stream)?),
            "allocation" => Box::new(x.allocation().clone()),
            "pinned" => Box::new(PinnedBuffer::<u32>::zeroed(&context, 3)?),
            "transfer" => {
                Box::new(x.download_pinned(&stream, PinnedBuffer::zeroed(&context, 100)?)?)
            }
            "unified" => Box::new(UnifiedBuffer::register(&stream, vec![1u32; 10])?),
            "graph" => Box::new(context.capture((), |_, ()| Ok(()))?),
            "builder" => Box::new(GraphBuilder::new(&context, ())?),
            _ => {
                let (own, held) = (stream.clone(), context.clone());
                let kept = context.capture((), |s, ()| {
                    s.host_function_mut(move || {
                        let _ = (&own, &held);
                    })
                })?;
                Box::new(kept)
            }
        };
        drop((x, stream));
        ensure!(context.close().is_err(), "closed beside a handle");
        drop(alive);
        let context = own()?;
        ensure!(context.close().is_ok(), "not closed");
    }
    Ok(())
}

/// Makes all calls of contexts, streams, events and pinned memory that need no recording in the closures that record a
/// graph: they work or are refused, and the graph is right.
///
/// - row: a capture is not spoilt by safe calls
/// - targets: `Context::free_deferred`, `Context::synchronize`, `Context::trim_pool`, `Stream::new`, `Stream::close`,
///   `Event::new`, `Event::close`, `PinnedBuffer::close`, `Context::take_drop_errors`, `UnifiedBuffer::managed`,
///   `UnifiedBuffer::host`, `Stream::with_priority`, `GraphBuilder::new`, `GraphBuilder::instantiate`
pub(super) fn calls_beside_a_capture(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let outside = DeviceBuffer::from_slice(&stream, &[2u32; 100])?;
    let pinned = UnifiedBuffer::<u32>::pinned(&stream, 100)?;
    let calls = || -> cuda_safe::Result<()> {
        let mut results = vec![
            context.free_deferred(),
            context.synchronize(),
            context.trim_pool(0),
            context.set_pool_release_threshold(u64::MAX),
            context.memory_info().map(drop),
            context.check_alive(),
            stream.synchronize(),
            stream.is_done().map(drop),
            stream.priority().map(drop),
            outside.to_vec(&stream).map(|x| assert_eq!(x, [2; 100])),
            outside.try_clone(&stream).map(drop),
            pinned.host().map(drop),
            UnifiedBuffer::<u32>::managed(&stream, 10).map(drop),
            UnifiedBuffer::<u32>::register(&stream, vec![1; 10]).map(drop),
            stream.mark().and_then(|mark| mark.synchronize()),
            stream.host_function(|| ()),
            Stream::with_priority(&context, -1).map(drop),
            Event::timing(&context).and_then(|event| {
                event.record(&stream)?;
                event.synchronize()?;
                event.elapsed_ms(&event).map(drop)
            }),
        ];
        if let Ok(other) = Stream::new(&context) {
            results.push(other.synchronize());
            let _ = other.close().is_ok();
        }
        if let Ok(event) = Event::new(&context) {
            let _ = event.close().is_ok();
        }
        if let Ok(pinned) = PinnedBuffer::<u32>::zeroed(&context, 1000) {
            let _ = pinned.close().is_ok();
        }
        if let Ok(unified) = UnifiedBuffer::<u32>::register(&stream, vec![1; 10]) {
            let _ = unified.into_vec().is_ok();
        }
        for error in results.into_iter().filter_map(Result::err) {
            if error.is_fatal() || error.to_string().contains("CUDA_ERROR") {
                return Err(error);
            }
        }
        context.take_drop_errors().pop().map_or(Ok(()), Err)
    };
    let x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let mut graph = match lab.variant() {
        "builder" => {
            let mut builder = GraphBuilder::new(&context, x)?;
            builder.add(&[], |s, x| calls().and_then(|()| x.fill(s, 5)))?;
            calls()?;
            builder.instantiate()?
        }
        "condition" => context.capture(x, |s, x| {
            let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
            s.record_if(&flag, |s| {
                calls()?;
                x.fill(s, 5)
            })
        })?,
        "thread" => context.capture(x, |s, x| {
            let calls = std::thread::scope(|scope| scope.spawn(calls).join());
            calls.unwrap_or_else(|_| Err(cuda_safe::Error::invalid("a call panicked")))?;
            x.fill(s, 5)
        })?,
        variant => {
            let mut graph = context.capture(x, |s, x| {
                x.fill(s, 1)?;
                calls()?;
                x.fill(s, 5)
            })?;
            if variant == "recapture" {
                graph.recapture(|s, x| {
                    x.fill(s, 2)?;
                    calls()?;
                    x.fill(s, 5)
                })?;
            }
            graph
        }
    };
    graph.launch(&stream)?;
    ensure_eq!(graph.state().to_vec(&stream)?, [5; 100]);
    calls()?;
    Ok(())
}

/// Starts other programs while threads copy and launch: each is a fork of this process for a moment.
///
/// - row: a forked child does not call the driver
/// - targets: `DeviceBuffer::from_slice`, `Context::stream`
pub(super) fn children_beside_work(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (context, ended) = (&context, &AtomicBool::new(false));
    let results = std::thread::scope(|scope| {
        let works = [1u32, 2].map(|number| {
            scope.spawn(move || -> TestResult {
                let mut round = number;
                while !ended.load(Ordering::SeqCst) {
                    let stream = context.stream()?;
                    let x = DeviceBuffer::from_slice(&stream, &vec![round; 20_000])?;
                    stream.host_function(|| ())?;
                    ensure_eq!(x.try_clone(&context.stream()?)?.to_vec(&stream)?[19_999], round);
                    round += 2;
                }
                Ok(())
            })
        });
        let mut started = Ok(());
        for _ in 0..15 {
            let mut command = Command::new("true");
            // A group of its own and another folder: the standard library forks for that.
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let status = command.current_dir("/").env("A", "1").status();
            started = started.and_then(|()| match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(Failure::new(status.to_string())),
                Err(error) => Err(error.into()),
            });
        }
        ended.store(true, Ordering::SeqCst);
        (started, works.map(|work| work.join()))
    });
    results.0?;
    for result in results.1 {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    context.check_alive()?;
    Ok(())
}
