//! Where lanes go: splits of a warp, joins, frames, branches and calls.
//!
//! The lanes of a warp that are at the same place are a *split*; lanes that have come to the place
//! where a branch's paths meet wait in a *join* until their siblings come, or until the warp lets
//! them go on without: joining is an optimisation and never keeps a lane from making progress.

pub(crate) mod branch;
pub(crate) mod call;
pub(crate) mod collective;
pub(crate) mod frame;
pub(crate) mod sleep;
pub(crate) mod sync;
pub(crate) mod warp;
