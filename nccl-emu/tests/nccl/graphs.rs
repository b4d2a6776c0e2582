//! Captured operations, launched many times, also between other calls.

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::collectives::{Case, What};
use crate::elements::{Op, type_of};
use crate::lab::{Graph, Lab, Layout, Random, Ranks, Stream, Way, cu, nccl};

/// Adds up the ranks' words in place, so that each launch has another result.
fn sum(ranks: &Ranks, number: usize, stream: &Stream, count: usize) {
    let rank = &ranks.all[number];
    let (at, sum) = (rank.memory.at(0), ncclRedOp_t::ncclSum);
    nccl!(ncclAllReduce(at, at, count, ncclDataType_t::ncclUint32, sum, rank.comm, stream.0));
}

/// Returns layouts of `count` words in which the ranks have added up `times` times.
fn sums(size: usize, count: usize, times: u32) -> Vec<Layout> {
    let factor = (size as u32).wrapping_pow(times);
    let words = |factor: u32| -> Vec<u8> {
        (0..count as u32).flat_map(|x| (x + 1).wrapping_mul(factor).to_le_bytes()).collect()
    };
    // All ranks begin with the same words.
    (0..size).map(|_| Layout { send: 0, recv: 0, input: words(1), output: words(factor) }).collect()
}

/// A graph of each device, captured by a thread each, launched 100 times. An odd and an even number of chunks.
#[test]
fn launched_a_hundred_times() {
    let lab = Lab::new();
    nccl_emu::set_buffer_size(512);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 16);
    for count in [50, 100, 500] {
        let graphs: Vec<Graph> = std::thread::scope(|scope| {
            let capture = |number: usize| {
                let rank = &ranks.all[number];
                rank.device.enter();
                rank.stream.capture(|| sum(&ranks, number, &rank.stream, count))
            };
            let threads: Vec<_> =
                (0..size).map(|number| scope.spawn(move || capture(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a graph")).collect()
        });
        ranks.check("100 launches", &sums(size, count, 100), || {
            for _ in 0..100 {
                for (rank, graph) in ranks.all.iter().zip(&graphs) {
                    graph.launch(&rank.stream);
                }
            }
        });
    }
    ranks.destroy();
}

/// One capture over the streams of all devices, of a group.
#[test]
fn one_capture_of_all_devices() {
    let lab = Lab::new();
    nccl_emu::set_buffer_size(512);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 16);
    let mut events = Vec::new();
    for rank in &ranks.all {
        rank.device.enter();
        let mut event = std::ptr::null_mut();
        cu!(cuEventCreate(&raw mut event, 2));
        events.push(event);
    }
    let origin = &ranks.all[0].stream;
    let graph = origin.capture(|| {
        cu!(cuEventRecord(events[0], origin.0));
        for rank in &ranks.all[1..] {
            cu!(cuStreamWaitEvent(rank.stream.0, events[0], 0));
        }
        nccl!(ncclGroupStart());
        (0..size).for_each(|number| sum(&ranks, number, &ranks.all[number].stream, 300));
        nccl!(ncclGroupEnd());
        (0..size).for_each(|number| sum(&ranks, number, &ranks.all[number].stream, 10));
        for (rank, event) in ranks.all.iter().zip(&events).skip(1) {
            cu!(cuEventRecord(*event, rank.stream.0));
            cu!(cuStreamWaitEvent(origin.0, *event, 0));
        }
    });
    // The first ten words are added up twice in each launch.
    let mut layouts = sums(size, 300, 100);
    for (layout, twice) in layouts.iter_mut().zip(sums(size, 10, 200)) {
        layout.output[..40].copy_from_slice(&twice.output);
    }
    ranks.check("100 launches of one graph", &layouts, || {
        for _ in 0..100 {
            graph.launch(origin);
        }
        origin.wait();
    });
    drop(graph);
    for event in events {
        cu!(cuEventDestroy_v2(event));
    }
    ranks.destroy();
}

/// Launches and calls take turns; and one rank launches a graph where another one calls.
#[test]
fn launches_between_calls() {
    let lab = Lab::new();
    nccl_emu::set_buffer_size(512);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 16);
    let others: Vec<Stream> = ranks.all.iter().map(|rank| rank.device.stream()).collect();
    let graphs: Vec<Graph> = (0..size)
        .map(|number| {
            let rank = &ranks.all[number];
            rank.device.enter();
            rank.stream.capture(|| sum(&ranks, number, &rank.stream, 100))
        })
        .collect();
    let random = std::cell::RefCell::new(Random::new(1));
    ranks.check("mixed", &sums(size, 100, 40), || {
        for turn in 0..40 {
            for number in 0..size {
                let (rank, other) = (&ranks.all[number], &others[number]);
                match random.borrow_mut().below(3) {
                    0 => sum(&ranks, number, other, 100),
                    1 => graphs[number].launch(other),
                    _ => graphs[number].launch(&rank.stream),
                }
                // The host waits now and then, but no rank for another.
                if turn % 8 == 7 && number == size - 1 {
                    others.iter().for_each(Stream::wait);
                }
            }
        }
        others.iter().for_each(Stream::wait);
    });
    drop(graphs);
    drop(others);
    ranks.destroy();
}

/// Messages are captured with the streams of their own, and two operations on two streams of one capture.
#[test]
fn messages_in_graphs() {
    let lab = Lab::new();
    let mut random = Random::new(2);
    nccl_emu::set_buffer_size(512);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 18);
    let ty = type_of(ncclDataType_t::ncclUint8);
    for what in [What::AlltoAll, What::Gather(0), What::Scatter(size - 1)] {
        let case = Case { what, ty, op: Op::Sum, count: 1500, in_place: false };
        let layouts = case.layouts(size, &mut random);
        let graphs: Vec<Graph> = (0..size)
            .map(|number| {
                let rank = &ranks.all[number];
                rank.device.enter();
                rank.stream.capture(|| case.call(rank, &layouts[number], ncclRedOp_t::ncclSum))
            })
            .collect();
        ranks.check(&format!("{what:?} in graphs"), &layouts, || {
            for _ in 0..5 {
                ranks.call(Way::InTurn, |number, rank| graphs[number].launch(&rank.stream));
            }
        });
        // And the same without a graph: its streams are no longer captured.
        case.check(&ranks, Way::Group, &mut random);
    }
    ranks.destroy();
}

/// Two captures that are under way at once use the streams of the communicator for themselves.
#[test]
fn two_captures_at_once() {
    let lab = Lab::new();
    let mut random = Random::new(3);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 18);
    let ty = type_of(ncclDataType_t::ncclInt32);
    let case = Case { what: What::AlltoAll, ty, op: Op::Sum, count: 100, in_place: false };
    let layouts = case.layouts(size, &mut random);
    let others: Vec<Stream> = ranks.all.iter().map(|rank| rank.device.stream()).collect();
    let relaxed = cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let mut graphs = Vec::new();
    for (number, rank) in ranks.all.iter().enumerate() {
        rank.device.enter();
        let other = &others[number];
        cu!(cuStreamBeginCapture_v2(rank.stream.0, relaxed));
        case.call(rank, &layouts[number], ncclRedOp_t::ncclSum);
        cu!(cuStreamBeginCapture_v2(other.0, relaxed));
        let (at, to) = (rank.memory.at(layouts[number].send), rank.memory.at(layouts[number].recv));
        nccl!(ncclAlltoAll(at, to, 100, ty.raw, rank.comm, other.0));
        graphs.push((rank.stream.end(), other.end()));
    }
    ranks.check("two captures", &layouts, || {
        for (rank, (first, second)) in ranks.all.iter().zip(&graphs) {
            first.launch(&rank.stream);
            second.launch(&rank.stream);
        }
    });
    drop(graphs);
    drop(others);
    ranks.destroy();
}
