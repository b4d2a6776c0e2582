//! The driver's functions, by exported name, over the address space and the executor.
//!
//! One file per topic. The state is behind one lock; work runs without it, on the threads of the
//! [`stream::engine`]. Handles are numbers that are looked up, so that a wrong one is an error.

mod bridge;
mod call;
mod context;
mod device;
mod graph;
mod leaks;
mod ledger;
mod memory;
mod module;
mod names;
mod objects;
mod observation;
mod per_thread;
mod process;
mod profiler;
mod stream;
mod table;
mod tangents;
mod texture;
mod thread;
mod unsupported;
mod watch;

pub use ledger::{Ledger, fault_report, ledger};
pub use names::resolve;
pub use observation::{Observation, ObserveError, observe};
pub use process::reseed;
pub(crate) use process::space;
pub use stream::interleaving::{Interleaving, interleaving};
pub use table::support;
pub use tangents::tangents;
pub use watch::{Moment, Watch, watch};
