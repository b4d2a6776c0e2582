//! Signatures: the arguments that all ranks must agree on.

use std::fmt;

use crate::element::{DataType, ReduceOp};

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    Gather,
    Scatter,
    AllToAll,
    Send,
    Recv,
    Split,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllToAll => "all_to_all",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::Split => "split",
        }
    }

    /// Returns whether it is between two ranks.
    pub(crate) fn is_between_two(self) -> bool {
        matches!(self, Self::Send | Self::Recv)
    }
}

/// A call as the other ranks see it. All ranks have made the same call if their signatures are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    pub(crate) kind: Kind,
    /// The elements; `None` of a split.
    pub(crate) data: Option<DataType>,
    pub(crate) op: Option<ReduceOp>,
    /// The root, or the peer.
    pub(crate) root: Option<u32>,
    /// The number of elements that one rank sends or receives.
    pub(crate) count: usize,
    /// The place among the collectives of its communicator in its group. NCCL orders a group's collectives by size, so
    /// ranks that group them in different ways disagree.
    pub(crate) place: u32,
    /// The number of these collectives.
    pub(crate) of: u32,
}

impl Signature {
    /// Returns whether the two calls are the two ends of one message.
    pub(crate) fn is_other_end(&self, other: &Self) -> bool {
        self.count == other.count && self.data == other.data
    }

    /// Returns the signature as numbers: equal for equal signatures of one build of this crate, and unequal for others.
    pub(crate) fn words(&self) -> [u64; 3] {
        let data = self.data.map_or(0xff, |data| data.raw.0 & 0xff);
        let op = self.op.map_or(0xff, |op| op.as_raw().0 & 0xff);
        let kinds = u64::from(self.kind as u8) | u64::from(data) << 8 | u64::from(op) << 16;
        let root = self.root.map_or(u64::from(u32::MAX), u64::from);
        [kinds | root << 32, self.count as u64, u64::from(self.place) << 32 | u64::from(self.of)]
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if let Some(data) = self.data {
            write!(f, " of {} {data}", self.count)?;
        }
        if let Some(op) = self.op {
            write!(f, " ({op})")?;
        }
        match (self.root, self.kind) {
            (Some(peer), Kind::Send) => write!(f, " to rank {peer}")?,
            (Some(peer), Kind::Recv) => write!(f, " from rank {peer}")?,
            (Some(root), _) => write!(f, " with root {root}")?,
            (None, _) => {}
        }
        if self.of > 1 {
            write!(f, ", {} of {} in its group", self.place + 1, self.of)?;
        }
        Ok(())
    }
}
