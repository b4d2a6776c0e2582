//! Attributes of a device: what a launch may ask for, and what runs it.

use cuda_sys::CUdevice_attribute;

use super::{ComputeMode, attributes};
use crate::device::Device;

attributes! {
    /// The most threads in a block.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK")]
    max_threads_per_block: u32 = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;

    /// The largest x dimension of a block, in threads.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X")]
    max_block_dim_x: u32 = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;

    /// The largest y dimension of a block, in threads.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y")]
    max_block_dim_y: u32 = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;

    /// The largest z dimension of a block, in threads.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z")]
    max_block_dim_z: u32 = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;

    /// The largest x dimension of a grid, in blocks.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X")]
    max_grid_dim_x: u32 = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;

    /// The largest y dimension of a grid, in blocks.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y")]
    max_grid_dim_y: u32 = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;

    /// The largest z dimension of a grid, in blocks.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z")]
    max_grid_dim_z: u32 = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;

    /// The threads in a warp.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_WARP_SIZE")]
    warp_size: u32 = CU_DEVICE_ATTRIBUTE_WARP_SIZE;

    /// The most 32-bit registers that a block may take.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK")]
    max_registers_per_block: u32 = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK;

    /// The usual clock of the multiprocessors, in kHz.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CLOCK_RATE")]
    clock_rate: u32 = CU_DEVICE_ATTRIBUTE_CLOCK_RATE;

    /// Whether a copy and a kernel may run at the same time. Deprecated by CUDA: see
    /// [`Device::async_engine_count`].
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_OVERLAP")]
    gpu_overlap: bool = CU_DEVICE_ATTRIBUTE_GPU_OVERLAP;

    /// The multiprocessors.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")]
    multiprocessor_count: u32 = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;

    /// Whether kernels that run too long are stopped, as on a GPU that drives a display.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT")]
    kernel_exec_timeout: bool = CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT;

    /// Whether the device is part of the host's chip and uses its memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_INTEGRATED")]
    integrated: bool = CU_DEVICE_ATTRIBUTE_INTEGRATED;

    /// Who may have contexts on the device.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE")]
    compute_mode: ComputeMode = CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;

    /// Whether several kernels may run at the same time.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS")]
    concurrent_kernels: bool = CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS;

    /// The copy engines: how many copies may run beside kernels and each other.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT")]
    async_engine_count: u32 = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;

    /// Whether Windows runs the device by the compute-only driver (TCC).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TCC_DRIVER")]
    tcc_driver: bool = CU_DEVICE_ATTRIBUTE_TCC_DRIVER;

    /// The most threads that are resident on a multiprocessor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR")]
    max_threads_per_multiprocessor: u32 = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;

    /// The compute capability's first number. See [`Device::compute_capability`].
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR")]
    compute_capability_major: u32 = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;

    /// The compute capability's second number. See [`Device::compute_capability`].
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR")]
    compute_capability_minor: u32 = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;

    /// Whether streams can have priorities. See [`Device::stream_priorities`].
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED")]
    stream_priorities_supported: bool = CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED;

    /// The 32-bit registers of a multiprocessor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR")]
    max_registers_per_multiprocessor: u32 = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR;

    /// How many times as fast `float` is as `double`, in operations per second.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO")]
    single_to_double_precision_perf_ratio: u32 =
        CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO;

    /// Whether a running kernel can be interrupted between any two instructions.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED")]
    compute_preemption_supported: bool = CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED;

    /// Whether a kernel can be launched with all its blocks resident, to synchronise its grid.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH")]
    cooperative_launch: bool = CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;

    /// Whether cooperative launches can span devices. Deprecated by CUDA: the launch itself is gone
    /// from CUDA 13.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH")]
    cooperative_multi_device_launch: bool = CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH;

    /// The most blocks that are resident on a multiprocessor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR")]
    max_blocks_per_multiprocessor: u32 = CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR;

    /// Whether blocks can be launched in clusters that share their shared memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH")]
    cluster_launch: bool = CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;

    /// Whether a pointer to a device function means the same in all kernels.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS")]
    unified_function_pointers: bool = CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS;

    /// Whether contexts are shared among processes by the multi-process service (MPS).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MPS_ENABLED")]
    mps_enabled: bool = CU_DEVICE_ATTRIBUTE_MPS_ENABLED;

    /// Whether streams can wait for and write values in memory, by the first version of that API.
    /// Deprecated by CUDA: the second version is there on every device.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1")]
    can_use_stream_mem_ops_v1: bool = CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1;

    /// Whether those operations of the first version take 64-bit values. Deprecated by CUDA: see
    /// [`Device::can_use_64_bit_stream_mem_ops`].
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1")]
    can_use_64_bit_stream_mem_ops_v1: bool = CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1;

    /// Whether those operations of the first version can wait for a NOR. Deprecated by CUDA: see
    /// [`Device::can_use_stream_wait_value_nor`].
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1")]
    can_use_stream_wait_value_nor_v1: bool = CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1;

    /// Whether streams can wait for and write 64-bit values in memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS")]
    can_use_64_bit_stream_mem_ops: bool = CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;

    /// Whether streams can wait until the NOR of a value in memory and a mask is not 0.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR")]
    can_use_stream_wait_value_nor: bool = CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR;

    /// Whether a stream that waits for a value can flush what other devices wrote before it.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES")]
    can_flush_remote_writes: bool = CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES;

    /// Whether streams can do atomic reductions on values in memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_ATOMIC_REDUCTION_SUPPORTED")]
    atomic_reduction_supported: bool = CU_DEVICE_ATTRIBUTE_ATOMIC_REDUCTION_SUPPORTED;

    /// The locality domains: parts of the device with memory of their own nearby.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_COUNT")]
    locality_domain_count: u32 = CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_COUNT;

    /// The multiprocessors of each locality domain.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT")]
    locality_domain_multiprocessor_count: u32 =
        CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT;
}
