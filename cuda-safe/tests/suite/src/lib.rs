//! Tests of `cuda-safe`: on a driver that records, with real compilers, and on devices.

mod compile;
mod device;
mod fault;
mod host;
mod seeds;
mod suite;

pub use suite::suite;
