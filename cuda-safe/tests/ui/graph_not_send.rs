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

fn main() {}
