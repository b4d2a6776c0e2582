//! Plans the steps of operations: which kernel reads and writes what, in which order, and which flags it waits for.
//!
//! A message is a chunk that passes over an edge. The messages of one operation over one edge use its slots in turn,
//! from the first one on. So both ends agree on the slots, whatever the two have done before, in a graph or outside.
//!
//! No step may wait for a later step on the same stream of another rank. The order of each collective
//! operation is the same on all ranks, and each message is received at the same position as it is sent, or later.

use crate::kernel::Element;
use crate::kernel::Fold;
use crate::rank::{Flag, Link, SLOTS};

/// A reduction, without the parts that depend on the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reduction {
    pub(crate) element: Element,
    pub(crate) op: Op,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Sum,
    Prod,
    Min,
    Max,
    /// The sum, divided by the number of ranks.
    Avg,
    /// The sum of each rank's values times its scalar: at an address of the device, else the bits.
    PreMulSum {
        scalar: u64,
        bits: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collective {
    Broadcast { root: usize },
    Reduce { root: usize, with: Reduction },
    AllReduce { with: Reduction },
    ReduceScatter { with: Reduction },
    AllGather,
}

/// The work of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Copy,
    Fold { element: Element, fold: Fold, scalar: u64, bits: u64 },
}

/// A kernel, and the flags around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) work: Work,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) to: [u64; 2],
    pub(crate) bytes: usize,
    /// The flags that the stream waits for, and the kernel clears: of a full slot, of an empty one.
    pub(crate) waits: [u64; 2],
    /// The flags of others that the kernel sets: the slot is empty, the slot is full.
    pub(crate) sets: [u64; 2],
}

/// One step of a rank in the passing of a chunk from rank to rank.
#[derive(Debug, Clone, Copy)]
struct Pass {
    work: Work,
    from: Option<usize>,
    /// The address of the rank's own operand.
    own: Option<u64>,
    dst: Option<u64>,
    to: Option<usize>,
    bytes: usize,
}

/// Makes the steps of one rank for one operation.
struct Builder<'a> {
    link: &'a Link,
    /// Messages so far, by peer.
    sent: Vec<usize>,
    received: Vec<usize>,
    steps: Vec<Step>,
}

impl<'a> Builder<'a> {
    fn new(link: &'a Link) -> Self {
        let none = vec![0; link.ranks.len()];
        Self { link, sent: none.clone(), received: none, steps: Vec::new() }
    }

    fn pass(&mut self, pass: Pass) {
        let link = self.link;
        let (me, own) = (link.rank, link.own());
        let (mut waits, mut sets) = ([0; 2], [0; 2]);
        let mut to = [pass.dst.unwrap_or(0), 0];
        let (mut a, mut b) = (pass.own.unwrap_or(0), 0);
        if let Some(peer) = pass.from {
            let slot = self.received[peer] % SLOTS;
            self.received[peer] += 1;
            (a, b) = (own.slot(peer, slot), a);
            waits[0] = own.flag(peer, slot, Flag::Full);
            sets[0] = own.flag(peer, slot, Flag::Empty);
        }
        if let Some(peer) = pass.to {
            let slot = self.sent[peer] % SLOTS;
            self.sent[peer] += 1;
            let edge = &link.ranks[peer];
            to[1] = edge.slot(me, slot);
            waits[1] = edge.flag(me, slot, Flag::Empty);
            sets[1] = edge.flag(me, slot, Flag::Full);
        }
        let idle = to == [0, 0] || to == [a, 0] && pass.work == Work::Copy;
        if idle && pass.from.is_none() {
            return;
        }
        self.steps.push(Step { work: pass.work, a, b, to, bytes: pass.bytes, waits, sets });
    }

    /// Passes a chunk along the ranks in order, from 0 to the last one, each of which adds its own values. The last one
    /// has the result: for `dst`, and for the rank `forward`.
    fn reduce(
        &mut self,
        with: Reduction,
        own: u64,
        bytes: usize,
        dst: Option<u64>,
        forward: Option<usize>,
    ) {
        let (rank, last) = (self.link.rank, self.link.ranks.len() - 1);
        let from = rank.checked_sub(1);
        let (dst, to) = if rank == last { (dst, forward) } else { (None, Some(rank + 1)) };
        let work = with.work(rank, last);
        self.pass(Pass { work, from, own: Some(own), dst, to, bytes });
    }
}

impl Reduction {
    /// Returns the computation of a rank's kernel.
    fn work(self, rank: usize, last: usize) -> Work {
        let none = (0, 0);
        let (fold, (scalar, bits)) = match self.op {
            Op::PreMulSum { scalar, bits } if rank == 0 => (Fold::Scale, (scalar, bits)),
            Op::PreMulSum { scalar, bits } => (Fold::ScaleSum, (scalar, bits)),
            _ if rank == 0 => return Work::Copy,
            Op::Avg if rank == last => (Fold::SumDiv, (0, last as u64 + 1)),
            Op::Sum | Op::Avg => (Fold::Sum, none),
            Op::Prod => (Fold::Prod, none),
            Op::Min => (Fold::Min, none),
            Op::Max => (Fold::Max, none),
        };
        Work::Fold { element: self.element, fold, scalar, bits }
    }
}

/// Returns the chunks of so many bytes: where each begins, and its bytes.
pub(crate) fn chunks(bytes: usize, slot: usize) -> impl Iterator<Item = (u64, usize)> {
    (0..bytes.div_ceil(slot)).map(move |index| {
        let offset = index * slot;
        (offset as u64, slot.min(bytes - offset))
    })
}

/// Returns the steps of a collective operation of this rank; `bytes` is the size of its part.
pub(crate) fn collective(
    link: &Link,
    what: Collective,
    send: u64,
    recv: u64,
    bytes: usize,
) -> Vec<Step> {
    let mut build = Builder::new(link);
    let (rank, size) = (link.rank, link.ranks.len());
    let last = size - 1;
    let slot = link.own().slot_bytes;
    let next = (rank + 1) % size;
    let before = (rank + last) % size;
    match what {
        Collective::Broadcast { root } => {
            // Places count around the ring from the root on.
            let place = (rank + size - root) % size;
            let to = (place < last).then_some(next);
            for (at, bytes) in chunks(bytes, slot) {
                let dst = Some(recv + at);
                build.pass(if place == 0 {
                    let dst = dst.filter(|_| send != recv);
                    Pass { work: Work::Copy, from: None, own: Some(send + at), dst, to, bytes }
                } else {
                    Pass { work: Work::Copy, from: Some(before), own: None, dst, to, bytes }
                });
            }
        }
        Collective::Reduce { root, with } => {
            let forward = (root != last).then_some(root);
            let dst = |at| (root == last).then_some(recv + at);
            staggered(&mut build, chunks(bytes, slot), |build, late, (at, bytes)| {
                if !late {
                    build.reduce(with, send + at, bytes, dst(at), forward);
                } else if rank == root && root != last {
                    build.receive(last, recv + at, bytes, None);
                }
            });
        }
        Collective::AllReduce { with } => {
            let forward = (last > 0).then_some(0);
            let to = (rank + 1 < last).then_some(next);
            staggered(&mut build, chunks(bytes, slot), |build, late, (at, bytes)| {
                if !late {
                    build.reduce(with, send + at, bytes, Some(recv + at), forward);
                } else if rank != last {
                    build.receive(before, recv + at, bytes, to);
                }
            });
        }
        Collective::ReduceScatter { with } => {
            let parts = (0..size)
                .flat_map(|part| chunks(bytes, slot).map(move |(at, length)| (part, at, length)));
            staggered(&mut build, parts, |build, late, (part, at, length)| {
                if !late {
                    let own = send + (part * bytes) as u64 + at;
                    let dst = (part == last).then_some(recv + at);
                    build.reduce(with, own, length, dst, (part != last).then_some(part));
                } else if rank == part && part != last {
                    build.receive(last, recv + at, length, None);
                }
            });
        }
        Collective::AllGather => {
            // Each rank passes on the part that it has received last, around the ring.
            let part = |number: usize| recv + (number * bytes) as u64;
            for (at, length) in chunks(bytes, slot) {
                for turn in 0..size {
                    let number = (rank + size - turn) % size;
                    let dst = part(number) + at;
                    let to = (turn < last).then_some(next);
                    if turn > 0 {
                        build.receive(before, dst, length, to);
                        continue;
                    }
                    let own = Some(send + at);
                    let dst = Some(dst).filter(|_| send != part(rank));
                    build.pass(Pass { work: Work::Copy, from: None, own, dst, to, bytes: length });
                }
            }
        }
    }
    build.steps
}

impl Builder<'_> {
    /// Receives a chunk, and passes it on.
    fn receive(&mut self, from: usize, dst: u64, bytes: usize, to: Option<usize>) {
        let (from, dst) = (Some(from), Some(dst));
        self.pass(Pass { work: Work::Copy, from, own: None, dst, to, bytes });
    }
}

/// Makes the early steps of each part, and its late ones one part later: so a rank begins with the next chunk before
/// the result of the last one is back.
fn staggered<'a, T: Copy>(
    build: &mut Builder<'a>,
    parts: impl Iterator<Item = T>,
    mut step: impl FnMut(&mut Builder<'a>, bool, T),
) {
    let mut behind = None;
    for part in parts {
        step(build, false, part);
        if let Some(behind) = behind.replace(part) {
            step(build, true, behind);
        }
    }
    if let Some(behind) = behind {
        step(build, true, behind);
    }
}

/// A message to or from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) sends: bool,
    pub(crate) peer: usize,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

/// Steps of several streams, in the order in which they are enqueued. Equal numbers are one stream.
pub(crate) type Lanes = Vec<(usize, Step)>;

/// Returns the steps of messages that progress together: a lane for each edge and direction, on which messages keep
/// their order. Chunks of all lanes are enqueued alternately, the sends before the receives, near peers before far
/// ones. So the messages of ranks that exchange with each other also come to an end where the device has fewer queues
/// than there are lanes.
///
/// # Errors
/// A text, if the sends and receives of the rank to itself do not fit together.
pub(crate) fn messages(link: &Link, messages: &[Message]) -> Result<Lanes, String> {
    let (rank, size) = (link.rank, link.ranks.len());
    let slot = link.own().slot_bytes;
    let of = |sends: bool, peer: usize| {
        messages.iter().filter(move |one| one.sends == sends && one.peer == peer && one.bytes > 0)
    };
    let mut lanes: Vec<Vec<Step>> = Vec::new();
    let own: Vec<&Message> = of(true, rank).collect();
    let back: Vec<&Message> = of(false, rank).collect();
    if own.len() != back.len() || own.iter().zip(&back).any(|(send, recv)| send.bytes != recv.bytes)
    {
        return Err(format!(
            "rank {rank} sends {} messages to itself and receives {}: in one group, each send needs a receive of as many \
             bytes",
            own.len(),
            back.len()
        ));
    }
    let mut build = Builder::new(link);
    for (send, recv) in own.into_iter().zip(back) {
        let (own, dst) = (Some(send.address), Some(recv.address));
        build.pass(Pass { work: Work::Copy, from: None, own, dst, to: None, bytes: send.bytes });
    }
    lanes.push(build.steps);
    for sends in [true, false] {
        for distance in 1..size {
            let peer = (if sends { rank + distance } else { rank + size - distance }) % size;
            let mut steps = Vec::new();
            for message in of(sends, peer) {
                let mut build = Builder::new(link);
                for (at, bytes) in chunks(message.bytes, slot) {
                    if sends {
                        let own = Some(message.address + at);
                        let (work, to) = (Work::Copy, Some(peer));
                        build.pass(Pass { work, from: None, own, dst: None, to, bytes });
                    } else {
                        build.receive(peer, message.address + at, bytes, None);
                    }
                }
                steps.append(&mut build.steps);
            }
            lanes.push(steps);
        }
    }
    lanes.retain(|steps| !steps.is_empty());
    let turns = lanes.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for turn in 0..turns {
        for (lane, steps) in lanes.iter().enumerate() {
            all.extend(steps.get(turn).map(|step| (lane, *step)));
        }
    }
    Ok(all)
}
