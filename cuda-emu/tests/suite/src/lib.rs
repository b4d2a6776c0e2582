//! Tests of `cuda-emu` on the harness: its checkers against those of NVIDIA, kernels whose results a GPU recorded, and
//! generated programs.

mod checkers;
mod generated;
mod golden;
mod suite;

pub use checkers::Sanitizer;
pub use suite::suite;
