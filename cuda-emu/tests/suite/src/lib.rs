//! Tests of `cuda-emu` on the harness: its checkers against those of NVIDIA.

mod checkers;
mod suite;

pub use checkers::Sanitizer;
pub use suite::suite;
