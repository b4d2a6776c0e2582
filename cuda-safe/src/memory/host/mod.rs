//! Memory of the host that the device uses, and the host's borrows of memory that both see.
//!
//! - `pages.rs`: pinned pages; `staging.rs`: a ring of them for copies from and to plain slices.
//! - `pinned.rs`: buffers of pinned memory; `transfer.rs`: copies that own one until they are done;
//!   `reactor.rs`: the thread that wakes tasks that await a transfer.
//! - `unified.rs`: buffers that host and device see, and guards of the host's; `visible.rs`: how their
//!   memory is allocated, waited for and freed; `host_borrow.rs`: which guards are alive.

pub(super) mod host_borrow;
pub(crate) mod pages;
pub(super) mod pinned;
pub(super) mod reactor;
pub(super) mod staging;
pub(super) mod transfer;
pub(super) mod unified;
pub(super) mod visible;
