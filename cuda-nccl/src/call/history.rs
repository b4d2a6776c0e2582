//! The calls of the ranks of one process, which are compared before NCCL is called.
//!
//! Call number *n* of each rank is compared with that of the first rank that made its call *n*. Messages between two
//! ranks are compared pair by pair, and with them the number of collectives that each of the two ranks has made before.

use std::collections::{HashMap, VecDeque};

use crate::call::signature::{Kind, Signature};
use crate::error::Error;

/// The calls that not all ranks have made yet.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The number of the first collective in `entries`.
    base: u64,
    entries: VecDeque<Entry>,
    ranks: Vec<Rank>,
    /// The messages whose other end has not come, by sender and receiver. All of one queue are of the same end.
    messages: HashMap<(usize, usize), VecDeque<Message>>,
    /// The number of the next end of a message.
    next_message: u64,
}

#[derive(Debug, Clone, Default)]
struct Rank {
    /// The number of its next collective.
    next: u64,
    /// Once it has gone: how many had before it.
    gone: Option<usize>,
}

/// A collective that not all ranks have made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    signature: Signature,
    /// The first rank that has made it.
    first: usize,
    /// How many ranks have made it.
    made: usize,
}

/// One end of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    number: u64,
    signature: Signature,
    /// The number of the next collective of the rank that has called.
    at: u64,
}

/// A step of a call that was entered, which can be taken back.
#[derive(Debug)]
pub(crate) enum Step {
    /// A collective, with its number and its entry before.
    Collective(u64, Entry),
    /// The end of a message between two ranks, sender and receiver, whose other end has not come; and its number.
    Waits(usize, usize, u64),
    /// A message that has met its other end.
    Met(usize, usize, Message),
}

impl History {
    pub(crate) fn new(ranks: usize) -> Self {
        Self { ranks: vec![Rank::default(); ranks], ..Self::default() }
    }

    /// Compares the calls of one rank, all of one group, and enters them. `note` takes the steps.
    ///
    /// # Errors
    /// If the calls disagree with those of another rank, that is the error. Calls before the one that does are entered.
    pub(crate) fn enter(
        &mut self,
        rank: usize,
        calls: impl Iterator<Item = Signature>,
        mut note: impl FnMut(Step),
    ) -> Result<(), Error> {
        // Messages of a group run beside its collectives.
        let at = self.ranks[rank].next;
        for call in calls {
            let step = match call.kind {
                Kind::Send | Kind::Recv => self.message(rank, call, at)?,
                _ => self.collective(rank, call)?,
            };
            note(step);
        }
        Ok(())
    }

    /// Compares and enters one call that is no part of a group.
    #[inline]
    pub(crate) fn enter_one(&mut self, rank: usize, call: Signature) -> Result<Step, Error> {
        match call.kind {
            Kind::Send | Kind::Recv => self.message(rank, call, self.ranks[rank].next),
            _ => self.collective(rank, call),
        }
    }

    fn collective(&mut self, rank: usize, call: Signature) -> Result<Step, Error> {
        let number = self.ranks[rank].next;
        if let Some(error) = self.gone_before(number) {
            return Err(error);
        }
        let index = (number - self.base) as usize;
        let entry = match self.entries.get_mut(index) {
            Some(entry) if entry.signature == call => {
                entry.made += 1;
                *entry
            }
            Some(entry) => {
                return Err(Error::Mismatch {
                    number,
                    rank,
                    call: call.to_string(),
                    other_rank: entry.first,
                    other: entry.signature.to_string(),
                });
            }
            None => {
                let entry = Entry { signature: call, first: rank, made: 1 };
                self.entries.push_back(entry);
                entry
            }
        };
        self.ranks[rank].next += 1;
        while self.entries.front().is_some_and(|front| front.made == self.ranks.len()) {
            self.entries.pop_front();
            self.base += 1;
        }
        Ok(Step::Collective(number, entry))
    }

    fn message(&mut self, rank: usize, call: Signature, at: u64) -> Result<Step, Error> {
        let peer = call.root.unwrap_or(0) as usize;
        let (sender, receiver) = if call.kind == Kind::Send { (rank, peer) } else { (peer, rank) };
        let queue = self.messages.entry((sender, receiver)).or_default();
        match queue.front() {
            Some(other) if other.signature.kind != call.kind => {
                if !other.signature.is_other_end(&call) || other.at != at {
                    let behind = |at: u64| format!(" behind {at} collectives");
                    return Err(Error::Mismatch {
                        number: at,
                        rank,
                        call: call.to_string() + &behind(at),
                        other_rank: peer,
                        other: other.signature.to_string() + &behind(other.at),
                    });
                }
                let met = *other;
                queue.pop_front();
                Ok(Step::Met(sender, receiver, met))
            }
            _ => {
                if self.ranks.get(peer).is_some_and(|peer| peer.gone.is_some()) {
                    return Err(Error::Gone { rank: peer, calls: self.ranks[peer].next });
                }
                let number = self.next_message;
                self.next_message += 1;
                queue.push_back(Message { number, signature: call, at });
                Ok(Step::Waits(sender, receiver, number))
            }
        }
    }

    /// Takes back the newest steps of a rank, the last one first. Returns whether all were: a message that another
    /// thread has met meanwhile can't be, because that end is called, or will be.
    #[must_use]
    pub(crate) fn take_back(
        &mut self,
        rank: usize,
        steps: impl DoubleEndedIterator<Item = Step>,
    ) -> bool {
        let mut all = true;
        for step in steps.rev() {
            match step {
                Step::Collective(number, entry) => self.take_back_one(rank, number, entry),
                Step::Waits(sender, receiver, number) => {
                    let queue = self.messages.get_mut(&(sender, receiver));
                    match queue {
                        Some(queue) if queue.back().is_some_and(|last| last.number == number) => {
                            queue.pop_back();
                        }
                        _ => all = false,
                    }
                }
                Step::Met(sender, receiver, message) => {
                    self.messages.entry((sender, receiver)).or_default().push_front(message);
                }
            }
        }
        all
    }

    fn take_back_one(&mut self, rank: usize, number: u64, entry: Entry) {
        self.ranks[rank].next = number;
        if number < self.base {
            // This rank completed the call. Without it, the call and all later ones are incomplete again.
            self.base = number;
            self.entries.push_front(Entry { made: self.ranks.len(), ..entry });
        }
        let index = (number - self.base) as usize;
        if let Some(entry) = self.entries.get_mut(index) {
            entry.made -= 1;
            if entry.made == 0 {
                // Later calls are all incomplete: each needs this rank.
                self.entries.truncate(index);
            }
        }
    }

    /// Returns the error of a collective that a rank which is gone has not made: the first that went, since others may
    /// have gone because of it.
    fn gone_before(&self, number: u64) -> Option<Error> {
        let gone = |(index, rank): (usize, &Rank)| Some((rank.gone?, index, rank.next));
        let missing = self.ranks.iter().enumerate().filter_map(gone);
        let (_, rank, calls) = missing.filter(|(.., next)| *next <= number).min()?;
        Some(Error::Gone { rank, calls })
    }

    /// Notes that a rank makes no further call.
    ///
    /// # Errors
    /// Other ranks have made calls that now never end.
    pub(crate) fn leave(&mut self, rank: usize) -> Result<(), Error> {
        let before = self.ranks.iter().filter(|other| other.gone.is_some()).count();
        self.ranks[rank].gone.get_or_insert(before);
        let calls = self.ranks[rank].next;
        let waits = self.ranks.iter().any(|other| other.next > calls)
            || self.messages.iter().any(|((sender, receiver), queue)| {
                (*sender == rank || *receiver == rank)
                    && queue.iter().any(|message| is_of_other(message, rank, *sender))
            });
        if waits { Err(Error::Gone { rank, calls }) } else { Ok(()) }
    }
}

/// Returns whether a message that waits was called by the other rank than `rank`.
fn is_of_other(message: &Message, rank: usize, sender: usize) -> bool {
    let by_sender = message.signature.kind == Kind::Send;
    by_sender != (sender == rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::NcclElement;

    fn call(kind: Kind, count: usize, root: Option<u32>) -> Signature {
        Signature { kind, data: Some(f32::TYPE), op: None, root, count, place: 0, of: 1 }
    }

    fn enter(history: &mut History, rank: usize, call: Signature) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        history.enter(rank, std::iter::once(call), |step| steps.push(step)).map(|()| steps)
    }

    #[test]
    fn equal_calls_in_any_order_of_the_ranks_pass_and_leave_nothing() -> Result<(), Error> {
        let mut history = History::new(3);
        for round in 0..100 {
            for rank in [2, 0, 1] {
                enter(&mut history, rank, call(Kind::AllReduce, round, None))?;
            }
        }
        assert_eq!((history.base, history.entries.len()), (100, 0));
        // Rank 0 runs ahead.
        for round in 0..10 {
            enter(&mut history, 1, call(Kind::AllGather, round, None))?;
        }
        for round in 0..10 {
            enter(&mut history, 0, call(Kind::AllGather, round, None))?;
        }
        assert_eq!((history.base, history.entries.len()), (100, 10));
        Ok(())
    }

    #[test]
    fn each_difference_is_refused_and_names_both_calls() -> Result<(), Error> {
        let first = call(Kind::Broadcast, 5, Some(1));
        let others = [
            Signature { count: 6, ..first },
            Signature { root: Some(0), ..first },
            Signature { data: Some(i32::TYPE), ..first },
            Signature { kind: Kind::Reduce, ..first },
            Signature { op: Some(crate::ReduceOp::Sum), ..first },
            Signature { of: 2, ..first },
        ];
        for other in others {
            let mut history = History::new(2);
            enter(&mut history, 0, first)?;
            let error = enter(&mut history, 1, other).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(
                error.contains(&first.to_string()) && error.contains(&other.to_string()),
                "{error}"
            );
            // A call that agrees still passes.
            enter(&mut history, 1, first)?;
        }
        Ok(())
    }

    #[test]
    fn the_two_ends_of_a_message_are_compared() -> Result<(), Error> {
        let send = |count, to| call(Kind::Send, count, Some(to));
        let recv = |count, from| call(Kind::Recv, count, Some(from));
        let mut history = History::new(3);
        enter(&mut history, 0, send(1, 2))?;
        enter(&mut history, 0, send(2, 2))?;
        enter(&mut history, 1, send(9, 2))?;
        enter(&mut history, 2, recv(1, 0))?;
        assert!(matches!(enter(&mut history, 2, recv(1, 0)), Err(Error::Mismatch { .. })));
        enter(&mut history, 2, recv(2, 0))?;
        // A message after a collective that the other end has not called yet would wait for ever.
        enter(&mut history, 2, call(Kind::AllReduce, 1, None))?;
        assert!(matches!(enter(&mut history, 2, recv(9, 1)), Err(Error::Mismatch { .. })));
        Ok(())
    }

    #[test]
    fn steps_are_taken_back() -> Result<(), Error> {
        let (one, two) = (call(Kind::AllReduce, 1, None), call(Kind::AllReduce, 2, None));
        let mut history = History::new(2);
        // The first rank's call, alone.
        let steps = enter(&mut history, 0, one)?;
        assert!(history.take_back(0, steps.into_iter()));
        enter(&mut history, 0, two)?;
        // The last rank's call, which had completed it.
        enter(&mut history, 0, one)?;
        let steps = enter(&mut history, 1, two)?;
        assert_eq!((history.base, history.entries.len()), (1, 1));
        assert!(history.take_back(1, steps.into_iter()));
        assert_eq!((history.base, history.entries.len()), (0, 2));
        assert!(enter(&mut history, 1, one).is_err());
        enter(&mut history, 1, two)?;
        enter(&mut history, 1, one)?;
        assert_eq!((history.base, history.entries.len()), (2, 0));
        // Messages.
        let send = call(Kind::Send, 3, Some(1));
        let steps = enter(&mut history, 0, send)?;
        assert!(history.take_back(0, steps.into_iter()));
        enter(&mut history, 0, call(Kind::Send, 4, Some(1)))?;
        let steps = enter(&mut history, 1, call(Kind::Recv, 4, Some(0)))?;
        assert!(history.take_back(1, steps.into_iter()));
        assert!(enter(&mut history, 1, call(Kind::Recv, 3, Some(0))).is_err());
        enter(&mut history, 1, call(Kind::Recv, 4, Some(0)))?;
        Ok(())
    }

    #[test]
    fn a_message_that_was_met_is_not_taken_back() -> Result<(), Error> {
        let mut history = History::new(2);
        let steps = enter(&mut history, 0, call(Kind::Send, 3, Some(1)))?;
        enter(&mut history, 1, call(Kind::Recv, 3, Some(0)))?;
        enter(&mut history, 1, call(Kind::Recv, 4, Some(0)))?;
        assert!(!history.take_back(0, steps.into_iter()));
        enter(&mut history, 0, call(Kind::Send, 4, Some(1)))?;
        Ok(())
    }

    #[test]
    fn a_rank_that_is_gone_is_an_error_of_what_needs_it() -> Result<(), Error> {
        let one = call(Kind::AllReduce, 1, None);
        let mut history = History::new(2);
        enter(&mut history, 0, one)?;
        enter(&mut history, 1, one)?;
        history.leave(1)?;
        assert!(matches!(enter(&mut history, 0, one), Err(Error::Gone { rank: 1, calls: 1 })));
        assert!(matches!(
            enter(&mut history, 0, call(Kind::Send, 1, Some(1))),
            Err(Error::Gone { rank: 1, .. })
        ));
        // The first rank that left is named.
        let mut history = History::new(3);
        for rank in [2, 0] {
            history.leave(rank)?;
            assert!(matches!(enter(&mut history, 1, one), Err(Error::Gone { rank: 2, calls: 0 })));
        }
        let mut history = History::new(2);
        enter(&mut history, 0, one)?;
        assert!(matches!(history.leave(1), Err(Error::Gone { rank: 1, calls: 0 })));
        // A rank that goes ahead of the others leaves them their part.
        let mut history = History::new(2);
        enter(&mut history, 0, one)?;
        history.leave(0)?;
        enter(&mut history, 1, one)?;
        history.leave(1)?;
        let mut history = History::new(2);
        enter(&mut history, 0, call(Kind::Send, 1, Some(1)))?;
        history.leave(0)?;
        enter(&mut history, 1, call(Kind::Recv, 1, Some(0)))?;
        assert!(enter(&mut history, 1, call(Kind::Recv, 1, Some(0))).is_err());
        Ok(())
    }
}
