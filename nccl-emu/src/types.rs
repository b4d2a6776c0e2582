//! The types of `nccl.h`, as NCCL 2.28 declares them.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    non_camel_case_types,
    reason = "the header's names"
)]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// What a communicator's handle points to. The handles of this crate are numbers that nothing dereferences.
#[repr(C)]
#[derive(Debug)]
pub struct ncclComm {
    _unused: [u8; 0],
}

/// The handle of a communicator.
pub type ncclComm_t = *mut ncclComm;

/// The size of a unique id in bytes.
pub const NCCL_UNIQUE_ID_BYTES: usize = 128;

/// Names a communicator that is being created. Passed by value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ncclUniqueId {
    /// Bytes that only the library reads.
    pub internal: [c_char; NCCL_UNIQUE_ID_BYTES],
}

/// Declares a C enum as a number with named values, because a caller may pass any number.
macro_rules! values {
    ($(#[$doc:meta])* $name:ident: $($value:ident = $number:literal,)*) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub c_uint);

        impl $name {
            $(#[doc = concat!("`", stringify!($value), "`.")] pub const $value: Self = Self($number);)*
        }
    };
}

values! {
    /// The code that a function returns.
    ncclResult_t:
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
}

values! {
    /// The type of elements.
    ncclDataType_t:
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
}

values! {
    /// The operation of a reduction. Numbers from 5 on are those of `ncclRedOpCreatePreMulSum`.
    ncclRedOp_t:
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
}

values! {
    /// Where the scalar of `ncclRedOpCreatePreMulSum` is, and when it is read.
    ncclScalarResidence_t:
    ncclScalarDevice = 0,
    ncclScalarHostImmediate = 1,
}

/// An integer of the configuration that is not set.
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;
/// The number after the size of a configuration, written by `NCCL_CONFIG_INITIALIZER`.
pub const NCCL_API_MAGIC: c_uint = 0xcafe_beef;
/// The colour of a rank that joins no communicator of a split.
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;
/// The version of the API that this crate implements: 2.28.3.
pub const NCCL_VERSION_CODE: c_int = 22803;

/// The configuration of a communicator. Only `blocking` changes anything here; `size`, `magic` and the values that NCCL
/// checks are checked.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ncclConfig_t {
    /// The size of the structure in the header that the caller was compiled with.
    pub size: usize,
    /// [`NCCL_API_MAGIC`].
    pub magic: c_uint,
    /// The version of that header.
    pub version: c_uint,
    /// 0: no call waits for other ranks on the host. 1 is the default.
    pub blocking: c_int,
    /// The size of thread block clusters. Without effect.
    pub cgaClusterSize: c_int,
    /// The least number of thread blocks of a kernel. Without effect.
    pub minCTAs: c_int,
    /// The greatest number of thread blocks of a kernel. Without effect.
    pub maxCTAs: c_int,
    /// The network module. Without effect.
    pub netName: *const c_char,
    /// Whether a split shares resources with its parent. Without effect.
    pub splitShare: c_int,
    /// This field has no effect.
    pub trafficClass: c_int,
    /// A name for logs. Without effect.
    pub commName: *const c_char,
    /// This field has no effect.
    pub collnetEnable: c_int,
    /// This field has no effect.
    pub CTAPolicy: c_int,
    /// This field has no effect.
    pub shrinkShare: c_int,
    /// This field has no effect.
    pub nvlsCTAs: c_int,
    /// This field has no effect.
    pub nChannelsPerNetPeer: c_int,
    /// This field has no effect.
    pub nvlinkCentricSched: c_int,
}

impl Default for ncclConfig_t {
    /// `NCCL_CONFIG_INITIALIZER`.
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: NCCL_API_MAGIC,
            version: NCCL_VERSION_CODE.unsigned_abs(),
            blocking: NCCL_CONFIG_UNDEF_INT,
            cgaClusterSize: NCCL_CONFIG_UNDEF_INT,
            minCTAs: NCCL_CONFIG_UNDEF_INT,
            maxCTAs: NCCL_CONFIG_UNDEF_INT,
            netName: core::ptr::null(),
            splitShare: NCCL_CONFIG_UNDEF_INT,
            trafficClass: NCCL_CONFIG_UNDEF_INT,
            commName: core::ptr::null(),
            collnetEnable: NCCL_CONFIG_UNDEF_INT,
            CTAPolicy: NCCL_CONFIG_UNDEF_INT,
            shrinkShare: NCCL_CONFIG_UNDEF_INT,
            nvlsCTAs: NCCL_CONFIG_UNDEF_INT,
            nChannelsPerNetPeer: NCCL_CONFIG_UNDEF_INT,
            nvlinkCentricSched: NCCL_CONFIG_UNDEF_INT,
        }
    }
}

/// A stream of the CUDA runtime, which is a `CUstream` of the driver.
pub type cudaStream_t = cuda_sys::CUstream;

/// Untyped memory that a function reads.
pub type Buffer = *const c_void;

/// Untyped memory that a function writes.
pub type BufferMut = *mut c_void;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<ncclUniqueId>(), 128);
        assert_eq!(size_of::<ncclConfig_t>(), 80);
        assert_eq!(core::mem::offset_of!(ncclConfig_t, blocking), 16);
        assert_eq!(core::mem::offset_of!(ncclConfig_t, netName), 32);
        assert_eq!(core::mem::offset_of!(ncclConfig_t, commName), 48);
        assert_eq!(core::mem::offset_of!(ncclConfig_t, nvlinkCentricSched), 76);
    }
}
