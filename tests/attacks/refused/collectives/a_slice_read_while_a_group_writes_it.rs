//! Reads a slice that a group receives into, on another stream and by the same group.
//!
//! - row: the memory of a call is ordered with all other uses
//! - targets: `Group::on`, `DeviceBuffer::to_vec`
//! - must: not compile E0502 "cannot borrow `*x` as immutable"

use cuda_nccl::{Communicator, Group, Result};
use cuda_safe::{DeviceBuffer, Stream};

pub fn attack(
    ranks: &mut [Communicator],
    streams: &[Stream],
    x: &mut DeviceBuffer<u32>,
) -> Result<()> {
    let mut group = Group::new(ranks);
    group.on(0)?.recv(&streams[0], &mut *x, 1)?;
    group.on(0)?.send(&streams[0], &*x, 1)?; //~ refused
    // A group that is not run lets its slices go at its last use, not at its drop.
    let _ = x.to_vec(&streams[1])?;
    group.run()?; //~ refused
    Ok(())
}
