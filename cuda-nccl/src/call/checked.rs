//! Comparing calls with ranks of other processes, before each of them is made.
//!
//! The ranks of a group's collectives gather each other's signatures; the two ends of a message exchange theirs. These
//! are collectives of fixed sizes, so ranks that disagree about the call agree about the exchange.

use cuda_safe::{Context, DeviceBuffer, EnqueueGroup, Stream};

use crate::call::signature::{Kind, Signature};
use crate::call::{Call, Issue};
use crate::element::{DataType, NcclElement, ReduceOp};
use crate::error::{Error, Result};
use crate::life::handle::{Backoff, Handle, lock_all, wait_ready};
use crate::raw::{ncclDataType_t, ncclResult_t};

/// The stream of a checked communicator's exchanges.
#[derive(Debug)]
pub(crate) struct Checker {
    stream: Stream,
}

/// The numbers of one record: those of a signature, how many collectives there are, and a hash of all of them.
const WORDS: usize = 5;
type Record = [u64; WORDS];

impl Checker {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        Ok(Self { stream: context.stream()? })
    }
}

/// The exchange of one communicator.
struct Exchange<'e> {
    handle: &'e Handle,
    stream: &'e Stream,
    /// The record of its collectives; `None` if it makes none.
    collectives: Option<Record>,
    /// The messages: peer and record.
    messages: Vec<(u32, Record)>,
    mine: DeviceBuffer<u64>,
    theirs: DeviceBuffer<u64>,
}

/// Exchanges the signatures of the calls that are about to be made, and compares them.
///
/// # Errors
/// [`Error::Mismatch`] on each rank that sees another call, and nothing is enqueued; or the exchange has failed, and
/// the communicators are aborted.
pub(crate) fn exchange(parts: &[(&Handle, &Checker, &[Signature])]) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let exchanged = parts.iter().try_for_each(|(handle, ..)| handle.usable());
    exchanged?;
    let mut exchanges = Vec::new();
    for (handle, checker, calls) in parts {
        exchanges.push(Exchange::new(handle, &checker.stream, calls)?);
    }
    let records = match run(&mut exchanges) {
        Ok(records) => records,
        Err(error) => {
            // Buffers that peers may still use: their exchange now never ends.
            let mut first = None;
            for (handle, ..) in parts {
                let failed = handle.clique.fail(error.clone());
                first = first.or(Some(failed));
            }
            return Err(first.unwrap_or(error));
        }
    };
    exchanges.iter().zip(records).try_for_each(|(exchange, records)| exchange.compare(&records))
}

impl<'e> Exchange<'e> {
    fn new(handle: &'e Handle, stream: &'e Stream, calls: &[Signature]) -> Result<Self> {
        let collectives: Vec<&Signature> =
            calls.iter().filter(|call| !call.kind.is_between_two()).collect();
        let record = |call: &Signature, all: &[&Signature]| -> Record {
            let [kinds, count, place] = call.words();
            [kinds, count, place, all.len() as u64, hash(all)]
        };
        let own = collectives.first().map(|first| record(first, &collectives));
        let messages: Vec<(u32, Record)> = calls
            .iter()
            .filter(|call| call.kind.is_between_two())
            .map(|call| (call.root.unwrap_or(0), record(call, &[call])))
            .collect();
        let sent: Vec<u64> = own
            .unwrap_or_default()
            .into_iter()
            .chain(messages.iter().flat_map(|(_, record)| *record))
            .collect();
        let mine = DeviceBuffer::from_slice(stream, &sent)?;
        let theirs = DeviceBuffer::zeroed(stream, (handle.ranks + messages.len()) * WORDS)?;
        // After a failure, NCCL and peers may still use the buffers.
        for buffer in [&mine, &theirs] {
            handle.clique.gate().protect(buffer.allocation())?;
        }
        Ok(Self { handle, stream, collectives: own, messages, mine, theirs })
    }

    /// Returns the calls of NCCL that exchange the records.
    fn calls(&mut self) -> Result<Vec<Call<'_>>> {
        let ranks = self.handle.ranks;
        let (mut calls, mine) = (Vec::new(), &self.mine);
        let (all, mut rest) = self.theirs.as_slice_mut().split_at_mut(ranks * WORDS)?;
        if self.collectives.is_some() {
            let send = mine.slice(..WORDS)?;
            calls.push(Call::new(Kind::AllGather, None, None, WORDS, Some(send), Some(all))?);
        }
        for (index, (peer, _)) in self.messages.iter().enumerate() {
            let send = mine.slice((index + 1) * WORDS..(index + 2) * WORDS)?;
            let (recv, behind) = rest.split_at_mut(WORDS)?;
            rest = behind;
            let peer = Some(*peer as usize);
            calls.push(Call::new(Kind::Send, None, peer, WORDS, Some(send), None)?);
            calls.push(Call::new(Kind::Recv, None, peer, WORDS, None, Some(recv))?);
        }
        Ok(calls)
    }

    /// Compares the records with those of the peers.
    fn compare(&self, records: &[u64]) -> Result<()> {
        let (handle, ranks) = (self.handle, self.handle.ranks);
        let record = |index: usize| -> Record {
            let start = index * WORDS;
            std::array::from_fn(|word| records.get(start + word).copied().unwrap_or(0))
        };
        let refused = |own: &Record, other_rank: usize, other: &Record| Error::Mismatch {
            number: 0,
            rank: handle.rank,
            call: text(own),
            other_rank,
            other: text(other),
        };
        if let Some(own) = &self.collectives
            && let Some(other) = (0..ranks).find(|rank| record(*rank) != *own)
        {
            return Err(refused(own, other, &record(other)));
        }
        for (index, (peer, own)) in self.messages.iter().enumerate() {
            let other = record(ranks + index);
            if !is_other_end(own, &other, handle.rank) {
                return Err(refused(own, *peer as usize, &other));
            }
        }
        Ok(())
    }
}

/// Enqueues all exchanges as one group, waits for them, and returns what each has received.
fn run(exchanges: &mut [Exchange<'_>]) -> Result<Vec<Vec<u64>>> {
    let handles: Vec<&Handle> = exchanges.iter().map(|exchange| exchange.handle).collect();
    let streams: Vec<&Stream> = exchanges.iter().map(|exchange| exchange.stream).collect();
    let Some(first) = handles.first().copied() else { return Ok(Vec::new()) };
    let mut group = EnqueueGroup::new();
    let mut issues: Vec<(usize, Issue)> = Vec::new();
    for (index, exchange) in exchanges.iter_mut().enumerate() {
        for Call { issue, send, recv } in exchange.calls()? {
            if let Some(send) = send {
                group.read(streams[index], send);
            }
            if let Some(recv) = recv {
                group.write(streams[index], recv);
            }
            issues.push((index, issue));
        }
    }
    let call = || -> Result<()> {
        let locks = lock_all(&handles)?;
        for (handle, raw) in handles.iter().zip(&locks) {
            handle.state(raw)?;
        }
        let calls = issues.iter().map(|(index, issue)| {
            (handles[*index], &locks[*index], streams[*index].as_raw(), issue)
        });
        let code = crate::call::group::call_group(first.library, first, calls)?;
        drop(locks);
        match code {
            ncclResult_t::ncclInProgress => {
                let kept = |_: &Error| {
                    handles.iter().zip(&streams).for_each(|(handle, stream)| handle.retain(stream));
                };
                wait_ready("the comparison of a call", &handles).inspect_err(kept)
            }
            _ => Ok(()),
        }
    };
    // SAFETY: as in `group::enqueue`.
    first.context.with_current(|| unsafe { group.run(call) })??;
    let mut received = Vec::new();
    for exchange in exchanges.iter() {
        wait(exchange)?;
        received.push(exchange.theirs.to_vec(exchange.stream)?);
    }
    Ok(received)
}

/// Waits until an exchange is done.
fn wait(exchange: &Exchange<'_>) -> Result<()> {
    let Exchange { handle, stream, .. } = exchange;
    let mut wait = Backoff::new(handle.timeout());
    while !stream.is_done()? {
        let raw = handle.lock()?;
        handle.state(&raw)?;
        drop(raw);
        if !wait.pause() {
            let what = "the comparison of a call with the other ranks";
            return Err(Error::Timeout { what, rank: handle.rank, after: handle.timeout() });
        }
    }
    Ok(())
}

/// Returns a hash of several signatures, the same in every process (FNV-1a).
fn hash(calls: &[&Signature]) -> u64 {
    let words = calls.iter().flat_map(|call| call.words());
    words.flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns whether a record is that of the other end of a message of `rank`.
fn is_other_end(own: &Record, other: &Record, rank: usize) -> bool {
    let parts = |record: &Record| {
        let [kinds, count, ..] = *record;
        (kinds & 0xff, kinds >> 8 & 0xff, kinds >> 32, count)
    };
    let ((kind, data, _, count), (other_kind, other_data, to, other_count)) =
        (parts(own), parts(other));
    let ends = [Kind::Send as u64, Kind::Recv as u64];
    kind != other_kind
        && ends.contains(&other_kind)
        && (data, count) == (other_data, other_count)
        && to == rank as u64
}

/// Returns the call of a record for people.
fn text(record: &Record) -> String {
    let [kinds, count, place, all, _] = *record;
    let kind = KINDS.iter().find(|kind| u64::from(**kind as u8) == kinds & 0xff);
    let Some(kind) = kind.copied() else {
        return "no call of this version".into();
    };
    let signature = Signature {
        kind,
        data: TYPES.into_iter().find(|data| u64::from(data.raw.0) == kinds >> 8 & 0xff),
        op: ReduceOp::ALL.into_iter().find(|op| u64::from(op.as_raw().0) == kinds >> 16 & 0xff),
        root: u32::try_from(kinds >> 32).ok().filter(|root| *root != u32::MAX),
        count: count as usize,
        place: u32::try_from(place >> 32).unwrap_or(0),
        of: u32::try_from(all).unwrap_or(u32::MAX),
    };
    signature.to_string()
}

const KINDS: [Kind; 11] = [
    Kind::AllReduce,
    Kind::Reduce,
    Kind::Broadcast,
    Kind::AllGather,
    Kind::ReduceScatter,
    Kind::Gather,
    Kind::Scatter,
    Kind::AllToAll,
    Kind::Send,
    Kind::Recv,
    Kind::Split,
];

const TYPES: [DataType; 10] = [
    i8::TYPE,
    u8::TYPE,
    i32::TYPE,
    u32::TYPE,
    i64::TYPE,
    u64::TYPE,
    f32::TYPE,
    f64::TYPE,
    DataType { raw: ncclDataType_t::ncclFloat16, name: "f16", bytes: 2 },
    DataType { raw: ncclDataType_t::ncclBfloat16, name: "bf16", bytes: 2 },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn record(call: Signature) -> Record {
        let [kinds, count, place] = call.words();
        [kinds, count, place, 1, hash(&[&call])]
    }

    #[test]
    fn records_are_read_again() {
        for kind in KINDS {
            let call = Signature {
                kind,
                data: Some(f32::TYPE),
                op: Some(ReduceOp::Max),
                root: Some(3),
                count: 1 << 40,
                place: 0,
                of: 1,
            };
            assert_eq!(text(&record(call)), call.to_string());
        }
        assert_eq!(text(&[0xff; WORDS]), "no call of this version");
    }

    #[test]
    fn the_ends_of_a_message_have_equal_lengths_and_name_each_other() {
        let end = |kind, root, count| {
            record(Signature {
                kind,
                data: Some(f64::TYPE),
                op: None,
                root: Some(root),
                count,
                place: 0,
                of: 1,
            })
        };
        let own = end(Kind::Send, 1, 5);
        assert!(is_other_end(&own, &end(Kind::Recv, 0, 5), 0));
        for other in [
            end(Kind::Recv, 0, 6),
            end(Kind::Recv, 2, 5),
            end(Kind::Send, 0, 5),
            end(Kind::AllReduce, 0, 5),
        ] {
            assert!(!is_other_end(&own, &other, 0));
        }
    }
}
