//! Implements the trait of elements for a type of the program.
//!
//! - row: a collective stays inside its slices
//! - targets: `Communicator::broadcast`
//! - must: not compile E0277 "Sealed"

use cuda_nccl::{Communicator, Element, Result};
use cuda_safe::{DeviceBuffer, Stream};

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Wide([u64; 8]);

impl Element for Wide { const TYPE: cuda_nccl::DataType = <u8 as Element>::TYPE; } //~ refused

pub fn attack(rank: &mut Communicator, stream: &Stream, x: &mut DeviceBuffer<u64>) -> Result<()> {
    rank.broadcast(stream, x, 0)
}
