//! The executor of the CPU: the parallel loop over rayon's threads, and faults by unwinding.

pub(crate) mod args;
pub(crate) mod each;
pub(crate) mod hook;
pub(crate) mod raise;
pub(crate) mod run;
pub(crate) mod target;
