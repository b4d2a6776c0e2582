//! The layout of the last parameter of an adjoint, `geom::tape::Frame` of version 1, as far as generated adjoints read
//! it: offsets in bytes. `cuda-tape` compares them with its own when it is compiled.

/// The size of a frame.
pub const FRAME_BYTES: usize = 128;
/// The flags, 32 bits: [`RESUME`] and others.
pub const FLAGS: usize = 4;
/// Threads that have finished in an earlier run are marked.
pub const RESUME: u32 = 2;
/// The binary logarithm of the number of partial sums, 32 bits.
pub const PARTIALS_LOG2: usize = 36;
/// The address of the scratch memory, 64 bits.
pub const SCRATCH: usize = 56;
/// Its size in bytes, 64 bits.
pub const SCRATCH_BYTES: usize = 64;
/// The address of the log of a deterministic tape, 64 bits.
pub const LOG: usize = 72;
/// Its size in bytes, 64 bits.
pub const LOG_BYTES: usize = 80;
/// The address of the status of the pass, 64 bits; null if nothing in it can raise one.
pub const STATUS: usize = 88;
/// The gradient parameters to be stored to, not added to: a mask of 64 bits.
pub const ASSIGN: usize = 96;
/// The gradient parameters that need not be cleared: a mask of 64 bits.
pub const DROP: usize = 104;

/// The size of the header of scratch memory; a mark of one byte for each thread follows.
pub const SCRATCH_HEADER: u64 = 32;
/// The alignment of the words after the marks, in bytes.
pub const SCRATCH_ALIGN: u64 = 16;
/// The code of a status that says that scratch memory was too small.
pub const SCRATCH_OVERFLOW: u32 = 1;
/// The code of a status that says that the log was too small.
pub const LOG_OVERFLOW: u32 = 2;
/// The size of the header of a log, which begins with the number of entries, 64 bits.
pub const LOG_HEADER: usize = 16;
/// The size of an entry: the address of a number, plus 1 if it is a `double`, and what is added to it, as a `double`.
pub const LOG_ENTRY: usize = 16;
/// The offset of the needed memory in a status, in KiB.
pub const STATUS_NEED: usize = 4;
