//! Attacks on what a graph keeps: memory that it allocates, sources, code and globals.

use std::sync::{Mutex, mpsc};
use std::thread;

use cuda_safe::{DeviceBuffer, Module};
use test_harness::{TestResult, ensure, ensure_eq};

use super::kit::{Kit, LEN, N, all, on_purpose};
use crate::attack::attacks;
use crate::lab::Lab;

/// Keeps memory that a capture has made: in the state, in a leak, by its allocation, by a swap with a buffer of the
/// state, and by sending it to a thread.
///
/// - row: memory of a graph is used inside it alone
/// - targets: `Context::capture`, `DeviceBuffer::allocation`, `DeviceBuffer::zeroed`
fn memory_that_outlives_its_capture(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let (send, receive) = mpsc::channel();
    let kept = Mutex::new(None);
    let variant = lab.variant().to_owned();
    let captured = context.capture((x, None), |s, (x, place)| {
        let mut made = DeviceBuffer::<u32>::zeroed(s, N)?;
        kit.add(s, all(), 1, &mut made, LEN)?;
        kit.mix(s, all(), &made, &mut *x, LEN)?;
        match variant.as_str() {
            "state" => *place = Some(made),
            "leaked" => std::mem::forget(made),
            "allocation" => {
                if let Ok(mut kept) = kept.lock() {
                    *kept = Some(made.allocation().clone());
                }
            }
            "swapped" => std::mem::swap(&mut made, x),
            _ => drop(send.send(made)),
        }
        Ok(())
    });
    match captured {
        Err(error) => ensure!(!error.to_string().contains("CUDA_ERROR"), "{error}"),
        Ok(mut graph) => {
            // A graph whose memory went in time is right; what is kept of it is refused.
            ensure_eq!(lab.variant(), "allocation");
            graph.launch(&stream)?;
            graph.launch(&stream)?;
            ensure_eq!(graph.state().0.to_vec(&stream)?, [4; N]);
        }
    }
    if let Ok(mut made) = receive.try_recv() {
        lab.refused(
            made.fill(&stream, 1),
            "memory allocated in a capture exists only while its graph runs",
        )?;
        lab.refused(
            made.to_vec(&stream),
            "memory allocated in a capture exists only while its graph runs",
        )?;
        lab.refused(
            made.try_clone(&stream),
            "memory allocated in a capture exists only while its graph runs",
        )?;
        lab.refused(
            kit.add(&stream, all(), 1, &mut made, LEN),
            "memory allocated in a capture exists only while its graph runs",
        )?;
        let again = context.capture((), |s, ()| made.fill(s, 1));
        lab.refused(again, "the buffer was allocated in another capture")?;
    }
    if let Ok(mut kept) = kept.lock() {
        drop(kept.take());
    }
    let y = DeviceBuffer::from_slice(&stream, &[6u32; N])?;
    let next = context.capture((), |_, ()| Ok(()))?;
    drop(next);
    ensure_eq!(y.to_vec(&stream)?, [6; N]);
    Ok(())
}

/// Drops memory that a capture has made on a fork, on another thread, and after its fork was closed.
///
/// - row: memory of a graph is used inside it alone
/// - targets: `Stream::fork`, `DeviceBuffer::close`, `DeviceBuffer::into_raw`, `DeviceBuffer::home_stream`
fn graph_memory_dropped_elsewhere(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut graph = context.capture(x, |s, x| {
        let fork = s.fork()?;
        let mut made = DeviceBuffer::from_slice(&fork, &[1u32; N])?;
        kit.add(s, all(), 1, &mut made, LEN)?;
        kit.mix(&s.fork()?, all(), &made, &mut *x, LEN)?;
        if made.home_stream() != &fork {
            return Err(on_purpose());
        }
        drop(fork);
        // Its memory belongs to the graph: nobody may be given the address.
        let made = match made.into_raw() {
            Ok(_) => return Err(on_purpose()),
            Err(_) => DeviceBuffer::from_slice(s, &[7u32; N])?,
        };
        let more = DeviceBuffer::from_slice(&s.fork()?, &[1u32; N])?;
        kit.mix(s, all(), &more, &mut *x, LEN)?;
        thread::scope(|scope| scope.spawn(move || drop(more)).join().is_ok());
        kit.mix(s, all(), &made, x, LEN)?;
        let closed = made.close();
        if closed.is_err() { Err(on_purpose()) } else { Ok(()) }
    })?;
    let mut expected = 0u32;
    for round in 0..4 {
        graph.launch(&stream)?;
        expected = ((expected * 3 + 2) * 3 + 1) * 3 + 7;
        ensure_eq!(graph.state().to_vec(&stream)?, [expected; N], "round {round}");
    }
    Ok(())
}

/// Uses, in a graph, a source that is changed and freed, a module that is dropped, and a global whose handle goes.
///
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - row: a global gives out no views
/// - targets: `Module::global`, `Global::write`, `Global::read`, `GraphExec::launch`, `Kernel::module`
fn sources_and_globals_dropped(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let source =
        r#"__device__ unsigned weight[4]; extern "C" __global__ void f(int* x) { *x = 1; }"#;
    let module = Module::compile(&context, source)?;
    let weight = module.global::<u32>(&stream, "weight")?;
    weight.write(&stream, &[1; 4])?;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let state = (x, vec![4u32; N], Some(weight), false);
    let mut graph = context.capture(state, |s, (x, text, weight, recorded)| {
        x.upload(s, text)?;
        if let Some(weight) = weight {
            // Recorded or refused, but never half.
            *recorded = weight.write(s, &[9; 4]).is_ok();
            if weight.read(s).is_ok() {
                return Err(on_purpose());
            }
        }
        Ok(())
    })?;
    let (_, text, weight, recorded) = graph.state_mut();
    text.fill(1);
    *text = Vec::new();
    let expected = [if *recorded { 9 } else { 1 }; 4];
    drop(weight.take());
    let kernel = module.kernel("f")?;
    let again = kernel.module();
    drop((module, kernel));
    context.free_deferred()?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        ensure_eq!(graph.state().0.to_vec(&stream)?, [4; N]);
        graph.state_mut().0.fill(&stream, 0)?;
    }
    let weight = again.global::<u32>(&stream, "weight")?;
    drop(again);
    ensure_eq!(weight.read(&stream)?, expected);
    drop(graph);
    ensure_eq!(weight.read(&stream)?, expected);
    Ok(())
}

attacks![
    "graphs",
    right(memory_that_outlives_its_capture).variants(&[
        "state",
        "leaked",
        "allocation",
        "swapped",
        "sent"
    ]),
    right(graph_memory_dropped_elsewhere),
    right(sources_and_globals_dropped),
];
