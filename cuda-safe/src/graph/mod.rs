//! Graphs: work that is recorded once and launched many times.
//!
//! - `capture.rs`: a closure enqueues on a stream that records; the result is a [`GraphExec`].
//! - `recording.rs`: the uses of memory in a recording; `enqueue.rs`: what enqueues call of it; `branches.rs`: the order
//!   of the uses on several streams.
//! - `exec.rs`: launching, changing and copying a graph; `template.rs`: its source; `node.rs`: one launch in it.
//! - `conditional.rs`: parts that run if, or while, a number in device memory is not zero.
//! - `build.rs`: graphs put together from parts with the dependencies that the caller names.
//! - `lent.rs`: recording into a graph that other code captures.
//! - `uses.rs`: the memory that a graph uses; `failures.rs`: errors while recording; `driver.rs`: the driver's
//!   calls.

mod branches;
mod build;
mod capture;
mod conditional;
mod driver;
mod enqueue;
mod exec;
mod failures;
mod lent;
mod node;
mod recording;
mod template;
mod uses;

pub use build::{GraphBuilder, GraphPart};
pub use exec::{GraphExec, Recaptured};
pub use node::GraphNode;
pub use recording::RecordingId;

pub(crate) use lent::capture_of;
pub(crate) use recording::{Capture, Recording};
