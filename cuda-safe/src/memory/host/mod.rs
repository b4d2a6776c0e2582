//! Memory of the host that the device uses, and the host's borrows of memory that both see.
//!
//! - `pages.rs`: pinned pages; `staging.rs`: a ring of them for copies from and to plain slices.
//! - `pinned.rs`: buffers of pinned memory; `transfer.rs`: copies that own one until they are done;
//!   `reactor.rs`: the thread that wakes tasks that await a transfer.
//! - `unified.rs`: buffers that host and device access, and the host's guards; `visible.rs`: allocating, waiting for
//!   and freeing their memory; `host_borrow.rs`: the guards that are alive;
//!   `variable.rs`: those of managed variables.

pub(super) mod host_borrow;
pub(crate) mod pages;
pub(super) mod pinned;
pub(super) mod reactor;
pub(super) mod staging;
pub(super) mod transfer;
pub(super) mod unified;
pub(super) mod variable;
pub(super) mod visible;
