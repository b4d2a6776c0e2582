//! Random programs of collectives and messages under orders of events that the software device draws from seeds. Results
//! are compared with the host's, which knows the programs and not the orders.
//!
//! `TEST_SCHEDULE=<seed>` runs one seed alone, and `TEST_DEEP=1` 1,000 of them.

use std::collections::HashSet;
use std::fmt::Write as _;

use nccl_emu::api::*;
use nccl_emu::types::*;

use crate::collectives::{Case, What};
use crate::elements::{Op, TYPES, Type};
use crate::lab::{Lab, Memory, Random, Ranks, Stream, Way, nccl, on_gpu};

/// How many programs there are. Each runs under several seeds.
const PROGRAMS: u64 = 40;
/// The numbers of elements of collectives.
const COUNTS: [usize; 5] = [0, 1, 31, 33, 1000];
/// The bytes of an operation's input, and of its output.
const PLACE: usize = 1 << 15;
/// The bytes of the largest message.
const MESSAGE: usize = 2500;
/// The inputs and outputs of one communicator: two collectives beside each other, and the messages of one group.
const AREA: usize = 6 * PLACE;
/// The communicator of all ranks, and those that are split from it.
const AREAS: usize = 3;

/// A communicator: its ranks in their order, and where its memory begins.
struct Comm {
    ranks: Vec<(usize, ncclComm_t)>,
    area: usize,
}

// SAFETY: the handle of a communicator may be used from any thread.
unsafe impl Sync for Comm {}

/// A message in a group: sender and receiver in their communicator, its bytes, and its places.
#[derive(Debug, Clone, Copy)]
struct Message {
    from: usize,
    to: usize,
    bytes: usize,
    source: usize,
    target: usize,
}

/// A collective with its places: where they begin, and whether the second one is the input.
#[derive(Debug, Clone, Copy)]
struct Placed {
    case: Case,
    begin: usize,
    swapped: bool,
}

impl Placed {
    /// Returns where a rank's input and output begin.
    fn of(&self, number: usize) -> (usize, usize) {
        let (send, recv) = self.case.places(number, PLACE);
        let (send, recv) =
            if self.swapped && !self.case.in_place { (recv, send) } else { (send, recv) };
        (self.begin + send, self.begin + recv)
    }
}

/// Operations that are one group of each rank. They use memory of their own.
#[derive(Debug, Default)]
struct Step {
    collectives: Vec<Placed>,
    messages: Vec<Message>,
}

/// All memory as it must be, by rank.
type Model = Vec<Vec<u8>>;

/// Returns one of the types whose arithmetic is exact for all bytes.
fn integer(random: &mut Random) -> Type {
    TYPES[random.below(6)]
}

fn collective(random: &mut Random, size: usize) -> Case {
    let root = random.below(size);
    let what = match random.below(8) {
        0 => What::Broadcast(root),
        1 => What::Reduce(root),
        2 => What::AllReduce,
        3 => What::ReduceScatter,
        4 => What::AllGather,
        5 => What::Gather(root),
        6 => What::Scatter(root),
        _ => What::AlltoAll,
    };
    let op = [Op::Sum, Op::Prod, Op::Min, Op::Max, Op::Avg][random.below(5)];
    let count = COUNTS[random.below(COUNTS.len())];
    Case { what, ty: integer(random), op, count, in_place: random.below(2) == 1 }
}

impl Step {
    fn draw(random: &mut Random, size: usize) -> Self {
        let mut step = Self::default();
        for place in 0..random.below(3) {
            let (case, swapped) = (collective(random, size), random.below(2) == 1);
            step.collectives.push(Placed { case, begin: 2 * place * PLACE, swapped });
        }
        let messages =
            if step.collectives.is_empty() { 1 + random.below(6) } else { random.below(3) };
        for number in 0..messages {
            let bytes = [0, 1, 31, 33, 1000, MESSAGE][random.below(6)];
            let (from, to) = (random.below(size), random.below(size));
            let (one, two) = (4 * PLACE + number * MESSAGE, 5 * PLACE + number * MESSAGE);
            let (source, target) = if random.below(2) == 1 { (one, two) } else { (two, one) };
            step.messages.push(Message { from, to, bytes, source, target });
        }
        step
    }

    /// Does to the model what the step does to the memory.
    fn apply(&self, model: &mut Model, comm: &Comm) {
        let size = comm.ranks.len();
        for placed in &self.collectives {
            let case = placed.case;
            let input = |(number, (rank, _)): (usize, &(usize, ncclComm_t))| {
                let at = comm.area + placed.of(number).0;
                model[*rank][at..][..case.inputs(size, number) * case.ty.size].to_vec()
            };
            let inputs: Vec<Vec<u8>> = comm.ranks.iter().enumerate().map(input).collect();
            for (number, output) in case.outputs(&inputs).into_iter().enumerate() {
                let at = comm.area + placed.of(number).1;
                model[comm.ranks[number].0][at..][..output.len()].copy_from_slice(&output);
            }
        }
        for Message { from, to, bytes, source, target } in self.messages.iter().copied() {
            let data = model[comm.ranks[from].0][comm.area + source..][..bytes].to_vec();
            model[comm.ranks[to].0][comm.area + target..][..bytes].copy_from_slice(&data);
        }
    }

    /// Makes the calls of one rank of the communicator, on one of its streams or on both.
    fn call(&self, comm: &Comm, number: usize, memory: &Memory, streams: [&Stream; 2]) {
        let (handle, mut turn) = (comm.ranks[number].1, 0);
        let mut stream = || {
            turn += 1;
            streams[turn % 2]
        };
        nccl!(ncclGroupStart());
        for placed in &self.collectives {
            let (case, (send, recv)) = (placed.case, placed.of(number));
            let at = |offset: usize| memory.at(comm.area + offset);
            let op = case.op.raw().expect("a built-in operation");
            case.enqueue(handle, stream(), (at(send).cast_const(), at(recv)), op);
        }
        let bytes_of = ncclDataType_t::ncclUint8;
        for message in &self.messages {
            let Message { from, to, bytes, source, target } = *message;
            if from == number {
                let at = memory.at(comm.area + source).cast_const();
                nccl!(ncclSend(at, bytes, bytes_of, to as i32, handle, stream().0));
            }
            if to == number {
                let at = memory.at(comm.area + target);
                nccl!(ncclRecv(at, bytes, bytes_of, from as i32, handle, stream().0));
            }
        }
        nccl!(ncclGroupEnd());
    }
}

/// Splits the communicator of all ranks: each colour is one of the areas behind its own.
fn split(random: &mut Random, ranks: &Ranks) -> Vec<Comm> {
    let size = ranks.all.len();
    let choices: Vec<(usize, i32)> =
        (0..size).map(|_| (random.below(AREAS - 1), random.below(5) as i32)).collect();
    let mut handles = vec![std::ptr::null_mut(); size];
    nccl!(ncclGroupStart());
    for ((rank, (color, key)), handle) in ranks.all.iter().zip(&choices).zip(&mut handles) {
        let (new, config) = (std::ptr::from_mut(handle), std::ptr::null_mut());
        nccl!(ncclCommSplit(rank.comm, *color as i32, *key, new, config));
    }
    nccl!(ncclGroupEnd());
    let of = |color: usize| {
        let mut members: Vec<usize> = (0..size).filter(|rank| choices[*rank].0 == color).collect();
        members.sort_by_key(|rank| (choices[*rank].1, *rank));
        let ranks = members.into_iter().map(|rank| (rank, handles[rank])).collect();
        Comm { ranks, area: (color + 1) * AREA }
    };
    (0..AREAS - 1).map(of).filter(|comm| !comm.ranks.is_empty()).collect()
}

/// Runs a program and returns what was wrong.
fn program(lab: &Lab, number: u64) -> Result<(), String> {
    let mut random = Random::new(number + 1);
    // Chunks of 256 to 2,048 bytes: more messages than slots, or one alone.
    nccl_emu::set_buffer_size(512 << random.below(4));
    let size = (2 + random.below(3)).min(lab.devices.len());
    let ranks = lab.ranks(size, AREAS * AREA);
    let others: Vec<Stream> = ranks.all.iter().map(|rank| rank.device.stream()).collect();
    let mut model: Model = (0..size).map(|_| random.bytes(AREAS * AREA)).collect();
    for (rank, bytes) in ranks.all.iter().zip(&model) {
        rank.memory.fill(bytes);
    }
    let whole = ranks.all.iter().enumerate().map(|(number, rank)| (number, rank.comm)).collect();
    let mut comms = vec![Comm { ranks: whole, area: 0 }];
    let mut told = String::new();
    for turn in 0..7 {
        if turn == 3 {
            comms.extend(split(&mut random, &ranks));
        }
        let comm = &comms[random.below(comms.len())];
        let step = Step::draw(&mut random, comm.ranks.len());
        let way = [Way::Group, Way::InTurn, Way::Threads][random.below(3)];
        // Each rank has its streams in an order of its own.
        let swapped: Vec<bool> = comm.ranks.iter().map(|_| random.below(2) == 1).collect();
        let members: Vec<usize> = comm.ranks.iter().map(|(rank, _)| *rank).collect();
        let _ = writeln!(told, "{way:?} of {members:?}: {step:?}");
        step.apply(&mut model, comm);
        ranks.call(way, |rank, of| {
            let Some(number) = members.iter().position(|member| *member == rank) else { return };
            let (one, two) = (&of.stream, &others[rank]);
            let streams = if swapped[number] { [two, one] } else { [one, two] };
            step.call(comm, number, &of.memory, streams);
        });
    }
    ranks.all.iter().map(|rank| &rank.stream).chain(&others).for_each(Stream::wait);
    let mut wrong = Ok(());
    for (number, (rank, model)) in ranks.all.iter().zip(&model).enumerate() {
        let found = rank.memory.read(model.len());
        if let Some(at) = (0..found.len()).find(|at| found[*at] != model[*at]) {
            let (found, wanted) = (found[at], model[at]);
            wrong =
                Err(format!("rank {number}: byte {at} is {found:#x} and not {wanted:#x}\n{told}"));
            break;
        }
    }
    for (rank, comm) in comms.iter().skip(1).flat_map(|comm| &comm.ranks) {
        ranks.all[*rank].device.enter();
        nccl!(ncclCommDestroy(*comm));
    }
    drop(others);
    ranks.destroy();
    wrong
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.trim().parse().ok())
}

#[test]
fn random_programs() {
    let lab = Lab::new();
    let deep = std::env::var("TEST_DEEP").is_ok_and(|text| !text.is_empty() && text != "0");
    let seeds = match variable("TEST_SCHEDULE") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + if deep { 1000 } else { 200 },
    };
    let (mut orders, mut choices) = (HashSet::new(), 0);
    let (count, begin) = (seeds.end - seeds.start, std::time::Instant::now());
    for seed in seeds {
        assert!(on_gpu() || cuda_emu::reseed(Some(seed)));
        let program = seed % PROGRAMS;
        if let Err(wrong) = self::program(&lab, program) {
            panic!("program {program}, seed {seed} (again: TEST_SCHEDULE={seed}): {wrong}");
        }
        if let Some(interleaving) = cuda_emu::interleaving() {
            orders.insert((program, interleaving.order));
            choices += interleaving.choices;
        }
    }
    println!(
        "{count} schedules of {} programs: {} orders, {choices} choices, {:?}",
        PROGRAMS.min(count),
        orders.len(),
        begin.elapsed()
    );
    assert!(on_gpu() || orders.len() as u64 * 10 >= count * 9, "only {} orders", orders.len());
    assert!(on_gpu() || cuda_emu::reseed(None));
}
