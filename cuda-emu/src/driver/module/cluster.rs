//! Clusters of a launch: their size, and how many fit on the device.

use core::ffi::c_int;

use cuda_sys::{CUfunction, CUlaunchConfig, CUresult};

use super::function::resident;
use super::launch::{Shape, attributes};
use crate::driver::bridge::{DeviceInfo, EntryAttributes};
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::Settings;

/// The most blocks of a cluster on every device that has clusters.
const PORTABLE: u32 = 8;
/// The most blocks of a cluster on this device.
const MOST: u32 = 16;
/// Multiprocessors of a group (GPC) at most, on GPUs of compute capability 9.0. A cluster runs in one group.
const GROUP: u32 = 18;

/// Returns whether a device has clusters.
pub(in crate::driver) fn available(info: &DeviceInfo) -> bool {
    info.cc.0 >= 9
}

/// Returns the blocks of a cluster; `None` for more than can be counted.
fn count(cluster: [u32; 3]) -> Option<u32> {
    cluster.iter().try_fold(1_u32, |all, &size| all.checked_mul(size))
}

/// Returns the cluster that a kernel is compiled for or was given by `cuFuncSetAttribute`. A cluster of which only some
/// directions were given is an error.
pub(in crate::driver) fn required(
    attributes: &EntryAttributes,
    settings: &Settings,
) -> Answer<Option<[u32; 3]>> {
    match (attributes.cluster, settings.required_cluster) {
        (Some(cluster), _) => Ok(Some(cluster)),
        (None, [0, 0, 0]) => Ok(None),
        (None, set) if set.contains(&0) => Err(CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE),
        (None, set) => Ok(Some(set)),
    }
}

/// Returns the clusters of a graph's node as [`of_launch`]; none for a kernel that needs them, but may get them later.
pub(in crate::driver) fn of_node(
    asked: Option<[u32; 3]>,
    grid: [u32; 3],
    attributes: &EntryAttributes,
    settings: &Settings,
    info: &DeviceInfo,
) -> Answer<Option<[u32; 3]>> {
    if asked.is_none() && attributes.explicit_cluster && required(attributes, settings)?.is_none() {
        return Ok(None);
    }
    of_launch(asked, grid, attributes, settings, info)
}

/// Returns the clusters of a launch of this grid: those that it asks for, or that the kernel requires.
pub(in crate::driver) fn of_launch(
    asked: Option<[u32; 3]>,
    grid: [u32; 3],
    attributes: &EntryAttributes,
    settings: &Settings,
    info: &DeviceInfo,
) -> Answer<Option<[u32; 3]>> {
    let misconfigured = CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE;
    let required = required(attributes, settings)?;
    let cluster = match (asked, required) {
        (Some(asked), _) if asked.contains(&0) => return Err(misconfigured),
        (Some(asked), Some(required)) if asked != required => return Err(misconfigured),
        (None, None) if attributes.explicit_cluster => return Err(misconfigured),
        (None, None) => return Ok(None),
        (Some(cluster), _) | (None, Some(cluster)) => cluster,
    };
    let Some(blocks) = count(cluster) else { return Err(misconfigured) };
    if !available(info) {
        // A cluster of one block is no cluster.
        return if blocks == 1 { Ok(None) } else { Err(CUresult::CUDA_ERROR_NOT_SUPPORTED) };
    }
    let most = if settings.non_portable_cluster != 0 { MOST } else { PORTABLE };
    let most = match attributes.max_cluster_rank {
        0 => most,
        bound => bound.min(most),
    };
    let divides = grid.iter().zip(cluster).all(|(grid, cluster)| grid % cluster == 0);
    if blocks > most || !divides {
        return Err(misconfigured);
    }
    Ok(Some(cluster))
}

/// Returns the clusters of so many blocks that the device holds at once, if a multiprocessor holds `each` blocks.
pub(in crate::driver) fn active(info: &DeviceInfo, each: u32, blocks: u32) -> u32 {
    // The groups are as equal as they can be in pairs of multiprocessors.
    let groups = info.multiprocessors.div_ceil(GROUP).max(1);
    let pairs = info.multiprocessors / 2;
    let odd = info.multiprocessors % 2;
    (0..groups)
        .map(|group| {
            let more = u32::from(group < pairs % groups);
            let size = 2 * (pairs / groups + more) + if group == 0 { odd } else { 0 };
            size.saturating_mul(each) / blocks.max(1)
        })
        .sum()
}

/// A launch whose clusters are asked about.
struct Asked {
    cluster: Answer<Option<[u32; 3]>>,
    /// Whether they have more blocks than any, where sizes that are not portable are allowed: of those none fits, which is
    /// no error.
    unheard_of: bool,
    /// Blocks of a multiprocessor.
    each: u32,
    settings: Settings,
    info: DeviceInfo,
}

/// # Safety
/// `config` is null or as a launch takes it.
unsafe fn asked(function: CUfunction, config: *const CUlaunchConfig) -> Answer<Asked> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    if config.is_null() {
        return Err(invalid);
    }
    // SAFETY: not null, and the caller's promise.
    let config = unsafe { &*config };
    let mut shape = Shape::new(
        [config.gridDimX, config.gridDimY, config.gridDimZ],
        [config.blockDimX, config.blockDimY, config.blockDimZ],
        config.sharedMemBytes,
    );
    // SAFETY: the caller's promise.
    unsafe { attributes(config, &mut shape) }?;
    let threads = count(shape.block).filter(|&threads| threads != 0).ok_or(invalid)?;
    let process = process()?;
    let mut state = process.lock();
    let (_, device) = state.current_device()?;
    let (_, info) = process.device(device as c_int)?;
    if threads > info.max_threads {
        return Err(invalid);
    }
    let function = state.function(process, function)?;
    let (attributes, settings) = (function.program.attributes(function.entry), function.settings);
    let grid = if attributes.blocks_are_clusters { [0; 3] } else { shape.grid };
    let cluster = of_launch(shape.cluster, grid, &attributes, &settings, info);
    let larger = shape.cluster.and_then(count).is_some_and(|blocks| blocks > MOST);
    Ok(Asked {
        cluster,
        unheard_of: larger && settings.non_portable_cluster != 0,
        each: resident(&attributes, &settings, info, threads, shape.shared as usize),
        settings,
        info: info.clone(),
    })
}

functions! {
    Device fn cuOccupancyMaxActiveClusters(
        clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig
    ) {
        let asked = asked(function, config)?;
        if asked.unheard_of {
            return put(clusters, 0);
        }
        let cluster = match asked.cluster? {
            Some(cluster) => cluster,
            // A device without clusters has those of one block.
            None if !available(&asked.info) => [1; 3],
            None => return Err(CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE),
        };
        let blocks = count(cluster).unwrap_or(u32::MAX);
        let most = if blocks == 1 {
            asked.each.saturating_mul(asked.info.multiprocessors)
        } else {
            active(&asked.info, asked.each, blocks)
        };
        put(clusters, c_int::try_from(most).unwrap_or(c_int::MAX))
    }
    Device fn cuOccupancyMaxPotentialClusterSize(
        size: *mut c_int, function: CUfunction, config: *const CUlaunchConfig
    ) {
        let Asked { cluster, unheard_of, each, settings, info } = asked(function, config)?;
        if !available(&info) {
            return put(size, 1);
        }
        if !unheard_of {
            cluster?;
        }
        // What the kernel requires or allows does not matter, as an H200's driver answers.
        let most = if settings.non_portable_cluster != 0 { MOST } else { PORTABLE };
        let fits = |blocks: &u32| active(&info, each, *blocks) > 0;
        put(size, (1..=most).rev().find(fits).unwrap_or(0) as c_int)
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceInfo, active};

    #[test]
    fn clusters_do_not_cross_groups_of_multiprocessors() {
        let info = DeviceInfo::default();
        // Six groups of 16 and two of 18 multiprocessors.
        for (each, blocks, clusters) in
            [(1, 2, 66), (1, 4, 32), (1, 8, 16), (1, 16, 8), (2, 16, 16), (0, 2, 0), (1, 19, 0)]
        {
            assert_eq!(active(&info, each, blocks), clusters, "{each} {blocks}");
        }
        for multiprocessors in 1..=200 {
            let info = DeviceInfo { multiprocessors, ..DeviceInfo::default() };
            assert_eq!(active(&info, 3, 1), 3 * multiprocessors);
        }
    }
}
