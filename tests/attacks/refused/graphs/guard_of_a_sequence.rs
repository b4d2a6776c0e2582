//! Takes a guard for several enqueues, and leaks it: the context's graph lock would be held for ever.
//!
//! - row: several enqueues that belong together
//! - targets: `Stream::graph_lock`, `DeviceBuffer::allocation`
//! - must: not compile E0277 "is not an iterator"

use cuda_safe::{Context, DeviceBuffer, Result, Stream};

pub fn attack(context: &Context, stream: &Stream, x: &DeviceBuffer<f32>) -> Result<()> {
    std::mem::forget(stream.graph_lock(x.allocation())); //~ refused
    context.synchronize()
}
