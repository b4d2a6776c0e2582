//! Functions: their attributes and parameters, and how many blocks fit.

use core::ffi::{c_char, c_int, c_uint};

use cuda_sys::{
    CUfunc_cache, CUfunction, CUfunction_attribute, CUfunctionLoadingState, CUmodule,
    CUoccupancyB2DSize, CUresult, CUsharedconfig,
};

use super::cluster::available;
use crate::driver::bridge::{DeviceInfo, EntryAttributes, EntryId, Program};
use crate::driver::call::{Answer, functions, process, put, put_if_wanted};
use crate::driver::context::preference;
use crate::driver::objects::{Function, Settings, handle, number};
use crate::driver::process::{Process, State};

/// Registers of a multiprocessor.
const REGISTERS: u32 = 65_536;

/// Returns the offset and size of a parameter; fails past the end.
pub(in crate::driver) fn parameter(
    program: &Program,
    entry: EntryId,
    index: usize,
) -> Answer<(usize, usize)> {
    let parameters = program.params(entry);
    parameters.get(index).copied().ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// Returns the threads that a block of a kernel may have.
pub(in crate::driver) fn max_threads(attributes: &EntryAttributes, info: &DeviceInfo) -> u32 {
    match attributes.max_threads {
        0 => info.max_threads,
        bound => bound.min(info.max_threads),
    }
}

/// Returns the dynamic shared memory that a block of a kernel may have.
pub(in crate::driver) fn max_dynamic(
    attributes: &EntryAttributes,
    settings: &Settings,
    info: &DeviceInfo,
) -> u32 {
    match settings.dynamic_shared {
        0 => info.shared_per_block.saturating_sub(attributes.static_shared),
        set => set,
    }
}

/// An attribute of a kernel.
pub(in crate::driver) fn attribute(
    which: CUfunction_attribute,
    attributes: &EntryAttributes,
    settings: &Settings,
    info: &DeviceInfo,
) -> Answer<c_int> {
    use CUfunction_attribute as A;
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    Ok(match which {
        A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => int(max_threads(attributes, info)),
        A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => int(attributes.static_shared),
        A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => int(attributes.const_bytes),
        A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => int(attributes.local_bytes),
        A::CU_FUNC_ATTRIBUTE_NUM_REGS => int(attributes.registers),
        A::CU_FUNC_ATTRIBUTE_PTX_VERSION => int(attributes.ptx_version),
        A::CU_FUNC_ATTRIBUTE_BINARY_VERSION => int(info.cc.0 * 10 + info.cc.1),
        A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            int(max_dynamic(attributes, settings, info))
        }
        A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => settings.carveout,
        A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => settings.non_portable_cluster,
        A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => settings.cluster_policy,
        A::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET => {
            c_int::from(attributes.explicit_cluster || attributes.cluster.is_some())
        }
        A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
        | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
        | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => {
            let size = attributes.cluster.unwrap_or(settings.required_cluster);
            int(direction(which).and_then(|at| size.get(at)).copied().unwrap_or(0))
        }
        A::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    })
}

impl Settings {
    pub(in crate::driver) fn set(
        &mut self,
        which: CUfunction_attribute,
        value: c_int,
        attributes: &EntryAttributes,
        info: &DeviceInfo,
    ) -> Answer {
        use CUfunction_attribute as A;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        match which {
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let bytes = u32::try_from(value).map_err(|_| invalid)?;
                if bytes > info.shared_optin.saturating_sub(attributes.static_shared) {
                    return Err(invalid);
                }
                self.dynamic_shared = bytes;
            }
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
                if (-1..=100).contains(&value) =>
            {
                self.carveout = value;
            }
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                self.non_portable_cluster = c_int::from(value != 0);
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
                if (0..=2).contains(&value) =>
            {
                self.cluster_policy = value;
            }
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
            | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
            | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => {
                if attributes.cluster.is_some() {
                    return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
                }
                if !available(info) {
                    return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
                }
                let size = u32::try_from(value).map_err(|_| invalid)?;
                let place = direction(which).and_then(|at| self.required_cluster.get_mut(at));
                *place.ok_or(invalid)? = size;
            }
            _ => return Err(invalid),
        }
        Ok(())
    }
}

/// Returns the direction of a size of required clusters.
fn direction(which: CUfunction_attribute) -> Option<usize> {
    use CUfunction_attribute as A;
    match which {
        A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => Some(0),
        A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => Some(1),
        A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => Some(2),
        _ => None,
    }
}

/// Blocks of a kernel that a multiprocessor holds at once.
pub(in crate::driver) fn resident(
    attributes: &EntryAttributes,
    settings: &Settings,
    info: &DeviceInfo,
    threads: u32,
    dynamic: usize,
) -> u32 {
    let dynamic = u32::try_from(dynamic).unwrap_or(u32::MAX);
    if threads > max_threads(attributes, info) || dynamic > max_dynamic(attributes, settings, info)
    {
        return 0;
    }
    let threads = threads.next_multiple_of(32);
    let shared = attributes.static_shared + dynamic + info.shared_reserved;
    let by_shared = (info.shared_optin + info.shared_reserved) / shared.max(1);
    let by_registers = REGISTERS / (attributes.registers.max(1) * threads).max(1);
    let by_threads = info.threads_per_multiprocessor / threads.max(1);
    by_threads.min(by_shared).min(by_registers.max(1)).min(info.blocks_per_multiprocessor)
}

impl State {
    /// Returns a function, or what a library's kernel is in the current context.
    pub(in crate::driver) fn function(
        &mut self,
        process: &Process,
        function: CUfunction,
    ) -> Answer<&Function> {
        let mut found = number(function);
        if self.objects.functions.get(found).is_err() {
            self.objects.kernels.get(found)?;
            let current = self.current()?;
            found = self.function_in(process, found, current)?;
        }
        self.objects.functions.get(found)
    }
}

/// Blocks per multiprocessor, as the occupancy calls want it.
fn occupancy(function: CUfunction, threads: c_int, dynamic: usize) -> Answer<u32> {
    let process = process()?;
    let mut state = process.lock();
    let (_, device) = state.current_device()?;
    let (_, info) = process.device(device as c_int)?;
    let function = state.function(process, function)?;
    let attributes = function.program.attributes(function.entry);
    let threads = u32::try_from(threads).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if threads == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // So an H200's driver answers.
    if threads > info.max_threads {
        return Ok(0);
    }
    Ok(resident(&attributes, &function.settings, info, threads, dynamic))
}

/// Returns the block size with the most threads per multiprocessor, and the grid that fills the device.
fn potential(
    function: CUfunction,
    dynamic_of: CUoccupancyB2DSize,
    dynamic: usize,
    limit: c_int,
) -> Answer<(c_int, c_int)> {
    let process = process()?;
    let (most, multiprocessors) = {
        let mut state = process.lock();
        let (_, device) = state.current_device()?;
        let (_, info) = process.device(device as c_int)?;
        let function = state.function(process, function)?;
        let most = max_threads(&function.program.attributes(function.entry), info) as c_int;
        (most, info.multiprocessors as c_int)
    };
    let most = if limit > 0 { most.min(limit) } else { most };
    let mut best = (0, 0, 0);
    for warps in (1..=(most / 32).max(1)).rev() {
        let threads = (warps * 32).min(most);
        let shared = match dynamic_of {
            // SAFETY: the caller passed this function to be called with block sizes.
            Some(ask) => unsafe { ask(threads) },
            None => dynamic,
        };
        let blocks = occupancy(function, threads, shared)? as c_int;
        if blocks * threads > best.0 {
            best = (blocks * threads, blocks, threads);
        }
    }
    Ok((best.1 * multiprocessors, best.2))
}

functions! {
    Device fn cuFuncGetAttribute(
        value: *mut c_int, which: CUfunction_attribute, function: CUfunction
    ) {
        let process = process()?;
        let mut state = process.lock();
        let found = state.function(process, function)?;
        let (attributes, settings) = (found.program.attributes(found.entry), found.settings);
        let context = found.context;
        let device = state.objects.contexts.get(context)?.device;
        let (_, info) = process.device(device as c_int)?;
        put(value, attribute(which, &attributes, &settings, info)?)
    }
    Device fn cuFuncSetAttribute(
        function: CUfunction, which: CUfunction_attribute, value: c_int
    ) {
        let process = process()?;
        let mut state = process.lock();
        let found = state.objects.functions.get(number(function))?;
        let (attributes, context) = (found.program.attributes(found.entry), found.context);
        let device = state.objects.contexts.get(context)?.device;
        let (_, info) = process.device(device as c_int)?;
        let found = state.objects.functions.get_mut(number(function))?;
        found.settings.set(which, value, &attributes, info)
    }
    Device fn cuFuncSetCacheConfig(function: CUfunction, config: CUfunc_cache) {
        let process = process()?;
        preference(config)?;
        process.lock().function(process, function).map(drop)
    }
    Device fn cuFuncSetSharedMemConfig(function: CUfunction, _config: CUsharedconfig) {
        let process = process()?;
        process.lock().function(process, function).map(drop)
    }
    Device fn cuFuncGetParamInfo(
        function: CUfunction, index: usize, offset: *mut usize, size: *mut usize
    ) {
        let process = process()?;
        let mut state = process.lock();
        let found = state.function(process, function)?;
        let (at, bytes) = parameter(&found.program, found.entry, index)?;
        put(offset, at)?;
        put_if_wanted(size, bytes);
        Ok(())
    }
    Device fn cuFuncGetParamCount(function: CUfunction, count: *mut usize) {
        let process = process()?;
        let mut state = process.lock();
        let found = state.function(process, function)?;
        put(count, found.program.params(found.entry).len())
    }
    Device fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) {
        let process = process()?;
        let mut state = process.lock();
        put(module, handle(state.function(process, function)?.module))
    }
    Device fn cuFuncGetName(name: *mut *const c_char, function: CUfunction) {
        if function.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let process = process()?;
        let mut state = process.lock();
        put(name, state.function(process, function)?.name.as_ptr())
    }
    Device fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction) {
        let process = process()?;
        process.lock().function(process, function)?;
        put(state, CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }
    Device fn cuFuncLoad(function: CUfunction) {
        let process = process()?;
        process.lock().function(process, function).map(drop)
    }

    Device fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, dynamic: usize
    ) { put(blocks, occupancy(function, threads, dynamic)? as c_int) }
    Device fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: CUfunction, threads: c_int, dynamic: usize, _flags: c_uint
    ) { put(blocks, occupancy(function, threads, dynamic)? as c_int) }
    Device fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: CUfunction, dynamic_of: CUoccupancyB2DSize,
        dynamic: usize, limit: c_int
    ) {
        let (blocks, threads) = potential(function, dynamic_of, dynamic, limit)?;
        put(grid, blocks)?;
        put(block, threads)
    }
    Device fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut c_int, block: *mut c_int, function: CUfunction, dynamic_of: CUoccupancyB2DSize,
        dynamic: usize, limit: c_int, _flags: c_uint
    ) {
        let (blocks, threads) = potential(function, dynamic_of, dynamic, limit)?;
        put(grid, blocks)?;
        put(block, threads)
    }
    Device fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: CUfunction, blocks: c_int, threads: c_int
    ) {
        if occupancy(function, threads, 0)? < u32::try_from(blocks).unwrap_or(u32::MAX) || blocks < 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let process = process()?;
        let mut state = process.lock();
        let (_, device) = state.current_device()?;
        let (_, info) = process.device(device as c_int)?;
        let found = state.function(process, function)?;
        let attributes = found.program.attributes(found.entry);
        let each = (info.shared_optin + info.shared_reserved) / blocks as u32;
        let room = each.saturating_sub(attributes.static_shared + info.shared_reserved);
        put(bytes, room.min(max_dynamic(&attributes, &found.settings, info)) as usize)
    }
}
