//! Drops a buffer, a stream and the communicators of a group before it runs.
//!
//! - row: the memory of a call is ordered with all other uses
//! - row: a communicator lives until its work is done
//! - targets: `Group::on`, `Group::run`
//! - must: not compile E0505 "cannot move out of"

use cuda_nccl::{Communicator, Group, Result};
use cuda_safe::{DeviceBuffer, Stream};

pub fn attack(
    mut ranks: Vec<Communicator>,
    stream: Stream,
    mut x: DeviceBuffer<u32>,
) -> Result<()> {
    let mut group = Group::new(&mut ranks);
    group.on(0)?.broadcast(&stream, &mut x, 0)?;
    drop(x); //~ refused
    drop(stream); //~ refused
    drop(ranks); //~ refused
    group.run()
}
