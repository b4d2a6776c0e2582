//! Sorts and what is like them, against the host's.

mod headers;
mod keys;
mod sums;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::algorithms::Algorithms;

use test_harness::{Case, TestDevice, deep};

pub(crate) fn cases() -> Vec<Case> {
    [keys::cases(), sums::cases(), headers::cases()].concat()
}

/// Numbers of elements around what may go wrong: a warp, a tile of each kernel, a group of tiles, many.
fn sizes(device: &TestDevice) -> Vec<usize> {
    let mut sizes = vec![
        0, 1, 31, 32, 33, 3071, 3072, 3073, 4095, 4096, 4097, 4607, 4608, 4609, 65_536, 150_001,
    ];
    if deep() || device.tier() == "gpu" {
        sizes.extend([1 << 20, 3_000_001]);
    }
    sizes
}

fn sort(device: &TestDevice) -> Algorithms<'static> {
    GeometryKernels::new(device.context()).algorithms()
}

/// Scratch with garbage in it.
fn garbage(stream: &Stream, bytes: usize) -> cuda_safe::Result<DeviceBuffer<u8>> {
    let mut scratch = DeviceBuffer::<u8>::zeroed(stream, bytes)?;
    scratch.fill(stream, 0xa7)?;
    Ok(scratch)
}
