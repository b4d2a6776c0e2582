//! Sends a builder of a graph to another thread whose state must stay, and shares a graph whose state must not be.
//!
//! - row: a graph goes to another thread only if
//! - row: all types may go to other threads that their contents allow
//! - targets: `GraphBuilder::new`, `Context::capture`, `GraphExec::state`
//! - must: not compile E0277 "between threads safely"

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
