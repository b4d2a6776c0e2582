//! Sums types whose bytes are no numbers of NCCL.
//!
//! - row: a collective stays inside its slices
//! - targets: `Communicator::all_reduce_in_place`, `Communicator::all_gather_in_place`
//! - must: not compile E0277 "the trait bound"

use cuda_nccl::{Communicator, ReduceOp, Result};
use cuda_safe::{DeviceBuffer, Stream};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Pair {
    a: u8,
    b: u8,
}

pub fn attack(
    rank: &mut Communicator,
    stream: &Stream,
    x: &mut DeviceBuffer<[u32; 3]>,
    y: &mut DeviceBuffer<Pair>,
) -> Result<()> {
    rank.all_reduce_in_place(stream, x, ReduceOp::Sum)?; //~ refused
    rank.all_gather_in_place(stream, y)?; //~ refused
    rank.check()
}
