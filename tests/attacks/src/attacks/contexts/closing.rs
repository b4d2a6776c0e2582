//! Attacks on contexts that are closed, opened again, and left with handles.

use std::thread;

use cuda_safe::{
    Context, DeviceBuffer, Event, GraphBuilder, LaunchConfig, Module, PinnedBuffer, Stream,
    UnifiedBuffer,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::attacks::graphs::kit::{Kit, LEN, N, all};
use crate::lab::Lab;

/// Opens the second device, of which the lab holds nothing.
fn second(lab: &Lab) -> Result<Context, Failure> {
    Ok(lab.context()?.driver().device(1)?.context()?)
}

/// Closes a context while one handle of some kind lives, also one that was leaked, and uses the handle afterwards.
///
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::close`, `Device::context`, `Driver::device`, `Context::driver`, `Context::device`,
///   `Stream::close`, `Mark::stream`, `Stream::mark`, `Event::timing`
fn closed_with_a_handle(lab: &Lab) -> TestResult {
    let context = second(lab)?;
    ensure_eq!(context.device().ordinal(), 1);
    let refused = |context: Context| {
        ensure!(context.close().is_err(), "closed with a {} alive", lab.variant());
        second(lab)
    };
    let stream = Stream::new(&context)?;
    let x = DeviceBuffer::from_slice(&stream, &[4u32; N])?;
    let kit = Kit::load(&context)?;
    let source = "__device__ unsigned weight = 4;";
    let context = match lab.variant() {
        "stream" => {
            drop((x, kit));
            let context = refused(context)?;
            stream.synchronize()?;
            ensure!(stream.is_done()?);
            ensure!(stream.close().is_ok());
            context
        }
        "forgotten stream" => {
            std::mem::forget(stream.clone());
            drop((x, kit, stream));
            let context = refused(context)?;
            // It can never be closed: the device stays usable.
            return refused(context).map(drop);
        }
        "event" => {
            let event = Event::timing(&context)?;
            event.record(&stream)?;
            drop((x, kit, stream));
            let context = refused(context)?;
            event.synchronize()?;
            ensure!(event.close().is_ok());
            context
        }
        "buffer" => {
            drop((kit, stream));
            let context = refused(context)?;
            ensure_eq!(x.to_vec(x.home_stream())?, [4; N]);
            drop(x);
            context
        }
        "allocation" => {
            let memory = x.allocation().clone();
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure_eq!(memory.size_bytes(), 4 * N);
            drop(memory);
            context
        }
        "pinned" => {
            let pinned = PinnedBuffer::from_slice(&context, &[7u32; N])?;
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure_eq!(pinned[..], [7; N]);
            drop(pinned);
            context
        }
        "unified" => {
            let unified = UnifiedBuffer::register(&stream, vec![7u32; N])?;
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure!(unified.into_vec().is_ok_and(|vector| vector == [7; N]));
            context
        }
        "transfer" => {
            let transfer = x.download_pinned(&stream, PinnedBuffer::zeroed(&context, N)?)?;
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure_eq!(transfer.wait()?[..], [4; N]);
            context
        }
        "module" => {
            let module = Module::compile(&context, source)?;
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure!(module.has_global("weight")?);
            ensure!(module.close().is_ok());
            context
        }
        "kernel" => {
            let kernel = kit.add_kernel().clone();
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure!(kernel.attributes().is_ok());
            drop(kernel);
            context
        }
        "global" => {
            let global = Module::compile(&context, source)?.global::<u32>(&stream, "weight")?;
            drop((x, kit, stream));
            let context = refused(context)?;
            ensure_eq!(global.read(&context.stream()?)?, [4]);
            drop(global);
            context
        }
        "mark" => {
            let mark = stream.mark()?;
            drop((x, kit, stream));
            let context = refused(context)?;
            mark.synchronize()?;
            ensure_eq!(mark.stream().context(), context);
            drop(mark);
            context
        }
        "graph" => {
            let mut graph = context.capture(x, |s, x| kit.add(s, all(), 1, x, LEN))?;
            drop(graph.try_clone(())?);
            let graph = context.capture(graph.into_state(), |_, _| Ok(()))?;
            drop((kit, stream));
            let context = refused(context)?;
            let x = graph.into_state();
            ensure_eq!(x.to_vec(x.home_stream())?, [4; N]);
            context
        }
        "builder" => {
            let builder = GraphBuilder::new(&context, ())?;
            drop((x, kit, stream));
            let context = refused(context)?;
            drop(builder.instantiate()?);
            context
        }
        "clone" => {
            drop((x, kit, stream));
            let twin = context.clone();
            let context = refused(context)?;
            ensure_eq!(twin, context);
            drop(twin);
            context
        }
        _ => {
            let mut graph = context.capture((), |s, ()| kit.add(s, all(), 1, &mut { x }, LEN))?;
            for _ in 0..20 {
                graph.launch(&stream)?;
            }
            drop(graph);
            drop((kit, stream));
            context
        }
    };
    if let Err(error) = context.close() {
        return Err(Failure::new(format!("not closed: {error:?}")));
    }
    let again = second(lab)?;
    let stream = again.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[1u32; N])?;
    ensure_eq!(x.to_vec(&stream)?, [1; N]);
    Ok(())
}

/// Opens, uses and closes a context from four threads at once.
///
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Context::close`, `Device::context`, `Context::check_alive`
fn closed_by_threads(lab: &Lab) -> TestResult {
    let device = lab.context()?.driver().device(1)?;
    let results: Vec<Result<u32, Failure>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4u32)
            .map(|id| {
                scope.spawn(move || -> Result<u32, Failure> {
                    let mut closed = 0;
                    for round in 0..12 {
                        let context = device.context()?;
                        let stream = context.stream()?;
                        let x = DeviceBuffer::from_slice(&stream, &[id; 64])?;
                        context.check_alive()?;
                        ensure_eq!(x.to_vec(&stream)?, [id; 64], "round {round}");
                        drop((x, stream));
                        closed += u32::from(context.close().is_ok());
                    }
                    Ok(closed)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
            .collect()
    });
    for result in results {
        result?;
    }
    let context = second(lab)?;
    ensure!(context.close().is_ok());
    Ok(())
}

/// Gives up a stream for good, closes streams that are shared or have buffers, and closes their context.
///
/// - row: a context is closed only when nothing of it is alive
/// - targets: `Stream::into_raw`, `Stream::close`, `Stream::with_priority`, `Event::close`, `Context::close`
fn streams_given_up(lab: &Lab) -> TestResult {
    let context = second(lab)?;
    let stream = Stream::with_priority(&context, 0)?;
    let x = DeviceBuffer::from_slice(&stream, &[3u32; N])?;
    ensure!(stream.clone().close().is_err());
    ensure!(stream.clone().into_raw().is_err());
    let only = x.home_stream().clone();
    drop(stream);
    ensure!(only.into_raw().is_err(), "the home of a buffer was given up");
    ensure_eq!(x.to_vec(x.home_stream())?, [3; N]);
    drop(x);
    let event = Event::new(&context)?;
    let stream = context.stream()?;
    event.record(&stream)?;
    // Its event outlives it.
    ensure!(stream.close().is_ok());
    let other = context.stream()?;
    other.wait_event(&event)?;
    other.synchronize()?;
    ensure!(event.close().is_ok());
    let raw = other.into_raw();
    ensure!(raw.is_ok(), "an unused stream was not given up");
    ensure!(context.close().is_err(), "closed, though a stream was given away for ever");
    let context = second(lab)?;
    let stream = context.stream()?;
    let kit = Kit::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    kit.add(&stream, LaunchConfig::cover(N, 32), 2, &mut x, LEN)?;
    ensure_eq!(x.to_vec(&stream)?, [2; N]);
    Ok(())
}

attacks![
    "contexts",
    right(closed_with_a_handle)
        .variants(&[
            "stream",
            "forgotten stream",
            "event",
            "buffer",
            "allocation",
            "pinned",
            "unified",
            "transfer",
            "module",
            "kernel",
            "global",
            "mark",
            "graph",
            "builder",
            "clone",
            "launched graph"
        ])
        .devices(2),
    right(closed_by_threads).devices(2),
    right(streams_given_up).devices(2),
];
