//! Orders of work that the software device draws from a seed: nothing may depend on which stream is fast.

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::collectives::{Case, What};
use crate::elements::{Op, type_of};
use crate::lab::{Lab, Layout, Random, Stream, Way, nccl, on_gpu};

/// How many orders each test tries.
const SEEDS: u64 = 25;

/// Runs a test under each seed, and without one.
fn orders(test: impl Fn(&Lab, u64)) {
    let lab = Lab::new();
    // Small chunks: more messages than slots.
    nccl_emu::set_buffer_size(512);
    for seed in 0..SEEDS {
        assert!(on_gpu() || cuda_emu::reseed((seed > 0).then_some(seed)));
        test(&lab, seed);
    }
    assert!(on_gpu() || cuda_emu::reseed(None));
}

/// All collective operations, each of more chunks than there are slots.
#[test]
fn collectives() {
    orders(|lab, seed| {
        let mut random = Random::new(seed + 1);
        let size = 2 + random.below(lab.devices.len().max(2) - 1);
        let ranks = lab.ranks(size.min(lab.devices.len()), 1 << 16);
        let size = ranks.all.len();
        for what in [
            What::AllReduce,
            What::Reduce(random.below(size)),
            What::ReduceScatter,
            What::AllGather,
            What::Broadcast(random.below(size)),
            What::AlltoAll,
        ] {
            let ty = type_of(ncclDataType_t::ncclInt32);
            let op = [Op::Sum, Op::Avg, Op::PreMulSum][random.below(3)];
            let in_place = random.below(2) == 1;
            Case { what, ty, op, count: 450, in_place }.check(&ranks, Way::Group, &mut random);
        }
        ranks.destroy();
    });
}

/// The same operation again and again on other streams, in place: each must see what the one before has written.
#[test]
fn one_after_the_other() {
    orders(|lab, _| {
        let size = lab.devices.len();
        let ranks = lab.ranks(size, 1 << 14);
        let streams: Vec<[Stream; 2]> =
            ranks.all.iter().map(|rank| [(); 2].map(|()| rank.device.stream())).collect();
        let words = |factor: u32| -> Vec<u8> {
            (0..200_u32).flat_map(|x| x.wrapping_mul(factor).to_le_bytes()).collect()
        };
        let factor = (size as u32).pow(4);
        let layouts: Vec<Layout> = (0..size)
            .map(|_| Layout { send: 0, recv: 0, input: words(1), output: words(factor) })
            .collect();
        ranks.check("four sums on two streams", &layouts, || {
            ranks.call(Way::InTurn, |number, rank| {
                for turn in 0..4 {
                    let (at, sum) = (rank.memory.at(0), ncclRedOp_t::ncclSum);
                    let stream = streams[number][turn % 2].0;
                    nccl!(ncclAllReduce(
                        at,
                        at,
                        200,
                        ncclDataType_t::ncclUint32,
                        sum,
                        rank.comm,
                        stream
                    ));
                }
            });
            streams.iter().flatten().for_each(Stream::wait);
        });
        drop(streams);
        ranks.destroy();
    });
}

/// Messages in both directions in groups, whose results work of the same stream reads.
#[test]
fn messages() {
    orders(|lab, seed| {
        if lab.devices.len() < 2 {
            return;
        }
        let mut random = Random::new(seed + 1);
        let ranks = lab.ranks(2, 1 << 14);
        let data = [random.bytes(1500), random.bytes(1500)];
        let layouts: Vec<Layout> = (0..2)
            .map(|rank| Layout {
                send: 0,
                recv: 2048,
                input: data[rank].clone(),
                output: data[1 - rank].clone(),
            })
            .collect();
        ranks.check("both directions", &layouts, || {
            ranks.call(Way::InTurn, |number, rank| {
                let (from, to) = (rank.memory.at(0).cast_const(), rank.memory.at(2048));
                let (bytes, peer) = (ncclDataType_t::ncclUint8, 1 - number as i32);
                for _ in 0..3 {
                    nccl!(ncclGroupStart());
                    nccl!(ncclSend(from, 1500, bytes, peer, rank.comm, rank.stream.0));
                    nccl!(ncclRecv(to, 1500, bytes, peer, rank.comm, rank.stream.0));
                    nccl!(ncclGroupEnd());
                }
            });
        });
        ranks.destroy();
    });
}
