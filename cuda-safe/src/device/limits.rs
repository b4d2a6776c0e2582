//! The limits of a device that each launch is compared with.

use super::Device;
use crate::error::Result;

/// The limits of launches on a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceLimits {
    pub(crate) threads: u32,
    /// In x, y and z, as `grid`.
    pub(crate) block: [u32; 3],
    pub(crate) grid: [u32; 3],
    pub(crate) multiprocessors: u32,
    pub(crate) cooperative: bool,
    /// Whether blocks can be launched in clusters.
    pub(crate) clusters: bool,
    /// Whether a kernel can start before the one before it is done.
    pub(crate) programmatic: bool,
}

impl DeviceLimits {
    pub(crate) fn of(device: Device) -> Result<Self> {
        let (major, _) = device.compute_capability()?;
        Ok(Self {
            threads: device.max_threads_per_block()?,
            block: [
                device.max_block_dim_x()?,
                device.max_block_dim_y()?,
                device.max_block_dim_z()?,
            ],
            grid: [device.max_grid_dim_x()?, device.max_grid_dim_y()?, device.max_grid_dim_z()?],
            multiprocessors: device.multiprocessor_count()?,
            cooperative: device.cooperative_launch()?,
            // Drivers from before the first such device don't know the attribute.
            clusters: major >= 9 && device.cluster_launch()?,
            programmatic: major >= 9,
        })
    }
}
