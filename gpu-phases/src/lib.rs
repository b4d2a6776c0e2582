#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

// The macros name this crate by its path from outside.
extern crate self as gpu_phases;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod atomic;
pub mod blocks;
#[allow(unsafe_code, reason = "the trait `Device` is unsafe to implement")]
mod builtin;
mod calls;
#[allow(unsafe_code, reason = "the trait `Device` is unsafe to implement")]
mod composite;
mod contract;
mod cpu;
#[allow(unsafe_code, reason = "the trait `Device` is unsafe to implement")]
pub mod device;
#[allow(unsafe_code, reason = "dual numbers are elements of buffers")]
pub mod dual;
pub mod fault;
mod functions;
#[cfg(feature = "half")]
#[allow(unsafe_code, reason = "the trait `Device` is unsafe to implement")]
mod halves;
mod host;
pub mod kernel;
pub mod math;
mod methods;
#[allow(unsafe_code, reason = "octaves are elements of buffers")]
pub mod noise;
mod print;
mod probe;
#[allow(unsafe_code, reason = "streams are elements of buffers")]
pub mod random;
mod raw;
pub mod replay;
#[allow(unsafe_code, reason = "the traits of structures are unsafe to implement")]
pub mod structure;
pub mod target;
pub mod text;
pub mod trust;
#[allow(unsafe_code, reason = "vectors are types of kernels, and plain data")]
pub mod vector;

pub use atomic::SharedAtomic;
pub use blocks::{Block, Part, PerThread, Shared, Threads};
pub use cpu::each::{Output, Shaped, each, image, volume};
pub use cpu::target::Cpu;
pub use fault::{Fault, FaultKind};
pub use gpu_phases_macros::{Device, device, kernel};
pub use math::{Int, Number, Real};
pub use raw::{Atomic, AtomicElement};
pub use trust::EmbeddedPack;

/// The header of blocks of threads, after [`HEADER`].
pub const BLOCKS: &str = concat!(
    include_str!("blocks.cuh"),
    include_str!("loads.cuh"),
    include_str!("patches.cuh"),
    include_str!("collective.cuh"),
    include_str!("carry.cuh")
);

/// The header of Rust's semantics in CUDA C++.
pub const HEADER: &str =
    concat!(include_str!("phases.cuh"), include_str!("operators.cuh"), include_str!("math.cuh"));
