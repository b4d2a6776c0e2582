//! Drops a buffer that a graph has borrowed, and launches a clone of the graph, which has no borrow of its own.
//!
//! - row: what its closures have borrowed stays borrowed
//! - targets: `GraphExec::try_clone`, `GraphExec::into_state`
//! - must: not compile E0505 "borrowed"

use cuda_safe::{Context, DeviceBuffer, Result, Stream};

pub fn attack(context: &Context, stream: &Stream, mut x: DeviceBuffer<f32>) -> Result<()> {
    let mut graph = context.capture((), |stream, ()| x.fill(stream, 1.0))?;
    let mut clone = graph.try_clone(7)?;
    graph.into_state();
    drop(x); //~ refused
    clone.launch(stream)
}
