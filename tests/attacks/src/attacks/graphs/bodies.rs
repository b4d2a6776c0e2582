//! Attacks on conditional nodes and their bodies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cuda_safe::{DeviceBuffer, Event, Module, Stream, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::kit::{Kit, LEN, N, all, on_purpose};
use crate::attack::attacks;
use crate::lab::Lab;

/// Nests loops and conditions, uses the memory of their bodies on forks before and after them, and changes the flags
/// between launches.
///
/// - row: bodies of conditional nodes count
/// - row: inside, streams of one recording are ordered
/// - targets: `Stream::record_if`, `Stream::record_while`, `Stream::fork`
fn nested_bodies(lab: &Lab) -> TestResult {
    let (context, stream, other) = (lab.context()?, lab.stream()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let zeros = || DeviceBuffer::<u32>::zeroed(&stream, N);
    let flag = || DeviceBuffer::<u32>::zeroed(&stream, 1);
    let state = ([zeros()?, zeros()?], [flag()?, flag()?, flag()?]);
    let mut graph = context.capture(state, |s, ([x, y], [outer, inner, only])| {
        let fork = s.fork()?;
        kit.add(&fork, all(), 1, &mut *x, LEN)?;
        s.record_while(&mut *outer, |s, mut outer| {
            inner.upload(s, &[3])?;
            s.record_while(&mut *inner, |s, mut inner| {
                kit.add(s, all(), 1, &mut *y, LEN)?;
                kit.countdown(s, (1, 1), &mut inner)
            })?;
            s.record_if(&*only, |s| kit.mix(s, all(), &*y, &mut *x, LEN))?;
            kit.countdown(s, (1, 1), &mut outer)
        })?;
        // The fork waits for what the bodies have written.
        kit.mix(&fork, all(), &*x, y, LEN)
    })?;
    let (mut x, mut y) = (0u32, 0u32);
    for (rounds, only) in [(2u32, 1u32), (0, 1), (3, 0), (1, u32::MAX), (1, 0)] {
        let (_, [outer, _, flag]) = graph.state_mut();
        outer.fill(&other, rounds)?;
        flag.upload(&other, &[only])?;
        graph.launch(&stream)?;
        x = x.wrapping_add(1);
        for _ in 0..rounds {
            y = y.wrapping_add(3);
            if only != 0 {
                x = x.wrapping_mul(3).wrapping_add(y);
            }
        }
        y = y.wrapping_mul(3).wrapping_add(x);
    }
    let ([gx, gy], [outer, inner, _]) = graph.state();
    ensure_eq!(gx.to_vec(&other)?, [x; N]);
    ensure_eq!(gy.to_vec(&other)?, [y; N]);
    ensure_eq!((outer.to_vec(&other)?, inner.to_vec(&other)?), (vec![0], vec![0]));
    Ok(())
}

/// Swallows the error of a body, panics in one, and enqueues on the outer stream inside one.
///
/// - row: bodies of conditional nodes count
/// - targets: `Stream::record_if`, `Stream::record_while`, `Context::capture`
fn bodies_that_end_badly(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let variant = lab.variant();
    let state = (x, flag, None::<Stream>);
    let captured = context.capture(state, |s, (x, flag, kept)| {
        match variant {
            "swallowed" => {
                let _ = s.record_if(&*flag, |s| {
                    kit.add(s, all(), 1, &mut *x, LEN)?;
                    Err(on_purpose())
                });
            }
            "panicked" => {
                drop(catch_unwind(AssertUnwindSafe(|| {
                    s.record_while(&mut *flag, |s, _| {
                        kit.add(s, all(), 1, &mut *x, LEN)?;
                        panic!("in a body")
                    })
                })));
            }
            "outer stream" => {
                // Refused, or part of the graph in an order that the memory asks for.
                s.record_if(&*flag, |_| kit.add(s, all(), 1, &mut *x, LEN))?;
            }
            "fork in a body" => s.record_if(&*flag, |s| {
                kit.add(&s.fork()?, all(), 1, &mut *x, LEN)?;
                kit.mix(&s.fork()?.fork()?, all(), &*flag, &mut *x, 1)
            })?,
            "stream kept" => {
                s.record_if(&*flag, |s| {
                    *kept = Some(s.clone());
                    kit.add(s, all(), 1, &mut *x, LEN)
                })?;
                if let Some(body) = kept.take()
                    && kit.add(&body, all(), 1, &mut *x, LEN).is_ok()
                {
                    return Err(on_purpose());
                }
            }
            _ => {
                let s = s.clone();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        drop(catch_unwind(AssertUnwindSafe(|| {
                            s.record_if(&*flag, |body| {
                                std::mem::forget(body.clone());
                                panic!("in a body on a thread")
                            })
                        })));
                    });
                });
            }
        }
        kit.add(s, all(), 10, x, LEN)
    });
    match captured {
        Err(error) => {
            ensure!(!error.to_string().contains("CUDA_ERROR"), "{error}");
            ensure!(lab.variant() != "fork in a body", "{error}");
        }
        Ok(mut graph) => {
            // A body that another thread records is refused before it begins, or there is no graph.
            let whole = ["outer stream", "fork in a body", "stream kept", "left open by a thread"];
            ensure!(whole.contains(&lab.variant()), "a graph with half a body");
            graph.launch(&stream)?;
            let seen = graph.state().0.to_vec(&stream)?;
            let (first, rest) = match lab.variant() {
                "fork in a body" => (14, 11),
                "left open by a thread" => (10, 10),
                _ => (11, 11),
            };
            ensure_eq!(seen[0], first);
            ensure_eq!(seen[1..], [rest; N - 1]);
        }
    }
    ensure!(!context.is_recording());
    let mut next = context
        .capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| kit.add(s, all(), 1, x, LEN))?;
    next.launch(&stream)?;
    ensure_eq!(next.state().to_vec(&stream)?, [1; N]);
    Ok(())
}

/// Allocates, uploads, records events, waits and calls host functions in a body.
///
/// - row: bodies of conditional nodes count
/// - row: memory of a graph is used inside it alone
/// - targets: `Stream::record_if`, `DeviceBuffer::zeroed`, `Event::record`, `Stream::last_node`
fn what_a_body_cannot_hold(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let event = Event::new(&context)?;
    let variant = lab.variant();
    let inner = context
        .capture(DeviceBuffer::<u32>::zeroed(&stream, N)?, |s, x| kit.add(s, all(), 1, x, LEN))?;
    let state = (x, flag, inner, None, Ok(()));
    let captured = context.capture(state, |s, (x, flag, inner, named, refused)| {
        s.record_if(&*flag, |s| {
            match variant {
                "memory" => {
                    *refused = lab.refused(DeviceBuffer::<u32>::zeroed(s, N), "body");
                    kit.add(s, all(), 1, &mut *x, LEN)?;
                }
                "event" => {
                    event.record(s)?;
                    s.wait_event(&event)?;
                    kit.add(s, all(), 1, &mut *x, LEN)?;
                }
                "host function" => {
                    kit.add(s, all(), 1, &mut *x, LEN)?;
                    *refused = lab.refused(s.host_function_mut(|| ()), "body");
                }
                "node" => {
                    kit.add(s, all(), 1, &mut *x, LEN)?;
                    *named = Some(s.last_node()?);
                }
                "upload" => x.upload(s, &[1; N])?,
                _ => {
                    inner.launch(s)?;
                    kit.mix(s, all(), inner.state(), &mut *x, LEN)?;
                }
            }
            Ok(())
        })?;
        if s.wait_event(&event).is_ok() && variant == "event" {
            // A body's event in the graph around it.
            kit.add(s, all(), 0, &mut *x, LEN)?;
        }
        kit.add(s, all(), 10, x, LEN)
    });
    match captured {
        Err(error) => {
            let text = error.to_string();
            let refused = ["memory", "host function"].contains(&variant);
            ensure!(!refused && !text.contains("CUDA_ERROR"), "{error}");
        }
        Ok(mut graph) => {
            graph.launch(&stream)?;
            ensure_eq!(graph.state().0.to_vec(&stream)?, [11; N]);
            if let Some(node) = graph.state().3 {
                let updated = graph.update(node, |s, (x, ..)| kit.add(s, all(), 2, x, LEN));
                let expected = if updated.is_ok() { 23 } else { 22 };
                graph.launch(&stream)?;
                ensure_eq!(graph.state().0.to_vec(&stream)?, [expected; N]);
            }
            graph.into_state().4?;
        }
    }
    Ok(())
}

/// Takes the flag of a loop, and of a condition, from memory that is allocated in the capture.
///
/// - row: bodies of conditional nodes count
/// - row: a capture is not spoilt by safe calls
/// - targets: `Stream::record_while`, `Stream::record_if`, `DeviceBuffer::zeroed`
fn flag_made_in_the_capture(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let kit = &kit;
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let (mut refused, mut ran) = (Ok(()), false);
    let mut graph = context.capture(x, |s, x| {
        let mut flag = DeviceBuffer::<u32>::zeroed(s, 1)?;
        let recorded = s.record_while(&mut flag, |_, _| {
            ran = true;
            Ok(())
        });
        refused = lab.refused(recorded, "flag of a loop");
        flag.fill(s, 1)?;
        s.record_if(&flag, |s| kit.add(s, all(), 1, &mut *x, LEN))?;
        kit.add(s, all(), 10, x, LEN)
    })?;
    graph.launch(&stream)?;
    ensure_eq!(graph.into_state().to_vec(&stream)?, [11; N]);
    ensure!(!ran, "the body has run");
    refused
}

/// Records conditions on empty flags, on views of other types' memory, on ordinary streams and on ended ones.
///
/// - row: bodies of conditional nodes count
/// - row: a stream of a recording that has ended does nothing
/// - targets: `Stream::record_if`, `Stream::record_while`, `DeviceSlice::cast`, `DeviceBuffer::slice`
fn flags_that_are_none(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kit = Kit::load(&context)?;
    let mut flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut none = DeviceBuffer::<u32>::zeroed(&stream, 0)?;
    let mut ran = 0;
    lab.refused(
        stream.record_if(&flag, |_| {
            ran += 1;
            Ok(())
        }),
        "only a stream that records takes conditional work",
    )?;
    lab.refused(
        stream.record_while(&mut flag, |_, _| Ok(())),
        "only a stream that records takes conditional work",
    )?;
    // A float of -0.0 is not zero as an integer; the condition is on the third element alone.
    let signs = DeviceBuffer::from_slice(&stream, &[0.0f32, 0.0, -0.0, 0.0])?;
    let mut graph = context.capture((x, None), |s, (x, kept)| {
        lab.refused(s.record_if(&none, |_| Ok(())), "the range 0..1 is not within 0..0")
            .map_err(|_| on_purpose())?;
        lab.refused(s.record_while(&mut none, |_, _| Ok(())), "the range 0..1 is not within 0..0")
            .map_err(|_| on_purpose())?;
        lab.refused(s.record_if(flag.slice(1..)?, |_| Ok(())), "the range 0..1 is not within 0..0")
            .map_err(|_| on_purpose())?;
        let signs = signs.as_slice().cast::<u32>()?;
        s.record_if(signs.slice(2..)?, |s| kit.add(s, all(), 1, &mut *x, LEN))?;
        s.record_if(signs.slice(1..)?, |s| kit.add(s, all(), 100, &mut *x, LEN))?;
        s.record_if(signs, |_| Ok(()))?;
        *kept = Some(s.clone());
        Ok(())
    })?;
    for _ in 0..3 {
        graph.launch(&stream)?;
    }
    ensure_eq!(graph.state().0.to_vec(&stream)?, [3; N]);
    if let Some(ended) = graph.state_mut().1.take() {
        let flag = DeviceBuffer::from_slice(&stream, &[1u32])?;
        lab.refused(ended.record_if(&flag, |_| Ok(())), "record")?;
    }
    ensure_eq!(ran, 0);
    x = graph.into_state().0;
    drop(x);
    Ok(())
}

/// Takes a loop's flag from memory that the host looks at, drops it, and frees the module whose kernel is in the body.
///
/// - row: the memory, code, pinned sources and host functions that a graph uses
/// - row: while a guard lives nothing that conflicts is enqueued
/// - targets: `Stream::record_while`, `UnifiedBuffer::pinned`, `Context::free_deferred`
fn loops_over_memory_that_is_gone(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut flag = UnifiedBuffer::<u32>::pinned(&stream, 1)?;
    flag.host_mut()?[0] = 4;
    let state = (x, Some(flag), Some(Kit::load(&context)?));
    let mut graph = context.capture(state, |s, (x, flag, kit)| {
        let (Some(flag), Some(kit)) = (flag, kit) else { return Err(on_purpose()) };
        s.record_while(flag, |s, mut flag| {
            kit.add(s, all(), 1, &mut *x, LEN)?;
            kit.countdown(s, (1, 1), &mut flag)
        })
    })?;
    if let Some(flag) = &graph.state().1 {
        drop(flag.host()?);
    }
    graph.launch(&stream)?;
    let flag = graph.state_mut().1.take().ok_or_else(|| Failure::new("the flag is gone"))?;
    ensure_eq!(flag.host()?[..], [0]);
    ensure_eq!(graph.state().0.to_vec(&stream)?, [4; N]);
    let guard = flag.host()?;
    lab.refused(
        graph.launch(&stream),
        "the host is reading the buffer: its `host()` guard is alive, or was leaked",
    )?;
    drop(guard);
    drop((flag, graph.state_mut().2.take()));
    context.free_deferred()?;
    drop(Module::compile(&context, r#"extern "C" __global__ void g(int* x) { *x = 2; }"#)?);
    // Its flag stays 0: no loop.
    graph.launch(&stream)?;
    ensure_eq!(graph.state().0.to_vec(&stream)?, [4; N]);
    Ok(())
}

attacks![
    "graphs",
    right(nested_bodies),
    right(bodies_that_end_badly).variants(&[
        "swallowed",
        "panicked",
        "outer stream",
        "fork in a body",
        "stream kept",
        "left open by a thread"
    ]),
    right(what_a_body_cannot_hold).variants(&[
        "memory",
        "event",
        "host function",
        "node",
        "upload",
        "graph"
    ]),
    refused(flag_made_in_the_capture),
    right(flags_that_are_none),
    right(loops_over_memory_that_is_gone),
];
