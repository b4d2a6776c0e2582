//! Takes the recorder out of its closure, to record when the tape is gone.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Tape::record`, `Recorder::scope`
//! - must: not compile E0521 "escapes"

use cuda_safe::{DeviceBuffer, Result, Stream};
use tape::{Recorder, Tape};

pub fn attack(stream: &Stream, x: &DeviceBuffer<f32>) -> Result<()> {
    let mut kept: Option<&mut Recorder<'_>> = None;
    Tape::record(stream, |t| {
        t.scope("inner", |t| t.watch(x))?;
        kept = Some(t); //~ refused
        Ok(())
    })?;
    drop(kept);
    Ok(())
}
