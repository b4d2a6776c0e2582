//! Clusters of a kernel: the size that it was compiled for, and how many fit on the device.

use std::sync::atomic::Ordering;

use cuda_sys::CUfunction_attribute as Attribute;

use super::{Kernel, KernelInner};
use crate::error::Result;
use crate::launch::{Dim3, LaunchConfig, with_config};

impl Kernel {
    /// Allows clusters of more blocks than every device with clusters has, which is 8. How many
    /// this device has: [`Kernel::max_potential_cluster_size`].
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED")]
    pub fn set_non_portable_cluster(&self, allowed: bool) -> Result<()> {
        let inner = self.found()?;
        let context = inner.module.context();
        context.state.usable()?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        let value = i32::from(allowed);
        // SAFETY: the function is live: its module is kept.
        unsafe { call!(context, cuFuncSetAttribute(inner.raw, attribute, value)) }?;
        inner.non_portable_cluster.store(allowed, Ordering::Relaxed);
        Ok(())
    }

    /// Returns how many clusters of this launch the device holds at the same time. The grid's extents must
    /// be multiples of the cluster's.
    ///
    /// # Errors
    /// The error that the driver returns, such as a launch without a cluster.
    #[doc(alias = "cuOccupancyMaxActiveClusters")]
    pub fn max_active_clusters(&self, launch: &LaunchConfig) -> Result<u64> {
        self.found()?.active_clusters(launch)
    }

    /// Returns the most blocks that a cluster of this launch can have on the device, whatever cluster the
    /// launch asks for.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuOccupancyMaxPotentialClusterSize")]
    pub fn max_potential_cluster_size(&self, launch: &LaunchConfig) -> Result<u32> {
        let inner = self.found()?;
        let context = inner.module.context();
        let mut size = 0;
        context.with_current(|| {
            with_config(launch, std::ptr::null_mut(), |config| {
                let size = &raw mut size;
                // SAFETY: `size` is a valid place for an int, the function is live, its context is
                // current, and the configuration is only read during the call.
                unsafe {
                    call!(context, cuOccupancyMaxPotentialClusterSize(size, inner.raw, config))
                }
            })
        })?;
        Ok(u32::try_from(size).unwrap_or(0))
    }
}

impl KernelInner {
    /// Returns the cluster that the kernel was compiled for, and whether a launch must name one.
    pub(super) fn clusters(&self) -> Result<(Option<Dim3>, bool)> {
        if !self.module.context().limits.clusters {
            // The driver may be older than these attributes.
            return Ok((None, false));
        }
        let x = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)?;
        let needed = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET)? != 0;
        if x == 0 {
            return Ok((None, needed));
        }
        let y = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?;
        let z = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?;
        Ok((Some(Dim3::new(x, y.max(1), z.max(1))), needed))
    }

    /// Returns how many clusters of this launch the device holds at the same time.
    pub(super) fn active_clusters(&self, launch: &LaunchConfig) -> Result<u64> {
        let context = self.module.context();
        let mut clusters = 0;
        context.with_current(|| {
            with_config(launch, std::ptr::null_mut(), |config| {
                let clusters = &raw mut clusters;
                // SAFETY: as for the size of clusters above.
                unsafe { call!(context, cuOccupancyMaxActiveClusters(clusters, self.raw, config)) }
            })
        })?;
        Ok(u64::try_from(clusters).unwrap_or(0))
    }
}
