//! A random program: a list of steps on several streams.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use test_harness::Rng;

/// The words of each buffer.
pub(super) const LEN: usize = 96;

/// The most buffers at a time that a program can name.
const BUFFERS: usize = 6;
/// Graphs at a time.
const GRAPHS: usize = 2;

/// Names a buffer; never used again.
pub(super) type Id = usize;

/// What is enqueued on one stream, recording or not: kernels, the driver's fills and copies, uploads
/// of words that count up from a value, and fills by the raw stream, as another library makes them.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Fill { to: Id, range: Range<usize>, value: u32 },
    Iota { to: Id, range: Range<usize>, value: u32 },
    Add { to: Id, range: Range<usize>, value: u32 },
    Copy { from: Id, to: Id, range: Range<usize> },
    Set { to: Id, range: Range<usize>, value: u32 },
    Move { from: Id, to: Id, range: Range<usize>, at: usize },
    Upload { to: Id, range: Range<usize>, value: u32 },
    Raw { to: Id, range: Range<usize>, value: u32 },
}

/// A part of a recording. Lane 0 is the stream that the recording begins with; each fork adds one.
///
/// Scratch is memory that the graph allocates: it is made and written on the first lane, changed on
/// the second, read on the third, and dropped. A child is another graph as it is now.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Fork { of: usize },
    Join { lane: usize, other: usize },
    Work { lane: usize, work: Work, named: bool },
    Scratch { lanes: [usize; 3], from: Id, to: Id, value: u32 },
    Child { lane: usize, graph: usize, parts: Vec<Part> },
}

/// How a buffer is made. Its words count up from a value, or are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Words,
    Zeros,
    CloneOf(Id),
    Managed,
    Pinned,
    Registered,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Work {
        on: usize,
        work: Work,
    },
    /// The two halves of a split buffer, used on two streams.
    Halves {
        on: [usize; 2],
        of: Id,
        at: usize,
        values: [u32; 2],
    },
    Download {
        on: usize,
        from: Id,
        range: Range<usize>,
    },
    UploadPinned {
        on: usize,
        to: Id,
        value: u32,
    },
    DownloadPinned {
        on: usize,
        from: Id,
    },
    WaitTransfer {
        which: usize,
    },
    DropTransfer {
        which: usize,
    },
    Make {
        id: Id,
        on: usize,
        how: Made,
        value: u32,
    },
    Drop {
        id: Id,
    },
    NewStream {
        which: usize,
    },
    HostFunction {
        on: usize,
    },
    Event {
        first: usize,
        then: usize,
    },
    Join {
        first: usize,
        then: usize,
    },
    /// Marks are kept, and waited for by another stream or the host, perhaps much later.
    Mark {
        on: usize,
    },
    WaitMark {
        which: usize,
        on: Option<usize>,
    },
    Synchronize {
        on: usize,
    },
    /// The host reads and writes through guards.
    Look {
        id: Id,
    },
    Write {
        id: Id,
        value: u32,
    },
    /// Records a graph in a place for graphs; with `keeps` the buffers are its state.
    Capture {
        graph: usize,
        keeps: bool,
        parts: Vec<Part>,
    },
    /// Records a graph anew, with the state that it has.
    Recapture {
        graph: usize,
        parts: Vec<Part>,
    },
    /// Makes another graph of the same shape, without a state.
    Clone {
        from: usize,
        to: usize,
    },
    Launch {
        graph: usize,
        on: usize,
    },
    /// Gives one of the named launches another value.
    Update {
        graph: usize,
        node: usize,
        value: u32,
    },
    /// Takes the state out, where it is the only handle to some buffers.
    TakeState {
        graph: usize,
    },
}

/// Words that count up.
pub(super) fn words(value: u32, count: usize) -> Vec<u32> {
    (0..count as u32).map(|index| value.wrapping_add(index)).collect()
}

impl Work {
    /// Gives it another value. Copies have none.
    pub(super) fn with_value(mut self, new: u32) -> Self {
        match &mut self {
            Self::Fill { value, .. }
            | Self::Iota { value, .. }
            | Self::Add { value, .. }
            | Self::Set { value, .. }
            | Self::Upload { value, .. }
            | Self::Raw { value, .. } => *value = new,
            Self::Copy { .. } | Self::Move { .. } => {}
        }
        self
    }

    pub(super) fn uses(&self) -> Vec<Id> {
        match self {
            Self::Fill { to, .. }
            | Self::Iota { to, .. }
            | Self::Add { to, .. }
            | Self::Set { to, .. }
            | Self::Upload { to, .. }
            | Self::Raw { to, .. } => vec![*to],
            Self::Copy { from, to, .. } | Self::Move { from, to, .. } => vec![*from, *to],
        }
    }

    /// Whether it writes one buffer and reads none.
    pub(super) fn only_writes(&self) -> bool {
        self.uses().len() == 1
    }
}

impl Part {
    pub(super) fn uses(&self) -> Vec<Id> {
        match self {
            Self::Fork { .. } | Self::Join { .. } => Vec::new(),
            Self::Work { work, .. } => work.uses(),
            Self::Scratch { from, to, .. } => vec![*from, *to],
            // Its buffers are the other graph's, and need not be named again.
            Self::Child { .. } => Vec::new(),
        }
    }
}

/// What the generator knows of a graph.
struct Known {
    /// What the named launches use: those that may change, all in graphs of one lane.
    named: Vec<Vec<Id>>,
    /// What its state keeps, if it does.
    keeps: Vec<Id>,
    parts: Vec<Part>,
    /// Whether nodes were changed since it was recorded.
    changed: bool,
}

impl Known {
    fn new(parts: &[Part], keeps: Vec<Id>) -> Self {
        let named = parts.iter().filter_map(|part| match part {
            Part::Work { work, named: true, .. } => Some(work.uses()),
            _ => None,
        });
        Self { named: named.collect(), keeps, parts: parts.to_vec(), changed: false }
    }

    /// Whether it can be copied: not with memory of its own, nor after a change.
    fn copies(&self) -> bool {
        !self.changed && !self.parts.iter().any(|part| matches!(part, Part::Scratch { .. }))
    }
}

struct Generator {
    rng: Rng,
    streams: usize,
    next: Id,
    /// Buffers that can be named, and whether the host sees them.
    alive: BTreeMap<Id, bool>,
    graphs: BTreeMap<usize, Known>,
    transfers: usize,
    marks: usize,
    steps: Vec<Step>,
}

/// The program of a seed.
pub(super) fn generate(seed: u64) -> (usize, Vec<Step>) {
    let mut rng = Rng::new(seed);
    let streams = 2 + rng.below(3);
    let (alive, graphs, steps) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut this =
        Generator { rng, streams, next: 0, alive, graphs, transfers: 0, marks: 0, steps };
    for _ in 0..3 {
        this.make();
    }
    let wanted = 40 + this.rng.below(60);
    while this.steps.len() < wanted {
        this.step();
    }
    (streams, this.steps)
}

impl Generator {
    fn stream(&mut self) -> usize {
        self.rng.below(self.streams)
    }

    fn value(&mut self) -> u32 {
        self.rng.next() as u32
    }

    fn buffer(&mut self) -> Id {
        let which = self.rng.below(self.alive.len());
        *self.alive.keys().nth(which).unwrap_or(&0)
    }

    /// Two different ones.
    fn pair(&mut self) -> (Id, Id) {
        let first = self.buffer();
        loop {
            let second = self.buffer();
            if second != first {
                return (first, second);
            }
        }
    }

    fn range(&mut self) -> Range<usize> {
        if self.rng.below(3) == 0 {
            return 0..LEN;
        }
        let start = self.rng.below(LEN);
        start..start + 1 + self.rng.below(LEN - start)
    }

    fn work(&mut self) -> Work {
        let ((from, to), range, value) = (self.pair(), self.range(), self.value());
        match self.rng.below(11) {
            10 => Work::Raw { to, range, value },
            0 => Work::Fill { to, range, value },
            1 => Work::Iota { to, range, value },
            2..5 => Work::Add { to, range, value },
            5 | 6 => Work::Copy { from, to, range },
            7 => Work::Set { to, range, value },
            8 => Work::Upload { to, range, value },
            _ => {
                let at = self.rng.below(LEN - range.len() + 1);
                Work::Move { from, to, range, at }
            }
        }
    }

    fn make(&mut self) {
        let (on, value, other) = (self.stream(), self.value(), self.next.checked_sub(1));
        let other = other.filter(|other| self.alive.contains_key(other));
        let how = match (self.rng.below(9), other) {
            (0, _) => Made::Managed,
            (1, _) => Made::Pinned,
            (2, _) => Made::Registered,
            (3 | 4, _) => Made::Zeros,
            (5, Some(other)) if !self.alive[&other] => Made::CloneOf(other),
            _ => Made::Words,
        };
        let visible = matches!(how, Made::Managed | Made::Pinned | Made::Registered);
        self.steps.push(Step::Make { id: self.next, on, how, value });
        self.alive.insert(self.next, visible);
        self.next += 1;
    }

    fn step(&mut self) {
        let (on, value) = (self.stream(), self.value());
        match self.rng.below(72) {
            0..3 => {
                if self.alive.len() < BUFFERS {
                    self.make();
                }
            }
            3..7 => {
                if self.alive.len() > 3 {
                    let id = self.buffer();
                    self.alive.remove(&id);
                    self.steps.push(Step::Drop { id });
                }
                self.make();
            }
            7 => self.steps.push(Step::NewStream { which: on }),
            8 => self.steps.push(Step::HostFunction { on }),
            9 | 10 => {
                let (first, then) = (on, self.stream());
                let by_event = self.rng.below(2) == 0;
                self.steps.push(match by_event {
                    true => Step::Event { first, then },
                    false => Step::Join { first, then },
                });
            }
            11 => self.steps.push(Step::Synchronize { on }),
            12 | 13 => {
                let (from, range) = (self.buffer(), self.range());
                self.steps.push(Step::Download { on, from, range });
            }
            14..17 => {
                let to = self.buffer();
                self.transfers += 1;
                self.steps.push(Step::UploadPinned { on, to, value });
            }
            17..20 => {
                let from = self.buffer();
                self.transfers += 1;
                self.steps.push(Step::DownloadPinned { on, from });
            }
            20..23 if self.transfers > 0 => {
                let which = self.rng.below(self.transfers);
                self.transfers -= 1;
                self.steps.push(match self.rng.below(3) {
                    0 => Step::DropTransfer { which },
                    _ => Step::WaitTransfer { which },
                });
            }
            23..26 => {
                let id = self.buffer();
                if self.alive[&id] {
                    self.steps.push(match self.rng.below(2) {
                        0 => Step::Look { id },
                        _ => Step::Write { id, value },
                    });
                }
            }
            26..30 => self.capture(),
            30..38 => {
                let graph = self.rng.below(GRAPHS);
                if self.graphs.contains_key(&graph) {
                    self.steps.push(Step::Launch { graph, on });
                }
            }
            38 => {
                let graph = self.rng.below(GRAPHS);
                let draw = self.rng.below(8);
                let Some(known) = self.graphs.get(&graph).filter(|known| !known.named.is_empty())
                else {
                    return;
                };
                let node = draw % known.named.len();
                // A buffer that is dropped lives on in the graph alone, which can't be asked for it.
                let there = |id| self.alive.contains_key(id) || known.keeps.contains(id);
                if known.named[node].iter().all(there) {
                    self.steps.push(Step::Update { graph, node, value });
                    self.graphs.entry(graph).and_modify(|known| known.changed = true);
                }
            }
            39 => {
                let graph = self.rng.below(GRAPHS);
                if let Some(known) = self.graphs.remove(&graph) {
                    self.steps.push(Step::TakeState { graph });
                    for id in known.keeps {
                        self.alive.entry(id).or_insert(false);
                    }
                }
            }
            64 | 65 => {
                self.marks += 1;
                self.steps.push(Step::Mark { on });
            }
            66 | 67 if self.marks > 0 => {
                let which = self.rng.below(self.marks);
                // Seldom by the host, which orders a lot.
                let on = (self.rng.below(6) > 0).then_some(on);
                self.steps.push(Step::WaitMark { which, on });
            }
            68 => {
                let (graph, draw) = (self.rng.below(GRAPHS), self.rng.below(2));
                if let Some(known) = self.graphs.get(&graph) {
                    // The same shape with other values, or another one.
                    let parts =
                        if draw == 0 { revalued(&known.parts, value) } else { self.parts() };
                    let gone = |id: Id| !self.alive.contains_key(&id);
                    if !parts.iter().flat_map(Part::uses).any(gone) {
                        self.recapture(graph, parts);
                    }
                }
            }
            69 => {
                let from = self.rng.below(GRAPHS);
                if let Some(known) = self.graphs.get(&from).filter(|known| known.copies()) {
                    let (to, copy) = (GRAPHS - 1 - from, Known::new(&known.parts, Vec::new()));
                    self.graphs.insert(to, copy);
                    self.steps.push(Step::Clone { from, to });
                }
            }
            40..44 => {
                let (on, at) = ([on, self.stream()], 1 + self.rng.below(LEN - 1));
                let (of, values) = (self.buffer(), [value, self.value()]);
                self.steps.push(Step::Halves { on, of, at, values });
            }
            _ => {
                let work = self.work();
                self.steps.push(Step::Work { on, work });
            }
        }
    }

    fn capture(&mut self) {
        let (graph, keeps) = (self.rng.below(GRAPHS), self.rng.below(2) == 0);
        let parts = self.parts();
        let used: BTreeSet<Id> = parts.iter().flat_map(Part::uses).collect();
        // What the host sees stays out of what may come back: a name would not say so.
        let kept = used.into_iter().filter(|id| keeps && !self.alive[id]).collect();
        self.graphs.insert(graph, Known::new(&parts, kept));
        self.steps.push(Step::Capture { graph, keeps, parts });
    }

    fn recapture(&mut self, graph: usize, mut parts: Vec<Part>) {
        // Not within itself.
        parts.retain(|part| !matches!(part, Part::Child { graph: child, .. } if *child == graph));
        if let Some(known) = self.graphs.get_mut(&graph) {
            *known = Known::new(&parts, std::mem::take(&mut known.keeps));
            self.steps.push(Step::Recapture { graph, parts });
        }
    }

    fn parts(&mut self) -> Vec<Part> {
        let (mut lanes, mut parts) = (1, Vec::new());
        let branches = self.rng.below(4) != 0;
        for _ in 0..3 + self.rng.below(8) {
            let lane = self.rng.below(lanes);
            match self.rng.below(11) {
                0..3 if branches && lanes < 3 => {
                    parts.push(Part::Fork { of: lane });
                    lanes += 1;
                }
                3 if lanes > 1 => {
                    parts.push(Part::Join { lane, other: (lane + 1) % lanes });
                }
                4 | 5 => {
                    let lanes = [lane, self.rng.below(lanes), self.rng.below(lanes)];
                    let ((from, to), value) = (self.pair(), self.value());
                    parts.push(Part::Scratch { lanes, from, to, value });
                }
                6 => {
                    let graph = self.rng.below(GRAPHS);
                    let child = self.graphs.get(&graph).filter(|known| known.copies());
                    // Not one within the other within the other.
                    let flat = |known: &&Known| {
                        !known.parts.iter().any(|part| matches!(part, Part::Child { .. }))
                    };
                    if let Some(known) = child.filter(flat) {
                        let parts_of_it = known.parts.clone();
                        parts.push(Part::Child { lane, graph, parts: parts_of_it });
                    }
                }
                _ => {
                    let work = self.work();
                    let kernel = matches!(
                        work,
                        Work::Fill { .. }
                            | Work::Iota { .. }
                            | Work::Add { .. }
                            | Work::Copy { .. }
                    );
                    let named = kernel && !branches && self.rng.below(2) == 0;
                    parts.push(Part::Work { lane, work, named });
                }
            }
        }
        parts
    }
}

/// The same parts with another value.
fn revalued(parts: &[Part], value: u32) -> Vec<Part> {
    let mut parts = parts.to_vec();
    // The graph that was a part may be another one by now.
    parts.retain(|part| !matches!(part, Part::Child { .. }));
    for part in &mut parts {
        if let Part::Work { work, .. } = part {
            *work = work.clone().with_value(value);
        }
    }
    parts
}
