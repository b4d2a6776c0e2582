//! A device's attributes: each by a separate method with its type, and all of them as a list.
//!
//! The methods have the names of CUDA's constants in lower case, except
//! [`Device::pci_bus_number`] (`CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`), since [`Device::pci_bus_id`] is
//! the whole address. Left out are `CU_DEVICE_ATTRIBUTE_MAX` and the deprecated second names of
//! attributes: `SHARED_MEMORY_PER_BLOCK`, `REGISTERS_PER_BLOCK`, `MAXIMUM_TEXTURE2D_ARRAY_WIDTH`,
//! `MAXIMUM_TEXTURE2D_ARRAY_HEIGHT`, `MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES` and
//! `VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED`.
//!
//! `cargo xtask attributes` writes the methods from `tools/xtask/attributes.txt`.

mod generated;

use cuda_sys::{
    CUGPUDirectRDMAWritesOrdering, CUcomputemode, CUdevice_attribute, CUdeviceNumaConfig,
    CUflushGPUDirectRDMAWritesOptions, CUlogicalEndpointIpcHandleType, CUmemAllocationHandleType,
    CUmemDecompressAlgorithm,
};

use crate::device::Device;
use crate::error::{Error, Result};

/// One row of the table of attributes: the method's name, CUDA's name, and the attribute.
type Row = (&'static str, &'static str, CUdevice_attribute);

/// Defines a method of [`Device`] for each attribute, and `TABLE` with all of them.
macro_rules! attributes {
    ($(
        $(#[doc = $doc:literal])+
        #[doc(alias = $alias:literal)]
        $name:ident: $type:ty = $attribute:ident;
    )+) => {
        impl Device {
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                /// The error that the driver returns, such as `CUDA_ERROR_INVALID_VALUE` if it is older
                /// than the attribute; or that the value makes no sense.
                #[doc(alias = $alias)]
                pub fn $name(&self) -> crate::error::Result<$type> {
                    let value = self.raw_attribute(super::CUdevice_attribute::$attribute)?;
                    super::FromAttribute::from_attribute($alias, value)
                }
            )+
        }

        pub(super) const TABLE: &[super::Row] =
            &[$((stringify!($name), $alias, super::CUdevice_attribute::$attribute)),+];

        /// The aliases are repeated as text for rustdoc; this compares them with the constants.
        #[cfg(test)]
        pub(super) const CONSTANTS: &[&str] = &[$(stringify!($attribute)),+];
    };
}
use attributes;

impl Device {
    /// Returns all attributes that have a method here, with its name: for tools that print them by
    /// [`Device::raw_attribute`]. A driver older than an attribute returns an error for it.
    ///
    /// ```
    /// use cuda_safe::Device;
    ///
    /// assert!(Device::attributes().any(|(name, _)| name == "multiprocessor_count"));
    /// ```
    pub fn attributes() -> impl Iterator<Item = (&'static str, CUdevice_attribute)> {
        generated::TABLE.iter().map(|&(name, _, attribute)| (name, attribute))
    }
}

/// Makes an attribute's value from the driver's integer.
trait FromAttribute: Sized {
    /// `name` is CUDA's name of the attribute, for the error.
    fn from_attribute(name: &'static str, value: i32) -> Result<Self>;
}

impl FromAttribute for bool {
    fn from_attribute(_: &'static str, value: i32) -> Result<Self> {
        Ok(value != 0)
    }
}

impl FromAttribute for u32 {
    fn from_attribute(name: &'static str, value: i32) -> Result<Self> {
        Self::try_from(value).map_err(|_| negative(name, value))
    }
}

impl FromAttribute for usize {
    fn from_attribute(name: &'static str, value: i32) -> Result<Self> {
        Self::try_from(value).map_err(|_| negative(name, value))
    }
}

/// Numbers of things that may be missing: the driver returns -1 then.
impl FromAttribute for Option<u32> {
    fn from_attribute(name: &'static str, value: i32) -> Result<Self> {
        if value == -1 { Ok(None) } else { u32::from_attribute(name, value).map(Some) }
    }
}

#[cold]
fn negative(name: &'static str, value: i32) -> Error {
    Error::invalid(format!("the driver returned {value} for {name}, which cannot be negative"))
        .with_call("cuDeviceGetAttribute")
}

/// The PCI identifier of a GPU or board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PciId {
    /// The maker's number of the device or subsystem.
    pub device: u16,
    /// The maker's own number, 0x10DE for NVIDIA.
    pub vendor: u16,
}

impl FromAttribute for PciId {
    fn from_attribute(_: &'static str, value: i32) -> Result<Self> {
        let [vendor_low, vendor_high, device_low, device_high] = value.to_le_bytes();
        Ok(Self {
            device: u16::from_le_bytes([device_low, device_high]),
            vendor: u16::from_le_bytes([vendor_low, vendor_high]),
        })
    }
}

/// Defines an enum with a variant for values that are newer than these bindings.
macro_rules! choices {
    ($(
        $(#[$meta:meta])*
        $name:ident: $raw:ident { $($(#[$variant_meta:meta])* $variant:ident = $constant:ident,)+ }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value that is newer than these bindings.
            Other(i32),
        }

        impl FromAttribute for $name {
            fn from_attribute(_: &'static str, value: i32) -> Result<Self> {
                Ok(match $raw(value.cast_unsigned()) {
                    $($raw::$constant => Self::$variant,)+
                    _ => Self::Other(value),
                })
            }
        }
    )+};
}

choices! {
    /// The compute mode: which processes may create contexts on a device, as an administrator set it.
    #[doc(alias = "CUcomputemode")]
    ComputeMode: CUcomputemode {
        /// Any number of processes.
        Default = CU_COMPUTEMODE_DEFAULT,
        /// Nobody.
        Prohibited = CU_COMPUTEMODE_PROHIBITED,
        /// One process at a time.
        ExclusiveProcess = CU_COMPUTEMODE_EXCLUSIVE_PROCESS,
    }

    /// Whether a device's memory is a NUMA node of the host.
    #[doc(alias = "CUdeviceNumaConfig")]
    NumaConfig: CUdeviceNumaConfig {
        /// It is not.
        None = CU_DEVICE_NUMA_CONFIG_NONE,
        /// It is: [`Device::numa_id`].
        NumaNode = CU_DEVICE_NUMA_CONFIG_NUMA_NODE,
    }

    /// For whom writes of other PCI devices are in order without a flush.
    #[doc(alias = "CUGPUDirectRDMAWritesOrdering")]
    RdmaOrdering: CUGPUDirectRDMAWritesOrdering {
        /// Nobody.
        None = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE,
        /// The device that has the memory.
        Owner = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER,
        /// All CUDA devices.
        AllDevices = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES,
    }
}

/// Defines a set of bits, of which a newer driver may know more.
macro_rules! sets {
    ($(
        $(#[$meta:meta])*
        $name:ident: $raw:ident { $($(#[$flag_meta:meta])* $flag:ident = $constant:ident,)+ }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$flag_meta])* pub const $flag: Self = Self($raw::$constant.0);)+

            /// Returns whether all of `others` are among these.
            #[must_use]
            pub const fn contains(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }
        }

        impl FromAttribute for $name {
            fn from_attribute(_: &'static str, value: i32) -> Result<Self> {
                Ok(Self(value.cast_unsigned()))
            }
        }
    )+};
}

sets! {
    /// Kinds of handles by which memory is shared with other processes.
    #[doc(alias = "CUmemAllocationHandleType")]
    HandleTypes: CUmemAllocationHandleType {
        /// File descriptors.
        POSIX_FILE_DESCRIPTOR = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        /// Windows NT handles.
        WIN32 = CU_MEM_HANDLE_TYPE_WIN32,
        /// Windows KMT handles.
        WIN32_KMT = CU_MEM_HANDLE_TYPE_WIN32_KMT,
        /// Fabric handles, which other machines of a system can open.
        FABRIC = CU_MEM_HANDLE_TYPE_FABRIC,
    }

    /// Kinds of handles by which logical endpoints are shared.
    #[doc(alias = "CUlogicalEndpointIpcHandleType")]
    EndpointHandleTypes: CUlogicalEndpointIpcHandleType {
        /// Fabric handles, which other machines of a system can open.
        FABRIC = CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC,
    }

    /// Ways to flush the writes of other PCI devices.
    #[doc(alias = "CUflushGPUDirectRDMAWritesOptions")]
    RdmaFlushes: CUflushGPUDirectRDMAWritesOptions {
        /// From the host, by `cuFlushGPUDirectRDMAWrites`.
        HOST = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST,
        /// From a stream that waits for a value in memory.
        STREAM = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS,
    }

    /// Compressed formats that a device unpacks by itself.
    #[doc(alias = "CUmemDecompressAlgorithm")]
    DecompressAlgorithms: CUmemDecompressAlgorithm {
        /// Deflate.
        DEFLATE = CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE,
        /// Snappy.
        SNAPPY = CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY,
        /// LZ4.
        LZ4 = CU_MEM_DECOMPRESS_ALGORITHM_LZ4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attribute_of_the_bindings_is_there_once() {
        let mut values: Vec<u32> = Device::attributes().map(|(_, attribute)| attribute.0).collect();
        values.sort_unstable();
        let end = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX.0;
        assert_eq!(values, (1..end).collect::<Vec<u32>>());
    }

    #[test]
    fn methods_and_aliases_are_named_after_the_constants() {
        let rows = generated::TABLE.iter().zip(generated::CONSTANTS);
        for (&(method, alias, _), &constant) in rows {
            assert_eq!(alias, constant);
            if method != "pci_bus_number" {
                assert_eq!(format!("CU_DEVICE_ATTRIBUTE_{}", method.to_uppercase()), constant);
            }
        }
    }

    #[test]
    fn answers_become_values() -> Result<()> {
        assert!(bool::from_attribute("A", 1)? && !bool::from_attribute("A", 0)?);
        assert_eq!(usize::from_attribute("A", i32::MAX)?, 0x7fff_ffff);
        assert_eq!(Option::<u32>::from_attribute("A", -1)?, None);
        assert_eq!(Option::<u32>::from_attribute("A", 0)?, Some(0));
        assert_eq!(ComputeMode::from_attribute("A", 3)?, ComputeMode::ExclusiveProcess);
        assert_eq!(ComputeMode::from_attribute("A", 77)?, ComputeMode::Other(77));
        assert_eq!(RdmaOrdering::from_attribute("A", 100)?, RdmaOrdering::Owner);
        let handles = HandleTypes::from_attribute("A", 9)?;
        assert!(handles.contains(HandleTypes::POSIX_FILE_DESCRIPTOR));
        assert!(handles.contains(HandleTypes::FABRIC) && !handles.contains(HandleTypes::WIN32));
        // The value of an H200; those of other devices have the sign bit.
        let id = PciId::from_attribute("A", 0x2335_10de)?;
        assert_eq!(id, PciId { device: 0x2335, vendor: 0x10de });
        let id = PciId::from_attribute("A", 0xa335_10de_u32.cast_signed())?;
        assert_eq!(id, PciId { device: 0xa335, vendor: 0x10de });
        Ok(())
    }

    #[test]
    fn negative_numbers_are_errors_that_name_the_attribute() {
        for error in [
            u32::from_attribute("CU_A", -2).err(),
            usize::from_attribute("CU_A", i32::MIN).err(),
            Option::<u32>::from_attribute("CU_A", -2).err(),
        ] {
            assert!(error.is_some_and(|error| error.to_string().contains("CU_A")));
        }
    }
}
