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

fn main() {}
