//! The methods that enqueue collectives: of a communicator, which enqueue at once, and of a group, which collect.

use cuda_safe::{DeviceSlice, DeviceSliceMut, ReadView, Stream, WriteView};

use crate::call::Call;
use crate::call::group::GroupRank;
use crate::call::signature::Kind;
use crate::communicator::Communicator;
use crate::element::{NcclElement, ReduceOp};
use crate::error::{Error, Result};

/// Returns the length of each rank's part.
fn parts(kind: Kind, len: usize, ranks: usize) -> Result<usize> {
    if len.is_multiple_of(ranks) {
        return Ok(len / ranks);
    }
    Err(Error::invalid(format!(
        "{}: {len} elements can't be divided among {ranks} ranks",
        kind.name()
    )))
}

fn same(kind: Kind, send: usize, recv: usize) -> Result<()> {
    if send == recv {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{}: {send} elements are sent and {recv} received: both slices have the same length",
        kind.name()
    )))
}

/// Fails unless `whole` is the length of the parts of all ranks.
fn whole(kind: Kind, part: usize, whole: usize, ranks: usize) -> Result<()> {
    if part.checked_mul(ranks) == Some(whole) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{}: the slice of all {ranks} ranks has {whole} elements, and that of one has {part}",
        kind.name()
    )))
}

/// Returns the view that the root alone gives.
fn at_root<V>(kind: Kind, is_root: bool, view: Option<V>) -> Result<Option<V>> {
    match (is_root, view) {
        (true, Some(view)) => Ok(Some(view)),
        (true, None) => {
            Err(Error::invalid(format!("{}: the root has no slice for all ranks", kind.name())))
        }
        (false, _) => Ok(None),
    }
}

/// The methods. `$a` is the lifetime of the slices, which a group keeps until it runs; `$own` is given if each method
/// declares it; `$communicator` is the
/// communicator; `$enqueue` takes the call.
macro_rules! collectives {
    ($a:lifetime, [$($own:lifetime)?], $communicator:ident, $enqueue:ident) => {
        /// Combines the elements of all ranks and gives the result to each: `recv[i]` is `send[i]` of all ranks.
        ///
        /// # Errors
        /// [`Error::Invalid`] for slices of different lengths or of another device; otherwise as the calls of a
        /// [`Communicator`].
        #[doc(alias = "ncclAllReduce")]
        pub fn all_reduce<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: impl ReadView<$a, T>,
            recv: impl WriteView<$a, T>,
            op: ReduceOp,
        ) -> Result<()> {
            let (send, recv) = (send.read_view(), recv.write_view());
            let (kind, count) = (Kind::AllReduce, recv.len());
            same(kind, send.len(), count)?;
            let call = Call::new(kind, Some(op), None, count, Some(send), Some(recv))?;
            self.$enqueue(stream, call)
        }

        /// As [`all_reduce`](Self::all_reduce), in place.
        ///
        /// # Errors
        /// As [`all_reduce`](Self::all_reduce).
        #[doc(alias = "ncclAllReduce")]
        pub fn all_reduce_in_place<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            buffer: impl WriteView<$a, T>,
            op: ReduceOp,
        ) -> Result<()> {
            let buffer = buffer.write_view();
            let (kind, count) = (Kind::AllReduce, buffer.len());
            let call = Call::new(kind, Some(op), None, count, None, Some(buffer))?;
            self.$enqueue(stream, call.in_place(0, 0))
        }

        /// Combines the elements of all ranks and gives the result to the root, which passes `recv`. Other ranks pass
        /// `None`; what they pass is not used.
        ///
        /// # Errors
        /// As [`all_reduce`](Self::all_reduce), and [`Error::Invalid`] if there is no such root.
        #[doc(alias = "ncclReduce")]
        pub fn reduce<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: impl ReadView<$a, T>,
            recv: Option<DeviceSliceMut<$a, T>>,
            op: ReduceOp,
            root: usize,
        ) -> Result<()> {
            let (kind, send) = (Kind::Reduce, send.read_view());
            let recv = at_root(kind, self.$communicator().rank() == root, recv)?;
            let count = send.len();
            if let Some(recv) = &recv {
                same(kind, count, recv.len())?;
            }
            let call = Call::new(kind, Some(op), Some(root), count, Some(send), recv)?;
            self.$enqueue(stream, call)
        }

        /// As [`reduce`](Self::reduce), in place: the buffer of the root has the result, and those of other ranks are
        /// as before.
        ///
        /// # Errors
        /// As [`reduce`](Self::reduce).
        #[doc(alias = "ncclReduce")]
        pub fn reduce_in_place<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            buffer: impl WriteView<$a, T>,
            op: ReduceOp,
            root: usize,
        ) -> Result<()> {
            let (kind, buffer) = (Kind::Reduce, buffer.write_view());
            let count = buffer.len();
            let call = Call::new(kind, Some(op), Some(root), count, None, Some(buffer))?;
            self.$enqueue(stream, call.in_place(0, 0))
        }

        /// Copies the root's buffer to those of all ranks.
        ///
        /// # Errors
        /// As [`reduce`](Self::reduce).
        #[doc(alias = "ncclBroadcast")]
        #[doc(alias = "ncclBcast")]
        pub fn broadcast<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            buffer: impl WriteView<$a, T>,
            root: usize,
        ) -> Result<()> {
            let (kind, buffer) = (Kind::Broadcast, buffer.write_view());
            let call = Call::new(kind, None, Some(root), buffer.len(), None, Some(buffer))?;
            self.$enqueue(stream, call.in_place(0, 0))
        }

        /// Copies the slice that the root passes as `send` to `recv` of all ranks, the root's too. Other ranks pass
        /// `None`; what they pass is not used.
        ///
        /// # Errors
        /// As [`reduce`](Self::reduce).
        #[doc(alias = "ncclBroadcast")]
        pub fn broadcast_from<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: Option<DeviceSlice<$a, T>>,
            recv: impl WriteView<$a, T>,
            root: usize,
        ) -> Result<()> {
            let (kind, recv) = (Kind::Broadcast, recv.write_view());
            let send = at_root(kind, self.$communicator().rank() == root, send)?;
            let count = recv.len();
            if let Some(send) = &send {
                same(kind, send.len(), count)?;
            }
            let call = Call::new(kind, None, Some(root), count, send, Some(recv))?;
            self.$enqueue(stream, call)
        }

        /// Gives each rank the slices of all ranks: `recv` is rank 0's `send`, then rank 1's, and so on.
        ///
        /// # Errors
        /// As [`all_reduce`](Self::all_reduce); `recv` has as many elements as all `send` together.
        #[doc(alias = "ncclAllGather")]
        pub fn all_gather<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: impl ReadView<$a, T>,
            recv: impl WriteView<$a, T>,
        ) -> Result<()> {
            let (kind, send, recv) = (Kind::AllGather, send.read_view(), recv.write_view());
            let count = send.len();
            whole(kind, count, recv.len(), self.$communicator().ranks())?;
            let call = Call::new(kind, None, None, count, Some(send), Some(recv))?;
            self.$enqueue(stream, call)
        }

        /// As [`all_gather`](Self::all_gather), in place: each rank's slice is its part of the buffer.
        ///
        /// # Errors
        /// As [`all_gather`](Self::all_gather).
        #[doc(alias = "ncclAllGather")]
        pub fn all_gather_in_place<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            buffer: impl WriteView<$a, T>,
        ) -> Result<()> {
            let (kind, buffer) = (Kind::AllGather, buffer.write_view());
            let (rank, ranks) = (self.$communicator().rank(), self.$communicator().ranks());
            let count = parts(kind, buffer.len(), ranks)?;
            let call = Call::new(kind, None, None, count, None, Some(buffer))?;
            self.$enqueue(stream, call.in_place(rank * count, 0))
        }

        /// Combines the elements of all ranks and gives each rank its part of the result: `recv[i]` of rank *r* is
        /// `send[r * recv.len() + i]` of all ranks.
        ///
        /// # Errors
        /// As [`all_reduce`](Self::all_reduce); `send` has as many elements as all `recv` together.
        #[doc(alias = "ncclReduceScatter")]
        pub fn reduce_scatter<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: impl ReadView<$a, T>,
            recv: impl WriteView<$a, T>,
            op: ReduceOp,
        ) -> Result<()> {
            let (kind, send, recv) = (Kind::ReduceScatter, send.read_view(), recv.write_view());
            let count = recv.len();
            whole(kind, count, send.len(), self.$communicator().ranks())?;
            let call = Call::new(kind, Some(op), None, count, Some(send), Some(recv))?;
            self.$enqueue(stream, call)
        }

        /// As [`reduce_scatter`](Self::reduce_scatter), in place: a rank's part of its buffer has the result. The other
        /// parts are undefined.
        ///
        /// # Errors
        /// As [`reduce_scatter`](Self::reduce_scatter).
        #[doc(alias = "ncclReduceScatter")]
        pub fn reduce_scatter_in_place<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            buffer: impl WriteView<$a, T>,
            op: ReduceOp,
        ) -> Result<()> {
            let (kind, buffer) = (Kind::ReduceScatter, buffer.write_view());
            let (rank, ranks) = (self.$communicator().rank(), self.$communicator().ranks());
            let count = parts(kind, buffer.len(), ranks)?;
            let call = Call::new(kind, Some(op), None, count, None, Some(buffer))?;
            self.$enqueue(stream, call.in_place(0, rank * count))
        }

        /// Sends a slice to a rank, which calls [`recv`](Self::recv) with a slice of this length. The work on the stream
        /// waits for the peer's; ranks that send to each other do so in a [`Group`](crate::Group).
        ///
        /// # Errors
        /// As [`all_reduce`](Self::all_reduce), and [`Error::Invalid`] if the peer is no rank, or this one.
        #[doc(alias = "ncclSend")]
        pub fn send<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            slice: impl ReadView<$a, T>,
            peer: usize,
        ) -> Result<()> {
            let slice = slice.read_view();
            let call = Call::new(Kind::Send, None, Some(peer), slice.len(), Some(slice), None)?;
            self.$enqueue(stream, call)
        }

        /// Receives a slice from a rank, which calls [`send`](Self::send) with a slice of this length.
        ///
        /// # Errors
        /// As [`send`](Self::send).
        #[doc(alias = "ncclRecv")]
        pub fn recv<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            slice: impl WriteView<$a, T>,
            peer: usize,
        ) -> Result<()> {
            let slice = slice.write_view();
            let call = Call::new(Kind::Recv, None, Some(peer), slice.len(), None, Some(slice))?;
            self.$enqueue(stream, call)
        }

        /// Gives the root the slices of all ranks: its `recv` is rank 0's `send`, then rank 1's, and so on. Other ranks
        /// pass `None`; what they pass is not used.
        ///
        /// # Errors
        /// As [`reduce`](Self::reduce); `recv` has as many elements as all `send` together.
        #[doc(alias = "ncclGather")]
        pub fn gather<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: impl ReadView<$a, T>,
            recv: Option<DeviceSliceMut<$a, T>>,
            root: usize,
        ) -> Result<()> {
            let (kind, send) = (Kind::Gather, send.read_view());
            let recv = at_root(kind, self.$communicator().rank() == root, recv)?;
            let count = send.len();
            if let Some(recv) = &recv {
                whole(kind, count, recv.len(), self.$communicator().ranks())?;
            }
            let call = Call::new(kind, None, Some(root), count, Some(send), recv)?;
            self.$enqueue(stream, call)
        }

        /// Gives each rank its part of the root's slice: `recv` of rank *r* is `send[r * recv.len()..]`. Ranks other
        /// than the root pass `None`; what they pass is not used.
        ///
        /// # Errors
        /// As [`reduce`](Self::reduce); `send` has as many elements as all `recv` together.
        #[doc(alias = "ncclScatter")]
        pub fn scatter<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: Option<DeviceSlice<$a, T>>,
            recv: impl WriteView<$a, T>,
            root: usize,
        ) -> Result<()> {
            let (kind, recv) = (Kind::Scatter, recv.write_view());
            let send = at_root(kind, self.$communicator().rank() == root, send)?;
            let count = recv.len();
            if let Some(send) = &send {
                whole(kind, count, send.len(), self.$communicator().ranks())?;
            }
            let call = Call::new(kind, None, Some(root), count, send, Some(recv))?;
            self.$enqueue(stream, call)
        }

        /// Gives each rank its part of each rank's slice: part *s* of `recv` of rank *r* is part *r* of `send` of rank
        /// *s*.
        ///
        /// # Errors
        /// As [`all_reduce`](Self::all_reduce); the length is a multiple of the number of ranks.
        #[doc(alias = "ncclAlltoAll")]
        pub fn all_to_all<$($own,)? T: NcclElement>(
            &mut self,
            stream: &$a Stream,
            send: impl ReadView<$a, T>,
            recv: impl WriteView<$a, T>,
        ) -> Result<()> {
            let (kind, send, recv) = (Kind::AllToAll, send.read_view(), recv.write_view());
            same(kind, send.len(), recv.len())?;
            let count = parts(kind, recv.len(), self.$communicator().ranks())?;
            let call = Call::new(kind, None, None, count, Some(send), Some(recv))?;
            self.$enqueue(stream, call)
        }
    };
}

/// The collectives, each enqueued at once.
///
/// # Errors
/// All of them return [`Error::Invalid`] for arguments that make no sense, [`Error::Missing`] if the library lacks the
/// function, [`Error::Mismatch`] or [`Error::Gone`] if ranks of this process disagree, [`Error::Cuda`] if a slice can't be
/// used, and then nothing is enqueued; or [`Error::Nccl`], [`Error::Timeout`] or the communicator's first failure.
impl Communicator {
    collectives!('a, ['a], this, enqueue);

    fn this(&self) -> &Self {
        self
    }
}

/// The collectives, each collected for [`Group::run`](crate::Group::run).
impl<'a> GroupRank<'_, 'a> {
    collectives!('a, [], communicator, add);
}
