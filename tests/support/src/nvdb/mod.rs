//! Samples of NanoVDB grids, changes to them, and code that follows a grid's distances without checks, as devices do.

pub mod follow;
pub mod layouts;
pub mod mutate;
pub mod samples;
