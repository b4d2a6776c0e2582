mod graph_buffers {
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
}

mod graph_not_send {
    //! A graph goes to another thread only if its state does.

    use std::rc::Rc;

    use cuda_safe::{Context, DeviceBuffer, GraphBuilder, Result};

    fn executable(context: &Context, buffer: DeviceBuffer<f32>) -> Result<()> {
        let graph = context.capture((buffer, Rc::new(0)), |_, _| Ok(()))?;
        std::thread::spawn(move || drop(graph));
        Ok(())
    }

    fn builder(context: &Context) -> Result<()> {
        let builder = GraphBuilder::new(context, Rc::new(0))?;
        std::thread::spawn(move || drop(builder));
        Ok(())
    }
}

mod callback_borrows {
    //! A host function runs later, on another thread: it owns what it uses.

    use cuda_safe::{Result, Stream};

    fn local(stream: &Stream) -> Result<()> {
        let mut done = false;
        stream.host_function(|| done = true)?;
        stream.synchronize()
    }

    fn borrowed(stream: &Stream, text: &str) -> Result<()> {
        stream.host_function(move || println!("{text}"))
    }

    fn repeated(stream: &Stream) -> Result<()> {
        let mut calls = 0;
        stream.host_function_mut(|| calls += 1)?;
        stream.synchronize()
    }

    fn repeated_and_borrowed(stream: &Stream, text: &str) -> Result<()> {
        stream.host_function_mut(move || println!("{text}"))
    }
}

mod callback_not_send {
    //! A host function runs on a thread of the driver.

    use std::rc::Rc;

    use cuda_safe::{Result, Stream};

    fn counted(stream: &Stream) -> Result<()> {
        let shared = Rc::new(5);
        stream.host_function(move || println!("{shared}"))
    }
}

fn main() {}
