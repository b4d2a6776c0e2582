//! What must come out of a program: each step done when its turn in the list has come, in plain
//! arithmetic on the host.

use std::collections::BTreeMap;
use std::ops::Range;

use super::program::{Id, LEN, Made, Part, Step, Work, words};

/// What all buffers hold, by the order of the steps.
#[derive(Default)]
pub(super) struct Oracle {
    memory: BTreeMap<Id, Vec<u32>>,
    graphs: BTreeMap<usize, Vec<Part>>,
}

impl Oracle {
    pub(super) fn of(&self, id: Id) -> &[u32] {
        &self.memory[&id]
    }

    fn at(&mut self, id: Id, range: &Range<usize>) -> &mut [u32] {
        let words = self.memory.entry(id).or_insert_with(|| vec![0; LEN]);
        &mut words[range.clone()]
    }

    fn work(&mut self, work: &Work) {
        match work {
            Work::Fill { to, range, value }
            | Work::Set { to, range, value }
            | Work::Raw { to, range, value } => {
                self.at(*to, range).fill(*value);
            }
            Work::Iota { to, range, value } | Work::Upload { to, range, value } => {
                self.at(*to, range).copy_from_slice(&words(*value, range.len()));
            }
            Work::Add { to, range, value } => {
                for word in self.at(*to, range) {
                    *word = word.wrapping_add(*value);
                }
            }
            Work::Copy { from, to, range } => {
                let words = self.at(*from, range).to_vec();
                self.at(*to, range).copy_from_slice(&words);
            }
            Work::Move { from, to, range, at } => {
                let words = self.at(*from, range).to_vec();
                self.at(*to, &(*at..at + range.len())).copy_from_slice(&words);
            }
        }
    }

    fn launch(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Work { work, .. } => self.work(work),
                Part::Scratch { from, to, value, .. } => {
                    let (from, to, range) = (*from, *to, 0..LEN);
                    self.work(&Work::Copy { from, to, range: range.clone() });
                    self.work(&Work::Add { to, range, value: *value });
                }
                Part::Child { parts, .. } => self.launch(parts),
                Part::Fork { .. } | Part::Join { .. } => {}
            }
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Work { work, .. } => self.work(work),
            Step::Halves { of, at, values, .. } => {
                for (range, value) in [0..*at, *at..LEN].into_iter().zip(*values) {
                    self.work(&Work::Add { to: *of, range, value });
                }
            }
            Step::UploadPinned { to: id, value, .. } | Step::Write { id, value } => {
                self.memory.insert(*id, words(*value, LEN));
            }
            Step::Make { id, how, value, .. } => {
                let words = match how {
                    Made::Words | Made::Registered => words(*value, LEN),
                    Made::Zeros | Made::Managed | Made::Pinned => vec![0; LEN],
                    Made::CloneOf(other) => self.of(*other).to_vec(),
                };
                self.memory.insert(*id, words);
            }
            Step::Capture { graph, parts, .. } | Step::Recapture { graph, parts } => {
                self.graphs.insert(*graph, parts.clone());
            }
            Step::Clone { from, to } => {
                let parts = self.graphs[from].clone();
                self.graphs.insert(*to, parts);
            }
            Step::Update { graph, node, value } => {
                let parts = self.graphs.get_mut(graph).map(Vec::as_mut_slice).unwrap_or_default();
                let named = parts.iter_mut().filter_map(|part| match part {
                    Part::Work { work, named: true, .. } => Some(work),
                    _ => None,
                });
                if let Some(work) = named.into_iter().nth(*node) {
                    *work = work.clone().with_value(*value);
                }
            }
            Step::Launch { graph, .. } => {
                let parts = self.graphs[graph].clone();
                self.launch(&parts);
            }
            _ => {}
        }
    }

    /// The launch that takes a named one's place.
    pub(super) fn updated(&self, graph: usize, node: usize, value: u32) -> Option<Work> {
        let named = self.graphs.get(&graph)?.iter().filter_map(|part| match part {
            Part::Work { work, named: true, .. } => Some(work.clone().with_value(value)),
            _ => None,
        });
        named.into_iter().nth(node)
    }
}
