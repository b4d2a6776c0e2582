//! Device memory, pinned host memory, and the copies between them.

mod allocation;
mod buffer;
mod copy;
mod enqueue;
mod facade;
pub(crate) mod fit;
mod host;
mod host_borrow;
mod kept;
pub(crate) mod pages;
mod pinned;
mod pool;
mod ranges;
mod reactor;
mod shaped;
mod shared;
mod slice;
mod staging;
mod transfer;
mod unified;
mod uses;
mod versions;

pub use allocation::Allocation;
pub use buffer::DeviceBuffer;
pub use kept::KeptMemory;
pub use pinned::PinnedBuffer;
pub use shaped::{Extent, PitchedLayout};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use transfer::Transfer;
pub use unified::{HostMut, HostRef, UnifiedBuffer};
pub use uses::Access;

pub(crate) use copy::{Helpers, Packing};
pub(crate) use enqueue::{Accesses, DirectEnqueuing, Enqueue, Enqueued, Enqueuing, Used};
pub(crate) use host::HostVec;
pub(crate) use pool::Pool;
pub(crate) use ranges::Ranges;
pub(crate) use slice::same_length;
pub(crate) use staging::Staging;
pub(crate) use versions::number_writes;
