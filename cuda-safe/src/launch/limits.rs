//! The limits of a device and a kernel. They are checked before the driver is called, because it
//! returns the same plain `CUDA_ERROR_INVALID_VALUE` for all of them.

use super::{Dim3, LaunchConfig};
use crate::device::DeviceLimits;
use crate::error::{Error, ErrorKind, Result};

/// The limits of a kernel, beyond those of its device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelLimits {
    /// Fewer than the device's where the kernel uses many registers or was compiled so.
    pub(crate) threads: u32,
    /// Static shared memory of each block.
    pub(crate) static_shared: u32,
    /// The cluster that it was compiled for (`__cluster_dims__`).
    pub(crate) cluster: Option<Dim3>,
    /// Whether it can't be launched without a cluster, of whatever size.
    pub(crate) needs_cluster: bool,
}

impl KernelLimits {
    /// Returns whether a launch without special attributes needs the full check nevertheless.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.cluster.is_some() | self.needs_cluster
    }
}

/// The largest cluster that runs on every device that has clusters.
const PORTABLE_CLUSTER: u64 = 8;

/// Returns whether the launch is within what device and kernel allow. Written to be quick when it is.
#[inline]
pub(crate) fn within(
    launch: &LaunchConfig,
    device: &DeviceLimits,
    kernel: &KernelLimits,
    max_shared: u32,
) -> bool {
    let (grid, block) = (launch.grid, launch.block);
    let inside = |value: u32, limit: u32| value.wrapping_sub(1) < limit;
    inside(grid.x, device.grid[0])
        && inside(grid.y, device.grid[1])
        && inside(grid.z, device.grid[2])
        && inside(block.x, device.block[0])
        && inside(block.y, device.block[1])
        && inside(block.z, device.block[2])
        && block.count() <= u64::from(kernel.threads)
        && launch.dynamic_shared_bytes <= max_shared
        && (!launch.cooperative || device.cooperative)
}

/// Returns why a launch is not [`within`] the limits; `None` if it covers nothing, which is no error.
#[cold]
pub(crate) fn explain(
    launch: &LaunchConfig,
    device: &DeviceLimits,
    kernel: &KernelLimits,
    max_shared: u32,
) -> Option<Error> {
    let (grid, block) = (launch.grid, launch.block);
    let all = [grid.x, grid.y, grid.z, block.x, block.y, block.z];
    let limit = |what, value: u64, limit: u64| {
        let error = Error::new(ErrorKind::Limit { what, value, limit });
        if all.contains(&u32::MAX) {
            error.with_hint(
                "an extent that is negative or needs more than 32 bits counts as 4294967295",
            )
        } else {
            error
        }
    };
    if block.count() == 0 {
        return Some(Error::invalid(format!("a block of {block} has no threads")));
    }
    if launch.covers_nothing() {
        return None;
    }
    if grid.count() == 0 {
        return Some(
            Error::invalid(format!("a grid of {grid} has no blocks")).with_hint(
                "use `LaunchConfig::cover(n, block)`, or `over n` in the declaration: they launch nothing for n = 0",
            ),
        );
    }
    let extents = [
        ("grid x", grid.x, device.grid[0]),
        ("grid y", grid.y, device.grid[1]),
        ("grid z", grid.z, device.grid[2]),
        ("block x", block.x, device.block[0]),
        ("block y", block.y, device.block[1]),
        ("block z", block.z, device.block[2]),
    ];
    if block.count() > u64::from(device.threads) {
        return Some(limit("threads per block", block.count(), device.threads.into()));
    }
    for (what, value, most) in extents {
        if value > most {
            return Some(limit(what, value.into(), most.into()));
        }
    }
    if block.count() > u64::from(kernel.threads) {
        return Some(
            limit("threads per block of this kernel", block.count(), kernel.threads.into())
                .with_hint("the kernel's registers or launch bounds allow no larger block"),
        );
    }
    if launch.dynamic_shared_bytes > max_shared {
        let error = limit(
            "bytes of dynamic shared memory",
            launch.dynamic_shared_bytes.into(),
            max_shared.into(),
        );
        return Some(error.with_hint(format!(
            "the kernel uses {} bytes statically; Kernel::set_max_dynamic_shared raises the limit, up to the device's",
            kernel.static_shared
        )));
    }
    if launch.cooperative && !device.cooperative {
        return Some(Error::invalid("the device has no cooperative launches"));
    }
    Some(Error::invalid("the launch is beyond a limit"))
}

/// Returns the checks that [`within`] leaves out, because only special launches and kernels need them.
#[cold]
pub(crate) fn special(
    launch: &LaunchConfig,
    device: &DeviceLimits,
    kernel: &KernelLimits,
    non_portable: bool,
) -> Result<()> {
    if launch.programmatic && !device.programmatic {
        return Err(Error::invalid("the device has no programmatic dependent launches")
            .with_hint("they need compute capability 9.0"));
    }
    let cluster = match (launch.cluster, kernel.cluster) {
        (Some(asked), Some(compiled)) if asked != compiled => {
            return Err(Error::invalid(format!(
                "clusters of {asked} asked for, but the kernel was compiled for clusters of \
                 {compiled}"
            )));
        }
        (None, None) if kernel.needs_cluster => {
            return Err(Error::invalid("the kernel can only be launched in clusters")
                .with_hint("give the launch a cluster"));
        }
        (None, None) => return Ok(()),
        (Some(cluster), _) | (None, Some(cluster)) => cluster,
    };
    if !device.clusters {
        return Err(Error::invalid(format!(
            "clusters of {cluster} asked for, but the device has no clusters"
        ))
        .with_hint("they need compute capability 9.0, and a GPU: the software device has none"));
    }
    let blocks = cluster.count();
    if blocks == 0 {
        return Err(Error::invalid(format!("a cluster of {cluster} has no blocks")));
    }
    // The compiler has checked a cluster size that the kernel was compiled for.
    if blocks > PORTABLE_CLUSTER && !non_portable && kernel.cluster.is_none() {
        let what = "blocks per cluster";
        return Err(Error::new(ErrorKind::Limit { what, value: blocks, limit: PORTABLE_CLUSTER })
            .with_hint("Kernel::set_non_portable_cluster allows more, on devices that have them"));
    }
    let grid = launch.grid;
    let pairs = [("x", grid.x, cluster.x), ("y", grid.y, cluster.y), ("z", grid.z, cluster.z)];
    for (direction, grid, cluster) in pairs {
        if !grid.is_multiple_of(cluster) {
            return Err(Error::invalid(format!(
                "grid {direction}: {grid} blocks are no multiple of the cluster's {cluster}"
            )));
        }
    }
    Ok(())
}

/// Returns the error of a cooperative launch whose blocks can't be resident together.
#[cold]
pub(crate) fn not_resident(blocks: u64, most: u64) -> Error {
    let what = "blocks resident together";
    Error::new(ErrorKind::Limit { what, value: blocks, limit: most })
        .with_hint("a cooperative grid must fit the device at once: use fewer or smaller blocks, and let each thread \
                    do several elements")
}
