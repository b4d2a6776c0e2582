//! Gives a host function what it may outlive, and what must stay on its thread.
//!
//! - row: a function owns what it uses
//! - targets: `Stream::host_function`
//! - must: not compile E0597 "does not live long enough"

use cuda_safe::{Result, Stream};

pub fn attack(stream: &Stream) -> Result<()> {
    let text = String::from("here");
    let seen = &text;
    stream.host_function(move || println!("{seen}"))?; //~ refused
    stream.host_function(move || println!("{}", 1))
}
