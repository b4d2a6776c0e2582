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

fn main() {}
