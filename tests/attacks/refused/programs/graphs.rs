mod buffer_dropped_under_a_clone {
    //! Drops a buffer that a graph has borrowed, and launches a clone of the graph, which has no borrow of its own.
    //!
    //! - row: what its closures have borrowed stays borrowed
    //! - targets: `GraphExec::try_clone`, `GraphExec::into_state`

    use cuda_safe::{Context, DeviceBuffer, Result, Stream};

    pub fn attack(context: &Context, stream: &Stream, mut x: DeviceBuffer<f32>) -> Result<()> {
        let mut graph = context.capture((), |stream, ()| x.fill(stream, 1.0))?;
        let mut clone = graph.try_clone(7)?;
        graph.into_state();
        drop(x); //~ refused
        clone.launch(stream)
    }
}

mod buffer_dropped_under_a_graph {
    //! Drops a buffer that a graph's closure has borrowed, and launches the graph.
    //!
    //! - row: what its closures have borrowed stays borrowed
    //! - targets: `Context::capture`, `GraphExec::launch`

    use cuda_safe::{Context, DeviceBuffer, Result, Stream};

    pub fn attack(context: &Context, stream: &Stream, mut x: DeviceBuffer<f32>) -> Result<()> {
        let mut graph = context.capture((), |stream, ()| x.fill(stream, 1.0))?;
        drop(x); //~ refused
        graph.launch(stream)
    }
}

mod builder_of_what_stays {
    //! Sends a builder of a graph to another thread whose state must stay, and shares a graph whose state must not be.
    //!
    //! - row: a graph goes to another thread only if
    //! - row: all types may go to other threads that their contents allow
    //! - targets: `GraphBuilder::new`, `Context::capture`, `GraphExec::state`

    use std::cell::Cell;
    use std::rc::Rc;

    use cuda_safe::{Context, GraphBuilder, Result};

    pub fn attack(context: &Context) -> Result<u32> {
        let builder = GraphBuilder::new(context, Rc::new(0))?;
        let graph = context.capture(Cell::new(0), |_, _| Ok(()))?;
        std::thread::scope(|scope| {
            scope.spawn(|| graph.state().set(1)); //~ refused
        });
        std::thread::spawn(move || drop(builder)); //~ refused
        Ok(graph.state().get())
    }
}

mod flag_of_a_loop_kept {
    //! Keeps the view of a loop's flag that the body is given, and the state of a closure, past their end.
    //!
    //! - row: bodies of conditional nodes count
    //! - row: what its closures have borrowed stays borrowed
    //! - targets: `Stream::record_while`, `Context::capture`

    use cuda_safe::{Context, DeviceBuffer, Result};

    pub fn attack(context: &Context, x: DeviceBuffer<u32>, mut flag: DeviceBuffer<u32>) -> Result<usize> {
        let mut view = None;
        let mut state = None;
        view.get_or_insert(flag.as_slice());
        state.get_or_insert(&x);
        let other = x.try_clone(x.home_stream())?;
        let graph = context.capture((other, flag.try_clone(flag.home_stream())?), |s, (x, flag)| {
            state = Some(&*x); //~ refused
            let _ = &x;
            s.record_while(&mut *flag, |_, _more| {
                view = Some(_more.as_slice()); //~ refused
                Ok(())
            })
        })?;
        drop(graph);
        Ok(view.map_or(0, |view| view.len()) + state.map_or(0, |x| x.len()))
    }
}

mod guard_of_a_sequence {
    //! Takes a guard for several enqueues, and leaks it: the context's graph lock would be held for ever.
    //!
    //! - row: several enqueues that belong together
    //! - targets: `Stream::graph_lock`, `DeviceBuffer::allocation`

    use cuda_safe::{Context, DeviceBuffer, Result, Stream};

    pub fn attack(context: &Context, stream: &Stream, x: &DeviceBuffer<f32>) -> Result<()> {
        std::mem::forget(stream.graph_lock(x.allocation())); //~ refused
        context.synchronize()
    }
}

mod local_of_an_update {
    //! Lends a graph a buffer of an inner scope in an update, a recapture and a part, and launches it after the scope.
    //!
    //! - row: what its closures have borrowed stays borrowed
    //! - targets: `GraphExec::update`, `GraphExec::recapture`, `GraphBuilder::add`

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
}

mod state_that_is_not_send {
    //! Sends a graph to another thread whose state must stay.
    //!
    //! - row: a graph goes to another thread only if
    //! - targets: `Context::capture`

    use std::rc::Rc;

    use cuda_safe::{Context, Result};

    pub fn attack(context: &Context) -> Result<()> {
        let graph = context.capture(Rc::new(0), |_, _| Ok(()))?;
        std::thread::spawn(move || drop(graph)); //~ refused
        Ok(())
    }
}

fn main() {}
