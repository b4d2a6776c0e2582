//! A host function runs on a thread of the driver.

use std::rc::Rc;

use cuda_safe::{Result, Stream};

fn counted(stream: &Stream) -> Result<()> {
    let shared = Rc::new(5);
    stream.host_function(move || println!("{shared}"))
}

fn main() {}
