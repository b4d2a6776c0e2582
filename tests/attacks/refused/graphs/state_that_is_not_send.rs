//! Sends a graph to another thread whose state must stay.
//!
//! - row: a graph goes to another thread only if
//! - targets: `Context::capture`
//! - must: not compile E0277 "cannot be sent between threads"

use std::rc::Rc;

use cuda_safe::{Context, Result};

pub fn attack(context: &Context) -> Result<()> {
    let graph = context.capture(Rc::new(0), |_, _| Ok(()))?;
    std::thread::spawn(move || drop(graph)); //~ refused
    Ok(())
}
