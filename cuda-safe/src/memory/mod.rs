//! Device memory, pinned host memory, and the copies between them.
//!
//! - `allocation.rs`: one piece of memory, however it came to be; `pool.rs`: where the device's comes from;
//!   `pools.rs`: pools that the program chooses.
//! - `buffer.rs`, `slice.rs`: typed memory and views of it; `facade.rs`: methods that all buffers share; `fit.rs`:
//!   whether elements of a type fit.
//! - `lent.rs`: memory of frameworks, and memory that their graphs read; `lent_views.rs`: that of one call;
//!   `foreign.rs`: memory from their allocators.
//! - `peers.rs`: memory that streams of other contexts use.
//! - `gate.rs`: memory that work of another library may still use when its stream has gone on; `held.rs`: what was
//!   dropped of it.
//! - `order/`: the waits between uses of memory. `copy/`: copies and fills. `host/`: memory that the host accesses.

mod allocation;
mod buffer;
mod copy;
mod facade;
pub(crate) mod fit;
mod foreign;
mod gate;
mod held;
mod host;
mod lent;
mod lent_views;
mod order;
mod peers;
pub mod pluggable;
mod pool;
mod pools;
mod slice;
mod views;

pub use allocation::Allocation;
pub use buffer::DeviceBuffer;
pub use copy::shaped::{Extent, PitchedLayout};
pub use foreign::{Allocator, ForeignMemory};
pub use gate::Gate;
pub use host::pinned::PinnedBuffer;
pub use host::transfer::Transfer;
pub use host::unified::{HostMut, HostRef, UnifiedBuffer};
pub use order::kept::KeptMemory;
pub use order::uses::Access;
pub use slice::{DeviceSlice, DeviceSliceMut};

pub(crate) use copy::{Helpers, Packing, Staged};
pub(crate) use foreign::{forget_allocator, set_allocator};
pub(crate) use gate::ContextGates;
pub(crate) use host::pages;
pub(crate) use host::reactor::stop_waiting;
pub(crate) use host::staging::Staging;
pub(crate) use host::visible::HostVec;
pub(crate) use lent_views::{View, Views};
pub use order::enqueue::UseVisitor;
pub(crate) use order::enqueue::{Accesses, DirectEnqueuing, Enqueue, Enqueued, Enqueuing, Used};
pub(crate) use order::ranges::Ranges;
pub(crate) use order::recording::{AnyCapture, AnyRecording};
pub(crate) use order::versions::number_writes;
pub(crate) use pool::ContextPool;
pub use pools::Pool;
pub(crate) use slice::same_length;
pub use views::{ReadView, WriteView};

use order::enqueue::enqueue;
