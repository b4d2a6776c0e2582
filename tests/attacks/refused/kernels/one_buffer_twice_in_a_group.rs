//! Gives a group a buffer to write on one stream and to read on another.
//!
//! - row: `EnqueueGroup::run`
//! - targets: `EnqueueGroup::read`, `EnqueueGroup::write`
//! - must: not compile E0502 "cannot borrow"

use cuda_safe::{DeviceBuffer, EnqueueGroup, Stream};

pub fn attack(streams: [&Stream; 2], x: &mut DeviceBuffer<f32>) {
    let mut group = EnqueueGroup::new();
    group.write(streams[0], &mut *x);
    group.read(streams[1], &*x); //~ refused
    drop(group);
}
