//! The layout of the last parameter of an adjoint, `geom::tape::Frame` of version 1, as far as generated adjoints read it:
//! offsets in bytes. `cuda-tape` compares them with its own when it is compiled.

/// The size of a frame.
pub const FRAME_BYTES: usize = 128;
/// The binary logarithm of the number of partial sums, 32 bits.
pub const PARTIALS_LOG2: usize = 36;
/// The address of the status of the pass, 64 bits; null if nothing in it can raise one.
pub const STATUS: usize = 88;
/// The gradient parameters to be stored to, not added to: a mask of 64 bits.
pub const ASSIGN: usize = 96;
/// The gradient parameters that need not be cleared: a mask of 64 bits.
pub const DROP: usize = 104;
