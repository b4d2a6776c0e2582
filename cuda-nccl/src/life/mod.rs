//! The life of communicators: they are made, share a failure, are watched while they call, aborted and destroyed.

pub(crate) mod abort;
pub(crate) mod clique;
mod create;
pub(crate) mod handle;
mod slot;
pub(crate) mod teardown;
pub(crate) mod watch;
