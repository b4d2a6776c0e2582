//! Drops a buffer that a graph's closure has borrowed, and launches the graph.
//!
//! - row: what its closures have borrowed stays borrowed
//! - targets: `Context::capture`, `GraphExec::launch`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{Context, DeviceBuffer, Result, Stream};

pub fn attack(context: &Context, stream: &Stream, mut x: DeviceBuffer<f32>) -> Result<()> {
    let mut graph = context.capture((), |stream, ()| x.fill(stream, 1.0))?;
    drop(x); //~ refused
    graph.launch(stream)
}
