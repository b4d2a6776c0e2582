//! Gives a communicator to two groups, and splits it meanwhile.
//!
//! - row: no two threads are in NCCL with one communicator
//! - targets: `Group::new`, `Group::on`, `Communicator::split_all`
//! - must: not compile E0499 "more than once"

use cuda_nccl::{Communicator, Group, Result};
use cuda_safe::{DeviceBuffer, Stream};

pub fn attack(
    ranks: &mut [Communicator],
    stream: &Stream,
    x: &mut DeviceBuffer<u32>,
) -> Result<()> {
    let mut group = Group::new(&mut *ranks);
    group.on(0)?.broadcast(stream, x, 0)?;
    let _other = Group::new(&mut *ranks); //~ refused
    Communicator::split_all(&mut *ranks, |_| (None, 0))?; //~ refused
    group.run()
}
