//! Implements the trait of elements for a type of the program.
//!
//! - row: a collective stays inside its slices
//! - targets: `Communicator::broadcast`
//! - must: not compile E0277 "Sealed"

use cuda_nccl::{Communicator, NcclElement, Result};
use cuda_safe::{DeviceBuffer, Stream};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Wide([u64; 8]);

impl NcclElement for Wide { const TYPE: cuda_nccl::DataType = <u8 as NcclElement>::TYPE; } //~ refused

pub fn attack(rank: &mut Communicator, stream: &Stream, x: &mut DeviceBuffer<u64>) -> Result<()> {
    rank.broadcast(stream, x, 0)
}
