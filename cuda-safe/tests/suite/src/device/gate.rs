//! Work that ends when a test says so: no time decides whether a stream is still busy.

use std::sync::mpsc;

use cuda_safe::{Result, Stream};

/// Holds back all later work of a stream until it is dropped.
pub(super) struct Gate {
    _closed: mpsc::Sender<()>,
}

impl Gate {
    /// Enqueues a host function that returns when the gate is dropped.
    pub(super) fn close(stream: &Stream) -> Result<Self> {
        let (closed, opened) = mpsc::channel();
        stream.host_function(move || {
            // Fails when the sender is dropped.
            let _ = opened.recv();
        })?;
        Ok(Self { _closed: closed })
    }

    /// Lets the stream go on.
    pub(super) fn open(self) {}
}
