//! Devices: their names, attributes and memory sizes.

mod attributes;
mod limits;
mod link;

pub use attributes::{
    ComputeMode, DecompressAlgorithms, EndpointHandleTypes, HandleTypes, NumaConfig, PciId,
    RdmaFlushes, RdmaOrdering,
};
pub(crate) use limits::DeviceLimits;
pub use link::PeerLink;

use std::ffi::CStr;
use std::fmt;

use cuda_sys::{CUdevice, CUdevice_attribute, CUuuid};

use crate::driver::{DeviceState, Driver};
use crate::error::Result;

/// A device that a driver shows. Copying it is free.
#[derive(Clone, Copy)]
pub struct Device {
    driver: Driver,
    state: &'static DeviceState,
}

/// A device's UUID: 16 bytes that name it, whatever its ordinal. A MIG (multi-instance GPU) slice of a GPU has a
/// separate UUID, so a UUID identifies either.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Device {
    pub(crate) fn new(driver: Driver, state: &'static DeviceState) -> Self {
        Self { driver, state }
    }

    /// Returns the state that contexts created from now on share. All else in `self.state`, such as handle and number,
    /// is the same in all generations.
    pub(crate) fn state(&self) -> &'static DeviceState {
        self.state.newest()
    }

    /// Returns the driver that shows the device.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Returns the device's number, from 0, among those that `CUDA_VISIBLE_DEVICES` leaves visible.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.state.ordinal
    }

    /// Returns the raw handle.
    #[must_use]
    pub fn as_raw(&self) -> CUdevice {
        self.state.raw
    }

    /// Returns the name, such as `NVIDIA H200`. Not unique: see [`Device::uuid`].
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(&self) -> Result<String> {
        self.state().usable()?;
        let mut name = [0u8; 256];
        let sys = self.state.sys;
        // SAFETY: `name` has room for more bytes than are passed, so its last one stays zero.
        let result = unsafe { sys.cuDeviceGetName(name.as_mut_ptr().cast(), 255, self.state.raw) };
        self.state().answer("cuDeviceGetName", result)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or(c"");
        Ok(name.to_string_lossy().into_owned())
    }

    /// Returns the UUID: of the GPU, or of the MIG slice of one.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuDeviceGetUuid")]
    pub fn uuid(&self) -> Result<Uuid> {
        self.state().usable()?;
        let mut uuid = CUuuid { bytes: [0; 16] };
        let sys = self.state.sys;
        // SAFETY: `uuid` is a valid place for a CUuuid.
        let result = unsafe { sys.cuDeviceGetUuid_v2(&raw mut uuid, self.state.raw) };
        self.state().answer("cuDeviceGetUuid", result)?;
        Ok(Uuid(uuid.bytes.map(|byte| byte.to_ne_bytes()[0])))
    }

    /// Returns the PCI address, such as `0000:1B:00.0`.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuDeviceGetPCIBusId")]
    pub fn pci_bus_id(&self) -> Result<String> {
        self.state().usable()?;
        let mut id = [0u8; 64];
        let sys = self.state.sys;
        // SAFETY: `id` has room for more bytes than are passed, so its last one stays zero.
        let result = unsafe { sys.cuDeviceGetPCIBusId(id.as_mut_ptr().cast(), 63, self.state.raw) };
        self.state().answer("cuDeviceGetPCIBusId", result)?;
        let id = CStr::from_bytes_until_nul(&id).unwrap_or(c"");
        Ok(id.to_string_lossy().into_owned())
    }

    /// Returns the device's memory, in bytes.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuDeviceTotalMem")]
    pub fn total_memory(&self) -> Result<usize> {
        self.state().usable()?;
        let mut bytes = 0;
        // SAFETY: `bytes` is a valid place for a size_t.
        let result = unsafe { self.state.sys.cuDeviceTotalMem_v2(&raw mut bytes, self.state.raw) };
        self.state().answer("cuDeviceTotalMem", result)?;
        Ok(bytes)
    }

    /// Returns the compute capability: major and minor, such as (9, 0).
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn compute_capability(&self) -> Result<(u32, u32)> {
        Ok((self.compute_capability_major()?, self.compute_capability_minor()?))
    }

    /// Returns the architecture to compile for: exactly this device's.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn arch(&self) -> Result<nvrtc::Arch> {
        let (major, minor) = self.compute_capability()?;
        Ok(nvrtc::Arch::sm(major, minor))
    }

    /// Returns an attribute as the driver's plain integer; typed attributes have separate methods.
    ///
    /// # Errors
    /// The error that the driver returns, such as for an attribute newer than itself.
    #[doc(alias = "cuDeviceGetAttribute")]
    pub fn raw_attribute(&self, attribute: CUdevice_attribute) -> Result<i32> {
        self.state().usable()?;
        let mut value = 0;
        let sys = self.state.sys;
        // SAFETY: `value` is a valid place for an int.
        let result = unsafe { sys.cuDeviceGetAttribute(&raw mut value, attribute, self.state.raw) };
        self.state().answer("cuDeviceGetAttribute", result)?;
        Ok(value)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.state, other.state)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("ordinal", &self.state.ordinal).finish_non_exhaustive()
    }
}

impl fmt::Display for Uuid {
    /// As `nvidia-smi` writes it, without the `GPU-` or `MIG-` before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}
