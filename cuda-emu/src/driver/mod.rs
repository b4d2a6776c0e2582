//! The driver's functions, by exported name, over the address space and the executor.
//!
//! One file per topic. The state is behind one lock; work runs without it, on the threads of the
//! [`engine`]. Handles are numbers that are looked up, so that a wrong one is an error.

mod attributes;
mod bridge;
mod call;
mod capture;
mod conditional;
mod context;
mod copy;
mod copy_shaped;
mod device;
mod engine;
mod event;
mod fill;
mod function;
mod graph;
mod graph_exec;
mod graph_memory;
mod graph_nodes;
mod graph_params;
mod graph_run;
mod interleaving;
mod jit;
mod launch;
mod leaks;
mod ledger;
mod library;
mod link;
mod memory;
mod module;
mod names;
mod node_params;
mod objects;
mod observation;
mod per_thread;
mod pointer;
mod pool;
mod process;
mod profiler;
mod refused;
mod refused_more;
mod refused_other;
mod stream;
mod table;
mod tangents;
mod thread;
mod userobject;
mod watch;
mod work;

pub(crate) use table::base;

pub use interleaving::{Interleaving, interleaving};
pub use ledger::{Ledger, fault_report, ledger};
pub use names::resolve;
pub use observation::{Observation, ObserveError, observe};
pub use process::reseed;
pub(crate) use process::space;
pub use table::support;
pub use watch::{Moment, Watch, watch};
