//! The properties of a device, in the layouts of CUDA 13 and 12.

use core::ffi::c_int;

use cuda_sys::{CUdevice_attribute as Of, Driver};

use crate::bindings::{runtime, runtime_12};
use crate::call::{CudaResult, check};
use crate::context::{driver, known};

/// Returns an attribute of a device; 0 if the driver does not know it.
fn attribute(driver: &Driver, device: c_int, of: Of) -> CudaResult<c_int> {
    let mut value = 0;
    // SAFETY: the place is valid for the write.
    match check(unsafe { driver.cuDeviceGetAttribute(&raw mut value, of, device) }) {
        Err(runtime::cudaError::cudaErrorInvalidValue) => Ok(0),
        result => result.map(|()| value),
    }
}

/// Fills the properties that both layouts have.
macro_rules! fill {
    ($properties:ident, $driver:ident, $device:ident) => {{
        let get = |of| attribute($driver, $device, of);
        let bytes = |of| get(of).map(|value| usize::try_from(value).unwrap_or(0));
        let bits = |of| get(of).map(c_int::cast_unsigned);
        let p = &mut $properties;
        let (name, length) = (p.name.as_mut_ptr(), p.name.len() as c_int);
        // SAFETY: the places are valid for the writes, and the name has this length.
        unsafe {
            check($driver.cuDeviceGetName(name, length, $device))?;
            check($driver.cuDeviceGetUuid_v2(&raw mut p.uuid, $device))?;
            check($driver.cuDeviceTotalMem_v2(&raw mut p.totalGlobalMem, $device))?;
        }
        p.sharedMemPerBlock = bytes(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
        p.regsPerBlock = get(Of::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?;
        p.warpSize = get(Of::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?;
        p.memPitch = bytes(Of::CU_DEVICE_ATTRIBUTE_MAX_PITCH)?;
        p.maxThreadsPerBlock = get(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        p.maxThreadsDim = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ];
        p.maxGridSize = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ];
        p.totalConstMem = bytes(Of::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY)?;
        p.major = get(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        p.minor = get(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        p.textureAlignment = bytes(Of::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)?;
        p.texturePitchAlignment = bytes(Of::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT)?;
        p.multiProcessorCount = get(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        p.integrated = get(Of::CU_DEVICE_ATTRIBUTE_INTEGRATED)?;
        p.canMapHostMemory = get(Of::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)?;
        p.maxTexture1D = get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH)?;
        p.maxTexture1DMipmap = get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH)?;
        p.maxTexture2D = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT)?,
        ];
        p.maxTexture2DMipmap = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)?,
        ];
        p.maxTexture2DLinear = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH)?,
        ];
        p.maxTexture2DGather = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT)?,
        ];
        p.maxTexture3D = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH)?,
        ];
        p.maxTexture3DAlt = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)?,
        ];
        p.maxTextureCubemap = get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH)?;
        p.maxTexture1DLayered = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS)?,
        ];
        p.maxTexture2DLayered = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS)?,
        ];
        p.maxTextureCubemapLayered = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)?,
        ];
        p.maxSurface1D = get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH)?;
        p.maxSurface2D = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT)?,
        ];
        p.maxSurface3D = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH)?,
        ];
        p.maxSurface1DLayered = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS)?,
        ];
        p.maxSurface2DLayered = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS)?,
        ];
        p.maxSurfaceCubemap = get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH)?;
        p.maxSurfaceCubemapLayered = [
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH)?,
            get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)?,
        ];
        p.surfaceAlignment = bytes(Of::CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT)?;
        p.concurrentKernels = get(Of::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS)?;
        p.ECCEnabled = get(Of::CU_DEVICE_ATTRIBUTE_ECC_ENABLED)?;
        p.pciBusID = get(Of::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        p.pciDeviceID = get(Of::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
        p.pciDomainID = get(Of::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        p.tccDriver = get(Of::CU_DEVICE_ATTRIBUTE_TCC_DRIVER)?;
        p.asyncEngineCount = get(Of::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)?;
        p.unifiedAddressing = get(Of::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)?;
        p.memoryBusWidth = get(Of::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        p.l2CacheSize = get(Of::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        p.persistingL2CacheMaxSize = get(Of::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE)?;
        p.maxThreadsPerMultiProcessor =
            get(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
        p.streamPrioritiesSupported = get(Of::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED)?;
        p.globalL1CacheSupported = get(Of::CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED)?;
        p.localL1CacheSupported = get(Of::CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED)?;
        p.sharedMemPerMultiprocessor =
            bytes(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
        p.regsPerMultiprocessor = get(Of::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?;
        p.managedMemory = get(Of::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?;
        p.isMultiGpuBoard = get(Of::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD)?;
        p.multiGpuBoardGroupID = get(Of::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID)?;
        p.hostNativeAtomicSupported = get(Of::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED)?;
        p.pageableMemoryAccess = get(Of::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)?;
        p.concurrentManagedAccess = get(Of::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?;
        p.computePreemptionSupported = get(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED)?;
        p.canUseHostPointerForRegisteredMem =
            get(Of::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)?;
        p.cooperativeLaunch = get(Of::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)?;
        p.sharedMemPerBlockOptin =
            bytes(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        p.pageableMemoryAccessUsesHostPageTables =
            get(Of::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)?;
        p.directManagedMemAccessFromHost =
            get(Of::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)?;
        p.maxBlocksPerMultiProcessor = get(Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?;
        p.accessPolicyMaxWindowSize = get(Of::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE)?;
        p.reservedSharedMemPerBlock =
            bytes(Of::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?;
        p.hostRegisterSupported = get(Of::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)?;
        p.sparseCudaArraySupported = get(Of::CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED)?;
        p.hostRegisterReadOnlySupported =
            get(Of::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)?;
        p.timelineSemaphoreInteropSupported =
            get(Of::CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)?;
        p.memoryPoolsSupported = get(Of::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?;
        p.gpuDirectRDMASupported = get(Of::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)?;
        p.gpuDirectRDMAFlushWritesOptions =
            bits(Of::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)?;
        p.gpuDirectRDMAWritesOrdering =
            get(Of::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)?;
        p.memoryPoolSupportedHandleTypes =
            bits(Of::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES)?;
        p.deferredMappingCudaArraySupported =
            get(Of::CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)?;
        p.ipcEventSupported = get(Of::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)?;
        p.clusterLaunch = get(Of::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)?;
        p.unifiedFunctionPointers = get(Of::CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS)?;
    }};
}

/// Returns the properties of a device, as CUDA 13 lays them out.
///
/// # Errors
/// The driver's, and 101 for a device that does not exist.
pub fn of_13(device: c_int) -> CudaResult<runtime::cudaDeviceProp> {
    let driver = driver()?;
    known(driver, device)?;
    let mut properties = runtime::cudaDeviceProp::default();
    fill!(properties, driver, device);
    let get = |of| attribute(driver, device, of);
    properties.deviceNumaConfig = get(Of::CU_DEVICE_ATTRIBUTE_NUMA_CONFIG)?;
    properties.deviceNumaId = get(Of::CU_DEVICE_ATTRIBUTE_NUMA_ID)?;
    properties.mpsEnabled = get(Of::CU_DEVICE_ATTRIBUTE_MPS_ENABLED)?;
    properties.hostNumaId = get(Of::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)?;
    properties.gpuPciDeviceID = get(Of::CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID)?.cast_unsigned();
    properties.gpuPciSubsystemID =
        get(Of::CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID)?.cast_unsigned();
    properties.hostNumaMultinodeIpcSupported =
        get(Of::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED)?;
    Ok(properties)
}

/// Returns the properties of a device, as CUDA 12 lays them out.
///
/// # Errors
/// As for [`of_13`].
pub fn of_12(device: c_int) -> CudaResult<runtime_12::cudaDeviceProp> {
    let driver = driver()?;
    known(driver, device)?;
    let mut properties = runtime_12::cudaDeviceProp::default();
    fill!(properties, driver, device);
    let get = |of| attribute(driver, device, of);
    properties.clockRate = get(Of::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
    properties.deviceOverlap = get(Of::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP)?;
    properties.kernelExecTimeoutEnabled = get(Of::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT)?;
    properties.computeMode = get(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)?;
    properties.maxTexture1DLinear = get(Of::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH)?;
    properties.memoryClockRate = get(Of::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    properties.singleToDoublePrecisionPerfRatio =
        get(Of::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)?;
    properties.cooperativeMultiDeviceLaunch =
        get(Of::CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH)?;
    Ok(properties)
}
