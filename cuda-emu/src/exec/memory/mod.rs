//! Memory as kernels see it: windows of the generic space, checks, loads, stores and atomics.
//!
//! Device memory is shared by all workers and, in a program with a race, by threads that use it at
//! the same time. It is therefore never a reference: every element is loaded and stored by a
//! relaxed atomic, or by an assembly instruction that the compiler cannot see into.

pub(crate) mod atomic;
pub(crate) mod copy;
pub(crate) mod element;
pub(crate) mod load;
pub(crate) mod mbarrier;
pub(crate) mod param;
pub(crate) mod resolve;
pub(crate) mod site;
pub(crate) mod space;
pub(crate) mod store;

/// Where shared memory begins in the generic space. No host address reaches so far.
pub(crate) const SHARED_WINDOW: u64 = 1 << 48;
/// Where a thread's local memory begins in the generic space.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 48;
/// Where a kernel's parameters begin in the generic space.
pub(crate) const PARAM_WINDOW: u64 = 3 << 48;
/// A function's address is this and 16 times its number: below every allocation.
pub(crate) const CODE_BASE: u64 = 0x1000;

/// The space of an access, in the upper half of slot c.
pub(crate) const GENERIC: u8 = 0;
pub(crate) const GLOBAL: u8 = 1;
pub(crate) const SHARED: u8 = 2;
pub(crate) const LOCAL: u8 = 3;
/// The parameters of the kernel.
pub(crate) const PARAM: u8 = 4;

/// The shared memory of all blocks of the cluster.
pub(crate) const CLUSTER: u8 = 5;

/// How an access is checked, a constant of its instruction: as one of memory, in which the window
/// of another space is the exception,
pub(crate) const PLAIN: u8 = 0;
/// as one of shared memory,
pub(crate) const BLOCK: u8 = 1;
/// or lane by lane.
pub(crate) const OTHER: u8 = 2;

/// A bit of slot c: the address has 32 bits.
pub(crate) const NARROW: u32 = 8;

/// A bit of slot c of an access: the access may wait for other threads.
pub(crate) const POLL: u32 = 1;
/// Later accesses are not done before it (acquire).
pub(crate) const ACQUIRE: u32 = 2;
/// Earlier accesses are done before it (release).
pub(crate) const RELEASE: u32 = 4;
