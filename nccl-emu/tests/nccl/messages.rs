//! Sends and receives: in both directions, to oneself, several to one peer, and in groups of different shapes.

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::lab::{Lab, Layout, Random, Rank, Ranks, Stream, Way, fails, nccl};

const BYTES: ncclDataType_t = ncclDataType_t::ncclUint8;

fn send(rank: &Rank, at: usize, count: usize, peer: usize) {
    let from = rank.memory.at(at).cast_const();
    nccl!(ncclSend(from, count, BYTES, peer as i32, rank.comm, rank.stream.0));
}

fn receive(rank: &Rank, at: usize, count: usize, peer: usize) {
    nccl!(ncclRecv(rank.memory.at(at), count, BYTES, peer as i32, rank.comm, rank.stream.0));
}

/// One message of each rank to each, in groups that add them in an order of their own. Chunks are small, so that ranks
/// wait for each other in both directions.
#[test]
fn random_exchanges() {
    let lab = Lab::new();
    let mut random = Random::new(1);
    nccl_emu::set_buffer_size(512);
    for size in lab.sizes() {
        let ranks = lab.ranks(size, 1 << 20);
        for turn in 0..30 {
            let way = [Way::Group, Way::Threads, Way::InTurn][turn % 3];
            // A table of messages: from, to, bytes. The order of messages of one pair counts.
            let messages: Vec<(usize, usize, usize)> = (0..random.below(12))
                .map(|_| (random.below(size), random.below(size), random.below(3000)))
                .collect();
            let data: Vec<Vec<u8>> =
                messages.iter().map(|(_, _, bytes)| random.bytes(*bytes)).collect();
            let mut layouts = Vec::new();
            let mut calls = Vec::new();
            for rank in 0..size {
                let (mut input, mut output) = (Vec::new(), Vec::new());
                let mut own: Vec<(bool, usize, usize, usize)> = Vec::new();
                for ((from, to, bytes), data) in messages.iter().zip(&data) {
                    if *from == rank {
                        own.push((true, input.len(), *bytes, *to));
                        input.extend_from_slice(data);
                    }
                    if *to == rank {
                        own.push((false, output.len(), *bytes, *from));
                        output.extend_from_slice(data);
                    }
                }
                let recv = input.len() + 64;
                // Messages of one pair keep their order, those of others need not.
                let key: Vec<usize> = (0..2 * size).map(|_| random.below(100)).collect();
                own.sort_by_key(|(sends, _, _, peer)| key[2 * peer + usize::from(*sends)]);
                layouts.push(Layout { send: 0, recv, input, output });
                calls.push(own);
            }
            ranks.check(&format!("exchange {turn}, {messages:?}, {way:?}"), &layouts, || {
                ranks.call(way, |number, rank| {
                    nccl!(ncclGroupStart());
                    for &(sends, at, bytes, peer) in &calls[number] {
                        if sends {
                            send(rank, at, bytes, peer);
                        } else {
                            receive(rank, layouts[number].recv + at, bytes, peer);
                        }
                    }
                    nccl!(ncclGroupEnd());
                });
            });
        }
        ranks.destroy();
    }
}

/// A pair of ranks with layouts of `bytes` each way.
fn pair(lab: &Lab, random: &mut Random, bytes: usize) -> Option<(Ranks, Vec<Layout>)> {
    if lab.devices.len() < 2 {
        return None;
    }
    let (a, b) = (random.bytes(bytes), random.bytes(bytes));
    let layout = |input: &[u8], output: &[u8]| Layout {
        send: 0,
        recv: bytes + 64,
        input: input.to_vec(),
        output: output.to_vec(),
    };
    Some((lab.ranks(2, 1 << 20), vec![layout(&a, &b), layout(&b, &a)]))
}

/// One rank has its send and receive in a group, the other one after the other. The group must not hold the send back
/// for the receive, nor the other way round.
#[test]
fn a_group_against_calls_one_after_the_other() {
    let lab = Lab::new();
    let mut random = Random::new(2);
    nccl_emu::set_buffer_size(512);
    let Some((ranks, layouts)) = pair(&lab, &mut random, 5000) else { return };
    for first in [true, false] {
        ranks.check("a group and calls", &layouts, || {
            ranks.call(Way::InTurn, |number, rank| {
                let recv = layouts[number].recv;
                if number == 0 {
                    nccl!(ncclGroupStart());
                }
                for turn in 0..2 {
                    if (turn == 0) == (first || number == 0) {
                        send(rank, 0, 5000, 1 - number);
                    } else {
                        receive(rank, recv, 5000, 1 - number);
                    }
                }
                if number == 0 {
                    nccl!(ncclGroupEnd());
                }
            });
        });
    }
    ranks.destroy();
}

/// A message larger than the staging memory, with more chunks than slots.
#[test]
fn large_messages() {
    let lab = Lab::new();
    let mut random = Random::new(3);
    let bytes = (9 << 20) + 3;
    let Some((_, layouts)) = pair(&lab, &mut random, bytes) else { return };
    let ranks = lab.ranks(2, 32 << 20);
    ranks.check("9 MiB each way", &layouts, || {
        ranks.call(Way::Threads, |number, rank| {
            nccl!(ncclGroupStart());
            send(rank, 0, bytes, 1 - number);
            receive(rank, layouts[number].recv, bytes, 1 - number);
            nccl!(ncclGroupEnd());
        });
    });
    ranks.destroy();
}

/// The calls of a group are on two streams. Work behind the group on either one sees all its results.
#[test]
fn a_group_on_two_streams() {
    let lab = Lab::new();
    let mut random = Random::new(4);
    nccl_emu::set_buffer_size(512);
    let Some((ranks, layouts)) = pair(&lab, &mut random, 3000) else { return };
    let others: Vec<Stream> = ranks.all.iter().map(|rank| rank.device.stream()).collect();
    for _ in 0..10 {
        ranks.check("two streams", &layouts, || {
            ranks.call(Way::InTurn, |number, rank| {
                nccl!(ncclGroupStart());
                send(rank, 0, 3000, 1 - number);
                let (to, stream) = (rank.memory.at(layouts[number].recv), others[number].0);
                nccl!(ncclRecv(to, 3000, BYTES, 1 - number as i32, rank.comm, stream));
                nccl!(ncclGroupEnd());
            });
        });
    }
    ranks.destroy();
}

/// A send to oneself needs a receive of as many bytes in the same group.
#[test]
fn to_oneself() {
    let lab = Lab::new();
    let mut random = Random::new(5);
    let ranks = lab.ranks(1, 1 << 16);
    let rank = &ranks.all[0];
    let (from, to) = (rank.memory.at(0), rank.memory.at(4096));
    let (comm, stream) = (rank.comm, rank.stream.0);
    fails!(ncclInvalidUsage, ncclSend(from, 8, BYTES, 0, comm, stream));
    nccl!(ncclGroupStart());
    nccl!(ncclSend(from, 8, BYTES, 0, comm, stream));
    nccl!(ncclRecv(to, 9, BYTES, 0, comm, stream));
    fails!(ncclInvalidUsage, ncclGroupEnd());
    let input = random.bytes(1000);
    let layouts = [Layout { send: 0, recv: 4096, output: input.clone(), input }];
    ranks.check("to oneself", &layouts, || {
        nccl!(ncclGroupStart());
        receive(rank, 4096, 1000, 0);
        send(rank, 0, 1000, 0);
        nccl!(ncclGroupEnd());
    });
    ranks.destroy();
}

/// A message of nothing needs no other side.
#[test]
fn nothing() {
    let lab = Lab::new();
    let Some((ranks, _)) = pair(&lab, &mut Random::new(6), 1) else { return };
    let rank = &ranks.all[0];
    nccl!(ncclSend(std::ptr::null(), 0, BYTES, 1, rank.comm, rank.stream.0));
    rank.stream.wait();
    ranks.destroy();
}
