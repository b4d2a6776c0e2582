//! The crates under attack.
//!
//! The programs in `refused/` are compiled against this library: its file is the one that is sure to
//! belong to the test program, whatever else lies in cargo's folder.

pub use bytemuck;
pub use cuda_nccl;
pub use cuda_safe;
pub use geom_kernels;
pub use nanovdb;
pub use nvrtc;
pub use tape;
