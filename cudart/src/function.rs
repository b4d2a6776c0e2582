//! Attributes of kernels, occupancy, and libraries that programs load themselves.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;

use cuda_sys::{CUfunction, CUfunction_attribute, CUkernel, Driver};

use crate::bindings::runtime::{
    cudaError, cudaFuncAttribute, cudaFuncAttributes, cudaFuncCache, cudaJitOption, cudaKernel_t,
    cudaLaunchConfig_t, cudaLibrary_t, cudaLibraryOption, cudaSharedMemConfig,
};
use crate::call::{CudaResult, check, pass, put, ready};
use crate::launch::driver_config;
use crate::{context, memory, registry};

/// Returns a kernel with its function in the current context.
pub(crate) fn function(of: *const c_void) -> CudaResult<(&'static Driver, CUkernel, CUfunction)> {
    let kernel = registry::kernel(of)?;
    let driver = ready()?;
    let mut function = ptr::null_mut();
    // SAFETY: the place is valid for the write, and the kernel's library is loaded.
    check(unsafe { driver.cuKernelGetFunction(&raw mut function, kernel) })?;
    Ok((driver, kernel, function))
}

/// Returns the attributes of a kernel.
fn attributes(of: *const c_void) -> CudaResult<cudaFuncAttributes> {
    use CUfunction_attribute as Of;
    let (driver, _, function) = function(of)?;
    let get = |attribute| {
        let mut value = 0;
        // SAFETY: the place is valid for the write.
        check(unsafe { driver.cuFuncGetAttribute(&raw mut value, attribute, function) })
            .map(|()| value)
    };
    let bytes = |attribute| get(attribute).map(|value| usize::try_from(value).unwrap_or(0));
    Ok(cudaFuncAttributes {
        sharedSizeBytes: bytes(Of::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        constSizeBytes: bytes(Of::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
        localSizeBytes: bytes(Of::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        maxThreadsPerBlock: get(Of::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        numRegs: get(Of::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        ptxVersion: get(Of::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
        binaryVersion: get(Of::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        cacheModeCA: get(Of::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA)?,
        maxDynamicSharedSizeBytes: get(Of::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
        preferredShmemCarveout: get(Of::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)?,
        clusterDimMustBeSet: get(Of::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET)?,
        requiredClusterWidth: get(Of::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)?,
        requiredClusterHeight: get(Of::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?,
        requiredClusterDepth: get(Of::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?,
        clusterSchedulingPolicyPreference: get(
            Of::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        )?,
        nonPortableClusterSizeAllowed: get(
            Of::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
        )?,
        ..Default::default()
    })
}

/// # Safety
/// `config` is null or valid for reads, with its attributes; `count` is null or valid for the write.
unsafe fn clusters(
    count: *mut c_int,
    of: *const c_void,
    config: *const cudaLaunchConfig_t,
    most_active: bool,
) -> CudaResult {
    // SAFETY: the caller's promise.
    let config = unsafe { config.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    let (driver, _, function) = function(of)?;
    let config = driver_config(config, config.stream)?;
    // SAFETY: the caller's promise.
    check(unsafe {
        if most_active {
            driver.cuOccupancyMaxActiveClusters(count, function, &raw const config)
        } else {
            driver.cuOccupancyMaxPotentialClusterSize(count, function, &raw const config)
        }
    })
}

crate::functions! {
    fn cudaFuncGetAttributes(place: *mut cudaFuncAttributes, of: *const c_void) {
        put(place, attributes(of)?)
    }
    fn cudaFuncSetAttribute(of: *const c_void, attribute: cudaFuncAttribute, value: c_int) {
        let kernel = registry::kernel(of)?;
        let driver = ready()?;
        check(driver.cuKernelSetAttribute(pass(attribute), value, kernel, context::device()?))
    }
    fn cudaFuncSetCacheConfig(of: *const c_void, config: cudaFuncCache) {
        let kernel = registry::kernel(of)?;
        let driver = ready()?;
        check(driver.cuKernelSetCacheConfig(kernel, pass(config), context::device()?))
    }
    fn cudaFuncSetSharedMemConfig(of: *const c_void, config: cudaSharedMemConfig) {
        let (driver, _, function) = function(of)?;
        check(driver.cuFuncSetSharedMemConfig(function, pass(config)))
    }
    fn cudaFuncGetName(name: *mut *const c_char, of: *const c_void) {
        check(ready()?.cuKernelGetName(name, registry::kernel(of)?))
    }
    fn cudaFuncGetParamInfo(of: *const c_void, index: usize, offset: *mut usize, size: *mut usize) {
        check(ready()?.cuKernelGetParamInfo(registry::kernel(of)?, index, offset, size))
    }
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        count: *mut c_int, of: *const c_void, threads: c_int, bytes: usize,
    ) {
        let (driver, _, function) = function(of)?;
        check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(count, function, threads, bytes))
    }
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: *mut c_int, of: *const c_void, threads: c_int, bytes: usize, flags: c_uint,
    ) {
        let (driver, _, function) = function(of)?;
        check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, threads, bytes, flags))
    }
    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, of: *const c_void, blocks: c_int, threads: c_int,
    ) {
        let (driver, _, function) = function(of)?;
        check(driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads))
    }
    fn cudaOccupancyMaxActiveClusters(
        count: *mut c_int, of: *const c_void, config: *const cudaLaunchConfig_t,
    ) { clusters(count, of, config, true) }
    fn cudaOccupancyMaxPotentialClusterSize(
        size: *mut c_int, of: *const c_void, config: *const cudaLaunchConfig_t,
    ) { clusters(size, of, config, false) }
    fn cudaLibraryLoadData(
        place: *mut cudaLibrary_t, image: *const c_void, options: *mut cudaJitOption, values: *mut *mut c_void,
        count: c_uint, library_options: *mut cudaLibraryOption, library_values: *mut *mut c_void,
        library_count: c_uint,
    ) = cuLibraryLoadData;
    fn cudaLibraryLoadFromFile(
        place: *mut cudaLibrary_t, path: *const c_char, options: *mut cudaJitOption, values: *mut *mut c_void,
        count: c_uint, library_options: *mut cudaLibraryOption, library_values: *mut *mut c_void,
        library_count: c_uint,
    ) = cuLibraryLoadFromFile;
    fn cudaLibraryUnload(library: cudaLibrary_t) = cuLibraryUnload;
    fn cudaLibraryGetKernel(place: *mut cudaKernel_t, library: cudaLibrary_t, name: *const c_char) {
        let mut kernel = ptr::null_mut();
        check(ready()?.cuLibraryGetKernel(&raw mut kernel, library, name))?;
        registry::remember(kernel);
        put(place, kernel)
    }
    fn cudaLibraryGetGlobal(
        place: *mut *mut c_void, bytes: *mut usize, library: cudaLibrary_t, name: *const c_char,
    ) {
        let mut address = 0;
        check(ready()?.cuLibraryGetGlobal(&raw mut address, bytes, library, name))?;
        if place.is_null() { Ok(()) } else { put(place, memory::pointer(address)) }
    }
    fn cudaLibraryGetManaged(
        place: *mut *mut c_void, bytes: *mut usize, library: cudaLibrary_t, name: *const c_char,
    ) {
        let mut address = 0;
        check(ready()?.cuLibraryGetManaged(&raw mut address, bytes, library, name))?;
        if place.is_null() { Ok(()) } else { put(place, memory::pointer(address)) }
    }
    fn cudaLibraryGetUnifiedFunction(place: *mut *mut c_void, library: cudaLibrary_t, symbol: *const c_char) = cuLibraryGetUnifiedFunction;
    fn cudaLibraryGetKernelCount(count: *mut c_uint, library: cudaLibrary_t) = cuLibraryGetKernelCount;
    fn cudaLibraryEnumerateKernels(kernels: *mut cudaKernel_t, count: c_uint, library: cudaLibrary_t) {
        let driver = ready()?;
        check(driver.cuLibraryEnumerateKernels(kernels, count, library))?;
        if !kernels.is_null() {
            let mut all = 0;
            check(driver.cuLibraryGetKernelCount(&raw mut all, library))?;
            // The driver writes no more handles than there are kernels.
            let kernels = core::slice::from_raw_parts(kernels, count.min(all) as usize);
            kernels.iter().for_each(|&kernel| registry::remember(kernel));
        }
        Ok(())
    }
}
