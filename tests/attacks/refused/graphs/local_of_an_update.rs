//! Lends a graph a buffer of an inner scope in an update, a recapture and a part, and launches it after the scope.
//!
//! - row: what its closures have borrowed stays borrowed
//! - targets: `GraphExec::update`, `GraphExec::recapture`, `GraphBuilder::add`
//! - must: not compile E0597 "does not live long enough"

use cuda_safe::{Context, DeviceBuffer, GraphBuilder, GraphNode, Result, Stream};

pub fn attack(context: &Context, node: GraphNode, stream: &Stream) -> Result<()> {
    let mut graph = context.capture((), |_, ()| Ok(()))?;
    let mut builder = GraphBuilder::new(context, ())?;
    {
        let mut x = DeviceBuffer::<f32>::zeroed(stream, 8)?;
        let mut y = DeviceBuffer::<f32>::zeroed(stream, 8)?;
        let mut z = DeviceBuffer::<f32>::zeroed(stream, 8)?;
        (x.fill(stream, 0.0)?, y.fill(stream, 0.0)?, z.fill(stream, 0.0)?);
        graph.update(node, |s, ()| x.fill(s, 1.0))?; //~ refused
        graph.recapture(|s, ()| y.fill(s, 1.0))?; //~ refused
        builder.add(&[], |s, ()| z.fill(s, 1.0))?; //~ refused
    }
    graph.update(node, |_, ()| Ok(()))?;
    graph.recapture(|_, ()| Ok(()))?;
    builder.add(&[], |_, ()| Ok(()))?;
    graph.launch(stream)?;
    builder.instantiate()?.launch(stream)
}
