//! Graphs: captured, launched, changed, and ordered with all other work.

mod change;
mod record;

use cuda_safe::{DeviceBuffer, Result, Stream};

use test_harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [record::cases(), change::cases()].concat()
}

const N: usize = 10_000;
const SHAPE: (u32, u32) = (8, 256);

fn zeroed(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::zeroed(stream, N)
}
