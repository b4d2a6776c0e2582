//! The PTX executor: loads a program, and runs its kernels on the host.
//!
//! [`Program::load`] decodes each function once into an array of instructions, each a function
//! pointer with the places of its operands; [`run`] executes a launch. A warp's registers are
//! vectors of 32 lanes, and an instruction works on all lanes of its warp that are at its place.
//! Every access of memory is checked; what goes wrong is a [`Fault`] with the driver's code and a
//! [`Report`].

mod block;
mod builtins;
pub(crate) mod check;
mod cluster;
mod config;
mod contract;
mod control;
mod count;
mod decode;
mod fault;
mod grid;
mod inst;
mod machine;
mod memory;
mod ops;
mod program;
mod taint;
pub(crate) mod tangent;
mod texture;

pub use crate::report::Report;
pub use builtins::heap::Heap;
pub(crate) use builtins::is_system_function;
pub(crate) use config::SHARED_RESERVED;
pub use config::{DeviceInfo, Env, ExecConfig, Launch, Speeds, Stats};
pub use count::Executed;
pub(crate) use count::bound;
pub use fault::Fault;
pub use grid::run;
pub(crate) use grid::run_stats;
pub(crate) use machine::Around;
pub(crate) use memory::element::load_bytes;
pub use program::{EntryAttributes, EntryId, LoadError, Program};
pub use taint::{Decided, Reached};
