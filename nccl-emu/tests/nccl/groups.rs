//! Groups: nothing is enqueued before the outermost end, errors fail the whole group, and operations keep their order.

use std::time::Duration;

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::collectives::{Case, What};
use crate::elements::{Op, type_of};
use crate::lab::{Lab, Layout, Random, Stream, Way, fails, last, nccl};

fn sums(count: usize) -> Case {
    let ty = type_of(ncclDataType_t::ncclInt32);
    Case { what: What::AllReduce, ty, op: Op::Sum, count, in_place: false }
}

#[test]
fn nothing_is_enqueued_before_the_outermost_end() {
    let lab = Lab::new();
    let ranks = lab.ranks(lab.devices.len(), 1 << 16);
    let case = sums(100);
    let layouts = case.layouts(ranks.all.len(), &mut Random::new(1));
    ranks.check("nested groups", &layouts, || {
        nccl!(ncclGroupStart());
        nccl!(ncclGroupStart());
        for (rank, layout) in ranks.all.iter().zip(&layouts) {
            rank.device.enter();
            case.call(rank, layout, ncclRedOp_t::ncclSum);
        }
        nccl!(ncclGroupEnd());
        for (rank, layout) in ranks.all.iter().zip(&layouts) {
            rank.stream.wait();
            let same =
                rank.memory.read(layout.recv + 400)[layout.recv..].iter().all(|byte| *byte == 0xa5);
            assert!(same, "something was enqueued at the inner end");
        }
        nccl!(ncclGroupEnd());
    });
    fails!(ncclInvalidUsage, ncclGroupEnd());
    ranks.destroy();
}

#[test]
fn an_error_inside_fails_the_group() {
    let lab = Lab::new();
    let ranks = lab.ranks(lab.devices.len(), 1 << 16);
    let case = sums(100);
    let mut layouts = case.layouts(ranks.all.len(), &mut Random::new(2));
    let results: Vec<Vec<u8>> =
        layouts.iter_mut().map(|layout| std::mem::take(&mut layout.output)).collect();
    ranks.check("a failed group", &layouts, || {
        nccl!(ncclGroupStart());
        for (rank, layout) in ranks.all.iter().zip(&layouts) {
            case.call(rank, layout, ncclRedOp_t::ncclSum);
        }
        let rank = &ranks.all[0];
        let (at, datatype) = (rank.memory.at(0), ncclDataType_t(99));
        fails!(
            ncclInvalidArgument,
            ncclBroadcast(at, at, 1, datatype, 0, rank.comm, rank.stream.0)
        );
        fails!(ncclInvalidArgument, ncclGroupEnd());
        assert!(last().contains("99"), "{}", last());
    });
    // The communicators are as before.
    for (layout, result) in layouts.iter_mut().zip(results) {
        layout.output = result;
    }
    ranks.check("the next group", &layouts, || {
        ranks.call(Way::Group, |number, rank| {
            case.call(rank, &layouts[number], ncclRedOp_t::ncclSum);
        });
    });
    ranks.destroy();
}

/// Operations of one communicator take turns, on whichever streams they are. Each reads what the one before has written.
#[test]
fn operations_on_several_streams_keep_their_order() {
    let lab = Lab::new();
    nccl_emu::set_buffer_size(512);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 16);
    let streams: Vec<[Stream; 3]> =
        ranks.all.iter().map(|rank| [(); 3].map(|()| rank.device.stream())).collect();
    let count = 1000;
    let input: Vec<u8> = (0..count as u32).flat_map(u32::to_le_bytes).collect();
    let factor = (size as u32).pow(7);
    let output: Vec<u8> =
        (0..count as u32).flat_map(|x| x.wrapping_mul(factor).to_le_bytes()).collect();
    let layouts: Vec<Layout> = (0..size)
        .map(|_| Layout { send: 0, recv: 0, input: input.clone(), output: output.clone() })
        .collect();
    for way in [Way::InTurn, Way::Threads] {
        ranks.check("seven sums", &layouts, || {
            ranks.call(way, |number, rank| {
                for turn in 0..7 {
                    let (at, sum) = (rank.memory.at(0), ncclRedOp_t::ncclSum);
                    let stream = streams[number][turn % 3].0;
                    nccl!(ncclAllReduce(
                        at,
                        at,
                        count,
                        ncclDataType_t::ncclUint32,
                        sum,
                        rank.comm,
                        stream
                    ));
                }
            });
            streams.iter().flatten().for_each(Stream::wait);
        });
    }
    drop(streams);
    ranks.destroy();
}

/// Collective operations and messages of one group, and several operations of each communicator.
#[test]
fn a_group_of_everything() {
    let lab = Lab::new();
    nccl_emu::set_buffer_size(512);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 1 << 16);
    let (count, ty) = (700, ncclDataType_t::ncclUint32);
    let layouts: Vec<Layout> = (0..size as u32)
        .map(|rank| {
            let before = (rank + size as u32 - 1) % size as u32;
            let input = (0..count as u32).flat_map(|x| (x + rank).to_le_bytes()).collect();
            let sum = |x: u32| (0..size as u32).map(|rank| x + rank).sum::<u32>();
            let max = |x: u32| x + size as u32 - 1;
            let output = (0..count as u32)
                .flat_map(|x| sum(x).to_le_bytes())
                .chain((0..count as u32).flat_map(|x| max(x).to_le_bytes()))
                .chain((0..count as u32).flat_map(|x| (x + before).to_le_bytes()));
            Layout { send: 0, recv: 4096, input, output: output.collect() }
        })
        .collect();
    for way in [Way::Group, Way::Threads] {
        ranks.check("everything", &layouts, || {
            ranks.call(way, |number, rank| {
                let (comm, stream) = (rank.comm, rank.stream.0);
                let from = rank.memory.at(0).cast_const();
                let to = |part: usize| rank.memory.at(4096 + part * count * 4);
                let (next, before) = ((number + 1) % size, (number + size - 1) % size);
                nccl!(ncclGroupStart());
                nccl!(ncclSend(from, count, ty, next as i32, comm, stream));
                nccl!(ncclAllReduce(from, to(0), count, ty, ncclRedOp_t::ncclSum, comm, stream));
                nccl!(ncclRecv(to(2), count, ty, before as i32, comm, stream));
                nccl!(ncclAllReduce(from, to(1), count, ty, ncclRedOp_t::ncclMax, comm, stream));
                nccl!(ncclGroupEnd());
            });
        });
    }
    ranks.destroy();
}

/// No call waits for another rank: a thread makes many calls for one rank before the others.
#[test]
fn calls_do_not_wait_for_other_ranks() {
    let lab = Lab::new();
    let ranks = lab.ranks(lab.devices.len(), 1 << 16);
    let case = sums(1000);
    let layouts = case.layouts(ranks.all.len(), &mut Random::new(3));
    ranks.check("ten in turn", &layouts, || {
        for (number, rank) in ranks.all.iter().enumerate() {
            for _ in 0..10 {
                case.call(rank, &layouts[number], ncclRedOp_t::ncclSum);
            }
            let alone = ranks.all.len() > 1 && number + 1 < ranks.all.len();
            assert!(!alone || !rank.stream.is_done_within(Duration::from_millis(20)));
        }
    });
    ranks.destroy();
}
