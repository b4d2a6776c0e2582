//! Gives a host function what must stay on its thread.
//!
//! - row: a function owns what it uses
//! - targets: `Stream::host_function_mut`
//! - must: not compile E0277 "cannot be sent"

use std::rc::Rc;

use cuda_safe::{Result, Stream};

pub fn attack(stream: &Stream) -> Result<()> {
    let count = Rc::new(1);
    let other = count.clone();
    stream.host_function_mut(move || println!("{other}"))?; //~ refused
    println!("{count}");
    Ok(())
}
