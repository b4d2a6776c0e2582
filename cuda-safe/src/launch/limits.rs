//! What a device and a kernel allow, checked before the driver is asked: it answers everything
//! that is too large with the same plain `CUDA_ERROR_INVALID_VALUE`.

use super::{Dim3, Launch};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};

/// What a device allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    threads: u32,
    block: Dim3,
    grid: Dim3,
    pub(crate) multiprocessors: u32,
    cooperative: bool,
}

impl Limits {
    pub(crate) fn of(device: Device) -> Result<Self> {
        Ok(Self {
            threads: device.max_threads_per_block()?,
            block: Dim3::new(
                device.max_block_dim_x()?,
                device.max_block_dim_y()?,
                device.max_block_dim_z()?,
            ),
            grid: Dim3::new(
                device.max_grid_dim_x()?,
                device.max_grid_dim_y()?,
                device.max_grid_dim_z()?,
            ),
            multiprocessors: device.multiprocessor_count()?,
            cooperative: device.cooperative_launch()?,
        })
    }
}

/// What a kernel allows, beyond its device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelLimits {
    /// Fewer than the device's where the kernel uses many registers or was compiled so.
    pub(crate) threads: u32,
    /// Static shared memory of each block.
    pub(crate) static_shared: u32,
}

/// Whether the launch is within what device and kernel allow. Written to be quick when it is.
#[inline]
pub(crate) fn within(
    launch: &Launch,
    device: &Limits,
    kernel: &KernelLimits,
    max_shared: u32,
) -> bool {
    let (grid, block) = (launch.grid, launch.block);
    let inside = |value: u32, limit: u32| value.wrapping_sub(1) < limit;
    inside(grid.x, device.grid.x)
        && inside(grid.y, device.grid.y)
        && inside(grid.z, device.grid.z)
        && inside(block.x, device.block.x)
        && inside(block.y, device.block.y)
        && inside(block.z, device.block.z)
        && block.count() <= u64::from(kernel.threads)
        && launch.shared <= max_shared
        && (!launch.cooperative || device.cooperative)
}

/// Why a launch is not [`within`] the limits; `None` if it has no blocks, which is no error.
#[cold]
pub(crate) fn explain(
    launch: &Launch,
    device: &Limits,
    kernel: &KernelLimits,
    max_shared: u32,
) -> Option<Error> {
    let limit = |what, value: u64, limit: u64| Error::new(ErrorKind::Limit { what, value, limit });
    let (grid, block) = (launch.grid, launch.block);
    if block.count() == 0 {
        return Some(Error::invalid(format!("a block of {block} has no threads")));
    }
    if grid.count() == 0 {
        return None;
    }
    let extents = [
        ("grid x", grid.x, device.grid.x),
        ("grid y", grid.y, device.grid.y),
        ("grid z", grid.z, device.grid.z),
        ("block x", block.x, device.block.x),
        ("block y", block.y, device.block.y),
        ("block z", block.z, device.block.z),
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
    if launch.shared > max_shared {
        let error =
            limit("bytes of dynamic shared memory", launch.shared.into(), max_shared.into())
                .with_hint("Kernel::set_max_dynamic_shared raises the limit, up to the device's");
        let used = kernel.static_shared;
        return Some(
            error.with_asked(format!("{launch}; the kernel uses {used} bytes statically")),
        );
    }
    if launch.cooperative && !device.cooperative {
        return Some(Error::invalid("the device has no cooperative launches"));
    }
    Some(Error::invalid(format!("the launch is beyond a limit: {launch}")))
}

/// The error of a cooperative launch whose blocks can't be resident together.
#[cold]
pub(crate) fn not_resident(blocks: u64, most: u64) -> Error {
    let what = "blocks resident together";
    Error::new(ErrorKind::Limit { what, value: blocks, limit: most })
        .with_hint("a cooperative grid must fit the device at once: use fewer or smaller blocks")
}
