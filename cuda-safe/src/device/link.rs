//! The link between two devices.

use cuda_sys::CUdevice_P2PAttribute;

use super::Device;
use crate::error::{Error, Result};

/// What the driver says of the link from one device to another; from [`Device::peer_link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PeerLink {
    /// The performance of the link relative to others of the system: 0 is the best, such as NVLink where some pairs have
    /// PCIe alone.
    pub performance_rank: i32,
    /// Whether the first device can access memory of the second.
    pub access: bool,
    /// Whether all native atomics of the first device work on memory of the second.
    pub native_atomics: bool,
}

impl Device {
    /// Returns what the driver says of the link from this device to another.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is the same device, or belongs to another driver;
    /// otherwise the error that the driver returns.
    #[doc(alias = "cuDeviceGetP2PAttribute")]
    pub fn peer_link(&self, to: Self) -> Result<PeerLink> {
        self.state().usable()?;
        self.state().same_driver(to.state())?;
        if *self == to {
            return Err(Error::invalid(format!("device {} has no link to itself", self.ordinal())));
        }
        let ask = |attribute| {
            let (mut value, state) = (0, self.state());
            let (from, to) = (self.as_raw(), to.as_raw());
            // SAFETY: `value` is a valid place for an int, and both devices come from the driver.
            unsafe { call!(state, cuDeviceGetP2PAttribute(&raw mut value, attribute, from, to)) }?;
            Ok::<_, Error>(value)
        };
        use CUdevice_P2PAttribute as Attribute;
        Ok(PeerLink {
            performance_rank: ask(Attribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)?,
            access: ask(Attribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)? != 0,
            native_atomics: ask(Attribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)? != 0,
        })
    }
}
