//! Geometry on the GPU: as batch calls from Rust, and as device headers for a user's own kernels.

mod geometry;
mod headers;

pub use geometry::Geometry;
pub use headers::{headers, program};
