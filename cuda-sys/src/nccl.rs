//! The types of `nccl.h`, of NCCL 2.18 to 2.28, written by hand. A new version adds fields at the end of [`ncclConfig_t`].
#![allow(non_camel_case_types, non_upper_case_globals, reason = "the library's names")]

use core::ffi::{c_char, c_int, c_uint};
use core::mem::{offset_of, size_of};
use core::ptr;

/// What a communicator points to.
#[repr(C)]
#[derive(Debug)]
pub struct ncclComm {
    _unused: [u8; 0],
}

/// The handle of a communicator.
pub type ncclComm_t = *mut ncclComm;

/// The size of a unique identifier in bytes.
pub const NCCL_UNIQUE_ID_BYTES: usize = 128;

/// Identifies a communicator that is being created. Passed by value.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ncclUniqueId {
    /// The bytes, which only NCCL understands (`char` in C).
    pub internal: [u8; NCCL_UNIQUE_ID_BYTES],
}

impl core::fmt::Debug for ncclUniqueId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The bytes hold addresses and a random number by which others could join.
        f.debug_struct("ncclUniqueId").finish_non_exhaustive()
    }
}

/// A value of a C enum: the constants are those of the header, and other values are those of newer ones.
macro_rules! values {
    ($(#[$doc:meta])* $name:ident: $($value:ident = $number:literal,)*) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub c_uint);

        impl $name {
            $(#[doc = concat!("`", stringify!($value), "`.")] pub const $value: Self = Self($number);)*

            /// Returns the name of the value; `None` if these declarations have none for it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($value)),)*
                    _ => None,
                }
            }
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
    ncclTimeout = 8,
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
/// The first bytes of a configuration after its size.
pub const NCCL_CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// The colour of a rank that joins no communicator of a split.
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;

/// Returns the number of a version, as `NCCL_VERSION` of the header does: 2.18.3 is 21803.
#[must_use]
pub const fn nccl_version(major: c_int, minor: c_int, patch: c_int) -> c_int {
    if major <= 2 && minor <= 8 {
        major * 1000 + minor * 100 + patch
    } else {
        major * 10_000 + minor * 100 + patch
    }
}

/// The settings of a communicator, as NCCL 2.28 has them. [`ncclConfig_t::of_version`] makes one that an older NCCL takes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_snake_case, reason = "the library's names")]
pub struct ncclConfig_t {
    /// The bytes that the library reads.
    pub size: usize,
    /// [`NCCL_CONFIG_MAGIC`].
    pub magic: c_uint,
    /// The version of the header. The library ignores fields that are newer.
    pub version: c_uint,
    /// 0: no call waits for other ranks; 1: calls wait.
    pub blocking: c_int,
    /// The size of thread block clusters.
    pub cgaClusterSize: c_int,
    /// The least number of thread blocks of a kernel.
    pub minCTAs: c_int,
    /// The greatest number of thread blocks of a kernel.
    pub maxCTAs: c_int,
    /// The network module.
    pub netName: *const c_char,
    /// Whether a split shares resources with its parent. Since 2.18.
    pub splitShare: c_int,
    /// The class of the network's traffic. Since 2.25.
    pub trafficClass: c_int,
    /// A name for logs. Since 2.27.
    pub commName: *const c_char,
    /// Whether reductions in the network (CollNet) are enabled. Since 2.27.
    pub collnetEnable: c_int,
    /// How NCCL chooses the number of thread blocks (`NCCL_CTA_POLICY_…`). Since 2.27.
    pub CTAPolicy: c_int,
    /// Whether a communicator of `ncclCommShrink` shares resources with its parent. Since 2.27.
    pub shrinkShare: c_int,
    /// The number of thread blocks of kernels that use NVLink SHARP. Since 2.27.
    pub nvlsCTAs: c_int,
    /// The number of channels for each peer over the network. Since 2.28.
    pub nChannelsPerNetPeer: c_int,
    /// Whether NCCL schedules for NVLink first. Since 2.28.
    pub nvlinkCentricSched: c_int,
}

impl ncclConfig_t {
    /// Returns the settings of `NCCL_CONFIG_INITIALIZER` in the header of this version: nothing is set, and the size is
    /// that of the structure there, so that the library reads no field that it does not have.
    ///
    /// For a version after 2.28 it returns those of 2.28, which newer libraries take.
    #[must_use]
    pub const fn of_version(version: c_int) -> Self {
        const UNSET: c_int = NCCL_CONFIG_UNDEF_INT;
        let known = nccl_version(2, 28, 0);
        let size = if version >= known {
            size_of::<Self>()
        } else if version >= nccl_version(2, 27, 0) {
            offset_of!(Self, nChannelsPerNetPeer)
        } else {
            // Of 2.18, with the padding that `trafficClass` fills from 2.25 on.
            offset_of!(Self, commName)
        };
        let version = if version > known { known } else { version };
        Self {
            size,
            magic: NCCL_CONFIG_MAGIC,
            version: version.unsigned_abs(),
            blocking: UNSET,
            cgaClusterSize: UNSET,
            minCTAs: UNSET,
            maxCTAs: UNSET,
            netName: ptr::null(),
            splitShare: UNSET,
            trafficClass: UNSET,
            commName: ptr::null(),
            collnetEnable: UNSET,
            CTAPolicy: UNSET,
            shrinkShare: UNSET,
            nvlsCTAs: UNSET,
            nChannelsPerNetPeer: UNSET,
            nvlinkCentricSched: UNSET,
        }
    }
}

impl Default for ncclConfig_t {
    /// `NCCL_CONFIG_INITIALIZER` of NCCL 2.28.
    fn default() -> Self {
        Self::of_version(nccl_version(2, 28, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_the_size_of_each_header() {
        // sizeof(ncclConfig_t), compiled from the headers' declarations.
        for (version, size) in [
            (21800, 48),
            (21805, 48),
            (22403, 48),
            (22506, 48),
            (22605, 48),
            (22703, 72),
            (22800, 80),
            (23100, 80),
        ] {
            let config = ncclConfig_t::of_version(version);
            assert_eq!(config.size, size, "{version}");
            assert_eq!(config.version, version.min(22800).unsigned_abs());
            assert_eq!((config.magic, config.blocking), (0xcafe_beef, c_int::MIN));
        }
        assert_eq!(offset_of!(ncclConfig_t, blocking), 16);
        assert_eq!(offset_of!(ncclConfig_t, netName), 32);
        assert_eq!(offset_of!(ncclConfig_t, trafficClass), 44);
        assert_eq!(offset_of!(ncclConfig_t, commName), 48);
        assert_eq!(offset_of!(ncclConfig_t, nvlinkCentricSched), 76);
        assert_eq!(offset_of!(ncclConfig_t, collnetEnable), 56);
    }

    #[test]
    fn versions_and_names_are_those_of_the_header() {
        assert_eq!(nccl_version(2, 18, 3), 21803);
        assert_eq!(nccl_version(2, 8, 4), 2804);
        assert_eq!(ncclResult_t::ncclInProgress.name(), Some("ncclInProgress"));
        assert_eq!(ncclResult_t(99).name(), None);
        assert_eq!(size_of::<ncclUniqueId>(), 128);
    }
}
