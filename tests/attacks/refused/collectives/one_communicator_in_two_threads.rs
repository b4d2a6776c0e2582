//! Calls one communicator by two threads at once.
//!
//! - row: no two threads are in NCCL with one communicator
//! - targets: `Communicator::broadcast`
//! - must: not compile E0499 "cannot borrow `*rank` as mutable more than once"

use cuda_nccl::Communicator;
use cuda_safe::{DeviceBuffer, Stream};

pub fn attack(
    rank: &mut Communicator,
    stream: &Stream,
    x: &mut DeviceBuffer<u32>,
    y: &mut DeviceBuffer<u32>,
) {
    std::thread::scope(|scope| {
        scope.spawn(|| rank.broadcast(stream, x, 0));
        scope.spawn(|| rank.broadcast(stream, y, 0)); //~ refused
    });
}
