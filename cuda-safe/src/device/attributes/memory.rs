//! Attributes of a device: its memories, caches and how it sees the host's.

use cuda_sys::CUdevice_attribute;

use super::{DecompressAlgorithms, NumaConfig, attributes};
use crate::device::Device;

attributes! {
    /// The shared memory that any kernel may use per block, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK")]
    max_shared_memory_per_block: usize = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;

    /// The shared memory that a kernel may use per block after asking for more, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")]
    max_shared_memory_per_block_optin: usize =
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;

    /// The shared memory that a kernel launched as oversized may use per block, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK")]
    max_oversized_shared_memory_per_block: usize =
        CU_DEVICE_ATTRIBUTE_MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK;

    /// The shared memory of a multiprocessor, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")]
    max_shared_memory_per_multiprocessor: usize =
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;

    /// The shared memory that the driver takes for itself per block, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK")]
    reserved_shared_memory_per_block: usize =
        CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK;

    /// The memory for a module's `__constant__` variables, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY")]
    total_constant_memory: usize = CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY;

    /// The largest pitch of a two-dimensional copy, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_PITCH")]
    max_pitch: usize = CU_DEVICE_ATTRIBUTE_MAX_PITCH;

    /// Whether kernels can reach host memory that is mapped for them.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY")]
    can_map_host_memory: bool = CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY;

    /// Whether memory errors are corrected (ECC).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_ECC_ENABLED")]
    ecc_enabled: bool = CU_DEVICE_ATTRIBUTE_ECC_ENABLED;

    /// The memory's highest clock, in kHz.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE")]
    memory_clock_rate: u32 = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;

    /// The width of the memory bus, in bits.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH")]
    global_memory_bus_width: u32 = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;

    /// The L2 cache, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE")]
    l2_cache_size: usize = CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;

    /// The part of the L2 cache that can be set aside for persisting accesses, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE")]
    max_persisting_l2_cache_size: usize = CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE;

    /// The largest window of memory with an access policy of its own, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE")]
    max_access_policy_window_size: usize = CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE;

    /// Whether the L1 cache holds global memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED")]
    global_l1_cache_supported: bool = CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED;

    /// Whether the L1 cache holds local memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED")]
    local_l1_cache_supported: bool = CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED;

    /// Whether host and device share one address space.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING")]
    unified_addressing: bool = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;

    /// Whether memory that migrates between host and device can be allocated.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY")]
    managed_memory: bool = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;

    /// Whether host and device can use managed memory at the same time.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS")]
    concurrent_managed_access: bool = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;

    /// Whether the host reaches managed memory on the device without migrating it.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST")]
    direct_managed_mem_access_from_host: bool =
        CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;

    /// Whether kernels can reach ordinary host memory that was never registered.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS")]
    pageable_memory_access: bool = CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;

    /// Whether they do so by the host's own page tables.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES")]
    pageable_memory_access_uses_host_page_tables: bool =
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;

    /// Whether all atomic operations work across the link to the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED")]
    host_native_atomic_supported: bool = CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED;

    /// Whether only some atomic operations work across the link to the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED")]
    only_partial_host_native_atomic_supported: bool =
        CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;

    /// Whether host memory can be registered after it was allocated.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED")]
    host_register_supported: bool = CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED;

    /// Whether host memory can be registered for reading only.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED")]
    read_only_host_register_supported: bool =
        CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;

    /// Whether registered host memory has the same address on the device.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM")]
    can_use_host_pointer_for_registered_mem: bool =
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;

    /// Whether addresses can be reserved and memory mapped to them.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED")]
    virtual_memory_management_supported: bool =
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;

    /// Whether memory can be allocated and freed in stream order, from pools.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED")]
    memory_pools_supported: bool = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;

    /// Whether memory can be allocated as compressible.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED")]
    generic_compression_supported: bool = CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED;

    /// The memory synchronisation domains, which keep one kernel's fences off another's writes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT")]
    mem_sync_domain_count: u32 = CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT;

    /// Whether kernels can copy tiles by tensor maps.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED")]
    tensor_map_access_supported: bool = CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED;

    /// What must be accessible behind a tensor map of the large class, in bytes; `i32::MAX` where
    /// the classes do not differ.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TENSOR_MAP_LARGE_TENSOR_MIN_SIZE")]
    tensor_map_large_tensor_min_size: usize =
        CU_DEVICE_ATTRIBUTE_TENSOR_MAP_LARGE_TENSOR_MIN_SIZE;

    /// The compressed formats that the device unpacks by itself.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK")]
    mem_decompress_algorithm_mask: DecompressAlgorithms =
        CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;

    /// The most that one decompression may hold, in bytes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH")]
    mem_decompress_maximum_length: usize = CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH;

    /// Whether the device's memory is a NUMA node of the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_NUMA_CONFIG")]
    numa_config: NumaConfig = CU_DEVICE_ATTRIBUTE_NUMA_CONFIG;

    /// The NUMA node that the device's memory is, if it is one.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_NUMA_ID")]
    numa_id: Option<u32> = CU_DEVICE_ATTRIBUTE_NUMA_ID;

    /// The NUMA node of the host that is nearest; `None` if the system has none.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID")]
    host_numa_id: Option<u32> = CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;

    /// Whether memory of a NUMA node of the host can be mapped to reserved addresses.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED")]
    host_numa_virtual_memory_management_supported: bool =
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;

    /// Whether memory pools can be on a NUMA node of the host.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED")]
    host_numa_memory_pools_supported: bool = CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED;

    /// Whether memory of a NUMA node of the host can be shared with other machines of a system.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED")]
    host_numa_multinode_ipc_supported: bool =
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED;

    /// Whether host memory can be mapped to reserved addresses.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED")]
    host_virtual_memory_management_supported: bool =
        CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;

    /// Whether memory pools can be in host memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED")]
    host_memory_pools_supported: bool = CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED;
}
