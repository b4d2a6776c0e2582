//! What a graph was recorded with stays its own, or borrowed, as long as it can be launched.

use cuda_safe::{Context, DeviceBuffer, GraphNode, Kernel, LaunchConfig, Result, Stream};

fn moved_into_the_state_and_dropped(
    context: &Context,
    stream: &Stream,
    buffer: DeviceBuffer<f32>,
) -> Result<()> {
    let mut graph = context.capture(buffer, |stream, buffer| buffer.fill(stream, 1.0))?;
    drop(buffer);
    graph.launch(stream)
}

fn borrowed_and_dropped(
    context: &Context,
    stream: &Stream,
    mut buffer: DeviceBuffer<f32>,
) -> Result<()> {
    let mut graph = context.capture((), |stream, ()| buffer.fill(stream, 1.0))?;
    drop(buffer);
    graph.launch(stream)
}

fn borrowed_and_written_beside_it(
    context: &Context,
    stream: &Stream,
    mut buffer: DeviceBuffer<f32>,
) -> Result<()> {
    let mut graph = context.capture((), |stream, ()| buffer.fill(stream, 1.0))?;
    buffer.fill(stream, 2.0)?;
    graph.launch(stream)
}

fn state_seen_during_a_launch(
    context: &Context,
    stream: &Stream,
    buffer: DeviceBuffer<f32>,
) -> Result<()> {
    let mut graph = context.capture(buffer, |stream, buffer| buffer.fill(stream, 1.0))?;
    let seen = graph.state().as_slice();
    graph.launch(stream)?;
    seen.to_vec(stream).map(drop)
}

fn updated_with_what_dies_before_it(
    context: &Context,
    stream: &Stream,
    kernel: &Kernel,
    node: GraphNode,
    buffer: DeviceBuffer<f32>,
) -> Result<()> {
    let mut graph = context.capture(buffer, |stream, buffer| buffer.fill(stream, 1.0))?;
    {
        let mut other = DeviceBuffer::<f32>::zeroed(stream, 8)?;
        graph.update(node, |stream, _| unsafe {
            kernel.launch(stream, LaunchConfig::new(1, 32), (&mut other,))
        })?;
    }
    graph.launch(stream)
}

fn recaptured_with_what_dies_before_it(
    context: &Context,
    stream: &Stream,
    buffer: DeviceBuffer<f32>,
) -> Result<()> {
    let mut graph = context.capture(buffer, |stream, buffer| buffer.fill(stream, 1.0))?;
    {
        let mut other = DeviceBuffer::<f32>::zeroed(stream, 8)?;
        graph.recapture(|stream, _| other.fill(stream, 2.0))?;
    }
    graph.launch(stream)
}

fn main() {}
