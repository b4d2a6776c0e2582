//! How many blocks of a kernel the device holds at the same time.

use std::sync::atomic::Ordering;

use super::{Kernel, KernelInner};
use crate::error::{Error, Result};
use crate::launch::{Dim3, LaunchConfig};

impl Kernel {
    /// Returns how many blocks of `threads` threads, each with `shared` bytes of dynamic shared memory, one
    /// multiprocessor holds at the same time.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuOccupancyMaxActiveBlocksPerMultiprocessor")]
    pub fn max_active_blocks(&self, threads: u32, shared: u32) -> Result<u32> {
        self.found()?.active_blocks(threads, shared)
    }

    /// Returns the block size that keeps most threads resident, and the number of blocks that then fill the
    /// device, for launches with `shared` bytes of dynamic shared memory in each block.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuOccupancyMaxPotentialBlockSize")]
    pub fn max_potential_block_size(&self, shared: u32) -> Result<(u32, u32)> {
        let inner = self.found()?;
        let context = inner.module.context();
        let (mut grid, mut block) = (0, 0);
        context.with_current(|| {
            // SAFETY: both are valid places for an int, the function is live, its context is
            // current, and no callback is given.
            unsafe {
                call!(
                    context,
                    cuOccupancyMaxPotentialBlockSize(
                        &raw mut grid,
                        &raw mut block,
                        inner.raw,
                        None,
                        shared as usize,
                        0,
                    )
                )
            }
        })?;
        Ok((u32::try_from(block).unwrap_or(0), u32::try_from(grid).unwrap_or(0)))
    }
}

impl KernelInner {
    fn active_blocks(&self, threads: u32, shared: u32) -> Result<u32> {
        let context = self.module.context();
        let threads = i32::try_from(threads)
            .map_err(|_| Error::invalid(format!("a block can't have {threads} threads")))?;
        let mut blocks = 0;
        context.with_current(|| {
            // SAFETY: `blocks` is a valid place for an int, the function is live, and its context
            // is current.
            unsafe {
                call!(
                    context,
                    cuOccupancyMaxActiveBlocksPerMultiprocessor(
                        &raw mut blocks,
                        self.raw,
                        threads,
                        shared as usize,
                    )
                )
            }
        })?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Returns how many blocks of this launch the device holds at the same time. The last result is kept.
    pub(super) fn resident_blocks(&self, launch: &LaunchConfig) -> Result<u64> {
        let cluster = launch.cluster.or(self.limits.cluster);
        let key = residency_key(launch, cluster);
        let [kept, most] = &self.resident;
        // Written most first, read key first: a key that fits goes with a result for it, or for a
        // later launch whose key was not yet visible; then the driver refuses what does not fit.
        if kept.load(Ordering::Acquire) == key {
            return Ok(most.load(Ordering::Acquire));
        }
        let answer = match cluster {
            Some(cluster) => self.active_clusters(launch)?.saturating_mul(cluster.count()),
            None => {
                let threads = u32::try_from(launch.block.count()).unwrap_or(u32::MAX);
                let blocks = self.active_blocks(threads, launch.dynamic_shared_bytes)?;
                let multiprocessors = self.module.context().limits.multiprocessors;
                u64::from(blocks) * u64::from(multiprocessors)
            }
        };
        most.store(answer, Ordering::Release);
        kept.store(key, Ordering::Release);
        Ok(answer)
    }
}

/// Returns the parameters that the residency of a launch depends on, packed in one number.
fn residency_key(launch: &LaunchConfig, cluster: Option<Dim3>) -> u64 {
    // 7 bits each for the cluster: larger ones are taken for each other, and all refused.
    let extents = cluster.map_or([0; 3], |Dim3 { x, y, z }| [x, y, z]);
    let cluster = extents.iter().fold(0, |key, &extent| key << 7 | u64::from(extent.min(127)));
    launch.block.count() << 53 | cluster << 32 | u64::from(launch.dynamic_shared_bytes)
}
