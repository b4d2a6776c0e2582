//! Shares a pinned buffer of cells with another thread, and sends a buffer of the host's guards there.
//!
//! - row: all types may go to other threads that their contents allow
//! - targets: `PinnedBuffer::close`
//! - must: not compile E0277 "cannot be"

use std::cell::Cell;
use std::rc::Rc;

use cuda_safe::{HostMut, PinnedBuffer, Transfer};

pub fn attack(pinned: PinnedBuffer<Cell<u32>>, guard: HostMut<'_, Rc<u32>>, transfer: Transfer<u32>) {
    std::thread::scope(|scope| {
        scope.spawn(|| pinned.len()); //~ refused
        scope.spawn(move || guard.len()); //~ refused
        scope.spawn(move || drop(transfer));
    });
    let _ = pinned.len();
    let close = PinnedBuffer::<u32>::close;
    let _ = close;
}
