//! Writes a slice that a group receives into, and receives into it by another call of the group.
//!
//! - row: the memory of a call is ordered with all other uses
//! - targets: `Group::on`, `Group::run`, `DeviceBuffer::fill`
//! - must: not compile E0499 "cannot borrow `*x` as mutable more than once"

use cuda_nccl::{Communicator, Group, ReduceOp, Result};
use cuda_safe::{DeviceBuffer, Stream};

pub fn attack(
    ranks: &mut [Communicator],
    streams: &[Stream],
    x: &mut DeviceBuffer<u32>,
) -> Result<()> {
    let mut group = Group::new(ranks);
    group.on(0)?.all_reduce_in_place(&streams[0], &mut *x, ReduceOp::Sum)?;
    group.on(1)?.all_reduce_in_place(&streams[1], &mut *x, ReduceOp::Sum)?; //~ refused
    x.fill(&streams[0], 1)?; //~ refused
    group.run()
}
