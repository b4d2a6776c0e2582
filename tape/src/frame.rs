//! The frame, which adjoints get in addition to parameters and gradients: `geom::tape::Frame`.

use bytemuck::{Pod, Zeroable};
use cuda_safe::{DeviceRepr, Dim3, LaunchConfig};

/// The version of the binary interface between the tape and adjoints.
pub const ABI: u32 = 1;

/// The primal stores nothing, and only returns how much memory it needs.
pub const COUNT: u32 = 1;
/// Some threads of the adjoint have finished, and are marked.
pub const RESUME: u32 = 2;
/// Sums go to the log.
pub const DETERMINISTIC: u32 = 4;

/// The last parameter of every adjoint: `geom::tape::Frame` of `geom/tape.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Frame {
    /// [`ABI`].
    pub abi: u32,
    /// [`COUNT`], [`RESUME`], [`DETERMINISTIC`].
    pub flags: u32,
    /// The grid of the forward launch.
    pub fwd_grid: [u32; 3],
    /// The block of the forward launch.
    pub fwd_block: [u32; 3],
    /// The dynamic shared memory of the forward launch.
    pub fwd_shared: u32,
    /// The base-2 logarithm of the number of partial sums for the gradient of a number passed by value.
    pub partials_log2: u32,
    /// The tape memory that the primal has written.
    pub tape: u64,
    /// The size of `tape`.
    pub tape_bytes: u64,
    /// Memory that lives as long as the launch.
    pub scratch: u64,
    /// The size of `scratch`.
    pub scratch_bytes: u64,
    /// The log for the summands of a deterministic tape.
    pub log: u64,
    /// The size of `log`.
    pub log_bytes: u64,
    /// The status of the pass; null if nothing in it can raise one.
    pub status: u64,
    /// A bit for each gradient parameter that is stored to, not added to (ASSIGN).
    pub assign: u64,
    /// A bit for each gradient parameter that need not be cleared (DROP).
    pub drop: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

// SAFETY: repr(C), and the fields of geom::tape::Frame; its addresses are the tape's, or null.
unsafe impl DeviceRepr for Frame {}

impl Frame {
    /// Creates the frame of a forward launch; all other fields are zero.
    pub(crate) fn of(launch: &LaunchConfig) -> Self {
        let of = |extent: Dim3| [extent.x, extent.y, extent.z];
        Self {
            abi: ABI,
            fwd_grid: of(launch.grid),
            fwd_block: of(launch.block),
            fwd_shared: launch.dynamic_shared_bytes,
            ..Self::zeroed()
        }
    }
}

// `ptx-ad` declares the frame's offsets for generated adjoints; these assertions compare them.
const _: () = {
    use std::mem::offset_of;
    assert!(ABI == 1 && size_of::<Frame>() == ptx_ad::abi::FRAME_BYTES);
    assert!(offset_of!(Frame, flags) == ptx_ad::abi::FLAGS && RESUME == ptx_ad::abi::RESUME);
    assert!(offset_of!(Frame, scratch) == ptx_ad::abi::SCRATCH);
    assert!(offset_of!(Frame, scratch_bytes) == ptx_ad::abi::SCRATCH_BYTES);
    assert!(offset_of!(Frame, log) == ptx_ad::abi::LOG);
    assert!(offset_of!(Frame, log_bytes) == ptx_ad::abi::LOG_BYTES);
    assert!(offset_of!(Frame, partials_log2) == ptx_ad::abi::PARTIALS_LOG2);
    assert!(offset_of!(Frame, status) == ptx_ad::abi::STATUS);
    assert!(offset_of!(Frame, assign) == ptx_ad::abi::ASSIGN);
    assert!(offset_of!(Frame, drop) == ptx_ad::abi::DROP);
    assert!(offset_of!(Status, code) == 0 && offset_of!(Status, need) == ptx_ad::abi::STATUS_NEED);
    assert!(SCRATCH_OVERFLOW == ptx_ad::abi::SCRATCH_OVERFLOW);
    assert!(LOG_OVERFLOW == ptx_ad::abi::LOG_OVERFLOW);
};

/// The status of a pass: `geom::tape::Status`, and the action that `tape_note` adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) code: u32,
    /// The scratch memory that is needed, in KiB.
    pub(crate) need: u32,
    /// The action of the plan that has raised the status, counted from 1.
    pub(crate) step: u32,
    pub(crate) unused: u32,
}

pub(crate) const FINE: u32 = 0;
pub(crate) const SCRATCH_OVERFLOW: u32 = 1;
pub(crate) const LOG_OVERFLOW: u32 = 2;
pub(crate) const OTHER_ABI: u32 = 3;
pub(crate) const TAPE_OVERFLOW: u32 = 4;
pub(crate) const NEVER_RAN: u32 = 5;

/// The numbers of a structure that have partial sums: `Members` of tape.cu.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Members {
    pub(crate) count: u32,
    pub(crate) at: [u32; 31],
}

// SAFETY: repr(C), and the fields of Members in tape.cu.
unsafe impl DeviceRepr for Members {}
