//! The order in which the adversary has run the work.

use std::collections::HashMap;

use super::work::Work;
use crate::driver::process::initialised;

/// The order in which the work of a device's queues ran, since the seed was set.
///
/// A queue is a stream; branches of a graph are ordered in the stream that the graph was launched
/// on. An interleaving contains work that accesses memory or calls the host: kernels, copies, fills, host functions,
/// values waited for and written, frees, and a graph's allocations and frees. Work that only orders (recording an event
/// or waiting for it, the beginning and the end of a graph) is left out, and so is the order of the blocks in one
/// kernel.
///
/// Two orders that differ only in work that is independent are two interleavings: the device has done the one and then
/// the other, even if no program can observe that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Interleaving {
    /// A hash over the sequence of (queue, place in the queue, kind of work). Queues count by their
    /// first work, so that neither handles nor addresses nor times are in it: the same calls give
    /// the same value for the same order, in any process.
    pub order: u64,
    /// Pieces of work that ran.
    pub operations: u64,
    /// How often more than one piece was ready, so that the seed decided. Without any there is one
    /// order only, whatever the seed.
    pub choices: u64,
}

/// Returns the order so far, since [`Config::seed`](crate::Config::seed) or the last
/// [`reseed`](crate::reseed); `None` without a seed, where pieces of work overlap, and before
/// `cuInit`.
///
/// If several threads of the host enqueue at a time, then their own order is in it, too.
#[must_use]
pub fn interleaving() -> Option<Interleaving> {
    initialised()?.lock().engine.interleaving()
}

/// Where a piece of work is: its queue, and its place there.
pub(in crate::driver) type Place = (u64, u64);

/// The state that determines the order.
#[derive(Default)]
pub(in crate::driver) struct Trace {
    /// For each stream, its queue, and how much work it has got.
    queues: HashMap<u64, Place>,
    pub(in crate::driver) so_far: Interleaving,
}

impl Trace {
    /// Returns the place of a stream's next work.
    pub(in crate::driver) fn place(&mut self, stream: u64) -> Place {
        let new = self.queues.len() as u64;
        let next = self.queues.entry(stream).or_insert((new, 0));
        next.1 += 1;
        *next
    }

    /// Takes note that work has run.
    pub(in crate::driver) fn ran(&mut self, (queue, place): Place, work: &Work) {
        let Some(kind) = kind(work) else { return };
        let order = [queue, place, kind].into_iter().fold(self.so_far.order, fold);
        self.so_far.order = order;
        self.so_far.operations += 1;
    }

    /// Takes note that one of so many is drawn.
    pub(in crate::driver) fn draws(&mut self, ready: usize) {
        self.so_far.choices += u64::from(ready > 1);
    }
}

/// Returns a number for each kind of work that does more than to order.
fn kind(work: &Work) -> Option<u64> {
    Some(match work {
        Work::Nothing | Work::Record(_) | Work::Begin(_) | Work::Conditional(_) => return None,
        Work::Kernel(_) => 1,
        Work::Copy(_) => 2,
        Work::Fill(_) => 3,
        Work::Host(..) => 4,
        Work::Callback(..) => 5,
        Work::Wait(..) => 6,
        Work::Write(..) => 7,
        Work::Free(_) => 8,
        Work::Map(_) => 9,
        Work::Unmap(_) => 10,
    })
}

/// Returns the hash of a sequence and one more number.
fn fold(hash: u64, number: u64) -> u64 {
    // SplitMix64's steps are invertible: two numbers never give one hash.
    let mut mixed = (hash ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Interleaving, Trace};
    use crate::driver::stream::work::Work;

    const WRITE: Work = Work::Write(0, 0, 4);

    /// Returns two streams with two pieces of work each, run in this order.
    fn play(streams: [u64; 2], order: [(usize, usize); 4]) -> Interleaving {
        let mut trace = Trace::default();
        let mut place = |stream| trace.place(stream);
        let [first, second] = streams;
        let places = [[place(first), place(first)], [place(second), place(second)]];
        for (queue, which) in order {
            trace.ran(places[queue][which], &WRITE);
        }
        trace.so_far
    }

    const ALTERNATING: [(usize, usize); 4] = [(0, 0), (1, 0), (0, 1), (1, 1)];

    #[test]
    fn every_order_of_two_queues_is_another() {
        let orders = [
            ALTERNATING,
            [(0, 0), (0, 1), (1, 0), (1, 1)],
            [(0, 0), (1, 0), (1, 1), (0, 1)],
            [(1, 0), (0, 0), (0, 1), (1, 1)],
            [(1, 0), (0, 0), (1, 1), (0, 1)],
            [(1, 0), (1, 1), (0, 0), (0, 1)],
        ];
        let different: std::collections::HashSet<_> =
            orders.iter().map(|&order| play([3, 4], order).order).collect();
        assert_eq!(different.len(), orders.len());
        assert_eq!(play([3, 4], ALTERNATING).operations, 4);
    }

    #[test]
    fn what_a_stream_is_called_is_not_in_it() {
        assert_eq!(play([3, 4], ALTERNATING), play([900, 17], ALTERNATING));
    }

    #[test]
    fn what_only_orders_is_not_in_it() {
        let mut trace = Trace::default();
        let (first, second) = (trace.place(1), trace.place(1));
        trace.ran(first, &WRITE);
        let before = trace.so_far;
        for work in [Work::Nothing, Work::Record(3)] {
            trace.ran(second, &work);
        }
        assert_eq!(trace.so_far, before);
        trace.ran(second, &Work::Free(7));
        assert_ne!(trace.so_far, before);
        assert_eq!(trace.so_far.operations, 2);
    }

    #[test]
    fn one_that_is_ready_is_no_choice() {
        let mut trace = Trace::default();
        trace.draws(1);
        assert_eq!(trace.so_far.choices, 0);
        trace.draws(2);
        assert_eq!(trace.so_far.choices, 1);
    }
}
