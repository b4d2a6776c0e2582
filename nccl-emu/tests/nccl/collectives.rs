//! Every collective operation, with every type, operation and number of ranks, against sums of the host.

use std::ptr;

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::elements::{Op, TYPES, Type, type_of};
use crate::lab::{Lab, Layout, Random, Rank, Ranks, Stream, Way, cu, nccl};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Broadcast(usize),
    Reduce(usize),
    AllReduce,
    ReduceScatter,
    AllGather,
    Gather(usize),
    Scatter(usize),
    AlltoAll,
}

/// An operation of all ranks on random arrays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) what: What,
    pub(crate) ty: Type,
    pub(crate) op: Op,
    pub(crate) count: usize,
    pub(crate) in_place: bool,
}

impl Case {
    /// Returns inputs and results of all ranks.
    pub(crate) fn layouts(&self, size: usize, random: &mut Random) -> Vec<Layout> {
        let inputs: Vec<Vec<u8>> =
            (0..size).map(|rank| self.ty.draw(random, self.inputs(size, rank))).collect();
        let outputs = self.outputs(&inputs);
        let both = inputs.into_iter().zip(outputs).enumerate();
        both.map(|(rank, (input, output))| {
            let apart = (input.len() + 64).next_multiple_of(64);
            let (send, recv) = self.places(rank, apart);
            Layout { send, recv, input, output }
        })
        .collect()
    }

    /// Returns the number of elements that a rank passes.
    pub(crate) fn inputs(&self, size: usize, rank: usize) -> usize {
        match self.what {
            What::ReduceScatter | What::AlltoAll => self.count * size,
            What::Scatter(root) if rank == root => self.count * size,
            What::Scatter(_) => 0,
            _ => self.count,
        }
    }

    /// Returns where a rank's input and output begin: the output at `apart`, unless the operation works in place.
    pub(crate) fn places(&self, rank: usize, apart: usize) -> (usize, usize) {
        let bytes = self.count * self.ty.size;
        match self.what {
            _ if !self.in_place => (0, apart),
            What::ReduceScatter => (0, rank * bytes),
            What::AllGather => (rank * bytes, 0),
            What::Gather(root) if rank == root => (rank * bytes, 0),
            What::Scatter(root) if rank == root => (0, rank * bytes),
            What::Gather(_) | What::Scatter(_) | What::AlltoAll => (0, apart),
            _ => (0, 0),
        }
    }

    /// Returns the results of all ranks.
    pub(crate) fn outputs(&self, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (bytes, size) = (self.count * self.ty.size, inputs.len());
        let part = |rank: usize, part: usize| &inputs[rank][part * bytes..][..bytes];
        let reduced = |number: usize| {
            let ranks: Vec<&[u8]> = (0..size).map(|rank| part(rank, number)).collect();
            self.ty.reduce(self.op, &ranks)
        };
        let result = match self.what {
            What::Reduce(_) | What::AllReduce => reduced(0),
            _ => Vec::new(),
        };
        (0..size)
            .map(|rank| match self.what {
                What::Broadcast(root) => inputs[root].clone(),
                What::Reduce(root) if rank == root => result.clone(),
                What::Reduce(_) => Vec::new(),
                What::AllReduce => result.clone(),
                What::ReduceScatter => reduced(rank),
                What::AllGather => inputs.concat(),
                What::Gather(root) if rank == root => inputs.concat(),
                What::Gather(_) => Vec::new(),
                What::Scatter(root) => part(root, rank).to_vec(),
                What::AlltoAll => (0..size).flat_map(|from| part(from, rank).to_vec()).collect(),
            })
            .collect()
    }

    /// Makes the call of one rank.
    pub(crate) fn call(&self, rank: &Rank, layout: &Layout, op: ncclRedOp_t) {
        let (send, recv) = (rank.memory.at(layout.send), rank.memory.at(layout.recv));
        self.enqueue(rank.comm, &rank.stream, (send.cast_const(), recv), op);
    }

    /// Makes the call of one rank with this memory.
    pub(crate) fn enqueue(
        &self,
        comm: ncclComm_t,
        stream: &Stream,
        (send, recv): (Buffer, BufferMut),
        op: ncclRedOp_t,
    ) {
        let (stream, ty, count) = (stream.0, self.ty.raw, self.count);
        match self.what {
            What::Broadcast(root) => {
                nccl!(ncclBroadcast(send, recv, count, ty, root as i32, comm, stream));
            }
            What::Reduce(root) => {
                nccl!(ncclReduce(send, recv, count, ty, op, root as i32, comm, stream));
            }
            What::AllReduce => nccl!(ncclAllReduce(send, recv, count, ty, op, comm, stream)),
            What::ReduceScatter => {
                nccl!(ncclReduceScatter(send, recv, count, ty, op, comm, stream));
            }
            What::AllGather => nccl!(ncclAllGather(send, recv, count, ty, comm, stream)),
            What::Gather(root) => {
                nccl!(ncclGather(send, recv, count, ty, root as i32, comm, stream));
            }
            What::Scatter(root) => {
                nccl!(ncclScatter(send, recv, count, ty, root as i32, comm, stream));
            }
            What::AlltoAll => nccl!(ncclAlltoAll(send, recv, count, ty, comm, stream)),
        }
    }

    /// Returns the operation of each rank, which the caller destroys.
    pub(crate) fn ops(&self, ranks: &Ranks) -> Vec<ncclRedOp_t> {
        let make = |(number, rank): (usize, &Rank)| {
            self.op.raw().unwrap_or_else(|| {
                let mut scalar = (self.ty.scalar)(number);
                let mut op = ncclRedOp_t(0);
                let scalar = scalar.as_mut_ptr().cast();
                let residence = ncclScalarResidence_t::ncclScalarHostImmediate;
                nccl!(ncclRedOpCreatePreMulSum(
                    &raw mut op,
                    scalar,
                    self.ty.raw,
                    residence,
                    rank.comm
                ));
                op
            })
        };
        ranks.all.iter().enumerate().map(make).collect()
    }

    pub(crate) fn drop_ops(&self, ranks: &Ranks, ops: &[ncclRedOp_t]) {
        for (rank, op) in ranks.all.iter().zip(ops).filter(|_| self.op.raw().is_none()) {
            // As soon as the call has returned.
            nccl!(ncclRedOpDestroy(*op, rank.comm));
        }
    }

    /// Runs the operation once and compares the results.
    pub(crate) fn check(&self, ranks: &Ranks, way: Way, random: &mut Random) {
        let layouts = self.layouts(ranks.all.len(), random);
        let Self { what, ty, op, count, in_place } = self;
        let name =
            format!("{what:?} of {count} {:?}, {op:?}, in place: {in_place}, {way:?}", ty.raw);
        ranks.check(&name, &layouts, || {
            let ops = self.ops(ranks);
            ranks.call(way, |number, rank| self.call(rank, &layouts[number], ops[number]));
            self.drop_ops(ranks, &ops);
        });
    }
}

const COUNTS: [usize; 4] = [0, 1, 31, 33];

fn reductions(what: impl Fn(&mut Random, usize) -> What) {
    let lab = Lab::new();
    let mut random = Random::new(1);
    for size in lab.sizes() {
        let ranks = lab.ranks(size, 1 << 16);
        for ty in TYPES {
            for op in Op::ALL {
                for count in COUNTS {
                    for in_place in [false, true] {
                        let what = what(&mut random, size);
                        let way = [Way::Group, Way::InTurn, Way::Threads][random.below(3)];
                        Case { what, ty: *ty, op, count, in_place }.check(&ranks, way, &mut random);
                    }
                }
            }
        }
        ranks.destroy();
    }
}

#[test]
fn reduce() {
    reductions(|random, size| What::Reduce(random.below(size)));
}

#[test]
fn all_reduce() {
    reductions(|_, _| What::AllReduce);
}

#[test]
fn reduce_scatter() {
    reductions(|_, _| What::ReduceScatter);
}

/// Copies: of each size of elements, in chunks of 256 bytes too, with roots and places.
#[test]
fn copies() {
    let lab = Lab::new();
    let mut random = Random::new(2);
    for size in lab.sizes() {
        for buffer in [0, 512] {
            nccl_emu::set_buffer_size(buffer);
            let ranks = lab.ranks(size, 1 << 20);
            for ty in TYPES {
                for count in [0, 1, 31, 33, 500] {
                    let root = random.below(size);
                    for what in [
                        What::Broadcast(root),
                        What::AllGather,
                        What::Gather(root),
                        What::Scatter(root),
                        What::AlltoAll,
                    ] {
                        let in_place = random.below(2) == 1;
                        let way = [Way::Group, Way::InTurn, Way::Threads][random.below(3)];
                        let case = Case { what, ty: *ty, op: Op::Sum, count, in_place };
                        case.check(&ranks, way, &mut random);
                    }
                }
            }
            ranks.destroy();
        }
    }
}

/// Many chunks of 256 bytes, of which the last is not full.
#[test]
fn chunks() {
    let lab = Lab::new();
    let mut random = Random::new(3);
    nccl_emu::set_buffer_size(512);
    for size in lab.sizes() {
        let ranks = lab.ranks(size, 1 << 20);
        for ty in TYPES {
            for what in [
                What::Reduce(random.below(size)),
                What::AllReduce,
                What::ReduceScatter,
                What::AllGather,
                What::Broadcast(random.below(size)),
            ] {
                let count = 256 / ty.size * (3 + random.below(4)) + random.below(5);
                let op = Op::ALL[random.below(6)];
                let in_place = random.below(2) == 1;
                let way = [Way::Group, Way::Threads][random.below(2)];
                Case { what, ty: *ty, op, count, in_place }.check(&ranks, way, &mut random);
            }
        }
        ranks.destroy();
    }
}

/// 1 Mi elements.
#[test]
fn large() {
    let lab = Lab::new();
    let mut random = Random::new(4);
    let size = lab.devices.len();
    let ranks = lab.ranks(size, 80 << 20);
    for (what, ty, op, count) in [
        (What::AllReduce, ncclDataType_t::ncclFloat64, Op::Sum, 1 << 20),
        (What::Reduce(1 % size), ncclDataType_t::ncclBfloat16, Op::Avg, 1 << 20),
        (What::ReduceScatter, ncclDataType_t::ncclInt32, Op::PreMulSum, 1 << 18),
        (What::AllGather, ncclDataType_t::ncclFloat16, Op::Sum, 1 << 20),
        (What::Broadcast(2 % size), ncclDataType_t::ncclUint8, Op::Sum, 1 << 20),
        (What::AlltoAll, ncclDataType_t::ncclInt64, Op::Sum, 1 << 18),
    ] {
        let begin = std::time::Instant::now();
        for in_place in [false, true] {
            Case { what, ty: type_of(ty), op, count, in_place }.check(
                &ranks,
                Way::Group,
                &mut random,
            );
        }
        println!("{what:?} of {count} {ty:?}, twice with the host's part: {:?}", begin.elapsed());
    }
    ranks.destroy();
}

/// The scalar is in the memory of the device, and read when the operation runs.
#[test]
fn scalars_of_the_device() {
    let lab = Lab::new();
    let mut random = Random::new(5);
    let ranks = lab.ranks(lab.devices.len(), 1 << 16);
    for ty in TYPES {
        let case =
            Case { what: What::AllReduce, ty: *ty, op: Op::PreMulSum, count: 33, in_place: true };
        let layouts = case.layouts(ranks.all.len(), &mut random);
        let scalars: Vec<_> = ranks.all.iter().map(|rank| rank.device.memory(8)).collect();
        let ops: Vec<ncclRedOp_t> = (ranks.all.iter().zip(&scalars))
            .map(|(rank, scalar)| {
                let (mut op, at) = (ncclRedOp_t(0), scalar.at(0));
                let residence = ncclScalarResidence_t::ncclScalarDevice;
                nccl!(ncclRedOpCreatePreMulSum(&raw mut op, at, ty.raw, residence, rank.comm));
                op
            })
            .collect();
        ranks.check(&format!("{:?}", ty.raw), &layouts, || {
            for (number, scalar) in scalars.iter().enumerate() {
                scalar.fill(&(ty.scalar)(number));
            }
            ranks.call(Way::Group, |number, rank| case.call(rank, &layouts[number], ops[number]));
        });
        case.drop_ops(&ranks, &ops);
    }
    ranks.destroy();
}

/// The NULL stream of each device is a stream as any other.
#[test]
fn the_null_stream() {
    let lab = Lab::new();
    let mut random = Random::new(6);
    let mut ranks = lab.ranks(lab.devices.len(), 1 << 16);
    let ty = type_of(ncclDataType_t::ncclFloat32);
    let case = Case { what: What::AllReduce, ty, op: Op::Sum, count: 100, in_place: false };
    let layouts = case.layouts(ranks.all.len(), &mut random);
    let kept: Vec<_> = (ranks.all.iter_mut())
        .map(|rank| std::mem::replace(&mut rank.stream.0, ptr::null_mut()))
        .collect();
    ranks.check("the NULL stream", &layouts, || {
        ranks.call(Way::Group, |number, rank| {
            case.call(rank, &layouts[number], ncclRedOp_t::ncclSum);
        });
        for rank in &ranks.all {
            rank.device.enter();
            cu!(cuStreamSynchronize(ptr::null_mut()));
        }
    });
    for (rank, stream) in ranks.all.iter_mut().zip(kept) {
        rank.stream.0 = stream;
    }
    ranks.destroy();
}

/// The older form of a broadcast.
#[test]
fn bcast() {
    let lab = Lab::new();
    let mut random = Random::new(7);
    let ranks = lab.ranks(lab.devices.len(), 1 << 16);
    let ty = type_of(ncclDataType_t::ncclUint64);
    let case = Case { what: What::Broadcast(0), ty, op: Op::Sum, count: 77, in_place: true };
    let layouts = case.layouts(ranks.all.len(), &mut random);
    ranks.check("bcast", &layouts, || {
        ranks.call(Way::Threads, |_, rank| {
            nccl!(ncclBcast(rank.memory.at(0), 77, ty.raw, 0, rank.comm, rank.stream.0));
        });
    });
    ranks.destroy();
}

/// Numbers of 8 bits are copied.
#[test]
fn numbers_of_eight_bits_are_copied() {
    let lab = Lab::new();
    let mut random = Random::new(8);
    let ranks = lab.ranks(lab.devices.len(), 1 << 16);
    let mut ty = type_of(ncclDataType_t::ncclUint8);
    ty.raw = ncclDataType_t::ncclFloat8e4m3;
    let case = Case { what: What::AllGather, ty, op: Op::Sum, count: 77, in_place: false };
    case.check(&ranks, Way::Group, &mut random);
    ranks.destroy();
}
