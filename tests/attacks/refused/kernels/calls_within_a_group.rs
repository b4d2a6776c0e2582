//! Uses the crate in the closure of `EnqueueGroup::run`, which runs with its locks held.
//!
//! - row: the closures of `Stream::enqueue`
//! - row: `EnqueueGroup::run`
//! - targets: `EnqueueGroup::new`, `EnqueueGroup::stream`, `EnqueueGroup::write`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, EnqueueGroup, Result, Stream};

pub fn attack(
    streams: [&Stream; 2],
    x: &mut DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
) -> Result<()> {
    let mut group = EnqueueGroup::new();
    group.stream(streams[0]).write(streams[1], &mut *x);
    let _ = group.run(|| y.fill(streams[0], 1.0)); //~ refused
    x.fill(streams[1], 2.0)
}
