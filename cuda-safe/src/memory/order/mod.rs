//! Order: the waits between uses of memory.
//!
//! - `enqueue.rs`: one enqueue, from the ordering of its uses to their recording; `recording.rs`: what it calls where the
//!   stream records a graph.
//! - `uses.rs`: the newest uses of an allocation, recorded once a second stream or a graph uses it; `shared.rs`: the
//!   flag that starts the recording; `ranges.rs`: a map from ranges of bytes to values.
//! - `versions.rs`: the number of the newest write, for results that were computed from memory.
//! - `kept.rs`: memory that is used later without a borrow.

pub(super) mod enqueue;
pub(super) mod kept;
pub(super) mod ranges;
pub(super) mod recording;
pub(super) mod shared;
pub(super) mod uses;
pub(super) mod versions;
