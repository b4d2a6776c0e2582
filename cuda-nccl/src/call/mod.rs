//! One call of a collective: its arguments, its checks, and its call of NCCL.

pub(crate) mod checked;
mod collectives;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod signature;

use std::ffi::c_int;

use cuda_safe::sys::{CUdeviceptr, CUstream};
use cuda_safe::{DeviceSlice, DeviceSliceMut, Stream};

use crate::call::signature::{Kind, Signature};
use crate::element::{DataType, NcclElement, ReduceOp};
use crate::error::{Error, Result};
use crate::life::handle::Handle;
use crate::raw::{MissingSymbol, Nccl, ncclComm_t, ncclResult_t};

/// A collective with the memory that it uses, as bytes.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) issue: Issue,
    pub(crate) send: Option<DeviceSlice<'a, u8>>,
    pub(crate) recv: Option<DeviceSliceMut<'a, u8>>,
}

/// The arguments of NCCL's function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issue {
    pub(crate) kind: Kind,
    pub(crate) data: DataType,
    pub(crate) op: Option<ReduceOp>,
    /// The root, or the peer.
    pub(crate) root: Option<u32>,
    /// The number of elements that one rank sends or receives.
    pub(crate) count: usize,
    send: CUdeviceptr,
    recv: CUdeviceptr,
}

impl<'a> Call<'a> {
    /// Returns a call with lengths in elements of `T`. Only the views that it uses are given. If there is no view to
    /// send, the call works in place.
    pub(crate) fn new<T: NcclElement>(
        kind: Kind,
        op: Option<ReduceOp>,
        root: Option<usize>,
        count: usize,
        send: Option<DeviceSlice<'a, T>>,
        recv: Option<DeviceSliceMut<'a, T>>,
    ) -> Result<Self> {
        let root = match root {
            None => None,
            Some(root) => Some(u32::try_from(root).map_err(|_| no_rank(kind, root))?),
        };
        let address = recv.as_ref().map_or(0, DeviceSliceMut::device_ptr);
        let issue = Issue {
            kind,
            data: T::TYPE,
            op,
            root,
            count,
            send: send.as_ref().map_or(0, DeviceSlice::device_ptr),
            recv: address,
        };
        let send = send.map(|view| view.cast()).transpose()?;
        let recv = recv.map(DeviceSliceMut::cast_mut).transpose()?;
        Ok(Self { issue, send, recv })
    }

    /// Makes the call work in place: it sends and receives in one buffer, from element `send` and `recv` on.
    pub(crate) fn in_place(mut self, send: usize, recv: usize) -> Self {
        let bytes = self.issue.data.bytes;
        let start = self.issue.recv;
        self.issue.send = start + (send * bytes) as u64;
        self.issue.recv = start + (recv * bytes) as u64;
        self
    }

    /// Checks the stream, the memory and the root, and that the library has the functions; guards the memory by the
    /// gate. NCCL is not called.
    pub(crate) fn check(&self, handle: &Handle, stream: &Stream) -> Result<()> {
        if !stream.is_of(&handle.context) {
            return Err(wrong_context(self.issue.kind, handle, "the stream"));
        }
        let views = [
            self.send.as_ref().map(DeviceSlice::allocation),
            self.recv.as_ref().map(DeviceSliceMut::allocation),
        ];
        for allocation in views.into_iter().flatten() {
            if !allocation.home_stream().is_of(&handle.context) {
                return Err(wrong_context(self.issue.kind, handle, "a slice"));
            }
            if let Err(error) = handle.clique.gate().protect(allocation) {
                // The error is that of a gate that a failure has just closed, or of the memory.
                return Err(handle.usable().err().unwrap_or_else(|| error.into()));
            }
        }
        self.issue.check(handle)
    }
}

#[cold]
fn wrong_context(kind: Kind, handle: &Handle, what: &str) -> Error {
    Error::invalid(format!(
        "{}: {what} belongs to another context than the communicator of rank {}, which is of device {}",
        kind.name(),
        handle.rank,
        handle.context.device().ordinal()
    ))
}

#[cold]
fn no_rank(kind: Kind, root: usize) -> Error {
    Error::invalid(format!("{}: there is no rank {root}", kind.name()))
}

impl Issue {
    fn check(&self, handle: &Handle) -> Result<()> {
        if let Some(root) = self.root
            && root as usize >= handle.ranks
        {
            return Err(Error::invalid(format!(
                "{}: there is no rank {root}: the communicator has {}",
                self.kind.name(),
                handle.ranks
            )));
        }
        if self.kind.is_between_two() && self.root == u32::try_from(handle.rank).ok() {
            return Err(Error::invalid(format!(
                "{}: rank {} can't exchange messages with itself; copy the memory instead",
                self.kind.name(),
                handle.rank
            )));
        }
        Ok(self.available(handle.library)?)
    }

    /// Fails if the library lacks a function that the call needs.
    fn available(&self, library: &Nccl) -> Result<(), MissingSymbol> {
        let fns = library.fns();
        let known = |found: bool, name: &'static str| library.has(name, found);
        match self.kind {
            Kind::AllReduce => known(fns.ncclAllReduce.is_some(), "ncclAllReduce"),
            Kind::Reduce => known(fns.ncclReduce.is_some(), "ncclReduce"),
            Kind::Broadcast => known(fns.ncclBroadcast.is_some(), "ncclBroadcast"),
            Kind::AllGather => known(fns.ncclAllGather.is_some(), "ncclAllGather"),
            Kind::ReduceScatter => known(fns.ncclReduceScatter.is_some(), "ncclReduceScatter"),
            Kind::Send => known(fns.ncclSend.is_some(), "ncclSend"),
            Kind::Recv => known(fns.ncclRecv.is_some(), "ncclRecv"),
            Kind::Split => known(fns.ncclCommSplit.is_some(), "ncclCommSplit"),
            Kind::Gather | Kind::Scatter | Kind::AllToAll => {
                known(fns.ncclSend.is_some(), "ncclSend")?;
                known(fns.ncclRecv.is_some(), "ncclRecv")
            }
        }
    }

    pub(crate) fn signature(&self, place: u32, of: u32) -> Signature {
        let Self { kind, data, op, root, count, .. } = *self;
        Signature { kind, data: Some(data), op, root, count, place, of }
    }

    /// Returns the name of NCCL's function.
    pub(crate) fn function(&self) -> &'static str {
        match self.kind {
            Kind::AllReduce => "ncclAllReduce",
            Kind::Reduce => "ncclReduce",
            Kind::Broadcast => "ncclBroadcast",
            Kind::AllGather => "ncclAllGather",
            Kind::ReduceScatter => "ncclReduceScatter",
            Kind::Send => "ncclSend",
            Kind::Recv => "ncclRecv",
            Kind::Split => "ncclCommSplit",
            Kind::Gather | Kind::Scatter | Kind::AllToAll => "a group of ncclSend and ncclRecv",
        }
    }

    /// Calls NCCL. Gathers, scatters and all-to-alls are groups of messages, which every version has, and which NCCL's
    /// own functions of 2.28 are too.
    ///
    /// # Safety
    /// The communicator is alive, belongs to rank `rank` of `ranks`, and no other thread uses it. The stream is of its
    /// device. The memory has as many elements as the collective uses, is ordered on the stream, and lives until the
    /// work has run.
    pub(crate) unsafe fn call(
        &self,
        library: &Nccl,
        comm: ncclComm_t,
        (rank, ranks): (usize, usize),
        stream: CUstream,
    ) -> Result<ncclResult_t, MissingSymbol> {
        let Self { data, count, .. } = *self;
        let data = data.raw;
        let op = self.op.unwrap_or(ReduceOp::Sum).as_raw();
        // `root` is below the number of ranks, which is an int in NCCL.
        let root = self.root.unwrap_or(0) as c_int;
        let (send, recv) = (self.send as *const _, self.recv as *mut _);
        match self.kind {
            // SAFETY: the caller's promise.
            Kind::AllReduce => unsafe {
                library.ncclAllReduce(send, recv, count, data, op, comm, stream)
            },
            // SAFETY: the caller's promise.
            Kind::Reduce => unsafe {
                library.ncclReduce(send, recv, count, data, op, root, comm, stream)
            },
            // SAFETY: the caller's promise.
            Kind::Broadcast => unsafe {
                library.ncclBroadcast(send, recv, count, data, root, comm, stream)
            },
            // SAFETY: the caller's promise.
            Kind::AllGather => unsafe {
                library.ncclAllGather(send, recv, count, data, comm, stream)
            },
            // SAFETY: the caller's promise.
            Kind::ReduceScatter => unsafe {
                library.ncclReduceScatter(send, recv, count, data, op, comm, stream)
            },
            // SAFETY: the caller's promise.
            Kind::Send => unsafe { library.ncclSend(send, count, data, root, comm, stream) },
            // SAFETY: the caller's promise.
            Kind::Recv => unsafe { library.ncclRecv(recv, count, data, root, comm, stream) },
            // A split uses no memory.
            Kind::Split => Ok(ncclResult_t::ncclSuccess),
            Kind::Gather | Kind::Scatter | Kind::AllToAll => {
                let messages = self.messages(rank, ranks);
                // SAFETY: the caller's promise; each message is a part of the collective's memory.
                unsafe { grouped(library, messages, data, count, comm, stream) }
            }
        }
    }

    /// Returns the messages of which the collective consists for one rank.
    fn messages(&self, rank: usize, ranks: usize) -> impl Iterator<Item = Message> {
        let Self { kind, root, count, send, recv, data, .. } = *self;
        let root = root.unwrap_or(0) as usize;
        let part =
            move |start: CUdeviceptr, index: usize| start + (index * count * data.bytes) as u64;
        let is_root = rank == root;
        (0..ranks).flat_map(move |peer| {
            let to = match kind {
                Kind::Gather => (peer == root).then_some(send),
                Kind::Scatter => is_root.then(|| part(send, peer)),
                _ => Some(part(send, peer)),
            };
            let from = match kind {
                Kind::Gather => is_root.then(|| part(recv, peer)),
                Kind::Scatter => (peer == root).then_some(recv),
                _ => Some(part(recv, peer)),
            };
            let to = to.map(|address| Message { sends: true, peer, address });
            to.into_iter().chain(from.map(|address| Message { sends: false, peer, address }))
        })
    }
}

/// A message of a grouped collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    sends: bool,
    peer: usize,
    address: CUdeviceptr,
}

/// Sends and receives messages as one group.
///
/// # Safety
/// As [`Issue::call`].
unsafe fn grouped(
    library: &Nccl,
    messages: impl Iterator<Item = Message>,
    data: crate::raw::ncclDataType_t,
    count: usize,
    comm: ncclComm_t,
    stream: CUstream,
) -> Result<ncclResult_t, MissingSymbol> {
    // SAFETY: the group is ended below, on every path after its start.
    let started = unsafe { library.ncclGroupStart() }?;
    if started != ncclResult_t::ncclSuccess {
        return Ok(started);
    }
    let mut first = Ok(ncclResult_t::ncclSuccess);
    for Message { sends, peer, address } in messages {
        let peer = peer as c_int;
        let code = match sends {
            // SAFETY: the caller's promise.
            true => unsafe {
                library.ncclSend(address as *const _, count, data, peer, comm, stream)
            },
            // SAFETY: the caller's promise.
            false => unsafe {
                library.ncclRecv(address as *mut _, count, data, peer, comm, stream)
            },
        };
        if !matches!(code, Ok(ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress)) {
            first = code;
            break;
        }
    }
    // SAFETY: ends the group that was started above.
    let ended = unsafe { library.ncclGroupEnd() }?;
    match first {
        Ok(ncclResult_t::ncclSuccess) => Ok(ended),
        failed => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(kind: Kind, root: Option<u32>, rank: usize) -> Vec<(bool, usize, u64)> {
        let data = <f32 as NcclElement>::TYPE;
        let issue = Issue { kind, data, op: None, root, count: 2, send: 1000, recv: 2000 };
        issue.messages(rank, 3).map(|m| (m.sends, m.peer, m.address)).collect()
    }

    #[test]
    fn collectives_of_messages_pair_up() {
        for (kind, root) in
            [(Kind::Gather, Some(1)), (Kind::Scatter, Some(2)), (Kind::AllToAll, None)]
        {
            let all: Vec<Vec<_>> = (0..3).map(|rank| messages(kind, root, rank)).collect();
            for (rank, own) in all.iter().enumerate() {
                for (sends, peer, _) in own {
                    let back = all[*peer].iter().filter(|(s, p, _)| s != sends && *p == rank);
                    assert_eq!(back.count(), 1, "{kind:?} {rank} {peer}");
                }
            }
        }
        let to_root = messages(Kind::Gather, Some(1), 0);
        assert_eq!(to_root, [(true, 1, 1000)]);
        let at_root = messages(Kind::Gather, Some(1), 1);
        assert_eq!(
            at_root,
            [(false, 0, 2000), (true, 1, 1000), (false, 1, 2008), (false, 2, 2016)]
        );
        let all = messages(Kind::AllToAll, None, 0);
        assert_eq!(all[2..4], [(true, 1, 1008), (false, 1, 2008)]);
    }
}
