//! Calls a communicator that several threads share without a lock.
//!
//! - row: no two threads are in NCCL with one communicator
//! - targets: `Communicator::all_reduce_in_place`, `Communicator::split`, `Communicator::check`
//! - must: not compile E0596 "cannot borrow data in an `Arc` as mutable"

use std::sync::Arc;

use cuda_nccl::{Communicator, ReduceOp, Result};
use cuda_safe::{DeviceBuffer, Stream};

pub fn attack(
    rank: Arc<Communicator>,
    stream: &Stream,
    x: &mut DeviceBuffer<u32>,
) -> Result<()> {
    let shared = rank.clone();
    std::thread::spawn(move || shared.check());
    rank.all_reduce_in_place(stream, x, ReduceOp::Sum)?; //~ refused
    rank.split(None, 0)?; //~ refused
    rank.check()
}
