//! Sends a view to a thread that may outlive its buffer.
//!
//! - row: a view does not outlive its buffer
//! - targets: `DeviceBuffer::as_slice`
//! - must: not compile E0597 "does not live long enough"

use cuda_safe::{DeviceBuffer, Result, Stream};

pub fn attack(stream: &Stream) -> Result<()> {
    let x = DeviceBuffer::<f32>::zeroed(stream, 16)?;
    let (view, own) = (x.as_slice(), stream.clone()); //~ refused
    let thread = std::thread::spawn(move || view.to_vec(&own)); //~ refused
    drop(thread); //~ refused
    stream.synchronize()
}
