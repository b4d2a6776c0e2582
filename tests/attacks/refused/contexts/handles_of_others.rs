//! Adopts streams, contexts and events by their handles, and enqueues by other means.
//!
//! - row: `Stream::from_raw`
//! - row: `Context::from_raw`
//! - row: `Event::from_raw`
//! - row: `Stream::enqueue`
//! - targets: `Stream::from_raw`, `Context::from_raw`, `Event::from_raw`, `Stream::enqueue`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{Context, Driver, Event, Stream};

pub fn attack(driver: Driver, context: &Context, stream: &Stream) {
    let _ = Stream::from_raw(context, std::ptr::null_mut(), ()); //~ refused
    let _ = Context::from_raw(driver, std::ptr::null_mut(), ()); //~ refused
    let _ = Event::from_raw(context, std::ptr::null_mut(), false); //~ refused
    let _ = stream.enqueue((), |_| ()); //~ refused
    let _ = (driver, context, stream);
}
